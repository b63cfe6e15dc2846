//! What became of the queries of one class, as counts.

use serde::{Deserialize, Serialize};

use crate::query::Status;

/// Counts of ended queries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// By [`Status`], in the order of [`Status::ALL`].
    ended: [u64; 5],
    /// Those that count for the violation rate.
    pub counted: u64,
    /// Those that violated their SLO.
    pub violated: u64,
}

impl Tally {
    /// Counts one query. `late` as in [`Ended::violated`](crate::query::Ended::violated).
    pub fn count(&mut self, status: Status, late: Option<bool>) {
        self.ended[status as usize] += 1;
        self.counted += u64::from(late.is_some());
        self.violated += u64::from(late == Some(true));
    }

    /// Adds the counts of another.
    pub fn add(&mut self, other: &Tally) {
        for (sum, more) in self.ended.iter_mut().zip(other.ended) {
            *sum += more;
        }
        self.counted += other.counted;
        self.violated += other.violated;
    }

    /// Queries that ended that way.
    pub fn ended(&self, status: Status) -> u64 {
        self.ended[status as usize]
    }

    /// Queries that ended in any way.
    pub fn total(&self) -> u64 {
        self.ended.iter().sum()
    }

    /// The share of those that count that violated their SLO; None if none counts.
    pub fn violation_rate(&self) -> Option<f64> {
        (self.counted > 0).then(|| self.violated as f64 / self.counted as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelled_queries_are_counted_but_not_held_against_anyone() {
        let mut tally = Tally::default();
        tally.count(Status::Finished, Some(false));
        tally.count(Status::Refused, Some(true));
        tally.count(Status::Cancelled, None);
        assert_eq!((tally.total(), tally.violation_rate()), (3, Some(0.5)));
        assert_eq!(tally.ended(Status::Cancelled), 1);
        assert_eq!(Tally::default().violation_rate(), None);
    }
}
