//! From rows to offsets: describe, read, step, head.
//!
//! Nothing here allocates once its buffers have grown to their size; batches go by in pieces whose intermediate
//! numbers stay in the first-level cache.

use super::{Cell, DESCRIPTOR, Descriptions, FEATURES, HEAD, Interleaved, MIX, Net, OUT, PAIR, SIDE, States};
use crate::math;

/// Rows that are computed together: 32 × 4·32 numbers are 16 KB, a third of a first-level cache.
const PIECE: usize = 32;
/// Offsets and t beyond this say nothing more: e²⁰ is nine orders of magnitude.
const OUT_CLAMP: f32 = 20.0;

/// Which of the two LSTMs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Over those that ran when the target arrived.
    Before = 0,
    /// Over those that arrived later.
    After = 1,
}

/// Whom a step is about: slots of [`Descriptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The query whose latency is predicted.
    pub target: u32,
    /// The query that it meets; the target itself at the pinch.
    pub neighbour: u32,
}

/// What the network says of one query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Output {
    /// What is added to the base: ln of a ratio.
    pub offset: f32,
    /// How far above the median the upper quantile lies, before scaling: softplus(t), above 0.
    pub spread: f32,
}

impl Output {
    /// What a network of zeros says: nothing is added, and the spread is softplus(0).
    pub const NOTHING: Output = Output { offset: 0.0, spread: std::f32::consts::LN_2 };

    /// ln of the median, from the base (ln seconds) and a correction learnt since.
    pub fn median(self, base: f64, correction: f64) -> f64 {
        base + f64::from(self.offset) + correction
    }

    /// ln of the upper quantile, above that of the median.
    pub fn upper(self, median: f64, spread_scale: f64) -> f64 {
        median + spread_scale * f64::from(self.spread)
    }
}

/// Room for intermediate numbers, kept by the caller so that evaluation need not allocate.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    lanes: Interleaved,
    z: Vec<f32>,
    x: Vec<f32>,
    h: Vec<f32>,
    c: Vec<f32>,
}

impl Net {
    /// Describes queries into the slots from `first` on; there must be as many. A query that is not known, or whose row
    /// the table does not have, is described by its features alone.
    pub fn describe(&self, known: &[Option<u32>], features: &[[f32; FEATURES]], into: &mut Descriptions, first: usize) {
        assert_eq!(known.len(), features.len(), "a row of features for each query");
        let (layout, slots) = (self.layout(), first..first + known.len());
        let descriptors = &mut into.descriptors[slots.start * DESCRIPTOR..slots.end * DESCRIPTOR];
        let table = self.part(&layout.embedding);
        for (descriptor, known) in descriptors.chunks_exact_mut(DESCRIPTOR).zip(known) {
            descriptor.copy_from_slice(self.part(&layout.features_bias));
            let row = known.and_then(|row| table.chunks_exact(DESCRIPTOR).nth(row as usize)).unwrap_or(&[]);
            for (d, e) in descriptor.iter_mut().zip(row) {
                *d += e;
            }
        }
        let weights = self.part(&layout.features);
        self.kernel().affine(descriptors, features.as_flattened(), weights, FEATURES, DESCRIPTOR);
        let gates = 4 * self.shape().hidden;
        for (which, projection) in into.projections.iter_mut().enumerate() {
            let cell = self.cell(if which < 2 { Side::Before } else { Side::After });
            let as_target = which % 2 == 0;
            let out = &mut projection[slots.start * gates..slots.end * gates];
            for row in out.chunks_exact_mut(gates) {
                if as_target {
                    row.copy_from_slice(self.part(&cell.bias));
                } else {
                    row.fill(0.0);
                }
            }
            let weights = self.part(if as_target { &cell.target } else { &cell.neighbour });
            self.kernel().affine(out, descriptors, weights, DESCRIPTOR, gates);
        }
    }

    /// Reads whole sequences, each from the state before any step, all at once.
    ///
    /// A sequence is a range of `pairs` and `rows`; the last state of sequence s goes into row s of `into`. An empty
    /// sequence leaves a state of zeros.
    pub fn read(
        &self,
        side: Side,
        sequences: &[std::ops::Range<u32>],
        (pairs, rows): (&[Pair], &[[f32; PAIR]]),
        descriptions: &Descriptions,
        into: &mut States,
        scratch: &mut Scratch,
    ) {
        let hidden = self.shape().hidden;
        let Scratch { lanes, z, x, h, c } = scratch;
        lanes.arrange(sequences.len(), |s| sequences[s].len());
        for states in [&mut *h, &mut *c] {
            states.clear();
            states.resize(sequences.len() * hidden, 0.0);
        }
        for (step, &going) in lanes.lanes().iter().enumerate() {
            let going = going as usize;
            x.clear();
            z.clear();
            for &sequence in &lanes.order()[..going] {
                let at = sequences[sequence as usize].start as usize + step;
                x.extend_from_slice(&rows[at]);
                self.meet(side, pairs[at], descriptions, z);
            }
            self.advance(self.cell(side), z, x, &mut h[..going * hidden], &mut c[..going * hidden]);
        }
        into.resize(sequences.len());
        for (lane, &sequence) in lanes.order().iter().enumerate() {
            let (from, to) = (lane * hidden, sequence as usize * hidden);
            into.h[to..to + hidden].copy_from_slice(&h[from..from + hidden]);
            into.c[to..to + hidden].copy_from_slice(&c[from..from + hidden]);
        }
    }

    /// Takes one step for each row of `states`: `pairs[i]` and `rows[i]` go into row i.
    pub fn step(
        &self,
        side: Side,
        (pairs, rows): (&[Pair], &[[f32; PAIR]]),
        descriptions: &Descriptions,
        states: &mut States,
        scratch: &mut Scratch,
    ) {
        assert_eq!(pairs.len(), rows.len(), "a row for each pair");
        assert_eq!(pairs.len(), states.rows(), "a state for each pair");
        let piece = PIECE * self.shape().hidden;
        let states = states.h.chunks_mut(piece).zip(states.c.chunks_mut(piece));
        for ((pairs, rows), (h, c)) in pairs.chunks(PIECE).zip(rows.chunks(PIECE)).zip(states) {
            scratch.z.clear();
            for pair in pairs {
                self.meet(side, *pair, descriptions, &mut scratch.z);
            }
            self.advance(self.cell(side), &mut scratch.z, rows.as_flattened(), h, c);
        }
    }

    /// What is said of each target, from row i of the head's rows and of both states.
    ///
    /// Outputs are finite whatever went in: a number that is none counts as an offset of zero and as the widest spread.
    pub fn head(
        &self,
        (targets, rows): (&[u32], &[[f32; HEAD]]),
        descriptions: &Descriptions,
        (before, after): (&States, &States),
        scratch: &mut Scratch,
        into: &mut Vec<Output>,
    ) {
        assert_eq!(targets.len(), rows.len(), "a row for each target");
        assert_eq!(targets.len(), before.rows(), "a before-state for each target");
        assert_eq!(targets.len(), after.rows(), "an after-state for each target");
        into.clear();
        let piece = PIECE * self.shape().hidden;
        let states = before.h.chunks(piece).zip(after.h.chunks(piece));
        for ((targets, rows), states) in targets.chunks(PIECE).zip(rows.chunks(PIECE)).zip(states) {
            self.head_of_piece((targets, rows), descriptions, states, scratch, into);
        }
    }

    /// Adds T(target) + N(neighbour) to the end of `z`.
    fn meet(&self, side: Side, pair: Pair, descriptions: &Descriptions, z: &mut Vec<f32>) {
        let (target, neighbour) =
            (descriptions.target(side, pair.target), descriptions.neighbour(side, pair.neighbour));
        z.extend(target.iter().zip(neighbour).map(|(t, n)| t + n));
    }

    /// One step of as many rows as there are in `h` and `c`; `z` holds T + N of each.
    fn advance(&self, cell: &Cell, z: &mut [f32], x: &[f32], h: &mut [f32], c: &mut [f32]) {
        let hidden = self.shape().hidden;
        self.kernel().affine(z, x, self.part(&cell.pair), PAIR, 4 * hidden);
        self.kernel().affine(z, h, self.part(&cell.hidden), hidden, 4 * hidden);
        self.kernel().gates(z, c, h, hidden);
    }

    fn head_of_piece(
        &self,
        (targets, rows): (&[u32], &[[f32; HEAD]]),
        descriptions: &Descriptions,
        (before, after): (&[f32], &[f32]),
        scratch: &mut Scratch,
        into: &mut Vec<Output>,
    ) {
        let (layout, kernel, hidden) = (self.layout(), self.kernel(), self.shape().hidden);
        let Scratch { z, x, h, c, .. } = scratch;
        x.clear();
        targets.iter().for_each(|target| x.extend_from_slice(descriptions.descriptor(*target)));
        let side = repeat(h, self.part(&layout.side_bias), targets.len());
        kernel.affine(side, rows.as_flattened(), self.part(&layout.side_row), HEAD, SIDE);
        kernel.affine(side, x, self.part(&layout.side_target), DESCRIPTOR, SIDE);
        relu(side);
        let mix = repeat(z, self.part(&layout.mix_bias), targets.len());
        kernel.affine(mix, before, self.part(&layout.mix_before), hidden, MIX);
        kernel.affine(mix, after, self.part(&layout.mix_after), hidden, MIX);
        kernel.affine(mix, side, self.part(&layout.mix_side), SIDE, MIX);
        relu(mix);
        let out = repeat(c, self.part(&layout.out_bias), targets.len());
        kernel.affine(out, mix, self.part(&layout.out_mix), MIX, OUT);
        into.extend(out.chunks_exact(OUT).map(|out| output(out[0], out[1])));
    }
}

/// `rows` copies of a bias, in a buffer that is there.
fn repeat<'a>(buffer: &'a mut Vec<f32>, bias: &[f32], rows: usize) -> &'a mut [f32] {
    buffer.clear();
    for _ in 0..rows {
        buffer.extend_from_slice(bias);
    }
    buffer
}

/// What is below zero, or is not a number, becomes zero.
fn relu(xs: &mut [f32]) {
    for x in xs {
        *x = if *x > 0.0 { *x } else { 0.0 };
    }
}

fn output(offset: f32, t: f32) -> Output {
    let offset = if offset.is_nan() { 0.0 } else { offset.clamp(-OUT_CLAMP, OUT_CLAMP) };
    let t = if t.is_nan() { OUT_CLAMP } else { t.clamp(-OUT_CLAMP, OUT_CLAMP) };
    Output { offset, spread: math::ln(1.0 + math::exp(f64::from(t))) as f32 }
}
