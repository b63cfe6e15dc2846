//! Writing to a file of frames so that what went wrong leaves no trace, and to a directory alone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use super::frame::Format;

/// A file of frames that grows at its end. A write that fails is undone, so that the next one follows what is good.
#[derive(Debug)]
pub(crate) struct Appender {
    file: File,
    good: u64,
    broken: bool,
    /// The disk is full, for tests: there is no other way to have one that has room again later.
    #[cfg(test)]
    pub(crate) full: bool,
}

impl Appender {
    /// Begins a new file, readable by its owner only; one that exists is an error.
    ///
    /// # Errors
    /// If it cannot be made or its header written. Then it is not there.
    pub(crate) fn create(path: &Path, format: Format) -> io::Result<Appender> {
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)?;
        let mut appender = Appender::over(file, 0);
        appender.append(&format.header(), false).inspect_err(|_| drop(fs::remove_file(path)))?;
        Ok(appender)
    }

    /// Goes on with a file whose first `good` bytes are known to be; the rest is cut off.
    ///
    /// # Errors
    /// If it cannot be opened or cut.
    pub(crate) fn resume(path: &Path, good: u64) -> io::Result<Appender> {
        let file = OpenOptions::new().append(true).open(path)?;
        if file.metadata()?.len() != good {
            file.set_len(good)?;
        }
        Ok(Appender::over(file, good))
    }

    fn over(file: File, good: u64) -> Appender {
        Appender {
            file,
            good,
            broken: false,
            #[cfg(test)]
            full: false,
        }
    }

    /// Appends whole frames, to the disk itself if `sync`.
    ///
    /// # Errors
    /// If they could not all be written. Then none is, or else the file [is broken](Appender::is_broken).
    pub(crate) fn append(&mut self, frames: &[u8], sync: bool) -> io::Result<()> {
        match self.write(frames, sync) {
            Ok(()) => {
                self.good += frames.len() as u64;
                Ok(())
            }
            Err(cause) => {
                self.broken |= self.file.set_len(self.good).is_err();
                Err(cause)
            }
        }
    }

    fn write(&mut self, frames: &[u8], sync: bool) -> io::Result<()> {
        #[cfg(test)]
        if self.full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.write_all(frames)?;
        if sync { self.file.sync_data() } else { Ok(()) }
    }

    /// Takes back what was appended after the first `good` bytes.
    pub(crate) fn cut(&mut self, good: u64) {
        if good < self.good {
            self.broken |= self.file.set_len(good).is_err();
            self.good = good;
        }
    }

    /// Bytes that are good.
    pub(crate) fn len(&self) -> u64 {
        self.good
    }

    /// True if a failed write could not be undone: nothing must follow it.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }
}

/// Makes a directory that only its owner can look into, unless it is there, and takes the lock of that name in it for
/// as long as the file that is returned is open. None if another process, or another part of this one, has it.
///
/// # Errors
/// If it cannot be made or written to.
pub(crate) fn claim(dir: &Path, lock: &str) -> io::Result<Option<File>> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(dir.join(lock))?;
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(lock)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(cause) => Err(cause.into()),
    }
}

/// Says beforehand whether [`claim`] would have it, and changes nothing: false if another process has it.
///
/// # Errors
/// Why it could not be made or written to.
pub(crate) fn could_claim(dir: &Path, lock: &str) -> io::Result<bool> {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    let may = |path: &Path, what| accessat(CWD, path, what, AtFlags::EACCESS).map_err(io::Error::from);
    // What is not there is made in the nearest that is.
    let mut above = dir.ancestors().map(|dir| if dir.as_os_str().is_empty() { Path::new(".") } else { dir });
    let there = above.find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    if !there.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    may(there, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK)?;
    let lock = dir.join(lock);
    if !lock.exists() {
        return Ok(true);
    }
    may(&lock, Access::WRITE_OK)?;
    // Let go of again when it is closed.
    match rustix::fs::flock(File::open(&lock)?, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(cause) => Err(cause.into()),
    }
}

/// Says at most once a minute that something goes wrong again and again, and then that it goes well again.
#[derive(Debug, Default)]
pub(crate) struct Complaint {
    said: Option<Instant>,
    /// What had been lost in all when it began to fail; None: it goes well, and that has been said.
    failing: Option<u64>,
    /// True if it was said that it fails.
    is_said: bool,
}

impl Complaint {
    /// True if it is time to say it (again).
    pub(crate) fn is_due(&mut self) -> bool {
        let due = self.said.is_none_or(|said| said.elapsed() >= Duration::from_secs(60));
        if due {
            self.said = Some(Instant::now());
        }
        due
    }

    /// It failed, `lost` so far in all. True if it is time to say so (again).
    pub(crate) fn failed(&mut self, lost: u64) -> bool {
        let due = self.is_due();
        self.failing.get_or_insert(lost);
        self.is_said |= due;
        due
    }

    /// It went well, `lost` so far in all. How much was lost since it began to fail, if it is time to say so: at once after
    /// a complaint. After failures that nobody was told of, as the last complaint was too recent, it is said no sooner than
    /// those would be now: something that fails and goes well in turns fills no log, and what was lost is told all the same.
    pub(crate) fn went_well(&mut self, lost: u64) -> Option<u64> {
        let before = self.failing?;
        if !self.is_said && !self.is_due() {
            return None;
        }
        (self.failing, self.is_said) = (None, false);
        Some(lost.saturating_sub(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format { magic: *b"PNCTTEST", version: 1, oldest: 1 };

    #[test]
    fn a_failed_write_is_an_error_and_a_device_that_is_full_breaks_the_file() {
        let mut full = Appender::resume(Path::new("/dev/full"), 0).unwrap();
        assert_eq!(full.append(b"frames", false).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(full.is_broken() && full.len() == 0);
    }

    #[test]
    fn a_file_goes_on_after_what_is_good() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut file = Appender::create(&path, FORMAT).unwrap();
        assert_eq!(file.len(), 12);
        file.append(b"good", true).unwrap();
        fs::write(&path, [FORMAT.header().as_slice(), b"goodbad"].concat()).unwrap();
        let mut file = Appender::resume(&path, file.len()).unwrap();
        file.append(b"more", false).unwrap();
        assert_eq!(fs::read(&path).unwrap(), [FORMAT.header().as_slice(), b"goodmore"].concat());
        assert!(Appender::create(&path, FORMAT).is_err(), "it exists");
    }

    #[test]
    fn a_directory_is_one_writers_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("a/b");
        let first = claim(&dir, "a.lock").unwrap();
        assert!(first.is_some());
        assert!(claim(&dir, "a.lock").unwrap().is_none());
        assert!(!could_claim(&dir, "a.lock").unwrap() && could_claim(&dir, "b.lock").unwrap());
        assert!(claim(&dir, "b.lock").unwrap().is_some());
        drop(first);
        assert!(claim(&dir, "a.lock").unwrap().is_some());
    }

    #[test]
    fn a_complaint_is_not_repeated_at_once() {
        let mut complaint = Complaint::default();
        assert!(complaint.is_due());
        assert!(!complaint.is_due());
    }

    #[test]
    fn that_it_goes_well_is_said_once_after_each_complaint() {
        let mut complaint = Complaint::default();
        assert_eq!(complaint.went_well(3), None);
        assert!(complaint.failed(3));
        assert!(!complaint.failed(5));
        assert_eq!(complaint.went_well(9), Some(6));
        assert_eq!(complaint.went_well(9), None);
        assert!(!complaint.failed(9), "not again at once");
        assert_eq!(complaint.went_well(12), None, "nor that it is over");
        assert!(!complaint.failed(15));
        assert_eq!(complaint.went_well(17), None);
        // But in the end all of it.
        complaint.said = None;
        assert_eq!(complaint.went_well(17), Some(8));
        assert_eq!(complaint.went_well(17), None);
    }
}
