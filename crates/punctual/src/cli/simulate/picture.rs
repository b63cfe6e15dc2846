//! A simulation, drawn: for each policy what ran and waited, what came and was late, and which query ran where and when.
//!
//! Bounded, however long the simulation: time is cut into [`BINS`] pieces, at most [`BARS`] queries are drawn as bars,
//! evenly taken, and at most [`DRAWN`] policies are drawn.

use std::collections::BTreeMap;

use punctual_core::id::ClusterId;
use punctual_core::query::Ended;
use punctual_core::time::{Span, Time};
use punctual_sim::rehearsal::{Life, Rehearsed};

use super::found::Found;
use crate::model::report::page::Page;
use crate::model::report::plot::{Axis, Colour, Plot, Scale};

/// Pieces of time in a line.
const BINS: usize = 240;

/// Pieces of time in which arrivals are counted.
const COUNTS: usize = 60;

/// The most queries that are drawn as bars.
const BARS: usize = 1_500;

/// The most policies that are drawn.
const DRAWN: usize = 12;

/// The most clusters whose queries are drawn.
const CLUSTERS: usize = 40;

/// The most bars one above the other on a cluster.
const LANES: usize = 64;

const IN_TIME: Colour = 0;
const LATE: Colour = 1;
const FLEET: Colour = 3;
const LIFE: Colour = 5;

/// The page about a simulation; of each policy the run with the first seed.
pub(super) fn page(found: &Found, runs: &[&Rehearsed]) -> String {
    let below =
        format!("{}: {:.0} queries. World: {}. SLO: {}.", found.workload, found.queries, found.world, found.slo);
    let mut page = Page::new("Simulation", &below);
    for (of, run) in found.policies.iter().zip(runs).take(DRAWN) {
        let rate = of.violation_rate.map_or("no SLO".to_owned(), |rate| format!("{:.2} % late", 100.0 * rate.mean));
        let title = format!("{}: {rate}, ${:.2}", of.policy, of.cost.mean);
        let clock = Clock::over(run.lasted);
        running(run, clock, &title, &mut page);
        coming(run, clock, &of.policy, &mut page);
        places(run, clock, &of.policy, &mut page);
    }
    page.html(&found.to_string())
}

/// Time as an axis shows it.
#[derive(Clone, Copy)]
struct Clock {
    whole: f64,
    unit: f64,
    name: &'static str,
}

impl Clock {
    fn over(lasted: Span) -> Clock {
        let whole = lasted.secs_f64().max(1e-3);
        let (unit, name) = match whole {
            ..300.0 => (1.0, "seconds"),
            ..10_800.0 => (60.0, "minutes"),
            _ => (3_600.0, "hours"),
        };
        Clock { whole, unit, name }
    }

    fn axis(self) -> Axis {
        Axis::over(self.name, Scale::Linear, [0.0, self.whole / self.unit])
    }

    fn at(self, at: Time) -> f64 {
        at.since(Time::ZERO).secs_f64() / self.unit
    }

    /// Which of so many pieces of the time an instant lies in.
    fn bin(self, at: Time, bins: usize) -> usize {
        ((at.since(Time::ZERO).secs_f64() / self.whole * bins as f64) as usize).min(bins - 1)
    }

    /// The beginning of a piece.
    fn of_bin(self, bin: usize, bins: usize) -> f64 {
        self.whole / self.unit * bin as f64 / bins as f64
    }
}

/// How many of these spans, each with its weight, there are at the beginning of each piece of the time.
fn at_once(clock: Clock, spans: impl Iterator<Item = (Time, Time, f64)>) -> Vec<f64> {
    let mut change = vec![0.0; BINS + 2];
    for (from, to, weight) in spans {
        // It is there at the beginnings of the pieces after the one in which it begins, up to the one in which it ends.
        let begins =
            |at: Time| (at.since(Time::ZERO).secs_f64() / clock.whole * BINS as f64).ceil().min(BINS as f64 + 1.0);
        change[begins(from) as usize] += weight;
        change[begins(to) as usize] -= weight;
    }
    let mut now = 0.0;
    let sum = |change: &f64| {
        now += change;
        now
    };
    change[..=BINS].iter().map(sum).collect()
}

fn running(run: &Rehearsed, clock: Clock, title: &str, page: &mut Page) {
    let end = Time::ZERO + run.lasted;
    let placed = |ended: &Ended| ended.placed.unwrap_or(ended.ended);
    let waits = at_once(clock, run.ended.iter().map(|ended| (ended.arrived, placed(ended), 1.0)));
    let runs = at_once(clock, run.ended.iter().map(|ended| (placed(ended), ended.ended, 1.0)));
    let there = run.lives.iter().filter_map(|life| {
        life.ready.map(|ready| (ready, life.gone.unwrap_or(end + Span::from_secs(1)), f64::from(life.units.0)))
    });
    let units = at_once(clock, there);
    let most = [&waits, &runs, &units].into_iter().flatten().copied();
    let mut plot = Plot::new(clock.axis(), Axis::over("queries; units", Scale::Linear, most.chain([0.0, 1.0])));
    for (values, class, colour) in [(&units, "dashed", FLEET), (&waits, "thin", LATE), (&runs, "thick", IN_TIME)] {
        let places = values.iter().enumerate().map(|(bin, value)| (clock.of_bin(bin, BINS), *value));
        plot.line(places, class, colour);
    }
    let legend = [(IN_TIME, "queries that run"), (LATE, "queries that wait"), (FLEET, "units of ready clusters")];
    let legend = legend.map(|(colour, name)| (colour, name.to_owned()));
    let caption = "What runs and waits, and how large the fleet is. Seen from the outside: a cluster may have a queue of its own.";
    page.plot(title, caption, &plot.svg("queries that run and wait, and units, over time"), &legend);
}

fn coming(run: &Rehearsed, clock: Clock, title: &str, page: &mut Page) {
    let (mut came, mut late) = ([0.0f64; COUNTS], [0.0f64; COUNTS]);
    for ended in &run.ended {
        let bin = clock.bin(ended.arrived, COUNTS);
        came[bin] += 1.0;
        late[bin] += f64::from(u8::from(ended.violated == Some(true)));
    }
    let most = came.iter().copied().fold(1.0, f64::max);
    let mut plot = Plot::new(clock.axis(), Axis::over("queries", Scale::Linear, [0.0, most]));
    let thick = (470.0 / COUNTS as f64).max(1.0);
    for bin in 0..COUNTS {
        let x = (clock.of_bin(bin, COUNTS) + clock.of_bin(bin + 1, COUNTS)) / 2.0;
        for (count, colour) in [(came[bin], IN_TIME), (late[bin], LATE)] {
            if count > 0.0 {
                plot.column(x, count, thick, colour, format!("{:.0} came, {:.0} of them late", came[bin], late[bin]));
            }
        }
    }
    let legend = [(IN_TIME, "came".to_owned()), (LATE, "came, and was late".to_owned())];
    let caption = "By the time of their arrival. Late: missed its SLO, was refused, failed or was lost.";
    page.plot(&format!("{title}: arrivals"), caption, &plot.svg("arrivals and violations over time"), &legend);
}

fn places(run: &Rehearsed, clock: Clock, title: &str, page: &mut Page) {
    let mut rows: BTreeMap<ClusterId, (usize, String)> = BTreeMap::new();
    for life in &run.lives {
        let next = rows.len();
        rows.entry(life.cluster).or_insert((next, format!("#{} ({})", life.cluster, life.units.0)));
    }
    rows.retain(|_, (at, _)| *at < CLUSTERS);
    let mut names = vec![String::new(); rows.len()];
    rows.values().for_each(|(at, name)| names[*at].clone_from(name));
    let mut plot = Plot::new(clock.axis(), Axis::of_names("", names));
    let high = plot.step_up();
    for life in run.lives.iter().filter(|life| rows.contains_key(&life.cluster)) {
        lived(&mut plot, clock, life, run.lasted, rows[&life.cluster].0 as f64, high);
    }
    let here = laid(run, &rows);
    let (of, kept) = (here.len(), here.len().min(BARS));
    let lanes = here.iter().map(|laid| laid.lane + 1).max().unwrap_or(1) as f64;
    for (at, Laid { ended, placed, row, lane }) in here.into_iter().enumerate() {
        if (at + 1) * kept / of > at * kept / of {
            let y = row as f64 - 0.4 + 0.8 * (lane as f64 + 0.5) / lanes;
            let colour = if ended.violated == Some(true) { LATE } else { IN_TIME };
            let waited = placed.since(ended.arrived);
            let word = format!("query {}: waited {waited}, ran {}", ended.query.fingerprint, ended.ended.since(placed));
            let thick = (0.8 * high / lanes * 0.8).clamp(0.8, 12.0);
            plot.bar((clock.at(placed), y), (clock.at(ended.ended), y), thick, colour, word);
        }
    }
    let how_many = if of > kept { format!("{kept} of {of} queries, evenly taken. ") } else { String::new() };
    let caption = format!(
        "{how_many}Each bar is a query, from its placement to its end. A row is a cluster (its size), its band the time for which it was ready."
    );
    let legend = [(IN_TIME, "in time, or without SLO"), (LATE, "late"), (LIFE, "ready")];
    let legend = legend.map(|(colour, name)| (colour, name.to_owned()));
    page.plot(&format!("{title}: clusters"), &caption, &plot.svg("queries by cluster over time"), &legend);
}

/// A query as a bar.
struct Laid<'a> {
    ended: &'a Ended,
    placed: Time,
    /// The place of its cluster.
    row: usize,
    /// Its place there among those that run beside it.
    lane: usize,
}

/// Every query that was placed on one of these clusters, on the lowest lane that is free.
fn laid<'a>(run: &'a Rehearsed, rows: &BTreeMap<ClusterId, (usize, String)>) -> Vec<Laid<'a>> {
    let on_row = |ended: &'a Ended| {
        let (placed, (cluster, _)) = (ended.placed?, ended.cluster?);
        rows.get(&cluster).map(|(row, _)| Laid { ended, placed, row: *row, lane: 0 })
    };
    let mut here: Vec<Laid<'_>> = run.ended.iter().filter_map(on_row).collect();
    here.sort_by_key(|laid| (laid.placed, laid.ended.query.id));
    // When each lane of each cluster is free again.
    let mut lanes: BTreeMap<usize, Vec<Time>> = BTreeMap::new();
    for (at, laid) in here.iter_mut().enumerate() {
        let free = lanes.entry(laid.row).or_default();
        laid.lane = match free.iter().position(|until| *until <= laid.placed) {
            Some(lane) => lane,
            None if free.len() < LANES => free.len(),
            None => at % LANES,
        };
        free.resize(free.len().max(laid.lane + 1), Time::ZERO);
        free[laid.lane] = free[laid.lane].max(laid.ended.ended);
    }
    here
}

fn lived(plot: &mut Plot, clock: Clock, life: &Life, lasted: Span, row: f64, high: f64) {
    let end = Time::ZERO + lasted;
    let y = row - 0.46;
    if let Some(ready) = life.ready {
        let (from, to) = (clock.at(ready), clock.at(life.gone.unwrap_or(end).min(end)));
        let word = format!("{} was ready for {}", life.name, life.gone.unwrap_or(end).min(end).since(ready));
        plot.bar((from, y), (to, y), (0.06 * high).max(1.5), LIFE, word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_at_once_is_counted_where_a_piece_of_time_begins() {
        let clock = Clock::over(Span::from_secs(240));
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        let counted = at_once(clock, [(at(0), at(2), 1.0), (at(1), at(240), 2.0), (at(9), at(9), 5.0)].into_iter());
        assert_eq!(counted[..4], [1.0, 3.0, 2.0, 2.0]);
        assert_eq!((counted[9], counted[239], counted[240]), (2.0, 2.0, 0.0));
    }

    #[test]
    fn an_axis_is_in_units_that_people_read() {
        let names = [10, 600, 90_000].map(|seconds| Clock::over(Span::from_secs(seconds)).name);
        assert_eq!(names, ["seconds", "minutes", "hours"]);
        assert_eq!(Clock::over(Span::ZERO).bin(Time::ZERO + Span::from_secs(5), 60), 59);
    }
}
