//! Sends the demonstration's queries through real Postgres connections, at their instants, whether or not the earlier
//! ones have been answered: users do not wait for each other.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::{StreamExt, pin_mut};
use punctual_core::time::Span;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls, error::SqlState};

use super::workload::{CLASSES, Shot};

/// Connections that one class opens at most; more queries wait for one, and that wait counts.
const CLIENTS: usize = 64;

/// What became of one query, as its client saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// Index in [`CLASSES`].
    pub class: usize,
    /// From the instant it was due to the last row.
    pub latency: Span,
    /// How it ended.
    pub end: End,
}

/// How a query ended for its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// All its rows came.
    Answered,
    /// The gateway refused it.
    Refused,
    /// It got an error.
    Failed(String),
    /// Its connection broke: nobody knows.
    Lost(String),
}

/// What is to be seen while the load runs.
#[derive(Debug)]
pub struct Seen {
    shown: Mutex<Vec<Shown>>,
    sent: [std::sync::atomic::AtomicU64; CLASSES.len()],
}

impl Seen {
    /// Nothing yet.
    pub fn new() -> Arc<Seen> {
        Arc::new(Seen { shown: Mutex::default(), sent: Default::default() })
    }

    /// Everything that has ended so far.
    pub fn shown(&self) -> Vec<Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Queries of a class that were sent so far.
    pub fn sent(&self, class: usize) -> u64 {
        self.sent[class].load(std::sync::atomic::Ordering::Relaxed)
    }
}

/// Sends the queries until all are sent or `stop` becomes true, then waits for the answers still due, `patience` at
/// most. What has not been answered by then is lost.
pub async fn send(shots: &[Shot], port: u16, seen: &Arc<Seen>, mut stop: watch::Receiver<bool>, patience: Duration) {
    let clients: Vec<Arc<Clients>> = CLASSES.iter().map(|class| Clients::new(class.name, port)).collect();
    let started = Instant::now();
    let mut flying = JoinSet::new();
    for shot in shots {
        let due = started + Duration::from_micros(shot.at.micros());
        tokio::select! {
            () = tokio::time::sleep_until(due.into()) => {}
            _ = stop.wait_for(|stop| *stop) => break,
        }
        seen.sent[shot.class].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (clients, sql, class, seen) = (clients[shot.class].clone(), shot.sql.clone(), shot.class, seen.clone());
        flying.spawn(async move {
            let end = clients.ask(&sql).await;
            let latency = Span::from_micros(due.elapsed().as_micros() as u64);
            let shown = Shown { class, latency, end };
            seen.shown.lock().unwrap_or_else(PoisonError::into_inner).push(shown);
        });
    }
    let rest = async { while flying.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(patience, rest).await;
}

/// The connections of one class.
struct Clients {
    config: tokio_postgres::Config,
    idle: Mutex<Vec<Client>>,
    room: Semaphore,
}

impl Clients {
    fn new(application: &str, port: u16) -> Arc<Clients> {
        let mut config = tokio_postgres::Config::new();
        config.host("127.0.0.1").port(port).user("demo").dbname("demo").application_name(application);
        Arc::new(Clients { config, idle: Mutex::default(), room: Semaphore::new(CLIENTS) })
    }

    async fn ask(&self, sql: &str) -> End {
        let Ok(_room) = self.room.acquire().await else { return End::Lost("the demo is over".into()) };
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let client = match idle.filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => match self.config.connect(NoTls).await {
                Ok((client, connection)) => {
                    tokio::spawn(connection);
                    client
                }
                Err(error) => return end_of(&error),
            },
        };
        let end = match drain(&client, sql).await {
            Ok(()) => End::Answered,
            Err(error) => end_of(&error),
        };
        if !matches!(end, End::Lost(_)) {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(client);
        }
        end
    }
}

async fn drain(client: &Client, sql: &str) -> Result<(), tokio_postgres::Error> {
    let rows = client.simple_query_raw(sql).await?;
    pin_mut!(rows);
    while let Some(row) = rows.next().await {
        row?;
    }
    Ok(())
}

fn end_of(error: &tokio_postgres::Error) -> End {
    match error.as_db_error() {
        Some(db) if *db.code() == SqlState::TOO_MANY_CONNECTIONS || *db.code() == SqlState::CANNOT_CONNECT_NOW => {
            End::Refused
        }
        // The gateway says so when a cluster was lost under the query.
        Some(db) if db.code().code().starts_with("08") || db.code().code() == "57P01" => End::Lost(db.to_string()),
        Some(db) => End::Failed(db.to_string()),
        None => End::Lost(error.to_string()),
    }
}
