//! Fewest SLO violations, then least cost, then the sooner end (AutoSLO, section 5, Algorithm 1).
//!
//! For each candidate it has been weighed what placing the query there would do: how many queries more would miss their
//! SLO, its own and those that run there, and what it would cost until all of them are done.
//!
//! ```text
//!              violations   cost       p50
//!   a   8 u        +1       $0.02      40 s
//!   b  16 u         0       $0.05      22 s   ◀ no violation, and cheaper than c
//!   c  32 u         0       $0.09      12 s
//! ```
//!
//! A query that is expected to be done soon is not weighed, nor is any where no model is in force: they go by least
//! outstanding.

use serde::{Deserialize, Serialize};

use super::{Candidate, Why, least_outstanding};
use crate::id::{ClusterId, QueryId};
use crate::named::named;
use crate::predict::distribution::Prediction;
use crate::query::Predicted;

/// Differences in violations up to this are none: where they are expected values, the last percent is noise, and the cost
/// should decide.
const SAME_VIOLATIONS: f64 = 0.05;

/// Differences in cost up to this are none, in dollars.
const SAME_COST: f64 = 1e-9;

/// The most harmed queries that evidence names.
pub const HARMED_NAMED: usize = 8;

/// From when on a query is counted as one that will miss its SLO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Counting {
    /// If it is more likely to miss it than not: its predicted median is above (the paper's way).
    Median,
    /// If it misses it one time of four: its 75 % quantile is above.
    P75,
    /// If it misses it one time of ten: its 90 % quantile is above.
    P90,
    /// By as much as it is likely to miss it: expected violations, Σ P(L > SLO).
    Expected,
}

named! {
    Counting { Median = "median", P75 = "p75", P90 = "p90", Expected = "expected" }
}

impl Counting {
    /// How much a query counts as a violation, from 0 to 1, that has run for `elapsed` seconds and must be done `within`
    /// seconds of its start. Its prediction counts as at least what has elapsed.
    pub fn late(self, prediction: Prediction, within: f64, elapsed: f64) -> f64 {
        if elapsed >= within {
            return 1.0;
        }
        let above = match self {
            Counting::Median => prediction.median() > within,
            Counting::P75 => prediction.exceeds(within, 0.0) > 0.25,
            Counting::P90 => prediction.exceeds(within, 0.0) > 0.1,
            Counting::Expected => return prediction.exceeds(within, elapsed),
        };
        f64::from(u8::from(above))
    }
}

/// What placing a query on a cluster would do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Weighed {
    /// What it would take there.
    pub predicted: Predicted,
    /// Queries more that would miss their SLO, itself included.
    pub violations: f64,
    /// Of these, itself.
    pub own: f64,
    /// Dollars more, until all that runs there is done.
    pub cost: f64,
    /// Queries that run there and would miss their SLO because of it: the first [`HARMED_NAMED`], as they came.
    pub harmed: Vec<QueryId>,
}

/// The best of those that have been weighed. None of them has: the least outstanding.
pub(super) fn choose(open: &[Candidate]) -> Option<(ClusterId, Why)> {
    let mut left: Vec<(&Weighed, ClusterId)> =
        open.iter().filter_map(|candidate| Some((candidate.weighed.as_deref()?, candidate.cluster))).collect();
    let keep = |left: &mut Vec<(&Weighed, ClusterId)>, value: fn(&Weighed) -> f64, same: f64| {
        let least = left.iter().map(|(weighed, _)| value(weighed)).min_by(f64::total_cmp).unwrap_or(0.0);
        left.retain(|(weighed, _)| value(weighed) <= least + same);
        left.len()
    };
    if left.is_empty() {
        return least_outstanding::choose(open);
    }
    if keep(&mut left, |weighed| weighed.violations, SAME_VIOLATIONS) == 1 {
        return Some((left[0].1, Why::FewestViolations));
    }
    if keep(&mut left, |weighed| weighed.cost, SAME_COST) == 1 {
        return Some((left[0].1, Why::Cheapest));
    }
    let soonest = left.iter().min_by_key(|(weighed, cluster)| (weighed.predicted.p50, *cluster))?;
    Some((soonest.1, Why::Soonest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math;
    use crate::route::tests::open;
    use crate::time::Span;

    fn pick(weighed: &[Option<(f64, f64, u64)>]) -> (u32, Why) {
        let mut open = open(&vec![(1, 0); weighed.len()]);
        for (candidate, weighed) in open.iter_mut().zip(weighed) {
            candidate.weighed = weighed.map(|(violations, cost, p50)| {
                let span = Span::from_secs(p50);
                let predicted = Predicted { p50: span, p90: span, isolated: span };
                Box::new(Weighed { predicted, violations, own: 0.0, cost, harmed: Vec::new() })
            });
        }
        choose(&open).map(|(cluster, why)| (cluster.0, why)).expect("a choice")
    }

    #[test]
    fn violations_come_first_then_cost_then_the_sooner_end() {
        assert_eq!(pick(&[Some((1.0, 0.0, 1)), Some((0.0, 9.0, 9))]), (1, Why::FewestViolations));
        assert_eq!(pick(&[Some((0.0, 2.0, 1)), Some((0.0, 1.0, 9)), Some((-1.0, 5.0, 2))]), (2, Why::FewestViolations));
        assert_eq!(pick(&[Some((0.03, 2.0, 1)), Some((0.0, 3.0, 9))]), (0, Why::Cheapest));
        assert_eq!(pick(&[Some((0.0, 1.0, 3)), Some((0.0, 1.0, 2))]), (1, Why::Soonest));
        assert_eq!(pick(&[Some((0.0, 1.0, 3)), Some((0.0, 1.0, 3))]), (0, Why::Soonest));
    }

    #[test]
    fn what_was_not_weighed_is_no_choice_unless_nothing_was() {
        assert_eq!(pick(&[None, Some((7.0, 9.0, 9))]), (1, Why::FewestViolations));
        assert_eq!(pick(&[None, None]), (0, Why::LeastOutstanding));
    }

    #[test]
    fn a_query_counts_from_where_the_way_of_counting_says() {
        // Median 10 s, 90 % quantile 30 s.
        let prediction = Prediction::new(math::ln(10.0), math::ln(3.0));
        let late = |within: f64, elapsed: f64| Counting::ALL.map(|counting| counting.late(prediction, within, elapsed));
        assert_eq!(late(9.0, 0.0)[..3], [1.0, 1.0, 1.0]);
        assert_eq!(late(12.0, 0.0)[..3], [0.0, 1.0, 1.0]);
        assert_eq!(late(25.0, 0.0)[..3], [0.0, 0.0, 1.0]);
        assert_eq!(late(31.0, 0.0)[..3], [0.0, 0.0, 0.0]);
        assert!((late(30.0, 0.0)[3] - 0.1).abs() < 1e-9);
        // It has survived so far: that is bad news.
        assert!(late(30.0, 20.0)[3] > 0.3 && late(30.0, 20.0)[0] == 0.0);
        assert_eq!(late(30.0, 30.0), [1.0; 4]);
        assert_eq!(late(0.0, 0.0), [1.0; 4]);
        assert_eq!(late(f64::INFINITY, 1e9), [0.0; 4]);
    }

    #[test]
    fn names_read_back() {
        for counting in Counting::ALL {
            assert_eq!(Counting::named(counting.name()), Some(counting));
        }
    }
}
