//! What is decided about the fleet, looked at from the outside: each decision against the clusters that events and
//! commands tell of, the budgets, and what else is in flight.
//!
//! Which clusters drain, no command tells until they are empty: for that, a decision to stop one is believed, and from
//! then on it is held to: nothing more is placed there, and it does not come back.

use std::collections::BTreeMap;

use punctual_core::cluster::Spec;
use punctual_core::event::{Command, Event};
use punctual_core::id::{ClusterId, Generation, StudyId, Units};
use punctual_core::mode::Mode;
use punctual_core::policy::Policy;
use punctual_core::scale::{Act, Because, Scaled, Scaling};
use punctual_core::time::Span;

use super::watch::{Known, Life, Watch, must};

/// What is known of the rules, and of what was begun.
#[derive(Clone, Debug)]
pub(super) struct Fleet {
    rules: Scaling,
    /// The most that scaling may bring the clusters to.
    most: u32,
    /// A study that has no answer.
    study: Option<StudyId>,
    /// The cluster that was started last.
    started: Option<ClusterId>,
    /// Everything is to go.
    pub(super) shuts_down: bool,
    /// Clusters that were stopped in this step, and had not been told to go before.
    pub(super) stopped: Vec<ClusterId>,
}

impl Fleet {
    pub(super) fn new(policy: &Policy) -> Fleet {
        let (rules, most) = (policy.scaling.clone(), policy.scaling.most.min(policy.max_clusters));
        Fleet { rules, most, study: None, started: None, shuts_down: false, stopped: Vec::new() }
    }

    pub(super) fn hear(&mut self, event: &Event) {
        self.stopped.clear();
        match event {
            Event::ShutdownWanted { .. } => self.shuts_down = true,
            Event::PolicyAdopted(policy) => {
                self.rules = policy.scaling.clone();
                self.most = policy.scaling.most.min(policy.max_clusters);
            }
            Event::StudyDone { study, .. } => self.study = self.study.filter(|known| known != study),
            _ => {}
        }
    }

    /// What may be stopped because it is idle, and is kept all the same.
    fn least(&self) -> usize {
        self.rules.least as usize
    }

    /// Nothing is begun while something is in flight. A start that failed is not waited for, though it is tried again.
    fn is_free(&self, clusters: &BTreeMap<ClusterId, Known>) -> Result<(), String> {
        must(self.study.is_none(), || format!("a decision is made while {:?} has no answer", self.study))?;
        let first = |known: &Known| known.life == Life::Starting && known.generation == Generation::default();
        let starts = self.started.filter(|id| clusters.get(id).is_some_and(first));
        must(starts.is_none(), || format!("a decision is made while {starts:?} starts"))
    }
}

impl Watch {
    /// Holds what was decided about the fleet in a step against its commands, which have been taken in.
    pub(super) fn decided(&mut self, scaled: &[&Scaled], commands: &[Command]) -> Result<(), String> {
        let studies = commands.iter().filter(|command| matches!(command, Command::Study { .. })).count();
        let reasons = scaled.iter().filter(|scaled| matches!(scaled.act, Act::Study(_))).count();
        must(studies == reasons, || format!("{studies} studies are asked for, {reasons} have a reason"))?;
        let mut idle = false;
        for scaled in scaled {
            let on = scaled.mode == Mode::On;
            let by_plan = matches!(scaled.because, Because::Planned(_));
            let by_rules = if by_plan { self.plans.is_mode(scaled.mode) } else { self.may_be_in(scaled) };
            must(by_rules, || format!("{scaled:?} is not by the rules in force"))?;
            self.plans.decided(scaled, commands)?;
            match scaled.act {
                Act::Study(study) => {
                    self.fleet.is_free(&self.clusters)?;
                    self.fleet.study = Some(study);
                }
                Act::Start(units, Some(id)) => {
                    must(on, || format!("cluster {id} was started, and nothing should be"))?;
                    // Token policies start one for each query that finds none idle, whatever starts already, and so do plans.
                    if scaled.because != Because::NoneIdle && !by_plan {
                        self.fleet.is_free(&self.clusters)?;
                        self.fleet.started = Some(id);
                    }
                    self.decided_start(id, units, commands)?;
                }
                Act::Start(_, None) => must(!on, || format!("{scaled:?} starts nothing"))?,
                Act::Stop(id) if on => {
                    self.decided_stop(id, scaled.because, commands)?;
                    idle |= matches!(scaled.because, Because::Idle(_));
                }
                Act::Stop(_) | Act::Nothing => {}
            }
            self.decided_because(scaled.because)?;
        }
        let for_nothing =
            self.fleet.stopped.iter().find(|id| !self.clusters.get(id).is_some_and(|known| known.draining));
        must(self.fleet.shuts_down || for_nothing.is_none(), || format!("{for_nothing:?} stops for no reason"))?;
        let ready = self.clusters.values().filter(|known| known.life == Life::Up && !known.draining).count();
        must(!idle || ready >= self.fleet.least(), || format!("{ready} clusters are left when an idle one was stopped"))
    }

    /// True if a decision that no plan asks for is in the mode of scaling; that nothing can be done may also be said of a planned start.
    fn may_be_in(&self, scaled: &Scaled) -> bool {
        let nothing = scaled.act == Act::Nothing;
        scaled.mode == self.fleet.rules.mode || nothing && self.plans.is_mode(scaled.mode)
    }

    fn decided_start(&self, id: ClusterId, units: Units, commands: &[Command]) -> Result<(), String> {
        if self.plans.unsettled {
            return Ok(());
        }
        let offered =
            |spec: &Spec| self.fleet.rules.offers.iter().any(|offer| Some(&offer.name) == spec.offer.as_ref());
        let is_it = |command: &Command| matches!(command, Command::Start { cluster, spec, .. } if *cluster == id && spec.units == units && offered(spec));
        must(commands.iter().any(is_it), || format!("cluster {id} of {units:?} was to start, and has not"))?;
        // What has failed, and comes again, counts too; but from the outside that looks as what has gone.
        let up = || self.clusters.values().filter(|known| matches!(known.life, Life::Starting | Life::Up));
        must(up().count() <= self.fleet.most as usize, || format!("cluster {id} is one too many"))?;
        let hourly: f64 = up().map(|known| hourly(&known.spec)).sum();
        let within = self.fleet.rules.most_per_hour.is_none_or(|most| hourly <= most * (1.0 + 1e-9));
        must(within, || format!("with cluster {id} they cost {hourly} $ an hour"))
    }

    fn decided_stop(&mut self, id: ClusterId, because: Because, commands: &[Command]) -> Result<(), String> {
        let holds = self.clusters.contains_key(&id).then(|| self.holds(id));
        let known = self.clusters.get_mut(&id).ok_or_else(|| format!("cluster {id} is to go, and is not there"))?;
        if because == Because::CouldNotStart {
            let failed =
                !known.draining && known.spec.offer.is_some() && matches!(known.life, Life::Down | Life::Stopping);
            known.draining = true;
            return must(failed, || format!("cluster {id} could not be started, and is {known:?}"));
        }
        let may_go = !known.draining && known.spec.offer.is_some() && matches!(known.life, Life::Up | Life::Stopping);
        must(may_go, || format!("cluster {id} is to go, and is {known:?}"))?;
        known.draining = true;
        must(!matches!(because, Because::Idle(_)) || holds == Some(0), || {
            format!("cluster {id} is idle, and is held")
        })?;
        let stops = |command: &Command| matches!(command, Command::Stop { cluster, .. } if *cluster == id);
        must((holds == Some(0)) == commands.iter().any(stops), || {
            format!("{holds:?} hold cluster {id}, which is to go")
        })
    }

    /// Budgets that are said to bind do.
    fn decided_because(&self, because: Because) -> Result<(), String> {
        if self.plans.unsettled {
            return Ok(());
        }
        let there = || self.clusters.values().filter(|known| known.life != Life::Down || !known.draining);
        match because {
            Because::MostClusters(most) => {
                let count = there().count();
                must(most == self.fleet.most && count >= most as usize, || format!("{most} may be, {count} are"))
            }
            Because::MostPerHour { would, most } => {
                let offers = self.fleet.rules.offers.iter().map(hourly);
                let all = there().map(|known| hourly(&known.spec)).sum::<f64>() + offers.fold(0.0, f64::max);
                let holds = self.fleet.rules.most_per_hour == Some(most) && would > most && would <= all * (1.0 + 1e-9);
                must(holds, || format!("{most} $ an hour may be spent, {would} would be, {all} at most"))
            }
            Because::ReservedClusters { planned, most } => {
                let count = there().count() + planned as usize;
                let holds = planned > 0 && most == self.fleet.most && count >= most as usize;
                must(holds, || {
                    format!("{planned} are planned and {most} may be; with those that are there it is {count}")
                })
            }
            Because::ReservedPerHour { would, planned, most } => {
                let holds = self.fleet.rules.most_per_hour == Some(most) && would > most && would - planned <= most;
                must(holds, || format!("{most} $ an hour may be spent, {would} would be, {planned} of it for plans"))
            }
            _ => Ok(()),
        }
    }
}

/// Dollars an hour.
fn hourly(spec: &Spec) -> f64 {
    spec.price.cost(spec.units, Span::from_secs(3_600))
}
