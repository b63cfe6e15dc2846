//! One connection to a cluster.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::time::Span;
use tokio::net::{TcpStream, UnixStream};

use super::buffer::Buffer;
use super::carried::Carried;
use super::error::ConnectError;
use super::socket::Socket;
use crate::settings::Address;

/// What a cluster says of itself when a connection begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerFacts {
    /// Names and values of its ParameterStatus messages, in their order.
    pub parameters: Vec<(String, String)>,
}

impl ServerFacts {
    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// What it takes to cancel what runs on a connection. The secret is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct CancelKey {
    /// Where to send the request.
    pub address: Address,
    /// The cluster's process.
    pub process: [u8; 4],
    /// Its secret.
    pub secret: Vec<u8>,
}

impl fmt::Debug for CancelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CancelKey({}, {})", self.address, u32::from_be_bytes(self.process))
    }
}

/// A connection to a cluster that has been started and authenticated.
#[derive(Debug)]
pub struct Connection {
    /// The socket.
    pub socket: Socket,
    /// What came from the cluster and has not been passed on.
    pub input: Buffer,
    /// Cancels what runs here; None if the cluster gave no key.
    pub key: Option<CancelKey>,
    /// What the cluster said of itself.
    pub facts: Arc<ServerFacts>,
    /// Statements and variables that sessions have left here.
    pub carried: Carried,
    /// True if it has been used before, and may have died since.
    pub reused: bool,
    /// True if it must not be used again: a cancel was sent, or its state is unknown.
    pub tainted: bool,
}

/// Opens a socket to `address`.
pub(super) async fn open(address: &Address) -> Result<Socket, ConnectError> {
    let unreachable = |cause| ConnectError::Unreachable { address: address.clone(), cause };
    match address {
        Address::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(unreachable)?;
            stream.set_nodelay(true).map_err(unreachable)?;
            Ok(Socket::Tcp(stream))
        }
        Address::Unix(path) => Ok(Socket::Unix(UnixStream::connect(path).await.map_err(unreachable)?)),
    }
}

/// Runs `attempt`, which is about `address`, for at most `within`.
pub(super) async fn limited<T>(
    address: &Address,
    within: Span,
    attempt: impl Future<Output = Result<T, ConnectError>>,
) -> Result<T, ConnectError> {
    match tokio::time::timeout(Duration::from_micros(within.micros()), attempt).await {
        Ok(result) => result,
        Err(_) => Err(ConnectError::TimedOut { address: address.clone(), within }),
    }
}

/// Asks a cluster to cancel what runs on a connection, and waits until it has taken note: it hangs up then.
///
/// # Errors
/// If the request could not be delivered within the time.
pub async fn cancel(key: &CancelKey, within: Span) -> Result<(), ConnectError> {
    let unreachable = |cause| ConnectError::Unreachable { address: key.address.clone(), cause };
    limited(&key.address, within, async {
        let mut socket = open(&key.address).await?;
        let mut request = Vec::with_capacity(16);
        request.extend_from_slice(&(12 + key.secret.len() as u32).to_be_bytes());
        request.extend_from_slice(&super::startup::CANCEL_REQUEST.to_be_bytes());
        request.extend_from_slice(&key.process);
        request.extend_from_slice(&key.secret);
        socket.write_all(&request).await.map_err(unreachable)?;
        let mut nothing = Buffer::default();
        // However it hangs up, it has read the request.
        let _ = socket.fill(&mut nothing).await;
        Ok(())
    })
    .await
}
