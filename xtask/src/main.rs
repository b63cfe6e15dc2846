//! `cargo xtask`: the project's chores, each with what it needs.
//!
//! `cargo xtask test` runs every test on a machine that has cargo and apt and nothing else: it installs or starts what
//! is missing and says so. `cargo xtask ci` is that after formatting and lints. `cargo xtask bench` measures what takes real
//! clusters, and is run by hand.

mod drivers;
mod lanes;
mod memory;
mod needs;
mod overhead;
mod pgbench;
mod servers;

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const HELP: &str = "\
cargo xtask test [ARGS…]   install what the tests need, then run them all; ARGS go to the test runner
cargo xtask ci             formatting, lints with warnings denied, then the tests
cargo xtask needs          only install what the tests need
cargo xtask bench lanes    light queries beside heavy ones on an embedded cluster, with lanes and without
cargo xtask bench gateway  what the gateway costs: pgbench's lookups at a Postgres, through PgBouncer, and through it
cargo xtask bench memory   what the gateway takes: while large results pass, and for thousands of sessions
                           All take the program to measure, or it is built in release mode first.
cargo xtask drivers [PROGRAM] [--only NAME] [--format json]
                           the test suites of asyncpg, pg8000 and tokio-postgres, straight at a Postgres and through the gateway";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["test", ref more @ ..] => test(more),
        ["ci"] => lint().and_then(|()| test(&[])),
        ["bench", what @ ("lanes" | "gateway" | "memory")] => built().and_then(|program| bench(what, &program)),
        ["bench", what @ ("lanes" | "gateway" | "memory"), program] => bench(what, Path::new(program)),
        ["drivers", ref more @ ..] => drivers(more),
        ["needs"] => needs::install().map(drop),
        ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(())
        }
        _ => {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Formatting, and lints with warnings denied: of everything, and of the gateway built small.
fn lint() -> Result<(), String> {
    run(cargo().args(["fmt", "--all", "--check"]))?;
    run(cargo().args(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))?;
    run(cargo().args(["clippy", "-p", "punctual", "--no-default-features", "--locked", "--", "-D", "warnings"]))
}

/// All tests, by nextest where it is installed. Both end with a summary of their own.
fn test(args: &[&str]) -> Result<(), String> {
    let needs = needs::install()?;
    let nextest = Command::new("cargo").args(["nextest", "--version"]).output().is_ok_and(|o| o.status.success());
    let mut tests = cargo();
    match nextest {
        true => tests.args(["nextest", "run", "--workspace", "--locked", "--no-fail-fast"]),
        false => tests.args(["test", "--workspace", "--locked", "--no-fail-fast"]),
    };
    run(tests.args(args).envs(needs.variables()))
}

/// What takes real clusters to be measured, with that program.
fn bench(what: &str, punctual: &Path) -> Result<(), String> {
    match what {
        "lanes" => lanes::bench(punctual),
        "memory" => {
            let needs = needs::install()?;
            memory::bench(punctual, &needs.postgres, &needs.python)
        }
        _ => {
            needs::bouncer()?;
            overhead::bench(punctual, &needs::install()?.postgres)
        }
    }
}

/// The drivers' own suites, through that program or the one that is built.
fn drivers(args: &[&str]) -> Result<(), String> {
    let (mut program, mut only, mut json, mut args) = (None, "", false, args.iter());
    while let Some(arg) = args.next() {
        match *arg {
            "--format" => match args.next() {
                Some(&"json") => json = true,
                Some(&"text") => json = false,
                _ => return Err("--format needs text or json".to_owned()),
            },
            "--only" => only = args.next().ok_or("--only needs the beginning of a driver's name")?,
            arg if arg.starts_with('-') => return Err(format!("{arg} is not known; see cargo xtask help")),
            path => program = Some(PathBuf::from(path)),
        }
    }
    let postgres = needs::install()?.postgres;
    drivers::compare(&program.map_or_else(built, Ok)?, &postgres, only, json)
}

/// The program, built in release mode.
fn built() -> Result<PathBuf, String> {
    run(cargo().args(["build", "--release", "-p", "punctual", "--locked"]))?;
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    Ok(target.join("release/punctual"))
}

fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn run(command: &mut Command) -> Result<(), String> {
    let shown = format!("{command:?}").replace('"', "");
    eprintln!("xtask: {shown}");
    let status = command.status().map_err(|error| format!("running {shown}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{shown}: {status}")) }
}
