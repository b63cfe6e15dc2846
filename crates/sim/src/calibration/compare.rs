//! What the simulated warehouse makes of measured arrivals, beside what was measured.

use std::collections::{BTreeMap, VecDeque};

use punctual_core::id::{QueryId, Units};
use punctual_core::time::Time;

use super::{Cell, MeasuredRun, TIMEOUT, median, quantile};
use crate::world::warehouse::{Table, Template, Warehouse};

/// A run, measured and simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// As it was.
    pub measured: Side,
    /// As the warehouse has it.
    pub simulated: Side,
}

/// One of the two.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Side {
    /// Mean latency, in seconds; what did not finish in time counts as [`TIMEOUT`].
    pub mean: f64,
    /// 90 % quantile of the latencies, in seconds.
    pub p90: f64,
    /// The share that did not finish in time.
    pub timed_out: f64,
    /// How many queries were there at once, on average from the first arrival to the last end.
    pub concurrency: f64,
}

/// Simulates the arrivals of a run on a cluster of its size that is cold at first, `seeds` times, and takes the
/// simulations together. Nothing else of the run is looked at for that.
pub fn compare(run: &MeasuredRun, table: &Table, seeds: u64) -> Comparison {
    let arrivals: Vec<(Time, Template)> = run.queries.iter().map(|query| (query.arrival, query.template)).collect();
    let measured: Vec<f64> = run.queries.iter().map(|query| query.latency).collect();
    let simulations = (0..seeds.max(1)).map(|seed| latencies(table, Units(run.size), &arrivals, seed));
    let sides: Vec<(Side, Vec<f64>)> = simulations.map(|taken| (Side::of(&arrivals, &taken), taken)).collect();
    let mean = |of: fn(&Side) -> f64| sides.iter().map(|(side, _)| of(side)).sum::<f64>() / sides.len() as f64;
    let mut all: Vec<f64> = sides.iter().flat_map(|(_, taken)| taken.iter().copied()).collect();
    let simulated = Side {
        mean: mean(|side| side.mean),
        p90: quantile(&mut all, 0.9).unwrap_or_default(),
        timed_out: mean(|side| side.timed_out),
        concurrency: mean(|side| side.concurrency),
    };
    Comparison { measured: Side::of(&arrivals, &measured), simulated }
}

impl Side {
    fn of(arrivals: &[(Time, Template)], latencies: &[f64]) -> Side {
        let mut sorted = latencies.to_vec();
        let count = latencies.len().max(1) as f64;
        let total: f64 = latencies.iter().sum();
        let ends = arrivals.iter().zip(latencies).map(|((at, _), taken)| at.since(Time::ZERO).secs_f64() + taken);
        let first = arrivals.first().map_or(0.0, |(at, _)| at.since(Time::ZERO).secs_f64());
        let length = ends.fold(0.0, f64::max) - first;
        Side {
            mean: total / count,
            p90: quantile(&mut sorted, 0.9).unwrap_or_default(),
            timed_out: latencies.iter().filter(|taken| **taken >= TIMEOUT.secs_f64()).count() as f64 / count,
            concurrency: if length > 0.0 { total / length } else { 0.0 },
        }
    }
}

/// Seconds that each of the arrivals takes on a new cluster of `units`; those that have not finished by then are
/// given up after [`TIMEOUT`], waiting included. Arrivals are in the order of time.
pub fn latencies(table: &Table, units: Units, arrivals: &[(Time, Template)], seed: u64) -> Vec<f64> {
    let mut warehouse = Warehouse::new(table.parameters, units, seed);
    let mut taken = vec![TIMEOUT.secs_f64(); arrivals.len()];
    let mut coming = arrivals.iter().enumerate().peekable();
    // In the order of their arrival, which is that of their timeouts; some have ended already.
    let mut there: VecDeque<(usize, Time)> = VecDeque::new();
    loop {
        let arrives = coming.peek().map(|(_, (at, _))| *at);
        let gives_up = there.front().map(|(_, at)| *at + TIMEOUT);
        let next = [arrives, gives_up, warehouse.next()].into_iter().flatten().min();
        let Some(now) = next else { return taken };
        for query in warehouse.finished(now) {
            let at = query.0 as usize;
            taken[at] = now.since(arrivals[at].0).secs_f64().min(TIMEOUT.secs_f64());
            there.retain(|(other, _)| *other != at);
        }
        while let Some((query, _)) = there.pop_front_if(|(_, at)| *at + TIMEOUT <= now) {
            warehouse.leave(now, QueryId(query as u64));
        }
        while let Some((query, (at, template))) = coming.next_if(|(_, (at, _))| *at <= now) {
            warehouse.arrive(now, QueryId(query as u64), table.profile(*template));
            there.push_back((query, *at));
        }
    }
}

/// The share of measured templates and sizes whose median is within a factor of the simulated one. `simulated` gives the
/// medians of all templates at a size, and is asked once for each.
pub fn within(cells: &[Cell], factor: f64, simulated: impl Fn(u32) -> Vec<f64>) -> f64 {
    let mut measured: BTreeMap<(u32, Template), Vec<f64>> = BTreeMap::new();
    for cell in cells {
        measured.entry((cell.size, cell.template)).or_default().extend(&cell.latencies);
    }
    let sizes: BTreeMap<u32, Vec<f64>> = measured.keys().map(|(size, _)| (*size, Vec::new())).collect();
    let sizes: BTreeMap<u32, Vec<f64>> = sizes.into_keys().map(|size| (size, simulated(size))).collect();
    let count = measured.len().max(1) as f64;
    let close = measured.into_iter().filter_map(|((size, template), mut latencies)| {
        let ratio = sizes.get(&size)?.get(template.index())? / median(&mut latencies)?;
        (ratio <= factor && ratio >= 1.0 / factor).then_some(())
    });
    close.count() as f64 / count
}
