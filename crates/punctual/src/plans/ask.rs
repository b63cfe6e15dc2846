//! Asking a cluster what it plans: EXPLAIN on a connection of its own.
//!
//! Postgres is asked for JSON. What does not know that form (Redshift) is asked for its plain text, and what answers it
//! without estimates (the embedded engine) for its text with them. The text goes through Parse, which takes one
//! statement and no more.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::predict::features::Plan;
use punctual_core::query::SqlState;
use punctual_core::time::Span;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::read::read;
use super::{Plans, Wish};
use crate::link::Link;
use crate::metrics::Metrics;
use crate::relay::asking::{AskError, ask};
use crate::relay::{CancelKey, ConnectError, Connection, cancel, frames};

/// The longest that a plan is waited for.
pub const WITHIN: Span = Span::from_secs(2);

/// The longest plan that is read, in bytes.
const LONGEST_PLAN: usize = 1 << 20;

/// How long nothing is asked after no cluster was there to answer.
const PAUSE: Duration = Duration::from_secs(5);

/// Asks clusters for the plans that are wished for.
#[derive(Debug)]
pub struct Asker {
    /// Where plans go.
    pub plans: Arc<Plans>,
    /// Where wishes come from.
    pub wished: mpsc::Receiver<Wish>,
    /// At most one plan is asked for in so long.
    pub every: Span,
    /// How long a plan is waited for.
    pub within: Span,
}

/// Why a plan could not be had.
#[derive(Debug)]
enum NoPlan {
    /// No cluster is there to ask.
    NoCluster,
    /// No connection could be had.
    Connect(ConnectError),
    /// The cluster did not answer the question.
    Unanswered(AskError),
    /// Its answer is no plan that can be read.
    Unreadable,
    /// It took too long.
    TooLong,
}

impl fmt::Display for NoPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoPlan::NoCluster => write!(f, "no cluster is ready"),
            NoPlan::Connect(cause) => write!(f, "{cause}"),
            NoPlan::Unanswered(cause) => write!(f, "{cause}"),
            NoPlan::Unreadable => write!(f, "the answer to EXPLAIN is no plan that can be read"),
            NoPlan::TooLong => write!(f, "EXPLAIN took too long"),
        }
    }
}

impl NoPlan {
    /// True if it says nothing of the query.
    fn is_of_the_cluster(&self) -> bool {
        matches!(self, NoPlan::NoCluster | NoPlan::Connect(_) | NoPlan::Unanswered(AskError::Lost(_)))
    }
}

impl Asker {
    /// Asks until the gateway ends.
    pub async fn run(mut self, link: Link, metrics: Arc<Metrics>) {
        let mut turn = interval(Duration::from_micros(self.every.micros().max(1)));
        turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while let Some(wish) = self.wished.recv().await {
            turn.tick().await;
            match self.ask(&link, &wish).await {
                Ok(plan) => {
                    self.plans.learnt(&wish, Some(plan));
                    metrics.explained("had");
                }
                Err(because) => {
                    tracing::debug!(fingerprint = %wish.fingerprint, %because, "no plan of a query");
                    metrics.explained("failed");
                    if because.is_of_the_cluster() {
                        self.plans.forget(&wish);
                        sleep(PAUSE).await;
                    } else {
                        self.plans.learnt(&wish, None);
                    }
                }
            }
        }
    }

    async fn ask(&self, link: &Link, wish: &Wish) -> Result<Plan, NoPlan> {
        let pool = link.any_cluster(false).await.map_err(|_| NoPlan::NoCluster)?.map_err(|_| NoPlan::NoCluster)?;
        // A connection of its own carries nothing from a session, and leaves nothing to one.
        let mut lease = pool.lease_new(&wish.user, &wish.database).await.map_err(NoPlan::Connect)?;
        let key = lease.key.clone();
        let asked = timeout(Duration::from(self.within), explain(&mut lease, &wish.text)).await;
        match asked {
            Ok(plan) => {
                // It hangs up by itself if this does not reach it.
                let _ = lease.socket.write_all(&frames::TERMINATE).await;
                plan
            }
            Err(_) => {
                self.stop(key).await;
                Err(NoPlan::TooLong)
            }
        }
    }

    /// A cluster that plans for too long would go on after we have hung up.
    async fn stop(&self, key: Option<CancelKey>) {
        if let Some(key) = key
            && let Err(because) = cancel(&key, self.within).await
        {
            tracing::debug!(%because, "an EXPLAIN that took too long could not be cancelled");
        }
    }
}

/// What the cluster plans for the text.
async fn explain(connection: &mut Connection, text: &str) -> Result<Plan, NoPlan> {
    let plain = match ask(connection, &format!("EXPLAIN (FORMAT JSON) {text}"), LONGEST_PLAN).await {
        Ok(answer) => match read(&answer) {
            Some(plan) => return Ok(plan),
            None => "EXPLAIN (COSTS)",
        },
        Err(AskError::Said(SqlState([b'4', b'2', b'6', b'0', b'1']), _)) => "EXPLAIN",
        Err(other) => return Err(NoPlan::Unanswered(other)),
    };
    let answer = ask(connection, &format!("{plain} {text}"), LONGEST_PLAN).await.map_err(NoPlan::Unanswered)?;
    read(&answer).ok_or(NoPlan::Unreadable)
}
