//! A rehearsal: one workload under one policy with its fleet, and what came of it in detail.
//!
//! Whatever policy is rehearsed meets the same arrivals and the same luck: both belong to the seed and a query's number, and
//! queries are numbered as they come.
//!
//! ```text
//!   0 ── start-up of the clusters that are there from the start ──▶ first arrival ─────────▶ last end
//! ```
//!
//! Clusters take as long to start as the rules of scaling expect, unless [`Troubles`] say otherwise; those that are there
//! from the start have started when the first query comes, whatever the troubles. Times in what comes of it count from that
//! moment.
//!
//! Open loop, queries come when the workload says. Closed loop, so many clients each send their next query, in the order
//! of the workload, when their last has ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::cluster::Spec;
use punctual_core::dispatcher::Dispatcher;
use punctual_core::event::{Command, Event, LossCause};
use punctual_core::id::{ClusterId, ModelId, PlanId, Units};
use punctual_core::math;
use punctual_core::mode::Mode;
use punctual_core::plan::{Knobs, Plan, Spinup};
use punctual_core::policy::Policy;
use punctual_core::predict::model::Model;
use punctual_core::query::{Ended, Status};
use punctual_core::scale::{Act, Because, Scaled};
use punctual_core::time::{Span, Time};

use crate::outcome::{Outcome, Tracker};
use crate::run::{Run, Step};
use crate::workload::Arrival;
use crate::world::compute::Make;
use crate::world::{Conditions, World};

/// The most decisions about the fleet that are kept.
const SCALED_KEPT: usize = 10_000;

/// What is rehearsed.
#[derive(Clone, Debug)]
pub struct Rehearsal {
    /// The dispatcher's own chance.
    pub seed: u64,
    /// The rules.
    pub policy: Policy,
    /// The clusters that are there from the start.
    pub fleet: Vec<Spec>,
    /// What predicts latencies, if anything does.
    pub model: Option<Arc<Model>>,
    /// What clusters are.
    pub make: Make,
    /// How many clients there are; None: open loop.
    pub clients: Option<usize>,
    /// What goes wrong.
    pub troubles: Troubles,
}

/// What goes wrong with clusters. The default is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Troubles {
    /// A start takes from the first to the second, uniformly. None: as long as the rules of scaling expect.
    pub starts_take: Option<(Span, Span)>,
    /// The share of starts that fail, after the time that they take.
    pub starts_fail: f64,
    /// How long a cluster lives once it is ready, exponential with this mean. None: until it is stopped.
    pub lost_after: Option<Span>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Rehearsed {
    /// By class, and in all. Its end is [`Rehearsed::lasted`] later than the first arrival could come.
    pub outcome: Outcome,
    /// From the moment at which the first query could come to the last end.
    pub lasted: Span,
    /// Every query, in the order of their ends, without what it was predicted from.
    pub ended: Vec<Ended>,
    /// Every cluster, in the order of their starts.
    pub lives: Vec<Life>,
    /// Decisions about the fleet, in order.
    pub scaled: Vec<Scaled>,
    /// How predictions turned out; None if nothing was predicted.
    pub foresight: Option<Foresight>,
    /// Starts that failed.
    pub failed_starts: usize,
    /// Clusters that were there and were lost.
    pub lost: usize,
}

/// A start of a cluster, and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Life {
    /// Which.
    pub cluster: ClusterId,
    /// Its name.
    pub name: String,
    /// Its size.
    pub units: Units,
    /// When it was asked for.
    pub asked: Time,
    /// When it took queries; None: never.
    pub ready: Option<Time>,
    /// When it was gone; None: it outlived the rehearsal.
    pub gone: Option<Time>,
}

/// How what was predicted for queries when they were placed turned out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Foresight {
    /// Queries that it stands on: predicted, and finished.
    pub queries: usize,
    /// Median and 90 % quantile of the Q-error, the larger of predicted/actual and actual/predicted median.
    pub q_error: [f64; 2],
    /// The share that took no longer than the predicted 90 % quantile.
    pub coverage_p90: f64,
    /// The median of actual over predicted: above 1, predictions were too hopeful.
    pub bias: f64,
}

impl Rehearsal {
    /// Runs these arrivals, in the order of time, to the last end. `go` is told now and then how many queries have ended, and
    /// says whether to go on; None if it did not.
    pub fn run(&self, arrivals: &[Arrival], go: &mut dyn FnMut(usize) -> bool) -> Option<Rehearsed> {
        self.run_with(&[], arrivals, go)
    }

    /// The same, following a plan with these starts, in the order of time, as it is followed live. Its day begins at the moment at
    /// which the first query can come, its fleet is [`Rehearsal::fleet`], and its knobs are those of the policy. A size that nothing
    /// offers has the plan refused: then nothing is started.
    pub fn run_with(
        &self,
        spinups: &[Spinup],
        arrivals: &[Arrival],
        go: &mut dyn FnMut(usize) -> bool,
    ) -> Option<Rehearsed> {
        let start = self.start();
        let first = self.clients.map_or(arrivals.len(), |clients| clients.min(arrivals.len()));
        let at = |arrival: &Arrival| if self.clients.is_some() { start } else { start + arrival.at.since(Time::ZERO) };
        let shifted = |arrival: &Arrival| Arrival { at: at(arrival), ..arrival.clone() };
        let plan = (!spinups.is_empty()).then(|| self.plan(spinups));
        let mut run = Run::new(self.dispatcher(), arrivals[..first].iter().map(shifted), self.world(plan));
        let mut later = arrivals[first..].iter();
        let mut gathered = Gathered::default();
        while gathered.ended.len() < arrivals.len() {
            let before = gathered.ended.len();
            let Some(step) = run.step() else { break };
            let now = step.now;
            gathered.take(&step);
            for next in later.by_ref().take(gathered.ended.len() - before) {
                run.send(Arrival { at: now, ..next.clone() });
            }
            if gathered.steps.is_multiple_of(256) && !go(gathered.ended.len()) {
                return None;
            }
        }
        Some(gathered.rehearsed(run.dispatcher(), run.now(), start, self.longest_minimum()))
    }

    /// When the first query can come: everything that is there from the start is ready by then.
    fn start(&self) -> Time {
        Time::ZERO + self.starts_take().0 + Span::from_secs(1)
    }

    /// The least and the most time of a start.
    fn starts_take(&self) -> (Span, Span) {
        let expected = self.policy.scaling.start_takes;
        self.troubles.starts_take.unwrap_or((expected, expected))
    }

    fn dispatcher(&self) -> Dispatcher {
        let mut policy = Policy { planning: Mode::On, ..self.policy.clone() };
        policy.start_limit = policy.start_limit.max(self.starts_take().1.times(2));
        let mut dispatcher = Dispatcher::new(self.seed, policy);
        if let Some(model) = &self.model {
            dispatcher.provide(MODEL, model.clone());
        }
        dispatcher
    }

    fn plan(&self, spinups: &[Spinup]) -> Plan {
        let from = self.start();
        Plan {
            id: PlanId(1),
            from,
            until: Time::MAX,
            fleet: Vec::new(),
            spinups: spinups.to_vec(),
            knobs: Knobs::of(&self.policy),
            made_for: self.policy.ground(),
        }
    }

    fn world(&self, plan: Option<Plan>) -> World {
        let adopted = self.model.is_some().then_some(Event::ModelAdopted(MODEL));
        let wanted = self.fleet.iter().cloned().map(Event::ClusterWanted);
        let at_once = adopted.into_iter().chain(wanted).map(|event| (Time::ZERO, event));
        let planned = plan.map(|plan| (Time::ZERO, Event::PlanAdopted(Box::new(plan))));
        let script = at_once.chain(planned).collect();
        let (least, most) = self.starts_take();
        let conditions = Conditions {
            start_least: least,
            start_spread: most - least,
            start_failures: self.troubles.starts_fail,
            starts_spared_until: self.start(),
            life: self.troubles.lost_after,
            ..Conditions::default()
        };
        World::new(self.seed, conditions, script).of(self.make.clone())
    }

    /// Until everything is billed that has been begun.
    fn longest_minimum(&self) -> Span {
        let specs = self.fleet.iter().chain(&self.policy.scaling.offers);
        specs.map(|spec| spec.price.minimum).max().unwrap_or(Span::ZERO)
    }
}

/// The model of a rehearsal.
const MODEL: ModelId = ModelId(1);

/// What has been seen so far.
#[derive(Default)]
struct Gathered {
    tracker: Tracker,
    steps: u64,
    ended: Vec<Ended>,
    lives: Vec<Life>,
    /// Of the clusters that are not gone, where among the lives.
    open: BTreeMap<ClusterId, usize>,
    scaled: Vec<Scaled>,
    failed_starts: usize,
    lost: usize,
}

impl Gathered {
    fn take(&mut self, step: &Step<'_>) {
        self.tracker.take(step);
        self.steps += 1;
        match step.event {
            Event::ClusterLost { cause: LossCause::StartFailed, .. } => self.failed_starts += 1,
            Event::ClusterLost { .. } => self.lost += 1,
            _ => {}
        }
        match step.event {
            Event::ClusterReady { cluster, .. } => {
                if let Some(life) = self.life(cluster) {
                    life.ready = life.ready.or(Some(step.now));
                }
            }
            Event::ClusterStopped { cluster, .. } | Event::ClusterLost { cluster, .. } => {
                if let Some(life) = self.life(cluster) {
                    life.gone = Some(step.now);
                }
                self.open.remove(&cluster);
            }
            _ => {}
        }
        for command in step.commands {
            match command {
                Command::Record(ended) => {
                    let mut ended = (**ended).clone();
                    ended.query.traits = None;
                    self.ended.push(ended);
                }
                Command::Start { cluster, spec, .. } => {
                    self.open.insert(*cluster, self.lives.len());
                    let (name, units, asked) = (spec.name.clone(), spec.units, step.now);
                    self.lives.push(Life { cluster: *cluster, name, units, asked, ready: None, gone: None });
                }
                _ => {}
            }
        }
        let room = SCALED_KEPT - self.scaled.len();
        self.scaled.extend(step.scaled().into_iter().take(room).cloned());
    }

    fn life(&mut self, cluster: ClusterId) -> Option<&mut Life> {
        self.open.get(&cluster).and_then(|at| self.lives.get_mut(*at))
    }

    fn rehearsed(self, dispatcher: &Dispatcher, now: Time, start: Time, minimum: Span) -> Rehearsed {
        let end = self.ended.last().map_or(now, |last| last.ended);
        let foresight = Foresight::of(&self.ended);
        let mut outcome = self.tracker.outcome(dispatcher, now);
        outcome.cost = dispatcher.cost(now + minimum);
        let moved = |at: Time| Time::ZERO + at.since(start);
        let (mut ended, mut lives, mut scaled) = (self.ended, self.lives, self.scaled);
        for one in &mut ended {
            (one.arrived, one.placed, one.ended) = (moved(one.arrived), one.placed.map(moved), moved(one.ended));
        }
        for life in &mut lives {
            (life.asked, life.ready, life.gone) = (moved(life.asked), life.ready.map(moved), life.gone.map(moved));
        }
        for one in &mut scaled {
            one.at = moved(one.at);
        }
        let (failed_starts, lost) = (self.failed_starts, self.lost);
        Rehearsed { outcome, lasted: end.since(start), ended, lives, scaled, foresight, failed_starts, lost }
    }
}

impl Rehearsed {
    /// Hours that clusters were there, from ready to gone, and the same times their sizes.
    pub fn hours(&self) -> [f64; 2] {
        let end = Time::ZERO + self.lasted;
        let hours = |life: &Life| match life.ready {
            Some(ready) => life.gone.unwrap_or(end).min(end).since(ready).secs_f64() / 3_600.0,
            None => 0.0,
        };
        // From zero: the sum of nothing is otherwise −0.
        self.lives.iter().fold([0.0, 0.0], |[clusters, units], life| {
            [clusters + hours(life), units + hours(life) * f64::from(life.units.0)]
        })
    }

    /// Hours that clusters took to start once the first query could come: asked for, and no use yet.
    pub fn starting_hours(&self) -> f64 {
        let end = Time::ZERO + self.lasted;
        let hours = |life: &Life| {
            let until = life.ready.or(life.gone).unwrap_or(end).min(end);
            until.since(life.asked).secs_f64() / 3_600.0
        };
        self.lives.iter().filter(|life| life.asked > Time::ZERO).map(hours).sum::<f64>() + 0.0
    }

    /// How long queries waited until they were placed: in the mean, of those that were, and the share that waited at all.
    pub fn waits(&self) -> Option<[f64; 2]> {
        let waits = self.ended.iter().filter_map(|ended| Some(ended.placed?.since(ended.arrived).secs_f64()));
        let (count, sum, some) = waits.fold((0.0, 0.0, 0.0), |(count, sum, some), wait| {
            (count + 1.0, sum + wait, some + f64::from(u8::from(wait > 0.0)))
        });
        (count > 0.0).then(|| [sum / count, some / count])
    }

    /// Starts and stops that scaling decided and carried out.
    pub fn actions(&self) -> [usize; 2] {
        let count = |which: fn(&Scaled) -> bool| {
            self.scaled.iter().filter(|scaled| scaled.mode == Mode::On && which(scaled)).count()
        };
        let stops = |scaled: &Scaled| matches!(scaled.act, Act::Stop(_)) && scaled.because != Because::CouldNotStart;
        [count(|scaled| matches!(scaled.act, Act::Start(_, Some(_)))), count(stops)]
    }
}

impl Foresight {
    fn of(ended: &[Ended]) -> Option<Foresight> {
        let finished = ended.iter().filter(|ended| ended.status == Status::Finished);
        let judged = finished.filter_map(|ended| {
            let (predicted, took) = (ended.predicted?, ended.ran()?);
            let ratio = took.secs_f64().max(1e-6) / predicted.p50.secs_f64().max(1e-6);
            Some((ratio, took <= predicted.p90))
        });
        let judged: Vec<(f64, bool)> = judged.collect();
        let sorted = |value: fn(f64) -> f64| {
            let mut values: Vec<f64> = judged.iter().map(|(ratio, _)| value(*ratio)).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let q_error = math::nearest_ranks(&sorted(|ratio| ratio.max(1.0 / ratio)), [0.5, 0.9])?;
        let [bias] = math::nearest_ranks(&sorted(|ratio| ratio), [0.5])?;
        let coverage_p90 = judged.iter().filter(|(_, below)| *below).count() as f64 / judged.len() as f64;
        Some(Foresight { queries: judged.len(), q_error, coverage_p90, bias })
    }
}

#[cfg(test)]
mod tests;
