//! Where clients knock: connections are accepted, hear what they are welcome to, and become sessions.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use punctual_core::Event;
use punctual_core::class;
use punctual_core::event::Outcome;
use punctual_core::id::{QueryId, SessionId};
use punctual_core::time::Span;
use tokio::net::{TcpListener, TcpStream, UnixStream};

use super::authenticate::{Turned, authenticate};
use super::client::Client;
use super::frames as say;
use super::guard::Login;
use super::knocking::Knocking;
use super::local::Wishes;
use super::plan::Pipeline;
use super::problem::Problem;
use super::reading::{Reading, Readings};
use super::replies::Replies;
use super::session::{Session, Who};
use super::shared::{Place, Shared};
use super::standing::Standing;
use super::startup::{Hello, Opening, open};
use super::statements::Statements;
use crate::link::{Link, Report};
use crate::mailbox::{Mailbox, mailbox};
use crate::record::append::Complaint;
use crate::relay::alive::{CLIENTS, keep_alive};
use crate::relay::carried::Memory;
use crate::relay::{ServerFacts, Socket};
use crate::tls::serving::{DoorTls, Identity};

/// How long the wait is after a connection could not be accepted (too many open files, say).
const BREATHER: Duration = Duration::from_millis(100);

/// How long a client waits at most for what a cluster says of itself.
const FACTS_WITHIN: Duration = Duration::from_secs(1);

/// Accepts connections until it is dropped. Sessions that are there then live on; [`Order::Farewell`] ends them.
///
/// [`Order::Farewell`]: crate::link::Order::Farewell
pub async fn serve(listener: TcpListener, link: Link, shared: Arc<Shared>) {
    let knocking = Knocking::new(shared.files().knocking());
    let (mut complaint, mut failed) = (Complaint::default(), 0);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                if let Some(failed) = complaint.went_well(failed) {
                    tracing::info!(failed, "connections are accepted again");
                }
                keep_alive(&stream, &CLIENTS);
                let Some((turn, told_to_go)) = knocking.enter(peer.ip()).await else { return };
                let (link, shared) = (link.clone(), Arc::clone(&shared));
                tokio::spawn(async move {
                    let opened = tokio::select! {
                        opened = knock(stream, peer, &link, &shared) => opened,
                        _ = told_to_go => None,
                    };
                    drop(turn);
                    if let Some((client, hello)) = opened {
                        let peer = class::Client::at(peer.ip());
                        begin((client, peer), hello, link, shared, Arc::default()).await;
                    }
                });
            }
            Err(error) => {
                failed += 1;
                if complaint.failed(failed - 1) {
                    tracing::warn!(%error, "connections cannot be accepted; trying again and again");
                }
                tokio::time::sleep(BREATHER).await;
            }
        }
    }
}

/// Serves one client that is connected already, from its first byte to its end, as [`serve`] does, but for encryption and
/// the time it has to log in: so that whoever tries what the door makes of anything at all needs no port.
#[doc(hidden)]
pub async fn serve_one(stream: UnixStream, link: Link, shared: Arc<Shared>) {
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut client = Client::new(Socket::Unix(stream));
    let opening = open(&mut client, &DoorTls::Off).await;
    match let_in(client, opening, here, &link, &shared).await {
        Ok(Some((client, hello))) => {
            begin((client, class::Client::at(here.ip())), hello, link, shared, Arc::default()).await;
        }
        Ok(None) => {}
        Err((client, problem)) => turn_away(client, &problem).await,
    }
}

/// Learns what a client wants, and who it is; Some if that is a session.
async fn knock(stream: TcpStream, peer: SocketAddr, link: &Link, shared: &Shared) -> Option<(Client, Hello)> {
    // Without it small messages wait for each other; with it failing they merely do.
    let _ = stream.set_nodelay(true);
    let within = Duration::from(shared.rules().door.startup_within);
    match tokio::time::timeout(within, identify(stream, peer, link, shared)).await {
        Ok(Ok(identified)) => identified,
        Ok(Err((client, problem))) => {
            turn_away(client, &problem).await;
            None
        }
        Err(_) => {
            tracing::debug!(%peer, "a client did not log in in time");
            shared.guard().count(Login::Late);
            None
        }
    }
}

/// A client that is let in with what it said; None if it wants no session, or has hung up.
async fn identify(
    stream: TcpStream,
    peer: SocketAddr,
    link: &Link,
    shared: &Shared,
) -> Result<Option<(Client, Hello)>, (Client, Problem)> {
    let access = shared.guard().access();
    let opened = match &access.tls {
        tls @ (DoorTls::Allowed(identity) | DoorTls::Required(identity)) => open_secure(stream, tls, identity).await,
        DoorTls::Off => {
            let mut client = Client::new(Socket::Tcp(stream));
            let opening = open(&mut client, &DoorTls::Off).await;
            Ok((client, opening))
        }
    };
    match opened {
        Ok((client, opening)) => let_in(client, opening, peer, link, shared).await,
        Err(error) => {
            tracing::debug!(%peer, %error, "a client could not be encrypted");
            Ok(None)
        }
    }
}

/// A client that has proved who it is, if it wants a session; None if what it wants has been done.
async fn let_in(
    mut client: Client,
    opening: Result<Opening, Problem>,
    peer: SocketAddr,
    link: &Link,
    shared: &Shared,
) -> Result<Option<(Client, Hello)>, (Client, Problem)> {
    let mut hello = match opening {
        Ok(Opening::Session(hello)) => hello,
        Ok(Opening::Cancel { process, secret }) => {
            if let Some(query) = shared.running(process, secret) {
                // If the driver is gone, nothing runs.
                let _ = link.happened(Event::Cancel { query }).await;
            }
            // Who asks encrypted takes an end without a goodbye for a failure.
            client.socket.close().await;
            return Ok(None);
        }
        Ok(Opening::Nothing | Opening::Encryption) => return Ok(None),
        Err(problem) => return Err((client, problem)),
    };
    let rules = shared.rules();
    hello.negotiate(&mut client.out);
    match authenticate(&mut client, &hello.user, peer, shared.guard(), rules.door.failed_logins).await {
        Ok(()) => {}
        Err(Turned::Gone) => return Ok(None),
        Err(Turned::Away(problem)) => return Err((client, problem)),
    }
    match hello.heed(&rules.classes) {
        Ok(()) => Ok(Some((client, hello))),
        Err(problem) => Err((client, problem)),
    }
}

/// The first byte of a TLS handshake, which no other packet can begin with: its length would be out of bounds.
const HANDSHAKE: u8 = 0x16;

/// Opens a connection that may be encrypted: at once, or when the client has asked for it.
async fn open_secure(
    stream: TcpStream,
    tls: &DoorTls,
    identity: &Identity,
) -> io::Result<(Client, Result<Opening, Problem>)> {
    let mut first = [0];
    let is_direct = stream.peek(&mut first).await? > 0 && first == [HANDSHAKE];
    let mut client = Client::new(Socket::Tcp(stream));
    if is_direct {
        client = client.encrypted(identity, true).await?;
    }
    let mut opening = open(&mut client, tls).await;
    if matches!(opening, Ok(Opening::Encryption)) {
        client = client.encrypted(identity, false).await?;
        opening = open(&mut client, tls).await;
    }
    Ok((client, opening))
}

async fn turn_away(mut client: Client, problem: &Problem) {
    say::problem(&mut client.out, say::Severity::Fatal, problem);
    let last_words = async {
        let _ = client.flush().await;
        client.socket.close().await;
    };
    let _ = tokio::time::timeout(FACTS_WITHIN, last_words).await;
}

/// A session that the driver knows of. When it is dropped, however that comes about, the driver hears of the end.
struct Presence {
    link: Link,
    session: SessionId,
    told: bool,
    place: Place,
}

impl Drop for Presence {
    fn drop(&mut self) {
        if self.told {
            return;
        }
        let (link, session) = (self.link.clone(), self.session);
        // Only if the session panicked: its connection went with it.
        let query = QueryId(self.place.running.load(Ordering::Relaxed));
        // Outside of a runtime the driver is gone as well.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = link.happened(Event::SessionEnded { session }).await;
                if query.0 != 0 {
                    let _ = link
                        .happened(Event::Finished { query, outcome: Outcome::Lost, blocked: Span::ZERO, pinned: false })
                        .await;
                }
            });
        }
    }
}

/// A session of someone who does not speak the protocol, in this process.
pub(crate) struct Visit {
    /// The client's end.
    pub(crate) stream: UnixStream,
    /// When a query that was refused may be sent again.
    pub(crate) retry_after: Arc<OnceLock<Span>>,
}

impl Visit {
    /// Begins one, as if its client had said hello from there.
    ///
    /// # Errors
    /// If there are no sockets left.
    pub(crate) fn begin(hello: Hello, peer: class::Client, link: Link, shared: Arc<Shared>) -> io::Result<Visit> {
        let (stream, theirs) = UnixStream::pair()?;
        let retry_after: Arc<OnceLock<Span>> = Arc::default();
        let client = Client::new(Socket::Unix(theirs));
        tokio::spawn(begin((client, peer), hello, link, shared, Arc::clone(&retry_after)));
        Ok(Visit { stream, retry_after })
    }
}

/// Makes a session of a client that said hello, and serves it.
async fn begin(
    (client, peer): (Client, class::Client),
    hello: Hello,
    link: Link,
    shared: Arc<Shared>,
    retry_after: Arc<OnceLock<Span>>,
) {
    let place = match shared.admit() {
        Ok(Some(place)) => place,
        Ok(None) => {
            return turn_away(client, &too_many(&shared)).await;
        }
        Err(error) => {
            tracing::error!(%error, "no random numbers for a cancel key");
            return turn_away(client, &Problem::new(b"58030", "the gateway has no random numbers")).await;
        }
    };
    let id = shared.next_session();
    let (slot, mailbox) = mailbox();
    if link.report(Report::Joined { session: id, mailbox: slot }).await.is_err() {
        return turn_away(client, &Problem::farewell()).await;
    }
    let running = Arc::clone(&place.running);
    let (process, secret) = (place.process, place.secret);
    let mut presence = Presence { link: link.clone(), session: id, told: false, place };
    let facts = facts(&link, &hello).await;
    let mut session = session(id, (client, peer), hello, (link, shared), mailbox);
    (session.running, session.retry_after) = (running, retry_after);
    welcome(&mut session, &facts, process, secret);
    presence.told = session.live().await;
}

/// What one client too many is told.
fn too_many(shared: &Shared) -> Problem {
    let (most, files) = (shared.rules().door.max_sessions, shared.files().sessions());
    let hint = match files < most {
        true => "More open files would allow for more (ulimit -n, LimitNOFILE).",
        false => "Close some, or raise max_sessions.",
    };
    Problem::new(b"53300", format!("too many clients: {} sessions are connected already", most.min(files))).hint(hint)
}

fn session(
    id: SessionId,
    (client, peer): (Client, class::Client),
    hello: Hello,
    (link, shared): (Link, Arc<Shared>),
    mailbox: Mailbox,
) -> Session {
    let rules = shared.rules();
    let limit = rules.door.max_statements as usize;
    let (begun, wished) = (hello.wished.clone(), hello.wished);
    Session {
        id,
        who: Who {
            user: hello.user.into(),
            database: hello.database.into(),
            application: hello.application.into(),
            client: peer,
        },
        link,
        shared,
        rules,
        client,
        mailbox,
        running: Arc::default(),
        retry_after: Arc::default(),
        statements: Statements::new(limit),
        readings: Readings::default(),
        wishes: Wishes { wished, begun, ..Wishes::default() },
        standing: Standing::new(hello.variables),
        memory: Memory::Own,
        held: None,
        slot: None,
        unasked: Replies::default(),
        pipeline: Pipeline::default(),
        last: Arc::new(Reading::of("")),
        seen: 0,
        skipping: false,
        farewell: false,
        pin_ended: None,
        lost: None,
        cancelling: None,
        ended: false,
    }
}

/// What a ready cluster says of itself to that user; what Postgres says, if there is none.
async fn facts(link: &Link, hello: &Hello) -> Arc<ServerFacts> {
    let asked = async {
        let pool = link.any_cluster(false).await.ok()?.ok()?;
        if let Some(facts) = pool.facts(&hello.user, &hello.database) {
            return Some(facts);
        }
        // Who cannot come there hears why with the first query: the gateway itself may be all that they ask.
        let Ok(lease) = pool.lease(&hello.user, &hello.database).await else { return pool.first_facts() };
        let facts = Arc::clone(&lease.facts);
        lease.give_back();
        Some(facts)
    };
    match tokio::time::timeout(FACTS_WITHIN, asked).await {
        Ok(Some(facts)) => facts,
        _ => Arc::new(ServerFacts::default()),
    }
}

/// What drivers count on to be told, as Postgres has it by default.
const USUAL: [(&str, &str); 11] = [
    ("server_version", "15.0"),
    ("server_encoding", "UTF8"),
    ("client_encoding", "UTF8"),
    ("application_name", ""),
    ("is_superuser", "off"),
    ("session_authorization", ""),
    ("DateStyle", "ISO, MDY"),
    ("IntervalStyle", "postgres"),
    ("TimeZone", "UTC"),
    ("integer_datetimes", "on"),
    ("standard_conforming_strings", "on"),
];

/// Tells a client that it is in.
fn welcome(session: &mut Session, facts: &ServerFacts, process: u32, secret: u32) {
    let mut parameters: Vec<(String, String)> = facts.parameters.clone();
    for (name, value) in USUAL {
        if facts.get(name).is_none() {
            parameters.push((name.to_owned(), value.to_owned()));
        }
    }
    for (name, value) in &mut parameters {
        let lower = name.to_ascii_lowercase();
        if lower == "session_authorization" {
            *value = session.who.user.to_string();
        } else if lower == "application_name" {
            *value = session.who.application.to_string();
        }
        let wanted = session.standing.variables.start_up.iter().find(|(known, _)| *known == lower);
        match wanted {
            // `ISO` is reported as `ISO, MDY`: the order of day and month stays.
            Some((_, style)) if lower == "datestyle" && !style.contains(',') => {
                let order = value.split_once(',').map_or("MDY", |(_, order)| order.trim()).to_owned();
                *value = format!("{style}, {order}");
            }
            Some((_, wanted)) => value.clone_from(wanted),
            None => {}
        }
    }
    let out = &mut session.client.out;
    say::welcome(out);
    parameters.iter().for_each(|(name, value)| say::parameter(out, name, value));
    say::key(out, process, secret);
    say::ready(out, b'I');
}
