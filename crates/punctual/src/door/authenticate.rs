//! A client proves who it is before anything else is said to it.
//!
//! ```text
//!   hello ──▶ barred? ──▶ SASL: mechanisms ──▶ first ──▶ continue ──▶ proof ──▶ final ──▶ welcome
//!               └──────────────▶ FATAL 28000                            └──────▶ FATAL 28P01
//! ```
//!
//! That there is no such user, and that its password is another, is one error after the same messages.

use std::net::{IpAddr, SocketAddr};

use punctual_core::time::Span;

use super::client::Client;
use super::frames as say;
use super::guard::{Guard, Login};
use super::problem::{Problem, rounded};
use crate::auth::scram::{self, Challenge, ScramError};
use crate::auth::users::Users;
use crate::relay::frames::{self, split_text};
use crate::settings::Auth;

/// The longest message of an exchange, in bytes. A nonce is a few dozen.
const LONGEST: usize = 2_048;

/// A client that is not let in.
#[derive(Debug)]
pub(super) enum Turned {
    /// It is told this.
    Away(Problem),
    /// It has hung up.
    Gone,
}

impl From<Problem> for Turned {
    fn from(problem: Problem) -> Turned {
        Turned::Away(problem)
    }
}

/// Lets a user prove who it is, if that is asked for. `most` log-ins may fail in a minute from one address.
///
/// # Errors
/// If it is not let in.
pub(super) async fn authenticate(
    client: &mut Client,
    user: &str,
    peer: SocketAddr,
    guard: &Guard,
    most: u32,
) -> Result<(), Turned> {
    let users = match &guard.access().auth {
        Auth::Trust if peer.ip().to_canonical().is_loopback() => return Ok(()),
        Auth::Trust => {
            let message = "only clients on this machine are trusted without authentication";
            return Err(Problem::new(b"28000", message).into());
        }
        Auth::Scram(users) => std::sync::Arc::clone(users),
    };
    let outcome = match guard.wait(peer.ip(), most) {
        Some(wait) => Err(barred(wait)),
        None => prove(client, user, peer.ip(), (guard, &users), most).await,
    };
    match outcome {
        Ok(()) => {
            guard.count(Login::Accepted);
            Ok(())
        }
        Err(NotProved::Gone) => Err(Turned::Gone),
        Err(NotProved::Barred(problem)) => {
            guard.count(Login::Barred);
            Err(problem.into())
        }
        Err(NotProved::Failed(problem)) => {
            // As fields, since what a client calls itself may hold anything.
            tracing::warn!(user, %peer, why = problem.message, "a log-in failed");
            guard.count(Login::Failed);
            Err(problem.into())
        }
    }
}

/// Why a client could not prove who it is.
enum NotProved {
    /// It has hung up: psql does, to ask for the password.
    Gone,
    /// It was not looked at.
    Barred(Problem),
    /// It is not who it says, or does not keep to the protocol.
    Failed(Problem),
}

fn barred(wait: Span) -> NotProved {
    let problem = Problem::new(b"28000", "too many log-ins from this address have failed");
    NotProved::Barred(problem.hint(format!("Try again in about {}, with the right password.", rounded(wait))))
}

async fn prove(
    client: &mut Client,
    user: &str,
    from: IpAddr,
    (guard, users): (&Guard, &Users),
    most: u32,
) -> Result<(), NotProved> {
    let failed = |error: ScramError| NotProved::Failed(problem(error, user));
    let offered = client.binding().map(<[u8]>::to_vec);
    let mechanisms: &[&str] = if offered.is_some() { &[scram::BOUND, scram::PLAIN] } else { &[scram::PLAIN] };
    say::sasl(&mut client.out, mechanisms);
    let first = answer(client).await?;
    let (mechanism, message) = initial(&first).ok_or(failed(ScramError::Malformed("it is too short")))?;
    if !mechanisms.contains(&mechanism) {
        return Err(NotProved::Failed(Problem::new(
            b"08P01",
            "client selected an invalid SASL authentication mechanism",
        )));
    }
    let nonce = guard.nonce();
    let nonce = nonce.ok_or(NotProved::Failed(Problem::new(b"58030", "the gateway has no random numbers")))?;
    let shown = users.verifier(user, guard.mock());
    let (challenge, asked) = Challenge::to(message, mechanism, offered.as_deref(), shown, &nonce).map_err(failed)?;
    say::sasl_continue(&mut client.out, &asked);
    let last = answer(client).await?;
    let looked = guard.attempt(from, most, || challenge.answered(&last)).map_err(barred)?;
    say::sasl_final(&mut client.out, &looked.map_err(failed)?);
    Ok(())
}

/// What the client is told.
fn problem(error: ScramError, user: &str) -> Problem {
    match error {
        ScramError::Malformed(_) => Problem::new(b"08P01", error.to_string()),
        ScramError::Unsupported(_) => Problem::new(b"0A000", error.to_string()),
        ScramError::Binding(_) => Problem::new(b"28000", error.to_string()),
        ScramError::Wrong => Problem::new(b"28P01", format!("password authentication failed for user \"{user}\"")),
    }
}

/// The mechanism and the message of a SASLInitialResponse.
fn initial(body: &[u8]) -> Option<(&str, &[u8])> {
    let mut rest = body;
    let mechanism = split_text(&mut rest)?;
    let (length, message) = rest.split_first_chunk::<4>()?;
    (u32::from_be_bytes(*length) as usize == message.len()).then_some((mechanism, message))
}

/// Says what is on its way and waits for the body of the client's answer.
async fn answer(client: &mut Client) -> Result<Vec<u8>, NotProved> {
    client.flush().await.map_err(|_| NotProved::Gone)?;
    let garbled = |message: &str| NotProved::Failed(Problem::new(b"08P01", message));
    loop {
        if let Some(header) =
            frames::header(client.input.filled()).map_err(|_| garbled("this is not the Postgres protocol"))?
        {
            if header.tag != b'p' {
                return Err(garbled("expected a SASL response"));
            }
            if header.len > LONGEST {
                return Err(garbled("the SASL response is too long"));
            }
            if client.input.len() >= header.len {
                return Ok(client.input.take(header.len).split_off(frames::HEADER));
            }
        }
        match client.socket.fill(&mut client.input).await {
            Ok(0) | Err(_) => return Err(NotProved::Gone),
            Ok(_) => {}
        }
    }
}
