//! A small world to learn: one cluster that queries share, and some that slow the others down.
//!
//! Eight kinds of queries arrive at random; those that run share the cluster evenly. While a query of the last kind
//! runs, all others get half of their share. Work is known; that the last kind is a nuisance is not, so the even-sharing
//! estimate that the examples start from is wrong where it meets one.

use punctual_core::math::ln;
use punctual_core::predict::net::{FEATURES, HEAD, PAIR};
use punctual_core::rng::Rng;

use crate::examples::{Example, Examples, QueryInput};

/// Kinds of queries, each a known fingerprint.
pub(super) const KINDS: usize = 8;

struct Running {
    query: u32,
    started: f64,
    left: f64,
    work: f64,
    before: std::ops::Range<u32>,
    later: Vec<(u32, [f32; PAIR])>,
    head: [f32; HEAD],
    base: f32,
}

/// Examples of `queries` queries, each at its arrival and in hindsight; one in twenty is a lower bound.
pub(super) fn examples(seed: u64, queries: usize) -> Examples {
    let mut rng = Rng::numbered(seed, 1 << 32);
    let mut pool = Examples::default();
    let mut running: Vec<Running> = Vec::new();
    let mut now = 0.0;
    for query in 0..queries as u32 {
        let arrival = now + rng.exponential(5.0);
        run_until(&mut pool, &mut running, &mut now, arrival, &mut rng);
        arrive(&mut pool, &mut running, query, now, &mut rng);
    }
    run_until(&mut pool, &mut running, &mut now, f64::INFINITY, &mut rng);
    pool
}

fn nuisance(pool: &Examples, query: u32) -> bool {
    pool.queries[query as usize].known == Some(KINDS as u32 - 1)
}

/// How fast each runs: an even share, halved beside a nuisance.
fn rates(pool: &Examples, running: &[Running]) -> Vec<f64> {
    let nuisances = running.iter().filter(|r| nuisance(pool, r.query)).count();
    let rate = |r: &Running| {
        let beside = nuisances > usize::from(nuisance(pool, r.query));
        if beside { 0.5 } else { 1.0 }
    };
    running.iter().map(|r| rate(r) / running.len() as f64).collect()
}

/// Lets those that run do so until `end`, and records those that finish.
fn run_until(pool: &mut Examples, running: &mut Vec<Running>, now: &mut f64, end: f64, rng: &mut Rng) {
    loop {
        let rates = rates(pool, running);
        let next = running.iter().zip(&rates).map(|(r, rate)| r.left / rate).enumerate();
        let first = next.min_by(|a, b| a.1.total_cmp(&b.1));
        let span = first.map_or(f64::INFINITY, |(_, span)| span).min(end - *now);
        if !span.is_finite() {
            return *now = if end.is_finite() { end } else { *now };
        }
        running.iter_mut().zip(&rates).for_each(|(r, rate)| r.left -= span * rate);
        *now += span;
        match first {
            Some((index, took)) if took <= span => finish(pool, running.remove(index), *now, rng),
            _ => return,
        }
    }
}

fn finish(pool: &mut Examples, done: Running, now: f64, rng: &mut Rng) {
    let start = pool.rows.len() as u32;
    for (neighbour, row) in &done.later {
        pool.neighbours.push(*neighbour);
        pool.rows.push(*row);
    }
    let (bound, label) = (rng.chance(0.05), ln(now - done.started));
    let label = if bound { label - rng.unit() } else { label } as f32;
    let example = |after, head| Example {
        target: done.query,
        before: done.before.clone(),
        after,
        head,
        base: done.base,
        label,
        bound,
        group: done.query / 10,
    };
    let mut late = done.head;
    late[4] = 1.0;
    late[5] = ln(done.later.len() as f64) as f32;
    pool.examples.push(example(start..start + 1, done.head));
    pool.examples.push(example(start..pool.rows.len() as u32, late));
}

fn arrive(pool: &mut Examples, running: &mut Vec<Running>, query: u32, now: f64, rng: &mut Rng) {
    let kind = rng.below(KINDS as u64) as u32;
    let work = 0.5 * f64::from(kind + 1) * (1.0 + 0.1 * rng.normal()).max(0.2);
    let mut features = [0.0; FEATURES];
    features[0] = ln(work) as f32;
    features[1] = kind as f32;
    pool.queries.push(QueryInput { known: Some(kind), features });
    let row = |a: f64, b: f64, elapsed: f64, later: bool, n: usize| {
        let mut row = [0.0; PAIR];
        row[..5].copy_from_slice(&[ln(a) as f32, ln(b) as f32, ln(1.0 + elapsed) as f32, later.into(), n as f32]);
        row
    };
    let n = running.len() + 1;
    let start = pool.rows.len() as u32;
    for r in running.iter() {
        pool.neighbours.push(r.query);
        pool.rows.push(row(work, r.left.max(1e-3), now - r.started, false, n));
    }
    let own = row(work, work, 0.0, false, n);
    pool.neighbours.push(query);
    pool.rows.push(own);
    for r in running.iter_mut() {
        r.later.push((query, row(r.work, work, now - r.started, true, n)));
    }
    // Even sharing with those that run, no further arrivals.
    let shared = work + running.iter().map(|r| r.left.min(work)).sum::<f64>();
    let mut head = [0.0; HEAD];
    head[..4].copy_from_slice(&[ln(work) as f32, ln(shared) as f32, n as f32, 1.0]);
    let before = start..pool.rows.len() as u32;
    let base = ln(shared) as f32;
    running.push(Running { query, started: now, left: work, work, before, later: vec![(query, own)], head, base });
}
