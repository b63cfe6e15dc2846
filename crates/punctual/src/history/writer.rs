//! Recording: a handle that costs its caller next to nothing, and the thread behind it.

use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use punctual_core::query::Ended;
use punctual_core::time::Time;

use super::hash::Key;
use super::log::Repair;
use super::row::{Names, Row};
use super::shelf::Shelf;
use super::{HistoryError, LOCK_FILE};
use crate::link::About;
use crate::record::append::claim;
use crate::record::queue::{Drain, Feed, Popped, queue};
use crate::settings::{self, RecordSql};

/// How long the thread rests when there is nothing to do.
const REST: Duration = Duration::from_millis(100);

/// How long a row stays in memory at most before it is in its file.
const FLUSH: Duration = Duration::from_millis(250);

/// Rows that are taken in before other work is looked at.
const TURN: usize = 4_096;

/// Where the writing thread reads the time of day from.
pub type Clock = Arc<dyn Fn() -> Time + Send + Sync>;

/// What settings do not say.
#[derive(Clone)]
pub struct Options {
    /// True: rows are on the disk itself, not only with the operating system, within a second.
    pub fsync: bool,
    /// Rows that may wait to be written.
    pub queue_rows: usize,
    /// Bytes that these may hold.
    pub queue_bytes: usize,
    /// The time of day: hours are rolled up by it.
    pub clock: Clock,
}

impl Default for Options {
    fn default() -> Options {
        let system = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Time::from_micros(since.as_micros().try_into().unwrap_or(u64::MAX))
        };
        Options { fsync: false, queue_rows: 16_384, queue_bytes: 64 << 20, clock: Arc::new(system) }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { fsync, queue_rows, queue_bytes, clock: _ } = self;
        write!(f, "Options {{ fsync: {fsync}, queue_rows: {queue_rows}, queue_bytes: {queue_bytes} }}")
    }
}

/// What has become of rows, and of hours, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows taken in.
    pub recorded: u64,
    /// Rows in their files.
    pub written: u64,
    /// Rows not taken in: the queue was full.
    pub dropped_full: u64,
    /// Rows taken in and given up: the disk did not take them.
    pub lost_on_disk: u64,
    /// Parts of hours that were removed to keep the bound.
    pub parts_removed: u64,
}

/// The counters behind [`Counts`].
#[derive(Debug, Default)]
pub(crate) struct Tally {
    recorded: AtomicU64,
    written: AtomicU64,
    dropped: AtomicU64,
    lost: AtomicU64,
    removed: AtomicU64,
}

impl Tally {
    pub(crate) fn written(&self, rows: u64) {
        self.written.fetch_add(rows, Ordering::Relaxed);
    }

    pub(crate) fn lost(&self, rows: u64) {
        self.lost.fetch_add(rows, Ordering::Relaxed);
    }

    pub(crate) fn removed_part(&self) {
        self.removed.fetch_add(1, Ordering::Relaxed);
    }

    fn took(&self, took: bool) {
        let counter = if took { &self.recorded } else { &self.dropped };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            recorded: self.recorded.load(Ordering::Relaxed),
            written: self.written.load(Ordering::Relaxed),
            dropped_full: self.dropped.load(Ordering::Relaxed),
            lost_on_disk: self.lost.load(Ordering::Relaxed),
            parts_removed: self.removed.load(Ordering::Relaxed),
        }
    }
}

/// What the thread is asked to do.
enum Ask {
    /// Write a row; its text is hashed first. Boxed, since the queue is as large as all that it may hold.
    Record(Box<(Row, Option<Arc<str>>)>),
    /// Write all that came before, roll up what is due, then answer.
    Flush(SyncSender<()>),
    /// Roll up all that came before, due or not, then answer.
    RollUp(SyncSender<()>),
    /// Write all that came before and end.
    Close,
}

/// Takes rows. Cheap to clone.
#[derive(Clone)]
pub struct Recorder {
    feed: Feed<Ask>,
    tally: Arc<Tally>,
    sql: RecordSql,
}

impl Recorder {
    /// Records a query that ended here. False if it was dropped, which is counted: there is no room, or nobody writes
    /// any more. Never waits.
    pub fn ended(&self, ended: &Ended, about: &About, names: Names<'_>) -> bool {
        self.push(Row::of(ended, about, names, self.sql), Some(about.text.clone()))
    }

    /// Records any row, as [`Recorder::ended`] does.
    pub fn record(&self, row: Row) -> bool {
        self.push(row, None)
    }

    /// Records a row, waiting for room. False if nobody writes any more.
    pub fn record_waiting(&self, row: Row) -> bool {
        let bytes = row.weight();
        let took = self.feed.push_waiting(Ask::Record(Box::new((row, None))), bytes);
        self.tally.took(took);
        took
    }

    /// What has become of rows so far.
    pub fn counts(&self) -> Counts {
        self.tally.counts()
    }

    fn push(&self, row: Row, text: Option<Arc<str>>) -> bool {
        let bytes = row.weight() + text.as_ref().map_or(0, |text| text.len());
        let took = self.feed.push(Ask::Record(Box::new((row, text))), bytes);
        self.tally.took(took);
        took
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorder {{ {:?} }}", self.counts())
    }
}

/// The thread that writes history. When it is dropped, all that was recorded is in its files.
#[derive(Debug)]
pub struct Writer {
    recorder: Recorder,
    repairs: Vec<Repair>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts writing to a directory, which is made if need be.
    ///
    /// # Errors
    /// If another writer has it, or it cannot be made, read or written to. Nothing that is in it is an error: see
    /// [`Writer::repairs`].
    pub fn start(settings: &settings::History, options: Options) -> Result<Writer, HistoryError> {
        let (mut writer, work) = Writer::prepare(settings, options)?;
        let thread = thread::Builder::new().name("history".into()).spawn(work);
        writer.thread = Some(thread.map_err(HistoryError::io("start a thread for", &settings.dir))?);
        Ok(writer)
    }

    /// A writer, and the work that a thread is to do for it.
    fn prepare(
        settings: &settings::History,
        options: Options,
    ) -> Result<(Writer, impl FnOnce() + Send + use<>), HistoryError> {
        let dir = settings.dir.clone();
        let lock = claim(&dir, LOCK_FILE).map_err(HistoryError::io("write history to", &dir))?;
        let Some(lock) = lock else { return Err(HistoryError::InUse { dir }) };
        let key = Key::of_dir(&dir).map_err(HistoryError::io("make a key in", &dir))?;
        let tally = Arc::new(Tally::default());
        let taken = Shelf::take_over(&dir, settings.max_bytes, options.fsync, options.clock, tally.clone());
        let (shelf, repairs) = taken.map_err(HistoryError::io("read", &dir))?;
        for Repair { file, kept_rows, lost_bytes, moved_to } in &repairs {
            let moved_to = moved_to.as_ref().map(|path: &PathBuf| path.display().to_string());
            tracing::warn!(file = %file.display(), kept_rows, lost_bytes, moved_to, "a log of history was repaired");
        }
        let (feed, drain) = queue(options.queue_rows, options.queue_bytes);
        let recorder = Recorder { feed, tally, sql: settings.sql };
        Ok((Writer { recorder, repairs, thread: None }, move || write(&drain, shelf, key, lock)))
    }

    /// A handle to record with.
    pub fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// What was damaged when it started.
    pub fn repairs(&self) -> &[Repair] {
        &self.repairs
    }

    /// What has become of rows so far.
    pub fn counts(&self) -> Counts {
        self.recorder.counts()
    }

    /// Waits until all that was recorded is in its file or lost, and all that is due is rolled up.
    ///
    /// # Errors
    /// If the thread is gone.
    pub fn flush(&self) -> Result<(), HistoryError> {
        self.ask(Ask::Flush)
    }

    /// Rolls up all that was recorded, whatever the hour, and waits for it.
    ///
    /// # Errors
    /// If the thread is gone.
    pub fn roll_up(&self) -> Result<(), HistoryError> {
        self.ask(Ask::RollUp)
    }

    /// Writes what was recorded and ends. Dropping it does the same.
    pub fn close(self) {}

    fn ask(&self, ask: fn(SyncSender<()>) -> Ask) -> Result<(), HistoryError> {
        let (answer, done) = sync_channel(1);
        if !self.recorder.feed.push_waiting(ask(answer), 0) {
            return Err(HistoryError::WriterGone);
        }
        done.recv().map_err(|_| HistoryError::WriterGone)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.recorder.feed.push_waiting(Ask::Close, 0);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread. It has the directory's lock for as long as it lives.
fn write(drain: &Drain<Ask>, mut shelf: Shelf, key: Key, _lock: File) {
    drain.attach();
    let mut flush_at = Instant::now();
    loop {
        let mut idle = false;
        for _ in 0..TURN {
            match drain.pop() {
                Popped::Item(Ask::Record(recorded)) => {
                    let (mut row, text) = *recorded;
                    row.text_hash = text.map(|text| key.hash(text.as_bytes())).or(row.text_hash);
                    row.cut();
                    shelf.put(&row);
                }
                Popped::Item(Ask::Flush(answer)) => {
                    shelf.write(true);
                    shelf.settle_all();
                    let _ = answer.send(());
                }
                Popped::Item(Ask::RollUp(answer)) => {
                    shelf.roll_all();
                    let _ = answer.send(());
                }
                Popped::Item(Ask::Close) | Popped::Over => return shelf.close(),
                Popped::Empty => {
                    idle = true;
                    break;
                }
            }
        }
        if Instant::now() >= flush_at {
            shelf.write(false);
            shelf.tidy();
            flush_at = Instant::now() + FLUSH;
        }
        if idle {
            drain.rest(REST);
        }
    }
}

#[cfg(test)]
mod tests;
