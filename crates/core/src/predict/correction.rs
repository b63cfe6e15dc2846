//! What queries that end say about a model: how far off it is for each fingerprint on each size.
//!
//! A model is trained once a day; tables grow, caches fill and a fingerprint's parameters change by the hour. So the
//! residuals of what has ended, ln (latency / predicted median), are followed by a running mean for each fingerprint and
//! size, and predictions are moved by it as far as it has runs to stand on. A query that did not finish tells a lower
//! bound: it counts if that is above what was predicted.

use serde::{Deserialize, Serialize};

use super::distribution::Prediction;
use super::recent::Recent;
use crate::fingerprint::Fingerprint;
use crate::id::Units;
use crate::math;
use crate::time::Time;

/// Runs that a correction needs to count for half.
const PRIOR: f64 = 4.0;

/// The least that a new residual counts in its mean: the mean forgets what is older than about so many runs.
const NEWEST: f64 = 0.1;

/// The largest correction, ln of a factor: what is further off is not drift, and will be trained on.
const MOST: f64 = 1.5;

/// What is known of the residuals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Corrections {
    cells: Recent<(Fingerprint, Units), Residuals>,
}

/// Residuals of one fingerprint on one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Residuals {
    runs: u32,
    /// Running mean of ln (latency / predicted median).
    mean: f64,
}

impl Corrections {
    /// The prediction, corrected.
    pub fn correct(&self, shape: Fingerprint, size: Units, prediction: Prediction) -> Prediction {
        let Some(cell) = self.cells.get(&(shape, size)) else { return prediction };
        let runs = f64::from(cell.runs);
        prediction.moved((runs / (runs + PRIOR) * cell.mean).clamp(-MOST, MOST))
    }

    /// A query has ended, `seconds` after it was placed. `predicted` is what the model said then, not corrected.
    pub fn learn(
        &mut self,
        now: Time,
        (shape, size): (Fingerprint, Units),
        predicted: Prediction,
        seconds: f64,
        finished: bool,
    ) {
        let residual = math::ln(seconds.max(1e-6)) - predicted.ln_median();
        if !residual.is_finite() || (!finished && residual <= 0.0) {
            return;
        }
        let mut cell = self.cells.get(&(shape, size)).copied().unwrap_or_default();
        cell.runs = cell.runs.saturating_add(1);
        cell.mean += (residual - cell.mean) * (1.0 / f64::from(cell.runs)).max(NEWEST);
        self.cells.put((shape, size), now, cell);
    }

    /// Fingerprints on sizes that are corrected.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// True if none is.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: (Fingerprint, Units) = (Fingerprint(1), Units(8));

    fn after(residuals: &[(f64, bool)]) -> Prediction {
        let (mut corrections, said) = (Corrections::default(), Prediction::new(0.0, 1.0));
        for &(residual, finished) in residuals {
            corrections.learn(Time::ZERO, KEY, said, math::exp(residual), finished);
        }
        corrections.correct(KEY.0, KEY.1, said)
    }

    #[test]
    fn a_prediction_moves_as_far_as_runs_say_and_keeps_its_width() {
        let moved = after(&[(0.5, true); 4]);
        assert!((moved.ln_median() - 0.25).abs() < 1e-9, "{moved:?}");
        assert_eq!(moved.spread(), Prediction::new(0.0, 1.0).spread());
        assert_eq!(after(&[]).ln_median(), 0.0);
        assert!((after(&[(9.0, true); 400]).ln_median() - MOST).abs() < 1e-9);
    }

    #[test]
    fn what_did_not_finish_is_a_lower_bound() {
        assert_eq!(after(&[(-2.0, false)]).ln_median(), 0.0);
        assert!((after(&[(1.0, false)]).ln_median() - 0.2).abs() < 1e-9);
    }

    #[test]
    fn others_are_left_alone_and_nonsense_is_not_learnt() {
        let mut corrections = Corrections::default();
        let said = Prediction::new(0.0, 1.0);
        corrections.learn(Time::ZERO, KEY, said, f64::INFINITY, true);
        assert!(corrections.is_empty());
        corrections.learn(Time::ZERO, KEY, said, 2.0, true);
        assert_eq!(corrections.len(), 1);
        assert_eq!(corrections.correct(KEY.0, Units(4), said), said);
        assert_eq!(corrections.correct(Fingerprint(2), KEY.1, said), said);
    }
}
