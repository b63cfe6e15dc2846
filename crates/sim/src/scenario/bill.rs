//! What a cluster costs, the slow way: from the intervals in which queries ran, with the definition of AutoSLO's
//! section 2 and none of the timer's states.

use std::collections::BTreeMap;

use punctual_core::id::QueryId;
use punctual_core::time::{Span, Time};

/// When queries ran on one cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Bill {
    /// Those that run, since when.
    open: BTreeMap<QueryId, Time>,
    /// Those that ran in the cluster's present life.
    intervals: Vec<(Time, Time)>,
    /// Earlier lives, each with the instant of its end.
    past: Vec<(Vec<(Time, Time)>, Time)>,
}

impl Bill {
    pub(super) fn started(&mut self, query: QueryId, now: Time) {
        self.open.insert(query, now);
    }

    pub(super) fn ended(&mut self, query: QueryId, now: Time) {
        if let Some(since) = self.open.remove(&query) {
            self.intervals.push((since, now));
        }
    }

    /// The cluster is gone or has failed: nothing is billed from here to its next query.
    pub(super) fn cut(&mut self, now: Time) {
        let open = std::mem::take(&mut self.open);
        self.intervals.extend(open.into_values().map(|since| (since, now)));
        self.past.push((std::mem::take(&mut self.intervals), now));
    }

    /// Time billed up to `now`.
    pub(super) fn active(&self, minimum: Span, now: Time) -> Span {
        let mut present = self.intervals.clone();
        present.extend(self.open.values().map(|since| (*since, now)));
        let mut total = billed(present, minimum, now);
        for (intervals, end) in &self.past {
            total += billed(intervals.clone(), minimum, *end);
        }
        total
    }
}

/// Merges intervals, each merged one stretched to the minimum as it grows, and cuts the last at `end`.
fn billed(mut intervals: Vec<(Time, Time)>, minimum: Span, end: Time) -> Span {
    intervals.sort_unstable();
    let mut total = Span::ZERO;
    let mut merged: Option<(Time, Time)> = None;
    for (from, to) in intervals {
        merged = Some(match merged {
            Some((start, until)) if from <= until => (start, until.max(to)),
            before => {
                total += before.map_or(Span::ZERO, |(start, until)| until.min(end).since(start));
                (from, to.max(from + minimum))
            }
        });
    }
    total + merged.map_or(Span::ZERO, |(start, until)| until.min(end).since(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_paper_costs_what_the_paper_says() {
        let at = |s: u64| Time::from_micros(s * 1_000_000);
        let mut bill = Bill::default();
        for (number, (from, to)) in [(0, 5), (100, 155), (160, 170)].into_iter().enumerate() {
            bill.started(QueryId(number as u64), at(from));
            bill.ended(QueryId(number as u64), at(to));
        }
        assert_eq!(bill.active(Span::from_secs(60), at(1_000)), Span::from_secs(60 + 70));
        assert_eq!(bill.active(Span::from_secs(60), at(165)), Span::from_secs(60 + 65));
        bill.cut(at(165));
        assert_eq!(bill.active(Span::from_secs(60), at(1_000)), Span::from_secs(60 + 65));
    }
}
