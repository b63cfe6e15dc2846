//! What forecasts are worth: days that have been are forecast from what was known before them, and compared with what came.
//!
//! ```text
//!   ─── known then ───────────────┤ day │            each of the last days of which every hour is known
//!   ─── known then ─────────────────────┤ day │
//! ```
//!
//! Compared are queries by hour, the busiest five minutes and the busiest hour (what capacity is needed for), the variation of gaps
//! within hours, and the mix of shapes. A forecast of a count is the mean of its workloads, and that of a peak their
//! median. The baseline is the same day of the week
//! before ([`SeasonalNaive`]): what is not better than that is not worth its name. All forecasters see the same days, and
//! nothing of the day itself or of later ones.

pub mod measure;

use std::collections::BTreeSet;

use punctual_core::math;
use serde::Serialize;

use crate::calendar::{Date, Day};
use crate::forecast::{self, Forecaster, Query, SeasonalNaive, Wanted};
use crate::past::Past;
use crate::reservoir::{Reservoir, ShapeId};
use measure::{Measured, measured};

/// What is to be tested.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// How many days at most, the last ones.
    pub days: usize,
    /// Days that are neither learnt from nor forecast.
    pub left_out: BTreeSet<Date>,
    /// What chance begins with.
    pub seed: u64,
    /// Workloads of each forecast.
    pub workloads: usize,
}

impl Default for Asked {
    /// The last four weeks, by twenty workloads a day.
    fn default() -> Asked {
        Asked { days: 28, left_out: BTreeSet::new(), seed: 0, workloads: 20 }
    }
}

/// What forecasts were worth.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Backtest {
    /// The days that were forecast. None: there is no whole day with another before it, or nothing came on those.
    pub days: Vec<Date>,
    /// True if there was less than a week of history before them: what differs between days of the week was not known.
    pub short: bool,
    /// The share of their queries that were of shapes which had never come before.
    pub new_shapes: f64,
    /// The baseline, then those that were asked about.
    pub forecasters: Vec<Worth>,
}

/// What the forecasts of one forecaster were worth. Errors are relative: 0.1 is a tenth of what came.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Worth {
    /// Whose.
    pub forecaster: &'static str,
    /// Queries by hour: the sum of what each hour was off by, over all that came.
    pub hourly_error: f64,
    /// The share of hours with no more queries than in the 90 % quantile of the workloads, and no fewer than in the 10 %
    /// quantile: 0.8 would be right.
    pub hourly_within: f64,
    /// Queries in all, forecast over came, less one.
    pub bias: f64,
    /// Queries of a day: what it was off by, on average.
    pub daily_error: f64,
    /// The most queries within five minutes of a day: what it was off by, on average.
    pub peak_error: f64,
    /// The sum of those peaks, forecast over came, less one.
    pub peak_bias: f64,
    /// The most queries in an hour of a day: what it was off by, on average.
    pub busiest_hour_error: f64,
    /// Deviation over mean of gaps within hours, on average: forecast, and what came. None: too few came.
    pub gap_cv: Option<[f64; 2]>,
    /// Half the sum of what the share of each shape was off by: 0 the same mix, 1 nothing in common. On average.
    pub mix_error: f64,
    /// Against the baseline's errors: by how much smaller (negative) or larger.
    pub against_baseline: Against,
    /// Day by day.
    pub by_day: Vec<DayWorth>,
}

/// Errors over those of the baseline, less one; None where the baseline made none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Against {
    /// Of queries by hour.
    pub hourly_error: Option<f64>,
    /// Of the busiest five minutes.
    pub peak_error: Option<f64>,
    /// Of the busiest hour.
    pub busiest_hour_error: Option<f64>,
    /// Of the mix.
    pub mix_error: Option<f64>,
}

/// What the forecast of a day was worth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DayWorth {
    /// The day.
    pub day: Date,
    /// Queries: forecast, and what came.
    pub queries: [f64; 2],
    /// The most within five minutes, likewise.
    pub busiest_five_minutes: [f64; 2],
    /// The most in an hour, likewise.
    pub busiest_hour: [f64; 2],
    /// The sum of what each hour was off by.
    pub off: f64,
    /// Hours that were within the quantiles, and hours.
    pub within: [u32; 2],
    /// Variation of gaps, likewise; None: too few came.
    pub gap_cv: Option<[f64; 2]>,
    /// What the mix was off by.
    pub mix_error: f64,
}

/// A day that has been.
struct Came {
    day: Day,
    measured: Measured,
    new: f64,
}

/// Forecasts days that have been, by the baseline and each of these.
pub fn backtest(reservoir: &Reservoir, forecasters: &[&dyn Forecaster], asked: &Asked) -> Backtest {
    let (mut came, short) = days(reservoir, asked);
    // Against nothing at all, every forecast is wrong beyond measure.
    if came.iter().all(|came| came.measured.queries == 0) {
        came.clear();
    }
    let mut by_day: Vec<Vec<DayWorth>> = vec![Vec::new(); forecasters.len() + 1];
    for came in &came {
        let past = Past::of(reservoir, came.day.date, &asked.left_out);
        let baseline: &dyn Forecaster = &SeasonalNaive;
        for (place, forecaster) in std::iter::once(&baseline).chain(forecasters).enumerate() {
            let workloads = if place == 0 { 1 } else { asked.workloads };
            let wanted = Wanted {
                left_out: asked.left_out.clone(),
                seed: asked.seed,
                train: workloads,
                validation: 0,
                ..Wanted::of(came.day.date)
            };
            let forecast = forecast::from(&past, *forecaster, &wanted);
            let drawn: Vec<Measured> =
                forecast.train.iter().map(|workload| measured(&came.day, &workload.queries)).collect();
            by_day[place].push(DayWorth::of(came, &drawn));
        }
    }
    let names = std::iter::once(SeasonalNaive.name()).chain(forecasters.iter().map(|forecaster| forecaster.name()));
    let mut worths: Vec<Worth> = names.zip(by_day).map(|(name, days)| Worth::of(name, days)).collect();
    let baseline = worths[0].clone();
    for worth in &mut worths {
        worth.against_baseline = Against::of(worth, &baseline);
    }
    let queries: f64 = came.iter().map(|came| f64::from(came.measured.queries)).sum();
    let new = came.iter().fold(0.0, |sum, came| sum + came.new);
    let new_shapes = new / queries.max(1.0);
    Backtest { days: came.iter().map(|came| came.day.date).collect(), short, new_shapes, forecasters: worths }
}

/// The last days of which every hour is known and a week was before; if there are none, those with a whole day before.
fn days(reservoir: &Reservoir, asked: &Asked) -> (Vec<Came>, bool) {
    let Some((first, last)) = reservoir.dates() else { return (Vec::new(), true) };
    let all = Past::of(reservoir, last.plus(1), &asked.left_out);
    let mut whole: Vec<Day> = (1..=last.since(first)).map(|number| reservoir.zone().day(first.plus(number))).collect();
    whole.retain(|day| !day.hours.is_empty() && day.hours.iter().all(|hour| all.at(day.date, hour.hour).is_some()));
    let after = |days: i32| -> Vec<Day> {
        let days = whole.iter().filter(|day| day.date.since(first) >= days);
        let mut days: Vec<Day> = days.rev().take(asked.days).cloned().collect();
        days.reverse();
        days
    };
    let (chosen, short) = if after(7).is_empty() { (after(1), true) } else { (after(7), false) };
    (chosen.into_iter().map(|day| Came::of(day, &all)).collect(), short)
}

impl Came {
    fn of(day: Day, all: &Past<'_>) -> Came {
        let starts = day.starts().unwrap_or_default();
        let mut queries = Vec::new();
        for known in day.hours.iter().filter_map(|hour| all.at(day.date, hour.hour)) {
            let since = known.hour.starts.since(starts);
            queries.extend(known.kept.iter().map(|kept| Query { at: since + kept.offset(), shape: kept.shape }));
        }
        let mut measured = measured(&day, &queries);
        // Of what is a sample the counts are exact all the same, and its peaks are taken to be as much higher.
        for (count, hour) in measured.hours.iter_mut().zip(&day.hours) {
            *count = all.at(day.date, hour.hour).map_or(*count, |known| known.count as u32);
        }
        let (kept, came) = (measured.queries, measured.hours.iter().sum::<u32>());
        if came > kept && kept > 0 {
            let times = f64::from(came) / f64::from(kept);
            measured.busiest_five_minutes = (f64::from(measured.busiest_five_minutes) * times) as u32;
        }
        measured.queries = came;
        let is_new = |shape: &ShapeId| all.shapes().get(shape).is_some_and(|life| life.first == day.date);
        let new = measured
            .shapes
            .iter()
            .filter(|(shape, _)| is_new(shape))
            .map(|(_, count)| f64::from(*count))
            .fold(0.0, |sum, count| sum + count);
        Came { day, measured, new }
    }
}

impl DayWorth {
    fn of(came: &Came, drawn: &[Measured]) -> DayWorth {
        let mean = |of: &dyn Fn(&Measured) -> f64| drawn.iter().map(of).sum::<f64>() / drawn.len().max(1) as f64;
        let median = |of: &dyn Fn(&Measured) -> f64| {
            let mut values: Vec<f64> = drawn.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            math::nearest_ranks(&values, [0.5]).map_or(0.0, |[value]| value)
        };
        let busiest_hour = |day: &Measured| f64::from(day.hours.iter().copied().max().unwrap_or(0));
        let actual = &came.measured;
        let (mut off, mut within) = (0.0, 0);
        for (place, count) in actual.hours.iter().enumerate() {
            let mut values: Vec<f64> = drawn.iter().map(|day| f64::from(day.hours[place])).collect();
            off += (mean(&|day| f64::from(day.hours[place])) - f64::from(*count)).abs();
            values.sort_by(f64::total_cmp);
            let [low, high] = math::nearest_ranks(&values, [0.1, 0.9]).unwrap_or_default();
            within += u32::from((low..=high).contains(&f64::from(*count)));
        }
        let cvs: Vec<f64> = drawn.iter().filter_map(|day| day.gap_cv).collect();
        let cv = (!cvs.is_empty()).then(|| cvs.iter().sum::<f64>() / cvs.len() as f64);
        DayWorth {
            day: came.day.date,
            queries: [mean(&|day| f64::from(day.queries)), f64::from(actual.queries)],
            busiest_five_minutes: [
                median(&|day| f64::from(day.busiest_five_minutes)),
                f64::from(actual.busiest_five_minutes),
            ],
            busiest_hour: [median(&busiest_hour), busiest_hour(actual)],
            off,
            within: [within, actual.hours.len() as u32],
            gap_cv: cv.zip(actual.gap_cv).map(|(forecast, came)| [forecast, came]),
            mix_error: mix_error(actual, drawn),
        }
    }
}

/// Half the sum of what the share of each shape was off by.
fn mix_error(came: &Measured, drawn: &[Measured]) -> f64 {
    let shares = |of: &[&Measured]| {
        let mut shares = std::collections::BTreeMap::<ShapeId, f64>::new();
        let all: u64 = of.iter().flat_map(|day| day.shapes.values()).map(|count| u64::from(*count)).sum();
        for (shape, count) in of.iter().flat_map(|day| &day.shapes) {
            *shares.entry(*shape).or_default() += f64::from(*count) / all as f64;
        }
        shares
    };
    let (came, drawn) = (shares(&[came]), shares(&drawn.iter().collect::<Vec<_>>()));
    let all: BTreeSet<&ShapeId> = came.keys().chain(drawn.keys()).collect();
    let share = |of: &std::collections::BTreeMap<ShapeId, f64>, shape| of.get(shape).copied().unwrap_or(0.0);
    let off: f64 = all.into_iter().map(|shape| (share(&came, shape) - share(&drawn, shape)).abs()).sum();
    // One of them empty, and the other not: nothing in common.
    if came.is_empty() != drawn.is_empty() { 1.0 } else { off / 2.0 }
}

impl Worth {
    fn of(forecaster: &'static str, by_day: Vec<DayWorth>) -> Worth {
        let days = by_day.len().max(1) as f64;
        let sum = |of: &dyn Fn(&DayWorth) -> f64| by_day.iter().map(of).sum::<f64>();
        let error = |of: &dyn Fn(&DayWorth) -> [f64; 2]| {
            let one = |day: &DayWorth| {
                let [forecast, came] = of(day);
                (forecast - came).abs() / came.max(1.0)
            };
            sum(&one) / days
        };
        let bias = |of: &dyn Fn(&DayWorth) -> [f64; 2]| sum(&|day| of(day)[0]) / sum(&|day| of(day)[1]).max(1.0) - 1.0;
        let cvs: Vec<[f64; 2]> = by_day.iter().filter_map(|day| day.gap_cv).collect();
        let cv = |side: usize| cvs.iter().map(|cv| cv[side]).sum::<f64>() / cvs.len() as f64;
        Worth {
            forecaster,
            hourly_error: sum(&|day| day.off) / sum(&|day| day.queries[1]).max(1.0),
            hourly_within: sum(&|day| f64::from(day.within[0])) / sum(&|day| f64::from(day.within[1])).max(1.0),
            bias: if by_day.is_empty() { 0.0 } else { bias(&|day| day.queries) },
            daily_error: error(&|day| day.queries),
            peak_error: error(&|day| day.busiest_five_minutes),
            peak_bias: if by_day.is_empty() { 0.0 } else { bias(&|day| day.busiest_five_minutes) },
            busiest_hour_error: error(&|day| day.busiest_hour),
            gap_cv: (!cvs.is_empty()).then(|| [cv(0), cv(1)]),
            mix_error: sum(&|day| day.mix_error) / days,
            against_baseline: Against::default(),
            by_day,
        }
    }
}

impl Against {
    fn of(worth: &Worth, baseline: &Worth) -> Against {
        let against = |of: fn(&Worth) -> f64| (of(baseline) > 0.0).then(|| of(worth) / of(baseline) - 1.0);
        Against {
            hourly_error: against(|worth| worth.hourly_error),
            peak_error: against(|worth| worth.peak_error),
            busiest_hour_error: against(|worth| worth.busiest_hour_error),
            mix_error: against(|worth| worth.mix_error),
        }
    }
}

#[cfg(test)]
mod tests;
