//! AdamW under a one-cycle schedule.
//!
//! AdamW (Loshchilov and Hutter 2019): moments of the slopes decide the step, and weights decay beside them, not
//! through them. One cycle (Smith and Topin 2018): the rate climbs to its peak in the first tenth and then falls to
//! next to nothing, both along half a cosine, while the first moment's memory goes the other way.

use punctual_core::math;
use serde::{Deserialize, Serialize};

/// Slopes are shortened to this length.
const LONGEST: f64 = 2.0;
const SECOND_MEMORY: f64 = 0.999;
const TINY: f32 = 1e-8;
/// Part of the steps that the rate climbs for.
const CLIMB: f64 = 0.1;
/// The first rate is the peak over this, and the last the first over [`FALL`].
const START: f64 = 25.0;
const FALL: f64 = 1e4;
const MEMORY: (f64, f64) = (0.95, 0.85);

/// The moments of all slopes: what must be kept to go on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct AdamW {
    step: u64,
    first: Vec<f32>,
    second: Vec<f32>,
    /// Products of the memories so far, which say how far moments still lean to their start at zero.
    first_left: f64,
    second_left: f64,
}

/// The rate and the first moment's memory of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    pub(super) rate: f64,
    memory: f64,
}

/// The rate of step `step` of `steps`.
pub(super) fn one_cycle(step: u64, steps: u64, peak: f64) -> Rate {
    let top = CLIMB * steps as f64 - 1.0;
    let last = (steps as f64 - 1.0).max(top + 1.0);
    let at = (step as f64).min(last);
    // Ten steps have no climb: they begin at the top.
    let (from, to, part) = if at <= top && top > 0.0 {
        ((peak / START, MEMORY.0), (peak, MEMORY.1), at / top)
    } else {
        ((peak, MEMORY.1), (peak / START / FALL, MEMORY.0), (at - top) / (last - top))
    };
    let between = |from: f64, to: f64| to + (from - to) / 2.0 * (1.0 + math::cos(std::f64::consts::PI * part));
    Rate { rate: between(from.0, to.0), memory: between(from.1, to.1) }
}

impl AdamW {
    /// Before the first step.
    pub(super) fn new(weights: usize) -> AdamW {
        AdamW { step: 0, first: vec![0.0; weights], second: vec![0.0; weights], first_left: 1.0, second_left: 1.0 }
    }

    /// How many steps were taken.
    pub(super) fn steps(&self) -> u64 {
        self.step
    }

    /// Whether it is for this many weights.
    pub(super) fn fits(&self, weights: usize) -> bool {
        self.first.len() == weights && self.second.len() == weights
    }

    /// One step against `slopes`; `decay` is the weights' decay per unit of rate. Slopes that are no numbers are no step.
    pub(super) fn step(&mut self, weights: &mut [f32], slopes: &[f32], rate: Rate, decay: f64) {
        let length = slopes.iter().map(|s| f64::from(*s) * f64::from(*s)).sum::<f64>().sqrt();
        self.step += 1;
        if !length.is_finite() {
            return;
        }
        let shorten = (LONGEST / length).min(1.0) as f32;
        self.first_left *= rate.memory;
        self.second_left *= SECOND_MEMORY;
        let (m1, m2) = (rate.memory as f32, SECOND_MEMORY as f32);
        let size = (rate.rate / (1.0 - self.first_left)) as f32;
        let lean = (1.0 / (1.0 - self.second_left).sqrt()) as f32;
        let keep = (1.0 - rate.rate * decay) as f32;
        let moments = self.first.iter_mut().zip(&mut self.second);
        for ((weight, slope), (first, second)) in weights.iter_mut().zip(slopes).zip(moments) {
            let slope = slope * shorten;
            *first = m1 * *first + (1.0 - m1) * slope;
            *second = m2 * *second + (1.0 - m2) * slope * slope;
            *weight = keep * *weight - size * *first / (second.sqrt() * lean + TINY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_climbs_to_its_peak_and_falls_to_next_to_nothing() {
        let rate = |step| one_cycle(step, 1000, 2e-3).rate;
        assert!((rate(0) - 8e-5).abs() < 1e-12);
        assert!((rate(99) - 2e-3).abs() < 1e-12);
        assert!(rate(50) < rate(99) && rate(500) < rate(99));
        assert!((rate(999) - 8e-9).abs() < 1e-12);
        assert_eq!(rate(5000), rate(999));
        for steps in 0..50 {
            assert!((0..steps + 2).all(|step| (0.0..=1.0).contains(&one_cycle(step, steps, 1.0).rate)), "{steps}");
        }
    }

    #[test]
    fn steps_lead_down_a_bowl() {
        let (mut weights, mut adam) = (vec![3.0f32, -2.0], AdamW::new(2));
        for step in 0..600 {
            let slopes = [2.0 * (weights[0] - 1.0), 20.0 * (weights[1] - 0.5)];
            adam.step(&mut weights, &slopes, one_cycle(step, 600, 0.1), 0.0);
        }
        assert!((weights[0] - 1.0).abs() < 1e-2 && (weights[1] - 0.5).abs() < 1e-2, "{weights:?}");
    }

    #[test]
    fn slopes_that_are_no_numbers_change_nothing() {
        let (mut weights, mut adam) = (vec![1.0f32], AdamW::new(1));
        adam.step(&mut weights, &[f32::NAN], one_cycle(0, 10, 0.1), 0.1);
        assert_eq!(weights, [1.0]);
    }
}
