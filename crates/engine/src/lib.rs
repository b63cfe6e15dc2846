//! A SQL cluster as a process: DataFusion behind the Postgres wire, and its simulated twin.
//!
//! One process is one cluster. Threads and memory are its own, so a neighbour cannot take them; it starts,
//! stops and crashes by itself; and a query that will not be cancelled dies with it. It knows nothing of
//! service levels, classes or other clusters: it listens, answers queries and ends when its parent does.
//!
//! Two runtimes keep it responsive. Statements are planned and executed on as many worker threads as the
//! cluster has; connections, cancels and timers live on another runtime, which answers while every worker is
//! busy.
//!
//! The interface of this crate has no type parameters, so that a program that links it does not compile
//! DataFusion again.

mod activity;
mod cancel;
#[cfg(feature = "datafusion")]
mod embedded;
mod engine;
mod extended;
#[cfg(feature = "datafusion")]
pub mod generated;
mod refuse;
mod rows;
pub mod scale;
#[cfg(feature = "datafusion")]
mod scratch;
mod server;
mod session;
mod settings;
mod simulated;
mod sqlstate;
mod startup;
mod statement;
#[cfg(feature = "datafusion")]
pub mod tpcds;
#[cfg(feature = "datafusion")]
pub mod tpch;
mod wire;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

#[cfg(feature = "datafusion")]
pub use embedded::check_tables;
pub use server::{EngineError, run};

/// What [`run`] serves, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where clients connect.
    pub listen: Listen,
    /// What they must know.
    pub secret: Secret,
    /// How large the cluster is, in units; at least 1.
    pub size: u32,
    /// What answers.
    pub kind: Kind,
    /// How long a statement may run, unless its session says otherwise. `None` is for ever.
    pub statement_timeout: Option<Duration>,
    /// End when standard input closes: the parent has died.
    pub until_stdin_closes: bool,
    /// A statement whose client was answered or has gone and that works on for this long is a runaway, and the line
    /// `runaway {"statements": …}` on standard output tells whoever reads it, once until none is left.
    pub runaway_after: Duration,
}

/// Where clients connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// A directory; the socket is `DIR/.s.PGSQL.5432`, so `psql -h DIR` works. It is made with mode 0700 if
    /// it does not exist, refused if others can reach into it, and only our own user may connect.
    Unix(PathBuf),
    /// An address. Port 0 takes a free one, which the `ready` line tells.
    Tcp(SocketAddr),
}

/// What a client must know to connect.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// Nothing. Only over a Unix socket or loopback.
    None,
    /// A password, sent in the clear.
    Password(String),
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Password(_) => "Password(..)",
        })
    }
}

/// What answers.
#[derive(Debug, Clone)]
pub enum Kind {
    /// DataFusion.
    Embedded {
        /// Directories. Every `NAME.parquet` and every directory `NAME` of Parquet files in them becomes the
        /// table `NAME`.
        tables: Vec<PathBuf>,
        /// Worker threads of each unit; at least 1.
        threads_per_unit: u32,
        /// Bytes of memory for the operators of each unit. What does not fit is spilled to disk where the
        /// operator can, and an error to the client where it cannot.
        memory_per_unit: u64,
    },
    /// A model of a warehouse, in real time.
    Simulated(Simulated),
}

/// A warehouse that answers after the time that a model says.
///
/// A statement's work comes from its text: `/* punctual: work=1.5s */` is one and a half seconds of one unit
/// alone, `/* tpcds:42 */` is that query of TPC-DS; without such a comment it is 100 ms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Simulated {
    /// Statements that make progress at the same time, without a warehouse; more wait in order. At least 1.
    pub slots: u32,
    /// It works as the simulated warehouse does, with slots of its own, and knows the queries of TPC-DS.
    pub warehouse: bool,
    /// Real seconds for each simulated second: 0.1 runs ten times as fast.
    pub time_scale: f64,
    /// That of the chance in a warehouse's executions; processor sharing has none.
    pub seed: u64,
}
