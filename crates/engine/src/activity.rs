//! What is executing, and what was told to stop and has not.
//!
//! Ending a statement is cooperative: its task stops when it next yields, and a nested-loop join may not yield
//! for as long as anyone watched. The client is answered at once all the same, so someone must go on counting
//! the work that continues. Everything that runs for a statement, wherever it was spawned, holds its
//! [`Ticket`]; when the last holder goes, the statement has really ended. Whoever supervises this process
//! reads the counts from `punctual_engine.activity` and decides when patience is over.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// Every statement that executes.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    table: Mutex<Table>,
    /// A statement was abandoned, or one that was has ended.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    /// By number; the value is when it was abandoned, if it was.
    statements: BTreeMap<u64, Option<Instant>>,
}

/// Held by everything that works for one statement.
#[derive(Debug)]
pub(crate) struct Ticket {
    activity: Arc<Activity>,
    number: u64,
}

/// The counts at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Statements whose clients wait for them.
    pub(crate) running: u64,
    /// Statements that were cancelled, timed out or left, and still work.
    pub(crate) stuck: u64,
    /// For how long the first of those has been so.
    pub(crate) stuck_for: Duration,
}

impl Activity {
    /// Counts a statement until the last clone of the ticket is dropped.
    pub(crate) fn admit(self: &Arc<Self>) -> Arc<Ticket> {
        let mut table = self.lock();
        let number = table.next;
        table.next += 1;
        table.statements.insert(number, None);
        Arc::new(Ticket { activity: self.clone(), number })
    }

    pub(crate) fn counts(&self) -> Counts {
        let table = self.lock();
        let abandoned: Vec<Instant> = table.statements.values().flatten().copied().collect();
        Counts {
            running: (table.statements.len() - abandoned.len()) as u64,
            stuck: abandoned.len() as u64,
            stuck_for: abandoned.iter().min().map_or(Duration::ZERO, Instant::elapsed),
        }
    }

    /// Resolves when a statement is abandoned, or one that was ends.
    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// Waits until nothing works for nobody, for `within` at most.
    pub(crate) async fn calm(&self, within: Duration) {
        let calm = async {
            loop {
                let mut changed = std::pin::pin!(self.changed());
                // From here on nothing is missed.
                changed.as_mut().enable();
                if self.counts().stuck == 0 {
                    return;
                }
                changed.await;
            }
        };
        let _ = tokio::time::timeout(within, calm).await;
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing panics while it is held.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// Nobody waits for the statement any more.
    pub(crate) fn abandon(&self) {
        if let Some(since) = self.activity.lock().statements.get_mut(&self.number) {
            since.get_or_insert_with(Instant::now);
        }
        self.activity.changed.notify_waiters();
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let was = self.activity.lock().statements.remove(&self.number);
        if was.flatten().is_some() {
            self.activity.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_stuck_from_its_abandonment_to_its_end() {
        let activity = Arc::new(Activity::default());
        let counted = || (activity.counts().running, activity.counts().stuck);
        let one = activity.admit();
        let two = activity.admit();
        assert_eq!(counted(), (2, 0));
        one.abandon();
        let elsewhere = one.clone();
        drop(one);
        assert_eq!(counted(), (1, 1));
        drop(elsewhere);
        drop(two);
        assert_eq!(activity.counts(), Counts::default());
    }

    #[tokio::test]
    async fn whoever_waits_for_calm_has_it_when_the_last_abandoned_statement_ends() {
        let activity = Arc::new(Activity::default());
        let (abandoned, runs) = (activity.admit(), activity.admit());
        abandoned.abandon();
        activity.calm(Duration::ZERO).await;
        assert_eq!(activity.counts().stuck, 1);
        let waiting = activity.calm(Duration::from_secs(3_600));
        let ending = async { drop(abandoned) };
        tokio::join!(waiting, ending);
        assert_eq!((activity.counts().stuck, activity.counts().running), (0, 1));
        drop(runs);
    }
}
