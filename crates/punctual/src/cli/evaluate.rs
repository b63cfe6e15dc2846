//! `punctual evaluate`: what a model is worth on a history.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::{Format, Stop};
use crate::model::file;
use crate::model::report::{Worth, worth};
use crate::model::seen::{Fold, Split};
use crate::print;

/// Measure a model on history that it has not learnt from.
#[derive(Debug, Args)]
pub(super) struct Flags {
    /// The model
    model: PathBuf,
    /// A history directory, or one file of it
    history: PathBuf,
    /// What to measure on, as it was set aside in training; without it, as the model was trained
    #[arg(long, value_enum)]
    split: Option<Split>,
    /// Which fifth was set aside, with --split run or random
    #[arg(long, value_name = "0-4", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..5))]
    fold: u64,
    /// How to write the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Serialize)]
struct Report {
    learnt_from: u64,
    test: Worth,
}

/// 0 if there was something to measure on, 1 if not.
pub(super) fn run(flags: &Flags) -> Result<u8, Stop> {
    super::log_to_stderr("warn");
    let (model, facts) = file::read(&flags.model).map_err(Stop::failed)?;
    let trained = <Split as clap::ValueEnum>::from_str(&facts.split, false).ok().filter(|split| *split != Split::None);
    let fold = Fold { number: flags.fold, seed: facts.seed };
    let (observations, split) = super::train::observations(&flags.history, flags.split.or(trained), fold)?;
    let Some(worth) = worth(&model, &observations) else {
        return Err(Stop::failed(format_args!("--split {split} sets no query aside that finished")));
    };
    match flags.format {
        Format::Text => print::line(format_args!("{worth}"))?,
        Format::Json => print::json(&Report { learnt_from: facts.queries, test: worth })?,
    }
    Ok(0)
}
