//! `punctual plan` as it is typed: what it proposes, what it says, and what it refuses.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Runs it, in that directory: the exit code, standard output and standard error.
fn punctual(dir: &Path, typed: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    let output = command.current_dir(dir).args(typed).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A gateway with a small cluster that is there and a large one that may start, where queries are late after 100 s.
const CONFIGURATION: &str = r#"
[policy]
routing = "slo"
violation_target = 0.05
[[class]]
name = "default"
slo = "100s"
[[cluster]]
name = "small"
kind = "simulated"
size = 4
slots = 64
keep = "scaled"
initial = 1
[[cluster]]
name = "large"
kind = "simulated"
size = 16
slots = 64
keep = "scaled"
[scaling]
mode = "on"
trigger = "none"
start_takes = "5m"
idle = "20m"
lifetime = "20m"
most = 4
"#;

/// A model, a configuration, and a history of these days from Monday, 2 November 2026: a query every ten minutes that takes 40 s on
/// four units, and from noon on for half an hour one every fifteen seconds.
fn world(days: std::ops::Range<u64>, configuration: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let mut csv = "at,took,q,size\n".to_owned();
    for day in days {
        // The 2nd of November 2026 is day 20,759.
        let midnight = (20_759 + day) * 86_400;
        for number in 0..144 {
            writeln!(csv, "{},40,1,4", midnight + 600 * number).expect("a line");
        }
        for number in 0..120 {
            writeln!(csv, "{},120,1,4", midnight + 12 * 3_600 + 5 + 15 * number).expect("a line");
        }
    }
    std::fs::write(dir.path().join("runs.csv"), csv).expect("a file");
    std::fs::write(dir.path().join("punctual.toml"), configuration).expect("a file");
    let map = "arrival=at:s,latency=took:s,fingerprint=q,cluster_size=size";
    let (code, _, err) = punctual(dir.path(), &["import", "csv", "runs.csv", "-o", "h", "--map", map]);
    assert_eq!(code, Some(0), "{err}");
    let (code, _, err) = punctual(dir.path(), &["train", "h", "-o", "m.model", "--epochs", "1", "--hidden", "16"]);
    assert_eq!(code, Some(0), "{err}");
    dir
}

fn plan(dir: &Path, more: &[&str]) -> (Option<i32>, String, String) {
    let typed = ["plan", "h", "-c", "punctual.toml", "-o", "plan.json", "--model", "m.model", "--workloads", "3"];
    punctual(dir, &[&typed, more].concat())
}

#[test]
fn a_burst_that_comes_every_noon_has_a_cluster_started_before_it() {
    let dir = world(0..9, CONFIGURATION);
    let (code, out, err) = plan(dir.path(), &["--format", "json"]);
    assert_eq!(code, Some(0), "{err}");
    let found: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((&found["day"], &found["format"]), (&"2026-11-11".into(), &1.into()));
    let seconds = |at: &Value| at.as_f64().expect("microseconds") / 1e6;
    let spinups = found["plan"]["spinups"].as_array().expect("starts");
    let before_noon = |one: &&Value| (11.5 * 3_600.0..=12.3 * 3_600.0).contains(&seconds(&one["at"]));
    assert!(spinups.iter().any(|one| before_noon(&one)), "{spinups:?}");
    let late = |of: &Value| of["violation_rate"]["mean"].as_f64().expect("a rate");
    let (planned, today) = (late(&found["expected"]), late(&found["today"]["expected"]));
    assert!(today > 0.2 && planned < today / 3.0, "{planned} instead of {today}");
    assert_eq!(found["backtest"]["days"].as_array().map(Vec::len), Some(2), "of which every hour is known");
    // The file is what was said, and the same whatever simulates it.
    let written = std::fs::read(dir.path().join("plan.json")).expect("it is written");
    assert_eq!(serde_json::from_slice::<Value>(&written).expect("JSON"), found);
    let (code, out, err) = plan(dir.path(), &["--threads", "1"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("2026-11-11 (UTC), target 5.0 % late\n") && out.contains("  starts size "), "{out}");
    assert_eq!(std::fs::read(dir.path().join("plan.json")).expect("it is written"), written);
    // And it does the same as itself, and not as another.
    let (code, out, _) = punctual(dir.path(), &["plan", "diff", "plan.json", "plan.json"]);
    assert_eq!((code, out.as_str()), (Some(0), "both do the same\n"));
    let other = String::from_utf8(written).expect("text").replace("\"made_for\": ", "\"made_for\": 1");
    std::fs::write(dir.path().join("other.json"), other).expect("a file");
    let (code, out, _) = punctual(dir.path(), &["plan", "diff", "plan.json", "other.json"]);
    assert_eq!((code, out.as_str()), (Some(1), "they were made for different configurations of the gateway\n"));
}

#[test]
fn what_cannot_be_planned_is_said() {
    let dir = world(0..2, CONFIGURATION);
    let says = |configuration: &str, more: &[&str], code: i32, words: &str| {
        std::fs::write(dir.path().join("punctual.toml"), configuration).expect("a file");
        let (found, out, err) = plan(dir.path(), more);
        assert!(found == Some(code) && (err.clone() + &out).contains(words), "{found:?} {err}{out}");
    };
    let without = |what: &str| CONFIGURATION.replace(what, "");
    says(&without("slo = \"100s\"\n"), &[], 1, "no query that is forecast has an SLO");
    let always = without("keep = \"scaled\"\n").replace("initial = 1\n", "").replace("mode = \"on\"\n", "");
    says(&always, &[], 2, "there is no cluster that could be started");
    says(CONFIGURATION, &["--model", "nowhere.model"], 2, "cannot be used multiple times");
    says(CONFIGURATION, &["--target", "7"], 2, "--target is a share of queries");
    // Nothing is fast enough: the best is given, with what limits it.
    says(&CONFIGURATION.replace("100s", "1ms"), &[], 0, "nothing that was tried meets the target");
    let poor = CONFIGURATION.to_owned() + "most_per_hour = 0.01\n";
    says(&poor, &[], 2, "most_per_hour");
    std::fs::remove_file(dir.path().join("m.model")).expect("it was there");
    says(CONFIGURATION, &[], 1, "make a model with punctual train");
}

#[test]
fn an_hour_of_history_is_planned_from_with_what_it_cannot_know() {
    let dir = world(0..1, CONFIGURATION);
    let csv = std::fs::read_to_string(dir.path().join("runs.csv")).expect("a file");
    let hour: Vec<&str> = csv.lines().take(7).collect();
    std::fs::write(dir.path().join("hour.csv"), hour.join("\n")).expect("a file");
    let map = "arrival=at:s,latency=took:s,fingerprint=q,cluster_size=size";
    let (code, _, err) = punctual(dir.path(), &["import", "csv", "hour.csv", "-o", "h2", "--map", map]);
    assert_eq!(code, Some(0), "{err}");
    let typed = ["plan", "h2", "-c", "punctual.toml", "-o", "plan.json", "--model", "m.model", "--workloads", "2"];
    let (code, out, err) = punctual(dir.path(), &typed);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("not known: ") && out.contains("no day can be compared with its forecast yet"), "{out}");
}
