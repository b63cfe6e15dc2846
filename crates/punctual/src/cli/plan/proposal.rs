//! What is proposed for a day, with what it stands on: a file for the gateway and for people. It is made once and never changed.

use std::fmt;

use punctual_core::id::Units;
use punctual_core::plan::Plan;
use punctual_tuner::backtest::{self, Backtest};
use punctual_tuner::configuration::{Configuration, Knobs, Performance};
use punctual_tuner::forecast::{Forecast, Forecaster, Summary};
use punctual_tuner::planning::{Planned, Promise};
use punctual_tuner::spinups::{Candidate, Enough};
use punctual_tuner::{Reservoir, search::Judged};
use serde::Serialize;

use super::make::Rules;
use crate::plan::file::FORMAT;

/// Days of the history that are forecast, to say what forecasts of it are worth.
const BACKTESTED: usize = 7;

/// A proposal.
#[derive(Debug, Serialize)]
pub(super) struct Proposal {
    format: u32,
    /// What the gateway reads.
    plan: Plan,
    /// The date.
    day: String,
    zone: String,
    target: f64,
    /// True if the target is met in the mean by which it is promised.
    meets_target: bool,
    /// Why it is not met, or may not be.
    limits: Vec<String>,
    /// What the plan is expected to come to.
    expected: Promise,
    /// What today's configuration is, and would come to.
    today: Today,
    /// What is other than today.
    changes: Vec<String>,
    /// What became of each fleet that was begun with.
    candidates: Vec<Tried>,
    /// The knobs that were judged, the best first.
    judged: Vec<Judged>,
    /// Configurations that were simulated.
    simulated: usize,
    forecast: Summary,
    /// What forecasts of the last days were worth; None if none can be compared.
    backtest: Option<Backtest>,
}

/// As it is without a plan.
#[derive(Debug, Serialize)]
struct Today {
    configuration: Configuration,
    expected: Promise,
}

/// A fleet that was begun with, and its starts.
#[derive(Debug, Serialize)]
struct Tried {
    configuration: Configuration,
    train: Performance,
    validation: Performance,
    because: Enough,
}

impl Proposal {
    pub(super) fn of(
        rules: &Rules,
        reservoir: &Reservoir,
        forecast: &Forecast,
        forecaster: &dyn Forecaster,
        planned: &Planned,
    ) -> Proposal {
        let Configuration { fleet, spinups, knobs } = planned.configuration.clone();
        let from = forecast.day.starts().unwrap_or_default();
        let (until, made_for) = (from + forecast.day.length(), rules.written.ground());
        let plan = Plan { id: Default::default(), from, until, fleet, spinups, knobs, made_for };
        let asked = backtest::Asked { days: BACKTESTED, ..Default::default() };
        let found = backtest::backtest(reservoir, &[forecaster], &asked);
        let tried = |candidate: &Candidate| Tried {
            configuration: candidate.configuration.clone(),
            train: candidate.train,
            validation: candidate.validation,
            because: candidate.because,
        };
        Proposal {
            format: FORMAT,
            plan,
            day: forecast.day.date.to_string(),
            zone: reservoir.zone().to_string(),
            target: rules.target,
            meets_target: planned.promise.violation_rate.mean <= rules.target,
            limits: planned.limits.iter().map(ToString::to_string).collect(),
            expected: planned.promise,
            today: Today { configuration: rules.today.clone(), expected: planned.today },
            changes: changes(&rules.today, &planned.configuration),
            candidates: planned.candidates.iter().map(tried).collect(),
            judged: planned.tuned.as_ref().map(|tuned| tuned.judged.clone()).unwrap_or_default(),
            simulated: planned.simulated,
            forecast: forecast.summary(reservoir),
            backtest: (!found.days.is_empty()).then_some(found),
        }
    }

    /// As it is written down.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

/// What is other in `to`, in words.
pub(super) fn changes(from: &Configuration, to: &Configuration) -> Vec<String> {
    let mut changes = Vec::new();
    if from.fleet != to.fleet {
        changes.push(format!("at the beginning {} instead of {}", fleet(&to.fleet), fleet(&from.fleet)));
    }
    for spinup in to.spinups.iter().filter(|spinup| !from.spinups.contains(spinup)) {
        changes.push(format!("starts size {} after {}", spinup.size.0, clock(spinup.at.secs_f64())));
    }
    for spinup in from.spinups.iter().filter(|spinup| !to.spinups.contains(spinup)) {
        changes.push(format!("does not start size {} after {}", spinup.size.0, clock(spinup.at.secs_f64())));
    }
    changes.extend(knobs(&from.knobs, &to.knobs));
    changes
}

fn knobs(from: &Knobs, to: &Knobs) -> Vec<String> {
    let pairs = [
        ("scaling.lifetime", from.lifetime.to_string(), to.lifetime.to_string()),
        ("scaling.idle", from.idle.to_string(), to.idle.to_string()),
        ("scaling.observations", from.observations.to_string(), to.observations.to_string()),
        ("scaling.window", from.window.to_string(), to.window.to_string()),
        ("scaling.completions", from.completions.to_string(), to.completions.to_string()),
        ("scaling.late_share", from.late_share.to_string(), to.late_share.to_string()),
        ("policy.counting", from.counting.name().to_owned(), to.counting.name().to_owned()),
    ];
    let others = pairs.into_iter().filter(|(_, from, to)| from != to);
    others.map(|(name, from, to)| format!("{name} {to} instead of {from}")).collect()
}

fn fleet(sizes: &[Units]) -> String {
    match sizes {
        [] => "nothing".to_owned(),
        sizes => format!("[{}]", sizes.iter().map(|units| units.0.to_string()).collect::<Vec<_>>().join(", ")),
    }
}

/// So long after the beginning of the day: 9:30 h.
fn clock(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    format!("{}:{:02} h", minutes / 60, minutes % 60)
}

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ({}), target {:.1} % late", self.day, self.zone, 100.0 * self.target)?;
        let line = |f: &mut fmt::Formatter<'_>, name: &str, promise: &Promise| {
            let (rate, cost) = (promise.violation_rate, promise.cost);
            writeln!(
                f,
                "  {name:<8} {:>5.1} % late ({:.1} to {:.1})   ${:.2} ({:.2} to {:.2})",
                100.0 * rate.mean,
                100.0 * rate.low,
                100.0 * rate.high.min(1.0),
                cost.mean,
                cost.low,
                cost.high
            )
        };
        line(f, "planned", &self.expected)?;
        line(f, "today's", &self.today.expected)?;
        writeln!(f, "in brackets where a single day lies, nine times of ten; {} workloads\n", self.expected.workloads)?;
        if self.changes.is_empty() {
            writeln!(f, "nothing is better than what there is")?;
        }
        for change in &self.changes {
            writeln!(f, "  {change}")?;
        }
        for limit in &self.limits {
            writeln!(f, "  but: {limit}")?;
        }
        let [queries, few, many] = self.forecast.queries;
        writeln!(f, "\n{queries:.0} queries are forecast ({few:.0} to {many:.0}), by {}", self.forecast.forecaster)?;
        for unknown in &self.forecast.unknown {
            writeln!(f, "  not known: {unknown}")?;
        }
        let worth = self.backtest.as_ref().and_then(|backtest| backtest.forecasters.last().map(|of| (backtest, of)));
        match worth {
            Some((backtest, of)) => write!(
                f,
                "forecasts of the last {} days that can be compared were off by {:.0} % an hour, and {:.0} % at the busiest five minutes",
                backtest.days.len(),
                100.0 * of.hourly_error,
                100.0 * of.peak_error
            )?,
            None => f.write_str("no day can be compared with its forecast yet")?,
        }
        write!(f, "\n{} configurations were simulated", self.simulated)
    }
}
