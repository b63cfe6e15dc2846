//! The journal: what happened and what was decided, so that any decision can be made again.
//!
//! ```text
//!   journal-0000000041.seg   header, model, checkpoint, (now, event, commands) …, end: continued
//!   journal-0000000042.seg   header, model, checkpoint, (now, event, commands) …
//! ```
//!
//! A segment opens with the whole state of the dispatcher (which holds the policy) and the model in force, and a model
//! that is adopted stands before the event that says so; so each can be [replayed](replay)
//! without the ones before it, and the oldest can go when the bound is reached. The dispatcher is exact only within one
//! build: a segment names its build, and another build refuses it.
//!
//! Writing never holds the driver up. When the queue is full or the disk fails, triples are dropped and counted; the
//! segment ends with a gap that it tells of, and the next one begins with a new checkpoint. A torn end, as after a
//! kill, costs what was not written yet, and a replay that finds anything else missing or damaged fails. Queries' texts, users and secrets are in no event, and so not in here.
//!
//! The format is version [`VERSION`]; any other is refused with its number.

mod replay;
mod segment;
mod writer;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

pub use crate::record::error::FileError;
pub use replay::{Disagreement, Fault, Replay, Replayed, Segment, Turn, Verdict, replay, replay_watched};
pub use segment::Ending;
pub use writer::{Begun, Counts, Opening, Writer};

/// The version of the segments that are written, and the only one that is read.
pub const VERSION: u32 = 3;

/// Why a journal cannot be written or replayed.
#[derive(Debug)]
pub enum JournalError {
    /// The operating system says no.
    Io(FileError),
    /// Another writer has the directory.
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// No segment is there.
    NoJournal {
        /// The directory.
        dir: PathBuf,
    },
    /// The file is no segment of a journal.
    NotJournal {
        /// The file.
        file: PathBuf,
    },
    /// Written in a format of another version.
    Version {
        /// The file.
        file: PathBuf,
        /// Its version.
        found: u32,
    },
    /// Decided by another build, which may decide otherwise.
    Build {
        /// The file.
        file: PathBuf,
        /// Its build.
        theirs: String,
        /// The build that was to replay it.
        ours: String,
    },
    /// The file ends before the segment has begun: its writer was killed in that moment.
    Unbegun {
        /// The file.
        file: PathBuf,
    },
    /// The header or the checkpoint is missing or damaged, so nothing of the segment can be replayed.
    NoStart {
        /// The file.
        file: PathBuf,
        /// Which of the two.
        missing: &'static str,
    },
}

impl JournalError {
    fn io(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> JournalError + use<> {
        let failed = FileError::of(doing, path);
        move |cause| JournalError::Io(failed(cause))
    }
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalError::Io(error) => error.fmt(f),
            JournalError::InUse { dir } => write!(f, "another gateway writes its journal to {}", dir.display()),
            JournalError::NoJournal { dir } => write!(f, "there is no journal in {}", dir.display()),
            JournalError::NotJournal { file } => write!(f, "{} is no segment of a journal", file.display()),
            JournalError::Version { file, found } => {
                write!(f, "{} has format version {found}; this build reads version {VERSION}", file.display())
            }
            JournalError::Build { file, theirs, ours } => {
                let file = file.display();
                write!(f, "{file} was written by build {theirs}; this is {ours}, which may decide otherwise")
            }
            JournalError::Unbegun { file } => {
                write!(f, "{}: it ends before its header and checkpoint do", file.display())
            }
            JournalError::NoStart { file, missing } => {
                write!(f, "{}: its {missing} is missing or damaged", file.display())
            }
        }
    }
}

impl From<FileError> for JournalError {
    fn from(error: FileError) -> JournalError {
        JournalError::Io(error)
    }
}

impl std::error::Error for JournalError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            JournalError::Io(error) => error.source(),
            _ => None,
        }
    }
}

/// As its text.
impl Serialize for JournalError {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}
