//! Logs that make no sense, from the file to a model: what is dropped is counted with its reason, what is left is
//! learnt from, and no figure is ever anything but a number.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// A directory to work in.
struct Bench(tempfile::TempDir);

/// What a command said: exit code, stdout, stderr.
struct Said {
    code: i32,
    out: String,
    err: String,
}

impl Said {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|cause| panic!("{cause}: {} {}", self.out, self.err))
    }
}

impl Bench {
    fn new() -> Bench {
        Bench(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Said {
        let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
        let output = command.args(arguments).current_dir(self.0.path()).output().expect("the program starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Said { code: output.status.code().unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// Imports a log as the history of that name; what came of it.
    fn import(&self, history: &str, log: &str) -> Value {
        std::fs::write(self.path("log.csv"), log).expect("a file is written");
        let imported = self.run(&["import", "csv", "log.csv", "-o", history, "--map", MAP, "--format", "json"]);
        assert_eq!(imported.code, 0, "{}{}", imported.out, imported.err);
        imported.json()
    }

    /// Trains a model of that name, and evaluates it on a history; all figures of both are numbers.
    fn train(&self, history: &str, model: &str) -> Value {
        let report = self.run(&["train", history, "-o", model, "--epochs", "2", "--hidden", "16", "--format", "json"]);
        assert_eq!(report.code, 0, "{}", report.err);
        all_are_numbers(&report.json());
        report.json()
    }

    fn evaluate(&self, model: &str, history: &str) -> Value {
        let report = self.run(&["evaluate", model, history, "--split", "time", "--format", "json"]);
        assert_eq!(report.code, 0, "{}", report.err);
        all_are_numbers(&report.json());
        report.json()
    }
}

const MAP: &str =
    "cluster=run,cluster_size=size,arrival=at:s,latency=took:ms,fingerprint=template,query_id=id,status=status";

/// JSON has no NaN and no infinity: they would be null.
fn all_are_numbers(value: &Value) {
    match value {
        Value::Null => panic!("a figure is no number"),
        Value::Array(values) => values.iter().for_each(all_are_numbers),
        Value::Object(fields) => fields.values().for_each(all_are_numbers),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// One line of a log.
#[derive(Clone)]
struct Line {
    id: u64,
    size: u32,
    at: u64,
    took: String,
    template: u64,
    status: &'static str,
}

/// Queries one after the other, of three templates that take 1, 2 and 4 s on size 4.
fn sound(queries: u64) -> Vec<Line> {
    let line = |id| {
        let took = (1_000u64 << (id % 3)) + id * 7 % 50;
        Line { id, size: 4, at: id * 10, took: took.to_string(), template: id % 3, status: "ok" }
    };
    (0..queries).map(line).collect()
}

fn log(lines: &[Line]) -> String {
    let mut log = "run,id,size,at,took,template,status\n".to_owned();
    for Line { id, size, at, took, template, status } in lines {
        writeln!(log, "r,{id},{size},{at},{took},{template},{status}").expect("a text grows");
    }
    log
}

fn of_durations(durations: &[&str]) -> Vec<Line> {
    let lines = (1_000..).zip(sound(durations.len() as u64)).zip(durations);
    lines.map(|((id, line), took)| Line { id, at: id * 10, took: (*took).to_owned(), ..line }).collect()
}

#[test]
fn durations_that_are_none_are_dropped_and_zero_is_learnt_from_as_next_to_nothing() {
    let bench = Bench::new();
    let wrong = of_durations(&["NaN", "abc", "inf", "1e400", "-inf", "-5", "-0.001", ""]);
    let nothing = of_durations([["0", "0.0", "1e-400"]; 8].as_flattened());
    let report = bench.import("h", &log(&[sound(100), wrong.clone(), nothing].concat()));
    assert_eq!((&report["kept"], &report["dropped"]), (&124.into(), &8.into()));
    let reasons = [
        ("latency is not a number", 2),
        ("latency is infinite", 2),
        ("latency is negative", 3),
        ("latency is missing", 1),
    ];
    for (reason, count) in reasons {
        assert_eq!(report["reasons"][reason], count, "{reason}: {report}");
    }
    let first = &report["examples"][0];
    assert_eq!((first["at"].as_str(), first["value"].as_str()), (Some("log.csv:102"), Some("NaN")));
    let trained = bench.train("h", "m.model");
    assert_eq!((trained["kind"].as_str(), &trained["learnt_from"]), (Some("network"), &100.into()));
    // The newest fifth are those that took nothing: as wrong as it may be, it is a number.
    assert_eq!(trained["test"]["n"], 24);
    bench.evaluate("m.model", "h");
    // With --strict the first bad line ends it; what has nothing else leaves nothing.
    let strict = bench.run(&["import", "csv", "log.csv", "-o", "s", "--map", MAP, "--strict"]);
    assert!(strict.code == 1 && strict.err.contains("log.csv:102: latency is not a number (NaN)"), "{}", strict.err);
    std::fs::write(bench.path("log.csv"), log(&wrong)).expect("a file is written");
    let none = bench.run(&["import", "csv", "log.csv", "-o", "n", "--map", MAP]);
    assert!(none.code == 1 && none.err.contains("no row was kept"), "{}", none.err);
    assert!(!bench.path("s").exists() && !bench.path("n").exists());
}

#[test]
fn a_history_of_nothing_but_zeros_makes_a_model_that_says_next_to_nothing() {
    let bench = Bench::new();
    bench.import("h", &log(&of_durations(&["0"; 100])));
    let trained = bench.train("h", "m.model");
    // A time below a millisecond counts as one, in truths and in what is learnt as queries end.
    for sight in ["at_arrival", "corrected_at_arrival", "hindsight"] {
        let error = trained["test"][sight]["q_error"]["p95"].as_f64().expect("a number");
        assert!(error < 1.2, "{sight}: {error}");
    }
}

#[test]
fn an_end_before_its_start_is_dropped_and_a_clock_that_goes_backwards_changes_nothing() {
    let bench = Bench::new();
    let ends = "at,end,template\n10,8,1\n20,22,1\n-3,1,1\n30,30,1\n";
    std::fs::write(bench.path("log.csv"), ends).expect("a file is written");
    let map = "arrival=at:s,ended=end:s,fingerprint=template";
    let report = bench.run(&["import", "csv", "log.csv", "-o", "e", "--map", map, "--format", "json"]).json();
    assert_eq!((&report["kept"], &report["dropped"]), (&2.into(), &2.into()));
    assert_eq!(report["reasons"]["it ends before it arrives"], 1);
    assert_eq!(report["reasons"]["arrival is before 1970 or after 9999"], 1);

    let mut lines = sound(120);
    assert_eq!(bench.import("forth", &log(&lines))["backwards"], 0);
    lines.reverse();
    assert_eq!(bench.import("back", &log(&lines))["backwards"], 119);
    bench.train("forth", "forth.model");
    bench.train("back", "back.model");
    let model = |name: &str| std::fs::read(bench.path(name)).expect("a model");
    assert!(model("forth.model") == model("back.model"), "the order of a file is of no account");
}

#[test]
fn a_record_that_is_there_twice_counts_once_and_an_id_that_is_may_be_of_two_queries() {
    let bench = Bench::new();
    let lines = sound(20);
    let again = Line { at: 900, ..lines[3].clone() };
    let report = bench.import("h", &log(&[lines.clone(), lines[..5].to_vec(), vec![again]].concat()));
    assert_eq!((&report["records"], &report["kept"], &report["dropped"]), (&26.into(), &21.into(), &5.into()));
    assert_eq!(report["reasons"]["it is there twice"], 5);
    assert_eq!(report["statuses"]["finished"], 21);
    assert_eq!(bench.train("h", "m.model")["learnt_from"], 17);
}

#[test]
fn one_query_makes_a_model_that_knows_it_and_nothing_is_measured() {
    let bench = Bench::new();
    bench.import("h", &log(&sound(1)));
    let trained = bench.run(&["train", "h", "-o", "m.model"]);
    assert_eq!(trained.code, 0, "{}", trained.err);
    assert!(trained.out.starts_with("m.model learnt from 1 query (1 of them alone)"), "{}", trained.out);
    assert!(trained.out.contains("nothing is measured: no query that finished is set aside"), "{}", trained.out);
    assert!(bench.train("h", "m.model")["test"].is_null());
    let evaluated = bench.run(&["evaluate", "m.model", "h"]);
    assert!(
        evaluated.code == 1
            && evaluated.err.contains("no query that finished is set aside (the last fifth of the time)"),
        "{}",
        evaluated.err
    );
    // On more of the same it says what the one took.
    bench.import("more", &log(&sound(10).iter().map(|line| Line { template: 0, ..line.clone() }).collect::<Vec<_>>()));
    assert_eq!(bench.evaluate("m.model", "more")["test"]["n"], 2);
}

#[test]
fn a_model_of_one_fingerprint_on_one_size_stays_sane_about_others_on_another() {
    let bench = Bench::new();
    let one: Vec<Line> = sound(120).into_iter().map(|line| Line { template: 7, took: "2000".into(), ..line }).collect();
    bench.import("one", &log(&one));
    let trained = bench.train("one", "m.model");
    assert!(trained["test"]["at_arrival"]["q_error"]["p95"].as_f64() < Some(1.3), "{trained}");
    // Twice and half as long, twice as large and a quarter as large; nothing of it was ever seen.
    for size in [1, 8, 1_000_000] {
        let others: Vec<Line> = sound(60).into_iter().map(|line| Line { size, ..line }).collect();
        let history = format!("h{size}");
        bench.import(&history, &log(&others));
        let worth = &bench.evaluate("m.model", &history)["test"];
        assert_eq!(worth["by_size"][size.to_string()]["n"], 12);
        let error = |of: &Value| of["p95"].as_f64().expect("a number");
        let (model, stage) = (error(&worth["at_arrival"]["q_error"]), error(&worth["stage"]));
        assert!(model < 4.0 * stage, "size {size}: {model} where Stage alone is off by {stage}");
    }
}

#[test]
fn a_history_in_which_nothing_finished_teaches_nothing() {
    let bench = Bench::new();
    let cut: Vec<Line> = sound(100).into_iter().map(|line| Line { status: "timeout", ..line }).collect();
    assert_eq!(bench.import("cut", &log(&cut))["statuses"]["cancelled"], 100);
    let trained = bench.run(&["train", "cut", "-o", "m.model"]);
    let why = "of 80 queries that may be learnt from none finished";
    assert!(trained.code == 1 && trained.err.contains(why), "{}", trained.err);
    assert!(!bench.path("m.model").exists());
    bench.import("h", &log(&sound(100)));
    bench.train("h", "m.model");
    let evaluated = bench.run(&["evaluate", "m.model", "cut"]);
    assert!(
        evaluated.code == 1
            && evaluated.err.contains("no query that finished is set aside (the last fifth of the time)"),
        "{}",
        evaluated.err
    );
    // One that did is enough to learn from; what was cut off took at least as long.
    let mut but_one = cut;
    but_one[5].status = "ok";
    bench.import("one", &log(&but_one));
    let trained = bench.run(&["train", "one", "-o", "m.model", "--format", "json"]);
    assert_eq!((trained.code, trained.json()["kind"].as_str()), (0, Some("stage")), "{}", trained.err);
    assert!(Path::new(&bench.path("m.model")).exists());
}
