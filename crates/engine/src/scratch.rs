//! A directory of our own for things that must not outlive us.
//!
//! Spilled batches and half-generated tables are worth nothing once their process is gone, and the gateway
//! ends a cluster that does not obey with a kill that runs no destructor. So each directory holds a locked
//! file: the kernel drops the lock with the process, however it ends, and whoever comes next removes the
//! directories whose lock is free.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const LOCK: &str = "lock";

/// A directory is swept only when it is this old: a younger one may not have taken its lock yet.
const SETTLED: Duration = Duration::from_secs(60);

/// A private directory, removed when dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    lock: Option<File>,
}

impl Scratch {
    /// Makes `PARENT/PREFIX-PID-N` and removes what dead processes left under the same prefix.
    pub(crate) fn new(parent: &Path, prefix: &str) -> io::Result<Scratch> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        fs::create_dir_all(parent)?;
        sweep(parent, prefix);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{prefix}-{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => {
                    let lock = File::create(path.join(LOCK))?;
                    lock.lock()?;
                    return Ok(Scratch { path, lock: Some(lock) });
                }
                // A process with our number lived and died here a moment ago.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the contents the lasting name `target`. If another process was first, its result stands and
    /// ours is removed.
    pub(crate) fn become_permanent(mut self, target: &Path) -> io::Result<()> {
        fs::remove_file(self.path.join(LOCK))?;
        self.lock = None;
        match fs::rename(&self.path, target) {
            // Renaming onto a directory that has files fails; then that directory is the result.
            Err(error) if !target.is_dir() => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // After `become_permanent` there is nothing here; what cannot be removed is swept by the next one.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn sweep(parent: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let ours = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('-')));
        if ours && is_abandoned(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_abandoned(directory: &Path) -> bool {
    let old = fs::symlink_metadata(directory)
        .and_then(|found| found.modified())
        .is_ok_and(|at| at.elapsed().is_ok_and(|age| age > SETTLED));
    old && match File::open(directory.join(LOCK)) {
        Ok(lock) => lock.try_lock().is_ok(),
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_directory_goes_with_its_owner() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(parent.path(), "spill").unwrap();
        let path = scratch.path().to_owned();
        fs::write(path.join("batch"), b"x").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn only_old_directories_without_a_living_owner_are_swept() {
        let parent = tempfile::tempdir().unwrap();
        let long_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
        let dead = parent.path().join("spill-1-0");
        let young = parent.path().join("spill-1-1");
        let other = parent.path().join("spillage");
        for directory in [&dead, &young, &other] {
            fs::create_dir(directory).unwrap();
            File::create(directory.join(LOCK)).unwrap();
        }
        let alive = Scratch::new(parent.path(), "spill").unwrap();
        for directory in [&dead, &other, &alive.path().to_owned()] {
            File::open(directory).unwrap().set_modified(long_ago).unwrap();
        }
        let _next = Scratch::new(parent.path(), "spill").unwrap();
        assert!(!dead.exists());
        assert!(young.exists() && other.exists() && alive.path().exists());
    }

    #[test]
    fn the_first_to_finish_gives_the_result() {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("tables");
        for content in ["first", "second"] {
            let scratch = Scratch::new(parent.path(), ".tables").unwrap();
            fs::write(scratch.path().join("part"), content).unwrap();
            scratch.become_permanent(&target).unwrap();
        }
        assert_eq!(fs::read_to_string(target.join("part")).unwrap(), "first");
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }
}
