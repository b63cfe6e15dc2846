//! A day in a few numbers: how many queries came in which hour, how they were bunched, and what they were.

use std::collections::BTreeMap;

use punctual_core::time::Span;

use crate::calendar::Day;
use crate::forecast::Query;
use crate::reservoir::ShapeId;

/// What a day came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Queries.
    pub queries: u32,
    /// Queries by hour, in the order of the day's hours.
    pub hours: Vec<u32>,
    /// The most that came within any five minutes.
    pub busiest_five_minutes: u32,
    /// Deviation over mean of the gaps within an hour, on average over those with at least [`GAPS`]; None: no hour had.
    pub gap_cv: Option<f64>,
    /// How often each shape came.
    pub shapes: BTreeMap<ShapeId, u32>,
}

/// Gaps that an hour needs to say something of their variation.
pub const GAPS: usize = 20;
/// How long a burst is that clusters feel.
const BURST: Span = Span::from_secs(300);

/// Measures a day's queries, which are in the order of time.
pub fn measured(day: &Day, queries: &[Query]) -> Measured {
    let starts = day.starts().unwrap_or_default();
    let mut from = 0;
    let mut hours = Vec::new();
    let mut variations = Vec::new();
    for hour in &day.hours {
        let end = hour.ends().since(starts);
        let to = from + queries[from..].partition_point(|query| query.at < end);
        hours.push((to - from) as u32);
        variations.extend(variation(&queries[from..to]));
        from = to;
    }
    let mut shapes = BTreeMap::new();
    for query in queries {
        *shapes.entry(query.shape).or_default() += 1;
    }
    let gap_cv = (!variations.is_empty()).then(|| variations.iter().sum::<f64>() / variations.len() as f64);
    let queries_in_all = queries.len() as u32;
    Measured { queries: queries_in_all, hours, busiest_five_minutes: busiest(queries), gap_cv, shapes }
}

fn busiest(queries: &[Query]) -> u32 {
    let (mut from, mut most) = (0, 0);
    for (place, query) in queries.iter().enumerate() {
        while queries[from].at + BURST <= query.at {
            from += 1;
        }
        most = most.max(place + 1 - from);
    }
    most as u32
}

fn variation(queries: &[Query]) -> Option<f64> {
    let gaps: Vec<f64> = queries.windows(2).map(|pair| (pair[1].at - pair[0].at).secs_f64()).collect();
    if gaps.len() < GAPS {
        return None;
    }
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean) * (gap - mean)).sum::<f64>() / (gaps.len() - 1) as f64;
    (mean > 0.0).then(|| variance.sqrt() / mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::{Date, Zone};

    fn at(seconds: &[u64]) -> Vec<Query> {
        seconds.iter().map(|at| Query { at: Span::from_secs(*at), shape: ShapeId((at % 2) as u32) }).collect()
    }

    #[test]
    fn a_day_is_counted_by_its_own_hours() {
        let berlin = Zone::named("Europe/Berlin").expect("a zone");
        let day = berlin.day(Date::parse("2026-10-25").expect("a date"));
        let measured = measured(&day, &at(&[0, 1, 3_600, 7_200, 10_801, 14_399, 14_400, 89_999]));
        assert_eq!((measured.hours[..4].to_vec(), measured.hours[23]), (vec![2, 1, 3, 1], 1));
        assert_eq!(measured.shapes, BTreeMap::from([(ShapeId(0), 4), (ShapeId(1), 4)]));
        assert_eq!((measured.queries, measured.gap_cv), (8, None));
    }

    #[test]
    fn bursts_are_seen_wherever_they_lie() {
        let day = Zone::UTC.day(Date::parse("2026-11-02").expect("a date"));
        let measured_of = |seconds: &[u64]| measured(&day, &at(seconds)).busiest_five_minutes;
        assert_eq!(measured_of(&[0, 250, 299, 301, 302, 549, 550]), 5);
        assert_eq!((measured_of(&[]), measured_of(&[5, 305]), measured_of(&[5, 304])), (0, 1, 2));
        let even: Vec<u64> = (0..60).map(|number| number * 60).collect();
        assert_eq!(measured(&day, &at(&even)).gap_cv, Some(0.0));
    }
}
