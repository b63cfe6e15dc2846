//! `cargo xtask`: the project's chores, each with what it needs.
//!
//! `cargo xtask test` runs every test on a machine that has cargo and apt and nothing else: it installs or starts what
//! is missing and says so. `cargo xtask ci` is that after formatting and lints. `cargo xtask bench` measures what takes real
//! clusters, and is run by hand.

mod lanes;
mod needs;

use std::env;
use std::process::{Command, ExitCode};

const HELP: &str = "\
cargo xtask test [ARGS…]   install what the tests need, then run them all; ARGS go to the test runner
cargo xtask ci             formatting, lints with warnings denied, then the tests
cargo xtask needs          only install what the tests need
cargo xtask bench lanes    light queries beside heavy ones on an embedded cluster, with lanes and without; pass the
                           program to measure, or it is built in release mode first";

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let done = match args.next().as_deref() {
        Some("test") => test(&args.collect::<Vec<_>>()),
        Some("ci") => lint().and_then(|()| test(&[])),
        Some("bench") if args.next().as_deref() == Some("lanes") => bench_lanes(args.next()),
        Some("needs") => needs::install().map(drop),
        Some("help" | "--help" | "-h") => {
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
fn test(args: &[String]) -> Result<(), String> {
    let needs = needs::install()?;
    let nextest = Command::new("cargo").args(["nextest", "--version"]).output().is_ok_and(|o| o.status.success());
    let mut tests = cargo();
    match nextest {
        true => tests.args(["nextest", "run", "--workspace", "--locked", "--no-fail-fast"]),
        false => tests.args(["test", "--workspace", "--locked", "--no-fail-fast"]),
    };
    run(tests.args(args).env("PUNCTUAL_TEST_PYTHON", needs.python).env("PUNCTUAL_TEST_POSTGRES", needs.postgres))
}

/// What lanes do for light queries beside heavy ones, on real clusters.
fn bench_lanes(punctual: Option<String>) -> Result<(), String> {
    let built = match punctual {
        Some(path) => path.into(),
        None => {
            run(cargo().args(["build", "--release", "-p", "punctual", "--locked"]))?;
            let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), std::path::PathBuf::from);
            target.join("release/punctual")
        }
    };
    lanes::bench(&built)
}

fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn run(command: &mut Command) -> Result<(), String> {
    let shown = format!("{command:?}").replace('"', "");
    println!("xtask: {shown}");
    let status = command.status().map_err(|error| format!("running {shown}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{shown}: {status}")) }
}
