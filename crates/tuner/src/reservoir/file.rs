//! The reservoir as a file.
//!
//! ```text
//!   "PNCTRSVR"  version (u32)  length (u64)  crc32 (u32)  payload
//!   payload (postcard): zone, limits, seed, shapes, hours (date, hour, count, kept), rows taken by source and hour,
//!                       first and last arrival, refused
//! ```
//!
//! Numbers are little-endian; the checksum is over the payload. Version 1 is the only one: any other is refused with its
//! number, and so is what is damaged or cut off, since it can be made again from history. What a checksum cannot see (a kept
//! query outside its hour, a shape that is not there) is looked for as well: nothing that is read can make a forecast panic.

use std::collections::BTreeMap;
use std::fmt;

use punctual_core::time::{Span, Time};
use serde::{Deserialize, Serialize};

use super::{Bin, Limits, Refused, Reservoir, Shape, ShapeId};
use crate::calendar::{Date, Zone};

const MAGIC: &[u8; 8] = b"PNCTRSVR";

/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// Bytes before the payload.
const HEAD: usize = 8 + 4 + 8 + 4;

/// Why bytes are no reservoir.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// They are something else.
    Foreign,
    /// They are of another version.
    Version(u32),
    /// They are not what was written.
    Damaged(&'static str),
    /// The zone is none that this build knows.
    Zone(String),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Foreign => f.write_str("it is not a reservoir"),
            Unreadable::Version(found) => {
                write!(
                    f,
                    "it has format version {found}; this build reads version {VERSION}; make it again from history"
                )
            }
            Unreadable::Damaged(why) => write!(f, "it is damaged: {why}; make it again from history"),
            Unreadable::Zone(name) => write!(f, "it goes by the zone {name:?}, which this build does not know"),
        }
    }
}

impl std::error::Error for Unreadable {}

#[derive(Serialize)]
struct Written<'a> {
    zone: String,
    limits: Limits,
    seed: u64,
    shapes: &'a [Shape],
    bins: &'a BTreeMap<(Date, u8), Bin>,
    taken: &'a BTreeMap<String, BTreeMap<u32, u64>>,
    first: Option<Time>,
    last: Option<Time>,
    refused: Refused,
}

/// The same fields, in the same order.
#[derive(Deserialize)]
struct Read {
    zone: String,
    limits: Limits,
    seed: u64,
    shapes: Vec<Shape>,
    bins: BTreeMap<(Date, u8), Bin>,
    taken: BTreeMap<String, BTreeMap<u32, u64>>,
    first: Option<Time>,
    last: Option<Time>,
    refused: Refused,
}

impl Reservoir {
    /// Its file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Reservoir { limits, seed, shapes, bins, taken, first, last, refused, .. } = self;
        let (zone, limits, seed) = (self.zone.to_string(), *limits, *seed);
        let (first, last, refused) = (*first, *last, *refused);
        let written = Written { zone, limits, seed, shapes, bins, taken, first, last, refused };
        // It cannot fail: a reservoir is plain numbers and strings.
        let payload = postcard::to_allocvec(&written).unwrap_or_default();
        let mut bytes = Vec::with_capacity(HEAD + payload.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(payload.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&payload).to_le_bytes());
        bytes.extend_from_slice(&payload);
        bytes
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it is none, is of another version, or is not what was written.
    pub fn from_bytes(bytes: &[u8]) -> Result<Reservoir, Unreadable> {
        let payload = payload(bytes)?;
        let read: Read = postcard::from_bytes(payload).map_err(|_| Unreadable::Damaged("its parts do not fit"))?;
        let zone = Zone::named(&read.zone).ok_or_else(|| Unreadable::Zone(read.zone.clone()))?;
        if !read.makes_sense() {
            return Err(Unreadable::Damaged("its numbers make no sense"));
        }
        let Read { limits, seed, shapes, bins, taken, first, last, refused, .. } = read;
        Ok(Reservoir { zone, limits, seed, shapes, bins, taken, first, last, refused })
    }
}

fn payload(bytes: &[u8]) -> Result<&[u8], Unreadable> {
    if bytes.get(..8) != Some(MAGIC.as_slice()) {
        return Err(Unreadable::Foreign);
    }
    let head: [u8; HEAD] = bytes
        .get(..HEAD)
        .and_then(|head| head.try_into().ok())
        .ok_or(Unreadable::Damaged("it ends within its heading"))?;
    let version = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
    if version != VERSION {
        return Err(Unreadable::Version(version));
    }
    let length = u64::from_le_bytes([head[12], head[13], head[14], head[15], head[16], head[17], head[18], head[19]]);
    let payload = &bytes[HEAD..];
    if payload.len() as u64 != length {
        return Err(Unreadable::Damaged("it is shorter or longer than it says"));
    }
    if crc32fast::hash(payload) != u32::from_le_bytes([head[20], head[21], head[22], head[23]]) {
        return Err(Unreadable::Damaged("its checksum is wrong"));
    }
    Ok(payload)
}

impl Read {
    fn makes_sense(&self) -> bool {
        let is_shape = |id: ShapeId| id == ShapeId::UNNAMED || (id.0 as usize) < self.shapes.len();
        let (earliest, latest) = (Date::parse("1970-01-01"), Date::parse("9999-12-31"));
        let sound = |(key, bin): (&(Date, u8), &Bin)| {
            let there = Some(key.0) >= earliest && Some(key.0) <= latest && key.1 < 24;
            let within = |kept: &super::Kept| kept.offset() < Span::from_secs(86_400) && is_shape(kept.shape);
            there && bin.count >= bin.kept.len() as u64 && bin.kept.is_sorted() && bin.kept.iter().all(within)
        };
        let Limits { days, queries, shapes } = self.limits;
        let limited = days > 0 && queries > 0 && self.shapes.len() <= shapes as usize;
        let ordered = self.first <= self.last && self.first.is_some() == self.last.is_some();
        limited && ordered && self.bins.values().all(|bin| bin.count > 0) && self.bins.iter().all(sound)
    }
}
