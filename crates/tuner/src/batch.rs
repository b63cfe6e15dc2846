//! Many configurations on many workloads, on all cores (AutoSLO, section 7.3, SimulateBatch).
//!
//! Each simulation is a rehearsal: the dispatcher that runs live, with the configuration's clusters, starts and knobs. Workloads, and
//! the luck of their queries, are the same for all configurations, so differences between these are known better than what
//! they come to. Which thread simulates what, and how many there are, changes nothing: results are put where they belong.
//!
//! **Racing.** [`Simulate::race`] leaves out what cannot win any more. Configurations race in heats. After each round of workloads every
//! one is compared with the best so far of its heat, workload by workload. It is out if it is worse with 99 % certainty (Student's t of the paired differences): if it
//! exceeds the target, and has more violations; or if the best meets the target, and it costs more. (That goes by means, whatever workloads are taken together by afterwards.) A round begins when all
//! of the last one are done, so this does not depend on threads either.
//!
//! ```text
//!   workloads  1  2  3  4 │ 5  6 │ 7  8 │ …
//!   a          ■  ■  ■  ■ │ ■  ■ │ ■  ■ │
//!   b          ■  ■  ■  ■ │ out
//!   c          ■  ■  ■  ■ │ ■  ■ │ out
//! ```
//!
//! Memory: a run's queries as 24 bytes each are kept (64 configurations × 12 workloads × 1,400 queries are 26 MB), and all that
//! there is of one simulation for each thread.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use punctual_core::cluster::Spec;
use punctual_core::id::Units;
use punctual_sim::rehearsal::{Rehearsal, Rehearsed};
use punctual_sim::workload::Arrival;
use punctual_sim::world::compute::Make;

use crate::configuration::{Aggregate, Configuration, Performance, Spinup, best};
use crate::congestion::Lived;
use crate::spinups::{Outcome, Simulate, Split};

/// What is the same for all configurations.
#[derive(Clone, Debug)]
pub struct Common {
    /// The rules, what predicts, and what clusters are. Its fleet is there whatever the configuration.
    pub rehearsal: Rehearsal,
    /// What a cluster of each size is; the first of a size counts. Configurations with other sizes are refused.
    pub sizes: Vec<Spec>,
    /// Workloads to plan with, each in the order of time.
    pub train: Vec<Vec<Arrival>>,
    /// Workloads to choose by.
    pub validation: Vec<Vec<Arrival>>,
    /// Workloads to say by what the choice will come to.
    pub promise: Vec<Vec<Arrival>>,
}

/// Simulations, and how they are run.
pub struct Batch<'a> {
    /// What is the same for all configurations.
    pub common: &'a Common,
    /// How many threads simulate; one at least.
    pub threads: usize,
    /// Set: no more is simulated, and what was asked for has no answer.
    pub stop: &'a AtomicBool,
    /// Is told how many simulations of this call are done, of how many.
    pub tell: &'a (dyn Fn(usize, usize) + Sync),
}

/// Configurations that race with each other, and with one of which all is known.
#[derive(Clone, Copy, Debug)]
pub struct Heat<'a> {
    /// Those that are simulated.
    pub configurations: &'a [Configuration],
    /// What came of another one, on the same workloads.
    pub rival: Option<&'a [Outcome]>,
}

/// What came of a heat.
#[derive(Clone, Debug, PartialEq)]
pub struct Race {
    /// For each configuration, what came of the workloads that it was simulated on: all of them, or the first ones.
    pub outcomes: Vec<Vec<Outcome>>,
    /// The best of those that were simulated on all; None if that is the rival, or there is none.
    pub best: Option<usize>,
    /// Simulations that were left out.
    pub spared: usize,
}

/// How a race is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Racing {
    /// The violation rate that is accepted.
    pub target: f64,
    /// Workloads of the first round; two at least.
    pub first: usize,
    /// Workloads of each later one; one at least.
    pub then: usize,
}

impl Racing {
    /// Four workloads, then two at a time.
    pub fn of(target: f64) -> Racing {
        Racing { target, first: 4, then: 2 }
    }
}

impl Simulate for Batch<'_> {
    fn simulate(&mut self, configurations: &[Configuration], split: Split) -> Option<Vec<Vec<Outcome>>> {
        let workloads = self.common.of(split);
        let jobs: Vec<(usize, usize)> = (0..configurations.len())
            .flat_map(|configuration| (0..workloads.len()).map(move |workload| (configuration, workload)))
            .collect();
        let mut outcomes = self.run(configurations, split, &jobs)?.into_iter();
        Some(configurations.iter().map(|_| outcomes.by_ref().take(workloads.len()).collect()).collect())
    }

    fn race(&mut self, heats: &[Heat<'_>], racing: Racing) -> Option<Vec<Race>> {
        let all: Vec<Configuration> = heats.iter().flat_map(|heat| heat.configurations.iter().cloned()).collect();
        let mut next = 0;
        let mut courses: Vec<Course<'_>> = heats.iter().map(|heat| Course::of(heat, &mut next)).collect();
        let workloads = self.common.of(Split::Train).len();
        let mut done = 0;
        while done < workloads {
            let round = if done == 0 { racing.first.max(2) } else { racing.then.max(1) }.min(workloads - done);
            let running = courses.iter().flat_map(|course| course.running.iter().map(|one| course.first + one));
            let jobs: Vec<(usize, usize)> =
                running.flat_map(|one| (done..done + round).map(move |workload| (one, workload))).collect();
            let mut outcomes = self.run(&all, Split::Train, &jobs)?.into_iter();
            done += round;
            courses.iter_mut().for_each(|course| course.go_on(&mut outcomes, round, workloads - done, racing.target));
        }
        Some(courses.into_iter().map(|course| course.race).collect())
    }
}

/// A heat that is being run.
struct Course<'a> {
    rival: Option<&'a [Outcome]>,
    /// The place of its first configuration among those of all heats.
    first: usize,
    /// Those that are not out, by their places in the heat.
    running: Vec<usize>,
    race: Race,
}

impl<'a> Course<'a> {
    fn of(heat: &Heat<'a>, next: &mut usize) -> Course<'a> {
        let (count, first) = (heat.configurations.len(), *next);
        *next += count;
        let race = Race { outcomes: vec![Vec::new(); count], best: None, spared: 0 };
        Course { rival: heat.rival, first, running: (0..count).collect(), race }
    }

    /// Takes as many outcomes for each that is running as a round has, and drops who is beaten by then. `left`: workloads that are
    /// still to come.
    fn go_on(&mut self, outcomes: &mut impl Iterator<Item = Outcome>, round: usize, left: usize, target: f64) {
        for one in &self.running {
            self.race.outcomes[*one].extend(outcomes.by_ref().take(round));
        }
        let Some(done) = self.running.first().map(|one| self.race.outcomes[*one].len()) else { return };
        let rival = self.rival.map(|rival| &rival[..done.min(rival.len())]);
        let racers: Vec<&[Outcome]> =
            self.running.iter().map(|one| self.race.outcomes[*one].as_slice()).chain(rival).collect();
        let means: Vec<Performance> = racers.iter().map(|outcomes| mean(outcomes)).collect();
        let Some(leader) = best(&means, target) else { return };
        self.race.best = self.running.get(leader).copied();
        let stays: Vec<bool> = racers
            .iter()
            .enumerate()
            .map(|(at, racer)| at == leader || !is_beaten(racer, racers[leader], target))
            .collect();
        let before = self.running.len();
        let mut stays = stays.into_iter();
        self.running.retain(|_| stays.next().unwrap_or(false));
        self.race.spared += (before - self.running.len()) * left;
    }
}

impl Batch<'_> {
    /// Runs each job, a configuration on a workload; outcomes in their order.
    fn run(&self, configurations: &[Configuration], split: Split, jobs: &[(usize, usize)]) -> Option<Vec<Outcome>> {
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let one_thread = || {
            let mut mine: Vec<(usize, Outcome)> = Vec::new();
            while !self.stop.load(Ordering::Relaxed) {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some((configuration, workload)) = jobs.get(at) else { break };
                let go = || !self.stop.load(Ordering::Relaxed);
                let Some(outcome) = self.common.simulate(&configurations[*configuration], split, *workload, &go) else {
                    break;
                };
                mine.push((at, outcome));
                (self.tell)(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
            }
            mine
        };
        let mut results: Vec<(usize, Outcome)> = thread::scope(|scope| {
            let threads = self.threads.clamp(1, jobs.len().max(1));
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(one_thread)).collect();
            // What panics has no result, and then the batch has none.
            running.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
        });
        results.sort_by_key(|(at, _)| *at);
        (results.len() == jobs.len()).then(|| results.into_iter().map(|(_, outcome)| outcome).collect())
    }
}

impl Common {
    fn of(&self, split: Split) -> &[Vec<Arrival>] {
        match split {
            Split::Train => &self.train,
            Split::Validation => &self.validation,
            Split::Promise => &self.promise,
        }
    }

    /// One configuration on one workload. None if it was stopped, or has a size that is none.
    pub fn simulate(
        &self,
        configuration: &Configuration,
        split: Split,
        workload: usize,
        go: &dyn Fn() -> bool,
    ) -> Option<Outcome> {
        let arrivals = self.of(split).get(workload)?;
        let spec = |size: &Units| self.sizes.iter().find(|spec| spec.units == *size).cloned();
        let elastic: Option<Vec<Spec>> = configuration.fleet.iter().map(spec).collect();
        let fleet = self.rehearsal.fleet.iter().cloned().chain(elastic?).collect();
        // A plan with a size that nothing offers would be refused.
        let offers = &self.rehearsal.policy.scaling.offers;
        let offered = |spinup: &Spinup| offers.iter().any(|offer| offer.units == spinup.size);
        if !configuration.spinups.iter().all(offered) {
            return None;
        }
        // What a workload meets belongs to it, not to the configuration.
        let split_bits = match split {
            Split::Train => 0,
            Split::Validation => 2,
            Split::Promise => 1,
        };
        let of = (workload as u64 + 1) << 2 | split_bits;
        let seed = self.rehearsal.seed ^ of.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let make = match &self.rehearsal.make {
            Make::Sharing => Make::Sharing,
            Make::Predicted { .. } => Make::Predicted { seed },
            Make::Warehouse { table, .. } => Make::Warehouse { table: table.clone(), seed },
        };
        let policy = configuration.knobs.turned(&self.rehearsal.policy);
        let rehearsal = Rehearsal { seed, policy, fleet, make, ..self.rehearsal.clone() };
        rehearsal.run_with(&configuration.spinups, arrivals, &mut |_| go()).map(|rehearsed| outcome(&rehearsed))
    }
}

fn outcome(rehearsed: &Rehearsed) -> Outcome {
    let violation_rate = rehearsed.outcome.total().tally.violation_rate().unwrap_or(0.0);
    let log = rehearsed.ended.iter().map(|ended| Lived {
        arrived: ended.arrived,
        ended: ended.ended,
        late: ended.violated == Some(true),
    });
    Outcome { performance: Performance { violation_rate, cost: rehearsed.outcome.cost }, log: log.collect() }
}

fn mean(outcomes: &[Outcome]) -> Performance {
    Aggregate::Mean.of(outcomes.iter().map(|outcome| outcome.performance))
}

/// True if `one` is worse than `leader` beyond doubt.
fn is_beaten(one: &[Outcome], leader: &[Outcome], target: f64) -> bool {
    let paired = |of: fn(&Performance) -> f64| {
        one.iter().zip(leader).map(move |(one, leader)| of(&one.performance) - of(&leader.performance))
    };
    let rates = |of: &[Outcome]| -> Vec<f64> { of.iter().map(|outcome| outcome.performance.violation_rate).collect() };
    let above = |rates: Vec<f64>| rates.into_iter().map(move |rate| rate - target);
    let exceeds = is_positive(above(rates(one)));
    let leader_meets =
        is_positive(above(rates(leader)).map(|by| -by)) || rates(leader).iter().all(|rate| *rate <= target);
    let more_late = is_positive(paired(|one| one.violation_rate));
    let dearer = is_positive(paired(|one| one.cost));
    (exceeds && more_late) || (leader_meets && dearer)
}

/// True if the mean of these is above zero with 99 % certainty, by Student's t.
fn is_positive(values: impl Iterator<Item = f64>) -> bool {
    let values: Vec<f64> = values.collect();
    let count = values.len() as f64;
    if values.len() < 2 {
        return false;
    }
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / (count - 1.0);
    let t = T.get(values.len() - 2).copied().unwrap_or(2.53);
    mean > 0.0 && mean > t * (variance / count).sqrt()
}

/// Student's t that is exceeded one time of a hundred, for 1 degree of freedom and more.
const T: [f64; 20] = [
    31.821, 6.965, 4.541, 3.747, 3.365, 3.143, 2.998, 2.896, 2.821, 2.764, 2.7181, 2.681, 2.650, 2.624, 2.602, 2.583,
    2.567, 2.552, 2.539, 2.528,
];

#[cfg(test)]
mod tests;
