//! Who is let in: what is in force of users and passwords, and who has failed too often.
//!
//! Users change while the gateway runs, and must even while the dispatcher does not decide: so they are not among the
//! [rules](super::in_force) that the driver puts in force.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use punctual_core::time::Span;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::auth::attempts::Attempts;
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::settings::Access;

/// How a log-in came out, as metrics have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Login {
    /// It is in.
    Accepted,
    /// It could not prove who it is.
    Failed,
    /// Too many others from there had failed.
    Barred,
    /// It took too long.
    Late,
}

impl Login {
    fn name(self) -> &'static str {
        match self {
            Login::Accepted => "accepted",
            Login::Failed => "failed",
            Login::Barred => "barred",
            Login::Late => "late",
        }
    }
}

/// Who is let in.
pub struct Guard {
    access: RwLock<Arc<Access>>,
    attempts: Mutex<Attempts>,
    /// Makes up what unknown users are asked for.
    mock: hmac::Key,
    random: SystemRandom,
    clock: Clock,
    metrics: Arc<Metrics>,
}

/// No secret of it.
impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guard({:?})", self.access())
    }
}

impl Guard {
    /// One that goes by that, and counts there.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub fn new(access: Access, clock: Clock, metrics: Arc<Metrics>) -> io::Result<Guard> {
        let random = SystemRandom::new();
        let mock =
            hmac::Key::generate(hmac::HMAC_SHA256, &random).map_err(|_| io::Error::other("no random numbers"))?;
        Ok(Guard { access: RwLock::new(Arc::new(access)), attempts: Mutex::default(), mock, random, clock, metrics })
    }

    /// One that trusts whoever is on this machine.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub fn trusting() -> io::Result<Guard> {
        Guard::new(Access::default(), Clock::start(), Arc::new(Metrics::new()))
    }

    /// What is in force.
    pub fn access(&self) -> Arc<Access> {
        Arc::clone(&self.access.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Something else is in force from now on, for those who come.
    pub fn adopt(&self, access: Access) {
        *self.access.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(access);
    }

    /// What the verifiers of users that are not there are made up from.
    pub(super) fn mock(&self) -> &hmac::Key {
        &self.mock
    }

    /// Our half of a nonce; None if the system gives no random numbers.
    pub(super) fn nonce(&self) -> Option<String> {
        // As many as Postgres takes.
        let mut bytes = [0; 18];
        self.random.fill(&mut bytes).ok()?;
        Some(STANDARD.encode(bytes))
    }

    /// How long it is until a log-in from there is looked at; None if one is now.
    pub(super) fn wait(&self, from: IpAddr, most: u32) -> Option<Span> {
        self.attempts().wait(from, most, self.clock.now())
    }

    /// Has a proof looked at, if not too many from there were wrong; Err with the time to wait if so.
    pub(super) fn attempt<T, E>(
        &self,
        from: IpAddr,
        most: u32,
        look: impl FnOnce() -> Result<T, E>,
    ) -> Result<Result<T, E>, Span> {
        self.attempts().begin(from, most, self.clock.now())?;
        let outcome = look();
        if outcome.is_ok() {
            self.attempts().succeeded(from);
        }
        Ok(outcome)
    }

    /// Counts how one came out.
    pub(super) fn count(&self, login: Login) {
        self.metrics.logged_in(login.name());
    }

    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
