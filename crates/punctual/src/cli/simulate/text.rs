//! What came of a simulation, as a table for people.

use std::fmt;

use super::found::{Decided, Found, OfPolicy, OfQueries};
use super::shadow::Shadow;
use crate::figure::Figure;
use crate::print;

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.clusters.iter().map(u32::to_string).collect();
        let sizes = if sizes.is_empty() { "no clusters".to_owned() } else { format!("clusters {}", sizes.join(", ")) };
        let seeds = if self.seeds == 1 { "one seed".to_owned() } else { format!("{} seeds", self.seeds) };
        let clients = self.clients.map_or("open loop".to_owned(), |clients| format!("{clients} clients, closed loop"));
        writeln!(f, "{}: {:.0} queries, {seeds}, {clients}, {sizes}", self.workload, self.queries)?;
        writeln!(f, "World: {}. SLO: {}.", self.world, self.slo)?;
        writeln!(f)?;
        let width = self.policies.iter().map(|of| of.policy.chars().count()).max().unwrap_or(0).max(16);
        write!(f, "{:width$}  {:>15}  {:>15}", "policy", "late, %", "cost, $")?;
        writeln!(
            f,
            "  {:>7} {:>7} {:>7} {:>7}  {:>8} {:>8}  {:>6} {:>5}",
            "p50, s", "p90", "p95", "p99", "clust. h", "unit h", "starts", "stops"
        )?;
        if let Some(recorded) = &self.as_recorded {
            let late = recorded.violation_rate.map_or("-".to_owned(), |rate| format!("{:.2}", 100.0 * rate));
            write!(f, "{:width$}  {late:>15}  {:>15} ", "(as recorded)", "")?;
            for quantile in recorded.latency_s.iter().flatten() {
                write!(f, " {quantile:>7.2}")?;
            }
            writeln!(f)?;
        }
        for of in &self.policies {
            row(f, width, of)?;
        }
        for of in &self.policies {
            below(f, width, of)?;
        }
        let intervals =
            "± is a 95 % interval over seeds (Student's t). All policies meet the same arrivals and the same luck.";
        write!(f, "\n{}", if self.seeds > 1 { intervals } else { "One seed: no intervals." })
    }
}

fn row(f: &mut fmt::Formatter<'_>, width: usize, of: &OfPolicy) -> fmt::Result {
    let late = of.violation_rate.map_or("-".to_owned(), |rate| said(rate, 100.0));
    write!(f, "{:width$}  {late:>15}  {:>15} ", of.policy, said(of.cost, 1.0))?;
    match of.latency_s {
        Some(of) => {
            [of.p50, of.p90, of.p95, of.p99].iter().try_for_each(|figure| write!(f, " {:>7.2}", figure.mean))?
        }
        None => write!(f, " {:>7} {:>7} {:>7} {:>7}", "-", "-", "-", "-")?,
    }
    let [clusters, units, starts, stops] = [of.cluster_hours, of.unit_hours, of.starts, of.stops].map(|of| of.mean);
    writeln!(f, "  {clusters:>8.2} {units:>8.1}  {starts:>6.1} {stops:>5.1}")
}

/// What else there is to say of a policy, if there is something.
fn below(f: &mut fmt::Formatter<'_>, width: usize, of: &OfPolicy) -> fmt::Result {
    let mut lines = Vec::new();
    if let Some(against) = of.against_first {
        let rate = against.violation_rate.map(|rate| {
            let relative =
                against.violation_rate_relative.map_or(String::new(), |by| format!(" ({:+.1} %)", 100.0 * by));
            format!("late {} points{relative}, ", signed(rate, 100.0))
        });
        let relative = against.cost_relative.map_or(String::new(), |by| format!(" ({:+.1} %)", 100.0 * by));
        lines.push(format!(
            "against the first: {}cost {} ${relative}",
            rate.unwrap_or_default(),
            signed(against.cost, 1.0)
        ));
    }
    let not_finished: Vec<String> = of
        .ended
        .iter()
        .filter(|(way, _)| **way != "finished")
        .map(|(way, count)| format!("{count:.1} {way}"))
        .collect();
    if !not_finished.is_empty() {
        lines.push(format!("did not finish: {}", not_finished.join(", ")));
    }
    if let (Some(wait), Some(share)) = (of.wait_s, of.waiting_share)
        && share.mean > 0.0
    {
        lines.push(format!("{:.2} % waited for a cluster, all {:.3} s in the mean", 100.0 * share.mean, wait.mean));
    }
    if of.starting_hours.mean > 0.0 {
        lines.push(format!("{:.2} hours were spent on starts, beside those in the table", of.starting_hours.mean));
    }
    if of.failed_starts.mean > 0.0 {
        lines.push(format!("{:.1} starts failed", of.failed_starts.mean));
    }
    if of.lost_clusters.mean > 0.0 {
        lines.push(format!("{:.1} clusters were lost", of.lost_clusters.mean));
    }
    for (kind, all) in [("class", &of.classes), ("lane", &of.lanes)] {
        let several = all.len() > 1 || kind == "lane";
        lines.extend(all.iter().filter(|_| several).map(|(name, of)| format!("{kind} {name}: {}", came_of(of))));
    }
    if let Some(of) = of.predictions {
        lines.push(format!(
            "its own predictions, at placement: off by a factor of {:.2} in the median and {:.2} for one in ten; {:.1} % \
             within the 90 % quantile; took {:.2} times the predicted median",
            of.q_error_p50,
            of.q_error_p90,
            100.0 * of.coverage_p90,
            of.bias
        ));
    }
    if let Some(shadow) = &of.shadow {
        lines.extend(changed(of, shadow));
    }
    if of.shadow.is_none() {
        lines.extend(decided(&of.scaling));
    }
    for (at, line) in lines.into_iter().enumerate() {
        if at == 0 {
            writeln!(f, "\n{}", of.policy)?;
        }
        writeln!(f, "{:indent$}{line}", "", indent = 4.min(width))?;
    }
    Ok(())
}

fn came_of(of: &OfQueries) -> String {
    let late = of.violation_rate.map_or("no SLO".to_owned(), |rate| format!("late {} %", said(rate, 100.0)));
    let p90 = of.latency_s.map_or(String::new(), |of| format!(", p90 {:.2} s", of.p90.mean));
    format!("{}, {late}{p90}", print::counted(of.queries.round() as u64, "query", "queries"))
}

/// Decisions about the fleet.
fn decided(scaling: &[Decided]) -> Vec<String> {
    let said = scaling.iter().take(SAID).map(|one| {
        let done = if one.mode == "on" { "" } else { " (not done)" };
        format!("{:>8.0} s  {}{done}: {}", one.at_s, one.act, one.because)
    });
    let mut lines: Vec<String> = said.collect();
    if scaling.len() > SAID {
        lines.push(format!("{} more decisions about the fleet (--format json has them)", scaling.len() - SAID));
    }
    lines
}

/// What a policy would have changed.
fn changed(of: &OfPolicy, shadow: &Shadow) -> Vec<String> {
    let late = |rate: Option<f64>| rate.map_or("no SLOs".to_owned(), |rate| format!("{:.2} % late", 100.0 * rate));
    let mean = |figure: Option<Figure>| figure.map(|figure| figure.mean);
    let Shadow { recorded, as_it_was, moved, actions } = shadow;
    let mut lines = vec![
        "what would have changed (queries and clusters of the first seed):".to_owned(),
        format!("  as recorded             {:>14}, about ${:.2}", late(recorded.violation_rate), recorded.cost),
        format!("  the same, simulated     {:>14}, ${:.2}", late(mean(as_it_was.violation_rate)), as_it_was.cost.mean),
        format!("  with this, simulated    {:>14}, ${:.2}", late(mean(of.violation_rate)), of.cost.mean),
        format!(
            "  {} of {} queries would have run elsewhere; {} that were late would have been in time, {} the other way round",
            moved.queries, moved.of, moved.saved, moved.spoilt
        ),
    ];
    for way in moved.ways.iter().take(SAID) {
        let [was, with] = way.late;
        lines.push(format!("  {:>8}  {} -> {}: {was} were late, {with} would be", way.queries, way.from, way.to));
    }
    if moved.ways.len() > SAID {
        lines.push(format!("  {} more ways (--format json has them)", moved.ways.len() - SAID));
    }
    if !actions.is_empty() {
        lines.push("  and of clusters:".to_owned());
    }
    for action in actions.iter().take(SAID) {
        lines.push(format!("  {}  {}: {}", action.at, action.what, action.because));
    }
    if actions.len() > SAID {
        lines.push(format!("  {} more (--format json has them)", actions.len() - SAID));
    }
    lines
}

/// Decisions about the fleet, and other things of a kind, that people get.
const SAID: usize = 12;

fn said(figure: Figure, by: f64) -> String {
    let half = figure.half().map_or(String::new(), |half| format!(" ± {:.2}", half * by));
    format!("{:.2}{half}", figure.mean * by)
}

fn signed(figure: Figure, by: f64) -> String {
    let half = figure.half().map_or(String::new(), |half| format!(" ± {:.2}", half * by));
    format!("{:+.2}{half}", figure.mean * by)
}
