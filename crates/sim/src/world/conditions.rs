//! How the world treats the dispatcher: how long things take, and how often they go wrong.

use punctual_core::rng::{Rng, Stream};
use punctual_core::time::{Span, Time};
use serde::{Deserialize, Serialize};

/// What the world is like. The default is a perfect one: everything at once, nothing fails.
///
/// Probabilities are from zero to one; delays that are not said to be otherwise are exact.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// The least time that a start takes.
    pub start_least: Span,
    /// What a start takes on top, exponential with this mean.
    pub start_more: Span,
    /// What a start takes on top of both: uniform up to this.
    pub start_spread: Span,
    /// Starts that are asked for before then take the least time and do not fail.
    pub starts_spared_until: Time,
    /// The share of starts that fail, after that time.
    pub start_failures: f64,
    /// How long a stop takes.
    pub stop: Span,
    /// How long a cluster lives once it is ready, exponential with this mean. None: until it is stopped.
    pub life: Option<Span>,
    /// How long a query takes to reach its cluster: uniform up to this.
    pub connect: Span,
    /// How long a report takes to reach the dispatcher: uniform up to this, so that reports overtake each other.
    pub transit: Span,
    /// How long a study of what to start takes.
    pub study: Span,
    /// How late the dispatcher is woken.
    pub wakes_late: Span,
    /// The share of queries that reach their cluster and are turned away.
    pub bounces: f64,
    /// The share of queries that fail instead of finishing.
    pub errors: f64,
    /// How long a query goes on after it was told to stop.
    pub cancel: Span,
    /// The share of queries that do not stop when they are told to.
    pub stubborn: f64,
    /// The share of queries that their client takes back.
    pub client_cancels: f64,
    /// The share of queries whose client vanishes.
    pub disconnects: f64,
    /// How long after the arrival a client takes back or vanishes, exponential with this mean.
    pub patience: Span,
}

/// The world's own chance, one stream per purpose.
#[derive(Clone, Debug)]
pub(super) struct Chance {
    pub(super) starts: Rng,
    pub(super) faults: Rng,
    pub(super) delays: Rng,
}

impl Chance {
    pub(super) fn new(seed: u64) -> Chance {
        Chance {
            starts: Rng::stream(seed, Stream::Starts),
            faults: Rng::stream(seed, Stream::Faults),
            delays: Rng::numbered(seed, DELAYS),
        }
    }

    /// A delay from zero to `most`; draws nothing if that is zero.
    pub(super) fn up_to(&mut self, most: Span) -> Span {
        if most == Span::ZERO { Span::ZERO } else { Span::from_micros(self.delays.below(most.micros() + 1)) }
    }

    /// True with probability `p`; draws nothing if it cannot be.
    pub(super) fn strikes(&mut self, p: f64) -> bool {
        p > 0.0 && self.faults.chance(p)
    }

    /// An exponential time of that mean until something goes wrong.
    pub(super) fn fault_after(&mut self, mean: Span) -> Span {
        Span::from_secs_f64(self.faults.exponential(mean.secs_f64()))
    }
}

/// The stream for delays: beside those that core names.
const DELAYS: u64 = 1 << 32;
