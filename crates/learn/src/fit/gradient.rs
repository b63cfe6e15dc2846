//! What a few examples cost, and how that changes with every weight.

use punctual_core::predict::net::{DESCRIPTOR, Descriptions, Net, OUT, Side};
use punctual_core::rng::Rng;

use super::gather::Gathered;
use super::head::Heads;
use super::loss::cost;
use super::lstm::Reading;
use super::matrix::{add_to_bias, add_to_inputs, add_to_weights};
use super::normal::Normal;
use crate::examples::Examples;

/// What is left out at random while training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Chances {
    /// A known fingerprint's row.
    pub(super) hide: f64,
    /// A unit of the mixing layer.
    pub(super) drop: f64,
}

/// The cost of some examples and its slope by every weight.
#[derive(Clone, Debug)]
pub(super) struct Gradient {
    /// The sum of the examples' costs.
    pub(super) cost: f64,
    /// Slopes of `share` times the cost, in the order of the network's layout.
    pub(super) by_weight: Vec<f32>,
}

/// The gradient of the examples `chosen`, each counting `share`.
pub(super) fn gradient(
    net: &Net,
    pool: &Examples,
    normal: Option<&Normal>,
    chosen: &[u32],
    share: f64,
    (chances, rng): (Chances, &mut Rng),
) -> Gradient {
    let gathered = Gathered::of(pool, chosen, normal, chances.hide, rng);
    let mut descriptions = Descriptions::new(net.shape());
    descriptions.resize(gathered.known.len());
    net.describe(&gathered.known, &gathered.features, &mut descriptions, 0);
    let [before, after] = [Side::Before, Side::After]
        .map(|side| Reading::forward(net, side, &gathered.steps[side as usize], &descriptions));
    let lasts = (&before.last[..], &after.last[..]);
    let heads = Heads::forward(net, &gathered, &descriptions, lasts, (chances.drop, rng));

    let (cost, by_out) = costs(pool, chosen, &heads.out, share);
    let mut by_weight = vec![0.0; net.layout().total()];
    let slopes = heads.backward(net, &gathered, lasts, &by_out, &mut by_weight);
    let slots = gathered.known.len();
    let mut by_projection: [Vec<f32>; 4] = std::array::from_fn(|_| vec![0.0; slots * 4 * net.shape().hidden]);
    let [bt, bn, at, an] = &mut by_projection;
    before.backward(net, &slopes.before, &mut by_weight, bt, bn);
    after.backward(net, &slopes.after, &mut by_weight, at, an);
    let mut by_descriptor = vec![0.0; slots * DESCRIPTOR];
    for (slot, slopes) in gathered.targets.iter().zip(slopes.descriptors.chunks_exact(DESCRIPTOR)) {
        let to = &mut by_descriptor[*slot as usize * DESCRIPTOR..][..DESCRIPTOR];
        to.iter_mut().zip(slopes).for_each(|(to, slope)| *to += slope);
    }
    describe_back(net, &gathered, &descriptions, &by_projection, by_descriptor, &mut by_weight);
    Gradient { cost, by_weight }
}

fn costs(pool: &Examples, chosen: &[u32], out: &[f32], share: f64) -> (f64, Vec<f32>) {
    let mut sum = 0.0;
    let mut by_out = Vec::with_capacity(out.len());
    for (index, out) in chosen.iter().zip(out.chunks_exact(OUT)) {
        let example = &pool.examples[*index as usize];
        let (base, label) = (f64::from(example.base), f64::from(example.label));
        let cost = cost(f64::from(out[0]), f64::from(out[1]), base, label, example.bound);
        sum += cost.value;
        by_out.extend([(cost.by_offset * share) as f32, (cost.by_t * share) as f32]);
    }
    (sum, by_out)
}

/// From the slopes of projections and descriptors to those of the weights that made them.
fn describe_back(
    net: &Net,
    gathered: &Gathered,
    descriptions: &Descriptions,
    by_projection: &[Vec<f32>; 4],
    mut by_descriptor: Vec<f32>,
    by_weight: &mut [f32],
) {
    let (layout, kernel, slots) = (net.layout(), net.kernel(), gathered.known.len());
    let descriptors: Vec<f32> = (0..slots as u32).flat_map(|slot| descriptions.descriptor(slot)).copied().collect();
    for (which, slopes) in by_projection.iter().enumerate() {
        let cell = net.cell(if which < 2 { Side::Before } else { Side::After });
        let matrix = if which % 2 == 0 { &cell.target } else { &cell.neighbour };
        if which % 2 == 0 {
            add_to_bias(&mut by_weight[cell.bias.clone()], slopes);
        }
        add_to_weights(kernel, &mut by_weight[matrix.clone()], &descriptors, slopes, slots);
        add_to_inputs(kernel, &mut by_descriptor, slopes, net.part(matrix), DESCRIPTOR);
    }
    add_to_bias(&mut by_weight[layout.features_bias.clone()], &by_descriptor);
    let features = gathered.features.as_flattened();
    add_to_weights(kernel, &mut by_weight[layout.features.clone()], features, &by_descriptor, slots);
    for (known, slopes) in gathered.known.iter().zip(by_descriptor.chunks_exact(DESCRIPTOR)) {
        if let Some(row) = known {
            let at = layout.embedding.start + *row as usize * DESCRIPTOR;
            by_weight[at..at + DESCRIPTOR].iter_mut().zip(slopes).for_each(|(to, slope)| *to += slope);
        }
    }
}
