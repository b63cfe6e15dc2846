//! What `punctual check --query` says of how much of time a query reads, and of what that comes to.

use punctual_core::class::Client;
use punctual_core::scan::instant_of;
use punctual_core::time::Time;

use super::*;
use crate::cli::check::query::Question;
use crate::settings::Settings;

const FILE: &str = r#"
[lanes]
strategy = "hilo"
max_low_percent = 20
[[table]]
name = "shop.events"
time_column = "ts"
segment = "1d"
to = "now"
[[table]]
name = "facts"
time_column = "day"
[[class]]
name = "default"
priority = 2
priority_from = -9
priority_to = 9
period_threshold = "30d"
duration_threshold = "7d"
segment_count_threshold = 10
latency_threshold = "1m"
[[cluster]]
name = "a"
kind = "simulated"
"#;

fn settings(file: &str) -> Settings {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("punctual.toml");
    std::fs::write(&path, file).expect("a file");
    config::read(Some(&path), Typed::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// What becomes of a query that comes at half past ten on 15 May 2024.
fn asked(sql: &str, parameters: &[&str]) -> QueryMeaning {
    let parameters: Vec<String> = parameters.iter().map(|value| (*value).to_owned()).collect();
    let origin = Origin { user: "ann", database: "", application: "", client: Client::Unknown };
    let now = instant_of("2024-05-15 10:30:00").and_then(|now| u64::try_from(now).ok()).expect("a time");
    let (parameters, now) = (parameters.as_slice(), Time::from_micros(now));
    QueryMeaning::of(&Question { sql, parameters, origin, wished: Wished::default(), now }, &settings(FILE))
}

fn told(sql: &str, parameters: &[&str]) -> String {
    let mut out = Vec::new();
    text::write_query(&asked(sql, parameters), &mut out).expect("output");
    let text = String::from_utf8(out).expect("text");
    text.lines().skip(3).filter(|line| !line.starts_with("  Its shape")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_query_is_told_how_much_of_time_it_reads_and_what_that_makes_of_it() {
    let week = "select count(*) from shop.events where ts >= date_trunc('day', now()) - interval '6 days'";
    let old = "select 1 from shop.events where ts >= $1 and ts < '2024-03-03' /* punctual: priority=7 */";
    let both = "select 1 from shop.events e join facts f on f.id = e.id where e.ts > now() - interval '1 day'";
    expect_test::expect![[r#"
        a week
          It reaches back 6.4 days and covers 6.4 days, in 7 partitions of 7 days together.
            Of shop.events, by ts: from 2024-05-09 00:00:00 until 2024-05-15 10:30:00.000001.
          Its priority is 2, unless `latency_threshold` trips when it comes. No lane limits it.

        two days long ago
          It reaches back 75.4 days and covers 2 days, in 2 partitions of 2 days together.
            Of shop.events, by ts: from 2024-03-01 00:00:00 until 2024-03-03 00:00:00.
          Its priority is 2: `period_threshold` trips, which takes 5 off 7. No lane limits it.
    "#]]
    .assert_eq(&format!("a week\n{}\ntwo days long ago\n{}", told(week, &[]), told(old, &["2024-03-01"])));
    expect_test::expect![[r#"
        from an unknown day
          It reaches back without bound and covers time without bound, in partitions without bound.
            Of shop.events, by ts: all until 2024-03-03 00:00:00.
            Unbounded: no predicate that is understood bounds shop.events.ts from below, and the table does not say `from`.
            Unbounded: not known: the value of $1.
          Its priority is 2: `period_threshold`, `duration_threshold` and `segment_count_threshold` trip, which takes 5 off 7. No lane limits it.

        two tables
          It reaches back without bound and covers time without bound, in 2 partitions of 2 days together.
            Of shop.events, by ts: from 2024-05-14 10:30:00.000001 until 2024-05-15 10:30:00.000001.
            Of facts, by day: all.
            Unbounded: no predicate that is understood bounds facts.day from below, and the table does not say `from`.
            Unbounded: no predicate that is understood bounds facts.day from above, and the table does not say `to`.
          Its priority is -3: `period_threshold` and `duration_threshold` trip, which takes 5 off 2. Its lane is low.
    "#]].assert_eq(&format!("from an unknown day\n{}\ntwo tables\n{}", told(old, &[]), told(both, &[])));
}

#[test]
fn programs_are_told_what_is_unbounded_by_name() {
    let json = json!(asked("select 1 from shop.events where ts < '2024-02-01'", &[]));
    let scan = &json["scan"];
    assert_eq!((&scan["reach_s"], &scan["duration_s"]), (&json!(null), &json!(null)));
    assert_eq!(scan["unbounded"], json!(["reach", "duration", "segments", "segment_range"]));
    assert_eq!(scan["reads"][0]["ranges"], json!([[null, "2024-02-01 00:00:00"]]));
    assert_eq!(
        json["thresholds_tripped"],
        json!(["period_threshold", "duration_threshold", "segment_count_threshold"])
    );
    assert_eq!((&json["priority_before"], &json["priority"], &json["lane"]), (&json!(2), &json!(-3), &json!("low")));
    let json = json!(asked("select 1 from facts where day = '2024-05-14'", &[]));
    assert_eq!(json["scan"]["segments"], json!(null));
    assert_eq!((&json["scan"]["reach_s"], &json["scan"]["unbounded"]), (&json!(124_200.0), &json!([])));
    assert_eq!(json!(asked("select 1 from other", &[]))["scan"], json!(null));
}

#[test]
fn thresholds_that_nothing_can_trip_are_warned_of() {
    let warned = |file: &str, what: &str| printed(Some(file), Check::default()).0.contains(what);
    let without = "thresholds of what a query reads say nothing without a [[table]]";
    let whole = "say nothing while no [[table]] has a `segment`";
    assert!(!warned(FILE, without) && !warned(FILE, whole));
    let (lanes, rest) = FILE.split_once("[[table]]").expect("a table");
    let classes = rest.split_once("[[class]]").expect("a class").1;
    assert!(warned(&format!("{lanes}[[class]]{classes}"), without));
    assert!(warned(&FILE.replace("segment = \"1d\"\n", ""), whole));
}

#[test]
fn one_is_not_many() {
    let file = "[policy]\nmax_waiting = 1\nmax_running = 1\n[lanes]\nstrategy = \"manual\"\n\
                [[lane]]\nname = \"l\"\nlimit = 1\nguarantee = 1\nmax_queued = 0\n\
                [[class]]\nname = \"c\"\nlane = \"l\"\nmax_running = 1\nmax_queued = 1\nsegment_count_threshold = 1\n\
                [[cluster]]\nname = \"a\"\nkind = \"simulated\"\nslots = 1\n";
    let text = printed(Some(file), Check::default()).0;
    for said in [
        "At most 1 query waits, at most 5m; one more",
        "At most 1 query runs at once in all.",
        "Lane l: at most 1 runs at once, its queries go first while none runs, none waits.",
        "at most 1 runs at once",
        "at most 1 waits",
        "if it reads more than 1 partition",
        "lane \"l\" may have 1 of the 1 query that may run at once",
        "class \"c\" may run 1 query and 1 may run in all",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let text = printed(Some(&file.replace("max_waiting = 1", "max_waiting = 0")), Check::default()).0;
    assert!(text.contains("No query waits: one that finds no room is refused."), "{text}");
}
