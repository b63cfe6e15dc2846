//! Files that hold a secret on each line.
//!
//! One grammar for all of them: empty lines and lines that begin with `#` say nothing, a word ends at white space, and
//! one that holds white space stands in double quotes, in which `""` is a quote. What is wrong is named by file and line
//! and never repeated, since it may be a secret.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::private::{self, Exposed, Keep, Opened, Unopened};

/// The largest file that is read, in bytes: about a hundred thousand lines.
pub const LARGEST: u64 = 16 << 20;

/// A file of secrets that cannot be used.
#[derive(Debug)]
pub enum FileError {
    /// It could not be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// Others can have it.
    Exposed {
        /// The file.
        path: PathBuf,
        /// Who, and how.
        exposed: Exposed,
    },
    /// Lines say what cannot be meant.
    Wrong {
        /// The file.
        path: PathBuf,
        /// What is wrong, each with its line from 1; at least one.
        faults: Vec<(usize, Fault)>,
    },
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A quote is not closed, or something stands right behind one.
    Quotes,
    /// Something is missing: what the line should look like.
    Short(&'static str),
    /// Something stands behind what the line should hold.
    Long(&'static str),
    /// Another line is about the same name.
    Twice {
        /// Its number.
        first: usize,
    },
    /// A password as it is typed, where only a verifier may stand.
    Password,
    /// A hash of the old kind.
    Md5,
    /// It begins like a verifier and is none.
    Verifier,
    /// A token that could be guessed.
    Guessable {
        /// The least length.
        least: usize,
    },
}

/// What was read of a file.
#[derive(Debug)]
pub struct Lines<T> {
    /// Its lines, in their order.
    pub all: Vec<T>,
    /// True if others can read it too, and may.
    pub is_readable: bool,
}

/// The lines of a file that say something, each with its number, read by `read`.
///
/// # Errors
/// If the file cannot be read, others can have it, or with all that is wrong in it.
pub fn read<T>(
    path: &Path,
    keep: Keep,
    mut read: impl FnMut(usize, &str) -> Result<T, Fault>,
) -> Result<Lines<T>, FileError> {
    let opened = private::open(path, keep).map_err(|unopened| match unopened {
        Unopened::Io(cause) => FileError::Unreadable { path: path.to_owned(), cause },
        Unopened::Exposed(exposed) => FileError::Exposed { path: path.to_owned(), exposed },
    })?;
    let is_readable = opened.is_readable;
    let text = text_of(opened).map_err(|cause| FileError::Unreadable { path: path.to_owned(), cause })?;
    let (mut all, mut faults) = (Vec::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match read(index + 1, line) {
            Ok(one) => all.push(one),
            Err(fault) => faults.push((index + 1, fault)),
        }
    }
    if faults.is_empty() {
        Ok(Lines { all, is_readable })
    } else {
        Err(FileError::Wrong { path: path.to_owned(), faults })
    }
}

/// The same, where each line is about a name that no other is about.
///
/// # Errors
/// As for [`read`].
pub fn named<T>(
    path: &Path,
    keep: Keep,
    mut one: impl FnMut(&str) -> Result<(String, T), Fault>,
) -> Result<Lines<(String, T)>, FileError> {
    let mut places = HashMap::new();
    read(path, keep, |number, line| {
        let (name, said) = one(line)?;
        match places.insert(name.clone(), number) {
            Some(first) => Err(Fault::Twice { first }),
            None => Ok((name, said)),
        }
    })
}

fn text_of(Opened { file, .. }: Opened) -> io::Result<String> {
    let mut text = String::new();
    file.take(LARGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST {
        return Err(io::Error::other(format!("it is larger than {LARGEST} bytes")));
    }
    Ok(text)
}

/// Takes the word at the front of `rest`, and the white space behind it; None if nothing is left.
///
/// # Errors
/// If its quotes make no sense.
pub fn word(rest: &mut &str) -> Result<Option<String>, Fault> {
    let Some(quoted) = rest.strip_prefix('"') else {
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        *rest = behind.trim_start();
        return Ok(Some(word.to_owned()).filter(|word| !word.is_empty()));
    };
    let (mut word, mut left) = (String::new(), quoted);
    loop {
        let (inside, behind) = left.split_once('"').ok_or(Fault::Quotes)?;
        word.push_str(inside);
        match behind.strip_prefix('"') {
            Some(more) => {
                word.push('"');
                left = more;
            }
            None if behind.is_empty() || behind.starts_with(char::is_whitespace) => {
                *rest = behind.trim_start();
                return Ok(Some(word));
            }
            None => return Err(Fault::Quotes),
        }
    }
}

/// Faults that are shown; a file can hold thousands.
const SHOWN: usize = 10;

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::Unreadable { path, cause } => write!(f, "cannot read {}: {cause}", path.display()),
            FileError::Exposed { path, exposed } => write!(f, "{}: {exposed}", path.display()),
            FileError::Wrong { path, faults } => {
                for (index, (line, fault)) in faults.iter().take(SHOWN).enumerate() {
                    let separator = if index > 0 { ", " } else { "" };
                    write!(f, "{separator}{}:{line}: {fault}", path.display())?;
                }
                match faults.len().saturating_sub(SHOWN) {
                    0 => Ok(()),
                    more => write!(f, ", and {more} more"),
                }
            }
        }
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FileError::Unreadable { cause, .. } => Some(cause),
            FileError::Exposed { exposed, .. } => Some(exposed),
            FileError::Wrong { .. } => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Quotes => write!(f, "the quotes are not closed, or something follows right behind them"),
            Fault::Short(form) => write!(f, "something is missing: a line is {form}"),
            Fault::Long(form) => write!(f, "there is more than {form}"),
            Fault::Twice { first } => write!(f, "line {first} is about the same name"),
            Fault::Password => write!(
                f,
                "a password does not belong here, since whoever reads the file would have it: `punctual user NAME` \
                 asks for it and prints the line to write"
            ),
            Fault::Md5 => {
                write!(
                    f,
                    "an MD5 hash is as good as the password to whoever reads it: `punctual user NAME` makes a SCRAM verifier"
                )
            }
            Fault::Verifier => write!(
                f,
                "it is no verifier, SCRAM-SHA-256$ITERATIONS:SALT$STORED_KEY:SERVER_KEY, as Postgres has in \
                 pg_authid.rolpassword"
            ),
            Fault::Guessable { least } => {
                write!(f, "a token that short could be guessed: write at least {least} characters")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Vec<String>, Fault> {
        let (mut rest, mut words) = (line, Vec::new());
        while let Some(next) = word(&mut rest)? {
            words.push(next);
        }
        Ok(words)
    }

    #[test]
    fn a_word_ends_at_white_space_or_at_its_quote() {
        assert_eq!(words("a  b\tc").unwrap(), ["a", "b", "c"]);
        assert_eq!(words("\"a b\" \"say \"\"x\"\"\"").unwrap(), ["a b", "say \"x\""]);
        assert_eq!(words("\"\" x").unwrap(), ["", "x"]);
        assert_eq!(words("a\"b").unwrap(), ["a\"b"]);
        assert_eq!(words("\"a"), Err(Fault::Quotes));
        assert_eq!(words("\"a\"b"), Err(Fault::Quotes));
    }
}
