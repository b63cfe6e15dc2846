//! Reading history: logs and Parquet files as one sequence of rows.
//!
//! A reader takes no lock, and what it reads may be rolled up or removed meanwhile. What it has opened stays readable;
//! a log that has gone before it was opened has become a Parquet file of the same name, or is too old to be kept.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::hours::{self, Files, Part};
use super::log::{self, LogRows};
use super::parquet::Rows;
use super::row::Row;
use super::{HistoryError, LOCK_FILE};
use crate::record::frame::{self, Opened};

/// The rows of a history, by the hour in which they ended, oldest first. An error is about a row, or about the rest of
/// a file: the iterator goes on after it with what can be read.
pub struct Reader {
    sources: VecDeque<Source>,
    current: Option<Current>,
}

enum Source {
    Part { dir: PathBuf, part: Part },
    Opened(Current),
}

enum Current {
    Log(LogRows),
    Parquet(Box<Rows>),
}

/// Reads a history directory, or one file: Parquet (foreign too) or a log. Needs little memory, however much there is.
///
/// # Errors
/// If there is nothing there, or the file is of another kind, another version, or lacks a column that is needed.
pub fn read(path: &Path) -> Result<Reader, HistoryError> {
    let metadata = fs::metadata(path).map_err(HistoryError::io("read", path))?;
    if !metadata.is_dir() {
        let opened = open_file(path)?;
        return Ok(Reader { sources: opened.map(Source::Opened).into_iter().collect(), current: None });
    }
    let parts = settled_parts(path).map_err(HistoryError::io("read", path))?;
    if parts.is_empty() && !path.join(LOCK_FILE).exists() {
        return Err(HistoryError::NoHistory { dir: path.to_owned() });
    }
    let readable = parts.into_iter().filter(|(_, files)| files.log.is_some() || files.parquet.is_some());
    let sources = readable.map(|(part, _)| Source::Part { dir: path.to_owned(), part }).collect();
    Ok(Reader { sources, current: None })
}

/// The parts of a directory, seen twice: a listing taken while a log becomes Parquet may show neither.
fn settled_parts(dir: &Path) -> io::Result<BTreeMap<Part, Files>> {
    let mut parts = hours::parts(dir)?;
    for _ in 0..4 {
        let again = hours::parts(dir)?;
        let settled = again.keys().eq(parts.keys());
        parts = again;
        if settled {
            break;
        }
    }
    Ok(parts)
}

/// A file by what is in it.
fn open_file(path: &Path) -> Result<Option<Current>, HistoryError> {
    let open = || File::open(path).map_err(HistoryError::io("open", path));
    match frame::open(open()?, log::FORMAT).map_err(HistoryError::io("read", path))? {
        Opened::Frames(_) | Opened::Version(_) => Ok(LogRows::open(path, open()?)?.map(Current::Log)),
        Opened::Torn | Opened::Foreign => {
            let mut magic = [0; 4];
            let parquet = io::Read::read_exact(&mut open()?, &mut magic).is_ok() && &magic == b"PAR1";
            if !parquet {
                return Err(HistoryError::NotHistory { file: path.to_owned() });
            }
            Rows::open(path, open()?).map(|rows| Some(Current::Parquet(Box::new(rows))))
        }
    }
}

/// A part as it is now: its Parquet file if there is one, else its log. None if it has gone.
fn open_part(dir: &Path, part: Part) -> Result<Option<Current>, HistoryError> {
    let parquet = dir.join(part.file("parquet"));
    let log = dir.join(part.file("log"));
    // The log may become the Parquet file between the two looks; a second round then finds it.
    for _ in 0..2 {
        if let Some(file) = open_if_there(&parquet)? {
            return Rows::open(&parquet, file).map(|rows| Some(Current::Parquet(Box::new(rows))));
        }
        if let Some(file) = open_if_there(&log)? {
            return Ok(LogRows::open(&log, file)?.map(Current::Log));
        }
    }
    Ok(None)
}

fn open_if_there(path: &Path) -> Result<Option<File>, HistoryError> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(HistoryError::io("open", path)(cause)),
    }
}

impl Iterator for Reader {
    type Item = Result<Row, HistoryError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let row = match &mut self.current {
                Some(Current::Log(rows)) => rows.next(),
                Some(Current::Parquet(rows)) => rows.next(),
                None => None,
            };
            if row.is_some() {
                return row;
            }
            self.current = match self.sources.pop_front()? {
                Source::Opened(current) => Some(current),
                Source::Part { dir, part } => match open_part(&dir, part) {
                    Ok(current) => current,
                    Err(cause) => {
                        self.current = None;
                        return Some(Err(cause));
                    }
                },
            };
        }
    }
}

#[cfg(test)]
mod tests;
