//! The network that reads a query's neighbours one by one.
//!
//! ```text
//!   f(q), known ─▶ d(q) ─┬─▶ before: neighbours that ran when a arrived, oldest first, at last a itself ─▶ h_before
//!                        ├─▶ after:  a itself, then each later arrival, oldest first ──────────────────▶ h_after
//!   head row, d(a) ──────┴─▶ s = relu(·) ─────────────────────────┬────────────────────────────────────────┘
//!                            m = relu(h_before, h_after, s) ◀─────┘ ─▶ offset, t
//! ```
//!
//! Two LSTMs, as in Iconq+ (AutoSLO, section 4). The input of a step about target a and neighbour b is
//! [pair row, d(a), d(b)]. It enters linearly, so what depends on one query alone is projected once per query
//! ([`Descriptions`]) and a step only adds: z = T(a) + N(b), then the pair row, then h, each input in order, where
//! T(a) = bias + d(a)·W and N(b) = d(b)·W. This order is the same everywhere, and the arithmetic is
//! [`kernel`](super::kernel)'s, so a prediction has the same bits live, replayed, and in training.
//!
//! The before-output of a running query never changes; its after-state takes one step per later arrival. So an
//! arrival costs one before-pass for the new query and one step for those that run, whatever came before.
//!
//! All weights lie in one flat vector, in the order of [`Layout`]: training, optimiser and model file share it.
//!
//! Not here: what the numbers of a row mean (features, scene), how long a sequence may be, and the base that the offset
//! is added to.

mod evaluate;
mod state;

#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;

pub use evaluate::{Output, Pair, Scratch, Side};
pub use state::{Descriptions, Interleaved, States};

pub use super::features::FEATURES;
use super::kernel::Kernel;
pub use super::scene::{HEAD, PAIR};

/// Numbers of a descriptor d(q).
pub const DESCRIPTOR: usize = 8;
/// Width of the head's layer that reads the head row.
pub const SIDE: usize = 32;
/// Width of the head's layer that brings everything together.
pub const MIX: usize = 64;
/// What comes out: the offset and t.
pub const OUT: usize = 2;

/// The widest state that is accepted: 0.5 MB of recurrent weights, far beyond what the budget of a decision allows.
pub const WIDEST: usize = 256;
/// The most known fingerprints: 2 MB of descriptors, of the 5 MB that a model may take.
pub const MOST_KNOWN: usize = 1 << 16;

/// The sizes that a network may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Known fingerprints: rows of the embedding table.
    pub known: usize,
    /// Width of each LSTM's state: a multiple of 16, at most [`WIDEST`].
    pub hidden: usize,
}

/// Where the weights of one LSTM lie. Matrices are inputs × 4·hidden, row by row; the gates stand in the order i, f, g, o.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// 4·hidden.
    pub bias: Range<usize>,
    /// From the target's descriptor.
    pub target: Range<usize>,
    /// From the neighbour's descriptor.
    pub neighbour: Range<usize>,
    /// From the pair row.
    pub pair: Range<usize>,
    /// From the state.
    pub hidden: Range<usize>,
}

/// Where each part lies in the flat vector of weights. Matrices are inputs × outputs, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// known × [`DESCRIPTOR`].
    pub embedding: Range<usize>,
    /// [`FEATURES`] × [`DESCRIPTOR`].
    pub features: Range<usize>,
    /// [`DESCRIPTOR`].
    pub features_bias: Range<usize>,
    /// The LSTM over those that were there.
    pub before: Cell,
    /// The LSTM over those that came later.
    pub after: Cell,
    /// [`SIDE`].
    pub side_bias: Range<usize>,
    /// [`HEAD`] × [`SIDE`].
    pub side_row: Range<usize>,
    /// [`DESCRIPTOR`] × [`SIDE`].
    pub side_target: Range<usize>,
    /// [`MIX`].
    pub mix_bias: Range<usize>,
    /// hidden × [`MIX`].
    pub mix_before: Range<usize>,
    /// hidden × [`MIX`].
    pub mix_after: Range<usize>,
    /// [`SIDE`] × [`MIX`].
    pub mix_side: Range<usize>,
    /// [`OUT`].
    pub out_bias: Range<usize>,
    /// [`MIX`] × [`OUT`].
    pub out_mix: Range<usize>,
}

impl Layout {
    /// The layout of a shape.
    pub fn of(shape: Shape) -> Layout {
        let mut end = 0;
        let mut take = |n: usize| {
            end += n;
            end - n..end
        };
        let gates = 4 * shape.hidden;
        let embedding = take(shape.known * DESCRIPTOR);
        let features = take(FEATURES * DESCRIPTOR);
        let features_bias = take(DESCRIPTOR);
        let mut cell = || Cell {
            bias: take(gates),
            target: take(DESCRIPTOR * gates),
            neighbour: take(DESCRIPTOR * gates),
            pair: take(PAIR * gates),
            hidden: take(shape.hidden * gates),
        };
        let (before, after) = (cell(), cell());
        Layout {
            embedding,
            features,
            features_bias,
            before,
            after,
            side_bias: take(SIDE),
            side_row: take(HEAD * SIDE),
            side_target: take(DESCRIPTOR * SIDE),
            mix_bias: take(MIX),
            mix_before: take(shape.hidden * MIX),
            mix_after: take(shape.hidden * MIX),
            mix_side: take(SIDE * MIX),
            out_bias: take(OUT),
            out_mix: take(MIX * OUT),
        }
    }

    /// How many weights there are.
    pub fn total(&self) -> usize {
        self.out_mix.end
    }

    /// Every part with its name, in order, without gaps.
    pub fn parts(&self) -> [(&'static str, Range<usize>); 21] {
        let (b, a) = (&self.before, &self.after);
        [
            ("embedding", self.embedding.clone()),
            ("features", self.features.clone()),
            ("features_bias", self.features_bias.clone()),
            ("before.bias", b.bias.clone()),
            ("before.target", b.target.clone()),
            ("before.neighbour", b.neighbour.clone()),
            ("before.pair", b.pair.clone()),
            ("before.hidden", b.hidden.clone()),
            ("after.bias", a.bias.clone()),
            ("after.target", a.target.clone()),
            ("after.neighbour", a.neighbour.clone()),
            ("after.pair", a.pair.clone()),
            ("after.hidden", a.hidden.clone()),
            ("side_bias", self.side_bias.clone()),
            ("side_row", self.side_row.clone()),
            ("side_target", self.side_target.clone()),
            ("mix_bias", self.mix_bias.clone()),
            ("mix_before", self.mix_before.clone()),
            ("mix_after", self.mix_after.clone()),
            ("mix_side", self.mix_side.clone()),
            ("out", self.out_bias.start..self.out_mix.end),
        ]
    }
}

/// Why a network was not accepted.
#[derive(Clone, Debug, PartialEq)]
pub enum NetError {
    /// The width of the states is not one that evaluation is made for.
    Hidden {
        /// The width asked for.
        hidden: usize,
    },
    /// More known fingerprints than a model may have.
    Known {
        /// The number asked for.
        known: usize,
    },
    /// The shape needs another number of weights.
    Count {
        /// How many were given.
        given: usize,
        /// How many the shape needs.
        needed: usize,
    },
    /// A weight is infinite or not a number.
    NotFinite {
        /// Its place in the flat vector.
        at: usize,
    },
}

impl fmt::Display for NetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NetError::Hidden { hidden } => {
                write!(f, "a network of state width {hidden}: it must be a multiple of 16 from 16 to {WIDEST}")
            }
            NetError::Known { known } => {
                write!(f, "a network of {known} known fingerprints: at most {MOST_KNOWN} are accepted")
            }
            NetError::Count { given, needed } => write!(f, "a network of {given} weights: its shape needs {needed}"),
            NetError::NotFinite { at } => write!(f, "weight {at} of a network is not a finite number"),
        }
    }
}

impl std::error::Error for NetError {}

/// A network: its shape and its weights.
#[derive(Clone, Debug)]
pub struct Net {
    shape: Shape,
    layout: Layout,
    weights: Vec<f32>,
    kernel: Kernel,
}

impl Net {
    /// A network of these weights, in the order of [`Layout`].
    pub fn new(shape: Shape, weights: Vec<f32>) -> Result<Net, NetError> {
        let Shape { known, hidden } = shape;
        if hidden == 0 || hidden > WIDEST || !hidden.is_multiple_of(16) {
            return Err(NetError::Hidden { hidden });
        }
        if known > MOST_KNOWN {
            return Err(NetError::Known { known });
        }
        let layout = Layout::of(shape);
        if weights.len() != layout.total() {
            return Err(NetError::Count { given: weights.len(), needed: layout.total() });
        }
        if let Some(at) = weights.iter().position(|w| !w.is_finite()) {
            return Err(NetError::NotFinite { at });
        }
        Ok(Net { shape, layout, weights, kernel: Kernel::best() })
    }

    /// The same network on another path of the kernel: the same bits at another speed.
    pub fn on(self, kernel: Kernel) -> Net {
        Net { kernel, ..self }
    }

    /// Its sizes.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Where its weights lie.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Its weights, in the order of [`Layout`].
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// Its weights, for training. What training leaves goes through [`Net::new`] again before it is used.
    pub fn weights_mut(&mut self) -> &mut [f32] {
        &mut self.weights
    }

    /// The kernel that it computes with.
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// The weights of one part.
    pub fn part(&self, range: &Range<usize>) -> &[f32] {
        &self.weights[range.clone()]
    }

    /// Where the weights of one LSTM lie.
    pub fn cell(&self, side: Side) -> &Cell {
        match side {
            Side::Before => &self.layout.before,
            Side::After => &self.layout.after,
        }
    }
}
