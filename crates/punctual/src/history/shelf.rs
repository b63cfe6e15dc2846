//! What the writing thread does with the disk: open logs, roll-ups, and the bound on all of it.
//!
//! Each hour that rows end in has its own log, so that it can become a Parquet file as it is. An hour is rolled up once
//! its end is [`GRACE`] ago and nothing came for it as long; a log that has grown to an eighth of the bound is closed
//! and rolled up before. Rows that come later still, as after a step of the clock, begin a further part of their hour;
//! rows from the future keep their log until the clock is there. One part is rolled up at a time, on a thread of its
//! own.
//!
//! When the disk does not take what is written, the write is undone and tried again with what comes after it, up to
//! [`HELD`] bytes of an hour; rows beyond that are lost, and counted.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use punctual_core::time::{Span, Time};

use super::HistoryError;
use super::hours::{self, Hour, Part};
use super::log::{self, Mended, Repair};
use super::parquet::Sheet;
use super::row::Row;
use super::writer::{Clock, Tally};
use crate::record::append::{Appender, Complaint};
use crate::record::frame::{self, Next, Opened};

/// How long after its end an hour is rolled up, and how long after its latest row.
const GRACE: Span = Span::from_secs(10);

/// Hours that are written at once; another one closes the one that has rested longest.
const OPEN_HOURS: usize = 4;

/// Bytes of an hour that are gathered before they are written, and those that are held while writing fails.
const GATHERED: usize = 256 << 10;
const HELD: usize = 4 << 20;

/// The largest part, as far as the bound does not make it smaller.
const PART_MOST: u64 = 256 << 20;

/// How long to wait before what failed is tried again.
const RETRY: Duration = Duration::from_secs(1);
const ROLL_RETRY: Duration = Duration::from_secs(60);

/// The files of a history that is being written.
pub(crate) struct Shelf {
    dir: PathBuf,
    max_bytes: u64,
    fsync: bool,
    clock: Clock,
    tally: Arc<Tally>,
    open: Vec<OpenHour>,
    /// Logs that are not open and not Parquet yet; true: nothing is appended to it any more.
    closed: BTreeMap<Part, bool>,
    rolling: Option<Rolling>,
    retry_at: Option<Instant>,
    roll_at: Option<Instant>,
    /// The part whose roll-up failed last: the others come first.
    failed: Option<Part>,
    complaint: Complaint,
    /// Bytes written since the bound was last looked at.
    unbounded: u64,
    scratch: Vec<u8>,
}

struct OpenHour {
    hour: Hour,
    log: Option<(Part, Appender)>,
    gathered: Vec<u8>,
    gathered_rows: u64,
    latest: Time,
}

struct Rolling {
    part: Part,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), HistoryError>>,
}

impl Shelf {
    /// Takes over a directory that this process has claimed: repairs what was left, removes what is superfluous.
    ///
    /// # Errors
    /// If the directory cannot be read. What is wrong with a file in it is said and does not matter.
    pub(crate) fn take_over(
        dir: &Path,
        max_bytes: u64,
        fsync: bool,
        clock: Clock,
        tally: Arc<Tally>,
    ) -> io::Result<(Shelf, Vec<Repair>)> {
        let (mut closed, mut repairs) = (BTreeMap::new(), Vec::new());
        for (part, files) in hours::parts(dir)? {
            for (path, _) in &files.others {
                if path.extension().is_some_and(|extension| extension == "tmp") {
                    let _ = fs::remove_file(path);
                }
            }
            if files.log.is_none() {
                continue;
            }
            if files.parquet.is_some() {
                let _ = fs::remove_file(dir.join(part.file("log")));
                continue;
            }
            match log::mend(dir, part) {
                Ok((mended, repair)) => {
                    if let Mended::Usable { old, .. } = mended {
                        closed.insert(part, old);
                    }
                    repairs.extend(repair);
                }
                Err(cause) => tracing::warn!(%cause, "a log of history is left alone"),
            }
        }
        let shelf = Shelf {
            dir: dir.to_owned(),
            max_bytes,
            fsync,
            clock,
            tally,
            open: Vec::new(),
            closed,
            rolling: None,
            retry_at: None,
            roll_at: None,
            failed: None,
            complaint: Complaint::default(),
            unbounded: u64::MAX,
            scratch: Vec::new(),
        };
        Ok((shelf, repairs))
    }

    /// Takes in a row; it is written by the next [`Shelf::write`].
    pub(crate) fn put(&mut self, row: &Row) {
        let (hour, now) = (Hour::of(row.ended), (self.clock)());
        self.scratch.clear();
        let Ok(payload) = postcard::to_extend(row, std::mem::take(&mut self.scratch)) else {
            return self.tally.lost(1);
        };
        let at = self.open_hour(hour);
        if self.open[at].gathered.len() + payload.len() > GATHERED {
            self.write_hour(at, false);
        }
        let open = &mut self.open[at];
        open.latest = now;
        // A single row may be larger than what is held.
        let held = open.gathered.is_empty() || open.gathered.len() + payload.len() <= HELD;
        if held && frame::append(&mut open.gathered, &payload) {
            open.gathered_rows += 1;
        } else {
            self.tally.lost(1);
        }
        self.scratch = payload;
    }

    /// The index of the hour among those that are open, opening it if need be.
    fn open_hour(&mut self, hour: Hour) -> usize {
        if let Some(at) = self.open.iter().position(|open| open.hour == hour) {
            return at;
        }
        if self.open.len() >= OPEN_HOURS {
            let oldest = (0..self.open.len()).min_by_key(|at| self.open[*at].latest).unwrap_or(0);
            self.close_hour(oldest, false);
        }
        let latest = Time::ZERO;
        self.open.push(OpenHour { hour, log: None, gathered: Vec::new(), gathered_rows: 0, latest });
        self.open.len() - 1
    }

    /// Writes what was gathered. Unless `now`, not before it is time again after a failure.
    pub(crate) fn write(&mut self, now: bool) {
        for at in 0..self.open.len() {
            self.write_hour(at, now);
        }
    }

    fn write_hour(&mut self, at: usize, now: bool) {
        if self.open[at].gathered.is_empty() || (!now && self.retry_at.is_some_and(|at| Instant::now() < at)) {
            return;
        }
        self.retry_at = None;
        let written = self.try_write_hour(at);
        let lost = self.tally.counts().lost_on_disk;
        match written {
            Ok(()) => {
                if let Some(lost) = self.complaint.went_well(lost) {
                    tracing::info!(dir = %self.dir.display(), lost, "history is written again");
                }
            }
            Err(cause) => {
                self.retry_at = Some(Instant::now() + RETRY);
                if self.complaint.failed(lost) {
                    tracing::error!(dir = %self.dir.display(), %cause, lost, "history cannot be written; trying again");
                }
            }
        }
        let full = |(_, log): &(Part, Appender)| log.is_broken() || log.len() >= self.part_bytes();
        if self.open[at].log.as_ref().is_some_and(full) {
            self.close_log(at, true);
        }
    }

    fn try_write_hour(&mut self, at: usize) -> io::Result<()> {
        if self.open[at].log.is_none() {
            self.open[at].log = Some(self.open_log(self.open[at].hour)?);
        }
        let open = &mut self.open[at];
        let Some((_, log)) = &mut open.log else { return Ok(()) };
        log.append(&open.gathered, self.fsync)?;
        self.unbounded = self.unbounded.saturating_add(open.gathered.len() as u64);
        self.tally.written(open.gathered_rows);
        (open.gathered, open.gathered_rows) = (Vec::new(), 0);
        Ok(())
    }

    /// The hour's last log, if more may be appended to it, or else a new one.
    fn open_log(&mut self, hour: Hour) -> io::Result<(Part, Appender)> {
        let (first, last) = (Part { hour, number: 0 }, Part { hour, number: u32::MAX });
        let parts = hours::parts(&self.dir)?;
        let newest = parts.range(first..=last).next_back();
        let left = newest.and_then(|(part, files)| Some((*part, files.log?)));
        let goes_on = |(part, _): &(Part, u64)| !self.is_past(hour) && self.closed.get(part) == Some(&false);
        if let Some((part, bytes)) = left.filter(goes_on) {
            let log = Appender::resume(&self.dir.join(part.file("log")), bytes)?;
            self.closed.remove(&part);
            return Ok((part, log));
        }
        let number = newest.map_or(0, |(part, _)| part.number.saturating_add(1));
        let part = Part { hour, number };
        Ok((part, Appender::create(&self.dir.join(part.file("log")), log::FORMAT)?))
    }

    /// Closes an hour's log, if it has one. Once `sealed` nothing is appended to it any more.
    fn close_log(&mut self, at: usize, sealed: bool) {
        if let Some((part, _)) = self.open[at].log.take() {
            self.closed.insert(part, sealed);
        }
    }

    /// Writes an hour's rows, closes its log and forgets the hour; what could not be written is lost.
    fn close_hour(&mut self, at: usize, sealed: bool) {
        self.write_hour(at, true);
        self.close_log(at, sealed);
        let open = self.open.swap_remove(at);
        self.tally.lost(open.gathered_rows);
    }

    /// True once an hour is over for good, as far as the clock says.
    fn is_past(&self, hour: Hour) -> bool {
        (self.clock)() >= hour.end() + GRACE
    }

    /// What is due: closes hours that are over, rolls up, keeps the bound. Does not wait for a roll-up.
    pub(crate) fn tidy(&mut self) {
        let now = (self.clock)();
        for at in (0..self.open.len()).rev() {
            let rested = now.since(self.open[at].latest) >= GRACE || now < self.open[at].latest;
            if rested && self.is_past(self.open[at].hour) {
                self.close_hour(at, true);
            }
        }
        if self.rolling.as_ref().is_some_and(|rolling| rolling.thread.is_finished()) {
            self.settle();
        }
        if self.rolling.is_none() && self.roll_at.is_none_or(|at| Instant::now() >= at) {
            self.begin_roll();
        }
        if self.unbounded >= self.part_bytes() / 4 {
            self.keep_bound();
        }
    }

    /// Waits until everything that is due to be rolled up is, or cannot be.
    pub(crate) fn settle_all(&mut self) {
        self.roll_at = None;
        self.tidy();
        while self.rolling.is_some() {
            self.settle();
            if self.roll_at.is_none() {
                self.begin_roll();
            }
        }
        self.keep_bound();
    }

    /// Closes every log and rolls all of them up.
    pub(crate) fn roll_all(&mut self) {
        while !self.open.is_empty() {
            self.close_hour(0, true);
        }
        self.closed.values_mut().for_each(|sealed| *sealed = true);
        self.settle_all();
    }

    /// Writes what is left, and leaves a roll-up that runs for the next start.
    pub(crate) fn close(mut self) {
        while !self.open.is_empty() {
            self.close_hour(0, false);
        }
        if let Some(rolling) = self.rolling.take() {
            rolling.stop.store(true, Ordering::Relaxed);
            let _ = rolling.thread.join();
        }
    }

    /// Begins to roll up the oldest part that is due.
    fn begin_roll(&mut self) {
        let due = |from: Bound<Part>| {
            let mut closed = self.closed.range((from, Bound::Unbounded));
            closed.find(|(part, sealed)| **sealed || self.is_past(part.hour)).map(|(part, _)| *part)
        };
        let next = self.failed.and_then(|failed| due(Bound::Excluded(failed)));
        let Some(part) = next.or_else(|| due(Bound::Unbounded)) else { return };
        let (dir, stop) = (self.dir.clone(), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let started = thread::Builder::new().name("history-roll".into()).spawn(move || roll_up(&dir, part, &stopped));
        match started {
            Ok(thread) => {
                self.closed.insert(part, true);
                self.rolling = Some(Rolling { part, stop, thread });
            }
            Err(cause) => {
                self.roll_at = Some(Instant::now() + ROLL_RETRY);
                tracing::warn!(%cause, "history cannot be rolled up");
            }
        }
    }

    /// Waits for the roll-up that runs.
    fn settle(&mut self) {
        let Some(Rolling { part, thread, .. }) = self.rolling.take() else { return };
        match thread.join() {
            Ok(Ok(())) => {
                self.closed.remove(&part);
                self.unbounded = u64::MAX;
            }
            Ok(Err(cause)) => {
                self.failed = Some(part);
                self.roll_at = Some(Instant::now() + ROLL_RETRY);
                tracing::warn!(%cause, "history cannot be rolled up");
            }
            Err(_) => {
                // It would end in the same way again; the next start tries once more.
                self.closed.remove(&part);
                tracing::error!(log = part.file("log"), "rolling up history failed; its log stays");
            }
        }
    }

    /// How large a part may grow.
    fn part_bytes(&self) -> u64 {
        (self.max_bytes / 8).clamp(4 << 10, PART_MOST)
    }

    /// Removes the oldest parts until the rest, and one more part, are within the bound.
    fn keep_bound(&mut self) {
        self.unbounded = 0;
        let parts = match hours::parts(&self.dir) {
            Ok(parts) => parts,
            Err(cause) => {
                if self.complaint.is_due() {
                    tracing::error!(dir = %self.dir.display(), %cause, "history cannot be looked at");
                }
                return;
            }
        };
        let bound = self.max_bytes.saturating_sub(self.part_bytes());
        let mut bytes: u64 = parts.values().map(hours::Files::bytes).sum();
        for (part, files) in parts {
            let open = self.open.iter().any(|open| open.log.as_ref().is_some_and(|(log, _)| *log == part));
            let rolling = self.rolling.as_ref().is_some_and(|rolling| rolling.part == part);
            if bytes <= bound {
                break;
            }
            if open || rolling {
                continue;
            }
            let own = ["log", "parquet"].map(|extension| self.dir.join(part.file(extension)));
            own.iter().chain(files.others.iter().map(|(path, _)| path)).for_each(|path| drop(fs::remove_file(path)));
            self.closed.remove(&part);
            bytes -= files.bytes();
            tracing::info!(hour = %part.hour, bytes = files.bytes(), "history is full: its oldest hour is removed");
            self.tally.removed_part();
        }
    }
}

/// Makes the Parquet file of a part from its log, and removes that. Damage in the log keeps it, aside.
fn roll_up(dir: &Path, part: Part, stop: &AtomicBool) -> Result<(), HistoryError> {
    let path = dir.join(part.file("log"));
    let temporary = dir.join(part.file("parquet.tmp"));
    let file = File::open(&path).map_err(HistoryError::io("open", &path))?;
    let Opened::Frames(mut frames) = frame::open(file, log::FORMAT).map_err(HistoryError::io("read", &path))? else {
        return Err(HistoryError::NotHistory { file: path });
    };
    let version = frames.version();
    let mut sheet = Sheet::create(&dir.join(part.file("parquet")), temporary.clone())?;
    let (mut rows, mut damaged) = (0u64, 0u64);
    let written = loop {
        if stop.load(Ordering::Relaxed) {
            break Ok(false);
        }
        match frames.next().map_err(HistoryError::io("read", &path)) {
            Ok(Next::Frame(payload)) => match log::row_of(version, payload) {
                Some(row) => {
                    rows += 1;
                    if let Err(cause) = sheet.push(row) {
                        break Err(cause);
                    }
                }
                None => damaged += payload.len() as u64,
            },
            Ok(Next::Damaged { bytes } | Next::Torn { bytes, .. }) => damaged += bytes,
            Ok(Next::End) => break Ok(true),
            Err(cause) => break Err(cause),
        }
    };
    let written = written.and_then(|whole| if whole && rows > 0 { sheet.finish().map(|()| true) } else { Ok(whole) });
    if !matches!(written, Ok(true)) || rows == 0 {
        let _ = fs::remove_file(&temporary);
    }
    if !written? {
        return Ok(());
    }
    if damaged == 0 {
        return fs::remove_file(&path).map_err(HistoryError::io("remove", &path));
    }
    tracing::warn!(file = %path.display(), bytes = damaged, "part of a log is damaged; it is kept aside");
    fs::rename(&path, dir.join(part.file("log.damaged"))).map_err(HistoryError::io("move aside", &path))
}

#[cfg(test)]
mod tests;
