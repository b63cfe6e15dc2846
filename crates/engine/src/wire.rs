//! Messages on a socket: read whole, written through one buffer.
//!
//! `pgwire` supplies the messages themselves. Its server loop is not used: it answers one message after the
//! other, so it would notice neither that a client left nor that it cancelled while rows are produced, and it
//! gathers the whole result of a portal before it sends the first row. Here reading runs ahead of the session
//! in a task of its own, and whoever writes decides when to wait for the client.

use std::io;

use bytes::{Buf, BytesMut};
use pgwire::messages::{DecodeContext, PgWireBackendMessage, PgWireFrontendMessage, ProtocolVersion};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

/// The largest message that a client may send. Statements and parameters are small; this is far above both
/// and far below what would hurt.
const LARGEST_MESSAGE: usize = 64 << 20;

/// The largest message before a client has said who it is.
const LARGEST_STARTUP: usize = 10_000;

/// Rows are handed to the socket when this many bytes have gathered.
pub(crate) const FULL: usize = 64 << 10;

/// Why there is no next message.
#[derive(Debug)]
pub(crate) enum Lost {
    /// The client closed the connection, or it failed.
    Closed,
    /// What arrived is not the protocol.
    Protocol(String),
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Lost {
        tracing::debug!(%error, "a connection failed");
        Lost::Closed
    }
}

/// What arrives from the client.
pub(crate) struct Incoming {
    io: Box<dyn AsyncRead + Send + Unpin>,
    buffer: BytesMut,
    context: DecodeContext,
}

/// What goes to the client.
pub(crate) struct Outgoing {
    io: Box<dyn AsyncWrite + Send + Unpin>,
    buffer: BytesMut,
}

/// The two directions of a Unix connection.
pub(crate) fn over_unix(stream: UnixStream) -> (Incoming, Outgoing) {
    let (reader, writer) = stream.into_split();
    (Incoming::new(Box::new(reader)), Outgoing::new(Box::new(writer)))
}

/// The two directions of a TCP connection.
pub(crate) fn over_tcp(stream: TcpStream) -> (Incoming, Outgoing) {
    let (reader, writer) = stream.into_split();
    (Incoming::new(Box::new(reader)), Outgoing::new(Box::new(writer)))
}

impl Incoming {
    fn new(io: Box<dyn AsyncRead + Send + Unpin>) -> Incoming {
        let context = DecodeContext::new(ProtocolVersion::PROTOCOL3_0);
        Incoming { io, buffer: BytesMut::with_capacity(8 << 10), context }
    }

    /// No more requests for encryption are expected, a start-up message is.
    pub(crate) fn negotiated(&mut self) {
        self.context.awaiting_frontend_ssl = false;
    }

    /// The start-up message was read; from here every message has a type.
    pub(crate) fn started(&mut self, version: ProtocolVersion) {
        self.context.awaiting_frontend_ssl = false;
        self.context.awaiting_frontend_startup = false;
        self.context.protocol_version = version;
    }

    /// The next whole message. Cancel safe: what was read stays in the buffer.
    pub(crate) async fn next(&mut self) -> Result<PgWireFrontendMessage, Lost> {
        loop {
            if let Some(length) = self.whole()?
                && let Some(message) = self.decode(length)?
            {
                return Ok(message);
            }
            if self.io.read_buf(&mut self.buffer).await? == 0 {
                return Err(Lost::Closed);
            }
        }
    }

    /// How long the first message of the buffer is, if it is there completely.
    fn whole(&self) -> Result<Option<usize>, Lost> {
        let startup = self.context.awaiting_frontend_startup;
        let (at, limit) = if startup { (0, LARGEST_STARTUP) } else { (1, LARGEST_MESSAGE) };
        let Some(mut length) = self.buffer.get(at..at + 4) else { return Ok(None) };
        let length = length.get_u32() as usize;
        if length < 4 || length > limit {
            return Err(Lost::Protocol(format!("invalid message length {length}")));
        }
        Ok((self.buffer.len() >= at + length).then_some(at + length))
    }

    /// Decodes the first message. The decoder trusts the lengths inside a message, so it gets nothing but
    /// that message, and where they lie its panic is a malformed message and no more.
    fn decode(&mut self, length: usize) -> Result<Option<PgWireFrontendMessage>, Lost> {
        let context = &self.context;
        let decoded = if context.awaiting_frontend_startup {
            PgWireFrontendMessage::decode(&mut self.buffer, context)
        } else {
            let mut message = self.buffer.split_to(length);
            let decode = || PgWireFrontendMessage::decode(&mut message, context);
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(decode))
                .map_err(|_| Lost::Protocol("malformed message".to_owned()))?
        };
        decoded.map_err(|error| Lost::Protocol(error.to_string()))
    }
}

impl Outgoing {
    fn new(io: Box<dyn AsyncWrite + Send + Unpin>) -> Outgoing {
        Outgoing { io, buffer: BytesMut::with_capacity(8 << 10) }
    }

    /// Appends a message.
    pub(crate) fn put(&mut self, message: PgWireBackendMessage) {
        // Encoding into memory does not fail; a message that did would leave the client waiting, so say it.
        if let Err(error) = message.encode(&mut self.buffer) {
            tracing::error!(%error, "a message could not be encoded");
        }
    }

    /// Appends messages that are encoded already.
    pub(crate) fn put_encoded(&mut self, messages: &[u8]) {
        self.buffer.extend_from_slice(messages);
    }

    /// Whether enough has gathered to be worth a write.
    pub(crate) fn is_full(&self) -> bool {
        self.buffer.len() >= FULL
    }

    /// Writes everything. Cancel safe: what was not written stays in the buffer.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        while self.buffer.has_remaining() {
            if self.io.write_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        self.io.flush().await
    }

    /// Says goodbye to the transport.
    pub(crate) async fn close(mut self) {
        let _ = self.flush().await;
        let _ = self.io.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn first(bytes: &'static [u8], started: bool) -> Result<PgWireFrontendMessage, Lost> {
        let mut incoming = Incoming::new(Box::new(bytes));
        if started {
            incoming.started(ProtocolVersion::PROTOCOL3_0);
        }
        incoming.next().await
    }

    #[tokio::test]
    async fn a_message_is_returned_whole() {
        let read = first(b"Q\0\0\0\x0dselect 1\0", true).await;
        assert!(matches!(read, Ok(PgWireFrontendMessage::Query(query)) if query.query == "select 1"));
    }

    #[tokio::test]
    async fn half_a_message_is_a_closed_connection() {
        assert!(matches!(first(b"Q\0\0\0\x0dsele", true).await, Err(Lost::Closed)));
    }

    #[tokio::test]
    async fn absurd_lengths_are_refused_before_anything_is_allocated() {
        for bytes in [&b"Q\xff\xff\xff\xff"[..], b"Q\0\0\0\x03", b"Q\x10\0\0\0"] {
            assert!(matches!(first(bytes, true).await, Err(Lost::Protocol(_))), "{bytes:?}");
        }
        assert!(matches!(first(b"GET / HTTP/1.1\r\n", false).await, Err(Lost::Protocol(_))));
    }

    #[tokio::test]
    async fn unknown_messages_are_refused() {
        assert!(matches!(first(b"\x01\0\0\0\x04\0", true).await, Err(Lost::Protocol(_))));
    }

    #[tokio::test]
    async fn a_message_whose_inner_lengths_lie_is_refused() {
        let bind = b"B\0\0\0\x0c\0\0\0\x01\0\0\x7f\xff";
        assert!(matches!(first(bind, true).await, Err(Lost::Protocol(_))));
    }
}
