//! Templates alone on a cluster: by a formula, and by simulation.
//!
//! How warm a cluster is depends on what ran there before. Here it is all 99 templates, one at a time, over and
//! over in an order that chance gives: what a template finds in the cache then is an average over what others left
//! there.

use std::collections::BTreeMap;

use punctual_core::id::{QueryId, Units};
use punctual_core::rng::{Rng, Stream};
use punctual_core::time::Time;

use super::median;
use crate::world::warehouse::{Parameters, Profile, Steady, Table, Template, Warehouse};

/// Rounds over all templates, after a first one that only warms the cluster.
const ROUNDS: u64 = 9;

/// Seconds that each template takes alone on a cluster of `units`, in the order of the templates: medians of a
/// simulation in which one query runs at a time.
pub fn medians(table: &Table, units: Units, seed: u64) -> Vec<f64> {
    let mut warehouse = Warehouse::new(table.parameters, units, seed);
    let mut order = Rng::stream(seed, Stream::Mix);
    let mut now = Time::ZERO;
    let mut taken = vec![Vec::new(); Template::COUNT];
    for round in 0..=ROUNDS {
        for template in shuffled(&mut order) {
            let began = now;
            let query = QueryId(round << 8 | template.index() as u64);
            warehouse.arrive(now, query, table.profile(template));
            while warehouse.finished(now).is_empty() {
                let Some(next) = warehouse.next() else { break };
                now = next;
            }
            if round > 0 {
                taken[template.index()].push(now.since(began).secs_f64());
            }
        }
    }
    taken.iter_mut().map(|taken| median(taken).unwrap_or_default()).collect()
}

fn shuffled(rng: &mut Rng) -> Vec<Template> {
    let mut order: Vec<Template> = Template::all().collect();
    for last in (1..order.len()).rev() {
        order.swap(last, rng.index(last + 1));
    }
    order
}

/// How much of what a template reads it finds in the cache, by size.
#[derive(Clone, Debug)]
pub(super) struct Warmth {
    /// For each template.
    by_size: BTreeMap<u32, Vec<f64>>,
}

impl Warmth {
    /// Of clusters of these sizes. `like` says what the templates read.
    pub(super) fn of(sizes: impl IntoIterator<Item = u32>, cache: f64, like: &Table) -> Warmth {
        let by_size = sizes.into_iter().map(|size| (size, found(f64::from(size) * cache, like))).collect();
        Warmth { by_size }
    }

    fn share(&self, size: u32, template: Template) -> f64 {
        self.by_size.get(&size).map_or(1.0, |shares| shares[template.index()])
    }
}

fn found(room: f64, like: &Table) -> Vec<f64> {
    let mut steady = Steady::new(room);
    let mut order = Rng::stream(0, Stream::Mix);
    let mut sum = vec![0.0; Template::COUNT];
    for round in 0..=ROUNDS {
        for template in shuffled(&mut order) {
            let share = steady.read(like.profile(template).tables);
            if round > 0 {
                sum[template.index()] += share / ROUNDS as f64;
            }
        }
    }
    sum
}

/// Seconds that a query takes alone, without luck, if it finds in the cache what it does on average.
pub(super) fn expected(
    parameters: &Parameters,
    profile: &Profile,
    (size, template): (u32, Template),
    warmth: &Warmth,
) -> f64 {
    let units = f64::from(size);
    let here = warmth.share(size, template);
    let read = profile.io * (here + parameters.cold * (1.0 - here));
    let outside = (profile.memory - units * parameters.memory).max(0.0);
    let io = (read + parameters.spill * outside) / parameters.bandwidth;
    parameters.start_up + profile.cpu.max(io) / profile.most_units.min(units)
}
