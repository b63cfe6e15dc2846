//! The head over the examples of a chunk, forward with everything kept, and back.

use punctual_core::predict::net::{DESCRIPTOR, Descriptions, HEAD, MIX, Net, OUT, SIDE};
use punctual_core::rng::Rng;

use super::gather::Gathered;
use super::matrix::{add_to_bias, add_to_inputs, add_to_weights, repeated};

/// What a forward pass leaves for the way back.
pub(super) struct Heads {
    descriptors: Vec<f32>,
    side: Vec<f32>,
    mix: Vec<f32>,
    /// What each unit of the mixing layer was multiplied by: 1, or with dropout 0 or more than 1.
    kept: Option<Vec<f32>>,
    /// offset and t of each example.
    pub(super) out: Vec<f32>,
}

/// Where the slopes of the head's inputs go.
pub(super) struct HeadSlopes {
    /// Of the before-outputs, hidden an example.
    pub(super) before: Vec<f32>,
    /// Of the after-outputs.
    pub(super) after: Vec<f32>,
    /// Of the targets' descriptors.
    pub(super) descriptors: Vec<f32>,
}

impl Heads {
    /// The outputs from the last outputs of both LSTMs; units of the mixing layer are dropped with probability `drop`.
    pub(super) fn forward(
        net: &Net,
        gathered: &Gathered,
        descriptions: &Descriptions,
        (before, after): (&[f32], &[f32]),
        (drop, rng): (f64, &mut Rng),
    ) -> Heads {
        let (layout, kernel, hidden, n) = (net.layout(), net.kernel(), net.shape().hidden, gathered.targets.len());
        let descriptor = |slot: &u32| descriptions.descriptor(*slot).iter().copied();
        let descriptors: Vec<f32> = gathered.targets.iter().flat_map(descriptor).collect();
        let mut side = repeated(net.part(&layout.side_bias), n);
        kernel.affine(&mut side, gathered.heads.as_flattened(), net.part(&layout.side_row), HEAD, SIDE);
        kernel.affine(&mut side, &descriptors, net.part(&layout.side_target), DESCRIPTOR, SIDE);
        relu(&mut side);
        let mut mix = repeated(net.part(&layout.mix_bias), n);
        kernel.affine(&mut mix, before, net.part(&layout.mix_before), hidden, MIX);
        kernel.affine(&mut mix, after, net.part(&layout.mix_after), hidden, MIX);
        kernel.affine(&mut mix, &side, net.part(&layout.mix_side), SIDE, MIX);
        relu(&mut mix);
        let kept = (drop > 0.0).then(|| {
            let up = (1.0 / (1.0 - drop)) as f32;
            mix.iter().map(|_| if rng.chance(drop) { 0.0 } else { up }).collect::<Vec<f32>>()
        });
        if let Some(kept) = &kept {
            mix.iter_mut().zip(kept).for_each(|(mix, kept)| *mix *= kept);
        }
        let mut out = repeated(net.part(&layout.out_bias), n);
        kernel.affine(&mut out, &mix, net.part(&layout.out_mix), MIX, OUT);
        Heads { descriptors, side, mix, kept, out }
    }

    /// From the slopes of the outputs to those of the weights (added to `by_weight`, the whole flat vector) and of the
    /// inputs.
    pub(super) fn backward(
        &self,
        net: &Net,
        gathered: &Gathered,
        (before, after): (&[f32], &[f32]),
        by_out: &[f32],
        by_weight: &mut [f32],
    ) -> HeadSlopes {
        let (layout, kernel, hidden, n) = (net.layout(), net.kernel(), net.shape().hidden, gathered.targets.len());
        let zeros = |width: usize| vec![0.0; n * width];
        add_to_bias(&mut by_weight[layout.out_bias.clone()], by_out);
        add_to_weights(kernel, &mut by_weight[layout.out_mix.clone()], &self.mix, by_out, n);
        let mut by_mix = zeros(MIX);
        add_to_inputs(kernel, &mut by_mix, by_out, net.part(&layout.out_mix), MIX);
        if let Some(kept) = &self.kept {
            by_mix.iter_mut().zip(kept).for_each(|(by, kept)| *by *= kept);
        }
        stop_below_zero(&mut by_mix, &self.mix);
        add_to_bias(&mut by_weight[layout.mix_bias.clone()], &by_mix);
        let mut slopes = HeadSlopes { before: zeros(hidden), after: zeros(hidden), descriptors: zeros(DESCRIPTOR) };
        let mut by_side = zeros(SIDE);
        let inputs = [
            (&layout.mix_before, before, &mut slopes.before, hidden),
            (&layout.mix_after, after, &mut slopes.after, hidden),
            (&layout.mix_side, &self.side[..], &mut by_side, SIDE),
        ];
        for (range, x, by_x, width) in inputs {
            add_to_weights(kernel, &mut by_weight[range.clone()], x, &by_mix, n);
            add_to_inputs(kernel, by_x, &by_mix, net.part(range), width);
        }
        stop_below_zero(&mut by_side, &self.side);
        add_to_bias(&mut by_weight[layout.side_bias.clone()], &by_side);
        let rows = gathered.heads.as_flattened();
        add_to_weights(kernel, &mut by_weight[layout.side_row.clone()], rows, &by_side, n);
        add_to_weights(kernel, &mut by_weight[layout.side_target.clone()], &self.descriptors, &by_side, n);
        add_to_inputs(kernel, &mut slopes.descriptors, &by_side, net.part(&layout.side_target), DESCRIPTOR);
        slopes
    }
}

fn relu(xs: &mut [f32]) {
    for x in xs {
        *x = if *x > 0.0 { *x } else { 0.0 };
    }
}

/// A unit that is zero passes no slope on.
fn stop_below_zero(slopes: &mut [f32], units: &[f32]) {
    for (slope, unit) in slopes.iter_mut().zip(units) {
        *slope = if *unit > 0.0 { *slope } else { 0.0 };
    }
}
