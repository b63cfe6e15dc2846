//! What a study of what to start costs: the window comes again on copies of the dispatcher, once for each size and once
//! for doing nothing.
//!
//! The budget is 100 ms on one core for four sizes at a query a second, with up to 60 that run: in the first case 16 run when
//! the study is asked for, and 60 for most of it. Where the work is twice as much, those that wait are many more than those
//! that come, and it takes ten times as long until as many have ended as a study waits for.
//!
//! `cargo bench -p punctual-sim --bench study`

#[path = "../../core/benches/fixture/mod.rs"]
mod fixture;

use std::collections::BTreeSet;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use fixture::{model, query};
use punctual_core::billing::Price;
use punctual_core::cluster::Spec;
use punctual_core::dispatcher::Study;
use punctual_core::event::{Command, Event, Outcome};
use punctual_core::id::{ClusterId, Generation, ModelId, QueryId, Units};
use punctual_core::mode::Mode;
use punctual_core::policy::Policy;
use punctual_core::route::Routing;
use punctual_core::scale::{Scaling, Trigger};
use punctual_core::{Dispatcher, Span, Time};
use punctual_sim::study;

/// What is studied.
#[derive(Clone, Copy)]
struct Case {
    sizes: usize,
    /// Queries a second.
    rate: f64,
    /// Seconds that come again.
    window: u64,
    /// Seconds of work of a query on one unit: it says how many run.
    work: f64,
}

/// The case of the budget.
const BUDGET: Case = Case { sizes: 4, rate: 1.0, window: 1_800, work: 24.0 };

fn spec(units: u32) -> Spec {
    let name = format!("spare{units}");
    Spec {
        offer: Some(name.clone()),
        name,
        units: Units(units),
        slots: 60,
        price: Price::default(),
        killable: true,
        writer: false,
    }
}

/// A cluster of eight units to which queries have come for as long as the window is.
fn begun(case: Case) -> Study {
    let offers = [4, 8, 16, 32].into_iter().take(case.sizes).map(spec).collect();
    let study_window = Span::from_secs(case.window);
    let scaling = Scaling { mode: Mode::On, trigger: Trigger::None, offers, study_window, ..Scaling::default() };
    let wait_limit = Span::from_secs(9_000);
    let policy = Policy { routing: Routing::Slo, scaling, wait_limit, max_waiting: 10_000, ..Policy::default() };
    let mut dispatcher = Dispatcher::new(1, policy);
    dispatcher.provide(ModelId(1), model(case.work));
    let mut commands = Vec::new();
    let start = [Event::ModelAdopted(ModelId(1)), Event::ClusterWanted(spec(8)), ready()]
        .into_iter()
        .map(|event| (Time::ZERO, event));
    start.for_each(|(at, event)| dispatcher.handle(at, event, &mut commands));
    let mut ends: BTreeSet<(Time, QueryId)> = BTreeSet::new();
    let count = (case.rate * case.window as f64) as u64;
    for number in 0..count {
        let came = Time::ZERO + Span::from_secs_f64(number as f64 / case.rate);
        while let Some((at, query)) = ends.first().copied().filter(|(at, _)| *at <= came) {
            ends.pop_first();
            let outcome = Outcome::Finished { rows: 1, bytes: 1 };
            follow(
                &mut dispatcher,
                at,
                Event::Finished { query, outcome, blocked: Span::ZERO, pinned: false },
                &mut ends,
            );
        }
        follow(&mut dispatcher, came, Event::Arrived(query(number)), &mut ends);
    }
    dispatcher.study()
}

fn ready() -> Event {
    Event::ClusterReady { cluster: ClusterId(0), generation: Generation(0) }
}

/// What is placed ends when it is expected to.
fn follow(dispatcher: &mut Dispatcher, now: Time, event: Event, ends: &mut BTreeSet<(Time, QueryId)>) {
    let mut commands = Vec::new();
    dispatcher.handle(now, event, &mut commands);
    for command in commands {
        if let Command::Run { query, .. } = command
            && let Some((_, placed, prediction)) = dispatcher.outlook(query)
        {
            ends.insert((placed + Span::from_secs_f64(prediction.median()), query));
        }
    }
}

fn studies(c: &mut Criterion) {
    let mut group = c.benchmark_group("study");
    group.sample_size(10);
    let cases = [
        BUDGET,
        Case { sizes: 1, ..BUDGET },
        Case { sizes: 2, ..BUDGET },
        Case { rate: 0.25, work: 4.0 * BUDGET.work, ..BUDGET },
        Case { rate: 4.0, work: BUDGET.work / 4.0, ..BUDGET },
        Case { window: 300, ..BUDGET },
        Case { work: BUDGET.work / 2.0, ..BUDGET },
        Case { work: BUDGET.work * 2.0, ..BUDGET },
    ];
    for case in cases {
        let study = begun(case);
        let Case { sizes, rate, window, .. } = case;
        let running = study.fork.running().count();
        let name = format!("{sizes} sizes, {rate}/s, {window} s, {running} running");
        group.bench_function(name, |b| b.iter(|| study::run(black_box(&study), 1)));
    }
    group.finish();
}

criterion_group!(benches, studies);
criterion_main!(benches);
