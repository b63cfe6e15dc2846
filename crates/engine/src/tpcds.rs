//! TPC-DS: the data, made here.
//!
//! TPC-H has eight tables, TPC-DS twenty-four: three channels of sales and their returns around shared
//! dimensions, with skew and nulls. `tpcdsgen` gives what the specification's own program gives, its known
//! mistakes included.
//!
//! The specification begins at scale factor 1. Below it three things do not shrink in proportion. The dimensions
//! that list what can be (days, seconds, demographics, pages of catalogs) keep their two million rows; sales come
//! in steps of 10,000 (the web's in steps of 1,000) and customers and items in thousands, rounded and at least
//! one step; and shops, sites and warehouses soon are one or two. So 0.1 has about a tenth of the sales, and 0.01
//! a twentieth.

use std::path::{Path, PathBuf};

use arrow::error::ArrowError;
use arrow::record_batch::RecordBatchReader;
use tpcdsgen::config::{Session, SessionBuilder, Table as Of};
use tpcdsgen_arrow::{
    CallCenterArrow, CatalogPageArrow, CatalogReturnsArrow, CatalogSalesArrow, CustomerAddressArrow, CustomerArrow,
    CustomerDemographicsArrow, DateDimArrow, HouseholdDemographicsArrow, IncomeBandArrow, InventoryArrow, ItemArrow,
    PromotionArrow, ReasonArrow, ShipModeArrow, StoreArrow, StoreReturnsArrow, StoreSalesArrow, TimeDimArrow,
    WarehouseArrow, WebPageArrow, WebReturnsArrow, WebSalesArrow, WebSiteArrow,
};

use crate::generated::{self, DataError, Rows, Step, Table};
use crate::scale;

/// The twenty-four tables, what does not grow first.
static TABLES: [Table; 24] = [
    Table { name: "income_band", rows: |sf| rows(Of::IncomeBand, sf, 1.0, IncomeBandArrow::new) },
    Table { name: "ship_mode", rows: |sf| rows(Of::ShipMode, sf, 1.0, ShipModeArrow::new) },
    Table { name: "reason", rows: |sf| rows(Of::Reason, sf, 1.0, ReasonArrow::new) },
    Table { name: "warehouse", rows: |sf| rows(Of::Warehouse, sf, 1.0, WarehouseArrow::new) },
    Table { name: "call_center", rows: |sf| rows(Of::CallCenter, sf, 1.0, CallCenterArrow::new) },
    Table { name: "web_site", rows: |sf| rows(Of::WebSite, sf, 1.0, WebSiteArrow::new) },
    Table { name: "store", rows: |sf| rows(Of::Store, sf, 1.0, StoreArrow::new) },
    Table { name: "web_page", rows: |sf| rows(Of::WebPage, sf, 1.0, WebPageArrow::new) },
    Table { name: "promotion", rows: |sf| rows(Of::Promotion, sf, 1.0, PromotionArrow::new) },
    Table {
        name: "household_demographics",
        rows: |sf| rows(Of::HouseholdDemographics, sf, 1.0, HouseholdDemographicsArrow::new),
    },
    Table { name: "item", rows: |sf| rows(Of::Item, sf, 1.0, ItemArrow::new) },
    Table { name: "catalog_page", rows: |sf| rows(Of::CatalogPage, sf, 1.0, CatalogPageArrow::new) },
    Table { name: "customer", rows: |sf| rows(Of::Customer, sf, 1.0, CustomerArrow::new) },
    Table { name: "customer_address", rows: |sf| rows(Of::CustomerAddress, sf, 1.0, CustomerAddressArrow::new) },
    Table { name: "date_dim", rows: |sf| rows(Of::DateDim, sf, 1.0, DateDimArrow::new) },
    Table { name: "time_dim", rows: |sf| rows(Of::TimeDim, sf, 1.0, TimeDimArrow::new) },
    Table {
        name: "customer_demographics",
        rows: |sf| rows(Of::CustomerDemographics, sf, 1.0, CustomerDemographicsArrow::new),
    },
    Table { name: "web_returns", rows: |sf| rows(Of::WebReturns, sf, 1.2, WebReturnsArrow::new) },
    Table { name: "catalog_returns", rows: |sf| rows(Of::CatalogReturns, sf, 0.9, CatalogReturnsArrow::new) },
    Table { name: "store_returns", rows: |sf| rows(Of::StoreReturns, sf, 1.2, StoreReturnsArrow::new) },
    Table { name: "web_sales", rows: |sf| rows(Of::WebSales, sf, 12.0, WebSalesArrow::new) },
    Table { name: "catalog_sales", rows: |sf| rows(Of::CatalogSales, sf, 9.0, CatalogSalesArrow::new) },
    Table { name: "store_sales", rows: |sf| rows(Of::StoreSales, sf, 12.0, StoreSalesArrow::new) },
    Table { name: "inventory", rows: |sf| rows(Of::Inventory, sf, 1.0, InventoryArrow::new) },
];

/// The directory of the twenty-four tables at `scale_factor` (1 is about 1 GB of raw data), below `dir`. Makes
/// them if they are not there yet, and calls `report` as it goes.
///
/// # Errors
/// If there is no data of that [scale factor](scale::is_tpcds), or something cannot be written.
pub fn ensure(dir: &Path, scale_factor: f64, report: &mut dyn FnMut(Step)) -> Result<PathBuf, DataError> {
    if !scale::is_tpcds(scale_factor) {
        return Err(DataError::ScaleFactor { given: scale_factor, allowed: scale::TPCDS });
    }
    generated::ensure(dir, "tpcds", &TABLES, scale_factor, report)
}

/// The rows of a table of which the generator counts units with `lines` rows each on average: a row, or a sale of
/// several items. A tenth of the items is returned.
fn rows<R: RecordBatchReader + 'static>(
    table: Of,
    scale_factor: f64,
    lines: f64,
    generator: fn(Session) -> R,
) -> Result<Rows, ArrowError> {
    let session = SessionBuilder::new()
        .with_scale_factor(scale_factor)
        .build()
        .map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
    let units = session.get_scaling().get_row_count(table);
    Ok(Rows { batches: Box::new(generator(session)), expected: (units as f64 * lines).round() as u64 })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use arrow::array::AsArray;
    use arrow::datatypes::{DataType, Decimal128Type, Int32Type, Int64Type};
    use datafusion::prelude::{ParquetReadOptions, SessionContext};

    use super::*;

    const SMALLEST: f64 = 0.01;

    /// The whole numbers of some columns, and the cents of amounts, row by row and straight from the generator.
    fn numbers<const N: usize>(table: &str, columns: [&str; N]) -> Vec<[Option<i64>; N]> {
        let table = TABLES.iter().find(|t| t.name == table).unwrap();
        let mut rows = Vec::new();
        for batch in (table.rows)(SMALLEST).unwrap().batches {
            let batch = batch.unwrap();
            let columns = columns.map(|name| {
                let column = batch.column_by_name(name).unwrap();
                let values: Vec<Option<i64>> = match column.data_type() {
                    DataType::Int32 => column.as_primitive::<Int32Type>().iter().map(|v| v.map(i64::from)).collect(),
                    _ => column.as_primitive::<Decimal128Type>().iter().map(|v| v.map(|v| v as i64)).collect(),
                };
                values
            });
            rows.extend((0..batch.num_rows()).map(|row| columns.each_ref().map(|column| column[row])));
        }
        rows
    }

    /// The rows of a query over some of the tables, all of whose columns are whole numbers or cents.
    async fn answer(tables: &[&str], sql: &str) -> Vec<Vec<i64>> {
        let dir = tempfile::tempdir().unwrap();
        let needed: Vec<Table> = TABLES.into_iter().filter(|table| tables.contains(&table.name)).collect();
        let made = generated::ensure(dir.path(), "tpcds", &needed, SMALLEST, &mut |_| ()).unwrap();
        let context = SessionContext::new();
        for table in tables {
            let file = made.join(format!("{table}.parquet"));
            context.register_parquet(*table, file.to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
        }
        let mut rows = Vec::new();
        for batch in context.sql(sql).await.unwrap().collect().await.unwrap() {
            for row in 0..batch.num_rows() {
                let values = batch.columns().iter().map(|column| match column.data_type() {
                    DataType::Int32 => column.as_primitive::<Int32Type>().value(row).into(),
                    DataType::Int64 => column.as_primitive::<Int64Type>().value(row),
                    _ => column.as_primitive::<Decimal128Type>().value(row) as i64,
                });
                rows.push(values.collect());
            }
        }
        rows
    }

    #[test]
    fn tables_have_as_many_rows_as_the_specification_says() {
        // What does not scale, from the specification (TPC-DS 3.2, table 3-2); then what does, in the generator's
        // steps: two shops, 2,000 items, 1,000 customers, an inventory of 1,000 items in 261 weeks, and about 12
        // lines for each of 10,000 tickets.
        let specified = [
            ("income_band", 20),
            ("ship_mode", 20),
            ("household_demographics", 7_200),
            ("catalog_page", 11_718),
            ("date_dim", 73_049),
            ("time_dim", 86_400),
            ("store", 2),
            ("item", 2_000),
            ("customer", 1_000),
            ("inventory", 261_261),
            ("store_sales", 120_527),
        ];
        let count = |name: &str| {
            let table = TABLES.iter().find(|table| table.name == name).unwrap();
            (table.rows)(SMALLEST).unwrap().batches.map(|batch| batch.unwrap().num_rows()).sum::<usize>()
        };
        assert_eq!(specified.map(|(name, _)| (name, count(name))), specified);
    }

    #[test]
    fn progress_expects_what_the_specification_has_at_scale_factor_one() {
        // Sales and returns are drawn; the specification says what comes out, and the expectation is within 1 %.
        let specified = [
            ("store", 12),
            ("customer", 100_000),
            ("customer_demographics", 1_920_800),
            ("store_sales", 2_880_404),
            ("store_returns", 287_514),
            ("catalog_sales", 1_441_548),
            ("catalog_returns", 144_067),
            ("web_sales", 719_384),
            ("web_returns", 71_763),
            ("inventory", 11_745_000),
        ];
        for (name, rows) in specified {
            let table = TABLES.iter().find(|table| table.name == name).unwrap();
            let expected = (table.rows)(1.0).unwrap().expected;
            assert!(expected.abs_diff(rows) * 100 <= rows, "{name}: {expected}, specified {rows}");
        }
    }

    #[tokio::test]
    async fn a_report_by_brand_and_year_adds_up_what_was_sold() {
        let sql = "select d_year, i_brand_id, sum(ws_ext_sales_price) as sales \
                   from date_dim join web_sales on d_date_sk = ws_sold_date_sk join item on ws_item_sk = i_item_sk \
                   where i_category_id = 9 and i_brand_id is not null and d_moy = 11 \
                   group by d_year, i_brand_id order by d_year, i_brand_id";
        let asked = answer(&["date_dim", "item", "web_sales"], sql).await;

        let years: HashMap<i64, i64> = numbers("date_dim", ["d_date_sk", "d_year", "d_moy"])
            .into_iter()
            .filter(|row| row[2] == Some(11))
            .map(|[date, year, _]| (date.unwrap(), year.unwrap()))
            .collect();
        let brands: HashMap<i64, i64> = numbers("item", ["i_item_sk", "i_category_id", "i_brand_id"])
            .into_iter()
            .filter(|row| row[1] == Some(9))
            .filter_map(|[item, _, brand]| Some((item?, brand?)))
            .collect();
        let mut sales = BTreeMap::new();
        for [date, item, price] in numbers("web_sales", ["ws_sold_date_sk", "ws_item_sk", "ws_ext_sales_price"]) {
            let year = date.and_then(|date| years.get(&date));
            if let (Some(year), Some(brand)) = (year, item.and_then(|item| brands.get(&item))) {
                *sales.entry((*year, *brand)).or_default() += price.unwrap_or(0);
            }
        }
        let expected: Vec<Vec<i64>> =
            sales.into_iter().map(|((year, brand), sales): (_, i64)| vec![year, brand, sales]).collect();
        assert!(expected.len() > 20, "{expected:?}");
        assert_eq!(asked, expected);
    }

    #[tokio::test]
    async fn sales_of_the_evening_to_large_households_are_counted() {
        let sql = "select count(*) from web_sales, household_demographics, time_dim \
                   where ws_sold_time_sk = t_time_sk and ws_ship_hdemo_sk = hd_demo_sk \
                   and t_hour = 20 and t_minute >= 30 and hd_dep_count = 7";
        let asked = answer(&["household_demographics", "web_sales", "time_dim"], sql).await;

        let large: Vec<i64> = numbers("household_demographics", ["hd_demo_sk", "hd_dep_count"])
            .into_iter()
            .filter(|row| row[1] == Some(7))
            .filter_map(|row| row[0])
            .collect();
        // Keys of times are seconds since midnight.
        let evening = (20 * 3600 + 30 * 60)..(21 * 3600);
        let expected = numbers("web_sales", ["ws_sold_time_sk", "ws_ship_hdemo_sk"])
            .into_iter()
            .filter(|[time, household]| {
                time.is_some_and(|time| evening.contains(&time)) && household.is_some_and(|it| large.contains(&it))
            })
            .count();
        assert!(expected > 0);
        assert_eq!(asked, [[expected as i64]]);
    }

    #[test]
    fn scale_factors_that_would_not_scale_are_refused() {
        for given in [0.0, -1.0, 0.001, 1.5, 11.0, f64::NAN, f64::INFINITY, 1001.0] {
            let refused = ensure(Path::new("/nonexistent"), given, &mut |_| ());
            assert!(matches!(refused, Err(DataError::ScaleFactor { .. })), "{given}");
        }
    }
}
