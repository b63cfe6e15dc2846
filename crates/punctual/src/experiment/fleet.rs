//! The measurements of the TABS paper's section 5 (Mukherjee, Dhara, Borst, van Leeuwaarden 2017), by the lean loop.
//!
//! ```text
//!   convergence  N × ν                  Figure 3: waits and energy come to their limits as servers are added
//!   standby      λ × ν × N × 1/μ        Figure 4: what the standby time is good for
//!   fluid        N, a load that waves   Figure 2: a path beside its limit, and how far apart they are
//!   rivals       scheme                 what others do with the same tasks
//!   aborted      N                      what comes of calling setups off, in the long run
//! ```
//!
//! All runs of all rows are one list of jobs, so that all cores are busy to the end.

pub(crate) mod drawn;
mod text;

use std::sync::atomic::{AtomicBool, Ordering};

use punctual_sim::fleet::{
    Arrivals, Delay, Fluid, Load, Outcome, PhaseType, Sample, Scheme, Setting, Watch, Wrong, run, seed_of,
};
use serde::Serialize;

use super::workers;
use crate::figure::Figure;

/// How much is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Independent runs of each row.
    pub(crate) runs: usize,
    /// No fleet is larger.
    pub(crate) most: u32,
    /// What chance begins with.
    pub(crate) seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Found {
    pub(crate) convergence: Vec<Row>,
    pub(crate) standby: Vec<Row>,
    pub(crate) fluid: Vec<Course>,
    pub(crate) rivals: Vec<Row>,
    pub(crate) aborted: Vec<Row>,
}

/// One setting, on average over its runs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) policy: &'static str,
    pub(crate) lambda: f64,
    /// Zero where servers do not turn off.
    pub(crate) mu: f64,
    pub(crate) nu: f64,
    pub(crate) servers: u32,
    pub(crate) horizon: f64,
    pub(crate) warmup: f64,
    pub(crate) runs: usize,
    pub(crate) mean_wait: f64,
    pub(crate) fraction_waiting: f64,
    pub(crate) setup_fraction: f64,
    pub(crate) idle_fraction: f64,
    pub(crate) power_per_server_w: f64,
    pub(crate) wasted: f64,
    pub(crate) messages_per_task: f64,
    pub(crate) ci: Halves,
}

/// Half the widths of 95 % intervals; nothing of a single run.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Halves {
    pub(crate) mean_wait: Option<f64>,
    pub(crate) setup_fraction: Option<f64>,
    pub(crate) power_per_server_w: Option<f64>,
}

/// Paths of so many servers beside the fluid curve.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Course {
    pub(crate) servers: u32,
    /// The greatest difference of a share between a path and the curve, over time: its mean over runs.
    pub(crate) distance: Figure,
    /// That times √N, which stays as it is if paths come to the curve as 1/√N.
    pub(crate) distance_root_n: f64,
    /// The first run's path.
    pub(crate) path: Vec<Sample>,
    pub(crate) curve: Vec<Sample>,
}

/// Ends a run when the command is interrupted.
pub(crate) struct Until<'a>(pub(crate) &'a AtomicBool);

impl Watch for Until<'_> {
    fn goes_on(&mut self, _at: f64) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

/// Runs each setting `runs` times; None if that was stopped.
pub(crate) fn many(
    settings: &[Setting],
    effort: Effort,
    stop: &AtomicBool,
    tell: &(dyn Fn(usize, usize) + Sync),
) -> Result<Option<Vec<Vec<Outcome>>>, Wrong> {
    settings.iter().try_for_each(Setting::check)?;
    let runs = effort.runs;
    let one = |job: usize| run(&settings[job / runs], seed_of(effort.seed, (job % runs) as u64), &mut Until(stop));
    let Some(done) = workers::all(settings.len() * runs, stop, tell, one) else { return Ok(None) };
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let done: Vec<Outcome> = done.into_iter().collect::<Result<_, _>>()?;
    Ok(Some(done.chunks(runs).map(<[Outcome]>::to_vec).collect()))
}

/// Measures all of it; None if it was stopped.
pub(crate) fn measure(
    effort: Effort,
    stop: &AtomicBool,
    tell: &(dyn Fn(usize, usize) + Sync),
) -> Result<Option<Found>, Wrong> {
    let most = effort.most;
    let parts = [convergence(most), standby(most), paths(most), rivals(most), aborted(most)];
    let settings: Vec<Setting> = parts.iter().flatten().cloned().collect();
    let Some(outcomes) = many(&settings, effort, stop, tell)? else { return Ok(None) };
    let mut pairs = settings.iter().zip(outcomes);
    let mut part = |number: usize| pairs.by_ref().take(parts[number].len()).collect::<Vec<_>>();
    let rows = |pairs: Vec<(&Setting, Vec<Outcome>)>| pairs.iter().map(|(s, o)| Row::of(s, o)).collect();
    let (convergence, standby) = (rows(part(0)), rows(part(1)));
    let fluid = part(2).iter().map(|(setting, outcomes)| Course::of(setting, outcomes)).collect();
    let (rivals, aborted) = (rows(part(3)), rows(part(4)));
    Ok(Some(Found { convergence, standby, fluid, rivals, aborted }))
}

/// Figure 3, over the time from 0 to 250 as in the paper, and once more after a warm-up.
fn convergence(most: u32) -> Vec<Setting> {
    let mut settings = Vec::new();
    for mean in [10.0, 100.0] {
        for servers in sizes(&[10, 100, 1_000, 10_000, 100_000], most) {
            let setting = Setting { setup: Delay::Exponential(mean), ..Setting::new(servers, 0.3) };
            settings.push(Setting { warmup: 150.0, horizon: 250.0, ..setting.clone() });
            settings.push(setting);
        }
    }
    settings
}

/// Figure 4.
fn standby(most: u32) -> Vec<Setting> {
    let mut settings = Vec::new();
    for load in [0.3, 0.9] {
        for setup in [1.0, 10.0, 100.0] {
            for servers in sizes(&[10, 100, 1_000], most) {
                for standby in [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0] {
                    let (standby, setup) = (Delay::Exponential(standby), Delay::Exponential(setup));
                    settings.push(Setting { standby, setup, ..Setting::new(servers, load) });
                }
            }
        }
    }
    settings
}

/// Figure 2: a load that goes between 0.2 and 0.8.
fn paths(most: u32) -> Vec<Setting> {
    let load = Load::Wave { mean: 0.5, amplitude: 0.3, period: 50.0 };
    let of = |servers| {
        let arrivals = Arrivals::Poisson(load.clone());
        Setting { arrivals, horizon: 150.0, samples: 300, ..Setting::new(servers, 0.0) }
    };
    sizes(&[100, 400, 1_600, 6_400, 25_600, 102_400], most).map(of).collect()
}

/// What others do with the same tasks, after a warm-up.
fn rivals(most: u32) -> Vec<Setting> {
    let mut settings = Vec::new();
    for load in [0.3, 0.9] {
        let setting = Setting { warmup: 150.0, horizon: 400.0, ..Setting::new(1_000.min(most.max(1)), load) };
        let never = Delay::Never;
        for scheme in [Scheme::Tabs, Scheme::Jiq, Scheme::Jsq, Scheme::P2c, Scheme::Random, Scheme::DelayedOff] {
            let standby = if scheme.turns_off() { setting.standby } else { never };
            settings.push(Setting { scheme, standby, ..setting.clone() });
        }
        settings.push(Setting { abort: true, ..setting.clone() });
        settings.push(Setting { abort: true, scheme: Scheme::DelayedOff, ..setting.clone() });
        settings.push(Setting { scheme: Scheme::DelayedOff, standby: never, ..setting });
    }
    settings
}

/// Setups that are called off, for as long as it takes until waits are what they stay: that grows with the servers, since
/// what is turned off and on, on balance, is a server now and then, however many there are.
fn aborted(most: u32) -> Vec<Setting> {
    let of = |servers: u32| {
        let (warmup, horizon) = (20.0 * f64::from(servers), 60.0 * f64::from(servers));
        [true, false].map(|abort| Setting { abort, warmup, horizon, ..Setting::new(servers, 0.3) })
    };
    sizes(&[30, 100, 300, 1_000], most).flat_map(of).collect()
}

fn sizes(sizes: &[u32], most: u32) -> impl Iterator<Item = u32> {
    sizes.iter().copied().filter(move |servers| *servers <= most)
}

/// What a setting's policy is called.
pub(crate) fn called(setting: &Setting) -> &'static str {
    match (setting.scheme, setting.abort, setting.standby) {
        (Scheme::Tabs, false, _) => "tabs",
        (Scheme::Tabs, true, _) => "tabs, setups aborted",
        (Scheme::Jiq, ..) => "jiq",
        (Scheme::Jsq, ..) => "jsq",
        (Scheme::P2c, ..) => "p2c",
        (Scheme::Random, ..) => "random",
        (Scheme::DelayedOff, _, Delay::Never) => "M/M/N",
        (Scheme::DelayedOff, false, _) => "delayed_off",
        (Scheme::DelayedOff, true, _) => "delayed_off, setups aborted",
    }
}

impl Row {
    pub(crate) fn of(setting: &Setting, outcomes: &[Outcome]) -> Row {
        let figure = |value: fn(&Outcome) -> f64| Figure::sure(&outcomes.iter().map(value).collect::<Vec<f64>>());
        let load = match &setting.arrivals {
            Arrivals::Poisson(load) => load.at(0.0),
            Arrivals::Trace(_) => 0.0,
        };
        let wait = figure(|outcome| outcome.mean_wait);
        let setup = figure(|outcome| outcome.setup);
        let power = figure(|outcome| outcome.power_per_server_w);
        Row {
            policy: called(setting),
            lambda: load,
            mu: setting.standby.rate(),
            nu: setting.setup.rate(),
            servers: setting.servers,
            horizon: setting.horizon,
            warmup: setting.warmup,
            runs: outcomes.len(),
            mean_wait: wait.mean,
            fraction_waiting: figure(Outcome::fraction_waiting).mean,
            setup_fraction: setup.mean,
            idle_fraction: figure(|outcome| outcome.idle_on).mean,
            power_per_server_w: power.mean,
            wasted: figure(|outcome| outcome.wasted).mean,
            messages_per_task: figure(Outcome::messages_per_task).mean,
            ci: Halves { mean_wait: wait.half(), setup_fraction: setup.half(), power_per_server_w: power.half() },
        }
    }
}

impl Course {
    fn of(setting: &Setting, outcomes: &[Outcome]) -> Course {
        let curve = fluid(setting, PhaseType::exponential())
            .map_or_else(Vec::new, |fluid| fluid.curve(&setting.start, setting.horizon, setting.samples));
        let distances: Vec<f64> = outcomes.iter().map(|outcome| farthest(&outcome.path, &curve)).collect();
        let distance = Figure::sure(&distances);
        let path = outcomes.first().map(|outcome| outcome.path.clone()).unwrap_or_default();
        let distance_root_n = distance.mean * f64::from(setting.servers).sqrt();
        Course { servers: setting.servers, distance, distance_root_n, path, curve }
    }
}

/// The greatest difference of a share between a path and a curve that were sampled alike.
pub(crate) fn farthest(path: &[Sample], curve: &[Sample]) -> f64 {
    path.iter().zip(curve).map(|(ours, theirs)| ours.distance(theirs)).fold(0.0, f64::max)
}

/// The limit of a setting for many servers, if it has one that is known: token schemes, Poisson arrivals, exponential
/// standby and setup, setups that are not aborted.
pub(crate) fn fluid(setting: &Setting, service: PhaseType) -> Option<Fluid> {
    /// Tasks at a server beyond which the limit does not follow.
    const LEVELS: usize = 32;
    let Arrivals::Poisson(load) = &setting.arrivals else { return None };
    let tokens = matches!(setting.scheme, Scheme::Tabs | Scheme::Jiq);
    let fixed = setting.standby.fixed().is_some() || setting.setup.fixed().is_some();
    if !tokens || fixed || setting.abort {
        return None;
    }
    let standby = if setting.scheme.turns_off() { setting.standby.rate() } else { 0.0 };
    let levels = setting.buffer.map_or(LEVELS, |buffer| (buffer as usize).min(LEVELS));
    Some(Fluid { load: load.clone(), service, standby, setup: setting.setup.rate(), levels })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_its_rows_and_a_stopped_one_has_none() {
        let effort = Effort { runs: 2, most: 100, seed: 1 };
        let stop = AtomicBool::new(false);
        let found = measure(effort, &stop, &|_, _| ()).expect("all can be run").expect("it is not stopped");
        assert_eq!(
            (found.convergence.len(), found.standby.len(), found.fluid.len(), found.rivals.len(), found.aborted.len()),
            (8, 84, 1, 18, 4)
        );
        let row = &found.convergence[1];
        assert_eq!((row.servers, row.lambda, row.warmup, row.runs), (10, 0.3, 0.0, 2));
        assert!((row.mu - 0.1).abs() < 1e-12 && row.ci.mean_wait.is_some(), "{row:?}");
        assert_eq!(found.fluid[0].path.len(), found.fluid[0].curve.len());
        assert!(found.to_string().contains("delayed_off"));
        assert!(found.page().contains("</svg>"));
        stop.store(true, Ordering::Relaxed);
        assert!(measure(effort, &stop, &|_, _| ()).expect("all can be run").is_none());
    }
}
