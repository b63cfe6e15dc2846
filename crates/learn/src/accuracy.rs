//! How good predictions were: Q-error and coverage.
//!
//! The Q-error of a prediction is max(predicted / true, true / predicted): 1 is perfect, 2 is off by a factor of two
//! either way. Coverage is the share of queries that took no longer than their predicted 90 % quantile.

/// One prediction and what came of it, in ln seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// The predicted median.
    pub median: f64,
    /// The predicted 90 % quantile.
    pub upper: f64,
    /// What it was.
    pub truth: f64,
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
}

impl Accuracy {
    /// Of these predictions.
    pub fn of(judged: impl IntoIterator<Item = Judged>) -> Accuracy {
        let (mut errors, mut covered) = (Vec::new(), 0usize);
        for one in judged {
            errors.push((one.median - one.truth).abs());
            covered += usize::from(one.truth <= one.upper);
        }
        errors.sort_by(f64::total_cmp);
        let q_error = [0.5, 0.9, 0.95].map(|share| punctual_core::math::exp(quantile(&errors, share)));
        Accuracy { n: errors.len(), q_error, coverage: covered as f64 / errors.len() as f64 }
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

    #[test]
    fn q_errors_count_both_ways_and_coverage_one() {
        let ln = punctual_core::math::ln;
        let judged =
            |predicted: f64, truth: f64| Judged { median: ln(predicted), upper: ln(predicted * 2.0), truth: ln(truth) };
        let accuracy = Accuracy::of([judged(10.0, 10.0), judged(10.0, 5.0), judged(10.0, 40.0)]);
        assert_eq!(accuracy.n, 3);
        let [p50, p90, p95] = accuracy.q_error;
        assert!((p50 - 2.0).abs() < 1e-9 && (p90 - 2.0 * 2f64.powf(0.8)).abs() < 1e-9 && p95 > p90);
        assert!((accuracy.coverage - 2.0 / 3.0).abs() < 1e-12);
        assert!(Accuracy::of([]).q_error[0].is_nan());
    }

    #[test]
    fn quantiles_lie_between_neighbours() {
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.5), 2.0);
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.75), 3.0);
        assert_eq!((quantile(&[5.0], 0.9), quantile(&[1.0, 2.0], 1.0)), (5.0, 2.0));
    }
}
