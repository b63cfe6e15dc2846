//! A client's connection: what came from it and what is on its way to it.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::blocked::Blocked;
use crate::relay::Socket;
use crate::relay::buffer::Buffer;
use crate::tls::serving::Identity;

/// A client's connection.
#[derive(Debug)]
pub(super) struct Client {
    /// The socket.
    pub socket: Socket,
    /// What it has sent and has not been dealt with.
    pub input: Buffer,
    /// The gateway's own words on their way, ahead of anything that is relayed.
    pub out: Vec<u8>,
    /// How much of them has been written.
    written: usize,
    /// True once it has hung up, or cannot be written to.
    pub gone: bool,
    /// How long the result of its query has waited for it.
    pub blocked: Blocked,
    /// The certificate that it was shown, as proofs are bound to it.
    binding: Option<Arc<[u8]>>,
}

impl Client {
    /// A client that has just connected.
    pub(super) fn new(socket: Socket) -> Client {
        Client {
            socket,
            input: Buffer::default(),
            out: Vec::new(),
            written: 0,
            gone: false,
            blocked: Blocked::default(),
            binding: None,
        }
    }

    /// The same, encrypted from here on. `direct`: it began with that.
    ///
    /// # Errors
    /// If the handshake fails.
    pub(super) async fn encrypted(self, identity: &Identity, direct: bool) -> io::Result<Client> {
        let Socket::Tcp(stream) = self.socket else { return Err(io::ErrorKind::Unsupported.into()) };
        let stream = identity.accept(stream, direct).await?;
        let socket = Socket::Tls(Box::new(stream.into()));
        Ok(Client { socket, binding: identity.end_point(), ..self })
    }

    /// True if what it says is encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        matches!(self.socket, Socket::Tls(_))
    }

    /// What a proof of identity can be bound to: the hash of the certificate that the client was shown; None without one.
    pub(super) fn binding(&self) -> Option<&[u8]> {
        self.binding.as_deref()
    }

    /// Writes what is on its way.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.out.len() {
            match self.socket.poll_write(cx, &self.out[self.written..]) {
                Poll::Ready(Ok(n)) => self.written += n,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        if self.written > 0 {
            self.written = 0;
            self.out.clear();
            if self.out.capacity() > 16 << 10 {
                self.out = Vec::new();
            }
        }
        self.socket.poll_flush(cx)
    }

    /// Writes what is on its way, waiting for it.
    ///
    /// # Errors
    /// As the socket's write fails.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_flush(cx)).await
    }
}
