//! What a day can be started with: clusters, starts at set times, and the knobs of scaling and routing.
//!
//! Everything else of a policy stays as it is. [`Performance`] is what a configuration comes to on several workloads, and
//! [`best`] which of several is to be preferred: the one that exceeds the target least, and of those the cheapest
//! (AutoSLO, section 2, BestWithTarget).

use punctual_core::id::Units;
use punctual_core::math;
pub use punctual_core::plan::{Knobs, Spinup};
use punctual_core::time::Span;
use serde::{Deserialize, Serialize};

/// What a day is started with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// Sizes of the clusters that are there from the start, smallest first.
    pub fleet: Vec<Units>,
    /// Clusters that are started later, in the order of time.
    pub spinups: Vec<Spinup>,
    /// The knobs.
    pub knobs: Knobs,
}

impl Configuration {
    /// Clusters that it has in all.
    pub fn clusters(&self) -> usize {
        self.fleet.len() + self.spinups.len()
    }

    /// With one start more; what is started at the beginning is there from the beginning.
    pub fn with(&self, spinup: Spinup) -> Configuration {
        let mut with = self.clone();
        if spinup.at == Span::ZERO {
            with.fleet.push(spinup.size);
            with.fleet.sort_unstable();
        } else {
            with.spinups.push(spinup);
            with.spinups.sort_unstable();
        }
        with
    }
}

/// What a configuration comes to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Performance {
    /// The share of queries with an SLO that missed it.
    pub violation_rate: f64,
    /// Dollars.
    pub cost: f64,
}

/// How workloads are taken together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Aggregate {
    /// The mean.
    #[default]
    Mean,
    /// What one workload of twenty exceeds, of violations and of cost.
    P95,
}

impl Aggregate {
    /// What all of them come to. No workload: nothing late, at no cost.
    pub fn of(self, workloads: impl Iterator<Item = Performance>) -> Performance {
        let (mut rates, mut costs): (Vec<f64>, Vec<f64>) = workloads.map(|one| (one.violation_rate, one.cost)).unzip();
        let take = |values: &mut Vec<f64>| match self {
            Aggregate::Mean => values.iter().sum::<f64>() / values.len().max(1) as f64,
            Aggregate::P95 => {
                values.sort_by(f64::total_cmp);
                math::nearest_ranks(values, [0.95]).map_or(0.0, |[value]| value)
            }
        };
        Performance { violation_rate: take(&mut rates), cost: take(&mut costs) }
    }
}

/// Which is to be preferred: the least excess of the violation rate over `target`, then the least cost, then the first. What is no
/// number is not. None of none.
pub fn best(among: &[Performance], target: f64) -> Option<usize> {
    let sound = |one: &Performance| one.violation_rate.is_finite() && one.cost.is_finite();
    let excess = |one: &Performance| (one.violation_rate - target).max(0.0);
    let order = |a: &Performance, b: &Performance| excess(a).total_cmp(&excess(b)).then(a.cost.total_cmp(&b.cost));
    let sound = among.iter().enumerate().filter(|(_, one)| sound(one));
    sound.min_by(|(_, a), (_, b)| order(a, b)).map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn performance(violation_rate: f64, cost: f64) -> Performance {
        Performance { violation_rate, cost }
    }

    #[test]
    fn the_target_comes_first_then_cost_then_the_order() {
        let of = |among: &[(f64, f64)]| {
            let among: Vec<Performance> = among.iter().map(|(rate, cost)| performance(*rate, *cost)).collect();
            best(&among, 0.1)
        };
        assert_eq!(of(&[(0.3, 1.0), (0.2, 9.0)]), Some(1));
        assert_eq!(of(&[(0.1, 5.0), (0.0, 6.0), (0.05, 4.0)]), Some(2));
        assert_eq!(of(&[(0.05, 4.0), (0.1, 4.0)]), Some(0));
        assert_eq!((of(&[(f64::NAN, 1.0), (0.9, 1.0)]), of(&[])), (Some(1), None));
    }

    #[test]
    fn workloads_are_taken_together_by_mean_or_by_the_worst_of_twenty() {
        let all = || (1..=20).map(|number| performance(f64::from(number) / 100.0, f64::from(number)));
        assert_eq!(Aggregate::P95.of(all()), performance(0.19, 19.0));
        let mean = Aggregate::Mean.of(all());
        assert!((mean.violation_rate - 0.105).abs() < 1e-12 && (mean.cost - 10.5).abs() < 1e-12);
        assert_eq!(Aggregate::P95.of(std::iter::empty()), performance(0.0, 0.0));
    }
}
