//! The prepared statements of a session.
//!
//! They belong to the session, not to any connection: where one is missing on the connection that a query runs on, it
//! is prepared there first. A change takes effect when its reply is due, so that what follows an error in a pipeline
//! never happened.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::reading::Reading;
use crate::catalog::Column;
use crate::relay::carried::Prepared;

/// A prepared statement.
#[derive(Clone, Debug)]
pub struct Entry {
    /// As it was prepared.
    pub prepared: Arc<Prepared>,
    /// As it was read.
    pub reading: Arc<Reading>,
    /// The columns that the client was told of, if the gateway answers it: they hold for each of its executions.
    pub told: Arc<OnceLock<Arc<[Column]>>>,
    /// What a cluster said of its parameters, if the client asked.
    pub described: Described,
}

/// The types of a statement's parameters, as a cluster described them last: their number and their ids, as Parse has them. Drivers
/// that send values in binary without naming types go by it, so what they send can be read by it.
#[derive(Clone, Debug, Default)]
pub struct Described(Arc<Mutex<Arc<[u8]>>>);

impl Described {
    /// The most bytes that are kept: of some hundred parameters.
    pub const MOST: usize = 1 << 10;

    /// Takes what a ParameterDescription says.
    pub fn tell(&self, types: &[u8]) {
        let types = if types.len() > Described::MOST { &[] } else { types };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = types.into();
    }

    /// The types; nothing while they are not known.
    pub fn types(&self) -> Arc<[u8]> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Entry {
    /// A statement that has not been described.
    pub fn new(prepared: Arc<Prepared>, reading: Arc<Reading>) -> Entry {
        Entry { prepared, reading, told: Arc::default(), described: Described::default() }
    }
}

/// A name means something else, or nothing, from now on. The empty name is the unnamed statement's.
#[derive(Clone, Debug)]
pub struct Change {
    /// The name that the client uses.
    pub name: String,
    /// What it means.
    pub to: Option<Entry>,
}

/// The prepared statements of a session, at most as many as it may have.
#[derive(Debug)]
pub struct Statements {
    named: HashMap<String, Entry>,
    unnamed: Option<Entry>,
    limit: usize,
}

impl Statements {
    /// None yet, and at most `limit` with names.
    pub fn new(limit: usize) -> Statements {
        Statements { named: HashMap::new(), unnamed: None, limit }
    }

    /// What a name means.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        if name.is_empty() { self.unnamed.as_ref() } else { self.named.get(name) }
    }

    /// How many statements it may have.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// True if with `more` it has as many names as it may.
    pub fn is_full_with(&self, more: usize) -> bool {
        self.named.len() + more >= self.limit
    }

    /// Carries a change out.
    pub fn change(&mut self, change: Change) {
        match (change.name.is_empty(), change.to) {
            (true, to) => self.unnamed = to,
            (false, None) => drop(self.named.remove(&change.name)),
            (false, Some(entry)) => drop(self.named.insert(change.name, entry)),
        }
    }

    /// A simple query has been sent: the unnamed statement is gone, as in Postgres.
    pub fn forget_unnamed(&mut self) {
        self.unnamed = None;
    }

    /// Every statement is gone.
    pub fn forget_all(&mut self) {
        self.named.clear();
        self.unnamed = None;
    }
}
