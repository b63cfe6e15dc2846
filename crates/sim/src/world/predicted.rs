//! A cluster as the predictor has it: each query ends when its predictive distribution says.
//!
//! Coherently: each query draws one number, and its end moves with what is expected of it as others come, as in [studies](crate::study). What is
//! expected is what the dispatcher expects, which is told here after every placement. So this world is as hopeful as the predictor,
//! no more: where a real warehouse is slowed down by more than shared processors, and history has shown it, that is in here.
//!
//! A query of which nothing is expected ends at once.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::id::QueryId;
use punctual_core::predict::distribution::Prediction;
use punctual_core::rng::Rng;
use punctual_core::time::Time;

use crate::life::Life;

/// Streams of chance for queries begin here.
const DRAWS: u64 = 1 << 46;

/// The queries of one cluster.
#[derive(Clone, Debug, Default)]
pub struct Predicted {
    seed: u64,
    /// Those that are here; None: nothing is expected of them.
    here: BTreeMap<QueryId, Option<Life>>,
    /// What is expected of those that are under way.
    coming: BTreeMap<QueryId, Life>,
    /// When those that are here end.
    ends: BTreeSet<(Time, QueryId)>,
}

impl Predicted {
    /// A cluster on which nothing has run yet.
    pub fn new(seed: u64) -> Predicted {
        Predicted { seed, ..Predicted::default() }
    }

    /// That is expected of a query which is here or will come, from the time on at which it was placed.
    pub fn expect(&mut self, now: Time, query: QueryId, placed: Time, prediction: Prediction) {
        if let Some(Some(life)) = self.here.get_mut(&query) {
            if life.prediction != prediction {
                self.ends.remove(&(life.end, query));
                life.go_on(now, prediction);
                self.ends.insert((life.end, query));
            }
        } else if let Some(life) = self.coming.get_mut(&query) {
            life.go_on(now, prediction);
        } else if !self.here.contains_key(&query) {
            let share = 1.0 - Rng::numbered(self.seed, DRAWS.wrapping_add(query.0)).unit();
            self.coming.insert(query, Life::new(placed, prediction, now, share));
        }
    }

    /// A query comes.
    pub fn arrive(&mut self, now: Time, query: QueryId) {
        let mut life = self.coming.remove(&query);
        if let Some(life) = &mut life {
            life.end = life.end.max(now);
        }
        self.ends.insert((life.map_or(now, |life| life.end), query));
        self.here.insert(query, life);
    }

    /// A query goes before it has finished. False if it is not here, or has finished by now.
    pub fn leave(&mut self, now: Time, query: QueryId) -> bool {
        let end = self.ends.iter().find(|(_, other)| *other == query).map(|(end, _)| *end);
        let Some(end) = end.filter(|end| *end > now) else { return false };
        self.ends.remove(&(end, query));
        self.here.remove(&query).is_some()
    }

    /// When the next query ends.
    pub fn next(&self) -> Option<Time> {
        self.ends.first().map(|(end, _)| *end)
    }

    /// Those that have ended by now, in the order in which they did.
    pub fn finished(&mut self, now: Time) -> Vec<QueryId> {
        let mut finished = Vec::new();
        while let Some((_, query)) = self.ends.first().copied().filter(|(end, _)| *end <= now) {
            self.ends.pop_first();
            self.here.remove(&query);
            finished.push(query);
        }
        finished
    }

    /// How many queries run.
    pub fn running(&self) -> usize {
        self.here.len()
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::math;
    use punctual_core::time::Span;

    use super::*;

    fn at(second: u64) -> Time {
        Time::ZERO + Span::from_secs(second)
    }

    fn prediction(seconds: f64) -> Prediction {
        // A spread of nearly nothing: what is drawn is the median.
        Prediction::new(math::ln(seconds), 1e-6)
    }

    #[test]
    fn a_query_ends_when_it_is_expected_to_and_later_if_others_come() {
        let mut cluster = Predicted::new(7);
        let (first, second) = (QueryId(1), QueryId(2));
        cluster.expect(at(0), first, at(0), prediction(10.0));
        cluster.arrive(at(0), first);
        let end = |cluster: &Predicted| cluster.next().map(|end| end.micros() as f64 / 1e6).unwrap_or(f64::NAN);
        assert!((end(&cluster) - 10.0).abs() < 0.01, "{}", end(&cluster));
        cluster.expect(at(5), first, at(0), prediction(20.0));
        cluster.expect(at(5), second, at(5), prediction(8.0));
        cluster.arrive(at(5), second);
        assert!((end(&cluster) - 13.0).abs() < 0.01, "{}", end(&cluster));
        assert_eq!(cluster.finished(at(14)), [second]);
        assert!((end(&cluster) - 20.0).abs() < 0.01, "{}", end(&cluster));
        assert!(cluster.leave(at(15), first) && !cluster.leave(at(15), first));
        assert_eq!((cluster.running(), cluster.next()), (0, None));
    }

    #[test]
    fn ends_are_spread_as_the_prediction_is_and_belong_to_the_seed_and_the_query() {
        // Median 10 s, 90 % within 20.
        let wide = Prediction::new(math::ln(10.0), math::ln(2.0));
        let ends = |seed: u64| -> Vec<f64> {
            let one = |query: u64| {
                let mut cluster = Predicted::new(seed);
                cluster.expect(at(0), QueryId(query), at(0), wide);
                cluster.arrive(at(0), QueryId(query));
                cluster.next().map_or(f64::NAN, |end| end.micros() as f64 / 1e6)
            };
            (0..4_000).map(one).collect()
        };
        let all = ends(1);
        assert_eq!(all, ends(1));
        assert_ne!(all, ends(2));
        let below = |seconds: f64| all.iter().filter(|end| **end < seconds).count() as f64 / all.len() as f64;
        assert!(
            (below(10.0) - 0.5).abs() < 0.03 && (below(20.0) - 0.9).abs() < 0.02,
            "{} {}",
            below(10.0),
            below(20.0)
        );
    }

    #[test]
    fn what_nothing_is_expected_of_ends_at_once() {
        let mut cluster = Predicted::new(1);
        cluster.arrive(at(3), QueryId(1));
        assert_eq!((cluster.next(), cluster.finished(at(3))), (Some(at(3)), vec![QueryId(1)]));
    }
}
