//! A day in the warehouse under a policy: what came of it.

use std::sync::Arc;

use punctual_core::billing::Price;
use punctual_core::cluster::Spec;
use punctual_core::id::Units;
use punctual_core::policy::Policy;
use punctual_core::route::Routing;
use punctual_core::scale::{Act, Selector, Trigger};
use punctual_core::time::{Span, Time};
use punctual_sim::rehearsal::{Rehearsal, Rehearsed, Troubles};
use punctual_sim::workload::Arrival;
use punctual_sim::world::compute::Make;
use punctual_tuner::configuration::{Configuration, Performance, Spinup};
use serde::Serialize;

use super::Ground;
use crate::experiment::run::offer;

/// Who runs the day.
#[derive(Clone, Debug, PartialEq)]
pub enum Who {
    /// One cluster of 64.
    Single64,
    /// Two clusters of 32, in turn.
    RoundRobin,
    /// Capacity follows queueing, in the manner of RAIS: 32 more units whenever so many queries run or wait, up to 128; billed as
    /// 128 whenever it is awake.
    Queueing(&'static str, u32),
    /// Ours, with this to begin with.
    Ours(Configuration, Ablation),
}

/// What ours does without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ablation {
    /// Nothing.
    Whole,
    /// Triggers: what is not planned is not started.
    Autoscaler,
    /// Neighbours: routing looks at a query as if it were alone.
    Concurrency,
}

/// The rivals. RAIS has a slider, whose thresholds are not published; these two are fixed once: 32 units more from 16 queries on, and
/// from 8 on.
pub const RIVALS: [Who; 4] =
    [Who::Single64, Who::RoundRobin, Who::Queueing("queueing-balanced", 16), Who::Queueing("queueing-fast", 8)];

/// The largest capacity of a cluster that follows queueing, and what it grows by.
const QUEUEING: (u32, u32) = (128, 32);

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lived {
    /// The share of queries that missed their SLO.
    pub violation_rate: f64,
    /// Dollars.
    pub cost: f64,
    /// What the clusters that there were came to, where that is not what is billed.
    pub cost_as_used: Option<f64>,
    /// Sizes that were started by triggers.
    pub started: Vec<u32>,
}

impl Lived {
    /// As the tuner compares.
    pub fn performance(&self) -> Performance {
        Performance { violation_rate: self.violation_rate, cost: self.cost }
    }
}

impl Who {
    /// The name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Who::Single64 => "single-64",
            Who::RoundRobin => "round-robin-32-32",
            Who::Queueing(name, _) => name,
            Who::Ours(_, Ablation::Whole) => "punctual",
            Who::Ours(_, Ablation::Autoscaler) => "without-autoscaler",
            Who::Ours(_, Ablation::Concurrency) => "without-concurrency",
        }
    }
}

/// Runs the day. None if it was stopped.
pub fn live(ground: &Ground<'_>, who: &Who, arrivals: &[Arrival], seed: u64, go: &dyn Fn() -> bool) -> Option<Lived> {
    let (policy, fleet, spinups) = setting(ground, who);
    let (model, table) = (Some(Arc::clone(&ground.lessons.model)), Arc::clone(ground.table));
    let (make, troubles) = (Make::Warehouse { table, seed }, Troubles::default());
    let rehearsal = Rehearsal { seed, policy, fleet, model, make, clients: None, troubles };
    let rehearsed = rehearsal.run_with(&spinups, arrivals, &mut |_| go())?;
    Some(lived(&rehearsed, matches!(who, Who::Queueing(..))))
}

/// The policy, what is there from the start, and what is started when.
fn setting(ground: &Ground<'_>, who: &Who) -> (Policy, Vec<Spec>, Vec<Spinup>) {
    let all = |sizes: &[u32]| sizes.iter().map(|size| offer(*size)).collect::<Vec<Spec>>();
    let plain = |routing| ground.policy(routing, Trigger::None);
    match who {
        Who::Single64 => (plain(Routing::LeastOutstanding), all(&[64]), Vec::new()),
        Who::RoundRobin => (plain(Routing::RoundRobin), all(&[32, 32]), Vec::new()),
        Who::Queueing(_, depth) => {
            let mut policy = ground.policy(Routing::LeastOutstanding, Trigger::QueueDepth);
            let (most, by) = QUEUEING;
            let scaling = &mut policy.scaling;
            (scaling.selector, scaling.offers, scaling.queue_depth) = (Selector::Horizontal, all(&[by]), *depth);
            (scaling.most, scaling.idle) = (most / by, Span::from_secs(600));
            (policy, all(&[by]), Vec::new())
        }
        Who::Ours(configuration, ablation) => {
            let routing = match ablation {
                Ablation::Concurrency => Routing::named("slo_stage").unwrap_or(Routing::Slo),
                _ => Routing::Slo,
            };
            let trigger = match ablation {
                Ablation::Autoscaler => Trigger::None,
                _ => Trigger::Combined,
            };
            let policy = configuration.knobs.turned(&ground.policy(routing, trigger));
            let fleet: Vec<u32> = configuration.fleet.iter().map(|Units(size)| *size).collect();
            (policy, all(&fleet), configuration.spinups.clone())
        }
    }
}

fn lived(rehearsed: &Rehearsed, billed_whole: bool) -> Lived {
    let violation_rate = rehearsed.outcome.total().tally.violation_rate().unwrap_or(0.0);
    let used = rehearsed.outcome.cost;
    let (cost, cost_as_used) = match billed_whole {
        true => (whole(rehearsed.ended.iter().map(|ended| (ended.arrived, ended.ended)).collect()), Some(used)),
        false => (used, None),
    };
    let triggered = rehearsed.scaled.iter().filter_map(|scaled| match scaled.act {
        Act::Start(Units(size), Some(_)) => Some(size),
        _ => None,
    });
    Lived { violation_rate, cost, cost_as_used, started: triggered.collect() }
}

/// What the largest capacity comes to while anything runs, each time for the least that is billed.
fn whole(mut spans: Vec<(Time, Time)>) -> f64 {
    spans.sort_unstable();
    let price = Price::default();
    let (mut awake, mut open) = (Span::ZERO, None::<(Time, Time)>);
    for (from, to) in spans {
        let to = to.max(from + price.minimum);
        open = match open {
            Some((began, until)) if from <= until => Some((began, until.max(to))),
            Some((began, until)) => {
                awake += until.since(began);
                Some((from, to))
            }
            None => Some((from, to)),
        };
    }
    let last = open.map_or(Span::ZERO, |(began, until)| until.since(began));
    price.cost(Units(QUEUEING.0), awake + last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_billed_as_a_whole_is_the_time_in_which_anything_runs() {
        let at = |second: u64| Time::ZERO + Span::from_secs(second);
        // 0–100 and 50–130 overlap; the third is billed for a minute at least: 130 + 60 s of 128 units at $0.375 an hour.
        let spans = [(0, 100), (50, 130), (500, 510)].map(|(from, to)| (at(from), at(to)));
        let cost = whole(spans.into());
        assert!((cost - 128.0 * 0.375 * 190.0 / 3_600.0).abs() < 1e-9, "{cost}");
        assert_eq!(whole(Vec::new()), 0.0);
    }
}
