//! The command line: one file per command, which holds its flags, their help and what it does.
//!
//! Exit codes: 0 done, 1 failed, 2 bad usage or configuration.

pub mod check;
mod demo;
mod engine;
mod explain;
mod import;
mod replay;
mod serve;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

/// It could not be done.
pub const FAILED: u8 = 1;
/// What was asked for makes no sense: flags, or the configuration.
pub const USAGE: u8 = 2;

/// Keeps latency SLOs on SQL warehouses: admits, orders and routes every query, and can rehearse it beforehand.
#[derive(Debug, Parser)]
#[command(name = "punctual", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// See SLOs kept on real queries: starts two clusters, sends three classes of queries, reports
    Demo(demo::Flags),
    /// Run the gateway in front of clusters
    Serve(serve::Flags),
    /// Say what a configuration means, and what is wrong with it
    Check(check::Check),
    /// Decide again what a journal recorded, and say whether the decisions agree
    Replay(replay::Flags),
    /// Say why a query went where it went, of a running gateway or from its history
    Explain(explain::Flags),
    /// Bring logs of other systems (Redshift, Snowflake, Trino, …) into history
    Import(import::Flags),
    /// Run one cluster (what the gateway starts as a child process)
    Engine(engine::Flags),
}

/// How output is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Runs the command that was typed.
pub fn main() -> ExitCode {
    let code = match Cli::parse().command {
        Command::Demo(flags) => demo::run(&flags),
        Command::Serve(flags) => serve::run(&flags),
        Command::Check(flags) => check::run(&flags, &mut std::io::stdout(), &mut std::io::stderr()).unwrap_or(FAILED),
        Command::Replay(flags) => replay::run(&flags),
        Command::Explain(flags) => explain::run(&flags),
        Command::Import(flags) => import::run(&flags),
        Command::Engine(flags) => engine::run(&flags),
    };
    ExitCode::from(code)
}

/// Sends the program's own log to standard error, at `PUNCTUAL_LOG` or the given level.
pub(crate) fn log_to_stderr(level: &str) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("PUNCTUAL_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(level));
    // A second call, as in tests, changes nothing.
    let colours = std::io::stderr().is_terminal();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    let _ = log.try_init();
}

/// Prints why a command could not be done and returns its exit code.
pub(crate) fn failed(error: &dyn std::fmt::Display, code: u8) -> u8 {
    eprintln!("punctual: {error}");
    code
}

/// The runtime that a command's waiting happens on.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("starting the runtime: {error}"))
}
