//! Policies held against each other, scenario by scenario, with what chance leaves open.
//!
//! In a scenario every policy meets the same arrivals and the same luck of the world, for each seed. Relative changes are of
//! the means over seeds; their mean over the scenarios is the paper's figure. A baseline without violations counts as one
//! query of all, or the change would be infinite.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use punctual_core::route::Counting;
use punctual_sim::world::warehouse::Table;
use serde::Serialize;

use super::lessons::Lessons;
use super::run::{Outcome, run};
use super::settings::{Scenario, Study};
use super::workers;
use crate::figure::Figure;

/// A policy in a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Arrivals a second.
    pub lambda: f64,
    /// SLO over ℓ_baseline.
    pub kappa: f64,
    /// The sizes to begin with.
    pub clusters: Vec<u32>,
    /// The policy.
    pub policy: String,
    /// The share of queries that missed their SLO, in the mean over seeds.
    pub violation_rate: f64,
    /// Half the width of its 95 % interval; None with one seed.
    pub violation_rate_ci95: Option<f64>,
    /// Dollars, in the mean over seeds.
    pub cost: f64,
    /// Half the width of its 95 % interval.
    pub cost_ci95: Option<f64>,
    /// The share of the queries that ran on each of the clusters to begin with, in the mean over seeds.
    pub shares: Vec<f64>,
    /// What was started, for each seed.
    pub started: Vec<Vec<u32>>,
}

/// How a policy differs from the first one, in the mean over the scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Of the violation rate, as a fraction: −0.5 is half as many.
    pub violation_rate: f64,
    /// Half the width of its 95 % interval, over seeds.
    pub violation_rate_ci95: Option<f64>,
    /// Of the cost, as a fraction.
    pub cost: f64,
    /// Half the width of its 95 % interval.
    pub cost_ci95: Option<f64>,
    /// What the paper says of the violation rate.
    pub published_violation_rate: Option<f64>,
    /// What the paper says of the cost.
    pub published_cost: Option<f64>,
}

/// A table of the paper again.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Which.
    pub study: &'static str,
    /// Every policy in every scenario.
    pub rows: Vec<Row>,
    /// By policy, the first one excepted.
    pub mean: std::collections::BTreeMap<String, Change>,
    /// How many times each was run.
    pub seeds: u64,
    /// Queries that the predictor learnt from.
    pub learnt_from: usize,
}

/// Runs a table on all cores. `tell` hears of each run that is done, of how many; None if `stop` was set.
pub fn compare(
    study: Study,
    lessons: &Lessons,
    table: &Arc<Table>,
    (seeds, counting): (u64, Counting),
    stop: &AtomicBool,
    tell: &(dyn Fn(usize, usize) + Sync),
) -> Option<Comparison> {
    let (scenarios, policies) = (study.scenarios(), study.policies());
    let jobs: Vec<(Scenario, &str, u64)> = scenarios
        .iter()
        .flat_map(|scenario| policies.iter().map(move |policy| (*scenario, *policy)))
        .flat_map(|(scenario, policy)| (0..seeds).map(move |seed| (scenario, policy, seed)))
        .collect();
    let outcomes = workers::all(jobs.len(), stop, tell, |at| {
        let (scenario, policy, seed) = jobs[at];
        let setting = study.setting(policy, scenario, counting, (lessons, table, seed));
        Outcome { ended: Vec::new(), ..run(&setting) }
    })?;
    Some(summary(study, &outcomes, seeds, lessons.queries))
}

/// The table of outcomes, which are in the order of scenarios, policies, seeds.
fn summary(study: Study, outcomes: &[Outcome], seeds: u64, learnt_from: usize) -> Comparison {
    let (scenarios, policies, each) = (study.scenarios(), study.policies(), seeds as usize);
    let of = |scenario: usize, policy: usize| {
        let from = (scenario * policies.len() + policy) * each;
        &outcomes[from..from + each]
    };
    let mut rows = Vec::new();
    for (at, scenario) in scenarios.iter().enumerate() {
        for (number, policy) in policies.iter().enumerate() {
            let of = of(at, number);
            let figure = |value: fn(&Outcome) -> f64| Figure::sure(&of.iter().map(value).collect::<Vec<_>>());
            let (rate, cost) = (figure(Outcome::violation_rate), figure(|outcome| outcome.cost));
            rows.push(Row {
                lambda: scenario.lambda,
                kappa: scenario.kappa,
                clusters: scenario.clusters.to_vec(),
                policy: (*policy).to_owned(),
                violation_rate: rate.mean,
                violation_rate_ci95: rate.half(),
                cost: cost.mean,
                cost_ci95: cost.half(),
                shares: shares(of, scenario.clusters.len()),
                started: of.iter().map(|outcome| outcome.started.clone()).collect(),
            });
        }
    }
    let change = |number: usize| {
        // For each seed the mean over the scenarios, so that the interval is over seeds; the figure itself is of means.
        let by = |value: &dyn Fn(&Outcome) -> f64, least: &dyn Fn(&Outcome) -> f64| {
            let relative = |scenario: usize, seeds: std::ops::Range<usize>| {
                let mean_of = |policy: usize| mean(of(scenario, policy)[seeds.clone()].iter().map(value));
                let least = of(scenario, 0)[seeds.clone()].iter().map(least).fold(f64::INFINITY, f64::min);
                mean_of(number) / mean_of(0).max(least) - 1.0
            };
            let over = |seeds: std::ops::Range<usize>| {
                mean((0..scenarios.len()).map(|scenario| relative(scenario, seeds.clone())))
            };
            let by_seed: Vec<f64> = (0..each).map(|seed| over(seed..seed + 1)).collect();
            (over(0..each), Figure::sure(&by_seed).half())
        };
        let one = |outcome: &Outcome| 1.0 / f64::from(outcome.counted.0.max(1));
        let (violation_rate, violation_rate_ci95) = by(&Outcome::violation_rate, &one);
        let (cost, cost_ci95) = by(&|outcome| outcome.cost, &|_| f64::MIN_POSITIVE);
        let published = study.published(policies[number]);
        Change {
            violation_rate,
            violation_rate_ci95,
            cost,
            cost_ci95,
            published_violation_rate: published.map(|(rate, _)| rate),
            published_cost: published.and_then(|(_, cost)| cost),
        }
    };
    let mean = (1..policies.len()).map(|number| (policies[number].to_owned(), change(number))).collect();
    Comparison { study: study.name(), rows, mean, seeds, learnt_from }
}

/// Which share ran on each of the first clusters, in the mean.
fn shares(of: &[Outcome], clusters: usize) -> Vec<f64> {
    let each: Vec<Vec<f64>> = of.iter().map(|outcome| outcome.shares(clusters)).collect();
    (0..clusters).map(|at| mean(each.iter().map(|shares| shares[at]))).collect()
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

impl Comparison {
    /// The share of the queries on the cluster that got most of them, in the mean over the scenarios.
    pub fn most_on_one(&self, policy: &str) -> f64 {
        let of: Vec<f64> = self
            .rows
            .iter()
            .filter(|row| row.policy == policy)
            .map(|row| row.shares.iter().copied().fold(0.0, f64::max))
            .collect();
        mean(of.iter().copied())
    }

    /// Why a policy that does not see what runs does so much worse here than published.
    fn herds(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = |policy| format!("{policy} {:.0} %", 100.0 * self.most_on_one(policy));
        let each = Study::Router.policies().iter().map(|policy| most(*policy)).collect::<Vec<_>>().join(", ");
        writeln!(f, "\nqueries on the cluster that got most of them, in the mean over scenarios: {each}")?;
        writeln!(
            f,
            "slo_stage weighs a query as if it were alone. It does not see what others do to it, only that a cluster which is\n\
             awake for them costs less than one that is not: so queries herd there, and are late."
        )
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>6} {:>3} {:<9} {:<12} {:>16} {:>18}  {:<9}  started",
            "lambda", "k", "clusters", "policy", "violations", "cost", "ran there"
        )?;
        for row in &self.rows {
            let clusters = format!("{:?}", row.clusters);
            let (late, cost) = (100.0 * row.violation_rate, row.cost);
            write!(f, "{:>6} {:>3} {clusters:<9} {:<12} {late:>7.1} %", row.lambda, row.kappa, row.policy)?;
            write!(
                f,
                "{:<8}",
                row.violation_rate_ci95.map_or_else(String::new, |half| format!(" ±{:.1}", 100.0 * half))
            )?;
            write!(f, " ${cost:>8.2}{:<8}", row.cost_ci95.map_or_else(String::new, |half| format!(" ±{half:.2}")))?;
            let shares: Vec<String> = row.shares.iter().map(|share| format!("{:.0}", 100.0 * share)).collect();
            write!(f, "  {:<9}", format!("{} %", shares.join(", ")))?;
            let started: Vec<String> = row
                .started
                .iter()
                .map(|sizes| sizes.iter().map(u32::to_string).collect::<Vec<_>>().join("+"))
                .collect();
            writeln!(f, "  {}", started.join(" | "))?;
        }
        writeln!(f, "\nin the mean, against {}:", self.rows.first().map_or("", |row| &row.policy))?;
        for (policy, change) in &self.mean {
            let percent = |value: f64| format!("{:+.1} %", 100.0 * value);
            let within = |half: Option<f64>| half.map_or_else(String::new, |half| format!(" ±{:.1}", 100.0 * half));
            let paper = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), percent);
            writeln!(
                f,
                "  {policy:<12} violations {}{} (paper {}), cost {}{} (paper {})",
                percent(change.violation_rate),
                within(change.violation_rate_ci95),
                paper(change.published_violation_rate),
                percent(change.cost),
                within(change.cost_ci95),
                paper(change.published_cost)
            )?;
        }
        if self.study == Study::Router.name() {
            self.herds(f)?;
        }
        write!(f, "{} seeds; the predictor learnt from {} queries of other runs", self.seeds, self.learnt_from)
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::id::ClusterId;

    use super::*;

    fn outcome(counted: u32, late: u32, cost: f64) -> Outcome {
        let placed = [(ClusterId(0), 60), (ClusterId(1), 40)].into();
        Outcome { counted: (counted, late), cost, placed, ..Outcome::default() }
    }

    #[test]
    fn changes_are_of_means_and_no_violation_counts_as_one_query() {
        let (scenarios, policies) = (Study::Router.scenarios().len(), Study::Router.policies().len());
        let mut outcomes = Vec::new();
        for scenario in 0..scenarios {
            // Round robin: none late in the first scenario, else 40 of 100 and 20 of 100; $2.
            let base = if scenario == 0 { [0, 0] } else { [40, 20] };
            outcomes.extend(base.map(|late| outcome(100, late, 2.0)));
            for _ in 1..policies {
                outcomes.extend([outcome(100, 10, 1.0), outcome(100, 20, 2.0)]);
            }
        }
        let found = summary(Study::Router, &outcomes, 2, 7);
        let slo = found.mean["slo"];
        // 15 for one in the first, and 15 for 30 in the other seven.
        assert!((slo.violation_rate - (14.0 - 7.0 * 0.5) / 8.0).abs() < 1e-12, "{slo:?}");
        assert!((slo.cost + 0.25).abs() < 1e-12);
        assert_eq!(slo.published_violation_rate, Some(-0.478));
        assert_eq!(found.rows.len(), 24);
        assert!((found.rows[3].violation_rate - 0.3).abs() < 1e-12);
        assert!((found.rows[3].violation_rate_ci95.unwrap() - 12.706 * 0.1).abs() < 1e-9);
        let shown = found.to_string();
        assert!(
            shown.contains("got most of them, in the mean over scenarios: round_robin 60 %, slo_stage 60 %"),
            "{shown}"
        );
        assert!(shown.contains("slo_stage") && shown.contains("paper -47.8 %"), "{shown}");
    }
}
