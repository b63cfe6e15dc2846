//! Who is admitted, looked at from the outside: limits of classes, lanes and the gateway, turns, waiting times, refusals and
//! runtime caps, recomputed from the rules, events and commands alone.
//!
//! ```text
//!              counts of class, lane, gateway        ┌─ No: must not run      Perhaps: nothing is asked
//!   rules ───▶ of what runs and what sessions hold ──┼─ Yes: must not wait where a cluster has room
//!              and what one more would be            └─ Yes, and its turn: nobody else may go before it
//! ```
//!
//! Where a class has thresholds on what a model foresees and priorities make lanes, the lane of its queries cannot be known from
//! here. Such queries are counted as perhaps in any lane: limits are held to the least that is sure, and nothing is
//! asked where it depends on them. In the same way a cluster whose limit follows latency surely has room only up to the floor
//! of that.

use std::collections::BTreeMap;

use punctual_core::admit::Order;
use punctual_core::admit::terms::{Terms, Then};
use punctual_core::class;
use punctual_core::cluster::Seat;
use punctual_core::dispatcher::WaitsFor;
use punctual_core::event::{Command, Event, Full, Refusal};
use punctual_core::id::{ClassId, ClusterId, LaneId, QueryId, UserId};
use punctual_core::policy::Policy;
use punctual_core::query::Query;
use punctual_core::time::{Span, Time};

use super::watch::{Known, Life, Seen, Watch, must, seat_of};

/// The rules, and what they may be exceeded by.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) policy: Policy,
    /// A model was adopted: what it foresees may matter from then on.
    foresees: bool,
    /// How many waited when the rules were adopted: they are not dropped for a lower limit.
    kept_classes: BTreeMap<ClassId, usize>,
    kept_lanes: BTreeMap<LaneId, usize>,
    /// Queries that had run for as long as they may when the present step began, and what was to come of it.
    pub(super) capped: Vec<(QueryId, Capped)>,
}

/// What comes of a query that has run for as long as it may.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Capped {
    /// It is told to stop.
    Cancel,
    /// It counts as another.
    Cascade,
    /// The same, and it is had back; or would be, if it could.
    Resubmit { back: bool },
}

/// What something that runs counts as. None: that depends on what was foreseen of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    class: ClassId,
    lane: Option<LaneId>,
    priority: Option<i32>,
}

/// Whether one more may run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sure {
    Yes,
    No,
    Perhaps,
}

/// How many run.
#[derive(Clone, Debug, Default)]
struct Counts {
    total: u32,
    classes: BTreeMap<ClassId, u32>,
    lanes: BTreeMap<LaneId, u32>,
    /// In one of the lanes.
    unknown: u32,
    /// How many may run in all.
    most: u32,
}

/// Whose turn comes together: a lane, a class, a user.
type Group = (Option<LaneId>, ClassId, UserId);

impl Rules {
    pub(super) fn new(policy: &Policy) -> Rules {
        let (kept_classes, kept_lanes) = (BTreeMap::new(), BTreeMap::new());
        Rules { policy: policy.clone(), foresees: false, kept_classes, kept_lanes, capped: Vec::new() }
    }

    /// The class of a query that comes: one that there is.
    pub(super) fn class_of(&self, asked: ClassId) -> ClassId {
        if (asked.0 as usize) < self.policy.classes.len() { asked } else { class::DEFAULT }
    }

    fn terms(&self, class: ClassId) -> &Terms {
        &self.policy.classes[class.0 as usize].terms
    }

    fn priority(&self, query: &Query) -> Option<i32> {
        let terms = self.terms(query.class);
        let known = !(self.foresees && terms.thresholds.predict()) || terms.adjustment == 0;
        known.then(|| terms.priority(query.claim.priority, query.claim.scan, None))
    }

    fn lane(&self, class: ClassId, priority: Option<i32>) -> Option<LaneId> {
        let lane = |priority| self.policy.lanes.lane_of(self.terms(class), priority);
        match priority {
            Some(priority) => Some(lane(priority)),
            None => (lane(-1) == lane(0)).then(|| lane(0)),
        }
    }

    fn lane_of(&self, query: &Query) -> Option<LaneId> {
        self.lane(query.class, self.priority(query))
    }

    fn ticket(&self, class: ClassId, priority: Option<i32>) -> Ticket {
        Ticket { class, lane: self.lane(class, priority), priority }
    }

    /// How long a query may wait that begins to now.
    pub(super) fn patience(&self, query: &Query) -> Span {
        let by_lane = self.lane_of(query).and_then(|lane| self.policy.lanes.get(lane)?.queue_timeout);
        let own = self.terms(query.class).queue_timeout.or(by_lane);
        own.filter(|_| query.class != class::CONTROL).unwrap_or(self.policy.wait_limit)
    }

    fn cap(&self, ticket: Ticket, placed: Time) -> Option<Time> {
        self.terms(ticket.class).cap.as_ref().map(|cap| placed + cap.runtime)
    }

    /// The slots of a cluster that can be had for sure, and those that it has at most.
    pub(super) fn slots(&self, slots: u32) -> (u32, u32) {
        let sure = self.policy.adaptive.map_or(slots, |rules| rules.least.max(1).min(slots));
        (sure, slots)
    }

    fn admits(&self, counts: &Counts, class: ClassId, lane: Option<LaneId>) -> Sure {
        let full = |most: Option<u32>, running: u32| most.is_some_and(|most| running >= most);
        let of_class = counts.classes.get(&class).copied().unwrap_or(0);
        if full(self.policy.max_running, counts.total) || full(self.terms(class).max_running, of_class) {
            return Sure::No;
        }
        let in_lane = |lane: LaneId| {
            let (running, limit) = (counts.lane(lane), self.policy.lanes.limit(lane, counts.most));
            match running >= limit {
                true => Sure::No,
                false if running.saturating_add(counts.unknown) < limit => Sure::Yes,
                false => Sure::Perhaps,
            }
        };
        match lane {
            Some(lane) => in_lane(lane),
            None if self.policy.lanes.ids().all(|lane| in_lane(lane) == Sure::Yes) => Sure::Yes,
            None => Sure::Perhaps,
        }
    }

    /// Whether a lane runs less than is guaranteed to it.
    fn goes_first(&self, counts: &Counts, lane: Option<LaneId>) -> Sure {
        let Some(lane) = lane else { return Sure::Perhaps };
        let (running, guarantee) = (counts.lane(lane), self.policy.lanes.guarantee(lane, counts.most));
        match running >= guarantee {
            true => Sure::No,
            false if running + counts.unknown < guarantee => Sure::Yes,
            false => Sure::Perhaps,
        }
    }
}

impl Counts {
    fn lane(&self, lane: LaneId) -> u32 {
        self.lanes.get(&lane).copied().unwrap_or(0)
    }
}

impl Watch {
    /// How many count as running, and how many may in all.
    fn counts(&self) -> Counts {
        let held = self.pins.values().filter_map(|pin| pin.ticket);
        let mut counts = Counts::default();
        for ticket in self.queries.values().filter_map(|seen| seen.ticket).chain(held) {
            counts.total += 1;
            *counts.classes.entry(ticket.class).or_default() += 1;
            match ticket.lane {
                Some(lane) => *counts.lanes.entry(lane).or_default() += 1,
                None => counts.unknown += 1,
            }
        }
        let ready = self.clusters.values().filter(|known| known.life == Life::Up && !known.draining);
        let slots = ready.fold(0, |slots: u32, known| slots.saturating_add(known.spec.slots));
        counts.most = self.rules.policy.max_running.unwrap_or(slots);
        counts
    }

    /// Queries that wait for a slot: those that a cluster has given back, or the others. Oldest first.
    fn waits_for_slot(&self, again: bool) -> impl Iterator<Item = (QueryId, &Seen)> {
        let waits = move |seen: &Seen| seen.runs.is_none() && seat_of(&seen.query) == Seat::Slot && seen.again == again;
        self.queries.iter().filter(move |(_, seen)| waits(seen)).map(|(id, seen)| (*id, seen))
    }

    /// A query that waited is placed there: it may be, and nobody goes before it.
    pub(super) fn its_turn(&self, id: QueryId, seen: &Seen, on: (ClusterId, &Known)) -> Result<(), String> {
        let (rules, counts, lane) = (&self.rules, self.counts(), self.rules.lane_of(&seen.query));
        must(rules.admits(&counts, seen.query.class, lane) != Sure::No, || {
            format!("query {id} of {:?} in {lane:?} runs beyond a limit: {counts:?}", seen.query.class)
        })?;
        let might_run = |other: &Seen| {
            let tried = other.tried.contains(&(on.0, on.1.generation));
            !tried && rules.admits(&counts, other.query.class, rules.lane_of(&other.query)) == Sure::Yes
        };
        let mut given_back = self.waits_for_slot(true).filter(|(_, other)| might_run(other));
        let before = given_back.find(|(other, _)| !seen.again || *other < id);
        must(before.is_none(), || format!("query {id} overtakes {before:?}, which was turned away"))?;
        if seen.again {
            return Ok(());
        }
        let first = rules.goes_first(&counts, lane);
        for (other, waits) in self.waits_for_slot(false).filter(|(other, seen)| *other != id && might_run(seen)) {
            let others = rules.lane_of(&waits.query);
            let goes_first = rules.goes_first(&counts, others);
            must(first != Sure::No || goes_first != Sure::Yes, || {
                format!("query {id} in {lane:?} goes before {other}, to whose lane {others:?} more is guaranteed")
            })?;
            let same = (others, waits.query.class, waits.query.claim.user);
            let in_order = match rules.policy.order {
                Order::Fifo => first != Sure::Perhaps && first == goes_first,
                Order::Fair => lane.is_some() && same == (lane, seen.query.class, seen.query.claim.user),
            };
            must(!in_order || other > id, || format!("query {id} overtakes query {other}"))?;
        }
        Ok(())
    }

    /// The first that waits though one more surely may run of what it is, and that cluster has not turned it away.
    pub(super) fn waits_in_vain(&self, id: ClusterId, known: &Known) -> Option<QueryId> {
        let counts = self.counts();
        let all = self.waits_for_slot(true).chain(self.waits_for_slot(false));
        let mut in_vain = all.filter(|(_, seen)| {
            let admitted = self.rules.admits(&counts, seen.query.class, self.rules.lane_of(&seen.query));
            admitted == Sure::Yes && !seen.tried.contains(&(id, known.generation))
        });
        in_vain.next().map(|(query, _)| query)
    }

    /// What a query counts as from now on that was placed, and until when it may run.
    pub(super) fn admitted(&self, seen: &Seen, kept: Option<Ticket>, now: Time) -> (Option<Ticket>, Option<Time>) {
        let fresh = || self.rules.ticket(seen.query.class, self.rules.priority(&seen.query));
        let ticket = kept.or_else(|| (seat_of(&seen.query) == Seat::Slot).then(fresh));
        (ticket, ticket.and_then(|ticket| self.rules.cap(ticket, now)))
    }

    /// Those that have run for as long as they may, before the event of this step is looked at: that is the order in which the
    /// dispatcher does.
    pub(super) fn caps_fire(&mut self, now: Time, commands: &[Command]) {
        self.rules.capped.clear();
        let due = |seen: &Seen| seen.cap_at.filter(|at| *at <= now);
        while let Some((at, id)) = self.queries.iter().filter_map(|(id, seen)| Some((due(seen)?, *id))).min() {
            let recalled = |command: &Command| matches!(command, Command::Recall { query, .. } if *query == id);
            let back = commands.iter().any(recalled);
            if let Some(capped) = self.cap_fires(id, at, back) {
                self.rules.capped.push((id, capped));
            }
        }
    }

    fn cap_fires(&mut self, id: QueryId, due: Time, back: bool) -> Option<Capped> {
        let rules = &self.rules;
        let seen = self.queries.get_mut(&id)?;
        seen.cap_at = None;
        let (ticket, placed) = (seen.ticket.filter(|_| !seen.told)?, seen.placed?);
        let then = rules.terms(ticket.class).cap.as_ref()?.then.clone();
        let (name, resubmit) = match &then {
            Then::Cancel => {
                seen.cut_short = true;
                return Some(Capped::Cancel);
            }
            Then::Cascade(to) => (to, false),
            Then::Resubmit(to) => (to, true),
        };
        let to = class::find(&rules.policy.classes, name).filter(|to| *to != class::CONTROL)?;
        let priority = ticket.priority.map(|priority| priority.min(rules.terms(to).priority));
        let moved = rules.ticket(to, priority);
        (seen.ticket, seen.cap_at) = (Some(moved), rules.cap(moved, placed).filter(|at| *at > due));
        if resubmit && back {
            seen.moves_to = Some(to);
        }
        Some(if resubmit { Capped::Resubmit { back } } else { Capped::Cascade })
    }

    /// What was to come of those that had run for as long as they may has.
    pub(super) fn caps_held(&self, commands: &[Command]) -> Result<(), String> {
        for (id, capped) in &self.rules.capped {
            let told = |command: &Command| matches!(command, Command::Cancel { query, .. } if query == id);
            let holds = *capped != Capped::Cancel || self.ended.contains(id) || commands.iter().any(told);
            must(holds, || format!("query {id} has run for as long as it may, and is not told to stop"))?;
        }
        Ok(())
    }

    /// Nobody waits for longer than is allowed. What is due fires before an event, so who came in this step may be due.
    pub(super) fn nobody_waits_too_long(&self, now: Time) -> Result<(), String> {
        let waits = |seen: &Seen| seen.runs.is_none() && seen.until <= now && seen.entered < self.steps;
        let late = self.queries.iter().find(|(_, seen)| waits(seen));
        must(late.is_none(), || format!("{late:?} has waited for as long as it may"))
    }

    /// How many wait of each class, and in each lane as far as that is known.
    fn queue_lengths(&self) -> (BTreeMap<ClassId, usize>, BTreeMap<LaneId, usize>) {
        let (mut classes, mut lanes) = (BTreeMap::new(), BTreeMap::new());
        for (_, seen) in self.waits_for_slot(false) {
            *classes.entry(seen.query.class).or_default() += 1;
            if let Some(lane) = self.rules.lane_of(&seen.query) {
                *lanes.entry(lane).or_default() += 1;
            }
        }
        (classes, lanes)
    }

    /// No queue of a class or lane is longer than it may be.
    pub(super) fn queues_are_bounded(&self) -> Result<(), String> {
        let (classes, lanes) = self.queue_lengths();
        for (class, waiting) in classes {
            let kept = self.rules.kept_classes.get(&class).copied().unwrap_or(0);
            let most = self.rules.terms(class).max_queued.map_or(usize::MAX, |most| kept.max(most as usize));
            must(waiting <= most, || format!("{waiting} of {class:?} wait, {most} may"))?;
        }
        for (lane, waiting) in lanes {
            let kept = self.rules.kept_lanes.get(&lane).copied().unwrap_or(0);
            let most = self.rules.policy.lanes.get(lane).and_then(|lane| lane.max_queued);
            let most = most.map_or(usize::MAX, |most| kept.max(most as usize));
            must(waiting <= most, || format!("{waiting} in {lane:?} wait, {most} may"))?;
        }
        Ok(())
    }

    /// Other rules: classes keep their names, what waits waits on, what runs counts as what it would be now.
    pub(super) fn hear_rules(&mut self, policy: &Policy, now: Time) {
        let found = |old: &class::Class| class::find(&policy.classes, &old.name).unwrap_or(class::DEFAULT);
        let renumbered: Vec<ClassId> = self.rules.policy.classes.iter().map(found).collect();
        let new = |class: ClassId| renumbered[class.0 as usize];
        self.rules.policy = policy.clone();
        for seen in self.queries.values_mut() {
            seen.query.class = new(seen.query.class);
            seen.moves_to = seen.moves_to.map(new);
            seen.ticket = seen.ticket.map(|ticket| self.rules.ticket(new(ticket.class), ticket.priority));
            let cap = seen.ticket.zip(seen.placed).and_then(|(ticket, placed)| self.rules.cap(ticket, placed));
            seen.cap_at = cap.filter(|_| !seen.told && !seen.cut_short).map(|at| at.max(now));
        }
        for pin in self.pins.values_mut() {
            pin.ticket = pin.ticket.map(|ticket| self.rules.ticket(new(ticket.class), ticket.priority));
        }
        (self.rules.kept_classes, self.rules.kept_lanes) = self.queue_lengths();
    }

    pub(super) fn hear_model(&mut self) {
        self.rules.foresees = true;
    }

    /// What a refusal says is so.
    pub(super) fn refusal_holds(
        &self,
        now: Time,
        event: &Event,
        (id, seen): (QueryId, &Seen),
        because: Refusal,
    ) -> Result<(), String> {
        let lane = self.rules.lane_of(&seen.query);
        // What was due when other rules came was so by the old ones.
        let by_others = matches!(event, Event::PolicyAdopted(_)) || seat_of(&seen.query) == Seat::Control;
        let in_lane = |said: LaneId| {
            must(by_others || lane.is_none_or(|known| known == said), || {
                format!("query {id} in {lane:?} is refused as in {said:?}")
            })
        };
        match because {
            Refusal::Full { of, lane: said, limit, .. } => {
                in_lane(said)?;
                self.is_full(event, (id, seen), of, limit)
            }
            Refusal::TooLate { lane: said, wait, takes, slo } => {
                in_lane(said)?;
                let wants = self.rules.terms(seen.query.class).refuse_late && newcomer(event) == Some(id);
                let late = wait + takes > slo && seen.query.slo == Some(slo) && wait >= now.since(seen.arrived);
                must(wants && late, || format!("query {id} is refused for no reason: {because:?}"))
            }
            Refusal::WaitedTooLong { limit, lacked, lane: said } => {
                in_lane(said)?;
                let since = seen.waits_since.unwrap_or(seen.arrived);
                must(since + limit == seen.until && seen.until <= now, || {
                    format!("query {id} may wait until {}, not for {limit} since {since}", seen.until)
                })?;
                // What was there when the timer fired is known only if nothing else happened.
                let quiet = *event == Event::Woke && self.rules.capped.is_empty();
                must(!quiet || self.lacks(seen, lacked), || format!("query {id} lacked no {lacked:?}"))
            }
            _ => Ok(()),
        }
    }

    /// True if a query may well have waited for that.
    fn lacks(&self, seen: &Seen, lacked: WaitsFor) -> bool {
        let (counts, class) = (self.counts(), seen.query.class);
        let most = |most: Option<u32>, running: u32| most.is_some_and(|most| running >= most);
        match lacked {
            WaitsFor::Class => {
                most(self.rules.terms(class).max_running, counts.classes.get(&class).copied().unwrap_or(0))
            }
            WaitsFor::Gateway => most(self.rules.policy.max_running, counts.total),
            WaitsFor::Lane => self.rules.lane_of(&seen.query).is_none_or(|lane| {
                counts.lane(lane) + counts.unknown >= self.rules.policy.lanes.limit(lane, counts.most)
            }),
            WaitsFor::Cluster | WaitsFor::Turn => true,
        }
    }

    /// As many wait as may; and who goes is the one who came, or, where turns are fair, the newest of whom more wait.
    fn is_full(&self, event: &Event, (id, seen): (QueryId, &Seen), of: Full, limit: u32) -> Result<(), String> {
        let came = newcomer(event).and_then(|came| Some((came, self.queries.get(&came)?)));
        let Some((came, newest)) = came else { return Err(format!("query {id} is refused, and nobody came")) };
        let in_lane = |lane, other: &Seen| self.rules.lane_of(&other.query).is_none_or(|known| known == lane);
        let counts = |other: &Seen| match of {
            Full::Class(class) => other.query.class == class,
            Full::Lane(lane) => in_lane(lane, other),
            Full::Gateway => true,
        };
        let waiting = self.waits_for_slot(false).filter(|(_, other)| counts(other)).count();
        let (said, waiting) = match of {
            Full::Class(class) => (self.rules.terms(class).max_queued, waiting),
            Full::Lane(lane) => (self.rules.policy.lanes.get(lane).and_then(|lane| lane.max_queued), waiting),
            Full::Gateway => (Some(self.rules.policy.max_waiting), self.waiting(seat_of(&seen.query))),
        };
        must(said == Some(limit) && waiting > limit as usize && counts(seen), || {
            format!("query {id} is refused since {limit} of {of:?} wait: {waiting} do, {said:?} may")
        })?;
        let group = |seen: &Seen| (self.rules.lane_of(&seen.query), seen.query.class, seen.query.claim.user);
        if seat_of(&seen.query) == Seat::Control || self.rules.policy.order == Order::Fifo {
            return must(id == came, || format!("query {id} is refused since {came} came"));
        }
        let mut groups: BTreeMap<Group, (usize, QueryId)> = BTreeMap::new();
        for (other, waits) in self.waits_for_slot(false).filter(|(_, other)| counts(other)) {
            let (count, last) = groups.entry(group(waits)).or_insert((0, other));
            (*count, *last) = (*count + 1, other);
        }
        if groups.keys().any(|(lane, ..)| lane.is_none()) {
            return Ok(());
        }
        let longest = groups.values().map(|(count, _)| *count).max().unwrap_or(0);
        let own = groups.get(&group(newest)).map_or(0, |(count, _)| *count);
        let holds = match id == came {
            true => longest <= own,
            false => groups.get(&group(seen)) == Some(&(longest, id)) && longest > own,
        };
        must(holds, || format!("query {id} is refused since {came} came: {groups:?}"))
    }
}

/// The query that wants to wait because of an event.
fn newcomer(event: &Event) -> Option<QueryId> {
    match event {
        Event::Arrived(query) => Some(query.id),
        Event::Bounced { query, .. } => Some(*query),
        _ => None,
    }
}
