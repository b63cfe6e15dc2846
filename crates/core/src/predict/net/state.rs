//! What is kept between predictions, one array per quantity, in buffers that the caller owns.

use std::cmp::Reverse;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{DESCRIPTOR, Shape, Side};

/// What the network knows of each query, by slot: its descriptor and the projections that steps add.
///
/// 16·hidden + [`DESCRIPTOR`] numbers a query: 2 KB at hidden 32.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Descriptions {
    gates: usize,
    pub(super) descriptors: Vec<f32>,
    /// Before as target, before as neighbour, after as target, after as neighbour.
    pub(super) projections: [Vec<f32>; 4],
}

impl Descriptions {
    /// No slots.
    pub fn new(shape: Shape) -> Descriptions {
        Descriptions { gates: 4 * shape.hidden, descriptors: Vec::new(), projections: Default::default() }
    }

    /// How many slots there are.
    pub fn slots(&self) -> usize {
        self.descriptors.len() / DESCRIPTOR
    }

    /// Makes the number of slots `slots`; new ones hold zeros.
    pub fn resize(&mut self, slots: usize) {
        self.descriptors.resize(slots * DESCRIPTOR, 0.0);
        for projection in &mut self.projections {
            projection.resize(slots * self.gates, 0.0);
        }
    }

    /// d of the query in a slot.
    pub fn descriptor(&self, slot: u32) -> &[f32] {
        let at = slot as usize * DESCRIPTOR;
        &self.descriptors[at..at + DESCRIPTOR]
    }

    /// What the query in a slot adds to every step about it: bias + d·W.
    pub fn target(&self, side: Side, slot: u32) -> &[f32] {
        self.projection(2 * side as usize, slot)
    }

    /// What the query in a slot adds to every step in which it is the neighbour: d·W.
    pub fn neighbour(&self, side: Side, slot: u32) -> &[f32] {
        self.projection(2 * side as usize + 1, slot)
    }

    fn projection(&self, which: usize, slot: u32) -> &[f32] {
        let at = slot as usize * self.gates;
        &self.projections[which][at..at + self.gates]
    }
}

/// States (h, c) of an LSTM, a row each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct States {
    width: usize,
    pub(super) h: Vec<f32>,
    pub(super) c: Vec<f32>,
}

impl States {
    /// No rows, of states as wide as `shape` says.
    pub fn new(shape: Shape) -> States {
        States { width: shape.hidden, h: Vec::new(), c: Vec::new() }
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.h.len() / self.width
    }

    /// Makes the number of rows `rows`; new ones are zero, the state before any step.
    pub fn resize(&mut self, rows: usize) {
        self.h.resize(rows * self.width, 0.0);
        self.c.resize(rows * self.width, 0.0);
    }

    /// The output h of a row.
    pub fn h(&self, row: usize) -> &[f32] {
        &self.h[self.at(row)]
    }

    /// Sets a row to zero, the state before any step.
    pub fn reset(&mut self, row: usize) {
        let at = self.at(row);
        self.h[at.clone()].fill(0.0);
        self.c[at].fill(0.0);
    }

    /// Copies a row of others over a row of these.
    pub fn copy(&mut self, row: usize, from: &States, other: usize) {
        let (to, from_row) = (self.at(row), from.at(other));
        self.h[to.clone()].copy_from_slice(&from.h[from_row.clone()]);
        self.c[to].copy_from_slice(&from.c[from_row]);
    }

    /// Makes these the given rows of others, in the order given.
    pub fn gather(&mut self, from: &States, rows: impl ExactSizeIterator<Item = usize>) {
        self.resize(rows.len());
        for (row, other) in rows.enumerate() {
            self.copy(row, from, other);
        }
    }

    /// Removes a row; those behind it move up.
    pub fn remove(&mut self, row: usize) {
        let at = self.at(row);
        self.h.drain(at.clone());
        self.c.drain(at);
    }

    fn at(&self, row: usize) -> Range<usize> {
        row * self.width..(row + 1) * self.width
    }
}

/// Sequences of different lengths side by side, longest first, so that those that still go on at any step are the
/// first few lanes.
///
/// ```text
///   lane 0: a b c d      steps 0..4, lanes 3, 2, 2, 1
///   lane 1: e f g
///   lane 2: h
/// ```
#[derive(Clone, Debug, Default)]
pub struct Interleaved {
    /// The sequence of each lane.
    order: Vec<u32>,
    /// How many lanes go on at each step.
    lanes: Vec<u32>,
}

impl Interleaved {
    /// Arranges `sequences` sequences by their lengths, in the memory that is there.
    pub fn arrange(&mut self, sequences: usize, length: impl Fn(usize) -> usize) {
        self.order.clear();
        self.order.extend(0..sequences as u32);
        // Equal lengths keep their order: what comes out depends on nothing but the lengths.
        self.order.sort_unstable_by_key(|&sequence| (Reverse(length(sequence as usize)), sequence));
        self.lanes.clear();
        for (lane, &sequence) in self.order.iter().enumerate().rev() {
            self.lanes.resize(length(sequence as usize).max(self.lanes.len()), lane as u32 + 1);
        }
    }

    /// The sequence of each lane.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// How many lanes go on at each step: never more than at the step before.
    pub fn lanes(&self) -> &[u32] {
        &self.lanes
    }
}
