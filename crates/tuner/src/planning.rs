//! A day is planned: what to have from the start, what to start when, which knobs (AutoSLO, section 7).
//!
//! ```text
//!   each size alone ┐
//!   as it is today  ┴─▶ scheduled starts ─▶ the best ─▶ its knobs ─▶ the best ─▶ what it promises
//!       workloads:          to plan with, to choose by                          others
//! ```
//!
//! What was chosen because it looked good on some workloads looks better there than it is. So what a plan promises, beside what today's
//! configuration would come to, is measured on workloads by which nothing was chosen; the interval is that of one day, not of the mean.

use std::fmt;

use punctual_core::id::Units;
use serde::{Deserialize, Serialize};

use crate::configuration::{Configuration, Performance};
use crate::search::{Judged, Tuned, Tuning, tune};
use crate::spinups::{Candidate, Enough, Outcome, Schedule, Search, Simulate, Split, schedule};

/// What is asked of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// As it is today.
    pub today: Configuration,
    /// Clusters that are there whatever is planned. They are in no configuration, and whoever simulates adds them.
    pub fixed: usize,
    /// How starts are looked for.
    pub search: Search,
    /// How knobs are; None: they stay as they are.
    pub tuning: Option<Tuning>,
}

/// A plan, and how it came about.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// What is proposed.
    pub configuration: Configuration,
    /// What that is expected to come to.
    pub promise: Promise,
    /// What today's configuration would come to on the same workloads.
    pub today: Promise,
    /// What became of each initial configuration: each size alone, then today's.
    pub candidates: Vec<Candidate>,
    /// Which of them the knobs were turned of.
    pub chosen: usize,
    /// The knobs that were judged, the best first. None: they stayed as they are.
    pub tuned: Option<Tuned>,
    /// Configurations that were simulated.
    pub simulated: usize,
    /// Why the plan does not meet the target, or might not; empty if it does.
    pub limits: Vec<Limit>,
}

/// What something is expected to come to on a day.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Promise {
    /// The share of queries with an SLO that miss it.
    pub violation_rate: Expected,
    /// Dollars.
    pub cost: Expected,
    /// Workloads that this stands on.
    pub workloads: usize,
}

/// A number that is not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    /// Its mean over workloads.
    pub mean: f64,
    /// That of a single day lies between these, nine times of ten: the interval of one more draw of a normal distribution, by Student's t.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Why a plan does not meet its target, or might not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Limit {
    /// Nothing that was simulated meets it; this is the best.
    Infeasible {
        /// The least violation rate that was found, on the workloads to choose by.
        least: f64,
    },
    /// It is met on the workloads to choose by, and not on the others.
    MissedOnOthers,
    /// It is met in the mean, and a single day may well miss it.
    Narrow,
    /// Nothing may be started.
    NoSizes,
    /// As many clusters are there as may be.
    MostClusters,
    /// As many starts were added as are tried.
    MostStarts,
    /// What is late is so now here, now there: at no moment in half of the workloads, so no start at a set time helps.
    Scattered,
    /// More starts do not help where too much is late: what is late there is so on the largest fleet that was tried, or a start takes too
    /// long.
    NothingHelps,
}

/// Plans a day. None if simulation was stopped, or there is nothing to simulate.
pub fn plan(asked: &Asked, simulator: &mut dyn Simulate) -> Option<Planned> {
    let initial = asked.initial();
    let Schedule { candidates, best: chosen, mut simulated } = schedule(&initial, &asked.search, simulator)?;
    let scheduled = candidates.get(chosen)?;
    let tuned = match &asked.tuning {
        Some(tuning) => Some(tune(&scheduled.configuration, tuning, simulator)?),
        None => None,
    };
    simulated += tuned.as_ref().map_or(0, |tuned| tuned.simulated);
    let choice = match tuned.as_ref().and_then(|tuned| tuned.judged.first()) {
        Some(judged) => judged.clone(),
        None => Judged {
            configuration: scheduled.configuration.clone(),
            train: scheduled.train,
            validation: scheduled.validation,
        },
    };
    let both = [choice.configuration.clone(), asked.today.clone()];
    let mut outcomes = simulator.simulate(&both, Split::Promise)?.into_iter().map(|outcomes| Promise::of(&outcomes));
    let (promise, today) = (outcomes.next()?, outcomes.next()?);
    let limits = limits(asked.search.target, &choice, &promise, scheduled.because);
    Some(Planned { configuration: choice.configuration, promise, today, candidates, chosen, tuned, simulated, limits })
}

impl Asked {
    /// Where the search for starts begins: each size alone, beside those that are there anyway; these only; and today's.
    fn initial(&self) -> Vec<Configuration> {
        let with = |fleet: Vec<Units>| Configuration { fleet, spinups: Vec::new(), knobs: self.today.knobs };
        let mut all: Vec<Configuration> = Vec::new();
        if self.search.most > 0 {
            all.extend(self.search.sizes.iter().map(|size| with(vec![*size])));
        }
        if self.fixed > 0 {
            all.push(with(Vec::new()));
        }
        if !all.contains(&self.today) {
            all.push(self.today.clone());
        }
        all
    }
}

fn limits(target: f64, choice: &Judged, promise: &Promise, because: Enough) -> Vec<Limit> {
    let mut limits = Vec::new();
    let Performance { violation_rate: least, .. } = choice.validation;
    if least > target {
        limits.push(Limit::Infeasible { least });
    } else if promise.violation_rate.mean > target {
        limits.push(Limit::MissedOnOthers);
    } else if promise.violation_rate.high > target {
        limits.push(Limit::Narrow);
        return limits;
    } else {
        return limits;
    }
    limits.extend(match because {
        Enough::NoCongestion => Some(Limit::Scattered),
        Enough::NothingHelps => Some(Limit::NothingHelps),
        Enough::Rounds => Some(Limit::MostStarts),
        Enough::MostClusters => Some(Limit::MostClusters),
        Enough::NoSizes => Some(Limit::NoSizes),
    });
    limits
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Infeasible { least } => {
                write!(f, "nothing that was tried meets the target; the best has {:.1} % late", 100.0 * least)
            }
            Limit::MissedOnOthers => f.write_str("the target is met on the workloads by which it was chosen, and not on others"),
            Limit::Narrow => f.write_str("the target is met in the mean; a single day may well miss it"),
            Limit::NoSizes => f.write_str("nothing may be started"),
            Limit::MostClusters => f.write_str("as many clusters are there as may be"),
            Limit::MostStarts => f.write_str("as many starts were added as are tried"),
            Limit::Scattered => f.write_str("what is late is so at no moment in half of the workloads, so no start at a set time helps"),
            Limit::NothingHelps => f.write_str("another start does not help where too much is late: it is so on the largest fleet that was tried, or a start takes too long"),
        }
    }
}

impl Promise {
    /// Of what came of some workloads.
    pub fn of(outcomes: &[Outcome]) -> Promise {
        let of = |value: fn(&Performance) -> f64| {
            let values: Vec<f64> = outcomes.iter().map(|outcome| value(&outcome.performance)).collect();
            Expected::of(&values)
        };
        let (violation_rate, cost) = (of(|one| one.violation_rate), of(|one| one.cost));
        Promise { violation_rate, cost, workloads: outcomes.len() }
    }
}

impl Expected {
    /// One more like these, none of which is below zero. Of one value nothing is known but that; of none, not even that.
    pub fn of(values: &[f64]) -> Expected {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count.max(1.0);
        let Some(degrees) = values.len().checked_sub(2) else {
            return Expected { mean, low: 0.0, high: f64::MAX };
        };
        let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / (count - 1.0);
        let t = T.get(degrees).copied().unwrap_or(1.70);
        let off = t * (variance * (1.0 + 1.0 / count)).sqrt();
        Expected { mean, low: (mean - off).max(0.0), high: mean + off }
    }

    /// True if it lies in the interval.
    pub fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// Student's t that is exceeded one time of twenty, for 1 degree of freedom and more.
const T: [f64; 20] = [
    6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771, 1.761, 1.753, 1.746,
    1.740, 1.734, 1.729, 1.725,
];

#[cfg(test)]
mod tests {
    use punctual_core::policy::Policy;

    use super::*;
    use crate::batch::{Heat, Race, Racing};
    use crate::configuration::{Knobs, Spinup};
    use crate::congestion::Lived;
    use crate::search::{Space, Strategy};
    use punctual_core::time::{Span, Time};

    /// A day on which one query of four is late from the thousandth second on, unless 32 units are there by then; every unit costs a
    /// dollar. Workloads by which nothing is chosen are worse by `hopeful`.
    struct Noon {
        hopeful: f64,
    }

    impl Noon {
        fn outcome(&self, configuration: &Configuration, split: Split, number: usize) -> Outcome {
            let at = |second: u64| Time::ZERO + Span::from_secs(second);
            let in_time = |spinup: &&Spinup| spinup.at <= Span::from_secs(700);
            let started = configuration.spinups.iter().filter(in_time).map(|spinup| spinup.size.0);
            let units: u32 = configuration.fleet.iter().map(|units| units.0).chain(started).sum();
            let is_late = |second: u64| units < 32 && second >= 1_000 && second.is_multiple_of(40);
            let log: Vec<Lived> = (0..200)
                .map(|number| Lived {
                    arrived: at(10 * number),
                    ended: at(10 * number + 5),
                    late: is_late(10 * number),
                })
                .collect();
            let late = log.iter().filter(|lived| lived.late).count() as f64 / log.len() as f64;
            let off = if split == Split::Promise { self.hopeful } else { 0.0 } + 0.001 * number as f64;
            let impatience = if configuration.knobs.observations == 16 { 0.01 } else { 0.02 };
            let paid = (configuration.fleet.len() + configuration.spinups.len()) as f64 + impatience;
            let performance = Performance { violation_rate: late + off + impatience, cost: f64::from(units) + paid };
            Outcome { performance, log }
        }
    }

    impl Simulate for Noon {
        fn simulate(&mut self, configurations: &[Configuration], split: Split) -> Option<Vec<Vec<Outcome>>> {
            let all = |one: &Configuration| (0..4).map(|number| self.outcome(one, split, number)).collect();
            Some(configurations.iter().map(all).collect())
        }

        fn race(&mut self, heats: &[Heat<'_>], _: Racing) -> Option<Vec<Race>> {
            let all = heats.iter().map(|heat| self.simulate(heat.configurations, Split::Train));
            all.map(|outcomes| Some(Race { outcomes: outcomes?, best: None, spared: 0 })).collect()
        }
    }

    fn asked(target: f64) -> Asked {
        let knobs = Knobs { observations: 32, ..Knobs::of(&Policy::default()) };
        let today = Configuration { fleet: vec![Units(16)], spinups: Vec::new(), knobs };
        let search = Search::of(target, vec![Units(16), Units(64)], Span::from_secs(300));
        let space = Space { observations: vec![16, 32], ..Space::default() };
        let tuning = Some(Tuning { space, strategy: Strategy::Grid, ..Tuning::of(target) });
        Asked { today, fixed: 0, search, tuning }
    }

    #[test]
    fn a_start_before_noon_and_the_better_knob_are_proposed_and_promised() {
        let planned = plan(&asked(0.05), &mut Noon { hopeful: 0.0 }).expect("not stopped");
        assert_eq!(planned.configuration.fleet, [Units(16)]);
        assert_eq!(planned.configuration.spinups, [Spinup { at: Span::from_secs(700), size: Units(16) }]);
        assert_eq!(planned.configuration.knobs.observations, 16);
        // Rates are 0.01 and up to 0.003 more: deviation 0.00129, t₃ = 2.353.
        let rate = planned.promise.violation_rate;
        assert!((rate.mean - 0.0115).abs() < 1e-9 && (rate.high - 0.0115 - 0.003_397).abs() < 1e-5, "{rate:?}");
        assert!(rate.holds(0.0115) && !rate.holds(0.02));
        assert!((planned.today.violation_rate.mean - 0.1465).abs() < 1e-9, "{:?}", planned.today);
        assert_eq!((planned.limits, planned.promise.workloads), (vec![], 4));
        // Each size alone; today's is one of them.
        assert_eq!((planned.candidates.len(), planned.chosen), (2, 0));
    }

    #[test]
    fn what_cannot_be_reached_is_said_with_what_limits_it() {
        let limits = |asked: &Asked, hopeful| plan(asked, &mut Noon { hopeful }).expect("not stopped").limits;
        let least = match limits(&asked(0.005), 0.0)[..] {
            [Limit::Infeasible { least }, Limit::Scattered] => least,
            ref other => panic!("{other:?}"),
        };
        assert!((least - 0.0115).abs() < 1e-9);
        let few = asked(0.05);
        let few = Asked { search: Search { most: 1, sizes: vec![Units(16)], ..few.search.clone() }, ..few };
        assert!(matches!(limits(&few, 0.0)[..], [Limit::Infeasible { .. }, Limit::MostClusters]));
        let none = asked(0.05);
        let none = Asked { search: Search { sizes: Vec::new(), ..none.search.clone() }, ..none };
        assert!(matches!(limits(&none, 0.0)[..], [Limit::Infeasible { .. }, Limit::NoSizes]));
        // Looked good, and does not hold elsewhere; or holds in the mean.
        assert!(matches!(limits(&asked(0.05), 0.05)[..], [Limit::MissedOnOthers, Limit::Scattered]));
        assert!(matches!(limits(&asked(0.013), 0.0)[..], [Limit::Narrow]));
    }

    #[test]
    fn where_clusters_are_there_for_good_nothing_else_need_be() {
        let fixed = Asked { fixed: 1, ..asked(0.05) };
        let fleets: Vec<Vec<u32>> =
            fixed.initial().iter().map(|one| one.fleet.iter().map(|units| units.0).collect()).collect();
        assert_eq!(fleets, [vec![16], vec![64], vec![]]);
        assert_eq!(asked(0.05).initial().len(), 2);
    }

    #[test]
    fn of_one_workload_nothing_is_known_but_that() {
        assert_eq!(Expected::of(&[0.25]), Expected { mean: 0.25, low: 0.0, high: f64::MAX });
        assert_eq!(Expected::of(&[2.0, 2.0]), Expected { mean: 2.0, low: 2.0, high: 2.0 });
    }
}
