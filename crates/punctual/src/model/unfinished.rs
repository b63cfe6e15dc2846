//! A training that was interrupted, as a file beside the model that it is to make.
//!
//! ```text
//!   "PNCTTRNG"  crc32 (u32)  origin (u64)  postcard of what was left
//! ```
//!
//! The checksum is over all behind it. The origin is a hash of what the training depends on: history, options and build.
//! What was left is of use to the same training only.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use punctual_learn::fit::Settings;
use punctual_learn::learning::{Options, Unfinished};
use punctual_learn::observation::Observation;

use crate::history::Key;
use crate::whole;

const MAGIC: &[u8; 8] = b"PNCTTRNG";

/// The largest file that is read: far above any that is written.
const LARGEST: u64 = 1 << 30;

/// Why a training cannot be gone on with.
#[derive(Debug)]
pub enum UnfinishedError {
    /// The file cannot be read.
    Io(PathBuf, io::Error),
    /// It is not what was written.
    Damaged(PathBuf),
    /// It is of another training.
    Other(PathBuf),
}

impl fmt::Display for UnfinishedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnfinishedError::Io(path, cause) => write!(f, "cannot read {}: {cause}", path.display()),
            UnfinishedError::Damaged(path) => write!(f, "{} is damaged; train without --resume", path.display()),
            UnfinishedError::Other(path) => write!(
                f,
                "{} is of a training with another history, other options or another build; train without --resume",
                path.display()
            ),
        }
    }
}

impl std::error::Error for UnfinishedError {}

/// The file of a model's training.
pub fn path(model: &Path) -> PathBuf {
    whole::beside(model, ".training")
}

/// A hash of all that a training depends on.
pub fn origin(observations: &[Observation], options: &Options) -> u64 {
    let chained = |hash: u64, said: String| Key::PUBLIC.hash(format!("{hash:016x}{said}").as_bytes());
    // Threads change nothing.
    let options = Options { settings: Settings { threads: 1, ..options.settings }, ..*options };
    let begin = chained(0, format!("{} {} {options:?}", punctual_core::BUILD, env!("CARGO_PKG_VERSION")));
    observations.iter().fold(begin, |hash, seen| chained(hash, format!("{seen:?}")))
}

/// Writes what was left, over what is there.
///
/// # Errors
/// If it cannot be written; what was there stays then.
pub fn write(path: &Path, origin: u64, left: &Unfinished) -> io::Result<()> {
    let body = postcard::to_extend(left, origin.to_le_bytes().to_vec()).map_err(io::Error::other)?;
    whole::write(path, &[MAGIC.as_slice(), &crc32fast::hash(&body).to_le_bytes(), &body].concat())
}

/// Reads what was left; None if there is nothing.
///
/// # Errors
/// If it cannot be read, is damaged, or is of another training.
pub fn read(path: &Path, origin: u64) -> Result<Option<Unfinished>, UnfinishedError> {
    let io = |cause| UnfinishedError::Io(path.to_owned(), cause);
    let damaged = || UnfinishedError::Damaged(path.to_owned());
    match fs::metadata(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(io(cause)),
        Ok(metadata) if metadata.len() > LARGEST => return Err(damaged()),
        Ok(_) => {}
    }
    let bytes = fs::read(path).map_err(io)?;
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(damaged)?;
    let (crc, body) = rest.split_first_chunk::<4>().ok_or_else(damaged)?;
    let (found, left) = body.split_first_chunk::<8>().ok_or_else(damaged)?;
    if u32::from_le_bytes(*crc) != crc32fast::hash(body) {
        return Err(damaged());
    }
    if u64::from_le_bytes(*found) != origin {
        return Err(UnfinishedError::Other(path.to_owned()));
    }
    postcard::from_bytes(left).map(Some).map_err(|_| damaged())
}
