//! Whether one model is better than another, on queries that neither has learnt from.
//!
//! Predictions are distributions, so they are compared by a proper score of what is said of them: the mean of the
//! pinball losses (Koenker and Bassett, 1978) of the median and the 90 % quantile, of ln seconds, at arrival, which is
//! where routing stands. A model is better if its loss is lower and its Q-error at p90 is not much higher: what is better
//! on average must not be bought with wilder misses.

use punctual_core::time::Time;

use crate::accuracy::{Accuracy, Judged};
use crate::contexts::Sight;
use crate::evaluation::Expected;
use crate::observation::Observation;

/// With fewer queries nothing is said.
pub const ENOUGH: usize = 30;

/// How much higher the Q-error at p90 of a better model may be, as a factor.
const WILDER: f64 = 1.05;

/// What came of comparing two models.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contest {
    /// Queries that it stands on.
    pub n: usize,
    /// Mean pinball loss of the new model and of the one that it is to replace.
    pub loss: [f64; 2],
    /// Q-error at p90 of the two.
    pub q_error_p90: [f64; 2],
    /// Whether the new one is better; None: there are fewer than [`ENOUGH`] queries.
    pub better: Option<bool>,
}

/// Compares what a new model said with what the old one did ([`evaluate`](crate::evaluation::evaluate), of both), over the
/// queries that finished and arrived after `after`, the last that the old one may have learnt from.
pub fn contest(new: &[Expected], old: &[Expected], observations: &[Observation], after: Time) -> Contest {
    let judged = |said: &[Expected]| -> Vec<Judged> {
        let is_fair = |one: &&Expected| {
            one.sight == Sight::AtArrival && one.finished && observations[one.observation].arrival > after
        };
        said.iter().filter(is_fair).map(|one| one.model).collect()
    };
    let both = [judged(new), judged(old)];
    let loss = both.each_ref().map(|judged| judged.iter().map(loss).sum::<f64>() / judged.len() as f64);
    let q_error_p90 = both.each_ref().map(|judged| Accuracy::of(judged.iter().copied()).q_error[1]);
    let n = both[0].len();
    let better = loss[0] < loss[1] && q_error_p90[0] <= WILDER * q_error_p90[1];
    Contest { n, loss, q_error_p90, better: (n >= ENOUGH).then_some(better) }
}

/// The pinball losses of the median and the 90 % quantile, added up.
fn loss(judged: &Judged) -> f64 {
    let pinball = |quantile: f64, said: f64| {
        let over = judged.truth - said;
        (quantile * over).max((quantile - 1.0) * over)
    };
    pinball(0.5, judged.median) + pinball(0.9, judged.upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loss_is_least_at_the_quantiles_and_falls_on_the_side_that_they_say() {
        let of = |median: f64, upper: f64| loss(&Judged { median, upper, truth: 1.0 });
        assert!(of(1.0, 1.0).abs() < 1e-12);
        // A median off by one costs a half either way; a 90 % quantile nine times as much below as above.
        assert!((of(0.0, 1.0) - 0.5).abs() < 1e-12 && (of(2.0, 1.0) - 0.5).abs() < 1e-12);
        assert!((of(1.0, 0.0) - 0.9).abs() < 1e-12 && (of(1.0, 2.0) - 0.1).abs() < 1e-12);
    }
}
