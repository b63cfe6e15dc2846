//! What is known of how each template fares alone, at each size.
//!
//! First the isolated executions. They are a hopeful choice: a query that takes long is seldom alone until it ends, so
//! at small sizes the heavy templates, and the slow executions of the others, are missing. So there is a second
//! source: executions in the runs that a few others overlapped, divided by how much that many neighbours slow a
//! query down in the median (1.3 with one, about 3.5 with six), as found on the templates that have both.

use std::collections::BTreeMap;

use punctual_core::time::{Span, Time};

use super::{Measured, MeasuredRun, median};
use crate::world::warehouse::Template;

/// Executions with more neighbours than this say more about those than about the template.
const NEIGHBOURS: usize = 6;
/// More executions than this of one template at one size count as this many.
const ENOUGH: f64 = 9.0;

/// How long a template takes alone at one size, and how much that is to be trusted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Clue {
    pub(super) size: u32,
    /// Seconds.
    pub(super) latency: f64,
    pub(super) weight: f64,
}

/// The clues to each template, in the order of the templates.
pub(super) fn clues(measured: &Measured) -> Vec<Vec<Clue>> {
    let mut isolated: BTreeMap<(u32, Template), Vec<f64>> = BTreeMap::new();
    for cell in &measured.isolated {
        isolated.entry((cell.size, cell.template)).or_default().extend(&cell.latencies);
    }
    let crowded = crowded(measured);
    let mut clues = vec![Vec::new(); Template::COUNT];
    for (&(size, template), latencies) in &mut isolated {
        clues[template.index()].extend(clue(size, latencies));
    }
    let medians = isolated.iter_mut().filter_map(|(key, latencies)| Some((*key, median(latencies)?))).collect();
    let slowdown = slowdowns(&crowded, &medians);
    let mut corrected: BTreeMap<(u32, Template), Vec<f64>> = BTreeMap::new();
    for (key, neighbours, latency) in crowded {
        corrected.entry(key).or_default().push(latency / slowdown[neighbours]);
    }
    for ((size, template), latencies) in &mut corrected {
        clues[template.index()].extend(clue(*size, latencies));
    }
    clues
}

fn clue(size: u32, latencies: &mut [f64]) -> Option<Clue> {
    let weight = (latencies.len() as f64).min(ENOUGH).sqrt();
    median(latencies).map(|latency| Clue { size, latency, weight })
}

type Crowded = ((u32, Template), usize, f64);

/// Executions in the runs that some others overlapped, but not many, with their latencies. A size at which hardly any
/// execution is left alone says nothing about that: there the few that overlap little are those that ran first.
fn crowded(measured: &Measured) -> Vec<Crowded> {
    let alone = |size| measured.isolated.iter().filter(|cell| cell.size == size).count() >= Template::COUNT / 2;
    let runs = measured.runs.iter().filter(|run| alone(run.size));
    let of_run = |run: &MeasuredRun| {
        let counts = overlaps(run);
        let size = run.size;
        let few = run.queries.clone().into_iter().zip(counts).filter(|(_, count)| (1..=NEIGHBOURS).contains(count));
        few.map(move |(query, count)| ((size, query.template), count, query.latency)).collect::<Vec<_>>()
    };
    runs.flat_map(of_run).collect()
}

/// How many other executions overlap each.
fn overlaps(run: &MeasuredRun) -> Vec<usize> {
    let end = |at: usize| -> Time { run.queries[at].arrival + Span::from_secs_f64(run.queries[at].latency) };
    let overlap = |a: usize, b: usize| a != b && run.queries[a].arrival < end(b) && run.queries[b].arrival < end(a);
    let count = run.queries.len();
    (0..count).map(|a| (0..count).filter(|b| overlap(a, *b)).count()).collect()
}

/// By how much so many neighbours slow a query down in the median, against the same template alone. More neighbours never
/// count for less.
fn slowdowns(crowded: &[Crowded], alone: &BTreeMap<(u32, Template), f64>) -> [f64; NEIGHBOURS + 1] {
    let mut slowdown = [1.0; NEIGHBOURS + 1];
    for neighbours in 1..=NEIGHBOURS {
        let of_these = crowded.iter().filter(|(_, count, _)| *count == neighbours);
        let ratio = |(key, _, latency): &Crowded| alone.get(key).map(|alone| latency / alone);
        let mut ratios: Vec<f64> = of_these.filter_map(ratio).collect();
        slowdown[neighbours] = median(&mut ratios).unwrap_or(1.0).max(slowdown[neighbours - 1]);
    }
    slowdown
}
