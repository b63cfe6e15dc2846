//! Why a cluster could not be connected to.

use std::{fmt, io};

use punctual_core::query::SqlState;
use punctual_core::time::Span;

use super::frames::BadLength;
use crate::files::is_shortage;
use crate::settings::Address;

/// A connection to a cluster could not be had.
#[derive(Debug)]
pub enum ConnectError {
    /// The pool has been closed: its cluster is going.
    Closed,
    /// It took too long.
    TimedOut {
        /// Where to.
        address: Address,
        /// How long it was given.
        within: Span,
    },
    /// Nothing there, or it hung up.
    Unreachable {
        /// Where to.
        address: Address,
        /// What the system says.
        cause: io::Error,
    },
    /// The cluster does not encrypt, and has to.
    NotEncrypted {
        /// Where to.
        address: Address,
    },
    /// The handshake failed, or the certificate is not trusted.
    Encryption {
        /// Where to.
        address: Address,
        /// What it fails for.
        cause: io::Error,
    },
    /// A user of the gateway is nobody there: its `credentials_file` does not name them.
    Nobody {
        /// The user.
        user: String,
    },
    /// The cluster answered that it will not have us.
    Refused(ServerError),
    /// The cluster wants a proof of identity that cannot be given.
    Authentication(AuthenticationError),
    /// What it says is not the Postgres protocol.
    Garbled(Garbled),
}

/// An error that a cluster reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// Its code.
    pub sqlstate: SqlState,
    /// Its text.
    pub message: String,
}

/// An identity that cannot be proved.
#[derive(Debug)]
pub enum AuthenticationError {
    /// A password is asked for and none is configured.
    NoPassword,
    /// The way it asks for is not spoken here: its number in the protocol.
    Unsupported(i32),
    /// No SASL mechanism that it offers is spoken here.
    NoMechanism,
    /// The exchange of SCRAM messages went wrong; the server may not know the password itself.
    Scram(io::Error),
}

/// Bytes that make no sense as the cluster's side of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Garbled {
    /// A frame's length cannot be.
    Length(BadLength),
    /// A frame is longer than such a frame may be.
    TooLong {
        /// Its tag.
        tag: u8,
        /// Its length.
        len: usize,
    },
    /// A frame that should not come now.
    Unexpected(u8),
    /// A frame ends before its content does.
    Short(u8),
}

impl ConnectError {
    /// True if the cluster answered, though not to the liking of whoever knocked: an unknown role, a wrong password or
    /// too many connections are between it and them, and cost no query that runs there. One that is still starting up
    /// (57P03) is not there yet.
    pub fn is_there(&self) -> bool {
        match self {
            ConnectError::Refused(said) => &said.sqlstate.0 != b"57P03",
            ConnectError::Authentication(_) | ConnectError::Nobody { .. } => true,
            _ => false,
        }
    }

    /// True if this machine has no files, ports or memory left for a connection, which says nothing of the cluster.
    pub fn is_ours(&self) -> bool {
        match self {
            ConnectError::Unreachable { cause, .. } | ConnectError::Encryption { cause, .. } => is_shortage(cause),
            _ => false,
        }
    }

    /// True if the cluster is well and it is the user, the database or the password that is wrong: no other cluster is
    /// likely to be of another opinion.
    pub fn is_the_clients(&self) -> bool {
        match self {
            ConnectError::Nobody { .. } => true,
            ConnectError::Refused(error) => {
                let code = &error.sqlstate.0;
                code.starts_with(b"28") || code.starts_with(b"3D") || code == b"42501"
            }
            _ => false,
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::Closed => write!(f, "its cluster is going"),
            ConnectError::TimedOut { address, within } => write!(f, "{address} did not answer within {within}"),
            ConnectError::Unreachable { address, cause } => write!(f, "connecting to {address} failed: {cause}"),
            ConnectError::NotEncrypted { address } => write!(f, "{address} does not encrypt, and `tls` wants it to"),
            ConnectError::Encryption { address, cause } => write!(f, "encrypting to {address} failed: {cause}"),
            ConnectError::Nobody { user } => write!(f, "user \"{user}\" is not in its `credentials_file`"),
            ConnectError::Refused(error) => write!(f, "the cluster said: {error}"),
            ConnectError::Authentication(error) => write!(f, "authentication failed: {error}"),
            ConnectError::Garbled(garbled) => write!(f, "the cluster does not speak the Postgres protocol: {garbled}"),
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ConnectError::Unreachable { cause, .. } | ConnectError::Encryption { cause, .. } => Some(cause),
            ConnectError::Authentication(AuthenticationError::Scram(cause)) => Some(cause),
            _ => None,
        }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.sqlstate.code())
    }
}

impl fmt::Display for AuthenticationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AuthenticationError::NoPassword => write!(f, "a password is asked for and none is configured"),
            AuthenticationError::Unsupported(way) => write!(f, "way {way} of the protocol is not supported"),
            AuthenticationError::NoMechanism => write!(f, "SCRAM-SHA-256 is not offered"),
            AuthenticationError::Scram(cause) => write!(f, "SCRAM: {cause}"),
        }
    }
}

impl fmt::Display for Garbled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Garbled::Length(bad) => bad.fmt(f),
            Garbled::TooLong { tag, len } => write!(f, "a message '{}' of {len} bytes", tag.escape_ascii()),
            Garbled::Unexpected(tag) => write!(f, "a message '{}' where none should be", tag.escape_ascii()),
            Garbled::Short(tag) => write!(f, "a message '{}' that ends too early", tag.escape_ascii()),
        }
    }
}
