//! History: one row for each query that has ended, to learn from, to look at, and to simulate with.
//!
//! ```text
//!   driver ── Recorder (a bounded queue) ──▶ writing thread ──▶ history-2026-11-29T14.log
//!                                                 │ an hour later, in the background
//!                                                 ▼
//!                                            history-2026-11-29T14.parquet ──▶ read()
//! ```
//!
//! - Recording never waits, and never fails in a way that reaches a query: what finds no room, in the queue or on the
//!   disk, is dropped and counted.
//! - A row is in its file within a second, so a killed process loses no more than that (a machine that loses its power
//!   may, unless [`Options::fsync`] is set). A torn or damaged log never stops a start.
//! - Hours become Parquet, one file each unless rows come late. The directory is bounded: the oldest hours go first.
//! - [`read`] sees all of it as one, and foreign Parquet files too. A trace is the same schema.
//!
//! Formats: logs are version [`LOG_VERSION`]; versions 1 and 2 are read, too: they end before `priority` and
//! before `blocked`, and what they do not have is not known. Parquet files say [`PARQUET_VERSION`] in their metadata (`punctual.history`), which stays the same
//! when a column is added: columns that a file lacks are not known, and those that a build does not know are passed over.
//! Any other version is refused with its number.

mod bulk;
mod columns;
mod hash;
mod hours;
mod log;
mod parquet;
mod reader;
mod row;
mod shelf;
mod writer;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use ::parquet::errors::ParquetError;

pub(crate) use self::parquet::caught;
pub use crate::record::error::FileError;
pub(crate) use bulk::Bulk;
pub(crate) use columns::fingerprint_of;
pub(crate) use hash::Key;
pub use log::Repair;
pub use reader::{Reader, read};
pub use row::{MAX_SQL, Names, Row};
pub use writer::{Clock, Counts, Options, Recorder, Writer};

/// The version of the logs that are written.
pub const LOG_VERSION: u32 = 3;

/// The version of the Parquet files that are written, and the only one that is read, foreign files apart.
pub const PARQUET_VERSION: u32 = 1;

/// The file that is locked while someone writes to its directory.
const LOCK_FILE: &str = "history.lock";

/// Why history cannot be written or read.
#[derive(Debug)]
pub enum HistoryError {
    /// The operating system says no.
    Io(FileError),
    /// Another writer has the directory.
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// A new history was to be made where there is something already.
    Occupied {
        /// The directory.
        dir: PathBuf,
    },
    /// There is no history there, nor was there any.
    NoHistory {
        /// The directory.
        dir: PathBuf,
    },
    /// The file is neither a log of history nor Parquet.
    NotHistory {
        /// The file.
        file: PathBuf,
    },
    /// Written in a format of another version.
    Version {
        /// The file.
        file: PathBuf,
        /// Its version.
        found: String,
        /// The newest version that is read.
        known: u32,
    },
    /// Part of a log is not what was written.
    Damaged {
        /// The log.
        file: PathBuf,
        /// How many bytes.
        bytes: u64,
    },
    /// The Parquet file cannot be read or written.
    Parquet {
        /// The file.
        file: PathBuf,
        /// Why not.
        cause: ParquetError,
    },
    /// A column is missing that every trace needs.
    MissingColumn {
        /// The file.
        file: PathBuf,
        /// The column.
        column: &'static str,
    },
    /// A column has a type or values that do not stand for what it should hold.
    Column {
        /// The file.
        file: PathBuf,
        /// The column.
        column: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A value makes no sense.
    Value {
        /// The file.
        file: PathBuf,
        /// The row, counted from 1.
        row: u64,
        /// The column.
        column: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The writing thread is gone.
    WriterGone,
}

impl HistoryError {
    /// Says what was tried with which file when it fails.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> HistoryError + use<> {
        let failed = FileError::of(doing, path);
        move |cause| HistoryError::Io(failed(cause))
    }
}

impl fmt::Display for HistoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HistoryError::Io(error) => error.fmt(f),
            HistoryError::InUse { dir } => write!(f, "another gateway or import writes to {}", dir.display()),
            HistoryError::Occupied { dir } => write!(f, "there is something in {} already", dir.display()),
            HistoryError::NoHistory { dir } => write!(f, "there is no history in {}", dir.display()),
            HistoryError::NotHistory { file } => {
                let file = file.display();
                write!(
                    f,
                    "{file} is neither a log of history nor a Parquet file; punctual import makes a history of other logs"
                )
            }
            HistoryError::Version { file, found, known } => {
                write!(f, "{} has format version {found}; this build reads versions up to {known}", file.display())
            }
            HistoryError::Damaged { file, bytes } => write!(f, "{}: {bytes} bytes are damaged", file.display()),
            HistoryError::Parquet { file, cause } => write!(f, "{}: {cause}", file.display()),
            HistoryError::MissingColumn { file, column } => {
                write!(f, "{}: there is no column {column}", file.display())
            }
            HistoryError::Column { file, column, why } => write!(f, "{}: column {column}: {why}", file.display()),
            HistoryError::Value { file, row, column, why } => {
                write!(f, "{}: row {row}, column {column}: {why}", file.display())
            }
            HistoryError::WriterGone => f.write_str("the thread that writes history has ended"),
        }
    }
}

impl From<FileError> for HistoryError {
    fn from(error: FileError) -> HistoryError {
        HistoryError::Io(error)
    }
}

impl std::error::Error for HistoryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            HistoryError::Io(error) => error.source(),
            HistoryError::Parquet { cause, .. } => Some(cause),
            _ => None,
        }
    }
}
