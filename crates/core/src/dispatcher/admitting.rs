//! Who may run next: priorities, lanes, turns and limits of those that wait for a slot (ALGORITHMS section 3).
//!
//! ```text
//!   arrives ──▶ priority, lane, weight ──▶ queue ──(its turn; room: class, lane, gateway, a cluster)──▶ ticket ──▶ runs
//!                                            │ full, too late, waited too long                            │ cap
//!                                            ▼                                                            ▼
//!                                         refused                                       another class, or told to stop
//! ```
//!
//! A *ticket* is what a query counts as while it runs. A session that keeps its cluster keeps the ticket with it, so that limits
//! hold for what transactions hold. Tickets are given here and nowhere else, and come back on the one way out,
//! [`Dispatcher::leave_seat`]. What is told to those that wait, and who is refused, is in [`standing`]; how a query comes into
//! another class or lane later on is in [`moving`].

mod moving;
mod standing;

use serde::{Deserialize, Serialize};

use super::{Dispatcher, Due, Live, LiveState};
use crate::admit::counts::Ticket;
use crate::admit::queue::{Order, Queues, Scoring, Spot, Waiter};
use crate::admit::terms::{Forecast, Terms};
use crate::admit::usage::{LEAST, log2};
use crate::class;
use crate::cluster::{Cluster, Phase, Seat};
use crate::id::{ClassId, ClusterId, LaneId, QueryId, UserId};
use crate::query::{Query, Status};
use crate::time::{Span, Time};

pub(crate) use moving::Foreseen;
pub(crate) use standing::Pace;
pub use standing::{Queued, WaitsFor};

/// log₂ of what a query weighs less whose user has used up its quota: a thousandth.
const OVER_QUOTA: f64 = 10.0;

/// No weight is further from 1 than 2 to this.
const MOST_WEIGHT: f64 = 1_000.0;

/// What admission knows of a live query.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Admission {
    pub(crate) priority: i32,
    pub(crate) lane: LaneId,
    /// log₂ of its weight.
    weight: f64,
    /// What it counts as while it runs.
    pub(crate) ticket: Option<Ticket>,
    /// Work that its user was charged for it.
    charged: f64,
    /// How many ran on its cluster when it was placed, itself included.
    beside: u32,
    /// Since when it waits, if that is not since its arrival: it ran, and was taken off its cluster to wait in another class.
    pub(crate) waits_since: Option<Time>,
    /// It was told to stop since it had run for as long as its class allows.
    pub(crate) cut_short: bool,
    /// When it has run for as long as it may.
    pub(crate) cap_at: Option<Time>,
    /// The class that it waits in if its cluster gives it back.
    moves_to: Option<ClassId>,
}

impl Dispatcher {
    /// What keys of the queues are made from.
    fn scored<R>(&mut self, act: impl FnOnce(&mut Queues, Scoring<'_>) -> R) -> R {
        let scoring = Scoring {
            order: self.policy.order,
            half_life: self.policy.half_life,
            classes: &self.policy.classes,
            accounts: &self.accounts,
        };
        act(&mut self.queues, scoring)
    }

    fn terms(&self, class: ClassId) -> Option<&Terms> {
        self.policy.classes.get(class.0 as usize).map(|class| &class.terms)
    }

    /// Where a query waits that is in this class and lane.
    pub(crate) fn spot(&self, id: QueryId) -> Option<Spot> {
        let live = self.live.get(&id)?;
        let (lane, class, user) = (live.admission.lane, live.query.class, live.query.claim.user);
        Some(Spot { lane, class, user, seq: live.seq })
    }

    /// Priority, lane and weight of a query, as things are.
    pub(super) fn admission(&mut self, query: &Query) -> Admission {
        if query.class == class::CONTROL {
            return Admission::default();
        }
        let Some(terms) = self.terms(query.class) else { return Admission::default() };
        let fair = self.policy.order == Order::Fair;
        let foresees = terms.thresholds.predict() || fair && terms.weight.work != 0.0;
        let forecast = if foresees { self.forecast(query) } else { None };
        let Some(terms) = self.terms(query.class) else { return Admission::default() };
        let priority = terms.priority(query.claim.priority, query.claim.scan, forecast);
        let lane = self.policy.lanes.lane_of(terms, priority);
        let weight = if fair { self.weight(query, priority, forecast) } else { 0.0 };
        Admission { priority, lane, weight, ..Admission::default() }
    }

    /// What a query is expected to be alone, by the model.
    fn forecast(&mut self, query: &Query) -> Option<Forecast> {
        let profile = super::predicting::profile(query)?;
        let ready = self.clusters.values().filter(|cluster| cluster.phase == Phase::Ready);
        let mut sizes: Vec<_> = ready.map(|cluster| cluster.spec.units).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let smallest = *sizes.first()?;
        let seconds = self.guarded(|predicting, model| {
            let mut alone = |size| {
                let alone = predicting.spare.by_stage(model, &profile, size);
                predicting.corrections.correct(profile.shape, size, alone).median()
            };
            (alone(smallest), sizes.iter().map(|size| alone(*size)).fold(f64::INFINITY, f64::min))
        });
        let (on_smallest, fastest) = seconds?;
        let work = on_smallest * f64::from(smallest.0);
        (work.is_finite() && fastest.is_finite()).then(|| Forecast { work, latency: Span::from_secs_f64(fastest) })
    }

    /// log₂ of what a query weighs: the product of the parts of ALGORITHMS section 3, less what its user has used, which the
    /// queues follow by themselves.
    fn weight(&mut self, query: &Query, priority: i32, forecast: Option<Forecast>) -> f64 {
        let Some(parts) = self.terms(query.class).map(|terms| terms.weight) else { return 0.0 };
        let who = (query.class, query.claim.user);
        let over = parts.quota.is_some_and(|quota| self.accounts.over_quota(self.now, who, quota));
        let room = self.total().max(1);
        let busy = (self.counts.total() as usize + self.queues.len()) as f64 / f64::from(room);
        let text = query.traits.as_ref().map(|traits| traits.text);
        let on = text.and_then(|text| self.warm.get(&text));
        let cached = on.is_some_and(|cluster| self.clusters.get(cluster).is_some_and(Cluster::is_open));
        let by_priority = match parts.priority_doubles {
            0.0 => 0.0,
            points => f64::from(priority) / points,
        };
        let weight = log2(parts.constant.max(f64::MIN_POSITIVE)) + by_priority
            - forecast.map_or(0.0, |forecast| parts.work * log2(forecast.work.max(LEAST)))
            - parts.load * log2(busy.max(1.0))
            + if cached { parts.cached } else { 0.0 }
            - if over { OVER_QUOTA } else { 0.0 };
        if weight.is_finite() { weight.clamp(-MOST_WEIGHT, MOST_WEIGHT) } else { 0.0 }
    }

    /// Puts a query into the queue of its class and lane.
    pub(super) fn queue(&mut self, id: QueryId) {
        let (Some(spot), Some(live)) = (self.spot(id), self.live.get(&id)) else { return };
        let waiter = Waiter { query: id, weight: live.admission.weight, since: live.arrived };
        let corrected = self.terms(spot.class).is_some_and(|terms| terms.thresholds.predict());
        if corrected {
            self.foreseen.entry(live.query.fingerprint).or_default().waiting.insert(id);
        }
        self.scored(|queues, scoring| queues.push(spot, waiter, scoring));
        self.follow_pace(spot.lane);
    }

    /// Takes a query out of the queue that it waits in.
    pub(super) fn unqueue(&mut self, id: QueryId) {
        let (Some(spot), Some(live)) = (self.spot(id), self.live.get(&id)) else { return };
        if let Some(foreseen) = self.foreseen.get_mut(&live.query.fingerprint) {
            foreseen.waiting.remove(&id);
            if foreseen.waiting.is_empty() {
                let shape = live.query.fingerprint;
                self.foreseen.remove(&shape);
            }
        }
        self.again.remove(&spot.seq);
        self.scored(|queues, scoring| queues.remove(spot, scoring));
        self.follow_pace(spot.lane);
    }

    /// Until when a query may wait that begins to now.
    pub(super) fn may_wait_until(&self, id: QueryId) -> Time {
        let Some(live) = self.live.get(&id) else { return self.now };
        let by_class = self.terms(live.query.class).and_then(|terms| terms.queue_timeout);
        let by_lane = self.policy.lanes.get(live.admission.lane).and_then(|lane| lane.queue_timeout);
        let waits = live.query.class != class::CONTROL;
        let own = if waits { by_class.or(by_lane) } else { None };
        live.admission.waits_since.unwrap_or(live.arrived) + own.unwrap_or(self.policy.wait_limit)
    }

    /// How many may run at once in all: as the policy says, or as ready clusters have slots.
    pub(crate) fn total(&self) -> u32 {
        let slots = || {
            let ready = self.clusters.values().filter(|cluster| cluster.phase == Phase::Ready);
            ready.fold(0, |slots: u32, cluster| slots.saturating_add(cluster.spec.slots))
        };
        self.policy.max_running.unwrap_or_else(slots)
    }

    fn is_gateway_full(&self) -> bool {
        self.policy.max_running.is_some_and(|most| self.counts.total() >= most)
    }

    pub(crate) fn is_class_full(&self, class: ClassId) -> bool {
        self.terms(class).and_then(|terms| terms.max_running).is_some_and(|most| self.counts.class(class) >= most)
    }

    /// Whose turn it is: of the lanes that run less than is guaranteed to them, or else of all that may run more, the query
    /// that comes first. None if no limit allows one, or no cluster has room.
    pub(super) fn next_in_turn(&self) -> Option<QueryId> {
        if self.queues.len() == 0 || !self.clusters.values().any(|cluster| self.has_room(cluster, Seat::Slot)) {
            return None;
        }
        if self.is_gateway_full() {
            return None;
        }
        let total = self.total();
        let lanes = &self.policy.lanes;
        let open = self.queues.heads().filter(|(lane, _)| self.counts.lane(*lane) < lanes.limit(*lane, total));
        let first = open.min_by_key(|(lane, key)| (self.counts.lane(*lane) >= lanes.guarantee(*lane, total), *key));
        self.queues.head(first?.0).map(|(_, query)| query)
    }

    /// True if the limits allow that a query runs now.
    pub(super) fn may_run(&self, id: QueryId) -> bool {
        let Some(live) = self.live.get(&id) else { return false };
        let lane = live.admission.lane;
        !self.is_gateway_full()
            && !self.is_class_full(live.query.class)
            && self.counts.lane(lane) < self.policy.lanes.limit(lane, self.total())
    }

    /// True if one more query may be placed on a cluster.
    pub(super) fn has_room(&self, cluster: &Cluster, seat: Seat) -> bool {
        if !cluster.has_room(seat, self.policy.control_slots) {
            return false;
        }
        match self.policy.adaptive.filter(|_| seat == Seat::Slot) {
            Some(rules) => cluster.taken(seat) < cluster.gradient.limit(rules, cluster.spec.slots),
            None => true,
        }
    }

    /// A query is placed on a cluster: it counts from now on.
    pub(super) fn gets_ticket(&mut self, id: QueryId, on: ClusterId, kept: Option<Ticket>) {
        let Some(live) = self.live.get(&id) else { return };
        let (class, lane, priority) = (live.query.class, live.admission.lane, live.admission.priority);
        let ticket = match kept {
            Some(ticket) => Some(ticket),
            None if class == class::CONTROL => None,
            None => Some(Ticket { class, lane, priority }),
        };
        if let Some(ticket) = ticket.filter(|_| kept.is_none()) {
            self.counts.enter(ticket);
            self.block_if_full(ticket.class);
        }
        let beside = self.clusters.get(&on).map_or(1, |cluster| cluster.taken(Seat::Slot).max(1));
        // Each query of a transaction may run for as long as what it counts as.
        let cap_at = ticket.and_then(|ticket| self.cap_of(ticket.class)).map(|runtime| self.now + runtime);
        self.timers.extend(cap_at.map(|at| (at, Due::RuntimeCap(id))));
        if let Some(live) = self.live.get_mut(&id) {
            let admission = &mut live.admission;
            (admission.ticket, admission.beside, admission.cap_at) = (ticket, beside, cap_at);
        }
        self.charge_beforehand(id, on);
    }

    /// How long one of a class may run.
    fn cap_of(&self, class: ClassId) -> Option<Span> {
        self.terms(class).and_then(|terms| terms.cap.as_ref()).map(|cap| cap.runtime)
    }

    /// A ticket comes back.
    pub(super) fn takes_ticket(&mut self, ticket: Ticket) {
        self.counts.leave(ticket);
        self.block_if_full(ticket.class);
    }

    fn block_if_full(&mut self, class: ClassId) {
        let full = self.is_class_full(class);
        self.queues.block(class, full);
    }

    /// The rules are there: classes of which none may run are left out from the start.
    pub(super) fn block_all_full(&mut self) {
        for class in 0..self.policy.classes.len() as u32 {
            self.block_if_full(ClassId(class));
        }
    }

    /// Charges a query's user with what it is expected to be; a correction follows when it ends.
    fn charge_beforehand(&mut self, id: QueryId, on: ClusterId) {
        let (Some(live), Some(cluster)) = (self.live.get(&id), self.clusters.get(&on)) else { return };
        if self.policy.order != Order::Fair || live.admission.ticket.is_none() {
            return;
        }
        let alone = live.expected.and_then(|expected| expected.predicted()).map(|predicted| predicted.isolated);
        let foreseen = alone.map(|alone| alone.secs_f64() * f64::from(cluster.spec.units.0));
        let work = foreseen.unwrap_or_else(|| self.accounts.usual(live.query.class));
        let who = (live.query.class, live.query.claim.user);
        self.charge(who, work);
        if let Some(live) = self.live.get_mut(&id) {
            live.admission.charged = work;
        }
    }

    fn charge(&mut self, who: (ClassId, UserId), work: f64) {
        self.accounts.charge(self.now, self.policy.half_life, who, work);
        self.scored(|queues, scoring| queues.rescore(who.0, who.1, scoring));
    }

    /// A query leaves its cluster: what it was follows from how long it ran and how many shared the cluster with it. Only one that
    /// came to its end says what such queries take.
    pub(super) fn settle_account(&mut self, id: QueryId, finished: Option<Span>) {
        let Some(live) = self.live.get_mut(&id) else { return };
        if let Some(at) = live.admission.cap_at.take() {
            self.timers.remove(&(at, Due::RuntimeCap(id)));
        }
        let LiveState::Running { cluster, placed, .. } = live.state else { return };
        let (who, charged) = ((live.query.class, live.query.claim.user), std::mem::take(&mut live.admission.charged));
        let (ticket, beside) = (live.admission.ticket, live.admission.beside);
        let took = self.now.since(placed).secs_f64();
        let alone = live.expected.and_then(|expected| expected.predicted()).map(|predicted| predicted.isolated);
        let Some(cluster) = self.clusters.get_mut(&cluster).filter(|_| ticket.is_some()) else { return };
        let by_now = cluster.taken(Seat::Slot).max(1);
        if let (Some(rules), Some(blocked)) = (self.policy.adaptive, finished) {
            let ran = took - blocked.secs_f64().min(took);
            let slowed = alone.map_or(ran, |alone| ran / alone.secs_f64().max(1e-3));
            cluster.gradient.note(rules, cluster.spec.slots, slowed, by_now);
        }
        if self.policy.order != Order::Fair {
            return;
        }
        let shared = f64::from(beside + by_now) / 2.0;
        let work = took * f64::from(cluster.spec.units.0) / shared;
        if finished.is_some() {
            self.accounts.took(who.0, work);
        }
        self.charge(who, work - charged);
    }

    /// A query has ended that ran: its lane gets on, and its cluster knows its text.
    pub(super) fn note_end(&mut self, live: &Live, status: Status) {
        let LiveState::Running { cluster, .. } = live.state else { return };
        if live.query.class == class::CONTROL {
            return;
        }
        // Where texts ran last is asked only where turns are fair.
        let told = status == Status::Finished && self.policy.order == Order::Fair;
        if let Some(traits) = live.query.traits.as_ref().filter(|_| told) {
            self.warm.put(traits.text, self.now, cluster);
        }
        self.move_lanes(live.query.fingerprint);
        let now = self.now;
        self.pace(live.admission.lane).note(now);
    }

    /// How fast a lane gets on. Their number is small: the policy bounds it.
    fn pace(&mut self, lane: LaneId) -> &mut Pace {
        let at = lane.0 as usize;
        if self.paces.len() <= at {
            self.paces.resize(at + 1, Pace::default());
        }
        &mut self.paces[at]
    }

    fn follow_pace(&mut self, lane: LaneId) {
        let (now, waiting) = (self.now, self.queues.lane_len(lane) > 0);
        self.pace(lane).follow(now, waiting);
    }
}

#[cfg(test)]
mod tests;
