//! What is said of clusters that do not start.
//!
//! A cluster that cannot start is started again for ever, since what keeps it from starting may go away. Its reason is
//! said at once, again when it changes, and else the second, fourth, eighth time and so on: whoever looks at the log
//! finds it, and it does not fill the disk.

use std::collections::BTreeMap;

use punctual_core::id::ClusterId;

/// The clusters that failed to start since they were last ready.
#[derive(Debug, Default)]
pub(super) struct Failures {
    clusters: BTreeMap<ClusterId, Streak>,
}

#[derive(Debug)]
struct Streak {
    times: u64,
    /// Why, without what differs from one start to the next.
    why: String,
}

impl Failures {
    /// A start failed. How many times in a row, if that is to be said now.
    pub(super) fn failed(&mut self, cluster: ClusterId, why: &str) -> Option<u64> {
        // Numbers of processes and of sockets are never the same twice.
        let why: String = why.chars().filter(|c| !c.is_ascii_digit()).collect();
        let streak = self.clusters.entry(cluster).or_insert_with(|| Streak { times: 0, why: String::new() });
        streak.times += 1;
        let news = streak.why != why;
        streak.why = why;
        (news || streak.times.is_power_of_two()).then_some(streak.times)
    }

    /// How many times in a row it has failed to start.
    pub(super) fn times(&self, cluster: ClusterId) -> u64 {
        self.clusters.get(&cluster).map_or(0, |streak| streak.times)
    }

    /// It started, or was stopped.
    pub(super) fn over(&mut self, cluster: ClusterId) {
        self.clusters.remove(&cluster);
    }

    /// Forgets those that are not known any more.
    pub(super) fn keep(&mut self, known: &[ClusterId]) {
        self.clusters.retain(|cluster, _| known.contains(cluster));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_said_at_once_then_at_growing_intervals_and_when_its_reason_changes() {
        let mut failures = Failures::default();
        let cluster = ClusterId(1);
        let said: Vec<u64> =
            (1..=40).filter_map(|pid| failures.failed(cluster, &format!("process {pid} ended"))).collect();
        assert_eq!(said, [1, 2, 4, 8, 16, 32]);
        assert_eq!(failures.failed(cluster, "it is too large"), Some(41));
        assert_eq!(failures.failed(cluster, "it is too large"), None);
        assert_eq!(failures.failed(ClusterId(2), "it is too large"), Some(1), "clusters are counted apart");
        assert_eq!(failures.times(cluster), 42);
        failures.over(cluster);
        assert_eq!(failures.times(cluster), 0);
        assert_eq!(failures.failed(cluster, "it is too large"), Some(1));
    }
}
