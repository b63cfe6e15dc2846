//! Logs of other systems into history.
//!
//! ```text
//!   file ──▶ records ──▶ bound (profile + --map) ──▶ rows ──▶ sorted ──▶ history::Bulk ──▶ hourly Parquet
//!   CSV, JSON lines,     which column is what        units, words,      all files, or none
//!   Parquet, gzip                                    refusals
//! ```
//!
//! A profile is a table of columns, units and words; a mapping by hand overrides it, column by column. Each record
//! becomes a row, or is left out because it is no query, or is dropped because something is wrong with it: each with
//! its reason, counted, and the first few with their file and line. One record is in memory at a time, and rows as far as
//! [`sorted`] says.

mod bound;
mod error;
mod layout;
mod mapping;
mod pairing;
mod profiles;
mod records;
mod refusal;
mod report;
mod rows;
mod sorted;
mod stamp;
mod target;
#[cfg(test)]
mod tests;
mod texts;
mod units;
mod words;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_core::time::Time;

use crate::history::{Bulk, Key};
use crate::settings::RecordSql;
use bound::Bound;
use error::Place;
use pairing::{Paired, Pairing};
use records::{Input, Read, Reading, Record};
use report::FileReport;
use rows::{Builder, Entry, Verdict};
use sorted::Sorter;

pub(crate) use error::ImportError;
pub(crate) use layout::Profile;
pub(crate) use mapping::Source;
pub(crate) use report::{Report, grouped};
pub(crate) use target::Target;
pub(crate) use texts::Template;
pub(crate) use words::Meaning;

/// The profile of a name, and the reading of flags.
pub(crate) mod flags {
    pub(crate) use super::mapping::read as mapping;
    pub(crate) use super::profiles::{ALL as PROFILES, named as profile};
    pub(crate) use super::stamp::minutes as zone;
    pub(crate) use super::words::read as word;
}

/// What is to be imported, and how.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) profile: &'static Profile,
    pub(crate) files: Vec<PathBuf>,
    /// The history.
    pub(crate) out: PathBuf,
    /// Columns that are mapped by hand.
    pub(crate) mapping: Vec<Source>,
    /// Words that mean something in these files.
    pub(crate) words: Vec<(String, Meaning)>,
    /// Where the texts of queries are.
    pub(crate) texts: Option<Template>,
    /// What history keeps of the texts.
    pub(crate) sql: RecordSql,
    /// Minutes east of Greenwich of timestamps without a zone.
    pub(crate) offset: i64,
    /// What stands between the values of CSV.
    pub(crate) delimiter: u8,
    /// True: add to a history that is there.
    pub(crate) append: bool,
    /// True: stop at the first bad record.
    pub(crate) strict: bool,
}

/// How far it is.
#[derive(Clone, Debug)]
pub(crate) struct Progress<'a> {
    /// The file that is being read; None once rows are written.
    pub(crate) file: Option<&'a Path>,
    pub(crate) records: u64,
    pub(crate) kept: u64,
    /// Bytes read, of all files' bytes.
    pub(crate) bytes: u64,
    pub(crate) of_bytes: u64,
    /// Rows written.
    pub(crate) written: u64,
}

/// Records between two looks at the clock and at whether to stop.
const TURN: u64 = 1_024;

impl Plan {
    /// The targets that a plan without a profile's help lacks, for a message.
    pub(crate) fn lacks(&self) -> Vec<&'static str> {
        let mut lacking = Vec::new();
        if !self.has(Target::Arrival) {
            lacking.push("arrival");
        }
        if !self.has(Target::Ended) && !self.has(Target::Latency) {
            lacking.push("latency (or ended)");
        }
        if !self.has(Target::Fingerprint) && !self.has_texts() {
            lacking.push("fingerprint (or sql)");
        }
        lacking
    }

    fn has_texts(&self) -> bool {
        self.texts.is_some() || self.has(Target::Sql)
    }

    /// True if a target may come from somewhere.
    fn has(&self, target: Target) -> bool {
        let mut fields = self.profile.layouts.iter().flat_map(|layout| layout.fields);
        fields.any(|field| field.target == target) || self.mapping.iter().any(|source| source.target == target)
    }
}

/// Imports. Where no row was kept, nothing is written either, and the report says why.
///
/// # Errors
/// If a file cannot be read or lacks a column, a query's text is missing, history cannot be written, a record is bad and
/// that is not to be, or `stop` becomes true. Then the history is as it was.
pub(crate) fn run(plan: &Plan, stop: &AtomicBool, tell: &mut dyn FnMut(&Progress<'_>)) -> Result<Report, ImportError> {
    let bulk = Bulk::begin(&plan.out, plan.append)?;
    // Without texts there is nothing to hash, and no key to keep.
    let key = if plan.has_texts() { bulk.key()? } else { Key::PUBLIC };
    let of_bytes = plan.files.iter().map(|file| fs::metadata(file).map_or(0, |metadata| metadata.len())).sum();
    let mut import = Import {
        plan,
        stop,
        tell,
        builder: Builder::new(&plan.words, plan.texts.as_ref(), plan.sql, plan.offset, key),
        sorter: Sorter::new(bulk.scratch()),
        report: Report::of(plan.profile.name, &plan.out),
        bytes: 0,
        of_bytes,
    };
    for file in &plan.files {
        import.read(file, bulk.scratch())?;
    }
    import.write(bulk)
}

/// An import on its way.
struct Import<'a> {
    plan: &'a Plan,
    stop: &'a AtomicBool,
    tell: &'a mut dyn FnMut(&Progress<'_>),
    builder: Builder<'a>,
    sorter: Sorter,
    report: Report,
    /// Bytes of the files before.
    bytes: u64,
    of_bytes: u64,
}

/// A file that is being read.
struct Open {
    input: Input,
    bound: Bound,
    pairing: Pairing,
    name: String,
    place: Place,
    /// When its last row arrived, and on which cluster: only there does the order of a file mean anything.
    latest: (Time, Option<Arc<str>>),
}

impl Import<'_> {
    /// Reads a file to its end.
    fn read(&mut self, file: &Path, scratch: &Path) -> Result<(), ImportError> {
        let (records, kept) = (self.report.records, self.report.kept);
        let header = self.plan.profile.layouts.first().and_then(|layout| layout.header);
        let how = Reading { delimiter: self.plan.delimiter, header, scratch };
        let mut input = Input::open(file, how)?;
        let mut layout = "empty";
        if !input.is_empty() {
            let plan = self.plan;
            let bound = Bound::to(file, &mut input, plan.profile, &plan.mapping, plan.texts.as_ref())?;
            layout = if bound.layout.name.is_empty() { plan.profile.name } else { bound.layout.name };
            let place = Place { file: file.to_owned(), at: 0, row: input.counts_rows() };
            let name = rows::bare_name(file);
            self.records(Open { input, bound, pairing: Pairing::default(), name, place, latest: (Time::ZERO, None) })?;
        }
        self.bytes += fs::metadata(file).map_or(0, |metadata| metadata.len());
        let (records, kept) = (self.report.records - records, self.report.kept - kept);
        self.report.files.push(FileReport { file: file.to_owned(), layout, records, kept });
        Ok(())
    }

    fn records(&mut self, mut open: Open) -> Result<(), ImportError> {
        let (mut record, before) = (Record::default(), self.report.records);
        loop {
            if self.report.records.is_multiple_of(TURN) {
                self.pause(&open)?;
            }
            let read = open.input.next(&mut record)?;
            open.place.at = record.at;
            match read {
                Read::End => break,
                Read::Spoilt(refusal) => {
                    self.report.records += 1;
                    self.take(Verdict::Refuse(refusal), &mut open)?;
                }
                Read::Record => {
                    self.report.records += 1;
                    let verdict = self.judge(&mut record, &mut open)?;
                    self.take(verdict, &mut open)?;
                }
            }
        }
        self.pause(&open)?;
        if let Some(seen) = open.input.seen().filter(|_| self.report.records > before) {
            open.bound.check(&open.place.file, seen, open.input.columns())?;
        }
        Ok(())
    }

    fn judge(&mut self, record: &mut Record, open: &mut Open) -> Result<Verdict, ImportError> {
        if open.bound.layout.paired {
            match open.pairing.take(record, self.plan.offset) {
                Paired::Query(given) => record.cells.extend(*given),
                Paired::Nothing(what) => return Ok(Verdict::LeaveOut(what)),
                Paired::Spoilt(refusal) => return Ok(Verdict::Refuse(refusal)),
            }
        }
        let (bound, cells, file, place) = (&open.bound, &record.cells[..], &open.name[..], &open.place);
        self.builder.verdict(&Entry { bound, cells, file, place })
    }

    fn take(&mut self, verdict: Verdict, open: &mut Open) -> Result<(), ImportError> {
        match verdict {
            Verdict::Keep(row) => {
                self.report.kept += 1;
                let backwards = row.arrival < open.latest.0 && row.cluster == open.latest.1;
                self.report.backwards += u64::from(backwards);
                open.latest = (row.arrival, row.cluster.clone());
                self.sorter.push(*row).map_err(spilt)?;
            }
            Verdict::LeaveOut(what) => self.report.leave_out(what),
            Verdict::Refuse(refusal) if self.plan.strict => {
                return Err(ImportError::Strict { place: open.place.clone(), refusal });
            }
            Verdict::Refuse(refusal) => self.report.drop(&open.place, &refusal),
        }
        Ok(())
    }

    /// Says how far it is, and stops if it is to.
    fn pause(&mut self, open: &Open) -> Result<(), ImportError> {
        (self.tell)(&Progress {
            file: Some(&open.place.file),
            records: self.report.records,
            kept: self.report.kept,
            bytes: self.bytes + open.input.bytes(),
            of_bytes: self.of_bytes,
            written: 0,
        });
        if self.stop.load(Ordering::Relaxed) { Err(ImportError::Stopped) } else { Ok(()) }
    }

    /// Writes what was kept into history.
    fn write(self, mut bulk: Bulk) -> Result<Report, ImportError> {
        let Import { stop, tell, sorter, mut report, bytes, of_bytes, .. } = self;
        let mut rows = sorter.finish().map_err(spilt)?;
        let mut written = 0u64;
        for row in rows.by_ref() {
            let row = row.map_err(spilt)?;
            report.count(&row);
            bulk.push(row)?;
            written += 1;
            if written.is_multiple_of(TURN) {
                let (records, kept) = (report.records, report.kept);
                tell(&Progress { file: None, records, kept, bytes, of_bytes, written });
                if stop.load(Ordering::Relaxed) {
                    return Err(ImportError::Stopped);
                }
            }
        }
        report.kept = written;
        report.twice(rows.twice());
        drop(rows);
        let parts = if written > 0 { bulk.commit()? } else { 0 };
        report.finish(parts);
        Ok(report)
    }
}

fn spilt((file, cause): sorted::SpillError) -> ImportError {
    ImportError::Spill { file, cause }
}
