//! Recording: a handle that costs its caller next to nothing, and the thread behind it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{SystemTime, UNIX_EPOCH};

use punctual_core::query::Ended;
use punctual_core::time::Time;

use super::hash::Key;
use super::log::Repair;
use super::row::{Names, Row};
use super::shelf::Shelf;
use super::{HistoryError, LOCK_FILE};
use crate::link::About;
use crate::record::append::{claim, could_claim};
use crate::record::queue::{Feed, queue};
use crate::record::thread::{self, Desk, Thread};
use crate::settings::{self, RecordSql};

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
    key: Key,
    /// Waited for when it is dropped.
    thread: Option<Thread>,
}

impl Writer {
    /// Starts writing to a directory, which is made if need be.
    ///
    /// # Errors
    /// If another writer has it, or it cannot be made, read or written to. Nothing that is in it is an error: see
    /// [`Writer::repairs`].
    pub fn start(settings: &settings::History, options: Options) -> Result<Writer, HistoryError> {
        let (mut writer, work) = Writer::prepare(settings, options)?;
        writer.thread = Some(Thread::start("history", &settings.dir, work)?);
        Ok(writer)
    }

    /// Says beforehand whether a writer could start there, and changes nothing: false if another has the directory.
    ///
    /// # Errors
    /// If it could not be made or written to.
    pub fn could_start(dir: &Path) -> Result<bool, HistoryError> {
        could_claim(dir, LOCK_FILE).map_err(HistoryError::io("write history to", dir))
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
        let work = move || {
            // The directory is this writer's for as long as the thread lives.
            let _lock = lock;
            thread::work(&drain, RowDesk { shelf, key });
        };
        Ok((Writer { recorder, repairs, key, thread: None }, work))
    }

    /// A handle to record with.
    pub fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// The key under which texts are hashed.
    pub(crate) fn key(&self) -> Key {
        self.key
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
        // The thread is waited for once this is gone.
    }
}

/// Where rows get their hashes and are put on the shelf.
struct RowDesk {
    shelf: Shelf,
    key: Key,
}

impl Desk<Ask> for RowDesk {
    fn take(&mut self, ask: Ask) -> bool {
        match ask {
            Ask::Record(recorded) => {
                let (mut row, text) = *recorded;
                row.text_hash = text.map(|text| self.key.hash(text.as_bytes())).or(row.text_hash);
                row.cut();
                self.shelf.put(&row);
            }
            Ask::Flush(answer) => {
                self.shelf.write(true);
                self.shelf.settle_all();
                let _ = answer.send(());
            }
            Ask::RollUp(answer) => {
                self.shelf.roll_all();
                let _ = answer.send(());
            }
            Ask::Close => return false,
        }
        true
    }

    fn tidy(&mut self) {
        self.shelf.write(false);
        self.shelf.tidy();
    }

    fn close(self) {
        self.shelf.close();
    }
}

#[cfg(test)]
mod tests;
