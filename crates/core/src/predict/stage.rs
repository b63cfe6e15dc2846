//! Stage: how long a query takes alone on a cluster of a given size.
//!
//! What has run alone before is known from those runs; what has not is estimated from its features. The two are one
//! estimate, drawn from coarse to fine, each step as far as it has runs to stand on:
//!
//! ```text
//!   trees(features, size)           any query                     work = ln seconds + ln size
//!     + offset of the fingerprint   its isolated runs, all sizes  (sizes share strength)
//!       → mean of (size, fingerprint)
//!         → mean of (size, text)
//! ```
//!
//! A step with n runs moves the estimate n/(n + prior) of the way to its mean. The trees estimate work rather than
//! latency: between sizes that were never measured, half the size is twice the time.
//!
//! Source: Stage (AutoSLO, section 4, its [57]): a table of repeated queries first, then boosted trees, here shared
//! across sizes; trained on isolated runs only (section 8.3.2).

use serde::{Deserialize, Serialize};

use super::features::{FEATURES, Features};
use super::trees::Trees;
use crate::fingerprint::Fingerprint;
use crate::id::Units;
use crate::math;

/// Numbers that the trees read: the features of the query and log2 of the size.
pub const TREE_INPUTS: usize = FEATURES + 1;

/// Isolated runs that a step of the estimate needs to count for half: of the fingerprint over all sizes, of the
/// fingerprint on the size, of the text on the size.
pub const PRIORS: [f64; 3] = [0.5, 1.0, 1.0];

/// Isolated runs, summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// How many.
    pub runs: u32,
    /// The mean of ln seconds; for a fingerprint over all sizes, of what that differs from the trees.
    pub mean: f64,
}

/// The model of isolated latencies. The tables are in the order of their keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// ln (seconds × size) by features and size.
    pub trees: Trees,
    /// By fingerprint, over all sizes.
    pub shapes: Vec<(Fingerprint, Cell)>,
    /// By size and fingerprint.
    pub sized: Vec<((Units, Fingerprint), Cell)>,
    /// By size and text.
    pub texts: Vec<((Units, u64), Cell)>,
    /// Standard deviation of ln seconds around the estimate, by the finest step that it stands on: trees alone,
    /// fingerprint, size and fingerprint, size and text.
    pub spreads: [f64; 4],
}

/// What a query is expected to take alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Alone {
    /// ln of the seconds in the median.
    pub ln: f64,
    /// Standard deviation of ln seconds around that.
    pub spread: f64,
    /// Isolated runs known of the fingerprint on all sizes, of the fingerprint on this size, and of the text on it.
    pub runs: [u32; 3],
}

impl Stage {
    /// What a query takes alone on a size. `text` stands for its text, whatever its literals.
    pub fn alone(&self, features: &Features, shape: Fingerprint, text: u64, size: Units) -> Alone {
        self.estimate(self.trees(features, size), self.cells(shape, text, size))
    }

    /// What the trees say without any table, ln seconds.
    pub fn trees(&self, features: &Features, size: Units) -> f64 {
        self.trees.value(&tree_inputs(features, size)) - math::ln(f64::from(size.0.max(1)))
    }

    /// The cells that an estimate stands on, from coarse to fine: of the fingerprint, of it on this size, of the text
    /// on this size.
    pub fn cells(&self, shape: Fingerprint, text: u64, size: Units) -> [Cell; 3] {
        [find(&self.shapes, &shape), find(&self.sized, &(size, shape)), find(&self.texts, &(size, text))]
    }

    /// The estimate that starts at `trees`, ln seconds, and stands on these cells.
    pub fn estimate(&self, trees: f64, cells: [Cell; 3]) -> Alone {
        let [shape, sized, text] = cells;
        let mut ln = trees + share(shape, PRIORS[0]) * shape.mean;
        ln += share(sized, PRIORS[1]) * (sized.mean - ln);
        ln += share(text, PRIORS[2]) * (text.mean - ln);
        let runs = cells.map(|cell| cell.runs);
        let finest = runs.iter().rposition(|runs| *runs > 0).map_or(0, |at| at + 1);
        Alone { ln, spread: self.spreads[finest], runs }
    }

    /// What is wrong with it; None: nothing.
    pub fn check(&self) -> Option<&'static str> {
        let ordered = self.shapes.is_sorted_by_key(|(key, _)| *key)
            && self.sized.is_sorted_by_key(|(key, _)| *key)
            && self.texts.is_sorted_by_key(|(key, _)| *key);
        let mut cells = self.shapes.iter().map(|(_, cell)| cell);
        let mut sized = self.sized.iter().map(|(_, cell)| cell);
        let mut texts = self.texts.iter().map(|(_, cell)| cell);
        let finite = |cell: &Cell| cell.mean.is_finite();
        if !ordered {
            Some("the tables of isolated runs are out of order")
        } else if !(cells.all(finite) && sized.all(finite) && texts.all(finite)) {
            Some("a mean of isolated runs is no number")
        } else if !self.spreads.iter().all(|spread| spread.is_finite() && *spread >= 0.0) {
            Some("a spread of isolated runs is no number")
        } else {
            self.trees.check(TREE_INPUTS)
        }
    }
}

/// What the trees read.
pub fn tree_inputs(features: &Features, size: Units) -> [f32; TREE_INPUTS] {
    let mut row = [0.0; TREE_INPUTS];
    row[..FEATURES].copy_from_slice(features);
    row[FEATURES] = (math::ln(f64::from(size.0.max(1))) / std::f64::consts::LN_2) as f32;
    row
}

fn find<K: Ord>(table: &[(K, Cell)], key: &K) -> Cell {
    table.binary_search_by(|(known, _)| known.cmp(key)).map_or(Cell::default(), |at| table[at].1)
}

/// How far a cell moves the estimate towards its mean.
fn share(cell: Cell, prior: f64) -> f64 {
    f64::from(cell.runs) / (f64::from(cell.runs) + prior)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage() -> Stage {
        Stage {
            trees: Trees { start: math::ln(80.0), ..Trees::default() },
            shapes: vec![(Fingerprint(1), Cell { runs: 4, mean: 0.9 })],
            sized: vec![((Units(8), Fingerprint(1)), Cell { runs: 3, mean: 4.0 })],
            texts: vec![((Units(8), 10), Cell { runs: 1, mean: 1.0 })],
            spreads: [1.0, 0.6, 0.4, 0.3],
        }
    }

    fn alone(shape: u64, text: u64, size: u32) -> Alone {
        stage().alone(&[0.0; FEATURES], Fingerprint(shape), text, Units(size))
    }

    #[test]
    fn what_was_never_seen_scales_with_the_size() {
        let (two, eight) = (alone(9, 9, 2), alone(9, 9, 8));
        assert!((two.ln - math::ln(40.0)).abs() < 1e-12 && (eight.ln - math::ln(10.0)).abs() < 1e-12);
        assert_eq!((two.spread, two.runs), (1.0, [0, 0, 0]));
    }

    #[test]
    fn each_finer_step_counts_as_far_as_it_has_runs() {
        let elsewhere = alone(1, 10, 2);
        let shape = math::ln(40.0) + 4.0 / 4.5 * 0.9;
        assert!((elsewhere.ln - shape).abs() < 1e-12);
        assert_eq!((elsewhere.spread, elsewhere.runs), (0.6, [4, 0, 0]));
        let here = alone(1, 11, 8);
        let from = math::ln(10.0) + 4.0 / 4.5 * 0.9;
        let sized = from + 0.75 * (4.0 - from);
        assert!((here.ln - sized).abs() < 1e-12);
        assert_eq!((here.spread, here.runs), (0.4, [4, 3, 0]));
        let exact = alone(1, 10, 8);
        assert!((exact.ln - (sized + 0.5 * (1.0 - sized))).abs() < 1e-12);
        assert_eq!((exact.spread, exact.runs), (0.3, [4, 3, 1]));
    }

    #[test]
    fn a_size_of_zero_counts_as_one_and_disorder_is_refused() {
        assert_eq!(alone(9, 9, 0).ln, alone(9, 9, 1).ln);
        assert_eq!(stage().check(), None);
        let mut stage = stage();
        stage.shapes.push((Fingerprint(0), Cell::default()));
        assert!(stage.check().is_some());
    }
}
