//! TPC-H: the data, made here, and its twenty-two queries.
//!
//! Nothing is downloaded: `tpchgen` produces the rows that the specification prescribes, and they are written
//! as one Parquet file a table. Generation takes seconds to minutes and may be interrupted, or run twice at
//! once; so the files are written aside and become visible by one rename, complete or not at all.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use arrow::error::ArrowError;
use arrow::record_batch::RecordBatchReader;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow,
};

use crate::scratch::Scratch;

/// The eight tables, smallest first.
pub const TABLES: [&str; 8] = ["region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"];

/// The twenty-two queries with the validation parameters of the specification (TPC-H 3.0.1, section 2.4),
/// in SQL that DataFusion and Postgres both accept. `QUERIES[0]` is Q1.
pub const QUERIES: [&str; 22] = [
    include_str!("../queries/tpch/q01.sql"),
    include_str!("../queries/tpch/q02.sql"),
    include_str!("../queries/tpch/q03.sql"),
    include_str!("../queries/tpch/q04.sql"),
    include_str!("../queries/tpch/q05.sql"),
    include_str!("../queries/tpch/q06.sql"),
    include_str!("../queries/tpch/q07.sql"),
    include_str!("../queries/tpch/q08.sql"),
    include_str!("../queries/tpch/q09.sql"),
    include_str!("../queries/tpch/q10.sql"),
    include_str!("../queries/tpch/q11.sql"),
    include_str!("../queries/tpch/q12.sql"),
    include_str!("../queries/tpch/q13.sql"),
    include_str!("../queries/tpch/q14.sql"),
    include_str!("../queries/tpch/q15.sql"),
    include_str!("../queries/tpch/q16.sql"),
    include_str!("../queries/tpch/q17.sql"),
    include_str!("../queries/tpch/q18.sql"),
    include_str!("../queries/tpch/q19.sql"),
    include_str!("../queries/tpch/q20.sql"),
    include_str!("../queries/tpch/q21.sql"),
    include_str!("../queries/tpch/q22.sql"),
];

/// Rows of one Parquet row group. Large enough to compress well, small enough that a scan of the middle
/// scale factors still splits over a few threads.
const ROW_GROUP: usize = 128 * 1024;

/// How far the generation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The table that is being written.
    pub table: &'static str,
    /// Rows of it written so far.
    pub rows: u64,
    /// Rows it will have. Exact except for `lineitem`, where the number of lines of an order is drawn
    /// (one to seven): there it is the mean, and the last step corrects it.
    pub expected: u64,
}

/// Why there is no data.
#[derive(Debug)]
pub enum DataError {
    /// The scale factor is not a number above zero and at most 1000.
    ScaleFactor(f64),
    /// A directory has the right name but lacks a table; it was not made by [`ensure`].
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
            Self::ScaleFactor(given) => {
                write!(f, "a scale factor is a number above 0 and at most 1000, not {given}")
            }
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
            Self::ScaleFactor(_) | Self::Incomplete { .. } => None,
            Self::Io { cause, .. } => Some(cause),
            Self::Generate { cause, .. } => Some(cause),
            Self::Write { cause, .. } => Some(cause),
        }
    }
}

/// The directory of the eight tables at `scale_factor` (1 is about 1 GB of raw data), below `dir`. Makes
/// them if they are not there yet, and calls `report` as it goes.
///
/// # Errors
/// If the scale factor makes no sense, or something cannot be written.
pub fn ensure(dir: &Path, scale_factor: f64, report: &mut dyn FnMut(Step)) -> Result<PathBuf, DataError> {
    if !(scale_factor > 0.0 && scale_factor <= 1000.0) {
        return Err(DataError::ScaleFactor(scale_factor));
    }
    let name = format!("tpch-sf{scale_factor}");
    let target = dir.join(&name);
    if target.is_dir() {
        return match TABLES.iter().find(|table| !target.join(format!("{table}.parquet")).is_file()) {
            None => Ok(target),
            Some(table) => Err(DataError::Incomplete { directory: target, table }),
        };
    }
    let scratch =
        Scratch::new(dir, &format!(".{name}")).map_err(|cause| DataError::Io { path: dir.to_owned(), cause })?;
    for table in TABLES {
        write_table(scratch.path(), table, scale_factor, report)?;
    }
    scratch.become_permanent(&target).map_err(|cause| DataError::Io { path: target.clone(), cause })?;
    Ok(target)
}

fn write_table(
    directory: &Path,
    table: &'static str,
    scale_factor: f64,
    report: &mut dyn FnMut(Step),
) -> Result<(), DataError> {
    let path = directory.join(format!("{table}.parquet"));
    let io_failed = |cause| DataError::Io { path: path.clone(), cause };
    let write_failed = |cause| DataError::Write { path: path.clone(), cause };
    let (mut batches, expected) = generator(table, scale_factor);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(ROW_GROUP))
        .build();
    let file = File::create(&path).map_err(io_failed)?;
    let mut writer = ArrowWriter::try_new(file, batches.schema(), Some(properties)).map_err(write_failed)?;
    let mut rows = 0;
    report(Step { table, rows, expected });
    for batch in &mut batches {
        let batch = batch.map_err(|cause| DataError::Generate { table, cause })?;
        writer.write(&batch).map_err(write_failed)?;
        rows += batch.num_rows() as u64;
        report(Step { table, rows, expected: expected.max(rows) });
    }
    writer.close().map_err(write_failed)?;
    // The rename that follows must not become durable before the contents.
    File::open(&path).and_then(|file| file.sync_all()).map_err(io_failed)?;
    report(Step { table, rows, expected: rows });
    Ok(())
}

/// The generator of a table, and how many rows it is expected to give.
fn generator(table: &str, sf: f64) -> (Box<dyn RecordBatchReader>, u64) {
    let orders = OrderGenerator::calculate_row_count(sf, 1, 1);
    let (batches, rows): (Box<dyn RecordBatchReader>, i64) = match table {
        "region" => (Box::new(RegionArrow::new(RegionGenerator::new(sf, 1, 1))), 5),
        "nation" => (Box::new(NationArrow::new(NationGenerator::new(sf, 1, 1))), 25),
        "supplier" => (
            Box::new(SupplierArrow::new(SupplierGenerator::new(sf, 1, 1))),
            SupplierGenerator::calculate_row_count(sf, 1, 1),
        ),
        "customer" => (
            Box::new(CustomerArrow::new(CustomerGenerator::new(sf, 1, 1))),
            CustomerGenerator::calculate_row_count(sf, 1, 1),
        ),
        "part" => {
            (Box::new(PartArrow::new(PartGenerator::new(sf, 1, 1))), PartGenerator::calculate_row_count(sf, 1, 1))
        }
        "partsupp" => (
            Box::new(PartSuppArrow::new(PartSuppGenerator::new(sf, 1, 1))),
            // Four suppliers a part.
            PartGenerator::calculate_row_count(sf, 1, 1) * 4,
        ),
        "orders" => (Box::new(OrderArrow::new(OrderGenerator::new(sf, 1, 1))), orders),
        // Lines of an order: uniform on one to seven.
        _ => (Box::new(LineItemArrow::new(LineItemGenerator::new(sf, 1, 1))), orders * 4),
    };
    (batches, rows.max(0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn generation_reports_every_table_and_leaves_only_the_result() {
        let dir = tempfile::tempdir().unwrap();
        let mut last = Vec::new();
        let made = ensure(dir.path(), 0.001, &mut |step| {
            if step.rows == step.expected && last.last().is_none_or(|s: &Step| s.table != step.table) {
                last.push(step);
            }
        })
        .unwrap();
        assert_eq!(made, dir.path().join("tpch-sf0.001"));
        assert_eq!(last.iter().map(|step| step.table).collect::<Vec<_>>(), TABLES);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let again = ensure(dir.path(), 0.001, &mut |_| panic!("made twice")).unwrap();
        assert_eq!(again, made);
    }

    #[test]
    fn senseless_scale_factors_are_refused() {
        for given in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            let refused = ensure(Path::new("/nonexistent"), given, &mut |_| ());
            assert!(matches!(refused, Err(DataError::ScaleFactor(_))), "{given}");
        }
    }

    #[test]
    fn a_directory_that_lacks_a_table_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("tpch-sf1")).unwrap();
        let refused = ensure(dir.path(), 1.0, &mut |_| ()).unwrap_err();
        assert!(matches!(refused, DataError::Incomplete { table: "region", .. }), "{refused}");
    }
}
