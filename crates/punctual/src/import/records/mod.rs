//! Records from files: CSV, JSON lines and Parquet, each also in gzip, told apart by what is in them.
//!
//! A reader is asked for columns by name and gives a record's values in that order, so that everything behind it sees
//! one kind of record and nothing is kept of columns that nobody asked for. It holds one record, or one batch of
//! Parquet, at a time; a record that is larger than [`MAX_RECORD`] is refused rather than held.

mod csv;
mod json;
mod parquet;
mod source;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use super::error::ImportError;
use super::refusal::Refusal;
use source::Found;

/// The largest record in bytes. Tests make do with less.
pub(crate) const MAX_RECORD: usize = if cfg!(test) { 2 << 20 } else { 64 << 20 };

/// A value as its file has it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    /// Nothing, or one of the words for it.
    Null,
    /// Text, which may be a number.
    Text(String),
    /// A whole number.
    Whole(i128),
    /// A number in floating point.
    Real(f64),
    /// An instant, in microseconds since 1970.
    Time(i64),
    /// An instant on a clock whose zone is not known, in microseconds since 1970 there.
    Local(i64),
}

impl Cell {
    /// What text in a file without types stands for: nothing, if it says so.
    pub(crate) fn of_text(text: &str) -> Cell {
        match text.trim() {
            "" | "\\N" | "NULL" | "null" | "Null" | "None" => Cell::Null,
            _ => Cell::Text(text.to_owned()),
        }
    }

    /// As people read it; None for null.
    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Cell::Null => None,
            Cell::Text(text) => Some(text.trim().to_owned()),
            Cell::Whole(number) => Some(number.to_string()),
            Cell::Real(number) => Some(number.to_string()),
            Cell::Time(micros) | Cell::Local(micros) => Some(micros.to_string()),
        }
    }
}

/// A record: the values of the columns that were asked for, in that order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Record {
    /// The values.
    pub(crate) cells: Vec<Cell>,
    /// The line that it begins on, or in Parquet its row; counted from 1.
    pub(crate) at: u64,
}

/// What came next.
#[derive(Debug, PartialEq)]
pub(crate) enum Read {
    /// The record was filled in.
    Record,
    /// It cannot be read; its place was filled in.
    Spoilt(Refusal),
    /// Nothing any more.
    End,
}

/// How to read files that do not say it themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading<'a> {
    /// What stands between the values of CSV.
    pub(crate) delimiter: u8,
    /// The columns of CSV that has no header, more than may be there.
    pub(crate) header: Option<&'static [&'static str]>,
    /// A directory for temporary files.
    pub(crate) scratch: &'a Path,
}

/// A file that is being read.
pub(crate) struct Input {
    path: PathBuf,
    format: Format,
}

enum Format {
    Csv(csv::Lines),
    Json(json::Lines),
    Parquet(parquet::Rows),
    /// Not a byte.
    Empty,
}

impl Input {
    /// Opens a file and reads as much as tells its columns.
    ///
    /// # Errors
    /// If it cannot be read, or is of a kind that is not understood.
    pub(crate) fn open(path: &Path, how: Reading<'_>) -> Result<Input, ImportError> {
        let failed = |cause| ImportError::Read { file: path.to_owned(), cause };
        let format = match source::open(path, how.scratch)? {
            Found::Empty => Format::Empty,
            Found::Parquet(file) => Format::Parquet(parquet::Rows::open(path, file)?),
            Found::Json(stream) => Format::Json(json::Lines::open(stream).map_err(failed)?),
            Found::Text(stream) => Format::Csv(csv::Lines::open(path, stream, how.delimiter, how.header)?),
        };
        Ok(Input { path: path.to_owned(), format })
    }

    /// The columns, nested ones as `outer.inner`. Of JSON lines, those of the first record.
    pub(crate) fn columns(&self) -> &[String] {
        match &self.format {
            Format::Csv(lines) => lines.columns(),
            Format::Json(lines) => lines.columns(),
            Format::Parquet(rows) => rows.columns(),
            Format::Empty => &[],
        }
    }

    /// True if there is nothing in it, not even a header.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self.format, Format::Empty)
    }

    /// Asks for these columns. A name matches as it is, or else in another case. True for those that are there; in JSON
    /// lines a column that is not in the first record may still come: see [`Input::seen`].
    ///
    /// # Errors
    /// If a column that is asked for is there twice.
    pub(crate) fn ask(&mut self, wanted: &[String]) -> Result<Vec<bool>, ImportError> {
        let found: Vec<Option<usize>> =
            wanted.iter().map(|name| find(&self.path, self.columns(), name)).collect::<Result<_, _>>()?;
        let there = found.iter().map(Option::is_some).collect();
        match &mut self.format {
            Format::Csv(lines) => lines.ask(found),
            Format::Json(lines) => lines.ask(wanted),
            Format::Parquet(rows) => rows.ask(&found)?,
            Format::Empty => {}
        }
        Ok(there)
    }

    /// Reads the next record.
    ///
    /// # Errors
    /// If the file cannot be read any further.
    pub(crate) fn next(&mut self, record: &mut Record) -> Result<Read, ImportError> {
        let failed = |cause| ImportError::Read { file: self.path.clone(), cause };
        match &mut self.format {
            Format::Csv(lines) => lines.next(record).map_err(failed),
            Format::Json(lines) => lines.next(record).map_err(failed),
            Format::Parquet(rows) => rows.next(record),
            Format::Empty => Ok(Read::End),
        }
    }

    /// Which of the columns that were asked for have been there in at least one record: in JSON lines not each record
    /// has them all. None where the header told it.
    pub(crate) fn seen(&self) -> Option<&[bool]> {
        match &self.format {
            Format::Json(lines) => Some(lines.seen()),
            _ => None,
        }
    }

    /// True if [`Record::at`] counts rows, not lines.
    pub(crate) fn counts_rows(&self) -> bool {
        matches!(self.format, Format::Parquet(_))
    }

    /// Bytes of the file that have been read, about.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.format {
            Format::Csv(lines) => lines.bytes(),
            Format::Json(lines) => lines.bytes(),
            Format::Parquet(rows) => rows.bytes(),
            Format::Empty => 0,
        }
    }
}

/// Where a column is.
fn find(path: &Path, columns: &[String], wanted: &str) -> Result<Option<usize>, ImportError> {
    let matching = |same: fn(&str, &str) -> bool| {
        let mut at = columns.iter().enumerate().filter(|(_, name)| same(name, wanted)).map(|(at, _)| at);
        (at.next(), at.next())
    };
    let mut found = matching(|name, wanted| name == wanted);
    if found.0.is_none() {
        found = matching(|name, wanted| name.eq_ignore_ascii_case(wanted));
    }
    match found {
        (at, None) => Ok(at),
        (_, Some(_)) => Err(ImportError::Twice { file: path.to_owned(), column: wanted.to_owned() }),
    }
}
