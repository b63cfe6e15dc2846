//! What an arrival costs while none ends: incremental inference beside reading everything again (AutoSLO, section 8.3,
//! Figure 7b), by the same network on the same queries.
//!
//! Times are of this machine and this run; that both come to the same predictions is checked at every arrival.

use std::fmt;
use std::time::{Duration, Instant};

use punctual_core::id::{ClusterId, QueryId};
use punctual_core::predict::model::Model;
use punctual_core::predict::predictor::{Look, Predictor, Profile};
use punctual_core::time::Time;
use punctual_learn::observation::Observation;
use punctual_learn::reread::Reader;
use serde::Serialize;

use super::page::Page;
use super::plot::{Axis, Colour, Plot, Scale};

/// What both ways cost, arrival by arrival.
#[derive(Clone, Debug, Serialize)]
pub struct Arrivals {
    /// How many arrived; none ended.
    pub queries: usize,
    /// Arrivals at which both ways came to the same bits.
    pub same: usize,
    /// Milliseconds of each arrival, first to last.
    incremental_ms: Vec<f64>,
    again_ms: Vec<f64>,
    /// The last tenth of the arrivals: what one costs in the median.
    last_incremental_ms: f64,
    last_again_ms: f64,
    /// By what power of the number of running queries the cost grows, from the middle to the end.
    power_incremental: f64,
    power_again: f64,
}

/// Lets the first `queries` of these arrive on one cluster, in the order of their arrivals, and measures. `go` is asked
/// before each whether to go on; None if it said no, or there is no query.
pub fn arrivals(
    model: &Model,
    observations: &[Observation],
    queries: usize,
    mut go: impl FnMut(usize) -> bool,
) -> Option<Arrivals> {
    let mut order: Vec<&Observation> = observations.iter().collect();
    order.sort_by_key(|seen| (seen.arrival, seen.cluster));
    order.truncate(queries);
    let (here, size) = (ClusterId(0), order.first()?.size);
    let (mut predictor, mut look) = (Predictor::new(model), Look::new(model));
    predictor.open(model, here, size);
    let mut reader = Reader::new(model, size);
    let (mut steps, mut again, mut same) = (Vec::new(), Vec::new(), 0);
    for (number, seen) in order.iter().enumerate() {
        if !go(number) {
            return None;
        }
        let id = QueryId(number as u64);
        let query = Profile { id, shape: seen.shape, text: seen.text, features: seen.features };
        let begun = Instant::now();
        predictor.look(model, seen.arrival, &query, &[here], &mut look);
        predictor.place(model, &look, here);
        steps.push(millis(begun.elapsed()));
        let (read, took) = timed(&mut reader, seen.arrival, &query);
        again.push(took);
        let said = look.others(0).iter().copied().chain([look.newcomer(0)]);
        same += usize::from(said.eq(read));
    }
    Some(Arrivals::of(steps, again, same))
}

fn timed(
    reader: &mut Reader<'_>,
    now: Time,
    query: &Profile,
) -> (Vec<punctual_core::predict::distribution::Prediction>, f64) {
    let begun = Instant::now();
    let read = reader.arrive(now, query);
    (read, millis(begun.elapsed()))
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

impl Arrivals {
    fn of(incremental_ms: Vec<f64>, again_ms: Vec<f64>, same: usize) -> Arrivals {
        let queries = incremental_ms.len();
        let tenth = (queries / 10).max(1);
        let at_end = |times: &[f64]| median(&times[queries - tenth..]);
        let power = |times: &[f64]| {
            let half = queries / 2;
            let middle = median(&times[half.saturating_sub(tenth)..half.max(1)]);
            (at_end(times) / middle).log2()
        };
        Arrivals {
            queries,
            same,
            last_incremental_ms: at_end(&incremental_ms),
            last_again_ms: at_end(&again_ms),
            power_incremental: power(&incremental_ms),
            power_again: power(&again_ms),
            incremental_ms,
            again_ms,
        }
    }

    /// How many times cheaper an arrival is at the end.
    fn times_cheaper(&self) -> f64 {
        self.last_again_ms / self.last_incremental_ms
    }

    /// The page about it.
    pub fn page(&self) -> String {
        let below = format!("{} queries arrive on one cluster and none ends (AutoSLO, Figure 7b)", self.queries);
        let mut page = Page::new("What an arrival costs", &below);
        let times = || self.incremental_ms.iter().chain(&self.again_ms).copied();
        let legend: [(Colour, String); 2] =
            [(0, "one step each (incremental)".to_owned()), (1, "all read again".to_owned())];
        for (scale, title) in [(Scale::Linear, "Milliseconds an arrival"), (Scale::Log, "The same, both visible")] {
            let floor = if scale == Scale::Linear { 0.0 } else { f64::INFINITY };
            let x = Axis::over("queries that run", Scale::Linear, [0.0, self.queries as f64]);
            let mut plot = Plot::new(x, Axis::over("milliseconds", scale, times().chain([floor])));
            for (colour, times) in [(1, &self.again_ms), (0, &self.incremental_ms)] {
                plot.line(times.iter().enumerate().map(|(at, time)| (at as f64, *time)), "thin", colour);
            }
            let caption = format!("At the end one arrival is {:.0} times cheaper.", self.times_cheaper());
            page.plot(title, &caption, &plot.svg("cost of an arrival by how many run"), &legend);
        }
        page.html(&self.to_string())
    }
}

fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    punctual_learn::accuracy::quantile(&sorted, 0.5)
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} queries arrive on one cluster, none ends; milliseconds an arrival", self.queries)?;
        writeln!(f, "  running    one step each    all read again")?;
        let shown = (0..=6).map(|part| (self.queries - 1) * part / 6);
        for at in shown {
            let around = at.saturating_sub(2)..(at + 3).min(self.queries);
            let of = |times: &[f64]| median(&times[around.clone()]);
            writeln!(f, "  {at:>7} {:>16.4} {:>17.4}", of(&self.incremental_ms), of(&self.again_ms))?;
        }
        writeln!(
            f,
            "at the end {:.0} times cheaper; cost grows with the power {:.1} of those that run, and {:.1} if all is read again",
            self.times_cheaper(),
            self.power_incremental,
            self.power_again
        )?;
        write!(f, "the same predictions, bit for bit, at {} of {} arrivals", self.same, self.queries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_summed_up_from_the_middle_to_the_end() {
        let linear: Vec<f64> = (1..=200).map(f64::from).collect();
        let square: Vec<f64> = linear.iter().map(|n| n * n).collect();
        let arrivals = Arrivals::of(linear, square, 200);
        assert!((arrivals.power_incremental - 1.0).abs() < 0.1 && (arrivals.power_again - 2.0).abs() < 0.2);
        assert!((arrivals.times_cheaper() - 190.0).abs() < 5.0);
        assert!(arrivals.to_string().contains("bit for bit, at 200 of 200 arrivals"));
        assert_eq!(arrivals.page().matches("<svg").count(), 2);
        assert!(Arrivals::of(vec![1.0], vec![2.0], 1).to_string().contains("1 queries"));
    }
}
