//! psql as a runner: the cases become a script, and what it prints is cut where the script says so.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Command, Stdio};

use super::cases::{Case, Step};
use super::world::{Place, USER};

/// What a line begins with that names a case.
const MARK: &str = "=== case: ";

/// What the script begins with: errors come with all that they say.
const FIRST: &str = "\\set VERBOSITY verbose\n\\set SHOW_CONTEXT always\n\\set HIDE_TABLEAM off\n";

/// Carries all cases out with psql.
pub(crate) fn run(place: &Place) -> String {
    let script: String = place.cases().iter().filter(|case| case.is_for("psql")).map(text_of).collect();
    lines(&psql(place, &(FIRST.to_owned() + &script)))
}

/// What psql prints and says, in its order.
fn psql(place: &Place, script: &str) -> String {
    let mut input = tempfile::tempfile().expect("a temporary file");
    std::io::Write::write_all(&mut input, script.as_bytes()).expect("a script is written");
    input.rewind().expect("from its start");
    let mut printed = tempfile::tempfile().expect("a temporary file");
    let to = |file: &File| Stdio::from(file.try_clone().expect("one more handle"));
    let status = Command::new("psql")
        .args(["-X", "-q", "-h", "127.0.0.1", "-U", USER, "-d", &place.database, "-p"])
        .arg(place.port.to_string())
        .env("PGCLIENTENCODING", "UTF8")
        .env("TZ", "UTC")
        .stdin(Stdio::from(input))
        .stdout(to(&printed))
        .stderr(to(&printed))
        .status()
        .expect("psql is installed: cargo xtask needs");
    assert!(status.success(), "psql at {}: {status}", place.name);
    printed.rewind().expect("from its start");
    let mut bytes = Vec::new();
    printed.read_to_end(&mut bytes).expect("what it printed");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A case as psql reads it.
fn text_of(case: &Case) -> String {
    let mut script = format!("\\echo '{MARK}{}'\n", case.name.replace('\'', "''"));
    if case.fresh {
        script.push_str("\\c -\n");
    }
    for step in &case.steps {
        add(&mut script, step);
    }
    script.push_str(if case.fresh { "\\c -\n" } else { "rollback;\n" });
    script
}

fn add(script: &mut String, step: &Step) {
    let written = match step.verb.as_str() {
        // What it describes goes by the protocol's own statements.
        "run" if step.sql.starts_with("select") && !step.sql.contains("--") => {
            writeln!(script, "{} \\gdesc\n{}\n;", step.sql, step.sql)
        }
        "run" | "copyout" => writeln!(script, "{}\n;", step.sql),
        "simple" => writeln!(script, "{} ;", step.sql.replace(';', "\\;")),
        "copyin" => writeln!(script, "{};\n{}\\.", step.sql, step.data()),
        _ => writeln!(script, "{}", step.sql),
    };
    written.expect("a text grows");
}

/// What it printed, as the other runners print.
fn lines(printed: &str) -> String {
    let (mut out, mut name) = (String::new(), "");
    let mut pinned = false;
    for line in printed.lines() {
        if let Some(found) = line.strip_prefix(MARK) {
            name = found;
            continue;
        }
        // Which process notifies is no business of anyone's.
        let line = line.split(" received from server process").next().unwrap_or_default();
        // It tells of a notice in two lines.
        if line.contains("the session keeps its connection to cluster ") {
            pinned = true;
            write!(out, "\t{name}\t\t{line} ").expect("a text grows");
            continue;
        }
        let begin = if std::mem::take(&mut pinned) { String::new() } else { format!("\t{name}\t\t") };
        writeln!(out, "{begin}{line}").expect("a text grows");
    }
    out + "\t\t\tend\n"
}
