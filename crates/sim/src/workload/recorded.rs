//! Queries that were recorded elsewhere, as a workload: each takes what it took there, alone.
//!
//! What a recorded query asks of a cluster is not known, only how long it takes. So its work on a size is that which a
//! cluster of that size does in the time that the query takes there alone, and it can use all of it: alone it takes
//! exactly that long, and n that run together each go at an n-th of the pace. Between sizes that nothing is known of,
//! half the size is twice the time.

use std::sync::Arc;

use punctual_core::admit::claim::Claim;
use punctual_core::fingerprint::Fingerprint;
use punctual_core::id::{ClassId, SessionId, Units};
use punctual_core::math;
use punctual_core::query::Traits;
use punctual_core::rng::Rng;
use punctual_core::statement::Kind;
use punctual_core::time::{Span, Time};

use super::{Arrival, Ask};
use crate::world::sharing::Work;

/// What is known of a query that was recorded elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// What predictions are made from.
    pub traits: Traits,
    /// What it takes alone, by size. Empty: its work says.
    pub alone: Vec<(Units, Span)>,
}

/// A query of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Remembered {
    /// When it comes.
    pub at: Time,
    /// Its class.
    pub class: ClassId,
    /// When it is late.
    pub slo: Option<Span>,
    /// Whose it is, the priority that it asked for, and how much of time it read.
    pub claim: Claim,
    /// Its shape.
    pub fingerprint: Fingerprint,
    /// What is known of it, in the median.
    pub recorded: Recorded,
    /// How far executions vary: the deviation of the logarithm.
    pub noise: f64,
}

/// What tells the luck of executions from other chance of the same seed.
const LUCK: u64 = 0x6167_6169 << 32;

/// The trace again, each query from a client of its own. `seed` is that of the executions' luck: the same query has the
/// same luck wherever it is sent.
pub fn again(trace: &[Remembered], seed: u64) -> impl Iterator<Item = Arrival> + '_ {
    trace.iter().zip(1..).map(move |(query, number)| {
        let mut rng = Rng::numbered(seed ^ LUCK, number);
        let luck = math::exp(query.noise * rng.normal());
        let alone =
            query.recorded.alone.iter().map(|(units, span)| (*units, Span::from_secs_f64(span.secs_f64() * luck)));
        let recorded = Recorded { traits: query.recorded.traits.clone(), alone: alone.collect() };
        let ask = Ask {
            class: query.class,
            slo: query.slo,
            claim: query.claim,
            fingerprint: query.fingerprint,
            kind: Kind::Select,
            work: Work { cpu: Span::ZERO, most_units: 1 },
            template: None,
            recorded: Some(Arc::new(recorded)),
        };
        Arrival { at: query.at, session: SessionId::of(0, number), ask, then: Vec::new() }
    })
}

impl Recorded {
    /// What it takes on a cluster of that size, alone: as recorded, or as the nearest size says. None if nothing is.
    pub fn alone_on(&self, units: Units) -> Option<Span> {
        let size = f64::from(units.0.max(1));
        let ratio = |(known, _): &&(Units, Span)| {
            let known = f64::from(known.0.max(1));
            (known / size).max(size / known)
        };
        let (known, span) = self.alone.iter().min_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
        Some(Span::from_secs_f64(span.secs_f64() * f64::from(known.0.max(1)) / size))
    }

    /// The work that a cluster of that size does meanwhile.
    pub fn work_on(&self, units: Units) -> Option<Work> {
        let most_units = units.0.max(1);
        let alone = self.alone_on(units)?;
        Some(Work { cpu: alone.times(most_units.into()), most_units })
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::predict::features::FEATURES;

    use super::*;

    fn remembered(noise: f64) -> Remembered {
        let traits = Traits { text: 5, features: [1.0; FEATURES] };
        let alone = vec![(Units(4), Span::from_secs(12)), (Units(16), Span::from_secs(10))];
        let recorded = Recorded { traits, alone };
        let (class, claim, fingerprint) = (ClassId(1), Claim { priority: Some(3), ..Claim::default() }, Fingerprint(7));
        Remembered { at: Time::ZERO, class, slo: None, claim, fingerprint, recorded, noise }
    }

    #[test]
    fn a_query_takes_alone_what_it_took_and_elsewhere_what_the_nearest_size_says() {
        let recorded = remembered(0.0).recorded;
        let on = |units| recorded.alone_on(Units(units)).map(Span::secs_f64);
        assert_eq!([on(4), on(16), on(2), on(32)], [12.0, 10.0, 24.0, 5.0].map(Some));
        assert_eq!(recorded.work_on(Units(16)), Some(Work { cpu: Span::from_secs(160), most_units: 16 }));
        assert_eq!(Recorded { alone: Vec::new(), ..recorded }.work_on(Units(4)), None);
    }

    #[test]
    fn luck_belongs_to_the_seed_and_the_query() {
        let trace = vec![remembered(0.4); 2_000];
        let took = |seed| -> Vec<Span> {
            let works = again(&trace, seed).map(|arrival| arrival.ask.work_on(Units(16)).cpu);
            works.collect()
        };
        assert!(took(1) == took(1) && took(1) != took(2));
        assert!(again(&trace, 1).all(|arrival| arrival.ask.claim == trace[0].claim));
        let mut all = took(1);
        all.sort_unstable();
        // The median of 2,000 log-normal draws is within 5 % of its own.
        assert!((all[1_000].secs_f64() / 160.0 - 1.0).abs() < 0.05, "{}", all[1_000]);
    }
}
