//! Many scenarios, on all the threads that are wanted.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Failure, Seen, random, run};

/// What came of many scenarios.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Scenarios that ran.
    pub scenarios: u64,
    /// Events that were handled in those in which all was well, each at least three times (run again, replayed).
    pub events: u64,
    /// Queries that arrived there.
    pub queries: u64,
    /// What occurred there.
    pub seen: Seen,
    /// What went wrong, by seed: 16 of them at most.
    pub failures: Vec<Failure>,
}

/// How many failures a [`Summary`] keeps; once there are that many, no more scenarios are begun.
const FAILURES_KEPT: usize = 16;

/// Scenarios that a thread takes at a time.
const BATCH: u64 = 64;

/// Runs the scenarios of `count` seeds from `first` on. `threads` is at least one. What runs does not depend on the
/// number of threads, unless there are too many failures.
pub fn many(first: u64, count: u64, threads: usize) -> Summary {
    let next = AtomicU64::new(0);
    let failed = AtomicU64::new(0);
    let work = || {
        let mut summary = Summary::default();
        loop {
            let from = next.fetch_add(BATCH, Ordering::Relaxed);
            if from >= count || failed.load(Ordering::Relaxed) >= FAILURES_KEPT as u64 {
                return summary;
            }
            for number in from..count.min(from + BATCH) {
                summary.take(first.wrapping_add(number), &failed);
            }
        }
    };
    let mut total = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let own = work();
        threads.into_iter().fold(own, |total, thread| match thread.join() {
            Ok(summary) => total.and(summary),
            Err(panic) => std::panic::resume_unwind(panic),
        })
    });
    total.failures.sort_by_key(|failure| failure.seed);
    total.failures.truncate(FAILURES_KEPT);
    total
}

impl Summary {
    fn take(&mut self, seed: u64, failed: &AtomicU64) {
        self.scenarios += 1;
        match run(&random(seed)) {
            Ok(report) => {
                self.events += report.outcome.events;
                self.queries += report.arrived;
                self.saw(report.seen);
            }
            Err(failure) => {
                failed.fetch_add(1, Ordering::Relaxed);
                if self.failures.len() < FAILURES_KEPT {
                    self.failures.push(*failure);
                }
            }
        }
    }

    fn and(mut self, other: Summary) -> Summary {
        self.scenarios += other.scenarios;
        self.events += other.events;
        self.queries += other.queries;
        self.failures.extend(other.failures);
        self.saw(other.seen);
        self
    }

    fn saw(&mut self, seen: Seen) {
        for (name, count) in seen {
            *self.seen.entry(name).or_default() += count;
        }
    }
}
