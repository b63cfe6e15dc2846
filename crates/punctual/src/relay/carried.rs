//! What a connection to a cluster carries from the sessions that used it: prepared statements and variables.
//!
//! Connections are shared, so a session's statement has a name of its own text there, the same for every session that
//! prepares that text. What is in the list is there for certain; what is not may be, which is why a statement is
//! always closed before it is prepared (closing one that does not exist is no error).
//!
//! A cluster may work constants of a statement out when it is first executed, and keep them: `(0.1 + 0.2)::text` is what it
//! was under the `extra_float_digits` of then. So a statement that was prepared under other variables is prepared again.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Prepared statements kept on one connection.
pub const STATEMENTS_PER_CONNECTION: usize = 256;

/// How the names of statements on a cluster begin.
pub const NAME_PREFIX: &str = "punctual_";

/// A statement as a client prepared it.
#[derive(Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The name that it has on every cluster.
    pub name: String,
    /// Its text.
    pub text: Arc<str>,
    /// The tail of its Parse: the count and ids of its parameters' types.
    pub types: Vec<u8>,
}

impl Prepared {
    /// A statement of that text and those types.
    pub fn new(text: Arc<str>, types: &[u8]) -> Prepared {
        let mut hasher = DefaultHasher::new();
        (&text, types).hash(&mut hasher);
        Prepared { name: format!("{NAME_PREFIX}{:016x}", hasher.finish()), text, types: types.to_vec() }
    }
}

/// The variables that a session wants its connection to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables {
    /// From the start-up message: name and value. A cluster that does not know them is not bothered again.
    pub start_up: Vec<(String, String)>,
    /// Set since, in the order of the first SET of each: name and the statement that sets it.
    pub set: Vec<(String, String)>,
}

/// Variables under which every statement is worked out alike.
const NEVER_WORKED_IN: [&str; 8] = [
    "application_name",
    "client_encoding",
    "client_min_messages",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "jit",
    "lock_timeout",
    "statement_timeout",
];

impl Variables {
    /// True if what a cluster worked out under these holds under those.
    fn work_out_as(self: &Arc<Self>, others: &Arc<Variables>) -> bool {
        fn worked_in(all: &[(String, String)]) -> impl Iterator<Item = &(String, String)> {
            all.iter().filter(|(name, _)| !NEVER_WORKED_IN.iter().any(|other| name.eq_ignore_ascii_case(other)))
        }
        Arc::ptr_eq(self, others)
            || worked_in(&self.set).eq(worked_in(&others.set))
                && worked_in(&self.start_up).eq(worked_in(&others.start_up))
    }
}

/// A statement with a name on a connection.
#[derive(Debug)]
struct Kept {
    statement: Arc<Prepared>,
    /// The number of its last use.
    used: u64,
    /// The variables that the connection had.
    under: Arc<Variables>,
}

/// What a connection carries.
#[derive(Debug, Default)]
pub struct Carried {
    named: HashMap<String, Kept>,
    uses: u64,
    /// The unnamed statement, if it is known.
    pub unnamed: Option<Arc<Prepared>>,
    /// The variables that it has.
    pub variables: Arc<Variables>,
    /// Its `work_mem`.
    pub memory: Memory,
}

/// Where the `work_mem` of a connection comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// From its variables, or the cluster.
    #[default]
    Own,
    /// From the class of a query: so many bytes.
    Class(u64),
    /// Either.
    Unknown,
}

impl Carried {
    /// True if the statement is prepared here, under variables like those of now; counts as a use.
    pub fn has(&mut self, statement: &Arc<Prepared>) -> bool {
        self.uses += 1;
        match self.named.get_mut(&statement.name) {
            // Two texts of one hash are told apart here: the wrong one is closed and prepared anew.
            Some(kept)
                if (Arc::ptr_eq(&kept.statement, statement) || kept.statement == *statement)
                    && kept.under.work_out_as(&self.variables) =>
            {
                kept.used = self.uses;
                true
            }
            _ => false,
        }
    }

    /// The statement has been prepared.
    pub fn add(&mut self, statement: Arc<Prepared>) {
        self.uses += 1;
        let kept = Kept { used: self.uses, under: Arc::clone(&self.variables), statement };
        self.named.insert(kept.statement.name.clone(), kept);
    }

    /// The statement may be gone.
    pub fn forget(&mut self, name: &str) {
        self.named.remove(name);
    }

    /// Every statement is gone.
    pub fn forget_all(&mut self) {
        self.named.clear();
        self.unnamed = None;
    }

    /// Takes out the statement whose last use is longest ago, if one more would be too many.
    pub fn evict(&mut self) -> Option<Arc<Prepared>> {
        if self.named.len() < STATEMENTS_PER_CONNECTION {
            return None;
        }
        let oldest = self.named.values().min_by_key(|kept| kept.used).map(|kept| Arc::clone(&kept.statement))?;
        self.named.remove(&oldest.name);
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(text: &str) -> Arc<Prepared> {
        Arc::new(Prepared::new(text.into(), &[0, 0]))
    }

    #[test]
    fn one_text_has_one_name_whoever_prepares_it() {
        assert_eq!(statement("select 1").name, statement("select 1").name);
        assert_ne!(statement("select 1").name, statement("select 2").name);
        assert_ne!(Prepared::new("select $1".into(), &[0, 1, 0, 0, 0, 23]).name, statement("select $1").name);
    }

    #[test]
    fn the_statement_unused_for_longest_makes_room() {
        let mut carried = Carried::default();
        for i in 0..STATEMENTS_PER_CONNECTION {
            assert!(carried.evict().is_none());
            carried.add(statement(&format!("select {i}")));
        }
        assert!(carried.has(&statement("select 0")));
        assert_eq!(carried.evict().map(|s| s.text.to_string()), Some("select 1".to_owned()));
        assert!(!carried.has(&statement("select 1")));
    }

    #[test]
    fn a_statement_that_was_worked_out_under_other_variables_is_not_taken_for_it() {
        let under = |set: &[(&str, &str)]| {
            let set = set.iter().map(|(name, sql)| ((*name).to_owned(), (*sql).to_owned())).collect();
            Arc::new(Variables { start_up: vec![("application_name".into(), "any".into())], set })
        };
        let mut carried = Carried { variables: under(&[]), ..Carried::default() };
        let mine = statement("select (0.1 + 0.2)::text");
        carried.add(Arc::clone(&mine));
        carried.variables = under(&[("statement_timeout", "set statement_timeout = 1")]);
        assert!(carried.has(&mine));
        carried.variables = under(&[("extra_float_digits", "set extra_float_digits = 0")]);
        assert!(!carried.has(&mine));
        carried.add(Arc::clone(&mine));
        assert!(carried.has(&mine));
        carried.variables = under(&[]);
        assert!(!carried.has(&mine));
    }

    #[test]
    fn a_statement_of_the_same_name_and_another_text_is_not_taken_for_it() {
        let mut carried = Carried::default();
        let mine = statement("select 1");
        let other = Arc::new(Prepared { name: mine.name.clone(), text: "select 2".into(), types: vec![0, 0] });
        carried.add(other);
        assert!(!carried.has(&mine));
    }
}
