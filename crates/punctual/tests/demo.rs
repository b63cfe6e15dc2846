//! The demonstration, small: what it prints is what happened.

mod served;

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use served::punctual;

fn demo(state: &Path, flags: &[&str]) -> Output {
    punctual()
        .args(["demo", "--clusters", "simulated", "--seconds", "2", "--format", "json", "--state-dir"])
        .arg(state)
        .args(flags)
        .output()
        .expect("the program runs")
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_demo_reports_what_its_history_holds_and_its_journal_replays() {
    let state = tempfile::tempdir().expect("a temporary directory");
    let report = json(&demo(state.path(), &["--policy", "p2c"]));
    assert_eq!(report["policy"], "p2c");
    assert_eq!(report["lost"], 0);
    assert_eq!(report["failed"], 0);
    let queries = report["queries"].as_u64().expect("a count");
    assert!(queries > 0, "{report}");
    let classes = report["classes"].as_array().expect("classes");
    let names: Vec<&str> = classes.iter().filter_map(|class| class["name"].as_str()).collect();
    assert_eq!(names, ["dashboards", "adhoc", "etl"]);
    assert_eq!(classes.iter().filter_map(|class| class["queries"].as_u64()).sum::<u64>(), queries);

    let dir = Path::new(report["history"].as_str().expect("a path"));
    let rows: Vec<_> = punctual::history::read(dir).expect("history").map(|row| row.expect("a row")).collect();
    let of_classes = rows.iter().filter(|row| row.class.as_deref().is_some_and(|class| names.contains(&class)));
    assert_eq!(of_classes.count() as u64, queries);

    let journal = report["journal"].as_str().expect("a path");
    let replay = punctual().args(["replay", "--format", "json", journal]).output().expect("the program runs");
    let replay = json(&replay);
    let replayed = &replay["segments"][0]["verdict"]["replayed"];
    assert!(replayed["events"].as_u64().expect("a count") > 2 * queries, "{replay}");
    assert_eq!(replayed["events"], replayed["agreed"]);

    let explained = rows.iter().find_map(|row| row.query_id).expect("an id").0.to_string();
    let explain = punctual().args(["explain", &explained, "--journal", journal]).output().expect("the program runs");
    let text = String::from_utf8_lossy(&explain.stdout);
    assert!(text.contains("placed on cluster") && text.contains("finished after"), "{text}");
}

#[test]
fn comparing_sends_the_same_queries_under_every_policy() {
    let state = tempfile::tempdir().expect("a temporary directory");
    let reports = json(&demo(state.path(), &["--compare"]));
    let policies = reports["policies"].as_array().expect("policies");
    let names: Vec<_> = policies.iter().filter_map(|report| report["policy"].as_str()).collect();
    assert_eq!(names, ["round_robin", "least_outstanding", "p2c"]);
    assert!(policies.iter().all(|report| report["queries"] == policies[0]["queries"]));
}

#[test]
fn flags_that_make_no_sense_are_usage_errors() {
    for flags in [["--policy", "fastest"], ["--seconds", "0"], ["--scale-factor", "-1"]] {
        let state = tempfile::tempdir().expect("a temporary directory");
        let output = demo(state.path(), &flags);
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
    }
}
