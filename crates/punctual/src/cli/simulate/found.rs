//! What came of a simulation: each figure as a mean over seeds with its 95 % interval (Student's t).
//!
//! Policies meet the same arrivals and the same luck, so the difference between two is taken seed by seed: its interval is
//! much narrower than those of the two figures.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::math;
use punctual_core::policy::Policy;
use punctual_core::query::{Ended, Status};
use punctual_core::time::Time;
use punctual_sim::rehearsal::{Foresight, Rehearsed};
use serde::Serialize;

use super::shadow::{Change, Shadow};
use super::trace::AsRecorded;
use crate::figure::Figure;

/// Decisions about the fleet that are told.
const TOLD: usize = 200;

/// The whole.
#[derive(Serialize)]
pub(super) struct Found {
    /// What came, in words.
    pub(super) workload: String,
    /// What it came to.
    pub(super) world: &'static str,
    pub(super) slo: String,
    pub(super) clusters: Vec<u32>,
    pub(super) clients: Option<usize>,
    pub(super) seeds: u64,
    /// In the mean over seeds.
    pub(super) queries: f64,
    /// What became of the queries of a history when they were recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) as_recorded: Option<AsRecorded>,
    pub(super) policies: Vec<OfPolicy>,
}

/// What came of one policy.
#[derive(Serialize)]
pub(super) struct OfPolicy {
    pub(super) policy: String,
    /// The share of queries with an SLO that missed it: late, refused, failed or lost. None if none has one.
    pub(super) violation_rate: Option<Figure>,
    /// Dollars.
    pub(super) cost: Figure,
    /// Of queries that finished; None if none did.
    pub(super) latency_s: Option<Latency>,
    /// How long queries waited to be placed: the mean, and the share that waited at all; None if none was placed.
    pub(super) wait_s: Option<Figure>,
    pub(super) waiting_share: Option<Figure>,
    pub(super) cluster_hours: Figure,
    /// Hours that starts took: paid for, and no use yet.
    pub(super) starting_hours: Figure,
    pub(super) unit_hours: Figure,
    /// Clusters that scaling started and stopped.
    pub(super) starts: Figure,
    pub(super) stops: Figure,
    /// Starts that failed, and clusters that were lost.
    pub(super) failed_starts: Figure,
    pub(super) lost_clusters: Figure,
    /// Queries by how they ended, in the mean over seeds.
    pub(super) ended: BTreeMap<&'static str, f64>,
    pub(super) classes: BTreeMap<String, OfQueries>,
    /// By the lane that they were admitted to, where there are lanes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) lanes: BTreeMap<String, OfQueries>,
    /// How what was predicted at placement turned out, in the mean over seeds.
    pub(super) predictions: Option<Predictions>,
    /// Less that of the first policy, seed by seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) against_first: Option<Against>,
    /// What it would have changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shadow: Option<Shadow>,
    /// Decisions about the fleet with the first seed, the first ones.
    pub(super) scaling: Vec<Decided>,
}

#[derive(Serialize)]
pub(super) struct OfQueries {
    pub(super) queries: f64,
    pub(super) violation_rate: Option<Figure>,
    pub(super) latency_s: Option<Latency>,
}

#[derive(Clone, Copy, Serialize)]
pub(super) struct Latency {
    pub(super) mean: Figure,
    pub(super) p50: Figure,
    pub(super) p90: Figure,
    pub(super) p95: Figure,
    pub(super) p99: Figure,
}

#[derive(Clone, Copy, Serialize)]
pub(super) struct Predictions {
    pub(super) queries: f64,
    pub(super) q_error_p50: f64,
    pub(super) q_error_p90: f64,
    pub(super) coverage_p90: f64,
    /// The median of actual over predicted.
    pub(super) bias: f64,
}

#[derive(Clone, Copy, Serialize)]
pub(super) struct Against {
    pub(super) violation_rate: Option<Figure>,
    pub(super) cost: Figure,
    /// Means over means: −0.5 is half.
    pub(super) violation_rate_relative: Option<f64>,
    pub(super) cost_relative: Option<f64>,
}

#[derive(Clone, Serialize)]
pub(super) struct Decided {
    pub(super) at_s: f64,
    pub(super) mode: &'static str,
    pub(super) act: String,
    pub(super) because: String,
}

/// What came of one run, in figures.
pub(super) struct Run {
    queries: usize,
    all: Share,
    classes: BTreeMap<String, Share>,
    lanes: BTreeMap<String, Share>,
    ended: [usize; Status::ALL.len()],
    cost: f64,
    hours: [f64; 2],
    starting_hours: f64,
    waits: Option<[f64; 2]>,
    actions: [usize; 2],
    /// Failed starts, lost clusters.
    losses: [usize; 2],
    foresight: Option<Foresight>,
    scaling: Vec<Decided>,
    change: Option<Change>,
}

/// What came of some queries of one run.
struct Share {
    queries: usize,
    violation_rate: Option<f64>,
    /// Mean, then quantiles at 50, 90, 95 and 99 %.
    latency: Option<[f64; 5]>,
}

impl Run {
    pub(super) fn of(rehearsed: &Rehearsed, policy: &Policy, change: Option<Change>) -> Run {
        let (mut by_class, mut by_lane): (ByName<'_>, ByName<'_>) = Default::default();
        let laned = policy.lanes.ids().nth(1).is_some();
        let mut ways = [0; Status::ALL.len()];
        for ended in &rehearsed.ended {
            let class = policy.classes.get(ended.query.class.0 as usize).map_or("?", |class| &class.name);
            by_class.entry(class.to_owned()).or_default().push(ended);
            if laned {
                by_lane.entry(policy.lanes.name(ended.lane).to_owned()).or_default().push(ended);
            }
            ways[ended.status as usize] += 1;
        }
        let told = rehearsed.scaled.iter().take(TOLD).map(|scaled| Decided {
            at_s: scaled.at.since(Time::ZERO).secs_f64(),
            mode: scaled.mode.name(),
            act: scaled.act.to_string(),
            because: scaled.because.to_string(),
        });
        Run {
            queries: rehearsed.ended.len(),
            all: Share::of(rehearsed.ended.iter()),
            classes: shares(by_class),
            lanes: shares(by_lane),
            ended: ways,
            cost: rehearsed.outcome.cost,
            hours: rehearsed.hours(),
            starting_hours: rehearsed.starting_hours(),
            waits: rehearsed.waits(),
            actions: rehearsed.actions(),
            losses: [rehearsed.failed_starts, rehearsed.lost],
            foresight: rehearsed.foresight,
            scaling: told.collect(),
            change,
        }
    }
}

type ByName<'a> = BTreeMap<String, Vec<&'a Ended>>;

fn shares(of: ByName<'_>) -> BTreeMap<String, Share> {
    of.into_iter().map(|(name, of)| (name, Share::of(of.into_iter()))).collect()
}

impl Share {
    fn of<'a>(ended: impl Iterator<Item = &'a Ended>) -> Share {
        let (mut queries, mut counted, mut late, mut latencies) = (0, 0u64, 0u64, Vec::new());
        for ended in ended {
            queries += 1;
            counted += u64::from(ended.violated.is_some());
            late += u64::from(ended.violated == Some(true));
            if ended.status == Status::Finished {
                latencies.push(ended.latency().secs_f64());
            }
        }
        latencies.sort_by(f64::total_cmp);
        let ranks = math::nearest_ranks(&latencies, [0.5, 0.9, 0.95, 0.99]);
        let latency = ranks.map(|[p50, p90, p95, p99]| {
            let mean = latencies.iter().sum::<f64>() / latencies.len() as f64;
            [mean, p50, p90, p95, p99]
        });
        Share { queries, violation_rate: (counted > 0).then(|| late as f64 / counted as f64), latency }
    }
}

/// Queries in a run, in the mean.
pub(super) fn queries(runs: &[Vec<Run>]) -> f64 {
    let all = || runs.iter().flatten();
    all().map(|run| run.queries as f64).sum::<f64>() / (all().count() as f64).max(1.0)
}

/// In the mean over seeds, for people and programs.
pub(super) fn over_seeds(names: &[String], runs: &[Vec<Run>]) -> Vec<OfPolicy> {
    let first = runs.first();
    let of = |(at, (name, runs)): (usize, (&String, &Vec<Run>))| {
        let against = first.filter(|_| at > 0).map(|first| Against::of(runs, first));
        OfPolicy::of(name.clone(), runs, against)
    };
    names.iter().zip(runs).enumerate().map(of).collect()
}

impl OfPolicy {
    fn of(policy: String, runs: &[Run], against_first: Option<Against>) -> OfPolicy {
        let each = |value: &dyn Fn(&Run) -> f64| Figure::sure(&runs.iter().map(value).collect::<Vec<_>>());
        let all: Vec<Option<&Share>> = runs.iter().map(|run| Some(&run.all)).collect();
        let waits = |at: usize| Figure::of(&runs.iter().filter_map(|run| Some(run.waits?[at])).collect::<Vec<_>>());
        let ways = Status::ALL.into_iter().map(|way| (way.name(), each(&|run| run.ended[way as usize] as f64).mean));
        OfPolicy {
            policy,
            violation_rate: rate(&all),
            cost: each(&|run| run.cost),
            latency_s: latency(&all),
            wait_s: waits(0),
            waiting_share: waits(1),
            cluster_hours: each(&|run| run.hours[0]),
            starting_hours: each(&|run| run.starting_hours),
            unit_hours: each(&|run| run.hours[1]),
            starts: each(&|run| run.actions[0] as f64),
            stops: each(&|run| run.actions[1] as f64),
            failed_starts: each(&|run| run.losses[0] as f64),
            lost_clusters: each(&|run| run.losses[1] as f64),
            ended: ways.filter(|(_, count)| *count > 0.0).collect(),
            classes: by_name(runs, |run| &run.classes),
            lanes: by_name(runs, |run| &run.lanes),
            predictions: Predictions::of(runs),
            against_first,
            shadow: Shadow::of(&runs.iter().filter_map(|run| run.change.as_ref()).collect::<Vec<_>>()),
            scaling: runs.first().map(|run| run.scaling.clone()).unwrap_or_default(),
        }
    }
}

/// What came of queries by name, over seeds.
fn by_name(runs: &[Run], of: fn(&Run) -> &BTreeMap<String, Share>) -> BTreeMap<String, OfQueries> {
    let names: BTreeSet<&String> = runs.iter().flat_map(|run| of(run).keys()).collect();
    let each = |name: &String| {
        let shares: Vec<Option<&Share>> = runs.iter().map(|run| of(run).get(name)).collect();
        let queries = shares.iter().flatten().map(|share| share.queries as f64).sum::<f64>() / runs.len() as f64;
        OfQueries { queries, violation_rate: rate(&shares), latency_s: latency(&shares) }
    };
    names.into_iter().map(|name| (name.clone(), each(name))).collect()
}

fn rate(shares: &[Option<&Share>]) -> Option<Figure> {
    Figure::of(&shares.iter().flatten().filter_map(|share| share.violation_rate).collect::<Vec<_>>())
}

fn latency(shares: &[Option<&Share>]) -> Option<Latency> {
    let known: Vec<[f64; 5]> = shares.iter().flatten().filter_map(|share| share.latency).collect();
    let at = |place: usize| Figure::of(&known.iter().map(|of| of[place]).collect::<Vec<_>>());
    Some(Latency { mean: at(0)?, p50: at(1)?, p90: at(2)?, p95: at(3)?, p99: at(4)? })
}

impl Predictions {
    fn of(runs: &[Run]) -> Option<Predictions> {
        let known: Vec<Foresight> = runs.iter().filter_map(|run| run.foresight).collect();
        let mean = |value: fn(&Foresight) -> f64| known.iter().map(value).sum::<f64>() / known.len() as f64;
        (!known.is_empty()).then(|| Predictions {
            queries: mean(|of| of.queries as f64),
            q_error_p50: mean(|of| of.q_error[0]),
            q_error_p90: mean(|of| of.q_error[1]),
            coverage_p90: mean(|of| of.coverage_p90),
            bias: mean(|of| of.bias),
        })
    }
}

impl Against {
    fn of(runs: &[Run], first: &[Run]) -> Against {
        let pairs = || runs.iter().zip(first);
        let rates: Vec<(f64, f64)> =
            pairs().filter_map(|(a, b)| Some((a.all.violation_rate?, b.all.violation_rate?))).collect();
        let costs: Vec<(f64, f64)> = pairs().map(|(a, b)| (a.cost, b.cost)).collect();
        let less = |pairs: &[(f64, f64)]| Figure::of(&pairs.iter().map(|(a, b)| a - b).collect::<Vec<_>>());
        let relative = |pairs: &[(f64, f64)], least: f64| {
            let (ours, theirs) = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
            let theirs = f64::max(theirs, least * pairs.len() as f64);
            (theirs > 0.0).then(|| ours / theirs - 1.0)
        };
        // Where the first one violates nothing, it counts as one violation.
        let one = first.first().map_or(0.0, |run| 1.0 / run.queries.max(1) as f64);
        Against {
            violation_rate: less(&rates),
            cost: less(&costs).unwrap_or(Figure { mean: 0.0, low: None, high: None }),
            violation_rate_relative: if rates.is_empty() { None } else { relative(&rates, one) },
            cost_relative: relative(&costs, 0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rate: Option<f64>, cost: f64) -> Run {
        let share = || Share { queries: 100, violation_rate: rate, latency: Some([cost; 5]) };
        let (classes, lanes) = ([("bi".to_owned(), share())].into(), BTreeMap::new());
        let (ended, hours, actions, losses) = ([100, 0, 0, 0, 0], [2.0, 32.0], [1, 0], [0, 0]);
        let (all, foresight, scaling, change) = (share(), None, Vec::new(), None);
        let (starting_hours, waits) = (0.0, None);
        Run {
            queries: 100,
            all,
            classes,
            lanes,
            ended,
            cost,
            hours,
            starting_hours,
            waits,
            actions,
            losses,
            foresight,
            scaling,
            change,
        }
    }

    #[test]
    fn policies_are_compared_seed_by_seed() {
        let names = ["a".to_owned(), "b".to_owned()];
        let runs = [vec![run(Some(0.2), 1.0), run(Some(0.4), 2.0)], vec![run(Some(0.1), 1.5), run(Some(0.3), 2.5)]];
        let found = over_seeds(&names, &runs);
        assert!(found[0].against_first.is_none());
        let against = found[1].against_first.unwrap();
        assert!((against.cost.mean - 0.5).abs() < 1e-12 && against.cost.half().unwrap() < 1e-9);
        assert!((against.violation_rate_relative.unwrap() + 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(found[1].ended, [("finished", 100.0)].into());
    }

    #[test]
    fn without_slos_and_without_violations_nothing_is_divided_by_nothing() {
        let names = ["a".to_owned(), "b".to_owned()];
        let found = over_seeds(&names, &[vec![run(None, 0.0)], vec![run(None, 0.0)]]);
        let against = found[1].against_first.unwrap();
        assert!(found[1].violation_rate.is_none() && against.violation_rate_relative.is_none());
        assert_eq!(against.cost_relative, None);
        let found = over_seeds(&names, &[vec![run(Some(0.0), 1.0)], vec![run(Some(0.02), 1.0)]]);
        assert!((found[1].against_first.unwrap().violation_rate_relative.unwrap() - 1.0).abs() < 1e-9);
    }
}
