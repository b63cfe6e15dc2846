//! The fleet grows and shrinks: triggers, studies, starts, stops (AutoSLO, section 6, Algorithm 2). What token policies start
//! instead is in [`calling`](super::calling); what is idle stops here, whoever routes.
//!
//! Looked at on arrivals and by a timer: with arrivals alone, an idle fleet would never shrink.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{Dispatcher, Due, LiveState, Planning};
use crate::class;
use crate::cluster::{Cluster, Phase, Spec};
use crate::event::{Command, LossCause};
use crate::id::{ClusterId, QueryId, StudyId};
use crate::mode::Mode;
use crate::predict::distribution::Prediction;
use crate::query::Query;
use crate::scale::burn::Burn;
use crate::scale::window::Window;
use crate::scale::{Act, Answer, Because, Prospect, Scaled, Scaling, Selector, Studies, Trigger};
use crate::time::{Span, Time};

/// How often triggers are looked at while queries are there and none comes.
const TICK: Span = Span::from_secs(10);

/// Decisions about the fleet that are kept.
pub const SCALED_KEPT: usize = 256;

/// What scaling goes by.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Scaler {
    /// When the first query came.
    began: Option<Time>,
    pub(super) window: Window,
    pub(crate) burn: Burn,
    /// The ready clusters, as of the last look.
    known: Vec<ClusterId>,
    /// Queries that came before this say nothing of the fleet that is there: t_change of the paper.
    pub(super) changed: Time,
    in_flight: Option<InFlight>,
    studies: u64,
    /// When triggers are looked at next.
    pub(crate) wake: Option<Time>,
    /// True if that time has come.
    ticked: bool,
    pub(crate) log: VecDeque<Scaled>,
}

/// What has been begun and not come to its end. Meanwhile nothing else is begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum InFlight {
    Study {
        study: StudyId,
        asked: Time,
        /// The clusters that there were.
        fleet: Vec<ClusterId>,
    },
    Start(ClusterId),
}

/// What a study starts from.
#[derive(Clone, Debug)]
pub struct Study {
    /// A dispatcher that goes on from here, and does not scale.
    pub fork: Dispatcher,
    /// When it was asked for.
    pub at: Time,
    /// What came within the window, oldest first.
    pub arrivals: Vec<(Time, Query)>,
    /// How long the window is.
    pub width: Span,
    /// The rules.
    pub rules: Scaling,
}

impl Dispatcher {
    /// A query came: it will be part of what a study lets come again.
    pub(super) fn scale_arrived(&mut self, query: &Query) {
        if self.policy.scaling.mode != Mode::Off && query.class != class::CONTROL {
            self.scaler.began.get_or_insert(self.now);
            self.scaler.window.arrived(self.now, query);
        }
    }

    /// A query that counts has ended.
    pub(super) fn scale_ended(&mut self, arrived: Time, late: Option<bool>) {
        let Some(late) = late else { return };
        self.scaler.burn.count(self.now, late);
        if self.policy.scaling.mode != Mode::Off {
            self.scaler.window.ended(self.now, arrived, late);
        }
    }

    /// A timer for scaling has come.
    pub(super) fn scale_tick(&mut self) {
        (self.scaler.wake, self.scaler.ticked) = (None, true);
    }

    /// Looks at the fleet after an event; `came`: a query has.
    pub(super) fn scale(&mut self, came: bool, commands: &mut Vec<Command>) {
        let look = std::mem::take(&mut self.scaler.ticked) || came;
        if self.policy.scaling.mode == Mode::Off || self.shutdown.is_some() {
            return self.scale_at(None);
        }
        let rules = &self.policy.scaling;
        self.scaler.window.prune(self.now, rules.study_window, rules.window);
        self.settle(commands);
        self.give_up(commands);
        self.tear_down(commands);
        if look && self.scaler.in_flight.is_none() && self.scales_by_tokens().is_none() {
            self.consider_start(commands);
        }
        self.scale_at(self.next_look());
    }

    /// A query came and no cluster is there or coming: one is started, if that is what scaling is there for.
    pub(super) fn scale_from_nothing(&mut self, commands: &mut Vec<Command>) {
        let asks_nobody = self.scales_by_tokens().is_none() && self.scaler.in_flight.is_none();
        if self.policy.scaling.mode == Mode::On && asks_nobody && !self.is_any_coming() {
            self.begin(0, Because::NoCluster, Vec::new(), commands);
        }
    }

    /// A study is done.
    pub(super) fn study_done(&mut self, id: StudyId, answer: Answer, commands: &mut Vec<Command>) {
        let is_it = |flight: &mut InFlight| matches!(flight, InFlight::Study { study, .. } if *study == id);
        let Some(InFlight::Study { asked, fleet, .. }) = self.scaler.in_flight.take_if(is_it) else {
            return self.makes_no_sense();
        };
        if self.fleet() != fleet || self.shutdown.is_some() {
            return self.note(Act::Nothing, Because::Stale, answer.prospects);
        }
        match answer.best(self.policy.violation_target) {
            Some(offer) => self.begin(offer as usize, Because::Best, answer.prospects, commands),
            None => {
                self.note(Act::Nothing, Because::NothingBetter, answer.prospects);
                self.wait_from(asked);
            }
        }
    }

    /// What a study that is asked for now starts from.
    pub fn study(&self) -> Study {
        let rules = self.policy.scaling.clone();
        let began = self.scaler.began.unwrap_or(self.now);
        let (arrivals, width) = self.scaler.window.arrivals(self.now, rules.study_window, began);
        let mut fork = self.fork();
        if let (Studies::Sharing, Some(predicting)) = (rules.studies, &mut fork.predicting) {
            predicting.predictor.read_no_more();
        }
        Study { fork, at: self.now, arrivals, width, rules }
    }

    /// A dispatcher that goes on from here by itself: what runs and waits, the model and the policy, and no scaling, by plan or otherwise. What
    /// it would only be shown by is left out: evidence, what is gone, the scaler's window.
    pub fn fork(&self) -> Dispatcher {
        let mut policy = self.policy.clone();
        (policy.scaling.mode, policy.planning, policy.decisions_kept) = (Mode::Off, Mode::Off, 0);
        (policy.routing, policy.routing_mode) = (self.policy.routes_by(), Mode::On);
        let mut timers = self.timers.clone();
        let wakes = [(self.scaler.wake, Due::Scale), (self.planning.wake, Due::Plan)];
        for (at, due) in wakes.into_iter().filter_map(|(at, due)| Some((at?, due))) {
            timers.remove(&(at, due));
        }
        let mut predicting = self.predicting.clone();
        if let Some(predicting) = &mut predicting {
            predicting.is_fork = true;
        }
        Dispatcher {
            now: self.now,
            policy,
            router: self.router.clone(),
            roll: self.roll.clone(),
            trial: self.trial.clone(),
            clusters: self.clusters.clone(),
            retired: VecDeque::new(),
            retired_cost: self.retired_cost,
            live: self.live.clone(),
            control: self.control.clone(),
            queues: self.queues.clone(),
            again: self.again.clone(),
            counts: self.counts.clone(),
            accounts: self.accounts.clone(),
            foreseen: self.foreseen.clone(),
            paces: self.paces.clone(),
            warm: self.warm.clone(),
            sessions: self.sessions.clone(),
            timers,
            tallies: self.tallies.clone(),
            decisions: VecDeque::new(),
            shutdown: self.shutdown,
            kept_over: self.kept_over,
            predicting,
            models: self.models.clone(),
            models_failed: self.models_failed,
            scaler: Scaler::default(),
            planning: Planning::default(),
            next_cluster: self.next_cluster,
            next_seq: self.next_seq,
            senseless: self.senseless,
        }
    }

    /// What is expected by now of a query that runs: where, since when, and how long from then. None if nothing is.
    pub fn outlook(&self, query: QueryId) -> Option<(ClusterId, Time, Prediction)> {
        let live = self.live.get(&query)?;
        let LiveState::Running { cluster, placed, .. } = live.state else { return None };
        let standings = self.predicting.as_ref().and_then(|predicting| predicting.standings.get(&cluster));
        let standing = standings.into_iter().flatten().find(|standing| standing.query == query);
        let prediction =
            standing.map(|standing| standing.outlook).or(live.expected.map(|expected| expected.prediction));
        Some((cluster, placed, prediction?))
    }

    /// What is expected by now of those that run on a cluster and are followed.
    pub fn outlooks(&self, cluster: ClusterId) -> impl Iterator<Item = (QueryId, Time, Prediction)> {
        let standings = self.predicting.as_ref().and_then(|predicting| predicting.standings.get(&cluster));
        standings.into_iter().flatten().map(|standing| (standing.query, standing.placed, standing.outlook))
    }

    /// The last decisions about the fleet, oldest first.
    pub fn scaled(&self) -> impl DoubleEndedIterator<Item = &Scaled> {
        self.scaler.log.iter()
    }

    /// The queries that run, control queries excepted.
    pub fn running(&self) -> impl Iterator<Item = QueryId> {
        let running = self.live.iter().filter(|(_, live)| matches!(live.state, LiveState::Running { .. }));
        running.filter(|(_, live)| live.query.class != class::CONTROL).map(|(id, _)| *id)
    }

    /// What was in flight may have come to its end, and the fleet may be another.
    fn settle(&mut self, commands: &mut Vec<Command>) {
        if let Some(InFlight::Start(id)) = self.scaler.in_flight {
            let phase = self.clusters.get(&id).map(|cluster| cluster.phase);
            if phase != Some(Phase::Starting) {
                self.scaler.in_flight = None;
            }
            if phase == Some(Phase::Ready) && self.policy.scaling.selector == Selector::Vertical {
                self.replace_all_by(id, commands);
            }
        }
        let ready: Vec<ClusterId> = self.ready().map(|cluster| cluster.id).collect();
        if ready != self.scaler.known {
            self.scaler.known = ready;
            self.scaler.changed = self.scaler.changed.max(self.now);
        }
    }

    /// The one that was started takes the place of all others that can be stopped.
    fn replace_all_by(&mut self, id: ClusterId, commands: &mut Vec<Command>) {
        let others = self.ready().filter(|cluster| cluster.id != id && cluster.spec.offer.is_some());
        for other in others.map(|cluster| cluster.id).collect::<Vec<_>>() {
            self.note(Act::Stop(other), Because::Replaced, Vec::new());
            if self.policy.scaling.mode == Mode::On {
                self.drain(other, commands);
            }
        }
    }

    /// Gives up what could not be started while as many are ready as there must be: by the time that it can be, nobody may want it,
    /// and it would be paid for. If somebody does, that is found out again, after a while.
    fn give_up(&mut self, commands: &mut Vec<Command>) {
        let rules = &self.policy.scaling;
        if rules.mode != Mode::On || self.ready().count() < rules.least.max(1) as usize {
            return;
        }
        let failed = self.clusters.values().filter(|cluster| {
            let at_its_start = matches!(cluster.failed_by, Some(LossCause::StartFailed | LossCause::StartTimedOut));
            cluster.phase == Phase::Failed && cluster.spec.offer.is_some() && at_its_start
        });
        let pause = rules.start_takes.min(self.policy.retry_most);
        for id in failed.map(|cluster| cluster.id).collect::<Vec<_>>() {
            self.note(Act::Stop(id), Because::CouldNotStart, Vec::new());
            self.drain(id, commands);
            self.scaler.changed = self.scaler.changed.max(self.now + pause);
        }
    }

    /// Stops what has been idle for long enough, but for the last ones.
    fn tear_down(&mut self, commands: &mut Vec<Command>) {
        let idle: Vec<(Time, ClusterId)> = self.idle().filter(|(at, _)| *at <= self.now).collect();
        for (_, id) in idle {
            if self.ready().count() <= self.policy.scaling.least as usize {
                return;
            }
            let Some(cluster) = self.clusters.get_mut(&id) else { continue };
            let since = self.now.since(cluster.last_used);
            // What was only thought of is thought of again after as long.
            cluster.last_used = self.now;
            self.note(Act::Stop(id), Because::Idle(since), Vec::new());
            if self.policy.scaling.mode == Mode::On {
                self.drain(id, commands);
            }
        }
    }

    /// Ready clusters that may be stopped and that nothing holds, with the time from which they are idle for too long.
    fn idle(&self) -> impl Iterator<Item = (Time, ClusterId)> {
        let rules = &self.policy.scaling;
        let by_tokens = self.scales_by_tokens().is_some();
        let idle = self.ready().filter(|cluster| cluster.spec.offer.is_some() && cluster.is_empty());
        idle.map(move |cluster| match by_tokens {
            true => (cluster.last_used + rules.standby, cluster.id),
            false => ((cluster.last_used + rules.idle).max(cluster.since + rules.lifetime), cluster.id),
        })
    }

    fn ready(&self) -> impl Iterator<Item = &Cluster> {
        self.clusters.values().filter(|cluster| cluster.phase == Phase::Ready)
    }

    /// Clusters that are there or coming.
    fn fleet(&self) -> Vec<ClusterId> {
        let here = |cluster: &&Cluster| matches!(cluster.phase, Phase::Starting | Phase::Ready);
        self.clusters.values().filter(here).map(|cluster| cluster.id).collect()
    }

    /// Is it time for a start?
    fn consider_start(&mut self, commands: &mut Vec<Command>) {
        let rules = &self.policy.scaling;
        let because = match rules.trigger {
            Trigger::None => return,
            Trigger::QueueDepth => {
                let outstanding = self.live.values().filter(|live| live.query.class != class::CONTROL).count() as u32;
                (outstanding >= rules.queue_depth.max(1)).then_some(Because::Outstanding(outstanding))
            }
            Trigger::Observed => self.too_many(self.scaler.window.observed(self.scaler.changed)),
            Trigger::Combined => {
                let (ended, live) = (self.scaler.window.observed(self.scaler.changed), self.late_by_now());
                self.too_many((ended.0 + live.0, ended.1 + live.1))
            }
        };
        // After a start that came to nothing, what it was to relieve goes on for a while.
        if let Some(because) = because.filter(|_| self.now >= self.scaler.changed) {
            self.select(because, commands);
        }
    }

    /// Someone wants the fleet looked at.
    pub(super) fn scale_asked(&mut self, commands: &mut Vec<Command>) {
        if self.policy.scaling.mode == Mode::Off || self.scaler.in_flight.is_some() || self.shutdown.is_some() {
            return self.makes_no_sense();
        }
        self.select(Because::Asked, commands);
    }

    /// What is to be started?
    fn select(&mut self, because: Because, commands: &mut Vec<Command>) {
        let rules = &self.policy.scaling;
        match rules.selector {
            Selector::None => {}
            Selector::AddCluster | Selector::Vertical if self.predicting.is_some() && !rules.offers.is_empty() => {
                let study = StudyId(self.scaler.studies);
                self.scaler.studies += 1;
                self.scaler.in_flight = Some(InFlight::Study { study, asked: self.now, fleet: self.fleet() });
                self.note(Act::Study(study), because, Vec::new());
                commands.push(Command::Study { study });
            }
            // Without a model nothing can be studied.
            Selector::Horizontal | Selector::AddCluster | Selector::Vertical => {
                self.begin(self.like_the_largest(), because, Vec::new(), commands);
            }
        }
    }

    /// The offer that is as large as the largest cluster that is ready, or else the next smaller one, or else the smallest.
    pub(super) fn like_the_largest(&self) -> usize {
        let largest = self.ready().map(|cluster| cluster.spec.units).max();
        let fits = |offer: &Spec| largest.is_none_or(|largest| offer.units <= largest);
        self.policy.scaling.offers.iter().rposition(fits).unwrap_or(0)
    }

    /// Too many late ones, if enough are seen to say so.
    fn too_many(&self, (late, of): (u32, u32)) -> Option<Because> {
        let rules = &self.policy.scaling;
        let share = f64::from(late) / f64::from(of.max(1));
        (of >= rules.observations.max(1) && share > rules.late_share).then_some(Because::Late { late, of })
    }

    /// Of the queries with an SLO that are live, and came since the fleet changed or wait for what it cannot give: those that
    /// are late or expected to be, and all.
    fn late_by_now(&self) -> (u32, u32) {
        let since = self.scaler.changed;
        let counted = self.live.values().filter(|live| {
            let waits = matches!(live.state, LiveState::Waiting { .. });
            live.query.class != class::CONTROL && (live.arrived >= since || waits)
        });
        let (mut late, mut of) = (0, 0);
        for live in counted {
            let Some(slo) = live.query.slo else { continue };
            of += 1;
            late += u32::from(self.now.since(live.arrived) > slo);
        }
        let standings = self.predicting.iter().flat_map(|predicting| predicting.standings.values().flatten());
        let expected = standings.filter(|standing| {
            let ends = standing.placed + Span::from_secs_f64(standing.outlook.median());
            standing.arrived >= since && standing.due.is_some_and(|due| self.now <= due && due < ends)
        });
        (late + expected.count() as u32, of)
    }

    /// Starts an offer, as far as budgets allow.
    fn begin(&mut self, offer: usize, because: Because, prospects: Vec<Prospect>, commands: &mut Vec<Command>) {
        let Some(spec) = self.policy.scaling.offers.get(offer).cloned() else { return };
        if let Some(because) = self.no_room_for(&spec) {
            self.note(Act::Nothing, because, prospects);
            return self.wait_from(self.now);
        }
        if self.policy.scaling.mode != Mode::On {
            self.note(Act::Start(spec.units, None), because, prospects);
            return self.wait_from(self.now);
        }
        let units = spec.units;
        let started = self.start_cluster(spec, commands);
        self.scaler.in_flight = started.map(InFlight::Start);
        self.note(Act::Start(units, started), because, prospects);
    }

    /// Why another cluster may not be started for what comes or waits, if so: what is planned for the time that it lives at least
    /// must find room. Where nothing is there or coming, that does not count.
    pub(super) fn no_room_for(&self, spec: &Spec) -> Option<Because> {
        self.beyond_budget(spec).or_else(|| self.reserved(spec).filter(|_| self.is_any_coming()))
    }

    /// Why another cluster may not be started at all, if so.
    pub(super) fn beyond_budget(&self, spec: &Spec) -> Option<Because> {
        let rules = &self.policy.scaling;
        let most = self.most_clusters();
        if self.clusters.len() >= most as usize {
            return Some(Because::MostClusters(most));
        }
        let would = hourly(spec) + self.per_hour();
        rules.most_per_hour.filter(|most| would > *most).map(|most| Because::MostPerHour { would, most })
    }

    /// How many clusters scaling may bring them to.
    pub(super) fn most_clusters(&self) -> u32 {
        self.policy.scaling.most.min(self.policy.max_clusters)
    }

    /// Dollars an hour that all clusters together cost while they are awake.
    pub(super) fn per_hour(&self) -> f64 {
        self.clusters.values().map(|cluster| hourly(&cluster.spec)).sum()
    }

    /// Nothing was started: what comes before a start would have been ready says nothing new.
    pub(super) fn wait_from(&mut self, from: Time) {
        self.scaler.changed = self.scaler.changed.max(from + self.policy.scaling.start_takes);
    }

    pub(super) fn note(&mut self, act: Act, because: Because, prospects: Vec<Prospect>) {
        self.note_as(self.policy.scaling.mode, act, because, prospects);
    }

    /// The same, of a controller with this mode.
    pub(super) fn note_as(&mut self, mode: Mode, act: Act, because: Because, prospects: Vec<Prospect>) {
        self.scaler.log.push_back(Scaled { at: self.now, mode, act, because, prospects });
        while self.scaler.log.len() > SCALED_KEPT {
            self.scaler.log.pop_front();
        }
    }

    /// When something can change that no event tells.
    fn next_look(&self) -> Option<Time> {
        let may_stop = self.ready().count() > self.policy.scaling.least as usize;
        let idle = self.idle().map(|(at, _)| at).filter(|at| may_stop && *at > self.now).min();
        let tick = (!self.live.is_empty()).then(|| self.now + TICK);
        match (idle, tick) {
            (Some(idle), Some(tick)) => Some(idle.min(tick)),
            (idle, tick) => idle.or(tick),
        }
    }

    /// Sets the timer, if the next look is another one. While it is set it is not put off.
    fn scale_at(&mut self, at: Option<Time>) {
        let at = match (self.scaler.wake, at) {
            (Some(set), Some(at)) if set > self.now => Some(set.min(at)),
            (_, at) => at,
        };
        if at == self.scaler.wake {
            return;
        }
        if let Some(set) = self.scaler.wake {
            self.timers.remove(&(set, Due::Scale));
        }
        self.timers.extend(at.map(|at| (at, Due::Scale)));
        self.scaler.wake = at;
    }
}

/// Dollars an hour for a cluster that is awake.
pub(super) fn hourly(spec: &Spec) -> f64 {
    spec.price.cost(spec.units, Span::from_secs(3_600))
}

#[cfg(test)]
mod tests;
