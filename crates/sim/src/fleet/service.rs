//! How long a task takes, in mean service times.

use std::sync::Arc;

use punctual_core::math;
use punctual_core::rng::Rng;

use super::phases::PhaseType;

/// The distribution of service times; its mean is one, except where they are listed.
#[derive(Clone, Debug, PartialEq)]
pub enum ServiceTime {
    /// It does not remember how long it has taken: the loop needs no timers.
    Exponential,
    /// All take one.
    Deterministic,
    /// In phases.
    PhaseType(PhaseType),
    /// The logarithm is normal.
    LogNormal {
        /// Squared coefficient of variation: variance over the squared mean.
        variation: f64,
    },
    /// Task n takes what the list says at place n, counted anew at its end.
    Trace(Arc<[f64]>),
}

/// A service with what is needed to draw from it.
#[derive(Clone, Debug)]
pub(super) struct Draw<'a> {
    service: &'a ServiceTime,
    sigma: f64,
}

impl ServiceTime {
    /// Whether its numbers can be meant.
    pub(super) fn is_sound(&self) -> bool {
        match self {
            ServiceTime::Exponential | ServiceTime::Deterministic | ServiceTime::PhaseType(_) => true,
            ServiceTime::LogNormal { variation } => variation.is_finite() && *variation >= 0.0,
            ServiceTime::Trace(times) => !times.is_empty() && times.iter().all(|time| time.is_finite() && *time >= 0.0),
        }
    }

    pub(super) fn draws(&self) -> Draw<'_> {
        // The variance of the logarithm follows from exp(σ²) − 1 = variation; its mean, −σ²/2, from the mean of one.
        let sigma = match self {
            ServiceTime::LogNormal { variation } => math::ln(1.0 + variation).sqrt(),
            _ => 0.0,
        };
        Draw { service: self, sigma }
    }
}

impl Draw<'_> {
    /// The service time of task `number`.
    pub(super) fn time(&self, number: u32, rng: &mut Rng) -> f64 {
        match self.service {
            ServiceTime::Exponential => rng.exponential(1.0),
            ServiceTime::Deterministic => 1.0,
            ServiceTime::PhaseType(phases) => phases.draw(rng),
            ServiceTime::LogNormal { .. } => math::exp(self.sigma * (rng.normal() - 0.5 * self.sigma)),
            ServiceTime::Trace(times) => times[number as usize % times.len()],
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::rng::Stream;

    use super::*;

    #[test]
    fn log_normal_times_have_mean_one_and_their_variation() {
        let service = ServiceTime::LogNormal { variation: 2.0 };
        let (draw, mut rng) = (service.draws(), Rng::stream(9, Stream::Work));
        let times: Vec<f64> = (0..400_000).map(|number| draw.time(number, &mut rng)).collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let squared = times.iter().map(|time| time * time).sum::<f64>() / times.len() as f64;
        // The deviation of the mean is √2 / 632.
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        assert!((squared / (mean * mean) - 3.0).abs() < 0.25, "{squared}");
    }

    #[test]
    fn a_trace_is_read_by_number_and_again() {
        let service = ServiceTime::Trace([3.0, 4.0].into());
        let mut rng = Rng::stream(9, Stream::Work);
        assert_eq!([0, 1, 2].map(|number| service.draws().time(number, &mut rng)), [3.0, 4.0, 3.0]);
    }
}
