//! What a gateway runs with: complete and validated.
//!
//! The configuration file says what was written ([`crate::config`]); this says what it means. Nothing here is
//! optional in the sense of "take the default": every default has been filled in, every path is absolute or relative to
//! the working directory, and what could not work has been refused with the key that is to blame.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use punctual_core::Policy;
use punctual_core::cluster::Spec;
use punctual_core::scan::TimeTable;
use punctual_core::time::Span;
use punctual_tuner::Zone;

use crate::auth::credentials::{Credential, Credentials};
use crate::auth::tokens::Tokens;
use crate::auth::users::Users;
use crate::tls::serving::DoorTls;
use crate::tls::trust::ClusterTls;

/// Everything that a gateway needs to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This gateway's number, in the upper bits of query ids and cancel keys.
    pub gateway: u16,
    /// The seed of every random choice.
    pub seed: u64,
    /// Where clients connect with the Postgres wire. Loopback, where all are trusted.
    pub listen: SocketAddr,
    /// Where HTTP is served; None: nowhere.
    pub http: Option<SocketAddr>,
    /// Bounds of the front door.
    pub door: Door,
    /// Who may come in there.
    pub access: Access,
    /// Where ended queries are recorded.
    pub history: History,
    /// Where events and commands are recorded.
    pub journal: Journal,
    /// Where predictions come from.
    pub prediction: Prediction,
    /// When plans are made, and where they are kept.
    pub planning: Planning,
    /// The rules of every decision.
    pub policy: Policy,
    /// The clusters to have, from the start or as they are needed.
    pub clusters: Vec<Cluster>,
    /// The tables with a column of time.
    pub time_tables: Vec<TimeTable>,
    /// How long a shutdown may take to finish what is here.
    pub shutdown_within: Span,
}

impl Settings {
    /// How many queries a cluster of that name takes at once; 1 if none is made from what is configured any more.
    pub fn slots_of(&self, name: &str) -> u32 {
        self.clusters.iter().find(|cluster| cluster.is_called(name)).map_or(1, |cluster| cluster.spec.slots)
    }

    /// True if others are for what writes, and not a cluster of that name.
    pub fn only_reads(&self, name: &str) -> bool {
        let mut writers = self.clusters.iter().filter(|cluster| cluster.spec.writer).peekable();
        writers.peek().is_some() && !writers.any(|cluster| cluster.is_called(name))
    }
}

/// Bounds of the front door.
#[derive(Clone, Debug, PartialEq)]
pub struct Door {
    /// Sessions at once; one more is refused with 53300.
    pub max_sessions: u32,
    /// The largest protocol message, and the most that is buffered of a pipeline before its Sync.
    pub max_message: usize,
    /// How long a client may take from connecting until it is let in.
    pub startup_within: Span,
    /// How long a client may take nothing of a result before its session ends.
    pub client_stall_timeout: Span,
    /// Log-ins that may fail in a minute from one address; 0: any number.
    pub failed_logins: u32,
    /// Prepared statements that a session may have.
    pub max_statements: u32,
    /// Connections to one cluster that may lie idle; None: as many as make up its slots with those in use.
    pub max_idle_connections: Option<u32>,
    /// Connections to one cluster that should lie idle for each user and database that came lately.
    pub min_idle_connections: u32,
    /// How long a connection to a cluster may lie idle.
    pub connection_idle_timeout: Span,
    /// How long a connection to a cluster is used.
    pub connection_lifetime: Span,
    /// How long connecting to a cluster may take.
    pub connect_within: Span,
    /// How often a cluster that something runs on is asked whether it is still there.
    pub check_every: Span,
}

/// Who may come in, and what of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Access {
    /// How clients prove who they are.
    pub auth: Auth,
    /// Those who may see what others run.
    pub admins: Vec<String>,
    /// Whether their connections are encrypted.
    pub tls: DoorTls,
    /// What programs have to show over HTTP; None: nothing, if they are on this machine.
    pub tokens: Option<Arc<Tokens>>,
}

/// How clients prove who they are.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Auth {
    /// Not at all: whoever is on this machine is who they say they are, and may see everything.
    #[default]
    Trust,
    /// By SCRAM-SHA-256, against the verifiers of these users.
    Scram(Arc<Users>),
}

impl Auth {
    /// As it is called in the configuration.
    pub fn name(&self) -> &'static str {
        match self {
            Auth::Trust => "trust",
            Auth::Scram(_) => "scram",
        }
    }
}

impl Access {
    /// What others on this machine can read and had better not, in a sentence.
    pub fn exposed(&self) -> Option<&'static str> {
        match &self.auth {
            Auth::Scram(users) if users.is_readable() => Some(
                "others on this machine can read `gateway.users_file` and try guesses at passwords: `chmod 600` it",
            ),
            Auth::Scram(_) | Auth::Trust => None,
        }
    }

    /// True if that user may see what others run. Where nobody proves who they are, all may.
    pub fn is_admin(&self, user: &str) -> bool {
        match self.auth {
            Auth::Trust => true,
            Auth::Scram(_) => self.admins.iter().any(|admin| admin == user),
        }
    }
}

/// Where ended queries are recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// The directory.
    pub dir: PathBuf,
    /// The most that it may hold, in bytes; the oldest hours go first.
    pub max_bytes: u64,
    /// What of a query's text is written down.
    pub sql: RecordSql,
}

/// What history keeps of a query's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordSql {
    /// The shape, without literals.
    Shape,
    /// The text as it came.
    Text,
    /// Nothing but the fingerprint.
    Nothing,
}

/// Where events and commands are recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Journal {
    /// The directory.
    pub dir: PathBuf,
    /// The most that it may hold, in bytes; the oldest segments go first.
    pub max_bytes: u64,
    /// How large a segment grows before the next begins, with a checkpoint.
    pub segment_bytes: u64,
}

/// Where predictions come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The model's file: read at the start if it is there, and replaced by a better one.
    pub model: PathBuf,
    /// How often a new model is learnt from history; None: never.
    pub retrain: Option<Span>,
    /// At most one EXPLAIN is asked for in so long; None: none at all.
    pub explain_every: Option<Span>,
}

/// When plans of days are made, and where they are kept. Whether they are followed is
/// [`Policy::planning`](punctual_core::Policy::planning).
#[derive(Clone, Debug, PartialEq)]
pub struct Planning {
    /// At which hour and minute of the day one is made.
    pub at: (u8, u8),
    /// By whose clocks, and whose days they are.
    pub zone: Zone,
    /// The name of that zone, as it was written.
    pub zone_name: String,
    /// Who forecasts.
    pub forecaster: &'static str,
    /// Where they are kept.
    pub dir: PathBuf,
    /// Where what is gathered from history is kept from one to the next.
    pub reservoir: PathBuf,
}

/// A cluster of the configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// What decisions need to know of it.
    pub spec: Spec,
    /// How many of it there are at the start.
    pub initial: u32,
    /// How it is had.
    pub kind: ClusterKind,
}

impl Cluster {
    /// True if a cluster of that name is made from it.
    pub fn is_called(&self, name: &str) -> bool {
        let numbered = || name.strip_prefix(&self.spec.name).is_some_and(|rest| rest.starts_with('-'));
        name == self.spec.name || (self.spec.offer.is_some() && numbered())
    }
}

impl Cluster {
    /// As whom to connect to it; None if the gateway is all that does.
    pub fn login(&self) -> Option<&Login> {
        match &self.kind {
            ClusterKind::Exec(exec) => Some(&exec.login),
            ClusterKind::Address(endpoint) => Some(&endpoint.login),
            ClusterKind::Embedded(_) | ClusterKind::Simulated(_) => None,
        }
    }

    /// The same cluster, with the credentials of another.
    #[must_use]
    pub fn with_credentials_of(mut self, other: &Cluster) -> Cluster {
        let credentials = other.login().and_then(|login| login.credentials.clone());
        match &mut self.kind {
            ClusterKind::Exec(exec) => Arc::make_mut(exec).login.credentials = credentials,
            ClusterKind::Address(endpoint) => endpoint.login.credentials = credentials,
            ClusterKind::Embedded(_) | ClusterKind::Simulated(_) => {}
        }
        self
    }
}

/// How a cluster is had.
#[derive(Clone, Debug, PartialEq)]
pub enum ClusterKind {
    /// A child process with DataFusion.
    Embedded(Embedded),
    /// A child process that answers when a simulated cluster would.
    Simulated(Simulated),
    /// Something that speaks the Postgres wire, which commands start and stop.
    Exec(Arc<Exec>),
    /// Something that speaks the Postgres wire and is there already.
    Address(Endpoint),
}

/// A simulated cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Simulated {
    /// How many simulated seconds pass in a real one.
    pub time_scale: f64,
    /// It works as the calibrated warehouse does; otherwise its queries share it evenly.
    pub warehouse: bool,
    /// How long its start takes at least, in simulated time.
    pub start_takes: Span,
}

impl Default for Simulated {
    fn default() -> Simulated {
        Simulated { time_scale: 1.0, warehouse: false, start_takes: Span::ZERO }
    }
}

/// A cluster that commands start, stop and list. A command is a program and its arguments; no shell reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct Exec {
    /// Starts one and says where it listens.
    pub start: Vec<String>,
    /// Stops one, or finds that it is not there.
    pub stop: Vec<String>,
    /// Says which there are.
    pub list: Vec<String>,
    /// How long it may take from the start to the first answer.
    pub start_within: Span,
    /// As whom to connect to it.
    pub login: Login,
}

/// An embedded cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedded {
    /// Where its tables come from.
    pub tables: Tables,
    /// Worker threads for each unit of its size.
    pub threads_per_unit: u32,
    /// Bytes of memory for each unit of its size.
    pub memory_per_unit: u64,
}

/// Where the tables of an embedded cluster come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Tables {
    /// Directories of Parquet files.
    Dirs(Vec<PathBuf>),
    /// TPC-H, generated once into the cache.
    Tpch {
        /// 1 is about a gigabyte of text.
        scale_factor: f64,
    },
    /// TPC-DS, generated once into the cache.
    Tpcds {
        /// 1 is about a gigabyte of text. One of those that [there are](punctual_engine::scale::is_tpcds).
        scale_factor: f64,
    },
}

/// Where to connect, and as whom.
#[derive(Clone, Debug, PartialEq)]
pub struct Endpoint {
    /// Where it listens.
    pub address: Address,
    /// As whom.
    pub login: Login,
}

/// As whom to connect to a cluster, and how.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Login {
    /// As whom users of the gateway come that are named here; None: nobody is.
    pub credentials: Option<Arc<Credentials>>,
    /// The user that everyone else comes as; None: as they are called, or not at all where some are named.
    pub user: Option<String>,
    /// The password for that user.
    pub password: Option<Secret>,
    /// The database to connect to; None: the client's.
    pub database: Option<String>,
    /// Whether the connection is encrypted.
    pub tls: ClusterTls,
}

/// Someone on a cluster. The secret is not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity<'a> {
    /// The user: what `current_user` is there.
    pub user: &'a str,
    /// The database.
    pub database: &'a str,
    /// The password, if there is one.
    pub password: Option<&'a Secret>,
}

impl Login {
    /// Who a user of the gateway is on the cluster; None if they may not come.
    pub fn identity<'a>(&'a self, user: &'a str, database: &'a str) -> Option<Identity<'a>> {
        let database = self.database.as_deref().unwrap_or(database);
        let named = self.credentials.as_ref().and_then(|credentials| credentials.of(user));
        if let Some(Credential { user, password }) = named {
            return Some(Identity { user, database, password: password.as_ref() });
        }
        let user = match &self.user {
            Some(user) => user,
            None if self.credentials.is_some() => return None,
            None => user,
        };
        Some(Identity { user, database, password: self.password.as_ref() })
    }

    /// Who the gateway itself is there, when it looks whether the cluster is.
    pub fn own(&self) -> Identity<'_> {
        let any = self.credentials.as_ref().and_then(|credentials| credentials.any());
        let (user, password) = match (&self.user, any) {
            (Some(user), _) => (user.as_str(), self.password.as_ref()),
            (None, Some(any)) => (any.user.as_str(), any.password.as_ref()),
            (None, None) => ("punctual", self.password.as_ref()),
        };
        Identity { user, database: self.database.as_deref().unwrap_or(user), password }
    }

    /// True if it is not known beforehand who comes: clients use their own names.
    pub fn is_theirs(&self) -> bool {
        self.user.is_none() && self.credentials.is_none()
    }
}

/// Where a cluster listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A host name or address, and a port.
    Tcp {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } => write!(f, "{host}:{port}"),
            Address::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A secret that no log, error or snapshot shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(secret: String) -> Secret {
        Secret(secret)
    }

    /// The secret itself, for the one who has to present it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl Default for Door {
    fn default() -> Door {
        Door {
            max_sessions: 1_000,
            max_message: 64 << 20,
            startup_within: Span::from_secs(60),
            client_stall_timeout: Span::from_secs(3_600),
            failed_logins: 20,
            max_statements: 1_000,
            max_idle_connections: None,
            min_idle_connections: 0,
            connection_idle_timeout: Span::from_secs(600),
            connection_lifetime: Span::from_secs(3_600),
            connect_within: Span::from_secs(10),
            check_every: Span::from_secs(5),
        }
    }
}
