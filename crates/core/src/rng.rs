//! Chance, from a seed, one stream per purpose.
//!
//! Each purpose draws from a stream of its own, so that a new draw in one place does not shift the numbers that
//! another place sees. The generator is PCG-64 (O'Neill 2014, XSL-RR 128/64): small enough to sit in every
//! checkpoint, portable, and with as many independent streams as there are purposes.

use rand_core::Rng as _;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use crate::math;

/// What a stream of random numbers is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Stream {
    /// Tie-breaking and sampling inside routing policies.
    Routing = 1,
    /// When queries arrive.
    Arrivals = 2,
    /// Which query arrives.
    Mix = 3,
    /// How much work a query is.
    Work = 4,
    /// What goes wrong: lost clusters, failed starts, cancellations.
    Faults = 5,
    /// How long a cluster takes to start.
    Starts = 6,
    /// What is set aside when a model is trained.
    Split = 7,
    /// What decides when training stops.
    Validation = 8,
    /// Tie-breaking and sampling of a routing policy on trial.
    Trial = 9,
}

/// One stream of random numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rng(Pcg64);

impl Rng {
    /// The stream of `seed` for one purpose.
    pub fn stream(seed: u64, purpose: Stream) -> Rng {
        Rng::numbered(seed, purpose as u64)
    }

    /// Stream `number` of `seed`, for callers that need a family of streams (one per query, say).
    /// Numbers below 2³² are kept for [`Stream`].
    pub fn numbered(seed: u64, number: u64) -> Rng {
        let mut pcg = Pcg64::new(u128::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15), u128::from(number));
        // The first outputs of nearby seeds resemble each other; a few steps mix them.
        for _ in 0..4 {
            pcg.next_u64();
        }
        Rng(pcg)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A uniform whole number below `bound`; zero when `bound` is zero. Unbiased (Lemire 2019).
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let wide = u128::from(self.bits()) * u128::from(bound);
            if wide as u64 >= threshold {
                return (wide >> 64) as u64;
            }
        }
    }

    /// A uniform index into a collection of `len`; zero when it is empty.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A uniform number in the open interval (0, 1), safe to take the logarithm of.
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// An exponential variate with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * math::ln(self.unit())
    }

    /// A standard normal variate (Box–Muller, one of the pair, so that each call costs the same draws).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * math::ln(self.unit())).sqrt();
        radius * math::cos(std::f64::consts::TAU * self.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_a_function_of_its_seed_and_purpose() {
        let draw = |seed, purpose| Rng::stream(seed, purpose).bits();
        assert_eq!(draw(7, Stream::Routing), draw(7, Stream::Routing));
        assert_ne!(draw(7, Stream::Routing), draw(8, Stream::Routing));
        assert_ne!(draw(7, Stream::Routing), draw(7, Stream::Arrivals));
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut rng = Rng::stream(1, Stream::Work);
        let n = 200_000;
        let mean = |rng: &mut Rng, draw: fn(&mut Rng) -> f64| (0..n).map(|_| draw(rng)).sum::<f64>() / f64::from(n);
        // Five standard errors on each side.
        assert!((mean(&mut rng, |r| r.unit()) - 0.5).abs() < 0.0033);
        assert!((mean(&mut rng, |r| r.exponential(3.0)) - 3.0).abs() < 0.034);
        assert!(mean(&mut rng, |r| r.normal()).abs() < 0.0112);
        assert!((mean(&mut rng, |r| r.below(6) as f64) - 2.5).abs() < 0.0192);
    }

    #[test]
    fn nothing_to_choose_from_is_index_zero() {
        assert_eq!(Rng::stream(1, Stream::Routing).index(0), 0);
    }
}
