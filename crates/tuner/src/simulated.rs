//! From the simulator and back: what it sends as history, so that generated weeks can be forecast from, and forecast workloads as
//! what it sends.

use std::sync::Arc;

use punctual_core::class::DEFAULT;
use punctual_core::id::SessionId;
use punctual_core::time::{Span, Time};
use punctual_sim::workload::{Arrival, Ask, Asked, Weeks, trace};
use punctual_sim::world::warehouse::Table;

use crate::calendar::{Date, Zone};
use crate::forecast::Workload;
use crate::reservoir::{Limits, Reservoir, Seen, Shape};

/// An arrival of a workload that began at `from`, as a query of that class which ended as soon as it came.
pub fn seen(arrival: &Arrival, from: Time, class: Option<Arc<str>>) -> Seen {
    let at = from + arrival.at.since(Time::ZERO);
    let traits = arrival.ask.traits();
    Seen {
        at,
        ended: at,
        fingerprint: arrival.ask.fingerprint,
        class,
        slo: arrival.ask.slo,
        text: Some(traits.text),
        features: traits.features.to_vec(),
    }
}

/// A forecast workload as arrivals, each from a client of its own. `ask` says what a query of a shape asks for; times are divided
/// by `compress` (six in the paper's runs), which counts as one if it is not positive.
pub fn arrivals(
    workload: &Workload,
    reservoir: &Reservoir,
    compress: f64,
    ask: impl Fn(&Shape) -> Ask,
) -> Vec<Arrival> {
    let compress = if compress > 0.0 { compress } else { 1.0 };
    let queries = workload.queries.iter().zip(1..);
    let arrival = |(query, number): (&crate::forecast::Query, u64)| {
        let at = Time::ZERO + Span::from_secs_f64(query.at.secs_f64() / compress);
        let ask = ask(reservoir.shape(query.shape)?);
        Some(Arrival { at, session: SessionId::of(0, number), ask, then: Vec::new() })
    };
    queries.filter_map(arrival).collect()
}

/// A reservoir of generated weeks: so many days from `first` on, which should be a Monday, by UTC. Their source is called
/// `generated`.
pub fn weeks(weeks: &Weeks, first: Date, days: u32, limits: Limits) -> Reservoir {
    let mut reservoir = Reservoir::new(Zone::UTC, limits, weeks.seed);
    let mut adding = reservoir.adding("generated", Time::MAX);
    for number in 0..days {
        let day = Zone::UTC.day(first.plus(i32::try_from(number).unwrap_or(i32::MAX)));
        let starts = day.starts().unwrap_or(Time::ZERO);
        let asked = |template| Asked { template, class: DEFAULT, slo: None };
        for arrival in trace(weeks.day(number, asked), Table::shipped()) {
            adding.take(seen(&arrival, starts, None));
        }
    }
    adding.done();
    reservoir
}

#[cfg(test)]
mod tests {
    use punctual_sim::world::warehouse::Template;

    use super::*;
    use crate::forecast::{Wanted, Weekly, forecast};

    #[test]
    fn generated_weeks_are_forecast_and_what_is_forecast_is_sent_again() {
        let first = Date::parse("2026-09-07").expect("a date");
        let reservoir = super::weeks(&Weeks::of(3), first, 8, Limits::default());
        assert_eq!(reservoir.dates(), Some((first, first.plus(7))));
        let found = forecast(&reservoir, &Weekly::default(), &Wanted::of(first.plus(8)));
        let table = Table::shipped();
        let ask = |shape: &Shape| {
            let template = Template::new(shape.fingerprint.0 as u32).expect("a template");
            let asked = Asked { template, class: DEFAULT, slo: shape.slo };
            let one = trace(vec![(Time::ZERO, asked)], table).next();
            one.expect("one was asked for").ask
        };
        let sent = arrivals(&found.train[0], &reservoir, 6.0, ask);
        assert_eq!(sent.len(), found.train[0].queries.len());
        assert!(sent.len() > 500 && sent.is_sorted_by_key(|arrival| arrival.at));
        assert!(sent.iter().all(|arrival| arrival.at < Time::ZERO + Span::from_secs(4 * 3_600)));
        assert!(sent.iter().any(|arrival| arrival.at > Time::ZERO + Span::from_secs(3 * 3_600)));
    }
}
