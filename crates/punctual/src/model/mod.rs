//! Models outside the decisions: files of them, and the history that they are learnt from.

pub(crate) mod absent;
pub mod file;
pub mod pattern;
pub mod renewal;
pub mod report;
pub mod seen;
pub mod unfinished;
