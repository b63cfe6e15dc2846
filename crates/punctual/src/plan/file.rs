//! The file of a plan, as `punctual plan` writes it: the plan itself, and beside it the evidence that it stands on, which is for
//! people and is not read here.
//!
//! ```text
//!   {"format": 1, "plan": {"from": …, "until": …, "fleet": […], "spinups": […], "knobs": {…}, "made_for": …}, …}
//! ```
//!
//! A plan is known by its file: its id is the beginning of the SHA-256 of all the bytes, evidence included.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use punctual_core::id::PlanId;
use punctual_core::plan::Plan;
use ring::digest::{SHA256, digest};
use serde::Deserialize;

/// The format that is read.
pub const FORMAT: u32 = 1;

/// The largest file, in bytes: its evidence may be long.
pub const LARGEST: u64 = 16 << 20;

/// Why a file is no plan.
#[derive(Debug)]
pub enum PlanFileError {
    /// It cannot be read.
    Unreadable(PathBuf, io::Error),
    /// It is larger than [`LARGEST`].
    TooLarge(PathBuf),
    /// It is no JSON, or something is missing or makes no sense.
    Wrong(serde_json::Error),
    /// It is of another format.
    OtherFormat(u32),
}

impl fmt::Display for PlanFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanFileError::Unreadable(path, cause) => write!(f, "{}: {cause}", path.display()),
            PlanFileError::TooLarge(path) => write!(f, "{}: larger than {} MiB", path.display(), LARGEST >> 20),
            PlanFileError::Wrong(cause) => write!(f, "this is no plan: {cause}; make one with punctual plan"),
            PlanFileError::OtherFormat(format) => {
                write!(f, "this is a plan of format {format}, and {FORMAT} is read: make it again with this version")
            }
        }
    }
}

impl std::error::Error for PlanFileError {}

#[derive(Deserialize)]
struct Format {
    format: u32,
}

#[derive(Deserialize)]
struct Written {
    plan: Plan,
}

/// The plan that these bytes are the file of.
///
/// # Errors
/// If they are not.
pub fn parse(bytes: &[u8]) -> Result<Plan, PlanFileError> {
    let Format { format } = serde_json::from_slice(bytes).map_err(PlanFileError::Wrong)?;
    if format != FORMAT {
        return Err(PlanFileError::OtherFormat(format));
    }
    let Written { plan } = serde_json::from_slice(bytes).map_err(PlanFileError::Wrong)?;
    Ok(Plan { id: id(bytes), ..plan })
}

/// Reads a plan's file.
///
/// # Errors
/// If it cannot be read or is none.
pub fn read(path: &Path) -> Result<Plan, PlanFileError> {
    parse(&bytes(path)?)
}

/// The bytes of a file, if it is no larger than one may be.
///
/// # Errors
/// If it is, or cannot be read.
pub fn bytes(path: &Path) -> Result<Vec<u8>, PlanFileError> {
    let unreadable = |cause| PlanFileError::Unreadable(path.to_owned(), cause);
    let mut bytes = Vec::new();
    fs::File::open(path).map_err(unreadable)?.take(LARGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > LARGEST { Err(PlanFileError::TooLarge(path.to_owned())) } else { Ok(bytes) }
}

fn id(bytes: &[u8]) -> PlanId {
    let hash = digest(&SHA256, bytes);
    PlanId(hash.as_ref().iter().take(8).fold(0, |id, byte| id << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::id::Units;
    use punctual_core::plan::Knobs;
    use punctual_core::policy::Policy;
    use punctual_core::time::Time;
    use serde_json::json;

    #[test]
    fn what_is_written_reads_back_and_is_known_by_its_bytes() {
        let day = Time::from_micros(86_400_000_000);
        let knobs = Knobs::of(&Policy::default());
        let (from, until, fleet) = (Time::ZERO, day, vec![Units(4)]);
        let plan = Plan { id: PlanId(0), from, until, fleet, spinups: Vec::new(), knobs, made_for: u64::MAX };
        let text = json!({ "format": 1, "plan": plan, "evidence": [1, 2] }).to_string();
        let read = parse(text.as_bytes()).unwrap();
        assert_eq!(Plan { id: PlanId(0), ..read.clone() }, plan);
        assert_ne!(parse((text + " ").as_bytes()).unwrap().id, read.id);
        assert_eq!(id(b"abc").to_string(), "ba7816bf8f01cfea");
    }

    #[test]
    fn what_is_no_plan_says_what_is_wrong() {
        let wrong = |text: &str| parse(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(
            wrong("{\"format\": 2, \"plan\": 7}"),
            "this is a plan of format 2, and 1 is read: make it again with this version"
        );
        assert!(wrong("{\"format\": 1}").contains("missing field `plan`"));
        assert!(wrong("nonsense").contains("line 1 column"));
        assert!(read(Path::new("/nowhere/plan.json")).unwrap_err().to_string().starts_with("/nowhere/plan.json: "));
    }
}
