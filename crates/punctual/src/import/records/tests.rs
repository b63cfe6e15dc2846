//! One record reads the same from every kind of file, and what is no record says why.

use std::io::Write;
use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, Float64Array, Int64Array, RecordBatch, StringArray,
    StructArray, TimestampMillisecondArray, TimestampNanosecondArray, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Int32Type};
use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

use super::*;
use crate::import::refusal::Reason;

/// A file with these bytes, in a directory of its own.
fn file(bytes: &[u8]) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, bytes).unwrap();
    (dir, path)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn open(bytes: &[u8], header: Option<&'static [&'static str]>) -> Result<(TempDir, Input), String> {
    let (dir, path) = file(bytes);
    let how = Reading { delimiter: b',', header, scratch: dir.path() };
    let input = Input::open(&path, how).map_err(|error| error.to_string().replace(&path.display().to_string(), "file"));
    input.map(|input| (dir, input))
}

/// The records with the values of these columns.
fn read(bytes: &[u8], columns: &[&str]) -> Vec<(u64, Result<Vec<Cell>, Reason>)> {
    let (_dir, mut input) = open(bytes, None).unwrap();
    let columns: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
    input.ask(&columns).unwrap();
    let (mut record, mut records) = (Record::default(), Vec::new());
    loop {
        match input.next(&mut record).unwrap() {
            Read::Record => records.push((record.at, Ok(record.cells.clone()))),
            Read::Spoilt(refusal) => records.push((record.at, Err(refusal.reason))),
            Read::End => return records,
        }
    }
}

fn text(text: &str) -> Cell {
    Cell::Text(text.to_owned())
}

fn parquet(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, c)| (name, c, true))).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn csv_has_quotes_line_ends_in_quotes_and_nulls() {
    let csv = b"a, b ,c\n1,\"x, \"\"y\"\"\n z\",NULL\n\n\\N,,3\r\n";
    let expected =
        [(2, Ok(vec![Cell::Null, text("1"), text("x, \"y\"\n z")])), (5, Ok(vec![text("3"), Cell::Null, Cell::Null]))];
    assert_eq!(read(csv, &["c", "a", "b"]), expected);
}

#[test]
fn marks_and_cases_and_packing_make_no_difference() {
    let expected = [(2, Ok(vec![text("1")]))];
    for csv in [b"\xef\xbb\xbfarrival\n1\n".as_slice(), b"ARRIVAL\n1", b"arrival\r\n1\r\n"] {
        assert_eq!(read(csv, &["arrival"]), expected);
        assert_eq!(read(&gzip(csv), &["arrival"]), expected);
    }
    // Files may be packed one after the other.
    let twice = [gzip(b"arrival\n1\n"), gzip(b"2\n")].concat();
    assert_eq!(read(&twice, &["arrival"]).len(), 2);
}

#[test]
fn lines_are_counted_as_an_editor_counts_them() {
    let lines = |csv: &str| -> Vec<u64> { read(csv.as_bytes(), &["a"]).into_iter().map(|(at, _)| at).collect() };
    let csv = "a,b\n1,2\n\n\n3,\"x\ny\n\"\n5,6";
    assert_eq!(lines(csv), [2, 5, 8]);
    assert_eq!(lines(&csv.replace('\n', "\r\n")), [2, 5, 8]);
    assert_eq!(lines(&format!("{csv}\n")), [2, 5, 8]);
    assert_eq!(lines("a,b\r\n1,\r\n\r\n2,3\r"), [2, 4]);
    // A line end that lies across two windows.
    let wide = format!("a,b\r\n{},2\r\n3,4\r\n", "x".repeat((256 << 10) - 8));
    assert_eq!(lines(&wide), [2, 3]);
}

#[test]
fn a_line_with_more_or_fewer_values_is_refused_and_the_next_is_read() {
    let expected = [(2, Err(Reason::Width)), (3, Ok(vec![text("2")])), (4, Err(Reason::Width))];
    assert_eq!(read(b"a,b\n1\n2,3\n4,5,6\n", &["a"]), expected);
}

#[test]
fn bytes_that_are_no_utf_8_are_replaced() {
    assert_eq!(read(b"a\nM\xfcller\n", &["a"]), [(2, Ok(vec![text("M\u{fffd}ller")]))]);
}

#[test]
fn a_quote_that_is_never_closed_ends_with_an_error_not_with_the_memory() {
    let mut csv = b"a,b\n1,\"".to_vec();
    csv.resize(MAX_RECORD + 1_000, b'x');
    let (_dir, mut input) = open(&gzip(&csv), None).unwrap();
    input.ask(&["a".to_owned()]).unwrap();
    let error = input.next(&mut Record::default()).unwrap_err().to_string();
    assert!(error.contains("a record is larger than 64 MiB"), "{error}");
}

#[test]
fn a_file_without_a_header_has_the_names_it_is_given() {
    let (_dir, mut input) = open(b"1,2\n3,4\n", Some(&["x", "y", "z"])).unwrap();
    assert_eq!(input.columns(), ["x", "y"]);
    assert_eq!(input.ask(&["y".to_owned(), "z".to_owned()]).unwrap(), [true, false]);
    let mut record = Record::default();
    let mut seen = Vec::new();
    while input.next(&mut record).unwrap() == Read::Record {
        seen.push((record.at, record.cells.clone()));
    }
    assert_eq!(seen, [(1, vec![text("2"), Cell::Null]), (2, vec![text("4"), Cell::Null])]);
}

#[test]
fn json_lines_have_types_and_depth() {
    let json =
        b"{\"id\":18446744073709551615,\"t\":{\"q\":1.5,\"r\":{\"s\":\"x\"}},\"ok\":true}\n\n{\"ID\":-1,\"t\":null}\n";
    let expected = [
        (1, Ok(vec![Cell::Whole(u64::MAX.into()), Cell::Real(1.5), text("x"), text("true")])),
        (3, Ok(vec![Cell::Whole(-1), Cell::Null, Cell::Null, Cell::Null])),
    ];
    assert_eq!(read(json, &["id", "t.q", "t.r.s", "ok"]), expected);
    assert_eq!(read(&gzip(json), &["id", "t.q", "t.r.s", "ok"]), expected);
}

#[test]
fn a_line_that_is_no_object_is_refused_and_the_next_is_read() {
    let json = b"{\"a\":1}\n{\"a\":\n[1]\n{\"a\":2}";
    let expected = [
        (1, Ok(vec![Cell::Whole(1)])),
        (2, Err(Reason::NotJson)),
        (3, Err(Reason::NotAnObject)),
        (4, Ok(vec![Cell::Whole(2)])),
    ];
    assert_eq!(read(json, &["a"]), expected);
}

#[test]
fn a_line_that_is_too_long_is_refused_and_the_next_is_read() {
    let mut json = b"{\"a\":1}\n{\"a\":\"".to_vec();
    json.resize(MAX_RECORD + 100, b'x');
    json.extend_from_slice(b"\"}\n{\"a\":2}\n");
    let expected = [(1, Ok(vec![Cell::Whole(1)])), (2, Err(Reason::TooLong)), (3, Ok(vec![Cell::Whole(2)]))];
    assert_eq!(read(&gzip(&json), &["a"]), expected);
}

#[test]
fn parquet_has_every_type_that_logs_have() {
    let nested = StructArray::from(vec![(
        Arc::new(Field::new("reason", DataType::Utf8, true)),
        Arc::new(StringArray::from(vec![Some("stopped"), None])) as ArrayRef,
    )]);
    let words: DictionaryArray<Int32Type> = vec![Some("x"), None].into_iter().collect();
    let decimal = Decimal128Array::from(vec![Some(1_250), None]).with_precision_and_scale(10, 2).unwrap();
    let bytes = parquet(vec![
        ("id", Arc::new(UInt64Array::from(vec![Some(u64::MAX), None]))),
        ("n", Arc::new(Int64Array::from(vec![Some(-5), None]))),
        ("real", Arc::new(Float64Array::from(vec![Some(0.25), None]))),
        ("here", Arc::new(TimestampMillisecondArray::from(vec![Some(7), None]))),
        ("there", Arc::new(TimestampNanosecondArray::from(vec![Some(7_999), None]).with_timezone("+02:00"))),
        ("flag", Arc::new(BooleanArray::from(vec![Some(true), None]))),
        ("word", Arc::new(words)),
        ("decimal", Arc::new(decimal)),
        ("error", Arc::new(nested)),
    ]);
    let columns = ["id", "N", "real", "here", "there", "flag", "word", "decimal", "error.reason"];
    let first = vec![
        Cell::Whole(u64::MAX.into()),
        Cell::Whole(-5),
        Cell::Real(0.25),
        Cell::Local(7_000),
        Cell::Time(7),
        text("true"),
        text("x"),
        text("12.50"),
        text("stopped"),
    ];
    let expected = [(1, Ok(first)), (2, Ok(vec![Cell::Null; 9]))];
    assert_eq!(read(&bytes, &columns), expected);
    assert_eq!(read(&gzip(&bytes), &columns), expected);
}

#[test]
fn rows_of_parquet_are_counted_across_batches() {
    let numbers = Int64Array::from_iter_values(0..3_000);
    let records = read(&parquet(vec![("n", Arc::new(numbers))]), &["n"]);
    assert!(records.into_iter().eq((0..3_000).map(|n| (n as u64 + 1, Ok(vec![Cell::Whole(n)])))));
}

#[test]
fn a_file_of_another_kind_says_what_to_do() {
    let error = |bytes: &[u8]| open(bytes, None).err().unwrap();
    assert_eq!(error(b"[{\"a\":1}]"), "file is one JSON array; make it lines: jq -c '.[]'");
    assert_eq!(error(b"\xff\xfea\0"), "file is in UTF-16; convert it: iconv -f UTF-16 -t UTF-8");
    assert!(error(b"PAR1 and no more").starts_with("cannot read file: "));
    assert!(error(&gzip(b"a,b\n1,2\n")[..12]).starts_with("cannot read file: "));
    let how = Reading { delimiter: b',', header: None, scratch: Path::new("/tmp") };
    assert!(Input::open(Path::new("/nonexistent"), how).is_err());
    assert!(Input::open(Path::new("/"), how).is_err());
}

#[test]
fn an_empty_file_has_no_records() {
    for bytes in [b"".as_slice(), b"\n \n", b"\xef\xbb\xbf", &gzip(b"")] {
        let (_dir, mut input) = open(bytes, None).unwrap();
        assert!(input.is_empty());
        assert_eq!(input.next(&mut Record::default()).unwrap(), Read::End);
    }
    assert_eq!(read(b"a,b\n", &["a"]), []);
}

#[test]
fn a_column_that_is_there_twice_is_refused_if_it_is_asked_for() {
    let (_dir, mut input) = open(b"a,b,a,B\n1,2,3,4\n", None).unwrap();
    assert_eq!(input.ask(&["b".to_owned()]).unwrap(), [true]);
    assert!(matches!(input.ask(&["a".to_owned()]), Err(ImportError::Twice { .. })));
}
