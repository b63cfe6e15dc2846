//! The handful of parameters with which simulated runs come closest to the measured ones.
//!
//! Each try sets all nine, fits the templates' profiles to them ([`profiles`](super::profiles)), simulates every run
//! with its own arrivals, and looks at how far means and 90 % quantiles are off, as logarithms of ratios. A mean that is
//! off by a factor of two or more counts for much more than two that are off by half of it. Tries are drawn around the
//! best so far, first widely, then closely; from a seed, so the same measurements give the same table.

use punctual_core::id::Units;
use punctual_core::math;
use punctual_core::rng::{Rng, Stream};

use super::alone::medians;
use super::compare::{Comparison, compare, within};
use super::evidence::{Clue, clues};
use super::{Measured, profiles};
use crate::world::warehouse::{Parameters, Profile, Table};

/// How a search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many tries.
    pub tries: u32,
    /// What chance begins with.
    pub seed: u64,
}

/// What is searched for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knobs {
    /// As in [`Parameters`].
    pub bandwidth: f64,
    /// As in [`Parameters`].
    pub cache: f64,
    /// As in [`Parameters`].
    pub cold: f64,
    /// As in [`Parameters`].
    pub slots: f64,
    /// As in [`Parameters`].
    pub noise: f64,
    /// GB that a template reads for each second of its CPU work.
    pub reading: f64,
    /// GB of memory that a template keeps whose CPU work is one second …
    pub memory: f64,
    /// … and the power of the work with which that grows.
    pub growth: f64,
    /// As in [`Parameters`].
    pub compile: f64,
}

/// What is not searched for: a unit of Redshift Serverless has 16 GB; what does not fit is written once and read once;
/// and nothing that was measured is faster than 0.15 s.
const GIVEN: (f64, f64, f64) = (16.0, 2.0, 0.15);
/// Where each may lie; the third is how far a try goes. With still fewer slots the runs would come out a little closer: a
/// cluster that runs nearly everything alone explains overload well, but is none on which queries meet. What is said of
/// heavier loads hardly depends on it.
const RANGES: [(f64, f64, f64); 9] = [
    (0.2, 30.0, 0.5),
    (1.0, 90.0, 0.5),
    (1.0, 12.0, 0.4),
    (0.4, 2.0, 0.3),
    (0.3, 0.7, 0.1),
    (0.02, 20.0, 0.4),
    (0.3, 200.0, 0.6),
    (0.05, 1.2, 0.4),
    (0.3, 4.0, 0.3),
];
/// Runs are simulated with this many seeds; more would steady what chance makes of a run near its limit.
const SEEDS: u64 = 2;

impl Knobs {
    /// Where a search begins.
    const START: Knobs = Knobs {
        bandwidth: 3.3,
        cache: 40.0,
        cold: 5.0,
        slots: 0.55,
        noise: 0.48,
        reading: 0.9,
        memory: 2.7,
        growth: 0.77,
        compile: 1.5,
    };

    fn values(&self) -> [f64; 9] {
        let Knobs { bandwidth, cache, cold, slots, noise, reading, memory, growth, compile } = *self;
        [bandwidth, cache, cold, slots, noise, reading, memory, growth, compile]
    }

    fn of([bandwidth, cache, cold, slots, noise, reading, memory, growth, compile]: [f64; 9]) -> Knobs {
        Knobs { bandwidth, cache, cold, slots, noise, reading, memory, growth, compile }
    }

    /// Another try near this one: one knob is turned far, or all a little.
    fn near(&self, rng: &mut Rng, width: f64) -> Knobs {
        let mut values = self.values();
        let only = rng.chance(1.0 / 3.0).then(|| rng.index(values.len()));
        for (at, (value, (least, most, step))) in values.iter_mut().zip(RANGES).enumerate() {
            let far = match only {
                None => 0.7,
                Some(only) if only == at => 2.0,
                Some(_) => continue,
            };
            *value = (*value * math::exp(far * width * step * rng.normal())).clamp(least, most);
        }
        Knobs::of(values)
    }

    fn parameters(&self) -> Parameters {
        let (memory, spill, start_up) = GIVEN;
        let Knobs { bandwidth, cache, cold, slots, noise, compile, .. } = *self;
        Parameters { bandwidth, memory, cache, cold, spill, slots, noise, start_up, compile }
    }

    /// A template with this much CPU work, and for the rest like another. `unlike` is the logarithm of how much more memory it keeps than others.
    pub(super) fn profile(&self, cpu: f64, unlike: f64, most_units: f64, like: Profile) -> Profile {
        let memory = self.memory * math::pow(cpu, self.growth) * math::exp(unlike);
        Profile { cpu, io: self.reading * cpu, memory, most_units, ..like }
    }
}

/// Fits a table to what was measured. What templates read is taken from `like`. `watch` sees every try, by its number, and
/// the least misfit so far; the search ends early if it says no.
pub fn calibrate(
    measured: &Measured,
    like: &Table,
    options: Options,
    mut watch: impl FnMut(u32, f64) -> bool,
) -> (Table, Knobs) {
    let clues = clues(measured);
    let mut rng = Rng::stream(options.seed, Stream::Work);
    let mut best = (Knobs::START, f64::INFINITY, like.clone());
    for number in 0..=options.tries {
        // The last half of the tries goes on closer by.
        let width = if number <= options.tries / 2 { 1.0 } else { 0.35 };
        let knobs = if number == 0 { Knobs::START } else { best.0.near(&mut rng, width) };
        let table = table(&clues, &knobs, like);
        let misfit = misfit(measured, &table);
        if misfit < best.1 {
            best = (knobs, misfit, table);
        }
        if !watch(number, best.1) {
            break;
        }
    }
    (best.2, best.0)
}

fn table(clues: &[Vec<Clue>], knobs: &Knobs, like: &Table) -> Table {
    let parameters = rounded(knobs.parameters());
    let profiles = profiles::fit(clues, knobs, &parameters, like);
    let profiles = profiles.into_iter().map(|profile| Profile {
        cpu: digits(profile.cpu),
        io: digits(profile.io),
        memory: digits(profile.memory),
        most_units: digits(profile.most_units),
        ..profile
    });
    Table::of(parameters, profiles.collect()).unwrap_or_else(|| like.clone())
}

fn rounded(parameters: Parameters) -> Parameters {
    let Parameters { bandwidth, cache, cold, slots, noise, compile, .. } = parameters;
    let [bandwidth, cache, cold, slots, noise, compile] = [bandwidth, cache, cold, slots, noise, compile].map(digits);
    Parameters { bandwidth, cache, cold, slots, noise, compile, ..parameters }
}

/// Three significant digits: more are not known.
fn digits(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

fn misfit(measured: &Measured, table: &Table) -> f64 {
    let of_run = |comparison: &Comparison| {
        let off = |simulated: f64, measured: f64| math::ln(simulated.max(1e-6) / measured.max(1e-6));
        let mean = off(comparison.simulated.mean, comparison.measured.mean);
        let upper = off(comparison.simulated.p90, comparison.measured.p90);
        let far = (mean.abs() - 0.6).max(0.0);
        mean * mean + 4.0 * far * far + 0.3 * upper * upper
    };
    let runs: f64 = measured.runs.iter().map(|run| of_run(&compare(run, table, SEEDS))).sum();
    // As much as a run for each five percent by which fewer than four of five templates fare alone as they did.
    let share = within(&measured.isolated, 1.5, |size| medians(table, Units(size), 0));
    let missing = (0.8 - share).max(0.0);
    runs + 100.0 * missing * missing
}
