//! Parquet: the columns that were asked for, a batch at a time.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, Schema, TimeUnit, UInt64Type};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;

use super::{Cell, Read, Record};
use crate::history::caught;
use crate::import::error::ImportError;

/// Rows that are read at once.
const BATCH: usize = 1_024;

/// A Parquet file that is being read.
pub(super) struct Rows {
    path: PathBuf,
    file: Arc<File>,
    bytes: u64,
    rows: u64,
    metadata: ArrowReaderMetadata,
    columns: Vec<String>,
    asked: Vec<Option<String>>,
    batches: Option<ParquetRecordBatchReader>,
    batch: Vec<Option<ArrayRef>>,
    length: usize,
    next: usize,
    before: u64,
}

impl Rows {
    pub(super) fn open(path: &Path, file: File) -> Result<Rows, ImportError> {
        let failed = |cause| ImportError::Parquet { file: path.to_owned(), cause };
        let bytes = file.metadata().map_or(0, |metadata| metadata.len());
        let metadata = caught(|| ArrowReaderMetadata::load(&file, Default::default())).map_err(failed)?;
        let rows = u64::try_from(metadata.metadata().file_metadata().num_rows()).unwrap_or(0);
        let mut columns = Vec::new();
        flatten(metadata.schema(), &mut columns);
        Ok(Rows {
            path: path.to_owned(),
            file: Arc::new(file),
            bytes,
            rows,
            metadata,
            columns,
            asked: Vec::new(),
            batches: None,
            batch: Vec::new(),
            length: 0,
            next: 0,
            before: 0,
        })
    }

    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    pub(super) fn bytes(&self) -> u64 {
        let done = self.before + self.next as u64;
        (u128::from(self.bytes) * u128::from(done) / u128::from(self.rows.max(1))) as u64
    }

    pub(super) fn ask(&mut self, found: &[Option<usize>]) -> Result<(), ImportError> {
        self.asked = found.iter().map(|at| at.map(|at| self.columns[at].clone())).collect();
        let roots: Vec<usize> = self
            .metadata
            .schema()
            .fields()
            .iter()
            .enumerate()
            .filter(|(_, field)| self.asked.iter().flatten().any(|name| name.split('.').next() == Some(field.name())))
            .map(|(at, _)| at)
            .collect();
        let failed = |cause| ImportError::Parquet { file: self.path.clone(), cause };
        let file = self.file.try_clone().map_err(|cause| failed(ParquetError::External(Box::new(cause))))?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone());
        let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
        let batches = caught(|| builder.with_projection(mask).with_batch_size(BATCH).build()).map_err(failed)?;
        self.batches = Some(batches);
        Ok(())
    }

    pub(super) fn next(&mut self, record: &mut Record) -> Result<Read, ImportError> {
        while self.next >= self.length {
            let Some(batches) = &mut self.batches else { return Ok(Read::End) };
            let failed = |cause| ImportError::Parquet { file: self.path.clone(), cause };
            let Some(batch) = caught(|| Ok(batches.next().transpose()?)).map_err(failed)? else {
                self.batches = None;
                return Ok(Read::End);
            };
            let column = |name: &Option<String>| -> Result<Option<ArrayRef>, ParquetError> {
                name.as_ref().and_then(|name| find(&batch, name)).map(|column| plain(&column)).transpose()
            };
            self.batch = self.asked.iter().map(column).collect::<Result<_, _>>().map_err(failed)?;
            self.before += self.next as u64;
            (self.length, self.next) = (batch.num_rows(), 0);
        }
        record.cells.clear();
        record.cells.extend(self.batch.iter().map(|column| column.as_ref().map_or(Cell::Null, |c| cell(c, self.next))));
        self.next += 1;
        record.at = self.before + self.next as u64;
        Ok(Read::Record)
    }
}

/// The names of a schema's columns, those of inner ones after the outer one's name.
fn flatten(schema: &Schema, names: &mut Vec<String>) {
    for field in schema.fields() {
        names.push(field.name().clone());
        if let DataType::Struct(inner) = field.data_type() {
            names.extend(inner.iter().map(|inner| format!("{}.{}", field.name(), inner.name())));
        }
    }
}

fn find(batch: &RecordBatch, name: &str) -> Option<ArrayRef> {
    if let Some(column) = batch.column_by_name(name) {
        return Some(column.clone());
    }
    let (outer, inner) = name.split_once('.')?;
    let outer: &StructArray = batch.column_by_name(outer)?.as_struct_opt()?;
    // What is null outside is null inside.
    let inner = outer.column_by_name(inner)?;
    let nulls = arrow::buffer::NullBuffer::union(outer.nulls(), inner.nulls());
    inner.to_data().into_builder().nulls(nulls).build().ok().map(arrow::array::make_array)
}

/// A column in one of the few types that become cells: whole numbers, reals, microseconds, text.
fn plain(column: &ArrayRef) -> Result<ArrayRef, ParquetError> {
    let to = match column.data_type() {
        DataType::Null => return Ok(column.clone()),
        kind if kind.is_signed_integer() => DataType::Int64,
        kind if kind.is_unsigned_integer() => DataType::UInt64,
        kind if kind.is_floating() => DataType::Float64,
        DataType::Timestamp(TimeUnit::Microsecond, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        DataType::Date32 | DataType::Date64 => DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => DataType::Utf8,
        _ => DataType::Utf8,
    };
    Ok(cast(column, &to)?)
}

fn cell(column: &ArrayRef, at: usize) -> Cell {
    if column.is_null(at) {
        return Cell::Null;
    }
    match column.data_type() {
        DataType::Int64 => Cell::Whole(column.as_primitive::<Int64Type>().value(at).into()),
        DataType::UInt64 => Cell::Whole(column.as_primitive::<UInt64Type>().value(at).into()),
        DataType::Float64 => Cell::Real(column.as_primitive::<Float64Type>().value(at)),
        DataType::Timestamp(_, zone) => {
            let micros = column.as_primitive::<arrow::datatypes::TimestampMicrosecondType>().value(at);
            if zone.is_some() { Cell::Time(micros) } else { Cell::Local(micros) }
        }
        DataType::Utf8 => match column.as_string::<i32>().value(at) {
            text if text.trim().is_empty() => Cell::Null,
            text => Cell::Text(text.to_owned()),
        },
        _ => Cell::Null,
    }
}
