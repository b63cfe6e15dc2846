//! A cluster: its life as one table, its slots, its billing timer.
//!
//! ```text
//!            BecameReady          Drain              Empty             Stopped
//!  Starting ────────────▶ Ready ─────────▶ Draining ───────▶ Stopping ─────────▶ Gone
//!    │ ▲ │ Drain            │                 │                  ▲ │ Lose          ▲
//!    │ │ └──────────────────┼─────────────────┼──────────────────┘ └───────────────┤
//!    │ │ Start              │ Lose            │ Lose                               │
//!    │ └───────── Failed ◀──┘                 └────────────────────────────────────┤
//!    └─ Lose ───▶    │ Drain                                                       │
//!                    └─────────────────────────────────────────────────────────────┘
//! ```
//!
//! A failed cluster is started again, under a new [`Generation`], after a wait that doubles with each failure in a
//! row. One that was to go anyway does not come back.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::admit::gradient::Gradient;
use crate::billing::{Price, Timer};
use crate::event::LossCause;
use crate::id::{ClusterId, Generation, QueryId, SessionId, Units};
use crate::time::{Span, Time};

/// What a cluster is to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// Its name in the configuration. A replacement keeps it.
    pub name: String,
    /// Its size.
    pub units: Units,
    /// Queries that may run there at once.
    pub slots: u32,
    /// What it costs.
    pub price: Price,
    /// True if its provider can end it with all that runs there, as with a process of our own.
    pub killable: bool,
    /// The offer that it was started from; None: it is there for good, and is not scaled.
    pub offer: Option<String>,
    /// True if what changes something has to run here: where one is marked so, there and nowhere else.
    pub writer: bool,
}

/// Where a cluster is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// Asked for, not yet useful.
    Starting,
    /// Takes queries.
    Ready,
    /// Takes no new queries, finishes what runs.
    Draining,
    /// Asked to stop.
    Stopping,
    /// It will not come back.
    Gone,
    /// Went away on its own; it is started again after a wait.
    Failed,
}

/// What can happen to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Its provider is asked to start it again.
    Start,
    /// It answers.
    BecameReady,
    /// It is to go.
    Drain,
    /// Nothing runs there any more, or it was not waited for.
    Empty,
    /// Its provider stopped it.
    Stopped,
    /// It could not start, or went away.
    Lose,
}

impl Phase {
    /// The life of a cluster, whole: None where a step means nothing.
    pub const fn after(self, step: Step) -> Option<Phase> {
        Some(match (self, step) {
            (Phase::Starting, Step::BecameReady) => Phase::Ready,
            (Phase::Starting, Step::Drain) => Phase::Stopping,
            (Phase::Starting, Step::Lose) => Phase::Failed,
            (Phase::Ready, Step::Drain) => Phase::Draining,
            (Phase::Ready, Step::Lose) => Phase::Failed,
            (Phase::Draining, Step::Empty) => Phase::Stopping,
            (Phase::Draining | Phase::Stopping, Step::Lose) => Phase::Gone,
            (Phase::Stopping, Step::Stopped) => Phase::Gone,
            (Phase::Failed, Step::Start) => Phase::Starting,
            (Phase::Failed, Step::Drain) => Phase::Gone,
            _ => return None,
        })
    }

    /// The name that views and metrics use.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Starting => "starting",
            Phase::Ready => "ready",
            Phase::Draining => "draining",
            Phase::Stopping => "stopping",
            Phase::Gone => "gone",
            Phase::Failed => "failed",
        }
    }

    /// Every phase.
    pub const ALL: [Phase; 6] =
        [Phase::Starting, Phase::Ready, Phase::Draining, Phase::Stopping, Phase::Gone, Phase::Failed];
}

/// What a query or a pin takes up on its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seat {
    /// One of the cluster's slots.
    Slot,
    /// One of the few seats beside the slots that are kept for control queries.
    Control,
}

/// A cluster as the dispatcher knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// Its identity.
    pub id: ClusterId,
    /// What it is.
    pub spec: Spec,
    /// Which start of it this is.
    pub generation: Generation,
    /// Where it is in its life.
    pub phase: Phase,
    /// Since when.
    pub since: Time,
    /// Failures in a row, and the last one's cause.
    pub failures: u32,
    /// Why it failed last.
    pub failed_by: Option<LossCause>,
    /// What runs there.
    pub running: BTreeMap<QueryId, Seat>,
    /// Sessions that hold a seat there without running anything.
    pub idle_pins: BTreeMap<SessionId, Seat>,
    /// Queries that were told to stop and may be running on, their sessions gone. They hold no seat: a cluster with
    /// such a query drains and is replaced.
    pub stuck: BTreeSet<QueryId>,
    /// True if something works there for nobody and will not stop, as its provider says.
    pub ran_away: bool,
    /// True while something works there for nobody, as its provider says; it may stop yet.
    pub burns: bool,
    /// True from the word that it cannot be reached to that of its loss.
    pub down: bool,
    /// Queries that run there and were told to stop.
    pub cancelled: u32,
    /// Since when what was told to stop has not; None: all has. Queries go elsewhere meanwhile, if they can.
    pub doubted: Option<Time>,
    /// True if another like it is to start when it is gone.
    pub leaves_a_place: bool,
    /// Queries ever placed there.
    pub placed: u64,
    /// When a query was last placed there or ended there, or it became ready.
    pub last_used: Time,
    /// Its billing timer.
    pub timer: Timer,
    /// How many queries it takes well, by what they took.
    pub(crate) gradient: Gradient,
}

impl Cluster {
    pub(crate) fn new(id: ClusterId, spec: Spec, now: Time) -> Cluster {
        let timer = Timer::new(spec.price.minimum);
        let gradient = Gradient::new(spec.slots);
        Cluster {
            id,
            spec,
            generation: Generation(0),
            phase: Phase::Starting,
            since: now,
            failures: 0,
            failed_by: None,
            running: BTreeMap::new(),
            idle_pins: BTreeMap::new(),
            stuck: BTreeSet::new(),
            ran_away: false,
            burns: false,
            down: false,
            cancelled: 0,
            doubted: None,
            leaves_a_place: false,
            placed: 0,
            last_used: now,
            timer,
            gradient,
        }
    }

    /// Takes a step of its life; false, and nothing changes, where the step means nothing.
    pub(crate) fn step(&mut self, step: Step, now: Time) -> bool {
        let Some(phase) = self.phase.after(step) else { return false };
        (self.phase, self.since) = (phase, now);
        self.down &= self.is_open();
        match phase {
            Phase::Starting => self.generation = Generation(self.generation.0 + 1),
            Phase::Ready => {
                (self.failures, self.failed_by) = (0, None);
                self.last_used = now;
            }
            Phase::Failed => self.failures = self.failures.saturating_add(1),
            Phase::Draining | Phase::Stopping | Phase::Gone => {}
        }
        if matches!(phase, Phase::Gone | Phase::Failed) {
            self.timer.stop(now);
        }
        true
    }

    /// Seats of one kind that are taken, by running queries and by pins.
    pub fn taken(&self, seat: Seat) -> u32 {
        let count = |seats: &mut dyn Iterator<Item = &Seat>| seats.filter(|taken| **taken == seat).count() as u32;
        count(&mut self.running.values()) + count(&mut self.idle_pins.values())
    }

    /// True if one more query may be placed there on that kind of seat.
    pub fn has_room(&self, seat: Seat, control_slots: u32) -> bool {
        let limit = match seat {
            Seat::Slot => self.spec.slots,
            Seat::Control => control_slots,
        };
        self.phase == Phase::Ready && !self.down && self.taken(seat) < limit
    }

    /// A query takes a seat.
    pub(crate) fn enter(&mut self, query: QueryId, seat: Seat, now: Time) {
        self.running.insert(query, seat);
        self.placed += 1;
        self.last_used = now;
        // Housekeeping neither wakes a cluster nor keeps it awake.
        if seat == Seat::Slot {
            self.timer.arrive(now);
        }
    }

    /// A query leaves its seat, which its session may keep.
    pub(crate) fn leave(&mut self, query: QueryId, pinned_by: Option<SessionId>, now: Time) {
        self.last_used = now;
        if let Some(seat) = self.running.remove(&query)
            && let Some(session) = pinned_by
        {
            self.idle_pins.insert(session, seat);
        }
        if !self.running.values().any(|seat| *seat == Seat::Slot) {
            self.timer.drained(now);
        }
    }

    /// Something was told to stop there, or has stopped.
    pub(crate) fn judge(&mut self, now: Time) {
        self.doubted = match self.is_in_doubt() {
            true => self.doubted.or(Some(now)),
            false => None,
        };
    }

    /// True if something there was told to stop and has not, as far as anyone knows.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.burns || self.ran_away || self.cancelled > 0 || !self.stuck.is_empty()
    }

    /// True while queries may run there.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Ready | Phase::Draining)
    }

    /// True when nothing holds it: no query, no pin.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty() && self.idle_pins.is_empty()
    }

    /// Dollars spent there up to `now`.
    pub fn cost(&self, now: Time) -> f64 {
        self.spec.price.cost(self.spec.units, self.timer.active(now))
    }

    /// The wait before its next start after a failure. Never zero: starts that fail at once would follow each other
    /// without end within one instant.
    pub(crate) fn retry_after(&self, first: Span, most: Span) -> Span {
        first.times(1 << self.failures.saturating_sub(1).min(20)).min(most).max(Span::from_millis(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_allows_these_lives_and_no_others() {
        const STEPS: [Step; 6] = [Step::Start, Step::BecameReady, Step::Drain, Step::Empty, Step::Stopped, Step::Lose];
        let mut table = String::new();
        for phase in Phase::ALL {
            for step in STEPS {
                if let Some(next) = phase.after(step) {
                    table += &format!("{} --{step:?}--> {}\n", phase.name(), next.name());
                }
            }
        }
        expect_test::expect![[r#"
            starting --BecameReady--> ready
            starting --Drain--> stopping
            starting --Lose--> failed
            ready --Drain--> draining
            ready --Lose--> failed
            draining --Empty--> stopping
            draining --Lose--> gone
            stopping --Stopped--> gone
            stopping --Lose--> gone
            failed --Start--> starting
            failed --Drain--> gone
        "#]]
        .assert_eq(&table);
    }

    #[test]
    fn retries_wait_twice_as_long_each_time_up_to_a_limit() {
        let spec = Spec {
            name: "a".into(),
            units: Units(1),
            slots: 1,
            price: Price::default(),
            killable: true,
            offer: None,
            writer: false,
        };
        let mut cluster = Cluster::new(ClusterId(0), spec, Time::ZERO);
        let mut waits = Vec::new();
        for _ in 0..5 {
            cluster.step(Step::Lose, Time::ZERO);
            waits.push(cluster.retry_after(Span::from_secs(1), Span::from_secs(6)).secs_f64());
            cluster.step(Step::Start, Time::ZERO);
        }
        assert_eq!(waits, [1.0, 2.0, 4.0, 6.0, 6.0]);
        assert_eq!(cluster.generation, Generation(5));
    }
}
