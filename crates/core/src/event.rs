//! What happened, and what to do about it: the whole vocabulary between the dispatcher and the world.
//!
//! An [`Event`] says that something happened, a [`Command`] asks for something to be done; what comes of it returns
//! as an event. Both are plain data: a journal is their sequence.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::cluster::Spec;
use crate::dispatcher::WaitsFor;
use crate::id::{ClassId, ClusterId, Generation, LaneId, ModelId, QueryId, SessionId, StudyId, Units};
use crate::plan::Plan;
use crate::policy::Policy;
use crate::query::{Ended, Query, SqlState};
use crate::scale::Answer;
use crate::time::Span;

/// It happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// A client sent a query.
    Arrived(Query),
    /// A placed query could not be started on its cluster, or was lost there and can be tried once more. Another verdict
    /// follows, or an abandonment if its session was pinned there.
    Bounced {
        /// The query.
        query: QueryId,
        /// The cluster that could not take it.
        cluster: ClusterId,
        /// True if it was lost: it had begun, and the client has seen nothing of it. If no other cluster can run it, it counts as
        /// lost, not as refused.
        lost: bool,
    },
    /// A placed query ended: its cluster is ready for the session's next one, or their connection is closed.
    Finished {
        /// The query.
        query: QueryId,
        /// How it went.
        outcome: Outcome,
        /// How long its result waited for its client to take it. The cluster is not to blame for that, so neither SLOs nor
        /// predictions count it.
        blocked: Span,
        /// True if the session holds its cluster from now on (a transaction, say).
        pinned: bool,
    },
    /// A client or an operator takes a query back, whether it waits or runs.
    Cancel {
        /// The query.
        query: QueryId,
    },
    /// A session is over; whatever it had waiting, running or pinned goes with it.
    SessionEnded {
        /// The session.
        session: SessionId,
    },
    /// The configuration or an operator wants one more cluster.
    ClusterWanted(Spec),
    /// A cluster takes queries now.
    ClusterReady {
        /// The cluster.
        cluster: ClusterId,
        /// The start that this is about.
        generation: Generation,
    },
    /// A cluster cannot be reached any more, and its loss follows: nothing more is placed there. What runs there may still come
    /// back as bounced.
    ClusterDown {
        /// The cluster.
        cluster: ClusterId,
        /// The start that this is about.
        generation: Generation,
    },
    /// A cluster could not start, or went away under whatever ran there.
    ClusterLost {
        /// The cluster.
        cluster: ClusterId,
        /// The start that this is about.
        generation: Generation,
        /// What went wrong.
        cause: LossCause,
    },
    /// A cluster has stopped as asked.
    ClusterStopped {
        /// The cluster.
        cluster: ClusterId,
        /// The start that this is about.
        generation: Generation,
    },
    /// Something works on there although it was cancelled, timed out or left behind, and will not stop.
    ClusterRanAway {
        /// The cluster.
        cluster: ClusterId,
        /// The start that this is about.
        generation: Generation,
    },
    /// Something works on there for nobody, having been told to stop; or nothing does any longer.
    ClusterBurns {
        /// The cluster.
        cluster: ClusterId,
        /// The start that this is about.
        generation: Generation,
        /// True: it does.
        burns: bool,
    },
    /// An operator wants a cluster to finish what runs there and go.
    DrainWanted {
        /// The cluster.
        cluster: ClusterId,
    },
    /// Take no more queries, finish those that are here within a time, stop all clusters.
    ShutdownWanted {
        /// How long that may take.
        within: Span,
    },
    /// These are the rules from now on.
    PolicyAdopted(Box<Policy>),
    /// A day is to go by this plan, if it fits.
    PlanAdopted(Box<Plan>),
    /// An operator takes back every plan that is followed or waits for its day.
    PlanDropped,
    /// Latencies are predicted by this model from now on. It must have been
    /// [provided](crate::Dispatcher::provide) before.
    ModelAdopted(ModelId),
    /// An operator wants to know whether anything should be started, whatever triggers say.
    ScalingWanted,
    /// A study of what to start is done.
    StudyDone {
        /// Which.
        study: StudyId,
        /// What it found; no prospects if it failed.
        answer: Answer,
    },
    /// Time has passed: the instant given by `next_wakeup` has come.
    Woke,
}

/// How a placed query went, as its session saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Its result was sent whole.
    Finished {
        /// Rows sent.
        rows: u64,
        /// Bytes of results sent.
        bytes: u64,
    },
    /// The cluster answered with an error.
    Failed {
        /// Its code.
        sqlstate: SqlState,
        /// Rows sent before it.
        rows: u64,
        /// Bytes of results sent before it.
        bytes: u64,
    },
    /// The connection to the cluster broke.
    Lost,
}

/// Why a cluster went away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LossCause {
    /// Its provider could not start it.
    StartFailed,
    /// It did not become ready in time.
    StartTimedOut,
    /// Its process ended.
    Exited,
    /// It does not answer any more.
    Unreachable,
}

impl fmt::Display for LossCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LossCause::StartFailed => "could not be started",
            LossCause::StartTimedOut => "did not become ready in time",
            LossCause::Exited => "its process ended",
            LossCause::Unreachable => "does not answer",
        })
    }
}

/// Do it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// The verdict on a query: run it there.
    Run {
        /// The query.
        query: QueryId,
        /// Where.
        cluster: ClusterId,
    },
    /// The verdict on a query: it will not run.
    Refuse {
        /// The query.
        query: QueryId,
        /// Why.
        because: Refusal,
    },
    /// Ask the cluster to stop working on a query.
    Cancel {
        /// The query.
        query: QueryId,
        /// Where it runs.
        cluster: ClusterId,
        /// It has run for as long as its class allows, which is this; None: somebody wants it stopped.
        ran_for: Option<Span>,
    },
    /// Stop waiting for a query's cluster: answer the client and close the connection to the cluster.
    Abandon {
        /// The query.
        query: QueryId,
        /// Why.
        because: Abandoned,
    },
    /// A query was placed where nothing may have come of it: if nothing has come back of it and it can be sent again,
    /// take it off its cluster, which is answered with [`Event::Bounced`].
    Recall {
        /// The query.
        query: QueryId,
        /// Where it is.
        cluster: ClusterId,
    },
    /// Take a session's pinned cluster away and tell its client.
    EndPin {
        /// The session.
        session: SessionId,
        /// Why.
        because: PinEnd,
    },
    /// Start a cluster.
    Start {
        /// The cluster.
        cluster: ClusterId,
        /// Which start this is.
        generation: Generation,
        /// What to start.
        spec: Spec,
    },
    /// Stop a cluster.
    Stop {
        /// The cluster.
        cluster: ClusterId,
        /// Which start this ends.
        generation: Generation,
        /// True: at once, whatever still runs there.
        force: bool,
    },
    /// Find out what each offer would change, by simulation, from a [fork](crate::Dispatcher::fork) made now.
    Study {
        /// Which.
        study: StudyId,
    },
    /// A query has ended: write it down.
    Record(Box<Ended>),
}

/// Why a query will not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// As many wait as may, in all, of its class or in its lane.
    Full {
        /// What is full.
        of: Full,
        /// Its lane.
        lane: LaneId,
        /// How many may wait.
        limit: u32,
        /// How long one would have waited behind them, at the pace of the last minutes.
        wait: Option<Span>,
    },
    /// It would have been late anyway, and its class wants that to be said at once.
    TooLate {
        /// Its lane.
        lane: LaneId,
        /// How long it would have waited.
        wait: Span,
        /// How long it would have taken then, alone.
        takes: Span,
        /// When it is late.
        slo: Span,
    },
    /// It waited as long as a query may.
    WaitedTooLong {
        /// How long that is.
        limit: Span,
        /// What it waited for at last.
        lacked: WaitsFor,
        /// Its lane.
        lane: LaneId,
    },
    /// No cluster is there, nor is one being started.
    NoCluster,
    /// Every cluster that is there was tried and could not start it.
    NoClusterCouldRun {
        /// How many were tried.
        tried: u32,
    },
    /// The gateway is shutting down.
    ShuttingDown,
    /// It was cancelled while it waited.
    Cancelled,
    /// Its session already has a query, or its id was used before.
    NotItsTurn,
}

impl Refusal {
    /// After how long it may be worth while to ask again, if that is known.
    pub fn wait(&self) -> Option<Span> {
        match self {
            Refusal::Full { wait, .. } => *wait,
            Refusal::TooLate { wait, .. } => Some(*wait),
            _ => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Full { of, limit, .. } => {
                let of = match of {
                    Full::Class(_) => " of its class",
                    Full::Lane(_) => " of its lane",
                    Full::Gateway => "",
                };
                match limit {
                    0 => write!(f, "no query{of} may wait"),
                    1 => write!(f, "one query{of} is waiting already, as many as may"),
                    several => write!(f, "{several} queries{of} are waiting already, as many as may"),
                }
            }
            Refusal::TooLate { wait, takes, slo, .. } => {
                write!(f, "it would have waited about {wait} and taken {takes}, and is late after {slo}")
            }
            Refusal::WaitedTooLong { limit, lacked, .. } => match lacked {
                WaitsFor::Cluster => write!(f, "no cluster had room for it within {limit}"),
                WaitsFor::Class => write!(f, "its class had no room for it within {limit}"),
                WaitsFor::Lane => write!(f, "its lane had no room for it within {limit}"),
                WaitsFor::Gateway => write!(f, "the gateway had no room for it within {limit}"),
                WaitsFor::Turn => write!(f, "it was not its turn within {limit}"),
            },
            Refusal::NoCluster => write!(f, "no cluster is running or starting"),
            Refusal::NoClusterCouldRun { tried: 1 } => write!(f, "the only cluster that was tried did not accept it"),
            Refusal::NoClusterCouldRun { tried } => write!(f, "none of {tried} clusters accepted it"),
            Refusal::ShuttingDown => write!(f, "the gateway is shutting down"),
            Refusal::Cancelled => write!(f, "it was cancelled while it waited"),
            Refusal::NotItsTurn => write!(f, "its session already has a query"),
        }
    }
}

impl Refusal {
    /// The lane that had no room for it, where that is why.
    pub fn lane(&self) -> Option<LaneId> {
        match self {
            Refusal::Full { lane, .. } | Refusal::TooLate { lane, .. } | Refusal::WaitedTooLong { lane, .. } => {
                Some(*lane)
            }
            _ => None,
        }
    }
}

/// Whose queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Full {
    /// That of a class.
    Class(ClassId),
    /// That of a lane.
    Lane(LaneId),
    /// That of all.
    Gateway,
}

/// Why the end of a running query is not waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Abandoned {
    /// It was cancelled, and goes on all the same.
    WillNotStop,
    /// Its cluster went away.
    ClusterLost {
        /// How.
        cause: LossCause,
    },
    /// Its cluster had to go, and the time it had to finish is over.
    DrainEnded {
        /// The units of the cluster that goes.
        units: Units,
    },
}

/// Why a session loses its pinned cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PinEnd {
    /// It sent nothing for this long.
    Idle {
        /// How long.
        limit: Span,
    },
    /// The cluster went away.
    ClusterLost {
        /// How.
        cause: LossCause,
    },
    /// The cluster has to go, and the time that sessions had to end is over.
    DrainEnded,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_is_told_in_the_right_number() {
        let said = |of, limit| Refusal::Full { of, limit, lane: LaneId(1), wait: None }.to_string();
        let lane = Full::Lane(LaneId(1));
        assert_eq!(said(lane, 0), "no query of its lane may wait");
        assert_eq!(said(lane, 1), "one query of its lane is waiting already, as many as may");
        assert_eq!(said(Full::Gateway, 2), "2 queries are waiting already, as many as may");
    }
}
