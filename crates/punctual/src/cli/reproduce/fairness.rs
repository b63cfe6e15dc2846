//! `punctual reproduce fairness`: one user who floods the gateway beside ten who do not, first come first served and in turns.

use std::sync::Arc;

use clap::Args;
use punctual_sim::world::warehouse::Table;

use super::with_progress;
use crate::cli::{Format, Stop};
use crate::experiment::fairness::{Load, compare};
use crate::print;

#[derive(Debug, Args)]
pub(in crate::cli) struct Flags {
    /// How many times each order is run
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: u64,
    /// For how many minutes queries come, after ten that do not count
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes: u64,
    /// How to write the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(flags: &Flags) -> Result<u8, Stop> {
    let usual = Load::default();
    let load = Load { minutes: usual.warm_up_min + flags.minutes, ..usual };
    let found = with_progress("fairness", |stop, tell| {
        let table = Arc::new(Table::shipped().clone());
        compare(&load, flags.seeds, &table, stop, tell)
    })?;
    match flags.format {
        Format::Text => print::line(&found)?,
        Format::Json => print::json(&found)?,
    }
    Ok(0)
}
