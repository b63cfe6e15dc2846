//! A limit that follows latency: how many queries may run at once on a cluster before they hold each other up.
//!
//! As long as queries take what they usually take, the limit grows; when they take longer, it shrinks in proportion
//! (the gradient of Netflix's concurrency-limits, `Gradient2Limit`). Latencies of different queries cannot be compared, so what
//! is followed is how many times as long as alone they take, where that is predicted.

use serde::{Deserialize, Serialize};

/// The rules of a limit that follows latency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Adaptive {
    /// The limit never falls below this.
    pub least: u32,
    /// How many times what it usually is the latency may be before the limit shrinks.
    pub tolerance: f64,
}

impl Default for Adaptive {
    fn default() -> Adaptive {
        Adaptive { least: 2, tolerance: 1.5 }
    }
}

/// The limit of a cluster, with what it stands on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Gradient {
    limit: f64,
    /// Latency over many queries.
    usual: f64,
    /// Latency over the last few.
    lately: f64,
    seen: u64,
}

/// Queries over which the usual latency is known: 600, as in Gradient2Limit.
const LONG: f64 = 600.0;

/// Queries over which the latest latency is known.
const SHORT: f64 = 16.0;

/// How far the limit moves towards what one query says.
const SMOOTHING: f64 = 0.2;

/// Queries that must be seen before the limit moves.
const FIRST: u64 = 10;

impl Gradient {
    /// The limit of a cluster with so many slots of which nothing is known yet.
    pub(crate) fn new(slots: u32) -> Gradient {
        Gradient { limit: f64::from(slots), usual: 0.0, lately: 0.0, seen: 0 }
    }

    /// How many may run at once.
    pub(crate) fn limit(&self, rules: Adaptive, slots: u32) -> u32 {
        (self.limit as u32).clamp(rules.least.clamp(1, slots.max(1)), slots.max(1))
    }

    /// A query has ended that took so long, while so many ran.
    pub(crate) fn note(&mut self, rules: Adaptive, slots: u32, latency: f64, running: u32) {
        if !latency.is_finite() || latency <= 0.0 {
            return;
        }
        self.seen += 1;
        let towards = |average: f64, of: f64, seen: u64| {
            let weight = (2.0 / (of + 1.0)).max(1.0 / seen as f64);
            average + weight * (latency - average)
        };
        self.usual = towards(self.usual, LONG, self.seen);
        self.lately = towards(self.lately, SHORT, self.seen);
        // Recovered: what is usual is remembered too gloomily.
        if self.usual > 2.0 * self.lately {
            self.usual *= 0.95;
        }
        // Where the limit is not used, latency says nothing of it.
        if self.seen < FIRST || f64::from(running) < self.limit / 2.0 {
            return;
        }
        let gradient = (rules.tolerance * self.usual / self.lately).clamp(0.5, 1.0);
        let wanted = self.limit * gradient + self.limit.sqrt();
        if !wanted.is_finite() {
            return;
        }
        let (least, most) = (f64::from(rules.least.clamp(1, slots.max(1))), f64::from(slots.max(1)));
        self.limit = (self.limit + SMOOTHING * (wanted - self.limit)).clamp(least, most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Adaptive = Adaptive { least: 3, tolerance: 1.5 };

    fn after(gradient: &mut Gradient, queries: usize, latency: f64) -> u32 {
        for _ in 0..queries {
            let running = gradient.limit(RULES, 64);
            gradient.note(RULES, 64, latency, running);
        }
        gradient.limit(RULES, 64)
    }

    #[test]
    fn it_shrinks_when_queries_hold_each_other_up_and_grows_again() {
        let mut gradient = Gradient::new(64);
        assert_eq!(after(&mut gradient, 200, 1.0), 64);
        let held_up = after(&mut gradient, 60, 20.0);
        assert!(held_up < 40, "{held_up}");
        assert_eq!(after(&mut gradient, 600, 1.0), 64);
    }

    #[test]
    fn it_never_falls_below_its_floor_nor_above_the_slots() {
        let mut gradient = Gradient::new(64);
        after(&mut gradient, 50, 1.0);
        for latency in 1..300 {
            after(&mut gradient, 3, f64::from(latency) * f64::from(latency));
            assert!((3..=64).contains(&gradient.limit(RULES, 64)));
        }
        assert_eq!(gradient.limit(RULES, 2), 2);
        assert_eq!(Gradient::new(0).limit(RULES, 0), 1);
        gradient.note(RULES, 64, f64::NAN, 64);
        gradient.note(RULES, 64, -1.0, 64);
        gradient.note(Adaptive { tolerance: f64::NAN, ..RULES }, 64, 1.0, 64);
        assert!((3..=64).contains(&gradient.limit(RULES, 64)));
    }

    #[test]
    fn where_there_is_room_to_spare_latency_says_nothing() {
        let mut gradient = Gradient::new(64);
        after(&mut gradient, 50, 1.0);
        for _ in 0..100 {
            gradient.note(RULES, 64, 50.0, 1);
        }
        assert_eq!(gradient.limit(RULES, 64), 64);
    }
}
