//! Every decision of Punctual, and nothing else.
//!
//! The crate reads no clock, no entropy, no file, no socket and no environment; it does not wait and it does not fail.
//! Time and chance come in as arguments, so that what a simulation did, the gateway does, and what the gateway did, a
//! journal replays. [`Dispatcher`] is the whole of it; the other modules are its parts, in reading order:
//!
//! - what things are: [`time`], [`rng`], [`math`], [`id`], [`statement`], [`fingerprint`], [`tag`], [`query`],
//!   [`class`], [`cluster`], [`billing`], [`tally`]
//! - what is said: [`event`]
//! - what governs: [`policy`], and for a day [`plan`]
//! - what is expected: [`predict`]
//! - how much of time a query reads: [`scan`]
//! - what is decided: [`route`], [`dispatcher`]
//! - what fleets of like servers go by: [`fleet`]
//! - what is shown and what must hold: [`view`], [`check`]

pub mod admit;
pub mod billing;
pub mod check;
pub mod class;
pub mod cluster;
pub mod dispatcher;
pub mod event;
pub mod fingerprint;
pub mod fleet;
pub mod id;
mod lexemes;
pub mod math;
pub mod mode;
mod named;
pub mod plan;
pub mod policy;
pub mod predict;
pub mod query;
pub mod rng;
pub mod route;
pub mod scale;
pub mod scan;
pub mod statement;
pub mod tag;
pub mod tally;
pub mod time;
pub mod view;

pub use dispatcher::Dispatcher;
pub use event::{Command, Event};
pub use policy::Policy;
pub use time::{Span, Time};

/// Which decisions these are: the version and a hash over the crate's sources. A journal of another build is refused.
pub const BUILD: &str = env!("PUNCTUAL_BUILD");
