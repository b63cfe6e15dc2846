//! `punctual reproduce`: the papers' tables again, ours beside them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, Subcommand};
use punctual_learn::fit::Go;
use punctual_learn::learning::{Options, learn};
use punctual_learn::variant::STEPS;
use serde::Serialize;

use super::{Format, Stop};
use crate::model::report::{Step, step};
use crate::model::seen::{Fold, Split};
use crate::print;

/// Which table.
#[derive(Debug, Subcommand)]
pub(super) enum What {
    /// What each part of the predictor is worth: AutoSLO's Figure 7a, and on to ours
    Predictor(Predictor),
}

#[derive(Debug, Args)]
pub(super) struct Predictor {
    /// A history directory, or one file of it
    history: PathBuf,
    /// How what is measured on is set aside; without it, the column split if there is one, else the last fifth of the time
    #[arg(long, value_enum)]
    split: Option<Split>,
    /// Which fifth is set aside, with --split run or random
    #[arg(long, value_name = "0-4", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..5))]
    fold: u64,
    /// Passes over the queries at most; without it, 16, and more for short histories
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    epochs: Option<u32>,
    /// What chance begins with
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How to write the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Serialize)]
struct Table {
    steps: Vec<Step>,
}

/// 0 if all was measured, 1 if it could not be, or was interrupted.
pub(super) fn run(what: &What) -> Result<u8, Stop> {
    super::log_to_stderr("warn");
    let What::Predictor(flags) = what;
    let fold = Fold { number: flags.fold, seed: flags.seed };
    let (observations, _) = super::train::observations(&flags.history, flags.split, fold)?;
    let stop = Arc::new(AtomicBool::new(false));
    let _listening = super::stop_on_interrupt(&stop)?;
    let mut steps = Vec::new();
    if flags.format == Format::Text {
        print::line(
            "Q-error                        in hindsight p50     p90     p95  below p90   at arrival p50     p90     p95",
        )?;
    }
    for variant in STEPS {
        print::aside(format_args!("{} of {}: {}", steps.len() + 1, STEPS.len(), variant.name));
        let options = Options { variant, ..super::train::options(flags.epochs, flags.seed) };
        let go = || if stop.load(Ordering::Relaxed) { Go::Stop } else { Go::On };
        let learnt = learn(&observations, &options, &mut |_| go()).map_err(Stop::failed)?;
        if learnt.stopped {
            return Err(Stop::failed("interrupted; what was measured is above"));
        }
        let one = step(&learnt.model, &observations, &variant);
        if flags.format == Format::Text {
            print::line(one)?;
        }
        steps.push(one);
    }
    if flags.format == Format::Json {
        print::json(&Table { steps })?;
    }
    Ok(0)
}
