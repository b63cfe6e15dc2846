//! Everything that one session waits for, polled together by its one task.
//!
//! ```text
//!   client ◀── out ◀── approved ◀── cluster        at most one buffer on the way: a client that
//!   client ──▶ input       outgoing ──▶ cluster    stops reading stops the reading from the cluster
//!   driver ──▶ mailbox
//! ```

use std::task::{Context, Poll};

use tokio::sync::mpsc;

use super::client::Client;
use super::problem::Loss;
use crate::link::Order;
use crate::relay::Connection;

/// The most that waits to be written to a cluster before the client is not read any further.
pub(super) const OUTGOING: usize = 256 << 10;

/// It happened.
#[derive(Debug)]
pub(super) enum Happening {
    /// Bytes came from the client.
    Client,
    /// The client does not take what it is sent, which it did before.
    Stalled,
    /// The client hung up.
    ClientGone,
    /// Bytes came from the cluster.
    Cluster,
    /// The cluster hung up.
    ClusterGone(Loss),
    /// The driver says so.
    Order(Order),
    /// The driver has no more use for this session.
    Orphaned,
}

/// Bytes on their way to a cluster.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// The bytes.
    pub bytes: Vec<u8>,
    written: usize,
}

impl Outgoing {
    /// These bytes.
    pub(super) fn of(bytes: Vec<u8>) -> Outgoing {
        Outgoing { bytes, written: 0 }
    }

    /// How much has not been written.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.written
    }
}

/// The cluster's side.
#[derive(Debug)]
pub(super) struct ClusterSide<'a> {
    /// The connection.
    pub connection: &'a mut Connection,
    /// How much of its input may go to the client.
    pub approved: &'a mut usize,
    /// What goes to it.
    pub outgoing: &'a mut Outgoing,
}

/// What is polled.
#[derive(Debug)]
pub(super) struct Pump<'a> {
    /// The client.
    pub client: &'a mut Client,
    /// What the driver sends; None once it is closed.
    pub mailbox: &'a mut mpsc::Receiver<Order>,
    /// The cluster, if there is one.
    pub cluster: Option<ClusterSide<'a>>,
    /// The client is read up to this much.
    pub client_limit: usize,
    /// True if the client has just stalled, which is to be told.
    pub stalled: bool,
}

impl Pump<'_> {
    /// Moves bytes until something happens.
    pub(super) async fn next(&mut self) -> Happening {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    /// Moves bytes until nothing can be moved or something happens.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Happening> {
        let flushed = self.poll_to_client(cx);
        if self.client.gone && !matches!(flushed, Poll::Ready(Ok(()))) {
            return Poll::Ready(Happening::ClientGone);
        }
        if let Some(cluster) = &mut self.cluster
            && let Err(cause) = cluster.poll_write(cx)
        {
            // What it said before it hung up is worth more than the failure to write to it.
            let connection = &mut *cluster.connection;
            return Poll::Ready(match connection.socket.poll_fill(cx, &mut connection.input) {
                Poll::Ready(Ok(1..)) => Happening::Cluster,
                _ => Happening::ClusterGone(Loss::Broken(cause)),
            });
        }
        if std::mem::take(&mut self.stalled) && self.cluster.is_some() {
            return Poll::Ready(Happening::Stalled);
        }
        if let Poll::Ready(order) = self.mailbox.poll_recv(cx) {
            return Poll::Ready(order.map_or(Happening::Orphaned, Happening::Order));
        }
        if flushed.is_ready()
            && let Some(cluster) = &mut self.cluster
        {
            match cluster.connection.socket.poll_fill(cx, &mut cluster.connection.input) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Happening::ClusterGone(Loss::HungUp)),
                Poll::Ready(Ok(_)) => return Poll::Ready(Happening::Cluster),
                Poll::Ready(Err(cause)) => return Poll::Ready(Happening::ClusterGone(Loss::Broken(cause))),
                Poll::Pending => self.client.blocked.awaits_cluster(),
            }
        }
        if !self.client.gone && self.client.input.len() < self.client_limit {
            match self.client.socket.poll_fill(cx, &mut self.client.input) {
                Poll::Ready(Ok(1..)) => return Poll::Ready(Happening::Client),
                Poll::Ready(_) => {
                    self.client.gone = true;
                    return Poll::Ready(Happening::ClientGone);
                }
                Poll::Pending => {}
            }
        }
        Poll::Pending
    }

    /// Writes what may go to the client. One that is gone swallows everything; that it has just gone is an error once.
    pub(super) fn poll_to_client(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        if self.client.gone {
            self.swallow();
            return Poll::Ready(Ok(()));
        }
        let written = self.poll_write_to_client(cx);
        match &written {
            Poll::Pending => self.stalled = self.client.blocked.stalls(),
            Poll::Ready(written) => {
                let connection = self.cluster.as_ref().map(|cluster| &cluster.connection);
                self.client.blocked.flows(|| connection.is_some_and(|connection| connection.socket.is_far_ahead()));
                self.client.gone = written.is_err();
            }
        }
        written
    }

    fn poll_write_to_client(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match self.client.poll_flush(cx) {
            Poll::Ready(Ok(())) => {}
            other => return other,
        }
        let Some(cluster) = &mut self.cluster else { return Poll::Ready(Ok(())) };
        while *cluster.approved > 0 {
            match self.client.socket.poll_write(cx, &cluster.connection.input.filled()[..*cluster.approved]) {
                Poll::Ready(Ok(n)) => {
                    cluster.connection.input.consume(n);
                    *cluster.approved -= n;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        self.client.socket.poll_flush(cx)
    }

    fn swallow(&mut self) {
        self.client.out.clear();
        if let Some(cluster) = &mut self.cluster {
            cluster.connection.input.consume(*cluster.approved);
            *cluster.approved = 0;
        }
    }
}

impl ClusterSide<'_> {
    fn poll_write(&mut self, cx: &mut Context<'_>) -> std::io::Result<()> {
        while self.outgoing.len() > 0 {
            match self.connection.socket.poll_write(cx, &self.outgoing.bytes[self.outgoing.written..]) {
                Poll::Ready(Ok(n)) => self.outgoing.written += n,
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => return Ok(()),
            }
        }
        self.outgoing.bytes.clear();
        self.outgoing.written = 0;
        match self.connection.socket.poll_flush(cx) {
            Poll::Ready(flushed) => flushed,
            Poll::Pending => Ok(()),
        }
    }
}
