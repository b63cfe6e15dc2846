//! Rows that are complete already: written straight into hourly Parquet files, all of them or none.
//!
//! What is imported does not go through the log, whose point is that rows come one by one and a crash loses a second:
//! here a crash must lose everything, so that an import can simply be repeated. All files are made in a directory
//! aside, and then
//!
//! - a new history gets its name by one rename of the whole directory;
//! - files that are added to a history are renamed into it one by one, each a further part of its hour, as the last
//!   step. If one of the renames fails, those before it are undone. Only a crash between two renames leaves some of the
//!   hours, each whole.
//!
//! The directory aside is locked, so that two imports do not meet there; one that a crash left is emptied by the next.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::hash::Key;
use super::hours::{self, Hour, Part};
use super::parquet::Sheet;
use super::row::Row;
use super::{HistoryError, LOCK_FILE};
use crate::record::append::claim;

/// The directory aside, in a history that is added to.
const ASIDE: &str = "importing";

/// The directory for temporary files, in the one aside.
const SCRATCH: &str = "scratch";

/// Rows on their way into a history. Dropped before [`Bulk::commit`] it leaves nothing.
pub(crate) struct Bulk {
    target: PathBuf,
    aside: PathBuf,
    scratch: PathBuf,
    /// True if the target is a history already.
    added: bool,
    sheet: Option<(Hour, Sheet)>,
    parts: Vec<Part>,
    /// Held until all is done.
    locks: Vec<File>,
    committed: bool,
}

impl Bulk {
    /// Prepares to write to a directory that is not there, or empty; or, if `append`, to a history that is there.
    ///
    /// # Errors
    /// If something else is there, another writer has it, or it cannot be written to.
    pub(crate) fn begin(target: &Path, append: bool) -> Result<Bulk, HistoryError> {
        let found = match fs::read_dir(target) {
            Ok(mut entries) => entries.next().is_some(),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => false,
            Err(cause) => return Err(HistoryError::io("look into", target)(cause)),
        };
        if found && !append {
            return Err(HistoryError::Occupied { dir: target.to_owned() });
        }
        let mut locks = Vec::new();
        if found {
            let parts = hours::parts(target).map_err(HistoryError::io("read", target))?;
            if parts.is_empty() && !target.join(LOCK_FILE).exists() {
                return Err(HistoryError::NoHistory { dir: target.to_owned() });
            }
            locks.push(claimed(target)?);
        }
        let aside = if found { target.join(ASIDE) } else { beside(target)? };
        locks.push(claimed(&aside)?);
        let bulk = Bulk {
            target: target.to_owned(),
            scratch: aside.join(SCRATCH),
            aside,
            added: found,
            sheet: None,
            parts: Vec::new(),
            locks,
            committed: false,
        };
        bulk.sweep().map_err(HistoryError::io("empty", &bulk.aside))?;
        fs::create_dir(&bulk.scratch).map_err(HistoryError::io("make", &bulk.scratch))?;
        Ok(bulk)
    }

    /// A directory for temporary files, on the same disk. It goes before the history is complete.
    pub(crate) fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// The key that the history's texts are hashed with.
    ///
    /// # Errors
    /// If it cannot be read or made.
    pub(crate) fn key(&self) -> Result<Key, HistoryError> {
        let dir = if self.added { &self.target } else { &self.aside };
        Key::of_dir(dir).map_err(HistoryError::io("make a key in", dir))
    }

    /// Adds a row. Rows must come by the hour in which they ended: each change of hour completes a file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn push(&mut self, mut row: Row) -> Result<(), HistoryError> {
        let hour = Hour::of(row.ended);
        if self.sheet.as_ref().is_some_and(|(open, _)| *open != hour) {
            self.finish_sheet()?;
        }
        let sheet = match &mut self.sheet {
            Some((_, sheet)) => sheet,
            none => {
                let number = self.parts.iter().filter(|part| part.hour == hour).count() as u32;
                let part = Part { hour, number };
                let sheet = Sheet::create(&self.aside.join(part.file("parquet")), self.aside.join(part.file("tmp")))?;
                self.parts.push(part);
                &mut none.insert((hour, sheet)).1
            }
        };
        row.cut();
        sheet.push(row)
    }

    /// Completes the history. Returns how many files were added to it.
    ///
    /// # Errors
    /// If it cannot be. Then it is as it was before.
    pub(crate) fn commit(mut self) -> Result<usize, HistoryError> {
        self.finish_sheet()?;
        fs::remove_dir_all(&self.scratch).map_err(HistoryError::io("remove", &self.scratch))?;
        if self.added {
            self.move_in()?
        } else {
            self.take_name()?
        }
        self.committed = true;
        Ok(self.parts.len())
    }

    fn finish_sheet(&mut self) -> Result<(), HistoryError> {
        self.sheet.take().map_or(Ok(()), |(_, sheet)| sheet.finish())
    }

    /// Makes the directory aside the history.
    fn take_name(&self) -> Result<(), HistoryError> {
        fs::rename(&self.aside, &self.target).map_err(HistoryError::io("name", &self.target))?;
        let parent = self.target.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        sync(parent)
    }

    /// Moves the files into the history, each as the next part of its hour.
    fn move_in(&self) -> Result<(), HistoryError> {
        let mut moved: Vec<PathBuf> = Vec::new();
        let there = hours::parts(&self.target).map_err(HistoryError::io("read", &self.target))?;
        for part in &self.parts {
            let (first, last) = (Part { number: 0, ..*part }, Part { number: u32::MAX, ..*part });
            let newest = there.range(first..=last).next_back().map_or(0, |(part, _)| part.number + 1);
            let to = self.target.join(Part { number: newest + part.number, ..*part }.file("parquet"));
            if let Err(cause) = fs::rename(self.aside.join(part.file("parquet")), &to) {
                moved.iter().for_each(|path| drop(fs::remove_file(path)));
                return Err(HistoryError::io("name", &to)(cause));
            }
            moved.push(to);
        }
        sync(&self.target)
    }

    /// Removes all but the lock from the directory aside.
    fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.aside)? {
            let path = entry?.path();
            if path.is_dir() {
                fs::remove_dir_all(path)?;
            } else if path.file_name().is_none_or(|name| name != LOCK_FILE) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        drop(self.sheet.take());
        if self.added || !self.committed {
            let _ = fs::remove_dir_all(&self.aside);
        }
        self.locks.clear();
    }
}

fn claimed(dir: &Path) -> Result<File, HistoryError> {
    let lock = claim(dir, LOCK_FILE).map_err(HistoryError::io("write history to", dir))?;
    lock.ok_or_else(|| HistoryError::InUse { dir: dir.to_owned() })
}

/// The hidden neighbour of a directory that is to be.
fn beside(target: &Path) -> Result<PathBuf, HistoryError> {
    let unnamed = || io::Error::new(io::ErrorKind::InvalidInput, "it has no name of its own");
    let name = target.file_name().ok_or_else(|| HistoryError::io("make", target)(unnamed()))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(".");
    hidden.push(ASIDE);
    Ok(target.with_file_name(hidden))
}

fn sync(dir: &Path) -> Result<(), HistoryError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(HistoryError::io("write the directory", dir))
}

#[cfg(test)]
mod tests {
    use punctual_core::fingerprint::Fingerprint;
    use punctual_core::time::Time;

    use super::*;
    use crate::history::read;

    const HOUR: u64 = 3_600_000_000;

    fn row(ended: u64) -> Row {
        Row::new(Time::ZERO, Time::from_micros(ended), Fingerprint(7))
    }

    fn rows(dir: &Path) -> Vec<u64> {
        read(dir).unwrap().map(|row| row.unwrap().ended.micros()).collect()
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_new_history_appears_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("a/h");
        let mut bulk = Bulk::begin(&target, false).unwrap();
        [1, 2, HOUR, HOUR + 1].into_iter().for_each(|at| bulk.push(row(at)).unwrap());
        fs::write(bulk.scratch().join("run"), b"temporary").unwrap();
        assert!(!target.exists());
        assert_eq!(bulk.commit().unwrap(), 2);
        assert_eq!(rows(&target), [1, 2, HOUR, HOUR + 1]);
        let hours = ["history-1970-01-01T00.parquet", "history-1970-01-01T01.parquet", "history.lock"];
        assert_eq!(names(&target), hours);
        assert_eq!(names(target.parent().unwrap()), ["h"]);
    }

    #[test]
    fn what_is_given_up_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut bulk = Bulk::begin(&dir.path().join("h"), false).unwrap();
        bulk.push(row(1)).unwrap();
        bulk.push(row(HOUR)).unwrap();
        drop(bulk);
        assert_eq!(names(dir.path()), [""; 0]);
    }

    #[test]
    fn what_a_crash_left_is_swept_by_the_next_import() {
        let dir = tempfile::tempdir().unwrap();
        let aside = dir.path().join(".h.importing");
        fs::create_dir_all(aside.join(SCRATCH).join("more")).unwrap();
        fs::write(aside.join("history-1970-01-01T00.parquet"), b"half").unwrap();
        let mut bulk = Bulk::begin(&dir.path().join("h"), false).unwrap();
        bulk.push(row(HOUR)).unwrap();
        bulk.commit().unwrap();
        assert_eq!(rows(&dir.path().join("h")), [HOUR]);
    }

    #[test]
    fn an_existing_directory_is_added_to_only_if_asked_and_only_if_it_is_a_history() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("h");
        let mut bulk = Bulk::begin(&target, true).unwrap();
        bulk.push(row(1)).unwrap();
        bulk.commit().unwrap();
        assert!(matches!(Bulk::begin(&target, false), Err(HistoryError::Occupied { .. })));
        let mut bulk = Bulk::begin(&target, true).unwrap();
        bulk.push(row(2)).unwrap();
        bulk.push(row(HOUR)).unwrap();
        assert_eq!(rows(&target), [1]);
        assert_eq!(bulk.commit().unwrap(), 2);
        assert_eq!(rows(&target), [1, 2, HOUR]);
        assert!(!target.join(ASIDE).exists());
        fs::write(dir.path().join("notes"), b"").unwrap();
        assert!(matches!(Bulk::begin(dir.path(), true), Err(HistoryError::NoHistory { .. })));
    }

    #[test]
    fn a_directory_is_one_imports_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("h");
        let first = Bulk::begin(&target, false).unwrap();
        assert!(matches!(Bulk::begin(&target, false), Err(HistoryError::InUse { .. })));
        drop(first);
        Bulk::begin(&target, false).unwrap();
    }
}
