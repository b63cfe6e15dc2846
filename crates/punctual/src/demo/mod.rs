//! The demonstration: a gateway, two clusters, three classes of queries, and how well their SLOs were kept.

pub mod load;
pub mod report;
pub mod workload;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use punctual_core::math;
use punctual_core::route::Routing;
use punctual_core::time::Span;
use tokio::sync::watch;

use self::load::{End, Seen};
use self::report::{Facts, Report};
use self::workload::{CLASSES, Clusters};
use crate::config::Source;
use crate::gateway::{Gateway, GatewayError};
use crate::print;
use crate::settings::Settings;

/// How long the last answers are waited for once all queries are sent.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often plain output says how it goes.
const PLAIN_EVERY: Duration = Duration::from_secs(10);
/// Recorded demonstrations that are kept.
const RUNS_KEPT: usize = 5;

/// What is to be shown.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How long queries are sent.
    pub length: Span,
    /// What the clusters are.
    pub clusters: Clusters,
    /// The seed of what is sent.
    pub seed: u64,
    /// True: say how it goes, on standard error.
    pub show: bool,
}

/// Runs the demonstration once under a policy, on a gateway of its own, and leaves that gateway running.
///
/// # Errors
/// If the gateway does not start, or its clusters do not.
pub async fn run(
    plan: &Plan,
    routing: Routing,
    mut settings: Settings,
    stop: watch::Receiver<bool>,
) -> Result<(Report, Gateway), DemoError> {
    settings.policy.routing = routing;
    settings.policy.classes = workload::policy_classes();
    let gateway = Gateway::start(settings, Source::default()).await.map_err(DemoError::Gateway)?;
    wait_for_clusters(&gateway, &stop).await?;
    let shots = workload::shots(plan.seed, plan.length, plan.clusters);
    let seen = Seen::new();
    let started = Instant::now();
    let (over, done) = watch::channel(false);
    let display = plan.show.then(|| tokio::spawn(show(seen.clone(), routing, plan.length, shots.len(), done)));
    load::send(&shots, gateway.address.port(), &seen, stop.clone(), PATIENCE).await;
    // The run is as long as it was meant to be, so that costs compare.
    let end = started + Duration::from(plan.length);
    let mut stopped = stop;
    tokio::select! {
        () = tokio::time::sleep_until(end.into()) => {}
        _ = stopped.wait_for(|stop| *stop) => {}
    }
    let length = plan.length.min(Span::from_micros(started.elapsed().as_micros() as u64));
    over.send_replace(true);
    if let Some(display) = display {
        let _ = display.await;
    }
    let snapshot = gateway.link.look().await.map_err(|_| DemoError::Gateway(GatewayError::Driver))?;
    let (history, journal) = gateway.records();
    let facts = Facts { policy: routing.name().to_owned(), length, cost: snapshot.view.cost, history, journal };
    Ok((Report::of(&seen, facts), gateway))
}

/// Why there was nothing to show.
#[derive(Debug)]
pub enum DemoError {
    /// The gateway did not start.
    Gateway(GatewayError),
    /// A cluster did not start.
    Cluster(String),
    /// It was interrupted before it began.
    Interrupted,
}

impl std::fmt::Display for DemoError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DemoError::Gateway(error) => error.fmt(f),
            DemoError::Cluster(error) => f.write_str(error),
            DemoError::Interrupted => f.write_str("interrupted before the first query"),
        }
    }
}

async fn wait_for_clusters(gateway: &Gateway, stop: &watch::Receiver<bool>) -> Result<(), DemoError> {
    let mut failed = None;
    let ready = gateway
        .ready(|snapshot| {
            failed = snapshot.view.clusters.iter().find_map(|cluster| {
                cluster.failed_by.map(|cause| format!("cluster {} {cause}; the log above says why", cluster.name))
            });
            failed.is_none() && !*stop.borrow()
        })
        .await
        .map_err(DemoError::Gateway)?;
    match (ready, failed) {
        (true, _) => Ok(()),
        (false, Some(why)) => Err(DemoError::Cluster(why)),
        (false, None) => Err(DemoError::Interrupted),
    }
}

/// Says how it goes: a bar and a line per class on a terminal, a line now and then elsewhere.
async fn show(seen: Arc<Seen>, routing: Routing, length: Span, total: usize, mut done: watch::Receiver<bool>) {
    let terminal = std::io::stderr().is_terminal();
    let bars = indicatif::MultiProgress::new();
    let bar = bars.add(ProgressBar::new(total as u64));
    let style = ProgressStyle::with_template("  {msg:<18} {bar:30} {pos}/{len} queries  {elapsed}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(routing.name());
    let lines: Vec<ProgressBar> = CLASSES.iter().map(|_| bars.add(text_line())).collect();
    let every = if terminal { Duration::from_millis(250) } else { PLAIN_EVERY };
    let started = Instant::now();
    loop {
        tokio::select! {
            _ = done.wait_for(|done| *done) => break,
            () = tokio::time::sleep(every) => {}
        }
        let (pos, texts) = progress(&seen);
        if terminal {
            bar.set_position(pos);
            lines.iter().zip(texts).for_each(|(line, text)| line.set_message(text));
        } else {
            let elapsed = started.elapsed().as_secs();
            let classes = texts.join("; ");
            print::aside(format_args!("{elapsed:>4} s of {length}: {pos} of {total} queries ended; {classes}"));
        }
    }
    bars.clear().unwrap_or_default();
}

fn text_line() -> ProgressBar {
    let line = ProgressBar::new_spinner();
    line.set_style(ProgressStyle::with_template("  {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()));
    line
}

/// Queries that ended, and a text per class.
fn progress(seen: &Seen) -> (u64, Vec<String>) {
    let shown = seen.shown();
    let texts = CLASSES.iter().enumerate().map(|(index, class)| {
        let mut answered: Vec<Span> =
            shown.iter().filter(|s| s.class == index && s.end == End::Answered).map(|s| s.latency).collect();
        answered.sort_unstable();
        let on_time = answered.iter().filter(|latency| **latency <= class.slo).count();
        let ended = shown.iter().filter(|s| s.class == index).count();
        let p95 = math::nearest_ranks(&answered, [0.95])
            .map_or_else(|| "-".into(), |[p95]| format!("{:.2} s", p95.secs_f64()));
        format!("{} {on_time}/{ended} within {}, p95 {p95}", class.name, class.slo)
    });
    (shown.len() as u64, texts.collect())
}

/// A fresh directory for the records of one run, below the state directory; the oldest runs are removed.
///
/// # Errors
/// If it cannot be made.
pub fn run_dir(state: &Path) -> std::io::Result<PathBuf> {
    let runs = state.join("demo");
    std::fs::create_dir_all(&runs)?;
    let mut old: Vec<(u64, PathBuf)> = std::fs::read_dir(&runs)?
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .collect();
    old.sort_unstable();
    let next = old.last().map_or(1, |(number, _)| number + 1);
    while old.len() >= RUNS_KEPT {
        let (_, path) = old.remove(0);
        std::fs::remove_dir_all(&path)?;
    }
    let dir = runs.join(next.to_string());
    std::fs::create_dir(&dir)?;
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_runs_are_kept() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let made: Vec<PathBuf> = (0..8).map(|_| run_dir(state.path()).expect("a run directory")).collect();
        let kept: Vec<bool> = made.iter().map(|dir| dir.is_dir()).collect();
        assert_eq!(kept, [false, false, false, true, true, true, true, true]);
    }
}
