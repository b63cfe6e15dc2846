//! Events a second of a fleet: arrivals, completions, ends of standby and of setup.
//!
//! The budgets, on one core: 10 million with exponential times at 100,000 servers, 3 million at 1,000,000, 2 million with
//! log-normal services; 64 bytes a server and its waiting tasks. It grows with the servers as far as they do not fit the
//! caches; the work for an event does not grow.
//!
//! `cargo bench -p punctual-sim --bench fleet`

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use punctual_sim::fleet::{Delay, Scheme, ServiceTime, Setting, run};

/// Events of a run, about.
const EVENTS: f64 = 2e6;

/// A fleet in the paper's setting that has come to its load. The time until then is part of the run, and its events
/// are counted.
fn setting(servers: u32, scheme: Scheme, service: ServiceTime) -> Setting {
    // A start near the fixed point: the load busy, the rest off.
    let start = punctual_sim::fleet::Start { queues: vec![0.3], idle_off: 0.65, setup: 0.0 };
    let horizon = EVENTS / (f64::from(servers) * 0.3 * 2.0);
    let standby = Delay::Exponential(10.0);
    let start = if scheme.turns_off() { start } else { Default::default() };
    Setting { scheme, service, standby, start, horizon, ..Setting::new(servers, 0.3) }
}

fn events(c: &mut Criterion) {
    let mut group = c.benchmark_group("fleet");
    group.sample_size(10);
    let log_normal = || ServiceTime::LogNormal { variation: 2.0 };
    let mut cases = Vec::new();
    for servers in [1_000, 10_000, 100_000, 1_000_000] {
        cases.push((servers, Scheme::Tabs, ServiceTime::Exponential, "exponential"));
        cases.push((servers, Scheme::Tabs, log_normal(), "log-normal"));
    }
    cases.push((100_000, Scheme::Tabs, ServiceTime::Deterministic, "deterministic"));
    for scheme in [Scheme::Jiq, Scheme::Jsq, Scheme::P2c, Scheme::Random, Scheme::DelayedOff] {
        cases.push((100_000, scheme, ServiceTime::Exponential, "exponential"));
    }
    for (servers, scheme, service, name) in cases {
        let setting = setting(servers, scheme, service);
        let outcome = run(&setting, 1, &mut ()).expect("it can be run");
        let bytes = outcome.bytes / u64::from(servers);
        group.throughput(Throughput::Elements(outcome.events));
        let name = format!("{servers} servers, {scheme:?}, {name}, {bytes} bytes a server");
        group.bench_function(name, |b| {
            b.iter_batched(|| (), |()| run(&setting, 1, &mut ()), BatchSize::PerIteration);
        });
    }
    group.finish();
}

criterion_group!(benches, events);
criterion_main!(benches);
