//! Directories for the sockets of child processes, and what a gateway that was killed left of them.
//!
//! ```text
//!   $XDG_RUNTIME_DIR/punctual-PID-N/   0700, so that only we may enter
//!     .s.PGSQL.5432                    the child's socket
//!     lock                             locked for as long as the gateway lives
//! ```
//!
//! A gateway removes its directories when it stops. One that is killed cannot, so the next one does: of those that are
//! ours, in every sense, it removes what nobody holds the lock of. The kernel lets go of a lock when its process ends,
//! however that ends, and knows of processes that we cannot see, as in another container with the same `/tmp`.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::process::{Pid, getuid, test_kill_process};

const LOCK: &str = "lock";

/// The name of a child's socket in its directory.
const SOCKET: &str = ".s.PGSQL.5432";

/// A directory for one socket, which only we may enter. Its path is short: a socket's may have 107 bytes. Dropping it
/// removes it.
#[derive(Debug)]
pub(super) struct SocketDir {
    path: PathBuf,
    _lock: File,
}

impl SocketDir {
    /// A new directory where this user's sockets go. The first one removes what was left there.
    ///
    /// # Errors
    /// With the path that could not be made.
    pub(super) fn new() -> Result<SocketDir, (PathBuf, io::Error)> {
        static SWEPT: Once = Once::new();
        let base = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let base = if base.is_dir() { base } else { std::env::temp_dir() };
        SWEPT.call_once(|| sweep(&base));
        SocketDir::new_in(&base)
    }

    fn new_in(base: &Path) -> Result<SocketDir, (PathBuf, io::Error)> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = base.join(format!("punctual-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return SocketDir::claim(path),
                // Left behind by a process that had our id: not ours to enter.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err((path, error)),
            }
        }
    }

    fn claim(path: PathBuf) -> Result<SocketDir, (PathBuf, io::Error)> {
        let lock = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path.join(LOCK));
        let locked = lock.and_then(|lock| {
            flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            Ok(lock)
        });
        match locked {
            Ok(lock) => Ok(SocketDir { path, _lock: lock }),
            Err(error) => {
                remove(&path);
                Err((path, error))
            }
        }
    }

    /// The directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The socket that is to be in it.
    pub(super) fn socket(&self) -> PathBuf {
        self.path.join(SOCKET)
    }
}

impl Drop for SocketDir {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes what a gateway that is no more left in `base`.
fn sweep(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        let Some(pid) = maker(&entry.file_name()) else { continue };
        // Not of what a link points to.
        let Ok(metadata) = entry.metadata() else { continue };
        let ours = metadata.is_dir() && metadata.uid() == getuid().as_raw() && metadata.mode() & 0o7777 == 0o700;
        if ours && is_left(&entry.path(), pid) {
            tracing::debug!(dir = %entry.path().display(), "removing what a gateway left that was killed");
            remove(&entry.path());
        }
    }
}

/// The process that made a directory of that name.
fn maker(name: &OsStr) -> Option<Pid> {
    let (pid, number) = name.to_str()?.strip_prefix("punctual-")?.split_once('-')?;
    let _: u32 = number.parse().ok()?;
    Pid::from_raw(pid.parse().ok().filter(|pid| *pid > 0)?)
}

/// True if nobody uses the directory. If in doubt, somebody does.
fn is_left(dir: &Path, pid: Pid) -> bool {
    let no_link = OFlags::NOFOLLOW.bits().cast_signed();
    match OpenOptions::new().read(true).custom_flags(no_link).open(dir.join(LOCK)) {
        Ok(lock) => flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok(),
        // Whoever made it was stopped before it took the lock, or is about to.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            matches!(test_kill_process(pid), Err(Errno::SRCH | Errno::PERM))
        }
        Err(_) => false,
    }
}

/// Removes a directory with what belongs in it. With anything else in it, it stays.
fn remove(dir: &Path) {
    for name in [SOCKET, LOCK] {
        let _ = fs::remove_file(dir.join(name));
    }
    if let Err(error) = fs::remove_dir(dir) {
        tracing::debug!(dir = %dir.display(), "removing a socket directory: {error}");
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A directory as a process of that id makes it, with a socket's file in it.
    fn made_by(base: &Path, pid: u32, number: u32) -> PathBuf {
        let dir = base.join(format!("punctual-{pid}-{number}"));
        DirBuilder::new().mode(0o700).create(&dir).unwrap();
        fs::write(dir.join(SOCKET), "").unwrap();
        dir
    }

    /// The id of a process that has ended.
    fn nobody() -> u32 {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    #[test]
    fn what_a_killed_gateway_left_is_removed_and_nothing_else() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path();
        let (gone, here) = (nobody(), std::process::id());
        let (unlocked, locked_once) = (made_by(base, gone, 0), made_by(base, here, 1_000_000));
        fs::write(locked_once.join(LOCK), "").unwrap();

        let living = made_by(base, here, 1_000_001);
        let open_to_others = made_by(base, gone, 2);
        fs::set_permissions(&open_to_others, fs::Permissions::from_mode(0o755)).unwrap();
        let with_more = made_by(base, gone, 3);
        fs::write(with_more.join("notes"), "mine").unwrap();
        let elsewhere = base.join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join(SOCKET), "").unwrap();
        symlink(&elsewhere, base.join(format!("punctual-{gone}-4"))).unwrap();
        let others = ["punctual-0-1", "punctual--1-1", "punctual-7", "punctual-x-1", "punctual-7-x", "other-7-1"];
        others.iter().for_each(|name| DirBuilder::new().mode(0o700).create(base.join(name)).unwrap());
        // As in a container whose processes we do not see.
        let unseen = made_by(base, gone, 5);
        let lock = File::create_new(unseen.join(LOCK)).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();

        sweep(base);
        assert!(!unlocked.exists() && !locked_once.exists());
        assert!(living.join(SOCKET).exists() && open_to_others.join(SOCKET).exists() && unseen.join(SOCKET).exists());
        assert!(with_more.join("notes").exists() && elsewhere.join(SOCKET).exists());
        assert!(others.iter().all(|name| base.join(name).exists()));
        drop(lock);
        sweep(base);
        assert!(!unseen.exists());
    }

    #[test]
    fn a_directory_that_is_used_stays_and_goes_when_it_is_dropped() {
        let base = tempfile::tempdir().unwrap();
        let dir = SocketDir::new_in(base.path()).unwrap();
        fs::write(dir.socket(), "").unwrap();
        sweep(base.path());
        assert!(dir.socket().exists());
        let path = dir.path().to_owned();
        drop(dir);
        assert!(!path.exists());
    }
}
