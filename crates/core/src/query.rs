//! One unit of placement: everything a client sends from an idle session to its next ReadyForQuery.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::admit::claim::Claim;
use crate::fingerprint::Fingerprint;
use crate::id::{ClassId, ClusterId, LaneId, QueryId, SessionId, Units};
use crate::predict::features::Features;
use crate::statement::Kind;
use crate::time::{Span, Time};

/// A query as it reaches the dispatcher: its class and SLO are settled, its text stays with the session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Query {
    /// Its identity, never used twice.
    pub id: QueryId,
    /// Who sent it. A session has at most one query at a time.
    pub session: SessionId,
    /// Its literal-free shape.
    pub fingerprint: Fingerprint,
    /// What it does.
    pub kind: Kind,
    /// How it is treated.
    pub class: ClassId,
    /// When it is late: counted from its arrival to the last row. None: never.
    pub slo: Option<Span>,
    /// What it brings to its admission.
    pub claim: Claim,
    /// What its latency is predicted from; None where nothing is predicted.
    pub traits: Option<Box<Traits>>,
}

/// What predictions are made from, besides the fingerprint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Traits {
    /// A hash of its text: equal for equal texts, as history has it.
    pub text: u64,
    /// What its text and plan say.
    #[serde(with = "row")]
    pub features: Features,
}

/// What was predicted for a query when it was placed, from then to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Predicted {
    /// The median.
    pub p50: Span,
    /// The 90 % quantile.
    pub p90: Span,
    /// What it would take alone there, in the median.
    pub isolated: Span,
}

/// How a query ended. Every query ends exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Status {
    /// All its rows were sent.
    Finished,
    /// The cluster answered with an error.
    Failed,
    /// Its client or an operator took it back.
    Cancelled,
    /// It was never placed; the [`Refusal`](crate::event::Refusal) says why.
    Refused,
    /// Its cluster went away under it.
    Lost,
}

impl Status {
    /// Every way to end.
    pub const ALL: [Status; 5] = [Status::Finished, Status::Failed, Status::Cancelled, Status::Refused, Status::Lost];

    /// The name that history and views use.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Finished => "finished",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
            Status::Refused => "refused",
            Status::Lost => "lost",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The five characters of an SQLSTATE.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SqlState(pub [u8; 5]);

impl SqlState {
    /// The code as text; what is not ASCII reads as `?????`.
    pub fn code(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("?????")
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// What is known of a query once it has ended: a row of history, less what only the session knows (text, user).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// The query.
    pub query: Query,
    /// The priority by which it was admitted.
    pub priority: i32,
    /// The lane that it was admitted to.
    pub lane: LaneId,
    /// Where it ran last, and that cluster's size; None if it was never placed.
    pub cluster: Option<(ClusterId, Units)>,
    /// When it arrived at the gateway.
    pub arrived: Time,
    /// When it was placed for the last time.
    pub placed: Option<Time>,
    /// When it ended.
    pub ended: Time,
    /// How long its result waited for its client to take it.
    pub blocked: Span,
    /// How it ended.
    pub status: Status,
    /// The code of the error that the client saw, if there was one.
    pub sqlstate: Option<SqlState>,
    /// Rows sent to the client.
    pub rows: u64,
    /// Bytes of results sent to the client.
    pub bytes: u64,
    /// True if it counts as a violation of its SLO, false if it met it, None if it does not count.
    pub violated: Option<bool>,
    /// What was predicted when it was placed for the last time; None if nothing was.
    pub predicted: Option<Predicted>,
}

impl Ended {
    /// Latency as the SLO sees it: from arrival to the end, its wait for a cluster included, its wait for its client not.
    pub fn latency(&self) -> Span {
        self.ended.since(self.arrived) - self.blocked
    }

    /// How long it ran where it ran last, its wait for its client not included; None if it was never placed.
    pub fn ran(&self) -> Option<Span> {
        Some(self.ended.since(self.placed?) - self.blocked)
    }
}

/// Whether an ended query violated its SLO: refused, failed and lost queries did, cancelled ones do not count, and a
/// query without an SLO never does (ALGORITHMS section 1.2, "Violation rate").
pub fn violated(status: Status, latency: Span, slo: Option<Span>) -> Option<bool> {
    let slo = slo?;
    match status {
        Status::Finished => Some(latency > slo),
        Status::Failed | Status::Refused | Status::Lost => Some(true),
        Status::Cancelled => None,
    }
}

/// Features as a sequence: serde knows no arrays of this length.
mod row {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::predict::features::Features;

    pub(super) fn serialize<S: Serializer>(features: &Features, to: S) -> Result<S::Ok, S::Error> {
        features.as_slice().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Features, D::Error> {
        let row = Vec::<f32>::deserialize(from)?;
        row.try_into().map_err(|row: Vec<f32>| D::Error::invalid_length(row.len(), &"one number for each feature"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_slo_is_missed_after_it_not_at_it() {
        let slo = Some(Span::from_secs(3));
        assert_eq!(violated(Status::Finished, Span::from_secs(3), slo), Some(false));
        assert_eq!(violated(Status::Finished, Span::from_micros(3_000_001), slo), Some(true));
    }

    #[test]
    fn what_did_not_answer_is_late_and_what_was_taken_back_does_not_count() {
        let slo = Some(Span::from_secs(3));
        for status in [Status::Failed, Status::Refused, Status::Lost] {
            assert_eq!(violated(status, Span::ZERO, slo), Some(true), "{status}");
        }
        assert_eq!(violated(Status::Cancelled, Span::from_secs(9), slo), None);
        assert_eq!(violated(Status::Lost, Span::ZERO, None), None);
    }
}
