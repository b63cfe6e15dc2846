//! Rows in the order in which they ended, in bounded memory, however many there are.
//!
//! History has a file for each hour, and a file is written from its start to its end: so rows must come in order, which
//! logs are not in. Rows are gathered up to [`GATHERED`] bytes, sorted, and written to a temporary run; at the end the
//! runs are merged, at most [`MERGED`] at once, each with one row and one window of its file in memory. An import of
//! any size so takes about twice [`GATHERED`], and once its size on the disk for as long as it runs.
//!
//! Records that are the same in all, their query's id included, end up beside each other and are one row.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use punctual_core::time::{Span, Time};

use crate::history::Row;

/// Bytes of rows that are held at once.
const GATHERED: usize = 64 << 20;

/// Runs that are merged at once.
const MERGED: usize = 64;

/// Why rows could not be sorted: with which file, and the cause.
pub(crate) type SpillError = (PathBuf, io::Error);

/// What the logged form of a row leaves out: its split and the published prediction.
type Extra = (Option<String>, Option<Span>);

/// Takes rows in any order.
pub(crate) struct Sorter {
    dir: PathBuf,
    gathered: Vec<Row>,
    bytes: usize,
    most: usize,
    runs: Vec<PathBuf>,
    /// Runs that were ever made, for their names.
    made: usize,
}

impl Sorter {
    /// Sorts with temporary files in a directory, which its caller removes.
    pub(crate) fn new(dir: &Path) -> Sorter {
        Sorter { dir: dir.to_owned(), gathered: Vec::new(), bytes: 0, most: GATHERED, runs: Vec::new(), made: 0 }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If a run cannot be written.
    pub(crate) fn push(&mut self, row: Row) -> Result<(), SpillError> {
        self.bytes += row.weight();
        self.gathered.push(row);
        if self.bytes >= self.most { self.spill() } else { Ok(()) }
    }

    /// The rows in order.
    ///
    /// # Errors
    /// If the runs cannot be written or read.
    pub(crate) fn finish(mut self) -> Result<Sorted, SpillError> {
        if self.runs.is_empty() {
            sort(&mut self.gathered);
            return Ok(Sorted { merge: Merge::default(), gathered: self.gathered.into_iter(), last: None, twice: 0 });
        }
        self.spill()?;
        while self.runs.len() > MERGED {
            let some: Vec<PathBuf> = self.runs.drain(..MERGED).collect();
            let merge = Merge::of(&some)?;
            let merged = self.write(merge)?;
            // At the end, so that runs of one size are merged and no row is copied more often than it must be.
            self.runs.push(merged);
            some.iter().for_each(|run| drop(fs::remove_file(run)));
        }
        let merge = Merge::of(&self.runs)?;
        Ok(Sorted { merge, gathered: Vec::new().into_iter(), last: None, twice: 0 })
    }

    fn spill(&mut self) -> Result<(), SpillError> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let mut rows = std::mem::take(&mut self.gathered);
        self.bytes = 0;
        sort(&mut rows);
        let run = self.write(rows.into_iter().map(Ok))?;
        self.runs.push(run);
        Ok(())
    }

    fn write(&mut self, rows: impl Iterator<Item = Result<Row, SpillError>>) -> Result<PathBuf, SpillError> {
        let path = self.dir.join(format!("run-{}.tmp", self.made));
        self.made += 1;
        let failed = |cause| (path.clone(), cause);
        let mut file = BufWriter::with_capacity(256 << 10, File::create(&path).map_err(failed)?);
        let mut scratch = Vec::new();
        for row in rows {
            let row = row?;
            scratch.clear();
            let extra = (row.split.as_deref(), row.published);
            let bytes = postcard::to_extend(&(&row, extra), std::mem::take(&mut scratch));
            scratch = bytes.map_err(|cause| failed(io::Error::other(cause)))?;
            let length = u32::try_from(scratch.len()).map_err(|cause| failed(io::Error::other(cause)))?;
            file.write_all(&length.to_le_bytes()).and_then(|()| file.write_all(&scratch)).map_err(failed)?;
        }
        file.flush().map_err(failed)?;
        Ok(path)
    }
}

fn sort(rows: &mut [Row]) {
    rows.sort_by_key(order);
}

/// What rows are ordered by; rows that are alike in it keep the order in which they came.
fn order(row: &Row) -> (Time, Time, Option<u64>) {
    (row.ended, row.arrival, row.query_id.map(|id| id.0))
}

/// Rows in order.
pub(crate) struct Sorted {
    merge: Merge,
    gathered: std::vec::IntoIter<Row>,
    last: Option<Row>,
    twice: u64,
}

impl Sorted {
    /// Rows that were there twice, so far.
    pub(crate) fn twice(&self) -> u64 {
        self.twice
    }

    fn read(&mut self) -> Option<Result<Row, SpillError>> {
        self.gathered.next().map(Ok).or_else(|| self.merge.next())
    }
}

impl Iterator for Sorted {
    type Item = Result<Row, SpillError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let row = match self.read()? {
                Ok(row) => row,
                Err(cause) => return Some(Err(cause)),
            };
            if row.query_id.is_some() && self.last.as_ref() == Some(&row) {
                self.twice += 1;
                continue;
            }
            self.last = Some(row.clone());
            return Some(Ok(row));
        }
    }
}

/// Several runs as one.
#[derive(Default)]
struct Merge {
    runs: Vec<Run>,
    heads: BinaryHeap<Reverse<Head>>,
}

impl Merge {
    fn of(paths: &[PathBuf]) -> Result<Merge, SpillError> {
        let mut merge = Merge::default();
        for (at, path) in paths.iter().enumerate() {
            let file = File::open(path).map_err(|cause| (path.clone(), cause))?;
            let reader = BufReader::with_capacity(64 << 10, file);
            merge.runs.push(Run { path: path.clone(), reader, scratch: Vec::new() });
            if let Some(row) = merge.runs[at].read()? {
                merge.heads.push(Reverse(Head { row, run: at }));
            }
        }
        Ok(merge)
    }
}

impl Iterator for Merge {
    type Item = Result<Row, SpillError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Reverse(Head { row, run }) = self.heads.pop()?;
        match self.runs[run].read() {
            Ok(Some(row)) => self.heads.push(Reverse(Head { row, run })),
            Ok(None) => {}
            Err(cause) => return Some(Err(cause)),
        }
        Some(Ok(row))
    }
}

/// The next row of a run. Of equal ones, the earlier run's comes first.
struct Head {
    row: Row,
    run: usize,
}

impl Ord for Head {
    fn cmp(&self, other: &Head) -> Ordering {
        (order(&self.row), self.run).cmp(&(order(&other.row), other.run))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

/// A run that is being read.
struct Run {
    path: PathBuf,
    reader: BufReader<File>,
    scratch: Vec<u8>,
}

impl Run {
    fn read(&mut self) -> Result<Option<Row>, SpillError> {
        let mut length = [0; 4];
        match self.reader.read_exact(&mut length) {
            Ok(()) => {}
            Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(cause) => return Err((self.path.clone(), cause)),
        }
        self.scratch.resize(u32::from_le_bytes(length) as usize, 0);
        self.reader.read_exact(&mut self.scratch).map_err(|cause| (self.path.clone(), cause))?;
        let failed = |cause| (self.path.clone(), io::Error::other(cause));
        let (row, extra) = postcard::from_bytes::<(Row, Extra)>(&self.scratch).map_err(failed)?;
        let (split, published) = extra;
        Ok(Some(Row { split: split.map(Arc::from), published, ..row }))
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::fingerprint::Fingerprint;
    use punctual_core::id::QueryId;

    use super::*;

    fn row(ended: u64, id: Option<u64>) -> Row {
        let row = Row::new(Time::ZERO, Time::from_micros(ended), Fingerprint(ended * 7));
        let published = Some(Span::from_micros(ended));
        Row { query_id: id.map(QueryId), split: Some(format!("s{ended}").into()), published, ..row }
    }

    fn sorter(dir: &Path, rows_in_memory: usize) -> Sorter {
        Sorter { most: row(1, None).weight() * rows_in_memory, ..Sorter::new(dir) }
    }

    #[test]
    fn rows_come_out_in_order_with_all_that_they_hold_however_many_runs_it_takes() {
        for in_memory in [1, 3, 50, 10_000] {
            let dir = tempfile::tempdir().unwrap();
            let mut sorter = sorter(dir.path(), in_memory);
            // 1,009 is a prime: every number comes once, in no order.
            (0..1_009).for_each(|i| sorter.push(row(i * 631 % 1_009, None)).unwrap());
            let sorted: Vec<Row> = sorter.finish().unwrap().map(Result::unwrap).collect();
            assert!(sorted.into_iter().eq((0..1_009).map(|ended| row(ended, None))), "{in_memory}");
        }
    }

    #[test]
    fn what_is_the_same_in_all_its_id_included_is_one_row() {
        for in_memory in [1, 100] {
            let dir = tempfile::tempdir().unwrap();
            let mut sorter = sorter(dir.path(), in_memory);
            for id in [Some(1), Some(2), Some(1), None, None] {
                sorter.push(row(5, id)).unwrap();
            }
            let mut sorted = sorter.finish().unwrap();
            let ids: Vec<Option<u64>> = sorted.by_ref().map(|row| row.unwrap().query_id.map(|id| id.0)).collect();
            assert_eq!(ids, [None, None, Some(1), Some(2)]);
            assert_eq!(sorted.twice(), 1);
        }
    }

    #[test]
    fn a_full_disk_is_an_error_that_names_the_file() {
        let missing = Path::new("/nonexistent/scratch");
        let (path, _) = sorter(missing, 1).push(row(1, None)).unwrap_err();
        assert_eq!(path, missing.join("run-0.tmp"));
    }
}
