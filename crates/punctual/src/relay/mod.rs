//! Connections to clusters.
//!
//! ```text
//!   session ──▶ Pool ── lease ──▶ Lease ──▶ Connection ──▶ cluster
//!                 ▲                 │
//!                 └─── give_back ───┘   only if it is idle, whole and was never sent a cancel
//! ```
//!
//! Every cluster speaks the Postgres wire. A connection is started and authenticated here; what passes over it later
//! is whole frames that nobody decodes. One whose state is not known is closed, never used again: that is how a client
//! never sees another query's rows.

pub(crate) mod alive;
pub(crate) mod asking;
pub mod buffer;
pub mod carried;
mod connection;
mod error;
pub mod frames;
mod pool;
mod socket;
mod startup;
mod tending;
mod types;

pub use connection::{CancelKey, Connection, ServerFacts, cancel};
pub use error::{AuthenticationError, ConnectError, Garbled, ServerError};
pub use pool::{Lease, Pool};
pub use socket::Socket;
pub use startup::probe;
pub(crate) use startup::{CANCEL_REQUEST, PROTOCOL, sqlstate};
pub use tending::tend;
pub use types::KnownTypes;
