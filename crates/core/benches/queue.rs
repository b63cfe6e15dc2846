//! What admission costs beyond routing, with a thousand classes and many queries that wait.
//!
//! All slots are taken. An arrival then has its priority and lane worked out, and waits, or is refused because too many wait: itself,
//! or, where turns are fair, the newest of whoever has most waiting. When a query ends, whoever's turn it is runs.
//!
//! The budget is 5 µs in the median for an arrival, and growth as a logarithm does from 1,000 waiting to 100,000. With
//! 100,000 waiting the queues are some tens of megabytes, so most of what a decision looks at comes from memory.
//!
//! `cargo bench -p punctual-core --bench queue`

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use punctual_core::admit::Order;
use punctual_core::admit::claim::{Claim, Scan};
use punctual_core::admit::lanes::{Lane, Lanes, Limit};
use punctual_core::admit::terms::{Terms, Thresholds};
use punctual_core::billing::Price;
use punctual_core::class::Class;
use punctual_core::cluster::Spec;
use punctual_core::event::{Event, Outcome};
use punctual_core::fingerprint::Fingerprint;
use punctual_core::id::{ClassId, ClusterId, Generation, QueryId, SessionId, Units, UserId};
use punctual_core::policy::Policy;
use punctual_core::query::Query;
use punctual_core::statement::Kind;
use punctual_core::time::Span;
use punctual_core::{Command, Dispatcher, Time};

/// Classes, in so many lanes, of so many users each.
const CLASSES: u64 = 1_000;
const LANES: u32 = 16;
const USERS: u64 = 37;

/// Slots, all of which are taken.
const SLOTS: u64 = 256;

fn policy(order: Order, max_waiting: u32) -> Policy {
    let thresholds = Thresholds {
        period: Some(Span::from_secs(86_400)),
        duration: Some(Span::from_secs(3_600)),
        ..Thresholds::default()
    };
    let mut classes = Class::built_in();
    classes.extend((0..CLASSES).map(|number| {
        let lane = Some(format!("lane{}", number % u64::from(LANES)));
        let terms = Terms { lane, thresholds, max_running: Some(200), ..Terms::default() };
        Class { name: format!("class{number}"), terms, ..Class::default() }
    }));
    let lane = |number| Lane { name: format!("lane{number}"), limit: Some(Limit::Percent(50.0)), ..Lane::default() };
    let lanes = Lanes::manual((0..LANES).map(lane).collect());
    Policy {
        order,
        classes,
        lanes,
        max_waiting,
        wait_limit: Span::from_secs(1 << 30),
        decisions_kept: 0,
        ..Policy::default()
    }
}

fn query(number: u64) -> Query {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let scan = Scan { reach: Some(Span::from_secs(mixed % 200_000)), duration: Some(Span::ZERO), ..Scan::default() };
    Query {
        id: QueryId(number),
        session: SessionId(number),
        fingerprint: Fingerprint(mixed % 300),
        kind: Kind::Select,
        class: ClassId(2 + (mixed % CLASSES) as u32),
        slo: None,
        claim: Claim { user: UserId(mixed / CLASSES % USERS), priority: None, scan: Some(scan), writes: false },
        traits: None,
    }
}

fn end(number: u64) -> Event {
    Event::Finished {
        query: QueryId(number),
        outcome: Outcome::Finished { rows: 1, bytes: 1 },
        blocked: Span::ZERO,
        pinned: false,
    }
}

/// A full gateway in which so many wait, and how many have come.
fn full(order: Order, waiting: u32, max_waiting: u32) -> (Dispatcher, u64) {
    let mut dispatcher = Dispatcher::new(1, policy(order, max_waiting));
    let mut commands = Vec::new();
    let spec = Spec {
        name: "a".into(),
        units: Units(8),
        slots: SLOTS as u32,
        price: Price::default(),
        killable: true,
        offer: None,
        writer: false,
    };
    dispatcher.handle(Time::ZERO, Event::ClusterWanted(spec), &mut commands);
    let ready = Event::ClusterReady { cluster: ClusterId(0), generation: Generation(0) };
    dispatcher.handle(Time::ZERO, ready, &mut commands);
    let all = SLOTS + u64::from(waiting);
    for number in 0..all {
        commands.clear();
        dispatcher.handle(Time::from_micros(number), Event::Arrived(query(number)), &mut commands);
    }
    (dispatcher, all)
}

fn name(order: Order) -> &'static str {
    if order == Order::Fair { "fair" } else { "fifo" }
}

/// One arrives where as many wait as may: someone is refused.
fn refused(c: &mut Criterion) {
    let mut group = c.benchmark_group("arrival, one too many");
    for order in [Order::Fifo, Order::Fair] {
        for waiting in [1_000, 10_000, 100_000] {
            let (mut dispatcher, mut number) = full(order, waiting, waiting);
            let mut commands: Vec<Command> = Vec::new();
            group.bench_function(BenchmarkId::new(name(order), waiting), |b| {
                b.iter(|| {
                    commands.clear();
                    dispatcher.handle(Time::from_micros(number), Event::Arrived(query(number)), &mut commands);
                    number += 1;
                });
            });
        }
    }
    group.finish();
}

/// One arrives and waits, and goes again: the two sides of a queue. Halved, it is what either takes.
fn waits(c: &mut Criterion) {
    let mut group = c.benchmark_group("arrival that waits, and its cancellation");
    for order in [Order::Fifo, Order::Fair] {
        for waiting in [1_000, 10_000, 100_000] {
            let (mut dispatcher, mut number) = full(order, waiting, waiting + 1);
            let mut commands: Vec<Command> = Vec::new();
            group.bench_function(BenchmarkId::new(name(order), waiting), |b| {
                b.iter(|| {
                    commands.clear();
                    let now = Time::from_micros(number);
                    dispatcher.handle(now, Event::Arrived(query(number)), &mut commands);
                    dispatcher.handle(now, Event::Cancel { query: QueryId(number) }, &mut commands);
                    number += 1;
                });
            });
        }
    }
    group.finish();
}

/// One ends, whoever's turn it is runs, and another arrives in its stead: all that happens to a query, with its routing, on the
/// only cluster that there is.
fn turns(c: &mut Criterion) {
    let mut group = c.benchmark_group("an end, the next one's turn, an arrival");
    for order in [Order::Fifo, Order::Fair] {
        for waiting in [1_000, 10_000, 100_000] {
            let (mut dispatcher, mut number) = full(order, waiting, waiting + 1);
            let mut commands: Vec<Command> = Vec::new();
            let mut running: std::collections::VecDeque<QueryId> = (0..SLOTS).map(QueryId).collect();
            group.bench_function(BenchmarkId::new(name(order), waiting), |b| {
                b.iter(|| {
                    commands.clear();
                    let now = Time::from_micros(1_000 * number);
                    if let Some(first) = running.pop_front() {
                        dispatcher.handle(now, end(first.0), &mut commands);
                    }
                    dispatcher.handle(now, Event::Arrived(query(number)), &mut commands);
                    number += 1;
                    running.extend(commands.iter().filter_map(|command| match command {
                        Command::Run { query, .. } => Some(*query),
                        _ => None,
                    }));
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, refused, waits, turns);
criterion_main!(benches);
