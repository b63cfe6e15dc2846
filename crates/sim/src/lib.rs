//! Punctual's simulator: workloads and worlds for the dispatcher that runs live.

pub mod workload;
pub mod world;
