//! The system's entropy, for secrets. Without opening a file: there may be none left.

use std::io;

use ring::rand::{SecureRandom, SystemRandom};

/// Bytes that nobody can guess.
///
/// # Errors
/// If the system gives none.
pub(crate) fn secret<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    match SystemRandom::new().fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(_) => Err(io::Error::other("the system gives no random numbers")),
    }
}
