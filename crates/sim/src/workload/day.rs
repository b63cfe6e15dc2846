//! A day by hour and template: how often each came in each hour, and when exactly is left to chance.
//!
//! Every count is met. Within an hour the queries come in a random order, at instants that are as a Poisson process
//! would have them, or in batches: gaps are drawn with the variation that is asked for and stretched so that they fill
//! the hour.

use punctual_core::rng::{Rng, Stream};
use punctual_core::time::{Span, Time};

use super::templates::{Asked, trace};
use super::{Arrival, Batched, Pattern};
use crate::world::warehouse::Table;

/// How often what came in which hour.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Day {
    /// Hour, from the start; what; how many.
    pub counts: Vec<(u32, Asked, u32)>,
    /// Deviation of the gaps over their mean. At one and below they are those of a Poisson process.
    pub cv: f64,
}

/// The length of an hour of it.
const HOUR: Span = Span::from_secs(3_600);
/// The mean gap inside a batch, as a share of the mean gap.
const WITHIN: f64 = 0.05;

impl Day {
    /// Its queries, in the order of time.
    pub fn generate(&self, seed: u64, table: &Table) -> impl Iterator<Item = Arrival> + use<> {
        let mut order = Rng::stream(seed, Stream::Mix);
        let mut list = Vec::new();
        let mut hours: Vec<u32> = self.counts.iter().map(|(hour, ..)| *hour).collect();
        hours.sort_unstable();
        hours.dedup();
        for hour in hours {
            let of_hour = self.counts.iter().filter(|count| count.0 == hour);
            let mut asked: Vec<Asked> =
                of_hour.flat_map(|(_, asked, count)| std::iter::repeat_n(*asked, *count as usize)).collect();
            for last in (1..asked.len()).rev() {
                asked.swap(last, order.index(last + 1));
            }
            let began = Time::ZERO + HOUR.times(hour.into());
            // Each hour has its own chance, so that a query more in one does not move those of the others.
            let offsets = self.offsets(seed ^ u64::from(hour) << 32, asked.len());
            list.extend(offsets.into_iter().map(|offset| began + offset).zip(asked));
        }
        trace(list, table)
    }

    /// So many instants in an hour, in order.
    fn offsets(&self, seed: u64, count: usize) -> Vec<Span> {
        let pattern = Pattern::Batched(Batched { rate: 1.0, cv: self.cv, within: Span::from_secs_f64(WITHIN) });
        let instants: Vec<Time> = pattern.instants(seed).take(count + 1).collect();
        let whole = instants.last().map_or(1.0, |last| last.since(Time::ZERO).secs_f64());
        let part = |at: &Time| Span::from_secs_f64(at.since(Time::ZERO).secs_f64() / whole * HOUR.secs_f64());
        instants.iter().take(count).map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::id::ClassId;

    use super::*;
    use crate::workload::Spread;
    use crate::world::warehouse::Template;

    fn asked(number: u32) -> Asked {
        Asked { template: Template::new(number).expect("a template"), class: ClassId(0), slo: None }
    }

    #[test]
    fn each_hour_has_what_was_counted_in_it() {
        let day = Day { counts: vec![(3, asked(1), 40), (0, asked(2), 5), (3, asked(9), 2)], cv: 3.5 };
        let arrivals: Vec<Arrival> = day.generate(5, Table::shipped()).collect();
        assert!(arrivals.is_sorted_by_key(|arrival| arrival.at));
        let hour = |arrival: &Arrival| arrival.at.micros() / HOUR.micros();
        let count = |in_hour, number| {
            let same =
                |arrival: &&Arrival| hour(arrival) == in_hour && arrival.ask.template == Some(asked(number).template);
            arrivals.iter().filter(same).count()
        };
        assert_eq!((count(3, 1), count(0, 2), count(3, 9), arrivals.len()), (40, 5, 2, 47));
    }

    #[test]
    fn batches_have_the_variation_that_was_asked_for() {
        let spread = |cv| {
            let day = Day { counts: vec![(0, asked(1), 50_000)], cv };
            let instants: Vec<Time> = day.generate(5, Table::shipped()).map(|arrival| arrival.at).collect();
            Spread::of(&instants).expect("enough instants")
        };
        let (poisson, batched) = (spread(1.0), spread(3.5));
        assert!((poisson.mean_s / 0.072 - 1.0).abs() < 0.001 && (poisson.cv - 1.0).abs() < 0.03, "{poisson:?}");
        assert!((batched.cv / 3.5 - 1.0).abs() < 0.06 && batched.median_s < batched.mean_s / 15.0, "{batched:?}");
    }

    #[test]
    fn a_day_of_nothing_is_empty() {
        assert_eq!(Day::default().generate(1, Table::shipped()).count(), 0);
    }
}
