//! The tables of a benchmark, made here.
//!
//! Nothing is downloaded: a generator produces the rows that a specification prescribes, and they are written
//! as one Parquet file a table. Generation takes seconds to minutes and may be interrupted, or run twice at
//! once; so the files are written aside and become visible by one rename, complete or not at all.
//!
//! Which tables there are and where their rows come from is all that a benchmark adds ([`crate::tpch`],
//! [`crate::tpcds`]).

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use arrow::error::ArrowError;
use arrow::record_batch::RecordBatchReader;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::scratch::Scratch;

/// Rows of one Parquet row group. Large enough to compress well, small enough that a scan of the middle
/// scale factors still splits over a few threads.
const ROW_GROUP: usize = 128 * 1024;

/// A table, and how it is made.
#[derive(Clone, Copy)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// What makes its rows at a scale factor that its benchmark allows.
    pub(crate) rows: fn(f64) -> Result<Rows, ArrowError>,
}

/// The rows of a table, before they are made.
pub(crate) struct Rows {
    pub(crate) batches: Box<dyn RecordBatchReader>,
    /// How many to expect, see [`Step::expected`].
    pub(crate) expected: u64,
}

/// How far the generation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The table that is being written.
    pub table: &'static str,
    /// Rows of it written so far.
    pub rows: u64,
    /// Rows it will have. Exact except where the number of rows is drawn, such as the lines of an order: there
    /// it is the mean, and the last step corrects it.
    pub expected: u64,
}

/// Why there is no data.
#[derive(Debug)]
pub enum DataError {
    /// The benchmark has no data of this scale factor.
    ScaleFactor {
        /// What was asked for.
        given: f64,
        /// What is possible, as what follows "a scale factor is".
        allowed: &'static str,
    },
    /// A directory has the right name but lacks a table; it was not made here.
    Incomplete {
        /// The directory.
        directory: PathBuf,
        /// A table it lacks.
        table: &'static str,
    },
    /// A file or directory could not be made, written or renamed.
    Io {
        /// What was attempted on.
        path: PathBuf,
        /// Why it failed.
        cause: io::Error,
    },
    /// A table could not be generated.
    Generate {
        /// The table.
        table: &'static str,
        /// Why it failed.
        cause: ArrowError,
    },
    /// A table could not be written as Parquet.
    Write {
        /// The file.
        path: PathBuf,
        /// Why it failed.
        cause: ParquetError,
    },
}

impl std::fmt::Display for DataError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ScaleFactor { given, allowed } => write!(f, "a scale factor is {allowed}, not {given}"),
            Self::Incomplete { directory, table } => write!(
                f,
                "{} exists but has no {table}.parquet; remove it to have the data generated again",
                directory.display()
            ),
            Self::Io { path, cause } => write!(f, "cannot write {}: {cause}", path.display()),
            Self::Generate { table, cause } => write!(f, "cannot generate the table {table}: {cause}"),
            Self::Write { path, cause } => write!(f, "cannot write {}: {cause}", path.display()),
        }
    }
}

impl std::error::Error for DataError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::ScaleFactor { .. } | Self::Incomplete { .. } => None,
            Self::Io { cause, .. } => Some(cause),
            Self::Generate { cause, .. } => Some(cause),
            Self::Write { cause, .. } => Some(cause),
        }
    }
}

/// The directory `NAME-sfSCALE_FACTOR` below `dir`, with `tables` in it. Makes them if they are not there yet,
/// and calls `report` as it goes.
///
/// # Errors
/// If something cannot be written, or the directory is there and lacks one of the tables.
pub(crate) fn ensure(
    dir: &Path,
    name: &str,
    tables: &[Table],
    scale_factor: f64,
    report: &mut dyn FnMut(Step),
) -> Result<PathBuf, DataError> {
    let name = format!("{name}-sf{scale_factor}");
    let target = dir.join(&name);
    if target.is_dir() {
        return match tables.iter().find(|table| !file_of(&target, table.name).is_file()) {
            None => Ok(target),
            Some(table) => Err(DataError::Incomplete { directory: target, table: table.name }),
        };
    }
    let scratch =
        Scratch::new(dir, &format!(".{name}")).map_err(|cause| DataError::Io { path: dir.to_owned(), cause })?;
    for table in tables {
        write_table(scratch.path(), table, scale_factor, report)?;
    }
    scratch.become_permanent(&target).map_err(|cause| DataError::Io { path: target.clone(), cause })?;
    Ok(target)
}

fn file_of(directory: &Path, table: &str) -> PathBuf {
    directory.join(format!("{table}.parquet"))
}

fn write_table(
    directory: &Path,
    table: &Table,
    scale_factor: f64,
    report: &mut dyn FnMut(Step),
) -> Result<(), DataError> {
    let path = file_of(directory, table.name);
    let io_failed = |cause| DataError::Io { path: path.clone(), cause };
    let write_failed = |cause| DataError::Write { path: path.clone(), cause };
    let generate_failed = |cause| DataError::Generate { table: table.name, cause };
    let Rows { batches, expected } = (table.rows)(scale_factor).map_err(generate_failed)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(ROW_GROUP))
        .build();
    let file = File::create(&path).map_err(io_failed)?;
    let mut writer = ArrowWriter::try_new(file, batches.schema(), Some(properties)).map_err(write_failed)?;
    let mut rows = 0;
    let mut tell = |rows, expected| report(Step { table: table.name, rows, expected });
    tell(rows, expected);
    for batch in batches {
        let batch = batch.map_err(generate_failed)?;
        writer.write(&batch).map_err(write_failed)?;
        rows += batch.num_rows() as u64;
        tell(rows, expected.max(rows));
    }
    writer.close().map_err(write_failed)?;
    // The rename that follows must not become durable before the contents.
    File::open(&path).and_then(|file| file.sync_all()).map_err(io_failed)?;
    tell(rows, rows);
    Ok(())
}
