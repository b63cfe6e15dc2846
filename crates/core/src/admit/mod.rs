//! Which query may run next: the terms of classes, priorities, lanes and fair queues (Druid's laning, with what its users
//! asked for).
//!
//! ```text
//!   query ──▶ class ──▶ priority ──▶ lane ──▶ queue: lanes ▸ classes ▸ users ──(room: class, lane, gateway, cluster)──▶ route
//!             terms     asked, or     by name,          whoever has used least for its share
//!                       thresholds    or below zero
//! ```
//!
//! All of it is off by default: then there is one queue, and the oldest goes first.

pub mod claim;
pub(crate) mod counts;
pub mod gradient;
pub mod lanes;
pub(crate) mod queue;
pub mod terms;
pub(crate) mod usage;

pub use queue::Order;
