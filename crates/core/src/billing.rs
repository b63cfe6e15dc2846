//! What a cluster costs: usage-based billing (AutoSLO, section 2).
//!
//! Cost = price per unit and hour × size × active time. Active time is measured by a timer that is paused at first,
//! starts when a query reaches the cluster while it is paused, and pauses again when both nothing runs and at least
//! m seconds have passed since it started:
//!
//! ```text
//!  queries    ├──┤                       ├─────────────┤ ├─────┤
//!             ·  ·                       ·             · ·     ·
//!  timer      ├──┬───────┤               ├───────────────────┬─┤
//!             0  5       60              100            155 160 170
//!                        └ m after the start             └ m passed, but something runs
//! ```
//!
//! So short queries that come close together share one minimum, busy intervals that touch or overlap merge, and
//! waking an idle cluster costs at least m seconds. An arrival at the very instant of the pause continues the timer.

use serde::{Deserialize, Serialize};

use crate::id::Units;
use crate::time::{Span, Time};

/// What the provider charges.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// Dollars for one unit active for one hour.
    pub per_unit_hour: f64,
    /// The m of the paper: the least that a start of the timer is billed.
    pub minimum: Span,
}

impl Default for Price {
    /// Redshift Serverless as the paper uses it: 0.375 $ a unit-hour, at least 60 s.
    fn default() -> Price {
        Price { per_unit_hour: 0.375, minimum: Span::from_secs(60) }
    }
}

impl Price {
    /// Dollars for `active` time on a cluster of `units`.
    pub fn cost(&self, units: Units, active: Span) -> f64 {
        self.per_unit_hour * f64::from(units.0) * active.secs_f64() / 3_600.0
    }
}

/// An amount of dollars in digits: two decimals at least, and five at most unless these would all be zeros.
pub fn dollars(amount: f64) -> String {
    let mut text = format!("{amount:.5}");
    if amount != 0.0 && text.trim_start_matches('-').chars().all(|digit| matches!(digit, '0' | '.')) {
        text = format!("{amount:.12}");
    }
    let kept = text.trim_end_matches('0').len().max(text.find('.').map_or(0, |point| point + 3));
    text.truncate(kept);
    text
}

/// The billing timer of one cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timer {
    minimum: Span,
    /// Active time of the runs that have ended.
    closed: Span,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum State {
    Paused,
    Busy {
        started: Time,
    },
    /// Nothing runs since `idle`; the timer goes on until [`pause`], and has paused on its own if that is past.
    Idle {
        started: Time,
        idle: Time,
    },
}

impl Timer {
    /// A paused timer with the minimum m.
    pub fn new(minimum: Span) -> Timer {
        Timer { minimum, closed: Span::ZERO, state: State::Paused }
    }

    /// A query reached the cluster.
    pub fn arrive(&mut self, now: Time) {
        self.state = match self.state {
            State::Paused => State::Busy { started: now },
            State::Busy { started } => State::Busy { started },
            State::Idle { started, idle } if now <= self.pause(started, idle) => State::Busy { started },
            State::Idle { started, idle } => {
                self.closed += self.pause(started, idle).since(started);
                State::Busy { started: now }
            }
        };
    }

    /// The last running query left.
    pub fn drained(&mut self, now: Time) {
        if let State::Busy { started } = self.state {
            self.state = State::Idle { started, idle: now };
        }
    }

    /// The cluster is gone: whatever the timer still had to run is not billed any more.
    pub fn stop(&mut self, now: Time) {
        self.closed = self.active(now);
        self.state = State::Paused;
    }

    /// Active time up to `now`.
    pub fn active(&self, now: Time) -> Span {
        self.closed
            + match self.state {
                State::Paused => Span::ZERO,
                State::Busy { started } => now.since(started),
                State::Idle { started, idle } => now.min(self.pause(started, idle)).since(started),
            }
    }

    /// Active time once the timer has paused, if nothing more arrives and what runs ends at `now`: what has been
    /// spent already, whether or not the clock has caught up with it.
    pub fn committed(&self, now: Time) -> Span {
        self.closed
            + match self.state {
                State::Paused => Span::ZERO,
                State::Busy { started } => self.pause(started, now).since(started),
                State::Idle { started, idle } => self.pause(started, idle).since(started),
            }
    }

    /// True while the timer runs: work added now costs no new minimum.
    pub fn awake(&self, now: Time) -> bool {
        match self.state {
            State::Paused => false,
            State::Busy { .. } => true,
            State::Idle { started, idle } => now <= self.pause(started, idle),
        }
    }

    fn pause(&self, started: Time, idle: Time) -> Time {
        idle.max(started + self.minimum)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Feeds closed intervals [from, to] of running queries, in seconds, and says what is billed in the end.
    fn billed(minimum: u64, queries: &[(u64, u64)]) -> u64 {
        let at = |s: u64| Time::from_micros(s * 1_000_000);
        let mut changes: Vec<(u64, i32)> = queries.iter().flat_map(|&(from, to)| [(from, 1), (to, -1)]).collect();
        // Arrivals before departures of the same instant: intervals that touch merge.
        changes.sort_by_key(|&(t, change)| (t, -change));
        let mut timer = Timer::new(Span::from_secs(minimum));
        let mut running = 0;
        for (t, change) in changes {
            running += change;
            match change {
                1 => timer.arrive(at(t)),
                _ if running == 0 => timer.drained(at(t)),
                _ => {}
            }
        }
        timer.active(at(1 << 30)).micros() / 1_000_000
    }

    /// The definition, second by second: in each second the timer runs if it was started and not yet paused.
    fn reference(minimum: u64, queries: &[(u64, u64)]) -> u64 {
        let end = queries.iter().map(|q| q.1).max().unwrap_or(0) + minimum + 1;
        let (mut started, mut active) = (None::<u64>, 0);
        for second in 0..=end {
            let arrives = queries.iter().any(|&(from, _)| from == second);
            let runs = queries.iter().any(|&(from, to)| from <= second && second < to);
            if let Some(start) = started
                && !runs
                && !arrives
                && second >= start + minimum
            {
                started = None;
            }
            if arrives && started.is_none() {
                started = Some(second);
            }
            active += u64::from(started.is_some_and(|start| runs || second < start + minimum));
        }
        active
    }

    #[test]
    fn a_short_query_costs_the_minimum_and_a_long_one_its_length() {
        assert_eq!(billed(60, &[(0, 5)]), 60);
        assert_eq!(billed(60, &[(0, 300)]), 300);
    }

    #[test]
    fn queries_within_one_minimum_share_it_and_later_ones_pay_again() {
        assert_eq!(billed(60, &[(0, 5), (20, 30)]), 60);
        assert_eq!(billed(60, &[(0, 5), (58, 70)]), 70);
        assert_eq!(billed(60, &[(0, 5), (100, 155), (160, 170)]), 60 + 70);
    }

    #[test]
    fn intervals_that_touch_merge() {
        assert_eq!(billed(60, &[(0, 100), (100, 110)]), 110);
        assert_eq!(billed(60, &[(0, 5), (60, 61)]), 61);
    }

    #[test]
    fn a_second_of_a_four_unit_cluster_costs_its_share_of_the_hour() {
        let price = Price { per_unit_hour: 0.36, minimum: Span::ZERO };
        assert!((price.cost(Units(4), Span::from_secs(50)) - 0.02).abs() < 1e-12);
    }

    #[test]
    fn amounts_have_as_many_digits_as_they_need() {
        let amounts = [0.0, 51.0, 12.3456789, 0.0625, 0.004, 0.000012, 0.000_000_123, -0.5, 1e9];
        let shown =
            ["0.00", "51.00", "12.34568", "0.0625", "0.004", "0.00001", "0.000000123", "-0.50", "1000000000.00"];
        assert_eq!(amounts.map(dollars), shown);
    }

    #[test]
    fn what_is_committed_runs_to_the_end_of_the_minimum() {
        let mut timer = Timer::new(Span::from_secs(60));
        timer.arrive(Time::ZERO);
        timer.drained(Time::from_micros(5_000_000));
        assert_eq!(timer.active(Time::from_micros(10_000_000)), Span::from_secs(10));
        assert_eq!(timer.committed(Time::from_micros(10_000_000)), Span::from_secs(60));
        assert!(timer.awake(Time::from_micros(59_000_000)));
        assert!(!timer.awake(Time::from_micros(61_000_000)));
    }

    proptest! {
        #[test]
        fn the_timer_agrees_with_the_definition_second_by_second(
            minimum in 0u64..90,
            starts in prop::collection::vec((0u64..600, 1u64..120), 0..12),
        ) {
            let queries: Vec<_> = starts.iter().map(|&(from, long)| (from, from + long)).collect();
            prop_assert_eq!(billed(minimum, &queries), reference(minimum, &queries));
        }
    }
}
