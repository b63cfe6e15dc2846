//! `punctual serve`: the gateway, until it is told to stop.

use std::path::PathBuf;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::{FAILED, USAGE, failed};
use crate::gateway::Gateway;
use crate::settings::Settings;
use crate::{config, prepare};

#[derive(Debug, Args)]
pub(super) struct Flags {
    /// The configuration; without one, embedded clusters on demo data
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Listen here instead of where the configuration says
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<std::net::SocketAddr>,
    /// Serve HTTP here instead of where the configuration says
    #[arg(long, value_name = "ADDRESS")]
    http: Option<std::net::SocketAddr>,
}

pub(super) fn run(flags: &Flags) -> u8 {
    super::log_to_stderr("info");
    let mut settings = match &flags.config {
        None => config::default_settings(),
        Some(path) => match config::load(path) {
            Ok(settings) => settings,
            Err(error) => return failed(&error, USAGE),
        },
    };
    settings.listen = flags.listen.unwrap_or(settings.listen);
    settings.http = flags.http.or(settings.http);
    let open = [Some(settings.listen), settings.http].into_iter().flatten().find(|at| !at.ip().is_loopback());
    if let Some(open) = open {
        let why = "there is no authentication yet, so only this machine may connect; write 127.0.0.1";
        return failed(&format_args!("{open} is not a loopback address: {why}"), USAGE);
    }
    if let Err(error) = prepare::tables(&mut settings.clusters) {
        return failed(&error, FAILED);
    }
    match super::runtime().and_then(|runtime| runtime.block_on(serve(settings)).map_err(|e| e.to_string())) {
        Ok(()) => 0,
        Err(error) => failed(&error, FAILED),
    }
}

async fn serve(settings: Settings) -> Result<(), String> {
    let within = settings.shutdown_within;
    let (mut interrupt, mut terminate) = (stop_signal(SignalKind::interrupt())?, stop_signal(SignalKind::terminate())?);
    let gateway = Gateway::start(settings).await.map_err(|error| error.to_string())?;
    // On standard output and in one line, so that a script can read where it listens.
    match gateway.http {
        Some(http) => println!("listening on {}, HTTP on {http}", gateway.address),
        None => println!("listening on {}", gateway.address),
    }
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    tracing::info!("stopping: no new queries, up to {within} for those that run; once more to stop at once");
    tokio::select! {
        stopped = gateway.stop(within) => stopped.map(drop).map_err(|error| error.to_string()),
        _ = interrupt.recv() => Err("stopped at once".to_owned()),
        _ = terminate.recv() => Err("stopped at once".to_owned()),
    }
}

fn stop_signal(kind: SignalKind) -> Result<tokio::signal::unix::Signal, String> {
    signal(kind).map_err(|error| format!("listening for signals: {error}"))
}
