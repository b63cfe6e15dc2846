//! Deciding again: a journal's events go into the dispatcher of its checkpoint, and what comes out is compared with
//! what came out then, byte for byte.
//!
//! A journal agrees only if it is whole: decisions that cannot be read cannot be compared. What a kill leaves behind is
//! not held against it, which is a torn tail of the last segment of a start; nor are events that are missing at the very end. Everything
//! else that is missing or cannot be read is a [`Fault`] of the segment where it is.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use punctual_core::Dispatcher;
use punctual_core::event::{Command, Event};
use punctual_core::id::ModelId;
use punctual_core::time::Time;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::JournalError;
use super::segment::{self, Ending, FORMAT, Header, Piece};
use crate::model;
use crate::record::frame::{self, Frames, Next, Opened};

/// The longest text of an event or of commands in a report.
const SHOWN: usize = 4_096;

/// What replaying a journal showed. As JSON, whether it agrees and its segments.
#[derive(Debug)]
pub struct Replay {
    /// Its segments, oldest first.
    pub segments: Vec<Segment>,
}

/// A segment and what replaying it showed.
#[derive(Debug, Serialize)]
pub struct Segment {
    /// Where it is.
    pub file: PathBuf,
    /// What came of it.
    pub verdict: Verdict,
    /// What is wrong with it; None: nothing.
    pub fault: Option<Fault>,
}

/// What is wrong with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// It cannot be replayed; the verdict says why.
    Refused,
    /// An event brought other commands.
    Disagrees,
    /// It does not begin where the previous segment ended.
    Discontinuous,
    /// Part of it is not what was written.
    Damaged,
    /// It ends in the middle of something, though its gateway went on to the next.
    Torn,
    /// It does not say how it ends, though its gateway went on to the next.
    EndMissing,
    /// The segment that it says goes on is not there.
    NextMissing,
    /// Events are missing between it and the next: there was no room for them, on disk or before it.
    Gap,
}

/// What came of a segment.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It was replayed as far as it goes.
    Replayed(Box<Replayed>),
    /// It could not be, for this reason.
    Refused(JournalError),
}

/// What a replay showed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replayed {
    /// The number of the segment.
    pub sequence: u64,
    /// The seed that the dispatcher was made with.
    pub seed: u64,
    /// The hash of the model in force at its beginning; empty without one.
    pub model: String,
    /// When its writer started.
    pub started: Time,
    /// Events.
    pub events: u64,
    /// Commands that were given for them.
    pub commands: u64,
    /// Events for which the same commands were given again.
    pub agreed: u64,
    /// The first event for which they were not.
    pub disagreement: Option<Disagreement>,
    /// Bytes at the end that had not been written whole.
    pub torn_bytes: u64,
    /// Bytes that are damaged, or beyond damage, and were not replayed.
    pub damaged_bytes: u64,
    /// How the segment ends.
    pub ending: Ending,
    /// Whether its checkpoint is the state in which the previous segment left the dispatcher; None if it does not
    /// continue one.
    pub continues: Option<bool>,
}

/// The commands were not the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Disagreement {
    /// The event, counted from 0 in its segment.
    pub index: u64,
    /// When it was handled.
    pub now: Time,
    /// The event.
    pub event: String,
    /// The commands that were given then.
    pub expected: String,
    /// The commands that are given now.
    pub got: String,
}

impl Replay {
    /// True if every segment was decided in the same way, from one to the next, and nothing is wrong with any.
    pub fn agrees(&self) -> bool {
        self.faulty().next().is_none()
    }

    /// The segments with which something is wrong.
    pub fn faulty(&self) -> impl Iterator<Item = (&Segment, Fault)> {
        self.segments.iter().filter_map(|segment| Some((segment, segment.fault?)))
    }

    fn replayed(&self) -> impl Iterator<Item = &Replayed> {
        self.segments.iter().filter_map(|segment| match &segment.verdict {
            Verdict::Replayed(replayed) => Some(&**replayed),
            Verdict::Refused(_) => None,
        })
    }
}

impl Serialize for Replay {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut fields = to.serialize_struct("Replay", 2)?;
        fields.serialize_field("agrees", &self.agrees())?;
        fields.serialize_field("segments", &self.segments)?;
        fields.end()
    }
}

/// What is wrong with a segment, which `next` follows; None: it is the newest.
fn fault(verdict: &Verdict, next: Option<&Verdict>) -> Option<Fault> {
    let replayed = match verdict {
        Verdict::Replayed(replayed) => replayed,
        Verdict::Refused(JournalError::Unbegun { .. }) if next.is_none() => return None,
        Verdict::Refused(_) => return Some(Fault::Refused),
    };
    let goes_on = |next: &Replayed| next.started == replayed.started;
    let follows = |next: &Replayed| goes_on(next) && replayed.sequence.checked_add(1) == Some(next.sequence);
    let next_is = |holds: &dyn Fn(&Replayed) -> bool| match next {
        Some(Verdict::Replayed(next)) => holds(next),
        // What is wrong with that one is said there.
        Some(Verdict::Refused(_)) | None => false,
    };
    if replayed.continues == Some(false) {
        Some(Fault::Discontinuous)
    } else if replayed.disagreement.is_some() {
        Some(Fault::Disagrees)
    } else if replayed.damaged_bytes > 0 {
        Some(Fault::Damaged)
    } else if replayed.torn_bytes > 0 && next_is(&goes_on) {
        Some(Fault::Torn)
    } else if replayed.ending == Ending::Unsaid && next_is(&goes_on) {
        Some(Fault::EndMissing)
    } else if matches!(replayed.ending, Ending::Gap { .. }) && next.is_some() {
        Some(Fault::Gap)
    } else if replayed.ending == Ending::Continued && next_is(&|next| !follows(next)) {
        Some(Fault::NextMissing)
    } else {
        None
    }
}

/// One event decided again, for those who want to see more than whether it agrees.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// The dispatcher as the event left it.
    pub dispatcher: &'a Dispatcher,
    /// When it was handled.
    pub now: Time,
    /// The event.
    pub event: &'a Event,
    /// The commands that are given now.
    pub commands: &'a [Command],
}

/// Replays a segment, or all segments of a directory, one at a time. `build` is that of the dispatcher in this program.
///
/// # Errors
/// If there is no segment, or none that can be replayed: then the first one's reason.
pub fn replay(path: &Path, build: &str) -> Result<Replay, JournalError> {
    replay_watched(path, build, &mut |_| {})
}

/// Replays, and shows each event to `watch` once it is decided.
///
/// # Errors
/// As [`replay`].
pub fn replay_watched(path: &Path, build: &str, watch: &mut dyn FnMut(Turn<'_>)) -> Result<Replay, JournalError> {
    let metadata = fs::metadata(path).map_err(JournalError::io("read", path))?;
    let files: Vec<PathBuf> = if metadata.is_dir() {
        let segments = segment::segments(path).map_err(JournalError::io("read", path))?;
        segments.into_values().map(|(file, _)| file).collect()
    } else {
        vec![path.to_owned()]
    };
    if files.is_empty() {
        return Err(JournalError::NoJournal { dir: path.to_owned() });
    }
    let (mut verdicts, mut before) = (Vec::new(), None);
    for file in files {
        let verdict = match replay_segment(&file, build, before.take(), watch) {
            Ok((replayed, after)) => {
                before = after;
                Verdict::Replayed(Box::new(replayed))
            }
            // It was there a moment ago: a gateway that writes removes its oldest segments.
            Err(JournalError::Io(error)) if error.cause.kind() == io::ErrorKind::NotFound => continue,
            Err(cause) => Verdict::Refused(cause),
        };
        verdicts.push((file, verdict));
    }
    if !verdicts.iter().any(|(_, verdict)| matches!(verdict, Verdict::Replayed(_))) {
        return Err(match verdicts.into_iter().next() {
            Some((_, Verdict::Refused(cause))) => cause,
            _ => JournalError::NoJournal { dir: path.to_owned() },
        });
    }
    let faults: Vec<Option<Fault>> = verdicts
        .iter()
        .enumerate()
        .map(|(at, (_, verdict))| fault(verdict, verdicts.get(at + 1).map(|(_, next)| next)))
        .collect();
    let judged = verdicts.into_iter().zip(faults);
    Ok(Replay { segments: judged.map(|((file, verdict), fault)| Segment { file, verdict, fault }).collect() })
}

/// Where a segment that is continued left the dispatcher.
struct Left {
    sequence: u64,
    started: Time,
    state: Option<Vec<u8>>,
}

fn replay_segment(
    file: &Path,
    build: &str,
    before: Option<Left>,
    watch: &mut dyn FnMut(Turn<'_>),
) -> Result<(Replayed, Option<Left>), JournalError> {
    let mut frames = open(file)?;
    let Start { header, model, checkpoint } = read_start(file, &mut frames, build)?;
    let missing = |missing| JournalError::NoStart { file: file.to_owned(), missing };
    let mut dispatcher: Dispatcher = postcard::from_bytes(&checkpoint).map_err(|_| missing("checkpoint"))?;
    match model {
        Some((id, bytes)) if provide(&mut dispatcher, id, &bytes) => {}
        None if dispatcher.model().is_none() => {}
        _ => return Err(missing("model")),
    }
    let follows = |left: &Left| left.sequence.checked_add(1) == Some(header.sequence) && left.started == header.started;
    let mut again = Again { dispatcher: Some(dispatcher), replayed: Replayed::of(&header), watch };
    again.replayed.continues = before.filter(follows).map(|left| left.state.as_deref() == Some(checkpoint.as_slice()));
    drop(checkpoint);
    again.run(&mut frames).map_err(JournalError::io("read", file))?;
    let Again { dispatcher, replayed, .. } = again;
    let left = (replayed.ending == Ending::Continued).then(|| Left {
        sequence: header.sequence,
        started: header.started,
        state: dispatcher.as_ref().and_then(segment::checkpoint_of),
    });
    Ok((replayed, left))
}

fn open(file: &Path) -> Result<Frames, JournalError> {
    let opened = File::open(file).and_then(|opened| frame::open(opened, FORMAT));
    match opened.map_err(JournalError::io("read", file))? {
        Opened::Frames(frames) => Ok(frames),
        Opened::Torn => Err(JournalError::Unbegun { file: file.to_owned() }),
        Opened::Foreign => Err(JournalError::NotJournal { file: file.to_owned() }),
        Opened::Version(found) => Err(JournalError::Version { file: file.to_owned(), found }),
    }
}

/// What a segment begins with: its header, the model in force, the checkpoint's bytes.
struct Start {
    header: Header,
    model: Option<(ModelId, Vec<u8>)>,
    checkpoint: Vec<u8>,
}

/// Puts a model at hand; false if it cannot be read.
fn provide(dispatcher: &mut Dispatcher, id: ModelId, bytes: &[u8]) -> bool {
    let read = model::file::from_bytes(Path::new("the journal"), bytes);
    read.map(|(model, _)| dispatcher.provide(id, Arc::new(model))).is_ok()
}

fn read_start(file: &Path, frames: &mut Frames, build: &str) -> Result<Start, JournalError> {
    let missing = |missing| JournalError::NoStart { file: file.to_owned(), missing };
    let Some(Piece::Header(header)) = start_piece(file, frames, "header")? else { return Err(missing("header")) };
    if header.build != build {
        return Err(JournalError::Build { file: file.to_owned(), theirs: header.build, ours: build.to_owned() });
    }
    let (mut model, mut checkpoint) = (None, Vec::new());
    loop {
        match start_piece(file, frames, "checkpoint")? {
            Some(Piece::Model(id, bytes)) => model = Some((id, bytes.to_vec())),
            Some(Piece::Checkpoint { bytes, last }) => {
                checkpoint.extend_from_slice(bytes);
                if last {
                    return Ok(Start { header, model, checkpoint });
                }
            }
            _ => return Err(missing("checkpoint")),
        }
    }
}

/// The next piece of what a segment begins with.
fn start_piece<'f>(
    file: &Path,
    frames: &'f mut Frames,
    missing: &'static str,
) -> Result<Option<Piece<'f>>, JournalError> {
    match frames.next().map_err(JournalError::io("read", file))? {
        Next::Frame(payload) => Ok(segment::read(payload)),
        Next::End | Next::Torn { plain: true, .. } => Err(JournalError::Unbegun { file: file.to_owned() }),
        Next::Damaged { .. } | Next::Torn { plain: false, .. } => {
            Err(JournalError::NoStart { file: file.to_owned(), missing })
        }
    }
}

/// A dispatcher that decides again.
struct Again<'a> {
    /// None once it has panicked.
    dispatcher: Option<Dispatcher>,
    replayed: Replayed,
    watch: &'a mut dyn FnMut(Turn<'_>),
}

impl Again<'_> {
    fn run(&mut self, frames: &mut Frames) -> io::Result<()> {
        loop {
            let beyond = frames.left();
            let next = match frames.next()? {
                Next::Frame(payload) => segment::read(payload),
                Next::Torn { bytes, plain: true } => {
                    self.replayed.torn_bytes = bytes;
                    return Ok(());
                }
                Next::End => return Ok(()),
                Next::Damaged { .. } | Next::Torn { plain: false, .. } => None,
            };
            match next {
                Some(Piece::Triple { now, event, commands }) => self.decide(now, event, commands),
                Some(Piece::Model(id, bytes)) => {
                    let dispatcher = self.dispatcher.as_mut();
                    if !dispatcher.is_some_and(|dispatcher| provide(dispatcher, id, bytes)) {
                        self.replayed.damaged_bytes = beyond;
                        return Ok(());
                    }
                }
                Some(Piece::End(ending)) => {
                    self.replayed.ending = ending;
                    // Nothing is ever written behind it.
                    self.replayed.damaged_bytes = frames.left();
                    return Ok(());
                }
                Some(Piece::Header(_) | Piece::Checkpoint { .. }) | None => {
                    // What follows cannot be replayed without it.
                    self.replayed.damaged_bytes = beyond;
                    return Ok(());
                }
            }
            if self.dispatcher.is_none() {
                return Ok(());
            }
        }
    }

    fn decide(&mut self, now: Time, event: Event, expected: &[u8]) {
        let Some(mut dispatcher) = self.dispatcher.take() else { return };
        let shown = event.clone();
        let mut commands = Vec::new();
        // A gateway's dispatcher that failed an assertion fails it again here.
        let decided = catch_unwind(AssertUnwindSafe(|| {
            dispatcher.handle(now, event, &mut commands);
            dispatcher
        }));
        let replayed = &mut self.replayed;
        let agrees = decided.is_ok() && segment::bytes_of(&commands) == expected;
        let given: Result<Vec<Command>, _> = postcard::from_bytes(expected);
        replayed.commands += given.as_ref().map_or(0, |given| given.len() as u64);
        if agrees {
            replayed.agreed += 1;
        } else if replayed.disagreement.is_none() {
            replayed.disagreement = Some(Disagreement {
                index: replayed.events,
                now,
                event: short(format!("{shown:?}")),
                expected: short(given.map_or("not readable".into(), |given| format!("{given:?}"))),
                got: short(if decided.is_ok() { format!("{commands:?}") } else { "the dispatcher panicked".into() }),
            });
        }
        replayed.events += 1;
        self.dispatcher = decided.ok();
        if let Some(dispatcher) = &self.dispatcher {
            (self.watch)(Turn { dispatcher, now, event: &shown, commands: &commands });
        }
    }
}

impl Replayed {
    fn of(header: &Header) -> Replayed {
        Replayed {
            sequence: header.sequence,
            seed: header.seed,
            model: header.model.clone(),
            started: header.started,
            events: 0,
            commands: 0,
            agreed: 0,
            disagreement: None,
            torn_bytes: 0,
            damaged_bytes: 0,
            ending: Ending::Unsaid,
            continues: None,
        }
    }
}

fn short(mut text: String) -> String {
    if text.len() > SHOWN {
        text.truncate(text.floor_char_boundary(SHOWN));
        text.push('…');
    }
    text
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.segments {
            match &segment.verdict {
                Verdict::Replayed(replayed) => write!(f, "{}: {replayed}", segment.file.display())?,
                Verdict::Refused(cause) => writeln!(f, "not replayed: {cause}")?,
            }
        }
        let (events, agreed) =
            self.replayed().fold((0, 0), |(events, agreed), one| (events + one.events, agreed + one.agreed));
        let decided_otherwise = |(_, fault)| matches!(fault, Fault::Disagrees | Fault::Discontinuous);
        let verdict = match (self.agrees(), self.faulty().any(decided_otherwise)) {
            (true, _) => "agrees",
            (false, true) => "does not agree",
            (false, false) => "is not whole",
        };
        write!(f, "the journal {verdict}: {agreed} of {events} events that could be read brought the same commands")?;
        for (segment, fault) in self.faulty() {
            write!(f, "\n  {}: {fault}", segment.file.display())?;
        }
        Ok(())
    }
}

/// As a sentence's end, behind the segment's name.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Refused => "it could not be replayed",
            Fault::Disagrees => "an event brought other commands",
            Fault::Discontinuous => "it does not begin where the one before it ended",
            Fault::Damaged => "part of it is damaged",
            Fault::Torn => "its tail is torn, though its gateway went on to the next",
            Fault::EndMissing => "its end is missing, though the next one was begun",
            Fault::NextMissing => "the segment after it is missing",
            Fault::Gap => "events are missing between it and the next segment",
        })
    }
}

impl fmt::Display for Replayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Replayed { events, commands, agreed, .. } = self;
        write!(f, "{events} events, {commands} commands, {agreed} agreed")?;
        match self.ending {
            Ending::Continued => write!(f, ", goes on in the next")?,
            Ending::Gap { dropped } => write!(f, ", then {dropped} events are missing")?,
            Ending::Closed => write!(f, ", closed")?,
            Ending::Unsaid => write!(f, ", without an end: still being written, or its gateway was killed")?,
        }
        if self.torn_bytes > 0 {
            write!(f, ", {} bytes torn", self.torn_bytes)?;
        }
        if self.damaged_bytes > 0 {
            write!(f, ", {} bytes damaged or beyond damage", self.damaged_bytes)?;
        }
        if self.continues == Some(false) {
            write!(f, ", DOES NOT BEGIN where the previous segment ended")?;
        }
        writeln!(f)?;
        if let Some(Disagreement { index, now, event, expected, got }) = &self.disagreement {
            writeln!(f, "  first disagreement at event {index}, {} us:", now.micros())?;
            writeln!(f, "    event     {event}\n    then      {expected}\n    now       {got}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(in crate::journal) mod tests;
