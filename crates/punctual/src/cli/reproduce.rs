//! `punctual reproduce`: the papers' tables again, ours beside them.

mod fairness;
mod fleet;
mod laning;
mod policies;
mod tomorrow;
mod world;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use clap::{Args, Subcommand};
use punctual_core::predict::model::Model;
use punctual_learn::fit::Go;
use punctual_learn::learning::{Options, learn};
use punctual_learn::observation::Observation;
use punctual_learn::variant::{PLUS, STEPS, Variant, WHOLE};
use serde::Serialize;

use tomorrow::Which;

use super::aside::Aside;
use super::progress::Teller;
use super::{Format, Stop};
use crate::experiment::settings::Study;
use crate::model::file;
use crate::model::report;
use crate::model::report::table::{HEADING, Said, Step};
use crate::model::seen::{Fold, Split};
use crate::print;

/// Which table.
#[derive(Debug, Subcommand)]
pub(super) enum What {
    /// What each part of the predictor is worth: AutoSLO's Figure 7a, and on to ours
    Predictor(Predictor),
    /// What an arrival costs while none ends, one step each against all read again: AutoSLO's Figure 7b
    Arrivals(Arrivals),
    /// The simulated warehouse beside measured runs
    World(world::Flags),
    /// How queries are routed: AutoSLO's Table 2
    Router(policies::Flags),
    /// What is started: AutoSLO's Table 3
    SpinupSize(policies::Flags),
    /// What triggers a start: AutoSLO's Table 4
    Trigger(policies::Flags),
    /// Tables 2, 3 and 4
    All(policies::Flags),
    /// Light queries beside too many heavy ones: priorities, thresholds, lanes and fair queues
    Laning(laning::Flags),
    /// One user who floods the gateway beside ten who do not: first come first served, and fair queues
    Fairness(fairness::Flags),
    /// Many like servers that turn on and off by tokens: TABS's Figures 2, 3 and 4, and others beside it
    Fleet(fleet::Flags),
    /// A day planned from 0, 1, 7 and 30 days of history: AutoSLO's Table 5
    Tuner(tomorrow::Flags),
    /// Planned days against one cluster, two in turn, and capacity that follows queueing: AutoSLO's Figure 6
    EndToEnd(tomorrow::Flags),
}

#[derive(Debug, Args)]
pub(super) struct Arrivals {
    /// The model
    model: PathBuf,
    /// A history directory, or one file of it, with the queries that arrive
    history: PathBuf,
    /// How many arrive
    #[arg(long, default_value_t = 297, value_parser = clap::value_parser!(u16).range(1..=2_000))]
    queries: u16,
    /// Draw it, as one page of HTML that needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// How to write the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Debug, Args)]
pub(super) struct Predictor {
    /// A history directory, or one file of it
    history: PathBuf,
    #[command(flatten)]
    aside: Aside,
    /// Measure on all five fifths, one after the other, with --split run or random
    #[arg(long, conflicts_with_all = ["fold", "hold_out"])]
    folds: bool,
    /// Only Iconq+ as its paper has it, and ours
    #[arg(long)]
    brief: bool,
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
    queries: usize,
    steps: Vec<Step>,
    rivals: Vec<Step>,
}

/// 0 if all was measured, 1 if it could not be, or was interrupted.
pub(super) fn run(what: &What) -> Result<u8, Stop> {
    super::log_to_stderr("warn");
    match what {
        What::Predictor(flags) => predictor(flags),
        What::Arrivals(flags) => arrivals(flags),
        What::World(flags) => world::run(flags),
        What::Router(flags) => policies::run(&[Study::Router], flags),
        What::SpinupSize(flags) => policies::run(&[Study::SpinupSize], flags),
        What::Trigger(flags) => policies::run(&[Study::Trigger], flags),
        What::All(flags) => policies::run(&[Study::Router, Study::SpinupSize, Study::Trigger], flags),
        What::Laning(flags) => laning::run(flags),
        What::Fairness(flags) => fairness::run(flags),
        What::Fleet(flags) => fleet::run(flags),
        What::Tuner(flags) => tomorrow::run(Which::Tuner, flags),
        What::EndToEnd(flags) => tomorrow::run(Which::EndToEnd, flags),
    }
}

/// Has something run that says how far it is and can be interrupted.
pub(super) fn with_progress<T>(
    stage: &'static str,
    run: impl FnOnce(&AtomicBool, &(dyn Fn(usize, usize) + Sync)) -> Option<T>,
) -> Result<T, Stop> {
    let stop = Arc::new(AtomicBool::new(false));
    let _listening = super::stop_on_interrupt(&stop)?;
    let teller = Mutex::new(Teller::new());
    let tell = |done: usize, of: usize| {
        let mut teller = teller.lock().unwrap_or_else(PoisonError::into_inner);
        teller.tell(stage, (done as u64, of as u64), String::new);
    };
    run(&stop, &tell).ok_or_else(|| Stop::failed("interrupted"))
}

/// It takes a model that there is, where the table of parts makes its own: so it is a command of its own.
fn arrivals(flags: &Arrivals) -> Result<u8, Stop> {
    let (model, _) = file::read(&flags.model).map_err(Stop::failed)?;
    let fold = Fold { number: 0, seed: 0 };
    let (observations, _) = super::train::observations(&flags.history, Some(Split::None), fold)?;
    let stop = Arc::new(AtomicBool::new(false));
    let _listening = super::stop_on_interrupt(&stop)?;
    let mut teller = Teller::new();
    let found = report::arrivals::arrivals(&model, &observations, flags.queries.into(), |done| {
        teller.tell("arriving", (done as u64, flags.queries.into()), String::new);
        !stop.load(Ordering::Relaxed)
    });
    drop(teller);
    let found = found.ok_or_else(|| Stop::failed("interrupted"))?;
    if let Some(path) = &flags.html {
        super::evaluate::draw(path, &found.page())?;
    }
    match flags.format {
        Format::Text => print::line(&found)?,
        Format::Json => print::json(&found)?,
    }
    // Both ways must say the same.
    Ok(u8::from(found.same != found.queries))
}

fn predictor(flags: &Predictor) -> Result<u8, Stop> {
    let folds = folds(flags)?;
    let stop = Arc::new(AtomicBool::new(false));
    let _listening = super::stop_on_interrupt(&stop)?;
    let variants: &[Variant] = if flags.brief { &[PLUS, WHOLE] } else { &STEPS };
    let show = |step: &Step| if flags.format == Format::Text { print::line(step) } else { Ok(()) };
    if flags.format == Format::Text {
        print::line(HEADING)?;
    }
    let (mut steps, mut rivals) = (Vec::new(), Vec::new());
    for (number, variant) in variants.iter().enumerate() {
        let mut said = Said::default();
        for (fold, observations) in folds.iter().enumerate() {
            let of = folds.len();
            let fold = if of > 1 { format!(", fold {} of {of}", fold + 1) } else { String::new() };
            print::aside(format_args!("{} of {}: {}{fold}", number + 1, variants.len(), variant.name));
            said.add(&learnt(flags, variant, observations, &stop)?, observations, variant);
        }
        steps.push(said.step(variant));
        steps.iter().last().map_or(Ok(()), &show)?;
        if *variant == WHOLE {
            steps.push(said.corrected());
            steps.iter().last().map_or(Ok(()), &show)?;
            rivals = said.rivals();
            rivals.iter().try_for_each(&show)?;
        }
    }
    let queries = steps.first().map_or(0, |step| step.at_arrival.n());
    match flags.format {
        Format::Text => print::line(format_args!("on {queries} queries that were set aside and finished"))?,
        Format::Json => print::json(&Table { queries, steps, rivals })?,
    }
    Ok(0)
}

/// The observations, split in one way or in five.
fn folds(flags: &Predictor) -> Result<Vec<Vec<Observation>>, Stop> {
    let split = flags.aside.split();
    if flags.folds && !matches!(split, Some(Split::Run | Split::Random)) {
        return Err(Stop::usage("--folds goes with --split run or --split random"));
    }
    let read = |fold| super::train::observations(&flags.history, split.clone(), fold).map(|(read, _)| read);
    match flags.folds {
        true => (0..5).map(|number| read(Fold { number, seed: flags.seed })).collect(),
        false => Ok(vec![read(flags.aside.fold(flags.seed))?]),
    }
}

fn learnt(
    flags: &Predictor,
    variant: &Variant,
    observations: &[Observation],
    stop: &AtomicBool,
) -> Result<Model, Stop> {
    let options = Options { variant: *variant, ..super::train::options(flags.epochs, flags.seed) };
    let go = || if stop.load(Ordering::Relaxed) { Go::Stop } else { Go::On };
    let learnt = learn(observations, &options, &mut |_| go()).map_err(Stop::failed)?;
    if learnt.stopped {
        return Err(Stop::failed("interrupted; what was measured is above"));
    }
    Ok(learnt.model)
}
