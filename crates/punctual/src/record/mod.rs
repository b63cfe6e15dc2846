//! What history and journal are written with: checksummed frames, a file that is appended to and may fail softly, and a
//! bounded queue to the thread that writes.

pub(crate) mod append;
pub(crate) mod frame;
pub(crate) mod queue;
