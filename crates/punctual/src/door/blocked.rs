//! How long a result waited for its client, as far as the cluster is not to blame.
//!
//! While a client does not take what it is sent, nothing more is read from the cluster, and the latency of the query grows by
//! something that no cluster can help. But a cluster goes on computing until its own way is full, so not all of that time is
//! the client's:
//!
//! ```text
//!   stalled, and then the cluster is far ahead         its way is full: it stood still          counts
//!   stalled, and then nothing is waited for any more   it had ended meanwhile                   the longest one counts
//!   stalled, and then the cluster is waited for        it has computed all the while            does not count
//! ```
//!
//! So what counts is never more than the time for which nothing but the client was waited for, and may be less by what fits into
//! one socket's buffer.

use std::time::{Duration, Instant};

use punctual_core::time::Span;

/// The waits of one query's result for its client.
#[derive(Debug, Default)]
pub(super) struct Blocked {
    /// Since when the client has not taken what is on its way.
    since: Option<Instant>,
    /// What counts.
    settled: Duration,
    /// The longest stall since the cluster was last far ahead or waited for.
    open: Duration,
}

impl Blocked {
    /// The client does not take what is on its way.
    pub(super) fn stalls(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// The client has taken all; `is_far_ahead` is asked of the cluster if that was not at once.
    pub(super) fn flows(&mut self, is_far_ahead: impl FnOnce() -> bool) {
        let Some(since) = self.since.take() else { return };
        self.flowed_after(since.elapsed(), is_far_ahead());
    }

    fn flowed_after(&mut self, stalled: Duration, is_far_ahead: bool) {
        self.open = self.open.max(stalled);
        if is_far_ahead {
            self.settled += std::mem::take(&mut self.open);
        }
    }

    /// The cluster is waited for.
    pub(super) fn awaits_cluster(&mut self) {
        self.open = Duration::ZERO;
    }

    /// Since when the client does not take what is on its way; None while it does.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// What counts of a query that ends now; the next one begins with nothing.
    pub(super) fn take(&mut self) -> Span {
        let stalled = self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
        let Blocked { settled, open, .. } = std::mem::take(self);
        Span::from_micros(u64::try_from((settled + open.max(stalled)).as_micros()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn a_stall_counts_if_the_cluster_stood_still_or_had_ended() {
        let mut blocked = Blocked::default();
        blocked.flowed_after(secs(3), true);
        blocked.flowed_after(secs(60), false);
        blocked.awaits_cluster();
        blocked.flowed_after(secs(5), false);
        blocked.flowed_after(secs(2), false);
        assert_eq!(blocked.take(), Span::from_secs(8));
        assert_eq!(blocked.take(), Span::ZERO);
    }

    #[test]
    fn a_client_that_takes_all_at_once_blocks_nothing() {
        let mut blocked = Blocked::default();
        blocked.flows(|| unreachable!("nothing stalled"));
        assert_eq!((blocked.since(), blocked.take()), (None, Span::ZERO));
        blocked.stalls();
        let since = blocked.since();
        blocked.stalls();
        assert!(since.is_some() && blocked.since() == since);
        blocked.flows(|| false);
        assert_eq!(blocked.since(), None);
    }
}
