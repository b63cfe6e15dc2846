//! What the simulator sends, as history: so that generated weeks, and workloads of the simulated warehouse, can be forecast from.

use std::sync::Arc;

use punctual_core::class::DEFAULT;
use punctual_core::time::Time;
use punctual_sim::workload::{Arrival, Asked, Weeks, trace};
use punctual_sim::world::warehouse::Table;

use crate::calendar::{Date, Zone};
use crate::reservoir::{Limits, Reservoir, Seen};

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
