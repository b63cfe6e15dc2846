//! One LSTM over the sequences of a chunk, forward with everything kept, and back through time.
//!
//! Forward is the arithmetic of [`Net::read`], in its order, so that training sees the very numbers of prediction.
//! Steps of all sequences lie one after the other by time; of each time, longest sequence first ([`Interleaved`]).
//!
//! Back (Hochreiter and Schmidhuber 1997, with forget gates and full slopes): from the last time to the first,
//! with dh and dc of the lanes that go on,
//!
//! ```text
//!   do = dh·tanh c    dc += dh·o·(1 − tanh²c)    df = dc·c₋₁   di = dc·g   dg = dc·i    dc₋₁ = dc·f
//!   dz = each by its activation's slope          dh₋₁ = dz·W_hᵀ
//! ```
//!
//! Weights get their slopes from all times at once, in three products.

use std::ops::Range;

use punctual_core::predict::net::{Descriptions, Interleaved, Net, PAIR, Pair, Side};

use super::gather::Steps;
use super::matrix::{add_to_weights, transposed};

/// What a forward pass leaves for the way back.
pub(super) struct Reading {
    side: Side,
    lanes: Interleaved,
    /// The steps of each time.
    times: Vec<Range<usize>>,
    pairs: Vec<Pair>,
    x: Vec<f32>,
    /// The gates' values, a row per step.
    gates: Vec<f32>,
    /// The state after each step.
    h: Vec<f32>,
    c: Vec<f32>,
    /// The last output of each sequence.
    pub(super) last: Vec<f32>,
}

impl Reading {
    /// Reads the sequences of one side.
    pub(super) fn forward(net: &Net, side: Side, steps: &Steps, descriptions: &Descriptions) -> Reading {
        let mut lanes = Interleaved::default();
        lanes.arrange(steps.sequences.len(), |s| steps.sequences[s].len());
        let mut reading = Reading {
            side,
            times: times(&lanes),
            lanes,
            pairs: Vec::with_capacity(steps.pairs.len()),
            x: Vec::with_capacity(steps.pairs.len() * PAIR),
            gates: Vec::new(),
            h: Vec::new(),
            c: Vec::new(),
            last: vec![0.0; steps.sequences.len() * net.shape().hidden],
        };
        reading.lay_out(steps, descriptions);
        reading.run(net);
        reading
    }

    /// Puts the steps in order of time and begins each gate with what its two queries add.
    fn lay_out(&mut self, steps: &Steps, descriptions: &Descriptions) {
        for (time, going) in self.lanes.lanes().iter().enumerate() {
            for &sequence in &self.lanes.order()[..*going as usize] {
                let at = steps.sequences[sequence as usize].start as usize + time;
                let pair = steps.pairs[at];
                self.pairs.push(pair);
                self.x.extend_from_slice(&steps.rows[at]);
                let target = descriptions.target(self.side, pair.target);
                let neighbour = descriptions.neighbour(self.side, pair.neighbour);
                self.gates.extend(target.iter().zip(neighbour).map(|(t, n)| t + n));
            }
        }
    }

    fn run(&mut self, net: &Net) {
        let (hidden, cell, kernel) = (net.shape().hidden, net.cell(self.side), net.kernel());
        let width = 4 * hidden;
        kernel.affine(&mut self.gates, &self.x, net.part(&cell.pair), PAIR, width);
        let first = self.times.first().map_or(0, Range::len) * hidden;
        let (mut h, mut c) = (vec![0.0; first], vec![0.0; first]);
        for time in &self.times {
            let going = time.len() * hidden;
            let z = &mut self.gates[time.start * width..time.end * width];
            kernel.affine(z, &h[..going], net.part(&cell.hidden), hidden, width);
            kernel.gates(z, &mut c[..going], &mut h[..going], hidden);
            self.h.extend_from_slice(&h[..going]);
            self.c.extend_from_slice(&c[..going]);
        }
        for (lane, h) in h.chunks_exact(hidden).enumerate() {
            let to = self.lanes.order()[lane] as usize * hidden;
            self.last[to..to + hidden].copy_from_slice(h);
        }
    }

    /// From the slopes of the last outputs to those of the weights (added to `by_weight`, the whole flat vector) and of
    /// the queries' projections (added to `by_target` and `by_neighbour`, 4·hidden a slot).
    pub(super) fn backward(
        &self,
        net: &Net,
        by_last: &[f32],
        by_weight: &mut [f32],
        by_target: &mut [f32],
        by_neighbour: &mut [f32],
    ) {
        let width = 4 * net.shape().hidden;
        let dz = self.through_time(net, by_last);
        let (cell, kernel, steps) = (net.cell(self.side), net.kernel(), self.pairs.len());
        for (pair, dz) in self.pairs.iter().zip(dz.chunks_exact(width)) {
            add(&mut by_target[pair.target as usize * width..][..width], dz);
            add(&mut by_neighbour[pair.neighbour as usize * width..][..width], dz);
        }
        add_to_weights(kernel, &mut by_weight[cell.pair.clone()], &self.x, &dz, steps);
        let first = self.times.first().map_or(0, Range::len);
        let later = steps - first;
        add_to_weights(kernel, &mut by_weight[cell.hidden.clone()], &self.h_before(), &dz[first * width..], later);
    }

    /// The output before each step but the first of each sequence.
    fn h_before(&self) -> Vec<f32> {
        let hidden = self.h.len().checked_div(self.pairs.len()).unwrap_or(0);
        let outputs = self.times.windows(2).flat_map(|pair| {
            let from = pair[0].start * hidden;
            &self.h[from..from + pair[1].len() * hidden]
        });
        outputs.copied().collect()
    }

    /// The slopes of the gates' inputs, a row per step.
    fn through_time(&self, net: &Net, by_last: &[f32]) -> Vec<f32> {
        let (hidden, kernel) = (net.shape().hidden, net.kernel());
        let width = 4 * hidden;
        let back = transposed(net.part(&net.cell(self.side).hidden), hidden);
        let mut tanh_c = self.c.clone();
        kernel.tanh(&mut tanh_c);
        let none = vec![0.0; self.times.first().map_or(0, Range::len) * hidden];
        let mut dz = vec![0.0; self.gates.len()];
        let (mut dh, mut dc) = (Vec::new(), Vec::new());
        for (time, steps) in self.times.iter().enumerate().rev() {
            // Sequences that end at this time bring in the slopes of their outputs.
            for lane in dc.len() / hidden..steps.len() {
                let sequence = self.lanes.order()[lane] as usize;
                dh.extend_from_slice(&by_last[sequence * hidden..(sequence + 1) * hidden]);
            }
            dc.resize(steps.len() * hidden, 0.0);
            let earlier = match time {
                0 => &none[..],
                _ => &self.c[self.times[time - 1].start * hidden..],
            };
            for lane in 0..steps.len() {
                let (step, at) = (steps.start + lane, lane * hidden..(lane + 1) * hidden);
                cell_back(
                    &self.gates[step * width..(step + 1) * width],
                    &tanh_c[step * hidden..(step + 1) * hidden],
                    &earlier[at.clone()],
                    &dh[at.clone()],
                    &mut dc[at],
                    &mut dz[step * width..(step + 1) * width],
                );
            }
            dh.fill(0.0);
            kernel.affine(&mut dh, &dz[steps.start * width..steps.end * width], &back, width, hidden);
        }
        dz
    }
}

/// The steps of each time, as ranges of rows.
fn times(lanes: &Interleaved) -> Vec<Range<usize>> {
    let mut end = 0;
    let range = |going: &u32| {
        end += *going as usize;
        end - *going as usize..end
    };
    lanes.lanes().iter().map(range).collect()
}

fn add(to: &mut [f32], what: &[f32]) {
    to.iter_mut().zip(what).for_each(|(to, what)| *to += what);
}

/// One cell back: `dc` comes in as the slope of the state and leaves as that of the state before.
fn cell_back(gates: &[f32], tanh_c: &[f32], c_before: &[f32], dh: &[f32], dc: &mut [f32], dz: &mut [f32]) {
    let n = dc.len();
    let (i, rest) = gates.split_at(n);
    let (f, rest) = rest.split_at(n);
    let (g, o) = rest.split_at(n);
    let (dzi, rest) = dz.split_at_mut(n);
    let (dzf, rest) = rest.split_at_mut(n);
    let (dzg, dzo) = rest.split_at_mut(n);
    let (tanh_c, c_before, dh, o) = (&tanh_c[..n], &c_before[..n], &dh[..n], &o[..n]);
    for j in 0..n {
        let d = dc[j] + dh[j] * o[j] * (1.0 - tanh_c[j] * tanh_c[j]);
        dzo[j] = dh[j] * tanh_c[j] * (o[j] * (1.0 - o[j]));
        dzi[j] = d * g[j] * (i[j] * (1.0 - i[j]));
        dzg[j] = d * i[j] * (1.0 - g[j] * g[j]);
        dzf[j] = d * c_before[j] * (f[j] * (1.0 - f[j]));
        dc[j] = d * f[j];
    }
}
