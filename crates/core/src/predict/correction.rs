//! What queries that end say about a model: how far off it is for each fingerprint on each size, and how wide its
//! predictions must be to keep what they promise.
//!
//! A model is trained once a day; tables grow, caches fill and a fingerprint's parameters change by the hour. So the
//! residuals of what has ended, ln (latency / predicted median), are followed by a running mean for each fingerprint and
//! size, and predictions are moved by it as far as it has runs to stand on.
//!
//! Under load that training has not seen, medians stay good longer than widths do. So one factor of all widths is moved
//! up by each query that ends above its 90 % quantile, and down, by a ninth of that, by each that does not: it comes to
//! rest where one in ten is above (adaptive conformal inference: Gibbs and Candès 2021; the quantile tracker of
//! Angelopoulos, Candès and Tibshirani 2023).
//!
//! A query that did not finish tells a lower bound: it counts if that is above what was predicted.
//!
//! The constants were chosen on three logs (AutoSLO's Redshift runs split three ways, CAB on Snowflake, Iconq's Redshift
//! log), going through what was set aside in the order of time. A mean for each size above those of its fingerprints
//! was tried: it makes the 95 % quantile of the Q-error 5 to 10 % worse.

use serde::{Deserialize, Serialize};

use super::distribution::Prediction;
use super::recent::Recent;
use crate::fingerprint::Fingerprint;
use crate::id::Units;
use crate::math;
use crate::time::Time;

/// Runs that a correction needs to count for half. With 4, unseen runs get 2 % worse.
const PRIOR: f64 = 8.0;

/// The least that a new residual counts in its mean: the mean forgets what is older than about so many runs.
const NEWEST: f64 = 0.1;

/// Residuals beyond this, ln of a factor, count as this: one query that hung must not move its fingerprint for a day.
const MOST: f64 = 1.0;

/// Times below this count as this, as they do in training: a model says no less.
const LEAST: f64 = 1e-3;

/// How far one query moves the logarithm of the factor of all widths. A hundred queries in a row that are all covered
/// make predictions a quarter narrower.
const PACE: f64 = 0.03;

/// The share of queries that may end above their 90 % quantile.
const ABOVE: f64 = 0.1;

/// The factor of widths stays within a half and three: what is further off is for training to mend.
const NARROWEST: f64 = -0.7;
const WIDEST: f64 = 1.1;

/// What is known of the residuals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Corrections {
    cells: Recent<(Fingerprint, Units), Residuals>,
    /// ln of the factor of all widths.
    width: f64,
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
        let cell = self.cells.get(&(shape, size)).copied().unwrap_or_default();
        let runs = f64::from(cell.runs);
        prediction.moved(runs / (runs + PRIOR) * cell.mean).widened(math::exp(self.width))
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
        let residual = math::ln(seconds.max(LEAST)) - predicted.ln_median();
        if !residual.is_finite() || (!finished && residual <= 0.0) {
            return;
        }
        let missed = seconds > self.correct(shape, size, predicted).upper();
        if finished || missed {
            let miss = if missed { 1.0 } else { 0.0 };
            self.width = (self.width + PACE * (miss - ABOVE)).clamp(NARROWEST, WIDEST);
        }
        let mut cell = self.cells.get(&(shape, size)).copied().unwrap_or_default();
        cell.runs = cell.runs.saturating_add(1);
        cell.mean += (residual.clamp(-MOST, MOST) - cell.mean) * (1.0 / f64::from(cell.runs)).max(NEWEST);
        self.cells.put((shape, size), now, cell);
    }

    /// What the widths of all predictions are multiplied by.
    pub fn width(&self) -> f64 {
        math::exp(self.width)
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
    use crate::rng::Rng;

    const KEY: (Fingerprint, Units) = (Fingerprint(1), Units(8));

    fn said() -> Prediction {
        Prediction::new(0.0, 1.0)
    }

    fn after(residuals: impl IntoIterator<Item = (f64, bool)>) -> Corrections {
        let mut corrections = Corrections::default();
        for (residual, finished) in residuals {
            corrections.learn(Time::ZERO, KEY, said(), math::exp(residual), finished);
        }
        corrections
    }

    fn moved(corrections: &Corrections) -> f64 {
        corrections.correct(KEY.0, KEY.1, said()).ln_median()
    }

    #[test]
    fn a_prediction_moves_as_far_as_runs_say() {
        assert_eq!(moved(&after([])), 0.0);
        assert!((moved(&after([(0.5, true); 8])) - 0.25).abs() < 1e-9);
        let wild = moved(&after([(9.0, true); 4_000]));
        assert!(wild > 0.99 * MOST && wild < MOST, "{wild}");
    }

    #[test]
    fn what_did_not_finish_is_a_lower_bound() {
        let below = after([(-2.0, false), (-0.1, false)]);
        assert_eq!((moved(&below), below.width()), (0.0, 1.0));
        let inside = after([(0.9, false)]);
        assert!((moved(&inside) - 0.1).abs() < 1e-9 && inside.width() == 1.0);
        assert!(after([(1.1, false)]).width() > 1.0);
    }

    #[test]
    fn widths_come_to_rest_where_one_in_ten_ends_above() {
        // Twice as wild as predicted, and then half.
        for (wildness, width) in [(2.0, 2.0), (0.6, 0.6)] {
            let mut rng = Rng::numbered(4, 1 << 43);
            let spread = said().spread() * wildness;
            // A fingerprint of its own for each, so that none is moved.
            let (mut corrections, mut above) = (Corrections::default(), 0);
            for number in 0..3_000 {
                let (shape, seconds) = (Fingerprint(number), math::exp(spread * rng.normal()));
                let upper = corrections.correct(shape, Units(1), said()).upper();
                above += usize::from(number >= 1_000 && seconds > upper);
                corrections.learn(Time::from_micros(number), (shape, Units(1)), said(), seconds, true);
            }
            assert!((190..=210).contains(&above), "{wildness}: {above} of 2000");
            assert!((corrections.width() / width - 1.0).abs() < 0.25, "{wildness}: {}", corrections.width());
        }
    }

    #[test]
    fn widths_stay_within_bounds_and_medians_are_theirs_alone() {
        let wide = after([(20.0, true); 500]);
        assert!((wide.width() - math::exp(WIDEST)).abs() < 1e-9);
        let narrow = after([(0.0, true); 1_000]);
        assert!((narrow.width() - math::exp(NARROWEST)).abs() < 1e-9);
        assert_eq!(moved(&narrow), 0.0);
    }

    #[test]
    fn others_are_not_moved_and_nonsense_is_not_learnt() {
        let mut corrections = Corrections::default();
        corrections.learn(Time::ZERO, KEY, said(), f64::INFINITY, true);
        assert_eq!(corrections, Corrections::default());
        corrections.learn(Time::ZERO, KEY, said(), 2.0, true);
        assert_eq!(corrections.correct(KEY.0, Units(4), said()).ln_median(), 0.0);
        assert_eq!(corrections.correct(Fingerprint(2), KEY.1, said()).ln_median(), 0.0);
    }
}
