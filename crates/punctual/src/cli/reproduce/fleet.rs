//! `punctual reproduce fleet`: the TABS paper's figures, by the fleet simulation.

use std::path::PathBuf;

use clap::Args;

use super::with_progress;
use crate::cli::{Format, Stop};
use crate::experiment::fleet::{Effort, measure};
use crate::print;

#[derive(Debug, Args)]
pub(in crate::cli) struct Flags {
    /// How many times each setting is run
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    runs: u16,
    /// The largest fleet
    #[arg(long, value_name = "SERVERS", default_value_t = 102_400, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    most: u32,
    /// What chance begins with
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Draw it, as one page of HTML that needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// How to write the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(flags: &Flags) -> Result<u8, Stop> {
    let effort = Effort { runs: flags.runs.into(), most: flags.most, seed: flags.seed };
    let found = with_progress("fleets", |stop, tell| measure(effort, stop, tell).transpose())?;
    let found = found.map_err(Stop::failed)?;
    if let Some(path) = &flags.html {
        crate::cli::evaluate::draw(path, &found.page())?;
    }
    match flags.format {
        Format::Text => print::line(&found)?,
        Format::Json => print::json(&found)?,
    }
    Ok(0)
}
