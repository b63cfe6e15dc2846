//! What a network says of examples, and how good that is.

use punctual_core::math;
use punctual_core::predict::net::{Descriptions, Net, Output, Scratch, Side, States};
use punctual_core::rng::Rng;

use super::calibrate::Outcome;
use super::gather::Gathered;
use super::loss::cost;
use crate::accuracy::{Accuracy, Judged};
use crate::examples::Examples;

/// Examples that are read together: enough to fill a product, few enough for the cache.
const TOGETHER: usize = 64;

/// How good predictions are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Mean cost of an example, lower bounds included: what early stopping watches.
    pub cost: f64,
    /// Quantiles 0.5, 0.9 and 0.95 of the Q-error, max(y/ŷ, ŷ/y), over finished queries; 1 where there are none.
    pub q_error: [f64; 3],
    /// Part of the finished queries that ended below the upper quantile.
    pub coverage: f64,
}

/// Predictions of the examples `chosen`, in their order, by a network that reads raw inputs.
pub fn outcomes(net: &Net, pool: &Examples, chosen: &[u32]) -> Vec<Outcome> {
    // Neighbours in length are read together: the longest of a batch sets its steps.
    let length = |index: u32| {
        let example = &pool.examples[index as usize];
        example.before.len() + example.after.len()
    };
    let mut places: Vec<usize> = (0..chosen.len()).collect();
    places.sort_by_key(|&place| length(chosen[place]));
    let mut found = vec![None; chosen.len()];
    let (mut descriptions, mut scratch) = (Descriptions::new(net.shape()), Scratch::default());
    for places in places.chunks(TOGETHER) {
        let chosen: Vec<u32> = places.iter().map(|&place| chosen[place]).collect();
        let outputs = read(net, pool, &chosen, &mut descriptions, &mut scratch);
        for ((place, index), output) in places.iter().zip(chosen).zip(outputs) {
            let example = &pool.examples[index as usize];
            found[*place] = Some(Outcome {
                median: output.median(f64::from(example.base), 0.0),
                spread: f64::from(output.spread),
                label: f64::from(example.label),
                bound: example.bound,
            });
        }
    }
    found.into_iter().flatten().collect()
}

fn read(net: &Net, pool: &Examples, chosen: &[u32], to: &mut Descriptions, scratch: &mut Scratch) -> Vec<Output> {
    // Nothing is hidden, so nothing is drawn.
    let gathered = Gathered::of(pool, chosen, None, 0.0, &mut Rng::numbered(0, 0));
    to.resize(gathered.known.len());
    net.describe(&gathered.known, &gathered.features, to, 0);
    let [before, after] = [Side::Before, Side::After].map(|side| {
        let (steps, mut states) = (&gathered.steps[side as usize], States::new(net.shape()));
        net.read(side, &steps.sequences, (&steps.pairs, &steps.rows), to, &mut states, scratch);
        states
    });
    let mut outputs = Vec::with_capacity(chosen.len());
    net.head((&gathered.targets, &gathered.heads), to, (&before, &after), scratch, &mut outputs);
    outputs
}

/// How good outcomes are when spreads are scaled by `spread_scale`.
pub fn score(outcomes: &[Outcome], spread_scale: f64) -> Score {
    let costs = outcomes.iter().map(|outcome| {
        let t = math::ln((math::exp(outcome.spread * spread_scale) - 1.0).max(f64::MIN_POSITIVE));
        cost(outcome.median, t, 0.0, outcome.label, outcome.bound).value
    });
    let cost = costs.fold(0.0, |sum, cost| sum + cost) / outcomes.len().max(1) as f64;
    let finished = outcomes.iter().filter(|outcome| !outcome.bound);
    let accuracy = Accuracy::of(finished.map(|outcome| Judged {
        median: outcome.median,
        upper: outcome.median + spread_scale * outcome.spread,
        truth: outcome.label,
    }));
    match accuracy.n {
        0 => Score { cost, q_error: [1.0; 3], coverage: 0.0 },
        _ => Score { cost, q_error: accuracy.q_error, coverage: accuracy.coverage },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_quantiles_of_ratios_and_parts_of_those_that_finished() {
        let outcome = |label: f64, bound| Outcome { median: 0.0, spread: 1.0, label, bound };
        let outcomes = [outcome(0.0, false), outcome(-2.0, false), outcome(1.5, false), outcome(9.0, true)];
        let score = score(&outcomes, 1.0);
        assert!((score.q_error[0] - math::exp(1.5)).abs() < 1e-12);
        assert!((score.coverage - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn nothing_to_score_scores_nothing() {
        let score = score(&[], 1.0);
        assert_eq!((score.cost, score.q_error, score.coverage), (0.0, [1.0; 3], 0.0));
    }
}
