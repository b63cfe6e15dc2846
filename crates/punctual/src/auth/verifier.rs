//! What proves that someone knows a password, as Postgres keeps it in `pg_authid.rolpassword`.
//!
//! ```text
//!   SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=
//!                 iterations:salt              $StoredKey                                   :ServerKey
//! ```
//!
//! RFC 5803 in Postgres's spelling. With StoredKey a proof can be checked and none can be made.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::lines::Fault;

/// How every verifier begins.
pub const PREFIX: &str = "SCRAM-SHA-256$";

/// The bytes of a key: SHA-256's.
pub const KEY: usize = 32;

/// The longest salt, in bytes. Postgres takes 16.
const LONGEST_SALT: usize = 1_024;

/// What a proof is checked against.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    /// How often the client is to hash.
    pub iterations: u32,
    /// What it is to hash with the password.
    pub salt: Vec<u8>,
    /// The hash of the client's key.
    pub stored_key: [u8; KEY],
    /// The gateway's own key, by which it proves that it has the verifier.
    pub server_key: [u8; KEY],
}

/// Nothing of it is shown: with the server's key someone could pass for the gateway.
impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(verifier)")
    }
}

impl Verifier {
    /// Reads what stands where a verifier should.
    ///
    /// # Errors
    /// If it is something else.
    pub fn read(text: &str) -> Result<Verifier, Fault> {
        let Some(fields) = text.strip_prefix(PREFIX) else {
            let hash = text.strip_prefix("md5").filter(|hash| hash.len() == 32);
            let is_md5 = hash.is_some_and(|hash| hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
            return Err(if is_md5 { Fault::Md5 } else { Fault::Password });
        };
        Verifier::of_fields(fields).ok_or(Fault::Verifier)
    }

    fn of_fields(fields: &str) -> Option<Verifier> {
        let (hashing, keys) = fields.split_once('$')?;
        let (iterations, salt) = hashing.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        let iterations = iterations.parse().ok().filter(|count| (1..=i32::MAX as u32).contains(count))?;
        let salt = STANDARD.decode(salt).ok().filter(|salt| !salt.is_empty() && salt.len() <= LONGEST_SALT)?;
        let key = |text: &str| STANDARD.decode(text).ok()?.try_into().ok();
        Some(Verifier { iterations, salt, stored_key: key(stored)?, server_key: key(server)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_postgres_keeps_is_read_and_nothing_else() {
        let text = postgres_protocol::password::scram_sha_256(b"opensesame");
        let verifier = Verifier::read(&text).expect("it is one");
        assert_eq!((verifier.iterations, verifier.salt.len()), (4_096, 16));
        assert_eq!(format!("{verifier:?}"), "(verifier)");
        for bad in [
            PREFIX.to_owned(),
            text.replace("4096", "0"),
            text.replace("4096", "many"),
            text.replace("4096", "99999999999"),
            text.replace(':', "$"),
            format!("{text}AAAA"),
            text[..text.len() - 4].to_owned(),
        ] {
            assert_eq!(Verifier::read(&bad), Err(Fault::Verifier), "{bad}");
        }
        assert_eq!(Verifier::read("opensesame"), Err(Fault::Password));
        assert_eq!(Verifier::read("scram-sha-256$4096"), Err(Fault::Password));
        assert_eq!(Verifier::read("md5a6343a68d964ca596d9752250d54bb8a"), Err(Fault::Md5));
        assert_eq!(Verifier::read("md5 is my password"), Err(Fault::Password));
    }
}
