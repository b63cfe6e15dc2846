//! What goes wrong with a file: what was tried, with which, and why it failed.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The operating system says no.
#[derive(Debug)]
pub struct FileError {
    /// What was tried: a verb.
    pub doing: &'static str,
    /// With what.
    pub path: PathBuf,
    /// Why not.
    pub cause: io::Error,
}

impl FileError {
    /// Says what was tried with which file when it fails.
    pub(crate) fn of(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> FileError + use<> {
        let path = path.to_owned();
        move |cause| FileError { doing, path: path.clone(), cause }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.doing, self.path.display(), self.cause)
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}
