//! Connections to one start of one cluster, shared among sessions.
//!
//! How many are in use is not bounded here: the dispatcher gives a cluster no more queries than it has slots for.
//! What lies idle is, and the one used last is taken first, so that the rest can grow old and go.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use punctual_core::id::{ClusterId, Generation};

use super::carried::Variables;
use super::connection::{Connection, ServerFacts};
use super::error::ConnectError;
use super::startup::connect;
use crate::settings::{Door, Endpoint, Identity, Login};

/// Connections to one start of one cluster.
#[derive(Debug)]
pub struct Pool {
    cluster: ClusterId,
    generation: Generation,
    name: String,
    facts: OnceLock<Arc<ServerFacts>>,
    shelf: Mutex<Shelf>,
}

/// Connections that nobody uses, those used last at the end.
#[derive(Debug)]
struct Shelf {
    /// Where connections go, and as whom.
    endpoint: Arc<Endpoint>,
    /// How much may lie there, and how long a connection may take.
    door: Door,
    closed: bool,
    idle: Vec<Idle>,
}

/// Whose it is there is what it is known by, not who in the gateway has used it.
#[derive(Debug)]
struct Idle {
    user: String,
    database: String,
    connection: Connection,
}

impl Pool {
    /// An empty pool.
    pub fn new(cluster: ClusterId, generation: Generation, name: String, endpoint: Endpoint, door: Door) -> Pool {
        let shelf = Mutex::new(Shelf { endpoint: Arc::new(endpoint), door, closed: false, idle: Vec::new() });
        Pool { cluster, generation, name, facts: OnceLock::new(), shelf }
    }

    /// Goes by other bounds from now on, and by other credentials if there are any: those that lie idle stay those of
    /// whom they are.
    pub fn adopt(&self, door: Door, login: Option<&Login>) {
        let mut shelf = self.shelf();
        if let Some(login) = login.filter(|login| login.credentials != shelf.endpoint.login.credentials) {
            let Endpoint { address, login: old } = shelf.endpoint.as_ref().clone();
            let login = Login { credentials: login.credentials.clone(), ..old };
            shelf.endpoint = Arc::new(Endpoint { address, login });
        }
        // Those used longest ago are first.
        let over = shelf.idle.len().saturating_sub(door.max_idle_connections as usize);
        shelf.idle.drain(..over);
        shelf.door = door;
    }

    /// The cluster that its connections go to.
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// The start of the cluster that it belongs to.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// The cluster's name in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the cluster said of itself on the first connection; None before it.
    pub fn facts(&self) -> Option<Arc<ServerFacts>> {
        self.facts.get().cloned()
    }

    /// How many connections lie idle.
    pub fn idle(&self) -> usize {
        self.shelf().idle.len()
    }

    /// Drops idle connections; those in use are dropped when they are given back, and later leases fail.
    pub fn close(&self) {
        let mut shelf = self.shelf();
        shelf.closed = true;
        shelf.idle.clear();
    }

    /// A connection for that user and database: one that lies idle, or a new one.
    ///
    /// # Errors
    /// If none is idle and a new one cannot be had.
    pub async fn lease(self: &Arc<Pool>, user: &str, database: &str) -> Result<Lease, ConnectError> {
        self.lease_with(user, database, &Arc::default()).await
    }

    /// As [`Pool::lease`]; among idle connections, one that carries those variables is preferred.
    ///
    /// # Errors
    /// If none is idle and a new one cannot be had.
    pub async fn lease_with(
        self: &Arc<Pool>,
        user: &str,
        database: &str,
        variables: &Arc<Variables>,
    ) -> Result<Lease, ConnectError> {
        match self.take_idle(user, database, variables)? {
            Some(loan) => Ok(self.lend(loan)),
            None => self.lease_new(user, database).await,
        }
    }

    /// A new connection for that user and database.
    ///
    /// # Errors
    /// If it cannot be had.
    pub async fn lease_new(self: &Arc<Pool>, user: &str, database: &str) -> Result<Lease, ConnectError> {
        let (endpoint, within) = {
            let shelf = self.shelf();
            if shelf.closed {
                return Err(ConnectError::Closed);
            }
            (Arc::clone(&shelf.endpoint), shelf.door.connect_within)
        };
        let identity = identity(&endpoint, user, database)?;
        let connection = connect((&endpoint.address, &endpoint.login.tls), identity, within).await?;
        self.facts.get_or_init(|| Arc::clone(&connection.facts));
        let (user, database) = (identity.user.to_owned(), identity.database.to_owned());
        Ok(self.lend(Idle { user, database, connection }))
    }

    fn take_idle(&self, user: &str, database: &str, variables: &Arc<Variables>) -> Result<Option<Idle>, ConnectError> {
        let mut shelf = self.shelf();
        if shelf.closed {
            return Err(ConnectError::Closed);
        }
        let endpoint = Arc::clone(&shelf.endpoint);
        // Who may not come must not come by a connection that is there, either.
        let Identity { user, database, .. } = identity(&endpoint, user, database)?;
        loop {
            let fits = |idle: &Idle| idle.user == user && idle.database == database;
            let carries = |idle: &Idle| {
                Arc::ptr_eq(&idle.connection.carried.variables, variables)
                    || idle.connection.carried.variables == *variables
            };
            let best = shelf.idle.iter().rposition(|idle| fits(idle) && carries(idle));
            let Some(at) = best.or_else(|| shelf.idle.iter().rposition(fits)) else { return Ok(None) };
            let mut idle = shelf.idle.remove(at);
            // One that hung up, or said something unasked, is in a state that nobody knows.
            if idle.connection.socket.is_quiet() {
                return Ok(Some(idle));
            }
        }
    }

    fn lend(self: &Arc<Pool>, loan: Idle) -> Lease {
        Lease { pool: Arc::clone(self), loan: Some(loan) }
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who a user of the gateway is on the cluster.
fn identity<'a>(endpoint: &'a Endpoint, user: &'a str, database: &'a str) -> Result<Identity<'a>, ConnectError> {
    endpoint.login.identity(user, database).ok_or_else(|| ConnectError::Nobody { user: user.to_owned() })
}

/// A connection in use. Dropping it closes the connection; only [`Lease::give_back`] keeps it.
#[derive(Debug)]
pub struct Lease {
    pool: Arc<Pool>,
    /// There until it is given back.
    loan: Option<Idle>,
}

impl Lease {
    /// Where it is from.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Gives the connection back for others to use. It must have said ReadyForQuery, idle, and nothing since; one that
    /// is tainted or has something unread is closed instead.
    pub fn give_back(mut self) {
        let Some(mut loan) = self.loan.take() else { return };
        if loan.connection.tainted || !loan.connection.input.is_empty() {
            return;
        }
        loan.connection.reused = true;
        loan.connection.input.shrink(16 << 10);
        let mut shelf = self.pool.shelf();
        if shelf.closed || shelf.door.max_idle_connections == 0 {
            return;
        }
        if shelf.idle.len() >= shelf.door.max_idle_connections as usize {
            shelf.idle.remove(0);
        }
        shelf.idle.push(loan);
    }
}

impl Deref for Lease {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        // It is only taken by `give_back`, which consumes the lease.
        &self.loan.as_ref().expect("the lease has not been given back").connection
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.loan.as_mut().expect("the lease has not been given back").connection
    }
}
