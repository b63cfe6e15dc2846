//! The schema `punctual`: what the gateway knows, as tables.
//!
//! ```text
//!  SELECT … FROM punctual.queries ──▶ snapshot ──▶ SQLite in memory ──▶ rows
//!                                                   reads these tables, nothing else
//! ```
//!
//! A statement about the gateway is answered by the gateway itself, never admitted, queued or sent to a cluster, so
//! that it answers when nothing else does. Any client may ask anything, so what a statement may do is bounded: see
//! [`sandbox`].

mod controllers;
mod plan;
#[cfg(test)]
pub(crate) mod sample;
mod sandbox;
pub(crate) mod stamp;
mod tables;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::query::SqlState;
use tokio::sync::Semaphore;

pub(crate) use controllers::CONTROLLERS;
pub(crate) use plan::PLAN;
pub(crate) use tables::{
    CLASSES, CLUSTERS, Column as TableColumn, DECISIONS, LANES, MODEL, QUERIES, Reader, SCALING, TABLES, Table,
    candidates,
};
pub use tables::{ColumnKind, markdown};

use crate::link::{Link, Snapshot};

/// What a statement returned.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows: Postgres's text format, None for null. As many values as columns.
    pub rows: Vec<Vec<Option<String>>>,
}

/// A column of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: ColumnKind,
}

/// The value of a parameter, as SQLite knows values: a truth is 0 or 1, an instant the text that the tables have.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameter {
    /// None.
    Null,
    /// A whole number.
    Int(i64),
    /// Another number.
    Float(f64),
    /// A text.
    Text(String),
}

/// The type of the column of that name, in lower case, of whichever table has one.
pub(crate) fn column_kind(name: &str) -> Option<ColumnKind> {
    let mut columns = tables::TABLES.into_iter().flat_map(|table| table.columns);
    columns.find(|column| column.name == name).map(|column| column.kind)
}

/// An instant in microseconds since 1970, as the tables have it.
pub(crate) fn instant(micros: u64) -> String {
    stamp::timestamp(punctual_core::time::Time::from_micros(micros))
}

/// Who asks what.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// One statement.
    pub sql: &'a str,
    /// The values of its parameters, `$1` first.
    pub parameters: &'a [Parameter],
    /// The user that asks; sees the texts of its own queries only.
    pub user: &'a str,
    /// True if it sees everyone's.
    pub is_admin: bool,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogError {
    /// The statement is wrong, in SQLite's words.
    Wrong {
        /// Which kind of wrong.
        sqlstate: SqlState,
        /// What is wrong.
        message: String,
    },
    /// The text holds more than one statement.
    NotOne {
        /// How many it holds.
        statements: u32,
    },
    /// The statement has a parameter that has no value.
    NoParameter {
        /// Its name.
        name: String,
    },
    /// It would do or read something that is not allowed.
    NotAllowed {
        /// What SQLite says of it.
        message: String,
    },
    /// It took more steps or more time than a statement may.
    TookTooLong,
    /// It needed more memory than there is for statements.
    TooMuchMemory,
    /// Its text, one of its values or its result is too large.
    TooLarge {
        /// What is, and how large it may be.
        what: &'static str,
    },
    /// As many statements are being answered as may.
    TooMany,
    /// The driver does not say what it knows.
    NoSnapshot,
    /// SQLite failed in a way that no statement explains.
    Broken {
        /// What it says.
        message: String,
    },
}

/// How long a snapshot may take, and how long a statement waits for its turn.
const SNAPSHOT_WITHIN: Duration = Duration::from_secs(5);

/// Statements that are answered at once.
const AT_ONCE: usize = 2;

/// Answers statements with what the driver knows when they are asked.
#[derive(Debug)]
pub struct Catalog {
    link: Link,
    turns: Arc<Semaphore>,
}

impl Catalog {
    /// A catalogue over this driver.
    pub fn new(link: Link) -> Catalog {
        Catalog { link, turns: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Answers a statement, on a thread where it may take its time.
    ///
    /// # Errors
    /// As [`answer`]; and if too many ask, or the driver is silent.
    pub async fn answer(&self, question: Question<'_>) -> Result<Answer, CatalogError> {
        let turn = tokio::time::timeout(SNAPSHOT_WITHIN, Arc::clone(&self.turns).acquire_owned());
        let Ok(Ok(turn)) = turn.await else { return Err(CatalogError::TooMany) };
        let Ok(Ok(snapshot)) = tokio::time::timeout(SNAPSHOT_WITHIN, self.link.look()).await else {
            return Err(CatalogError::NoSnapshot);
        };
        let (sql, user, is_admin) = (question.sql.to_owned(), question.user.to_owned(), question.is_admin);
        let parameters = question.parameters.to_vec();
        let answered = tokio::task::spawn_blocking(move || {
            // Held until the thread is done, even if nobody waits for it any more.
            let _turn = turn;
            answer(Question { sql: &sql, parameters: &parameters, user: &user, is_admin }, &snapshot)
        });
        answered.await.unwrap_or_else(|died| Err(CatalogError::Broken { message: died.to_string() }))
    }
}

/// Answers a statement over a snapshot. It computes for up to two seconds: call it where that holds up nobody.
///
/// # Errors
/// If the statement is wrong, does something that is not allowed, or exceeds a bound.
pub fn answer(question: Question<'_>, snapshot: &Snapshot) -> Result<Answer, CatalogError> {
    sandbox::answer(question, snapshot, sandbox::WORK)
}

impl CatalogError {
    /// The code that a client sees.
    pub fn sqlstate(&self) -> SqlState {
        SqlState(*match self {
            CatalogError::Wrong { sqlstate, .. } => return *sqlstate,
            CatalogError::NotOne { .. } => b"42601",
            CatalogError::NoParameter { .. } => b"42P02",
            CatalogError::NotAllowed { .. } => b"42501",
            CatalogError::TookTooLong => b"57014",
            CatalogError::TooMuchMemory => b"53200",
            CatalogError::TooLarge { .. } => b"54000",
            CatalogError::TooMany => b"53300",
            CatalogError::NoSnapshot => b"57P03",
            CatalogError::Broken { .. } => b"XX000",
        })
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            CatalogError::Wrong { sqlstate, .. } if &sqlstate.0 == b"42P01" => Some(
                "The schema punctual has the tables queries, clusters, classes, lanes, decisions, scaling, plan, controllers and model.",
            ),
            CatalogError::NotOne { .. } => Some("Send statements about the gateway one by one."),
            CatalogError::NoParameter { .. } => {
                Some("Parameters are $1, $2 and so on, and come with prepared statements.")
            }
            CatalogError::NotAllowed { .. } => {
                Some("Statements about the gateway can read the tables of the schema punctual, and nothing else.")
            }
            CatalogError::TooLarge { .. } => Some("Select fewer columns, or add a LIMIT."),
            CatalogError::TooMany => Some("Try again."),
            _ => None,
        }
    }
}

impl fmt::Display for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CatalogError::Wrong { message, .. } => write!(f, "{message}"),
            CatalogError::NotOne { statements } => write!(f, "{statements} statements in one text about the gateway"),
            CatalogError::NoParameter { name } => write!(f, "there is no parameter {name}"),
            CatalogError::NotAllowed { message } => write!(f, "{message}"),
            CatalogError::TookTooLong => write!(f, "the statement took too long"),
            CatalogError::TooMuchMemory => write!(f, "the statement needs too much memory"),
            CatalogError::TooLarge { what } => write!(f, "{what}"),
            CatalogError::TooMany => write!(f, "too many statements about the gateway at once"),
            CatalogError::NoSnapshot => write!(f, "the gateway does not answer what it is doing"),
            CatalogError::Broken { message } => write!(f, "the statement failed: {message}"),
        }
    }
}

impl std::error::Error for CatalogError {}
