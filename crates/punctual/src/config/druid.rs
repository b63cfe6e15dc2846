//! What `docs/lanes.md` says that a Druid broker's configuration becomes is read from there, and means what it should.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use punctual_core::admit::claim::Scan;
use punctual_core::admit::lanes::{Lanes, Limit};
use punctual_core::admit::terms::{Terms, Threshold, Thresholds};
use punctual_core::class;
use punctual_core::policy::Policy;
use punctual_core::scan::{Scans, TimeTables, instant_of};
use punctual_core::statement::Statement;
use punctual_core::time::{Span, Time};

use super::{Typed, parse_within};
use crate::settings::Settings;

/// The rules of the file under `<!-- druid: NAME -->`.
fn policy(name: &str) -> Policy {
    settings(name).policy
}

fn settings(name: &str) -> Settings {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lanes.md");
    let text = fs::read_to_string(path).expect("the document is there");
    let open = format!("<!-- druid: {name} -->\n```toml\n");
    let file = text.split_once(&open).expect("the file is marked").1.split_once("\n```\n").expect("it ends").0;
    let read = parse_within(file, Path::new("punctual.toml"), &|_| None, Typed::default());
    read.unwrap_or_else(|error| panic!("{error}"))
}

fn days(days: u64) -> Option<Span> {
    Some(Span::from_secs(days * 86_400))
}

#[test]
fn thresholds_and_hilo_of_a_druid_broker_are_written_one_to_one() {
    let found = policy("hilo");
    assert_eq!((found.max_running, found.max_waiting), (Some(40), 0));
    assert_eq!(found.lanes, Lanes::hilo(20.0));
    let terms = &found.classes[class::DEFAULT.0 as usize].terms;
    let thresholds = Thresholds {
        period: days(30),
        duration: days(7),
        segments: Some(1_000),
        segment_range: days(7),
        ..Thresholds::default()
    };
    assert_eq!(*terms, Terms { may_ask: (-100, 100), thresholds, adjustment: 5, ..Terms::default() });
    // Druid's: five less, once, whatever trips; below zero is low, of which 8 of 40 may run.
    let small = Scan { reach: days(1), duration: days(1), segments: Some(24), segment_range: days(1) };
    let old = Scan { reach: days(31), ..small };
    let all = Scan::default();
    let lane = |asked, scan| found.lanes.name(found.lanes.lane_of(terms, terms.priority(asked, Some(scan), None)));
    assert_eq!([lane(None, small), lane(None, old), lane(None, all)], ["default", "low", "low"]);
    assert_eq!([lane(Some(5), old), lane(Some(4), all), lane(Some(-1), small)], ["default", "low", "low"]);
    assert_eq!(found.lanes.limit(found.lanes.named("low").expect("a lane"), 40), 8);
}

#[test]
fn the_thresholds_of_a_druid_broker_go_by_what_queries_ask_of_its_tables() {
    let Settings { policy, time_tables, .. } = settings("hilo");
    let terms = &policy.classes[class::DEFAULT.0 as usize].terms;
    let now = instant_of("2024-05-15T12:00:00Z").and_then(|now| u64::try_from(now).ok()).expect("an instant");
    let mut scans = Scans::new(Arc::new(TimeTables::new(time_tables)), 16);
    let mut admitted = |predicate: &str| {
        let text = format!("SELECT count(*) FROM wikipedia WHERE {predicate}");
        let scan = scans.read(&text, &Statement::read(&text), &[], Time::from_micros(now)).expect("it reads the table");
        let tripped: Vec<Threshold> = terms.thresholds.tripped(Some(scan), None).collect();
        (policy.lanes.name(policy.lanes.lane_of(terms, terms.priority(None, Some(scan), None))).to_owned(), tripped)
    };
    use Threshold::*;
    let low = |tripped: &[Threshold]| ("low".to_owned(), tripped.to_vec());
    assert_eq!(admitted("__time >= CURRENT_TIMESTAMP - INTERVAL '1' DAY"), ("default".to_owned(), Vec::new()));
    // A week to the instant touches eight days' segments.
    assert_eq!(admitted("__time BETWEEN '2024-05-08 12:00' AND '2024-05-15'"), low(&[SegmentRange]));
    assert_eq!(admitted("__time >= CURRENT_TIMESTAMP - INTERVAL '10' DAY"), low(&[Duration, SegmentRange]));
    assert_eq!(admitted("__time >= '2024-01-01' AND __time < '2024-01-02'"), low(&[Period]));
    assert_eq!(admitted("__time >= '2020-01-01'"), low(&[Period, Duration, Segments, SegmentRange]));
    assert_eq!(admitted("page = 'Druid'"), low(&[Period, Duration, Segments, SegmentRange]));
}

#[test]
fn manual_lanes_of_a_druid_broker_are_written_one_to_one() {
    let found = policy("manual");
    assert_eq!((found.max_running, found.max_waiting), (Some(40), 0));
    let lane_of = |name: &str| {
        let class = &found.classes[class::find(&found.classes, name).expect("a class").0 as usize];
        found.lanes.lane_of(&class.terms, 0)
    };
    let lane = |name: &str| found.lanes.named(name).expect("a lane");
    assert_eq!((lane_of("reports"), lane_of("backfill")), (lane("reports"), lane("backfill")));
    let limit = |name: &str| found.lanes.get(lane(name)).and_then(|lane| lane.limit);
    assert_eq!([limit("reports"), limit("backfill")], [10.0, 5.0].map(|percent| Some(Limit::Percent(percent))));
    assert_eq!(["reports", "backfill", "default"].map(|name| found.lanes.limit(lane_of(name), 40)), [4, 2, u32::MAX]);
}

#[test]
fn the_first_example_of_the_page_is_right_as_far_as_it_goes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lanes.md");
    let text = fs::read_to_string(path).expect("the document is there");
    let file = text.split_once("```toml\n").expect("an example").1.split_once("\n```\n").expect("it ends").0;
    let file = format!("{file}\n[[cluster]]\nname = \"a\"\nkind = \"simulated\"\nslots = 24\n");
    let read = parse_within(&file, Path::new("punctual.toml"), &|_| None, Typed::default());
    let policy = read.unwrap_or_else(|error| panic!("{error}")).policy;
    let lane = policy.lanes.named("reports").expect("a lane");
    assert_eq!(policy.lanes.limit(lane, 24), 3);
    let lane = policy.lanes.get(lane).expect("a lane");
    assert_eq!((lane.max_queued, lane.queue_timeout), (Some(50), Some(Span::from_secs(1_200))));
}
