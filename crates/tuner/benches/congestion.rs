//! What finding moments of congestion costs, and how it grows with workloads and queries.
//!
//! The budget is 50 ms on one core for 20 workloads of 15,000 queries.
//!
//! `cargo bench -p punctual-tuner --bench congestion`

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use punctual_core::rng::Rng;
use punctual_core::time::{Span, Time};
use punctual_tuner::congestion::{Congestion, Lived, moments};

/// A day of queries that take a minute in the mean, a tenth of them late.
fn log(queries: u64, seed: u64) -> Vec<Lived> {
    let mut rng = Rng::numbered(seed, 1 << 32);
    let mut at = 0.0;
    let one = |_| {
        at += rng.exponential(86_400.0 / queries as f64);
        let arrived = Time::ZERO + Span::from_secs_f64(at);
        let ended = arrived + Span::from_secs_f64(rng.exponential(60.0));
        Lived { arrived, ended, late: rng.chance(0.1) }
    };
    (0..queries).map(one).collect()
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("congestion");
    group.sample_size(20);
    for (workloads, queries) in [(20, 15_000), (20, 1_500), (5, 15_000), (20, 60_000)] {
        let logs: Vec<Vec<Lived>> = (0..workloads).map(|seed| log(queries, seed)).collect();
        let logs: Vec<&[Lived]> = logs.iter().map(Vec::as_slice).collect();
        let congestion = Congestion::of(0.1, logs.len(), Span::from_secs(300));
        group.bench_function(BenchmarkId::from_parameter(format!("{workloads}x{queries}")), |bencher| {
            bencher.iter(|| moments(black_box(&logs), &congestion));
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
