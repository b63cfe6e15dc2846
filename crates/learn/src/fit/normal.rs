//! Inputs on one scale while training; the scale folded into the weights afterwards.
//!
//! Features, pair rows and head rows enter the network linearly, so (x − μ)/σ·W is x·(W/σ) − (μ/σ)·W: what was trained
//! on normalised inputs reads raw ones after its first layers are divided by σ and their biases lowered.
//!
//! Training says nothing of what a column does beyond the values that it saw, and the smaller σ, the further away in σ
//! anything else is: a model of one size, or of one query, would answer with its first random weights times thousands
//! to another. So a column that never changes is not read, and one that hardly does counts as if it did a little.

use std::ops::Range;

use punctual_core::predict::net::{Cell, FEATURES, HEAD, Net, PAIR};

use crate::examples::Examples;

/// A column whose standard deviation is below this does not change.
const STILL: f64 = 1e-6;

/// The least that a standard deviation counts. Columns are logarithms and flags: it is a tenth of a factor of e, and a
/// flag that one example in a hundred has.
const LEAST: f64 = 0.1;

/// Mean and 1/σ of each column of a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Columns<const N: usize> {
    mean: [f32; N],
    per: [f32; N],
}

impl<const N: usize> Columns<N> {
    /// Of these rows, in the order given.
    fn of<'a>(rows: impl Iterator<Item = &'a [f32; N]>) -> Columns<N> {
        // Welford's recurrence: one pass, and large means cost no digits.
        let (mut n, mut mean, mut squares) = (0.0, [0.0f64; N], [0.0f64; N]);
        for row in rows {
            n += 1.0;
            for (i, x) in row.iter().enumerate() {
                let off = f64::from(*x) - mean[i];
                mean[i] += off / n;
                squares[i] += off * (f64::from(*x) - mean[i]);
            }
        }
        let deviation = squares.map(|s| (s / f64::max(n, 1.0)).sqrt());
        let per = deviation.map(|d| if d < STILL { 0.0 } else { 1.0 / d.max(LEAST) });
        Columns { mean: mean.map(|m| m as f32), per: per.map(|p| p as f32) }
    }

    /// A row on the common scale.
    pub(super) fn apply(&self, row: &[f32; N]) -> [f32; N] {
        std::array::from_fn(|i| (row[i] - self.mean[i]) * self.per[i])
    }

    /// Makes the matrix (N × the bias's width) and the bias that lie at these places of `weights` read raw rows.
    fn fold(&self, weights: &mut [f32], matrix: &Range<usize>, bias: &Range<usize>) {
        let mut lowered: Vec<f64> = weights[bias.clone()].iter().map(|b| f64::from(*b)).collect();
        for (i, row) in weights[matrix.clone()].chunks_exact_mut(lowered.len()).enumerate() {
            for (weight, bias) in row.iter_mut().zip(&mut lowered) {
                let scaled = f64::from(*weight) * f64::from(self.per[i]);
                *bias -= scaled * f64::from(self.mean[i]);
                *weight = scaled as f32;
            }
        }
        weights[bias.clone()].iter_mut().zip(lowered).for_each(|(bias, lowered)| *bias = lowered as f32);
    }
}

/// The scales of all inputs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Normal {
    pub(super) features: Columns<FEATURES>,
    pub(super) pair: Columns<PAIR>,
    pub(super) head: Columns<HEAD>,
}

impl Normal {
    /// As the examples `chosen` show them, each as often as it is used.
    pub(super) fn of(pool: &Examples, chosen: &[u32]) -> Normal {
        let examples = || chosen.iter().map(|&i| &pool.examples[i as usize]);
        let steps = examples().flat_map(|e| e.before.clone().chain(e.after.clone()));
        Normal {
            features: Columns::of(examples().map(|e| &pool.queries[e.target as usize].features)),
            pair: Columns::of(steps.map(|step| &pool.rows[step as usize])),
            head: Columns::of(examples().map(|e| &e.head)),
        }
    }

    /// The weights of a network trained on normalised inputs, made to read raw ones.
    pub(super) fn fold(&self, net: &Net) -> Vec<f32> {
        let (layout, mut weights) = (net.layout(), net.weights().to_vec());
        self.features.fold(&mut weights, &layout.features, &layout.features_bias);
        for Cell { bias, pair, .. } in [&layout.before, &layout.after] {
            self.pair.fold(&mut weights, pair, bias);
        }
        self.head.fold(&mut weights, &layout.side_row, &layout.side_bias);
        weights
    }
}
