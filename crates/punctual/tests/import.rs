//! `punctual import` as it is typed: what it prints, and how it exits.

use std::path::Path;
use std::process::{Command, Output};

fn import(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.arg("import").args(arguments).current_dir(dir).output().expect("the program starts")
}

fn said(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

#[test]
fn an_import_exits_with_0_if_rows_were_kept_1_if_it_failed_and_2_if_it_was_asked_for_nonsense() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("runs.csv"), "at,took,q\n1,2,7\n2,-1,7\n").expect("a file");
    let mapping = "arrival=at:s,latency=took:s,fingerprint=q";
    let done = import(dir.path(), &["csv", "runs.csv", "-o", "h", "--map", mapping, "--format", "json"]);
    assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
    let report: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!((&report["kept"], &report["dropped"]), (&1.into(), &1.into()));
    assert!(dir.path().join("h/history-1970-01-01T00.parquet").is_file());

    let again = import(dir.path(), &["csv", "runs.csv", "-o", "h", "--map", mapping]);
    assert_eq!(again.status.code(), Some(1));
    let why = "punctual: there is something in h already; --append adds to a history\nnothing was written\n";
    assert_eq!(said(&again.stderr), why);

    let strict = import(dir.path(), &["csv", "runs.csv", "-o", "s", "--map", mapping, "--strict"]);
    assert_eq!(strict.status.code(), Some(1));
    assert!(said(&strict.stderr).starts_with("punctual: runs.csv:3: latency is negative (-1)\n"));
    assert!(!dir.path().join("s").exists());

    let nonsense: [&[&str]; 4] = [
        &["csv", "runs.csv", "-o", "n"],
        &["csv", "runs.csv", "-o", "n", "--map", "arrival=at"],
        &["csv", "runs.csv", "-o", "n", "--map", "arrival=at:s,arrival=at:s"],
        &["cab", "runs.csv", "-o", "n", "--sql", "one.sql"],
    ];
    for arguments in nonsense {
        let refused = import(dir.path(), arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {}", said(&refused.stderr));
    }
}
