//! The command line: one file per command, which holds its flags, their help and what it does.
//!
//! Exit codes: 0 done, 1 failed, 2 bad usage or configuration, 141 nobody reads the output any more.

mod aside;
mod calibrate;
pub mod check;
mod demo;
mod engine;
mod evaluate;
mod explain;
mod fleet;
mod forecast;
mod import;
mod measured;
mod plan;
mod progress;
mod replay;
mod reproduce;
mod serve;
mod simulate;
mod train;
mod user;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Parser, Subcommand, ValueEnum};

use crate::print::{self, Unprinted};

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
    /// Print the line that lets a user in, for `gateway.users_file`
    User(user::Flags),
    /// Say what a configuration means, and what is wrong with it
    Check(check::Check),
    /// Decide again what a journal recorded, and say whether the decisions agree
    Replay(replay::Flags),
    /// Say why a query went where it went, of a running gateway or from its history
    Explain(explain::Flags),
    /// Bring logs of other systems (Redshift, Snowflake, Trino, …) into history
    Import(import::Flags),
    /// Learn to predict latencies from history
    Train(train::Flags),
    /// Measure a model on history that it has not learnt from
    Evaluate(evaluate::Flags),
    /// Say what tomorrow could be like, from history, and what such forecasts were worth
    Forecast(forecast::Flags),
    /// Plan days ahead: which clusters start when
    Plan(Box<plan::Wanted>),
    /// Find out what policies would have cost and which SLOs they would have kept
    Simulate(Box<simulate::Flags>),
    /// Simulate many like servers that turn on and off by tokens
    Fleet(Box<fleet::Flags>),
    /// Make the papers' tables again on a history
    #[command(subcommand)]
    Reproduce(reproduce::What),
    /// Fit the simulated warehouse to measurements
    Calibrate(calibrate::Flags),
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
    let done = match Cli::try_parse().map(|cli| cli.command) {
        Ok(Command::Demo(flags)) => demo::run(&flags),
        Ok(Command::Serve(flags)) => serve::run(&flags),
        Ok(Command::Check(flags)) => check::run(&flags, &mut std::io::stdout(), &mut std::io::stderr())
            .map_err(|cause| Stop::Unprinted(cause.into())),
        Ok(Command::User(flags)) => user::run(&flags),
        Ok(Command::Replay(flags)) => replay::run(&flags),
        Ok(Command::Explain(flags)) => explain::run(&flags),
        Ok(Command::Import(flags)) => import::run(&flags),
        Ok(Command::Train(flags)) => train::run(&flags),
        Ok(Command::Evaluate(flags)) => evaluate::run(&flags),
        Ok(Command::Forecast(flags)) => forecast::run(&flags),
        Ok(Command::Plan(wanted)) => plan::run(&wanted),
        Ok(Command::Simulate(flags)) => simulate::run(&flags),
        Ok(Command::Fleet(flags)) => fleet::run(&flags),
        Ok(Command::Reproduce(what)) => reproduce::run(&what),
        Ok(Command::Calibrate(flags)) => calibrate::run(&flags),
        Ok(Command::Engine(flags)) => engine::run(&flags),
        Err(said) => say(&said),
    };
    ExitCode::from(done.unwrap_or_else(|stop| stop.code()))
}

/// Help, the version, or what is wrong with what was typed.
fn say(said: &clap::Error) -> Result<u8, Stop> {
    let printed = said.print().and_then(|()| std::io::stdout().flush());
    match (printed, said.use_stderr()) {
        (_, true) => Ok(USAGE),
        (Ok(()), false) => Ok(0),
        (Err(cause), false) => Err(Stop::Unprinted(cause.into())),
    }
}

/// Why a command ends without having done what it was to do.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It cannot be done.
    Failed(String),
    /// What was asked for makes no sense.
    Usage(String),
    /// It cannot be printed.
    Unprinted(Unprinted),
}

impl Stop {
    /// It cannot be done, for this reason.
    pub(crate) fn failed(why: impl std::fmt::Display) -> Stop {
        Stop::Failed(why.to_string())
    }

    /// What was asked for makes no sense, for this reason.
    pub(crate) fn usage(why: impl std::fmt::Display) -> Stop {
        Stop::Usage(why.to_string())
    }

    /// Says why, unless nobody listens, and gives the exit code.
    fn code(&self) -> u8 {
        let (why, code) = match self {
            Stop::Failed(why) => (why.clone(), FAILED),
            Stop::Usage(why) => (why.clone(), USAGE),
            Stop::Unprinted(unprinted) if unprinted.is_closed() => return unprinted.code(),
            Stop::Unprinted(unprinted) => (unprinted.to_string(), unprinted.code()),
        };
        print::aside(format_args!("punctual: {why}"));
        code
    }
}

impl From<Unprinted> for Stop {
    fn from(unprinted: Unprinted) -> Stop {
        Stop::Unprinted(unprinted)
    }
}

/// Sends the program's own log to standard error, at `PUNCTUAL_LOG` or the given level.
pub(crate) fn log_to_stderr(level: &str) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("PUNCTUAL_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(level));
    // A second call, as in tests, changes nothing.
    let colours = std::io::stderr().is_terminal();
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        // It would say on standard error that standard error cannot be written to, and panic.
        .log_internal_errors(false);
    let _ = log.try_init();
}

/// The runtime that a command's waiting happens on.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Stop> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Stop::failed(format_args!("starting the runtime: {error}")))
}

/// True from the first Ctrl-C or SIGTERM on. A second one ends the program at once.
pub(crate) fn stop_on_interrupt(stop: &Arc<AtomicBool>) -> Result<tokio::runtime::Runtime, Stop> {
    let runtime = runtime()?;
    let stop = stop.clone();
    runtime.spawn(on_interrupt(move || stop.store(true, Ordering::Relaxed)));
    Ok(runtime)
}

/// Does `this` at the first Ctrl-C or SIGTERM. At the second the program ends.
pub(crate) async fn on_interrupt(this: impl FnOnce()) {
    let terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
    let Ok(mut terminate) = terminate else { return };
    let mut this = Some(this);
    loop {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        match this.take() {
            Some(this) => this(),
            None => std::process::exit(i32::from(FAILED)),
        }
    }
}
