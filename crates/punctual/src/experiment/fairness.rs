//! What fair queues are worth: one user who floods the gateway, beside ten who do not.
//!
//! ```text
//!   ten      somewhat more than an equal share each, or less ──▶ ┌─────────┐      ┌────────────────┐
//!                                                                │ gateway │ ───▶ │ one cluster of │
//!   flood    a hundred times as many as each of them ──────────▶ └─────────┘      │ 32 units       │
//!                                                                 1,000 wait      └────────────────┘
//! ```
//!
//! In the load `backlog` each of the ten wants more than its share, so that all eleven always have something waiting, and what
//! they get should be equal. In `steady` each of the ten wants less than its share, and should get all of it, soon. Service is
//! the work of what finished, by the warehouse's own figures, not by what the gateway thinks that it was.
//!
//! As many may wait as usual, so somebody is refused: whoever it is, and how often, is part of the table.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use punctual_core::admit::Order;
use punctual_core::admit::claim::Claim;
use punctual_core::class::DEFAULT;
use punctual_core::id::{SessionId, UserId};
use punctual_core::policy::Policy;
use punctual_core::query::{Ended, Status};
use punctual_core::time::{Span, Time};
use punctual_sim::workload::{Arrival, Asked, Pattern, Templates};
use punctual_sim::world::warehouse::{Table, Template};
use serde::Serialize;

use super::laning::{on_one_cluster, patient};
use super::workers;
use crate::figure::Figure;

/// What comes, and where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Load {
    /// The cluster's size.
    pub units: u32,
    /// Queries that run there at once.
    pub slots: u32,
    /// Users who do not flood.
    pub users: u64,
    /// The flood is so many times what each of them sends.
    pub flood_times: f64,
    /// Templates of at most so much work are sent, in seconds of one unit.
    pub most_work: f64,
    /// If they keep no more than so much in memory, in GB.
    pub most_memory: f64,
    /// Queries that may wait.
    pub max_waiting: u32,
    /// For so many minutes nothing counts.
    pub warm_up_min: u64,
    /// For so many minutes queries come.
    pub minutes: u64,
}

impl Default for Load {
    fn default() -> Load {
        Load {
            units: 32,
            slots: 13,
            users: 10,
            flood_times: 100.0,
            most_work: 60.0,
            most_memory: 80.0,
            max_waiting: 1_000,
            warm_up_min: 10,
            minutes: 70,
        }
    }
}

/// What each of the ten wants, of an equal share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// More.
    Backlog,
    /// Less.
    Steady,
}

impl Wants {
    /// Both.
    pub const ALL: [Wants; 2] = [Wants::Backlog, Wants::Steady];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Wants::Backlog => "backlog",
            Wants::Steady => "steady",
        }
    }

    /// Of an equal share of what the processors can do. A few percent of that are never done (while tables are read, and queries
    /// start up), so that an equal share is more than there is.
    const fn of_equal(self) -> f64 {
        match self {
            Wants::Backlog => 1.0,
            Wants::Steady => 0.8,
        }
    }
}

/// What came of a run. Shares are of an equal one: of what was done in all, through the number of users.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// What each of the ten got.
    pub shares: Vec<f64>,
    /// What the one who floods got.
    pub flood_share: f64,
    /// What all of the ten got of what they asked for.
    pub served: f64,
    /// The longest that one of the ten waited, run or refused, in seconds.
    pub waited_most: f64,
    /// The same of the flood.
    pub flood_waited_most: f64,
    /// The longest time in which something of one of the ten's waited and nothing of it was begun, in seconds.
    pub gap_most: f64,
    /// The same of the flood.
    pub flood_gap_most: f64,
    /// How many of the ten's were refused.
    pub refused: usize,
    /// How many of the flood's were.
    pub flood_refused: usize,
    /// How many the ten sent.
    pub sent: usize,
    /// How many the flood had.
    pub flood_sent: usize,
}

/// The one who floods.
const FLOOD: UserId = UserId(0);

/// Runs it.
pub fn run(order: Order, wants: Wants, load: &Load, seed: u64, table: &Arc<Table>) -> Outcome {
    let policy = Policy { order, max_waiting: load.max_waiting, ..patient() };
    let arrivals = load.arrivals(wants, seed, table);
    load.outcome(&on_one_cluster(policy, (load.units, load.slots), &arrivals, seed, table), table)
}

impl Load {
    fn from(&self) -> Time {
        Time::ZERO + Span::from_secs(60 * self.warm_up_min)
    }

    fn until(&self) -> Time {
        Time::ZERO + Span::from_secs(60 * self.minutes)
    }

    fn templates(&self, table: &Table) -> Vec<Template> {
        let small = |template: &Template| {
            let profile = table.profile(*template);
            profile.cpu <= self.most_work && profile.memory <= self.most_memory
        };
        Template::all().filter(small).collect()
    }

    /// An equal share of what the processors can do, in queries a second.
    pub fn equal(&self, table: &Table) -> f64 {
        let templates = self.templates(table);
        let work: f64 = templates.iter().map(|template| table.profile(*template).cpu).sum();
        f64::from(self.units) * templates.len() as f64 / work / (self.users + 1) as f64
    }

    /// What comes, in the order of time, each from a client of its own.
    fn arrivals(&self, wants: Wants, seed: u64, table: &Table) -> Vec<Arrival> {
        let each = wants.of_equal() * self.equal(table);
        let asked = |template| (Asked { template, class: DEFAULT, slo: None }, 1.0);
        let templates = Templates { shares: self.templates(table).into_iter().map(asked).collect() };
        let mut all = Vec::new();
        for user in (0..=self.users).map(UserId) {
            let rate = if user == FLOOD { self.flood_times * each } else { each };
            let horizon = self.until().since(Time::ZERO);
            let own = seed ^ (user.0 + 1) << 40;
            let arrivals = templates.generate(own, &Pattern::Poisson { rate }, horizon, table);
            all.extend(arrivals.map(|mut arrival| {
                arrival.ask.claim = Claim { user, ..Claim::default() };
                arrival
            }));
        }
        all.sort_by_key(|arrival| arrival.at);
        for (number, arrival) in all.iter_mut().enumerate() {
            arrival.session = SessionId::of(0, number as u64 + 1);
        }
        all
    }

    fn outcome(&self, ended: &[Ended], table: &Table) -> Outcome {
        let counts = self.from()..=self.until();
        let work = |ended: &Ended| {
            let template = u32::try_from(ended.query.fingerprint.0).ok().and_then(Template::new);
            template.map_or(0.0, |template| table.profile(template).cpu)
        };
        let mut service = vec![0.0; self.users as usize + 1];
        let (mut asked_for, mut outcome) = (0.0, Outcome::default());
        for one in ended {
            let (user, refused) = (one.query.claim.user, one.status == Status::Refused);
            if one.status == Status::Finished && counts.contains(&one.ended) {
                service[user.0 as usize] += work(one);
            }
            if !counts.contains(&one.arrived) {
                continue;
            }
            let waited = one.placed.unwrap_or(one.ended).since(one.arrived).secs_f64();
            let of_user = match user {
                FLOOD => (&mut outcome.flood_waited_most, &mut outcome.flood_refused, &mut outcome.flood_sent),
                _ => (&mut outcome.waited_most, &mut outcome.refused, &mut outcome.sent),
            };
            *of_user.0 = of_user.0.max(waited);
            *of_user.1 += usize::from(refused);
            *of_user.2 += 1;
            asked_for += if user == FLOOD { 0.0 } else { work(one) };
        }
        let equal = service.iter().sum::<f64>() / service.len() as f64;
        outcome.flood_share = service[0] / equal;
        outcome.shares = service[1..].iter().map(|service| service / equal).collect();
        outcome.served = service[1..].iter().sum::<f64>() / asked_for;
        outcome.gap_most = (1..=self.users).map(|user| self.gap(UserId(user), ended)).fold(0.0, f64::max);
        outcome.flood_gap_most = self.gap(FLOOD, ended);
        outcome
    }

    /// The longest time in which something of a user's waited and nothing of it was begun. Its queries are begun in the order in
    /// which they come.
    fn gap(&self, user: UserId, ended: &[Ended]) -> f64 {
        let counts = self.from()..=self.until();
        let of_user = ended.iter().filter(|ended| ended.query.claim.user == user);
        let mut begun: Vec<(Time, Time)> = of_user
            .filter_map(|ended| Some((ended.placed?, ended.arrived)))
            .filter(|one| counts.contains(&one.0))
            .collect();
        begun.sort_unstable();
        let gap = |pair: &[(Time, Time)]| pair[1].0.since(pair[0].0.max(pair[1].1)).secs_f64();
        begun.windows(2).map(gap).fold(0.0, f64::max)
    }
}

/// An order under a load: means over seeds with half the widths of their 95 % intervals, and extremes over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The order.
    pub policy: &'static str,
    /// The load.
    pub load: &'static str,
    /// What one of the ten got, of an equal share.
    pub share: f64,
    /// Its interval.
    pub share_ci95: Option<f64>,
    /// The least that one of the ten got with any seed.
    pub share_least: f64,
    /// The most.
    pub share_most: f64,
    /// What the flood got, of an equal share.
    pub flood_share: f64,
    /// What the ten got of what they asked for.
    pub served: f64,
    /// The longest that one of the ten's waited, in seconds.
    pub waited_most_s: f64,
    /// The longest that one of the flood's waited that was not refused at once, in seconds.
    pub flood_waited_most_s: f64,
    /// The longest time in which something of one of the ten's waited and nothing of it was begun, in seconds.
    pub gap_most_s: f64,
    /// The same of the flood: it has had more than its share while the others had nothing that waited, and pays for that.
    pub flood_gap_most_s: f64,
    /// The share of the ten's queries that was refused.
    pub refused: f64,
    /// The share of the flood's.
    pub flood_refused: f64,
}

/// The table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fairness {
    /// What comes, and where it runs.
    pub load: Load,
    /// By order and load.
    pub rows: Vec<Row>,
    /// How many times each was run.
    pub seeds: u64,
    /// What should hold, and whether it does.
    pub bounds: Vec<super::laning::report::Bound>,
}

/// Runs all with so many seeds on all cores. `tell` hears of each run that is done, of how many; None if `stop` was set.
pub fn compare(
    load: &Load,
    seeds: u64,
    table: &Arc<Table>,
    stop: &AtomicBool,
    tell: &(dyn Fn(usize, usize) + Sync),
) -> Option<Fairness> {
    let orders = [Order::Fifo, Order::Fair];
    let jobs: Vec<(Order, Wants)> =
        Wants::ALL.into_iter().flat_map(|wants| orders.map(|order| (order, wants))).collect();
    let each = seeds as usize;
    let outcomes = workers::all(jobs.len() * each, stop, tell, |at| {
        let (order, wants) = jobs[at / each];
        run(order, wants, load, (at % each) as u64, table)
    })?;
    let rows: Vec<Row> = jobs.iter().zip(outcomes.chunks(each)).map(|(job, outcomes)| row(*job, outcomes)).collect();
    let bounds = bounds(&rows);
    Some(Fairness { load: *load, rows, seeds, bounds })
}

fn row((order, wants): (Order, Wants), outcomes: &[Outcome]) -> Row {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let figure = |value: &dyn Fn(&Outcome) -> f64| Figure::sure(&outcomes.iter().map(value).collect::<Vec<_>>());
    let most = |value: &dyn Fn(&Outcome) -> f64| outcomes.iter().map(value).fold(0.0, f64::max);
    let shares = || outcomes.iter().flat_map(|outcome| &outcome.shares).copied();
    let share = figure(&|outcome| mean(&outcome.shares));
    Row {
        policy: if order == Order::Fair { "fair" } else { "fifo" },
        load: wants.name(),
        share: share.mean,
        share_ci95: share.half(),
        share_least: shares().fold(f64::INFINITY, f64::min),
        share_most: shares().fold(0.0, f64::max),
        flood_share: figure(&|outcome| outcome.flood_share).mean,
        served: figure(&|outcome| outcome.served).mean,
        waited_most_s: most(&|outcome| outcome.waited_most),
        flood_waited_most_s: most(&|outcome| outcome.flood_waited_most),
        gap_most_s: most(&|outcome| outcome.gap_most),
        flood_gap_most_s: most(&|outcome| outcome.flood_gap_most),
        refused: figure(&|outcome| outcome.refused as f64 / outcome.sent.max(1) as f64).mean,
        flood_refused: figure(&|outcome| outcome.flood_refused as f64 / outcome.flood_sent.max(1) as f64).mean,
    }
}

fn bounds(rows: &[Row]) -> Vec<super::laning::report::Bound> {
    let of = |policy: &str, load: &str| rows.iter().find(|row| (row.policy, row.load) == (policy, load));
    let bound = |what: &str, holds: Option<bool>| super::laning::report::Bound {
        what: what.to_owned(),
        holds: holds.unwrap_or(false),
    };
    let (backlog, steady) = (of("fair", "backlog"), of("fair", "steady"));
    vec![
        bound(
            "fifo, backlog: each of the ten gets less than half of an equal share, or the flood would be none",
            of("fifo", "backlog").map(|row| row.share_most < 0.5),
        ),
        bound(
            "fair, backlog: each of the ten gets an equal share, within 10 %, with every seed",
            backlog.map(|row| row.share_least >= 0.9 && row.share_most <= 1.1),
        ),
        bound("fair, backlog: none of the ten's is refused", backlog.map(|row| row.refused == 0.0)),
        bound(
            "fair, backlog: each of the ten gets a turn within two minutes",
            backlog.map(|row| row.gap_most_s < 120.0),
        ),
        bound(
            "fair, backlog: and the flood within five, after which it would be refused by default",
            backlog.map(|row| row.flood_gap_most_s < Policy::default().wait_limit.secs_f64()),
        ),
        bound(
            "fair, steady: the ten get what they ask for, within 2 %",
            steady.map(|row| (row.served - 1.0).abs() < 0.02),
        ),
        bound("fair, steady: none of the ten's is refused", steady.map(|row| row.refused == 0.0)),
        bound("fair, steady: none of the ten's waits for five minutes", steady.map(|row| row.waited_most_s < 300.0)),
    ]
}

impl fmt::Display for Fairness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Load { units, slots, users, flood_times, max_waiting, .. } = self.load;
        writeln!(
            f,
            "One cluster of {units} units, {slots} slots; {max_waiting} may wait. {users} users, and one who sends {flood_times} times as much as each of them.\n"
        )?;
        writeln!(
            f,
            "{:<8} {:<7} {:>27} {:>8} {:>8} {:>10} {:>10} {:>9} {:>9} {:>9} {:>9}",
            "load",
            "policy",
            "share of each (least–most)",
            "flood",
            "served",
            "waited, s",
            "flood, s",
            "gap, s",
            "flood, s",
            "refused",
            "flood"
        )?;
        for row in &self.rows {
            let half = row.share_ci95.map_or_else(String::new, |half| format!(" ±{half:.2}"));
            let share = format!("{:.2}{half} ({:.2}–{:.2})", row.share, row.share_least, row.share_most);
            let Row { load, policy, flood_share, waited_most_s, flood_waited_most_s, .. } = row;
            let Row { gap_most_s, flood_gap_most_s, .. } = row;
            let [served, refused, flood] = [row.served, row.refused, row.flood_refused].map(|share| 100.0 * share);
            write!(f, "{load:<8} {policy:<7} {share:>27} {flood_share:>8.2} {served:>6.1} % {waited_most_s:>10.0} ")?;
            writeln!(
                f,
                "{flood_waited_most_s:>10.0} {gap_most_s:>9.0} {flood_gap_most_s:>9.0} {refused:>7.1} % {flood:>7.1} %"
            )?;
        }
        writeln!(f)?;
        self.bounds.iter().try_for_each(|bound| writeln!(f, "{bound}"))?;
        write!(f, "{} seeds. Shares are of an equal one; waits and gaps are the longest with any seed.", self.seeds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_users_get_their_share_beside_one_who_floods_and_nothing_of_theirs_is_refused() {
        let (load, table) = (Load { minutes: 40, ..Load::default() }, Arc::new(Table::shipped().clone()));
        let found = compare(&load, 1, &table, &AtomicBool::new(false), &|_, _| {}).unwrap();
        let broken: Vec<_> = found.bounds.iter().filter(|bound| !bound.holds).collect();
        assert!(broken.is_empty(), "{broken:?}\n{found}");
        // The flood is what is refused, and it gets what the others leave.
        let row = |policy: &str, load: &str| {
            found.rows.iter().find(|row| (row.policy, row.load) == (policy, load)).expect("a row")
        };
        assert!(row("fair", "backlog").flood_refused > 0.9 && row("fair", "steady").flood_share > 1.0, "{found}");
        assert!(row("fifo", "steady").refused > 0.5, "{found}");
    }
}
