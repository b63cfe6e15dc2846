//! One connection to a cluster.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use punctual_core::time::Span;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use super::alive::{CLUSTERS, keep_alive};
use super::buffer::Buffer;
use super::carried::Carried;
use super::error::{ConnectError, Garbled};
use super::frames;
use super::socket::Socket;
use crate::settings::Address;
use crate::tls::trust::{ClusterTls, Connector};

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
#[derive(Clone, PartialEq)]
pub struct CancelKey {
    /// Where to send the request.
    pub address: Address,
    /// Whether it is encrypted, as the connection was.
    pub tls: ClusterTls,
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
    /// When it was opened.
    pub opened: Instant,
}

impl Connection {
    /// Asks an idle connection whether it is still one. Whatever else than that it is ready the cluster says, or if it takes
    /// longer than `within`, it is not to be used.
    pub(super) async fn is_well(&mut self, within: Duration) -> bool {
        const READY: [u8; 6] = [b'Z', 0, 0, 0, 5, b'I'];
        let asked = async {
            self.socket.write_all(&frames::SYNC).await?;
            while self.input.len() < READY.len() {
                if self.socket.fill(&mut self.input).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Ok::<bool, io::Error>(self.input.filled() == READY)
        };
        let well = matches!(tokio::time::timeout(within, asked).await, Ok(Ok(true)));
        self.input.consume(self.input.len());
        well
    }

    /// How long it may live where connections live for `most`: up to a tenth less, so that those that were opened together do
    /// not end together.
    pub(super) fn lives_for(&self, most: Duration) -> Duration {
        let chance = self.key.as_ref().map_or(0, |key| u32::from_be_bytes(key.process) % 100);
        most - most * chance / 1_000
    }
}

/// What stands in a version's place when encryption is asked for.
const SSL_REQUEST: u32 = 80_877_103;

/// Opens a socket to `address`. One on this machine, a Unix socket, is not encrypted, as with libpq.
pub(super) async fn open(address: &Address, tls: &ClusterTls) -> Result<Socket, ConnectError> {
    let unreachable = |cause| ConnectError::Unreachable { address: address.clone(), cause };
    match address {
        Address::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(unreachable)?;
            stream.set_nodelay(true).map_err(unreachable)?;
            keep_alive(&stream, &CLUSTERS);
            match tls {
                ClusterTls::Off => Ok(Socket::Tcp(stream)),
                ClusterTls::Preferred(connector) => encrypt(address, host, stream, (connector, false)).await,
                ClusterTls::Required(connector) => encrypt(address, host, stream, (connector, true)).await,
            }
        }
        Address::Unix(path) => Ok(Socket::Unix(UnixStream::connect(path).await.map_err(unreachable)?)),
    }
}

/// Encrypts a connection that has just been opened; it stays as it is if the cluster cannot and need not.
async fn encrypt(
    address: &Address,
    host: &str,
    mut stream: TcpStream,
    (connector, required): (&Connector, bool),
) -> Result<Socket, ConnectError> {
    let unreachable = |cause| ConnectError::Unreachable { address: address.clone(), cause };
    let request = [8u32.to_be_bytes(), SSL_REQUEST.to_be_bytes()].concat();
    stream.write_all(&request).await.map_err(unreachable)?;
    // One byte and no more: what follows is not to be taken for what is said encrypted (CVE-2021-23222).
    match stream.read_u8().await.map_err(unreachable)? {
        b'S' => match connector.connect(host, stream).await {
            Ok(stream) => Ok(Socket::Tls(Box::new(stream.into()))),
            Err(cause) => Err(ConnectError::Encryption { address: address.clone(), cause }),
        },
        b'N' if required => Err(ConnectError::NotEncrypted { address: address.clone() }),
        b'N' => Ok(Socket::Tcp(stream)),
        tag => Err(ConnectError::Garbled(Garbled::Unexpected(tag))),
    }
}

/// Runs `attempt`, which is about `address`, for at most `within`.
pub(super) async fn limited<T>(
    address: &Address,
    within: Span,
    attempt: impl Future<Output = Result<T, ConnectError>>,
) -> Result<T, ConnectError> {
    match tokio::time::timeout(Duration::from(within), attempt).await {
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
        let mut socket = open(&key.address, &key.tls).await?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> (Connection, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (socket, input) = (Socket::Unix(ours), Buffer::default());
        let (facts, carried, opened) = (Arc::default(), Carried::default(), Instant::now());
        (Connection { socket, input, key: None, facts, carried, reused: true, tainted: false, opened }, theirs)
    }

    async fn is_well_if_it_says(answer: &[u8]) -> bool {
        let (mut connection, mut cluster) = connection();
        let answers = async {
            let mut asked = [0; 5];
            cluster.read_exact(&mut asked).await.unwrap();
            assert_eq!(asked, frames::SYNC);
            cluster.write_all(answer).await.unwrap();
            drop(cluster);
        };
        let (well, ()) = tokio::join!(connection.is_well(Duration::from_secs(60)), answers);
        assert!(connection.input.is_empty());
        well
    }

    #[tokio::test]
    async fn a_connection_is_well_if_it_is_ready_and_says_nothing_else() {
        assert!(is_well_if_it_says(b"Z\0\0\0\x05I").await);
        for else_than_that in [&b"Z\0\0\0\x05T"[..], b"N\0\0\0\x05\0Z\0\0\0\x05I", b"Z\0\0", b""] {
            assert!(!is_well_if_it_says(else_than_that).await, "{else_than_that:?}");
        }
        let (mut mute, _cluster) = connection();
        assert!(!mute.is_well(Duration::from_millis(1)).await);
    }

    #[tokio::test]
    async fn connections_that_were_opened_together_end_apart_and_not_late() {
        let hour = Duration::from_secs(3_600);
        let with = |process: u32| {
            let (address, process) = (Address::Unix("s".into()), process.to_be_bytes());
            CancelKey { address, tls: ClusterTls::Off, process, secret: Vec::new() }
        };
        let lives = |process| Connection { key: Some(with(process)), ..connection().0 }.lives_for(hour);
        assert_eq!((lives(700), lives(799)), (hour, hour - hour * 99 / 1_000));
        assert_eq!(connection().0.lives_for(hour), hour);
    }
}
