//! Which knobs are best for a day (AutoSLO, section 7.5, Configuration Tuner).
//!
//! A [`Space`] says which values each knob may take, a [`Strategy`] which of all their combinations are simulated. What is best on the workloads
//! to plan with, ten of them, is simulated once more on others, and the best by those is chosen.
//!
//! | strategy | simulates |
//! |---|---|
//! | `grid` | every combination |
//! | `random` | so many of them, drawn without one twice |
//! | `coordinate_descent` | one knob's values after another's, the others as they are best so far, until nothing changes |
//! | `adaptive_batch` | some at random, then those that differ in one knob from the best so far, in ever larger batches, until a batch brings nothing |
//!
//! A configuration that clearly cannot win is left at a part of the workloads ([`crate::batch`]); what was simulated once is not simulated again.

use punctual_core::rng::Rng;
use punctual_core::route::Counting;
use punctual_core::time::Span;
use serde::{Deserialize, Serialize};

use crate::batch::{Heat, Racing};
use crate::configuration::{Aggregate, Configuration, Knobs, Performance, best};
use crate::spinups::{Outcome, Simulate, Split};

/// The values that each knob may take. One that may take none stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Space {
    /// T_min_lifetime.
    pub lifetime: Vec<Span>,
    /// T_idle.
    pub idle: Vec<Span>,
    /// θ.
    pub observations: Vec<u32>,
    /// w.
    pub window: Vec<Span>,
    /// μ.
    pub completions: Vec<u32>,
    /// τ_trigger.
    pub late_share: Vec<f64>,
    /// When routing counts a query as late.
    pub counting: Vec<Counting>,
}

impl Space {
    /// The paper's values (section 8.7), and for routing that counts what is expected or what is late in the median.
    pub fn paper() -> Space {
        let secs = |values: [u64; 2]| values.map(Span::from_secs).to_vec();
        Space {
            lifetime: secs([1_200, 3_600]),
            idle: secs([600, 1_200]),
            observations: vec![16, 32],
            window: secs([300, 600]),
            completions: vec![16, 32],
            late_share: vec![0.0, 0.1],
            counting: vec![Counting::Expected, Counting::P90],
        }
    }

    /// How many knobs there are.
    const KNOBS: usize = 7;

    /// How many values a knob may take; one at least.
    fn values(&self, knob: usize) -> usize {
        let values = [
            self.lifetime.len(),
            self.idle.len(),
            self.observations.len(),
            self.window.len(),
            self.completions.len(),
            self.late_share.len(),
            self.counting.len(),
        ];
        values[knob].max(1)
    }

    /// How many combinations there are.
    pub fn combinations(&self) -> u64 {
        (0..Space::KNOBS).fold(1, |all, knob| all.saturating_mul(self.values(knob) as u64))
    }

    /// The knobs with these values, by their places; a knob without values is as in `base`.
    fn turned(&self, base: &Knobs, places: &[usize; Space::KNOBS]) -> Knobs {
        fn of<T: Copy>(values: &[T], place: usize, base: T) -> T {
            values.get(place).copied().unwrap_or(base)
        }
        let [lifetime, idle, observations, window, completions, late_share, counting] = *places;
        Knobs {
            lifetime: of(&self.lifetime, lifetime, base.lifetime),
            idle: of(&self.idle, idle, base.idle),
            observations: of(&self.observations, observations, base.observations),
            window: of(&self.window, window, base.window),
            completions: of(&self.completions, completions, base.completions),
            late_share: of(&self.late_share, late_share, base.late_share),
            counting: of(&self.counting, counting, base.counting),
        }
    }

    /// The combination of that number, which is below [`Space::combinations`].
    fn places(&self, mut number: u64) -> [usize; Space::KNOBS] {
        std::array::from_fn(|knob| {
            let values = self.values(knob) as u64;
            let place = number % values;
            number /= values;
            place as usize
        })
    }
}

/// Which combinations are simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Strategy {
    /// All of them, as far as there are no more than that.
    Grid,
    /// So many.
    Random(usize),
    /// One knob after another, so many times at most.
    CoordinateDescent(usize),
    /// Batches that begin with so many, until so many have been simulated.
    AdaptiveBatch(usize, usize),
}

/// The most combinations that a grid has; more are sampled.
const LARGEST_GRID: u64 = 1_024;

impl Strategy {
    /// The names of all.
    pub const NAMES: [&'static str; 4] = ["grid", "random", "coordinate_descent", "adaptive_batch"];

    /// The strategy of that name, with its own settings; None if there is none.
    pub fn named(name: &str) -> Option<Strategy> {
        Some(match name {
            "grid" => Strategy::Grid,
            "random" => Strategy::Random(32),
            "coordinate_descent" => Strategy::CoordinateDescent(2),
            "adaptive_batch" => Strategy::AdaptiveBatch(8, 48),
            _ => return None,
        })
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Strategy::Grid => "grid",
            Strategy::Random(_) => "random",
            Strategy::CoordinateDescent(_) => "coordinate_descent",
            Strategy::AdaptiveBatch(..) => "adaptive_batch",
        }
    }
}

/// How knobs are looked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning {
    /// The violation rate that is accepted: τ.
    pub target: f64,
    /// How workloads are taken together.
    pub aggregate: Aggregate,
    /// What knobs may be.
    pub space: Space,
    /// Which of that is simulated.
    pub strategy: Strategy,
    /// How many of the best are simulated on the workloads to choose by.
    pub kept: usize,
    /// What chance begins with.
    pub seed: u64,
}

impl Tuning {
    /// The paper's values, by batches; the ten best are judged.
    pub fn of(target: f64) -> Tuning {
        let strategy = Strategy::AdaptiveBatch(8, 48);
        Tuning { target, aggregate: Aggregate::Mean, space: Space::paper(), strategy, kept: 10, seed: 0 }
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuned {
    /// What was simulated on all workloads of both kinds, the best on those to choose by first.
    pub judged: Vec<Judged>,
    /// Configurations that were simulated.
    pub simulated: usize,
    /// Of those, how many were left at a part of the workloads.
    pub given_up: usize,
}

/// A configuration, and what it comes to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// Which.
    pub configuration: Configuration,
    /// On the workloads to plan with.
    pub train: Performance,
    /// On the workloads to choose by.
    pub validation: Performance,
}

/// Turns the knobs of a configuration; it is simulated itself, too. None if simulation was stopped.
pub fn tune(base: &Configuration, tuning: &Tuning, simulator: &mut dyn Simulate) -> Option<Tuned> {
    let mut search = Searching { base, tuning, simulator, known: Vec::new() };
    search.try_all(vec![base.knobs])?;
    match tuning.strategy {
        Strategy::Grid => search.sample(usize::MAX)?,
        Strategy::Random(count) => search.sample(count)?,
        Strategy::CoordinateDescent(rounds) => search.descend(rounds)?,
        Strategy::AdaptiveBatch(first, most) => search.widen(first, most)?,
    }
    search.judge()
}

struct Searching<'a> {
    base: &'a Configuration,
    tuning: &'a Tuning,
    simulator: &'a mut dyn Simulate,
    /// What was simulated, in that order; as many outcomes as there are workloads, unless it was given up.
    known: Vec<(Knobs, Vec<Outcome>)>,
}

impl Searching<'_> {
    /// Simulates those that are not known yet, against the best so far.
    fn try_all(&mut self, mut knobs: Vec<Knobs>) -> Option<()> {
        let mut fresh: Vec<Knobs> = Vec::new();
        knobs.retain(|one| !self.known.iter().any(|(known, _)| known == one));
        for one in knobs {
            if !fresh.contains(&one) {
                fresh.push(one);
            }
        }
        let configurations: Vec<Configuration> = fresh.iter().map(|knobs| self.with(*knobs)).collect();
        let leader = self.leader().map(|place| self.known[place].1.clone());
        let heat = Heat { configurations: &configurations, rival: leader.as_deref() };
        let race = self.simulator.race(&[heat], Racing::of(self.tuning.target))?.pop()?;
        self.known.extend(fresh.into_iter().zip(race.outcomes));
        Some(())
    }

    fn with(&self, knobs: Knobs) -> Configuration {
        Configuration { knobs, ..self.base.clone() }
    }

    fn turned(&self, places: &[usize; Space::KNOBS]) -> Knobs {
        self.tuning.space.turned(&self.base.knobs, places)
    }

    /// How well each does that was simulated on all workloads, by its place.
    fn whole(&self) -> Vec<(usize, Performance)> {
        let workloads = self.known.iter().map(|(_, outcomes)| outcomes.len()).max().unwrap_or(0);
        let whole = self.known.iter().enumerate().filter(|(_, (_, outcomes))| outcomes.len() == workloads);
        let together = |outcomes: &[Outcome]| self.tuning.aggregate.of(outcomes.iter().map(|one| one.performance));
        whole.map(|(place, (_, outcomes))| (place, together(outcomes))).collect()
    }

    /// The best ones, by their places.
    fn leaders(&self, count: usize) -> Vec<(usize, Performance)> {
        let mut left = self.whole();
        let mut leaders = Vec::new();
        while leaders.len() < count {
            let performances: Vec<Performance> = left.iter().map(|(_, performance)| *performance).collect();
            let Some(place) = best(&performances, self.tuning.target) else { break };
            leaders.push(left.remove(place));
        }
        leaders
    }

    fn leader(&self) -> Option<usize> {
        self.leaders(1).first().map(|(place, _)| *place)
    }

    /// So many combinations: all, if there are no more.
    fn sample(&mut self, count: usize) -> Option<()> {
        let all = self.tuning.space.combinations();
        let most = (count as u64).min(LARGEST_GRID);
        let numbers: Vec<u64> = if all <= most {
            (0..all).collect()
        } else {
            let mut rng = Rng::numbered(self.tuning.seed, SAMPLE);
            distinct(&mut rng, all, most as usize)
        };
        let knobs = numbers.into_iter().map(|number| self.turned(&self.tuning.space.places(number))).collect();
        self.try_all(knobs)
    }

    fn descend(&mut self, rounds: usize) -> Option<()> {
        for _ in 0..rounds {
            let before = self.leader();
            for knob in 0..Space::KNOBS {
                let Some(leader) = self.leader() else { return Some(()) };
                let knobs = self.variants(self.known[leader].0, knob);
                self.try_all(knobs)?;
            }
            if self.leader() == before {
                break;
            }
        }
        Some(())
    }

    /// The same knobs with each value of one of them.
    fn variants(&self, knobs: Knobs, knob: usize) -> Vec<Knobs> {
        let space = &self.tuning.space;
        let only = |place: usize| {
            // A space in which nothing else has a value leaves all else as it is.
            let mut places = [usize::MAX; Space::KNOBS];
            places[knob] = place;
            space.turned(&knobs, &places)
        };
        (0..space.values(knob)).map(only).collect()
    }

    fn widen(&mut self, first: usize, most: usize) -> Option<()> {
        self.sample(first.min(most))?;
        let (mut batch, mut best) = (first, self.leader());
        while self.known.len() < most {
            let leaders = self.leaders(batch.div_ceil(first.max(1)));
            let mut beside: Vec<Knobs> = Vec::new();
            for (place, _) in leaders {
                for knob in 0..Space::KNOBS {
                    beside.extend(self.variants(self.known[place].0, knob));
                }
            }
            beside.retain(|knobs| !self.known.iter().any(|(known, _)| known == knobs));
            beside.dedup();
            beside.truncate((2 * batch).min(most - self.known.len()));
            if beside.is_empty() {
                break;
            }
            self.try_all(beside)?;
            let leader = self.leader();
            if leader == best {
                break;
            }
            (best, batch) = (leader, batch + first.max(1));
        }
        Some(())
    }

    /// Simulates the best on the workloads to choose by.
    fn judge(self) -> Option<Tuned> {
        let mut leaders = self.leaders(self.tuning.kept.max(1));
        // As it was stays to be compared with.
        if let Some(base) = self.whole().into_iter().find(|(place, _)| *place == 0)
            && !leaders.iter().any(|(place, _)| *place == 0)
        {
            leaders.push(base);
        }
        let configurations: Vec<Configuration> =
            leaders.iter().map(|(place, _)| self.with(self.known[*place].0)).collect();
        let outcomes = self.simulator.simulate(&configurations, Split::Validation)?;
        let together = |outcomes: Vec<Outcome>| self.tuning.aggregate.of(outcomes.iter().map(|one| one.performance));
        let trained = leaders.iter().map(|(_, train)| *train);
        let judged = configurations.into_iter().zip(trained).zip(outcomes);
        let mut left: Vec<Judged> = judged
            .map(|((configuration, train), outcomes)| Judged { configuration, train, validation: together(outcomes) })
            .collect();
        let mut judged = Vec::new();
        loop {
            let performances: Vec<Performance> = left.iter().map(|one| one.validation).collect();
            let Some(place) = best(&performances, self.tuning.target) else { break };
            judged.push(left.remove(place));
        }
        let whole = self.whole().len();
        (!judged.is_empty()).then_some(Tuned {
            judged,
            simulated: self.known.len(),
            given_up: self.known.len() - whole,
        })
    }
}

/// The stream of what is sampled.
const SAMPLE: u64 = 5 << 32;

/// So many different numbers below `all`, of which there are more, in the order in which they were drawn (Floyd's algorithm).
fn distinct(rng: &mut Rng, all: u64, count: usize) -> Vec<u64> {
    let mut drawn: Vec<u64> = Vec::with_capacity(count);
    for top in all - count as u64..all {
        let number = rng.below(top + 1);
        drawn.push(if drawn.contains(&number) { top } else { number });
    }
    drawn
}

#[cfg(test)]
mod tests;
