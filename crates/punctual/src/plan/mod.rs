//! Plans of days: their files, and who makes one every day. How one is followed is up to the dispatcher
//! ([`punctual_core::plan`]).

pub mod file;
pub mod nightly;
