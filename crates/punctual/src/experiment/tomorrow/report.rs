//! Table 5 and Figure 6 again, with what was promised beside what came.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_tuner::configuration::{Configuration, best};
use punctual_tuner::planning::{Planned, Promise};
use serde::Serialize;

use super::days::{DAYS, Source};
use super::lived::{Ablation, Lived, RIVALS, Who, live};
use super::planned::{Foreseen, foresee, planned, unplanned};
use super::{Ground, KAPPAS, TARGET, days};
use crate::experiment::workers;
use crate::figure::Figure;

/// Days of history that Table 5 compares; the first is none.
pub const HISTORIES: [u32; 4] = [0, 1, 7, 30];

/// What the paper's Table 5 says for 1, 7 and 30 days: violations and cost against none.
const PUBLISHED: [(u32, f64, f64); 3] = [(1, -0.446, 0.118), (7, -0.426, 0.141), (30, -0.461, 0.153)];

/// A plan of one seed, and what came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Kept {
    /// The seed.
    pub seed: u64,
    /// What it was.
    pub configuration: Configuration,
    /// What it promised.
    pub promise: Promise,
    /// What came.
    pub lived: Lived,
    /// True if what came lies in the interval that was promised, of violations and of cost.
    pub within: [bool; 2],
    /// Configurations that were simulated for it.
    pub simulated: usize,
}

impl Kept {
    fn of(seed: u64, planned: &Planned, lived: Lived) -> Kept {
        let promise = planned.promise;
        let within = [promise.violation_rate.holds(lived.violation_rate), promise.cost.holds(lived.cost)];
        let (configuration, simulated) = (planned.configuration.clone(), planned.simulated);
        Kept { seed, configuration, promise, lived, within, simulated }
    }
}

/// A row of Table 5: a scenario with so many days of history.
#[derive(Clone, Debug, Serialize)]
pub struct TunerRow {
    /// Which day.
    pub day: &'static str,
    /// SLO over ℓ_baseline.
    pub kappa: f64,
    /// Days of history; 0: nothing was planned.
    pub history_days: u32,
    /// The share of queries that missed their SLO, over seeds.
    pub violation_rate: Figure,
    /// Dollars, over seeds.
    pub cost: Figure,
    /// The plans; none without history.
    pub plans: Vec<Kept>,
}

/// Against no history, in the mean over scenarios.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Change {
    /// Of the violation rate, as a fraction.
    pub violation_rate: f64,
    /// Of the cost, as a fraction.
    pub cost: f64,
    /// What the paper says of the violation rate.
    pub published_violation_rate: Option<f64>,
    /// What the paper says of the cost.
    pub published_cost: Option<f64>,
}

/// Table 5 again.
#[derive(Clone, Debug, Serialize)]
pub struct TunerTable {
    /// Every scenario with every history.
    pub rows: Vec<TunerRow>,
    /// By days of history.
    pub mean: BTreeMap<u32, Change>,
    /// How many times each was run.
    pub seeds: u64,
}

/// A policy in a scenario of Figure 6.
#[derive(Clone, Debug, Serialize)]
pub struct Policy {
    /// Which.
    pub policy: &'static str,
    /// The share of queries that missed their SLO, in the mean over seeds.
    pub violation_rate: f64,
    /// Bounds of its 95 % interval.
    pub violation_rate_ci95: Option<[f64; 2]>,
    /// Dollars, in the mean over seeds.
    pub cost: f64,
    /// Bounds of its 95 % interval.
    pub cost_ci95: Option<[f64; 2]>,
    /// What its clusters came to, where another sum is billed.
    pub cost_as_used: Option<f64>,
    /// True if the mean violation rate is not above the target.
    pub meets_target: bool,
}

/// A scenario of Figure 6.
#[derive(Clone, Debug, Serialize)]
pub struct Scenario {
    /// Which day.
    pub day: &'static str,
    /// SLO over ℓ_baseline.
    pub kappa: f64,
    /// Queries of the day, in the mean over seeds.
    pub queries: f64,
    /// Ours, the rivals, ours without parts.
    pub policies: Vec<Policy>,
    /// The cheapest rival that meets the target, or the one that comes nearest to it.
    pub next_best: &'static str,
    /// Our cost against that one's, as a fraction.
    pub cost_against_next_best: f64,
    /// What was promised beside what came, for each seed.
    pub plans: Vec<Kept>,
}

/// Figure 6 again.
#[derive(Clone, Debug, Serialize)]
pub struct EndToEnd {
    /// Two days, two κ.
    pub scenarios: Vec<Scenario>,
    /// In the mean over scenarios, as a fraction; the paper has −0.264.
    pub mean_cost_against_next_best: f64,
    /// The scenarios in which ours meets the target.
    pub met: usize,
    /// Of all plans, how many had what came within what they promised: of violations, and of cost.
    pub promises_kept: [usize; 2],
    /// All plans.
    pub plans: usize,
    /// How many times each was run.
    pub seeds: u64,
}

/// How something long is watched and stopped.
pub struct Watch<'a> {
    /// Set: it ends without a result.
    pub stop: &'a AtomicBool,
    /// Is told which scenario is worked at, and how much of all of it is done.
    pub tell: &'a (dyn Fn(usize, usize) + Sync),
}

/// One scenario for one seed.
#[derive(Clone, Copy)]
struct Case {
    day: days::Planned,
    kappa: f64,
    seed: u64,
}

fn cases(seeds: u64) -> Vec<Case> {
    let of_day = |day: &days::Planned| {
        let day = *day;
        KAPPAS.into_iter().flat_map(move |kappa| (0..seeds).map(move |seed| Case { day, kappa, seed }))
    };
    DAYS.iter().flat_map(of_day).collect()
}

/// What is planned from a history before each day, by seed: the same for all SLOs.
fn foresights(ground: &Ground<'_>, source: &Source, history: u32, seeds: u64) -> Vec<(days::Planned, u64, Foreseen)> {
    let of_day = |day: &days::Planned| {
        let day = *day;
        (0..seeds).map(move |seed| (day, seed, foresee(source, day, history, seed, ground.token)))
    };
    DAYS.iter().flat_map(of_day).collect()
}

/// Plans every case from so many days of history. `step` is told when one is done.
fn plans(
    ground: &Ground<'_>,
    source: &Source,
    (history, seeds): (u32, u64),
    watch: &Watch<'_>,
    step: &dyn Fn(),
) -> Option<Vec<Planned>> {
    let foreseen = foresights(ground, source, history, seeds);
    let one = |case: Case| {
        let (.., foreseen) = foreseen.iter().find(|(day, seed, _)| (*day, *seed) == (case.day, case.seed))?;
        let found = planned(ground, foreseen, (case.kappa, case.seed), watch.stop, &|_, _| {});
        step();
        found
    };
    cases(seeds).into_iter().map(one).collect()
}

/// Has each case lived through under each policy that is its own: in the order of cases, then of policies.
fn lives(ground: &Ground<'_>, source: &Source, runs: &[(Case, Who)], watch: &Watch<'_>) -> Option<Vec<Lived>> {
    let go = || !watch.stop.load(Ordering::Relaxed);
    let lived = workers::all(runs.len(), watch.stop, &|_, _| {}, |at| {
        let (case, who) = &runs[at];
        let arrivals = source.arrivals(case.seed, case.day, |template| ground.slo(template, case.kappa));
        live(ground, who, &arrivals[..arrivals.len().min(ground.queries())], case.seed, &go)
    })?;
    lived.into_iter().collect()
}

/// Table 5. None if it was stopped.
pub fn tuner(ground: &Ground<'_>, source: &Source, seeds: u64, watch: &Watch<'_>) -> Option<TunerTable> {
    let cases = cases(seeds);
    let of = (HISTORIES.len() - 1) * cases.len();
    let done = std::cell::Cell::new(0);
    let step = || {
        done.set(done.get() + 1);
        (watch.tell)(done.get(), of);
    };
    let mut rows = Vec::new();
    for history in HISTORIES {
        let planned = match history {
            0 => Vec::new(),
            days => plans(ground, source, (days, seeds), watch, &step)?,
        };
        let configuration =
            |at: usize| planned.get(at).map_or_else(|| unplanned(ground), |planned| planned.configuration.clone());
        let runs: Vec<(Case, Who)> =
            cases.iter().enumerate().map(|(at, case)| (*case, Who::Ours(configuration(at), Ablation::Whole))).collect();
        let lived = lives(ground, source, &runs, watch)?;
        for (number, chunk) in lived.chunks(seeds.max(1) as usize).enumerate() {
            let first = number * seeds as usize;
            let kept = chunk
                .iter()
                .enumerate()
                .filter_map(|(seed, lived)| Some(Kept::of(seed as u64, planned.get(first + seed)?, lived.clone())));
            rows.push(TunerRow {
                day: cases[first].day.name,
                kappa: cases[first].kappa,
                history_days: history,
                violation_rate: figure(chunk, |lived| lived.violation_rate),
                cost: figure(chunk, |lived| lived.cost),
                plans: kept.collect(),
            });
        }
    }
    let mean = HISTORIES[1..].iter().map(|history| (*history, change(&rows, *history))).collect();
    Some(TunerTable { rows, mean, seeds })
}

fn figure(lived: &[Lived], value: fn(&Lived) -> f64) -> Figure {
    Figure::sure(&lived.iter().map(value).collect::<Vec<_>>())
}

/// What so many days of history change, in the mean over scenarios. A day without violations counts as one query of a thousand.
fn change(rows: &[TunerRow], history: u32) -> Change {
    let pairs: Vec<(&TunerRow, &TunerRow)> = rows
        .iter()
        .filter(|row| row.history_days == history)
        .filter_map(|row| {
            let is_base = |base: &&TunerRow| base.history_days == 0 && (base.day, base.kappa) == (row.day, row.kappa);
            Some((row, rows.iter().find(is_base)?))
        })
        .collect();
    let mean = |relative: &dyn Fn(&TunerRow, &TunerRow) -> f64| {
        pairs.iter().map(|(row, base)| relative(row, base)).sum::<f64>() / pairs.len().max(1) as f64
    };
    let published = PUBLISHED.iter().find(|(days, ..)| *days == history);
    Change {
        violation_rate: mean(&|row, base| row.violation_rate.mean / base.violation_rate.mean.max(1e-3) - 1.0),
        cost: mean(&|row, base| row.cost.mean / base.cost.mean - 1.0),
        published_violation_rate: published.map(|(_, rate, _)| *rate),
        published_cost: published.map(|(.., cost)| *cost),
    }
}

/// Figure 6. None if it was stopped.
pub fn end_to_end(ground: &Ground<'_>, source: &Source, seeds: u64, watch: &Watch<'_>) -> Option<EndToEnd> {
    let cases = cases(seeds);
    let done = std::cell::Cell::new(0);
    let step = || {
        done.set(done.get() + 1);
        (watch.tell)(done.get(), cases.len());
    };
    let planned = plans(ground, source, (30, seeds), watch, &step)?;
    let whos = |planned: &Planned| -> Vec<Who> {
        let with = |ablation| Who::Ours(planned.configuration.clone(), ablation);
        let ours = [with(Ablation::Whole)].into_iter().chain(RIVALS);
        let without = [with(Ablation::Autoscaler), with(Ablation::Concurrency)];
        ours.chain(without).chain([Who::Ours(unplanned(ground), Ablation::Whole)]).collect()
    };
    let runs: Vec<(Case, Who)> = cases
        .iter()
        .zip(&planned)
        .flat_map(|(case, planned)| whos(planned).into_iter().map(move |who| (*case, who)))
        .collect();
    let lived = lives(ground, source, &runs, watch)?;
    let each = runs.len() / cases.len().max(1);
    let mut scenarios = Vec::new();
    for (number, of_cases) in cases.chunks(seeds.max(1) as usize).enumerate() {
        let first = number * seeds as usize;
        let of = |place: usize| -> Vec<Lived> {
            (first..first + of_cases.len()).map(|case| lived[case * each + place].clone()).collect()
        };
        let name = |place: usize| if place + 1 == each { "without-tuner" } else { runs[place].1.name() };
        let policies: Vec<Policy> = (0..each).map(|place| Policy::of(name(place), &of(place))).collect();
        let queries = of_cases.iter().map(|case| source.arrivals(case.seed, case.day, |_| TOLERANT).len() as f64);
        let kept =
            of(0).into_iter().enumerate().map(|(seed, lived)| Kept::of(seed as u64, &planned[first + seed], lived));
        scenarios.push(Scenario::of(
            &of_cases[0],
            queries.sum::<f64>() / of_cases.len() as f64,
            policies,
            kept.collect(),
        ));
    }
    Some(EndToEnd::of(scenarios, seeds))
}

/// For counting alone.
const TOLERANT: punctual_core::time::Span = punctual_core::time::Span::from_secs(1);

impl Policy {
    fn of(policy: &'static str, lived: &[Lived]) -> Policy {
        let (rate, cost) = (figure(lived, |lived| lived.violation_rate), figure(lived, |lived| lived.cost));
        let interval = |figure: Figure| Some([figure.low?, figure.high?]);
        let used: Option<Vec<f64>> = lived.iter().map(|lived| lived.cost_as_used).collect();
        Policy {
            policy,
            violation_rate: rate.mean,
            violation_rate_ci95: interval(rate),
            cost: cost.mean,
            cost_ci95: interval(cost),
            cost_as_used: used.map(|used| Figure::sure(&used).mean),
            meets_target: rate.mean <= TARGET,
        }
    }

    fn performance(&self) -> punctual_tuner::configuration::Performance {
        punctual_tuner::configuration::Performance { violation_rate: self.violation_rate, cost: self.cost }
    }
}

impl Scenario {
    fn of(case: &Case, queries: f64, policies: Vec<Policy>, plans: Vec<Kept>) -> Scenario {
        let rivals: Vec<&Policy> = policies[1..=RIVALS.len()].iter().collect();
        let performances: Vec<_> = rivals.iter().map(|rival| rival.performance()).collect();
        let next = best(&performances, TARGET).unwrap_or(0);
        let (next_best, cost) = (rivals[next].policy, policies[0].cost / rivals[next].cost - 1.0);
        Scenario {
            day: case.day.name,
            kappa: case.kappa,
            queries,
            policies,
            next_best,
            cost_against_next_best: cost,
            plans,
        }
    }
}

impl EndToEnd {
    fn of(scenarios: Vec<Scenario>, seeds: u64) -> EndToEnd {
        let all = scenarios.len().max(1) as f64;
        let mean = scenarios.iter().map(|scenario| scenario.cost_against_next_best).sum::<f64>() / all;
        let met = scenarios.iter().filter(|scenario| scenario.policies[0].meets_target).count();
        let plans: Vec<&Kept> = scenarios.iter().flat_map(|scenario| &scenario.plans).collect();
        let kept = [0, 1].map(|which| plans.iter().filter(|kept| kept.within[which]).count());
        let plans = plans.len();
        EndToEnd { scenarios, mean_cost_against_next_best: mean, met, promises_kept: kept, plans, seeds }
    }
}

fn interval(of: Option<[f64; 2]>, scale: f64) -> String {
    of.map_or_else(String::new, |[low, high]| format!(" ±{:.1}", scale * (high - low) / 2.0))
}

impl fmt::Display for EndToEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for scenario in &self.scenarios {
            writeln!(f, "day {}, kappa {}, {:.0} queries:", scenario.day, scenario.kappa, scenario.queries)?;
            for policy in &scenario.policies {
                let rate =
                    format!("{:.1} %{}", 100.0 * policy.violation_rate, interval(policy.violation_rate_ci95, 100.0));
                let cost = format!("${:.2}{}", policy.cost, interval(policy.cost_ci95, 1.0));
                let used = policy.cost_as_used.map_or_else(String::new, |used| format!("  (as used ${used:.2})"));
                let met = if policy.meets_target { "meets 10 %" } else { "" };
                writeln!(f, "  {:<20} {rate:>16} late  {cost:>16}  {met}{used}", policy.policy)?;
            }
            let relative = 100.0 * scenario.cost_against_next_best;
            writeln!(
                f,
                "  cost {relative:+.1} % against {}, the cheapest rival that meets the target or comes nearest",
                scenario.next_best
            )?;
            for kept in &scenario.plans {
                writeln!(f, "  {kept}")?;
            }
        }
        let mean = 100.0 * self.mean_cost_against_next_best;
        writeln!(
            f,
            "target met in {} of {} scenarios; cost {mean:+.1} % in the mean (paper -26.4 %)",
            self.met,
            self.scenarios.len()
        )?;
        let [rates, costs] = self.promises_kept;
        write!(f, "promises kept, of {}: violations {rates}, cost {costs}; {} seeds", self.plans, self.seeds)
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rate, cost) = (self.promise.violation_rate, self.promise.cost);
        let percent = |value: f64| 100.0 * value;
        let fleet: Vec<String> = self.configuration.fleet.iter().map(|units| units.0.to_string()).collect();
        let starts: Vec<String> = self
            .configuration
            .spinups
            .iter()
            .map(|spinup| format!("{} at {:.0} min", spinup.size.0, spinup.at.secs_f64() / 60.0))
            .collect();
        write!(
            f,
            "seed {}: promised {:.1} % ({:.1} to {:.1}), came {:.1} %; ${:.2} ({:.2} to {:.2}), came ${:.2}; [{}] {}; {} simulated",
            self.seed,
            percent(rate.mean),
            percent(rate.low),
            percent(rate.high.min(1.0)),
            percent(self.lived.violation_rate),
            cost.mean,
            cost.low,
            cost.high.min(1e6),
            self.lived.cost,
            fleet.join(", "),
            if starts.is_empty() { "no start".to_owned() } else { starts.join(", ") },
            self.simulated
        )
    }
}

impl fmt::Display for TunerTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<7} {:>5} {:>8} {:>18} {:>18}", "day", "kappa", "history", "violations", "cost")?;
        for row in &self.rows {
            let half = |figure: Figure, scale: f64| {
                figure.half().map_or_else(String::new, |half| format!(" ±{:.1}", scale * half))
            };
            let rate = format!("{:.1} %{}", 100.0 * row.violation_rate.mean, half(row.violation_rate, 100.0));
            let cost = format!("${:.2}{}", row.cost.mean, half(row.cost, 1.0));
            writeln!(f, "{:<7} {:>5} {:>8} {rate:>18} {cost:>18}", row.day, row.kappa, row.history_days)?;
            for kept in &row.plans {
                writeln!(f, "    {kept}")?;
            }
        }
        writeln!(f, "in the mean, against no history:")?;
        for (days, change) in &self.mean {
            let paper =
                |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{:+.1} %", 100.0 * value));
            writeln!(
                f,
                "  {days:>2} days: violations {:+.1} % (paper {}), cost {:+.1} % (paper {})",
                100.0 * change.violation_rate,
                paper(change.published_violation_rate),
                100.0 * change.cost,
                paper(change.published_cost)
            )?;
        }
        write!(f, "{} seeds", self.seeds)
    }
}
