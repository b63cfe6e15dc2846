//! Files that appear whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes `bytes` to `path`, over what is there.
///
/// # Errors
/// If it cannot be written; what was there stays then.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = beside(path, ".new");
    let mut file = File::create(&new)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
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
}
