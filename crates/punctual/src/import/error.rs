//! Why an import cannot go on. Nothing has been written then.

use std::fmt;
use std::io;
use std::path::PathBuf;

use parquet::errors::ParquetError;

use super::refusal::Refusal;
use crate::history::HistoryError;

/// A record's place in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file: PathBuf,
    /// Its line or row, counted from 1.
    pub(crate) at: u64,
    /// True if rows are counted, not lines.
    pub(crate) row: bool,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let between = if self.row { ", row " } else { ":" };
        write!(f, "{}{between}{}", self.file.display(), self.at)
    }
}

/// Why an import cannot be done.
#[derive(Debug)]
pub(crate) enum ImportError {
    /// A file cannot be read.
    Read { file: PathBuf, cause: io::Error },
    /// A Parquet file cannot be read.
    Parquet { file: PathBuf, cause: ParquetError },
    /// A file is in UTF-16.
    Utf16 { file: PathBuf },
    /// A file is one array of JSON.
    JsonArray { file: PathBuf },
    /// A column that is needed, or was asked for, is not there.
    MissingColumn { file: PathBuf, column: String, nearest: Option<String>, columns: Vec<String> },
    /// A column that is needed is there twice.
    Twice { file: PathBuf, column: String },
    /// A record is bad, and the import is to stop at the first one that is.
    Strict { place: Place, refusal: Refusal },
    /// The file with a query's text cannot be read.
    Text { place: Place, file: PathBuf, cause: io::Error },
    /// Rows cannot be put in order on the disk.
    Spill { file: PathBuf, cause: io::Error },
    /// History cannot be written.
    History(HistoryError),
    /// It was told to stop.
    Stopped,
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImportError::Read { file, cause } => write!(f, "cannot read {}: {cause}", file.display()),
            ImportError::Parquet { file, cause } => write!(f, "cannot read {}: {cause}", file.display()),
            ImportError::Utf16 { file } => {
                write!(f, "{} is in UTF-16; convert it: iconv -f UTF-16 -t UTF-8", file.display())
            }
            ImportError::JsonArray { file } => {
                write!(f, "{} is one JSON array; make it lines: jq -c '.[]'", file.display())
            }
            ImportError::MissingColumn { file, column, nearest, columns } => {
                write!(f, "{}: there is no column {column}", file.display())?;
                match nearest {
                    Some(nearest) => write!(f, "; did you mean {nearest}?"),
                    None => write!(f, "; there are {}", listed(columns)),
                }
            }
            ImportError::Twice { file, column } => {
                write!(f, "{}: the column {column} is there twice", file.display())
            }
            ImportError::Strict { place, refusal } => write!(f, "{place}: {refusal}"),
            ImportError::Text { place, file, cause } => {
                write!(f, "{place}: cannot read the query's text from {}: {cause}", file.display())
            }
            ImportError::Spill { file, cause } => write!(f, "cannot sort rows in {}: {cause}", file.display()),
            ImportError::History(cause @ HistoryError::Occupied { .. }) => {
                write!(f, "{cause}; --append adds to a history")
            }
            ImportError::History(cause) => cause.fmt(f),
            ImportError::Stopped => f.write_str("stopped; nothing was written"),
        }
    }
}

impl std::error::Error for ImportError {}

impl From<HistoryError> for ImportError {
    fn from(cause: HistoryError) -> ImportError {
        ImportError::History(cause)
    }
}

/// The columns that a message lists.
const LISTED: usize = 40;

fn listed(columns: &[String]) -> String {
    let more = if columns.len() > LISTED { ", …" } else { "" };
    format!("{}{more}", columns[..columns.len().min(LISTED)].join(", "))
}
