//! What a decision costs with all of its evidence: an arrival that is weighed on some clusters, placed on one, and ends.
//!
//! The budget is 0.6 ms on one core for 8 clusters with 32 running queries each, of which the prediction has 0.5.
//!
//! `cargo bench -p punctual-core --bench route`

mod fixture;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use fixture::{model, query};
use punctual_core::billing::Price;
use punctual_core::cluster::Spec;
use punctual_core::event::{Event, Outcome};
use punctual_core::id::{ClusterId, Generation, ModelId, QueryId, Units};
use punctual_core::mode::Mode;
use punctual_core::policy::Policy;
use punctual_core::route::{Counting, Routing};
use punctual_core::scale::{Scaling, Trigger};
use punctual_core::{Command, Dispatcher, Span, Time};

/// A dispatcher with so many clusters on which so many queries run each, after so many have come and gone.
fn fleet(clusters: u32, running: u32, counting: Counting, ended: u64) -> (Dispatcher, u64) {
    let scaling = Scaling { mode: Mode::On, trigger: Trigger::None, ..Scaling::default() };
    let policy = Policy { routing: Routing::LeastOutstanding, counting, scaling, ..Policy::default() };
    let mut dispatcher = Dispatcher::new(1, policy.clone());
    dispatcher.provide(ModelId(1), model(50.0));
    let mut commands = Vec::new();
    let mut does = |event| dispatcher.handle(Time::from_micros(1), event, &mut commands);
    does(Event::ModelAdopted(ModelId(1)));
    for id in 0..clusters {
        let name = format!("c{id}");
        let spec = Spec {
            name,
            units: Units(8),
            slots: running + 1,
            price: Price::default(),
            killable: true,
            offer: None,
            writer: false,
        };
        does(Event::ClusterWanted(spec));
        does(Event::ClusterReady { cluster: ClusterId(id), generation: Generation(0) });
    }
    let all = u64::from(clusters * running);
    (0..ended).for_each(|number| {
        does(Event::Arrived(query(number)));
        does(end(number));
    });
    (ended..ended + all).for_each(|number| does(Event::Arrived(query(number))));
    does(Event::PolicyAdopted(Box::new(Policy { routing: Routing::Slo, ..policy })));
    (dispatcher, ended + all)
}

fn end(number: u64) -> Event {
    Event::Finished {
        query: QueryId(number),
        outcome: Outcome::Finished { rows: 1, bytes: 1 },
        blocked: Span::ZERO,
        pinned: false,
    }
}

fn decisions(c: &mut Criterion) {
    let mut group = c.benchmark_group("route");
    let shapes = [(1, 32), (2, 32), (4, 32), (8, 8), (8, 32), (8, 64), (16, 32)].map(|shape| (shape, Counting::Median));
    for ((clusters, running), counting) in shapes.into_iter().chain([((8, 32), Counting::Expected)]) {
        let (mut dispatcher, mut number) = fleet(clusters, running, counting, 0);
        let mut commands: Vec<Command> = Vec::new();
        let name = format!("{clusters}x{running} {}", counting.name());
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter(|| {
                commands.clear();
                let now = Time::from_micros(number);
                dispatcher.handle(now, Event::Arrived(query(number)), &mut commands);
                dispatcher.handle(now, end(number), &mut commands);
                number += 1;
            });
        });
    }
    group.finish();
}

/// What it costs to ask where a query would go (a copy of everything, and a decision), and what the loop pays for the
/// start of a study: of a gateway that has just begun, and of one that has a past.
fn copies(c: &mut Criterion) {
    for (clusters, running, ended) in [(8, 8, 0), (8, 32, 0), (8, 64, 0), (8, 32, 20_000)] {
        let (mut dispatcher, number) = fleet(clusters, running, Counting::Median, ended);
        let name = format!("{clusters}x{running} after {ended}");
        c.benchmark_group("dry run").bench_function(BenchmarkId::from_parameter(&name), |b| {
            b.iter(|| dispatcher.consider(Time::from_micros(number), query(number)));
        });
        c.benchmark_group("start of a study").bench_function(BenchmarkId::from_parameter(&name), |b| {
            b.iter_with_large_drop(|| dispatcher.study());
        });
    }
}

criterion_group!(benches, decisions, copies);
criterion_main!(benches);
