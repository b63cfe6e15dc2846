//! From an accepted connection to a session that may send statements.
//!
//! Encryption is declined: the socket is a directory of our own, or loopback, or a network the operator
//! trusts with a password in the clear (the gateway terminates TLS). A cancel request ends here too.

use std::sync::Arc;
use std::time::Duration;

use pgwire::messages::cancel::CancelRequest;
use pgwire::messages::response::{ReadyForQuery, TransactionStatus};
use pgwire::messages::startup::{Authentication, BackendKeyData, NegotiateProtocolVersion, ParameterStatus, Startup};
use pgwire::messages::{PgWireBackendMessage, PgWireFrontendMessage, ProtocolVersion, SslNegotiationMetaMessage};

use crate::Secret;
use crate::cancel::{NoPlace, Place, Sessions};
use crate::settings::Settings;
use crate::sqlstate::{Failure, SqlState};
use crate::wire::{Incoming, Lost, Outgoing};

/// How long a client may take to say who it is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A session that is about to begin.
pub(crate) struct Opened {
    pub(crate) user: String,
    pub(crate) settings: Settings,
    pub(crate) place: Place,
}

/// Why there is no session.
pub(crate) enum NotOpened {
    /// The client only wanted a statement cancelled, or left.
    Left,
    /// The client must be told.
    Refused(Failure),
}

impl From<Lost> for NotOpened {
    fn from(lost: Lost) -> NotOpened {
        match lost {
            Lost::Closed => NotOpened::Left,
            Lost::Protocol(text) => NotOpened::Refused(Failure::fatal(SqlState::ProtocolViolation, text)),
        }
    }
}

impl From<std::io::Error> for NotOpened {
    fn from(_: std::io::Error) -> NotOpened {
        NotOpened::Left
    }
}

/// Greets a client: version, password, settings, key.
pub(crate) async fn open(
    incoming: &mut Incoming,
    outgoing: &mut Outgoing,
    secret: &Secret,
    sessions: &Arc<Sessions>,
    timeout: Option<Duration>,
) -> Result<Opened, NotOpened> {
    let startup = match first_message(incoming, outgoing).await? {
        First::Startup(startup) => startup,
        First::Cancel(request) => {
            sessions.cancel(request.pid, &request.secret_key);
            return Err(NotOpened::Left);
        }
    };
    let version = negotiate(&startup, outgoing)?;
    incoming.started(version);
    let user = startup.parameters.get("user").cloned().unwrap_or_default();
    if user.is_empty() {
        return Err(refused(SqlState::ProtocolViolation, "the start-up message names no user"));
    }
    check_password(incoming, outgoing, secret, &user).await?;
    let settings = initial_settings(&startup, timeout)
        .map_err(|failure| NotOpened::Refused(Failure { fatal: true, ..failure }))?;
    let place = sessions.enter(version).map_err(|why| match why {
        NoPlace::Full(limit) => {
            refused(SqlState::TooManyConnections, format!("sorry, too many clients already: {limit} are connected"))
        }
        NoPlace::NoKey(error) => refused(SqlState::InternalError, format!("no random key for the session: {error}")),
    })?;
    outgoing.put(PgWireBackendMessage::Authentication(Authentication::Ok));
    for (name, value) in settings.reported() {
        outgoing.put(PgWireBackendMessage::ParameterStatus(ParameterStatus::new(name.to_owned(), value)));
    }
    outgoing.put(PgWireBackendMessage::BackendKeyData(BackendKeyData::new(place.number, place.key.clone())));
    outgoing.put(PgWireBackendMessage::ReadyForQuery(ReadyForQuery::new(TransactionStatus::Idle)));
    outgoing.flush().await?;
    Ok(Opened { user, settings, place })
}

/// Compares two secrets in a time that depends on their lengths only.
pub(crate) fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let differing = one.iter().zip(other).fold(0, |sum, (a, b)| std::hint::black_box(sum | (a ^ b)));
    std::hint::black_box(differing) == 0
}

enum First {
    Startup(Startup),
    Cancel(CancelRequest),
}

async fn first_message(incoming: &mut Incoming, outgoing: &mut Outgoing) -> Result<First, NotOpened> {
    loop {
        match incoming.next().await? {
            PgWireFrontendMessage::SslNegotiation(SslNegotiationMetaMessage::None) => incoming.negotiated(),
            PgWireFrontendMessage::SslNegotiation(_) => {
                // One letter, not a message: no.
                outgoing.put_encoded(b"N");
                outgoing.flush().await?;
            }
            PgWireFrontendMessage::Startup(startup) => return Ok(First::Startup(startup)),
            PgWireFrontendMessage::CancelRequest(request) => return Ok(First::Cancel(request)),
            _ => return Err(refused(SqlState::ProtocolViolation, "a start-up message was expected")),
        }
    }
}

/// Settles on 3.0 or 3.2; a newer minor version is told what we speak.
fn negotiate(startup: &Startup, outgoing: &mut Outgoing) -> Result<ProtocolVersion, NotOpened> {
    let (major, minor) = (startup.protocol_number_major, startup.protocol_number_minor);
    if major != 3 {
        return Err(refused(
            SqlState::FeatureNotSupported,
            format!("protocol {major}.{minor} is not spoken here, 3.0 and 3.2 are"),
        ));
    }
    let version = match minor {
        0 | 1 => ProtocolVersion::PROTOCOL3_0,
        _ => ProtocolVersion::PROTOCOL3_2,
    };
    let unknown: Vec<String> = startup.parameters.keys().filter(|name| name.starts_with("_pq_.")).cloned().collect();
    if version.version_number() != (major, minor) || !unknown.is_empty() {
        outgoing.put(PgWireBackendMessage::NegotiateProtocolVersion(NegotiateProtocolVersion::new(
            version.into(),
            unknown,
        )));
    }
    Ok(version)
}

async fn check_password(
    incoming: &mut Incoming,
    outgoing: &mut Outgoing,
    secret: &Secret,
    user: &str,
) -> Result<(), NotOpened> {
    let Secret::Password(expected) = secret else { return Ok(()) };
    outgoing.put(PgWireBackendMessage::Authentication(Authentication::CleartextPassword));
    outgoing.flush().await?;
    let given = match incoming.next().await? {
        PgWireFrontendMessage::PasswordMessageFamily(message) => {
            message.into_password().map_err(|error| refused(SqlState::ProtocolViolation, error.to_string()))?
        }
        PgWireFrontendMessage::Terminate(_) => return Err(NotOpened::Left),
        _ => return Err(refused(SqlState::ProtocolViolation, "a password was expected")),
    };
    if is_same(given.password.as_bytes(), expected.as_bytes()) {
        Ok(())
    } else {
        let message = format!("password authentication failed for user \"{user}\"");
        Err(refused(SqlState::InvalidPassword, message))
    }
}

/// Settings may come with the start-up message, by name or inside `options` as `-c name=value`.
fn initial_settings(startup: &Startup, timeout: Option<Duration>) -> Result<Settings, Failure> {
    let mut settings = Settings::new(timeout);
    for (name, value) in &startup.parameters {
        match name.as_str() {
            "user" | "database" | "replication" => {}
            "options" => {
                for (name, value) in command_line(value) {
                    settings.set(&name, Some(value))?;
                }
            }
            name if name.starts_with("_pq_.") => {}
            name => {
                settings.set(name, Some(value.clone()))?;
            }
        }
    }
    Ok(settings)
}

/// `-c name=value` and `--name=value`, as libpq's PGOPTIONS writes them; a backslash keeps the next
/// character as it is.
fn command_line(options: &str) -> Vec<(String, String)> {
    let mut words = vec![String::new()];
    let mut escaped = false;
    for c in options.chars() {
        match c {
            '\\' if !escaped => {
                escaped = true;
                continue;
            }
            c if c.is_whitespace() && !escaped => words.push(String::new()),
            c => words.last_mut().unwrap_or(&mut String::new()).push(c),
        }
        escaped = false;
    }
    let mut settings = Vec::new();
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    while let Some(word) = words.next() {
        let assignment = match word.strip_prefix("--") {
            Some(rest) => Some(rest.to_owned()),
            None if word == "-c" => words.next(),
            None => word.strip_prefix("-c").map(str::to_owned),
        };
        if let Some((name, value)) = assignment.as_deref().and_then(|text| text.split_once('=')) {
            settings.push((name.replace('-', "_"), value.to_owned()));
        }
    }
    settings
}

fn refused(state: SqlState, message: impl Into<String>) -> NotOpened {
    NotOpened::Refused(Failure::fatal(state, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_on_the_command_line_are_settings() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            command_line(r"-c statement_timeout=5s --search-path=a\ b  -cwork_mem=1MB -x"),
            [pair("statement_timeout", "5s"), pair("search_path", "a b"), pair("work_mem", "1MB")]
        );
        assert!(command_line("").is_empty());
    }

    #[test]
    fn secrets_are_compared_whole() {
        assert!(is_same(b"secret", b"secret"));
        assert!(!is_same(b"secret", b"secreT"));
        assert!(!is_same(b"secret", b"secre"));
        assert!(is_same(b"", b""));
    }
}
