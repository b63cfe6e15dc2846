//! The one way in which commands print.
//!
//! Standard output is what a command is for: where it cannot be written to, the command fails. If nobody reads it any
//! more (`punctual replay … | head`), the command ends without a word, with the code that a shell gives to a program
//! that a closed pipe ended. Standard error is said aside: who does not listen misses it, and nothing else happens.

use std::fmt::Display;
use std::io::{self, Write};

use serde::Serialize;

/// 128 and the number of SIGPIPE.
const CLOSED_PIPE: u8 = 141;

/// Standard output cannot be written to.
#[derive(Debug)]
pub(crate) struct Unprinted(io::Error);

impl Unprinted {
    /// The exit code of a command that ends for this reason.
    pub(crate) fn code(&self) -> u8 {
        if self.is_closed() { CLOSED_PIPE } else { crate::cli::FAILED }
    }

    /// True if it was closed by whoever read it.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }
}

impl From<io::Error> for Unprinted {
    fn from(cause: io::Error) -> Unprinted {
        Unprinted(cause)
    }
}

impl Display for Unprinted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "writing to standard output: {}", self.0)
    }
}

/// Prints a text and a newline on standard output, all the way.
///
/// # Errors
/// If that cannot be written to.
pub(crate) fn line(text: impl Display) -> Result<(), Unprinted> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Prints a value as one line of JSON on standard output.
///
/// # Errors
/// If that cannot be written to.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Unprinted> {
    line(serde_json::to_string(value).map_err(io::Error::from)?)
}

/// Prints a text and a newline on standard error.
pub(crate) fn aside(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// `1 query`, `2 queries`
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_no_failure_of_ours_and_a_full_disk_is() {
        let closed = Unprinted::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((closed.is_closed(), closed.code()), (true, 141));
        let full = Unprinted::from(io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!((full.is_closed(), full.code()), (false, 1));
        assert_eq!(full.to_string(), "writing to standard output: no storage space");
    }
}
