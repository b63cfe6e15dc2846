//! The measurements of AutoSLO's sections 8.4 to 8.6, against the simulated warehouse.
//!
//! ```text
//!   lessons   the world's own workloads, other seeds ──▶ model        (the predictor never sees the world itself)
//!   settings  λ × κ × clusters × policy × seed ──▶ run ──▶ violation rate, cost
//! ```
//!
//! The paper's simulator takes its own predictor for the truth, and is very hopeful (5.4 % violations simulated where 33 %
//! were measured live). Here the warehouse shares nothing with the predictor: it sees work, the predictor sees latencies.
//!
//! Of fleets ([`fleet`]): those of the TABS paper.
//!
//! Beside the papers': what lanes and fair queues are worth ([`laning`], [`fairness`]), in the same warehouse.

pub mod compare;
pub mod fairness;
pub(crate) mod fleet;
pub mod laning;
pub mod lessons;
pub mod run;
pub mod settings;
pub mod tomorrow;
pub mod workers;
