//! CSV: a header, quotes, doubled quotes in quotes, line ends in quotes, any delimiter.
//!
//! Lines are counted here, since the library counts only those that end in a line feed, and none that is blank: line ends
//! of two characters become one on the way in, also in quotes, and the last line gets one if it has none.
//!
//! A record may have fewer or more values than the header; then it is refused, and the next one is read. Bytes that are
//! no UTF-8 become `�`. A quote that is never closed would make one record of the whole rest: it ends at
//! [`MAX_RECORD`], with an error that says so, since nobody can know where the next record begins.

use std::io::{self, BufRead as _, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use csv::{ByteRecord, Reader, ReaderBuilder};

use super::source::Stream;
use super::{Cell, MAX_RECORD, Read, Record};
use crate::import::error::ImportError;
use crate::import::refusal::{Reason, Refusal};

/// CSV that is being read.
pub(super) struct Lines {
    reader: Reader<Bounded>,
    columns: Vec<String>,
    asked: Vec<Option<usize>>,
    line: ByteRecord,
    /// The first record, where there was no header.
    first: bool,
    count: Arc<AtomicU64>,
}

impl Lines {
    /// Reads the header or, if the columns are known without one, the first record.
    pub(super) fn open(
        path: &Path,
        stream: Stream,
        delimiter: u8,
        header: Option<&'static [&'static str]>,
    ) -> Result<Lines, ImportError> {
        let count = stream.count();
        let bounded = Bounded { bytes: stream.bytes, left: MAX_RECORD, held: false, last: b'\n' };
        let mut builder = ReaderBuilder::new();
        let reader = builder.has_headers(false).flexible(true).delimiter(delimiter).from_reader(bounded);
        let (columns, asked, line) = (Vec::new(), Vec::new(), ByteRecord::new());
        let mut lines = Lines { reader, columns, asked, line, first: header.is_some(), count };
        lines.advance().map_err(|cause| ImportError::Read { file: path.to_owned(), cause })?;
        lines.columns = match header {
            Some(names) => {
                let known = names.len().min(lines.line.len());
                names[..known].iter().map(|name| (*name).to_owned()).collect()
            }
            None => lines.line.iter().map(|name| String::from_utf8_lossy(name).trim().to_owned()).collect(),
        };
        Ok(lines)
    }

    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    pub(super) fn ask(&mut self, columns: Vec<Option<usize>>) {
        self.asked = columns;
    }

    pub(super) fn bytes(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn next(&mut self, record: &mut Record) -> io::Result<Read> {
        if !std::mem::take(&mut self.first) && !self.advance()? {
            return Ok(Read::End);
        }
        record.at = self.first_line();
        if self.line.len() != self.columns.len() {
            let value = format!("{} instead of {}", self.line.len(), self.columns.len());
            return Ok(Read::Spoilt(Refusal::of(Reason::Width, value)));
        }
        record.cells.clear();
        let cell = |at: &Option<usize>| {
            let bytes = at.and_then(|at| self.line.get(at));
            bytes.map_or(Cell::Null, |bytes| Cell::of_text(&String::from_utf8_lossy(bytes)))
        };
        record.cells.extend(self.asked.iter().map(cell));
        Ok(Read::Record)
    }

    /// The line that the record begins on: as many before the line that is next as the record has.
    fn first_line(&self) -> u64 {
        let within = self.line.as_slice().iter().filter(|byte| **byte == b'\n').count() as u64;
        self.reader.position().line().saturating_sub(within + 1).max(1)
    }

    /// Reads the next line; false at the end.
    fn advance(&mut self) -> io::Result<bool> {
        self.reader.get_mut().left = MAX_RECORD;
        self.reader.read_byte_record(&mut self.line).map_err(|cause| match cause.into_kind() {
            csv::ErrorKind::Io(cause) => cause,
            kind => io::Error::other(format!("{kind:?}")),
        })
    }
}

/// A stream with plain line ends, which ends with an error when one record has taken too much of it.
struct Bounded {
    bytes: BufReader<Box<dyn io::Read>>,
    left: usize,
    /// True after a carriage return that may belong to a line feed.
    held: bool,
    last: u8,
}

impl io::Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = self.left.min(buffer.len());
        if room < 2 {
            let why = "a record is larger than 64 MiB: a quote that is not closed makes one of all that follows";
            return Err(io::Error::other(why));
        }
        let mut filled = 0;
        while filled == 0 {
            let window = self.bytes.fill_buf()?;
            if window.is_empty() {
                filled = self.end(buffer);
                break;
            }
            let mut taken = 0;
            for byte in window {
                // Each byte may bring the one that is held with it.
                if filled + 2 > room {
                    break;
                }
                if std::mem::take(&mut self.held) && *byte != b'\n' {
                    buffer[filled] = b'\r';
                    filled += 1;
                }
                if *byte == b'\r' {
                    self.held = true;
                } else {
                    buffer[filled] = *byte;
                    filled += 1;
                }
                taken += 1;
            }
            self.bytes.consume(taken);
        }
        if filled > 0 {
            self.last = buffer[filled - 1];
        }
        self.left -= filled;
        Ok(filled)
    }
}

impl Bounded {
    /// What comes after the last byte: a line end, unless that was one.
    fn end(&mut self, buffer: &mut [u8]) -> usize {
        if !std::mem::take(&mut self.held) && self.last == b'\n' {
            return 0;
        }
        buffer[0] = b'\n';
        1
    }
}
