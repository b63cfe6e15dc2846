//! `punctual serve`: the gateway, until it is told to stop.

mod rehearsal;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::{Format, Stop};
use crate::config::Source;
use crate::files::Files;
use crate::gateway::Gateway;
use crate::settings::Settings;
use crate::{prepare, print};

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
    /// Say whether it would serve, and what, and leave it at that: 0 if it would, 2 if not
    #[arg(long)]
    check_only: bool,
    /// How to say that
    #[arg(long, value_enum, default_value_t, requires = "check_only")]
    format: Format,
}

pub(super) fn run(flags: &Flags) -> Result<u8, Stop> {
    let source = Source { file: flags.config.clone(), listen: flags.listen.clone(), http: flags.http.clone() };
    if flags.check_only {
        let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
        return rehearsal::run(&source, flags.format, &mut out, &mut err)
            .map_err(|cause| Stop::Unprinted(cause.into()));
    }
    super::log_to_stderr("info");
    Files::raise();
    let mut settings =
        source.read().map_err(|why| Stop::usage(format_args!("the configuration cannot be used:\n{why}")))?;
    prepare::tables(&mut settings.clusters).map_err(Stop::failed)?;
    super::runtime()?.block_on(serve(settings, source))?;
    Ok(0)
}

async fn serve(settings: Settings, source: Source) -> Result<(), Stop> {
    let (mut interrupt, mut terminate) = (heard(SignalKind::interrupt())?, heard(SignalKind::terminate())?);
    let mut hangup = heard(SignalKind::hangup())?;
    let gateway = Gateway::start(settings, source).await.map_err(Stop::failed)?;
    // On standard output and in one line, so that a script can read where it listens.
    let said = match gateway.http {
        Some(http) => print::line(format_args!("listening on {}, HTTP on {http}", gateway.address)),
        None => print::line(format_args!("listening on {}", gateway.address)),
    };
    if let Err(unprinted) = said {
        let within = gateway.settings.shutdown_within;
        let _ = gateway.stop(within).await;
        return Err(unprinted.into());
    }
    loop {
        tokio::select! {
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
            // What came of it is in the log. It may take long, and a signal to stop is heard meanwhile.
            _ = hangup.recv() => {
                let reload = Arc::clone(&gateway.reload);
                drop(tokio::spawn(async move { reload.reload().await }));
            }
        }
    }
    let within = gateway.reload.settings().shutdown_within;
    tracing::info!("stopping: no new queries, up to {within} for those that run; once more to stop at once");
    tokio::select! {
        stopped = gateway.stop(within) => stopped.map(drop).map_err(Stop::failed),
        _ = interrupt.recv() => Err(Stop::failed("stopped at once")),
        _ = terminate.recv() => Err(Stop::failed("stopped at once")),
    }
}

fn heard(kind: SignalKind) -> Result<tokio::signal::unix::Signal, Stop> {
    signal(kind).map_err(|error| Stop::failed(format_args!("listening for signals: {error}")))
}
