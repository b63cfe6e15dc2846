//! What arrives, and when: streams of [`Arrival`]s in the order of time.
//!
//! A workload is any iterator of arrivals: a recorded trace is a vector's, a generated one is [`generate`]'s, which
//! spreads a [`Mix`] of queries over the instants of a [`Pattern`]. Nothing is drawn before it is asked for.
//!
//! For a simulated warehouse there are the queries of TPC-DS: [`Templates`] spreads a weighted choice of them over a
//! pattern, [`trace()`] takes them from a list, a [`Day`] from counts by hour, and [`Weeks`] are days that are alike and never the same. What was recorded elsewhere comes again as
//! [`Recorded`] queries, which say what they take on each size.

mod day;
mod instants;
mod mix;
mod recorded;
mod templates;
mod weeks;

use std::sync::Arc;

use punctual_core::admit::claim::Claim;
use punctual_core::fingerprint::Fingerprint;
use punctual_core::id::{ClassId, SessionId, Units};
use punctual_core::predict::features::FEATURES;
use punctual_core::query::Traits;
use punctual_core::statement::Kind;
use punctual_core::time::{Span, Time};

use crate::world::sharing::Work;
use crate::world::warehouse::Template;

pub use day::{Day, Unread};
pub use instants::{Batched, Instants, Pattern, Phase, Spread};
pub use mix::{Mix, Share, Size};
pub use recorded::{Recorded, Remembered, again};
pub use templates::{Asked, Templates, trace};
pub use weeks::Weeks;

/// A client sends a query, and the rest of its transaction if that opens one.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    /// When.
    pub at: Time,
    /// Who.
    pub session: SessionId,
    /// The query.
    pub ask: Ask,
    /// The queries that follow in the same transaction, each some time after the one before has ended. While any
    /// remains, the session holds its cluster.
    pub then: Vec<Later>,
}

/// What a client wants.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// Its class.
    pub class: ClassId,
    /// When it is late.
    pub slo: Option<Span>,
    /// Whose it is, and what it asks for.
    pub claim: Claim,
    /// Its shape.
    pub fingerprint: Fingerprint,
    /// What it does.
    pub kind: Kind,
    /// What it takes.
    pub work: Work,
    /// Which query of TPC-DS it is, if it is one: in a simulated warehouse that says what it takes.
    pub template: Option<Template>,
    /// What is known of it besides, if it was recorded elsewhere.
    pub recorded: Option<Arc<Recorded>>,
}

impl Ask {
    /// What its latency is predicted from: what was recorded of it, or what can be known of its template. What is alike in its
    /// fingerprint is alike in its text, where there is none.
    pub fn traits(&self) -> Traits {
        let known = self.recorded.as_ref().map(|recorded| recorded.traits.clone());
        known.unwrap_or_else(|| {
            let features = self.template.map_or([0.0; FEATURES], templates::features_of);
            Traits { text: self.fingerprint.0, features }
        })
    }

    /// What it takes on a cluster of that size: what was recorded of it, or else its work.
    pub fn work_on(&self, units: Units) -> Work {
        self.recorded.as_ref().and_then(|recorded| recorded.work_on(units)).unwrap_or(self.work)
    }
}

/// A query that follows another one.
#[derive(Clone, Debug, PartialEq)]
pub struct Later {
    /// How long the client thinks after the end of the one before.
    pub after: Span,
    /// What it wants then.
    pub ask: Ask,
}

/// The arrivals of `mix` at the instants of `pattern` that lie before `horizon`.
pub fn generate(seed: u64, pattern: &Pattern, mix: &Mix, horizon: Span) -> impl Iterator<Item = Arrival> + use<> {
    let mut draw = mix.draw(seed);
    let instants = pattern.instants(seed).take_while(move |at| *at < Time::ZERO + horizon);
    instants.map_while(move |at| draw.arrival(at))
}
