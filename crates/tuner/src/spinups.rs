//! What to start when: starts at set times, where load comes every day (AutoSLO, Algorithm 4, ScheduleSpinups).
//!
//! From each of some configurations it is tried to add one start at a time, for a few rounds. Where to look says
//! [`congestion`](crate::congestion); which size, trying all of them. What is best in a round is kept if it is better than what was; after a
//! moment at which no size helps, the next one is tried, a few times. In the end all that came of it is judged on workloads that
//! it was not chosen on.
//!
//! ```text
//!   configuration ──▶ simulate ──▶ moments of congestion ──▶ × sizes ──▶ simulate ──▶ better? ──▶ keep, and again
//!                                        none: done                          no: the next moment, or done
//! ```
//!
//! All configurations that are still being worked at go through each step together, so that one call simulates as many as there
//! are. (The printed line 4 simulates again what a trial has just simulated; here a round begins with what the last one found. And
//! a size that is clearly no better than none is not simulated on all workloads: each wave is a [race](crate::batch).)

use punctual_core::id::Units;
use punctual_core::time::{Span, Time};
use serde::Serialize;

use crate::batch::{Heat, Race, Racing};
use crate::configuration::{Aggregate, Configuration, Performance, Spinup, best};
use crate::congestion::{Congestion, Lived, moments};

/// What came of one workload under one configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Violations and cost.
    pub performance: Performance,
    /// Its queries, in any order; the workload begins at time zero.
    pub log: Vec<Lived>,
}

/// Which workloads are simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Those to plan with.
    Train,
    /// Those to choose a plan by.
    Validation,
    /// Those by which is said what the plan will come to: nothing was chosen by them.
    Promise,
}

/// Simulates configurations on workloads (AutoSLO, SimulateBatch).
pub trait Simulate {
    /// For each configuration, what came of each workload of the split: the same workloads, with the same luck, each
    /// time. None if it was stopped.
    fn simulate(&mut self, configurations: &[Configuration], split: Split) -> Option<Vec<Vec<Outcome>>>;

    /// The same on the workloads to plan with, except that what clearly loses its heat is left at some of them. One race for each
    /// heat, in their order.
    fn race(&mut self, heats: &[Heat<'_>], racing: Racing) -> Option<Vec<Race>>;
}

/// How starts are looked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// The violation rate that is accepted: τ.
    pub target: f64,
    /// Sizes that may be started. None: nothing is.
    pub sizes: Vec<Units>,
    /// Rounds, and so starts that are added to a configuration: η.
    pub rounds: usize,
    /// Moments that are tried in a round: φ.
    pub attempts: usize,
    /// How workloads are taken together: α.
    pub aggregate: Aggregate,
    /// How long before congestion a cluster is asked for.
    pub lead: Span,
    /// How far apart moments are at least: σ_min.
    pub apart: Span,
    /// Workloads that must be delinquent; None: half of those that there are.
    pub delinquent: Option<usize>,
    /// Clusters that a configuration may have, those from the start included.
    pub most: usize,
}

impl Search {
    /// The paper's settings (η 5, φ 5, lead and distance as long as a start takes).
    pub fn of(target: f64, sizes: Vec<Units>, start_takes: Span) -> Search {
        let (lead, apart) = (start_takes, start_takes);
        let (aggregate, delinquent, most) = (Aggregate::Mean, None, usize::MAX);
        Search { target, sizes, rounds: 5, attempts: 5, aggregate, lead, apart, delinquent, most }
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// What became of each configuration, in their order.
    pub candidates: Vec<Candidate>,
    /// The place of the best among them, on the workloads to judge by.
    pub best: usize,
    /// Configurations that were simulated on the workloads to plan with.
    pub simulated: usize,
}

/// What became of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// With its starts.
    pub configuration: Configuration,
    /// What was added, in the order in which it was.
    pub added: Vec<Added>,
    /// On the workloads to plan with.
    pub train: Performance,
    /// On the workloads to judge by.
    pub validation: Performance,
    /// Why no more was added.
    pub because: Enough,
}

/// A start that was added.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Added {
    /// Which.
    pub spinup: Spinup,
    /// Without it, on the workloads to plan with.
    pub before: Performance,
    /// With it.
    pub after: Performance,
}

/// Why no more is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Enough {
    /// Not too much is late at any moment.
    NoCongestion,
    /// Nothing that was tried is better.
    NothingHelps,
    /// As many have been added as may be.
    Rounds,
    /// There are as many clusters as there may be.
    MostClusters,
    /// Nothing may be started.
    NoSizes,
}

/// Adds starts to configurations. None if there is none, or simulation was stopped.
pub fn schedule(initial: &[Configuration], search: &Search, simulator: &mut dyn Simulate) -> Option<Schedule> {
    let mut simulated = initial.len();
    let outcomes = simulator.simulate(initial, Split::Train)?;
    let mut grown: Vec<Growing> = initial
        .iter()
        .zip(outcomes)
        .map(|(configuration, outcomes)| Growing::new(configuration, outcomes, search))
        .collect();
    for _ in 0..search.rounds {
        grown.iter_mut().for_each(|growing| growing.look(search));
        while grown.iter().any(Growing::is_trying) {
            simulated += wave(&mut grown, search, simulator)?;
        }
    }
    let configurations: Vec<Configuration> = grown.iter().map(|growing| growing.configuration.clone()).collect();
    let judged = simulator.simulate(&configurations, Split::Validation)?;
    let together = |outcomes: &Vec<Outcome>| search.together(outcomes);
    let validation: Vec<Performance> = judged.iter().map(together).collect();
    let best = best(&validation, search.target)?;
    let candidates = grown.into_iter().zip(validation).map(|(growing, validation)| growing.done(validation)).collect();
    Some(Schedule { candidates, best, simulated })
}

/// Tries every size at the moment of each configuration that is trying one; how many were simulated.
fn wave(grown: &mut [Growing], search: &Search, simulator: &mut dyn Simulate) -> Option<usize> {
    let trying = || grown.iter().filter(|growing| growing.is_trying());
    let trials: Vec<Vec<(Spinup, Configuration)>> = trying().map(|growing| growing.trials(search)).collect();
    let tried: Vec<Vec<Configuration>> =
        trials.iter().map(|trials| trials.iter().map(|(_, with)| with.clone()).collect()).collect();
    let heats: Vec<Heat<'_>> = tried
        .iter()
        .zip(trying())
        .map(|(configurations, growing)| Heat { configurations, rival: Some(&growing.outcomes) })
        .collect();
    let races = simulator.race(&heats, Racing::of(search.target))?;
    let trying = grown.iter_mut().filter(|growing| growing.is_trying());
    for ((growing, trials), race) in trying.zip(trials).zip(races) {
        growing.choose(trials.into_iter().zip(race.outcomes).collect(), search);
    }
    Some(tried.iter().map(Vec::len).sum())
}

/// A configuration that is being worked at.
struct Growing {
    configuration: Configuration,
    performance: Performance,
    outcomes: Vec<Outcome>,
    added: Vec<Added>,
    state: State,
}

enum State {
    /// The round is over.
    Waiting,
    /// These moments are left to try, the first one now.
    Trying(Vec<Time>),
    Done(Enough),
}

impl Growing {
    fn new(configuration: &Configuration, outcomes: Vec<Outcome>, search: &Search) -> Growing {
        let state = if search.sizes.is_empty() { State::Done(Enough::NoSizes) } else { State::Waiting };
        let performance = search.together(&outcomes);
        Growing { configuration: configuration.clone(), performance, outcomes, added: Vec::new(), state }
    }

    /// A round begins.
    fn look(&mut self, search: &Search) {
        if !matches!(self.state, State::Waiting) {
            return;
        }
        let logs: Vec<&[Lived]> = self.outcomes.iter().map(|outcome| outcome.log.as_slice()).collect();
        let mut moments = moments(&logs, &search.congestion(logs.len()));
        moments.truncate(search.attempts);
        self.state = match moments.is_empty() {
            true => State::Done(Enough::NoCongestion),
            false if self.configuration.clusters() >= search.most => State::Done(Enough::MostClusters),
            false => State::Trying(moments),
        };
    }

    fn is_trying(&self) -> bool {
        matches!(self.state, State::Trying(_))
    }

    fn trials(&self, search: &Search) -> Vec<(Spinup, Configuration)> {
        let State::Trying(moments) = &self.state else { return Vec::new() };
        let Some(at) = moments.first().map(|at| at.since(Time::ZERO)) else { return Vec::new() };
        let with = |size: &Units| {
            let spinup = Spinup { at, size: *size };
            (spinup, self.configuration.with(spinup))
        };
        search.sizes.iter().map(with).collect()
    }

    /// Keeps the best of what was tried, if it is better than what there was.
    fn choose(&mut self, mut tried: Vec<((Spinup, Configuration), Vec<Outcome>)>, search: &Search) {
        // What was left at some workloads has lost.
        tried.retain(|(_, outcomes)| outcomes.len() == self.outcomes.len());
        let performances = tried.iter().map(|(_, outcomes)| search.together(outcomes));
        let all: Vec<Performance> = std::iter::once(self.performance).chain(performances).collect();
        let chosen = best(&all, search.target).and_then(|place| place.checked_sub(1));
        match chosen.and_then(|place| tried.into_iter().nth(place).map(|trial| (all[place + 1], trial))) {
            Some((after, ((spinup, configuration), outcomes))) => {
                self.added.push(Added { spinup, before: self.performance, after });
                (self.configuration, self.performance, self.outcomes) = (configuration, after, outcomes);
                self.state = State::Waiting;
            }
            None => {
                if let State::Trying(moments) = &mut self.state {
                    moments.remove(0);
                    if moments.is_empty() {
                        self.state = State::Done(Enough::NothingHelps);
                    }
                }
            }
        }
    }

    fn done(self, validation: Performance) -> Candidate {
        let because = if let State::Done(because) = self.state { because } else { Enough::Rounds };
        let Growing { configuration, performance: train, added, .. } = self;
        Candidate { configuration, added, train, validation, because }
    }
}

impl Search {
    fn together(&self, outcomes: &[Outcome]) -> Performance {
        self.aggregate.of(outcomes.iter().map(|outcome| outcome.performance))
    }

    fn congestion(&self, workloads: usize) -> Congestion {
        let of = self.delinquent.unwrap_or(workloads.div_ceil(2)).max(1);
        Congestion { share: self.target, workloads: of, lead: self.lead, apart: self.apart }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::Knobs;
    use punctual_core::policy::Policy;

    /// A day of an hour in which a burst of late queries comes at each of these seconds, unless a cluster of that size has been
    /// started 100 s before at the latest, and not more than 600 s before. A unit costs a dollar.
    struct Bursts {
        at: Vec<(u64, u32)>,
        calls: Vec<(usize, Split)>,
    }

    impl Simulate for Bursts {
        fn simulate(&mut self, configurations: &[Configuration], split: Split) -> Option<Vec<Vec<Outcome>>> {
            self.calls.push((configurations.len(), split));
            Some(configurations.iter().map(|configuration| vec![self.outcome(configuration); 2]).collect())
        }

        fn race(&mut self, heats: &[Heat<'_>], _: Racing) -> Option<Vec<Race>> {
            let all = heats.iter().map(|heat| self.simulate(heat.configurations, Split::Train));
            all.map(|outcomes| Some(Race { outcomes: outcomes?, best: None, spared: 0 })).collect()
        }
    }

    impl Bursts {
        fn outcome(&self, configuration: &Configuration) -> Outcome {
            let helped = |(at, size): &(u64, u32)| {
                let in_time = |spinup: &Spinup| {
                    let at_second = spinup.at.micros() / 1_000_000;
                    spinup.size.0 >= *size && (at_second + 100..=at_second + 600).contains(at)
                };
                configuration.spinups.iter().any(in_time) || configuration.fleet.iter().any(|units| units.0 >= 64)
            };
            let at = |second: u64| Time::ZERO + Span::from_secs(second);
            let mut log: Vec<Lived> = (0..60)
                .map(|minute| Lived { arrived: at(60 * minute), ended: at(60 * minute + 50), late: false })
                .collect();
            let late = self.at.iter().filter(|burst| !helped(burst));
            log.extend(late.map(|(second, _)| Lived { arrived: at(*second), ended: at(second + 40), late: true }));
            let violation_rate = log.iter().filter(|lived| lived.late).count() as f64 / log.len() as f64;
            let units = |sizes: &mut dyn Iterator<Item = Units>| sizes.map(|units| f64::from(units.0)).sum::<f64>();
            let cost = units(&mut configuration.fleet.iter().copied())
                + units(&mut configuration.spinups.iter().map(|spinup| spinup.size));
            Outcome { performance: Performance { violation_rate, cost }, log }
        }
    }

    fn start(fleet: &[u32]) -> Configuration {
        let fleet = fleet.iter().copied().map(Units).collect();
        Configuration { fleet, spinups: Vec::new(), knobs: Knobs::of(&Policy::default()) }
    }

    fn search(target: f64) -> Search {
        Search::of(target, vec![Units(4), Units(16)], Span::from_secs(300))
    }

    #[test]
    fn a_start_is_added_for_each_congestion_of_the_least_size_that_helps() {
        let mut world = Bursts { at: vec![(1_000, 4), (2_000, 16)], calls: Vec::new() };
        let found = schedule(&[start(&[8])], &search(0.0), &mut world).expect("not stopped");
        let candidate = &found.candidates[0];
        let added: Vec<_> = candidate.configuration.spinups.iter().map(|s| (s.at.secs_f64(), s.size.0)).collect();
        assert_eq!(added, [(700.0, 4), (1_700.0, 16)]);
        assert_eq!((candidate.validation.violation_rate, candidate.because), (0.0, Enough::NoCongestion));
        assert_eq!(candidate.added.len(), 2);
        assert!(candidate.added[0].before.violation_rate > candidate.added[0].after.violation_rate);
        // As it was, two sizes in each of two rounds; then it is judged.
        assert_eq!(world.calls, [(1, Split::Train), (2, Split::Train), (2, Split::Train), (1, Split::Validation)]);
        assert_eq!(found.simulated, 5);
    }

    #[test]
    fn where_nothing_helps_the_next_moment_is_tried_and_then_it_is_enough() {
        let mut world = Bursts { at: vec![(1_000, 99), (2_000, 16)], calls: Vec::new() };
        let found = schedule(&[start(&[8])], &search(0.0), &mut world).expect("not stopped");
        let candidate = &found.candidates[0];
        assert_eq!(candidate.configuration.spinups, [Spinup { at: Span::from_secs(1_700), size: Units(16) }]);
        assert_eq!(candidate.because, Enough::NothingHelps);
    }

    #[test]
    fn the_best_is_chosen_by_what_it_was_not_chosen_on_and_the_target_comes_before_cost() {
        let mut world = Bursts { at: vec![(1_000, 99)], calls: Vec::new() };
        let found = schedule(&[start(&[8]), start(&[64])], &search(0.0), &mut world).expect("not stopped");
        assert_eq!((found.best, found.candidates[1].because), (1, Enough::NoCongestion));
        // A fraction of late queries is accepted: then the cheap one is better.
        let found = schedule(&[start(&[8]), start(&[64])], &search(0.1), &mut world).expect("not stopped");
        assert_eq!(found.best, 0);
    }

    #[test]
    fn bounds_hold_and_what_is_stopped_gives_nothing() {
        let at: Vec<(u64, u32)> = (1..9).map(|number| (400 * number, 4)).collect();
        let mut world = Bursts { at, calls: Vec::new() };
        let few = Search { rounds: 2, ..search(0.0) };
        let found = schedule(&[start(&[8])], &few, &mut world).expect("not stopped");
        assert_eq!((found.candidates[0].added.len(), found.candidates[0].because), (2, Enough::Rounds));
        let full = Search { most: 3, ..search(0.0) };
        let found = schedule(&[start(&[8])], &full, &mut world).expect("not stopped");
        assert_eq!((found.candidates[0].added.len(), found.candidates[0].because), (2, Enough::MostClusters));
        let none = Search { sizes: Vec::new(), ..search(0.0) };
        let found = schedule(&[start(&[8])], &none, &mut world).expect("not stopped");
        assert_eq!(found.candidates[0].because, Enough::NoSizes);
        assert_eq!(schedule(&[], &search(0.0), &mut world), None);
        struct Stopped;
        impl Simulate for Stopped {
            fn simulate(&mut self, _: &[Configuration], _: Split) -> Option<Vec<Vec<Outcome>>> {
                None
            }

            fn race(&mut self, _: &[Heat<'_>], _: Racing) -> Option<Vec<Race>> {
                None
            }
        }
        assert_eq!(schedule(&[start(&[8])], &search(0.0), &mut Stopped), None);
    }

    #[test]
    fn what_is_started_at_the_beginning_is_there_from_the_beginning() {
        let configuration = start(&[8]).with(Spinup { at: Span::ZERO, size: Units(4) });
        assert_eq!((configuration.fleet, configuration.spinups), (vec![Units(4), Units(8)], vec![]));
    }
}
