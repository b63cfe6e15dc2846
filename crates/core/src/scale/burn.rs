//! How fast the violation budget burns: the violation rate lately over what is allowed, in a short and a long window.
//!
//! A rate of one uses the budget up just in time; alerts look at both windows (a short one that is high now, a long one
//! that says it matters), as is usual for SLOs of services.

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// Minutes that are kept.
const MINUTES: usize = 60;

/// Minutes of the short window.
const SHORT: u64 = 5;

/// Violations by the minute, for an hour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Burn {
    /// The minute of the newest count.
    minute: u64,
    /// Counted and violated, by minute modulo [`MINUTES`].
    counts: Vec<(u32, u32)>,
}

/// How fast the budget burns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Over the last five minutes; None if nothing was counted.
    pub short: Option<f64>,
    /// Over the last hour.
    pub long: Option<f64>,
}

impl Default for Burn {
    fn default() -> Burn {
        Burn { minute: 0, counts: vec![(0, 0); MINUTES] }
    }
}

impl Burn {
    /// A query that counts has ended.
    pub fn count(&mut self, now: Time, violated: bool) {
        self.turn(now);
        let (counted, late) = &mut self.counts[self.minute as usize % MINUTES];
        *counted = counted.saturating_add(1);
        *late = late.saturating_add(u32::from(violated));
    }

    /// The rates as of `now`, where the share `target` may be violated. With a target of zero any violation burns at once.
    pub fn rates(&self, now: Time, target: f64) -> Rates {
        let minute = minute_of(now).max(self.minute);
        let over = |minutes: u64| {
            let recent = (0..minutes.min(MINUTES as u64)).filter_map(|back| {
                let at =
                    minute.checked_sub(back).filter(|at| *at <= self.minute && at + MINUTES as u64 > self.minute)?;
                Some(self.counts[at as usize % MINUTES])
            });
            let (counted, late) = recent.fold((0u64, 0u64), |(a, b), (c, l)| (a + u64::from(c), b + u64::from(l)));
            (counted > 0).then(|| if late == 0 { 0.0 } else { late as f64 / counted as f64 / target.max(1e-6) })
        };
        Rates { short: over(SHORT), long: over(MINUTES as u64) }
    }

    /// Clears the minutes that have begun since the last count.
    fn turn(&mut self, now: Time) {
        let minute = minute_of(now).max(self.minute);
        for begun in (self.minute + 1..=minute).rev().take(MINUTES) {
            self.counts[begun as usize % MINUTES] = (0, 0);
        }
        self.minute = minute;
    }
}

fn minute_of(now: Time) -> u64 {
    now.micros() / 60_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: u64) -> Time {
        Time::from_micros(minute * 60_000_000 + 1)
    }

    #[test]
    fn a_rate_of_one_uses_the_budget_up_just_in_time() {
        let mut burn = Burn::default();
        (0..100).for_each(|number| burn.count(at(7), number % 20 == 0));
        assert_eq!(burn.rates(at(7), 0.05), Rates { short: Some(1.0), long: Some(1.0) });
        assert_eq!(burn.rates(at(12), 0.05), Rates { short: None, long: Some(1.0) });
        assert_eq!(burn.rates(at(67), 0.05), Rates { short: None, long: None });
    }

    #[test]
    fn minutes_that_have_passed_are_forgotten() {
        let mut burn = Burn::default();
        (0..10).for_each(|_| burn.count(at(1), true));
        burn.count(at(50), false);
        assert!((burn.rates(at(50), 0.1).long.unwrap() - 10.0 / 11.0 / 0.1).abs() < 1e-9);
        burn.count(at(61), false);
        assert_eq!(burn.rates(at(61), 0.1), Rates { short: Some(0.0), long: Some(0.0) });
        burn.count(at(1_000_000), true);
        assert_eq!(burn.rates(at(1_000_000), 0.0).long, Some(1e6));
        // A clock that goes back counts where it was.
        burn.count(at(3), false);
        assert_eq!(burn.rates(at(3), 0.5).long, Some(1.0));
    }
}
