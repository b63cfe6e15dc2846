//! `punctual calibrate`: fits the simulated warehouse to measurements.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use punctual_sim::calibration::{Measured, Options, calibrate};
use punctual_sim::world::warehouse::Table;

use super::progress::Teller;
use super::{Stop, measured};
use crate::{print, whole};

#[derive(Debug, Args)]
pub(super) struct Flags {
    /// Whole runs, a query a line: run, workload, cluster_size, arrival_s, template, latency_s, status
    #[arg(long, value_name = "CSV")]
    runs: PathBuf,
    /// Queries alone, a template and size a line: rpu, template, runtimes_s
    #[arg(long, value_name = "CSV")]
    isolated: PathBuf,
    /// Where to write the table; without it, to standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How many times the warehouse is tried
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    tries: u32,
    /// What chance begins with
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// 0 if a table was fitted, 1 if it could not be, or was interrupted.
pub(super) fn run(flags: &Flags) -> Result<u8, Stop> {
    let runs = measured::runs(&flags.runs).map_err(Stop::failed)?;
    let isolated = measured::isolated(&flags.isolated).map_err(Stop::failed)?;
    let stop = Arc::new(AtomicBool::new(false));
    let _listening = super::stop_on_interrupt(&stop)?;
    let mut teller = Teller::new();
    let options = Options { tries: flags.tries, seed: flags.seed };
    let mut first = None;
    let mut last = 0.0;
    let (table, knobs) = calibrate(&Measured { runs, isolated }, Table::shipped(), options, |number, misfit| {
        first.get_or_insert(misfit);
        last = misfit;
        teller.tell("trying", (number.into(), flags.tries.into()), || format!("misfit {misfit:.3}"));
        !stop.load(Ordering::Relaxed)
    });
    drop(teller);
    if stop.load(Ordering::Relaxed) {
        return Err(Stop::failed("interrupted"));
    }
    let first = first.unwrap_or_default();
    print::aside(format_args!("misfit {last:.3}, at first {first:.3}, with {knobs:?}"));
    match &flags.output {
        None => print::line(table.to_string().trim_end())?,
        Some(path) => whole::write(path, table.to_string().as_bytes())
            .map_err(|cause| Stop::failed(format_args!("writing {}: {cause}", path.display())))?,
    }
    Ok(0)
}
