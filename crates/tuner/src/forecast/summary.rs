//! A forecast in a page: for each hour how many queries, the busiest five minutes, and which shapes.

use std::collections::BTreeMap;

use punctual_core::math;
use serde::Serialize;

use super::{Basis, Forecast, Unknown, Workload};
use crate::backtest::measure::{Measured, measured};
use crate::calendar::Date;
use crate::reservoir::{Reservoir, ShapeId};

/// What all workloads of a forecast come to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The day.
    pub day: Date,
    /// Its day of the week.
    pub weekday: &'static str,
    /// The zone by whose clocks the hours go.
    pub zone: String,
    /// By whom.
    pub forecaster: &'static str,
    /// Workloads that it is of.
    pub workloads: usize,
    /// What it stands on.
    pub basis: Basis,
    /// What history cannot say.
    pub unknown: Vec<Unknown>,
    /// Queries of the day: mean, and the least and most of the workloads.
    pub queries: [f64; 3],
    /// The most queries within five minutes, likewise.
    pub busiest_five_minutes: [f64; 3],
    /// Deviation over mean of the gaps within hours, likewise.
    pub gap_cv: [f64; 3],
    /// Hour by hour.
    pub hours: Vec<HourSummary>,
    /// The shapes that come most, at most fifty.
    pub shapes: Vec<ShapeSummary>,
}

/// An hour of a [`Summary`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HourSummary {
    /// What the clock shows.
    pub hour: u8,
    /// How long it lasts, in seconds: 3,600 but for changes of the clock.
    pub length_s: f64,
    /// Queries: the mean, and the 10 % and 90 % quantiles of the workloads.
    pub queries: [f64; 3],
}

/// A shape of a [`Summary`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShapeSummary {
    /// The fingerprint, as in history.
    pub fingerprint: String,
    /// The class; None: not known.
    pub class: Option<String>,
    /// The SLO of its last query that had one, in seconds.
    pub slo_s: Option<f64>,
    /// Queries of a day, in the mean.
    pub queries: f64,
}

/// The most shapes of a summary.
const SHAPES: usize = 50;

impl Forecast {
    /// Both splits together.
    pub fn workloads(&self) -> impl Iterator<Item = &Workload> {
        self.train.iter().chain(&self.validation)
    }

    /// What they come to.
    pub fn summary(&self, reservoir: &Reservoir) -> Summary {
        let days: Vec<Measured> = self.workloads().map(|workload| measured(&self.day, &workload.queries)).collect();
        let spread = |of: fn(&Measured) -> Option<f64>| {
            let mut values: Vec<f64> = days.iter().filter_map(of).collect();
            values.sort_by(f64::total_cmp);
            let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
            [mean, values.first().copied().unwrap_or(0.0), values.last().copied().unwrap_or(0.0)]
        };
        let hour = |place: usize| {
            let mut values: Vec<f64> = days.iter().map(|day| f64::from(day.hours[place])).collect();
            values.sort_by(f64::total_cmp);
            let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
            let [low, high] = math::nearest_ranks(&values, [0.1, 0.9]).unwrap_or_default();
            let hour = &self.day.hours[place];
            HourSummary { hour: hour.hour, length_s: hour.length.secs_f64(), queries: [mean, low, high] }
        };
        Summary {
            day: self.day.date,
            weekday: self.day.date.weekday().name(),
            zone: reservoir.zone().to_string(),
            forecaster: self.forecaster,
            workloads: days.len(),
            basis: self.basis,
            unknown: self.unknown.clone(),
            queries: spread(|day| Some(f64::from(day.queries))),
            busiest_five_minutes: spread(|day| Some(f64::from(day.busiest_five_minutes))),
            gap_cv: spread(|day| day.gap_cv),
            hours: (0..self.day.hours.len()).map(hour).collect(),
            shapes: self.shapes(reservoir),
        }
    }

    fn shapes(&self, reservoir: &Reservoir) -> Vec<ShapeSummary> {
        let mut counts: BTreeMap<ShapeId, u64> = BTreeMap::new();
        for query in self.workloads().flat_map(|workload| &workload.queries) {
            *counts.entry(query.shape).or_default() += 1;
        }
        let workloads = self.workloads().count().max(1) as f64;
        let mut counts: Vec<(ShapeId, u64)> = counts.into_iter().collect();
        counts.sort_by_key(|(shape, count)| (std::cmp::Reverse(*count), *shape));
        let summary = |(id, count): &(ShapeId, u64)| {
            let shape = reservoir.shape(*id)?;
            let fingerprint = shape.fingerprint.to_string();
            let (class, slo_s) = (shape.class.as_deref().map(str::to_owned), shape.slo.map(|slo| slo.secs_f64()));
            Some(ShapeSummary { fingerprint, class, slo_s, queries: *count as f64 / workloads })
        };
        counts.iter().take(SHAPES).filter_map(summary).collect()
    }
}
