//! A plain snapshot of what the dispatcher knows, for the console, the metrics and the schema `punctual`.
//!
//! It is the only thing that they read. Times are instants of the dispatcher's clock, costs are dollars.

use serde::{Deserialize, Serialize};

use crate::cluster::{Cluster, Phase};
use crate::dispatcher::{Decision, Dispatcher, LiveState, Queued};
use crate::event::LossCause;
use crate::id::{ClassId, ClusterId, LaneId, ModelId, PlanId, QueryId, SessionId, Units};
use crate::mode::Mode;
use crate::plan::{Concluded, Followed};
use crate::predict::record::Lately;
use crate::query::{Predicted, Query};
use crate::route::{Counting, Routing, Verdicts};
use crate::scale::burn::Rates;
use crate::scale::{Scaled, Selector, Trigger};
use crate::tally::Tally;
use crate::time::{Span, Time};

/// What the dispatcher knows at one instant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// The instant.
    pub now: Time,
    /// How clusters are chosen.
    pub routing: RoutingView,
    /// Clusters, those that are gone last.
    pub clusters: Vec<ClusterView>,
    /// Queries that have not ended, in the order of their ids.
    pub queries: Vec<QueryView>,
    /// Classes, in the order of the configuration.
    pub classes: Vec<ClassView>,
    /// Lanes, that of those without another first.
    pub lanes: Vec<LaneView>,
    /// Recent decisions, oldest first.
    pub decisions: Vec<Decision>,
    /// Queries that wait, control queries not counted.
    pub waiting: u32,
    /// Dollars spent by all clusters, gone ones included.
    pub cost: f64,
    /// Events that made no sense when they came: stale reports, unknown ids.
    pub senseless: u64,
    /// True while no new queries are taken.
    pub shutting_down: bool,
    /// The model that predicts, if one does.
    pub model: Option<ModelView>,
    /// Models given up because following them failed.
    pub models_failed: u64,
    /// How many clusters there are.
    pub scaler: ScalerView,
    /// Decisions about the fleet, oldest first.
    pub scaling: Vec<Scaled>,
    /// How fast the violation budget burns.
    pub burn: Rates,
    /// The plans that are followed.
    pub planning: PlanningView,
}

/// The controller that routes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoutingView {
    /// Whether the policy acts.
    pub mode: Mode,
    /// The policy.
    pub policy: Routing,
    /// How it counts violations to come.
    pub counting: Counting,
    /// What routes where it does not act.
    pub baseline: Routing,
    /// What it would have done, if it watches.
    pub verdicts: Verdicts,
}

/// The controller that starts and stops clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScalerView {
    /// Whether it acts.
    pub mode: Mode,
    /// When it considers a start.
    pub trigger: Trigger,
    /// What it starts.
    pub selector: Selector,
    /// The routing policy that does both in their place, if one does.
    pub by: Option<Routing>,
}

/// The controller that follows plans.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanningView {
    /// Whether it acts.
    pub mode: Mode,
    /// The plan whose knobs are in force.
    pub turned: Option<PlanId>,
    /// The plans that are followed or wait for their day, in the order of their days.
    pub plans: Vec<Followed>,
    /// The plan that was refused, dropped or done with last.
    pub last: Option<Concluded>,
}

/// A model in force and how it does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelView {
    /// Which.
    pub id: ModelId,
    /// Fingerprints on sizes whose predictions are corrected by what has ended.
    pub corrected: u32,
    /// How predictions have done lately; None while nothing has finished.
    pub lately: Option<Lately>,
}

/// A cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterView {
    /// Its identity.
    pub id: ClusterId,
    /// Its name in the configuration.
    pub name: String,
    /// Which start of it this is.
    pub generation: u32,
    /// Where it is in its life, and since when.
    pub phase: Phase,
    /// Since when.
    pub since: Time,
    /// Its size.
    pub units: Units,
    /// Queries that may run there at once.
    pub slots: u32,
    /// True if what may change something is for it, and not for those that are not marked so.
    pub writer: bool,
    /// True if it is started and stopped as needed.
    pub elastic: bool,
    /// Queries that run there, control queries included.
    pub running: u32,
    /// Sessions that hold it without running anything.
    pub pins: u32,
    /// Cancelled queries that did not stop.
    pub stuck: u32,
    /// Queries ever placed there.
    pub placed: u64,
    /// True while its billing timer runs.
    pub awake: bool,
    /// Time billed.
    pub active: Span,
    /// Dollars.
    pub cost: f64,
    /// Why it failed last, if it did since it was last ready.
    pub failed_by: Option<LossCause>,
}

/// A query that has not ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueryView {
    /// Its identity.
    pub id: QueryId,
    /// Who sent it.
    pub session: SessionId,
    /// What it is.
    pub query: Query,
    /// When it arrived.
    pub arrived: Time,
    /// Where it runs and since when; None while it waits.
    pub placed: Option<(ClusterId, Time)>,
    /// True if it was told to stop.
    pub cancelled: bool,
    /// What was predicted when it was placed.
    pub predicted: Option<Predicted>,
    /// Its priority, by which it has its lane and its weight.
    pub priority: i32,
    /// The lane that it waits or counts in.
    pub lane: LaneId,
    /// Where it stands, if it waits.
    pub queued: Option<Queued>,
}

/// A lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneView {
    /// Its index.
    pub id: LaneId,
    /// Its name; `default` is the lane of those without another.
    pub name: String,
    /// How many of it may run at once; None: it has no limit of its own.
    pub limit: Option<u32>,
    /// Up to how many running ones its queries go first.
    pub guarantee: u32,
    /// How many run, sessions that hold a cluster included.
    pub running: u32,
    /// How many wait.
    pub waiting: u32,
    /// How many may wait; None: no limit of its own.
    pub max_queued: Option<u32>,
    /// How long one that comes now would wait, at the pace of the last minutes; None if nothing has ended lately.
    pub expected_wait: Option<Span>,
}

/// A class with what became of its queries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassView {
    /// Its index.
    pub id: ClassId,
    /// Its name.
    pub name: String,
    /// Its latency target.
    pub slo: Option<Span>,
    /// Its queries that wait.
    pub waiting: u32,
    /// Its queries that run.
    pub running: u32,
    /// Its queries that have ended.
    pub tally: Tally,
}

impl Dispatcher {
    /// A snapshot as of `now`, which only billing depends on.
    pub fn view(&self, now: Time) -> View {
        let now = self.now.max(now);
        let mut queued = self.queued_all();
        let queries: Vec<QueryView> =
            self.live.values().map(|live| query_view(live, queued.remove(&live.query.id))).collect();
        let clusters = self.clusters.values().map(|cluster| cluster_view(cluster, now));
        let gone = self.retired.iter().map(|retired| cluster_view(&retired.cluster, now));
        View {
            now,
            routing: RoutingView {
                mode: self.policy.routing_mode,
                policy: self.policy.routing,
                counting: self.policy.counting,
                baseline: self.policy.baseline,
                verdicts: self.trial.verdicts,
            },
            classes: self.class_views(&queries),
            queries,
            cost: self.cost(now),
            clusters: clusters.chain(gone).collect(),
            lanes: self.policy.lanes.ids().map(|lane| self.lane(lane)).collect(),
            decisions: self.decisions.iter().cloned().collect(),
            waiting: (self.queues.len() + self.again.len()) as u32,
            senseless: self.senseless,
            shutting_down: self.shutdown.is_some(),
            model: self.predicting.as_ref().map(|predicting| ModelView {
                id: predicting.model,
                corrected: predicting.corrections.len() as u32,
                lately: predicting.record.lately(),
            }),
            models_failed: self.models_failed,
            scaler: ScalerView {
                mode: self.policy.scaling.mode,
                trigger: self.policy.scaling.trigger,
                selector: self.policy.scaling.selector,
                by: self.scales_by_tokens().map(|_| self.policy.routes_by()),
            },
            scaling: self.scaler.log.iter().cloned().collect(),
            burn: self.scaler.burn.rates(now, self.policy.violation_target),
            planning: PlanningView {
                mode: self.policy.planning,
                turned: self.planning.turned(),
                plans: self.planning.plans().to_vec(),
                last: self.planning.last(),
            },
        }
    }

    /// Dollars spent up to `now` by all clusters, gone ones included.
    pub fn cost(&self, now: Time) -> f64 {
        self.retired_cost + self.clusters.values().map(|cluster| cluster.cost(now)).sum::<f64>()
    }

    /// How full a lane is.
    pub fn lane(&self, id: LaneId) -> LaneView {
        let (lanes, total) = (&self.policy.lanes, self.total());
        let waiting = self.queues.lane_len(id) as u32;
        LaneView {
            id,
            name: lanes.name(id).to_owned(),
            limit: lanes.get(id).and_then(|lane| lane.limit).map(|limit| limit.of(total)),
            guarantee: lanes.guarantee(id, total),
            running: self.counts.lane(id),
            waiting,
            max_queued: lanes.get(id).and_then(|lane| lane.max_queued),
            expected_wait: self.expected_wait(id, waiting),
        }
    }

    fn class_views(&self, queries: &[QueryView]) -> Vec<ClassView> {
        let classes = self.policy.classes.iter().zip(&self.tallies).enumerate();
        classes
            .map(|(index, (class, tally))| {
                let id = ClassId(index as u32);
                let of_class = || queries.iter().filter(|q| q.query.class == id);
                ClassView {
                    id,
                    name: class.name.clone(),
                    slo: class.slo,
                    waiting: of_class().filter(|q| q.placed.is_none()).count() as u32,
                    running: of_class().filter(|q| q.placed.is_some()).count() as u32,
                    tally: tally.clone(),
                }
            })
            .collect()
    }
}

fn query_view(live: &crate::dispatcher::Live, queued: Option<Queued>) -> QueryView {
    let (placed, cancelled) = match live.state {
        LiveState::Waiting { .. } => (None, false),
        LiveState::Running { cluster, placed, cancel } => (Some((cluster, placed)), cancel.is_some()),
    };
    QueryView {
        id: live.query.id,
        session: live.query.session,
        query: live.query.clone(),
        arrived: live.arrived,
        placed,
        cancelled,
        predicted: live.expected.and_then(|expected| expected.predicted()),
        priority: live.admission.priority,
        lane: live.admission.ticket.map_or(live.admission.lane, |ticket| ticket.lane),
        queued,
    }
}

fn cluster_view(cluster: &Cluster, now: Time) -> ClusterView {
    ClusterView {
        id: cluster.id,
        name: cluster.spec.name.clone(),
        generation: cluster.generation.0,
        phase: cluster.phase,
        since: cluster.since,
        units: cluster.spec.units,
        slots: cluster.spec.slots,
        writer: cluster.spec.writer,
        elastic: cluster.spec.offer.is_some(),
        running: cluster.running.len() as u32,
        pins: cluster.idle_pins.len() as u32,
        stuck: cluster.stuck.len() as u32,
        placed: cluster.placed,
        awake: cluster.timer.awake(now),
        active: cluster.timer.active(now),
        cost: cluster.cost(now),
        failed_by: cluster.failed_by,
    }
}
