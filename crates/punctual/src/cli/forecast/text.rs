//! A forecast, and a backtest, for people.

use std::fmt;

use punctual_tuner::backtest::{Backtest, Worth};
use punctual_tuner::forecast::Summary;

use crate::print;

/// A day that could come.
pub(super) struct Page<'a>(pub(super) &'a Summary);

/// What forecasts were worth.
pub(super) struct Table<'a>(pub(super) &'a Backtest);

/// The widest bar of an hour.
const WIDEST: f64 = 40.0;
/// Shapes that are shown.
const SHAPES: usize = 10;

impl fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { day, weekday, zone, forecaster, workloads, basis, .. } = self.0;
        let days = print::counted(basis.days.into(), "day", "days");
        writeln!(
            f,
            "{day}, a {weekday} ({zone}), by {forecaster} from {days}, {} of its kind: {workloads} workloads",
            basis.such_days
        )?;
        let [queries, few, many] = self.0.queries;
        let [peak, low, high] = self.0.busiest_five_minutes;
        writeln!(
            f,
            "{queries:.0} queries ({few:.0} to {many:.0}), at most {peak:.0} within five minutes ({low:.0} to {high:.0})"
        )?;
        writeln!(f, "gaps deviate {:.1} times their mean\n", self.0.gap_cv[0])?;
        writeln!(f, "hour  queries  10 % .. 90 %")?;
        let most = self.0.hours.iter().map(|hour| hour.queries[0]).fold(1.0, f64::max);
        for hour in &self.0.hours {
            let [mean, low, high] = hour.queries;
            let bar = "█".repeat((mean / most * WIDEST).round() as usize);
            let range = format!("{low:.0} .. {high:.0}");
            writeln!(f, "{}", format!("{:>4} {mean:>8.1}  {range:<12}  {bar}", hour.hour).trim_end())?;
        }
        if !self.0.shapes.is_empty() {
            writeln!(f, "\nfingerprint       queries  class")?;
        }
        for shape in self.0.shapes.iter().take(SHAPES) {
            let class = shape.class.as_deref().unwrap_or("-");
            writeln!(f, "{}  {:>7.1}  {class}", shape.fingerprint, shape.queries)?;
        }
        match &self.0.unknown[..] {
            [] => write!(f, "\nNothing of what it needs to know is missing."),
            unknown => {
                write!(f, "\nWhat it cannot know:")?;
                unknown.iter().try_for_each(|unknown| write!(f, "\n- {unknown}"))
            }
        }
    }
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Backtest { days, short, new_shapes, forecasters } = self.0;
        let (first, last) = (days.first(), days.last());
        if let Some((first, last)) = first.zip(last) {
            let days = print::counted(days.len() as u64, "day", "days");
            writeln!(f, "{days} from {first} to {last}, each forecast from what was known before it")?;
        }
        writeln!(f)?;
        writeln!(
            f,
            "{:<16} {:>18} {:>18} {:>18} {:>16} {:>7} {:>7} {:>6}",
            "off by, %", "queries by hour", "busiest 5 minutes", "busiest hour", "mix", "bias", "within", "CV"
        )?;
        for worth in forecasters {
            row(f, worth)?;
        }
        writeln!(f)?;
        if let Some([_, came]) = forecasters.first().and_then(|worth| worth.gap_cv) {
            writeln!(
                f,
                "Within: hours between the 10 and 90 % quantiles of the workloads; 80 would be right. CV of gaps: {came:.2} came."
            )?;
        }
        writeln!(f, "{:.1} % of what came was of shapes that had never come before.", 100.0 * new_shapes)?;
        let said = "Less than a week was known: what differs between days of the week could not be.";
        write!(
            f,
            "In brackets: against the same day of the week before.{}",
            if *short { format!("\n{said}") } else { String::new() }
        )
    }
}

fn row(f: &mut fmt::Formatter<'_>, worth: &Worth) -> fmt::Result {
    let against = worth.against_baseline;
    let baseline = worth.forecaster == "seasonal_naive";
    let error = |error: f64, against: Option<f64>| match against {
        Some(by) if !baseline => format!("{:.1} ({:+.0} %)", 100.0 * error, 100.0 * by),
        _ => format!("{:.1}", 100.0 * error),
    };
    let within = if baseline { "-".to_owned() } else { format!("{:.0}", 100.0 * worth.hourly_within) };
    let cv = worth.gap_cv.map_or("-".to_owned(), |[cv, _]| format!("{cv:.2}"));
    writeln!(
        f,
        "{:<16} {:>18} {:>18} {:>18} {:>16} {:>+7.1} {within:>7} {cv:>6}",
        worth.forecaster,
        error(worth.hourly_error, against.hourly_error),
        error(worth.peak_error, against.peak_error),
        error(worth.busiest_hour_error, against.busiest_hour_error),
        error(worth.mix_error, against.mix_error),
        100.0 * worth.bias,
    )
}
