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
//! Work and rates are whole numbers (2⁻³² of a microsecond on one unit), not floats, so there is no drift to bound, no
//! tolerance to choose, and no query whose end is always about to come ([`progress`](super::progress)). Rounding loses
//! less than 2⁻³² of a unit per query.

use punctual_core::id::{QueryId, Units};
use punctual_core::time::{Span, Time};

use super::progress::{Division, Progress, Running};

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

/// One cluster that is shared.
pub type Sharing = Progress<Fair>;

/// Units, divided max-min fairly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fair {
    units: u64,
}

impl Sharing {
    /// An idle cluster. Zero units or slots count as one.
    pub fn new(units: Units, slots: u32) -> Sharing {
        Progress::idle(Fair { units: u64::from(units.0.max(1)) << POINT }, slots.max(1) as usize)
    }
}

impl Division for Fair {
    type Ask = Work;
    /// The most that it can use.
    type Kept = u64;

    fn begin(&mut self, now: Time, _: QueryId, work: Work) -> (u64, u128, Time) {
        (u64::from(work.most_units.max(1)) << POINT, u128::from(work.cpu.micros()) << POINT, now)
    }

    fn divide(&mut self, _: Time, running: &mut [Running<u64>]) {
        let level = level(self.units, || running.iter().map(|running| running.kept));
        for running in running {
            running.rate = u128::from(running.kept.min(level));
        }
    }
}

/// The level at which max-min fairness gives `units` away: the L with Σ min(most, L) = units, or all of the units if
/// there are enough for everyone. Found from below: at a level that is too low, those who are content stay content at
/// any higher one, so what they leave can be divided among the others until nobody else becomes content. Never zero:
/// there are fewer than 2³² queries.
fn level<M: Iterator<Item = u64>>(units: u64, most: impl Fn() -> M) -> u64 {
    let mut level = 0;
    loop {
        let content = || most().filter(|most| *most <= level);
        let others = most().filter(|most| *most > level).count() as u64;
        let left = units.saturating_sub(content().sum());
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
            let can_use = || most.iter().map(|&most| u64::from(most) << POINT);
            let level = level(u64::from(units) << POINT, can_use);
            let given: u64 = can_use().map(|most| most.min(level)).sum();
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
