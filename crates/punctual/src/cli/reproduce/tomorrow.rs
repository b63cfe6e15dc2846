//! `punctual reproduce tuner | end-to-end`: AutoSLO's Table 5 and Figure 6, against the simulated warehouse.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::Args;
use punctual_core::class::DEFAULT;
use punctual_core::route::Counting;
use punctual_core::scale::Studies;
use punctual_learn::fit::Go;
use punctual_sim::workload::{Asked, Day};
use punctual_sim::world::warehouse::Table;

use super::with_progress;
use crate::cli::{Format, Stop};
use crate::experiment::lessons::{Extent, lessons};
use crate::experiment::tomorrow::Ground;
use crate::experiment::tomorrow::days::Source;
use crate::experiment::tomorrow::report::{Watch, end_to_end, tuner};
use crate::print;

#[derive(Debug, Args)]
pub(in crate::cli) struct Flags {
    /// How many times each scenario is run
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    /// A real day in the place of those that are generated: a CSV file with date,hour,tpcds_template,count
    #[arg(long, value_name = "FILE")]
    day: Option<PathBuf>,
    /// What the lessons of the predictor begin with
    #[arg(long, default_value_t = 0)]
    lessons: u64,
    /// Have the planner's simulations study what to start with the whole predictor, which takes several times as long
    #[arg(long)]
    whole_studies: bool,
    /// Only a token of everything: what the result looks like, with figures that mean nothing
    #[arg(long, hide = true)]
    token: bool,
    /// How to write the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// Table 5.
    Tuner,
    /// Figure 6.
    EndToEnd,
}

/// The variation of a real day's gaps, as published (CV 3.75 over the day).
const CV: f64 = 3.5;

pub(super) fn run(which: Which, flags: &Flags) -> Result<u8, Stop> {
    let source = source(flags)?;
    let table = Arc::new(Table::shipped().clone());
    let extent = if flags.token { Extent::Token } else { Extent::Whole };
    let lessons = with_progress("learning", |stop, _| {
        Some(lessons(&table, flags.lessons, extent, &mut |_| {
            if stop.load(Ordering::Relaxed) { Go::Stop } else { Go::On }
        }))
    })?;
    let lessons = lessons.map_err(Stop::failed)?;
    let studies = if flags.whole_studies { Studies::Network } else { Studies::Sharing };
    let (lessons, table, token) = (&lessons, &table, flags.token);
    let ground = Ground { lessons, table, counting: Counting::Expected, studies, token };
    match which {
        Which::Tuner => {
            let found =
                with_progress("planning", |stop, tell| tuner(&ground, &source, flags.seeds, &Watch { stop, tell }))?;
            match flags.format {
                Format::Text => print::line(&found)?,
                Format::Json => print::json(&found)?,
            }
        }
        Which::EndToEnd => {
            let found = with_progress("planning", |stop, tell| {
                end_to_end(&ground, &source, flags.seeds, &Watch { stop, tell })
            })?;
            match flags.format {
                Format::Text => print::line(&found)?,
                Format::Json => print::json(&found)?,
            }
        }
    }
    Ok(0)
}

fn source(flags: &Flags) -> Result<Source, Stop> {
    let Some(path) = &flags.day else { return Ok(Source::Generated) };
    let failed = |cause: &dyn std::fmt::Display| Stop::failed(format_args!("reading {}: {cause}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|cause| failed(&cause))?;
    let asked = |template| Asked { template, class: DEFAULT, slo: None };
    let (_, day) = Day::read(&text, CV, asked).map_err(|cause| failed(&cause))?;
    Ok(Source::Real(day))
}
