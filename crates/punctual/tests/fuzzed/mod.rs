//! The door, tried with anything that a client may send: through its own code, from the first byte to the last.
//!
//! ```text
//!   bytes ──▶ in chunks ──▶ a session of the door ──▶ a cluster that answers at once
//!                                     │ what it says is held to the protocol     │ so is what it is sent
//! ```
//!
//! A test walks through it with a seed, and a fuzzer (`fuzz/`) with what it finds. Both ask the same: no panic, no loop, no
//! broken invariant of the dispatcher, nothing malformed to the cluster, nothing but whole messages to the client.

#![allow(dead_code, unreachable_pub, reason = "the test and the fuzzer each use their own part of this")]

pub mod cluster;
#[path = "../common/driver.rs"]
pub mod driver;
pub mod walk;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use punctual::auth::users::{Users, line};
use punctual::catalog::{Answer, Column, ColumnKind, Question};
use punctual::clock::Clock;
use punctual::door::{AnswerError, Answers, Guard, InForce, Rules, Shared, serve_one};
use punctual::driver::fallback::Fallback;
use punctual::link::Link;
use punctual::metrics::Metrics;
use punctual::relay::frames::{self, Header};
use punctual::settings::{Access, Address, Auth, Door, Endpoint, Login};
use punctual_core::Policy;
use punctual_core::class::Class;
use punctual_core::time::Span;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::yield_now;

use self::cluster::Seen;
use self::driver::{Driver, Knob};

/// The largest message that the door takes here.
pub const MAX_MESSAGE: usize = 64 << 10;

/// Turns without anything happening after which nothing more will.
const STILL: u32 = 24;

/// How bytes are brought to the door.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// It asks for a password.
    pub asks: bool,
    /// A start-up message goes before them.
    pub greeted: bool,
    /// They come in chunks of chance; 0: at once.
    pub chunks: u64,
}

/// A door with a cluster behind it.
pub struct Doorway {
    runtime: Runtime,
    link: Link,
    trusting: Arc<Shared>,
    asking: Arc<Shared>,
    seen: Arc<Seen>,
    _dir: TempDir,
    _knobs: mpsc::UnboundedSender<Knob>,
}

impl Default for Doorway {
    fn default() -> Doorway {
        let dir = tempfile::tempdir().expect("a directory");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let entered = runtime.enter();
        let (link, reports) = Link::new();
        let (knobs, turned) = mpsc::unbounded_channel();
        let seen = Arc::<Seen>::default();
        let socket = dir.path().join("cluster");
        cluster::listen(&socket, Arc::clone(&seen));
        let mut policy = Policy::default();
        policy.classes.push(Class { name: "etl".into(), slo: Some(Span::from_secs(600)), ..Class::default() });
        let shared = |access: Access| {
            let in_force = InForce::new(Rules::new(door(), policy.classes.clone()));
            let guard = Guard::new(access, Clock::start(), Arc::new(Metrics::new())).expect("random numbers");
            Arc::new(Shared::new(1, in_force, 1, Arc::new(OneRow), Fallback::new(policy.wait_limit), Arc::new(guard)))
        };
        let users = dir.path().join("users");
        std::fs::write(&users, line("ann", "opensesame")).expect("a file");
        let auth = Auth::Scram(Arc::new(Users::read(&users).expect("a verifier")));
        let trusting = shared(Access::default());
        let asking = shared(Access { auth, ..Access::default() });
        let endpoint = Endpoint { address: Address::Unix(socket), login: Login::default() };
        let (records, _) = mpsc::unbounded_channel();
        tokio::spawn(Driver::new(policy.clone(), door(), endpoint, records).run(reports, turned));
        knobs.send(Knob::Add { name: "only".into(), slots: 4, endpoint: None }).expect("the driver is there");
        drop(entered);
        Doorway { runtime, link, trusting, asking, seen, _dir: dir, _knobs: knobs }
    }
}

fn door() -> Door {
    Door {
        max_message: MAX_MESSAGE,
        max_statements: 8,
        max_idle_connections: Some(1),
        failed_logins: 0,
        ..Door::default()
    }
}

impl Doorway {
    /// Has a client send these bytes and hang up once they have been dealt with. Gives what it heard.
    ///
    /// # Panics
    /// If the door panics, breaks off in the middle of a message, sends the cluster what no client may, or has the
    /// dispatcher break an invariant.
    pub fn send(&self, how: How, bytes: &[u8]) -> Vec<u8> {
        let heard = self.runtime.block_on(self.sent(how, bytes));
        if let Some(wrong) = self.seen.wrong.lock().unwrap_or_else(PoisonError::into_inner).take() {
            panic!("{wrong}");
        }
        check(&heard);
        heard
    }

    async fn sent(&self, how: How, bytes: &[u8]) -> Vec<u8> {
        let shared = if how.asks { &self.asking } else { &self.trusting };
        let (client, gateway) = UnixStream::pair().expect("sockets");
        let serving = tokio::spawn(serve_one(gateway, self.link.clone(), Arc::clone(shared)));
        let (mut from, mut to) = client.into_split();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hearing = tokio::spawn({
            let heard = Arc::clone(&heard);
            async move {
                let mut part = vec![0; 16 << 10];
                while let Ok(1..) = from.read(&mut part).await.inspect(|n| lock(&heard).extend_from_slice(&part[..*n]))
                {
                }
            }
        });
        if how.greeted {
            let _ = to.write_all(&walk::hello()).await;
            self.settle(&heard).await;
        }
        for chunk in walk::chunks(how.chunks, bytes) {
            // The gateway may have hung up.
            if to.write_all(chunk).await.is_err() {
                break;
            }
            if how.chunks > 0 {
                yield_now().await;
                yield_now().await;
            }
        }
        self.settle(&heard).await;
        drop(to);
        hearing.await.expect("it only reads");
        serving.await.expect("the door does not panic");
        let snapshot = self.link.look().await.expect("the driver is there");
        assert_eq!(snapshot.broken, 0, "an invariant of the dispatcher is broken");
        lock(&heard).clone()
    }

    /// Waits until nothing happens any more.
    async fn settle(&self, heard: &Mutex<Vec<u8>>) {
        let (mut last, mut still) = ((0, 0), 0);
        while still < STILL {
            yield_now().await;
            let now = (lock(heard).len(), self.seen.messages.load(Ordering::Relaxed));
            still = if now == last { still + 1 } else { 0 };
            last = now;
        }
    }
}

fn lock(heard: &Mutex<Vec<u8>>) -> std::sync::MutexGuard<'_, Vec<u8>> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds what a client heard to the protocol: refusals to encrypt, then messages that a server may send, each whole but for the
/// last, since the client has hung up.
fn check(heard: &[u8]) {
    const SERVER: &[u8] = b"RSKZETDCINn123stvGHdcA";
    let refusals = heard.iter().take_while(|byte| **byte == b'N').count();
    let mut rest = &heard[refusals..];
    while let Some(Header { tag, len }) = frames::header(rest).expect("a length that can be") {
        assert!(SERVER.contains(&tag), "a server says no {:?}: {}", tag as char, rest.escape_ascii());
        rest = rest.get(len..).unwrap_or_default();
    }
}

/// Answers every question about the gateway with one row.
struct OneRow;

impl Answers for OneRow {
    fn answer<'a>(
        &'a self,
        question: Question<'a>,
    ) -> Pin<Box<dyn Future<Output = Result<Answer, AnswerError>> + Send + 'a>> {
        let columns = vec![Column { name: "user".to_owned(), kind: ColumnKind::Text }];
        let answer = Answer { columns, rows: vec![vec![Some(question.user.to_owned())]] };
        Box::pin(std::future::ready(Ok(answer)))
    }
}
