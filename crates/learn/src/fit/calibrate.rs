//! How much wider the upper quantile must be to hold what it promises.
//!
//! Split conformal prediction (Vovk et al. 2005; Romano, Patterson and Candès 2019) on queries that training did not
//! fit: of the ratios (ln y − ln median) / spread, the ⌈0.9·(n + 1)⌉-th smallest is the factor at which nine of ten are
//! covered. Lower bounds say nothing about where a query would have ended, so they are left out.

use super::loss::UPPER;

/// Below this many finished queries the factor is noise, and 1 is kept.
const FEWEST: usize = 30;
/// A factor beyond these says that the median is off, which a wider quantile does not mend.
const NARROWEST: f64 = 0.25;
const WIDEST: f64 = 4.0;

/// A prediction and what came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// ln of the predicted median.
    pub median: f64,
    /// How far above it the upper quantile lies, unscaled.
    pub spread: f64,
    /// ln of the latency.
    pub label: f64,
    /// The label is a lower bound.
    pub bound: bool,
}

/// How many spreads above its median each query ended that finished.
pub fn ratios(outcomes: &[Outcome]) -> Vec<f64> {
    let finished = outcomes.iter().filter(|outcome| !outcome.bound && outcome.spread > 0.0);
    let ratios = finished.map(|outcome| (outcome.label - outcome.median) / outcome.spread);
    ratios.filter(|ratio| ratio.is_finite()).collect()
}

/// The factor of the spread at which the upper quantile covers nine of ten, within [0.25, 4], from [`ratios`].
pub fn spread_scale(mut ratios: Vec<f64>) -> f64 {
    if ratios.len() < FEWEST {
        return 1.0;
    }
    ratios.sort_unstable_by(f64::total_cmp);
    let rank = (UPPER * (ratios.len() + 1) as f64).ceil() as usize;
    ratios[rank.clamp(1, ratios.len()) - 1].clamp(NARROWEST, WIDEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(label: f64) -> Outcome {
        Outcome { median: 1.0, spread: 0.5, label, bound: false }
    }

    #[test]
    fn nine_of_ten_lie_below_the_scaled_quantile() {
        let outcomes: Vec<Outcome> = (1..=99).map(|i| outcome(f64::from(i) / 50.0)).collect();
        let scale = spread_scale(ratios(&outcomes));
        // The 90th of the 99 labels is 1.8, which is 1.6 spreads above the median.
        assert!((scale - 1.6).abs() < 1e-12);
        let covered = outcomes.iter().filter(|o| o.label <= o.median + scale * o.spread + 1e-12).count();
        assert_eq!(covered, 90);
    }

    #[test]
    fn few_or_bounded_or_wild_outcomes_do_not_run_away_with_it() {
        let of = |outcomes: &[Outcome]| spread_scale(ratios(outcomes));
        assert_eq!(of(&[outcome(9.0); 29]), 1.0);
        assert_eq!(of(&[Outcome { bound: true, ..outcome(9.0) }; 100]), 1.0);
        assert_eq!(of(&[outcome(99.0); 100]), 4.0);
        assert_eq!(of(&[outcome(-99.0); 100]), 0.25);
        assert_eq!(of(&[outcome(f64::NAN); 100]), 1.0);
    }
}
