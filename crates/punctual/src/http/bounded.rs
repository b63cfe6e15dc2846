//! A listener whose connections are few, and of which none keeps another out.
//!
//! Everyone on this machine can connect. So there is a number of connections at once, and a time in which each has to
//! send its request and to take its answer. When there are as many as may be and one more comes, the one that has sent
//! no whole request for longest is closed: hundreds of half-sent requests do not keep a health check waiting. Only
//! connections whose requests are being answered are left alone, which takes a bounded time.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use punctual_core::class::Client;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep};

/// What bounds the connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Connections at once.
    pub(super) connections: usize,
    /// How long a connection has for its first request. It is sent by programs, in one go.
    pub(super) request_within: Duration,
    /// How long it has to take an answer and to send the next request. Scrapers simply connect again.
    pub(super) next_within: Duration,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { connections: 64, request_within: Duration::from_secs(5), next_within: Duration::from_secs(30) }
    }
}

/// The listener.
pub(super) struct Bounded {
    listener: TcpListener,
    bounds: Bounds,
    places: Arc<Places>,
    next: u64,
}

impl Bounded {
    pub(super) fn new(listener: TcpListener, bounds: Bounds) -> Bounded {
        Bounded { listener, bounds, places: Arc::default(), next: 0 }
    }

    /// A place for one more connection, at the cost of another if need be.
    async fn place(&mut self, peer: IpAddr) -> Place {
        loop {
            if let Some(place) = self.places.take((self.next, peer), self.bounds) {
                self.next += 1;
                return place;
            }
            // What is freed before it is awaited is kept.
            self.places.freed.notified().await;
        }
    }
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = Place;

    async fn accept(&mut self) -> (Connection, Place) {
        let (stream, peer) = Listener::accept(&mut self.listener).await;
        let place = self.place(peer.ip()).await;
        let ends = Box::pin(tokio::time::sleep(self.bounds.request_within));
        (Connection { stream, ends, place: place.clone() }, place)
    }

    fn local_addr(&self) -> io::Result<Place> {
        // Nobody asks: whoever bound it knows where it listens.
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The places that are taken, oldest first.
#[derive(Default)]
struct Places {
    taken: Mutex<BTreeMap<u64, Arc<Mutex<State>>>>,
    /// A connection ended or became idle.
    freed: Notify,
}

impl Places {
    fn take(self: &Arc<Places>, (number, peer): (u64, IpAddr), bounds: Bounds) -> Option<Place> {
        let mut taken = locked(&self.taken);
        if taken.len() >= bounds.connections {
            let closing = taken.values().any(|state| locked(state).closed);
            let idle = taken.values().find(|state| locked(state).answering == 0);
            if let (false, Some(idle)) = (closing, idle) {
                locked(idle).close();
            }
            return None;
        }
        let until = Instant::now() + bounds.request_within;
        let state = Arc::new(Mutex::new(State { answering: 0, until, closed: false, waker: None }));
        taken.insert(number, state.clone());
        Some(Place { number, peer, state, places: self.clone(), next_within: bounds.next_within })
    }
}

struct State {
    /// Who answers a request; nobody: it waits for one, or for its answer to be taken.
    answering: u32,
    /// When a wait ends the connection.
    until: Instant,
    /// True once it has to go.
    closed: bool,
    waker: Option<Waker>,
}

impl State {
    fn close(&mut self) {
        self.closed = true;
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// A connection's place, as its requests see it.
#[derive(Clone)]
pub(super) struct Place {
    number: u64,
    peer: IpAddr,
    state: Arc<Mutex<State>>,
    places: Arc<Places>,
    next_within: Duration,
}

impl Place {
    /// Where its client is.
    pub(super) fn client(&self) -> Client {
        Client::at(self.peer)
    }

    /// A request has come; until what is returned is dropped, its answer is being made.
    pub(super) fn answers(&self) -> Answering {
        locked(&self.state).answering += 1;
        Answering(self.clone())
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "connection {}", self.number)
    }
}

impl Connected<IncomingStream<'_, Bounded>> for Place {
    fn connect_info(stream: IncomingStream<'_, Bounded>) -> Place {
        stream.remote_addr().clone()
    }
}

/// As long as this lives, a connection is not closed for another.
pub(super) struct Answering(Place);

impl Drop for Answering {
    fn drop(&mut self) {
        let mut state = locked(&self.0.state);
        state.answering -= 1;
        if state.answering > 0 {
            return;
        }
        state.until = Instant::now() + self.0.next_within;
        // Its wait begins anew.
        state.wake();
        drop(state);
        self.0.places.freed.notify_one();
    }
}

/// A connection that ends by itself.
pub(super) struct Connection {
    stream: TcpStream,
    ends: Pin<Box<Sleep>>,
    place: Place,
}

impl Connection {
    /// An error if it has to go.
    fn check(&self) -> io::Result<()> {
        if locked(&self.place.state).closed { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }

    /// What to do instead of waiting: an error once the time is over.
    fn wait<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        let mut state = locked(&self.place.state);
        state.waker = Some(cx.waker().clone());
        if state.closed {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        if state.answering > 0 {
            return Poll::Pending;
        }
        if self.ends.deadline() != state.until {
            self.ends.as_mut().reset(state.until);
        }
        self.ends.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        locked(&self.place.places.taken).remove(&self.place.number);
        self.place.places.freed.notify_one();
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        match Pin::new(&mut self.stream).poll_read(cx, into) {
            Poll::Pending => self.wait(cx),
            ready => ready,
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        match Pin::new(&mut self.stream).poll_write(cx, bytes) {
            Poll::Pending => self.wait(cx),
            ready => ready,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
