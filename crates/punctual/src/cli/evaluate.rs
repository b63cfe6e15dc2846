//! `punctual evaluate`: what a model is worth on a history.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::aside::Aside;
use super::{Format, Stop};
use crate::model::file;
use crate::model::report::{Worth, worth};
use crate::print;

/// Measure a model on history that it has not learnt from.
#[derive(Debug, Args)]
pub(super) struct Flags {
    /// The model
    model: PathBuf,
    /// A history directory, or one file of it
    history: PathBuf,
    #[command(flatten)]
    aside: Aside,
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
    let (split, fold) = flags.aside.or_recorded(&facts.split, facts.seed);
    let (observations, split) = super::train::observations(&flags.history, split, fold)?;
    let Some(worth) = worth(&model, &observations) else {
        return Err(Stop::failed(format_args!("the split \"{split}\" sets no query aside that finished")));
    };
    match flags.format {
        Format::Text => print::line(format_args!("{worth}"))?,
        Format::Json => print::json(&Report { learnt_from: facts.queries, test: worth })?,
    }
    Ok(0)
}
