//! Finding out that the other end is gone when nobody says so.
//!
//! A machine that loses its power, or a network that drops what it knew of a connection, sends no word. Without these the
//! kernel finds out after two hours on a connection that is quiet, and a quarter of an hour on one that is not.

use std::time::Duration;

use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl};
use tokio::net::TcpStream;

/// When a connection is asked whether the other end is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// How long it is quiet before that.
    quiet: Duration,
    /// How long each time.
    each: Duration,
    /// How often in vain.
    times: u32,
}

/// A cluster that is gone holds up queries: 45 s.
pub(crate) const CLUSTERS: Patience =
    Patience { quiet: Duration::from_secs(15), each: Duration::from_secs(10), times: 3 };

/// A client that is gone holds a session, and may hold a transaction: two minutes.
pub(crate) const CLIENTS: Patience =
    Patience { quiet: Duration::from_secs(60), each: Duration::from_secs(15), times: 4 };

/// Has the kernel ask. Where it cannot, the connection is as good as it was.
///
/// How long what was sent may be unread is not bounded here: a cluster may read nothing for as long as what is copied into it
/// waits for a lock.
pub(crate) fn keep_alive(stream: &TcpStream, patience: &Patience) {
    let Patience { quiet, each, times } = *patience;
    let asked = set_socket_keepalive(stream, true)
        .and_then(|()| set_tcp_keepidle(stream, quiet))
        .and_then(|()| set_tcp_keepintvl(stream, each))
        .and_then(|()| set_tcp_keepcnt(stream, times));
    if let Err(error) = asked {
        tracing::debug!(%error, "a connection is not kept alive");
    }
}
