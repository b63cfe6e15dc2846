//! Processor sharing with a slot limit: how one cluster divides itself among its queries.
//!
//! Up to `slots` queries run at once, the others wait in the order of their arrival. The units are divided max-min
//! fairly: everyone gets the same level, except that a query which can use fewer units takes no more than those, and
//! what it leaves goes to the others.
//!
//! ```text
//!  8 units, queries that can use 1, 8 and 8       units
//!                                                  4  ┤   ╭───────╮───────╮
//!  level = (8 − 1) / 2 = 3.5                          │   │       │       │
//!                                                  1  ┤───│       │       │
//!                                                     └ q1   q2      q3
//! ```
//!
//! Rates change only when a query comes or goes, so between two such instants every query's progress is a straight
//! line and its end is known. Work and rates are whole numbers (2⁻³² of a microsecond on one unit), not floats: a
//! query is done when exactly nothing remains, and the whole microsecond at which that is so is a division rounded up.
//! So there is no drift to bound, no tolerance to choose, and no query whose end is always about to come. Rounding
//! loses less than 2⁻³² of a unit per query.

use std::collections::VecDeque;

use punctual_core::id::{QueryId, Units};
use punctual_core::time::{Span, Time};

/// Binary digits after the point of work and rates.
const POINT: u32 = 32;

/// What a query asks of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// How long it takes on one unit, alone.
    pub cpu: Span,
    /// It cannot use more than this many units at once. At least one.
    pub most_units: u32,
}

/// One cluster's queries and their progress. Calls carry the time, which is taken not to go back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharing {
    units: u64,
    slots: usize,
    clock: Time,
    running: Vec<Running>,
    waiting: VecDeque<(QueryId, Work)>,
    /// Finished, not yet reported.
    done: Vec<QueryId>,
    /// What a query gets that could use all units.
    level: u64,
    /// When the first running query will have finished.
    first_end: Option<Time>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Running {
    query: QueryId,
    remaining: u128,
    most: u64,
}

impl Sharing {
    /// An idle cluster. Zero units or slots count as one.
    pub fn new(units: Units, slots: u32) -> Sharing {
        Sharing {
            units: u64::from(units.0.max(1)) << POINT,
            slots: slots.max(1) as usize,
            clock: Time::ZERO,
            running: Vec::new(),
            waiting: VecDeque::new(),
            done: Vec::new(),
            level: 0,
            first_end: None,
        }
    }

    /// A query comes; it runs at once if there is a slot, else it waits. One that is here already is not taken twice.
    /// How many may wait is for the caller to limit.
    pub fn arrive(&mut self, now: Time, query: QueryId, work: Work) {
        self.advance(now);
        if self.holds(query) {
            return;
        }
        self.waiting.push_back((query, work));
        self.change();
    }

    /// A query goes before it has finished. False if it is not here, or has finished by now, which
    /// [`finished`](Sharing::finished) tells.
    pub fn leave(&mut self, now: Time, query: QueryId) -> bool {
        self.advance(now);
        let before = self.running.len() + self.waiting.len();
        self.running.retain(|running| running.query != query);
        self.waiting.retain(|(waiting, _)| *waiting != query);
        self.change();
        self.running.len() + self.waiting.len() < before
    }

    /// When the next query finishes if none comes or goes before. In the past if one has finished that
    /// [`finished`](Sharing::finished) has not told yet.
    pub fn next(&self) -> Option<Time> {
        if self.done.is_empty() { self.first_end } else { Some(self.clock) }
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

    /// Moves to `now`, through every end on the way: each frees a slot and changes the rates of the others.
    fn advance(&mut self, now: Time) {
        while let Some(end) = self.first_end.filter(|end| *end <= now) {
            self.progress(end);
            let running = self.running.len();
            let done = &mut self.done;
            self.running.retain(|running| {
                if running.remaining == 0 {
                    done.push(running.query);
                }
                running.remaining > 0
            });
            // An end beyond the last representable instant is never reached.
            if self.running.len() == running {
                break;
            }
            self.change();
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
            let rate = running.most.min(self.level);
            running.remaining = running.remaining.saturating_sub(elapsed * u128::from(rate));
        }
    }

    /// After a query came or went: fills the slots, sets the rates, finds the first end.
    fn change(&mut self) {
        while self.running.len() < self.slots
            && let Some((query, work)) = self.waiting.pop_front()
        {
            let remaining = u128::from(work.cpu.micros()) << POINT;
            self.running.push(Running { query, remaining, most: u64::from(work.most_units.max(1)) << POINT });
        }
        self.level = level(self.units, &self.running);
        let micros = |running: &Running| running.remaining.div_ceil(u128::from(running.most.min(self.level)));
        let first = self.running.iter().map(micros).min();
        self.first_end = first.map(|us| self.clock + Span::from_micros(u64::try_from(us).unwrap_or(u64::MAX)));
    }
}

/// The level at which max-min fairness gives `units` away: the L with Σ min(most, L) = units, or all of the units if
/// there are enough for everyone. Found from below: at a level that is too low, those who are content stay content at
/// any higher one, so what they leave can be divided among the others until nobody else becomes content. Never zero:
/// there are fewer than 2³² queries.
fn level(units: u64, running: &[Running]) -> u64 {
    let mut level = 0;
    loop {
        let content = || running.iter().filter(|running| running.most <= level);
        let others = (running.len() - content().count()) as u64;
        let left = units.saturating_sub(content().map(|running| running.most).sum());
        if others == 0 {
            return units;
        }
        let next = left / others;
        if next == level {
            return level.max(1);
        }
        level = next;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_micros(ms * 1_000)
    }

    fn work(ms: u64, most_units: u32) -> Work {
        Work { cpu: Span::from_millis(ms), most_units }
    }

    /// Lets queries 0, 1, … of (arrival ms, cpu ms, most units) run to their ends: (query, end in µs), in order.
    fn ends(units: u32, slots: u32, queries: &[(u64, u64, u32)]) -> Vec<(u64, u64)> {
        let mut sharing = Sharing::new(Units(units), slots);
        let mut ends = Vec::new();
        let mut run_until = |sharing: &mut Sharing, limit: Time| {
            while let Some(next) = sharing.next().filter(|next| *next <= limit) {
                ends.extend(sharing.finished(next).into_iter().map(|query| (query.0, next.micros())));
            }
        };
        for (id, &(arrival, cpu, most)) in queries.iter().enumerate() {
            run_until(&mut sharing, at(arrival));
            sharing.arrive(at(arrival), QueryId(id as u64), work(cpu, most));
        }
        run_until(&mut sharing, Time::from_micros(u64::MAX));
        assert_eq!((sharing.running(), sharing.waiting(), sharing.next()), (0, 0, None));
        ends
    }

    #[test]
    fn one_query_uses_what_it_can_of_the_units() {
        assert_eq!(ends(4, 8, &[(0, 1_000, 8)]), [(0, 250_000)]);
        assert_eq!(ends(4, 8, &[(0, 1_000, 2)]), [(0, 500_000)]);
        assert_eq!(ends(4, 8, &[(7, 0, 1)]), [(0, 7_000)]);
    }

    #[test]
    fn queries_slow_each_other_down_while_they_overlap() {
        // Alone until 0.5 s, then two at half speed: the second needs 0.25 s of the unit, the first 0.5 s.
        assert_eq!(ends(1, 8, &[(0, 1_000, 1), (500, 250, 1)]), [(1, 1_000_000), (0, 1_250_000)]);
    }

    #[test]
    fn what_one_cannot_use_goes_to_the_others() {
        // 8 units: 1 for the first, 3.5 for each of the others.
        let queries = [(0, 1_000, 1), (0, 3_500, 8), (0, 3_500, 8)];
        assert_eq!(ends(8, 8, &queries), [(0, 1_000_000), (1, 1_000_000), (2, 1_000_000)]);
    }

    #[test]
    fn queries_beyond_the_slots_wait_in_order() {
        let queries = [(0, 100, 1), (0, 100, 1), (0, 100, 1), (10, 50, 1)];
        assert_eq!(ends(4, 2, &queries), [(0, 100_000), (1, 100_000), (3, 150_000), (2, 200_000)]);
    }

    #[test]
    fn a_query_that_leaves_frees_its_slot_and_its_share() {
        let mut sharing = Sharing::new(Units(1), 2);
        for id in 0..4 {
            sharing.arrive(at(0), QueryId(id), work(100, 1));
        }
        assert!(sharing.leave(at(100), QueryId(0)));
        assert!(sharing.leave(at(100), QueryId(2)));
        assert!(!sharing.leave(at(100), QueryId(0)));
        assert_eq!((sharing.running(), sharing.waiting()), (2, 0));
        // Query 1 has half its work left, at half speed; then query 3 has half of its own left, at full speed.
        assert_eq!(sharing.next(), Some(at(200)));
        assert_eq!(sharing.finished(at(200)), [QueryId(1)]);
        assert_eq!(sharing.next(), Some(at(250)));
    }

    #[test]
    fn a_query_that_has_finished_can_no_longer_leave() {
        let mut sharing = Sharing::new(Units(1), 1);
        sharing.arrive(at(0), QueryId(7), work(100, 1));
        assert!(!sharing.leave(at(101), QueryId(7)));
        assert_eq!(sharing.next(), Some(at(101)));
        assert_eq!(sharing.finished(at(101)), [QueryId(7)]);
        assert_eq!(sharing.next(), None);
    }

    #[test]
    fn a_thousand_equal_queries_end_at_once_and_none_is_left_behind() {
        let queries: Vec<_> = (0..999).map(|_| (0, 1_000, 4)).collect();
        let ends = ends(7, 1_000, &queries);
        // 999 s of work on 7 units: 142,714,285.7 µs, and a little for the rounding of 7/999 to 32 binary digits.
        let first = ends.first().map_or(0, |&(_, end)| end);
        assert!((142_714_286..142_714_296).contains(&first), "{first}");
        assert_eq!(ends, (0..999).map(|query| (query, first)).collect::<Vec<_>>());
    }

    #[test]
    fn work_without_end_is_no_endless_loop() {
        let mut sharing = Sharing::new(Units(1), 1);
        sharing.arrive(at(5), QueryId(0), Work { cpu: Span::MAX, most_units: 0 });
        assert_eq!(sharing.finished(Time::from_micros(u64::MAX)), []);
    }

    proptest! {
        #[test]
        fn the_level_gives_all_units_away_or_everyone_what_it_can_use(
            units in 1u32..200,
            most in prop::collection::vec(1u32..40, 1..60),
        ) {
            let running: Vec<Running> = most
                .iter()
                .map(|&most| Running { query: QueryId(0), remaining: 1, most: u64::from(most) << POINT })
                .collect();
            let level = level(u64::from(units) << POINT, &running);
            let given: u64 = running.iter().map(|running| running.most.min(level)).sum();
            let wanted = most.iter().map(|&most| u64::from(most)).sum::<u64>().min(units.into()) << POINT;
            prop_assert!(given <= wanted && wanted - given < 60, "{given} of {wanted}");
        }

        #[test]
        fn ends_asked_for_late_are_those_asked_for_in_time(
            queries in prop::collection::vec((0u64..50, 0u64..400, 1u32..6), 1..20),
            units in 1u32..8,
            slots in 1u32..6,
        ) {
            let mut arrival = 0;
            let queries: Vec<_> = queries.iter().map(|&(gap, cpu, most)| { arrival += gap; (arrival, cpu, most) }).collect();
            let mut sharing = Sharing::new(Units(units), slots);
            for (id, &(arrival, cpu, most)) in queries.iter().enumerate() {
                sharing.arrive(at(arrival), QueryId(id as u64), work(cpu, most));
            }
            let late: Vec<u64> = sharing.finished(at(1 << 30)).iter().map(|query| query.0).collect();
            let in_time: Vec<u64> = ends(units, slots, &queries).iter().map(|&(query, _)| query).collect();
            prop_assert_eq!(late, in_time);
        }

        #[test]
        fn a_busy_cluster_works_at_full_speed(
            cpus in prop::collection::vec(1u64..5_000, 1..30),
            units in 1u32..16,
        ) {
            let queries: Vec<_> = cpus.iter().map(|&cpu| (0, cpu, 16)).collect();
            let last = ends(units, 4, &queries).last().map_or(0, |&(_, end)| end);
            let total = cpus.iter().sum::<u64>() * 1_000 / u64::from(units);
            // Each end is rounded up to a microsecond.
            prop_assert!(last >= total && last <= total + 1 + cpus.len() as u64, "{last} of {total}");
        }
    }
}
