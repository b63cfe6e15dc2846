//! What a run of the demonstration showed: numbers for programs, a table for people.

use std::fmt;
use std::path::PathBuf;

use punctual_core::math;
use punctual_core::time::Span;
use serde::Serialize;

use super::load::{End, Seen, Shown};
use super::workload::CLASSES;

/// The outcome of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The routing policy.
    pub policy: String,
    /// How long queries were sent, in seconds.
    pub seconds: f64,
    /// Queries sent.
    pub queries: u64,
    /// Queries whose outcome nobody knows: no answer, or a connection that broke.
    pub lost: u64,
    /// Queries that the gateway refused.
    pub refused: u64,
    /// Queries that got an error.
    pub failed: u64,
    /// What the clusters cost, in dollars.
    pub cost_usd: f64,
    /// By class, most urgent first.
    pub classes: Vec<ClassReport>,
    /// Where the ended queries are recorded.
    pub history: PathBuf,
    /// Where the decisions are recorded.
    pub journal: PathBuf,
    /// The first error that a client saw, if one did.
    pub first_error: Option<String>,
}

/// The outcome for one class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassReport {
    /// Its name.
    pub name: String,
    /// Queries sent.
    pub queries: u64,
    /// Its latency target, in seconds.
    pub slo_s: f64,
    /// Queries that missed it: late, refused, failed or lost.
    pub missed: u64,
    /// Their share.
    pub violation_rate: f64,
    /// Median latency of the answered, in seconds, as clients saw it.
    pub p50_s: Option<f64>,
    /// 95th percentile.
    pub p95_s: Option<f64>,
    /// 99th percentile.
    pub p99_s: Option<f64>,
}

/// What the gateway knows and clients do not.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The routing policy.
    pub policy: String,
    /// How long queries were sent.
    pub length: Span,
    /// Dollars.
    pub cost: f64,
    /// Where the ended queries are recorded.
    pub history: PathBuf,
    /// Where the decisions are recorded.
    pub journal: PathBuf,
}

impl Report {
    /// Puts together what clients saw and what the gateway knows.
    pub fn of(seen: &Seen, facts: Facts) -> Report {
        let shown = seen.shown();
        let sent = (0..CLASSES.len()).map(|class| seen.sent(class)).sum::<u64>();
        let count = |which: fn(&End) -> bool| shown.iter().filter(|one| which(&one.end)).count() as u64;
        let unanswered = sent.saturating_sub(shown.len() as u64);
        let first_error = shown.iter().find_map(|one| match &one.end {
            End::Failed(error) | End::Lost(error) => Some(error.clone()),
            End::Answered | End::Refused => None,
        });
        Report {
            policy: facts.policy,
            seconds: facts.length.secs_f64(),
            queries: sent,
            lost: unanswered + count(|end| matches!(end, End::Lost(_))),
            refused: count(|end| matches!(end, End::Refused)),
            failed: count(|end| matches!(end, End::Failed(_))),
            cost_usd: facts.cost,
            classes: (0..CLASSES.len()).map(|class| class_report(class, seen.sent(class), &shown)).collect(),
            history: facts.history,
            journal: facts.journal,
            first_error,
        }
    }
}

fn class_report(class: usize, sent: u64, shown: &[Shown]) -> ClassReport {
    let slo = CLASSES[class].slo;
    let mut answered: Vec<Span> =
        shown.iter().filter(|one| one.class == class && one.end == End::Answered).map(|one| one.latency).collect();
    answered.sort_unstable();
    let met = answered.iter().filter(|latency| **latency <= slo).count() as u64;
    let missed = sent.saturating_sub(met);
    let ranks = math::nearest_ranks(&answered, [0.50, 0.95, 0.99]);
    let latency = |rank: usize| ranks.map(|ranks| ranks[rank].secs_f64());
    ClassReport {
        name: CLASSES[class].name.to_owned(),
        queries: sent,
        slo_s: slo.secs_f64(),
        missed,
        violation_rate: if sent == 0 { 0.0 } else { missed as f64 / sent as f64 },
        p50_s: latency(0),
        p95_s: latency(1),
        p99_s: latency(2),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "policy {}, {:.0} s, {} queries", self.policy, self.seconds, self.queries)?;
        writeln!(f)?;
        writeln!(
            f,
            "  {:<12} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>9}",
            "class", "queries", "SLO", "missed", "rate", "p50", "p95", "p99"
        )?;
        for class in &self.classes {
            writeln!(
                f,
                "  {:<12} {:>8} {:>8} {:>8} {:>7.1}% {:>9} {:>9} {:>9}",
                class.name,
                class.queries,
                format!("{} s", class.slo_s),
                class.missed,
                100.0 * class.violation_rate,
                seconds(class.p50_s),
                seconds(class.p95_s),
                seconds(class.p99_s),
            )?;
        }
        writeln!(f)?;
        writeln!(
            f,
            "  cost {:.4} $   refused {}   failed {}   lost {}",
            self.cost_usd, self.refused, self.failed, self.lost
        )?;
        if let Some(error) = &self.first_error {
            writeln!(f, "  first error: {error}")?;
        }
        writeln!(f, "  history {}", self.history.display())?;
        write!(f, "  journal {}", self.journal.display())
    }
}

/// Several runs of the same arrivals, side by side.
#[derive(Debug)]
pub struct Comparison<'a>(pub &'a [Report]);

impl fmt::Display for Comparison<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "side by side: queries that missed their SLO, and p95\n\n  {:<18}", "policy")?;
        for class in CLASSES.iter() {
            write!(f, " {:>20}", class.name)?;
        }
        writeln!(f, " {:>10}", "cost")?;
        for report in self.0 {
            write!(f, "  {:<18}", report.policy)?;
            for class in &report.classes {
                write!(f, " {:>9} {:>10}", class.missed, seconds(class.p95_s))?;
            }
            writeln!(f, " {:>8.4} $", report.cost_usd)?;
        }
        write!(f, "\n  One run each: a few queries more or less are chance. A longer --seconds tells more.")
    }
}

fn seconds(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3} s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_was_not_answered_in_time_missed_its_slo() {
        let shown = |class, millis, end| Shown { class, latency: Span::from_millis(millis), end };
        let all = [
            shown(0, 100, End::Answered),
            shown(0, 800, End::Answered),
            shown(0, 1, End::Refused),
            shown(0, 1, End::Failed("no".into())),
            shown(1, 100, End::Answered),
        ];
        let report = class_report(0, 5, &all);
        assert_eq!((report.queries, report.missed, report.violation_rate), (5, 4, 0.8));
        assert_eq!((report.p50_s, report.p95_s), (Some(0.1), Some(0.8)));
    }

    #[test]
    fn runs_stand_side_by_side_with_what_each_class_missed() {
        let report = |policy: &str, missed| Report {
            policy: policy.to_owned(),
            seconds: 10.0,
            queries: 9,
            lost: 0,
            refused: 0,
            failed: 0,
            cost_usd: 0.25,
            classes: vec![ClassReport {
                name: "dashboards".to_owned(),
                queries: 9,
                slo_s: 0.5,
                missed,
                violation_rate: 0.0,
                p50_s: None,
                p95_s: Some(0.125),
                p99_s: None,
            }],
            history: PathBuf::new(),
            journal: PathBuf::new(),
            first_error: None,
        };
        let text = Comparison(&[report("p2c", 7), report("round_robin", 4)]).to_string();
        let rows: Vec<Vec<&str>> = text.lines().skip(3).take(2).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["p2c", "7", "0.125", "s", "0.2500", "$"]);
        assert_eq!(rows[1], ["round_robin", "4", "0.125", "s", "0.2500", "$"]);
    }
}
