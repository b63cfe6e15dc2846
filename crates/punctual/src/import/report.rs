//! What an import did: what was kept, what was dropped and why, what was no query.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use punctual_core::time::Time;
use serde::Serialize;

use super::error::Place;
use super::refusal::Refusal;
use crate::catalog::stamp::timestamp;
use crate::history::Row;

/// Records of each reason that are shown.
const SHOWN: usize = 3;

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Report {
    /// The profile.
    pub(crate) profile: &'static str,
    /// The history.
    pub(crate) out: PathBuf,
    /// Files that were read.
    pub(crate) files: Vec<FileReport>,
    /// Records that were read.
    pub(crate) records: u64,
    /// Rows that are in the history now.
    pub(crate) kept: u64,
    /// Rows by how the query ended.
    pub(crate) statuses: BTreeMap<&'static str, u64>,
    /// Records that were bad.
    pub(crate) dropped: u64,
    /// The same by reason.
    pub(crate) reasons: BTreeMap<String, u64>,
    /// The first few of each reason.
    pub(crate) examples: Vec<Example>,
    /// Records that are no query.
    pub(crate) left_out: u64,
    /// The same by what they are.
    pub(crate) others: BTreeMap<&'static str, u64>,
    /// Rows that arrived before the one before them in their file. They are kept: history is in order of its own.
    pub(crate) backwards: u64,
    /// The first arrival and the last end.
    pub(crate) first: Option<String>,
    pub(crate) last: Option<String>,
    /// Parquet files that were added.
    pub(crate) parts: usize,
    #[serde(skip)]
    span: Option<(Time, Time)>,
}

/// What was read of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FileReport {
    pub(crate) file: PathBuf,
    /// What it was taken for.
    pub(crate) layout: &'static str,
    pub(crate) records: u64,
    pub(crate) kept: u64,
}

/// A record that was dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Example {
    /// Its file and line.
    pub(crate) at: String,
    pub(crate) reason: String,
    pub(crate) value: Option<String>,
}

impl Report {
    /// An import that has not begun.
    pub(crate) fn of(profile: &'static str, out: &Path) -> Report {
        Report { profile, out: out.to_owned(), ..Report::default() }
    }

    /// Takes note of a row that goes into history.
    pub(crate) fn count(&mut self, row: &Row) {
        *self.statuses.entry(row.status.map_or("unknown", |status| status.name())).or_default() += 1;
        let (first, last) = self.span.unwrap_or((row.arrival, row.ended));
        self.span = Some((first.min(row.arrival), last.max(row.ended)));
    }

    /// Counts rows that turned out to be there twice.
    pub(crate) fn twice(&mut self, rows: u64) {
        if rows > 0 {
            self.dropped += rows;
            *self.reasons.entry(super::refusal::Reason::Duplicate.to_string()).or_default() += rows;
        }
    }

    /// Counts a record that was dropped. True for the first few of a reason.
    pub(crate) fn drop(&mut self, place: &Place, refusal: &Refusal) {
        self.dropped += 1;
        let reason = refusal.reason.to_string();
        let count = self.reasons.entry(reason.clone()).or_default();
        *count += 1;
        if *count <= SHOWN as u64 {
            self.examples.push(Example { at: place.to_string(), reason, value: refusal.value.clone() });
        }
    }

    /// Counts a record that is no query.
    pub(crate) fn leave_out(&mut self, what: &'static str) {
        self.left_out += 1;
        *self.others.entry(what).or_default() += 1;
    }

    /// Fills in what is known at the end.
    pub(crate) fn finish(&mut self, parts: usize) {
        self.parts = parts;
        self.first = self.span.map(|(first, _)| timestamp(first));
        self.last = self.span.map(|(_, last)| timestamp(last));
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} kept", grouped(self.kept), counted(self.records, "record"))?;
        if self.kept > 0 {
            write!(f, " in {}, {} of Parquet", self.out.display(), counted(self.parts as u64, "file"))?;
        }
        let (first, last) = (self.first.as_deref().unwrap_or("-"), self.last.as_deref().unwrap_or("-"));
        write!(f, "\n  from {first} to {last} UTC")?;
        let ends: Vec<String> = self.statuses.iter().map(|(name, n)| format!("{} {name}", grouped(*n))).collect();
        if !ends.is_empty() {
            write!(f, "\n  status: {}", ends.join(", "))?;
        }
        if self.files.len() > 1 {
            for file in &self.files {
                let (kept, records) = (grouped(file.kept), grouped(file.records));
                write!(f, "\n  {kept:>9} of {records} from {}", file.file.display())?;
            }
        }
        if self.dropped > 0 {
            write!(f, "\ndropped {}:", counted(self.dropped, "record"))?;
        }
        for (reason, count) in &self.reasons {
            write!(f, "\n  {:>9}  {reason}", grouped(*count))?;
            for example in self.examples.iter().filter(|example| example.reason == *reason) {
                let value = example.value.as_ref().map_or_else(String::new, |value| format!(" ({value})"));
                write!(f, "\n             {}{value}", example.at)?;
            }
        }
        if self.left_out > 0 {
            write!(f, "\nleft out {}:", counted(self.left_out, "record"))?;
        }
        for (what, count) in &self.others {
            write!(f, "\n  {:>9}  {what}", grouped(*count))?;
        }
        if self.backwards > 0 {
            let rows = counted(self.backwards, "row");
            write!(f, "\nnote: {rows} arrived before the one before in the file; history puts them in order")?;
        }
        Ok(())
    }
}

fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// `1,234,567`
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        let read = [0, 7, 999, 1_000, 22_032, 1_234_567].map(grouped);
        assert_eq!(read, ["0", "7", "999", "1,000", "22,032", "1,234,567"]);
    }
}
