//! The inputs of a few examples, laid side by side.
//!
//! Queries are described once each, however often they are met; a query whose fingerprint is hidden this time is
//! another description. Hiding happens per example and query at random: a network that has always seen a
//! fingerprint's own row would know nothing of one that it has not seen.

use std::ops::Range;

use punctual_core::predict::net::{FEATURES, HEAD, PAIR, Pair, Side};
use punctual_core::rng::Rng;

use super::normal::Normal;
use crate::examples::Examples;

/// The steps of one side of all examples, a range each.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    pub(super) sequences: Vec<Range<u32>>,
    pub(super) pairs: Vec<Pair>,
    pub(super) rows: Vec<[f32; PAIR]>,
}

/// Everything that the examples put into the network.
#[derive(Clone, Debug)]
pub(super) struct Gathered {
    pub(super) known: Vec<Option<u32>>,
    pub(super) features: Vec<[f32; FEATURES]>,
    pub(super) steps: [Steps; 2],
    pub(super) targets: Vec<u32>,
    pub(super) heads: Vec<[f32; HEAD]>,
}

impl Gathered {
    /// Gathers examples on the scale of `normal`, hiding each known fingerprint with probability `hide`.
    pub(super) fn of(pool: &Examples, chosen: &[u32], normal: Option<&Normal>, hide: f64, rng: &mut Rng) -> Gathered {
        let mut steps = [Steps::default(), Steps::default()];
        let (mut targets, mut heads) = (Vec::new(), Vec::new());
        for &index in chosen {
            let example = &pool.examples[index as usize];
            let mut key = |query: u32| {
                let shown = pool.queries[query as usize].known.is_some() && !(hide > 0.0 && rng.chance(hide));
                2 * query + u32::from(shown)
            };
            let target = key(example.target);
            targets.push(target);
            heads.push(normal.map_or(example.head, |normal| normal.head.apply(&example.head)));
            for (side, range) in [(Side::Before, &example.before), (Side::After, &example.after)] {
                let steps = &mut steps[side as usize];
                let start = steps.pairs.len() as u32;
                for step in range.clone() {
                    let (query, row) = (pool.neighbours[step as usize], &pool.rows[step as usize]);
                    let neighbour = if query == example.target { target } else { key(query) };
                    steps.pairs.push(Pair { target, neighbour });
                    steps.rows.push(normal.map_or(*row, |normal| normal.pair.apply(row)));
                }
                steps.sequences.push(start..steps.pairs.len() as u32);
            }
        }
        Gathered::in_slots(pool, normal, steps, targets, heads)
    }

    /// Replaces keys (query and whether it is shown) by slots.
    fn in_slots(
        pool: &Examples,
        normal: Option<&Normal>,
        mut steps: [Steps; 2],
        mut targets: Vec<u32>,
        heads: Vec<[f32; HEAD]>,
    ) -> Gathered {
        let met = steps.iter().flat_map(|steps| steps.pairs.iter().map(|pair| pair.neighbour));
        let mut keys: Vec<u32> = met.chain(targets.iter().copied()).collect();
        keys.sort_unstable();
        keys.dedup();
        let slot = |key: u32| keys.partition_point(|&other| other < key) as u32;
        for target in &mut targets {
            *target = slot(*target);
        }
        for pair in steps.iter_mut().flat_map(|steps| &mut steps.pairs) {
            *pair = Pair { target: slot(pair.target), neighbour: slot(pair.neighbour) };
        }
        let query = |key: &u32| &pool.queries[(key / 2) as usize];
        let scaled = |features: &[f32; FEATURES]| normal.map_or(*features, |normal| normal.features.apply(features));
        Gathered {
            known: keys.iter().map(|key| query(key).known.filter(|_| key % 2 == 1)).collect(),
            features: keys.iter().map(|key| scaled(&query(key).features)).collect(),
            steps,
            targets,
            heads,
        }
    }
}
