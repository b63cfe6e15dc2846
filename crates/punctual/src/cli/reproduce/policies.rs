//! `punctual reproduce router | spinup-size | trigger | all`: AutoSLO's Tables 2, 3 and 4, against the simulated warehouse.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use punctual_core::route::Counting;
use punctual_learn::fit::Go;
use punctual_learn::learning::{Progress, Round};
use punctual_sim::world::warehouse::Table;

use crate::cli::progress::Teller;
use crate::cli::{Format, Stop};
use crate::experiment::compare::{Comparison, compare};
use crate::experiment::lessons::{Extent, lessons};
use crate::experiment::settings::Study;
use crate::print;

#[derive(Debug, Args)]
pub(in crate::cli) struct Flags {
    /// How many times each scenario is run
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: u64,
    /// From when on a query counts as one that will miss its SLO: median, p75, p90 or expected
    #[arg(long, default_value = "expected", value_parser = counting)]
    counting: Counting,
    /// What the lessons of the predictor begin with
    #[arg(long, default_value_t = 0)]
    lessons: u64,
    /// Only a token of everything: what the result looks like, with figures that mean nothing
    #[arg(long, hide = true)]
    token: bool,
    /// How to write the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

fn counting(name: &str) -> Result<Counting, String> {
    let names = Counting::ALL.map(Counting::name).join(", ");
    Counting::named(name).ok_or_else(|| format!("there are {names}"))
}

/// Runs these tables, one after the other.
pub(super) fn run(studies: &[Study], flags: &Flags) -> Result<u8, Stop> {
    let stop = Arc::new(AtomicBool::new(false));
    let _listening = crate::cli::stop_on_interrupt(&stop)?;
    let interrupted = || Stop::failed("interrupted");
    let table = Arc::new(Table::shipped().clone());
    let teller = Mutex::new(Teller::new());
    let tell = |stage: &'static str, done: (u64, u64)| {
        teller.lock().unwrap_or_else(PoisonError::into_inner).tell(stage, done, String::new);
    };
    let extent = if flags.token { Extent::Token } else { Extent::Whole };
    let lessons = lessons(&table, flags.lessons, extent, &mut |progress| {
        match progress {
            Progress::Batch { round: Round::Measuring, done, of } => tell("measuring", (done, of)),
            Progress::Batch { round: Round::Final, done, of } => tell("learning", (done, of)),
            Progress::Epoch(..) => {}
        }
        if stop.load(Ordering::Relaxed) { Go::Stop } else { Go::On }
    });
    let lessons = lessons.map_err(Stop::failed)?;
    let mut found: BTreeMap<&str, Comparison> = BTreeMap::new();
    for study in studies {
        let told = |done: usize, of: usize| tell(study.name(), (done as u64, of as u64));
        let (seeds, counting) = (flags.seeds, flags.counting);
        let compared = compare(*study, &lessons, &table, (seeds, counting), &stop, &told).ok_or_else(interrupted)?;
        if flags.format == Format::Text {
            print::line(format_args!("{}:\n{compared}\n", study.name()))?;
        }
        found.insert(study.name(), compared);
    }
    drop(teller);
    if flags.format == Format::Json {
        match (studies, found.values().next()) {
            ([_], Some(one)) => print::json(one)?,
            _ => print::json(&found)?,
        }
    }
    Ok(0)
}
