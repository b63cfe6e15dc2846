//! The gateway: everything around the decisions.
//!
//! Nothing in here decides. Configuration becomes settings, sockets become events, commands become I/O; the
//! [`Dispatcher`](punctual_core::Dispatcher) in between is the same that the simulator runs.

pub mod door;
pub mod link;
pub mod relay;
pub mod settings;
