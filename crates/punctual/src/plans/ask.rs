//! Asking a cluster what it plans: EXPLAIN on a connection of its own.
//!
//! Postgres is asked for JSON. What does not know that form (Redshift) is asked for its plain text, and what answers it
//! without estimates (the embedded engine) for its text with them. The text goes through Parse, which takes one
//! statement and no more.

use std::fmt;
use std::io;
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
use crate::relay::{CancelKey, ConnectError, Connection, cancel, frames, sqlstate};

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
    /// The cluster hung up.
    Lost(io::Error),
    /// The cluster answers with an error.
    Said(SqlState, String),
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
            NoPlan::Lost(cause) => write!(f, "the connection was lost: {cause}"),
            NoPlan::Said(sqlstate, message) => write!(f, "the cluster said: {message} ({})", sqlstate.code()),
            NoPlan::Unreadable => write!(f, "the answer to EXPLAIN is no plan that can be read"),
            NoPlan::TooLong => write!(f, "EXPLAIN took too long"),
        }
    }
}

impl NoPlan {
    /// True if it says nothing of the query.
    fn is_of_the_cluster(&self) -> bool {
        matches!(self, NoPlan::NoCluster | NoPlan::Connect(_) | NoPlan::Lost(_))
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
        let asked = timeout(Duration::from_micros(self.within.micros()), explain(&mut lease, &wish.text)).await;
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
    let plain = match rows(connection, &format!("EXPLAIN (FORMAT JSON) {text}")).await {
        Ok(answer) => match read(&answer) {
            Some(plan) => return Ok(plan),
            None => "EXPLAIN (COSTS)",
        },
        Err(NoPlan::Said(SqlState([b'4', b'2', b'6', b'0', b'1']), _)) => "EXPLAIN",
        Err(other) => return Err(other),
    };
    read(&rows(connection, &format!("{plain} {text}")).await?).ok_or(NoPlan::Unreadable)
}

/// The last column of all rows that the statement returns, a line each.
async fn rows(connection: &mut Connection, statement: &str) -> Result<String, NoPlan> {
    let mut out = Vec::with_capacity(statement.len() + 64);
    frames::parse(&mut out, "", statement, &[0, 0]);
    // No parameters, all results as text; of all rows.
    frames::frame(&mut out, b'B', |out| out.extend_from_slice(&[0; 8]));
    frames::frame(&mut out, b'E', |out| out.extend_from_slice(&[0; 5]));
    out.extend_from_slice(&frames::SYNC);
    connection.socket.write_all(&out).await.map_err(NoPlan::Lost)?;
    let (mut answer, mut said) = (String::new(), None);
    loop {
        let (tag, body) = next(connection).await?;
        match tag {
            b'Z' => break,
            b'E' => {
                let fields = frames::error_fields(&body);
                said = Some((sqlstate(fields.code), String::from_utf8_lossy(fields.message).into_owned()));
            }
            b'D' => {
                answer.push_str(&last_column(&body));
                answer.push('\n');
            }
            _ => {}
        }
        if answer.len() > LONGEST_PLAN {
            return Err(NoPlan::Unreadable);
        }
    }
    match said {
        Some((sqlstate, message)) => Err(NoPlan::Said(sqlstate, message)),
        None => Ok(answer),
    }
}

/// The next frame.
async fn next(connection: &mut Connection) -> Result<(u8, Vec<u8>), NoPlan> {
    loop {
        let header = frames::header(connection.input.filled()).map_err(|_| NoPlan::Unreadable)?;
        if let Some(frames::Header { tag, len }) = header {
            if len > LONGEST_PLAN {
                return Err(NoPlan::Unreadable);
            }
            if connection.input.len() >= len {
                let frame = connection.input.take(len);
                return Ok((tag, frame[frames::HEADER..].to_vec()));
            }
        }
        match connection.socket.fill(&mut connection.input).await {
            Ok(0) => return Err(NoPlan::Lost(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => {}
            Err(cause) => return Err(NoPlan::Lost(cause)),
        }
    }
}

/// The text of a row's last column; empty if there is none.
fn last_column(body: &[u8]) -> String {
    let mut rest = body.get(2..).unwrap_or(&[]);
    let mut last: &[u8] = &[];
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0);
        let Some((value, after)) = after.split_at_checked(length) else { break };
        (last, rest) = (value, after);
    }
    String::from_utf8_lossy(last).into_owned()
}
