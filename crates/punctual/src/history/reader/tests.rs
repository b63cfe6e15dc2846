//! Histories as they are written elsewhere, torn, foreign or damaged, and what reading them gives.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
    TimestampNanosecondArray,
};
use parquet::arrow::ArrowWriter;
use proptest::prelude::*;
use punctual_core::fingerprint::Fingerprint;
use punctual_core::query::Status;
use punctual_core::statement::Statement;
use punctual_core::time::{Span, Time};

use super::super::parquet::Sheet;
use super::super::row::tests::any_row;
use super::*;

fn write(path: &Path, columns: Vec<(&str, ArrayRef)>) {
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)));
    let batch = batch.unwrap();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn secs(values: &[f64]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

fn text(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

/// The rows of a foreign file of these columns, or what is wrong.
fn read_foreign(columns: Vec<(&str, ArrayRef)>) -> Result<Vec<Row>, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.parquet");
    write(&path, columns);
    let rows = read(&path).and_then(Iterator::collect);
    rows.map_err(|cause: HistoryError| cause.to_string().replace(&path.display().to_string(), "trace.parquet"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_rows_survive_parquet(rows in proptest::collection::vec(any_row(), 0..20)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.parquet");
        let mut sheet = Sheet::create(&path, dir.path().join("tmp")).unwrap();
        rows.iter().for_each(|row| sheet.push(row.clone()).unwrap());
        sheet.finish().unwrap();
        let read: Vec<Row> = read(&path).unwrap().map(Result::unwrap).collect();
        prop_assert_eq!(read, rows);
    }
}

#[test]
fn more_rows_than_fit_in_a_batch_survive_parquet() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.parquet");
    let mut sheet = Sheet::create(&path, dir.path().join("tmp")).unwrap();
    let row = |id| Row::new(Time::from_micros(id), Time::from_micros(id), Fingerprint(id));
    (0..10_000).for_each(|id| sheet.push(row(id)).unwrap());
    sheet.finish().unwrap();
    assert!(read(&path).unwrap().map(Result::unwrap).eq((0..10_000).map(row)));
}

#[test]
fn a_trace_keeps_its_split_and_the_published_prediction() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.parquet");
    let mut sheet = Sheet::create(&path, dir.path().join("tmp")).unwrap();
    let plain = Row::new(Time::from_micros(1), Time::from_micros(2), Fingerprint(3));
    let published = Some(Span::from_millis(17_195));
    let row = Row { split: Some("train".into()), published, ..plain.clone() };
    [&row, &plain].into_iter().for_each(|row| sheet.push(row.clone()).unwrap());
    sheet.finish().unwrap();
    assert_eq!(read(&path).unwrap().map(Result::unwrap).collect::<Vec<Row>>(), [row, plain]);
}

#[test]
fn a_foreign_trace_needs_three_columns_only() {
    let rows = read_foreign(vec![
        ("arrival", secs(&[1.0, 2.5])),
        ("latency_s", secs(&[0.25, 3.0])),
        ("sql", text(&["select 1", "select 2"])),
    ]);
    let shape = Statement::read("select 7").fingerprint;
    let row = |arrival, ended, sql: &str| Row {
        sql: Some(sql.into()),
        ..Row::new(Time::from_micros(arrival), Time::from_micros(ended), shape)
    };
    assert_eq!(rows.unwrap(), [row(1_000_000, 1_250_000, "select 1"), row(2_500_000, 5_500_000, "select 2")]);
}

#[test]
fn types_of_other_systems_are_understood() {
    let rows = read_foreign(vec![
        ("arrival", Arc::new(TimestampMillisecondArray::from(vec![1_000]).with_timezone("+02:00"))),
        ("ended", Arc::new(TimestampNanosecondArray::from(vec![2_000_001_999]))),
        ("fingerprint", Arc::new(Int64Array::from(vec![12]))),
        ("cluster", Arc::new(Int32Array::from(vec![3]))),
        ("cluster_size", Arc::new(Int64Array::from(vec![16]))),
        ("slo_s", Arc::new(Int32Array::from(vec![30]))),
        ("status", text(&["cancelled"])),
        ("something_else", text(&["ignored"])),
    ]);
    let expected = Row {
        cluster: Some("3".into()),
        cluster_size: Some(punctual_core::id::Units(16)),
        slo: Some(Span::from_secs(30)),
        status: Some(Status::Cancelled),
        ..Row::new(Time::from_micros(1_000_000), Time::from_micros(2_000_001), Fingerprint(12))
    };
    assert_eq!(rows.unwrap(), [expected]);
}

#[test]
fn a_fingerprint_is_hexadecimal_or_stands_for_its_hash() {
    let trace = |prints: &[&str]| {
        let zeros = vec![0.0; prints.len()];
        read_foreign(vec![("arrival", secs(&zeros)), ("ended", secs(&zeros)), ("fingerprint", text(prints))]).unwrap()
    };
    let prints: Vec<u64> = trace(&["00000000000000ff", "q7", "q7", "q8"]).iter().map(|row| row.fingerprint.0).collect();
    assert_eq!(prints[0], 255);
    assert_eq!(prints[1], prints[2]);
    assert_ne!(prints[1], prints[3]);
}

#[test]
fn a_missing_column_is_named() {
    let arrival = || ("arrival", secs(&[1.0]));
    let (ended, sql) = (|| ("ended", secs(&[1.0])), || ("sql", text(&["select 1"])));
    for (columns, missing) in [
        (vec![ended(), sql()], "arrival"),
        (vec![arrival(), sql()], "ended (or latency_s)"),
        (vec![arrival(), ended()], "fingerprint (or sql)"),
    ] {
        assert_eq!(read_foreign(columns), Err(format!("trace.parquet: there is no column {missing}")));
    }
}

#[test]
fn a_value_or_a_type_that_makes_no_sense_is_named_with_its_place() {
    let trace = |arrival: ArrayRef, status: &str| {
        let ended = secs(&vec![9.0; arrival.len()]);
        let sql = text(&vec!["select 1"; arrival.len()]);
        let status = text(&vec![status; arrival.len()]);
        read_foreign(vec![("arrival", arrival), ("ended", ended), ("sql", sql), ("status", status)])
    };
    let wrong = "trace.parquet: row 2, column arrival: it is before 1970";
    assert_eq!(trace(secs(&[1.0, -1.0]), "finished"), Err(wrong.into()));
    let wrong = "trace.parquet: row 1, column status: \"ok\" is none of finished, failed, cancelled, refused, lost";
    assert_eq!(trace(secs(&[1.0]), "ok"), Err(wrong.into()));
    let wrong = trace(text(&["yesterday"]), "finished").unwrap_err();
    assert_eq!(wrong, "trace.parquet: column arrival: Utf8 is neither a timestamp nor seconds in floating point");
    let null: ArrayRef = Arc::new(Float64Array::from(vec![None]));
    assert_eq!(trace(null, "lost"), Err("trace.parquet: row 1, column arrival: it is null".into()));
}

#[test]
fn reading_goes_on_after_a_row_that_makes_no_sense() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.parquet");
    let columns = vec![("arrival", secs(&[-1.0, 2.0])), ("ended", secs(&[3.0, 3.0])), ("sql", text(&["a", "b"]))];
    write(&path, columns);
    let (read, wrong): (Vec<_>, Vec<_>) = read(&path).unwrap().partition(Result::is_ok);
    assert_eq!((read.len(), wrong.len()), (1, 1));
}

#[test]
fn what_is_no_history_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let wrong = |path: &Path| read(path).err().map(|cause| cause.to_string()).unwrap_or_default();
    assert!(wrong(dir.path()).starts_with("there is no history in "), "{}", wrong(dir.path()));
    assert!(wrong(&dir.path().join("absent")).contains("cannot read"));
    for (name, bytes, why) in [
        (
            "a.txt",
            b"hello there, this is no history".as_slice(),
            "a.txt is neither a log of history nor a Parquet file; punctual import makes a history of other logs",
        ),
        (
            "empty",
            b"",
            "empty is neither a log of history nor a Parquet file; punctual import makes a history of other logs",
        ),
        ("cut.parquet", b"PAR1 and then nothing", "cut.parquet: "),
        ("new.log", b"PNCTHIST\x09\0\0\0", "new.log has format version 9; this build reads versions up to 3"),
    ] {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        assert!(wrong(&path).contains(why), "{}", wrong(&path));
    }
}

#[test]
fn a_damaged_parquet_file_is_an_error_and_the_next_hour_is_read() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("history-2026-11-29T13.parquet"), b"PAR1 rubbish PAR1").unwrap();
    let mut sheet = Sheet::create(&dir.path().join("history-2026-11-29T14.parquet"), dir.path().join("tmp")).unwrap();
    sheet.push(Row::new(Time::ZERO, Time::ZERO, Fingerprint(1))).unwrap();
    sheet.finish().unwrap();
    let mut reader = read(dir.path()).unwrap();
    let wrong = reader.next().unwrap().unwrap_err().to_string();
    assert!(wrong.contains("history-2026-11-29T13.parquet"), "{wrong}");
    assert_eq!(reader.next().unwrap().unwrap().fingerprint, Fingerprint(1));
    assert!(reader.next().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_parquet_file_with_any_bytes_changed_is_read_or_refused(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.parquet");
        let mut sheet = Sheet::create(&path, dir.path().join("tmp")).unwrap();
        for id in 0..50 {
            let sql = Some(format!("select {id}").into());
            sheet.push(Row { sql, ..Row::new(Time::from_micros(id), Time::from_micros(id), Fingerprint(id)) }).unwrap();
        }
        sheet.finish().unwrap();
        let mut bytes = fs::read(&path).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        fs::write(&path, bytes).unwrap();
        if let Ok(rows) = read(&path) {
            prop_assert!(rows.count() <= 51);
        }
    }
}
