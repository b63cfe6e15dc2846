//! What history and journal are written with: checksummed frames, a file that is appended to and may fail softly, a
//! bounded queue, and the thread that writes what is in it.

pub(crate) mod append;
pub(crate) mod error;
pub(crate) mod frame;
pub(crate) mod queue;
pub(crate) mod thread;

#[cfg(test)]
pub(crate) mod logged;
