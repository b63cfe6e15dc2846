//! The table of the schemes, with what must hold in it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use punctual_core::math;
use punctual_sim::world::warehouse::Table;
use serde::Serialize;

use super::{Load, Outcome, Scheme, What, run};
use crate::experiment::workers;
use crate::figure::Figure;

/// A scheme: means over seeds, each with half the width of its 95 % interval, which one seed has not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The scheme.
    pub policy: &'static str,
    /// What 95 % of the light queries do not exceed, in seconds.
    pub light_p95_s: f64,
    /// Its interval.
    pub light_p95_s_ci95: Option<f64>,
    /// The same, as a multiple of `light_only`'s, seed by seed.
    pub light_p95_times: f64,
    /// Its interval.
    pub light_p95_times_ci95: Option<f64>,
    /// Their median, in seconds.
    pub light_p50_s: f64,
    /// The share of them that missed their SLO.
    pub light_violation_rate: f64,
    /// Its interval.
    pub light_violation_rate_ci95: Option<f64>,
    /// Heavy queries that finished, an hour.
    pub heavy_throughput: f64,
    /// Its interval.
    pub heavy_throughput_ci95: Option<f64>,
    /// Heavy queries that may run at once.
    pub heavy_slots: u32,
    /// Throughput over that of the heavy queries alone on as many slots, seed by seed; None where there are none.
    pub heavy_share_of_lane: Option<f64>,
    /// Its interval.
    pub heavy_share_of_lane_ci95: Option<f64>,
    /// The longest that a heavy query waited that ran, in seconds.
    pub heavy_waited_most_s: f64,
}

/// The table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Laning {
    /// What comes, and where it runs.
    pub load: Load,
    /// The share of the processors that light queries take.
    pub light_share: f64,
    /// Heavy queries that would fit, an hour.
    pub heavy_fits: f64,
    /// By scheme.
    pub rows: Vec<Row>,
    /// How many times each was run.
    pub seeds: u64,
    /// What should hold, and whether it does.
    pub bounds: Vec<Bound>,
}

/// Something that should hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bound {
    /// What.
    pub what: String,
    /// Whether it does.
    pub holds: bool,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", if self.holds { "holds: " } else { "BROKEN:" }, self.what)
    }
}

/// Runs every scheme with so many seeds on all cores. `tell` hears of each run that is done, of how many; None if `stop` was set.
pub fn compare(
    load: &Load,
    seeds: u64,
    table: &Arc<Table>,
    stop: &AtomicBool,
    tell: &(dyn Fn(usize, usize) + Sync),
) -> Option<Laning> {
    let mut slots = Scheme::ALL.map(|scheme| scheme.heavy_slots(load)).to_vec();
    slots.sort_unstable();
    slots.dedup();
    let alone = slots.into_iter().map(What::HeavyAlone);
    let jobs: Vec<What> = Scheme::ALL.map(What::Scheme).into_iter().chain(alone).collect();
    let each = seeds as usize;
    let outcomes =
        workers::all(jobs.len() * each, stop, tell, |at| run(jobs[at / each], load, (at % each) as u64, table))?;
    let of = |what: What| -> &[Outcome] {
        let at = jobs.iter().position(|job| *job == what).unwrap_or_default();
        &outcomes[at * each..(at + 1) * each]
    };
    let rows: Vec<Row> = Scheme::ALL.into_iter().map(|scheme| row(scheme, load, of)).collect();
    let bounds = bounds(&rows);
    let heavy_fits = 3_600.0 * load.fits(table);
    Some(Laning { load: *load, light_share: load.light_share(table), heavy_fits, rows, seeds, bounds })
}

fn row<'a>(scheme: Scheme, load: &Load, of: impl Fn(What) -> &'a [Outcome]) -> Row {
    let outcomes = of(What::Scheme(scheme));
    let heavy_slots = scheme.heavy_slots(load);
    let quantile = |outcome: &Outcome, q| math::nearest_ranks(&outcome.light, [q]).map_or(0.0, |[found]| found);
    let p95 = |outcome: &Outcome| quantile(outcome, 0.95);
    let figure = |value: &dyn Fn(&Outcome) -> f64| Figure::sure(&outcomes.iter().map(value).collect::<Vec<_>>());
    let beside = |others: &[Outcome], value: &dyn Fn(&Outcome) -> f64| {
        let ratios = outcomes.iter().zip(others).map(|(one, other)| value(one) / value(other).max(1e-9));
        Figure::sure(&ratios.collect::<Vec<_>>())
    };
    let (light, late) = (figure(&p95), figure(&Outcome::light_violation_rate));
    let times = beside(of(What::Scheme(Scheme::LightOnly)), &p95);
    let heavy = figure(&Outcome::heavy_an_hour);
    let share = beside(of(What::HeavyAlone(heavy_slots)), &Outcome::heavy_an_hour);
    let share = (scheme != Scheme::LightOnly).then_some(share);
    Row {
        policy: scheme.name(),
        light_p95_s: light.mean,
        light_p95_s_ci95: light.half(),
        light_p95_times: times.mean,
        light_p95_times_ci95: times.half(),
        light_p50_s: figure(&|outcome| quantile(outcome, 0.5)).mean,
        light_violation_rate: late.mean,
        light_violation_rate_ci95: late.half(),
        heavy_throughput: heavy.mean,
        heavy_throughput_ci95: heavy.half(),
        heavy_slots,
        heavy_share_of_lane: share.map(|share| share.mean),
        heavy_share_of_lane_ci95: share.and_then(Figure::half),
        heavy_waited_most_s: outcomes.iter().map(|outcome| outcome.heavy_waited_most).fold(0.0, f64::max),
    }
}

/// What should hold: the load is hard, lanes help and let the heavy through, and an order alone does not help.
fn bounds(rows: &[Row]) -> Vec<Bound> {
    let times = |policy: &str| rows.iter().find(|row| row.policy == policy).map_or(0.0, |row| row.light_p95_times);
    let bound = |what: String, holds: bool| Bound { what, holds };
    let mut bounds = vec![bound(
        "none: the light take at least 3 times as long as alone, or the load would be too easy".to_owned(),
        times("none") >= 3.0,
    )];
    for policy in ["hilo", "manual"] {
        let share = rows.iter().find(|row| row.policy == policy).and_then(|row| row.heavy_share_of_lane);
        bounds.push(bound(
            format!("{policy}: the light take at most 1.5 times as long as alone"),
            (f64::MIN_POSITIVE..=1.5).contains(&times(policy)),
        ));
        bounds.push(bound(
            format!("{policy}: the heavy get at least 80 % of what their lane allows"),
            share.is_some_and(|share| share >= 0.8),
        ));
    }
    for policy in ["priority", "thresholds", "fair"] {
        bounds.push(bound(
            format!("{policy}: an order without lanes is not enough, the light take more than 1.5 times as long"),
            times(policy) > 1.5,
        ));
    }
    bounds
}

impl fmt::Display for Laning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Load { units, slots, light_a_second, light_slo_s, heavy_times, .. } = self.load;
        let (share, fits) = (100.0 * self.light_share, self.heavy_fits);
        writeln!(
            f,
            "One cluster of {units} units, {slots} slots. Light: {light_a_second} a second in batches, {share:.0} % of the processors, late"
        )?;
        writeln!(f, "after {light_slo_s} s. Heavy: {heavy_times} times the {fits:.0} an hour that would fit.\n")?;
        writeln!(
            f,
            "{:<11} {:>18} {:>16} {:>15} {:>18} {:>20} {:>12}",
            "policy",
            "light p95, s",
            "beside alone",
            "light late, %",
            "heavy an hour",
            "of what fits lane, %",
            "waited, s"
        )?;
        for row in &self.rows {
            let within =
                |half: Option<f64>, digits: usize| half.map_or_else(String::new, |half| format!(" ±{half:.digits$}"));
            let light = format!("{:.2}{}", row.light_p95_s, within(row.light_p95_s_ci95, 2));
            let times = format!("×{:.2}{}", row.light_p95_times, within(row.light_p95_times_ci95, 2));
            let late = format!(
                "{:.1}{}",
                100.0 * row.light_violation_rate,
                within(row.light_violation_rate_ci95.map(|half| 100.0 * half), 1)
            );
            let heavy = format!("{:.0}{}", row.heavy_throughput, within(row.heavy_throughput_ci95, 0));
            let share = row.heavy_share_of_lane.map_or_else(
                || "-".to_owned(),
                |share| {
                    let half = row.heavy_share_of_lane_ci95.map(|half| 100.0 * half);
                    format!("{:.0}{} of {}", 100.0 * share, within(half, 0), row.heavy_slots)
                },
            );
            let waited = row.heavy_waited_most_s;
            writeln!(
                f,
                "{:<11} {light:>18} {times:>16} {late:>15} {heavy:>18} {share:>20} {waited:>12.0}",
                row.policy
            )?;
        }
        writeln!(f)?;
        self.bounds.iter().try_for_each(|bound| writeln!(f, "{bound}"))?;
        write!(
            f,
            "{} seeds. An order decides who is next, not who runs: what runs is not interrupted, and all slots are taken by the heavy.",
            self.seeds
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_keep_the_light_quick_and_the_heavy_going_and_an_order_alone_does_not() {
        let (load, table) = (Load { minutes: 40, ..Load::default() }, Arc::new(Table::shipped().clone()));
        let found = compare(&load, 2, &table, &AtomicBool::new(false), &|_, _| {}).unwrap();
        assert!(found.bounds.iter().all(|bound| bound.holds), "{found}");
        let row = |policy: &str| found.rows.iter().find(|row| row.policy == policy).expect("a row");
        assert_eq!((row("hilo").heavy_slots, row("manual").heavy_slots, row("none").heavy_slots), (3, 2, 26));
        assert_eq!((row("light_only").heavy_throughput, row("light_only").heavy_share_of_lane), (0.0, None));
        assert!((row("light_only").light_p95_times - 1.0).abs() < 1e-12);
        assert!(row("priority").light_violation_rate > 0.9 && row("hilo").light_violation_rate < 0.2, "{found}");
    }
}
