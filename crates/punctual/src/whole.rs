//! Files that appear whole or not at all.
//!
//! What is written goes into a file beside, which then takes the name. Two that write one file at once (two trainings of
//! one model) take turns: whoever has the file beside locked writes it, and the last one stays.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Writes `bytes` to `path`, over what is there.
///
/// # Errors
/// If it cannot be written; what was there stays then.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = beside(path, ".new");
    let mut file = own(&new)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

/// Says beforehand why `path` could not be written.
///
/// # Errors
/// If it could not.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let new = beside(path, ".new");
    // While it is ours, so that nobody else's goes.
    let _file = own(&new)?;
    fs::remove_file(&new)
}

/// Opens a file, empty, that nobody else writes to.
fn own(new: &Path) -> io::Result<File> {
    loop {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(new)?;
        match file.lock() {
            Err(cause) if cause.kind() != io::ErrorKind::Unsupported => return Err(cause),
            _ => {}
        }
        // Whoever had it before may have given it its name, or removed it.
        let (ours, there) = (file.metadata()?, fs::metadata(new));
        if there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
            file.set_len(0)?;
            return Ok(file);
        }
    }
}

/// The file beside `path` whose name has this ending besides.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_is_replaced_whole_or_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.b");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        let taken = dir.path().join("taken");
        fs::create_dir_all(taken.join("full")).unwrap();
        assert!(write(&taken, b"three").is_err());
        assert!(taken.join("full").exists() && !beside(&taken, ".new").exists());
    }

    #[test]
    fn many_that_write_one_file_at_once_take_turns() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m");
        let of = |writer: u8| vec![writer; 100_000 * usize::from(writer)];
        write(&path, &of(1)).unwrap();
        let (path, of) = (&path, &of);
        std::thread::scope(|scope| {
            let writers = (1..=4).map(|writer| scope.spawn(move || (0..20).all(|_| write(path, &of(writer)).is_ok())));
            let writers: Vec<_> = writers.collect();
            while writers.iter().any(|writer| !writer.is_finished()) {
                let read = fs::read(path).unwrap();
                assert!(read == of(read[0]), "{} bytes of writer {}", read.len(), read[0]);
            }
            assert!(writers.into_iter().all(|writer| writer.join().unwrap()));
        });
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
