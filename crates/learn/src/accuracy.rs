//! How good predictions were: Q-error and coverage.
//!
//! The Q-error of a prediction is max(predicted / true, true / predicted): 1 is perfect, 2 is off by a factor of two
//! either way. Coverage is the share of queries that took no longer than their predicted 90 % quantile; it should be
//! nine in ten, and half of them should take no longer than the median.
//!
//! A query that was cut off (aborted, failed, timed out) has no latency, only a bound that it lies above. It cannot be
//! a hit, but it can be a sure miss: see [`Bounded`].

use punctual_core::math;
use punctual_core::predict::distribution::Z90;

/// One prediction and what came of it, in ln seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// The predicted median.
    pub median: f64,
    /// The predicted 90 % quantile.
    pub upper: f64,
    /// What it was; of a query that was cut off, what it took at least.
    pub truth: f64,
}

impl Judged {
    /// At which quantile of the prediction the truth lies, the prediction read as the log-normal through both.
    pub fn level(&self) -> f64 {
        let spread = (self.upper - self.median).max(f64::MIN_POSITIVE) / Z90;
        0.5 * math::erfc((self.median - self.truth) / (spread * std::f64::consts::SQRT_2))
    }
}

/// How good a set of predictions was. Values are NaN if there are none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    /// How many.
    pub n: usize,
    /// Quantiles of the Q-error: 0.5, 0.9 and 0.95, between neighbouring values where there is none.
    pub q_error: [f64; 3],
    /// The share of truths at or below the 90 % quantile.
    pub coverage: f64,
    /// The share of truths at or below the median.
    pub below_median: f64,
}

impl Accuracy {
    /// Of these predictions.
    pub fn of(judged: impl IntoIterator<Item = Judged>) -> Accuracy {
        let (mut errors, mut covered, mut below) = (Vec::new(), 0usize, 0usize);
        for one in judged {
            errors.push((one.median - one.truth).abs());
            covered += usize::from(one.truth <= one.upper);
            below += usize::from(one.truth <= one.median);
        }
        errors.sort_by(f64::total_cmp);
        let q_error = [0.5, 0.9, 0.95].map(|share| math::exp(quantile(&errors, share)));
        let share = |count: usize| count as f64 / errors.len() as f64;
        Accuracy { n: errors.len(), q_error, coverage: share(covered), below_median: share(below) }
    }
}

/// How predictions of queries that were cut off stand to the bounds that are known. Shares are NaN if there are none.
///
/// Nobody knows how long they would have taken. A bound above the 90 % quantile is a miss for sure, and a bound above
/// the median says that the median was too low, whatever the query would have taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounded {
    /// How many.
    pub n: usize,
    /// The share whose bound lies above the 90 % quantile.
    pub above_upper: f64,
    /// The share whose bound lies above the median.
    pub above_median: f64,
    /// Quantiles of bound / median over all of them, 1 where the bound lies below the median: 0.5, 0.9 and 0.95. The
    /// Q-error is at least that.
    pub q_error_at_least: [f64; 3],
}

impl Bounded {
    /// Of these predictions, whose truths are bounds.
    pub fn of(judged: impl IntoIterator<Item = Judged>) -> Bounded {
        let (mut short, mut above) = (Vec::new(), 0usize);
        for one in judged {
            short.push((one.truth - one.median).max(0.0));
            above += usize::from(one.truth > one.upper);
        }
        let n = short.len();
        let below = short.iter().filter(|short| **short > 0.0).count();
        short.sort_by(f64::total_cmp);
        let q_error_at_least = [0.5, 0.9, 0.95].map(|share| math::exp(quantile(&short, share)));
        Bounded { n, above_upper: above as f64 / n as f64, above_median: below as f64 / n as f64, q_error_at_least }
    }
}

/// The quantile of sorted values, linear between neighbours; NaN of none.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = share.clamp(0.0, 1.0) * last as f64;
    let (below, part) = (at.floor() as usize, at.fract());
    sorted[below] + part * (sorted[(below + 1).min(last)] - sorted[below])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(predicted: f64, truth: f64) -> Judged {
        Judged { median: math::ln(predicted), upper: math::ln(predicted * 2.0), truth: math::ln(truth) }
    }

    #[test]
    fn q_errors_count_both_ways_and_coverage_one() {
        let accuracy = Accuracy::of([judged(10.0, 10.0), judged(10.0, 5.0), judged(10.0, 40.0)]);
        assert_eq!(accuracy.n, 3);
        let [p50, p90, p95] = accuracy.q_error;
        assert!((p50 - 2.0).abs() < 1e-9 && (p90 - 2.0 * 2f64.powf(0.8)).abs() < 1e-9 && p95 > p90);
        assert!((accuracy.coverage - 2.0 / 3.0).abs() < 1e-12);
        assert!((accuracy.below_median - 2.0 / 3.0).abs() < 1e-12);
        assert!(Accuracy::of([]).q_error[0].is_nan());
    }

    #[test]
    fn what_was_cut_off_can_only_be_a_miss() {
        let bounded = Bounded::of([judged(10.0, 5.0), judged(10.0, 15.0), judged(10.0, 40.0), judged(10.0, 1.0)]);
        assert_eq!((bounded.n, bounded.above_upper, bounded.above_median), (4, 0.25, 0.5));
        let [p50, p90, _] = bounded.q_error_at_least;
        assert!((p50 - 1.5f64.sqrt()).abs() < 1e-9 && p90 > 2.0 && p90 < 4.0);
        assert!(Bounded::of([]).above_upper.is_nan());
    }

    #[test]
    fn a_truth_lies_at_a_level_of_its_prediction() {
        let level = |truth| judged(10.0, truth).level();
        assert!((level(10.0) - 0.5).abs() < 1e-12 && (level(20.0) - 0.9).abs() < 1e-9);
        assert!((level(5.0) - 0.1).abs() < 1e-9);
        let sure = Judged { median: 1.0, upper: 1.0, truth: 2.0 };
        assert_eq!(sure.level(), 1.0);
    }

    #[test]
    fn quantiles_lie_between_neighbours() {
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.5), 2.0);
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.75), 3.0);
        assert_eq!((quantile(&[5.0], 0.9), quantile(&[1.0, 2.0], 1.0)), (5.0, 2.0));
    }
}
