//! How many clusters there are: what triggers a start, what is started, what is stopped (AutoSLO, section 6).
//!
//! ```text
//!   arrivals, ends ──▶ window ──▶ trigger: too many late? ──▶ study: what would each size change? ──▶ start
//!                                        idle for long enough? ─────────────────────────────────────▶ drain
//! ```
//!
//! A study takes a simulation, which takes longer than a decision may. So it is a command, and its answer an event; one
//! that comes when the fleet is no longer the one that was asked about is dropped. Nothing is started while a start or a
//! study is in flight.

pub mod burn;
pub mod window;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::billing::dollars;
use crate::cluster::Spec;
use crate::id::{ClusterId, PlanId, StudyId, Units};
use crate::mode::Mode;
use crate::named::named;
use crate::time::{Span, Time};

/// The rules of scaling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// Whether it acts.
    pub mode: Mode,
    /// When a start is considered.
    pub trigger: Trigger,
    /// What is started then.
    pub selector: Selector,
    /// What a study goes by.
    pub studies: Studies,
    /// What may be started and stopped, smallest first. The tables of the configuration that say `elastic`.
    pub offers: Vec<Spec>,
    /// How far back ends are looked at by triggers: w of the paper.
    pub window: Span,
    /// How far back arrivals go that a study lets come again. (The paper has w for this, too; but in five minutes too few
    /// come to tell how heavy the next ones will be, and studies are too hopeful.)
    pub study_window: Span,
    /// Queries that must be seen before they say anything: θ.
    pub observations: u32,
    /// Ends that a study waits for: μ.
    pub completions: u32,
    /// The share of late queries above which a start is considered: τ_trigger.
    pub late_share: f64,
    /// Queries that run or wait from which [`Trigger::QueueDepth`] considers a start.
    pub queue_depth: u32,
    /// How long a cluster is idle before it is stopped: T_idle.
    pub idle: Span,
    /// The same where a token policy routes that stops clusters; neither [`Scaling::idle`] nor [`Scaling::lifetime`] counts there.
    pub standby: Span,
    /// How long a cluster lives at least: T_min_lifetime.
    pub lifetime: Span,
    /// How long a start is expected to take: δ.
    pub start_takes: Span,
    /// Ready clusters that are always kept.
    pub least: u32,
    /// Clusters that there may be, those that start included.
    pub most: u32,
    /// Dollars an hour that all clusters together may cost while they are awake; None: any.
    pub most_per_hour: Option<f64>,
}

impl Default for Scaling {
    /// The paper's settings (section 8.1), switched off.
    fn default() -> Scaling {
        Scaling {
            mode: Mode::Off,
            trigger: Trigger::Combined,
            selector: Selector::AddCluster,
            studies: Studies::Network,
            offers: Vec::new(),
            window: Span::from_secs(300),
            study_window: Span::from_secs(1_800),
            observations: 32,
            completions: 32,
            late_share: 0.05,
            queue_depth: 32,
            idle: Span::from_secs(1_200),
            standby: Span::from_secs(3_000),
            lifetime: Span::from_secs(1_200),
            start_takes: Span::from_secs(300),
            least: 1,
            most: 10,
            most_per_hour: None,
        }
    }
}

/// When a start is considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trigger {
    /// Never.
    None,
    /// When many queries run or wait.
    QueueDepth,
    /// When too many of those that ended were late.
    Observed,
    /// When too many of those that ended were late or of those that run are expected to be.
    Combined,
}

/// What is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Selector {
    /// Nothing.
    None,
    /// Another cluster like the largest that is ready.
    Horizontal,
    /// What a study finds best as the only cluster; the others are stopped when it is ready.
    Vertical,
    /// What a study finds best beside those that are there.
    AddCluster,
}

/// What a study of what to start goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Studies {
    /// The whole predictor.
    Network,
    /// Its estimate of plain sharing, which the networks would correct: a tenth of the work, for simulations of many days in which each
    /// trigger asks for a study.
    Sharing,
}

named! {
    Trigger { None = "none", QueueDepth = "queue_depth", Observed = "observed", Combined = "combined" }
    Selector { None = "none", Horizontal = "horizontal", Vertical = "vertical", AddCluster = "add_cluster" }
}

/// What a study found for one thing that could be done.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prospect {
    /// The offer started, by its place among [`Scaling::offers`]; None: nothing.
    pub offer: Option<u32>,
    /// The size of that.
    pub size: Option<Units>,
    /// The share of queries that would miss their SLO.
    pub late_share: f64,
    /// Dollars until all of them are done.
    pub cost: f64,
}

/// The answer to a study.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// What each offer, and doing nothing, would come to.
    pub prospects: Vec<Prospect>,
}

impl Answer {
    /// The best that could be done: the least excess of the violation rate over `target`, then the least cost; of equals
    /// the largest (AutoSLO, section 2, BestWithTarget; Algorithm 3, lines 30–35). None: nothing is as good as anything.
    pub fn best(&self, target: f64) -> Option<u32> {
        let excess = |prospect: &Prospect| (prospect.late_share - target).max(0.0);
        let key = |prospect: &Prospect| (excess(prospect), prospect.cost);
        let sound =
            self.prospects.iter().filter(|prospect| prospect.late_share.is_finite() && prospect.cost.is_finite());
        let order = |a: &(f64, f64), b: &(f64, f64)| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1));
        let best = sound.clone().map(key).min_by(order)?;
        let of_the_best = sound.filter(|prospect| key(prospect) == best);
        let offers: Option<Vec<u32>> = of_the_best.map(|prospect| prospect.offer).collect();
        offers?.into_iter().max()
    }
}

/// A decision about the fleet, with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaled {
    /// When.
    pub at: Time,
    /// Whether it was acted on: only [`Mode::On`] acts.
    pub mode: Mode,
    /// What was decided.
    pub act: Act,
    /// Why.
    pub because: Because,
    /// What a study said, if one was made.
    pub prospects: Vec<Prospect>,
}

/// What was decided about the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// Find out what to start.
    Study(StudyId),
    /// Start a cluster of that size; which one it became, if it did.
    Start(Units, Option<ClusterId>),
    /// Stop a cluster once what runs there has finished.
    Stop(ClusterId),
    /// Nothing.
    Nothing,
}

/// Why something was decided about the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Because {
    /// So many of so many queries are late or expected to be.
    Late {
        /// Late ones.
        late: u32,
        /// All.
        of: u32,
    },
    /// So many queries run or wait.
    Outstanding(u32),
    /// A query came and found no cluster idle.
    NoneIdle,
    /// Someone asked.
    Asked,
    /// No cluster was there, and a query came.
    NoCluster,
    /// A study found it best.
    Best,
    /// A study found nothing better than nothing.
    NothingBetter,
    /// A cluster was idle for so long.
    Idle(Span),
    /// A larger or smaller one has taken its place.
    Replaced,
    /// It could not be started.
    CouldNotStart,
    /// As many clusters are there as may be.
    MostClusters(u32),
    /// It would cost more an hour than may be spent.
    MostPerHour {
        /// Dollars an hour, with it.
        would: f64,
        /// Dollars an hour that may be spent.
        most: f64,
    },
    /// The answer of a study came when the fleet had changed.
    Stale,
    /// This plan has it at this time.
    Planned(PlanId),
    /// This plan had it at a time that was over when the plan came.
    PlannedBefore(PlanId),
    /// So many clusters more are planned for the time that this one would live at least, and would find no room.
    ReservedClusters {
        /// Planned starts.
        planned: u32,
        /// Clusters that there may be.
        most: u32,
    },
    /// With what is planned for the time that this one would live at least, it would cost more an hour than may be spent.
    ReservedPerHour {
        /// Dollars an hour, with it and with what is planned.
        would: f64,
        /// Of those, dollars an hour for what is planned.
        planned: f64,
        /// Dollars an hour that may be spent.
        most: f64,
    },
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Act::Study(study) => write!(f, "study {study}: what should be started?"),
            Act::Start(Units(size), Some(cluster)) => write!(f, "start cluster {cluster} of size {size}"),
            Act::Start(Units(size), None) => write!(f, "start a cluster of size {size}"),
            Act::Stop(cluster) => write!(f, "stop cluster {cluster}"),
            Act::Nothing => write!(f, "nothing"),
        }
    }
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Because::Late { late, of } => write!(f, "{late} of {of} queries are late or expected to be"),
            Because::Outstanding(1) => f.write_str("one query runs or waits"),
            Because::Outstanding(queries) => write!(f, "{queries} queries run or wait"),
            Because::NoneIdle => write!(f, "a query came and no cluster was idle"),
            Because::Asked => write!(f, "someone asked"),
            Because::NoCluster => write!(f, "a query came and no cluster was there"),
            Because::Best => write!(f, "of what could be done it keeps SLOs best"),
            Because::NothingBetter => write!(f, "nothing that could be started would do better"),
            Because::Idle(since) => write!(f, "nothing has run there for {since}"),
            Because::CouldNotStart => write!(f, "it could not be started"),
            Because::Replaced => write!(f, "another has taken its place"),
            Because::MostClusters(1) => f.write_str("one cluster is there, as many as may be"),
            Because::MostClusters(most) => write!(f, "{most} clusters are there, as many as may be"),
            Because::MostPerHour { would, most } => {
                write!(f, "the clusters would cost ${} an hour, and ${} may be spent", dollars(*would), dollars(*most))
            }
            Because::Stale => write!(f, "the fleet has changed since the study began"),
            Because::Planned(plan) => write!(f, "plan {plan} has it now"),
            Because::PlannedBefore(plan) => write!(f, "plan {plan} came after the time at which it has it"),
            Because::ReservedClusters { planned: 1, most } => {
                write!(f, "a cluster is planned to start soon, and {most} may be there")
            }
            Because::ReservedClusters { planned, most } => {
                write!(f, "{planned} clusters are planned to start soon, and {most} may be there")
            }
            Because::ReservedPerHour { would, planned, most } => {
                let (would, planned, most) = (dollars(*would), dollars(*planned), dollars(*most));
                write!(
                    f,
                    "the clusters would cost ${would} an hour, ${planned} of it planned to start soon, and ${most} may be spent"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(prospects: &[(Option<u32>, f64, f64)], target: f64) -> Option<u32> {
        let prospect = |&(offer, late_share, cost): &_| Prospect { offer, size: offer.map(Units), late_share, cost };
        Answer { prospects: prospects.iter().map(prospect).collect() }.best(target)
    }

    #[test]
    fn the_target_comes_first_then_the_cost_and_of_equals_the_largest() {
        assert_eq!(best(&[(None, 0.5, 1.0), (Some(0), 0.2, 2.0), (Some(1), 0.04, 9.0)], 0.05), Some(1));
        assert_eq!(best(&[(None, 0.5, 1.0), (Some(0), 0.03, 2.0), (Some(1), 0.0, 9.0)], 0.05), Some(0));
        assert_eq!(
            best(&[(None, 0.5, 1.0), (Some(0), 0.0, 2.0), (Some(2), 0.0, 2.0), (Some(1), 0.0, 2.0)], 0.05),
            Some(2)
        );
    }

    #[test]
    fn nothing_is_started_unless_it_is_strictly_better() {
        assert_eq!(best(&[(None, 0.04, 1.0), (Some(0), 0.0, 2.0)], 0.05), None);
        assert_eq!(best(&[(None, 0.5, 1.0), (Some(0), 0.5, 1.0)], 0.05), None);
        assert_eq!(best(&[], 0.05), None);
        assert_eq!(best(&[(None, 0.5, 1.0), (Some(0), f64::NAN, 0.0)], 0.05), None);
    }

    #[test]
    fn a_budget_of_less_than_a_cent_is_said() {
        let because = Because::MostPerHour { would: 6.0, most: 0.001 };
        assert_eq!(because.to_string(), "the clusters would cost $6.00 an hour, and $0.001 may be spent");
    }

    #[test]
    fn names_read_back() {
        assert_eq!((Trigger::named("combined"), Selector::named("nothing")), (Some(Trigger::Combined), None));
    }
}
