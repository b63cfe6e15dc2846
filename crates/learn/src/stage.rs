//! From isolated runs to [`Stage`]: tables of what has run alone, and trees for what has not.

use std::collections::BTreeMap;

use forust_ml::objective::ObjectiveType;
use forust_ml::{GradientBooster, Matrix};
use punctual_core::math;
use punctual_core::predict::stage::{Alone, Cell, Stage, TREE_INPUTS, tree_inputs};
use punctual_core::predict::trees::{Node, Trees};

use crate::observation::Observation;
use crate::survival::restricted_mean;

/// The fewest isolated runs that trees are grown from; with fewer there is one leaf.
const FEWEST: usize = 20;

/// Standard deviation of ln seconds where nothing is known: a factor of four.
pub(crate) const UNKNOWN: f64 = 1.4;

/// Learns what queries take alone from those of `observations` that may be `used`; `isolated` says of each whether it
/// ran alone ([`isolated`](crate::observation::isolated), from the whole of history).
pub fn fit(observations: &[Observation], isolated: &[bool], used: impl Fn(&Observation) -> bool) -> Stage {
    let alone: Vec<&Observation> = observations
        .iter()
        .zip(isolated)
        .filter(|(seen, isolated)| **isolated && used(seen))
        .map(|(seen, _)| seen)
        .collect();
    let mut stage = Stage { trees: grow(&alone), spreads: [UNKNOWN; 4], ..Stage::default() };
    if alone.is_empty() {
        // A level at least, from runs that were not alone: too long, but of the right order.
        let mut work: Vec<f64> = observations.iter().filter(|seen| used(seen)).map(ln_work).collect();
        work.sort_by(f64::total_cmp);
        stage.trees.start = work.get(work.len() / 2).copied().unwrap_or(0.0);
        return stage;
    }
    let offset = |seen: &Observation| ln_seconds(seen) - stage.trees(&seen.features, seen.size);
    let shapes = table(&alone, |seen| seen.shape, offset);
    let sized = table(&alone, |seen| (seen.size, seen.shape), ln_seconds);
    let texts = table(&alone, |seen| (seen.size, seen.text), ln_seconds);
    stage = Stage { shapes, sized, texts, ..stage };
    stage.spreads = spreads(&stage, &alone);
    stage
}

/// The medians of runs that finished, whatever ran beside them, as a stage: of each fingerprint, and of it on each size.
/// The level for all others is the median of all.
pub(crate) fn medians(finished: &[&Observation]) -> Stage {
    let median = |values: &[(f64, bool)]| {
        let mut sorted: Vec<f64> = values.iter().map(|(value, _)| *value).collect();
        sorted.sort_by(f64::total_cmp);
        crate::accuracy::quantile(&sorted, 0.5)
    };
    let start = match finished {
        [] => 0.0,
        _ => median(&finished.iter().map(|seen| (ln_work(seen), true)).collect::<Vec<_>>()),
    };
    let mut stage = Stage { trees: Trees { start, ..Trees::default() }, spreads: [UNKNOWN; 4], ..Stage::default() };
    let over = |seen: &Observation| ln_seconds(seen) - stage.trees(&seen.features, seen.size);
    let shapes = summed_up(finished, |seen| seen.shape, over, median);
    let sized = summed_up(finished, |seen| (seen.size, seen.shape), ln_seconds, median);
    (stage.shapes, stage.sized) = (shapes, sized);
    stage
}

/// What `stage`, which learnt from `seen` if it `ran_alone`, would say had it not: a run must not vouch for itself.
pub fn estimate_without(stage: &Stage, seen: &Observation, ran_alone: bool) -> Alone {
    let trees = stage.trees(&seen.features, seen.size);
    let cells = stage.cells(seen.shape, seen.text, seen.size);
    stage.estimate(trees, if ran_alone { without(cells, trees, seen) } else { cells })
}

fn without(cells: [Cell; 3], trees: f64, seen: &Observation) -> [Cell; 3] {
    let own = ln_seconds(seen);
    let values = [own - trees, own, own];
    std::array::from_fn(|at| match cells[at] {
        Cell { runs: 0 | 1, .. } => Cell::default(),
        Cell { runs, mean } => {
            let rest = f64::from(runs - 1);
            Cell { runs: runs - 1, mean: mean + (mean - values[at]) / rest }
        }
    })
}

/// One cell for each key.
fn table<K: Ord>(
    alone: &[&Observation],
    key: impl Fn(&Observation) -> K,
    value: impl Fn(&Observation) -> f64,
) -> Vec<(K, Cell)> {
    summed_up(alone, key, value, |values| restricted_mean(values).unwrap_or_default())
}

/// One cell for each key, whose values are summed up as one.
fn summed_up<K: Ord>(
    seen: &[&Observation],
    key: impl Fn(&Observation) -> K,
    value: impl Fn(&Observation) -> f64,
    sum: impl Fn(&[(f64, bool)]) -> f64,
) -> Vec<(K, Cell)> {
    let mut values: BTreeMap<K, Vec<(f64, bool)>> = BTreeMap::new();
    for seen in seen {
        values.entry(key(seen)).or_default().push((value(seen), seen.finished));
    }
    let cell =
        |values: Vec<(f64, bool)>| Cell { runs: u32::try_from(values.len()).unwrap_or(u32::MAX), mean: sum(&values) };
    values.into_iter().map(|(key, values)| (key, cell(values))).collect()
}

/// How far runs are from what is expected of them without them, by the steps that are known.
fn spreads(stage: &Stage, alone: &[&Observation]) -> [f64; 4] {
    let mut spreads = [UNKNOWN; 4];
    for (steps, spread) in spreads.iter_mut().enumerate() {
        let residuals = alone.iter().filter(|seen| seen.finished).filter_map(|seen| {
            let trees = stage.trees(&seen.features, seen.size);
            let mut cells = without(stage.cells(seen.shape, seen.text, seen.size), trees, seen);
            cells[steps..].fill(Cell::default());
            let known = cells.iter().take(steps).all(|cell| cell.runs > 0);
            known.then(|| ln_seconds(seen) - stage.estimate(trees, cells).ln)
        });
        let (count, squares) =
            residuals.fold((0.0, 0.0), |(count, sum), residual| (count + 1.0, sum + residual * residual));
        // Few residuals say little: three at the unknown spread stand beside them.
        let whole: f64 = (squares + 3.0 * UNKNOWN * UNKNOWN) / (count + 3.0);
        *spread = whole.sqrt();
    }
    // What is known more finely is not known worse.
    for finer in 1..spreads.len() {
        spreads[finer] = spreads[finer].min(spreads[finer - 1]);
    }
    spreads
}

/// Grows trees for ln (seconds × size) of the runs that finished.
fn grow(alone: &[&Observation]) -> Trees {
    let finished: Vec<&&Observation> = alone.iter().filter(|seen| seen.finished).collect();
    let work: Vec<f64> = finished.iter().map(|seen| ln_work(seen)).collect();
    let start = work.iter().sum::<f64>() / work.len().max(1) as f64;
    if finished.len() < FEWEST {
        return Trees { start, ..Trees::default() };
    }
    let rows: Vec<[f32; TREE_INPUTS]> = finished.iter().map(|seen| tree_inputs(&seen.features, seen.size)).collect();
    let columns: Vec<f64> = (0..TREE_INPUTS).flat_map(|at| rows.iter().map(move |row| f64::from(row[at]))).collect();
    // Their settings (AutoSLO's code): 100 trees, depth 8, learning rate 0.2. Leaves need some weight here, since the
    // tables know single queries better than a leaf does.
    let mut booster = GradientBooster::default()
        .set_objective_type(ObjectiveType::SquaredLoss)
        .set_iterations(100)
        .set_max_depth(8)
        .set_max_leaves(64)
        .set_learning_rate(0.1)
        .set_min_leaf_weight(5.0)
        .set_base_score(start)
        .set_parallel(false);
    let grown = booster.fit_unweighted(&Matrix::new(&columns, rows.len(), TREE_INPUTS), &work, None);
    let trees = flattened(&booster, start);
    // The level is what is left if they do not grow.
    if grown.is_ok() && trees.check(TREE_INPUTS).is_none() { trees } else { Trees { start, ..Trees::default() } }
}

/// The booster's trees as core walks them.
fn flattened(booster: &GradientBooster, start: f64) -> Trees {
    let mut trees = Trees { start, ..Trees::default() };
    for tree in &booster.trees {
        let from = trees.nodes.len() as u32;
        trees.roots.push(from);
        trees.nodes.extend(tree.nodes.iter().map(|node| match node.is_leaf {
            true => Node::Leaf(f64::from(node.weight_value)),
            false => Node::Split {
                feature: node.split_feature as u16,
                below: node.split_value,
                then: [from + node.left_child as u32, from + node.right_child as u32],
            },
        }));
    }
    trees
}

/// ln of its latency in seconds; below a millisecond it counts as one.
pub(crate) fn ln_seconds(seen: &Observation) -> f64 {
    math::ln(seen.seconds().max(1e-3))
}

fn ln_work(seen: &Observation) -> f64 {
    ln_seconds(seen) + math::ln(f64::from(seen.size.0.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::isolated;
    use crate::observation::tests::seen;
    use punctual_core::fingerprint::Fingerprint;
    use punctual_core::id::Units;

    /// `n` queries of four shapes that take 1, 2, 3, 4 s × 8 / size, one after the other on clusters of two sizes.
    fn ladder(n: u64) -> Vec<Observation> {
        let one = |index: u64| {
            let (shape, size) = (index % 4, [4, 8][(index / 4 % 2) as usize]);
            let from = index * 100_000;
            let mut seen = seen(size, shape, from, from + (shape + 1) * 8_000 / u64::from(size));
            (seen.size, seen.features[0]) = (Units(size), shape as f32);
            seen
        };
        (0..n).map(one).collect()
    }

    fn fit(runs: &[Observation], used: impl Fn(&Observation) -> bool) -> Stage {
        super::fit(runs, &isolated(runs), used)
    }

    #[test]
    fn repeated_queries_are_known_and_others_are_told_by_their_features() {
        let stage = fit(&ladder(400), |_| true);
        assert_eq!(stage.check(), None);
        let known = &ladder(3)[2];
        let alone = stage.alone(&known.features, known.shape, known.text, known.size);
        assert!((alone.ln - math::ln(6.0)).abs() < 0.01, "{alone:?}");
        assert_eq!(alone.runs, [100, 50, 50]);
        let trees = stage.alone(&known.features, Fingerprint(99), 99, Units(8));
        assert!((trees.ln - math::ln(3.0)).abs() < 0.2, "{trees:?}");
        let smaller = stage.alone(&known.features, Fingerprint(99), 99, Units(2));
        assert!((smaller.ln - math::ln(12.0)).abs() < 0.4, "a size never seen: {smaller:?}");
        assert!(stage.spreads.is_sorted_by(|coarse, fine| coarse >= fine), "{:?}", stage.spreads);
    }

    #[test]
    fn a_run_does_not_vouch_for_itself() {
        let runs = ladder(24);
        let stage = fit(&runs, |_| true);
        let own = estimate_without(&stage, &runs[5], true);
        assert_eq!(own.runs, [5, 2, 2]);
        let mut others = runs.clone();
        others.remove(5);
        let expected = table(&others.iter().collect::<Vec<_>>(), |seen| (seen.size, seen.text), ln_seconds);
        let key = (runs[5].size, runs[5].text);
        let cell = expected.iter().find(|(found, _)| *found == key).unwrap().1;
        let left = without(stage.cells(runs[5].shape, runs[5].text, runs[5].size), 0.0, &runs[5])[2];
        assert!((left.mean - cell.mean).abs() < 1e-9 && left.runs == cell.runs);
        assert_eq!(estimate_without(&stage, &runs[5], false).runs, [6, 3, 3]);
    }

    #[test]
    fn runs_that_were_not_alone_teach_nothing_but_a_level() {
        let both = [seen(0, 1, 0, 8_000), seen(0, 2, 4_000, 12_000)];
        let stage = fit(&both, |_| true);
        assert!(stage.shapes.is_empty() && stage.texts.is_empty());
        assert!((stage.trees.start - math::ln(32.0)).abs() < 1e-9);
        assert_eq!(fit(&[], |_| true).check(), None);
    }

    #[test]
    fn a_run_that_was_cut_off_raises_what_is_expected() {
        let mut runs = vec![seen(0, 1, 0, 1_000), seen(0, 1, 5_000, 9_000)];
        runs[1].finished = false;
        let cell = |runs: &[Observation]| fit(runs, |_| true).texts[0].1;
        assert!((cell(&runs).mean - 0.5 * math::ln(4.0)).abs() < 1e-9);
        runs[0].finished = false;
        assert!((cell(&runs).mean - math::ln(4.0)).abs() < 1e-9);
    }

    #[test]
    fn what_may_not_be_used_leaves_no_trace() {
        let runs = ladder(40);
        let used = |seen: &Observation| seen.arrival.micros() < 2_000_000_000;
        let mut changed = runs.clone();
        for seen in changed.iter_mut().filter(|seen| !used(seen)) {
            seen.ended = punctual_core::time::Time::from_micros(seen.arrival.micros() + 77_000_000);
        }
        assert_eq!(fit(&runs, used), fit(&changed, used));
    }
}
