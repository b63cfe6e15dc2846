//! Everything that one session waits for, polled together by its one task.
//!
//! ```text
//!   client ◀── out ◀── approved ◀── cluster        at most one buffer on the way: a client that
//!   client ──▶ input       outgoing ──▶ cluster    stops reading stops the reading from the cluster
//!   driver ──▶ mailbox
//! ```

use std::task::{Context, Poll};

use super::client::Client;
use super::problem::Loss;
use crate::link::Order;
use crate::mailbox::Mailbox;
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
    /// True while they are those of a copy, which may be of any length: the client is not read while there are more than
    /// [`OUTGOING`].
    pub is_copy: bool,
    written: usize,
}

impl Outgoing {
    /// These bytes.
    pub(super) fn of(bytes: Vec<u8>) -> Outgoing {
        Outgoing { bytes, ..Outgoing::default() }
    }

    /// How much has not been written.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// True if the client is to wait until the cluster has taken more of it.
    fn is_behind(&self) -> bool {
        self.is_copy && self.len() > OUTGOING
    }

    /// So much more has been written. What is done with is let go of now and then: a copy may go on for hours in which
    /// there is always something left. Not sooner than that is the larger half, or moving the rest would cost too much.
    fn wrote(&mut self, n: usize) {
        self.written += n;
        if self.len() == 0 || self.written >= OUTGOING.max(self.len()) {
            self.bytes.drain(..std::mem::take(&mut self.written));
        }
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
    pub mailbox: &'a mut Mailbox,
    /// The cluster, if there is one.
    pub cluster: Option<ClusterSide<'a>>,
    /// The client is read up to this much.
    pub client_limit: usize,
}

impl Pump<'_> {
    /// Moves bytes until something happens.
    pub(super) async fn next(&mut self) -> Happening {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    /// Moves bytes until nothing can be moved or something happens.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Happening> {
        let stalled_before = self.client.blocked.since().is_some();
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
        if !stalled_before && self.client.blocked.since().is_some() && self.cluster.is_some() {
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
        // Asked after writing: nothing else tells that the cluster has taken what there was.
        let is_behind = self.cluster.as_ref().is_some_and(|side| side.outgoing.is_behind());
        if !self.client.gone && !is_behind && self.client.input.len() < self.client_limit {
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
            Poll::Pending => self.client.blocked.stalls(),
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
                Poll::Ready(Ok(n)) => self.outgoing.wrote(n),
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => return Ok(()),
            }
        }
        match self.connection.socket.poll_flush(cx) {
            Poll::Ready(flushed) => flushed,
            Poll::Pending => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;

    use super::*;
    use crate::mailbox::mailbox;
    use crate::relay::Socket;
    use crate::relay::buffer::Buffer;

    #[tokio::test]
    async fn a_copy_goes_on_once_the_cluster_has_taken_what_there_was() {
        let (mut clients, ours) = UnixStream::pair().unwrap();
        let mut client = Client::new(Socket::Unix(ours));
        let (mut clusters, ours) = UnixStream::pair().unwrap();
        let mut connection = Connection {
            socket: Socket::Unix(ours),
            input: Buffer::default(),
            key: None,
            facts: Arc::default(),
            carried: Default::default(),
            reused: false,
            tainted: false,
            opened: std::time::Instant::now(),
        };
        let (_orders, mut mailbox) = mailbox();
        // More than a socket takes.
        let mut outgoing = Outgoing { is_copy: true, ..Outgoing::of(vec![7; 8 << 20]) };
        let mut approved = 0;
        clients.write_all(b"more").await.unwrap();
        let mut pump = Pump {
            client: &mut client,
            mailbox: &mut mailbox,
            cluster: Some(ClusterSide {
                connection: &mut connection,
                approved: &mut approved,
                outgoing: &mut outgoing,
            }),
            client_limit: 100,
        };
        let waits = std::future::poll_fn(|cx| Poll::Ready(pump.poll(cx).is_pending())).await;
        assert!(waits, "the client was read while the cluster was behind");
        let takes = tokio::spawn(async move {
            let mut taken = vec![0; 8 << 20];
            clusters.read_exact(&mut taken).await.map(|_| clusters)
        });
        assert!(matches!(pump.next().await, Happening::Client));
        assert_eq!(client.input.filled(), b"more");
        assert!(outgoing.len() <= OUTGOING);
        takes.abort();
    }

    #[test]
    fn what_has_been_written_does_not_pile_up() {
        let mut outgoing = Outgoing::default();
        for _ in 0..100 {
            outgoing.bytes.extend_from_slice(&[7; OUTGOING]);
            outgoing.wrote(OUTGOING - 1);
            assert!(outgoing.bytes.len() <= 3 * OUTGOING, "{} bytes are kept", outgoing.bytes.len());
        }
        assert_eq!(outgoing.len(), 100);
        outgoing.wrote(100);
        assert_eq!((outgoing.len(), outgoing.bytes.len()), (0, 0));
    }
}
