//! Punctual's simulator: workloads and worlds for the same dispatcher that runs live.
//!
//! ```text
//!   workload ──▶ world ──events──▶ Dispatcher ──commands──▶ world ──▶ …        run ──▶ outcome
//! ```
//!
//! - [`workload`]: what arrives, and when
//! - [`world`]: what stands in for clients, engines and providers
//! - [`run`](mod@run): the loop; [`outcome`]: what came of it
//! - [`rehearsal`]: a workload under one policy, with its fleet, in detail
//! - [`journal`]: the same events again, from a checkpoint
//! - [`study`]: what starting a cluster would change
//! - [`calibration`]: the simulated warehouse against measurements
//! - [`fleet`]: many like servers that turn on and off by tokens, a million of them, and the theory beside them
//! - [`scenario`]: thousands of small random runs, with everything checked that must hold
//!
//! A run is a function of its seeds: no clock, no entropy, no iteration in an order that differs.

pub mod agenda;
pub mod calibration;
pub mod fleet;
pub mod journal;
mod life;
pub mod outcome;
pub mod rehearsal;
pub mod run;
pub mod scenario;
pub mod study;
pub mod workload;
pub mod world;

pub use outcome::Outcome;
pub use run::{Run, Step, run};
pub use world::{Conditions, World};
