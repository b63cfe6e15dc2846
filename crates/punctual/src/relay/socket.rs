//! A stream socket of any kind, polled by one task.

use std::io::{self, BufRead};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::io::{Errno, ioctl_fionread};
use rustix::net::sockopt::socket_recv_buffer_size;
use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsStream;

use super::buffer::Buffer;
use crate::tls::end_point;

/// The least and the most that one read is given room for.
const READ: std::ops::RangeInclusive<usize> = 4 << 10..=256 << 10;

/// A connected socket.
#[derive(Debug)]
pub enum Socket {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
    /// Over TCP, encrypted. In a box: it is ten times as large.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Socket {
    /// Reads into `buffer` what one read gives; 0 is the end. The room grows while reads fill it, so that large
    /// results take few calls and idle connections little memory.
    pub fn poll_fill(&mut self, cx: &mut Context<'_>, buffer: &mut Buffer) -> Poll<io::Result<usize>> {
        // A large message grows the room with itself, so that it comes in few reads.
        let room = if buffer.is_empty() { buffer.capacity() } else { buffer.len().min(*READ.end()) };
        let mut into = ReadBuf::new(buffer.space(room.max(*READ.start())));
        let room = into.remaining();
        let read = match self {
            Socket::Tcp(stream) => Pin::new(stream).poll_read(cx, &mut into),
            Socket::Unix(stream) => Pin::new(stream).poll_read(cx, &mut into),
            Socket::Tls(stream) => Pin::new(stream).poll_read(cx, &mut into),
        };
        match read {
            Poll::Ready(Ok(())) => {
                let n = into.filled().len();
                buffer.advance(n);
                if n == room && buffer.capacity() < *READ.end() {
                    buffer.space(buffer.capacity());
                }
                Poll::Ready(Ok(n))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Has what was written go out. It is out at once unless it is encrypted first.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Socket::Tcp(_) | Socket::Unix(_) => Poll::Ready(Ok(())),
            Socket::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    /// Writes some of `bytes`. What is encrypted is not out before it has been [flushed](Socket::poll_flush).
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = match self {
            Socket::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Socket::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Socket::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        };
        match written {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            other => other,
        }
    }

    /// Reads into `buffer`, waiting for it; 0 is the end.
    ///
    /// # Errors
    /// As the socket's read fails.
    pub async fn fill(&mut self, buffer: &mut Buffer) -> io::Result<usize> {
        std::future::poll_fn(|cx| self.poll_fill(cx, buffer)).await
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// As the socket's write fails.
    pub async fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let n = std::future::poll_fn(|cx| self.poll_write(cx, bytes)).await?;
            bytes = &bytes[n..];
        }
        std::future::poll_fn(|cx| self.poll_flush(cx)).await
    }

    /// Says goodbye where the other end would otherwise take the end for an attack: nothing, unless it is encrypted.
    pub async fn close(&mut self) {
        if let Socket::Tls(stream) = self {
            // It is over either way.
            let _ = stream.shutdown().await;
        }
    }

    /// What a proof of identity can be bound to, of a cluster: the hash of the certificate that it has shown.
    pub fn end_point(&self) -> Option<Vec<u8>> {
        let Socket::Tls(stream) = self else { return None };
        let (_, session) = stream.get_ref();
        end_point::of(session.peer_certificates()?.first()?)
    }

    /// True if the other end has sent so much that has not been read that it may stand still: a quarter of what the system
    /// would hold here, since what it holds is counted with its wrapping.
    pub fn is_far_ahead(&self) -> bool {
        let socket = self.as_fd();
        matches!((ioctl_fionread(socket), socket_recv_buffer_size(socket)), (Ok(unread), Ok(holds)) if unread >= holds as u64 / 4)
    }

    /// True if the other end has sent nothing and has not hung up. The system is asked, not the runtime, which may not
    /// have heard of it yet.
    pub fn is_quiet(&mut self) -> bool {
        let mut byte = [0; 1];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        if let Socket::Tls(stream) = self {
            // What has been decrypted and not been read is not with the system any more.
            let is_unread = match &mut **stream {
                TlsStream::Client(stream) => stream.get_mut().1.reader().fill_buf().is_ok(),
                TlsStream::Server(stream) => stream.get_mut().1.reader().fill_buf().is_ok(),
            };
            if is_unread {
                return false;
            }
        }
        matches!(recv(self.as_fd(), &mut byte, flags), Err(Errno::AGAIN))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
            Socket::Tls(stream) => stream.get_ref().0.as_fd(),
        }
    }
}
