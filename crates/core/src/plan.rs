//! A plan of a day: the clusters that it begins with, starts at set times, and the knobs that hold for it (AutoSLO, section 7).
//!
//! ```text
//!        start_takes        from                                             until
//!   ────├───────────────────┤·····│···········│··························────┤────────
//!       └ the day's fleet         └ start     └ start
//!                           ├──────────── the plan's knobs ──────────────────┤ those of before
//! ```
//!
//! A plan is made by simulation from history, elsewhere, and it is a proposal until an event adopts it. It says for what it was
//! made, and where that is no longer so, it is refused: what was good for other clusters, prices or SLOs may be bad for these.

use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};

use crate::id::{ClusterId, PlanId, Units};
use crate::mode::Mode;
use crate::policy::Policy;
use crate::route::Counting;
use crate::scale::{Because, Scaling};
use crate::time::{Span, Time};

/// The most clusters that one plan starts.
pub const MOST_STARTS: usize = 256;

/// The most plans that are followed or wait for their day.
pub const MOST_PLANS: usize = 4;

/// How long after a day's beginning the clusters are still started that it should have begun with.
pub const FLEET_UNTIL: Span = Span::from_secs(3_600);

/// A plan of a day.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Which. Not part of its file, of which it is a hash.
    #[serde(default)]
    pub id: PlanId,
    /// When the day begins.
    pub from: Time,
    /// When it ends.
    pub until: Time,
    /// Sizes of the elastic clusters that there should be when the day begins, smallest first.
    pub fleet: Vec<Units>,
    /// Clusters that are started later, in the order of time. With the fleet, at most [`MOST_STARTS`].
    pub spinups: Vec<Spinup>,
    /// The knobs, for that day.
    pub knobs: Knobs,
    /// The [`Policy::ground`] that it was made for.
    pub made_for: u64,
}

/// A start at a set time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Spinup {
    /// When it is asked for, from the beginning of the day. It takes queries a start's time later.
    pub at: Span,
    /// Its size.
    pub size: Units,
}

/// What the tuner may turn (AutoSLO, section 7.5, and when routing counts a query as late).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knobs {
    /// How long a cluster lives at least: T_min_lifetime.
    pub lifetime: Span,
    /// How long it is idle before it is stopped: T_idle.
    pub idle: Span,
    /// Queries that must be seen before they say anything: θ.
    pub observations: u32,
    /// How far back ends are looked at: w.
    pub window: Span,
    /// Ends that a study waits for: μ.
    pub completions: u32,
    /// The share of late queries above which a start is considered: τ_trigger.
    pub late_share: f64,
    /// From when on routing counts a query as late.
    pub counting: Counting,
}

impl Knobs {
    /// As they are in a policy.
    pub fn of(policy: &Policy) -> Knobs {
        let scaling = &policy.scaling;
        Knobs {
            lifetime: scaling.lifetime,
            idle: scaling.idle,
            observations: scaling.observations,
            window: scaling.window,
            completions: scaling.completions,
            late_share: scaling.late_share,
            counting: policy.counting,
        }
    }

    /// The policy with these knobs, and all else as it was.
    pub fn turned(&self, policy: &Policy) -> Policy {
        let mut policy = policy.clone();
        self.turn(&mut policy);
        policy
    }

    /// Turns a policy's knobs to these.
    pub fn turn(&self, policy: &mut Policy) {
        policy.counting = self.counting;
        let scaling = &mut policy.scaling;
        (scaling.lifetime, scaling.idle, scaling.window) = (self.lifetime, self.idle, self.window);
        (scaling.observations, scaling.completions) = (self.observations, self.completions);
        scaling.late_share = self.late_share;
    }
}

impl Plan {
    /// The plan with all its starts, none of which has come to anything: the fleet's first, `start_takes` before the day.
    pub(crate) fn followed(self, adopted: Time, start_takes: Span) -> Followed {
        let begins = Time::ZERO + self.from.since(Time::ZERO + start_takes);
        let fleet = self.fleet.iter().map(|size| Planned { at: begins, size: *size, fleet: true, fate: Fate::Waiting });
        let later = self.spinups.iter().map(|spinup| {
            let at = self.from + spinup.at;
            Planned { at, size: spinup.size, fleet: false, fate: Fate::Waiting }
        });
        let starts = fleet.chain(later).collect();
        Followed { adopted, starts, plan: self }
    }
}

/// A plan that is followed, or waits for its day.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Followed {
    /// The plan.
    pub plan: Plan,
    /// When it came.
    pub adopted: Time,
    /// Its starts: those of the fleet that the day begins with, then the others in the order of time.
    pub starts: Vec<Planned>,
}

impl Followed {
    /// Which plan.
    pub fn id(&self) -> PlanId {
        self.plan.id
    }
}

/// A planned start, and what has become of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// When it is due.
    pub at: Time,
    /// Its size.
    pub size: Units,
    /// True if it is one of those that the day begins with: it is only started if it is not there.
    pub fleet: bool,
    /// What has become of it.
    pub fate: Fate,
}

/// What has become of a planned start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Fate {
    /// Its time has not come.
    Waiting,
    /// It was started as this cluster.
    Started(ClusterId),
    /// It would have been started, but plans are only watched.
    Watched,
    /// The day should begin with it, and a cluster of its size was there.
    There,
    /// Its time was over when the plan came.
    Missed,
    /// There was no room for it.
    Refused(Because),
}

impl Fate {
    /// The name that views use.
    pub const fn name(self) -> &'static str {
        match self {
            Fate::Waiting => "waiting",
            Fate::Started(_) => "started",
            Fate::Watched => "watched",
            Fate::There | Fate::Missed => "skipped",
            Fate::Refused(_) => "refused",
        }
    }
}

/// Why it has become of a start what it has.
impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fate::Waiting => f.write_str("its time has not come"),
            Fate::Started(cluster) => write!(f, "cluster {cluster} was started"),
            Fate::Watched => f.write_str("it would have been started; plans are only watched"),
            Fate::There => f.write_str("a cluster of that size was there"),
            Fate::Missed => f.write_str("its time was over when the plan came"),
            Fate::Refused(because) => because.fmt(f),
        }
    }
}

/// What has become of a plan that is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Concluded {
    /// Which.
    pub plan: PlanId,
    /// Since when.
    pub at: Time,
    /// What.
    pub because: Conclusion,
}

/// Why a plan is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Conclusion {
    /// It was refused.
    Refused(PlanRefusal),
    /// An operator took it back.
    Dropped,
    /// Another policy came that it was not made for.
    GroundChanged,
    /// Plans are no longer followed.
    SwitchedOff,
    /// Another plan came for some of its day.
    ReplacedBy(PlanId),
    /// Its day is over.
    Done,
}

impl fmt::Display for Conclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Conclusion::Refused(because) => because.fmt(f),
            Conclusion::Dropped => f.write_str("it was taken back"),
            Conclusion::GroundChanged => f.write_str("another policy came that it was not made for"),
            Conclusion::SwitchedOff => f.write_str("plans are no longer followed"),
            Conclusion::ReplacedBy(plan) => write!(f, "plan {plan} came for its day"),
            Conclusion::Done => f.write_str("its day is over"),
        }
    }
}

/// Why a plan is not adopted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum PlanRefusal {
    /// No plan is followed here.
    Off,
    /// All clusters are to go.
    ShuttingDown,
    /// It is followed, or waits for its day, already.
    Already,
    /// It has no day: it ends before it begins.
    NoDay,
    /// Its day is over.
    Over,
    /// It was made for another policy.
    OtherGround {
        /// What it was made for.
        made_for: u64,
        /// What it should have been made for.
        ground: u64,
    },
    /// It starts a size that nothing offers.
    NoSuchSize(Units),
    /// It starts more clusters than a plan may.
    TooManyStarts(u32),
    /// A start is listed after one that is later.
    OutOfOrder(Span),
    /// A start lies after the end of its day.
    OutsideTheDay(Span),
    /// A knob is turned to what it cannot be: the share of late queries is no share.
    NoShare(f64),
    /// As many plans wait for their days as may.
    TooManyPlans(u32),
}

impl fmt::Display for PlanRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanRefusal::Off => f.write_str("plans are not followed here: plan.mode is off"),
            PlanRefusal::ShuttingDown => f.write_str("the gateway is shutting down"),
            PlanRefusal::Already => f.write_str("it is followed already"),
            PlanRefusal::NoDay => f.write_str("its day ends before it begins"),
            PlanRefusal::Over => f.write_str("its day is over"),
            PlanRefusal::OtherGround { made_for, ground } => {
                write!(f, "it was made for another policy or other clusters ({made_for:016x}, not {ground:016x})")
            }
            PlanRefusal::NoSuchSize(Units(size)) => write!(f, "no elastic cluster has its size {size}"),
            PlanRefusal::TooManyStarts(most) => write!(f, "it starts more than {most} clusters"),
            PlanRefusal::OutOfOrder(at) => write!(f, "its start at {at} is listed after a later one"),
            PlanRefusal::OutsideTheDay(at) => write!(f, "its start at {at} is not within its day"),
            PlanRefusal::NoShare(share) => write!(f, "its late_share {share} is not between 0 and 1"),
            PlanRefusal::TooManyPlans(most) => write!(f, "{most} plans are waiting for their days, as many as may"),
        }
    }
}

impl Policy {
    /// What a plan depends on, as a number: two policies that differ in any of it differ in this. It is the same on every machine,
    /// and may be another in another build.
    ///
    /// Covered are what may be started (sizes, slots, prices) and the budgets; when and what scaling starts and how long that takes;
    /// what routes, and what it goes by; the classes with their rules, SLOs and terms, the accepted violation rate; order, lanes
    /// and limits of admission. Not covered: the [`Knobs`], which a plan turns itself; whether plans are followed; and what only matters
    /// when something goes wrong or is shown (retries, time limits of starts and drains, pins, cancelling, evidence). What is not
    /// in a policy at all, it cannot cover: the clusters that are there for good, the model, and history.
    pub fn ground(&self) -> u64 {
        let Policy {
            routing: _,
            routing_mode: _,
            baseline: _,
            counting: _,
            classes,
            violation_target,
            order,
            half_life,
            lanes,
            max_running,
            adaptive,
            max_waiting,
            wait_limit,
            control_slots: _,
            pin_idle: _,
            cancel_grace: _,
            drain_limit: _,
            start_limit: _,
            retry_first: _,
            retry_most: _,
            decisions_kept: _,
            min_modelled,
            max_clusters,
            scaling,
            planning: _,
        } = self;
        let admission = (order, half_life, lanes, max_running, adaptive, max_waiting, wait_limit);
        let mut hash = Fnv::default();
        // What is derived writes every field, and every number so that it reads back; so what differs is written differently.
        let written = write!(
            hash,
            "{:?} {min_modelled:?} {classes:?} {violation_target:?} {admission:?} {max_clusters:?} {:?}",
            self.routes_by(),
            of_scaling(scaling)
        );
        debug_assert!(written.is_ok());
        hash.0
    }
}

/// What of the rules of scaling a plan depends on.
fn of_scaling(rules: &Scaling) -> impl fmt::Debug {
    let Scaling {
        mode,
        trigger,
        selector,
        studies,
        offers,
        window: _,
        study_window,
        observations: _,
        completions: _,
        late_share: _,
        queue_depth,
        idle: _,
        standby,
        lifetime: _,
        start_takes,
        least,
        most,
        most_per_hour,
    } = rules;
    let scales =
        (*mode == Mode::On, trigger, selector, studies, offers, study_window, queue_depth, standby, start_takes);
    (scales, (least, most, most_per_hour))
}

/// FNV-1a over what is written to it.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = text.bytes().fold(self.0, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
