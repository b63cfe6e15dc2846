//! From a log to a model and what it is worth, as typed.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use punctual::model::renewal::{Renewal, Renewed};
use punctual_core::time::Span;

fn punctual(dir: &Path, arguments: &[&str]) -> Output {
    let command = Command::new(env!("CARGO_BIN_EXE_punctual")).args(arguments).current_dir(dir).output();
    command.expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A log of two runs of `queries` each: three shapes that take 1, 2 and 4 s, one in four while another still runs.
fn log(queries: u64) -> String {
    let mut log = "run,at,took,template,status,part\n".to_owned();
    for run in 0..2 {
        for query in 0..queries {
            let (template, crowded) = (query % 3, query % 4 == 1);
            let at = query / 2 * 12 + if crowded { 1 } else { query % 2 * 6 };
            let took = (1u64 << template) * if crowded { 2_000 } else { 1_000 } + query * 7 % 50;
            let status = if query % 17 == 16 { "timeout" } else { "ok" };
            let part = ["train", "train", "train", "val", "test"][(query % 5) as usize];
            writeln!(log, "r{run},{at},{took},{template},{status},{part}").expect("a text grows");
        }
    }
    log
}

fn imported(dir: &Path, queries: u64) {
    std::fs::write(dir.join("log.csv"), log(queries)).expect("a file is written");
    let map = "cluster=run,arrival=at:s,latency=took:ms,fingerprint=template,status=status,split=part";
    let import = punctual(dir, &["import", "csv", "log.csv", "-o", "h", "--map", map]);
    assert!(import.status.success(), "{}", text(&import.stderr));
}

#[test]
fn a_log_becomes_a_model_and_the_model_is_measured() {
    let dir = tempfile::tempdir().expect("a directory");
    imported(dir.path(), 120);
    let train =
        ["train", "h", "-o", "m.model", "--split", "column", "--epochs", "3", "--hidden", "16", "--format", "json"];
    let trained = punctual(dir.path(), &train);
    assert!(trained.status.success(), "{}", text(&trained.stderr));
    let report: serde_json::Value = serde_json::from_slice(&trained.stdout).expect("JSON");
    // One in five is set aside, and measured on if it finished.
    let tested = (0..120u64).filter(|query| query % 5 == 4 && query % 17 != 16).count() as u64 * 2;
    assert_eq!(report["test"]["n"], tested);
    assert_eq!(report["learnt_from"], 2 * 96);
    for sight in ["hindsight", "at_arrival"] {
        let error = report["test"][sight]["q_error"]["p50"].as_f64().expect("a number");
        assert!((1.0..3.0).contains(&error), "{sight}: {error}");
    }
    let evaluate = punctual(dir.path(), &["evaluate", "m.model", "h", "--format", "json"]);
    assert!(evaluate.status.success(), "{}", text(&evaluate.stderr));
    let again: serde_json::Value = serde_json::from_slice(&evaluate.stdout).expect("JSON");
    assert_eq!(again["test"], report["test"]);
    // What was cut off is told apart.
    let cut_off = (0..120u64).filter(|query| query % 5 == 4 && query % 17 == 16).count() as u64 * 2;
    assert_eq!(again["test"]["by_status"]["finished"]["n"], tested);
    assert_eq!(again["test"]["by_status"]["cut_off"]["n"], cut_off);

    let first = std::fs::read(dir.path().join("m.model")).expect("a model");
    assert!(punctual(dir.path(), &train).status.success());
    assert!(first == std::fs::read(dir.path().join("m.model")).expect("a model"), "same history, same bytes");
}

#[test]
fn what_cannot_be_learnt_from_or_read_is_said_with_its_reason() {
    let dir = tempfile::tempdir().expect("a directory");
    imported(dir.path(), 10);
    let said = |arguments: &[&str]| {
        let output = punctual(dir.path(), arguments);
        (output.status.code(), text(&output.stderr))
    };
    assert!(!dir.path().join("m.model").exists());
    let (code, why) = said(&["train", "nowhere", "-o", "m.model"]);
    assert!(code == Some(1) && why.contains("nowhere"), "{why}");
    for (out, cause) in [("no/m.model", "No such file"), ("h", "is a directory")] {
        let (code, why) = said(&["train", "h", "-o", out]);
        assert!(code == Some(1) && why.starts_with(&format!("punctual: cannot write {out}: ")), "{why}");
        assert!(why.contains(cause) && why.lines().count() == 1, "{why}");
    }
    let (code, why) = said(&["train", "log.csv", "-o", "m.model"]);
    assert!(code == Some(1) && why.contains("log.csv is neither a log of history") && why.contains("import"), "{why}");
    let (code, why) = said(&["train", "h", "-o", "m.model", "--hidden", "17"]);
    assert!(code == Some(2) && why.contains("multiple of 16"), "{why}");
    std::fs::write(dir.path().join("bad.model"), "PNCTMODL\u{2}\0\0\0").expect("a file is written");
    let (code, why) = said(&["evaluate", "bad.model", "h"]);
    assert!(code == Some(1) && why.contains("bad.model is damaged: it is cut off"), "{why}");
    let (code, why) = said(&["evaluate", "log.csv", "h"]);
    assert!(code == Some(1) && why.contains("log.csv is not a model"), "{why}");
}

#[test]
fn a_short_history_makes_a_model_that_says_what_it_stands_on() {
    let dir = tempfile::tempdir().expect("a directory");
    imported(dir.path(), 10);
    let train = punctual(dir.path(), &["train", "h", "-o", "m.model", "--format", "json"]);
    assert!(train.status.success(), "{}", text(&train.stderr));
    let report: serde_json::Value = serde_json::from_slice(&train.stdout).expect("JSON");
    assert_eq!((report["kind"].as_str(), report["epochs"].as_u64()), (Some("stage"), Some(0)));
    let train = punctual(dir.path(), &["train", "h", "-o", "m.model"]);
    let said = text(&train.stdout);
    assert!(said.contains("too few for a network: the model stands on what queries took alone"), "{said}");
    assert!(punctual(dir.path(), &["evaluate", "m.model", "h"]).status.success());
}

#[test]
fn a_picture_of_what_a_model_is_worth_stands_alone_and_is_whole() {
    let dir = tempfile::tempdir().expect("a directory");
    imported(dir.path(), 120);
    let train = ["train", "h", "-o", "m.model", "--split", "column", "--epochs", "1", "--hidden", "16"];
    assert!(punctual(dir.path(), &train).status.success());
    let drawn = punctual(dir.path(), &["evaluate", "m.model", "h", "--html", "worth.html"]);
    assert!(drawn.status.success(), "{}", text(&drawn.stderr));
    let page = std::fs::read_to_string(dir.path().join("worth.html")).expect("a page");
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert_eq!(page.matches("</svg>").count(), 4);
    assert!(!page.contains("http") && !page.contains("<script"));
    assert!(!dir.path().join("worth.html.new").exists());
    let nowhere = punctual(dir.path(), &["evaluate", "m.model", "h", "--html", "no/worth.html"]);
    assert!(nowhere.status.code() == Some(1) && text(&nowhere.stderr).contains("no/worth.html"));

    let arrive = ["reproduce", "arrivals", "m.model", "h", "--queries", "9", "--html", "a.html", "--format", "json"];
    let arrived = punctual(dir.path(), &arrive);
    assert!(arrived.status.success(), "{}", text(&arrived.stderr));
    let report: serde_json::Value = serde_json::from_slice(&arrived.stdout).expect("JSON");
    assert_eq!((&report["queries"], &report["same"]), (&9.into(), &9.into()));
    assert_eq!(report["incremental_ms"].as_array().map(Vec::len), Some(9));
    assert!(std::fs::read_to_string(dir.path().join("a.html")).expect("a page").ends_with("</html>\n"));
}

#[test]
fn clusters_are_held_out_by_name_and_remembered_with_the_model() {
    let dir = tempfile::tempdir().expect("a directory");
    imported(dir.path(), 120);
    let train =
        ["train", "h", "-o", "m.model", "--hold-out", "?1", "--epochs", "1", "--hidden", "16", "--format", "json"];
    let trained = punctual(dir.path(), &train);
    assert!(trained.status.success(), "{}", text(&trained.stderr));
    let report: serde_json::Value = serde_json::from_slice(&trained.stdout).expect("JSON");
    assert_eq!(report["learnt_from"], 120);
    assert_eq!(report["test"]["n"], 120 - 120 / 17);
    let evaluated = punctual(dir.path(), &["evaluate", "m.model", "h", "--format", "json"]);
    let again: serde_json::Value = serde_json::from_slice(&evaluated.stdout).expect("JSON");
    assert_eq!(again["test"], report["test"]);
    let unknown = punctual(dir.path(), &["train", "h", "-o", "m.model", "--hold-out", "nobody"]);
    let why = text(&unknown.stderr);
    assert!(unknown.status.code() == Some(1) && why.contains("--hold-out nobody: no cluster"), "{why}");
}

#[test]
fn the_table_of_parts_pools_folds_and_holds_rivals() {
    let dir = tempfile::tempdir().expect("a directory");
    imported(dir.path(), 60);
    let table = ["reproduce", "predictor", "h", "--split", "random", "--folds", "--brief", "--epochs", "1"];
    let made = punctual(dir.path(), &[&table[..], &["--format", "json"]].concat());
    assert!(made.status.success(), "{}", text(&made.stderr));
    let report: serde_json::Value = serde_json::from_slice(&made.stdout).expect("JSON");
    // Each query is in one fold; those that finished are measured.
    assert_eq!(report["queries"], 2 * (60 - 60 / 17));
    let names = |rows: &serde_json::Value| -> Vec<String> {
        let rows = rows.as_array().expect("rows").iter();
        rows.map(|row| row["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(
        names(&report["steps"]),
        ["+ incremental (Iconq+)", "+ recent past (Punctual)", "+ corrected as queries end"]
    );
    assert_eq!(
        names(&report["rivals"]),
        ["processor sharing", "Stage alone", "fingerprint median", "fingerprint, size median"]
    );
    let alone = punctual(dir.path(), &["reproduce", "predictor", "h", "--folds"]);
    assert_eq!(alone.status.code(), Some(2));
}

#[tokio::test]
async fn a_model_is_renewed_only_by_a_better_one() {
    let dir = tempfile::tempdir().expect("a directory");
    imported(dir.path(), 20);
    std::fs::rename(dir.path().join("h"), dir.path().join("short")).expect("it moves");
    imported(dir.path(), 240);
    let renewal = |history: &str| Renewal {
        program: env!("CARGO_BIN_EXE_punctual").into(),
        history: dir.path().join(history),
        model: dir.path().join("m.model"),
        every: Span::from_secs(60),
    };
    let model = || std::fs::read(dir.path().join("m.model")).expect("a model");
    // A first one, from little; then a better one, from more; then none that is better, from the same again.
    let first = renewal("short").once().await.expect("a model");
    assert!(matches!(&first, Renewed::Better(opened) if opened.facts.kind == "stage"), "{first:?}");
    let before = model();
    let second = renewal("h").once().await.expect("a model");
    assert!(matches!(&second, Renewed::Better(opened) if opened.facts.kind == "network"), "{second:?}");
    let after = model();
    assert_ne!(before, after);
    let third = renewal("h").once().await.expect("a model");
    assert!(matches!(&third, Renewed::Kept(why) if why.starts_with("not better: ")), "{third:?}");
    assert_eq!(model(), after);
    assert!(!dir.path().join("m.model.next").exists());
    // One that is damaged is replaced, and what cannot be learnt from is said.
    std::fs::write(dir.path().join("m.model"), &after[..100]).expect("it is cut");
    assert!(matches!(renewal("h").once().await, Ok(Renewed::Better(_))));
    let failed = renewal("nowhere").once().await.expect_err("there is no history");
    assert!(failed.to_string().contains("nowhere"), "{failed}");
}

#[test]
fn a_training_that_was_killed_goes_on_to_the_same_model() {
    let dir = tempfile::tempdir().expect("a directory");
    imported(dir.path(), 120);
    let train = ["train", "h", "-o", "m.model", "--split", "column", "--epochs", "4", "--hidden", "16"];
    let left = dir.path().join("m.model.training");
    let model = || std::fs::read(dir.path().join("m.model")).expect("a model");
    let goes_on = |more: &[&str]| punctual(dir.path(), &[&train[..], more].concat());
    assert!(goes_on(&[]).status.success());
    let whole = model();
    assert!(!left.exists(), "nothing is left of a training that is done");

    std::fs::remove_file(dir.path().join("m.model")).expect("it goes");
    let mut killed = Command::new(env!("CARGO_BIN_EXE_punctual"));
    let mut killed = killed.args(train).current_dir(dir.path()).stderr(Stdio::null()).spawn().expect("it starts");
    while !left.exists() && killed.try_wait().expect("its state").is_none() {
        std::thread::yield_now();
    }
    killed.kill().expect("it is killed");
    killed.wait().expect("it ends");
    let resumed = goes_on(&["--resume"]);
    assert!(resumed.status.success(), "{}", text(&resumed.stderr));
    assert!(model() == whole, "the same bytes");
    assert!(!left.exists());

    // There is nothing to go on with; then something that is damaged.
    let again = goes_on(&["--resume"]);
    assert!(again.status.success() && text(&again.stderr).contains("learning from the beginning"));
    assert!(model() == whole);
    std::fs::write(&left, "PNCTTRNG and nothing of use").expect("a file is written");
    let damaged = goes_on(&["--resume"]);
    let why = text(&damaged.stderr);
    assert!(damaged.status.code() == Some(1) && why.contains("m.model.training is damaged"), "{why}");
}

#[test]
fn a_training_that_is_interrupted_keeps_the_best_so_far_and_can_go_on() {
    let dir = tempfile::tempdir().expect("a directory");
    imported(dir.path(), 120);
    // It would take minutes.
    let train = ["train", "h", "-o", "m.model", "--split", "none", "--epochs", "1000", "--hidden", "16"];
    let left = dir.path().join("m.model.training");
    let mut begun = Command::new(env!("CARGO_BIN_EXE_punctual"));
    begun.args(train).args(["--format", "json"]).current_dir(dir.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let begun = begun.spawn().expect("it starts");
    while !left.exists() {
        std::thread::yield_now();
    }
    let pid = rustix::process::Pid::from_raw(begun.id() as i32).expect("a process id");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it hears");
    let ended = begun.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(1));
    let said = text(&ended.stderr);
    assert!(said.contains("interrupted; m.model is the best so far") && said.contains("--resume"), "{said}");
    let report: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert_eq!((report["kind"].as_str(), report["stopped"].as_bool()), (Some("network"), Some(true)));
    assert!(left.exists(), "what it takes to go on stays");
    let evaluated = punctual(dir.path(), &["evaluate", "m.model", "h", "--split", "time"]);
    assert!(evaluated.status.success(), "{}", text(&evaluated.stderr));
    let said = text(&evaluated.stdout);
    assert!(said.starts_with("set aside: the last fifth of the time\non "), "{said}");
}

#[test]
fn a_model_that_is_damaged_anywhere_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    imported(dir.path(), 60);
    assert!(punctual(dir.path(), &["train", "h", "-o", "m.model", "--epochs", "1", "--hidden", "16"]).status.success());
    let whole = std::fs::read(dir.path().join("m.model")).expect("a model");
    let damaged = |bytes: &[u8]| {
        std::fs::write(dir.path().join("d.model"), bytes).expect("a file is written");
        let evaluated = punctual(dir.path(), &["evaluate", "d.model", "h"]);
        let why = text(&evaluated.stderr);
        assert!(evaluated.status.code() == Some(1) && why.starts_with("punctual: d.model "), "{why}");
    };
    // In its head, at its end, and at places between.
    for at in (0..24).step_by(5).chain((24..whole.len()).step_by(whole.len() / 7)).chain([whole.len() - 1]) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        damaged(&bytes);
    }
    for length in [0, 7, 23, 24, whole.len() / 2, whole.len() - 1] {
        damaged(&whole[..length]);
    }
    damaged(&[&whole[..], b"more"].concat());
}
