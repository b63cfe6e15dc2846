//! The gateway: everything around the decisions.
//!
//! Nothing in here decides. Configuration becomes settings, sockets become events, commands become I/O; the
//! [`Dispatcher`](punctual_core::Dispatcher) in between is the same that the simulator runs.

pub mod auth;
pub mod catalog;
mod chance;
pub mod cli;
pub mod clock;
pub mod config;
pub mod demo;
pub mod door;
pub mod driver;
pub mod experiment;
mod figure;
pub mod files;
pub mod gateway;
pub mod history;
pub mod http;
mod import;
pub mod journal;
pub mod link;
pub mod mailbox;
pub mod metrics;
pub mod model;
mod patient;
pub mod plan;
pub mod plans;
pub mod prepare;
mod print;
pub mod provider;
mod record;
pub mod relay;
pub mod reload;
pub mod settings;
pub mod tls;
mod whole;
