//! Predictions as they would have been live: corrected by what had ended before.
//!
//! A service does not wait for the next training: what ends says how far off the model is, and later predictions are
//! corrected by it ([`punctual_core::predict::correction`]). So the queries that are measured on are gone through in the
//! order of time, and each is predicted with what the ones before it taught. Nothing that training saw teaches here: a
//! model is less wrong about it than about anything to come.

use punctual_core::predict::correction::Corrections;
use punctual_core::predict::distribution::Prediction;
use punctual_core::time::Time;

use crate::accuracy::Judged;
use crate::observation::Observation;

/// What happens to a prediction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// Its query ends, and teaches.
    Ends,
    /// Its query arrives, and is predicted.
    Arrives,
}

/// The predictions at arrival, corrected; in their order. Each comes with the index of its observation.
pub fn corrected(observations: &[Observation], predicted: &[(usize, Judged)]) -> Vec<Judged> {
    let mut turns: Vec<(Time, Turn, usize)> = Vec::with_capacity(2 * predicted.len());
    for (at, (index, _)) in predicted.iter().enumerate() {
        let seen = &observations[*index];
        turns.push((seen.arrival, Turn::Arrives, at));
        // At one instant what ends goes first. What takes no time must not teach before it is predicted.
        let ended = seen.ended.max(seen.arrival + punctual_core::time::Span::from_micros(1));
        turns.push((ended, Turn::Ends, at));
    }
    turns.sort();
    let mut corrections = Corrections::default();
    let mut found: Vec<Judged> = predicted.iter().map(|(_, judged)| *judged).collect();
    for (now, turn, at) in turns {
        let (index, judged) = predicted[at];
        let seen = &observations[index];
        let said = Prediction::new(judged.median, judged.upper - judged.median);
        match turn {
            Turn::Arrives => {
                let moved = corrections.correct(seen.shape, seen.size, said);
                let upper = punctual_core::math::ln(moved.upper());
                found[at] = Judged { median: moved.ln_median(), upper, ..judged };
            }
            Turn::Ends => corrections.learn(now, (seen.shape, seen.size), said, seen.seconds(), seen.finished),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::tests::seen;
    use crate::stage::ln_seconds;

    #[test]
    fn a_query_is_corrected_by_what_ended_before_it_arrived_and_by_nothing_else() {
        // All take four times what was predicted. The second arrives before the first has ended.
        let all = [seen(0, 0, 0, 400), seen(0, 0, 100, 500), seen(1, 0, 600, 1_000), seen(0, 1, 700, 1_100)];
        let predicted: Vec<(usize, Judged)> = (0..all.len())
            .map(|index| {
                let truth = ln_seconds(&all[index]);
                (index, Judged { median: truth - 4f64.ln(), upper: truth, truth })
            })
            .collect();
        let found = corrected(&all, &predicted);
        let moved: Vec<f64> =
            found.iter().zip(&predicted).map(|(found, (_, said))| found.median - said.median).collect();
        assert!(moved[0].abs() < 1e-9 && moved[1].abs() < 1e-9 && moved[3].abs() < 1e-9, "{moved:?}");
        assert!(moved[2] > 0.2 && moved[2] < 4f64.ln(), "{moved:?}");
        let order: Vec<f64> = found.iter().map(|found| found.truth).collect();
        assert_eq!(order, all.iter().map(ln_seconds).collect::<Vec<_>>());
    }
}
