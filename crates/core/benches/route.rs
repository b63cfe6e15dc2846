//! What a decision costs with all of its evidence: an arrival that is weighed on some clusters, placed on one, and ends.
//!
//! The budget is 0.6 ms on one core for 8 clusters with 32 running queries each, of which the prediction has 0.5.
//!
//! `cargo bench -p punctual-core --bench route`

use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use punctual_core::admit::claim::Claim;
use punctual_core::billing::Price;
use punctual_core::class::DEFAULT;
use punctual_core::cluster::Spec;
use punctual_core::event::{Event, Outcome};
use punctual_core::fingerprint::Fingerprint;
use punctual_core::id::{ClusterId, Generation, ModelId, QueryId, SessionId, Units};
use punctual_core::policy::Policy;
use punctual_core::predict::features::FEATURES;
use punctual_core::predict::model::{Model, Parts};
use punctual_core::predict::net::{Layout, Shape};
use punctual_core::predict::stage::Stage;
use punctual_core::query::{Query, Traits};
use punctual_core::rng::Rng;
use punctual_core::route::{Counting, Routing};
use punctual_core::statement::Kind;
use punctual_core::{Command, Dispatcher, Span, Time};

const SHAPE: Shape = Shape { known: 0, hidden: 32 };

fn model() -> Arc<Model> {
    let mut rng = Rng::numbered(1, 1 << 32);
    let weights = (0..Layout::of(SHAPE).total()).map(|_| 0.05 * rng.normal() as f32).collect();
    let mut stage = Stage { spreads: [0.5; 4], ..Stage::default() };
    stage.trees.start = 4.0;
    let parts = Parts { stage, known: Vec::new(), hidden: SHAPE.hidden as u32, weights, spread_scales: [1.0; 2] };
    Arc::new(Model::new(parts).expect("sound parts"))
}

fn query(number: u64) -> Query {
    let mut rng = Rng::numbered(number, 1 << 33);
    let features = std::array::from_fn(|_| rng.unit() as f32);
    assert_eq!(features.len(), FEATURES);
    Query {
        id: QueryId(number),
        session: SessionId(number),
        fingerprint: Fingerprint(number % 300),
        kind: Kind::Select,
        class: DEFAULT,
        slo: Some(Span::from_secs(60)),
        claim: Claim::default(),
        traits: Some(Box::new(Traits { text: number % 900, features })),
    }
}

/// A dispatcher with so many clusters on which so many queries run each.
fn fleet(clusters: u32, running: u32, counting: Counting) -> (Dispatcher, u64) {
    let policy = Policy { routing: Routing::LeastOutstanding, counting, ..Policy::default() };
    let mut dispatcher = Dispatcher::new(1, policy.clone());
    dispatcher.provide(ModelId(1), model());
    let mut commands = Vec::new();
    let mut does = |event| dispatcher.handle(Time::from_micros(1), event, &mut commands);
    does(Event::ModelAdopted(ModelId(1)));
    for id in 0..clusters {
        let name = format!("c{id}");
        let spec =
            Spec { name, units: Units(8), slots: running + 1, price: Price::default(), killable: true, offer: None };
        does(Event::ClusterWanted(spec));
        does(Event::ClusterReady { cluster: ClusterId(id), generation: Generation(0) });
    }
    let all = u64::from(clusters * running);
    (0..all).for_each(|number| does(Event::Arrived(query(number))));
    does(Event::PolicyAdopted(Box::new(Policy { routing: Routing::Slo, ..policy })));
    (dispatcher, all)
}

fn decisions(c: &mut Criterion) {
    let mut group = c.benchmark_group("route");
    let shapes = [(1, 32), (8, 8), (8, 32), (8, 64), (16, 32)].map(|shape| (shape, Counting::Median));
    for ((clusters, running), counting) in shapes.into_iter().chain([((8, 32), Counting::Expected)]) {
        let (mut dispatcher, mut number) = fleet(clusters, running, counting);
        let mut commands: Vec<Command> = Vec::new();
        let name = format!("{clusters}x{running} {}", counting.name());
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter(|| {
                commands.clear();
                let now = Time::from_micros(number);
                dispatcher.handle(now, Event::Arrived(query(number)), &mut commands);
                let outcome = Outcome::Finished { rows: 1, bytes: 1 };
                dispatcher.handle(
                    now,
                    Event::Finished { query: QueryId(number), outcome, pinned: false },
                    &mut commands,
                );
                number += 1;
            });
        });
    }
    group.finish();
}

/// What it costs to ask where a query would go: a copy of everything, and a decision.
fn dry_runs(c: &mut Criterion) {
    let mut group = c.benchmark_group("dry run");
    for (clusters, running) in [(8, 8), (8, 32), (8, 64)] {
        let (mut dispatcher, number) = fleet(clusters, running, Counting::Median);
        let name = format!("{clusters}x{running}");
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter(|| dispatcher.consider(Time::from_micros(number), query(number)));
        });
    }
    group.finish();
}

criterion_group!(benches, decisions, dry_runs);
criterion_main!(benches);
