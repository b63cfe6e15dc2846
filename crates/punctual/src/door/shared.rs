//! What all sessions of a gateway share: what is in force, running numbers, cancel keys.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use punctual_core::id::{QueryId, SessionId};
use punctual_core::time::Span;

use super::guard::Guard;
use super::in_force::{InForce, Rules};
use super::ranges::TimeRanges;
use super::table::Answers;
use crate::chance;
use crate::driver::fallback::Fallback;
use crate::files::Files;
use crate::history;
use crate::plans::Plans;

/// Sessions that process numbers are there for: the other bits carry the gateway's number.
const MOST_SESSIONS: u32 = 1 << 15;

/// What all sessions of a gateway share.
pub struct Shared {
    gateway: u16,
    in_force: Arc<InForce>,
    answers: Arc<dyn Answers>,
    fallback: Arc<Fallback>,
    guard: Arc<Guard>,
    files: Files,
    queries: AtomicU64,
    sessions: AtomicU64,
    connected: AtomicU32,
    keys: Mutex<Keys>,
    /// None where nothing is predicted.
    foresight: Option<Foresight>,
    /// None where no table has a column of time.
    ranges: Option<TimeRanges>,
}

/// What queries are told along with where latencies are predicted.
#[derive(Debug)]
pub(crate) struct Foresight {
    /// The key under which history hashes texts.
    pub(crate) texts: history::Key,
    /// What engines plan; None if they are not asked.
    pub(crate) plans: Option<Arc<Plans>>,
}

#[derive(Default)]
struct Keys {
    last: u32,
    known: HashMap<u32, Key>,
}

struct Key {
    secret: u32,
    running: Arc<AtomicU64>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shared(gateway {}, {} sessions)", self.gateway, self.sessions())
    }
}

impl Shared {
    /// For a gateway of that number. Query and session ids count from `first_number`, which must be beyond all that
    /// were given before a restart: they are never used twice. `fallback` is how queries go on when the dispatcher fails,
    /// `guard` lets clients in.
    pub fn new(
        gateway: u16,
        in_force: Arc<InForce>,
        first_number: u64,
        answers: Arc<dyn Answers>,
        fallback: Arc<Fallback>,
        guard: Arc<Guard>,
    ) -> Shared {
        Shared {
            gateway,
            in_force,
            answers,
            fallback,
            guard,
            files: Files::now(),
            queries: AtomicU64::new(first_number),
            sessions: AtomicU64::new(first_number),
            connected: AtomicU32::new(0),
            keys: Mutex::default(),
            foresight: None,
            ranges: None,
        }
    }

    /// For a gateway that predicts: queries come with what predictions are made from.
    pub(crate) fn predicting(self, foresight: Foresight) -> Shared {
        Shared { foresight: Some(foresight), ..self }
    }

    /// For a gateway that knows of tables with a column of time: queries come with how much of time they read.
    pub(crate) fn ranging(self, ranges: Option<TimeRanges>) -> Shared {
        Shared { ranges, ..self }
    }

    /// Who finds how much of time queries read, if any table has a column of time.
    pub(super) fn ranges(&self) -> Option<&TimeRanges> {
        self.ranges.as_ref()
    }

    /// What queries are told along with, if anything is predicted.
    pub(super) fn foresight(&self) -> Option<&Foresight> {
        self.foresight.as_ref()
    }

    /// How queries go on when the dispatcher fails.
    pub fn fallback(&self) -> &Arc<Fallback> {
        &self.fallback
    }

    /// How long a query waits for a slot then.
    pub fn wait_limit(&self) -> Span {
        self.fallback.wait_limit()
    }

    /// What is in force.
    pub fn rules(&self) -> Arc<Rules> {
        self.in_force.rules()
    }

    /// Who answers questions about the gateway.
    pub fn answers(&self) -> &dyn Answers {
        self.answers.as_ref()
    }

    /// True if a user may see what others run.
    pub fn is_admin(&self, user: &str) -> bool {
        self.guard.access().is_admin(user)
    }

    /// Who lets clients in.
    pub(crate) fn guard(&self) -> &Guard {
        &self.guard
    }

    /// How many files there may be, for clients among others.
    pub(super) fn files(&self) -> Files {
        self.files
    }

    /// Sessions that are connected.
    pub fn sessions(&self) -> u32 {
        self.connected.load(Ordering::Relaxed)
    }

    /// An id for a query.
    pub fn next_query(&self) -> QueryId {
        QueryId::of(self.gateway, self.queries.fetch_add(1, Ordering::Relaxed))
    }

    /// An id for a session.
    pub fn next_session(&self) -> SessionId {
        SessionId::of(self.gateway, self.sessions.fetch_add(1, Ordering::Relaxed))
    }

    /// Takes a place for a session; None if there are as many as may be.
    ///
    /// # Errors
    /// If the system gives no random secret.
    pub(super) fn admit(self: &Arc<Shared>) -> io::Result<Option<Place>> {
        let secret = chance::secret()?;
        let limit = self.rules().door.max_sessions.min(MOST_SESSIONS).min(self.files.sessions());
        let mut keys = self.keys();
        if keys.known.len() >= limit as usize {
            return Ok(None);
        }
        let process = loop {
            keys.last = (keys.last + 1) % MOST_SESSIONS;
            let process = (u32::from(self.gateway) << 15) | keys.last;
            if process != 0 && !keys.known.contains_key(&process) {
                break process;
            }
            if limit == MOST_SESSIONS && keys.known.len() + 1 >= limit as usize {
                return Ok(None);
            }
        };
        let (secret, running) = (u32::from_be_bytes(secret), Arc::new(AtomicU64::new(0)));
        keys.known.insert(process, Key { secret, running: Arc::clone(&running) });
        self.connected.store(keys.known.len() as u32, Ordering::Relaxed);
        Ok(Some(Place { shared: Arc::clone(self), process, secret, running }))
    }

    /// The query that runs in the session of that key; None if there is no such session, or nothing runs.
    pub(super) fn running(&self, process: u32, secret: u32) -> Option<QueryId> {
        let keys = self.keys();
        let key = keys.known.get(&process).filter(|key| key.secret == secret)?;
        match key.running.load(Ordering::Relaxed) {
            0 => None,
            id => Some(QueryId(id)),
        }
    }

    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session's place, with its cancel key. Dropping it makes room for another.
#[derive(Debug)]
pub(super) struct Place {
    shared: Arc<Shared>,
    /// The process number that the client is told: the gateway's number above 15 bits of a running one.
    pub(super) process: u32,
    /// The secret that the client is told.
    pub(super) secret: u32,
    /// The query that runs; 0: none.
    pub(super) running: Arc<AtomicU64>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut keys = self.shared.keys();
        keys.known.remove(&self.process);
        self.shared.connected.store(keys.known.len() as u32, Ordering::Relaxed);
    }
}
