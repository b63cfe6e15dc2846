//! Training of the network: examples in, weights out.
//!
//! ```text
//!   examples ─▶ batches ─▶ chunks ─▶ gather ─▶ forward ─▶ cost ─▶ back ─▶ sum ─▶ AdamW ─▶ … ─▶ fold ─▶ Net
//!             (by length)  (fixed)   (slots)   (kernel)                 (in order)        (normalisation)
//! ```
//!
//! Forward is the arithmetic that predicts; back is ours too, checked against finite differences of a definition in 64
//! bits. A batch is cut into chunks of fixed size whose gradients are summed in order, so the weights depend on the
//! seed and the examples alone, not on how many threads there are.

mod calibrate;
mod gather;
mod gradient;
mod head;
mod loss;
mod lstm;
mod matrix;
mod normal;
mod optimiser;
mod predict;
mod start;
mod training;

#[cfg(test)]
mod tests;

pub use calibrate::{Outcome, ratios, spread_scale};
pub use loss::UPPER;
pub use predict::{Score, outcomes, score};
pub use training::{Epoch, FitError, Go, Settings, State, Training};
