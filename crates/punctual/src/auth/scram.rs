//! The gateway's side of SCRAM-SHA-256 (RFC 5802, RFC 7677), as Postgres speaks it.
//!
//! ```text
//!   client                                     gateway
//!   n,,n=,r=NONCE              ──────────▶
//!                              ◀──────────     r=NONCE+OURS,s=SALT,i=ITERATIONS
//!   c=biws,r=NONCE+OURS,p=PROOF ─────────▶     ClientKey = PROOF ⊕ HMAC(StoredKey, all of the above)
//!                                              right if SHA-256(ClientKey) = StoredKey
//!                              ◀──────────     v=HMAC(ServerKey, all of the above)
//! ```
//!
//! With TLS the proof can be bound to the certificate that the client saw (`tls-server-end-point`, RFC 5929): whoever
//! sits in between with another one cannot pass it on. A client that could do so and says that it was not offered has
//! been lied to.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac};
use subtle::ConstantTimeEq;

use super::users::Shown;
use super::verifier::KEY;

/// The mechanism.
pub const PLAIN: &str = "SCRAM-SHA-256";
/// The same, bound to the channel.
pub const BOUND: &str = "SCRAM-SHA-256-PLUS";
/// The way to bind that is spoken here.
const END_POINT: &str = "tls-server-end-point";

/// Why an exchange of messages came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScramError {
    /// A message is not as the RFC has it.
    Malformed(&'static str),
    /// It asks for what is not spoken here.
    Unsupported(&'static str),
    /// What the client says of binding to the channel does not agree with what it was offered, or with the channel.
    Binding(&'static str),
    /// The proof is wrong, or there is no such user: nobody is to know which.
    Wrong,
}

/// What a client has been asked.
#[derive(Debug)]
pub struct Challenge {
    shown: Shown,
    /// Both nonces, which the answer has to repeat.
    nonce: String,
    /// What the answer has to say of the channel.
    channel: String,
    /// The first two messages, as the proof covers them.
    covered: String,
}

impl Challenge {
    /// Reads the client's first message, sent for `mechanism`, and gives the answer to it. `binding` is the hash of the
    /// certificate if the client was offered to bind to it; `nonce` is ours: random, printable, without commas.
    ///
    /// # Errors
    /// If the message makes no sense.
    pub fn to(
        message: &[u8],
        mechanism: &str,
        binding: Option<&[u8]>,
        shown: Shown,
        nonce: &str,
    ) -> Result<(Challenge, String), ScramError> {
        let message = std::str::from_utf8(message).map_err(|_| ScramError::Malformed("it is not UTF-8"))?;
        let mut parts = message.splitn(3, ',');
        let (Some(flag), Some(authority), Some(bare)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(ScramError::Malformed("it is too short"));
        };
        if !authority.is_empty() {
            return Err(ScramError::Unsupported("client uses authorization identity, but it is not supported"));
        }
        let header = format!("{flag},,");
        let channel = match (binding_of(flag, mechanism, binding)?, binding) {
            (true, Some(hash)) => STANDARD.encode([header.as_bytes(), hash].concat()),
            _ => STANDARD.encode(&header),
        };
        // The user is that of the start-up message, as in Postgres; what stands here is not looked at.
        let (name, theirs) = bare.split_once(",r=").ok_or(ScramError::Malformed("it has no nonce"))?;
        if name.starts_with("m=") {
            return Err(ScramError::Unsupported("client requires an unsupported SCRAM extension"));
        }
        let theirs = theirs.split(',').next().unwrap_or_default();
        let printable = |byte: u8| (0x21..=0x7e).contains(&byte);
        if !name.starts_with("n=") || name.contains(',') || theirs.is_empty() || !theirs.bytes().all(printable) {
            return Err(ScramError::Malformed("it has no user, or its nonce is not printable"));
        }
        let nonce = format!("{theirs}{nonce}");
        let (salt, iterations) = (STANDARD.encode(&shown.verifier.salt), shown.verifier.iterations);
        let asked = format!("r={nonce},s={salt},i={iterations}");
        Ok((Challenge { shown, nonce, channel, covered: format!("{bare},{asked}") }, asked))
    }

    /// Reads the client's last message and gives ours, which proves that we have the verifier.
    ///
    /// # Errors
    /// If the message makes no sense, or its proof is wrong.
    pub fn answered(self, message: &[u8]) -> Result<String, ScramError> {
        let message = std::str::from_utf8(message).map_err(|_| ScramError::Malformed("it is not UTF-8"))?;
        let (before, proof) = message.rsplit_once(",p=").ok_or(ScramError::Malformed("it has no proof"))?;
        let mut parts = before.split(',');
        let channel = parts.next().and_then(|part| part.strip_prefix("c="));
        let nonce = parts.next().and_then(|part| part.strip_prefix("r="));
        let (Some(channel), Some(nonce)) = (channel, nonce) else {
            return Err(ScramError::Malformed("it has no channel binding, or no nonce"));
        };
        if channel != self.channel {
            return Err(ScramError::Binding("SCRAM channel binding check failed"));
        }
        if nonce != self.nonce {
            return Err(ScramError::Malformed("its nonce is another"));
        }
        let proof = STANDARD.decode(proof).ok().and_then(|proof| <[u8; KEY]>::try_from(proof).ok());
        let proof = proof.ok_or(ScramError::Malformed("its proof is none"))?;
        let covered = format!("{},{before}", self.covered);
        let verifier = &self.shown.verifier;
        let signature = sign(&verifier.stored_key, &covered);
        let mut client_key = proof;
        client_key.iter_mut().zip(signature).for_each(|(byte, of)| *byte ^= of);
        let is_right = digest::digest(&digest::SHA256, &client_key).as_ref().ct_eq(&verifier.stored_key);
        if !bool::from(is_right) || !self.shown.is_known {
            return Err(ScramError::Wrong);
        }
        Ok(format!("v={}", STANDARD.encode(sign(&verifier.server_key, &covered))))
    }
}

/// Whether the proof is bound to the channel, by what the client says first.
fn binding_of(flag: &str, mechanism: &str, binding: Option<&[u8]>) -> Result<bool, ScramError> {
    match (flag, mechanism == BOUND) {
        ("n", false) => Ok(false),
        ("y", false) if binding.is_none() => Ok(false),
        ("y", false) => Err(ScramError::Binding(
            "the client supports SCRAM channel binding and thinks that the server does not, but it does",
        )),
        ("n" | "y", true) => Err(ScramError::Malformed("it chose SCRAM-SHA-256-PLUS and does not bind to the channel")),
        (flag, bound) => match flag.strip_prefix("p=") {
            None => Err(ScramError::Malformed("it does not say whether it binds to the channel")),
            Some(_) if !bound => {
                Err(ScramError::Malformed("it binds to the channel and did not choose SCRAM-SHA-256-PLUS"))
            }
            Some(END_POINT) if binding.is_some() => Ok(true),
            Some(_) => Err(ScramError::Unsupported("unsupported SCRAM channel-binding type")),
        },
    }
}

fn sign(key: &[u8; KEY], text: &str) -> [u8; KEY] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes());
    <[u8; KEY]>::try_from(tag.as_ref()).unwrap_or_default()
}

impl fmt::Display for ScramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScramError::Malformed(why) => write!(f, "malformed SCRAM message: {why}"),
            ScramError::Unsupported(why) | ScramError::Binding(why) => f.write_str(why),
            ScramError::Wrong => f.write_str("password authentication failed"),
        }
    }
}

impl std::error::Error for ScramError {}

#[cfg(test)]
mod tests {
    use std::num::NonZero;

    use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
    use ring::pbkdf2;

    use super::*;
    use crate::auth::verifier::Verifier;

    /// RFC 5802, section 3.
    fn verifier(password: &str, salt: &[u8], iterations: u32) -> Verifier {
        let (mut salted, count) = ([0; KEY], NonZero::new(iterations).expect("at least one"));
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, count, salt, password.as_bytes(), &mut salted);
        let stored_key = digest::digest(&digest::SHA256, &sign(&salted, "Client Key"));
        let stored_key = stored_key.as_ref().try_into().expect("the same hash");
        Verifier { iterations, salt: salt.to_vec(), stored_key, server_key: sign(&salted, "Server Key") }
    }

    fn known(verifier: Verifier) -> Shown {
        Shown { verifier, is_known: true }
    }

    /// RFC 7677, section 3.
    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";

    fn of_the_rfc(first: &str) -> Result<(Challenge, String), ScramError> {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("it is base64");
        let shown = known(verifier("pencil", &salt, 4_096));
        Challenge::to(first.as_bytes(), PLAIN, None, shown, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    }

    #[test]
    fn the_exchange_of_rfc_7677_comes_out() {
        let (challenge, asked) = of_the_rfc("n,,n=user,r=rOprNGfwEbeRWgbNEkqO").expect("it is well formed");
        assert_eq!(asked, format!("r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"));
        let last = format!("c=biws,r={NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        assert_eq!(
            challenge.answered(last.as_bytes()).expect("the proof is right"),
            "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
        );
    }

    #[test]
    fn what_differs_by_one_bit_is_wrong_and_what_is_not_as_it_should_be_malformed() {
        let answer = |last: &str| {
            let (challenge, _) = of_the_rfc("n,,n=user,r=rOprNGfwEbeRWgbNEkqO").expect("it is well formed");
            challenge.answered(last.as_bytes()).expect_err("it is not as it should be")
        };
        let proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(
            answer(&format!("c=biws,r={NONCE},p=eHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")),
            ScramError::Wrong
        );
        assert_eq!(answer(&format!("c=biws,r={NONCE},x=1,p={proof}")), ScramError::Wrong);
        let malformed = |error| matches!(error, ScramError::Malformed(_));
        assert!(malformed(answer(&format!("c=biws,r={NONCE}x,p={proof}"))));
        assert!(malformed(answer(&format!("c=biws,r={NONCE},p=AAAA"))));
        assert!(malformed(answer(&format!("c=biws,r={NONCE}"))));
        assert!(malformed(answer("")));
        // `eSws` is what one would say that had said `y` first.
        assert!(matches!(answer(&format!("c=eSws,r={NONCE},p={proof}")), ScramError::Binding(_)));
    }

    #[test]
    fn a_first_message_has_a_flag_no_other_identity_a_user_and_a_nonce() {
        let refused = |first: &str| of_the_rfc(first).map(drop).expect_err(first);
        for bad in
            ["", "n", "n,,", "n,,n=user", "n,,r=abc", "n,,n=user,r=", "n,,n=user,r=a b", "x,,n=,r=a", "n,,n=a,x=1,r=a"]
        {
            assert!(matches!(refused(bad), ScramError::Malformed(_)), "{bad}");
        }
        assert!(matches!(refused("n,a=root,n=user,r=abc"), ScramError::Unsupported(_)));
        assert!(matches!(refused("n,,m=x,n=user,r=abc"), ScramError::Unsupported(_)));
    }

    /// A whole exchange with the client that connections to clusters use.
    fn exchange(
        binding: ChannelBinding,
        mechanism: &str,
        offered: Option<&[u8]>,
        shown: Shown,
    ) -> Result<(), ScramError> {
        let mut client = ScramSha256::new(b"opensesame", binding);
        let (challenge, asked) = Challenge::to(client.message(), mechanism, offered, shown, "ours")?;
        client.update(asked.as_bytes()).expect("the client takes it");
        let ours = challenge.answered(client.message())?;
        client.finish(ours.as_bytes()).expect("the client believes it");
        Ok(())
    }

    #[test]
    fn a_client_binds_to_the_channel_that_it_sees_or_has_been_lied_to() {
        let right = || known(verifier("opensesame", b"salt", 4_096));
        let (seen, other): (&[u8], &[u8]) = (b"a certificate", b"another");
        let bound = |hash: &[u8]| ChannelBinding::tls_server_end_point(hash.to_vec());
        assert_eq!(exchange(ChannelBinding::unsupported(), PLAIN, None, right()), Ok(()));
        assert_eq!(exchange(ChannelBinding::unsupported(), PLAIN, Some(seen), right()), Ok(()));
        assert_eq!(exchange(ChannelBinding::unrequested(), PLAIN, None, right()), Ok(()));
        assert_eq!(exchange(bound(seen), BOUND, Some(seen), right()), Ok(()));
        let is_about_binding = |result| matches!(result, Err(ScramError::Binding(_)));
        assert!(is_about_binding(exchange(ChannelBinding::unrequested(), PLAIN, Some(seen), right())));
        assert!(is_about_binding(exchange(bound(other), BOUND, Some(seen), right())));
        let is_malformed = |result| matches!(result, Err(ScramError::Malformed(_)));
        assert!(is_malformed(exchange(ChannelBinding::unsupported(), BOUND, Some(seen), right())));
        assert!(is_malformed(exchange(bound(seen), PLAIN, Some(seen), right())));
        assert!(matches!(exchange(bound(seen), BOUND, None, right()), Err(ScramError::Unsupported(_))));
    }

    #[test]
    fn neither_another_password_nor_the_right_one_of_nobody_comes_in() {
        let other = known(verifier("open", b"salt", 4_096));
        assert_eq!(exchange(ChannelBinding::unsupported(), PLAIN, None, other), Err(ScramError::Wrong));
        let nobody = Shown { verifier: verifier("opensesame", b"salt", 4_096), is_known: false };
        assert_eq!(exchange(ChannelBinding::unsupported(), PLAIN, None, nobody), Err(ScramError::Wrong));
    }
}
