//! `punctual reproduce world`: the simulated warehouse beside measurements.
//!
//! It takes arrivals and sizes from the measurements, and never a latency: those are only shown beside what the shipped
//! table says.

use std::fmt;
use std::path::PathBuf;

use clap::Args;
use punctual_core::id::Units;
use punctual_sim::calibration::alone::medians;
use punctual_sim::calibration::{Cell, Comparison, MeasuredRun, compare, within};
use punctual_sim::world::warehouse::Table;
use serde::Serialize;

use crate::cli::{Format, Stop, measured};
use crate::print;

#[derive(Debug, Args)]
pub(in crate::cli) struct Flags {
    /// Whole runs, a query a line: run, workload, cluster_size, arrival_s, template, latency_s, status
    #[arg(long, value_name = "CSV")]
    runs: PathBuf,
    /// Queries alone, a template and size a line: rpu, template, runtimes_s
    #[arg(long, value_name = "CSV")]
    isolated: PathBuf,
    /// Another table than the one that ships, as `punctual calibrate` writes it
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    /// How many times each run is simulated
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: u64,
    /// How to write the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Debug, PartialEq, Serialize)]
struct Found {
    isolated: Isolated,
    runs: Vec<Row>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Isolated {
    /// The share of templates and sizes whose simulated median is within a factor of 1.5 of the measured one.
    within_1_5x: f64,
}

#[derive(Debug, PartialEq, Serialize)]
struct Row {
    run: String,
    workload: String,
    size: u32,
    measured_s: f64,
    simulated_s: f64,
    measured_p90_s: f64,
    simulated_p90_s: f64,
    measured_timed_out: f64,
    simulated_timed_out: f64,
    measured_concurrency: f64,
    simulated_concurrency: f64,
}

pub(super) fn run(flags: &Flags) -> Result<u8, Stop> {
    let runs = measured::runs(&flags.runs).map_err(Stop::failed)?;
    let isolated = measured::isolated(&flags.isolated).map_err(Stop::failed)?;
    let found = match &flags.table {
        None => found(&runs, &isolated, Table::shipped(), flags.seeds),
        Some(path) => {
            let failed = |cause: &dyn fmt::Display| Stop::failed(format_args!("reading {}: {cause}", path.display()));
            let text = std::fs::read_to_string(path).map_err(|cause| failed(&cause))?;
            let table = Table::parse(&text).map_err(|cause| failed(&cause))?;
            found(&runs, &isolated, &table, flags.seeds)
        }
    };
    match flags.format {
        Format::Text => print::line(&found)?,
        Format::Json => print::json(&found)?,
    }
    Ok(0)
}

fn found(runs: &[MeasuredRun], isolated: &[Cell], table: &Table, seeds: u64) -> Found {
    let within_1_5x = within(isolated, 1.5, |size| medians(table, Units(size), 0));
    let row = |run: &MeasuredRun| {
        let Comparison { measured, simulated } = compare(run, table, seeds);
        Row {
            run: run.run.clone(),
            workload: run.workload.clone(),
            size: run.size,
            measured_s: measured.mean,
            simulated_s: simulated.mean,
            measured_p90_s: measured.p90,
            simulated_p90_s: simulated.p90,
            measured_timed_out: measured.timed_out,
            simulated_timed_out: simulated.timed_out,
            measured_concurrency: measured.concurrency,
            simulated_concurrency: simulated.concurrency,
        }
    };
    Found { isolated: Isolated { within_1_5x }, runs: runs.iter().map(row).collect() }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.runs.iter().map(|row| row.workload.chars().count()).max().unwrap_or(0).max(8);
        writeln!(f, "{:width$}        mean latency, s              90 % quantile, s             at once", "")?;
        let sides = "measured  simulated         measured  simulated         meas.   sim.";
        writeln!(f, "{:width$} size {sides}", "workload")?;
        for row in &self.runs {
            let Row { workload, size, measured_s, simulated_s, measured_p90_s, simulated_p90_s, .. } = row;
            write!(f, "{workload:width$} {size:>4} ")?;
            write!(f, "{measured_s:>8.1}  {simulated_s:>9.1} {} ", Times(simulated_s / measured_s))?;
            write!(f, "{measured_p90_s:>8.1}  {simulated_p90_s:>9.1} {} ", Times(simulated_p90_s / measured_p90_s))?;
            writeln!(f, "{:>6.1} {:>6.1}", row.measured_concurrency, row.simulated_concurrency)?;
        }
        let near = |factor: f64| {
            let ratio = |row: &&Row| (row.simulated_s / row.measured_s).max(row.measured_s / row.simulated_s);
            self.runs.iter().filter(|row| ratio(row) <= factor).count()
        };
        let of = self.runs.len();
        writeln!(f, "Means: {} of {of} runs within ×2, {} within ×3.", near(2.0), near(3.0))?;
        let percent = 100.0 * self.isolated.within_1_5x;
        write!(f, "Alone: {percent:.0} % of the medians of templates and sizes within ×1.5.")
    }
}

/// A ratio as people read it.
struct Times(f64);

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>7}", format!("×{:.2}", self.0))
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::time::{Span, Time};
    use punctual_sim::calibration::MeasuredQuery;
    use punctual_sim::world::warehouse::Template;

    use super::*;

    /// Forty queries, one every four seconds, whose latencies come in the order that `latency` gives.
    fn run(latency: impl Fn(usize) -> f64) -> MeasuredRun {
        let query = |(at, template): (usize, Template)| MeasuredQuery {
            arrival: Time::ZERO + Span::from_secs(4 * at as u64),
            template,
            latency: latency(at),
        };
        let queries = Template::all().step_by(5).chain(Template::all().step_by(5)).enumerate().map(query).collect();
        MeasuredRun { run: "1".into(), workload: "w".into(), size: 8, queries }
    }

    #[test]
    fn what_was_measured_changes_nothing_that_is_simulated() {
        let cells = |shift: f64| -> Vec<Cell> {
            Template::all().map(|template| Cell { size: 8, template, latencies: vec![1.0 + shift] }).collect()
        };
        let one = found(&[run(|at| at as f64)], &cells(0.0), Table::shipped(), 2);
        let other = found(&[run(|at| ((at * 17) % 40) as f64 * 90.0)], &cells(4.0), Table::shipped(), 2);
        assert_ne!(
            (one.runs[0].measured_s, one.isolated.within_1_5x),
            (other.runs[0].measured_s, other.isolated.within_1_5x)
        );
        let simulated = |found: &Found| {
            let row = &found.runs[0];
            (row.simulated_s, row.simulated_p90_s, row.simulated_timed_out, row.simulated_concurrency)
        };
        assert_eq!(simulated(&one), simulated(&other));
    }

    #[test]
    fn people_get_a_table() {
        let text = found(&[run(|_| 30.0)], &[], Table::shipped(), 1).to_string();
        assert!(text.lines().nth(2).is_some_and(|line| line.starts_with("w") && line.contains("30.0")), "{text}");
        assert!(text.contains("of 1 runs within ×2"), "{text}");
    }
}
