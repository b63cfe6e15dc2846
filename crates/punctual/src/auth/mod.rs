//! Who clients are: what users prove themselves by, the proof, and what becomes of those who fail it.
//!
//! ```text
//!   users_file ──▶ Users ── verifier, or a mock one ──▶ scram ──▶ in, or Attempts count one more
//! ```
//!
//! Nothing here reads a socket or a clock. A password is never here at all: what is kept proves that someone knows it
//! (RFC 5802), and is still shown nowhere.

pub mod attempts;
pub mod credentials;
pub mod lines;
pub mod private;
pub mod scram;
pub mod tokens;
pub mod users;
pub mod verifier;
