//! The queries of TPC-H, in text and in binary.

use std::error::Error;

use tokio_postgres::types::{FromSql, Type};

use crate::support::{rows, with_tpch};

/// Rows of each query at scale factor 0.01.
const ROWS: [usize; 22] = [4, 4, 10, 5, 5, 1, 4, 2, 173, 20, 359, 2, 33, 1, 1, 296, 1, 2, 1, 1, 1, 7];

#[tokio::test]
async fn the_22_queries_give_the_same_in_text_and_in_binary() {
    let cluster = with_tpch();
    let client = cluster.connect().await;
    let mut found = Vec::new();
    for (at, sql) in punctual_engine::tpch::QUERIES.iter().enumerate() {
        let text = rows(&client, sql).await;
        let statement = client.prepare(sql).await.unwrap_or_else(|e| panic!("Q{}: {e:?}", at + 1));
        let binary: Vec<Vec<Option<String>>> = client
            .query(&statement, &[])
            .await
            .unwrap()
            .iter()
            .map(|row| (0..row.len()).map(|at| row.get::<_, Option<Shown>>(at).map(|v| v.0)).collect())
            .collect();
        let text: Vec<Vec<Option<String>>> =
            text.into_iter().map(|row| row.into_iter().map(without_scale_if_zero).collect()).collect();
        // Without a total order rows with equal keys may change places.
        let sorted = |mut rows: Vec<Vec<Option<String>>>| {
            rows.sort();
            rows
        };
        assert_eq!(sorted(text), sorted(binary.clone()), "Q{}", at + 1);
        found.push(binary.len());
    }
    assert_eq!(found, ROWS);
}

#[tokio::test]
async fn q6_adds_up_what_the_table_says() {
    let cluster = with_tpch();
    let client = cluster.connect().await;
    let asked = rows(&client, punctual_engine::tpch::QUERIES[5]).await;
    let lines = rows(&client, "select l_extendedprice, l_discount, l_quantity, l_shipdate from lineitem").await;
    let cents = |text: &Option<String>| text.as_ref().unwrap().replace('.', "").parse::<i128>().unwrap();
    let expected: i128 = lines
        .iter()
        .filter(|line| {
            let date = line[3].as_ref().unwrap().as_str();
            ("1994-01-01".."1995-01-01").contains(&date) && (5..=7).contains(&cents(&line[1])) && cents(&line[2]) < 2400
        })
        .map(|line| cents(&line[0]) * cents(&line[1]))
        .sum();
    let expected = format!("{}.{:04}", expected / 10_000, expected % 10_000);
    assert_eq!(asked, [[Some(expected)]]);
}

/// In binary the encoder writes a zero without its scale, in text with it.
fn without_scale_if_zero(value: Option<String>) -> Option<String> {
    value.map(|text| match text.trim_end_matches('0') {
        "0." => "0".to_owned(),
        _ => text,
    })
}

/// A binary value as its text.
struct Shown(String);

impl<'a> FromSql<'a> for Shown {
    fn from_sql(datatype: &Type, raw: &'a [u8]) -> Result<Shown, Box<dyn Error + Sync + Send>> {
        Ok(Shown(match *datatype {
            Type::INT4 => i32::from_sql(datatype, raw)?.to_string(),
            Type::INT8 => i64::from_sql(datatype, raw)?.to_string(),
            Type::FLOAT8 => f64::from_sql(datatype, raw)?.to_string(),
            Type::TEXT => String::from_sql(datatype, raw)?,
            Type::DATE => date(i32::from_be_bytes(raw.try_into()?)),
            Type::NUMERIC => numeric(raw),
            ref other => return Err(format!("no reader for {other}").into()),
        }))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// Days since 2000-01-01.
fn date(days: i32) -> String {
    let (mut year, mut rest) = (2000, days);
    let leap = |year: i32| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    while rest < 0 {
        year -= 1;
        rest += 365 + i32::from(leap(year));
    }
    while rest >= 365 + i32::from(leap(year)) {
        rest -= 365 + i32::from(leap(year));
        year += 1;
    }
    let february = 28 + i32::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if rest < length {
            break;
        }
        rest -= length;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", rest + 1)
}

/// Groups of four decimal digits, and where the point is.
fn numeric(raw: &[u8]) -> String {
    let word = |at: usize| i16::from_be_bytes([raw[2 * at], raw[2 * at + 1]]);
    let (groups, weight, sign, scale) = (word(0), word(1), word(2), word(3));
    let group = |place: i16| {
        let at = weight - place;
        if (0..groups).contains(&at) { word(4 + at as usize) } else { 0 }
    };
    let whole: String = (0..=weight.max(0)).rev().map(|place| format!("{:04}", group(place))).collect();
    let fraction: String = (1..=(scale + 3) / 4).map(|place| format!("{:04}", group(-place))).collect();
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let minus = if sign == 0x4000 { "-" } else { "" };
    if scale == 0 { format!("{minus}{whole}") } else { format!("{minus}{whole}.{}", &fraction[..scale as usize]) }
}
