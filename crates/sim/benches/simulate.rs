//! What it costs to simulate a day: every query is weighed on every cluster by the whole predictor, placed, and ends.
//!
//! The budget is 10 s on one core for 15,000 queries on two clusters. What takes the time is the network, so it grows
//! with the queries, and with those that run beside each.
//!
//! `cargo bench -p punctual-sim --bench simulate`

#[path = "../../core/benches/fixture/mod.rs"]
mod fixture;

use std::sync::Arc;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use fixture::{model, query};
use punctual_core::billing::Price;
use punctual_core::cluster::Spec;
use punctual_core::id::Units;
use punctual_core::math;
use punctual_core::policy::Policy;
use punctual_core::predict::model::Model;
use punctual_core::route::Routing;
use punctual_core::{Span, Time};
use punctual_sim::rehearsal::{Rehearsal, Rehearsed};
use punctual_sim::workload::{Arrival, Batched, Pattern, Recorded, Remembered, again};
use punctual_sim::world::compute::Make;

/// The size of each cluster.
const UNITS: Units = Units(16);

/// Seconds of work of a query on one unit.
const WORK: f64 = 100.0;

/// The part of what the clusters can do that is asked for; it comes in batches.
const LOAD: f64 = 0.8;

/// A workload on a fleet. Each query takes what the model says, give or take.
struct Case {
    rehearsal: Rehearsal,
    arrivals: Vec<Arrival>,
}

impl Case {
    fn new(queries: usize, clusters: u32) -> Case {
        let model = model(WORK);
        let rate = LOAD * f64::from(clusters * UNITS.0) / WORK;
        let pattern = Pattern::Batched(Batched { rate, cv: 3.0, within: Span::from_secs(5) });
        let trace: Vec<Remembered> =
            pattern.instants(1).take(queries).zip(0..).map(|(at, number)| remembered(&model, at, number)).collect();
        let spec = |number| Spec {
            name: format!("c{number}"),
            units: UNITS,
            slots: 60,
            price: Price::default(),
            killable: true,
            offer: None,
            writer: false,
        };
        let policy = Policy {
            routing: Routing::Slo,
            decisions_kept: 0,
            max_waiting: 100_000,
            wait_limit: Span::from_secs(86_400),
            ..Policy::default()
        };
        let (fleet, model) = ((0..clusters).map(spec).collect(), Some(model));
        let troubles = punctual_sim::rehearsal::Troubles::default();
        let rehearsal = Rehearsal { seed: 1, policy, fleet, model, make: Make::Sharing, clients: None, troubles };
        Case { rehearsal, arrivals: again(&trace, 1).collect() }
    }

    fn run(&self) -> Rehearsed {
        self.rehearsal.run(&self.arrivals, &mut |_| true).expect("it is not stopped")
    }
}

fn remembered(model: &Arc<Model>, at: Time, number: u64) -> Remembered {
    let query = query(number);
    let traits = *query.traits.expect("it has traits");
    let alone = model.stage().alone(&traits.features, query.fingerprint, traits.text, UNITS);
    let recorded = Recorded { traits, alone: vec![(UNITS, Span::from_secs_f64(math::exp(alone.ln)))] };
    Remembered {
        at,
        class: query.class,
        slo: query.slo,
        claim: query.claim,
        fingerprint: query.fingerprint,
        recorded,
        noise: 0.3,
    }
}

fn days(c: &mut Criterion) {
    let mut group = c.benchmark_group("simulate");
    group.sample_size(10);
    for (queries, clusters) in [(15_000, 2), (1_500, 2), (5_000, 2), (5_000, 4), (5_000, 8)] {
        let case = Case::new(queries, clusters);
        let rehearsed = case.run();
        assert_eq!(rehearsed.ended.len(), queries);
        let latencies: f64 = rehearsed.ended.iter().map(|ended| ended.latency().secs_f64()).sum();
        let running = latencies / rehearsed.lasted.secs_f64() / f64::from(clusters);
        let name = format!("{queries} queries, {clusters} clusters, {running:.1} running on each");
        group.bench_function(name, |b| b.iter_batched(|| (), |()| case.run(), BatchSize::PerIteration));
    }
    group.finish();
}

criterion_group!(benches, days);
criterion_main!(benches);
