//! Days that could come: workloads drawn from the past, in two splits.
//!
//! A [`Forecaster`] says for each hour of a day how many queries could come, which, and how they are spread ([`HourPlan`]); drawing
//! from that is the same for all ([`plan`]). So a forecaster is a file of its own and an arm in [`named`].
//!
//! ```text
//!   past ──▶ forecaster ──▶ a plan for each hour ──▶ workloads: 12 to plan with, 8 to choose by, others to promise by
//! ```
//!
//! **Splits.** Each workload has its own seed, and each hour of it its own stream: those of one split say nothing of the
//! other's. Within a split the levels of an hour are spread evenly (a golden-ratio sequence from a random start), so that
//! a dozen workloads show quiet days and busy ones in proportion.
//!
//! **What is defined.** A shape that is new counts from the first day on which it came; one that has vanished fades as the days do
//! on which it came (`levelled` drops it after a week). Holidays can be left out, and the day forecast as one of another weekday.
//! Gaps are not known ([`Past`]). Hours that were never seen are as such hours of other days, then as the hours beside them,
//! then as all hours on average. With nothing known nothing comes. What a forecast cannot know is in [`Forecast::unknown`].

pub mod plan;

mod levelled;
mod one_day;
mod seasonal_naive;
mod seven_days;
mod summary;
mod unknown;
mod weekly;

use std::collections::BTreeSet;

use punctual_core::rng::Rng;
use punctual_core::time::Span;
use serde::Serialize;

use crate::calendar::{Date, Day, Weekday};
use crate::past::Past;
use crate::reservoir::{Reservoir, ShapeId};

pub use levelled::Levelled;
pub use one_day::OneDay;
pub use plan::{HourPlan, Spacing};
pub use seasonal_naive::SeasonalNaive;
pub use seven_days::SevenDays;
pub use summary::{HourSummary, ShapeSummary, Summary};
pub use unknown::Unknown;
pub use weekly::Weekly;

/// Says what could come.
pub trait Forecaster: Sync {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// A plan for each hour of `day`, in order, as if it were a day of the week `like`. The past ends before the day.
    fn plan<'p>(&self, past: &'p Past<'p>, day: &Day, like: Weekday) -> Vec<HourPlan<'p>>;
}

/// The names of all forecasters, the default first.
pub const NAMES: [&str; 5] = ["weekly", "levelled", "one_day", "seven_days", "seasonal_naive"];

/// The forecaster of that name, with its own settings; None if there is none.
pub fn named(name: &str) -> Option<Box<dyn Forecaster>> {
    Some(match name {
        "weekly" => Box::new(Weekly::default()),
        "levelled" => Box::new(Levelled),
        "one_day" => Box::new(OneDay),
        "seven_days" => Box::new(SevenDays),
        "seasonal_naive" => Box::new(SeasonalNaive),
        _ => return None,
    })
}

/// What is to be forecast.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The day.
    pub day: Date,
    /// The day of the week that it will be like; None: its own.
    pub like: Option<Weekday>,
    /// Days that it is not to be learnt from.
    pub left_out: BTreeSet<Date>,
    /// What chance begins with.
    pub seed: u64,
    /// Workloads to plan with.
    pub train: usize,
    /// Workloads to choose a plan by.
    pub validation: usize,
    /// Workloads to say by what a plan will come to.
    pub promise: usize,
}

impl Wanted {
    /// That day, by 12 workloads and 8 (AutoSLO's settings), and none to promise by.
    pub fn of(day: Date) -> Wanted {
        Wanted { day, like: None, left_out: BTreeSet::new(), seed: 0, train: 12, validation: 8, promise: 0 }
    }
}

/// A day as it could be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// What its chance began with.
    pub seed: u64,
    /// What comes, in order of time.
    pub queries: Vec<Query>,
}

/// A query that could come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Query {
    /// How long after the beginning of the day.
    pub at: Span,
    /// What.
    pub shape: ShapeId,
}

/// What a day could be like.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// The day, with its hours.
    pub day: Day,
    /// By whom.
    pub forecaster: &'static str,
    /// Workloads to plan with.
    pub train: Vec<Workload>,
    /// Workloads to choose a plan by.
    pub validation: Vec<Workload>,
    /// Workloads to say by what a plan will come to: nothing is chosen by them.
    pub promise: Vec<Workload>,
    /// What it stands on.
    pub basis: Basis,
    /// What history cannot say, the gravest first.
    pub unknown: Vec<Unknown>,
}

/// What a forecast stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Basis {
    /// Days of which every hour is known.
    pub whole_days: u32,
    /// Days of which any hour is known.
    pub days: u32,
    /// Of those, ones of the same day of the week.
    pub such_days: u32,
    /// Queries of all of them.
    pub queries: u64,
}

/// The splits, by the place of their first seed among all.
const TRAIN: u64 = 1 << 32;
const VALIDATION: u64 = 2 << 32;
const PROMISE: u64 = 3 << 32;

/// Forecasts a day from what the reservoir has of the days before it.
pub fn forecast(reservoir: &Reservoir, forecaster: &dyn Forecaster, wanted: &Wanted) -> Forecast {
    let past = Past::of(reservoir, wanted.day, &wanted.left_out);
    from(&past, forecaster, wanted)
}

/// The same, of a past that is there already.
pub fn from(past: &Past<'_>, forecaster: &dyn Forecaster, wanted: &Wanted) -> Forecast {
    let day = crate::past::day(past.reservoir(), wanted.day);
    let like = wanted.like.unwrap_or(wanted.day.weekday());
    let plans = forecaster.plan(past, &day, like);
    let split = |first: u64, count: usize| -> Vec<Workload> {
        let one = |number: usize| draw(&plans, &day, (wanted.seed, first), number);
        (0..count).map(one).collect()
    };
    let (train, validation) = (split(TRAIN, wanted.train), split(VALIDATION, wanted.validation));
    let promise = split(PROMISE, wanted.promise);
    let basis = Basis::of(past, like);
    let unknown = unknown::of(past, &day, like);
    Forecast { forecaster: forecaster.name(), train, validation, promise, basis, unknown, day }
}

/// Workload `number` of a split.
fn draw(plans: &[HourPlan<'_>], day: &Day, (seed, split): (u64, u64), number: usize) -> Workload {
    /// A step that spreads any number of points evenly over a circle: the golden ratio less one.
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let mine = Rng::numbered(seed, split + 1 + number as u64).bits();
    let starts = day.starts().unwrap_or_default();
    let mut queries = Vec::new();
    for (place, (plan, hour)) in plans.iter().zip(&day.hours).enumerate() {
        let start = Rng::numbered(seed ^ (place as u64 + 1) << 40, split).unit();
        let level = (start + GOLDEN * number as f64).fract();
        let mut rng = Rng::numbered(mine, TRAIN + place as u64);
        let since = hour.starts.since(starts);
        let drawn = plan.draw(hour, level, &mut rng);
        queries.extend(drawn.into_iter().map(|(offset, shape)| Query { at: since + offset, shape }));
    }
    Workload { seed: mine, queries }
}

impl Basis {
    fn of(past: &Past<'_>, like: Weekday) -> Basis {
        let (whole_days, days) = past.days();
        let such: BTreeSet<Date> = past.hours().map(|known| known.date).filter(|date| date.weekday() == like).collect();
        let queries = past.hours().map(|known| known.count).sum();
        Basis { whole_days, days, such_days: such.len() as u32, queries }
    }
}

#[cfg(test)]
mod tests;
