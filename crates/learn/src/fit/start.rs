//! The weights before training: small, of the width that keeps sums of inputs near one.
//!
//! LSTMs uniform in ±1/√hidden, layers in ±1/√inputs (as PyTorch does, so that figures compare), descriptors of
//! fingerprints normal with deviation 0.1.

use punctual_core::predict::net::{DESCRIPTOR, FEATURES, HEAD, Layout, MIX, SIDE, Shape};
use punctual_core::rng::Rng;

/// Weights drawn for a shape.
pub(super) fn weights(shape: Shape, rng: &mut Rng) -> Vec<f32> {
    let layout = Layout::of(shape);
    let mut weights = vec![0.0; layout.total()];
    weights[layout.embedding.clone()].fill_with(|| 0.1 * rng.normal() as f32);
    let mut uniform = |range: std::ops::Range<usize>, inputs: usize| {
        let width = 1.0 / (inputs as f64).sqrt();
        weights[range].fill_with(|| (width * (2.0 * rng.unit() - 1.0)) as f32);
    };
    uniform(layout.features.start..layout.features_bias.end, FEATURES);
    uniform(layout.before.bias.start..layout.after.hidden.end, shape.hidden);
    uniform(layout.side_bias.start..layout.side_target.end, HEAD + DESCRIPTOR);
    uniform(layout.mix_bias.start..layout.mix_side.end, 2 * shape.hidden + SIDE);
    uniform(layout.out_bias.start..layout.out_mix.end, MIX);
    weights
}
