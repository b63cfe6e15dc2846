//! `punctual simulate` as it is typed: what it says, and what it refuses.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Runs it, in that directory: the exit code, standard output and standard error.
fn simulate(dir: &Path, typed: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    let output = command.current_dir(dir).arg("simulate").args(typed).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn json(dir: &Path, typed: &[&str]) -> Value {
    let (code, out, err) = simulate(dir, &[typed, &["--format", "json"]].concat());
    assert_eq!(code, Some(0), "{err}");
    serde_json::from_str(&out).expect("JSON")
}

fn here() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

const SMALL: [&str; 6] = ["--workload", "poisson:0.1", "--for", "20m", "--seeds", "2"];

#[test]
fn policies_meet_the_same_arrivals_and_luck_whatever_the_number_of_threads() {
    let dir = here();
    let all = ["--policy", "round_robin", "--compare", "p2c,least_outstanding+queue_depth:horizontal"];
    let with = |threads| json(dir.path(), &[&SMALL[..], &all, &["--threads", threads]].concat());
    let found = with("1");
    assert_eq!(found, with("3"));
    let policies = found["policies"].as_array().expect("policies");
    assert_eq!(policies.len(), 3);
    let ended = |of: &Value| of["ended"]["finished"].as_f64().expect("a number");
    assert!(policies.iter().all(|of| ended(of) == found["queries"].as_f64().expect("a number")));
    assert!(policies[0].get("against_first").is_none() && policies[1]["against_first"]["cost"]["mean"].is_f64());
    let same = json(dir.path(), &[&SMALL[..], &["--policy", "p2c", "--compare", "p2c+off"]].concat());
    let cost = |at: usize| same["policies"][at]["cost"].clone();
    assert_eq!((cost(0), same["policies"][1]["against_first"]["cost"]["high"].as_f64()), (cost(1), Some(0.0)));
}

#[test]
fn what_was_simulated_can_be_written_down_and_sent_again() {
    let dir = here();
    let record = ["--record", "h", "--clusters", "16", "--slo", "20s", "--policy", "round_robin"];
    let recorded = json(dir.path(), &[&SMALL[..], &record].concat());
    let again = ["--trace", "h", "--clusters", "16", "--only", "seed0-*", "--seeds", "1", "--html", "page.html"];
    let found = json(dir.path(), &again);
    let mean = recorded["queries"].as_f64().expect("a number");
    let queries = found["queries"].as_f64().expect("a number");
    assert!((queries / mean - 1.0).abs() < 0.3, "one seed of two: {queries} of {mean}");
    assert!(found["as_recorded"]["violation_rate"].is_f64() && found["policies"][0]["violation_rate"]["mean"].is_f64());
    let page = std::fs::read_to_string(dir.path().join("page.html")).expect("a page");
    assert!(!page.contains("http") && !page.contains("<script") && !page.contains("NaN"));
    assert_eq!(page.matches("<svg").count(), 3);
    assert!(page.contains("prefers-color-scheme:dark"));
    let less = json(dir.path(), &["--trace", "h", "--queries", "7", "--seeds", "1", "--compress", "6"]);
    assert_eq!(less["queries"].as_f64(), Some(7.0));
}

#[test]
fn in_a_closed_loop_one_client_sends_one_query_at_a_time() {
    let dir = here();
    let found = json(dir.path(), &[&SMALL[..], &["--closed-loop", "1", "--clusters", "16", "--slo", "1h"]].concat());
    let of = &found["policies"][0];
    assert_eq!(of["violation_rate"]["mean"].as_f64(), Some(0.0));
    // One after the other without a pause: the cluster is there as long as all latencies take.
    let number = |value: &Value| value.as_f64().expect("a number");
    let busy = number(&of["latency_s"]["mean"]["mean"]) * number(&found["queries"]) / 3_600.0;
    assert!((number(&of["cluster_hours"]["mean"]) / busy - 1.0).abs() < 0.05);
}

#[test]
fn a_configuration_brings_its_clusters_classes_and_policy() {
    let dir = here();
    let config = "[policy]\nrouting = \"round_robin\"\n\
                  [[cluster]]\nname = \"a\"\nkind = \"simulated\"\nsize = 8\n\
                  [[cluster]]\nname = \"b\"\nkind = \"simulated\"\nsize = 16\n";
    std::fs::write(dir.path().join("p.toml"), config).expect("a file");
    let found = json(dir.path(), &[&SMALL[..], &["--config", "p.toml"]].concat());
    assert_eq!(found["clusters"], serde_json::json!([8, 16]));
    assert_eq!(found["policies"][0]["policy"], "round_robin");
    // Where routing is only watched, it is the baseline that routes; what is asked for acts.
    std::fs::write(dir.path().join("p.toml"), config.replace("[policy]\n", "[policy]\nrouting_mode = \"shadow\"\n"))
        .expect("a file");
    let watched = json(dir.path(), &[&SMALL[..], &["--config", "p.toml", "--compare", "round_robin"]].concat());
    let name = |at: usize| watched["policies"][at]["policy"].clone();
    assert_eq!((name(0), name(1)), ("least_outstanding".into(), "round_robin".into()));
    assert_eq!(watched["policies"][1]["cost"], found["policies"][0]["cost"]);
    std::fs::write(dir.path().join("p.toml"), "[polcy]\n").expect("a file");
    let (code, _, err) = simulate(dir.path(), &[&SMALL[..], &["--config", "p.toml"]].concat());
    assert!(code == Some(2) && err.contains("polcy"), "{err}");
}

#[test]
fn starts_take_their_time_and_fail_and_clusters_are_lost() {
    let dir = here();
    let burst = ["--workload", "phased:0.05@10m,0.6@20m", "--for", "40m", "--clusters", "8", "--seeds", "3"];
    let grow = ["--scaling", "queue_depth:horizontal", "--start-takes", "60s..2m"];
    let with = |more: &[&str]| json(dir.path(), &[&burst[..], &grow, more].concat())["policies"][0].clone();
    let number = |of: &Value, key: &str| of[key]["mean"].as_f64().expect("a number");
    let (well, failing) = (with(&[]), with(&["--start-fails", "0.7"]));
    assert_eq!((number(&well, "failed_starts"), number(&well, "lost_clusters")), (0.0, 0.0));
    assert!(number(&failing, "failed_starts") > 0.5 && number(&well, "starts") > 0.5, "{failing:#}");
    assert!(number(&failing, "cluster_hours") < number(&well, "cluster_hours"), "{failing:#} {well:#}");
    assert!(number(&failing, "stops") < 0.5, "what never started is not stopped: {failing:#}");
    let lost = with(&["--lost-after", "5m"]);
    assert!(number(&lost, "lost_clusters") > 1.0 && lost["ended"]["lost"].as_f64() > Some(0.0), "{lost:#}");
    // Nothing that is asked for comes up, and every query has its end.
    let none = with(&["--start-fails", "1"]);
    assert!(number(&none, "cluster_hours") < number(&well, "cluster_hours"));
    assert_eq!(number(&none, "unit_hours"), 8.0 * number(&none, "cluster_hours"), "only the first is ever there");
}

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    let dir = here();
    std::fs::create_dir(dir.path().join("empty")).expect("a directory");
    std::fs::write(dir.path().join("m.model"), "no model").expect("a file");
    let workload: &[&str] = &["--workload", "poisson:0.1"];
    json(dir.path(), &[workload, &["--for", "1m", "--seeds", "1", "--record", "one"]].concat());
    let refused: [(&[&str], i32, &str); 17] = [
        (&[workload, &["--start-takes", "90s..45s"]].concat(), 2, "the shorter duration first"),
        (&[workload, &["--start-fails", "7"]].concat(), 2, "from 0 to 1"),
        (&[workload, &["--lost-after", "0s"]].concat(), 2, "is no duration"),
        (&["--policy", "slo"], 2, "--trace"),
        (&["--workload", "poison:1"], 2, "did you mean \"poisson\"?"),
        (&["--trace", "h", "--workload", "day"], 2, "cannot be used with"),
        (&["--trace", "nowhere"], 1, "nowhere"),
        (&["--trace", "empty"], 1, "no history in empty"),
        (&["--trace", "one", "--only", "x*"], 1, "one holds no query that ran on a cluster called x*"),
        (&[workload, &["--policy", "round_robbin"]].concat(), 2, "did you mean \"round_robin\"?"),
        (&[workload, &["--compare", "p2c,,slo"]].concat(), 2, "there is no policy \"\""),
        (&[workload, &["--clusters", "16,0"]].concat(), 2, "\"0\" is no size"),
        (&[workload, &["--clusters", ""]].concat(), 2, "no size"),
        (&[workload, &["--slo", "0s"]].concat(), 2, "cannot be met"),
        (&[workload, &["--seeds", "0"]].concat(), 2, "seeds"),
        (&[workload, &["--compress", "0"]].concat(), 2, "0.001"),
        (&[workload, &["--model", "m.model"]].concat(), 1, "m.model is not a model"),
    ];
    for (typed, code, because) in refused {
        let (ended, out, err) = simulate(dir.path(), typed);
        assert!(ended == Some(code) && err.contains(because) && out.is_empty(), "{typed:?}: {ended:?} {err}");
    }
}

#[test]
fn odd_cases_have_results_and_say_what_is_odd() {
    let dir = here();
    let short = ["--workload", "poisson:0.1", "--for", "3m", "--seeds", "1"];
    let slow = ["--scaling", "queue_depth:horizontal", "--start-takes", "1h"];
    let (code, _, err) = simulate(dir.path(), &[&short[..], &slow].concat());
    assert!(code == Some(0) && err.contains("nothing that is started comes in time"), "{err}");
    let (code, out, err) = simulate(dir.path(), &[&short[..], &["--policy", "slo"]].concat());
    assert!(code == Some(0) && err.contains("without --model"), "{err}");
    assert!(out.contains("One seed: no intervals."), "{out}");
    // A fleet of none that nothing makes larger.
    std::fs::write(
        dir.path().join("none.toml"),
        "[[cluster]]\nname = \"a\"\nkind = \"simulated\"\nkeep = \"scaled\"\n",
    )
    .expect("a file");
    let (code, out, err) = simulate(dir.path(), &[&short[..], &["--config", "none.toml"]].concat());
    assert!(code == Some(0) && out.contains("refused") && out.contains(" 0.00 ") && !out.contains("-0.0"), "{out}");
    assert!(err.contains("no cluster is there at the start"), "{err}");
    // All at one instant, and none at all.
    let burst =
        json(dir.path(), &["--workload", "poisson:10", "--for", "100s", "--compress", "1000000", "--seeds", "1"]);
    assert!(burst["queries"].as_f64().is_some_and(|queries| queries > 900.0));
    let none = json(dir.path(), &["--workload", "poisson:0.000001", "--for", "1s", "--seeds", "2"]);
    assert_eq!((none["queries"].as_f64(), &none["policies"][0]["violation_rate"]), (Some(0.0), &Value::Null));
}

/// Queries that take ten seconds alone. All of those of a busy time ran on one of two clusters.
fn imported(dir: &Path) {
    let mut csv = "query,cluster,size,arrival,latency\n".to_owned();
    let mut row = |cluster: &str, at: u32, latency: u32| {
        let at = format!("2026-01-05T{:02}:{:02}:{:02}Z", 9 + at / 3_600, at / 60 % 60, at % 60);
        csv += &format!("q1,{cluster},4,{at},{latency}\n");
    };
    (0..5).for_each(|calm| row("a", 70 * calm, 10));
    row("b", 340, 10);
    (0..90).for_each(|busy| row("a", 420 + 6 * busy, 100));
    std::fs::write(dir.join("log.csv"), csv).expect("a file");
    let map = "fingerprint=query,cluster=cluster,cluster_size=size,arrival=arrival,latency=latency:s";
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.current_dir(dir).args(["import", "csv", "log.csv", "-o", "h", "--map", map]);
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn in_the_shadow_of_a_history_it_is_said_what_would_have_changed() {
    let dir = here();
    imported(dir.path());
    let shadow = ["--trace", "h", "--shadow", "--slo", "30s", "--seeds", "2", "--policy", "round_robin"];
    let grow = ["--scaling", "observed:horizontal", "--start-takes", "30s"];
    let found = json(dir.path(), &[&shadow[..], &grow].concat());
    assert_eq!(found["clusters"], serde_json::json!([4, 4]), "those of the history");
    let (policy, changed) = (&found["policies"][0], &found["policies"][0]["shadow"]);
    let number = |value: &Value| value.as_f64().expect("a number");
    assert!((number(&changed["recorded"]["violation_rate"]) - 90.0 / 96.0).abs() < 1e-9);
    // A minute for each that was alone, then from the first of the busy time to the end of the last.
    let awake = 5.0 * 60.0 + (6.0 * 89.0 + 100.0) + 60.0;
    let dollars = 4.0 * 0.375 * awake / 3_600.0;
    assert!((number(&changed["recorded"]["cost"]) - dollars).abs() < 1e-9, "{changed:#}");
    let (before, after) =
        (number(&changed["as_it_was"]["violation_rate"]["mean"]), number(&policy["violation_rate"]["mean"]));
    assert!(before > 0.5 && after < before, "{before} then {after}");
    let moved = &changed["moved"];
    assert!(number(&moved["queries"]) > 30.0 && moved["of"] == 96 && number(&moved["saved"]) > 30.0, "{moved:#}");
    assert_eq!((&moved["ways"][0]["from"], &moved["ways"][0]["to"]), (&"a".into(), &"b".into()));
    assert_eq!(
        (&moved["first"][0]["at"], &moved["first"][0]["recorded_s"]),
        (&"2026-01-05 09:01:10".into(), &10.0.into())
    );
    let first = &changed["actions"][0];
    assert!(first["at"].as_str().is_some_and(|at| at.starts_with("2026-01-05 09:")), "{first}");
    assert!(first["what"].as_str().is_some_and(|what| what.starts_with("start size4-2 of size 4")), "{first}");
    assert!(first["because"].as_str().is_some_and(|because| because.contains("are late")), "{first}");

    let (_, text, err) = simulate(dir.path(), &shadow);
    assert!(text.contains("what would have changed") && text.contains("a -> b"), "{text}");
    assert!(err.contains("--scaling combined says what would be"), "{err}");
    let (code, _, err) = simulate(dir.path(), &["--workload", "poisson:0.1", "--shadow"]);
    assert!(code == Some(2) && err.contains("cannot be used with"), "{err}");
}

/// A gateway with a lane for what reaches back for more than a week: one of four at once.
const LANED: &str = "[lanes]\nstrategy = \"hilo\"\nmax_low_percent = 25\n\
    [[table]]\nname = \"events\"\ntime_column = \"ts\"\nto = \"now\"\n\
    [[class]]\nname = \"bi\"\nmatch = [{ user = \"ann\" }]\npriority_from = -9\nperiod_threshold = \"7d\"\n\
    [[cluster]]\nname = \"a\"\nkind = \"simulated\"\nsize = 4\nslots = 4\n";

/// The rows that a simulation recorded, by the name of their lane: how many, and their priorities.
fn recorded_lanes(dir: &Path) -> Vec<(String, Option<i32>, u64)> {
    let rows = punctual::history::read(dir).expect("a history").map(|row| row.expect("a row"));
    let mut lanes = std::collections::BTreeMap::new();
    for row in rows {
        *lanes.entry((row.lane.expect("a lane").to_string(), row.priority)).or_insert(0) += 1;
    }
    lanes.into_iter().map(|((lane, priority), count)| (lane, priority, count)).collect()
}

#[test]
fn recorded_queries_have_the_priority_and_lane_that_the_configuration_gives_them() {
    use punctual::history::{Options, Row, Writer};
    use punctual_core::admit::claim::Scan;
    use punctual_core::fingerprint::Fingerprint;
    use punctual_core::id::Units;
    use punctual_core::time::{Span, Time};
    let dir = here();
    std::fs::write(dir.path().join("p.toml"), LANED).expect("a file");
    let history = dir.path().join("h");
    let settings = punctual::settings::History {
        dir: history.clone(),
        max_bytes: 1 << 20,
        sql: punctual::settings::RecordSql::Shape,
    };
    let days = |days: u64| Some(Span::from_secs(days * 86_400));
    let scan = |reach: Option<Span>| Some(Scan { reach, duration: reach, segments: None, segment_range: None });
    // Every minute: a light one, two heavy ones, one that asks to be below zero, and a recorded one of unknown reach.
    let kinds =
        [(scan(days(7)), None), (scan(days(8)), None), (scan(None), None), (scan(days(1)), Some(-1)), (None, None)];
    let writer = Writer::start(&settings, Options::default()).expect("a history");
    for (at, (kind, (scan, priority_asked))) in (0..6).flat_map(|at| (0..).zip(kinds).map(move |kind| (at, kind))) {
        let arrival = Time::from_micros(1_000_000 * (at * 60 + kind));
        let row = Row {
            cluster: Some("a".into()),
            cluster_size: Some(Units(4)),
            class: Some("bi".into()),
            user: Some("ann".into()),
            sql: Some("select ? from events where ts > ?".into()),
            scan,
            priority_asked,
            ..Row::new(arrival, arrival + Span::from_secs(3), Fingerprint(kind))
        };
        assert!(writer.recorder().record(row));
    }
    writer.close();
    let again = ["--trace", "h", "-c", "p.toml", "--seeds", "1", "--record", "again"];
    let lanes = &json(dir.path(), &again)["policies"][0]["lanes"];
    assert_eq!((lanes["low"]["queries"].as_f64(), lanes["default"]["queries"].as_f64()), (Some(18.0), Some(12.0)));
    let lane = |name: &str, priority, count| (name.to_owned(), Some(priority), count);
    let expected = [lane("default", 0, 12), lane("low", -5, 12), lane("low", -1, 6)];
    assert_eq!(recorded_lanes(&dir.path().join("again")), expected);
    // Of the lane one runs at a time.
    let rows = punctual::history::read(&dir.path().join("again")).expect("a history").map(|row| row.expect("a row"));
    let mut low: Vec<_> = rows.filter(|row| row.lane.as_deref() == Some("low")).collect();
    low.sort_by_key(|row| row.started);
    assert!(low.windows(2).all(|pair| Some(pair[0].ended) <= pair[1].started), "{low:#?}");
    let (_, text, err) = simulate(dir.path(), &["--trace", "h", "-c", "p.toml", "--seeds", "1"]);
    assert!(text.contains("lane low: 18 queries"), "{text}");
    assert!(err.contains("of 6 queries the history does not say how much of time was read"), "{err}");
    // Without a configuration there are no lanes.
    let plain = json(dir.path(), &["--trace", "h", "--clusters", "4", "--seeds", "1"]);
    assert!(plain["policies"][0].get("lanes").is_none());
}

#[test]
fn a_log_of_texts_is_classified_and_read_by_the_configuration() {
    let dir = here();
    std::fs::write(dir.path().join("p.toml"), LANED).expect("a file");
    let query = |user: &str, from: &str| {
        format!("2026-01-05T09:00:00Z,4,2,{user},select 1 from events where ts >= date '{from}'\n")
    };
    let log = ["ann", "bob"].map(|user| query(user, "2026-01-01") + &query(user, "2025-12-01")).concat();
    std::fs::write(dir.path().join("log.csv"), format!("arrival,size,latency,user,sql\n{log}")).expect("a file");
    let map = "sql=sql,user=user,cluster_size=size,arrival=arrival,latency=latency:s";
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.current_dir(dir.path()).args(["import", "csv", "log.csv", "-o", "h", "--map", map]);
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let again = ["--trace", "h", "-c", "p.toml", "--seeds", "1", "--record", "again"];
    let of = &json(dir.path(), &again)["policies"][0];
    let count = |kind: &str, name: &str| of[kind][name]["queries"].as_f64();
    // Bob's are of the default class, which has no threshold.
    assert_eq!((count("classes", "bi"), count("classes", "default")), (Some(2.0), Some(2.0)));
    assert_eq!((count("lanes", "low"), count("lanes", "default")), (Some(1.0), Some(3.0)));
    let lane = |name: &str, priority, count| (name.to_owned(), Some(priority), count);
    assert_eq!(recorded_lanes(&dir.path().join("again")), [lane("default", 0, 3), lane("low", -5, 1)]);
}

#[test]
fn a_fleet_of_like_clusters_follows_a_days_load_by_tokens_and_queries_hardly_wait() {
    let dir = here();
    let day =
        ["--workload", "day:600:1", "--clusters", "4,4,4,4,4,4,4,4", "--sizes", "4", "--most", "8", "--seeds", "1"];
    let rest = ["--start-takes", "1m", "--slo", "2m", "--policy", "jiq", "--compare", "tabs,delayed_off,tabs+off"];
    let found = json(dir.path(), &[&day[..], &rest].concat());
    let mean = |policy: usize, key: &str| found["policies"][policy][key]["mean"].as_f64().expect("a number");
    let paid = |policy| mean(policy, "cluster_hours") + mean(policy, "starting_hours");
    let latency = |policy: usize| found["policies"][policy]["latency_s"]["p90"]["mean"].as_f64().expect("a number");
    // Always on: eight clusters for as long as it lasts.
    assert!((180.0..200.0).contains(&paid(0)), "{}", paid(0));
    for tokens in [1, 2] {
        assert!(paid(tokens) < 0.6 * paid(0), "{} of {}", paid(tokens), paid(0));
        assert!(mean(tokens, "starts") > 5.0 && mean(tokens, "starts") <= mean(tokens, "stops"));
        assert!(latency(tokens) < 1.15 * latency(0), "{} instead of {}", latency(tokens), latency(0));
        assert_eq!(found["policies"][tokens]["ended"]["finished"], 600.0);
    }
    assert_eq!((mean(1, "waiting_share"), mean(3, "starts"), paid(3)), (0.0, 0.0, paid(0)));
}
