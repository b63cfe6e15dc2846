//! The simulator's stand-in for engines and providers.

pub mod sharing;
