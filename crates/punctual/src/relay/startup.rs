//! How a connection to a cluster begins: start-up message, proof of identity, what the cluster says of itself.

use std::sync::Arc;
use std::time::Instant;

use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256};
use punctual_core::query::SqlState;
use punctual_core::time::Span;

use super::buffer::Buffer;
use super::carried::Carried;
use super::connection::{CancelKey, Connection, ServerFacts, limited, open};
use super::error::{AuthenticationError, ConnectError, Garbled, ServerError};
use super::frames::{self, Header};
use super::socket::Socket;
use crate::settings::{Address, Endpoint, Identity, Secret};
use crate::tls::trust::ClusterTls;

/// Version 3.0 of the protocol.
pub(crate) const PROTOCOL: u32 = 3 << 16;
/// What stands in a version's place when a query is to be cancelled.
pub(crate) const CANCEL_REQUEST: u32 = 80_877_102;

/// The longest frame that a start-up may bring.
const LONGEST: usize = 64 << 10;

/// Connects to a cluster, learns what it says of itself and hangs up.
///
/// # Errors
/// If it cannot be connected to within the time.
pub async fn probe(endpoint: &Endpoint, within: Span) -> Result<ServerFacts, ConnectError> {
    let (address, tls) = (&endpoint.address, &endpoint.login.tls);
    let mut connection = connect((address, tls), endpoint.login.own(), within).await?;
    // It has answered; that it misses the goodbye does not matter.
    let _ = limited(address, within, async {
        let _ = connection.socket.write_all(&frames::TERMINATE).await;
        connection.socket.close().await;
        Ok(())
    })
    .await;
    Ok(ServerFacts::clone(&connection.facts))
}

/// Connects to a cluster.
pub(super) async fn connect(
    (address, tls): (&Address, &ClusterTls),
    identity: Identity<'_>,
    within: Span,
) -> Result<Connection, ConnectError> {
    limited(address, within, async {
        let socket = open(address, tls).await?;
        let mut start = Start { address, tls, identity, socket, input: Buffer::default(), scram: None };
        start.send(&start_up_message(identity)).await?;
        start.authenticate().await?;
        start.finish().await
    })
    .await
}

fn start_up_message(identity: Identity<'_>) -> Vec<u8> {
    let mut out = vec![0; 4];
    out.extend_from_slice(&PROTOCOL.to_be_bytes());
    for (name, value) in [("user", identity.user), ("database", identity.database), ("client_encoding", "UTF8")] {
        frames::text(&mut out, name);
        frames::text(&mut out, value);
    }
    out.push(0);
    let length = out.len() as u32;
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

/// A connection on its way.
struct Start<'a> {
    address: &'a Address,
    tls: &'a ClusterTls,
    identity: Identity<'a>,
    socket: Socket,
    input: Buffer,
    scram: Option<ScramSha256>,
}

impl Start<'_> {
    async fn send(&mut self, bytes: &[u8]) -> Result<(), ConnectError> {
        self.socket.write_all(bytes).await.map_err(|cause| self.unreachable(cause))
    }

    fn unreachable(&self, cause: std::io::Error) -> ConnectError {
        ConnectError::Unreachable { address: self.address.clone(), cause }
    }

    /// The next frame's tag and body; an ErrorResponse is an error.
    async fn next(&mut self) -> Result<(u8, Vec<u8>), ConnectError> {
        loop {
            let garbled = |bad| ConnectError::Garbled(Garbled::Length(bad));
            if let Some(Header { tag, len }) = frames::header(self.input.filled()).map_err(garbled)? {
                if len > LONGEST {
                    return Err(ConnectError::Garbled(Garbled::TooLong { tag, len }));
                }
                if self.input.len() >= len {
                    let body = self.input.take(len).split_off(frames::HEADER);
                    if tag == b'E' {
                        return Err(ConnectError::Refused(server_error(&body)));
                    }
                    return Ok((tag, body));
                }
            }
            match self.socket.fill(&mut self.input).await {
                Ok(0) => return Err(self.unreachable(std::io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(cause) => return Err(self.unreachable(cause)),
            }
        }
    }

    async fn authenticate(&mut self) -> Result<(), ConnectError> {
        loop {
            let (tag, body) = self.next().await?;
            match tag {
                b'R' => {}
                b'N' => continue,
                tag => return Err(ConnectError::Garbled(Garbled::Unexpected(tag))),
            }
            let Some((way, rest)) = body.split_first_chunk::<4>() else {
                return Err(ConnectError::Garbled(Garbled::Short(tag)));
            };
            let way = i32::from_be_bytes(*way);
            if way == 0 {
                return Ok(());
            }
            if let Some(answer) = self.prove(way, rest)? {
                self.send(&answer).await?;
            }
        }
    }

    /// The answer to one authentication request.
    fn prove(&mut self, way: i32, rest: &[u8]) -> Result<Option<Vec<u8>>, ConnectError> {
        let password = self.identity.password.map(Secret::reveal);
        let password = password.ok_or(ConnectError::Authentication(AuthenticationError::NoPassword))?;
        let mut out = Vec::new();
        match way {
            3 => frames::frame(&mut out, b'p', |out| frames::text(out, password)),
            5 => {
                let salt = rest.first_chunk::<4>().ok_or(ConnectError::Garbled(Garbled::Short(b'R')))?;
                let proof = md5_hash(self.identity.user.as_bytes(), password.as_bytes(), *salt);
                frames::frame(&mut out, b'p', |out| frames::text(out, &proof));
            }
            10 => {
                let offers = |wanted: &str| rest.split(|byte| *byte == 0).any(|offered| offered == wanted.as_bytes());
                let (mechanism, binding) = match self.socket.end_point() {
                    Some(hash) if offers(SCRAM_SHA_256_PLUS) => {
                        (SCRAM_SHA_256_PLUS, ChannelBinding::tls_server_end_point(hash))
                    }
                    // A cluster that could and did not offer it finds out that somebody sits in between.
                    Some(_) => (SCRAM_SHA_256, ChannelBinding::unrequested()),
                    None => (SCRAM_SHA_256, ChannelBinding::unsupported()),
                };
                if !offers(mechanism) {
                    return Err(ConnectError::Authentication(AuthenticationError::NoMechanism));
                }
                let scram = self.scram.insert(ScramSha256::new(password.as_bytes(), binding));
                let first = scram.message();
                frames::frame(&mut out, b'p', |out| {
                    frames::text(out, mechanism);
                    out.extend_from_slice(&(first.len() as u32).to_be_bytes());
                    out.extend_from_slice(first);
                });
            }
            11 | 12 => return self.prove_by_scram(way, rest),
            way => return Err(ConnectError::Authentication(AuthenticationError::Unsupported(way))),
        }
        Ok(Some(out))
    }

    fn prove_by_scram(&mut self, way: i32, rest: &[u8]) -> Result<Option<Vec<u8>>, ConnectError> {
        let wrong = |cause| ConnectError::Authentication(AuthenticationError::Scram(cause));
        let scram = self.scram.as_mut().ok_or(ConnectError::Garbled(Garbled::Unexpected(b'R')))?;
        if way == 12 {
            scram.finish(rest).map_err(wrong)?;
            self.scram = None;
            return Ok(None);
        }
        scram.update(rest).map_err(wrong)?;
        let mut out = Vec::new();
        frames::frame(&mut out, b'p', |out| out.extend_from_slice(scram.message()));
        Ok(Some(out))
    }

    /// Reads what follows the proof up to the first ReadyForQuery.
    async fn finish(mut self) -> Result<Connection, ConnectError> {
        let mut facts = ServerFacts::default();
        let mut key = None;
        loop {
            let (tag, body) = self.next().await?;
            let mut rest = body.as_slice();
            match tag {
                b'S' => {
                    let name = frames::split_text(&mut rest);
                    if let (Some(name), Some(value)) = (name, frames::split_text(&mut rest)) {
                        facts.parameters.push((name.to_owned(), value.to_owned()));
                    }
                }
                b'K' => {
                    let (process, secret) =
                        rest.split_first_chunk::<4>().ok_or(ConnectError::Garbled(Garbled::Short(tag)))?;
                    let (address, tls) = (self.address.clone(), self.tls.clone());
                    key = Some(CancelKey { address, tls, process: *process, secret: secret.to_vec() });
                }
                b'N' => {}
                b'Z' => break,
                tag => return Err(ConnectError::Garbled(Garbled::Unexpected(tag))),
            }
        }
        Ok(Connection {
            socket: self.socket,
            input: self.input,
            key,
            facts: Arc::new(facts),
            carried: Carried::default(),
            reused: false,
            tainted: false,
            opened: Instant::now(),
        })
    }
}

/// Reads an ErrorResponse's body.
fn server_error(body: &[u8]) -> ServerError {
    let fields = frames::error_fields(body);
    ServerError { sqlstate: sqlstate(fields.code), message: String::from_utf8_lossy(fields.message).into_owned() }
}

/// A code of five characters; anything else is an internal error.
pub(crate) fn sqlstate(code: &[u8]) -> SqlState {
    SqlState(code.try_into().unwrap_or(*b"XX000"))
}
