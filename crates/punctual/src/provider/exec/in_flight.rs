//! Starts that outlive the gateway that has begun them.
//!
//! A gateway that is killed leaves its `start` commands running, and what they start comes up later than the next gateway
//! looks. So each of them holds a lock, by its standard input, which is an empty file:
//!
//! ```text
//!   gateway ──▶ start, with the lock        the gateway itself does not keep it
//!      ✗          │
//!   gateway ──────┼─ is it held? yes: what is listed is not all there is
//!                 ▼ ends, however it does; the kernel lets go of the lock
//!   gateway ──────── is it held? no: what is listed now is
//! ```
//!
//! That works where both gateways have the same directory on the same machine. Elsewhere, runs are told apart by their
//! names alone.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::fs::{FlockOperation, flock};

/// The lock of one table of the configuration.
#[derive(Debug)]
pub(super) struct InFlight(PathBuf);

impl InFlight {
    /// The lock of the table of that name, in a directory that is made when it is needed.
    pub(super) fn new(dir: &Path, table: &str) -> InFlight {
        InFlight(dir.join(format!("starting-{table}.lock")))
    }

    /// True while a command that was given the lock runs, or something that it has started and that kept its input.
    pub(super) fn is_held(&self) -> bool {
        match File::open(&self.0) {
            Ok(lock) => flock(&lock, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK),
            Err(_) => false,
        }
    }

    /// An empty input that holds the lock for as long as somebody has it.
    pub(super) fn input(&self) -> Stdio {
        match self.lock() {
            Ok(lock) => lock.into(),
            Err(error) => {
                tracing::warn!(file = %self.0.display(), "a start is not marked as one in flight: {error}");
                Stdio::null()
            }
        }
    }

    fn lock(&self) -> io::Result<File> {
        if let Some(dir) = self.0.parent() {
            fs::create_dir_all(dir)?;
        }
        drop(OpenOptions::new().create(true).append(true).mode(0o600).open(&self.0)?);
        let lock = File::open(&self.0)?;
        flock(&lock, FlockOperation::NonBlockingLockShared)?;
        Ok(lock)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn it_is_held_while_a_command_has_it_and_not_by_us() {
        let dir = tempfile::tempdir().expect("a directory");
        let lock = InFlight::new(&dir.path().join("below"), "a");
        assert!(!lock.is_held());
        let mut command = Command::new("sleep");
        let mut child = command.arg("1000").stdin(lock.input()).spawn().expect("it runs");
        drop(command);
        let other = Command::new("cat").stdin(lock.input()).output().expect("it runs");
        assert!(other.status.success() && other.stdout.is_empty());
        assert!(lock.is_held());
        child.kill().expect("it is killed");
        child.wait().expect("it ends");
        assert!(!lock.is_held());
    }
}
