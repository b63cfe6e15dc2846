//! The simulated warehouse: how one cluster works off queries that want processors, I/O and memory.
//!
//! It shares nothing with what predicts latencies: it sees work. A query that gets a slot waits out its start-up and
//! then makes progress at a rate that is set by what is scarcest for it among those that run ([`rates`]). Two things
//! make a cluster slower than the sum of its queries. What they keep in memory together may exceed what there is;
//! then everyone writes part of its own to disk and reads it again, the larger the excess the larger the part. And
//! tables that the cluster has not read lately come from afar ([`cache`]). A new cluster has read none, and has yet to
//! compile each query.
//!
//! ```text
//!                arrives           gets a slot       start-up over                      ends
//!                   │─── waits ────────│──── nothing ────│──── progress ──────────────────│
//!   rate changes                                         ╵      ╵ others come and go  ╵
//! ```
//!
//! Rates change only when a query comes, begins, ends or goes, so progress is straight lines between those instants,
//! and each end is known. As in [`sharing`](super::sharing), progress is counted in whole numbers (2⁻⁹⁶ of the query
//! in a microsecond), so nothing drifts, and where a run is looked at has no effect on it.
//!
//! Each execution's work varies by a log-normal factor that belongs to the seed and the query: the same query has
//! the same luck wherever it is sent.

mod cache;
mod profile;
mod rates;
mod table;

use std::collections::VecDeque;

use punctual_core::id::{QueryId, Units};
use punctual_core::math;
use punctual_core::rng::Rng;
use punctual_core::time::{Span, Time};

use cache::Cache;
use rates::{Need, rates};

pub use cache::{Steady, Tables};
pub use profile::{Parameters, Profile, Template};
pub use table::{Table, Unreadable};

/// Binary digits of a query's progress.
const POINT: u32 = 96;
/// All of a query.
const WHOLE: u128 = 1 << POINT;
/// What tells the luck of executions from other chance of the same seed.
const LUCK: u64 = 0x6c75_636b << 32;

/// One cluster's queries and their progress. Calls carry the time, which is taken not to go back.
#[derive(Clone, Debug, PartialEq)]
pub struct Warehouse {
    parameters: Parameters,
    units: f64,
    slots: usize,
    seed: u64,
    cache: Cache,
    /// A bit for each template that it has compiled.
    compiled: u128,
    clock: Time,
    running: Vec<Running>,
    waiting: VecDeque<(QueryId, Profile)>,
    /// Finished, not yet reported.
    done: Vec<QueryId>,
    /// When the next query begins to work or ends, if nothing else happens before.
    next_change: Option<Time>,
}

#[derive(Clone, Debug, PartialEq)]
struct Running {
    query: QueryId,
    profile: Profile,
    /// What it reads, as seconds of one unit's bandwidth: what was cold when it began counts for more.
    reading: f64,
    luck: f64,
    /// When its start-up is over.
    begins: Time,
    remaining: u128,
    /// Progress in a microsecond.
    rate: u128,
}

impl Warehouse {
    /// An idle cluster that has read nothing yet. Zero units count as one. `seed` is that of the executions' luck.
    pub fn new(parameters: Parameters, units: Units, seed: u64) -> Warehouse {
        let units = f64::from(units.0.max(1));
        Warehouse {
            parameters,
            units,
            slots: parameters.slots_of(units),
            seed,
            cache: Cache::cold(units * parameters.cache),
            compiled: 0,
            clock: Time::ZERO,
            running: Vec::new(),
            waiting: VecDeque::new(),
            done: Vec::new(),
            next_change: None,
        }
    }

    /// A query comes; it runs at once if there is a slot, else it waits. One that is here already is not taken twice.
    /// How many may wait is for the caller to limit.
    pub fn arrive(&mut self, now: Time, query: QueryId, profile: Profile) {
        self.advance(now);
        if self.holds(query) {
            return;
        }
        self.waiting.push_back((query, profile));
        self.change();
    }

    /// A query goes before it has finished. False if it is not here, or has finished by now, which
    /// [`finished`](Warehouse::finished) tells.
    pub fn leave(&mut self, now: Time, query: QueryId) -> bool {
        self.advance(now);
        let before = self.running.len() + self.waiting.len();
        self.running.retain(|running| running.query != query);
        self.waiting.retain(|(waiting, _)| *waiting != query);
        self.change();
        self.running.len() + self.waiting.len() < before
    }

    /// When to look again: the next query that runs begins to work or finishes then, if none comes or goes before. In
    /// the past if one has finished that [`finished`](Warehouse::finished) has not told yet.
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
            self.progress(at);
            let (cache, done) = (&mut self.cache, &mut self.done);
            let before = (self.running.len(), self.next_change);
            self.running.retain(|running| {
                if running.remaining == 0 {
                    cache.read(running.profile.tables);
                    done.push(running.query);
                }
                running.remaining > 0
            });
            self.change();
            // An end beyond the last representable instant is never reached.
            if (self.running.len(), self.next_change) == before {
                break;
            }
        }
        self.progress(now);
    }

    /// Moves along straight lines to `now`.
    fn progress(&mut self, now: Time) {
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
        while self.running.len() < self.slots
            && let Some((query, profile)) = self.waiting.pop_front()
        {
            let begun = self.begun(query, profile);
            self.running.push(begun);
        }
        self.set_rates();
        let clock = self.clock;
        let next = |running: &Running| match running.rate {
            0 if running.begins > clock => running.begins,
            0 => Time::from_micros(u64::MAX),
            rate => clock + Span::from_micros(u64::try_from(running.remaining.div_ceil(rate)).unwrap_or(u64::MAX)),
        };
        self.next_change = self.running.iter().map(next).min();
    }

    fn begun(&mut self, query: QueryId, profile: Profile) -> Running {
        let here = self.cache.share(profile.tables);
        let read = profile.io * (here + self.parameters.cold * (1.0 - here));
        let text = profile.template.map_or(0, |template| 1u128 << template.index());
        let compile = if text & !self.compiled != 0 { self.parameters.compile } else { 0.0 };
        self.compiled |= text;
        let mut rng = Rng::numbered(self.seed ^ LUCK, query.0.wrapping_add(1 << 33));
        Running {
            query,
            profile,
            reading: read / self.parameters.bandwidth,
            luck: math::exp(self.parameters.noise * rng.normal()),
            begins: self.clock + Span::from_secs_f64(self.parameters.start_up + compile),
            remaining: WHOLE,
            rate: 0,
        }
    }

    /// Divides the cluster among the queries whose start-up is over.
    fn set_rates(&mut self) {
        let wanted: f64 = self.running.iter().map(|running| running.profile.memory).sum();
        let there = self.units * self.parameters.memory;
        let outside = if wanted > there { 1.0 - there / wanted } else { 0.0 };
        let seconds_per_gb = outside * self.parameters.spill / self.parameters.bandwidth;
        let need = |running: &Running| Need {
            cpu: running.profile.cpu,
            io: running.reading + seconds_per_gb * running.profile.memory,
            most: running.profile.most_units,
        };
        let clock = self.clock;
        let at_work = |running: &Running| running.begins <= clock;
        let needs: Vec<Need> = self.running.iter().filter(|running| at_work(running)).map(need).collect();
        let rates = rates(self.units, &needs);
        for (running, rate) in self.running.iter_mut().filter(|running| at_work(running)).zip(rates) {
            // Saturates: what goes faster than that is done at once.
            running.rate = ((rate / running.luck * 1e-6) * WHOLE as f64) as u128;
        }
    }
}

#[cfg(test)]
mod tests;
