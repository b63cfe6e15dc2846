//! Where output cannot go: a pipe that nobody reads, a disk that is full.

mod served;

use std::fs::File;
use std::process::{Command, Output, Stdio};

use served::{SIMULATED, Served, journal_of, punctual};

/// A write end of a pipe whose read end is closed.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

fn full_disk() -> Stdio {
    File::options().write(true).open("/dev/full").expect("a device that is full").into()
}

fn ended(command: &mut Command, stdout: Stdio) -> (Option<i32>, String) {
    let Output { status, stderr, .. } =
        command.stdout(stdout).stderr(Stdio::piped()).spawn().expect("it starts").wait_with_output().expect("it ends");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

/// A configuration and a journal of a gateway that has ended, with the id of a query in it.
fn a_past_gateway() -> (tempfile::TempDir, String) {
    let served = Served::start(SIMULATED);
    served.wait_ready();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let client = served.client("psql").await;
        client.simple_query("SELECT * FROM t /* punctual: work=0.01s */").await.expect("an answer");
    });
    let (status, log, dir) = served.stop();
    assert!(status.success(), "{log}");
    let rows: Result<Vec<_>, _> =
        punctual::history::read(&dir.path().join("state/history")).expect("history").collect();
    let id = rows.expect("rows")[0].query_id.expect("a live query has an id");
    (dir, id.to_string())
}

#[test]
fn a_closed_pipe_ends_every_command_quietly_and_a_full_disk_is_an_error() {
    let (dir, query) = a_past_gateway();
    let config = dir.path().join("punctual.toml").display().to_string();
    let journal = journal_of(dir.path()).display().to_string();
    let commands: [&[&str]; 9] = [
        &["--help"],
        &["replay", &journal],
        &["replay", "--format", "json", &journal],
        &["explain", &query, "--journal", &journal],
        &["explain", &query, "--journal", &journal, "--format", "json"],
        &["check", "-c", &config],
        &["check", "-c", &config, "--sql", "select a from t"],
        &["serve", "-c", &config],
        &["demo", "--seconds", "1", "--clusters", "simulated", "--state-dir", &config.replace(".toml", "-demo")],
    ];
    for command in commands {
        let (code, said) = ended(punctual().env("PUNCTUAL_LOG", "off").args(command), full_disk());
        assert!(said.contains("punctual: writing to standard output: No space left on device"), "{command:?}: {said}");
        assert_eq!(code, Some(1), "{command:?}: {said}");
        let (code, said) = ended(punctual().env("PUNCTUAL_LOG", "off").args(command), closed_pipe());
        assert_eq!(code, Some(141), "{command:?}: {said}");
        assert!(!said.contains("punctual:") && !said.contains("panicked"), "{command:?}: {said}");
    }
}

#[test]
fn a_gateway_whose_log_cannot_be_written_serves_on() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for stderr in [closed_pipe(), full_disk()] {
        let served = Served::start_with_log(dir.path(), SIMULATED, stderr);
        served.wait_ready();
        assert_eq!(served.get("/healthz").0, 200);
        let (status, _, _) = served.stop();
        assert!(status.success());
    }
}
