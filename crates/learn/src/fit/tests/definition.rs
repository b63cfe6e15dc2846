//! The network and its cost as the books define them, in 64 bits, one example and one number at a time.
//!
//! Nothing is shared with what is tested but the layout of the weights: finite differences of this are what a gradient
//! must be.

use punctual_core::math::exp;
use punctual_core::predict::net::{Cell, DESCRIPTOR, Layout, MIX, OUT, SIDE, Shape};

use crate::examples::{Example, Examples};
use crate::fit::loss::cost;

/// Weights in 64 bits, by layout.
pub(super) struct Definition<'a> {
    pub(super) shape: Shape,
    pub(super) layout: Layout,
    pub(super) weights: Vec<f64>,
    pub(super) pool: &'a Examples,
}

impl Definition<'_> {
    /// The summed cost of the examples.
    pub(super) fn cost(&self, chosen: &[u32]) -> f64 {
        chosen.iter().map(|&index| self.cost_of(&self.pool.examples[index as usize])).sum()
    }

    fn part(&self, range: &std::ops::Range<usize>) -> &[f64] {
        &self.weights[range.clone()]
    }

    fn layer(&self, width: usize, bias: &[f64], inputs: &[(&[f64], &[f64])]) -> Vec<f64> {
        let mut out = bias.to_vec();
        for (x, w) in inputs {
            assert_eq!(w.len(), x.len() * width);
            for (x, w) in x.iter().zip(w.chunks(width)) {
                out.iter_mut().zip(w).for_each(|(out, w)| *out += x * w);
            }
        }
        out
    }

    fn descriptor(&self, query: u32) -> Vec<f64> {
        let query = &self.pool.queries[query as usize];
        let inputs = wide(&query.features);
        let features = [(&inputs[..], self.part(&self.layout.features))];
        let mut d = self.layer(DESCRIPTOR, self.part(&self.layout.features_bias), &features);
        if let Some(row) = query.known {
            let embedding = &self.part(&self.layout.embedding)[row as usize * DESCRIPTOR..][..DESCRIPTOR];
            d.iter_mut().zip(embedding).for_each(|(d, e)| *d += e);
        }
        d
    }

    fn read(&self, cell: &Cell, target: u32, steps: std::ops::Range<u32>) -> Vec<f64> {
        let n = self.shape.hidden;
        let (mut h, mut c) = (vec![0.0; n], vec![0.0; n]);
        for step in steps {
            let row = wide(&self.pool.rows[step as usize]);
            let (a, b) = (self.descriptor(target), self.descriptor(self.pool.neighbours[step as usize]));
            let inputs = [
                (&row[..], self.part(&cell.pair)),
                (&a[..], self.part(&cell.target)),
                (&b[..], self.part(&cell.neighbour)),
                (&h[..], self.part(&cell.hidden)),
            ];
            let z = self.layer(4 * n, self.part(&cell.bias), &inputs);
            for j in 0..n {
                c[j] = sigmoid(z[n + j]) * c[j] + sigmoid(z[j]) * tanh(z[2 * n + j]);
                h[j] = sigmoid(z[3 * n + j]) * tanh(c[j]);
            }
        }
        h
    }

    fn cost_of(&self, example: &Example) -> f64 {
        let l = &self.layout;
        let before = self.read(&l.before, example.target, example.before.clone());
        let after = self.read(&l.after, example.target, example.after.clone());
        let (row, d) = (wide(&example.head), self.descriptor(example.target));
        let inputs = [(&row[..], self.part(&l.side_row)), (&d[..], self.part(&l.side_target))];
        let side = relu(self.layer(SIDE, self.part(&l.side_bias), &inputs));
        let inputs = [
            (&before[..], self.part(&l.mix_before)),
            (&after[..], self.part(&l.mix_after)),
            (&side[..], self.part(&l.mix_side)),
        ];
        let mix = relu(self.layer(MIX, self.part(&l.mix_bias), &inputs));
        let out = self.layer(OUT, self.part(&l.out_bias), &[(&mix[..], self.part(&l.out_mix))]);
        cost(out[0], out[1], f64::from(example.base), f64::from(example.label), example.bound).value
    }
}

fn wide(xs: &[f32]) -> Vec<f64> {
    xs.iter().map(|x| f64::from(*x)).collect()
}

fn relu(xs: Vec<f64>) -> Vec<f64> {
    xs.into_iter().map(|x| x.max(0.0)).collect()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + exp(-x))
}

fn tanh(x: f64) -> f64 {
    1.0 - 2.0 / (1.0 + exp(2.0 * x))
}
