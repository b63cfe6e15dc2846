//! How queries get on in a cluster, whatever divides it among them: a slot, a start-up, straight lines, an end.
//!
//! Up to so many queries run at once, the others wait in the order of their arrival. A [`Division`] says what a query has
//! to do and how fast it gets on among those that run; the rest is here, once for all of them.
//!
//! Rates change only when a query comes, begins to work, ends or goes, so between two such instants every query's progress
//! is a straight line and its end is known. Progress is a whole number: a query is done when exactly nothing remains, and
//! the whole microsecond at which that is so is a division rounded up.

use std::collections::VecDeque;
use std::fmt::Debug;

use punctual_core::id::QueryId;
use punctual_core::time::{Span, Time};

/// How a cluster divides itself among the queries that run.
pub trait Division {
    /// What a query asks for.
    type Ask: Clone + Debug + PartialEq;
    /// What is kept of that while it runs.
    type Kept: Clone + Debug + PartialEq;

    /// A query has a slot: what is kept of it, how much it has to do, and when its start-up is over.
    fn begin(&mut self, now: Time, query: QueryId, ask: Self::Ask) -> (Self::Kept, u128, Time);

    /// Sets the rates of those whose start-up is over; the others' are zero.
    fn divide(&mut self, now: Time, running: &mut [Running<Self::Kept>]);

    /// A query has ended.
    fn ended(&mut self, _kept: &Self::Kept) {}
}

/// A query that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running<K> {
    query: QueryId,
    /// What the division keeps of it.
    pub kept: K,
    /// When its start-up is over.
    pub begins: Time,
    remaining: u128,
    /// Progress in a microsecond.
    pub rate: u128,
}

/// One cluster's queries and their progress. Calls carry the time, which is taken not to go back.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress<D: Division> {
    division: D,
    slots: usize,
    clock: Time,
    running: Vec<Running<D::Kept>>,
    waiting: VecDeque<(QueryId, D::Ask)>,
    /// Finished, not yet reported.
    done: Vec<QueryId>,
    /// When the next query begins to work or ends, if nothing else happens before.
    next_change: Option<Time>,
}

impl<D: Division> Progress<D> {
    /// An idle cluster that runs so many queries at once.
    pub(super) fn idle(division: D, slots: usize) -> Progress<D> {
        Progress {
            division,
            slots,
            clock: Time::ZERO,
            running: Vec::new(),
            waiting: VecDeque::new(),
            done: Vec::new(),
            next_change: None,
        }
    }

    /// A query comes; it runs at once if there is a slot, else it waits. One that is here already is not taken twice.
    /// How many may wait is for the caller to limit.
    pub fn arrive(&mut self, now: Time, query: QueryId, ask: D::Ask) {
        self.advance(now);
        if self.holds(query) {
            return;
        }
        self.waiting.push_back((query, ask));
        self.change();
    }

    /// A query goes before it has finished. False if it is not here, or has finished by now, which
    /// [`finished`](Progress::finished) tells.
    pub fn leave(&mut self, now: Time, query: QueryId) -> bool {
        self.advance(now);
        let before = self.running.len() + self.waiting.len();
        self.running.retain(|running| running.query != query);
        self.waiting.retain(|(waiting, _)| *waiting != query);
        self.change();
        self.running.len() + self.waiting.len() < before
    }

    /// When to look again: the next query that runs begins to work or finishes then, if none comes or goes before. In
    /// the past if one has finished that [`finished`](Progress::finished) has not told yet.
    pub fn next(&self) -> Option<Time> {
        if self.done.is_empty() { self.next_change } else { Some(self.clock) }
    }

    /// The queries that have finished by now, in the order in which they did; those of one instant as they came.
    pub fn finished(&mut self, now: Time) -> Vec<QueryId> {
        self.advance(now);
        std::mem::take(&mut self.done)
    }

    /// How many queries run.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// How many queries wait for a slot.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn holds(&self, query: QueryId) -> bool {
        self.running.iter().any(|running| running.query == query)
            || self.waiting.iter().any(|(waiting, _)| *waiting == query)
            || self.done.contains(&query)
    }

    /// Moves to `now`, through every change on the way.
    fn advance(&mut self, now: Time) {
        while let Some(at) = self.next_change.filter(|at| *at <= now) {
            self.move_to(at);
            let (division, done) = (&mut self.division, &mut self.done);
            let ran = self.running.len();
            self.running.retain(|running| {
                if running.remaining == 0 {
                    division.ended(&running.kept);
                    done.push(running.query);
                }
                running.remaining > 0
            });
            let none_ended = self.running.len() == ran;
            self.change();
            // An end beyond the last representable instant is never reached.
            if none_ended && self.next_change == Some(at) {
                break;
            }
        }
        self.move_to(now);
    }

    /// Moves along straight lines to `now`.
    fn move_to(&mut self, now: Time) {
        let elapsed = u128::from(now.since(self.clock).micros());
        if elapsed == 0 {
            return;
        }
        self.clock = now;
        for running in &mut self.running {
            running.remaining = running.remaining.saturating_sub(elapsed.saturating_mul(running.rate));
        }
    }

    /// After something changed: fills the slots, sets the rates, finds the next change.
    fn change(&mut self) {
        let clock = self.clock;
        while self.running.len() < self.slots
            && let Some((query, ask)) = self.waiting.pop_front()
        {
            let (kept, remaining, begins) = self.division.begin(clock, query, ask);
            self.running.push(Running { query, kept, begins, remaining, rate: 0 });
        }
        self.division.divide(clock, &mut self.running);
        let next = |running: &Running<D::Kept>| match running.rate {
            0 if running.begins > clock => running.begins,
            0 => Time::from_micros(u64::MAX),
            rate => clock + Span::from_micros(u64::try_from(running.remaining.div_ceil(rate)).unwrap_or(u64::MAX)),
        };
        self.next_change = self.running.iter().map(next).min();
    }
}
