//! How predictions have done lately: what the last queries that finished say of them, and whether the world has
//! drifted away from the model.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::distribution::Prediction;
use crate::math;

/// Queries that are looked back on.
pub const LATELY: usize = 512;

/// With fewer of them nothing is said about drift.
const ENOUGH: usize = 64;

/// The share below the 90 % quantile that a sound model keeps above.
const LEAST_COVERAGE: f64 = 0.8;

/// The factor by which latencies in the median may be off either way.
const MOST_BIAS: f64 = 1.5;

/// The last [`LATELY`] queries that were predicted and finished.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// ln (latency / predicted median), and whether it ended below the 90 % quantile.
    last: VecDeque<(f64, bool)>,
}

/// What a record comes to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lately {
    /// Queries that it stands on.
    pub queries: u32,
    /// The median of their Q-errors: the larger of predicted/actual and actual/predicted.
    pub q_error_p50: f64,
    /// The 90 % quantile of these.
    pub q_error_p90: f64,
    /// The share that ended below the 90 % quantile that was predicted; 0.9 if that was right.
    pub coverage_p90: f64,
    /// The median of latency / predicted median; 1 if that was right.
    pub bias: f64,
    /// True if the world has drifted away from the model: with [`ENOUGH`] queries, too few end below their 90 % quantile,
    /// or the median is off by too large a factor.
    pub drifted: bool,
}

impl Record {
    /// A query that was predicted has finished, `seconds` after it was placed.
    pub fn note(&mut self, predicted: Prediction, seconds: f64) {
        let residual = math::ln(seconds.max(1e-6)) - predicted.ln_median();
        if !residual.is_finite() {
            return;
        }
        if self.last.len() == LATELY {
            self.last.pop_front();
        }
        self.last.push_back((residual, seconds <= predicted.upper()));
    }

    /// What it comes to; None while nothing has finished. O(n log n) in [`LATELY`].
    pub fn lately(&self) -> Option<Lately> {
        let sorted = |value: &dyn Fn(f64) -> f64| {
            let mut values: Vec<f64> = self.last.iter().map(|(residual, _)| value(*residual)).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let queries = self.last.len();
        let [median, upper] = math::nearest_ranks(&sorted(&f64::abs), [0.5, 0.9])?;
        let [bias] = math::nearest_ranks(&sorted(&|residual| residual), [0.5])?;
        let coverage_p90 = self.last.iter().filter(|(_, below)| *below).count() as f64 / queries as f64;
        let bias = math::exp(bias);
        let off = coverage_p90 < LEAST_COVERAGE || !(1.0 / MOST_BIAS..=MOST_BIAS).contains(&bias);
        Some(Lately {
            queries: queries as u32,
            q_error_p50: math::exp(median),
            q_error_p90: math::exp(upper),
            coverage_p90,
            bias,
            drifted: queries >= ENOUGH && off,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(seconds: impl Iterator<Item = f64>) -> Option<Lately> {
        let mut record = Record::default();
        seconds.for_each(|seconds| record.note(Prediction::new(0.0, math::ln(2.0)), seconds));
        record.lately()
    }

    #[test]
    fn it_says_how_far_off_predictions_were() {
        let said = of([0.5, 1.0, 1.0, 1.25, 3.0].into_iter()).unwrap();
        assert!((said.q_error_p50 - 1.25).abs() < 1e-9 && (said.q_error_p90 - 3.0).abs() < 1e-9, "{said:?}");
        assert!((said.coverage_p90 - 0.8).abs() < 1e-9 && (said.bias - 1.0).abs() < 1e-9 && !said.drifted);
        assert_eq!(of(std::iter::empty()), None);
    }

    #[test]
    fn drift_is_told_once_there_is_enough_to_tell_it_from() {
        let slow = |count: usize| of(std::iter::repeat_n(1.8, count)).unwrap();
        assert!(!slow(ENOUGH - 1).drifted && slow(ENOUGH).drifted);
        let wild = of((0..100).map(|at| if at % 4 == 0 { 2.5 } else { 1.0 })).unwrap();
        assert!(wild.drifted && (wild.coverage_p90 - 0.75).abs() < 1e-9);
        let sound = of((0..100).map(|at| if at % 10 == 0 { 2.5 } else { 1.0 })).unwrap();
        assert!(!sound.drifted);
    }

    #[test]
    fn only_the_last_ones_count() {
        let said = of((0..2 * LATELY).map(|at| if at < LATELY { 100.0 } else { 1.0 })).unwrap();
        assert_eq!((said.queries, said.drifted), (LATELY as u32, false));
        assert!((said.q_error_p90 - 1.0).abs() < 1e-9);
    }
}
