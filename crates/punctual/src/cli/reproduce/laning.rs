//! `punctual reproduce laning`: light queries beside too many heavy ones, with lanes and without.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use punctual_sim::world::warehouse::Table;

use crate::cli::progress::Teller;
use crate::cli::{Format, Stop};
use crate::experiment::laning::{Load, report};
use crate::print;

#[derive(Debug, Args)]
pub(in crate::cli) struct Flags {
    /// How many times each policy is run
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: u64,
    /// For how many minutes queries come, after ten that do not count
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes: u64,
    /// How to write the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(flags: &Flags) -> Result<u8, Stop> {
    let usual = Load::default();
    let load = Load { minutes: usual.warm_up_min + flags.minutes, ..usual };
    let found = with_progress("laning", |stop, tell| {
        let table = Arc::new(Table::shipped().clone());
        report::compare(&load, flags.seeds, &table, stop, tell)
    })?;
    match flags.format {
        Format::Text => print::line(&found)?,
        Format::Json => print::json(&found)?,
    }
    Ok(0)
}

/// Has something run that says how far it is and can be interrupted.
pub(super) fn with_progress<T>(
    stage: &'static str,
    run: impl FnOnce(&AtomicBool, &(dyn Fn(usize, usize) + Sync)) -> Option<T>,
) -> Result<T, Stop> {
    let stop = Arc::new(AtomicBool::new(false));
    let _listening = crate::cli::stop_on_interrupt(&stop)?;
    let teller = Mutex::new(Teller::new());
    let tell = |done: usize, of: usize| {
        let mut teller = teller.lock().unwrap_or_else(PoisonError::into_inner);
        teller.tell(stage, (done as u64, of as u64), String::new);
    };
    run(&stop, &tell).ok_or_else(|| Stop::failed("interrupted"))
}
