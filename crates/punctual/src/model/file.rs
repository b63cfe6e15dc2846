//! A model as a file.
//!
//! ```text
//!   "PNCTMODL"  version (u32)  length (u64)  crc32 (u32)  payload (postcard: facts, then parts)
//! ```
//!
//! Numbers are little-endian. The checksum is over the payload. What is damaged, cut off, of another version or no model
//! at all is refused with the reason: a wrong prediction is worse than none. Any other version than
//! this one is refused with its number: the model is trained again. A file appears whole or not at all.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use punctual_core::id::ModelId;
use punctual_core::predict::model::{Model, ModelError, Parts};
use serde::{Deserialize, Serialize};

use crate::history::Key;
use crate::whole;

const MAGIC: &[u8; 8] = b"PNCTMODL";

/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 2;

/// Bytes before the payload.
const HEAD: usize = 8 + 4 + 8 + 4;

/// The largest file that is read: far above any model that is made.
const LARGEST: u64 = 256 << 20;

/// How a model came about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// The build that made it.
    pub build: String,
    /// Queries that it learnt from.
    pub queries: u64,
    /// Of these, isolated runs.
    pub isolated: u64,
    /// The newest arrival among them, microseconds since the Unix epoch.
    pub newest: u64,
    /// What it stands on: `network`, `stage`, `medians`.
    pub kind: String,
    /// Passes over them.
    pub epochs: u32,
    /// What chance began with.
    pub seed: u64,
    /// How what it was measured on was set aside.
    pub split: String,
}

/// Why a model cannot be read or written.
#[derive(Debug)]
pub enum FileError {
    /// The operating system says no.
    Io {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// It is something else.
    Foreign(PathBuf),
    /// It is of another version.
    Version(PathBuf, u32),
    /// It is not what was written.
    Damaged(PathBuf, &'static str),
    /// Its numbers make no sense.
    Model(PathBuf, ModelError),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::Io { doing, path, cause } => write!(f, "cannot {doing} {}: {cause}", path.display()),
            FileError::Foreign(path) => write!(f, "{} is not a model", path.display()),
            FileError::Version(path, found) => {
                write!(f, "{} has format version {found}; this build reads version {VERSION}", path.display())
            }
            FileError::Damaged(path, why) => write!(f, "{} is damaged: {why}; train it again", path.display()),
            FileError::Model(path, cause) => write!(f, "{} makes no sense: {cause}; train it again", path.display()),
        }
    }
}

impl std::error::Error for FileError {}

/// The bytes of a model's file.
pub fn to_bytes(model: &Model, facts: &Facts) -> Vec<u8> {
    let payload = postcard::to_allocvec(&(facts, model.parts())).expect("a model is plain numbers");
    let mut bytes = Vec::with_capacity(HEAD + payload.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&payload).to_le_bytes());
    bytes.extend_from_slice(&payload);
    bytes
}

/// Says beforehand why a model could not be written to `path`, so that nobody learns for an hour in vain.
///
/// # Errors
/// If it could not.
pub fn check(path: &Path) -> Result<(), FileError> {
    whole::check(path).map_err(|cause| FileError::Io { doing: "write", path: path.to_owned(), cause })
}

/// Writes a model to `path`, over what is there.
///
/// # Errors
/// If it cannot be written; what was there stays then.
pub fn write(path: &Path, model: &Model, facts: &Facts) -> Result<(), FileError> {
    let io = |cause| FileError::Io { doing: "write", path: path.to_owned(), cause };
    whole::write(path, &to_bytes(model, facts)).map_err(io)
}

/// A model that was read, with the bytes that it was read from.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The hash of those bytes.
    pub id: ModelId,
    /// The model.
    pub model: Arc<Model>,
    /// How it came about.
    pub facts: Facts,
    /// Its file.
    pub bytes: Arc<[u8]>,
}

/// Reads a model.
///
/// # Errors
/// If it is not there, not a model, of another version, damaged, or makes no sense.
pub fn read(path: &Path) -> Result<(Model, Facts), FileError> {
    from_bytes(path, &bytes_of(path)?)
}

/// Reads a model to be put in force.
///
/// # Errors
/// As [`read`].
pub fn open(path: &Path) -> Result<Opened, FileError> {
    let bytes = bytes_of(path)?;
    let (model, facts) = from_bytes(path, &bytes)?;
    Ok(Opened { id: ModelId(Key::PUBLIC.hash(&bytes)), model: Arc::new(model), facts, bytes: bytes.into() })
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, FileError> {
    let io = |cause| FileError::Io { doing: "read", path: path.to_owned(), cause };
    let metadata = fs::metadata(path).map_err(io)?;
    if metadata.len() > LARGEST {
        return Err(FileError::Foreign(path.to_owned()));
    }
    fs::read(path).map_err(io)
}

/// Reads the bytes of a model's file; `path` is where they are said to be from.
///
/// # Errors
/// If they are no model, of another version, damaged, or make no sense.
pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<(Model, Facts), FileError> {
    let damaged = |why| FileError::Damaged(path.to_owned(), why);
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        let cut = !bytes.is_empty() && MAGIC.starts_with(bytes);
        return Err(if cut { damaged("it is cut off") } else { FileError::Foreign(path.to_owned()) });
    };
    let Some((version, rest)) = rest.split_first_chunk::<4>() else { return Err(damaged("it is cut off")) };
    let version = u32::from_le_bytes(*version);
    if version != VERSION {
        return Err(FileError::Version(path.to_owned(), version));
    }
    let Some((length, rest)) = rest.split_first_chunk::<8>() else { return Err(damaged("it is cut off")) };
    let Some((crc, payload)) = rest.split_first_chunk::<4>() else { return Err(damaged("it is cut off")) };
    if u64::from_le_bytes(*length) != payload.len() as u64 {
        return Err(damaged("it is not as long as it says"));
    }
    if u32::from_le_bytes(*crc) != crc32fast::hash(payload) {
        return Err(damaged("its checksum is wrong"));
    }
    let (facts, parts): (Facts, Parts) =
        postcard::from_bytes(payload).map_err(|_| damaged("it does not read as a model"))?;
    let model = Model::new(parts).map_err(|cause| FileError::Model(path.to_owned(), cause))?;
    Ok((model, facts))
}

#[cfg(test)]
mod tests {
    use punctual_core::predict::net::{Layout, Shape};
    use punctual_core::predict::stage::Stage;

    use super::*;

    fn model() -> (Model, Facts) {
        let total = Layout::of(Shape { known: 0, hidden: 16 }).total();
        let weights = (0..total).map(|at| at as f32 / 1e4).collect();
        let parts = Parts { stage: Stage::default(), known: vec![], hidden: 16, weights, spread_scales: [1.0, 0.9] };
        let (build, split) = ("b".to_owned(), "time".to_owned());
        let facts =
            Facts { build, queries: 9, isolated: 3, newest: 1, kind: "network".into(), epochs: 2, seed: 7, split };
        (Model::new(parts).unwrap(), facts)
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.model");
        let (model, facts) = model();
        write(&path, &model, &facts).unwrap();
        let (again, said) = read(&path).unwrap();
        assert_eq!((again.parts(), said), (model.parts(), facts));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn every_damaged_byte_and_every_cut_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.model");
        let (model, facts) = model();
        let good = to_bytes(&model, &facts);
        let places = (0..HEAD + 40).chain((HEAD + 40..good.len()).step_by(997));
        for at in places {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            fs::write(&path, &bad).unwrap();
            assert!(read(&path).is_err(), "byte {at}");
            fs::write(&path, &good[..at]).unwrap();
            assert!(read(&path).is_err(), "cut at {at}");
        }
        fs::write(&path, [good.as_slice(), b"!"].concat()).unwrap();
        let text = read(&path).unwrap_err().to_string();
        assert!(text.contains("not as long as it says") && text.contains("m.model"), "{text}");
    }

    #[test]
    fn other_files_and_versions_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let said = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            read(&path).unwrap_err().to_string()
        };
        assert!(said(b"hello, world").ends_with("x is not a model"));
        assert!(said(b"").ends_with("x is not a model"));
        assert!(said(b"PNCT").contains("cut off"));
        assert!(said(b"PNCTMODL\x09\0\0\0").contains("format version 9; this build reads version 2"));
        let absent = read(&dir.path().join("absent")).unwrap_err().to_string();
        assert!(absent.contains("cannot read") && absent.contains("absent"), "{absent}");
        let (model, facts) = model();
        assert!(
            write(&dir.path().join("no/m.model"), &model, &facts).unwrap_err().to_string().contains("cannot write")
        );
    }
}
