//! The front door: clients come in with the Postgres wire, and go out with their rows.
//!
//! ```text
//!        startup, authenticate      unit             plan           replies
//!   client ──▶ hello ──▶ session ──▶ one unit ──▶ frames out ──▶ cluster ──▶ frames back ──▶ client
//!                          │  ▲
//!                  Arrived ▼  │ Run
//!                           driver
//! ```
//!
//! A session decides nothing: it says what came, is told where it runs, and relays. What it has to understand of SQL
//! ([`reading`]) is what a statement does to its session; what it has to understand of the protocol is cut into state
//! machines without I/O ([`unit`], [`plan`], [`replies`], [`standing`]), which the rest (`session`, `query`,
//! `relaying`, `pump`) moves bytes through.
//!
//! Sessions share connections to clusters. What makes that invisible:
//! - prepared statements belong to the session and are prepared again where they are missing;
//! - variables that were SET are set again where they differ (`RESET ALL` first, if the connection has others);
//! - a transaction holds its connection until it ends; temporary tables, LISTEN, PREPARE, cursors WITH HOLD, advisory
//!   locks and `set_config` hold it for good, and the client gets a notice that says so.

mod authenticate;
pub mod bearing;
mod blocked;
mod cancelling;
mod client;
mod configs;
mod degraded;
mod explaining;
pub mod frames;
mod guard;
mod imagined;
mod in_force;
mod knocking;
mod listener;
pub mod local;
pub mod messages;
mod parameters;
pub mod plan;
pub mod problem;
mod pump;
mod query;
mod ranges;
pub mod reading;
mod relaying;
pub mod replies;
mod session;
mod shared;
pub mod skeleton;
pub mod standing;
pub mod startup;
pub mod statements;
pub mod survey;
mod table;
pub mod unit;
pub mod words;

pub use guard::Guard;
pub(crate) use imagined::{Asked, Imagined, reason, rule_text, treated};
pub use in_force::{InForce, Rules};
pub(crate) use listener::Visit;
pub use listener::serve;
#[doc(hidden)]
pub use listener::serve_one;
pub use problem::Problem;
pub(crate) use ranges::TimeRanges;
pub(crate) use shared::Foresight;
pub use shared::Shared;
pub use startup::Hello;
pub use table::{AnswerError, Answers};
