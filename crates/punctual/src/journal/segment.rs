//! What a segment consists of. Each frame's first byte says what it is; the rest is postcard.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use punctual_core::Dispatcher;
use punctual_core::event::{Command, Event};
use punctual_core::id::ModelId;
use punctual_core::time::Time;
use serde::{Deserialize, Serialize};

use super::VERSION;
use crate::record::frame::{self, Format};

/// What a segment begins with.
pub(crate) const FORMAT: Format = Format { magic: *b"PNCTJRNL", version: VERSION, oldest: VERSION };

const HEADER: u8 = 1;
/// A piece of the checkpoint; more follow.
const CHECKPOINT_PIECE: u8 = 2;
/// The last piece of the checkpoint.
const CHECKPOINT: u8 = 3;
const TRIPLE: u8 = 4;
const END: u8 = 5;
/// A model, as its file has it, before the first event that needs it.
const MODEL: u8 = 6;

/// How much of a checkpoint is in one frame.
const PIECE: usize = 8 << 20;

/// The first frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// Which segment of its directory this is.
    pub(crate) sequence: u64,
    pub(crate) build: String,
    pub(crate) seed: u64,
    pub(crate) model: String,
    /// When its writer started: segments of two starts do not continue each other.
    pub(crate) started: Time,
}

/// How a segment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// The next segment goes on where this one ends.
    Continued,
    /// Events are missing between this segment and the next.
    Gap {
        /// How many.
        dropped: u64,
    },
    /// The gateway ended.
    Closed,
    /// It does not say: the gateway was killed, or still runs.
    Unsaid,
}

/// A frame, read.
pub(crate) enum Piece<'a> {
    Header(Header),
    Checkpoint {
        bytes: &'a [u8],
        last: bool,
    },
    Model(ModelId, &'a [u8]),
    /// The commands stay bytes: that is how they are compared.
    Triple {
        now: Time,
        event: Event,
        commands: &'a [u8],
    },
    End(Ending),
}

/// Appends the frames that open a segment: `model` is the payload of the model in force.
pub(crate) fn open(out: &mut Vec<u8>, header: &Header, model: Option<&[u8]>, checkpoint: &[u8]) {
    let _ = append(out, HEADER, header);
    if let Some(model) = model {
        frame::append(out, model);
    }
    let mut pieces = checkpoint.chunks(PIECE).peekable();
    while let Some(piece) = pieces.next() {
        let kind = if pieces.peek().is_some() { CHECKPOINT_PIECE } else { CHECKPOINT };
        frame::append(out, &[&[kind], piece].concat());
    }
}

/// Appends the frame that ends a segment.
pub(crate) fn end(out: &mut Vec<u8>, ending: Ending) {
    let _ = append(out, END, &ending);
}

fn append(out: &mut Vec<u8>, kind: u8, value: &impl Serialize) -> bool {
    postcard::to_extend(value, vec![kind]).is_ok_and(|payload| frame::append(out, &payload))
}

/// The payload of a triple's frame.
#[cfg(test)]
pub(crate) fn triple(now: Time, event: &Event, commands: &[Command]) -> Option<Vec<u8>> {
    triple_of(beginning(now, event)?, commands)
}

/// The first two thirds of a triple's payload.
pub(crate) fn beginning(now: Time, event: &Event) -> Option<Vec<u8>> {
    let mut payload = Vec::with_capacity(256);
    payload.push(TRIPLE);
    postcard::to_extend(&(now, event), payload).ok()
}

/// A triple's payload, of which that is the beginning.
pub(crate) fn triple_of(beginning: Vec<u8>, commands: &[Command]) -> Option<Vec<u8>> {
    postcard::to_extend(commands, beginning).ok()
}

/// The payload of a model's frame: its id, then its file.
pub(crate) fn model(id: ModelId, bytes: &[u8]) -> Vec<u8> {
    [&[MODEL], id.0.to_le_bytes().as_slice(), bytes].concat()
}

/// Commands as a triple holds them.
pub(crate) fn bytes_of(commands: &[Command]) -> Vec<u8> {
    postcard::to_stdvec(commands).unwrap_or_default()
}

/// A dispatcher as a checkpoint holds it.
pub(crate) fn checkpoint_of(dispatcher: &Dispatcher) -> Option<Vec<u8>> {
    postcard::to_stdvec(dispatcher).ok()
}

/// Reads a frame's payload; None if it is none of these.
pub(crate) fn read(payload: &[u8]) -> Option<Piece<'_>> {
    let (kind, rest) = payload.split_first()?;
    match *kind {
        HEADER => postcard::from_bytes(rest).ok().map(Piece::Header),
        CHECKPOINT_PIECE => Some(Piece::Checkpoint { bytes: rest, last: false }),
        CHECKPOINT => Some(Piece::Checkpoint { bytes: rest, last: true }),
        TRIPLE => {
            let ((now, event), commands) = postcard::take_from_bytes(rest).ok()?;
            Some(Piece::Triple { now, event, commands })
        }
        MODEL => {
            let (id, bytes) = rest.split_first_chunk::<8>()?;
            Some(Piece::Model(ModelId(u64::from_le_bytes(*id)), bytes))
        }
        END => postcard::from_bytes(rest).ok().map(Piece::End),
        _ => None,
    }
}

/// The name of a segment.
pub(crate) fn name(sequence: u64) -> String {
    format!("journal-{sequence:010}.seg")
}

/// The segments of a directory, by number, with their sizes.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn segments(dir: &Path) -> io::Result<BTreeMap<u64, (PathBuf, u64)>> {
    let mut segments = BTreeMap::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let file = entry.file_name();
        let number = file.to_str().and_then(|file| file.strip_prefix("journal-")?.strip_suffix(".seg")?.parse().ok());
        let Some(sequence) = number else { continue };
        match entry.metadata() {
            Ok(metadata) => drop(segments.insert(sequence, (entry.path(), metadata.len()))),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(segments)
}
