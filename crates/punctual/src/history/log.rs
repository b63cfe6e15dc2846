//! The log of a part: rows as they came, one frame each.
//!
//! A log that was left behind is looked through before anything is appended to it or made of it. A torn tail is cut
//! off. Damage elsewhere is worse: the file is kept aside as `.damaged`, and its log holds what could still be read.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::hours::Part;
use super::row::Row;
use super::{HistoryError, LOG_VERSION};
use crate::record::frame::{self, Format, Frames, Next, Opened};

/// What a log begins with.
pub(crate) const FORMAT: Format = Format { magic: *b"PNCTHIST", version: LOG_VERSION, oldest: 1 };

/// Fields at the end of a row that a version lacks; each may be absent.
fn lacks(version: u32) -> usize {
    match version {
        1 => 4,
        2 => 1,
        _ => 0,
    }
}

/// A row as a log of that version holds it; None if it does not.
pub(crate) fn row_of(version: u32, payload: &[u8]) -> Option<Row> {
    match lacks(version) {
        0 => postcard::from_bytes(payload).ok(),
        // What is absent is written as a zero.
        lacks => postcard::from_bytes(&[payload, &vec![0; lacks]].concat()).ok(),
    }
}

/// What was wrong with a log when a writer started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The log.
    pub file: PathBuf,
    /// Rows that are still there.
    pub kept_rows: u64,
    /// Bytes that are not.
    pub lost_bytes: u64,
    /// Where the file as it was found is; None if only its torn end was cut off.
    pub moved_to: Option<PathBuf>,
}

/// What became of a log that was looked through.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mended {
    /// It is there, with that many good bytes; `old`: in an older version, to which nothing is appended.
    Usable { good: u64, old: bool },
    /// It held nothing, and is gone.
    Gone,
    /// It was written by another version, or cannot be read; it is left as it is.
    LeftAlone,
}

/// Looks a log through and repairs it.
///
/// # Errors
/// If what is to be repaired cannot be.
pub(crate) fn mend(dir: &Path, part: Part) -> Result<(Mended, Option<Repair>), HistoryError> {
    let path = dir.join(part.file("log"));
    let aside = dir.join(part.file("log.damaged"));
    let repair = |kept_rows, lost_bytes, moved_to| Repair { file: path.clone(), kept_rows, lost_bytes, moved_to };
    let file = File::open(&path).map_err(HistoryError::io("open", &path))?;
    let bytes = file.metadata().map_err(HistoryError::io("open", &path))?.len();
    match frame::open(file, FORMAT).map_err(HistoryError::io("read", &path))? {
        Opened::Torn => {
            fs::remove_file(&path).map_err(HistoryError::io("remove", &path))?;
            Ok((Mended::Gone, (bytes > 0).then(|| repair(0, bytes, None))))
        }
        Opened::Foreign => {
            fs::rename(&path, &aside).map_err(HistoryError::io("move aside", &path))?;
            Ok((Mended::Gone, Some(repair(0, bytes, Some(aside)))))
        }
        Opened::Version(found) => {
            tracing::warn!(file = %path.display(), found, known = LOG_VERSION, "a log of another version is left alone");
            Ok((Mended::LeftAlone, None))
        }
        Opened::Frames(mut frames) => {
            let seen = look_through(&mut frames).map_err(HistoryError::io("read", &path))?;
            let old = frames.version() != LOG_VERSION;
            if seen.damaged == 0 && seen.torn == 0 {
                return Ok((Mended::Usable { good: seen.good, old }, None));
            }
            if seen.damaged == 0 && seen.plain {
                let file = File::options().write(true).open(&path).map_err(HistoryError::io("open", &path))?;
                file.set_len(seen.good).map_err(HistoryError::io("cut", &path))?;
                return Ok((Mended::Usable { good: seen.good, old }, Some(repair(seen.rows, seen.torn, None))));
            }
            let good = salvage(dir, part, &aside).map_err(HistoryError::io("repair", &path))?;
            Ok((Mended::Usable { good, old }, Some(repair(seen.rows, seen.damaged + seen.torn, Some(aside)))))
        }
    }
}

struct Seen {
    rows: u64,
    /// The end of the last good frame.
    good: u64,
    damaged: u64,
    torn: u64,
    plain: bool,
}

fn look_through(frames: &mut Frames) -> io::Result<Seen> {
    let mut seen = Seen { rows: 0, good: frames.at(), damaged: 0, torn: 0, plain: true };
    loop {
        match frames.next()? {
            Next::Frame(_) => {
                seen.rows += 1;
                seen.good = frames.at();
            }
            Next::Damaged { bytes } => seen.damaged += bytes,
            Next::Torn { bytes, plain } => (seen.torn, seen.plain) = (bytes, plain),
            Next::End => return Ok(seen),
        }
    }
}

/// Replaces a damaged log by one of its good frames, and keeps it aside. At no time are both names missing.
fn salvage(dir: &Path, part: Part, aside: &Path) -> io::Result<u64> {
    let path = dir.join(part.file("log"));
    let temporary = dir.join(part.file("log.tmp"));
    let Opened::Frames(mut frames) = frame::open(File::open(&path)?, FORMAT)? else {
        return Err(io::Error::other("it changed meanwhile"));
    };
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    let mut out = BufWriter::new(file);
    out.write_all(&Format { version: frames.version(), ..FORMAT }.header())?;
    let mut framed = Vec::new();
    loop {
        match frames.next()? {
            Next::Frame(payload) => {
                framed.clear();
                frame::append(&mut framed, payload);
                out.write_all(&framed)?;
            }
            Next::Damaged { .. } | Next::Torn { .. } => {}
            Next::End => break,
        }
    }
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    match fs::remove_file(aside) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
        _ => fs::hard_link(&path, aside)?,
    }
    fs::rename(&temporary, &path)?;
    Ok(file.metadata()?.len())
}

/// The rows of a log, which may be growing.
#[derive(Debug)]
pub(crate) struct LogRows {
    file: PathBuf,
    frames: Frames,
}

impl LogRows {
    /// Opens a log. None if there is not even a header yet.
    ///
    /// # Errors
    /// If it is no log, or one of another version.
    pub(crate) fn open(path: &Path, file: File) -> Result<Option<LogRows>, HistoryError> {
        let owned = path.to_owned();
        match frame::open(file, FORMAT).map_err(HistoryError::io("read", path))? {
            Opened::Frames(frames) => Ok(Some(LogRows { file: owned, frames })),
            Opened::Torn => Ok(None),
            Opened::Foreign => Err(HistoryError::NotHistory { file: owned }),
            Opened::Version(found) => {
                Err(HistoryError::Version { file: owned, found: found.to_string(), known: LOG_VERSION })
            }
        }
    }

    /// The next row, or what is damaged before it. A torn tail is what a writer has not written yet.
    pub(crate) fn next(&mut self) -> Option<Result<Row, HistoryError>> {
        let damaged = |bytes| HistoryError::Damaged { file: self.file.clone(), bytes };
        let version = self.frames.version();
        match self.frames.next() {
            Ok(Next::Frame(payload)) => Some(row_of(version, payload).ok_or_else(|| damaged(payload.len() as u64))),
            Ok(Next::Damaged { bytes } | Next::Torn { bytes, plain: false }) => Some(Err(damaged(bytes))),
            Ok(Next::Torn { plain: true, .. } | Next::End) => None,
            Err(cause) => {
                // What cannot be read now is not tried for ever.
                self.frames.give_up();
                Some(Err(HistoryError::io("read", &self.file)(cause)))
            }
        }
    }
}
