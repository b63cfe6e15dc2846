//! The users that may come in: a file with a verifier for each.
//!
//! ```text
//!   # name:verifier, or both in quotes as in PgBouncer's userlist.txt
//!   ann:SCRAM-SHA-256$4096:…
//!   "Bob Smith" "SCRAM-SHA-256$4096:…"
//! ```
//!
//! Who is not in it is asked for a proof all the same, against a verifier that nobody can satisfy. It looks like the
//! others, and the same name gets the same each time: an answer that changed would say that there is no such user.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use ring::hmac;

use super::lines::{self, Fault, FileError, Lines, word};
use super::private::Keep;
use super::verifier::{KEY, Verifier};

/// How a line is written.
const FORM: &str = "name:SCRAM-SHA-256$…";

/// The users of one file.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Users {
    by_name: HashMap<String, Verifier>,
    /// How often and with how long a salt those who are not there are to hash: as the first that is.
    usual: Option<(u32, usize)>,
    is_readable: bool,
}

/// How many there are, and nothing of them.
impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Users({})", self.by_name.len())
    }
}

/// What a proof is checked against, and whether one that is right counts.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The verifier.
    pub verifier: Verifier,
    /// False if it is a mock one.
    pub is_known: bool,
}

impl Users {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or with all that is wrong in it.
    pub fn read(path: &Path) -> Result<Users, FileError> {
        let Lines { all: users, is_readable } = lines::named(path, Keep::Verifiers, user)?;
        let usual = users.first().map(|(_, verifier)| (verifier.iterations, verifier.salt.len()));
        Ok(Users { by_name: users.into_iter().collect(), usual, is_readable })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// True if others on this machine can read the file, and so try guesses at passwords.
    pub fn is_readable(&self) -> bool {
        self.is_readable
    }

    /// True if nobody can come in.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// What the proof of a user is checked against. `mock` makes up what is not known: the same for a name each time.
    pub fn verifier(&self, name: &str, mock: &hmac::Key) -> Shown {
        // Made for all, so that it takes the same time whoever asks.
        let made_up = self.mock(name, mock);
        match self.by_name.get(name) {
            Some(verifier) => Shown { verifier: verifier.clone(), is_known: true },
            None => Shown { verifier: made_up, is_known: false },
        }
    }

    fn mock(&self, name: &str, secret: &hmac::Key) -> Verifier {
        // Postgres's own figures, where there is nobody to go by.
        let (iterations, salt) = self.usual.unwrap_or((4_096, 16));
        let made_up = |what: &str| {
            let tag = hmac::sign(secret, format!("{what} {name}").as_bytes());
            <[u8; KEY]>::try_from(tag.as_ref()).unwrap_or_default()
        };
        let salt = made_up("salt").into_iter().cycle().take(salt).collect();
        Verifier { iterations, salt, stored_key: made_up("stored"), server_key: made_up("server") }
    }
}

/// The line that lets a user in with that password, with a salt of its own.
pub fn line(name: &str, password: &str) -> String {
    let verifier = postgres_protocol::password::scram_sha_256(password.as_bytes());
    let is_plain = !name.starts_with(['"', '#']) && !name.contains(|c: char| c == ':' || c.is_whitespace());
    if is_plain { format!("{name}:{verifier}") } else { format!("\"{}\" \"{verifier}\"", name.replace('"', "\"\"")) }
}

/// The user of a line.
fn user(line: &str) -> Result<(String, Verifier), Fault> {
    let mut rest = line;
    let name = if line.starts_with('"') {
        word(&mut rest)?.unwrap_or_default()
    } else {
        let (name, behind) = line.split_once(':').ok_or(Fault::Short(FORM))?;
        if name.contains(char::is_whitespace) {
            return Err(Fault::Short(FORM));
        }
        rest = behind.trim_start();
        name.to_owned()
    };
    let verifier = word(&mut rest)?.filter(|text| !text.is_empty()).ok_or(Fault::Short(FORM))?;
    if name.is_empty() {
        return Err(Fault::Short(FORM));
    }
    let verifier = Verifier::read(&verifier)?;
    if rest.is_empty() { Ok((name, verifier)) } else { Err(Fault::Long(FORM)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Users, String> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("users");
        crate::auth::private::write(&path, text);
        Users::read(&path).map_err(|error| error.to_string().replace(&path.display().to_string(), "users"))
    }

    fn verifier() -> String {
        postgres_protocol::password::scram_sha_256(b"opensesame")
    }

    #[test]
    fn both_ways_to_write_a_line_are_read() {
        let verifier = verifier();
        let text = ["ann", "a b", "a:b", "\"a\"", "#a", "é"].map(|name| line(name, "opensesame")).join("\n");
        let users = read(&text).expect("it is right");
        let mock = hmac::Key::new(hmac::HMAC_SHA256, b"secret");
        for name in ["ann", "a b", "a:b", "\"a\"", "#a", "é"] {
            assert!(users.verifier(name, &mock).is_known, "{name}");
        }
        let text = format!("# who\n\nann:{verifier}\n\"Bob \"\"B\"\" Smith\" \"{verifier}\"\r\ncarl: {verifier}\n");
        let users = read(&text).expect("it is right");
        for name in ["ann", "Bob \"B\" Smith", "carl"] {
            assert!(users.verifier(name, &mock).is_known, "{name}");
        }
        assert!(!users.verifier("Ann", &mock).is_known);
        assert_eq!(format!("{users:?}"), "Users(3)");
    }

    #[test]
    fn bad_lines_are_named_and_not_repeated() {
        let verifier = verifier();
        let text = format!(
            "ann:{verifier}\nbob:opensesame\n\"carl\" \"hunter2\"\ndora\neve:\nann:{verifier}\nfay:{verifier} x\n\
             gus:SCRAM-SHA-256$x\nhal ian:{verifier}\n\"jo\nkim:md5a6343a68d964ca596d9752250d54bb8a\n:{verifier}\n"
        );
        let said = read(&text).expect_err("most lines are wrong");
        let lines: Vec<&str> = said.split("users:").skip(1).map(|part| part.split(':').next().unwrap_or("")).collect();
        assert_eq!(lines, ["2", "3", "4", "5", "6", "7", "8", "9", "10", "11"]);
        assert!(said.ends_with(", and 1 more"), "{said}");
        assert!(said.contains("users:6: line 1 is about the same name"), "{said}");
        assert!(!said.contains("opensesame") && !said.contains("hunter2") && !said.contains(&verifier), "{said}");
    }

    #[test]
    fn nobody_can_tell_who_is_not_there() {
        let users = read(&format!("ann:{}\n", verifier().replace("4096", "9999"))).expect("it is right");
        let (mock, other) = (hmac::Key::new(hmac::HMAC_SHA256, b"one"), hmac::Key::new(hmac::HMAC_SHA256, b"two"));
        let (ann, bob) = (users.verifier("ann", &mock).verifier, users.verifier("bob", &mock).verifier);
        assert_eq!((ann.iterations, ann.salt.len()), (bob.iterations, bob.salt.len()));
        assert_eq!(bob, users.verifier("bob", &mock).verifier);
        assert_ne!(bob.salt, users.verifier("carl", &mock).verifier.salt);
        assert_ne!(bob.salt, users.verifier("bob", &other).verifier.salt);
    }
}
