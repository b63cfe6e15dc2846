//! `punctual forecast` as it is typed: what it says, and what it refuses.

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

fn forecast(dir: &Path, typed: &[&str]) -> (Option<i32>, String, String) {
    punctual(dir, &[&["forecast"], typed].concat())
}

fn json(dir: &Path, typed: &[&str]) -> Value {
    let (code, out, err) = forecast(dir, &[typed, &["--format", "json"]].concat());
    assert_eq!(code, Some(0), "{err}");
    serde_json::from_str(&out).expect("JSON")
}

/// A history of these days from Monday, 2 November 2026, with a query a minute from 8 to 18 o'clock UTC.
fn history(dir: &Path, days: std::ops::Range<u64>, more: &[&str]) {
    let mut csv = "at,took,q\n".to_owned();
    for minute in days.flat_map(|day| (480..1_080).map(move |minute| day * 1_440 + minute)) {
        // The 2nd of November 2026 is day 20,759.
        writeln!(csv, "{},2,{}", 20_759 * 86_400 + minute * 60, minute % 7).expect("a line");
    }
    std::fs::write(dir.join("runs.csv"), csv).expect("a file");
    let typed = ["import", "csv", "runs.csv", "-o", "h", "--map", "arrival=at:s,latency=took:s,fingerprint=q"];
    let (code, _, err) = punctual(dir, &[&typed, more].concat());
    assert_eq!(code, Some(0), "{err}");
}

#[test]
fn tomorrow_is_forecast_from_a_history_by_the_clocks_that_are_asked_for() {
    let dir = tempfile::tempdir().expect("a directory");
    history(dir.path(), 0..14, &[]);
    let found = json(dir.path(), &["h"]);
    assert_eq!(
        (&found["day"], &found["weekday"], &found["zone"]),
        (&"2026-11-16".into(), &"Monday".into(), &"UTC".into())
    );
    assert_eq!((&found["forecaster"], &found["workloads"]), (&"weekly".into(), &20.into()));
    assert_eq!((&found["hours"][8]["queries"], &found["hours"][7]["queries"]), (&[60.0; 3].into(), &[0.0; 3].into()));
    assert_eq!((&found["queries"], found["unknown"].as_array().map(Vec::len)), (&[600.0; 3].into(), Some(0)));
    let berlin = json(dir.path(), &["h", "--zone", "Europe/Berlin", "--forecaster", "levelled", "--day", "2026-11-18"]);
    assert_eq!((&berlin["hours"][9]["queries"][0], &berlin["hours"][8]["queries"][0]), (&60.0.into(), &0.0.into()));
    assert_eq!(berlin["unknown"][0], serde_json::json!({ "unknown": "lately", "days": 2 }));
    let (code, out, _) = forecast(dir.path(), &["h"]);
    assert_eq!(code, Some(0));
    assert!(
        out.starts_with("2026-11-16, a Monday (UTC), by weekly from 14 days, 2 of its kind: 20 workloads\n600 queries"),
        "{out}"
    );
    assert!(
        out.contains("\n   8     60.0  60 .. 60") && out.ends_with("Nothing of what it needs to know is missing.\n"),
        "{out}"
    );
}

#[test]
fn on_less_than_a_week_it_says_what_it_cannot_know() {
    let dir = tempfile::tempdir().expect("a directory");
    history(dir.path(), 0..3, &[]);
    let (code, out, _) = forecast(dir.path(), &["h"]);
    assert_eq!(code, Some(0));
    let said = "What it cannot know:\n- 3 days of history: what is different on other days of the week, and between weeks, \
                is not known\n- no Thursday is known: it is taken for any day\n";
    assert!(out.ends_with(said), "{out}");
    let (code, out, _) = forecast(dir.path(), &["h", "--backtest"]);
    assert_eq!(code, Some(0));
    assert!(
        out.ends_with("Less than a week was known: what differs between days of the week could not be.\n"),
        "{out}"
    );
    std::fs::remove_dir_all(dir.path().join("h")).expect("a history");
    history(dir.path(), 0..1, &[]);
    let (code, out, err) = forecast(dir.path(), &["h", "--backtest"]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(err.contains("so no forecast can be compared with what came"), "{err}");
}

#[test]
fn a_reservoir_takes_only_what_is_new_and_forecasts_without_the_history() {
    let dir = tempfile::tempdir().expect("a directory");
    history(dir.path(), 0..7, &[]);
    let first = json(dir.path(), &["h", "--reservoir", "r"]);
    let bytes = std::fs::read(dir.path().join("r")).expect("a reservoir");
    assert_eq!(json(dir.path(), &["h", "--reservoir", "r"]), first);
    assert_eq!(std::fs::read(dir.path().join("r")).expect("a reservoir"), bytes, "nothing was new");
    history(dir.path(), 7..10, &["--append"]);
    let more = json(dir.path(), &["h", "--reservoir", "r"]);
    assert_eq!((&more["day"], more["basis"]["days"].as_u64()), (&"2026-11-12".into(), Some(10)));
    assert_eq!(more, json(dir.path(), &["h"]), "the same as from all of it");
    std::fs::remove_dir_all(dir.path().join("h")).expect("a history");
    assert_eq!(more, json(dir.path(), &["--reservoir", "r"]));

    let (code, _, err) = forecast(dir.path(), &["--reservoir", "r", "--zone", "Europe/Berlin"]);
    assert_eq!(
        (code, err.as_str()),
        (Some(2), "punctual: r goes by the clocks of UTC, not of Europe/Berlin; another zone needs another file\n")
    );
    std::fs::write(dir.path().join("r"), &bytes[..bytes.len() / 2]).expect("a file");
    let (code, _, err) = forecast(dir.path(), &["--reservoir", "r"]);
    assert_eq!(code, Some(1));
    assert_eq!(
        err,
        "punctual: reading r: it is damaged: it is shorter or longer than it says; make it again from history\n"
    );
}

#[test]
fn generated_months_are_forecast_better_than_by_the_week_before() {
    let dir = tempfile::tempdir().expect("a directory");
    let typed = ["--generated", "8", "--seed", "2", "--backtest", "--forecaster", "weekly,levelled"];
    let found = json(dir.path(), &typed);
    assert_eq!(found, json(dir.path(), &typed));
    let names: Vec<&str> =
        found["forecasters"].as_array().expect("some").iter().filter_map(|of| of["forecaster"].as_str()).collect();
    assert_eq!(names, ["seasonal_naive", "weekly", "levelled"]);
    for of in &found["forecasters"].as_array().expect("some")[1..] {
        for error in ["hourly_error", "peak_error"] {
            let against = of["against_baseline"][error].as_f64().expect("a number");
            assert!(against < 0.0, "{}: {error} {against}", of["forecaster"]);
        }
    }
    let (code, out, _) = forecast(dir.path(), &typed);
    assert_eq!(code, Some(0));
    assert!(out.contains("\nlevelled  ") && out.ends_with("against the same day of the week before.\n"), "{out}");
}

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().expect("a directory");
    let refused = |typed: &[&str], code, why: &str| {
        let (found, out, err) = forecast(dir.path(), typed);
        assert_eq!((found, out.as_str()), (Some(code), ""), "{typed:?}: {err}");
        assert!(err.contains(why), "{typed:?}: {err}");
    };
    refused(&[], 2, "required arguments");
    refused(&["h", "--day", "2026-02-30"], 2, "a date is written 2026-11-30");
    refused(&["h", "--like", "someday"], 2, "a day of the week is monday");
    refused(&["h", "--zone", "Europe/Atlantis"], 2, "there is no such zone");
    refused(
        &["h", "--forecaster", "oracle"],
        2,
        "possible values: weekly, levelled, one_day, seven_days, seasonal_naive",
    );
    refused(&["h", "--days", "7"], 2, "--backtest");
    refused(&["--generated", "2", "--forecaster", "weekly,levelled"], 2, "several can be compared by --backtest");
    refused(&["h"], 1, "h");
    refused(&["--reservoir", "r"], 1, "reading r");
    std::fs::write(dir.path().join("none.csv"), "x").expect("a file");
    refused(&["none.csv"], 1, "neither a log of history nor a Parquet file");
}
