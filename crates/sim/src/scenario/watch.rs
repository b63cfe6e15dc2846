//! An independent look at a run: everything here is recomputed from events and commands alone. The dispatcher's own
//! counts, which [`check`](punctual_core::check) compares with each other, are not looked at.
//!
//! ```text
//!  Arrived ──▶ waits ──Run──▶ runs ──Record──▶ ended, and never seen again
//!                ▲  │           │
//!                │  └─Refuse──▶ Record
//!                └───Bounced────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::class;
use punctual_core::cluster::{Seat, Spec};
use punctual_core::event::{Abandoned, Command, Event};
use punctual_core::id::{ClassId, ClusterId, Generation, QueryId, SessionId};
use punctual_core::policy::Policy;
use punctual_core::query::Query;
use punctual_core::route::Routing;
use punctual_core::scale::Scaled;
use punctual_core::time::Time;

use super::admission::{Capped, Rules, Ticket};
use super::bill::Bill;
use super::fleet::Fleet;
use super::planned::Plans;

/// What is known of a run from the outside.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    pub(super) queries: BTreeMap<QueryId, Seen>,
    pub(super) ended: BTreeSet<QueryId>,
    pub(super) clusters: BTreeMap<ClusterId, Known>,
    pub(super) fleet: Fleet,
    pub(super) plans: Plans,
    pub(super) rules: Rules,
    /// Steps taken in, with the present one.
    pub(super) steps: u64,
    /// Sessions that hold a cluster.
    pub(super) pins: BTreeMap<SessionId, Pin>,
    /// What the present step's event took away. Timers that are due fire before an event, and their commands may still
    /// be about that.
    pub(super) freed: Freed,
    max_waiting: usize,
    pub(super) arrived: u64,
}

/// A query that has arrived and was not written down.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// In a class that there is.
    pub(super) query: Query,
    pub(super) arrived: Time,
    pub(super) runs: Option<Runs>,
    /// When it was sent to a cluster for the last time.
    pub(super) placed: Option<Time>,
    /// Since when it waits, if that is not since it arrived.
    pub(super) waits_since: Option<Time>,
    /// Until when it may wait.
    pub(super) until: Time,
    /// The step in which it began to wait.
    pub(super) entered: u64,
    /// A cluster has given it back.
    pub(super) again: bool,
    /// What it counts as while it runs.
    pub(super) ticket: Option<Ticket>,
    /// Until when it may run.
    pub(super) cap_at: Option<Time>,
    /// It ran for as long as it may.
    pub(super) cut_short: bool,
    /// The class that it waits in if its cluster gives it back.
    pub(super) moves_to: Option<ClassId>,
    /// Its session is over.
    pub(super) orphan: bool,
    /// Its client or an operator took it back.
    pub(super) taken_back: bool,
    /// Its cluster was told to stop it.
    pub(super) told: bool,
    /// Starts of clusters that turned it away.
    pub(super) tried: Vec<(ClusterId, Generation)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Runs {
    pub(super) cluster: ClusterId,
    pub(super) seat: Seat,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Pin {
    pub(super) cluster: ClusterId,
    pub(super) seat: Seat,
    /// Its session's query runs on its seat.
    pub(super) busy: bool,
    /// What it counts as, unless that query does.
    pub(super) ticket: Option<Ticket>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Freed {
    pub(super) query: Option<(QueryId, ClusterId)>,
    session: Option<SessionId>,
}

/// A cluster as far as events and commands tell.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) spec: Spec,
    pub(super) generation: Generation,
    pub(super) life: Life,
    /// The dispatcher was told to drain it, or decided to.
    pub(super) draining: bool,
    /// A query there will not stop.
    stuck: bool,
    /// Something works there for nobody, its provider says.
    burns: bool,
    bill: Bill,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Life {
    Starting,
    Up,
    Stopping,
    Down,
}

impl Watch {
    pub(super) fn new(policy: &Policy) -> Watch {
        Watch {
            queries: BTreeMap::new(),
            ended: BTreeSet::new(),
            clusters: BTreeMap::new(),
            fleet: Fleet::new(policy),
            plans: Plans::new(policy),
            rules: Rules::new(policy),
            steps: 0,
            pins: BTreeMap::new(),
            freed: Freed::default(),
            max_waiting: policy.max_waiting as usize,
            arrived: 0,
        }
    }

    /// Takes a step in; the first thing that must not be is the error.
    pub(super) fn take(
        &mut self,
        now: Time,
        event: &Event,
        commands: &[Command],
        scaled: &[&Scaled],
    ) -> Result<(), String> {
        self.steps += 1;
        self.caps_fire(now, commands);
        self.hear(now, event);
        self.fleet.hear(event);
        self.plans.hear(event);
        for (index, command) in commands.iter().enumerate() {
            self.obey(now, event, command, &commands[..index])?;
        }
        self.decided(scaled, commands)?;
        for seat in [Seat::Slot, Seat::Control] {
            let waiting = self.waiting(seat);
            must(waiting <= self.max_waiting, || format!("{waiting} queries wait, {} may", self.max_waiting))?;
        }
        self.nobody_waits_in_vain()?;
        self.nobody_waits_too_long(now)?;
        self.queues_are_bounded()?;
        self.caps_held(commands)?;
        for command in commands {
            if let Command::Refuse { query, .. } | Command::Abandon { query, .. } = command {
                must(self.ended.contains(query), || format!("query {query} has its answer and is not written down"))?;
            }
        }
        Ok(())
    }

    /// What must be once nothing is left that could happen.
    pub(super) fn at_the_end(&self) -> Result<(), String> {
        if let Some(query) = self.queries.keys().next() {
            return Err(format!("{} queries never ended, query {query} first", self.queries.len()));
        }
        if self.ended.len() as u64 != self.arrived {
            return Err(format!("{} queries arrived, {} ended", self.arrived, self.ended.len()));
        }
        match self.pins.keys().next() {
            Some(session) => Err(format!("{session:?} holds a cluster to the end")),
            None => Ok(()),
        }
    }

    /// What became in the last step of those that had run for as long as they may.
    pub(super) fn capped(&self) -> impl Iterator<Item = Capped> {
        self.rules.capped.iter().map(|(_, capped)| *capped)
    }

    /// Dollars spent up to `now`, by a reference that knows the intervals in which queries ran and nothing else.
    pub(super) fn cost(&self, now: Time) -> f64 {
        let cost =
            |known: &Known| known.spec.price.cost(known.spec.units, known.bill.active(known.spec.price.minimum, now));
        self.clusters.values().map(cost).sum()
    }

    pub(super) fn waiting(&self, seat: Seat) -> usize {
        let waits = |seen: &&Seen| seen.runs.is_none() && seat_of(&seen.query) == seat;
        self.queries.values().filter(waits).count()
    }

    /// No query waits while one more may run of what it is, and a cluster that has not turned it away surely has room.
    fn nobody_waits_in_vain(&self) -> Result<(), String> {
        // There, all wait for idle clusters, and not for one where something works that nobody waits for, if there are others.
        let only_idle = self.rules.policy.routes_by() == Routing::DelayedOff;
        for (id, known) in self.clusters.iter().filter(|(_, known)| known.life == Life::Up && !known.draining) {
            for seat in [Seat::Slot, Seat::Control] {
                let most = match only_idle && seat == Seat::Slot {
                    true => u32::from(!known.burns && !known.stuck),
                    false => u32::MAX,
                };
                if self.taken(*id, seat) < self.limit(known, seat).0.min(most) {
                    let query = match seat {
                        Seat::Slot => self.waits_in_vain(*id, known),
                        Seat::Control => self.next_control(*id, known.generation),
                    };
                    must(query.is_none(), || format!("query {query:?} waits, and cluster {id} has room"))?;
                }
            }
        }
        Ok(())
    }

    /// The oldest control query that waits and was not turned away by that start of that cluster.
    fn next_control(&self, id: ClusterId, generation: Generation) -> Option<QueryId> {
        let waits = |seen: &Seen| seen.runs.is_none() && seat_of(&seen.query) == Seat::Control;
        let tried = |seen: &Seen| seen.tried.contains(&(id, generation));
        self.queries.iter().find(|(_, seen)| waits(seen) && !tried(seen)).map(|(query, _)| *query)
    }

    /// How many seats of a cluster can be had for sure, and how many it has at most.
    fn limit(&self, known: &Known, seat: Seat) -> (u32, u32) {
        let control = self.rules.policy.control_slots;
        if seat == Seat::Slot { self.rules.slots(known.spec.slots) } else { (control, control) }
    }

    fn hear(&mut self, now: Time, event: &Event) {
        self.freed = Freed::default();
        match event {
            Event::Arrived(query) => self.hear_arrived(query, now),
            Event::Bounced { query, cluster, .. } => self.hear_bounced(*query, *cluster, now),
            Event::Cancel { query } => {
                if let Some(seen) = self.queries.get_mut(query) {
                    seen.taken_back = true;
                }
            }
            Event::SessionEnded { session } => {
                for seen in self.queries.values_mut().filter(|seen| seen.query.session == *session) {
                    (seen.orphan, seen.taken_back) = (true, true);
                }
                self.release(*session);
            }
            Event::ClusterReady { cluster, generation } => {
                if let Some(known) = self.current(*cluster, *generation)
                    && known.life == Life::Starting
                {
                    known.life = Life::Up;
                }
            }
            Event::ClusterLost { cluster, generation, .. } => self.hear_down(*cluster, *generation, false, now),
            Event::ClusterStopped { cluster, generation } => self.hear_down(*cluster, *generation, true, now),
            Event::ClusterRanAway { cluster, generation } => {
                if let Some(known) = self.current(*cluster, *generation)
                    && known.spec.killable
                    && known.life == Life::Up
                {
                    (known.stuck, known.draining) = (true, true);
                }
            }
            Event::DrainWanted { cluster } => {
                if let Some(known) = self.clusters.get_mut(cluster) {
                    known.draining = true;
                }
            }
            Event::PolicyAdopted(policy) => {
                // What waits already is not dropped for a lower limit.
                let waiting = self.waiting(Seat::Slot).max(self.waiting(Seat::Control));
                self.max_waiting = waiting.max(policy.max_waiting as usize);
                self.hear_rules(policy, now);
            }
            Event::ClusterBurns { cluster, generation, burns } => {
                if let Some(known) = self.current(*cluster, *generation)
                    && known.life == Life::Up
                {
                    known.burns = *burns;
                }
            }
            Event::ModelAdopted(_) => self.hear_model(),
            // Scenarios have losses without that word.
            Event::ClusterDown { .. }
            | Event::Finished { .. }
            | Event::ClusterWanted(_)
            | Event::ShutdownWanted { .. }
            | Event::ScalingWanted
            | Event::PlanAdopted(_)
            | Event::PlanDropped
            | Event::StudyDone { .. }
            | Event::Woke => {}
        }
    }

    fn hear_arrived(&mut self, query: &Query, now: Time) {
        self.arrived += 1;
        let (id, class) = (query.id, self.rules.class_of(query.class));
        let query = Query { class, ..query.clone() };
        let until = now + self.rules.patience(&query);
        let seen = Seen {
            query,
            arrived: now,
            runs: None,
            placed: None,
            waits_since: None,
            until,
            entered: self.steps,
            again: false,
            ticket: None,
            cap_at: None,
            cut_short: false,
            moves_to: None,
            orphan: false,
            taken_back: false,
            told: false,
            tried: Vec::new(),
        };
        self.queries.insert(id, seen);
    }

    fn hear_bounced(&mut self, query: QueryId, cluster: ClusterId, now: Time) {
        let Some(seen) = self.queries.get_mut(&query) else { return };
        if seen.runs.is_some_and(|runs| runs.cluster == cluster) {
            seen.runs = None;
            seen.tried.extend(self.clusters.get(&cluster).map(|known| (cluster, known.generation)));
            (seen.again, seen.entered) = (true, self.steps);
            (seen.ticket, seen.cap_at) = (None, None);
            // One that was told to stop is not sent elsewhere.
            if let Some(to) = seen.moves_to.take().filter(|_| !seen.told && !seen.cut_short) {
                (seen.query.class, seen.waits_since) = (to, Some(now));
            }
            seen.until = seen.waits_since.unwrap_or(seen.arrived) + self.rules.patience(&seen.query);
            let session = seen.query.session;
            self.freed.query = Some((query, cluster));
            self.release(session);
            self.stopped_running(query, cluster, now);
        }
    }

    fn hear_down(&mut self, cluster: ClusterId, generation: Generation, stopped: bool, now: Time) {
        let Some(known) = self.current(cluster, generation) else { return };
        // A cluster that was not asked to stop cannot have stopped as asked.
        if known.life != Life::Down && (!stopped || known.life == Life::Stopping) {
            known.life = Life::Down;
            known.bill.cut(now);
        }
    }

    fn current(&mut self, cluster: ClusterId, generation: Generation) -> Option<&mut Known> {
        self.clusters.get_mut(&cluster).filter(|known| known.generation == generation)
    }

    fn release(&mut self, session: SessionId) {
        if self.pins.remove(&session).is_some() {
            self.freed.session = Some(session);
        }
    }

    pub(super) fn stopped_running(&mut self, query: QueryId, cluster: ClusterId, now: Time) {
        if let Some(known) = self.clusters.get_mut(&cluster) {
            known.bill.ended(query, now);
        }
    }

    fn obey(&mut self, now: Time, event: &Event, command: &Command, before: &[Command]) -> Result<(), String> {
        match command {
            Command::Run { query, cluster } => self.obey_run(*query, *cluster, now),
            Command::Refuse { query, because } => {
                let waits = self.queries.get(query).filter(|seen| seen.runs.is_none());
                let Some(waits) = waits else {
                    return Err(format!("query {query} is refused and does not wait: {because}"));
                };
                self.refusal_holds(now, event, (*query, waits), *because)
            }
            Command::Cancel { query, .. } => {
                if let Some(seen) = self.queries.get_mut(query) {
                    seen.told = true;
                }
                self.obey_end(*query, false)
            }
            Command::Abandon { query, because } => self.obey_end(*query, *because == Abandoned::WillNotStop),
            Command::Recall { query, cluster } => {
                let runs = self.queries.get(query).and_then(|seen| seen.runs).map(|runs| (*query, runs.cluster));
                let is_free = self.queries.get(query).is_some_and(|seen| !self.pins.contains_key(&seen.query.session));
                // It may have bounced in the same instant.
                let there = runs.or(self.freed.query) == Some((*query, *cluster));
                must(there && is_free, || format!("query {query} cannot be had back from {cluster}"))
            }
            Command::EndPin { session, .. } => {
                let held = self.pins.remove(session).is_some() || self.freed.session == Some(*session);
                must(held, || format!("{session:?} loses a cluster that it does not hold"))
            }
            Command::Start { cluster, generation, spec } => {
                self.obey_start(*cluster, *generation, spec, matches!(event, Event::DrainWanted { .. }))
            }
            Command::Stop { cluster, generation, force } => {
                // Timers that are due fire before the event: a stop of that instant may not know of it yet.
                let news = matches!(event, Event::ClusterRanAway { .. });
                // Nor may it know that what has started too late has started.
                let too_late = matches!(event, Event::ClusterReady { cluster: ready, .. } if ready == cluster);
                let runs = |known: &Known| known.life == Life::Up && !known.draining;
                if !too_late && self.clusters.get(cluster).is_some_and(runs) {
                    self.fleet.stopped.push(*cluster);
                }
                self.obey_stop(*cluster, *generation, *force, news, now)
            }
            Command::Study { .. } => Ok(()),
            Command::Record(ended) => self.obey_record(now, event, ended, before),
        }
    }

    fn obey_run(&mut self, query: QueryId, cluster: ClusterId, now: Time) -> Result<(), String> {
        let seen = self.queries.get(&query).ok_or_else(|| format!("query {query} runs, and is not there"))?;
        must(seen.runs.is_none(), || format!("query {query} runs twice at once"))?;
        let (session, mut seat) = (seen.query.session, seat_of(&seen.query));
        let known = self.clusters.get(&cluster).ok_or_else(|| format!("cluster {cluster} is not there"))?;
        must(known.life == Life::Up, || format!("query {query} runs on cluster {cluster}, {:?}", known.life))?;
        let mut kept = None;
        match self.pins.get_mut(&session) {
            Some(pin) => {
                must(pin.cluster == cluster, || format!("query {query} left the cluster that its session holds"))?;
                (pin.busy, kept) = (true, pin.ticket.take());
                seat = pin.seat;
            }
            None => {
                let tried = seen.tried.contains(&(cluster, known.generation));
                must(!tried, || format!("query {query} runs on cluster {cluster}, which turned it away"))?;
                must(!known.draining, || format!("query {query} runs on cluster {cluster}, which drains"))?;
                let (_, limit) = self.limit(known, seat);
                // Ids are given in the order of arrival.
                if seat == Seat::Slot {
                    self.its_turn(query, seen, (cluster, known))?;
                } else {
                    let first = self.next_control(cluster, known.generation);
                    must(first == Some(query), || format!("query {query} overtakes query {first:?}"))?;
                }
                let taken = self.taken(cluster, seat);
                must(taken < limit, || format!("cluster {cluster}: all {limit} {seat:?} seats were taken"))?;
                let better = self.is_in_doubt(cluster, known).then(|| self.calm_for(seen, seat)).flatten();
                must(better.is_none(), || {
                    format!("query {query} runs on {cluster}, in doubt, and {better:?} has room")
                })?;
            }
        }
        let Some(seen) = self.queries.get(&query) else { return Ok(()) };
        let (ticket, cap_at) = self.admitted(seen, kept, now);
        if let Some(seen) = self.queries.get_mut(&query) {
            (seen.runs, seen.placed) = (Some(Runs { cluster, seat }), Some(now));
            (seen.ticket, seen.cap_at) = (ticket, cap_at);
        }
        if let Some(known) = self.clusters.get_mut(&cluster).filter(|_| seat == Seat::Slot) {
            known.bill.started(query, now);
        }
        Ok(())
    }

    /// True if something there was told to stop and is not known to have.
    fn is_in_doubt(&self, id: ClusterId, known: &Known) -> bool {
        let told = |seen: &Seen| seen.told && seen.runs.is_some_and(|runs| runs.cluster == id);
        known.burns || self.queries.values().any(told)
    }

    /// A cluster where all stopped that was told to, with room for a query that it has not turned away.
    fn calm_for(&self, seen: &Seen, seat: Seat) -> Option<ClusterId> {
        let calm = self.clusters.iter().find(|(id, known)| {
            let open = known.life == Life::Up && !known.draining && !seen.tried.contains(&(**id, known.generation));
            open && self.taken(**id, seat) < self.limit(known, seat).0 && !self.is_in_doubt(**id, known)
        });
        calm.map(|(id, _)| *id)
    }

    /// Seats of a cluster that are taken by running queries and by sessions that hold them.
    fn taken(&self, cluster: ClusterId, seat: Seat) -> u32 {
        let run = |seen: &&Seen| seen.runs.is_some_and(|runs| runs.cluster == cluster && runs.seat == seat);
        let held = |pin: &&Pin| !pin.busy && pin.cluster == cluster && pin.seat == seat;
        (self.queries.values().filter(run).count() + self.pins.values().filter(held).count()) as u32
    }

    /// Seats of any kind that are taken on a cluster.
    pub(super) fn holds(&self, cluster: ClusterId) -> u32 {
        self.taken(cluster, Seat::Slot) + self.taken(cluster, Seat::Control)
    }

    /// A query is told to stop, or not waited for. One that will not stop makes its cluster go, if it can be killed.
    fn obey_end(&mut self, query: QueryId, stuck: bool) -> Result<(), String> {
        let runs = self.queries.get(&query).and_then(|seen| seen.runs).map(|runs| runs.cluster);
        let freed = self.freed.query.filter(|(freed, _)| *freed == query).map(|(_, cluster)| cluster);
        let cluster = runs.or(freed).ok_or_else(|| format!("query {query} ends, and does not run"))?;
        if let Some(known) = self.clusters.get_mut(&cluster) {
            known.stuck |= stuck && known.spec.killable;
            known.draining |= known.stuck;
        }
        Ok(())
    }

    fn obey_start(&mut self, id: ClusterId, to: Generation, spec: &Spec, drain_wanted: bool) -> Result<(), String> {
        let Some(known) = self.clusters.get_mut(&id) else {
            let (spec, life, bill) = (spec.clone(), Life::Starting, Bill::default());
            self.clusters
                .insert(id, Known { spec, generation: to, life, draining: false, stuck: false, burns: false, bill });
            return Ok(());
        };
        must(to > known.generation, || format!("cluster {id} starts again as {to:?}, after {:?}", known.generation))?;
        must(known.life != Life::Up, || format!("cluster {id} starts, and is up"))?;
        must(!known.draining || drain_wanted, || format!("cluster {id} comes back, and was to go"))?;
        (known.generation, known.life, known.burns) = (to, Life::Starting, false);
        Ok(())
    }

    fn obey_stop(
        &mut self,
        id: ClusterId,
        generation: Generation,
        force: bool,
        news: bool,
        now: Time,
    ) -> Result<(), String> {
        let (holds, shuts_down) = (self.holds(id), self.fleet.shuts_down);
        must(force || holds == 0, || format!("cluster {id} stops gently, and {holds} seats are taken"))?;
        let known = self.clusters.get_mut(&id).ok_or_else(|| format!("cluster {id} is not there"))?;
        must(force || news || !known.stuck, || format!("cluster {id} stops gently, and a query there will not stop"))?;
        must(known.generation == generation, || format!("cluster {id} stops as {generation:?}, which it is not"))?;
        if known.life == Life::Stopping {
            // Told twice: the gateway has to end, and does not wait for its provider any longer.
            must(force, || format!("cluster {id} is told twice to stop gently"))?;
            must(shuts_down, || format!("cluster {id} has not stopped, may be paid for, and is forgotten"))?;
            known.life = Life::Down;
            known.bill.cut(now);
        } else if known.life != Life::Down {
            known.life = Life::Stopping;
        }
        Ok(())
    }
}

pub(super) fn seat_of(query: &Query) -> Seat {
    if query.class == class::CONTROL { Seat::Control } else { Seat::Slot }
}

pub(super) fn must(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}
