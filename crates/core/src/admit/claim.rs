//! What a query brings to its admission, besides its class: whose it is, the priority that it asks for, and how much of time it
//! reads.

use serde::{Deserialize, Serialize};

use crate::id::UserId;
use crate::time::Span;

/// What a query brings to its admission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Whose it is.
    pub user: UserId,
    /// The priority that its client asks for; its class bounds it.
    pub priority: Option<i32>,
    /// How much of time it reads; None where it reads no table with a time column.
    pub scan: Option<Scan>,
    /// True if it may change what others see, so that it has to run where that is possible.
    pub writes: bool,
}

/// How much of time a query reads, by the predicates on its tables' time columns. What cannot be bounded is unbounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scan {
    /// How far back its earliest instant lies, from its arrival; None: without bound.
    pub reach: Option<Span>,
    /// How much time it covers in all; None: without bound.
    pub duration: Option<Span>,
    /// Partitions that it reads; None where tables say nothing of theirs.
    pub segments: Option<u32>,
    /// Time that these cover; None where tables say nothing of theirs.
    pub segment_range: Option<Span>,
}

impl Scan {
    /// The names of what has no bound.
    pub fn unbounded(&self) -> impl Iterator<Item = &'static str> {
        let names = [
            ("reach", self.reach.is_none()),
            ("duration", self.duration.is_none()),
            ("segments", self.segments == Some(u32::MAX)),
            ("segment_range", self.segment_range == Some(Span::MAX)),
        ];
        names.into_iter().filter_map(|(name, is_unbounded)| is_unbounded.then_some(name))
    }

    /// The same scan, where what has no bound and what is not known are nothing.
    pub fn bounded(self) -> Scan {
        Scan {
            segments: self.segments.filter(|segments| *segments != u32::MAX),
            segment_range: self.segment_range.filter(|range| *range != Span::MAX),
            ..self
        }
    }
}
