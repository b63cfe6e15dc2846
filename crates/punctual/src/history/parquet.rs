//! Parquet files of history: written whole or not at all, read a batch at a time.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatchReader;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use super::columns::{self, Columns, Unreadable};
use super::row::Row;
use super::{HistoryError, PARQUET_VERSION};

/// Rows that are converted at once, unless they are large.
const BATCH_ROWS: usize = 4_096;

/// Bytes of rows that are converted at once.
const BATCH_BYTES: usize = 8 << 20;

/// Encoded bytes after which a row group is written out.
const GROUP_BYTES: usize = 32 << 20;

/// Rows that are read at once.
const READ_ROWS: usize = 512;

/// The key of the format's version in a file's metadata; files without it are foreign.
const VERSION_KEY: &str = "punctual.history";

/// A Parquet file that is being written under a temporary name.
pub(crate) struct Sheet {
    writer: ArrowWriter<File>,
    rows: Vec<Row>,
    bytes: usize,
    temporary: PathBuf,
    path: PathBuf,
}

impl Sheet {
    /// Begins the file that is to be at `path`.
    pub(crate) fn create(path: &Path, temporary: PathBuf) -> Result<Sheet, HistoryError> {
        let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&temporary);
        let file = file.map_err(HistoryError::io("create", &temporary))?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(vec![KeyValue::new(VERSION_KEY.into(), PARQUET_VERSION.to_string())]))
            .build();
        let writer = ArrowWriter::try_new(file, columns::schema(), Some(properties))
            .map_err(|cause| HistoryError::Parquet { file: temporary.clone(), cause })?;
        Ok(Sheet { writer, rows: Vec::new(), bytes: 0, temporary, path: path.to_owned() })
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, row: Row) -> Result<(), HistoryError> {
        self.bytes += row.weight();
        self.rows.push(row);
        if self.rows.len() >= BATCH_ROWS || self.bytes >= BATCH_BYTES { self.encode() } else { Ok(()) }
    }

    /// Completes the file, on disk for good, and gives it its name.
    pub(crate) fn finish(mut self) -> Result<(), HistoryError> {
        self.encode()?;
        let Sheet { writer, temporary, path, .. } = self;
        let failed = |cause| HistoryError::Parquet { file: temporary.clone(), cause };
        let file = writer.into_inner().map_err(failed)?;
        file.sync_all().map_err(HistoryError::io("write", &temporary))?;
        fs::rename(&temporary, &path).map_err(HistoryError::io("name", &path))?;
        sync_dir_of(&path).map_err(HistoryError::io("write the directory of", &path))
    }

    fn encode(&mut self) -> Result<(), HistoryError> {
        let batch = columns::batch_of(&self.rows);
        (self.bytes, self.rows) = (0, Vec::new());
        let failed = |cause| HistoryError::Parquet { file: self.temporary.clone(), cause };
        self.writer.write(&batch).map_err(failed)?;
        if self.writer.in_progress_size() >= GROUP_BYTES {
            self.writer.flush().map_err(failed)?;
        }
        Ok(())
    }
}

/// Makes a rename in the directory of `path` last.
fn sync_dir_of(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}

/// The rows of a Parquet file, ours or foreign.
pub(crate) struct Rows {
    file: PathBuf,
    batches: ParquetRecordBatchReader,
    columns: Option<Columns>,
    next: usize,
    /// Rows in the batches before this one.
    before: usize,
    over: bool,
}

impl Rows {
    /// Opens a file.
    ///
    /// # Errors
    /// If it is no Parquet file, one of another version, or lacks a column that is needed.
    pub(crate) fn open(path: &Path, file: File) -> Result<Rows, HistoryError> {
        let failed = |cause| HistoryError::Parquet { file: path.to_owned(), cause };
        let builder = caught(|| ParquetRecordBatchReaderBuilder::try_new(file)).map_err(failed)?;
        let metadata = builder.metadata().file_metadata().key_value_metadata();
        let version = metadata.into_iter().flatten().find(|pair| pair.key == VERSION_KEY);
        let version = version.and_then(|pair| pair.value.clone());
        if let Some(found) = version.filter(|version| *version != PARQUET_VERSION.to_string()) {
            return Err(HistoryError::Version { file: path.to_owned(), found, known: PARQUET_VERSION });
        }
        let batches = caught(|| builder.with_batch_size(READ_ROWS).build()).map_err(failed)?;
        columns::check(&batches.schema()).map_err(|why| unreadable(path, 0, why))?;
        Ok(Rows { file: path.to_owned(), batches, columns: None, next: 0, before: 0, over: false })
    }

    /// The next row, or why it cannot be read. After a batch that cannot, there is nothing any more.
    pub(crate) fn next(&mut self) -> Option<Result<Row, HistoryError>> {
        while !self.over {
            if let Some(columns) = self.columns.as_mut().filter(|columns| self.next < columns.len()) {
                let at = self.next;
                self.next += 1;
                return Some(columns.row(at).map_err(|why| unreadable(&self.file, self.before, why)));
            }
            self.before += self.columns.as_ref().map_or(0, Columns::len);
            (self.columns, self.next) = (None, 0);
            let columns = match caught(|| Ok(self.batches.next().transpose()?)) {
                Ok(Some(batch)) => Columns::of(&batch).map_err(|why| unreadable(&self.file, self.before, why)),
                Ok(None) => {
                    self.over = true;
                    return None;
                }
                Err(cause) => Err(HistoryError::Parquet { file: self.file.clone(), cause }),
            };
            match columns {
                Ok(columns) => self.columns = Some(columns),
                Err(cause) => {
                    self.over = true;
                    return Some(Err(cause));
                }
            }
        }
        None
    }
}

/// What the Parquet library says, even if it panics: some damaged files make it do so.
pub(crate) fn caught<T>(read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    let panicked = |_| Err(ParquetError::General("the file is damaged".into()));
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(panicked)
}

fn unreadable(file: &Path, before: usize, why: Unreadable) -> HistoryError {
    let file = file.to_owned();
    match why {
        Unreadable::Missing(column) => HistoryError::MissingColumn { file, column },
        Unreadable::Type { column, why } => HistoryError::Column { file, column, why },
        Unreadable::Value { row, column, why } => {
            HistoryError::Value { file, row: (before + row + 1) as u64, column, why }
        }
    }
}
