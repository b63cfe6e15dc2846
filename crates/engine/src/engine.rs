//! The two things that can stand behind the wire, and what a session asks of them.
//!
//! A closed enum and not a trait: there are two, both are here, and the session that speaks for them is
//! compiled once.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use pgwire::api::Type;
use pgwire::api::portal::Format;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};

use crate::activity::{Activity, Ticket};
use crate::rows::{Chunk, Columns};
use crate::settings::Settings;
use crate::simulated;
use crate::sqlstate::Failure;
use crate::statement::Query;

/// Pieces of a result that may wait between the engine and a connection. With about 64 kB each this is what
/// a slow client can hold in memory; then the engine waits too.
pub(crate) const BACKLOG: usize = 4;

/// What stands behind the wire.
pub(crate) enum Engine {
    #[cfg(feature = "datafusion")]
    Embedded(Arc<crate::embedded::Embedded>),
    Simulated(Arc<simulated::Warehouse>),
}

impl Engine {
    /// What is executing there.
    pub(crate) fn activity(&self) -> Arc<Activity> {
        match self {
            #[cfg(feature = "datafusion")]
            Engine::Embedded(embedded) => embedded.activity(),
            Engine::Simulated(warehouse) => warehouse.activity.clone(),
        }
    }
}

/// What the engine keeps for one session.
pub(crate) enum EngineSession {
    #[cfg(feature = "datafusion")]
    Embedded(Box<crate::embedded::Session>),
    Simulated(simulated::Session),
}

/// A query that was parsed and planned, perhaps with parameters.
#[derive(Clone)]
pub(crate) struct Prepared {
    pub(crate) parameters: Vec<Type>,
    pub(crate) columns: Columns,
    pub(crate) plan: Plan,
}

/// The engine's own form of it.
#[derive(Clone)]
pub(crate) enum Plan {
    #[cfg(feature = "datafusion")]
    Embedded(Arc<crate::embedded::Planned>),
    Simulated(simulated::Planned),
}

/// Parameter values as they came, to be decoded by whoever knows the types.
#[derive(Debug, Clone, Default)]
#[cfg_attr(not(feature = "datafusion"), expect(dead_code, reason = "the simulated twin looks at no values"))]
pub(crate) struct Bound {
    pub(crate) values: Vec<Option<Bytes>>,
    pub(crate) formats: Vec<i16>,
}

/// How the values of a result are to be written.
#[derive(Debug, Clone, Default)]
#[cfg_attr(not(feature = "datafusion"), expect(dead_code, reason = "the simulated twin looks at no values"))]
pub(crate) struct Output {
    pub(crate) format: Format,
    /// Text styles by setting, as in [`Settings::formats`].
    pub(crate) styles: HashMap<String, String>,
    /// Bytes that the statement may use, if that is bounded: `work_mem`.
    pub(crate) memory: Option<usize>,
}

/// What arrives from an execution, in this order: columns once, rows, done. An error ends it.
#[derive(Debug)]
pub(crate) enum Piece {
    Columns(Columns),
    Rows(Chunk),
    Done,
}

/// An execution. Dropping it before its end stops the work, or at least asks it to.
#[derive(Debug)]
pub(crate) struct Running {
    pieces: mpsc::Receiver<Result<Piece, Failure>>,
    task: AbortHandle,
    ticket: Weak<Ticket>,
    ended: bool,
}

impl Engine {
    pub(crate) fn session(&self, user: &str, settings: &Settings) -> Result<EngineSession, Failure> {
        match self {
            #[cfg(feature = "datafusion")]
            Self::Embedded(engine) => Ok(EngineSession::Embedded(Box::new(engine.session(user, settings)?))),
            Self::Simulated(warehouse) => {
                let _ = (user, settings);
                Ok(EngineSession::Simulated(simulated::Session::new(warehouse.clone())))
            }
        }
    }
}

impl EngineSession {
    /// What is executing, in all sessions.
    pub(crate) fn activity(&self) -> &Activity {
        match self {
            #[cfg(feature = "datafusion")]
            Self::Embedded(session) => session.activity(),
            Self::Simulated(session) => session.activity(),
        }
    }

    /// Plans a query for repeated execution. `hints` are the parameter types that the client gave.
    pub(crate) async fn prepare(&self, query: &Query, hints: Vec<Option<Type>>) -> Result<Prepared, Failure> {
        match self {
            #[cfg(feature = "datafusion")]
            Self::Embedded(session) => session.prepare(query, hints).await,
            Self::Simulated(session) => session.prepare(query, hints),
        }
    }

    /// Plans and executes a query at once.
    pub(crate) fn execute(&self, query: Query, output: Output) -> Running {
        match self {
            #[cfg(feature = "datafusion")]
            Self::Embedded(session) => session.execute(query, output),
            Self::Simulated(session) => session.execute(&query, output),
        }
    }

    /// Executes what was prepared.
    pub(crate) fn execute_prepared(&self, prepared: &Prepared, bound: Bound, output: Output) -> Running {
        match (self, &prepared.plan) {
            #[cfg(feature = "datafusion")]
            (Self::Embedded(session), Plan::Embedded(plan)) => {
                session.execute_prepared(plan.clone(), prepared.clone(), bound, output)
            }
            (Self::Simulated(session), Plan::Simulated(plan)) => {
                let _ = bound;
                session.execute_planned(*plan, output)
            }
            // A session never sees another engine's plans.
            #[cfg(feature = "datafusion")]
            _ => unreachable!("a plan of another engine"),
        }
    }
}

impl Running {
    /// `ticket` stays with the work; this only looks at it.
    pub(crate) fn new(
        pieces: mpsc::Receiver<Result<Piece, Failure>>,
        task: &JoinHandle<()>,
        ticket: Weak<Ticket>,
    ) -> Running {
        Running { pieces, task: task.abort_handle(), ticket, ended: false }
    }

    /// The next piece. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Piece, Failure> {
        if self.ended {
            return Ok(Piece::Done);
        }
        let piece = match self.pieces.recv().await {
            Some(piece) => piece,
            // The task died without a word: it catches its own panics, so its runtime is going down.
            None => Err(Failure::panicked("executing the statement")),
        };
        self.ended = matches!(piece, Ok(Piece::Done) | Err(_));
        piece
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            self.task.abort();
            if let Some(ticket) = self.ticket.upgrade() {
                ticket.abandon();
            }
        }
    }
}
