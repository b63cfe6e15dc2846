//! Writing the journal: the driver's end, which only serialises, and the thread behind it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use punctual_core::Dispatcher;
use punctual_core::event::{Command, Event};
use punctual_core::id::ModelId;
use punctual_core::time::Time;

use super::segment::{self, Ending, Header};
use super::{JournalError, segment::FORMAT};
use crate::record::append::{Appender, Complaint, claim, could_claim};
use crate::record::frame;
use crate::record::queue::{Feed, queue};
use crate::record::thread::{self, Desk, Thread};
use crate::settings;

/// The file that is locked while someone writes to its directory.
const LOCK_FILE: &str = "journal.lock";

/// Triples that may wait to be written, and the bytes that these may hold.
const QUEUE_TRIPLES: usize = 16_384;
const QUEUE_BYTES: usize = 64 << 20;

/// Models that are kept until the next segment: the one in force and one that may follow.
const MODELS: usize = 2;

/// Bytes that are gathered before they are written.
const GATHERED: usize = 256 << 10;

/// How long after a failure a new segment is begun.
const RETRY: Duration = Duration::from_secs(1);

/// What every segment says of where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The build of the decisions.
    pub build: String,
    /// The seed that the dispatcher was made with.
    pub seed: u64,
    /// When the gateway started.
    pub started: Time,
}

/// What has become of triples since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Triples that were to be journalled.
    pub recorded: u64,
    /// Of these, dropped: there was no room, no checkpoint before them, or the disk did not take them.
    pub dropped: u64,
    /// Segments begun.
    pub segments: u64,
    /// Segments removed to keep the bound.
    pub removed: u64,
}

/// What the thread tells the driver.
#[derive(Debug, Default)]
struct Shared {
    /// A segment could not be written: a new one is needed.
    failed: AtomicBool,
    lost: AtomicU64,
    segments: AtomicU64,
    removed: AtomicU64,
}

/// An event that is about to be handled, as the journal has it.
#[derive(Debug)]
pub struct Begun(Option<Vec<u8>>);

#[derive(Debug)]
enum Ask {
    /// Begin the next segment, with this model in force. So many triples were dropped since the last that was sent.
    Open { checkpoint: Vec<u8>, model: Option<(ModelId, Vec<u8>)>, dropped: u64 },
    /// Write a triple.
    Triple(Vec<u8>),
    /// Write all that came before, then answer.
    Flush(SyncSender<()>),
    /// Write all that came before and end.
    Close { dropped: u64 },
}

/// The driver's end. When it is dropped, the last segment is complete.
#[derive(Debug)]
pub struct Writer {
    feed: Feed<Ask>,
    shared: Arc<Shared>,
    /// True while triples follow a checkpoint without a gap.
    open: bool,
    /// Triples dropped since the last one that was taken.
    gap: u64,
    /// Bytes since the checkpoint, and after how many the next is due.
    since: u64,
    due_after: u64,
    segment_bytes: u64,
    not_before: Option<Instant>,
    recorded: u64,
    dropped: u64,
    /// Models that are in force or may come to be, as their frames.
    models: Vec<(ModelId, Vec<u8>)>,
    /// Waited for when it is dropped.
    thread: Option<Thread>,
}

impl Writer {
    /// Starts writing to a directory, which is made if need be. The first checkpoint is due at once.
    ///
    /// # Errors
    /// If another writer has it, or it cannot be made, read or written to.
    pub fn start(settings: &settings::Journal, opening: Opening) -> Result<Writer, JournalError> {
        let (mut writer, work) = Writer::prepare(settings, opening, QUEUE_TRIPLES)?;
        writer.thread = Some(Thread::start("journal", &settings.dir, work)?);
        Ok(writer)
    }

    /// Says beforehand whether a writer could start there, and changes nothing: false if another has the directory.
    ///
    /// # Errors
    /// As [`Writer::start`] would fail.
    pub fn could_start(dir: &Path) -> Result<bool, JournalError> {
        let could = could_claim(dir, LOCK_FILE).map_err(JournalError::io("write a journal to", dir))?;
        if dir.exists() {
            segment::segments(dir).map_err(JournalError::io("read", dir))?;
        }
        Ok(could)
    }

    /// A writer, and the work that a thread is to do for it.
    fn prepare(
        settings: &settings::Journal,
        opening: Opening,
        triples: usize,
    ) -> Result<(Writer, impl FnOnce() + Send + use<>), JournalError> {
        let dir = settings.dir.clone();
        let lock = claim(&dir, LOCK_FILE).map_err(JournalError::io("write a journal to", &dir))?;
        let Some(lock) = lock else { return Err(JournalError::InUse { dir }) };
        let last = segment::segments(&dir).map_err(JournalError::io("read", &dir))?.keys().next_back().copied();
        let shared = Arc::new(Shared::default());
        let next = last.map_or(0, |last| last.saturating_add(1));
        let shelf = Shelf::new(settings, next, opening, shared.clone());
        let segment_bytes = shelf.segment_bytes;
        let (feed, drain) = queue(triples, QUEUE_BYTES);
        let writer = Writer {
            feed,
            shared,
            open: false,
            gap: 0,
            since: 0,
            due_after: 0,
            segment_bytes,
            not_before: None,
            recorded: 0,
            dropped: 0,
            models: Vec::new(),
            thread: None,
        };
        let work = move || {
            // The directory is this writer's for as long as the thread lives.
            let _lock = lock;
            thread::work(&drain, shelf);
        };
        Ok((writer, work))
    }

    /// Takes in what was just handled: `commands` are those that the dispatcher gave for this event. Never waits.
    pub fn record(&mut self, now: Time, event: &Event, commands: &[Command]) {
        let begun = self.begin(now, event);
        self.complete(begun, commands);
    }

    /// Takes in what is about to be handled, which saves a copy of it; to be [completed](Writer::complete) with what comes of it.
    pub fn begin(&mut self, now: Time, event: &Event) -> Begun {
        self.look_for_failure();
        // A segment is bounded even if nobody looks whether a checkpoint is due.
        let open = self.open && self.since < self.due_after.saturating_mul(2);
        Begun(if open { segment::beginning(now, event) } else { None })
    }

    /// Takes in what came of it: the commands that the dispatcher gave. Never waits.
    pub fn complete(&mut self, begun: Begun, commands: &[Command]) {
        self.recorded += 1;
        let triple = begun.0.and_then(|beginning| segment::triple_of(beginning, commands));
        let took = triple.is_some_and(|triple| {
            let bytes = triple.len();
            self.since += bytes as u64;
            bytes <= frame::MAX_FRAME && self.feed.push(Ask::Triple(triple), bytes)
        });
        if !took {
            (self.open, self.gap, self.dropped) = (false, self.gap + 1, self.dropped + 1);
        }
    }

    /// Writes down a model, before the event that puts it in force. False if it is too large for that.
    pub fn provide(&mut self, id: ModelId, bytes: &[u8]) -> bool {
        let frame = segment::model(id, bytes);
        if frame.len() > frame::MAX_FRAME {
            return false;
        }
        if self.models.len() == MODELS {
            self.models.remove(0);
        }
        self.models.push((id, frame.clone()));
        if self.open {
            let bytes = frame.len();
            self.since += bytes as u64;
            // Without it, the events that follow cannot be replayed.
            self.open = self.feed.push(Ask::Triple(frame), bytes);
        }
        true
    }

    /// True when [`Writer::checkpoint`] should be called before the next event is handled.
    pub fn checkpoint_due(&mut self) -> bool {
        self.look_for_failure();
        if self.open {
            return self.since >= self.due_after;
        }
        self.feed.is_roomy() && self.not_before.is_none_or(|at| Instant::now() >= at)
    }

    /// Begins a segment with the state that the next event will find.
    pub fn checkpoint(&mut self, dispatcher: &Dispatcher) {
        let Some(checkpoint) = segment::checkpoint_of(dispatcher) else { return };
        let in_force = dispatcher.model();
        let model = self.models.iter().rfind(|(id, _)| Some(*id) == in_force).cloned();
        let bytes = checkpoint.len() + model.as_ref().map_or(0, |(_, frame)| frame.len());
        if !self.feed.push(Ask::Open { checkpoint, model, dropped: self.gap }, bytes) {
            self.open = false;
            self.not_before = Some(Instant::now() + RETRY);
            return;
        }
        // As much for what happens as for the checkpoints at least, however large these are.
        (self.since, self.due_after) = (0, self.segment_bytes.max(bytes as u64));
        (self.open, self.gap, self.not_before) = (true, 0, None);
    }

    /// What has become of triples so far.
    pub fn counts(&self) -> Counts {
        Counts {
            recorded: self.recorded,
            dropped: self.dropped + self.shared.lost.load(Ordering::Relaxed),
            segments: self.shared.segments.load(Ordering::Relaxed),
            removed: self.shared.removed.load(Ordering::Relaxed),
        }
    }

    /// Waits until all that was recorded is in its segment or lost.
    pub fn flush(&self) {
        let (answer, done) = sync_channel(1);
        if self.feed.push_waiting(Ask::Flush(answer), 0) {
            let _ = done.recv();
        }
    }

    fn look_for_failure(&mut self) {
        if self.shared.failed.load(Ordering::Relaxed) && self.shared.failed.swap(false, Ordering::Relaxed) {
            (self.open, self.not_before) = (false, Some(Instant::now() + RETRY));
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.feed.push_waiting(Ask::Close { dropped: self.gap }, 0);
        // The thread is waited for once this is gone.
    }
}

impl Desk<Ask> for Shelf {
    fn take(&mut self, ask: Ask) -> bool {
        match ask {
            Ask::Triple(triple) => self.put(&triple),
            Ask::Open { checkpoint, model, dropped } => self.begin(&checkpoint, model.as_ref(), dropped),
            Ask::Flush(answer) => {
                self.write();
                let _ = answer.send(());
            }
            Ask::Close { dropped } => {
                self.lost += dropped;
                return false;
            }
        }
        true
    }

    fn tidy(&mut self) {
        self.write();
    }

    fn close(mut self) {
        self.finish(Ending::Closed);
    }
}

/// The segments on disk.
struct Shelf {
    dir: PathBuf,
    next: u64,
    opening: Opening,
    max_bytes: u64,
    segment_bytes: u64,
    shared: Arc<Shared>,
    /// The newest segment. After a failure it stays, until all that is missing behind it is known.
    file: Option<Appender>,
    /// True while triples may follow: none has been lost since its checkpoint.
    takes: bool,
    gathered: Vec<u8>,
    triples: u64,
    /// Triples lost since the segment before the gap, here and by the driver.
    lost: u64,
    /// Those of all gaps before.
    lost_before: u64,
    complaint: Complaint,
}

impl Shelf {
    fn new(settings: &settings::Journal, next: u64, opening: Opening, shared: Arc<Shared>) -> Shelf {
        Shelf {
            dir: settings.dir.clone(),
            next,
            opening,
            max_bytes: settings.max_bytes,
            // Four segments at least fit into the bound.
            segment_bytes: settings.segment_bytes.min(settings.max_bytes / 4).max(1),
            shared,
            file: None,
            takes: false,
            gathered: Vec::new(),
            triples: 0,
            lost: 0,
            lost_before: 0,
            complaint: Complaint::default(),
        }
    }

    fn put(&mut self, triple: &[u8]) {
        if !self.takes || !frame::append(&mut self.gathered, triple) {
            return self.lose(1);
        }
        self.triples += 1;
        if self.gathered.len() >= GATHERED {
            self.write();
        }
    }

    /// Writes what was gathered. If that fails, the segment takes no more.
    fn write(&mut self) {
        let (gathered, triples) = (std::mem::take(&mut self.gathered), std::mem::take(&mut self.triples));
        let Some(file) = self.file.as_mut().filter(|_| !gathered.is_empty()) else { return };
        match file.append(&gathered, false) {
            Ok(()) => self.went_well(),
            Err(cause) => {
                self.lose(triples);
                self.failed(&cause);
            }
        }
    }

    /// Says that it goes on, and what is missing, once after each time that it did not.
    fn went_well(&mut self) {
        if let Some(lost) = self.complaint.went_well(self.lost_before + self.lost) {
            tracing::info!(dir = %self.dir.display(), lost, "the journal is written again; `lost` events are missing");
        }
    }

    fn lose(&mut self, triples: u64) {
        self.lost += triples;
        self.shared.lost.fetch_add(triples, Ordering::Relaxed);
    }

    fn failed(&mut self, cause: &io::Error) {
        self.takes = false;
        self.shared.failed.store(true, Ordering::Relaxed);
        if self.complaint.failed(self.lost_before) {
            let lost = self.shared.lost.load(Ordering::Relaxed);
            tracing::error!(dir = %self.dir.display(), %cause, lost, "the journal cannot be written; trying again");
        }
    }

    /// Writes what is left and ends the newest segment: with a gap if triples are missing, else as told.
    fn finish(&mut self, ending: Ending) {
        self.write();
        let ending = if self.lost == 0 { ending } else { Ending::Gap { dropped: self.lost } };
        let Some(file) = self.file.as_mut().filter(|file| !file.is_broken()) else { return };
        let mut frame = Vec::new();
        segment::end(&mut frame, ending);
        // Without it the segment's end is unsaid, which is no less true.
        let _ = file.append(&frame, false);
    }

    /// Begins the next segment, `dropped` triples after the last that was sent. Only then is the one before it ended
    /// for good: as long as there is no next one, what it says of its end is not the whole truth.
    fn begin(&mut self, checkpoint: &[u8], model: Option<&(ModelId, Vec<u8>)>, dropped: u64) {
        self.write();
        self.lost += dropped;
        let good = self.file.as_ref().map_or(0, Appender::len);
        self.finish(Ending::Continued);
        self.keep_bound((checkpoint.len() + model.map_or(0, |(_, frame)| frame.len())) as u64);
        match self.create(checkpoint, model) {
            Ok(file) => {
                (self.lost_before, self.lost) = (self.lost_before + self.lost, 0);
                (self.file, self.takes, self.next) = (Some(file), true, self.next.saturating_add(1));
                self.went_well();
                self.shared.segments.fetch_add(1, Ordering::Relaxed);
            }
            Err(cause) => {
                if let Some(file) = &mut self.file {
                    file.cut(good);
                }
                // A file that is in the way would be so again.
                self.next = self.next.saturating_add(u64::from(cause.kind() == io::ErrorKind::AlreadyExists));
                self.failed(&cause);
            }
        }
    }

    fn create(&self, checkpoint: &[u8], model: Option<&(ModelId, Vec<u8>)>) -> io::Result<Appender> {
        let path = self.dir.join(segment::name(self.next));
        let Opening { build, seed, started } = self.opening.clone();
        let (id, frame) = model.map_or((String::new(), None), |(id, frame)| (id.to_string(), Some(frame.as_slice())));
        let mut frames = Vec::new();
        let header = Header { sequence: self.next, build, seed, model: id, started };
        segment::open(&mut frames, &header, frame, checkpoint);
        let mut file = Appender::create(&path, FORMAT)?;
        file.append(&frames, false).inspect_err(|_| drop(fs::remove_file(&path)))?;
        Ok(file)
    }

    /// Removes the oldest segments until one more fits.
    fn keep_bound(&mut self, checkpoint: u64) {
        let segments = segment::segments(&self.dir).unwrap_or_default();
        let mut bytes: u64 = segments.values().map(|(_, bytes)| bytes).sum();
        let bound = self.max_bytes.saturating_sub(self.segment_bytes.max(checkpoint) + checkpoint);
        for (path, size) in segments.into_values() {
            if bytes <= bound {
                break;
            }
            if fs::remove_file(&path).is_ok() {
                bytes -= size;
                self.shared.removed.fetch_add(1, Ordering::Relaxed);
                tracing::info!(file = %path.display(), "the journal is full: its oldest segment is removed");
            }
        }
    }
}

#[cfg(test)]
pub(in crate::journal) mod tests;
