//! How many tasks arrive for each server in a mean service time, over time.

use punctual_core::math;
use serde::{Deserialize, Serialize};

/// Arrivals per server and mean service time: below one, the fleet can keep up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Always the same.
    Constant(f64),
    /// `mean + amplitude · sin(2π t / period)`, never below zero.
    Wave {
        /// What it goes around.
        mean: f64,
        /// How far it goes.
        amplitude: f64,
        /// How long a wave is, in mean service times.
        period: f64,
    },
    /// From each instant on that much, until the next one; before the first, nothing. In the order of time.
    Steps(Vec<(f64, f64)>),
}

/// The greatest load: what is beyond would be a mistake, and its run would not end.
pub const MOST: f64 = 1e6;

impl Load {
    /// The load at `time`.
    pub fn at(&self, time: f64) -> f64 {
        match self {
            Load::Constant(load) => *load,
            Load::Wave { mean, amplitude, period } => {
                let turn = std::f64::consts::TAU * time / period - std::f64::consts::FRAC_PI_2;
                (mean + amplitude * math::cos(turn)).max(0.0)
            }
            Load::Steps(steps) => {
                let passed = steps.partition_point(|(from, _)| *from <= time);
                passed.checked_sub(1).map_or(0.0, |last| steps[last].1)
            }
        }
    }

    /// A load that is never exceeded.
    pub fn peak(&self) -> f64 {
        match self {
            Load::Constant(load) => *load,
            Load::Wave { mean, amplitude, .. } => (mean + amplitude.abs()).max(0.0),
            Load::Steps(steps) => steps.iter().fold(0.0, |peak, (_, load)| f64::max(peak, *load)),
        }
    }

    /// The first instant after `time` at which the load jumps, if there is one.
    pub fn next_jump(&self, time: f64) -> Option<f64> {
        let Load::Steps(steps) = self else { return None };
        steps.get(steps.partition_point(|(from, _)| *from <= time)).map(|(from, _)| *from)
    }

    /// Whether it is the same at all times.
    pub fn is_constant(&self) -> bool {
        matches!(self, Load::Constant(_))
    }

    /// Whether its numbers can be meant: not negative, not beyond [`MOST`], in the order of time.
    pub(super) fn is_sound(&self) -> bool {
        let level = |load: f64| (0.0..=MOST).contains(&load);
        match self {
            Load::Constant(load) => level(*load),
            Load::Wave { mean, amplitude, period } => {
                level(*mean) && level(amplitude.abs()) && period.is_finite() && *period > 0.0
            }
            Load::Steps(steps) => {
                steps.iter().all(|(from, load)| from.is_finite() && level(*load))
                    && steps.windows(2).all(|pair| pair[0].0 < pair[1].0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wave_goes_around_its_mean_and_not_below_zero() {
        let wave = Load::Wave { mean: 0.3, amplitude: 0.4, period: 8.0 };
        let at = [0.0, 2.0, 4.0, 6.0].map(|time| wave.at(time));
        for (load, expected) in at.into_iter().zip([0.3, 0.7, 0.3, 0.0]) {
            assert!((load - expected).abs() < 1e-12, "{at:?}");
        }
        assert_eq!(wave.peak(), 0.7);
    }

    #[test]
    fn a_step_holds_until_the_next() {
        let steps = Load::Steps(vec![(1.0, 0.5), (3.0, 0.2)]);
        assert_eq!([0.0, 1.0, 2.9, 3.0, 99.0].map(|time| steps.at(time)), [0.0, 0.5, 0.5, 0.2, 0.2]);
        assert_eq!([0.0, 1.0, 3.0].map(|time| steps.next_jump(time)), [Some(1.0), Some(3.0), None]);
        assert_eq!(steps.peak(), 0.5);
    }
}
