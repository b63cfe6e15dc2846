//! TPC-H: the data, made here, and its twenty-two queries.

use std::path::{Path, PathBuf};

use arrow::record_batch::RecordBatchReader;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow,
};

use crate::generated::{self, DataError, Rows, Step, Table};

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

/// The eight tables, smallest first.
static TABLES: [Table; 8] = [
    Table { name: "region", rows: |sf| Ok(rows(RegionArrow::new(RegionGenerator::new(sf, 1, 1)), 5)) },
    Table { name: "nation", rows: |sf| Ok(rows(NationArrow::new(NationGenerator::new(sf, 1, 1)), 25)) },
    Table {
        name: "supplier",
        rows: |sf| {
            let expected = SupplierGenerator::calculate_row_count(sf, 1, 1);
            Ok(rows(SupplierArrow::new(SupplierGenerator::new(sf, 1, 1)), expected))
        },
    },
    Table {
        name: "customer",
        rows: |sf| {
            let expected = CustomerGenerator::calculate_row_count(sf, 1, 1);
            Ok(rows(CustomerArrow::new(CustomerGenerator::new(sf, 1, 1)), expected))
        },
    },
    Table { name: "part", rows: |sf| Ok(rows(PartArrow::new(PartGenerator::new(sf, 1, 1)), parts(sf))) },
    // Four suppliers a part.
    Table {
        name: "partsupp",
        rows: |sf| Ok(rows(PartSuppArrow::new(PartSuppGenerator::new(sf, 1, 1)), parts(sf) * 4)),
    },
    Table { name: "orders", rows: |sf| Ok(rows(OrderArrow::new(OrderGenerator::new(sf, 1, 1)), orders(sf))) },
    // Lines of an order: uniform on one to seven.
    Table {
        name: "lineitem",
        rows: |sf| Ok(rows(LineItemArrow::new(LineItemGenerator::new(sf, 1, 1)), orders(sf) * 4)),
    },
];

/// The directory of the eight tables at `scale_factor` (1 is about 1 GB of raw data), below `dir`. Makes
/// them if they are not there yet, and calls `report` as it goes.
///
/// # Errors
/// If the scale factor makes no sense, or something cannot be written.
pub fn ensure(dir: &Path, scale_factor: f64, report: &mut dyn FnMut(Step)) -> Result<PathBuf, DataError> {
    if !(scale_factor > 0.0 && scale_factor <= 1000.0) {
        return Err(DataError::ScaleFactor { given: scale_factor, allowed: "a number above 0 and at most 1000" });
    }
    generated::ensure(dir, "tpch", &TABLES, scale_factor, report)
}

fn parts(sf: f64) -> i64 {
    PartGenerator::calculate_row_count(sf, 1, 1)
}

fn orders(sf: f64) -> i64 {
    OrderGenerator::calculate_row_count(sf, 1, 1)
}

fn rows(batches: impl RecordBatchReader + 'static, expected: i64) -> Rows {
    Rows { batches: Box::new(batches), expected: expected.max(0) as u64 }
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
        assert!(last.iter().map(|step| step.table).eq(TABLES.iter().map(|table| table.name)));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let again = ensure(dir.path(), 0.001, &mut |_| panic!("made twice")).unwrap();
        assert_eq!(again, made);
    }

    #[test]
    fn senseless_scale_factors_are_refused() {
        for given in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            let refused = ensure(Path::new("/nonexistent"), given, &mut |_| ());
            assert!(matches!(refused, Err(DataError::ScaleFactor { .. })), "{given}");
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
