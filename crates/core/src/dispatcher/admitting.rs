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
//! [`Dispatcher::leave_seat`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Dispatcher, Due, Live, LiveState};
use crate::admit::counts::Ticket;
use crate::admit::queue::{Among, Order, Scoring, Spot, Waiter};
use crate::admit::terms::{Forecast, Terms, Then};
use crate::admit::usage::{LEAST, log2};
use crate::class;
use crate::cluster::{Cluster, Phase, Seat};
use crate::event::{Command, Full, Refusal};
use crate::id::{ClassId, ClusterId, LaneId, QueryId, UserId};
use crate::query::{Query, Status};
use crate::statement::Kind;
use crate::time::{Span, Time};

/// log₂ of what a query weighs less whose user has used up its quota: a thousandth.
const OVER_QUOTA: f64 = 10.0;

/// No weight is further from 1 than 2 to this.
const MOST_WEIGHT: f64 = 1_000.0;

/// Over how long it is known how many queries of a lane end: half of what counts is newer than this.
const RATE_HALF_LIFE: Span = Span::from_secs(60);

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
    /// When it has run for as long as it may.
    pub(crate) cap_at: Option<Time>,
    /// The class that it waits in if its cluster gives it back.
    moves_to: Option<ClassId>,
}

/// How many queries of a lane have ended lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pace {
    ended: f64,
    at: Time,
}

impl Pace {
    fn note(&mut self, now: Time) {
        self.ended = self.lately(now) + 1.0;
        self.at = now;
    }

    fn lately(&self, now: Time) -> f64 {
        let past = now.since(self.at).secs_f64() / RATE_HALF_LIFE.secs_f64();
        self.ended * crate::math::pow(0.5, past)
    }

    /// How long it takes until so many have ended; None if none has lately.
    fn until(&self, now: Time, queries: usize) -> Option<Span> {
        let a_second = self.lately(now) * std::f64::consts::LN_2 / RATE_HALF_LIFE.secs_f64();
        (self.lately(now) > 0.5).then(|| Span::from_secs_f64(queries as f64 / a_second))
    }
}

/// Why a query waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitsFor {
    /// As many of its class run as may.
    Class,
    /// As many of its lane run as may.
    Lane,
    /// As many run in all as may.
    Gateway,
    /// No cluster has room for it.
    Cluster,
    /// Others come before it.
    Turn,
}

impl WaitsFor {
    /// The name that views use.
    pub const fn name(self) -> &'static str {
        match self {
            WaitsFor::Class => "class",
            WaitsFor::Lane => "lane",
            WaitsFor::Gateway => "gateway",
            WaitsFor::Cluster => "cluster",
            WaitsFor::Turn => "turn",
        }
    }
}

/// Where a query that waits stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    /// Why it waits.
    pub because: WaitsFor,
    /// How many of its lane come before it: at most, where turns are fair.
    pub ahead: u32,
    /// How long that takes at the pace of the last minutes; None if nothing of its lane has ended lately.
    pub expected: Option<Span>,
}

impl Dispatcher {
    /// What keys of the queues are made from.
    fn scored<R>(&mut self, act: impl FnOnce(&mut crate::admit::queue::Queues, Scoring<'_>) -> R) -> R {
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
        let foresees = terms.thresholds.predict() || terms.refuse_late || fair && terms.weight.work != 0.0;
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
            self.foreseen.entry(live.query.fingerprint).or_default().insert(id);
        }
        self.scored(|queues, scoring| queues.push(spot, waiter, scoring));
    }

    /// Takes a query out of the queue that it waits in.
    pub(super) fn unqueue(&mut self, id: QueryId) {
        let (Some(spot), Some(live)) = (self.spot(id), self.live.get(&id)) else { return };
        if let Some(foreseen) = self.foreseen.get_mut(&live.query.fingerprint) {
            foreseen.remove(&id);
            if foreseen.is_empty() {
                let shape = live.query.fingerprint;
                self.foreseen.remove(&shape);
            }
        }
        self.again.remove(&spot.seq);
        self.scored(|queues, scoring| queues.remove(spot, scoring));
    }

    /// Until when a query may wait.
    pub(super) fn may_wait_until(&self, id: QueryId) -> Time {
        let Some(live) = self.live.get(&id) else { return self.now };
        let by_class = self.terms(live.query.class).and_then(|terms| terms.queue_timeout);
        let by_lane = self.policy.lanes.get(live.admission.lane).and_then(|lane| lane.queue_timeout);
        let waits = live.query.class != class::CONTROL;
        let own = if waits { by_class.or(by_lane) } else { None };
        live.arrived + own.unwrap_or(self.policy.wait_limit)
    }

    /// How many may run at once in all: as the policy says, or as ready clusters have slots.
    pub(crate) fn total(&self) -> u32 {
        let slots = || {
            let ready = self.clusters.values().filter(|cluster| cluster.phase == Phase::Ready);
            ready.fold(0, |slots: u32, cluster| slots.saturating_add(cluster.spec.slots))
        };
        self.policy.max_running.unwrap_or_else(slots)
    }

    /// True if one more of that class and lane may run now, as far as limits go.
    fn may_run(&self, class: ClassId, lane: LaneId, total: u32) -> bool {
        !self.is_gateway_full()
            && self.counts.lane(lane) < self.policy.lanes.limit(lane, total)
            && !self.is_class_full(class)
    }

    fn is_gateway_full(&self) -> bool {
        self.policy.max_running.is_some_and(|most| self.counts.total() >= most)
    }

    fn is_class_full(&self, class: ClassId) -> bool {
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

    /// Queries that a cluster turned away and that may run, oldest first.
    pub(super) fn turned_away(&self) -> Vec<QueryId> {
        let total = self.total();
        let may_run = |id: &&QueryId| {
            self.live.get(id).is_some_and(|live| self.may_run(live.query.class, live.admission.lane, total))
        };
        self.again.values().filter(may_run).copied().collect()
    }

    /// True if the limits allow that a query runs that could when it was last looked at.
    pub(super) fn still_may_run(&self, id: QueryId) -> bool {
        let live = self.live.get(&id);
        live.is_some_and(|live| self.may_run(live.query.class, live.admission.lane, self.total()))
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
        let (class, lane) = (live.query.class, live.admission.lane);
        let ticket = match kept {
            Some(ticket) => Some(ticket),
            None if class == class::CONTROL => None,
            None => Some(Ticket { class, lane }),
        };
        if let Some(ticket) = ticket.filter(|_| kept.is_none()) {
            self.counts.enter(ticket);
            self.block_if_full(ticket.class);
        }
        let beside = self.clusters.get(&on).map_or(1, |cluster| cluster.taken(Seat::Slot).max(1));
        let runtime = self.terms(class).and_then(|terms| terms.cap.as_ref()).map(|cap| cap.runtime);
        let cap_at = runtime.filter(|_| kept.is_none() && ticket.is_some()).map(|runtime| self.now + runtime);
        self.timers.extend(cap_at.map(|at| (at, Due::RuntimeCap(id))));
        if let Some(live) = self.live.get_mut(&id) {
            let admission = &mut live.admission;
            (admission.ticket, admission.beside, admission.cap_at) = (ticket, beside, cap_at);
        }
        self.charge_beforehand(id, on);
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

    /// A query leaves its cluster: what it was follows from how long it ran and how many shared the cluster with it.
    pub(super) fn settle_account(&mut self, id: QueryId) {
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
        if let Some(rules) = self.policy.adaptive {
            let slowed = alone.map_or(took, |alone| took / alone.secs_f64().max(1e-3));
            cluster.gradient.note(rules, cluster.spec.slots, slowed, by_now);
        }
        if self.policy.order != Order::Fair {
            return;
        }
        let shared = f64::from(beside + by_now) / 2.0;
        let work = took * f64::from(cluster.spec.units.0) / shared;
        self.accounts.took(who.0, work);
        self.charge(who, work - charged);
    }

    /// A query has ended that ran: its lane gets on, and its cluster knows its text.
    pub(super) fn note_end(&mut self, live: &Live, status: Status) {
        let LiveState::Running { cluster, .. } = live.state else { return };
        if live.query.class == class::CONTROL {
            return;
        }
        if let Some(traits) = live.query.traits.as_ref().filter(|_| status == Status::Finished) {
            self.warm.put(traits.text, self.now, cluster);
        }
        self.move_lanes(live.query.fingerprint);
        let (now, at) = (self.now, live.admission.lane.0 as usize);
        if self.paces.len() <= at {
            self.paces.resize(at + 1, Pace::default());
        }
        self.paces[at].note(now);
    }

    /// How long it takes until so many queries of a lane have had their turn.
    pub(crate) fn expected_wait(&self, lane: LaneId, ahead: u32) -> Option<Span> {
        self.paces.get(lane.0 as usize)?.until(self.now, ahead as usize + 1)
    }

    /// How many of its lane come before one that waits, where it has come just now: at most, where turns are fair.
    pub(super) fn ahead_of_newest(&self, id: QueryId) -> u32 {
        let Some(spot) = self.spot(id) else { return 0 };
        let others = self.queues.lane_len(spot.lane).saturating_sub(1);
        let (own, users) = self.queues.user_len(spot);
        match self.policy.order {
            Order::Fair => others.min((own * users).saturating_sub(1)) as u32,
            Order::Fifo => others as u32,
        }
    }

    /// Where a query stands that has come just now; None if it does not wait.
    pub fn queued(&self, id: QueryId) -> Option<Queued> {
        self.live.get(&id).filter(|live| matches!(live.state, LiveState::Waiting { .. }))?;
        let lane = self.live.get(&id).map(|live| live.admission.lane).unwrap_or_default();
        let ahead = match self.live.get(&id).is_some_and(|live| live.query.class == class::CONTROL) {
            true => self.control.len().saturating_sub(1) as u32,
            false => self.ahead_of_newest(id),
        };
        let because = self.waits_for(id).unwrap_or(WaitsFor::Cluster);
        Some(Queued { because, ahead, expected: self.expected_wait(lane, ahead) })
    }

    /// Where every query stands that waits.
    pub(crate) fn queued_all(&self) -> BTreeMap<QueryId, Queued> {
        let mut all = BTreeMap::new();
        let mut put = |id, lane, ahead| {
            let because = self.waits_for(id).unwrap_or(WaitsFor::Cluster);
            all.insert(id, Queued { because, ahead, expected: self.expected_wait(lane, ahead) });
        };
        for (ahead, id) in self.control.values().chain(self.again.values()).enumerate() {
            put(*id, LaneId::default(), ahead as u32);
        }
        let mut places: Vec<(Spot, QueryId)> = self.queues.iter().collect();
        if self.policy.order == Order::Fifo {
            places.sort_by_key(|(spot, _)| (spot.lane, spot.seq));
        }
        let (mut before, mut in_group) = (None, 0);
        for (spot, id) in places {
            let group = match self.policy.order {
                Order::Fifo => (spot.lane, None),
                Order::Fair => (spot.lane, Some((spot.class, spot.user))),
            };
            in_group = if before == Some(group) { in_group + 1 } else { 0 };
            before = Some(group);
            let ahead = match self.policy.order {
                Order::Fifo => in_group,
                Order::Fair => {
                    let users = self.queues.user_len(spot).1;
                    self.queues.lane_len(spot.lane).min((in_group + 1) * users).saturating_sub(1)
                }
            };
            put(id, spot.lane, ahead as u32);
        }
        all
    }

    /// Why a waiting query does.
    pub(crate) fn waits_for(&self, id: QueryId) -> Option<WaitsFor> {
        let live = self.live.get(&id)?;
        let (class, lane, total) = (live.query.class, live.admission.lane, self.total());
        let any_room = self.clusters.values().any(|cluster| self.has_room(cluster, Seat::Slot));
        Some(if class == class::CONTROL {
            WaitsFor::Cluster
        } else if self.is_class_full(class) {
            WaitsFor::Class
        } else if self.counts.lane(lane) >= self.policy.lanes.limit(lane, total) {
            WaitsFor::Lane
        } else if self.is_gateway_full() {
            WaitsFor::Gateway
        } else if any_room && !self.again.contains_key(&live.seq) {
            WaitsFor::Turn
        } else {
            WaitsFor::Cluster
        })
    }

    /// Refuses a query that has come and waits, if it may not; or, where turns are fair, the newest of someone of whom more wait.
    pub(super) fn refuse_what_is_too_much(&mut self, id: QueryId, commands: &mut Vec<Command>) {
        let Some((because, among)) = self.too_much(id) else { return };
        let own = self.spot(id).map_or(0, |spot| self.queues.user_len(spot).0);
        let longest = match self.policy.order {
            Order::Fifo => None,
            Order::Fair => self.queues.longest(match among {
                Full::Class(class) => Among::Class(class),
                Full::Lane(lane) => Among::Lane(lane),
                Full::Gateway => Among::All,
            }),
        };
        match longest.filter(|(len, ..)| *len > own) {
            Some((_, _, newest)) => self.refuse(newest, because, commands),
            None => self.refuse(id, because, commands),
        }
    }

    /// What is full with this one, if anything is.
    fn too_much(&self, id: QueryId) -> Option<(Refusal, Full)> {
        let spot = self.spot(id)?;
        let waiting = self.queues.len() + self.again.len();
        let of_class = self.terms(spot.class).and_then(|terms| terms.max_queued);
        let of_lane = self.policy.lanes.get(spot.lane).and_then(|lane| lane.max_queued);
        let full = |full: Full, limit: u32| {
            let wait = self.expected_wait(spot.lane, self.ahead_of_newest(id));
            Some((Refusal::Full { of: full, lane: spot.lane, limit, wait }, full))
        };
        match (of_class, of_lane) {
            (Some(limit), _) if self.queues.class_len(spot.class) > limit as usize => {
                full(Full::Class(spot.class), limit)
            }
            (_, Some(limit)) if self.queues.lane_len(spot.lane) > limit as usize => full(Full::Lane(spot.lane), limit),
            _ if waiting > self.policy.max_waiting as usize => full(Full::Gateway, self.policy.max_waiting),
            _ => None,
        }
    }

    /// Refuses a query that waits and would be late anyway, if its class wants that.
    pub(super) fn refuse_if_late_anyway(&mut self, id: QueryId, commands: &mut Vec<Command>) {
        let Some(live) = self.live.get(&id) else { return };
        let wants = self.terms(live.query.class).is_some_and(|terms| terms.refuse_late);
        let (Some(slo), true, lane) = (live.query.slo, wants, live.admission.lane) else { return };
        let query = live.query.clone();
        let Some(wait) = self.expected_wait(lane, self.ahead_of_newest(id)) else { return };
        let takes = self.forecast(&query).map_or(Span::ZERO, |forecast| forecast.latency);
        if wait + takes > slo {
            self.refuse(id, Refusal::TooLate { lane, wait, takes, slo }, commands);
        }
    }

    /// Queries of a shape have turned out to be lighter or heavier than was thought: those that wait move to the lane that they
    /// would be in if they came now.
    pub(super) fn move_lanes(&mut self, shape: crate::fingerprint::Fingerprint) {
        let Some(waiting) = self.foreseen.get(&shape).cloned() else { return };
        for id in waiting {
            let Some(query) = self.live.get(&id).map(|live| live.query.clone()) else { continue };
            let found = self.admission(&query);
            let Some(live) = self.live.get(&id) else { continue };
            let same = (live.admission.priority, live.admission.lane) == (found.priority, found.lane);
            if same || self.again.contains_key(&live.seq) {
                continue;
            }
            self.unqueue(id);
            if let Some(live) = self.live.get_mut(&id) {
                live.admission = found;
            }
            self.queue(id);
        }
    }

    /// A query has run for as long as its class allows.
    pub(super) fn ran_too_long(&mut self, id: QueryId, commands: &mut Vec<Command>) {
        let Some(live) = self.live.get_mut(&id) else { return };
        live.admission.cap_at = None;
        let (class, session, kind) = (live.query.class, live.query.session, live.query.kind);
        let counts_as = live.admission.ticket.map_or(class, |ticket| ticket.class);
        let LiveState::Running { cluster, cancel: None, .. } = live.state else { return };
        let then = self.terms(counts_as).and_then(|terms| terms.cap.as_ref()).map(|cap| cap.then.clone());
        let named = |name: &str| class::find(&self.policy.classes, name).filter(|found| *found != class::CONTROL);
        match then {
            None => {}
            Some(Then::Cancel) => self.cancel(id, commands),
            Some(Then::Cascade(name)) => {
                if let Some(to) = named(&name) {
                    self.cascade(id, to);
                }
            }
            Some(Then::Resubmit(name)) => {
                let Some(to) = named(&name) else { return };
                self.cascade(id, to);
                let pinned = self.sessions.get(&session).is_some_and(|hold| hold.pin.is_some());
                let elsewhere = self
                    .clusters
                    .values()
                    .any(|other| other.id != cluster && matches!(other.phase, Phase::Ready | Phase::Starting));
                if kind == Kind::Select && !pinned && elsewhere {
                    if let Some(live) = self.live.get_mut(&id) {
                        live.admission.moves_to = Some(to);
                    }
                    commands.push(Command::Recall { query: id, cluster });
                }
            }
        }
    }

    /// A running query counts as one of another class from now on, however many of that run; and may run for as long as that one
    /// says.
    fn cascade(&mut self, id: QueryId, to: ClassId) {
        let (Some(live), Some(terms)) = (self.live.get(&id), self.terms(to)) else { return };
        let LiveState::Running { placed, .. } = live.state else { return };
        let Some(before) = live.admission.ticket else { return };
        let lane = self.policy.lanes.lane_of(terms, live.admission.priority.min(terms.priority));
        let cap_at = terms.cap.as_ref().map(|cap| placed + cap.runtime).filter(|at| *at > self.now);
        let ticket = Ticket { class: to, lane };
        self.takes_ticket(before);
        self.counts.enter(ticket);
        self.block_if_full(to);
        self.timers.extend(cap_at.map(|at| (at, Due::RuntimeCap(id))));
        if let Some(live) = self.live.get_mut(&id) {
            (live.admission.ticket, live.admission.cap_at) = (Some(ticket), cap_at);
        }
    }

    /// A query comes back from its cluster and waits again: in another class, if it was to move.
    pub(super) fn moved(&mut self, id: QueryId) {
        let Some(to) = self.live.get_mut(&id).and_then(|live| live.admission.moves_to.take()) else { return };
        let Some(mut query) = self.live.get(&id).map(|live| live.query.clone()) else { return };
        query.class = to;
        let admission = self.admission(&query);
        if let Some(live) = self.live.get_mut(&id) {
            (live.query.class, live.admission) = (to, admission);
        }
    }

    /// The rules are others: all that wait are queued anew, and what runs counts as what it would be now.
    pub(super) fn readmit(&mut self, renumbered: impl Fn(ClassId) -> ClassId) {
        let waiting: Vec<QueryId> = self.queues.iter().map(|(_, query)| query).collect();
        (self.queues, self.counts) = Default::default();
        self.foreseen.clear();
        self.accounts.renumber(&renumbered);
        let lanes = self.policy.lanes.ids().count();
        self.paces.truncate(lanes);
        for id in self.live.keys().copied().collect::<Vec<_>>() {
            let Some(query) = self.live.get(&id).map(|live| live.query.clone()) else { continue };
            let found = self.admission(&query);
            let Some(live) = self.live.get_mut(&id) else { continue };
            let kept = &live.admission;
            let ticket = kept.ticket.map(|ticket| Ticket { class: renumbered(ticket.class), lane: found.lane });
            let moves_to = kept.moves_to.map(&renumbered);
            let (charged, beside, cap_at) = (kept.charged, kept.beside, kept.cap_at);
            live.admission = Admission { ticket, charged, beside, cap_at, moves_to, ..found };
            self.counts_again(ticket);
        }
        let sessions: Vec<_> = self.sessions.keys().copied().collect();
        for session in sessions {
            let Some(pin) = self.sessions.get_mut(&session).and_then(|hold| hold.pin.as_mut()) else { continue };
            let Some(before) = pin.ticket else { continue };
            let class = renumbered(before.class);
            let classes = &self.policy.classes;
            let lane = classes
                .get(class.0 as usize)
                .map_or_else(Default::default, |class| self.policy.lanes.lane_of(&class.terms, class.terms.priority));
            let ticket = Ticket { class, lane };
            pin.ticket = Some(ticket);
            self.counts_again(Some(ticket));
        }
        waiting.into_iter().for_each(|id| self.queue(id));
        for class in 0..self.policy.classes.len() as u32 {
            self.block_if_full(ClassId(class));
        }
    }

    fn counts_again(&mut self, ticket: Option<Ticket>) {
        if let Some(ticket) = ticket {
            self.counts.enter(ticket);
        }
    }
}
