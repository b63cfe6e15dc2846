//! Fleets of like servers at scale, beside what theory says of them.
//!
//! ```text
//!   Setting ──▶ lean::run ──▶ Outcome          the same load, service and rates ──▶ fluid: curves
//! ```
//!
//! A million servers need no clients, classes or bills: [`lean`] drives the token book of `punctual_core::fleet` and the
//! servers' queues directly, a few dozen bytes a server. The dispatcher's choices are core's own (`Tokens::place`), on
//! core's own stream of random numbers. Time is in mean service times.
//!
//! - [`setting`]: what is run; [`load`], [`service`], [`phases`]: what arrives, how long it takes
//! - [`lean`]: the loop; its parts are queues, lengths, timers and the meter
//! - [`outcome`]: what came of a run
//! - [`fluid`]: the limit for many servers, as differential equations

pub mod fluid;
pub mod lean;
mod lengths;
pub mod load;
mod meter;
pub mod outcome;
pub mod phases;
mod queues;
pub mod service;
pub mod setting;
mod timers;
mod wheel;

pub use fluid::Fluid;
pub use lean::{Watch, run, seed_of};
pub use load::Load;
pub use outcome::{Outcome, Sample};
pub use phases::PhaseType;
pub use service::ServiceTime;
pub use setting::{Arrivals, Delay, Power, Scheme, Setting, Start, Wrong};
