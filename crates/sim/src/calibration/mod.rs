//! The simulated warehouse against measurements: what it says, and how its table is fitted to them.
//!
//! ```text
//!   runs, isolated ──▶ evidence ──▶ profiles of the templates ◀── a handful of parameters ◀──┐
//!                                            │                                              search
//!                                            └──▶ the same arrivals, simulated ──▶ misfit ──┘
//! ```
//!
//! Latencies are looked at to fit, never to simulate: [`compare()`] takes a table, the arrivals and nothing else that was
//! measured. Fitting knows no run: what is fitted is a work profile for each template, from how it fared
//! [alone](mod@alone), and nine parameters that are the same for all templates, sizes and loads.

pub mod alone;
pub mod compare;
mod evidence;
mod profiles;
mod search;

use punctual_core::time::{Span, Time};

use crate::world::warehouse::Template;

pub use compare::{Comparison, Side, compare, within};
pub use search::{Knobs, Options, calibrate};

/// A query that has not ended after this long is given up, as in the measured runs.
pub const TIMEOUT: Span = Span::from_secs(3_600);

/// What was measured on clusters of several sizes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Whole runs.
    pub runs: Vec<MeasuredRun>,
    /// Executions without any other beside them.
    pub isolated: Vec<Cell>,
}

/// One run: a stream of queries on one cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredRun {
    /// What it is called.
    pub run: String,
    /// What the stream is called.
    pub workload: String,
    /// The cluster's size, in units.
    pub size: u32,
    /// The queries, in the order of their arrival.
    pub queries: Vec<MeasuredQuery>,
}

/// One query of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredQuery {
    /// When it came, since the start of the run.
    pub arrival: Time,
    /// What it was.
    pub template: Template,
    /// How long it took, in seconds; [`TIMEOUT`] if it did not finish before that.
    pub latency: f64,
}

/// A template alone on a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The cluster's size, in units.
    pub size: u32,
    /// The template.
    pub template: Template,
    /// How long each execution took, in seconds.
    pub latencies: Vec<f64>,
}

/// The middle one of the values; the mean of both for an even number. None of none.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2)?;
    let lower = values.get(values.len().checked_sub(1)? / 2)?;
    Some((lower + upper) / 2.0)
}

/// The value below which `share` of them lie, on the line between the two nearest. None of none.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let place = share.clamp(0.0, 1.0) * values.len().checked_sub(1)? as f64;
    let (below, above) = (*values.get(place as usize)?, *values.get((place + 1.0) as usize).unwrap_or(values.last()?));
    Some(below + (place - (place as usize) as f64) * (above - below))
}

#[cfg(test)]
mod tests;
