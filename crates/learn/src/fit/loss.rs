//! How wrong a prediction is.
//!
//! The median is held to a smooth |ln y − ln ŷ|, √(d² + 0.01) − 0.1, whose slope does not jump at zero; the upper
//! quantile to the pinball loss at 0.9 (Koenker and Bassett 1978). Where y is a lower bound, a prediction above it
//! is not wrong, so it costs nothing.

/// The quantile that the upper output stands for.
pub const UPPER: f64 = 0.9;
const SMOOTH: f64 = 0.1;

/// What an example costs, and the slopes by the network's two outputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    pub(super) value: f64,
    pub(super) by_offset: f64,
    pub(super) by_t: f64,
}

/// ln(1 + eᵗ), without overflow.
pub(super) fn softplus(t: f64) -> f64 {
    t.max(0.0) + punctual_core::math::ln(1.0 + punctual_core::math::exp(-t.abs()))
}

/// The cost of saying ln median = base + offset and ln upper = ln median + softplus(t) of a query of ln latency `label`.
pub(super) fn cost(offset: f64, t: f64, base: f64, label: f64, bound: bool) -> Cost {
    let over = base + offset - label;
    let root = (over * over + SMOOTH * SMOOTH).sqrt();
    let (smooth, by_median) = if bound && over > 0.0 { (0.0, 0.0) } else { (root - SMOOTH, over / root) };
    let under = -(over + softplus(t));
    let (pinball, by_upper) = match under > 0.0 {
        true => (UPPER * under, -UPPER),
        false if bound => (0.0, 0.0),
        false => ((UPPER - 1.0) * under, 1.0 - UPPER),
    };
    let sigmoid = 1.0 / (1.0 + punctual_core::math::exp(-t));
    Cost { value: smooth + pinball, by_offset: by_median + by_upper, by_t: by_upper * sigmoid }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_those_of_the_value() {
        for (offset, t, bound) in [(0.7, 0.3, false), (-0.9, -1.2, false), (-0.9, 2.5, true), (0.4, 0.1, true)] {
            let at = |offset, t| cost(offset, t, 0.2, 0.3, bound).value;
            let (slope, eps) = (cost(offset, t, 0.2, 0.3, bound), 1e-6);
            let by_offset = (at(offset + eps, t) - at(offset - eps, t)) / (2.0 * eps);
            let by_t = (at(offset, t + eps) - at(offset, t - eps)) / (2.0 * eps);
            assert!((slope.by_offset - by_offset).abs() < 1e-8, "{offset} {t} {bound}");
            assert!((slope.by_t - by_t).abs() < 1e-8, "{offset} {t} {bound}");
        }
    }

    #[test]
    fn a_prediction_above_a_lower_bound_costs_nothing() {
        assert_eq!(cost(1.0, 0.0, 0.0, 0.5, true), Cost { value: 0.0, by_offset: 0.0, by_t: 0.0 });
        assert!(cost(-1.0, 0.0, 0.0, 0.5, true).value > 1.0);
    }
}
