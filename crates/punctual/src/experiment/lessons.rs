//! What a predictor learns from before it is measured: runs of the world's own workloads that are not the measured ones.

use std::sync::Arc;

use punctual_core::class::DEFAULT;
use punctual_core::id::Units;
use punctual_core::predict::model::Model;
use punctual_core::query::{Ended, Status};
use punctual_core::time::{Span, Time};
use punctual_learn::fit::Go;
use punctual_learn::learning::{LearnError, Options, Progress, learn};
use punctual_learn::observation::{Observation, Part};
use punctual_sim::world::warehouse::{Table, Template};

use super::run::{Setting, list, run};

/// The sizes that are learnt from.
const SIZES: [u32; 4] = [4, 8, 16, 32];

/// Arrivals a second of the runs on each size; light ones first.
const RATES: [f64; 4] = [0.02, 0.05, 0.1, 0.2];

/// Seeds of lessons lie this far from those of measurements.
const APART: u64 = 1 << 32;

/// How far apart queries come that are to run alone.
const ALONE: Span = Span::from_secs(4 * 3_600);

/// How much is run and learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// What the paper has: every template three times.
    Whole,
    /// A token of it, for a look at the form: every template once in the lessons, a third of them in what is measured, and one
    /// pass of the training. Its figures mean nothing.
    Token,
}

impl Extent {
    /// How often every template comes.
    pub const fn times(self) -> usize {
        match self {
            Extent::Whole => 3,
            Extent::Token => 1,
        }
    }

    /// How many queries come in what is measured.
    pub const fn queries(self) -> usize {
        match self {
            Extent::Whole => 3 * Template::COUNT,
            Extent::Token => Template::COUNT / 3,
        }
    }

    fn options(self) -> Options {
        let mut options = Options::default();
        if self == Extent::Token {
            (options.hidden, options.steps, options.settings.epochs) = (16, 0, 1);
        }
        options
    }
}

/// What is known of the world before anything is measured.
pub struct Lessons {
    /// How much of it.
    pub extent: Extent,
    /// The predictor.
    pub model: Arc<Model>,
    /// For each template by its place, the longest that it took alone on 16 units: ℓ_baseline of the paper.
    pub baseline: Vec<Span>,
    /// How many queries were learnt from.
    pub queries: usize,
}

/// Runs the lessons and learns from them. `watch` hears of the training.
///
/// # Errors
/// If nothing can be learnt.
pub fn lessons(
    table: &Arc<Table>,
    seed: u64,
    extent: Extent,
    watch: &mut dyn FnMut(Progress) -> Go,
) -> Result<Lessons, LearnError> {
    let mut observations = Vec::new();
    let mut number = 0;
    for size in SIZES {
        for (at, rate) in RATES.into_iter().enumerate() {
            let seed = APART.wrapping_add(seed.wrapping_mul(1_000)).wrapping_add(number);
            // One of four watches; which one differs from size to size, so that every load is watched and learnt.
            let part = if at == number as usize / RATES.len() % RATES.len() { Part::Validate } else { Part::Train };
            let arrivals = list(seed, rate, extent.times(), |_| None);
            observations.extend(observed(table, size, seed, arrivals, number as u32, part));
            number += 1;
        }
        let seed = APART.wrapping_add(seed.wrapping_mul(1_000)).wrapping_add(500 + u64::from(size));
        observations.extend(observed(table, size, seed, alone(2), number as u32, Part::Train));
        number += 1;
    }
    let learnt = learn(&observations, &extent.options(), watch)?;
    Ok(Lessons { extent, model: Arc::new(learnt.model), baseline: baseline(table, seed), queries: observations.len() })
}

/// The longest that each template took alone on 16 units, of three times.
fn baseline(table: &Arc<Table>, seed: u64) -> Vec<Span> {
    let mut longest = vec![Span::ZERO; Template::COUNT];
    for ended in ended(table, 16, APART.wrapping_add(seed) ^ 1, alone(3)) {
        let at = usize::try_from(ended.query.fingerprint.0).unwrap_or(0).saturating_sub(1);
        if let Some(longest) = longest.get_mut(at) {
            *longest = (*longest).max(ended.latency());
        }
    }
    longest
}

/// Every template so many times, hours apart.
fn alone(times: usize) -> Vec<(Time, Template, Option<Span>)> {
    let all = (0..times).flat_map(|_| Template::all());
    all.zip(1u64..)
        .map(|(template, number)| (Time::ZERO + Span::from_micros(ALONE.micros() * number), template, None))
        .collect()
}

fn ended(table: &Arc<Table>, size: u32, seed: u64, arrivals: Vec<(Time, Template, Option<Span>)>) -> Vec<Ended> {
    run(&Setting { arrivals, clusters: vec![size], seed, table: Arc::clone(table), ..Setting::default() }).ended
}

fn observed(
    table: &Arc<Table>,
    size: u32,
    seed: u64,
    arrivals: Vec<(Time, Template, Option<Span>)>,
    cluster: u32,
    part: Part,
) -> Vec<Observation> {
    let all = ended(table, size, seed, arrivals).into_iter().filter(|ended| ended.query.class == DEFAULT);
    all.filter_map(|ended| {
        let traits = ended.query.traits?;
        Some(Observation {
            cluster,
            size: Units(size),
            arrival: ended.placed?,
            ended: ended.ended,
            finished: ended.status == Status::Finished,
            shape: ended.query.fingerprint,
            text: traits.text,
            features: traits.features,
            part,
            published: None,
        })
    })
    .collect()
}
