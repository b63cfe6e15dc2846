//! `punctual demo`: SLOs kept on real queries, with no set-up.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use punctual_core::route::Routing;
use punctual_core::time::Span;
use tokio::sync::watch;

use super::{Format, Stop};
use crate::demo::report::{Comparison, Report};
use crate::demo::workload::Clusters;
use crate::demo::{self, Plan};
use crate::gateway::Gateway;
use crate::settings::{ClusterKind, Settings, Simulated, Tables};
use crate::{config, prepare, print};

#[derive(Debug, Args)]
pub(super) struct Flags {
    /// How long queries are sent, in seconds
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// How clusters are chosen: round_robin, least_outstanding or p2c
    #[arg(long, value_parser = routing, default_value = "least_outstanding")]
    policy: Routing,
    /// Repeat the same arrivals under every policy
    #[arg(long, conflicts_with_all = ["policy", "keep"])]
    compare: bool,
    /// Leave the gateway running afterwards, to look around with psql, until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// Size of the TPC-H data; 1 is about a gigabyte
    #[arg(long, value_name = "F", default_value_t = 0.1, value_parser = scale_factor)]
    scale_factor: f64,
    /// What the clusters are
    #[arg(long, value_enum, default_value_t = default_kind())]
    clusters: Kind,
    /// Seed of what is sent
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the records of the run go
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// How to write the report
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What the clusters of a demonstration are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// DataFusion over TPC-H
    Embedded,
    /// Processes that only take the time a warehouse would
    Simulated,
}

fn default_kind() -> Kind {
    if cfg!(feature = "embedded") { Kind::Embedded } else { Kind::Simulated }
}

fn routing(name: &str) -> Result<Routing, String> {
    let names = SHOWN.map(|routing| routing.name());
    let known = Routing::named(name).filter(|routing| SHOWN.contains(routing));
    known.ok_or_else(|| format!("there is no such policy; there are {}", names.join(", ")))
}

fn scale_factor(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if (0.001..=100.0).contains(&factor) => Ok(factor),
        _ => Err("it must be a number from 0.001 to 100".to_owned()),
    }
}

pub(super) fn run(flags: &Flags) -> Result<u8, Stop> {
    super::log_to_stderr("warn");
    let settings = settings(flags)?;
    super::runtime()?.block_on(show(flags, settings))?;
    Ok(0)
}

/// The gateway of a configuration that nobody wrote, on free ports, with its clusters' data in place.
fn settings(flags: &Flags) -> Result<Settings, Stop> {
    let mut settings = config::default_settings();
    settings.listen.set_port(0);
    settings.http = settings.http.map(|address| std::net::SocketAddr::new(address.ip(), 0));
    for cluster in &mut settings.clusters {
        match (&mut cluster.kind, flags.clusters) {
            (kind, Kind::Simulated) => *kind = ClusterKind::Simulated(Simulated::default()),
            (ClusterKind::Embedded(embedded), Kind::Embedded) => {
                embedded.tables = Tables::Tpch { scale_factor: flags.scale_factor };
            }
            _ => {}
        }
    }
    prepare::tables(&mut settings.clusters).map_err(Stop::failed)?;
    Ok(settings)
}

async fn show(flags: &Flags, settings: Settings) -> Result<(), Stop> {
    let stop = stop_on_interrupt();
    let plan = Plan {
        length: Span::from_secs(flags.seconds),
        clusters: match flags.clusters {
            Kind::Embedded => Clusters::Embedded,
            Kind::Simulated => Clusters::Simulated,
        },
        seed: flags.seed,
        show: true,
    };
    let policies = if flags.compare { SHOWN.to_vec() } else { vec![flags.policy] };
    let mut reports = Vec::new();
    for &policy in &policies {
        let settings = with_records(&settings, flags)?;
        let run = demo::run(&plan, policy, settings, stop.clone()).await;
        let (report, gateway) = run.map_err(Stop::failed)?;
        let printed = match flags.format {
            Format::Text => print::line(format_args!("{report}\n")),
            Format::Json => Ok(()),
        };
        if printed.is_ok() && flags.keep && !*stop.borrow() {
            keep(&gateway, stop.clone()).await;
        }
        gateway.stop(Span::from_secs(5)).await.map_err(Stop::failed)?;
        printed?;
        reports.push(report);
        if *stop.borrow() {
            break;
        }
    }
    let left: Vec<&str> = policies.iter().skip(reports.len()).map(|policy| policy.name()).collect();
    finish(flags, &reports, &left)
}

/// The same settings with a fresh place for history and journal.
fn with_records(settings: &Settings, flags: &Flags) -> Result<Settings, Stop> {
    let state = flags.state_dir.clone().unwrap_or_else(prepare::state_dir);
    let dir = demo::run_dir(&state)
        .map_err(|error| Stop::failed(format_args!("making a directory in {}: {error}", state.display())))?;
    let mut settings = settings.clone();
    settings.history.dir = dir.join("history");
    settings.journal.dir = dir.join("journal");
    Ok(settings)
}

async fn keep(gateway: &Gateway, mut stop: watch::Receiver<bool>) {
    print::aside("the gateway stays up until Ctrl-C:");
    print::aside(format_args!("  psql -h {} -p {} -d demo", gateway.address.ip(), gateway.address.port()));
    if let Some(http) = gateway.http {
        print::aside(format_args!("  curl http://{http}/metrics"));
    }
    let _ = stop.wait_for(|stop| *stop).await;
}

/// The end of the output; `left` are policies that were not run, since it was interrupted.
fn finish(flags: &Flags, reports: &[Report], left: &[&str]) -> Result<(), Stop> {
    if !left.is_empty() {
        print::aside(format_args!("interrupted; not run: {}", left.join(", ")));
    }
    if let (Format::Text, [_, _, ..]) = (flags.format, reports) {
        print::line(format_args!("{}\n", Comparison(reports)))?;
    }
    match (flags.format, reports) {
        (Format::Json, [one]) if !flags.compare => print::json(one)?,
        (Format::Json, all) => print::json(&serde_json::json!({ "policies": all }))?,
        (Format::Text, []) => {}
        (Format::Text, [.., last]) => print::line(format_args!(
            "What to try next (the records of the last five runs are kept):\n\
             \x20 punctual demo --compare                 the same arrivals under every policy\n\
             \x20 punctual demo --keep                    then look around with psql\n\
             \x20 punctual replay {}\n\
             \x20 punctual serve -c punctual.toml         in front of your own clusters",
            last.journal.display()
        ))?,
    }
    Ok(())
}

/// Becomes true at the first Ctrl-C or SIGTERM. At the second the program ends.
fn stop_on_interrupt() -> watch::Receiver<bool> {
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(super::on_interrupt(move || {
        stop.send_replace(true);
    }));
    stopped
}

/// The policies that can be shown: nothing has been learnt yet, and the two clusters are of different sizes.
const SHOWN: [Routing; 3] = [Routing::RoundRobin, Routing::LeastOutstanding, Routing::P2c];
