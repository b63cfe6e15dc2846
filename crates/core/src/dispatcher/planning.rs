//! Plans are followed: at set times clusters start, and for their day the knobs are theirs (AutoSLO, section 7).
//!
//! A planned start is beside what triggers ask for: it goes through the same budgets and the same log, and is stopped when it is
//! idle like others; but it is no answer to a trigger, and neither waits for one nor keeps one waiting. What triggers start leaves room for
//! what is planned within the time that it would live at least; but where nothing is there or coming, a query that waits now comes before
//! one that is expected.
//!
//! ```text
//!   PlanAdopted ──▶ refused, with the reason
//!        └────────▶ waits ──(its day begins)──▶ in force ──(its day ends)──▶ done
//!                     └── another for its day, PlanDropped, a policy of another ground ──▶ dropped
//! ```

use serde::{Deserialize, Serialize};

use super::scaling::hourly;
use super::{Dispatcher, Due};
use crate::cluster::{Phase, Spec};
use crate::event::Command;
use crate::id::{PlanId, Units};
use crate::mode::Mode;
use crate::plan::{
    Concluded, Conclusion, FLEET_UNTIL, Fate, Followed, Knobs, MOST_PLANS, MOST_STARTS, Plan, PlanRefusal, Planned,
};
use crate::policy::Policy;
use crate::route::Verdicts;
use crate::scale::{Act, Because};
use crate::time::Time;

/// The plans that are followed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Planning {
    /// In the order of their days, which do not overlap.
    plans: Vec<Followed>,
    turned: Option<Turned>,
    last: Option<Concluded>,
    /// When something is due next.
    pub(crate) wake: Option<Time>,
}

/// The plan whose knobs are in force.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Turned {
    plan: PlanId,
    /// The knobs that come back after it.
    before: Knobs,
}

impl Planning {
    /// Those that are followed or wait for their day, in the order of their days.
    pub(crate) fn plans(&self) -> &[Followed] {
        &self.plans
    }

    /// The one whose knobs are in force.
    pub(crate) fn turned(&self) -> Option<PlanId> {
        self.turned.map(|turned| turned.plan)
    }

    /// The one that was refused, dropped or done with last.
    pub(crate) fn last(&self) -> Option<Concluded> {
        self.last
    }

    /// Gives up plans, all for one reason.
    fn drop_if(&mut self, now: Time, because: Conclusion, which: impl Fn(&Plan) -> bool) {
        let gone = self.plans.iter().find(|followed| which(&followed.plan)).map(Followed::id);
        self.plans.retain(|followed| !which(&followed.plan));
        self.last = gone.map(|plan| Concluded { plan, at: now, because }).or(self.last);
    }
}

impl Dispatcher {
    /// The plan that was refused, dropped or done with last.
    pub fn plan_concluded(&self) -> Option<Concluded> {
        self.planning.last
    }

    /// A plan is proposed.
    pub(super) fn plan_adopted(&mut self, plan: Plan, commands: &mut Vec<Command>) {
        let (id, now) = (plan.id, self.now);
        if let Some(because) = self.plan_refused(&plan) {
            self.planning.last = Some(Concluded { plan: id, at: now, because: Conclusion::Refused(because) });
            return;
        }
        self.planning.last = self.planning.last.filter(|last| last.plan != id);
        self.planning.drop_if(now, Conclusion::ReplacedBy(id), |other| overlap(other, &plan));
        let begun = now >= plan.from + FLEET_UNTIL;
        let mut followed = plan.followed(now, self.policy.scaling.start_takes);
        let is_missed = |start: &Planned| if start.fleet { begun } else { start.at < now };
        let mut missed = false;
        for start in followed.starts.iter_mut().filter(|start| is_missed(start)) {
            (start.fate, missed) = (Fate::Missed, true);
        }
        if missed {
            self.note_as(self.policy.planning, Act::Nothing, Because::PlannedBefore(id), Vec::new());
        }
        let place = self.planning.plans.partition_point(|other| other.plan.from < followed.plan.from);
        self.planning.plans.insert(place, followed);
        self.follow_plans(commands);
    }

    /// An operator takes all plans back.
    pub(super) fn plan_dropped(&mut self) {
        if self.planning.plans.is_empty() {
            return self.makes_no_sense();
        }
        self.planning.drop_if(self.now, Conclusion::Dropped, |_| true);
        self.turn_knobs();
        self.plan_at(None);
    }

    /// Why a plan is not adopted, if it is not.
    fn plan_refused(&self, plan: &Plan) -> Option<PlanRefusal> {
        let (policy, plans) = (&self.policy, &self.planning.plans);
        let offered = |size: &Units| policy.scaling.offers.iter().any(|offer| offer.units == *size);
        let sizes = || plan.fleet.iter().chain(plan.spinups.iter().map(|spinup| &spinup.size));
        if policy.planning == Mode::Off {
            return Some(PlanRefusal::Off);
        }
        if self.shutdown.is_some() {
            return Some(PlanRefusal::ShuttingDown);
        }
        if plans.iter().any(|followed| followed.id() == plan.id) {
            return Some(PlanRefusal::Already);
        }
        if plan.from >= plan.until {
            return Some(PlanRefusal::NoDay);
        }
        if plan.until <= self.now {
            return Some(PlanRefusal::Over);
        }
        let ground = policy.ground();
        if plan.made_for != ground {
            return Some(PlanRefusal::OtherGround { made_for: plan.made_for, ground });
        }
        if plan.fleet.len() + plan.spinups.len() > MOST_STARTS {
            return Some(PlanRefusal::TooManyStarts(MOST_STARTS as u32));
        }
        if let Some(size) = sizes().find(|size| !offered(size)) {
            return Some(PlanRefusal::NoSuchSize(*size));
        }
        if let Some(pair) = plan.spinups.windows(2).find(|pair| pair[0].at > pair[1].at) {
            return Some(PlanRefusal::OutOfOrder(pair[1].at));
        }
        if let Some(last) = plan.spinups.last().filter(|last| plan.from + last.at >= plan.until) {
            return Some(PlanRefusal::OutsideTheDay(last.at));
        }
        let share = plan.knobs.late_share;
        if !(0.0..=1.0).contains(&share) {
            return Some(PlanRefusal::NoShare(share));
        }
        let others = plans.iter().filter(|other| !overlap(&other.plan, plan)).count();
        (others >= MOST_PLANS).then_some(PlanRefusal::TooManyPlans(MOST_PLANS as u32))
    }

    /// A timer for plans has come.
    pub(super) fn plan_due(&mut self, commands: &mut Vec<Command>) {
        self.planning.wake = None;
        self.follow_plans(commands);
    }

    /// Does what plans have for now, and waits for what they have next.
    pub(super) fn follow_plans(&mut self, commands: &mut Vec<Command>) {
        if self.shutdown.is_some() {
            return self.plan_at(None);
        }
        let now = self.now;
        self.planning.drop_if(now, Conclusion::Done, |plan| plan.until <= now);
        self.turn_knobs();
        self.start_planned(commands);
        let next = self.planning.plans.iter().flat_map(|followed| {
            let waiting = followed.starts.iter().filter(|start| start.fate == Fate::Waiting);
            waiting.map(|start| start.at).chain([followed.plan.from, followed.plan.until])
        });
        self.plan_at(next.filter(|at| *at > now).min());
    }

    /// The knobs are those of the plan whose day it is, if plans act, and otherwise those of before.
    fn turn_knobs(&mut self) {
        let (now, acts) = (self.now, self.policy.planning == Mode::On);
        let is_today = |plan: &Plan| acts && plan.from <= now && now < plan.until;
        let today = self.planning.plans.iter().map(|followed| &followed.plan).find(|plan| is_today(plan));
        if today.map(|plan| plan.id) == self.planning.turned() {
            return;
        }
        let today = today.map(|plan| (plan.id, plan.knobs));
        let counted = self.policy.counting;
        if let Some(turned) = self.planning.turned.take() {
            turned.before.turn(&mut self.policy);
        }
        if let Some((plan, knobs)) = today {
            self.planning.turned = Some(Turned { plan, before: Knobs::of(&self.policy) });
            knobs.turn(&mut self.policy);
        }
        if self.policy.counting != counted {
            self.trial.verdicts = Verdicts::default();
        }
    }

    /// A policy that is about to be adopted, as it will be in force: plans that were not made for it are given up, and the knobs of
    /// today's stay.
    pub(super) fn under_plans(&mut self, mut policy: Policy) -> Policy {
        if self.planning.plans.is_empty() {
            return policy;
        }
        if policy.planning == Mode::Off {
            self.planning.drop_if(self.now, Conclusion::SwitchedOff, |_| true);
        }
        let ground = policy.ground();
        self.planning.drop_if(self.now, Conclusion::GroundChanged, |plan| plan.made_for != ground);
        let today = self.planning.turned();
        let today = self.planning.plans.iter().find(|followed| Some(followed.id()) == today);
        self.planning.turned = today.filter(|_| policy.planning == Mode::On).map(|followed| {
            let before = Knobs::of(&policy);
            followed.plan.knobs.turn(&mut policy);
            Turned { plan: followed.id(), before }
        });
        policy
    }

    /// Starts what is due.
    fn start_planned(&mut self, commands: &mut Vec<Command>) {
        for place in 0..self.planning.plans.len() {
            let mut there = self.elastic();
            for number in 0..self.planning.plans[place].starts.len() {
                let (id, start) = (self.planning.plans[place].id(), self.planning.plans[place].starts[number]);
                if start.fate != Fate::Waiting || start.at > self.now {
                    continue;
                }
                let fate = match start.fleet && take(&mut there, start.size) {
                    true => Fate::There,
                    false => self.start_as_planned(id, start.size, commands),
                };
                self.planning.plans[place].starts[number].fate = fate;
            }
        }
    }

    fn start_as_planned(&mut self, plan: PlanId, size: Units, commands: &mut Vec<Command>) -> Fate {
        let (mode, because) = (self.policy.planning, Because::Planned(plan));
        let Some(spec) = self.offer_of(size).cloned() else { return Fate::Refused(Because::CouldNotStart) };
        if let Some(because) = self.beyond_budget(&spec) {
            self.note_as(mode, Act::Nothing, because, Vec::new());
            return Fate::Refused(because);
        }
        if mode != Mode::On {
            self.note_as(mode, Act::Start(size, None), because, Vec::new());
            return Fate::Watched;
        }
        let Some(cluster) = self.start_cluster(spec, commands) else {
            return Fate::Refused(Because::CouldNotStart);
        };
        self.note_as(mode, Act::Start(size, Some(cluster)), because, Vec::new());
        Fate::Started(cluster)
    }

    /// Why a cluster may not be started for what comes or waits: there would be no room for one that is planned to start while it
    /// lives.
    pub(super) fn reserved(&self, spec: &Spec) -> Option<Because> {
        let rules = &self.policy.scaling;
        let planned = self.planned_until(self.now + rules.lifetime + rules.start_takes);
        if planned.is_empty() {
            return None;
        }
        let (most, count) = (self.most_clusters(), planned.len() as u32);
        if self.clusters.len() + planned.len() >= most as usize {
            return Some(Because::ReservedClusters { planned: count, most });
        }
        let planned = planned.into_iter().map(hourly).sum::<f64>();
        let would = hourly(spec) + self.per_hour() + planned;
        rules.most_per_hour.filter(|most| would > *most).map(|most| Because::ReservedPerHour { would, planned, most })
    }

    /// What will be started until then, as it looks now.
    fn planned_until(&self, until: Time) -> Vec<&Spec> {
        let mut planned = Vec::new();
        if self.policy.planning != Mode::On {
            return planned;
        }
        for followed in &self.planning.plans {
            let mut there = self.elastic();
            let soon = |start: &&Planned| start.fate == Fate::Waiting && start.at <= until;
            for start in followed.starts.iter().filter(soon) {
                if !(start.fleet && take(&mut there, start.size)) {
                    planned.extend(self.offer_of(start.size));
                }
            }
        }
        planned
    }

    /// Sizes of the clusters that are there or coming and can be stopped.
    fn elastic(&self) -> Vec<Units> {
        let comes = |phase| matches!(phase, Phase::Starting | Phase::Ready | Phase::Failed);
        let elastic = self.clusters.values().filter(|cluster| cluster.spec.offer.is_some() && comes(cluster.phase));
        elastic.map(|cluster| cluster.spec.units).collect()
    }

    fn offer_of(&self, size: Units) -> Option<&Spec> {
        self.policy.scaling.offers.iter().find(|offer| offer.units == size)
    }

    /// Sets the timer, if it is set to another time.
    fn plan_at(&mut self, at: Option<Time>) {
        if at == self.planning.wake {
            return;
        }
        if let Some(set) = self.planning.wake {
            self.timers.remove(&(set, Due::Plan));
        }
        self.timers.extend(at.map(|at| (at, Due::Plan)));
        self.planning.wake = at;
    }
}

/// True if one of that size is among them, which is taken out.
fn take(sizes: &mut Vec<Units>, size: Units) -> bool {
    let place = sizes.iter().position(|one| *one == size);
    place.map(|place| sizes.swap_remove(place)).is_some()
}

/// True if the days of two plans do.
fn overlap(one: &Plan, other: &Plan) -> bool {
    one.from < other.until && other.from < one.until
}

#[cfg(test)]
mod tests;
