//! A prediction is a distribution, not a number: the log-normal through its median and its 90 % quantile.
//!
//! So there is a probability that a query misses its SLO, a router can count expected violations or count at a quantile
//! of its choice, and a simulation can draw when a query ends. A query that has run for a while without ending is
//! conditioned on that: what it cannot have been any more is left out.

use serde::{Deserialize, Serialize};

use crate::math;

/// The standard normal quantile of 0.9.
pub const Z90: f64 = 1.281_551_565_544_600_4;

/// Narrower predictions than this count as this wide: 0.1 % to the 90 % quantile. Nothing is certain.
const NARROWEST: f64 = 1e-3;

/// How long a query will take, from its start to its end on a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    median: f64,
    spread: f64,
}

impl Prediction {
    /// The prediction with this median, ln seconds, and this distance from it to the 90 % quantile, in ln seconds.
    pub fn new(median: f64, to_upper: f64) -> Prediction {
        Prediction { median, spread: to_upper.max(NARROWEST) / Z90 }
    }

    /// ln of the median in seconds.
    pub fn ln_median(self) -> f64 {
        self.median
    }

    /// The same around a median that is `by` higher, ln of a factor.
    pub fn moved(self, by: f64) -> Prediction {
        Prediction { median: self.median + by, ..self }
    }

    /// The same median with a spread `factor` times as wide.
    pub fn widened(self, factor: f64) -> Prediction {
        Prediction { spread: (self.spread * factor).max(NARROWEST / Z90), ..self }
    }

    /// The least prediction that is below neither in its median nor in its 90 % quantile.
    pub fn raised_to(self, other: Prediction) -> Prediction {
        let median = self.median.max(other.median);
        let upper = (self.median + Z90 * self.spread).max(other.median + Z90 * other.spread);
        Prediction::new(median, upper - median)
    }

    /// The median in seconds.
    pub fn median(self) -> f64 {
        math::exp(self.median)
    }

    /// The 90 % quantile in seconds.
    pub fn upper(self) -> f64 {
        math::exp(self.median + Z90 * self.spread)
    }

    /// The standard deviation of ln seconds.
    pub fn spread(self) -> f64 {
        self.spread
    }

    /// The probability that it takes longer than `seconds`, given that it has run for `elapsed` seconds.
    pub fn exceeds(self, seconds: f64, elapsed: f64) -> f64 {
        if seconds <= elapsed {
            return 1.0;
        }
        let survived = self.tail(elapsed);
        // Far beyond what was thought possible both tails vanish; what is left is the steeper of the two.
        if survived > 0.0 { (self.tail(seconds) / survived).min(1.0) } else { 0.0 }
    }

    /// The time that it exceeds with that probability, in seconds.
    pub fn exceeded_by(self, share: f64) -> f64 {
        math::exp(self.median + self.spread * math::normal_upper(share))
    }

    /// The probability that it takes longer than `seconds`.
    pub fn tail(self, seconds: f64) -> f64 {
        if seconds <= 0.0 {
            return 1.0;
        }
        0.5 * math::erfc((math::ln(seconds) - self.median) / (self.spread * std::f64::consts::SQRT_2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_through_its_median_and_its_upper_quantile() {
        let prediction = Prediction::new(math::ln(10.0), math::ln(3.0));
        assert!((prediction.median() - 10.0).abs() < 1e-9 && (prediction.upper() - 30.0).abs() < 1e-9);
        assert!((prediction.exceeds(10.0, 0.0) - 0.5).abs() < 1e-12);
        assert!((prediction.exceeds(30.0, 0.0) - 0.1).abs() < 1e-9);
    }

    #[test]
    fn what_has_run_for_a_while_is_more_likely_to_run_on() {
        let prediction = Prediction::new(0.0, 1.0);
        assert_eq!(prediction.exceeds(2.0, 2.0), 1.0);
        assert!(prediction.exceeds(4.0, 2.0) > prediction.exceeds(4.0, 0.0));
        let ratio = prediction.exceeds(4.0, 0.0) / prediction.exceeds(2.0, 0.0);
        assert!((prediction.exceeds(4.0, 2.0) - ratio).abs() < 1e-12);
    }

    #[test]
    fn what_is_raised_is_lowered_nowhere() {
        let (a, b) = (Prediction::new(1.0, 1.0), Prediction::new(0.5, 2.0));
        let raised = a.raised_to(b);
        assert_eq!(raised, b.raised_to(a));
        assert!((raised.ln_median() - 1.0).abs() < 1e-12 && (math::ln(raised.upper()) - 2.5).abs() < 1e-12);
        assert_eq!(a.raised_to(a), a);
        assert_eq!(a.raised_to(Prediction::new(-3.0, 1.0)), a);
    }

    #[test]
    fn the_time_that_is_exceeded_is_the_inverse_of_the_tail() {
        let prediction = Prediction::new(2.0, 1.5);
        for share in [1e-12, 1e-3, 0.1, 0.5, 0.9, 0.999] {
            let seconds = prediction.exceeded_by(share);
            assert!((prediction.tail(seconds) / share - 1.0).abs() < 1e-6, "{share}");
        }
        assert!((prediction.exceeded_by(0.1) - prediction.upper()).abs() < 1e-6 * prediction.upper());
    }

    #[test]
    fn extremes_stay_probabilities() {
        let narrow = Prediction::new(0.0, 0.0);
        for (seconds, elapsed) in [(0.0, 0.0), (-1.0, 0.0), (1e300, 1e299), (1.0, 1e-9), (f64::MAX, 0.0)] {
            let chance = narrow.exceeds(seconds, elapsed);
            assert!((0.0..=1.0).contains(&chance), "{seconds} {elapsed}: {chance}");
        }
        assert!(narrow.upper() > narrow.median());
    }
}
