//! Asking a cluster to stop what runs on one of its connections.
//!
//! A cancel request comes by a connection of its own, so it may be there before the query is: a Postgres that has not begun with
//! it does nothing, and would run it to its end. So it is asked again, ever more seldom, until the connection is ready or given
//! up.

use std::time::Duration;

use punctual_core::time::Span;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::relay::{CancelKey, cancel};

/// After how long it is asked for the second time, and at most between any two.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// The asking, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Cancelling {
    over: oneshot::Sender<()>,
    asking: JoinHandle<()>,
}

impl Cancelling {
    /// Asks from now on; each time may take as long as `within`.
    pub(super) fn begin(key: CancelKey, within: Span) -> Cancelling {
        let (over, mut is_over) = oneshot::channel();
        let asking = tokio::spawn(async move {
            let (mut pause, most) = PAUSES;
            loop {
                if let Err(error) = cancel(&key, within).await {
                    tracing::warn!(%error, "a cancel did not reach its cluster");
                }
                if tokio::time::timeout(pause, &mut is_over).await.is_ok() {
                    return;
                }
                pause = most.min(2 * pause);
            }
        });
        Cancelling { over, asking }
    }

    /// Ends it, and waits until nothing of it is on its way: what comes late would hit the next query of its connection.
    pub(super) async fn end(self) {
        drop(self.over);
        let _ = self.asking.await;
    }
}
