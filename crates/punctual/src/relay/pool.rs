//! Connections to one start of one cluster, shared among sessions.
//!
//! How many are in use is not bounded here: the dispatcher gives a cluster no more queries than it has slots for. Unless it
//! is said otherwise, as many lie idle as make up its slots with those in use: then nothing is opened and closed in turn,
//! however queries come, and a cluster does not run out of connections. The one used last is taken first, so that the rest
//! can grow old and go; [`tending`](super::tending) sees to that.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use punctual_core::id::{ClusterId, Generation};

use super::carried::Variables;
use super::connection::{Connection, ServerFacts};
use super::error::ConnectError;
use super::startup::connect;
use super::types::KnownTypes;
use crate::settings::{Door, Endpoint, Identity, Login};

/// One that lay idle for longer is asked whether it is well before it is used again.
const TRUSTED_FOR: Duration = Duration::from_secs(30);

/// One that was given back no longer ago is not looked at before it is used again, so that a busy pool asks the system nothing.
const A_MOMENT: Duration = Duration::from_millis(1);

/// Users and databases that are remembered, for connections that are opened before they are needed.
const VISITORS: usize = 32;

/// Users and databases of which is remembered what the cluster said to them.
const REMEMBERED: usize = 256;

/// Connections to one start of one cluster.
#[derive(Debug)]
pub struct Pool {
    cluster: ClusterId,
    generation: Generation,
    name: String,
    first_facts: OnceLock<Arc<ServerFacts>>,
    /// Leases that are out.
    in_use: AtomicUsize,
    /// True if what writes goes elsewhere.
    only_reads: AtomicBool,
    shelf: Mutex<Shelf>,
}

/// Connections that nobody uses, those used last at the end.
#[derive(Debug)]
struct Shelf {
    /// Where connections go, and as whom.
    endpoint: Arc<Endpoint>,
    /// How much may lie there, and how long a connection may take.
    door: Door,
    /// How many queries its cluster takes at once.
    slots: usize,
    closed: bool,
    idle: Vec<Idle>,
    /// Who came last, as the gateway knows them.
    visitors: Vec<Visitor>,
    /// What the cluster said of itself when it was last connected to, as that user to that database: a role has settings of its
    /// own, and so has a database.
    facts: HashMap<(String, String), Arc<ServerFacts>>,
}

/// Someone who has used the cluster.
#[derive(Clone, Debug)]
struct Visitor {
    user: String,
    database: String,
    last: Instant,
}

/// Whose it is there is what it is known by, not who in the gateway has used it.
#[derive(Debug)]
struct Idle {
    user: String,
    database: String,
    connection: Connection,
    /// When it was given back.
    since: Instant,
}

impl Pool {
    /// An empty pool for a cluster that takes `slots` queries at once.
    pub fn new(
        cluster: ClusterId,
        generation: Generation,
        name: String,
        endpoint: Endpoint,
        (door, slots): (Door, u32),
    ) -> Pool {
        let endpoint = Arc::new(endpoint);
        let (idle, visitors, facts, slots) = (Vec::new(), Vec::new(), HashMap::new(), slots as usize);
        let shelf = Mutex::new(Shelf { endpoint, door, slots, closed: false, idle, visitors, facts });
        Pool {
            cluster,
            generation,
            name,
            first_facts: OnceLock::new(),
            in_use: AtomicUsize::new(0),
            only_reads: AtomicBool::new(false),
            shelf,
        }
    }

    /// Says whether what writes goes elsewhere.
    pub fn set_only_reads(&self, only_reads: bool) {
        self.only_reads.store(only_reads, Ordering::Relaxed);
    }

    /// True if what writes goes elsewhere.
    pub fn only_reads(&self) -> bool {
        self.only_reads.load(Ordering::Relaxed)
    }

    /// Goes by other bounds from now on, and by other credentials if there are any: those that lie idle stay those of
    /// whom they are.
    pub fn adopt(&self, (door, slots): (Door, u32), login: Option<&Login>) {
        let mut shelf = self.shelf();
        shelf.slots = slots as usize;
        if let Some(login) = login.filter(|login| login.credentials != shelf.endpoint.login.credentials) {
            let Endpoint { address, login: old } = shelf.endpoint.as_ref().clone();
            let login = Login { credentials: login.credentials.clone(), ..old };
            shelf.endpoint = Arc::new(Endpoint { address, login });
        }
        shelf.door = door;
        // Those used longest ago are first.
        let over = shelf.idle.len().saturating_sub(shelf.may_lie_idle(self.in_use()));
        shelf.idle.drain(..over);
    }

    /// Knows who has come to others lately, so that connections for them can be opened before they come here.
    pub fn expect_visitors_of<'a>(&self, others: impl IntoIterator<Item = &'a Arc<Pool>>) {
        let known: Vec<Visitor> = others.into_iter().flat_map(|other| other.shelf().visitors.clone()).collect();
        let mut shelf = self.shelf();
        for Visitor { user, database, last } in known {
            shelf.note_visitor(&user, &database, last);
        }
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

    /// What the cluster said of itself on the last connection of that user to that database; None before the first.
    pub fn facts(&self, user: &str, database: &str) -> Option<Arc<ServerFacts>> {
        let shelf = self.shelf();
        let Identity { user, database, .. } = shelf.endpoint.login.identity(user, database)?;
        shelf.facts.get(&(user.to_owned(), database.to_owned())).cloned()
    }

    /// What it said on its first connection, whoever's that was; None before it.
    pub fn first_facts(&self) -> Option<Arc<ServerFacts>> {
        self.first_facts.get().cloned()
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
        while let Some(loan) = self.take_idle(user, database, variables)? {
            let (trusted, within) = (loan.since.elapsed() < TRUSTED_FOR, self.shelf().door.connect_within);
            let mut lease = self.lend(loan);
            if trusted || lease.is_well(Duration::from(within)).await {
                return Ok(lease);
            }
            // What has lain there as long is no better, and asking each would take as long again.
            self.shelf().idle.retain(|idle| idle.since.elapsed() < TRUSTED_FOR);
        }
        self.lease_new(user, database).await
    }

    /// A new connection for that user and database.
    ///
    /// # Errors
    /// If it cannot be had.
    pub async fn lease_new(self: &Arc<Pool>, user: &str, database: &str) -> Result<Lease, ConnectError> {
        let (endpoint, within) = {
            let mut shelf = self.shelf();
            if shelf.closed {
                return Err(ConnectError::Closed);
            }
            // One that lies there for somebody else makes room.
            if !shelf.idle.is_empty() && shelf.idle.len() + self.in_use() >= shelf.slots {
                shelf.idle.remove(0);
            }
            (Arc::clone(&shelf.endpoint), shelf.door.connect_within)
        };
        let identity = identity(&endpoint, user, database)?;
        let connection = connect((&endpoint.address, &endpoint.login.tls), identity, within).await?;
        let (user, database) = (identity.user.to_owned(), identity.database.to_owned());
        self.remember((user.clone(), database.clone()), &connection.facts);
        Ok(self.lend(Idle { user, database, connection, since: Instant::now() }))
    }

    fn remember(&self, who: (String, String), facts: &Arc<ServerFacts>) {
        self.first_facts.get_or_init(|| Arc::clone(facts));
        let mut shelf = self.shelf();
        // Those who come again are asked about again.
        if shelf.facts.len() >= REMEMBERED && !shelf.facts.contains_key(&who) {
            shelf.facts.clear();
        }
        shelf.facts.insert(who, Arc::clone(facts));
    }

    fn take_idle(&self, user: &str, database: &str, variables: &Arc<Variables>) -> Result<Option<Idle>, ConnectError> {
        let mut shelf = self.shelf();
        if shelf.closed {
            return Err(ConnectError::Closed);
        }
        shelf.note_visitor(user, database, Instant::now());
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
            // One that hung up, or said something unasked, is in a state that nobody knows. One that was in use a moment ago was
            // well then; to ask again would tell as little of the moment after.
            if idle.since.elapsed() < A_MOMENT || idle.connection.socket.is_quiet() {
                return Ok(Some(idle));
            }
        }
    }

    /// Closes what has lain idle or lived for as long as it may.
    pub(super) fn close_old(&self, now: Instant) {
        let mut shelf = self.shelf();
        let Door { connection_idle_timeout, connection_lifetime, .. } = shelf.door;
        let (idle_timeout, lives) = (Duration::from(connection_idle_timeout), Duration::from(connection_lifetime));
        shelf.idle.retain(|idle| {
            let (lay, lived) = (now - idle.since, now - idle.connection.opened);
            lay < idle_timeout && lived < idle.connection.lives_for(lives)
        });
    }

    /// Opens connections for those who came last, until as many lie idle for each as should; false if one could not be had.
    pub(super) async fn open_ahead(self: &Arc<Pool>, now: Instant) -> bool {
        loop {
            let Some(Visitor { user, database, .. }) = self.lacks_idle(now) else { return true };
            match self.lease_new(&user, &database).await {
                Ok(lease) => lease.give_back(),
                Err(error) => {
                    tracing::debug!(cluster = self.name, %error, "no connection could be opened ahead");
                    return false;
                }
            }
        }
    }

    /// Has the cluster's types compared with those of others, as the first who came; false if nobody has.
    pub(super) async fn compare_types(self: &Arc<Pool>, types: &KnownTypes) -> bool {
        let first = self.shelf().visitors.first().cloned();
        let Some(Visitor { user, database, .. }) = first else { return false };
        // One that cannot be had is told of to those whose queries want it.
        if let Ok(mut lease) = self.lease_new(&user, &database).await {
            types.compare(&self.name, &database, &mut lease).await;
        }
        true
    }

    /// Someone for whom fewer connections lie idle than should; None if there is nobody, or there is no room for one more.
    fn lacks_idle(&self, now: Instant) -> Option<Visitor> {
        let shelf = self.shelf();
        let least = shelf.door.min_idle_connections as usize;
        let idle_timeout = Duration::from(shelf.door.connection_idle_timeout);
        if least == 0 || shelf.closed || shelf.idle.len() >= shelf.may_lie_idle(self.in_use()) {
            return None;
        }
        let lacks = |visitor: &&Visitor| {
            let identity = identity(&shelf.endpoint, &visitor.user, &visitor.database).ok();
            let idle = identity.map(|who| shelf.idle.iter().filter(|idle| idle.is_of(&who)).count());
            now - visitor.last < idle_timeout && idle.is_some_and(|idle| idle < least)
        };
        shelf.visitors.iter().find(lacks).cloned()
    }

    /// True once nothing is lent any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.shelf().closed
    }

    fn in_use(&self) -> usize {
        self.in_use.load(Ordering::Relaxed)
    }

    fn lend(self: &Arc<Pool>, loan: Idle) -> Lease {
        self.in_use.fetch_add(1, Ordering::Relaxed);
        Lease { pool: Arc::clone(self), loan: Some(loan) }
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    /// How many may lie idle while so many are in use.
    fn may_lie_idle(&self, in_use: usize) -> usize {
        self.door.max_idle_connections.map_or(self.slots.saturating_sub(in_use), |most| most as usize)
    }

    fn note_visitor(&mut self, user: &str, database: &str, last: Instant) {
        // Nothing is opened ahead: one is enough to know by.
        if self.door.min_idle_connections == 0 && !self.visitors.is_empty() {
            return;
        }
        let is_it = |visitor: &Visitor| visitor.user == user && visitor.database == database;
        match self.visitors.iter_mut().find(|visitor| is_it(visitor)) {
            Some(visitor) => visitor.last = visitor.last.max(last),
            None => {
                if self.visitors.len() >= VISITORS {
                    let longest_ago = self.visitors.iter().enumerate().min_by_key(|(_, visitor)| visitor.last);
                    longest_ago.map(|(at, _)| at).map(|at| self.visitors.swap_remove(at));
                }
                self.visitors.push(Visitor { user: user.to_owned(), database: database.to_owned(), last });
            }
        }
    }
}

impl Idle {
    fn is_of(&self, who: &Identity<'_>) -> bool {
        self.user == who.user && self.database == who.database
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
        loan.since = Instant::now();
        let mut shelf = self.pool.shelf();
        let most = shelf.may_lie_idle(self.pool.in_use() - 1);
        if shelf.closed || most == 0 {
            return;
        }
        if shelf.idle.len() >= most {
            shelf.idle.remove(0);
        }
        shelf.idle.push(loan);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.in_use.fetch_sub(1, Ordering::Relaxed);
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
