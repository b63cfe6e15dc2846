//! What lanes are worth: light queries beside three times as many heavy ones as fit, admitted in seven ways.
//!
//! ```text
//!   light   in batches, as dashboards send them ──▶ ┌─────────┐      ┌───────────────────────────┐
//!                                                   │ gateway │ ───▶ │ one cluster of 64 units,  │
//!   heavy   at random, three times what fits ─────▶ └─────────┘      │ 26 slots                  │
//!                                                                    └───────────────────────────┘
//! ```
//!
//! In the warehouse all that runs shares processors, reading and memory, so a lane does not keep the heavy from slowing the light
//! down: it keeps them few. One heavy query alone can use the whole cluster. So the question is fair only where the light
//! leave most of it over (a ninth of the processors is theirs here), and what a lane allows is what the same
//! heavy queries get done alone, on as many slots. What *fits* is what they could get done at most: all processors busy with them,
//! nothing written to disk.
//!
//! Nothing is refused, or the latency of what waits longest would be left out: every light query counts. Throughput is of the
//! hours in which they come, whatever is left at the end.

pub mod report;

use std::sync::Arc;

use punctual_core::admit::Order;
use punctual_core::admit::claim::{Claim, Scan};
use punctual_core::admit::lanes::{Lane, Lanes, Limit};
use punctual_core::admit::terms::{Terms, Thresholds};
use punctual_core::billing::Price;
use punctual_core::class::{Class, DEFAULT};
use punctual_core::cluster::Spec;
use punctual_core::id::{ClassId, SessionId, Units, UserId};
use punctual_core::policy::Policy;
use punctual_core::query::{Ended, Status};
use punctual_core::time::{Span, Time};
use punctual_sim::rehearsal::{Rehearsal, Troubles};
use punctual_sim::workload::{Arrival, Asked, Batched, Pattern, Templates};
use punctual_sim::world::compute::Make;
use punctual_sim::world::warehouse::{Profile, Table, Template};
use serde::Serialize;

/// What comes, and where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Load {
    /// The cluster's size.
    pub units: u32,
    /// Queries that run there at once: as many as a warehouse of that size does.
    pub slots: u32,
    /// Light queries a second.
    pub light_a_second: f64,
    /// Deviation of their gaps over the mean.
    pub light_cv: f64,
    /// When a light query is late, in seconds.
    pub light_slo_s: f64,
    /// Templates of at most so much work are light, in seconds of one unit.
    pub light_most_work: f64,
    /// If they keep no more than so much in memory, in GB.
    pub light_most_memory: f64,
    /// Templates of at least so much work are heavy.
    pub heavy_least_work: f64,
    /// Heavy queries come so many times as often as would fit.
    pub heavy_times: f64,
    /// The share of the slots that the heavy have under `hilo`, in percent.
    pub max_low_percent: f64,
    /// Heavy queries that may run at once under `manual`.
    pub heavy_limit: u32,
    /// For so many minutes nothing counts: the cluster has read nothing yet.
    pub warm_up_min: u64,
    /// For so many minutes queries come.
    pub minutes: u64,
}

impl Default for Load {
    fn default() -> Load {
        Load {
            units: 64,
            slots: 26,
            light_a_second: 1.1,
            light_cv: 3.5,
            light_slo_s: 3.0,
            light_most_work: 10.0,
            light_most_memory: 20.0,
            heavy_least_work: 100.0,
            heavy_times: 3.0,
            max_low_percent: 10.0,
            heavy_limit: 2,
            warm_up_min: 10,
            minutes: 130,
        }
    }
}

/// How queries are admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// There are no heavy ones.
    LightOnly,
    /// The oldest goes first.
    Nothing,
    /// Priorities that their clients set: the light ones' weighs a million times as much. No lanes.
    Priority,
    /// The same, set by a threshold on the time that a query reads. No lanes.
    Thresholds,
    /// A threshold lowers priorities, and what is below zero has a lane.
    Hilo,
    /// Light and heavy are classes, each with a lane.
    Manual,
    /// Whoever has used least goes first. No lanes.
    Fair,
}

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    /// A scheme.
    Scheme(Scheme),
    /// The heavy ones alone, on so many slots.
    HeavyAlone(u32),
}

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Latencies of the light ones that count, in seconds, in ascending order.
    pub light: Vec<f64>,
    /// How many of them were late.
    pub light_late: usize,
    /// Heavy ones that finished in the hours that count.
    pub heavy: usize,
    /// The longest that one of them waited, in seconds.
    pub heavy_waited_most: f64,
    /// How long it was counted, in hours.
    pub hours: f64,
}

/// Points of priority between light and heavy where they are set: twenty doublings at 5 points each.
const POINTS: i32 = 50;

/// Users of the heavy queries have numbers from here on.
const HEAVY: u64 = 1_000;

/// How many users send light queries, and heavy ones.
const USERS: u64 = 4;

/// Light and heavy queries have chances of their own.
const APART: u64 = 1 << 40;

/// So long that nothing is refused.
const EVER: Span = Span::from_secs(1 << 30);

/// The classes of [`Scheme::Manual`].
const LIGHT_CLASS: ClassId = ClassId(2);
const HEAVY_CLASS: ClassId = ClassId(3);

impl Scheme {
    /// All, in the order of the table.
    pub const ALL: [Scheme; 7] = [
        Scheme::LightOnly,
        Scheme::Nothing,
        Scheme::Priority,
        Scheme::Thresholds,
        Scheme::Fair,
        Scheme::Hilo,
        Scheme::Manual,
    ];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Scheme::LightOnly => "light_only",
            Scheme::Nothing => "none",
            Scheme::Priority => "priority",
            Scheme::Thresholds => "thresholds",
            Scheme::Fair => "fair",
            Scheme::Hilo => "hilo",
            Scheme::Manual => "manual",
        }
    }

    /// Heavy queries that may run at once.
    pub fn heavy_slots(self, load: &Load) -> u32 {
        match self {
            Scheme::Hilo => Limit::Percent(load.max_low_percent).of(load.slots),
            Scheme::Manual => load.heavy_limit,
            _ => load.slots,
        }
    }

    /// The rules.
    fn policy(self, load: &Load) -> Policy {
        let lowered = Thresholds { duration: Some(Span::from_secs(30 * DAY)), ..Thresholds::default() };
        let terms = match self {
            Scheme::Priority => Terms { may_ask: (-POINTS, POINTS), ..Terms::default() },
            Scheme::Thresholds => Terms { thresholds: lowered, adjustment: 2 * POINTS, ..Terms::default() },
            Scheme::Hilo => Terms { thresholds: lowered, ..Terms::default() },
            _ => Terms::default(),
        };
        let mut classes = Class::built_in();
        classes[DEFAULT.0 as usize].terms = terms;
        let lane = |name: &str| Terms { lane: Some(name.into()), ..Terms::default() };
        let class = |name: &str| Class { name: name.into(), terms: lane(name), ..Class::default() };
        classes.extend([class("light"), class("heavy")]);
        let lanes = match self {
            Scheme::Hilo => Lanes::hilo(load.max_low_percent),
            Scheme::Manual => manual(load.heavy_limit),
            _ => Lanes::none(),
        };
        let fair = matches!(self, Scheme::Priority | Scheme::Thresholds | Scheme::Fair);
        Policy { classes, lanes, order: if fair { Order::Fair } else { Order::Fifo }, ..patient() }
    }
}

/// Lanes in which so many heavy ones may run at once.
fn manual(heavy: u32) -> Lanes {
    let limit = Some(Limit::Count(heavy));
    Lanes::manual(vec![
        Lane { name: "light".into(), ..Lane::default() },
        Lane { name: "heavy".into(), limit, ..Lane::default() },
    ])
}

/// Rules under which nothing is refused.
pub(super) fn patient() -> Policy {
    Policy { max_waiting: 1_000_000, wait_limit: EVER, decisions_kept: 0, ..Policy::default() }
}

/// A day, in seconds.
const DAY: u64 = 86_400;

/// One cluster of that size.
fn cluster(units: u32, slots: u32) -> Spec {
    let name = format!("rpu{units}");
    Spec { name, units: Units(units), slots, price: Price::default(), killable: true, offer: None, writer: false }
}

/// Runs it.
pub fn run(what: What, load: &Load, seed: u64, table: &Arc<Table>) -> Outcome {
    let policy = match what {
        What::Scheme(scheme) => scheme.policy(load),
        What::HeavyAlone(slots) => Policy { lanes: manual(slots), ..Scheme::Manual.policy(load) },
    };
    let arrivals = arrivals(what, load, seed, table);
    Outcome::of(&on_one_cluster(policy, (load.units, load.slots), &arrivals, seed, table), load)
}

/// What became of all that came to one cluster of that size with so many slots.
pub(super) fn on_one_cluster(
    policy: Policy,
    (units, slots): (u32, u32),
    arrivals: &[Arrival],
    seed: u64,
    table: &Arc<Table>,
) -> Vec<Ended> {
    let rehearsal = Rehearsal {
        seed,
        policy,
        fleet: vec![cluster(units, slots)],
        model: None,
        make: Make::Warehouse { table: Arc::clone(table), seed },
        clients: None,
        troubles: Troubles::default(),
    };
    // Nothing stops it.
    rehearsal.run(arrivals, &mut |_| true).map_or_else(Vec::new, |rehearsed| rehearsed.ended)
}

/// What comes, in the order of time, each from a client of its own.
fn arrivals(what: What, load: &Load, seed: u64, table: &Table) -> Vec<Arrival> {
    let classes = match what {
        What::Scheme(Scheme::Manual) | What::HeavyAlone(_) => [LIGHT_CLASS, HEAVY_CLASS],
        What::Scheme(_) => [DEFAULT; 2],
    };
    let mut all: Vec<Arrival> = match what {
        What::HeavyAlone(_) => Vec::new(),
        What::Scheme(_) => load.light(seed, classes[0], table),
    };
    if what != What::Scheme(Scheme::LightOnly) {
        all.extend(load.heavy(seed, classes[1], table));
    }
    all.sort_by_key(|arrival| arrival.at);
    for (number, arrival) in all.iter_mut().enumerate() {
        arrival.session = SessionId::of(0, number as u64 + 1);
    }
    all
}

impl Load {
    fn horizon(&self) -> Span {
        Span::from_secs(60 * self.minutes)
    }

    /// Heavy queries a second that would fit.
    pub fn fits(&self, table: &Table) -> f64 {
        f64::from(self.units) / mean_work(&self.heavy_ones(table))
    }

    /// The share of the processors that the light ones take.
    pub fn light_share(&self, table: &Table) -> f64 {
        self.light_a_second * mean_work(&self.light_ones(table)) / f64::from(self.units)
    }

    fn light_ones(&self, table: &Table) -> Vec<Profile> {
        let small = |profile: &Profile| profile.cpu <= self.light_most_work && profile.memory <= self.light_most_memory;
        Template::all().map(|template| table.profile(template)).filter(small).collect()
    }

    fn heavy_ones(&self, table: &Table) -> Vec<Profile> {
        let large = |profile: &Profile| profile.cpu >= self.heavy_least_work;
        Template::all().map(|template| table.profile(template)).filter(large).collect()
    }

    fn light(&self, seed: u64, class: ClassId, table: &Table) -> Vec<Arrival> {
        let within = Span::from_secs_f64(0.05 / self.light_a_second);
        let pattern = Pattern::Batched(Batched { rate: self.light_a_second, cv: self.light_cv, within });
        let slo = Some(Span::from_secs_f64(self.light_slo_s));
        let templates = each(self.light_ones(table), class, slo);
        let day = Some(Span::from_secs(DAY));
        let scan = Scan { reach: day, duration: day, ..Scan::default() };
        let claim = Claim { user: UserId(1), priority: Some(POINTS), scan: Some(scan), writes: false };
        of_users(templates.generate(seed, &pattern, self.horizon(), table), claim)
    }

    fn heavy(&self, seed: u64, class: ClassId, table: &Table) -> Vec<Arrival> {
        let pattern = Pattern::Poisson { rate: self.heavy_times * self.fits(table) };
        let templates = each(self.heavy_ones(table), class, None);
        let years = Some(Span::from_secs(5 * 365 * DAY));
        let scan = Scan { reach: years, duration: years, ..Scan::default() };
        let claim = Claim { user: UserId(HEAVY), priority: Some(-POINTS), scan: Some(scan), writes: false };
        of_users(templates.generate(seed ^ APART, &pattern, self.horizon(), table), claim)
    }
}

/// Seconds of one unit, in the mean.
fn mean_work(profiles: &[Profile]) -> f64 {
    profiles.iter().map(|profile| profile.cpu).sum::<f64>() / profiles.len().max(1) as f64
}

/// Each of these as often as the others.
fn each(profiles: Vec<Profile>, class: ClassId, slo: Option<Span>) -> Templates {
    let templates = profiles.into_iter().filter_map(|profile| profile.template);
    Templates { shares: templates.map(|template| (Asked { template, class, slo }, 1.0)).collect() }
}

/// The user of the claim, and those after it, take turns.
fn of_users(arrivals: impl Iterator<Item = Arrival>, claim: Claim) -> Vec<Arrival> {
    let users = (0..USERS).cycle().map(|more| Claim { user: UserId(claim.user.0 + more), ..claim });
    let with = |(mut arrival, claim): (Arrival, Claim)| {
        arrival.ask.claim = claim;
        arrival
    };
    arrivals.zip(users).map(with).collect()
}

impl Outcome {
    fn of(ended: &[Ended], load: &Load) -> Outcome {
        let counted = Time::ZERO + Span::from_secs(60 * load.warm_up_min);
        let horizon = Time::ZERO + load.horizon();
        let is_heavy = |ended: &Ended| ended.query.claim.user.0 >= HEAVY;
        let finished = || ended.iter().filter(|ended| ended.status == Status::Finished);
        let light = || finished().filter(|ended| !is_heavy(ended) && ended.arrived >= counted);
        let heavy = || finished().filter(|ended| is_heavy(ended) && (counted..=horizon).contains(&ended.ended));
        let mut latencies: Vec<f64> = light().map(|ended| ended.latency().secs_f64()).collect();
        latencies.sort_by(f64::total_cmp);
        let waited = |ended: &Ended| ended.placed.unwrap_or(ended.ended).since(ended.arrived).secs_f64();
        Outcome {
            light: latencies,
            light_late: light().filter(|ended| ended.violated == Some(true)).count(),
            heavy: heavy().count(),
            heavy_waited_most: heavy().map(waited).fold(0.0, f64::max),
            hours: horizon.since(counted).secs_f64() / 3_600.0,
        }
    }

    /// Heavy queries an hour.
    pub fn heavy_an_hour(&self) -> f64 {
        self.heavy as f64 / self.hours
    }

    /// The share of the light ones that were late.
    pub fn light_violation_rate(&self) -> f64 {
        self.light_late as f64 / self.light.len().max(1) as f64
    }
}
