//! What a policy would have changed: a history as it was, and the same queries under the policy.
//!
//! ```text
//!   recorded ───────── as it was, in the simulation ───────── with the policy, in the simulation
//!            how far the                          what the policy
//!            world is to be believed              would have changed
//! ```
//!
//! A simulation is not what was measured, so the policy is held to a simulation of what was done: each query on the cluster
//! that it ran on, from when it began there, in the same world and with the same luck. What was measured stands beside it. What
//! was paid is in no history: it is estimated from when clusters had something to do, at the price of the others.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use punctual_core::billing::Price;
use punctual_core::cluster::Spec;
use punctual_core::id::{ClusterId, QueryId, Units};
use punctual_core::query::{Ended, Status, violated};
use punctual_core::scale::{Act, Scaled};
use punctual_core::time::{Span, Time};
use punctual_sim::rehearsal::Rehearsed;
use punctual_sim::workload::Arrival;
use punctual_sim::world::compute::{Compute, Make};
use serde::Serialize;

use crate::catalog::stamp::timestamp;
use crate::figure::Figure;

/// Queries that are told one by one.
const TOLD: usize = 1_000;

/// Actions that are told.
const ACTIONS: usize = 200;

/// The name of clusters that a history does not name.
pub(super) const UNNAMED: &str = "recorded";

/// What was done with a query. Times count from the first arrival.
#[derive(Clone, Debug)]
pub(super) struct Was {
    /// Its number in the history.
    pub(super) id: Option<QueryId>,
    /// The name of the cluster that it ran on, or [`UNNAMED`].
    pub(super) cluster: Arc<str>,
    pub(super) units: Units,
    pub(super) started: Time,
    pub(super) ended: Time,
    /// By the SLOs of the simulation.
    pub(super) late: Option<bool>,
}

/// Where and when a query ran, by the clock of the history.
pub(super) struct Ran {
    pub(super) cluster: Arc<str>,
    pub(super) units: Units,
    pub(super) started: Time,
    pub(super) ended: Time,
}

/// All that was done, in the order of arrivals.
pub(super) struct Record {
    /// When the first query came, by the clock of the history.
    pub(super) first: Time,
    pub(super) was: Vec<Was>,
    /// What a cluster costs.
    pub(super) price: Price,
    /// The names of the clusters that the simulation begins with, by their numbers.
    pub(super) fleet: Vec<String>,
}

/// What one policy would have changed, with one seed.
#[derive(Clone, Debug)]
pub(super) struct Change {
    recorded: Account,
    as_it_was: Account,
    moved: Moved,
    actions: Vec<Action>,
}

/// What something came to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Account {
    /// The share of late queries among those with an SLO; None if there are none.
    pub(super) violation_rate: Option<f64>,
    /// Dollars.
    pub(super) cost: f64,
}

/// Queries that would have run elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Moved {
    pub(super) queries: usize,
    pub(super) of: usize,
    /// Of all queries, those that are late as it was and not with the policy, and the other way round; both simulated.
    pub(super) saved: usize,
    pub(super) spoilt: usize,
    /// From where to where, the most frequent first.
    pub(super) ways: Vec<Way>,
    /// The first ones.
    pub(super) first: Vec<Elsewhere>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Way {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) queries: usize,
    /// Late ones of them: as it was, and with the policy; both simulated.
    pub(super) late: [usize; 2],
}

/// A query that would have run elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Elsewhere {
    pub(super) at: String,
    pub(super) query_id: Option<u64>,
    pub(super) from: String,
    pub(super) to: String,
    /// As it was recorded.
    pub(super) recorded_s: f64,
    /// Simulated: as it was, and with the policy.
    pub(super) simulated_s: [f64; 2],
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Action {
    pub(super) at: String,
    pub(super) what: String,
    pub(super) because: String,
}

/// The whole, over seeds. What would have run elsewhere and what would have been started is that of the first seed.
#[derive(Serialize)]
pub(super) struct Shadow {
    /// As measured; dollars are estimated.
    pub(super) recorded: Account,
    /// As it was, in the simulation.
    pub(super) as_it_was: AsItWas,
    pub(super) moved: Moved,
    pub(super) actions: Vec<Action>,
}

#[derive(Serialize)]
pub(super) struct AsItWas {
    pub(super) violation_rate: Option<Figure>,
    pub(super) cost: Figure,
}

impl Shadow {
    /// None if there is no run.
    pub(super) fn of(changes: &[&Change]) -> Option<Shadow> {
        let first = (*changes.first()?).clone();
        let rates: Vec<f64> = changes.iter().filter_map(|change| change.as_it_was.violation_rate).collect();
        let costs: Vec<f64> = changes.iter().map(|change| change.as_it_was.cost).collect();
        let as_it_was = AsItWas { violation_rate: Figure::of(&rates), cost: Figure::sure(&costs) };
        Some(Shadow { recorded: first.recorded, as_it_was, moved: first.moved, actions: first.actions })
    }
}

impl Record {
    /// What these arrivals came to under a policy, beside what was done with them.
    pub(super) fn change(&self, arrivals: &[Arrival], rehearsed: &Rehearsed) -> Change {
        let ends = self.again(arrivals);
        let late = |(arrival, end): (&Arrival, &Time)| {
            violated(Status::Finished, end.since(arrival.at), arrival.ask.slo) == Some(true)
        };
        let late: Vec<bool> = arrivals.iter().zip(&ends).map(late).collect();
        let counted = arrivals.iter().filter(|arrival| arrival.ask.slo.is_some()).count();
        let as_it_was = Account {
            violation_rate: share(late.iter().filter(|late| **late).count(), counted),
            cost: self.cost(ends.iter().copied()),
        };
        let missed = self.was.iter().filter(|was| was.late == Some(true)).count();
        let counted = self.was.iter().filter(|was| was.late.is_some()).count();
        let recorded =
            Account { violation_rate: share(missed, counted), cost: self.cost(self.was.iter().map(|was| was.ended)) };
        let moved = self.moved(&ends, &late, arrivals, rehearsed);
        Change { recorded, as_it_was, moved, actions: self.actions(rehearsed) }
    }

    /// When queries end that run where they ran, from when they began there, in the world of the simulation.
    fn again(&self, arrivals: &[Arrival]) -> Vec<Time> {
        let mut clusters: BTreeMap<(&str, Units), Vec<usize>> = BTreeMap::new();
        for (at, was) in self.was.iter().enumerate().take(arrivals.len()) {
            clusters.entry((&was.cluster, was.units)).or_default().push(at);
        }
        // What never ends, ends at the end of time.
        let end_of_time = Time::from_micros(u64::MAX);
        let mut ends = vec![end_of_time; arrivals.len()];
        for ((_, units), mut queries) in clusters {
            queries.sort_by_key(|at| self.was[*at].started);
            let mut cluster = Make::Sharing.cluster(units);
            let mut until = |cluster: &mut Compute, limit: Time| {
                while let Some(now) = cluster.next().filter(|next| *next <= limit) {
                    for query in cluster.finished(now) {
                        ends[query.0 as usize] = now;
                    }
                }
            };
            for at in queries {
                let started = self.was[at].started;
                until(&mut cluster, started);
                cluster.arrive(started, QueryId(at as u64), arrivals[at].ask.work_on(units), None);
            }
            until(&mut cluster, Time::from_micros(u64::MAX - 1));
        }
        ends
    }

    /// Dollars for clusters that are awake while queries run there, which end then.
    fn cost(&self, ends: impl Iterator<Item = Time>) -> f64 {
        let mut busy: BTreeMap<(&str, Units), Vec<(Time, Time)>> = BTreeMap::new();
        for (was, end) in self.was.iter().zip(ends) {
            busy.entry((&was.cluster, was.units)).or_default().push((was.started, end));
        }
        let each = |((_, units), of): (&(&str, Units), &mut Vec<(Time, Time)>)| {
            self.price.cost(*units, awake(of, self.price.minimum))
        };
        busy.iter_mut().map(each).sum()
    }

    fn moved(&self, ends: &[Time], late: &[bool], arrivals: &[Arrival], rehearsed: &Rehearsed) -> Moved {
        let mut moved =
            Moved { queries: 0, of: arrivals.len(), saved: 0, spoilt: 0, ways: Vec::new(), first: Vec::new() };
        let by_number: HashMap<QueryId, &Ended> = rehearsed.ended.iter().map(|ended| (ended.query.id, ended)).collect();
        let mut ways: BTreeMap<(String, String), (usize, [usize; 2])> = BTreeMap::new();
        for (at, (was, arrival)) in self.was.iter().zip(arrivals).enumerate() {
            // Queries are numbered as they come.
            let Some(ended) = by_number.get(&QueryId::of(0, at as u64 + 1)) else { continue };
            let with = ended.violated == Some(true);
            moved.saved += usize::from(late[at] && !with);
            moved.spoilt += usize::from(!late[at] && with);
            let to = match ended.cluster {
                Some((cluster, units)) => match self.fleet.get(cluster.0 as usize) {
                    Some(name) => name.clone(),
                    None => format!("a new one of size {}", units.0),
                },
                None => "nowhere".to_owned(),
            };
            if *to == *was.cluster {
                continue;
            }
            moved.queries += 1;
            let way = ways.entry((was.cluster.to_string(), to.clone())).or_default();
            way.0 += 1;
            way.1 = [way.1[0] + usize::from(late[at]), way.1[1] + usize::from(with)];
            if moved.first.len() < TOLD {
                moved.first.push(Elsewhere {
                    at: self.stamp(arrival.at),
                    query_id: was.id.map(|id| id.0),
                    from: was.cluster.to_string(),
                    to,
                    recorded_s: was.ended.since(arrival.at).secs_f64(),
                    simulated_s: [ends[at].since(arrival.at).secs_f64(), ended.latency().secs_f64()],
                });
            }
        }
        let way =
            |((from, to), (queries, late)): ((String, String), (usize, [usize; 2]))| Way { from, to, queries, late };
        moved.ways = ways.into_iter().map(way).collect();
        moved.ways.sort_by_key(|way| std::cmp::Reverse(way.queries));
        moved
    }

    fn actions(&self, rehearsed: &Rehearsed) -> Vec<Action> {
        let action = |scaled: &Scaled| {
            let what = match scaled.act {
                Act::Study(_) | Act::Nothing => return None,
                Act::Start(Units(size), Some(id)) => {
                    format!("start {} of size {size}", self.name(id, rehearsed))
                }
                Act::Start(..) => scaled.act.to_string(),
                Act::Stop(id) => format!("stop {}", self.name(id, rehearsed)),
            };
            Some(Action { at: self.stamp(scaled.at), what, because: scaled.because.to_string() })
        };
        rehearsed.scaled.iter().filter_map(action).take(ACTIONS).collect()
    }

    /// A cluster's name: as recorded, or as it was given when it was started.
    fn name(&self, id: ClusterId, rehearsed: &Rehearsed) -> String {
        let given = || rehearsed.lives.iter().find(|life| life.cluster == id).map(|life| life.name.clone());
        self.fleet.get(id.0 as usize).cloned().or_else(given).unwrap_or_else(|| id.to_string())
    }

    /// When that was, by the clock of the history, to the second.
    fn stamp(&self, at: Time) -> String {
        timestamp(self.first + at.since(Time::ZERO)).chars().take(19).collect()
    }
}

fn share(part: usize, of: usize) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

/// How long all that is covered by these lasts, if whatever begins is billed for `minimum` at least.
fn awake(busy: &mut [(Time, Time)], minimum: Span) -> Span {
    busy.sort_unstable();
    let (mut sum, mut until) = (Span::ZERO, Time::ZERO);
    for (from, to) in busy {
        let to = if *from > until || sum == Span::ZERO { (*from + minimum).max(*to) } else { *to };
        let from = (*from).max(until);
        if to > from {
            sum += to.since(from);
            until = to;
        }
    }
    sum
}

/// The clusters that a history speaks of, in the order of their names; each with room for as many queries as ever ran there at
/// once, and at least as many as one of its size has that nobody configured.
pub(super) fn fleet(ran: &[Ran], price: Price) -> Vec<Spec> {
    let mut clusters: BTreeMap<(&str, Units), Vec<(Time, i32)>> = BTreeMap::new();
    for Ran { cluster, units, started, ended } in ran {
        clusters.entry((cluster, *units)).or_default().extend([(*started, 1), (*ended, -1)]);
    }
    let spec = |((name, units), mut changes): ((&str, Units), Vec<(Time, i32)>)| {
        changes.sort_unstable();
        let at_once = changes.iter().scan(0, |running, (_, change)| {
            *running += change;
            Some(*running)
        });
        let most = at_once.max().unwrap_or(0).unsigned_abs();
        let plain = super::load::cluster(name, units, price);
        Spec { slots: plain.slots.max(most), offer: Some(plain.name.clone()), ..plain }
    };
    clusters.into_iter().map(spec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_cluster_is_paid_while_something_runs_and_for_the_minimum_at_least() {
        let minimum = Span::from_secs(60);
        let secs = |busy: &[(u64, u64)]| {
            awake(&mut busy.iter().map(|(from, to)| (at(*from), at(*to))).collect::<Vec<_>>(), minimum).secs_f64()
        };
        assert_eq!((secs(&[]), secs(&[(0, 5)]), secs(&[(100, 300)])), (0.0, 60.0, 200.0));
        assert_eq!(secs(&[(0, 5), (10, 70)]), 70.0, "it is still awake");
        assert_eq!(secs(&[(0, 5), (61, 62)]), 120.0);
        assert_eq!(secs(&[(0, 500), (10, 20), (400, 600)]), 600.0);
    }

    #[test]
    fn clusters_have_room_for_what_ran_there() {
        let ran = |from, to| Ran { cluster: "a".into(), units: Units(1), started: at(from), ended: at(to) };
        let fleet = fleet(&[ran(0, 10), ran(1, 9), ran(2, 3), ran(3, 4), ran(3, 7), ran(3, 8)], Price::default());
        assert_eq!((fleet.len(), fleet[0].slots, fleet[0].name.as_str()), (1, 5, "a"));
    }
}
