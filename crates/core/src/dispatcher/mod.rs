//! The one brain: every event goes in here, every command comes out.
//!
//! ```text
//!              ┌────────────────────────── Dispatcher ──────────────────────────┐
//!  Arrived ──▶ │ wait ──(room on a ready cluster)──▶ route ──▶ run ──▶ end      │ ──▶ Run, Refuse, Cancel, Abandon
//!  Finished ─▶ │   ▲                                            │               │ ──▶ Record
//!  Cluster… ─▶ │   └──────────── bounced ◀──────────────────────┘               │ ──▶ Start, Stop, EndPin
//!  Woke ─────▶ │ timers: wait limits, idle pins, cancel grace, drains, restarts │
//!              └────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The live driver and the simulator call the same two functions, [`Dispatcher::handle`] and
//! [`Dispatcher::next_wakeup`]. Nothing here reads a clock, draws entropy, waits or fails: what makes no sense (an
//! unknown query, a stale generation) is counted and left alone. Every collection is bounded: waiting queries by
//! [`Policy::max_waiting`], running ones and pins by the clusters' seats, timers by one for each of those.

mod admitting;
mod calling;
mod clusters;
mod considering;
mod planning;
mod predicting;
mod queries;
mod scaling;
#[cfg(test)]
mod tests;
mod timers;
mod weighing;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::admit::counts::{Counts, Ticket};
use crate::admit::queue::Queues;
use crate::admit::usage::Accounts;
use crate::class;
use crate::cluster::{Cluster, Phase, Seat};
use crate::event::{Command, Event};
use crate::fingerprint::Fingerprint;
use crate::fleet::Roll;
use crate::id::{ClassId, ClusterId, Generation, QueryId, SessionId};
use crate::policy::Policy;
use crate::predict::recent::Recent;
use crate::query::{Predicted, Query};
use crate::rng::{Rng, Stream};
use crate::route::{Alternative, Candidate, Router, Trial, Verdicts, Why};
use crate::tally::Tally;
use crate::time::{Span, Time};

pub(crate) use admitting::{Admission, Foreseen, Pace};
pub use admitting::{Queued, WaitsFor};
pub(crate) use calling::state_of;
pub use considering::{Considered, Verdict};
pub(crate) use planning::Planning;
pub(crate) use predicting::{Expected, Predicting};
pub use scaling::{SCALED_KEPT, Study};
pub(crate) use timers::Due;

/// Clusters that are gone and still shown.
pub const RETIRED_KEPT: usize = 64;

/// All that the decisions depend on. A clone of it is a fork, its serialised form a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dispatcher {
    pub(crate) now: Time,
    pub(crate) policy: Policy,
    router: Router,
    /// The tokens that clusters have sent; kept only for policies that go by them.
    pub(crate) roll: Roll,
    /// The routing policy that watches, if one does.
    pub(crate) trial: Trial,
    pub(crate) clusters: BTreeMap<ClusterId, Cluster>,
    pub(crate) retired: VecDeque<Retired>,
    pub(crate) retired_cost: f64,
    pub(crate) live: BTreeMap<QueryId, Live>,
    /// Control queries that wait, in the order of their arrival.
    pub(crate) control: BTreeMap<u64, QueryId>,
    /// Other queries that wait.
    pub(crate) queues: Queues,
    /// Those that a cluster has turned away and that wait again, and those that wait for a writer, in the order of their
    /// arrival.
    pub(crate) again: BTreeMap<u64, QueryId>,
    /// How many run, by class and lane.
    pub(crate) counts: Counts,
    /// What users have used lately.
    pub(crate) accounts: Accounts,
    /// Waiting queries whose lane goes by what is foreseen of their shape.
    pub(crate) foreseen: BTreeMap<Fingerprint, Foreseen>,
    /// How fast lanes get on.
    pub(crate) paces: Vec<Pace>,
    /// Where texts ran last.
    warm: Recent<u64, ClusterId>,
    pub(crate) sessions: BTreeMap<SessionId, Hold>,
    pub(crate) timers: BTreeSet<(Time, Due)>,
    pub(crate) tallies: Vec<Tally>,
    pub(crate) decisions: VecDeque<Decision>,
    pub(crate) shutdown: Option<Time>,
    pub(crate) kept_over: KeptOver,
    /// The model in force with what it follows.
    pub(crate) predicting: Option<Box<Predicting>>,
    #[serde(skip)]
    models: predicting::Models,
    /// Models given up because following them failed.
    pub(crate) models_failed: u64,
    pub(crate) scaler: scaling::Scaler,
    /// The plans that are followed.
    pub(crate) planning: Planning,
    next_cluster: u32,
    next_seq: u64,
    pub(crate) senseless: u64,
}

/// What was there when a policy with lower limits was adopted: nothing is dropped for it, so this much may exceed them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptOver {
    pub(crate) waiting: usize,
    pub(crate) control: u32,
    pub(crate) clusters: usize,
}

/// A query that has arrived and not ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Live {
    pub(crate) query: Query,
    pub(crate) arrived: Time,
    /// Its place in the order of arrivals, kept when it bounces.
    pub(crate) seq: u64,
    pub(crate) state: LiveState,
    /// Starts of clusters that could not take it.
    pub(crate) tried: Vec<(ClusterId, Generation)>,
    /// It was lost on one of them.
    pub(crate) lost: bool,
    /// What is expected of it where it runs.
    pub(crate) expected: Option<Expected>,
    /// Its priority and lane, and what it counts as.
    pub(crate) admission: Admission,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum LiveState {
    Waiting { until: Time },
    Running { cluster: ClusterId, placed: Time, cancel: Option<CancelSent> },
}

/// A running query was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CancelSent {
    /// When it is not waited for any longer.
    pub(crate) grace_ends: Time,
}

/// What a session has in the dispatcher: a live query, a pinned cluster, or both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hold {
    pub(crate) query: Option<QueryId>,
    pub(crate) pin: Option<Pin>,
}

/// A session holds its cluster. While its query runs there, that query's seat is the pin's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pin {
    pub(crate) cluster: ClusterId,
    pub(crate) since: Time,
    /// When it ends for want of queries; None while one runs.
    pub(crate) idle_until: Option<Time>,
    /// What it counts as, while no query of its session runs.
    pub(crate) ticket: Option<Ticket>,
}

/// A decision with its evidence: the clusters as the policy saw them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// When it was made.
    pub at: Time,
    /// For which query.
    pub query: QueryId,
    /// Of which class.
    pub class: ClassId,
    /// Where it was sent.
    pub cluster: ClusterId,
    /// Why there.
    pub why: Why,
    /// How long it had waited.
    pub waited: Span,
    /// What is expected of it there, if a model is in force.
    pub predicted: Option<Predicted>,
    /// The clusters that had room, in the order of their ids, without those where something will not stop unless it is so
    /// everywhere; empty for a pinned session.
    pub candidates: Vec<Candidate>,
    /// What the policy on trial would have done, if one is.
    pub instead: Option<Alternative>,
}

/// A cluster that is gone, with what it cost in all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Retired {
    /// The cluster as it was at its end.
    pub cluster: Cluster,
    /// Dollars.
    pub cost: f64,
}

impl Dispatcher {
    /// A dispatcher without clusters, whose chance comes from `seed`.
    pub fn new(seed: u64, policy: Policy) -> Dispatcher {
        let mut dispatcher = Dispatcher {
            now: Time::ZERO,
            router: Router::new(Rng::stream(seed, Stream::Routing)),
            roll: Roll::default(),
            trial: Trial::new(Rng::stream(seed, Stream::Trial)),
            tallies: vec![Tally::default(); policy.classes.len()],
            policy,
            clusters: BTreeMap::new(),
            retired: VecDeque::new(),
            retired_cost: 0.0,
            live: BTreeMap::new(),
            control: BTreeMap::new(),
            queues: Queues::default(),
            again: BTreeMap::new(),
            counts: Counts::default(),
            accounts: Accounts::default(),
            foreseen: BTreeMap::new(),
            paces: Vec::new(),
            warm: Recent::default(),
            sessions: BTreeMap::new(),
            timers: BTreeSet::new(),
            decisions: VecDeque::new(),
            shutdown: None,
            kept_over: KeptOver::default(),
            predicting: None,
            models: predicting::Models::default(),
            models_failed: 0,
            scaler: scaling::Scaler::default(),
            planning: Planning::default(),
            next_cluster: 0,
            next_seq: 0,
            senseless: 0,
        };
        dispatcher.block_all_full();
        dispatcher
    }

    /// Takes in what happened at `now` and appends what is to be done. Timers that are due fire first. A `now` that is
    /// earlier than the last one counts as the last one.
    pub fn handle(&mut self, now: Time, event: Event, commands: &mut Vec<Command>) {
        self.now = self.now.max(now);
        self.fire_due(commands);
        let came = matches!(event, Event::Arrived(_));
        match event {
            Event::Arrived(query) => self.arrived(query, commands),
            Event::Bounced { query, cluster, lost } => self.bounced(query, cluster, lost, commands),
            Event::Finished { query, outcome, blocked, pinned } => {
                self.finished(query, (outcome, blocked), pinned, commands);
            }
            Event::Cancel { query } => self.cancel(query, commands),
            Event::SessionEnded { session } => self.session_ended(session, commands),
            Event::ClusterWanted(spec) => drop(self.start_cluster(spec, commands)),
            Event::ClusterReady { cluster, generation } => self.cluster_ready(cluster, generation),
            Event::ClusterDown { cluster, generation } => self.cluster_down(cluster, generation),
            Event::ClusterLost { cluster, generation, cause } => {
                self.cluster_lost(cluster, generation, cause, commands);
            }
            Event::ClusterStopped { cluster, generation } => self.cluster_stopped(cluster, generation, commands),
            Event::ClusterRanAway { cluster, generation } => self.cluster_ran_away(cluster, generation, commands),
            Event::ClusterBurns { cluster, generation, burns } => self.cluster_burns(cluster, generation, burns),
            Event::DrainWanted { cluster } => self.drain(cluster, commands),
            Event::ShutdownWanted { within } => {
                self.shut_down(within);
                self.follow_plans(commands);
            }
            Event::PolicyAdopted(policy) => {
                self.adopt(*policy);
                self.follow_plans(commands);
            }
            Event::PlanAdopted(plan) => self.plan_adopted(*plan, commands),
            Event::PlanDropped => self.plan_dropped(),
            Event::ModelAdopted(model) => self.model_adopted(model),
            Event::ScalingWanted => self.scale_asked(commands),
            Event::StudyDone { study, answer } => self.study_done(study, answer, commands),
            Event::Woke => {}
        }
        self.place_waiting(commands);
        self.scale(came, commands);
        self.refuse_without_hope(commands);
        self.stop_when_quiet(commands);
        self.call_roll();
    }

    /// When [`Event::Woke`] is due at the latest; None if only another event can change anything.
    pub fn next_wakeup(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at).filter(|at| *at < Time::MAX)
    }

    /// The policy in force.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// A ready cluster for what is not counted as a query: one where all stopped that was told to, an awake one if there is
    /// one, the least loaded of those.
    pub fn any_ready(&self) -> Option<ClusterId> {
        let ready = self.clusters.values().filter(|cluster| cluster.phase == Phase::Ready && !cluster.down);
        let chosen = ready.min_by_key(|cluster| {
            let load = cluster.running.len() + cluster.idle_pins.len();
            (cluster.doubted.is_some(), !cluster.timer.awake(self.now), load, cluster.id)
        });
        chosen.map(|cluster| cluster.id)
    }

    /// The queries that run on this start of a cluster.
    pub fn running_on_start(&self, cluster: ClusterId, generation: Generation) -> Vec<QueryId> {
        let cluster = self.clusters.get(&cluster).filter(|cluster| cluster.generation == generation);
        cluster.map_or_else(Vec::new, |cluster| cluster.running.keys().copied().collect())
    }

    /// Clusters that something runs on or a session holds: they are awake, and it matters whether they are still there.
    pub fn busy(&self) -> impl Iterator<Item = (ClusterId, Generation)> {
        let is_busy = |cluster: &&Cluster| !cluster.running.is_empty() || !cluster.idle_pins.is_empty();
        self.clusters.values().filter(is_busy).map(|cluster| (cluster.id, cluster.generation))
    }

    /// True if a cluster is ready or may become so.
    pub fn is_any_coming(&self) -> bool {
        let comes = |phase| matches!(phase, Phase::Starting | Phase::Ready | Phase::Failed);
        self.clusters.values().any(|cluster| comes(cluster.phase) || cluster.leaves_a_place)
    }

    /// True once a shutdown is complete: no query, no cluster.
    pub fn is_shut_down(&self) -> bool {
        self.shutdown.is_some() && self.live.is_empty() && self.clusters.is_empty()
    }

    /// Puts new rules in force. Classes are matched by name, so that what is live keeps its class and its counts; a
    /// class that is no more becomes `default`. What waits already may wait for as long as it was told when it came, and
    /// is not refused because fewer may.
    fn adopt(&mut self, policy: Policy) {
        let policy = self.under_plans(policy);
        let renumbered: Vec<ClassId> = self
            .policy
            .classes
            .iter()
            .map(|old| class::find(&policy.classes, &old.name).unwrap_or(class::DEFAULT))
            .collect();
        let mut tallies = vec![Tally::default(); policy.classes.len()];
        for (old, new) in self.tallies.iter().zip(&renumbered) {
            tallies[new.0 as usize].add(old);
        }
        for live in self.live.values_mut() {
            live.query.class = renumbered[live.query.class.0 as usize];
        }
        for decision in &mut self.decisions {
            decision.class = renumbered[decision.class.0 as usize];
        }
        self.kept_over = KeptOver {
            waiting: (self.queues.len() + self.again.len()).max(self.control.len()),
            control: self.clusters.values().map(|cluster| cluster.taken(Seat::Control)).max().unwrap_or(0),
            clusters: self.clusters.len(),
        };
        let ids: Vec<ClusterId> = self.clusters.keys().copied().collect();
        ids.iter().for_each(|id| self.clear_phase_limit(*id));
        let tried = |policy: &Policy| (policy.routing_mode.watches(), policy.routing, policy.baseline, policy.counting);
        if tried(&policy) != tried(&self.policy) {
            self.trial.verdicts = Verdicts::default();
        }
        if policy.asks() != self.policy.asks() {
            self.roll = Roll::default();
        }
        if policy.lanes != self.policy.lanes {
            self.paces.clear();
        }
        (self.tallies, self.policy) = (tallies, policy);
        ids.iter().for_each(|id| self.set_phase_limit(*id));
        self.readmit(|class| renumbered.get(class.0 as usize).copied().unwrap_or(class::DEFAULT));
        while self.decisions.len() > self.policy.decisions_kept as usize {
            self.decisions.pop_front();
        }
    }

    /// Something came in that makes no sense here (any more): counted, and otherwise left alone.
    fn makes_no_sense(&mut self) {
        self.senseless += 1;
    }
}

/// The seat that queries of a class take.
pub(crate) fn seat_of(class: ClassId) -> Seat {
    if class == class::CONTROL { Seat::Control } else { Seat::Slot }
}
