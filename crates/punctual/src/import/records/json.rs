//! JSON lines: an object on each line. `a.b` asks for what is in `a`, if there is nothing of the whole name.

use std::collections::VecDeque;
use std::io::{self, BufRead};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Map, Value};

use super::source::Stream;
use super::{Cell, MAX_RECORD, Read, Record};
use crate::import::refusal::{Reason, Refusal};

/// How deep names are looked for.
const DEPTH: usize = 4;

/// Lines that are looked at for the first object.
const FIRST: usize = 100;

/// JSON lines that are being read.
pub(super) struct Lines {
    stream: Stream,
    count: Arc<AtomicU64>,
    columns: Vec<String>,
    asked: Vec<String>,
    seen: Vec<bool>,
    line: Vec<u8>,
    number: u64,
    /// What the first lines held, up to the first object, until they are asked for.
    first: VecDeque<(u64, Line)>,
}

/// What a line was.
enum Line {
    Object(Map<String, Value>),
    Spoilt(Refusal),
    End,
}

impl Lines {
    pub(super) fn open(stream: Stream) -> io::Result<Lines> {
        let count = stream.count();
        let (columns, asked, seen, line) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut lines = Lines { stream, count, columns, asked, seen, line, number: 0, first: VecDeque::new() };
        while lines.first.len() < FIRST {
            let line = lines.read()?;
            if let Line::Object(object) = &line {
                flatten(object, "", DEPTH, &mut lines.columns);
            }
            let spoilt = matches!(line, Line::Spoilt(_));
            lines.first.push_back((lines.number, line));
            if !spoilt {
                break;
            }
        }
        Ok(lines)
    }

    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    pub(super) fn ask(&mut self, wanted: &[String]) {
        self.asked = wanted.to_vec();
        self.seen = vec![false; wanted.len()];
    }

    pub(super) fn seen(&self) -> &[bool] {
        &self.seen
    }

    pub(super) fn bytes(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn next(&mut self, record: &mut Record) -> io::Result<Read> {
        let (number, line) = match self.first.pop_front() {
            Some(first) => first,
            None => {
                let line = self.read()?;
                (self.number, line)
            }
        };
        record.at = number;
        let object = match line {
            Line::Object(object) => object,
            Line::Spoilt(refusal) => return Ok(Read::Spoilt(refusal)),
            Line::End => return Ok(Read::End),
        };
        record.cells.clear();
        for (name, seen) in self.asked.iter().zip(&mut self.seen) {
            let value = find(&object, name);
            *seen |= value.is_some();
            record.cells.push(value.map_or(Cell::Null, cell));
        }
        Ok(Read::Record)
    }

    /// The next line that is not blank.
    fn read(&mut self) -> io::Result<Line> {
        loop {
            self.line.clear();
            let (read, whole) = self.read_line()?;
            if !read {
                return Ok(Line::End);
            }
            self.number += 1;
            if !whole {
                return Ok(Line::Spoilt(Refusal::bare(Reason::TooLong)));
            }
            if self.line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            return Ok(match serde_json::from_slice(&self.line) {
                Ok(Value::Object(object)) => Line::Object(object),
                Ok(_) => Line::Spoilt(Refusal::bare(Reason::NotAnObject)),
                Err(cause) => Line::Spoilt(Refusal::of(Reason::NotJson, cause.to_string())),
            });
        }
    }

    /// Reads to the end of the line. False for the end of the file; then, false for a line that is too long to keep.
    fn read_line(&mut self) -> io::Result<(bool, bool)> {
        let (mut read, mut whole) = (false, true);
        loop {
            let window = self.stream.bytes.fill_buf()?;
            if window.is_empty() {
                return Ok((read, whole));
            }
            read = true;
            let end = window.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(window.len(), |end| end + 1);
            whole &= self.line.len() + taken <= MAX_RECORD;
            if whole {
                self.line.extend_from_slice(&window[..taken]);
            }
            self.stream.bytes.consume(taken);
            if end.is_some() {
                return Ok((read, whole));
            }
        }
    }
}

/// The names of an object's values, those of inner objects after the outer one's name.
fn flatten(object: &Map<String, Value>, before: &str, depth: usize, names: &mut Vec<String>) {
    for (name, value) in object {
        names.push(format!("{before}{name}"));
        if let Value::Object(inner) = value
            && depth > 1
        {
            flatten(inner, &format!("{before}{name}."), depth - 1, names);
        }
    }
}

/// The value of that name: as it is, or else in another case, or else further in.
fn find<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let here = |name: &str| {
        let other_case = || object.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value);
        object.get(name).or_else(other_case)
    };
    here(name).or_else(|| {
        let (outer, inner) = name.split_once('.')?;
        find(here(outer)?.as_object()?, inner)
    })
}

fn cell(value: &Value) -> Cell {
    match value {
        Value::Null => Cell::Null,
        Value::Bool(truth) => Cell::Text(truth.to_string()),
        Value::String(text) if text.trim().is_empty() => Cell::Null,
        Value::String(text) => Cell::Text(text.clone()),
        Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(whole), _, _) => Cell::Whole(whole.into()),
            (None, Some(whole), _) => Cell::Whole(whole.into()),
            (None, None, Some(real)) => Cell::Real(real),
            (None, None, None) => Cell::Text(number.to_string()),
        },
        Value::Array(_) | Value::Object(_) => Cell::Text(value.to_string()),
    }
}
