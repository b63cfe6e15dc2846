//! Files that nobody else is to read: opened only if that is so.
//!
//! ```text
//!   owner        group      others
//!   the gateway  nothing    nothing        chmod 600
//!   root         may read   nothing        chmod 640: how platforms hand secrets to those who run as someone else
//! ```
//!
//! The rule of Postgres for its key, and that of ssh. A file that could be read may have been, so it is refused instead of being
//! warned of; a wrong mode is found on the day it is made. What holds verifiers alone is of less use to whoever reads it (nothing
//! in there is a proof, but guesses can be tried): there, reading is [told](Opened::is_readable) and writing is refused,
//! for whoever adds a line is let in.

use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// What is as good as being someone: passwords, tokens, keys.
    Secrets,
    /// What someone is checked against.
    Verifiers,
}

/// A file that was opened.
#[derive(Debug)]
pub struct Opened {
    /// The file, from its start.
    pub file: File,
    /// True if others can read it: verifiers alone are opened then.
    pub is_readable: bool,
}

/// Who else can have a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposed {
    /// Its group or everyone can read it; its mode.
    Readable(u32),
    /// Its group or everyone can write to it; its mode.
    Writable(u32),
    /// It belongs to someone else, neither the gateway's user nor root; their number.
    Foreign(u32),
}

/// Why a file is not opened.
#[derive(Debug)]
pub enum Unopened {
    /// The system says no, or it is no file.
    Io(io::Error),
    /// Others can have it.
    Exposed(Exposed),
}

/// Opens a file that is kept as it should be.
///
/// # Errors
/// If it is not, or cannot be opened.
pub fn open(path: &Path, keep: Keep) -> Result<Opened, Unopened> {
    let file = File::open(path).map_err(Unopened::Io)?;
    let found = file.metadata().map_err(Unopened::Io)?;
    if !found.is_file() {
        return Err(Unopened::Io(io::Error::other("it is not a file")));
    }
    let us = rustix::process::geteuid().as_raw();
    match (exposed(Kept::of(&found), us), keep) {
        (None, _) => Ok(Opened { file, is_readable: false }),
        (Some(Exposed::Readable(_)), Keep::Verifiers) => Ok(Opened { file, is_readable: true }),
        (Some(exposed), _) => Err(Unopened::Exposed(exposed)),
    }
}

/// Who has a file, and what of it others may.
#[derive(Clone, Copy, Debug)]
struct Kept {
    owner: u32,
    mode: u32,
}

impl Kept {
    fn of(found: &Metadata) -> Kept {
        Kept { owner: found.uid(), mode: found.mode() & 0o7777 }
    }
}

const ROOT: u32 = 0;

/// Who else than this user can have it; the worst.
fn exposed(Kept { owner, mode }: Kept, us: u32) -> Option<Exposed> {
    let readable = if owner == ROOT { 0o007 } else { 0o077 };
    if owner != us && owner != ROOT {
        Some(Exposed::Foreign(owner))
    } else if mode & 0o022 != 0 {
        Some(Exposed::Writable(mode))
    } else if mode & readable != 0 {
        Some(Exposed::Readable(mode))
    } else {
        None
    }
}

impl Exposed {
    /// What to do.
    pub fn fix(self) -> &'static str {
        match self {
            Exposed::Readable(_) | Exposed::Writable(_) => "take that from them: `chmod 600`",
            Exposed::Foreign(_) => "give it to the user that the gateway runs as, or to root",
        }
    }
}

impl fmt::Display for Exposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exposed::Readable(mode) => write!(f, "others on this machine can read it (its mode is {mode:04o})"),
            Exposed::Writable(mode) => write!(f, "others on this machine can write to it (its mode is {mode:04o})"),
            Exposed::Foreign(owner) => write!(f, "it belongs to someone else (user {owner})"),
        }
    }
}

impl std::error::Error for Exposed {}

/// Writes a file as one should be kept, for tests.
#[cfg(test)]
pub(crate) fn write(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;

    std::fs::write(path, text).expect("a file");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_its_owners_alone_or_roots_and_its_groups() {
        let of = |owner, mode| exposed(Kept { owner, mode }, 1_000);
        for (owner, mode) in [(1_000, 0o600), (1_000, 0o400), (1_000, 0o700), (0, 0o600), (0, 0o640), (0, 0o440)] {
            assert_eq!(of(owner, mode), None, "{owner} {mode:o}");
        }
        for (owner, mode) in [(1_000, 0o640), (1_000, 0o604), (1_000, 0o610), (1_000, 0o644), (0, 0o644), (0, 0o444)] {
            assert_eq!(of(owner, mode), Some(Exposed::Readable(mode)), "{owner} {mode:o}");
        }
        for (owner, mode) in [(1_000, 0o620), (1_000, 0o666), (1_000, 0o602), (0, 0o660)] {
            assert_eq!(of(owner, mode), Some(Exposed::Writable(mode)), "{owner} {mode:o}");
        }
        assert_eq!(of(1_001, 0o600), Some(Exposed::Foreign(1_001)));
        assert_eq!(exposed(Kept { owner: 0, mode: 0o600 }, 0), None);
    }

    #[test]
    fn verifiers_may_be_read_and_are_told_of_and_not_written_to() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        write(&path, "x");
        let with = |mode: u32, keep| {
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("it is ours");
            open(&path, keep).map(|opened| opened.is_readable)
        };
        assert!(matches!(with(0o600, Keep::Secrets), Ok(false)));
        assert!(matches!(with(0o644, Keep::Secrets), Err(Unopened::Exposed(Exposed::Readable(0o644)))));
        assert!(matches!(with(0o600, Keep::Verifiers), Ok(false)));
        assert!(matches!(with(0o644, Keep::Verifiers), Ok(true)));
        assert!(matches!(with(0o666, Keep::Verifiers), Err(Unopened::Exposed(Exposed::Writable(0o666)))));
        assert!(matches!(open(dir.path(), Keep::Secrets), Err(Unopened::Io(_))));
    }
}
