//! Tokens that programs show over HTTP: a file with one on each line, and as whom it may run queries.
//!
//! ```text
//!   # Prometheus: metrics and lists, no queries
//!   0b5f7a1c9d…
//!   # a dashboard: queries as looker
//!   7d3e90aa41…  looker
//!   # a back end that has found out itself who asks: queries as anyone
//!   c2b18846fe…  *
//! ```
//!
//! Only hashes are kept. One that is shown is hashed and compared with all of them, so that how long it takes says
//! nothing of how much of it is right.

use std::fmt;
use std::path::Path;

use ring::digest::{SHA256, digest};
use subtle::ConstantTimeEq;

use super::lines::{self, Fault, FileError, word};
use super::private::Keep;

/// How a line is written.
const FORM: &str = "TOKEN, or TOKEN USER, or TOKEN *";

/// The least length of a token, in bytes: 96 bits of chance, in hexadecimal.
const LEAST: usize = 24;

/// As whom a program may run queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// As nobody.
    Nobody,
    /// As one user.
    User(String),
    /// As any.
    Anyone,
}

impl Grant {
    /// True if it is good for that user.
    pub fn covers(&self, user: &str) -> bool {
        match self {
            Grant::Nobody => false,
            Grant::User(name) => name == user,
            Grant::Anyone => true,
        }
    }
}

/// The tokens of one file.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tokens(Vec<(Vec<u8>, Grant)>);

/// How many there are, and nothing of them.
impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({})", self.0.len())
    }
}

impl Tokens {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or with all that is wrong in it.
    pub fn read(path: &Path) -> Result<Tokens, FileError> {
        let read = lines::read(path, Keep::Secrets, |_, line| {
            let mut rest = line;
            let token = word(&mut rest)?.unwrap_or_default();
            let is_anyone = rest == "*";
            let grant = match word(&mut rest)? {
                None => Grant::Nobody,
                Some(_) if is_anyone => Grant::Anyone,
                Some(user) => Grant::User(user),
            };
            match rest.is_empty() {
                false => Err(Fault::Long(FORM)),
                true if token.len() < LEAST => Err(Fault::Guessable { least: LEAST }),
                true => Ok((hash(&token), grant)),
            }
        })?;
        Ok(Tokens(read.all))
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As whom the one that is shown may run queries; None if it is none of them.
    pub fn grant(&self, shown: &str) -> Option<&Grant> {
        let shown = hash(shown);
        let mut granted = None;
        for (known, grant) in &self.0 {
            if bool::from(known.ct_eq(&shown)) {
                granted = Some(grant);
            }
        }
        granted
    }
}

fn hash(token: &str) -> Vec<u8> {
    digest(&SHA256, token.as_bytes()).as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Tokens, String> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("tokens");
        crate::auth::private::write(&path, text);
        Tokens::read(&path).map_err(|error| error.to_string().replace(&path.display().to_string(), "tokens"))
    }

    #[test]
    fn a_token_is_one_of_the_file_with_its_user_or_none() {
        let text =
            "# three\n0123456789abcdef01234567\nsomething-else-that-is-long \"a b\"\nand-one-for-any-user-at-all *\n";
        let tokens = read(text).expect("it is right");
        assert_eq!(tokens.grant("0123456789abcdef01234567"), Some(&Grant::Nobody));
        assert_eq!(tokens.grant("something-else-that-is-long"), Some(&Grant::User("a b".to_owned())));
        assert_eq!(tokens.grant("and-one-for-any-user-at-all"), Some(&Grant::Anyone));
        for other in ["", "0123456789abcdef0123456", "0123456789abcdef012345678", "# three"] {
            assert_eq!(tokens.grant(other), None, "{other}");
        }
        assert!(Tokens::default().grant("").is_none() && Tokens::default().is_empty());
        assert_eq!(format!("{tokens:?}"), "Tokens(3)");
    }

    #[test]
    fn a_grant_is_good_for_its_user_alone() {
        assert!(Grant::User("ann".to_owned()).covers("ann") && !Grant::User("ann".to_owned()).covers("bob"));
        assert!(Grant::Anyone.covers("bob") && !Grant::Nobody.covers("bob"));
    }

    #[test]
    fn what_could_be_guessed_is_refused_and_not_repeated() {
        let said = read("hunter2\n0123456789abcdef01234567 x y\n").expect_err("neither is right");
        let words = "a token that short could be guessed: write at least 24 characters, tokens:2: there is more than TOKEN, or TOKEN USER, or TOKEN *";
        assert_eq!(said, format!("tokens:1: {words}"));
    }
}
