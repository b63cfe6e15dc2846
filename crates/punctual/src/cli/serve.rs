//! `punctual serve`: the gateway, until it is told to stop.

use std::path::PathBuf;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::Stop;
use crate::config::Typed;
use crate::gateway::Gateway;
use crate::settings::Settings;
use crate::{config, prepare, print};

#[derive(Debug, Args)]
pub(super) struct Flags {
    /// The configuration; without one, embedded clusters on demo data
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Listen here instead of where the configuration says
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Serve HTTP here instead of where the configuration says; "off": nowhere
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,
}

pub(super) fn run(flags: &Flags) -> Result<u8, Stop> {
    super::log_to_stderr("info");
    let typed = Typed { listen: flags.listen.as_deref(), http: flags.http.as_deref() };
    let mut settings = config::read(flags.config.as_deref(), typed)
        .map_err(|why| Stop::usage(format_args!("the configuration cannot be used:\n{why}")))?;
    prepare::tables(&mut settings.clusters).map_err(Stop::failed)?;
    super::runtime()?.block_on(serve(settings))?;
    Ok(0)
}

async fn serve(settings: Settings) -> Result<(), Stop> {
    let within = settings.shutdown_within;
    let (mut interrupt, mut terminate) = (stop_signal(SignalKind::interrupt())?, stop_signal(SignalKind::terminate())?);
    let gateway = Gateway::start(settings).await.map_err(Stop::failed)?;
    // On standard output and in one line, so that a script can read where it listens.
    let said = match gateway.http {
        Some(http) => print::line(format_args!("listening on {}, HTTP on {http}", gateway.address)),
        None => print::line(format_args!("listening on {}", gateway.address)),
    };
    if let Err(unprinted) = said {
        let _ = gateway.stop(within).await;
        return Err(unprinted.into());
    }
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    tracing::info!("stopping: no new queries, up to {within} for those that run; once more to stop at once");
    tokio::select! {
        stopped = gateway.stop(within) => stopped.map(drop).map_err(Stop::failed),
        _ = interrupt.recv() => Err(Stop::failed("stopped at once")),
        _ = terminate.recv() => Err(Stop::failed("stopped at once")),
    }
}

fn stop_signal(kind: SignalKind) -> Result<tokio::signal::unix::Signal, Stop> {
    signal(kind).map_err(|error| Stop::failed(format_args!("listening for signals: {error}")))
}
