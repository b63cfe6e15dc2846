//! Plans, looked at from the outside: what is started by one was in it, once, and not before its time; and nothing is once it was
//! taken back, or another policy came.
//!
//! Whether a plan was adopted is not known here; what is started by one that was not would not be in any that came.

use punctual_core::event::{Command, Event};
use punctual_core::id::{PlanId, Units};
use punctual_core::mode::Mode;
use punctual_core::plan::Plan;
use punctual_core::policy::Policy;
use punctual_core::scale::{Act, Because, Scaled};
use punctual_core::time::{Span, Time};

use super::watch::must;

/// The plans that have come.
#[derive(Clone, Debug)]
pub(super) struct Plans {
    mode: Mode,
    ground: u64,
    /// How long a start takes.
    takes: Span,
    known: Vec<Known>,
    /// What this step's event took away: timers that are due fire before it.
    before: Option<(Mode, Vec<Known>)>,
    /// This step's event changed what budgets go by, and timers have fired before it.
    pub(super) unsettled: bool,
}

/// A plan with the starts of it that are left.
#[derive(Clone, Debug)]
struct Known {
    id: PlanId,
    until: Time,
    left: Vec<(Time, Units)>,
}

impl Plans {
    pub(super) fn new(policy: &Policy) -> Plans {
        let (mode, ground, takes) = (policy.planning, policy.ground(), policy.scaling.start_takes);
        Plans { mode, ground, takes, known: Vec::new(), before: None, unsettled: false }
    }

    pub(super) fn hear(&mut self, event: &Event) {
        self.before = None;
        let changes = matches!(
            event,
            Event::PolicyAdopted(_)
                | Event::ClusterWanted(_)
                | Event::ClusterStopped { .. }
                | Event::ClusterLost { .. }
                | Event::DrainWanted { .. }
        );
        self.unsettled = changes && !self.known.is_empty();
        match event {
            Event::PlanAdopted(plan) => self.hear_plan(plan),
            Event::PlanDropped => self.before = Some((self.mode, std::mem::take(&mut self.known))),
            Event::PolicyAdopted(policy) => {
                self.before = Some((self.mode, self.known.clone()));
                (self.mode, self.takes) = (policy.planning, policy.scaling.start_takes);
                let ground = policy.ground();
                if ground != std::mem::replace(&mut self.ground, ground) || self.mode == Mode::Off {
                    self.known.clear();
                }
            }
            _ => {}
        }
    }

    fn hear_plan(&mut self, plan: &Plan) {
        if plan.made_for != self.ground {
            return;
        }
        let begins = Time::ZERO + plan.from.since(Time::ZERO + self.takes);
        let fleet = plan.fleet.iter().map(|size| (begins, *size));
        let later = plan.spinups.iter().map(|spinup| (plan.from + spinup.at, spinup.size));
        self.known.push(Known { id: plan.id, until: plan.until, left: fleet.chain(later).collect() });
    }

    /// True if the mode is that of plans, in this step.
    pub(super) fn is_mode(&self, mode: Mode) -> bool {
        mode == self.mode || self.before.as_ref().is_some_and(|(before, _)| *before == mode)
    }

    /// Holds what was started by a plan against it.
    pub(super) fn decided(&mut self, scaled: &Scaled, commands: &[Command]) -> Result<(), String> {
        let (Because::Planned(id), Act::Start(size, cluster)) = (scaled.because, scaled.act) else { return Ok(()) };
        let acts = scaled.mode == Mode::On;
        must(acts == cluster.is_some(), || format!("{scaled:?} is not by the mode"))?;
        let is_it =
            |command: &Command| matches!(command, Command::Start { cluster: started, .. } if Some(*started) == cluster);
        must(!acts || commands.iter().any(is_it), || format!("{scaled:?} has started nothing"))?;
        let gone = self.before.iter_mut().flat_map(|(_, known)| known);
        let plan = self.known.iter_mut().chain(gone).filter(|known| known.id == id && scaled.at < known.until);
        for known in plan {
            if let Some(place) = known.left.iter().position(|(due, units)| *due <= scaled.at && *units == size) {
                known.left.swap_remove(place);
                return Ok(());
            }
        }
        Err(format!("plan {id} does not start {size:?} by {}", scaled.at))
    }
}
