//! What a model is worth on queries that it has not seen: in hindsight and at arrival, beside simpler estimates.

use std::collections::BTreeMap;

use punctual_core::fingerprint::Fingerprint;
use punctual_core::id::Units;
use punctual_core::math;
use punctual_core::predict::distribution::{Prediction, Z90};
use punctual_core::predict::model::Model;
use punctual_core::predict::net::Output;
use punctual_core::rng::Rng;

use crate::accuracy::Judged;
use crate::contexts::{Sight, contexts};
use crate::corrected::corrected;
use crate::fit::outcomes;
use crate::observation::{Observation, Part};
use crate::stage::ln_seconds;
use crate::variant::Variant;

/// What was expected of one query, and what came.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// Its index among the observations.
    pub observation: usize,
    /// When it is looked at.
    pub sight: Sight,
    /// Those that ran when it arrived, itself not counted.
    pub neighbours: usize,
    /// True if it finished; otherwise all truths here are lower bounds.
    pub finished: bool,
    /// The model's prediction.
    pub model: Judged,
    /// The same at arrival, corrected by what ended before that; in hindsight it is the model's.
    pub corrected: Judged,
    /// Processor sharing among those that run, from isolated latencies, nothing learnt.
    pub sharing: Judged,
    /// Stage: as if it ran alone.
    pub stage: Judged,
    /// What [`Medians`] say: of the fingerprint, and of the fingerprint on the size.
    pub medians: [Judged; 2],
    /// Somebody else's prediction.
    pub published: Option<Judged>,
}

/// An estimate that a model is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rival {
    /// Processor sharing among those that run, from isolated latencies.
    Sharing,
    /// Stage: as if the query ran alone.
    Stage,
    /// The median of the fingerprint.
    ShapeMedian,
    /// The median of the fingerprint on the size.
    SizedMedian,
    /// Somebody else's prediction.
    Published,
}

impl Rival {
    /// All of them.
    pub const ALL: [Rival; 5] =
        [Rival::Sharing, Rival::Stage, Rival::ShapeMedian, Rival::SizedMedian, Rival::Published];

    /// What it said of a query; None if nothing.
    pub fn of(self, one: &Expected) -> Option<Judged> {
        match self {
            Rival::Sharing => Some(one.sharing),
            Rival::Stage => Some(one.stage),
            Rival::ShapeMedian => Some(one.medians[0]),
            Rival::SizedMedian => Some(one.medians[1]),
            Rival::Published => one.published,
        }
    }

    /// True if it says the same of a query whatever else runs.
    pub fn is_blind(self) -> bool {
        self != Rival::Sharing && self != Rival::Published
    }
}

/// Looks at every query of the part [`Part::Test`], at its arrival and in hindsight. A query that nothing overlapped has
/// no hindsight of its own: it is the same. `variant` is that which the model was trained as.
pub fn evaluate(model: &Model, observations: &[Observation], variant: &Variant) -> Vec<Expected> {
    let stage = model.stage();
    let alone: Vec<_> =
        observations.iter().map(|seen| stage.alone(&seen.features, seen.shape, seen.text, seen.size)).collect();
    let medians = Medians::of(observations);
    let wanted = |seen: &Observation| seen.part == Part::Test;
    let mut shown = contexts(observations, &alone, |shape| model.known(shape), wanted, &mut Rng::numbered(0, 1 << 40));
    variant.apply(&mut shown, false);
    let looked_at = |index: &u32| shown.about[*index as usize].sight != Sight::Between;
    let chosen: Vec<u32> = (0..shown.about.len() as u32).filter(looked_at).collect();
    let found = outcomes(model.net(), &shown.examples, &chosen);
    let mut expected = Vec::with_capacity(found.len());
    for (at, outcome) in chosen.into_iter().zip(found) {
        let (about, example) = (&shown.about[at as usize], &shown.examples.examples[at as usize]);
        let index = about.observation as usize;
        let seen = &observations[index];
        let output =
            Output { offset: (outcome.median - f64::from(example.base)) as f32, spread: outcome.spread as f32 };
        let as_judged = |prediction: Prediction| Judged {
            median: math::ln(prediction.median()),
            upper: math::ln(prediction.upper()),
            truth: ln_seconds(seen),
        };
        let model = as_judged(model.prediction(&about.head, output));
        expected.push(Expected {
            observation: index,
            sight: about.sight,
            neighbours: example.before.len() - 1,
            finished: seen.finished,
            model,
            corrected: model,
            sharing: as_judged(Prediction::new(about.head.shared, Z90)),
            stage: as_judged(Prediction::new(alone[index].ln, Z90 * alone[index].spread)),
            medians: [medians.shape(seen), medians.sized(seen)].map(|ln| judged(ln, seen)),
            published: seen.published.map(|seconds| judged(math::ln(seconds.max(1e-3)), seen)),
        });
    }
    correct(observations, &mut expected);
    with_hindsight(expected)
}

/// Corrects what was said at arrivals.
fn correct(observations: &[Observation], expected: &mut [Expected]) {
    let mut at_arrival: Vec<&mut Expected> = expected.iter_mut().filter(|one| one.sight == Sight::AtArrival).collect();
    let said: Vec<_> = at_arrival.iter().map(|one| (one.observation, one.model)).collect();
    for (one, corrected) in at_arrival.iter_mut().zip(corrected(observations, &said)) {
        one.corrected = corrected;
    }
}

/// Gives those that had none their arrival as hindsight.
fn with_hindsight(expected: Vec<Expected>) -> Vec<Expected> {
    let mut all = Vec::with_capacity(2 * expected.len());
    for of_one in expected.chunk_by(|one, next| one.observation == next.observation) {
        all.extend_from_slice(of_one);
        if of_one.iter().all(|one| one.sight != Sight::Hindsight) {
            all.extend(of_one.first().map(|one| Expected { sight: Sight::Hindsight, corrected: one.model, ..*one }));
        }
    }
    all
}

/// The median latency of each fingerprint, or of each on each size, over all queries that may be learnt from and
/// finished: what a table without any model would say.
pub struct Medians {
    shapes: BTreeMap<Fingerprint, f64>,
    sized: BTreeMap<(Fingerprint, Units), f64>,
    all: f64,
}

impl Medians {
    /// Of these observations, the test part left out.
    pub fn of(observations: &[Observation]) -> Medians {
        let usable = || observations.iter().filter(|seen| seen.part != Part::Test && seen.finished);
        let shapes = medians(usable().map(|seen| (seen.shape, ln_seconds(seen))));
        let sized = medians(usable().map(|seen| ((seen.shape, seen.size), ln_seconds(seen))));
        let all = medians(usable().map(|seen| ((), ln_seconds(seen)))).get(&()).copied().unwrap_or(0.0);
        Medians { shapes, sized, all }
    }

    /// ln of the median of the fingerprint; of all queries if it was never seen.
    pub fn shape(&self, seen: &Observation) -> f64 {
        self.shapes.get(&seen.shape).copied().unwrap_or(self.all)
    }

    /// The same on its size; of the fingerprint if it never ran there.
    pub fn sized(&self, seen: &Observation) -> f64 {
        self.sized.get(&(seen.shape, seen.size)).copied().unwrap_or_else(|| self.shape(seen))
    }
}

fn medians<K: Ord>(values: impl Iterator<Item = (K, f64)>) -> BTreeMap<K, f64> {
    let mut by_key: BTreeMap<K, Vec<f64>> = BTreeMap::new();
    values.for_each(|(key, value)| by_key.entry(key).or_default().push(value));
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        crate::accuracy::quantile(&values, 0.5)
    };
    by_key.into_iter().map(|(key, values)| (key, median(values))).collect()
}

/// A point estimate, judged: no width.
fn judged(ln: f64, seen: &Observation) -> Judged {
    Judged { median: ln, upper: ln, truth: ln_seconds(seen) }
}
