//! Whole imports: what ends up in history, what is dropped and why, and that nothing is left of what failed.

use std::fs;

use proptest::prelude::*;
use punctual_core::fingerprint::Fingerprint;
use punctual_core::id::{QueryId, Units};
use punctual_core::query::{SqlState, Status};
use punctual_core::statement::Statement;
use punctual_core::time::Span;
use tempfile::TempDir;

use super::*;
use crate::history::{self, Row};

/// A directory with files, and an import of them.
pub(super) struct Bench {
    pub(super) dir: TempDir,
    pub(super) plan: Plan,
}

impl Bench {
    /// Files named `a.csv`, `b.csv` and so on.
    pub(super) fn new(profile: &str, mapping: &str, files: &[&[u8]]) -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let paths = files.iter().zip('a'..).map(|(bytes, name)| {
            let path = dir.path().join(format!("{name}.csv"));
            fs::write(&path, bytes).unwrap();
            path
        });
        let plan = Plan {
            profile: flags::profile(profile).unwrap(),
            files: paths.collect(),
            out: dir.path().join("h"),
            mapping: flags::mapping(mapping.split(',')).unwrap(),
            words: Vec::new(),
            texts: None,
            sql: RecordSql::Text,
            offset: 0,
            delimiter: b',',
            append: false,
            strict: false,
        };
        Bench { dir, plan }
    }

    /// What the import says, with paths shortened.
    pub(super) fn run(&self) -> Result<Report, String> {
        let done = super::run(&self.plan, &AtomicBool::new(false), &mut |_| {});
        done.map_err(|error| error.to_string().replace(&format!("{}/", self.dir.path().display()), ""))
    }

    pub(super) fn rows(&self) -> Vec<Row> {
        history::read(&self.plan.out).unwrap().map(Result::unwrap).collect()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

const MAPPING: &str = "arrival=t:s,latency=took:s,fingerprint=q";

/// The reasons of a CSV file's records with the columns t, took, q (and more, mapped).
fn reasons(mapping: &str, csv: &str) -> Vec<(String, u64)> {
    let bench = Bench::new("csv", mapping, &[csv.as_bytes()]);
    bench.run().unwrap().reasons.into_iter().collect()
}

fn reason(mapping: &str, csv: &str) -> String {
    let reasons = reasons(mapping, csv);
    assert_eq!(reasons.len(), 1, "{csv}: {reasons:?}");
    reasons[0].0.clone()
}

#[test]
fn a_trace_is_mapped_column_by_column() {
    let csv = "run,cluster_size,arrival_s,template,instance,latency_s,status,split,published_s\n\
               17,4,6.686583,28,2,20.224,ok,train,17.195196\n\
               17,4,7,28,3,3601.209,timeout,val,\n";
    let mapping = "cluster=run,cluster_size=cluster_size,arrival=arrival_s:s,latency=latency_s:s,fingerprint=template,\
                   text_hash=template+instance,status=status,split=split,published=published_s:s";
    let mut bench = Bench::new("csv", mapping, &[csv.as_bytes()]);
    let queries = bench.dir.path().join("q");
    fs::create_dir(&queries).unwrap();
    fs::write(queries.join("28.sql"), "select 1\n").unwrap();
    bench.plan.texts = Some(Template::read(&format!("{}/{{template:02}}.sql", queries.display())).unwrap());
    let report = bench.run().unwrap();
    assert_eq!((report.records, report.kept, report.dropped, report.parts), (2, 2, 0, 2));
    let rows = bench.rows();
    let common = Row {
        cluster: Some("17".into()),
        cluster_size: Some(Units(4)),
        sql: Some("select 1".into()),
        ..Row::new(Time::from_micros(6_686_583), Time::from_micros(26_910_583), Fingerprint(28))
    };
    let first = Row {
        text_hash: rows[0].text_hash,
        status: Some(Status::Finished),
        split: Some("train".into()),
        published: Some(Span::from_micros(17_195_196)),
        ..common.clone()
    };
    let second = Row {
        arrival: Time::from_micros(7_000_000),
        ended: Time::from_micros(3_608_209_000),
        text_hash: rows[1].text_hash,
        status: Some(Status::Cancelled),
        sqlstate: Some(SqlState(*b"57014")),
        split: Some("val".into()),
        ..common
    };
    assert_eq!(rows, [first, second]);
    assert!(rows[0].text_hash.is_some() && rows[0].text_hash != rows[1].text_hash);
}

#[test]
fn a_text_gives_the_fingerprint_where_none_is_mapped_and_is_kept_as_asked() {
    let csv = b"t,took,sql\n1,2,\"SELECT 7\nFROM t\"\n";
    let statement = Statement::read("select 8 from t");
    let shapes = [
        (RecordSql::Text, Some("SELECT 7\nFROM t")),
        (RecordSql::Shape, Some(statement.shape.as_str())),
        (RecordSql::Nothing, None),
    ];
    for (sql, kept) in shapes {
        let mut bench = Bench::new("csv", "arrival=t:s,latency=took:s,sql=sql", &[csv]);
        bench.plan.sql = sql;
        bench.run().unwrap();
        let rows = bench.rows();
        assert_eq!(rows[0].fingerprint, statement.fingerprint);
        assert_eq!(rows[0].sql.as_deref(), kept);
        let key = Key::of_dir(&bench.plan.out).unwrap();
        assert_eq!(rows[0].text_hash, Some(key.hash(b"SELECT 7\nFROM t")));
    }
}

#[test]
fn numbers_are_taken_as_they_are_and_other_keys_stand_for_their_hash() {
    let csv = b"t,took,q,id\n1,0,60,7\n2,0,00000000000000ff,x\n3,0,q7,y\n4,0,q7,\n5,0,-1,8.0\n";
    let bench = Bench::new("csv", &format!("{MAPPING},query_id=id"), &[csv]);
    bench.run().unwrap();
    let rows = bench.rows();
    let prints: Vec<u64> = rows.iter().map(|row| row.fingerprint.0).collect();
    assert_eq!(prints, [60, 255, Key::PUBLIC.hash(b"q7"), Key::PUBLIC.hash(b"q7"), u64::MAX]);
    let ids: Vec<Option<u64>> = rows.iter().map(|row| row.query_id.map(|id| id.0)).collect();
    let hashed = |text: &str| Some(Key::PUBLIC.hash(text.as_bytes()));
    assert_eq!(ids, [Some(7), hashed("x"), hashed("y"), None, Some(8)]);
}

#[test]
fn joined_columns_are_one_key_only_together() {
    let csv = b"t,took,a,b\n1,0,1,23\n2,0,12,3\n3,0,1,23\n";
    let bench = Bench::new("csv", "arrival=t:s,latency=took:s,fingerprint=a+b,cluster=@file,lane=a+b", &[csv]);
    bench.run().unwrap();
    let rows = bench.rows();
    assert_eq!(rows[0].fingerprint, rows[2].fingerprint);
    assert_ne!(rows[0].fingerprint, rows[1].fingerprint);
    assert_eq!((rows[0].lane.as_deref(), rows[0].cluster.as_deref()), (Some("1/23"), Some("a")));
}

#[test]
fn durations_that_make_no_sense_are_dropped_with_the_reason() {
    for (latency, why) in [
        ("-1", "latency is negative"),
        ("-0.5", "latency is negative"),
        ("NaN", "latency is not a number"),
        ("inf", "latency is infinite"),
        ("1e300", "latency is infinite"),
        ("-inf", "latency is negative"),
        ("soon", "latency is not a number"),
        ("", "latency is missing"),
        ("NULL", "latency is missing"),
    ] {
        assert_eq!(reason(MAPPING, &format!("t,took,q\n1,{latency},7\n")), why, "{latency}");
    }
    let bench = Bench::new("csv", MAPPING, &[b"t,took,q\n1,0,7\n"]);
    assert_eq!(bench.run().unwrap().kept, 1, "zero is a duration");
}

#[test]
fn instants_that_make_no_sense_are_dropped_with_the_reason() {
    let unitless = "arrival is a number without a unit (map it with one: arrival=COLUMN:ms)";
    for (unit, arrival, why) in [
        ("", "2024-05-27 25:00:00", "arrival is not a timestamp"),
        ("", "2024-05-27 13:00:00 Mars/Base", "arrival has a zone that is neither an offset nor UTC"),
        ("", "1716817502", unitless),
        ("", "1969-12-31 23:59:59Z", "arrival is before 1970 or after 9999"),
        (":ms", "253402300800000", "arrival is before 1970 or after 9999"),
        (":s", "-1", "arrival is before 1970 or after 9999"),
        (":s", "NaN", "arrival is not a number"),
        (":s", "inf", "arrival is infinite"),
        (":s", "", "arrival is missing"),
    ] {
        let mapping = format!("arrival=t{unit},latency=took:s,fingerprint=q");
        assert_eq!(reason(&mapping, &format!("t,took,q\n{arrival},1,7\n")), why, "{arrival}");
    }
    let mapping = "arrival=t:s,ended=e:s,started=s:s,fingerprint=q";
    assert_eq!(reason(mapping, "t,e,s,q\n5,4,,7\n"), "it ends before it arrives");
    assert_eq!(reason(mapping, "t,e,s,q\n5,,,7\n"), "ended is missing");
    for started in [4, 7] {
        let csv = format!("t,e,s,q\n5,6,{started},7\n");
        assert_eq!(reason(mapping, &csv), "it starts before it arrives or after it ends");
    }
}

#[test]
fn other_values_that_make_no_sense_are_dropped_with_the_reason() {
    for (target, value, why) in [
        ("status", "perhaps", "status is a word that is not known"),
        ("sqlstate", "57", "sqlstate is a word that is not known"),
        ("cluster_size", "0", "cluster_size is not a whole number that fits"),
        ("cluster_size", "2.5", "cluster_size is not a whole number that fits"),
        ("cluster_size", "huge", "cluster_size is not a whole number that fits"),
        ("rows", "many", "rows is not a whole number that fits"),
        ("slo", "-1", "slo is negative"),
        ("published", "x", "published is not a number"),
    ] {
        let unit = if matches!(target, "slo" | "published") { ":s" } else { "" };
        let why_not = reason(&format!("{MAPPING},{target}=v{unit}"), &format!("t,took,q,v\n1,2,7,{value}\n"));
        assert_eq!(why_not, why, "{target} {value}");
    }
    assert_eq!(reason(MAPPING, "t,took,q\n1,2,\n"), "neither fingerprint nor sql is known");
    assert_eq!(reason(MAPPING, "t,took,q\n1,2\n"), "the number of values is not that of the columns");
}

#[test]
fn what_a_file_does_not_know_is_null() {
    let mapping = format!("{MAPPING},published=p:s,rows=n,bytes=b,status=s,cluster_size=c");
    let bench = Bench::new("csv", &mapping, &[b"t,took,q,p,n,b,s,c\n1,2,7,NaN,-1,3.0,,\n"]);
    assert_eq!(bench.run().unwrap().kept, 1);
    let row = &bench.rows()[0];
    assert_eq!((row.published, row.rows, row.bytes, row.status, row.cluster_size), (None, None, Some(3), None, None));
}

#[test]
fn waiting_and_running_tell_when_it_started() {
    let csv = b"t,took,q,w\n10,5,7,2\n20,5,7,9\n";
    let started = |mapping: &str| -> Vec<Option<u64>> {
        let bench = Bench::new("csv", &format!("{MAPPING},{mapping}"), &[csv]);
        bench.run().unwrap();
        bench.rows().iter().map(|row| row.started.map(|at| at.micros() / 1_000_000)).collect()
    };
    assert_eq!(started("waited=w:s"), [Some(12), Some(25)]);
    assert_eq!(started("ran=w:s"), [Some(13), Some(20)]);
    assert_eq!(started("lane=w"), [None, None]);
}

#[test]
fn timestamps_without_a_zone_are_in_the_one_that_was_given() {
    let csv = b"t,took,q\n2024-05-27 15:45:02.5,1,7\n2024-05-27T13:45:02.5Z,1,8\n";
    let mut bench = Bench::new("csv", "arrival=t,latency=took:s,fingerprint=q", &[csv]);
    bench.plan.offset = 120;
    bench.run().unwrap();
    let arrivals: Vec<u64> = bench.rows().iter().map(|row| row.arrival.micros()).collect();
    assert_eq!(arrivals, [1_716_817_502_500_000; 2]);
}

#[test]
fn words_can_be_given_a_meaning_and_what_has_not_ended_is_left_out() {
    let csv = b"t,took,q,s\n1,2,7,False\n2,2,7,True\n3,,7,RUNNING\n";
    let mut bench = Bench::new("csv", &format!("{MAPPING},status=s"), &[csv]);
    bench.plan.words = vec![flags::word("True=timeout").unwrap(), flags::word("False=finished").unwrap()];
    let report = bench.run().unwrap();
    assert_eq!((report.kept, report.dropped, report.left_out), (2, 0, 1));
    let ends: Vec<Option<Status>> = bench.rows().iter().map(|row| row.status).collect();
    assert_eq!(ends, [Some(Status::Finished), Some(Status::Cancelled)]);
}

#[test]
fn clocks_that_go_backwards_and_records_that_are_there_twice_are_counted() {
    let csv = b"t,took,q,id\n5,1,7,1\n3,1,7,2\n3,1,7,2\n9,1,7,\n9,1,7,\n";
    let bench = Bench::new("csv", &format!("{MAPPING},query_id=id"), &[csv, csv]);
    let report = bench.run().unwrap();
    assert_eq!((report.records, report.kept, report.dropped, report.backwards), (10, 6, 4, 2));
    assert_eq!(report.reasons["it is there twice"], 4);
    let rows: Vec<(u64, Option<QueryId>)> = bench.rows().iter().map(|r| (r.arrival.micros(), r.query_id)).collect();
    let at = |seconds: u64, id: Option<u64>| (seconds * 1_000_000, id.map(QueryId));
    assert_eq!(rows, [at(3, Some(2)), at(5, Some(1)), at(9, None), at(9, None), at(9, None), at(9, None)]);
}

#[test]
fn bad_records_are_counted_with_their_place_or_stop_a_strict_import() {
    let csv = b"t,took,q\n1,2,7\n2,-1,7\n3,x,7\n4,-2,7\n5,-3,7\n6,-4,7\n";
    let mut bench = Bench::new("csv", MAPPING, &[csv]);
    let report = bench.run().unwrap();
    assert_eq!((report.kept, report.dropped), (1, 5));
    assert_eq!(report.reasons["latency is negative"], 4);
    let places: Vec<&str> = report.examples.iter().map(|example| example.at.rsplit('/').next().unwrap()).collect();
    assert_eq!(places, ["a.csv:3", "a.csv:4", "a.csv:5", "a.csv:6"]);
    bench.plan.out = bench.dir.path().join("strict");
    bench.plan.strict = true;
    assert_eq!(bench.run().unwrap_err(), "a.csv:3: latency is negative (-1)");
    assert_eq!(bench.names(), ["a.csv", "h"]);
}

#[test]
fn a_missing_column_is_named_with_the_one_that_was_meant() {
    let error = |mapping: &str, file: &[u8]| Bench::new("csv", mapping, &[file]).run().unwrap_err();
    let mapping = "arrival=arival_s:s,latency=took:s,fingerprint=q";
    let said = error(mapping, b"arrival_s,took,q\n1,2,3\n");
    assert_eq!(said, "a.csv: there is no column arival_s; did you mean arrival_s?");
    let said = error(mapping, b"{\"arrival_s\":1,\"took\":2,\"q\":3}\n");
    assert_eq!(said, "a.csv: there is no column arival_s; did you mean arrival_s?");
    let said = error("arrival=when:s,latency=took:s,fingerprint=q", b"t,took,q\n1,2,3\n");
    assert_eq!(said, "a.csv: there is no column when; there are t, took, q");
    let said = error(MAPPING, b"t,took,q,t\n1,2,3,4\n");
    assert_eq!(said, "a.csv: the column t is there twice");
}

#[test]
fn the_file_of_a_text_must_be_there_and_stay_in_its_directory() {
    let mut bench = Bench::new("csv", MAPPING, &[b"t,took,q\n1,2,7\n"]);
    bench.plan.texts = Some(Template::read(&format!("{}/{{q}}.sql", bench.dir.path().display())).unwrap());
    let error = bench.run().unwrap_err();
    assert!(error.starts_with("a.csv:2: cannot read the query's text from 7.sql: "), "{error}");
    let mut bench = Bench::new("csv", MAPPING, &[b"t,took,q\n1,2,../h\n"]);
    bench.plan.texts = Some(Template::read("q/{q}.sql").unwrap());
    let report = bench.run().unwrap();
    assert_eq!(report.reasons["a value leads out of the directory of the SQL files"], 1);
    bench.plan.texts = Some(Template::read("q/{template}.sql").unwrap());
    assert_eq!(bench.run().unwrap_err(), "a.csv: there is no column template; there are t, took, q");
}

#[test]
fn a_history_that_is_there_is_added_to_only_if_asked() {
    let mut bench = Bench::new("csv", MAPPING, &[b"t,took,q\n1,2,7\n"]);
    bench.run().unwrap();
    assert_eq!(bench.run().unwrap_err(), format!("there is something in {} already; --append adds to a history", "h"));
    bench.plan.append = true;
    assert_eq!(bench.run().unwrap().parts, 1);
    assert_eq!(bench.rows().len(), 2);
}

#[test]
fn nothing_is_left_of_an_import_that_was_stopped_or_kept_nothing() {
    let bench = Bench::new("csv", MAPPING, &[b"t,took,q\n1,2,7\n"]);
    let error = super::run(&bench.plan, &AtomicBool::new(true), &mut |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "stopped; nothing was written");
    assert_eq!(bench.names(), ["a.csv"]);
    for file in [b"".as_slice(), b"t,took,q\n", b"t,took,q\n1,-1,7\n"] {
        let bench = Bench::new("csv", MAPPING, &[file]);
        assert_eq!(bench.run().unwrap().kept, 0);
        assert_eq!(bench.names(), ["a.csv"]);
    }
}

#[test]
fn an_import_can_be_stopped_while_it_writes() {
    let mut csv = b"t,took,q\n".to_vec();
    (0..3_000).for_each(|at| csv.extend_from_slice(format!("{at},1,7\n").as_bytes()));
    let bench = Bench::new("csv", MAPPING, &[&csv]);
    let stop = AtomicBool::new(false);
    let error = super::run(&bench.plan, &stop, &mut |progress| {
        stop.store(progress.file.is_none(), Ordering::Relaxed);
    });
    assert!(matches!(error, Err(ImportError::Stopped)));
    assert_eq!(bench.names(), ["a.csv"]);
}

#[test]
fn progress_goes_from_nothing_to_all() {
    let mut csv = b"t,took,q\n".to_vec();
    (0..5_000).for_each(|at| csv.extend_from_slice(format!("{at},1,7\n").as_bytes()));
    let bench = Bench::new("csv", MAPPING, &[&csv, &csv]);
    let mut told = Vec::new();
    super::run(&bench.plan, &AtomicBool::new(false), &mut |progress| {
        told.push((progress.records, progress.bytes, progress.of_bytes, progress.written));
    })
    .unwrap();
    let all = csv.len() as u64 * 2;
    assert!(told.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1 && pair[0].3 <= pair[1].3));
    assert!(told.iter().all(|(_, bytes, of, _)| bytes <= of && *of == all));
    assert_eq!(told.last().map(|(records, bytes, ..)| (*records, *bytes)), Some((10_000, all)));
}

#[test]
fn what_is_missing_from_a_mapping_is_said_before_anything_is_read() {
    let lacks = |profile: &str, mapping: &str| Bench::new(profile, mapping, &[]).plan.lacks();
    assert_eq!(lacks("csv", ""), ["arrival", "latency (or ended)", "fingerprint (or sql)"]);
    assert_eq!(lacks("csv", "arrival=a,ended=b,sql=c"), [""; 0]);
    assert_eq!(lacks("snowflake", ""), [""; 0]);
}

#[test]
fn a_report_reads_well() {
    let csv = b"t,took,q,s\n1,2,7,ok\n2,-1,7,ok\n3,1,7,running\n0,1,7,ok\n";
    let bench = Bench::new("csv", &format!("{MAPPING},status=s"), &[csv]);
    let report = bench.run().unwrap();
    let text = report.to_string().replace(&format!("{}/", bench.dir.path().display()), "");
    expect_test::expect![[r#"
        2 of 4 records kept in h, 1 file of Parquet
          from 1970-01-01 00:00:00.000000 to 1970-01-01 00:00:03.000000 UTC
          status: 2 finished
        dropped 1 record:
                  1  latency is negative
                     a.csv:3 (-1)
        left out 1 record:
                  1  a query that has not ended
        note: 1 row arrived before the one before in the file; history puts them in order"#]]
    .assert_eq(&text);
    let json: serde_json::Value = serde_json::to_value(&report).unwrap();
    assert_eq!((&json["kept"], &json["reasons"]["latency is negative"]), (&2.into(), &1.into()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nothing_that_a_file_can_hold_makes_an_import_panic(
        profile in proptest::sample::select(flags::PROFILES.map(|profile| profile.name).to_vec()),
        lines in proptest::collection::vec("[ -~\"\n,{}:é]{0,60}", 0..12),
    ) {
        let mut bytes = b"t,took,q\n1,2,3\n".to_vec();
        bytes.extend(lines.join("\n").bytes());
        let bench = Bench::new(profile, if profile == "csv" { MAPPING } else { "" }, &[&bytes, lines.join("\n").as_bytes()]);
        let _ = bench.run();
    }
}
