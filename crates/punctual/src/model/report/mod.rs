//! What a model is worth, as people and programs read it.
//!
//! The figures are made here, once; [`text`] prints them and [`picture`] draws what they are made of.

pub mod arrivals;
pub mod page;
pub mod picture;
pub mod plot;
pub mod table;
mod text;

use std::collections::BTreeMap;

use punctual_core::predict::model::Model;
use punctual_learn::accuracy::{Accuracy, Bounded, Judged};
use punctual_learn::contexts::Sight;
use punctual_learn::evaluation::{Expected, Rival, evaluate};
use punctual_learn::observation::Observation;
use punctual_learn::variant::WHOLE;
use serde::Serialize;

/// Quantiles of the Q-error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    p50: f64,
    p90: f64,
    p95: f64,
}

/// A model's predictions in one sight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct InSight {
    /// How many queries that finished.
    n: usize,
    /// How far off the median was.
    q_error: Quantiles,
    /// The share that ended below the 90 % quantile, and below the median.
    coverage_p90: f64,
    coverage_p50: f64,
}

/// One estimate beside others over the same queries.
#[derive(Clone, Debug, Serialize)]
pub struct Worth {
    /// Queries that finished.
    pub n: usize,
    hindsight: InSight,
    at_arrival: InSight,
    /// At arrival, corrected by what had ended before.
    corrected_at_arrival: InSight,
    /// Processor sharing from isolated latencies, nothing learnt, in both sights.
    sharing_hindsight: Quantiles,
    sharing_at_arrival: Quantiles,
    /// As if each ran alone.
    stage: Quantiles,
    /// The median of the fingerprint, and of the fingerprint on the size.
    fingerprint_median: Quantiles,
    fingerprint_size_median: Quantiles,
    /// Somebody else's predictions, of the rows that have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<Published>,
    /// At arrival, by how queries ended, by the size of the cluster and by how many others ran there.
    by_status: ByStatus,
    by_size: BTreeMap<u32, InSight>,
    by_concurrency: BTreeMap<Crowd, InSight>,
}

/// Those that finished, and those that were cut off.
#[derive(Clone, Debug, Serialize)]
struct ByStatus {
    finished: InSight,
    #[serde(skip_serializing_if = "Option::is_none")]
    cut_off: Option<CutOff>,
}

/// Queries that were aborted, failed or timed out: what they took is a lower bound of what they would have taken.
#[derive(Clone, Copy, Debug, Serialize)]
struct CutOff {
    n: usize,
    /// The share whose bound lies above the 90 % quantile: misses for sure.
    bound_above_p90: f64,
    /// The share whose bound lies above the median, which was too low, then.
    bound_above_p50: f64,
    /// The Q-error is at least this.
    q_error_at_least: Quantiles,
    /// Between what and what the coverage of the 90 % quantile lies over all queries, those that finished and these.
    coverage_p90_of_all: [f64; 2],
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Published {
    n: usize,
    #[serde(flatten)]
    q_error: Quantiles,
}

/// How many others ran when a query arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) enum Crowd {
    #[serde(rename = "0")]
    None,
    #[serde(rename = "1-3")]
    Few,
    #[serde(rename = "4-15")]
    Some,
    #[serde(rename = "16-63")]
    Many,
    #[serde(rename = "64+")]
    Most,
}

impl Crowd {
    fn of(neighbours: usize) -> Crowd {
        match neighbours {
            0 => Crowd::None,
            1..=3 => Crowd::Few,
            4..=15 => Crowd::Some,
            16..=63 => Crowd::Many,
            _ => Crowd::Most,
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Crowd::None => "no other",
            Crowd::Few => "1 to 3 others",
            Crowd::Some => "4 to 15 others",
            Crowd::Many => "16 to 63 others",
            Crowd::Most => "64 others or more",
        }
    }

    /// The same where there is little room.
    fn in_short(self) -> &'static str {
        match self {
            Crowd::None => "0",
            Crowd::Few => "1–3",
            Crowd::Some => "4–15",
            Crowd::Many => "16–63",
            Crowd::Most => "64+",
        }
    }
}

impl From<[f64; 3]> for Quantiles {
    fn from([p50, p90, p95]: [f64; 3]) -> Quantiles {
        Quantiles { p50, p90, p95 }
    }
}

impl From<Accuracy> for Quantiles {
    fn from(accuracy: Accuracy) -> Quantiles {
        accuracy.q_error.into()
    }
}

impl From<Accuracy> for InSight {
    fn from(accuracy: Accuracy) -> InSight {
        InSight {
            n: accuracy.n,
            q_error: accuracy.into(),
            coverage_p90: accuracy.coverage,
            coverage_p50: accuracy.below_median,
        }
    }
}

/// A model judged, query by query: what [`Worth`] is made of, and what is drawn.
pub struct Judgement {
    /// At arrival and in hindsight; those that were cut off too.
    expected: Vec<Expected>,
    /// The size of the cluster of each.
    sizes: Vec<u32>,
}

impl Judgement {
    /// Judges a model on the part of the observations that is set aside.
    pub fn of(model: &Model, observations: &[Observation]) -> Judgement {
        let expected = evaluate(model, observations, &WHOLE);
        let sizes = expected.iter().map(|one| observations[one.observation].size.0).collect();
        Judgement { expected, sizes }
    }

    /// What was expected of each query, at arrival and in hindsight.
    pub fn expected(&self) -> &[Expected] {
        &self.expected
    }

    /// Those that finished, in one sight.
    fn finished(&self, sight: Sight) -> impl Iterator<Item = &Expected> {
        self.expected.iter().filter(move |one| one.sight == sight && one.finished)
    }

    /// Those that were cut off, as they looked at arrival.
    fn cut_off(&self) -> impl Iterator<Item = &Expected> {
        self.expected.iter().filter(|one| one.sight == Sight::AtArrival && !one.finished)
    }

    fn rival(&self, sight: Sight, rival: Rival) -> Accuracy {
        Accuracy::of(self.finished(sight).filter_map(|one| rival.of(one)))
    }

    fn in_sight(&self, sight: Sight) -> InSight {
        Accuracy::of(self.finished(sight).map(|one| one.model)).into()
    }

    /// What it comes to; None if nothing that was set aside finished.
    pub fn worth(&self) -> Option<Worth> {
        let at_arrival = self.in_sight(Sight::AtArrival);
        if at_arrival.n == 0 {
            return None;
        }
        let rival = |rival| self.rival(Sight::AtArrival, rival).into();
        let published = self.rival(Sight::AtArrival, Rival::Published);
        let sized = self.expected.iter().zip(&self.sizes);
        Some(Worth {
            n: at_arrival.n,
            hindsight: self.in_sight(Sight::Hindsight),
            at_arrival,
            corrected_at_arrival: Accuracy::of(self.finished(Sight::AtArrival).map(|one| one.corrected)).into(),
            sharing_hindsight: self.rival(Sight::Hindsight, Rival::Sharing).into(),
            sharing_at_arrival: rival(Rival::Sharing),
            stage: rival(Rival::Stage),
            fingerprint_median: rival(Rival::ShapeMedian),
            fingerprint_size_median: rival(Rival::SizedMedian),
            published: (published.n > 0).then(|| Published { n: published.n, q_error: published.into() }),
            by_status: ByStatus { finished: at_arrival, cut_off: self.cut_off_in_figures(&at_arrival) },
            by_size: grouped(
                sized
                    .filter(|(one, _)| one.sight == Sight::AtArrival && one.finished)
                    .map(|(one, size)| (*size, one.model)),
            ),
            by_concurrency: grouped(self.finished(Sight::AtArrival).map(|one| (Crowd::of(one.neighbours), one.model))),
        })
    }

    fn cut_off_in_figures(&self, finished: &InSight) -> Option<CutOff> {
        let bounded = Bounded::of(self.cut_off().map(|one| one.model));
        let all = (bounded.n + finished.n) as f64;
        let covered = finished.coverage_p90 * finished.n as f64 / all;
        (bounded.n > 0).then(|| CutOff {
            n: bounded.n,
            bound_above_p90: bounded.above_upper,
            bound_above_p50: bounded.above_median,
            q_error_at_least: bounded.q_error_at_least.into(),
            coverage_p90_of_all: [covered, covered + bounded.n as f64 * (1.0 - bounded.above_upper) / all],
        })
    }
}

fn grouped<K: Ord>(judged: impl Iterator<Item = (K, Judged)>) -> BTreeMap<K, InSight> {
    let mut groups: BTreeMap<K, Vec<Judged>> = BTreeMap::new();
    judged.for_each(|(key, one)| groups.entry(key).or_default().push(one));
    groups.into_iter().map(|(key, judged)| (key, Accuracy::of(judged).into())).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A query that was thought to take `median` seconds, at most twice that, and took `truth`.
    pub(crate) fn expected(sight: Sight, median: f64, truth: f64, finished: bool) -> Expected {
        let ln = punctual_core::math::ln;
        let of = |median: f64| Judged { median: ln(median), upper: ln(2.0 * median), truth: ln(truth) };
        Expected {
            observation: 0,
            sight,
            neighbours: 5,
            finished,
            model: of(median),
            corrected: of(median * 1.1),
            sharing: of(median * 2.0),
            stage: of(median * 3.0),
            medians: [of(1.0), of(2.0)],
            published: None,
        }
    }

    pub(crate) fn judgement(rows: &[(f64, f64, bool)]) -> Judgement {
        let sights = [Sight::AtArrival, Sight::Hindsight];
        let expected: Vec<Expected> = rows
            .iter()
            .flat_map(|(median, truth, finished)| sights.map(|sight| expected(sight, *median, *truth, *finished)))
            .collect();
        Judgement { sizes: vec![4; expected.len()], expected }
    }

    #[test]
    fn what_was_cut_off_is_told_apart_and_bounds_the_coverage() {
        let rows = [(1.0, 1.5, true), (1.0, 9.0, true), (1.0, 0.5, false), (1.0, 1.5, false), (1.0, 3.0, false)];
        let worth = judgement(&rows).worth().unwrap();
        assert_eq!((worth.n, worth.at_arrival.coverage_p90, worth.at_arrival.coverage_p50), (2, 0.5, 0.0));
        let cut_off = worth.by_status.cut_off.unwrap();
        assert_eq!(cut_off.n, 3);
        assert!((cut_off.bound_above_p90 - 1.0 / 3.0).abs() < 1e-12);
        assert!((cut_off.bound_above_p50 - 2.0 / 3.0).abs() < 1e-12);
        let [least, most] = cut_off.coverage_p90_of_all;
        assert!((least - 0.2).abs() < 1e-12 && (most - 0.6).abs() < 1e-12);
        assert!((worth.by_concurrency[&Crowd::Some].q_error.p50 - worth.at_arrival.q_error.p50).abs() < 1e-12);
        assert!(judgement(&rows[2..]).worth().is_none());
    }
}
