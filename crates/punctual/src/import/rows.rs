//! A row of history from a record's values.
//!
//! Nothing is guessed: a record that lacks what a row needs, or has a value that makes no sense, is refused with the
//! reason. Where a file merely knows less, the row does. NaN in a column that may be empty is how some systems write
//! nothing, and counts of rows and bytes below zero are how others do.

use std::path::Path;
use std::sync::Arc;

use punctual_core::fingerprint::Fingerprint;
use punctual_core::id::{QueryId, Units};
use punctual_core::query::{SqlState, Status};
use punctual_core::statement::Statement;
use punctual_core::time::{Span, Time};

use super::bound::{At, Bound, BoundSource};
use super::error::{ImportError, Place};
use super::records::Cell;
use super::refusal::{Reason, Refusal};
use super::stamp::{self, NotAStamp};
use super::target::{Takes, Target};
use super::texts::{Template, Texts};
use super::units::{NotFinite, Unit, whole};
use super::words::{self, CANCELLED, Meaning};
use crate::history::{Key, Row, fingerprint_of};
use crate::settings::RecordSql;

/// The last microsecond that a timestamp can name: the end of year 9999.
const LAST: i128 = 253_402_300_799_999_999;

/// Snowflake's words for sizes, in credits an hour.
const SIZES: [(&str, u32); 12] = [
    ("X-Small", 1),
    ("XSmall", 1),
    ("Small", 2),
    ("Medium", 4),
    ("Large", 8),
    ("X-Large", 16),
    ("2X-Large", 32),
    ("3X-Large", 64),
    ("4X-Large", 128),
    ("5X-Large", 256),
    ("6X-Large", 512),
    ("XLarge", 16),
];

/// What became of a record.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// A row.
    Keep(Box<Row>),
    /// No query, and what it is instead.
    LeaveOut(&'static str),
    /// It is bad.
    Refuse(Refusal),
}

/// What all files have in common.
pub(crate) struct Builder<'a> {
    pub(crate) words: &'a [(String, Meaning)],
    pub(crate) template: Option<&'a Template>,
    pub(crate) sql: RecordSql,
    /// Minutes east of Greenwich of timestamps without a zone.
    pub(crate) offset: i64,
    /// What texts are hashed with.
    pub(crate) key: Key,
    texts: Texts,
    last: Vec<Option<Arc<str>>>,
}

/// One record with all that is known of its file.
pub(crate) struct Entry<'a> {
    pub(crate) bound: &'a Bound,
    pub(crate) cells: &'a [Cell],
    /// The file's name without directory and extensions.
    pub(crate) file: &'a str,
    pub(crate) place: &'a Place,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(
        words: &'a [(String, Meaning)],
        template: Option<&'a Template>,
        sql: RecordSql,
        offset: i64,
        key: Key,
    ) -> Builder<'a> {
        Builder { words, template, sql, offset, key, texts: Texts::default(), last: vec![None; Target::ALL.len()] }
    }

    /// Makes a row of a record.
    ///
    /// # Errors
    /// If the file with its text cannot be read.
    pub(crate) fn verdict(&mut self, entry: &Entry<'_>) -> Result<Verdict, ImportError> {
        for (cell, left_out) in &entry.bound.left_out {
            let value = entry.bound.cell(entry.cells, *cell).text();
            if value.is_some_and(|value| left_out.values.iter().any(|known| known.eq_ignore_ascii_case(&value))) {
                return Ok(Verdict::LeaveOut(left_out.because));
            }
        }
        let text = match self.text(entry)? {
            Ok(text) => text,
            Err(refusal) => return Ok(Verdict::Refuse(refusal)),
        };
        Ok(self.row(entry, text).unwrap_or_else(Verdict::Refuse))
    }

    fn row(&mut self, entry: &Entry<'_>, text: Option<Arc<str>>) -> Result<Verdict, Refusal> {
        let (status, timeout) = match self.status(entry)? {
            None => (None, false),
            Some(Meaning::Ended(status)) => (Some(status), false),
            Some(Meaning::Timeout) => (Some(Status::Cancelled), true),
            Some(Meaning::NotEnded) => return Ok(Verdict::LeaveOut("a query that has not ended")),
        };
        let (arrival, ended) = self.ends(entry)?;
        let statement = self.reading(entry, text.as_deref());
        let fingerprint = fingerprint(entry, statement.as_ref())?;
        let mut row = Row::new(arrival, ended, fingerprint);
        row.started = self.started(entry, arrival, ended)?;
        self.name(entry, &mut row);
        row.query_id = key(entry, Target::QueryId, false).map(QueryId);
        row.cluster_size = size(entry)?;
        row.status = status;
        row.sqlstate = sqlstate(entry)?.or(timeout.then_some(CANCELLED));
        row.rows = count(entry, Target::Rows)?;
        row.bytes = count(entry, Target::Bytes)?;
        let hashed = |text: Arc<str>| self.key.hash(text.as_bytes());
        row.text_hash = key(entry, Target::TextHash, false).or_else(|| text.clone().map(hashed));
        row.slo = self.optional(entry, Target::Slo)?;
        row.predicted_p50 = self.optional(entry, Target::PredictedP50)?;
        row.predicted_p90 = self.optional(entry, Target::PredictedP90)?;
        row.isolated = self.optional(entry, Target::Isolated)?;
        row.published = self.optional(entry, Target::Published)?;
        row.sql = match self.sql {
            RecordSql::Text => text,
            RecordSql::Shape => statement.map(|statement| statement.shape.into()),
            RecordSql::Nothing => None,
        };
        Ok(Verdict::Keep(Box::new(row)))
    }

    /// The query's text: from its file, or from the record.
    fn text(&mut self, entry: &Entry<'_>) -> Result<Result<Option<Arc<str>>, Refusal>, ImportError> {
        if let (Some(template), Some(cells)) = (self.template, &entry.bound.text) {
            let values = cells.iter().map(|cell| entry.bound.cell(entry.cells, *cell));
            let path = match template.fill(values) {
                Ok(path) => path,
                Err(value) => return Ok(Err(Refusal::of(Reason::Path, value))),
            };
            let text = self.texts.get(path);
            let failed = |(file, cause)| ImportError::Text { place: entry.place.clone(), file, cause };
            return text.map(|text| Ok(Some(text))).map_err(failed);
        }
        let Some(text) = entry.joined(Target::Sql) else { return Ok(Ok(None)) };
        let text = text.trim_end();
        Ok(Ok(Some(if entry.bound.layout.escaped { unescaped(text).into() } else { text.into() })))
    }

    /// The text as read, where anyone wants it.
    fn reading(&self, entry: &Entry<'_>, text: Option<&str>) -> Option<Statement> {
        let known = entry.bound.by_column && entry.has(Target::Fingerprint);
        let wanted = !known || self.sql == RecordSql::Shape;
        text.filter(|_| wanted).map(Statement::read)
    }

    fn name(&mut self, entry: &Entry<'_>, row: &mut Row) {
        let mut shared = |target: Target| {
            let text = entry.joined(target)?;
            let last = &mut self.last[target as usize];
            if last.as_deref() != Some(text.as_str()) {
                *last = Some(text.into());
            }
            last.clone()
        };
        row.cluster = shared(Target::Cluster);
        row.class = shared(Target::Class);
        row.lane = shared(Target::Lane);
        row.user = shared(Target::User);
        row.database = shared(Target::Database);
        row.application = shared(Target::Application);
        row.split = shared(Target::Split);
    }

    /// When it arrived and when it ended.
    fn ends(&self, entry: &Entry<'_>) -> Result<(Time, Time), Refusal> {
        let missing = |target| Refusal::bare(Reason::Missing(target));
        let arrival = self.instant(entry, Target::Arrival)?.ok_or_else(|| missing(Target::Arrival))?;
        if let Some(ended) = self.instant(entry, Target::Ended)? {
            let early = || Refusal::of(Reason::EndsEarly, format!("{} before", arrival.since(ended)));
            return if ended < arrival { Err(early()) } else { Ok((arrival, ended)) };
        }
        let needed = if entry.bound.sources(Target::Latency).is_empty() { Target::Ended } else { Target::Latency };
        let latency = duration(entry, Target::Latency, true)?.ok_or_else(|| missing(needed))?;
        let ended = arrival + latency;
        if i128::from(ended.micros()) > LAST {
            return Err(Refusal::of(Reason::OutOfTime(Target::Ended), latency.to_string()));
        }
        Ok((arrival, ended))
    }

    fn started(&self, entry: &Entry<'_>, arrival: Time, ended: Time) -> Result<Option<Time>, Refusal> {
        if let Some(started) = self.instant(entry, Target::Started)? {
            let inside = (arrival..=ended).contains(&started);
            return if inside { Ok(Some(started)) } else { Err(Refusal::bare(Reason::StartsOutside)) };
        }
        // Durations are rounded apart from each other, so that they may exceed the whole a little.
        let latency = ended.since(arrival);
        if let Some(waited) = self.optional(entry, Target::Waited)? {
            return Ok(Some(arrival + waited.min(latency)));
        }
        let ran = self.optional(entry, Target::Ran)?;
        Ok(ran.map(|ran| arrival + (latency - ran.min(latency))))
    }

    fn optional(&self, entry: &Entry<'_>, target: Target) -> Result<Option<Span>, Refusal> {
        duration(entry, target, false)
    }

    /// An instant, if there is one.
    fn instant(&self, entry: &Entry<'_>, target: Target) -> Result<Option<Time>, Refusal> {
        let Some((source, cell)) = entry.first(target) else { return Ok(None) };
        let shown = || cell.text().unwrap_or_default();
        let refuse = |reason: fn(Target) -> Reason| Refusal::of(reason(target), shown());
        let micros = match (cell, source.unit) {
            (Cell::Null, _) => return Ok(None),
            (Cell::Time(micros), _) => i128::from(*micros),
            (Cell::Local(micros), _) => i128::from(*micros) - i128::from(self.offset) * 60_000_000,
            (Cell::Real(real), _) if real.is_nan() && target == Target::Started => return Ok(None),
            (_, Some(unit)) => finite(unit.micros(&shown())).map_err(refuse)?,
            (Cell::Text(text), None) => match stamp::micros(text, self.offset) {
                Ok(micros) => i128::from(micros),
                Err(NotAStamp::Zone) => return Err(refuse(Reason::Zone)),
                Err(NotAStamp::Form) if finite(Unit::Seconds.micros(text)).is_ok() => {
                    return Err(refuse(Reason::Unitless));
                }
                Err(NotAStamp::Form) => return Err(refuse(Reason::NotAStamp)),
            },
            (Cell::Whole(_) | Cell::Real(_), None) => return Err(refuse(Reason::Unitless)),
        };
        match u64::try_from(micros) {
            Ok(known) if micros <= LAST => Ok(Some(Time::from_micros(known))),
            _ => Err(refuse(Reason::OutOfTime)),
        }
    }

    /// What the words say, those given by hand first, then the profile's, then those that everyone uses.
    fn status(&self, entry: &Entry<'_>) -> Result<Option<Meaning>, Refusal> {
        let mut unknown = None;
        for source in entry.bound.sources(Target::Status) {
            let Some(word) = entry.cell(source, 0).and_then(Cell::text) else { continue };
            let by_hand = self.words.iter().find(|(known, _)| known.eq_ignore_ascii_case(&word));
            let of_column = || {
                let mut words = entry.bound.layout.words.iter();
                words.find(|(column, known, _)| {
                    *column == source.name && (*known == "*" || known.eq_ignore_ascii_case(&word))
                })
            };
            let meaning = by_hand.map(|(_, meaning)| *meaning);
            let meaning = meaning.or_else(|| of_column().map(|(_, _, meaning)| *meaning));
            match meaning.or_else(|| words::known(&word)) {
                Some(meaning) => return Ok(Some(meaning)),
                None => unknown = Some(word),
            }
        }
        unknown.map_or(Ok(None), |word| Err(Refusal::of(Reason::Unknown(Target::Status), word)))
    }
}

impl Entry<'_> {
    /// A value of a source, unless it is the file's name.
    fn cell(&self, source: &BoundSource, at: usize) -> Option<&Cell> {
        match source.columns.get(at)? {
            At::Cell(cell) => Some(self.bound.cell(self.cells, *cell)),
            At::File => None,
        }
    }

    /// The first value of a target that is not null.
    fn first(&self, target: Target) -> Option<(&BoundSource, &Cell)> {
        let mut sources = self.bound.sources(target).iter();
        sources.find_map(|source| {
            let cell = self.cell(source, 0).filter(|cell| **cell != Cell::Null)?;
            Some((source, cell))
        })
    }

    /// True if a target has a value.
    fn has(&self, target: Target) -> bool {
        self.joined(target).is_some()
    }

    /// The parts of the first source of a target that is not all null.
    fn parts(&self, target: Target) -> Option<Vec<String>> {
        self.bound.sources(target).iter().find_map(|source| {
            let parts: Vec<String> = source
                .columns
                .iter()
                .filter_map(|at| match at {
                    At::File => Some(self.file.to_owned()),
                    At::Cell(cell) => match self.bound.cell(self.cells, *cell) {
                        Cell::Text(text) if target == Target::Sql => Some(text.clone()),
                        cell => cell.text(),
                    },
                })
                .collect();
            (!parts.is_empty()).then_some(parts)
        })
    }

    /// The parts as one text.
    fn joined(&self, target: Target) -> Option<String> {
        self.parts(target).map(|parts| parts.join("/"))
    }
}

/// A duration, added up from its parts. Unless it is needed, NaN is null.
fn duration(entry: &Entry<'_>, target: Target, needed: bool) -> Result<Option<Span>, Refusal> {
    debug_assert_eq!(target.takes(), Takes::Duration);
    for source in entry.bound.sources(target) {
        let mut sum = None;
        for at in 0..source.columns.len() {
            let Some(value) = entry.cell(source, at).and_then(Cell::text) else { continue };
            let refuse = |reason: fn(Target) -> Reason| Refusal::of(reason(target), value.clone());
            let micros = match source.unit.unwrap_or(Unit::Seconds).micros(&value) {
                Err(NotFinite::NaN) if !needed => continue,
                // Minus infinity is a duration below zero first of all.
                Err(NotFinite::MinusInfinite) => return Err(refuse(Reason::Negative)),
                micros => finite(micros).map_err(refuse)?,
            };
            if micros < 0 {
                return Err(refuse(Reason::Negative));
            }
            if micros > LAST {
                return Err(refuse(Reason::Infinite));
            }
            sum = Some(sum.unwrap_or(0) + micros as u64);
        }
        if let Some(micros) = sum {
            return Ok(Some(Span::from_micros(micros)));
        }
    }
    Ok(None)
}

fn finite(number: Result<i128, NotFinite>) -> Result<i128, fn(Target) -> Reason> {
    number.map_err(|why| match why {
        NotFinite::NaN | NotFinite::Text => Reason::NotANumber as fn(Target) -> Reason,
        NotFinite::Infinite | NotFinite::MinusInfinite => Reason::Infinite,
    })
}

/// The number that a key is: a whole number is taken as it is, anything else stands for its hash.
fn key(entry: &Entry<'_>, target: Target, hexadecimal: bool) -> Option<u64> {
    let parts = entry.parts(target)?;
    let [one] = parts.as_slice() else {
        // A separator that no value has, so that 1 and 23 are not 12 and 3.
        return Some(Key::PUBLIC.hash(parts.join("\u{1f}").as_bytes()));
    };
    let is_text = matches!(entry.first(target), Some((_, Cell::Text(_))));
    if hexadecimal && is_text && one.len() == 16 {
        return Some(fingerprint_of(one));
    }
    let plain = one.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-'));
    let number = whole(one).filter(|_| plain);
    // The same bits, as history reads a signed column that carries its numbers.
    let number = number.and_then(|n| u64::try_from(n).ok().or_else(|| i64::try_from(n).ok().map(|n| n as u64)));
    Some(number.unwrap_or_else(|| Key::PUBLIC.hash(one.as_bytes())))
}

fn fingerprint(entry: &Entry<'_>, statement: Option<&Statement>) -> Result<Fingerprint, Refusal> {
    let of_column = || key(entry, Target::Fingerprint, true).map(Fingerprint);
    let of_text = || statement.map(|statement| statement.fingerprint);
    let found = if entry.bound.by_column { of_column().or_else(of_text) } else { of_text().or_else(of_column) };
    found.ok_or_else(|| Refusal::bare(Reason::Unidentified))
}

fn size(entry: &Entry<'_>) -> Result<Option<Units>, Refusal> {
    let Some(value) = entry.joined(Target::ClusterSize).filter(|value| value != "NaN") else { return Ok(None) };
    if let Some((_, units)) = SIZES.iter().find(|(name, _)| name.eq_ignore_ascii_case(&value)) {
        return Ok(Some(Units(*units)));
    }
    let units = whole(&value).and_then(|units| u32::try_from(units).ok()).filter(|units| *units > 0);
    let wrong = || Refusal::of(Reason::NotWhole(Target::ClusterSize), value);
    units.map(|units| Some(Units(units))).ok_or_else(wrong)
}

fn count(entry: &Entry<'_>, target: Target) -> Result<Option<u64>, Refusal> {
    let Some(value) = entry.joined(target).filter(|value| value != "NaN") else { return Ok(None) };
    let wrong = || Refusal::of(Reason::NotWhole(target), value.clone());
    let number = whole(&value).ok_or_else(wrong)?;
    if number < 0 {
        return Ok(None);
    }
    u64::try_from(number).map(Some).map_err(|_| wrong())
}

fn sqlstate(entry: &Entry<'_>) -> Result<Option<SqlState>, Refusal> {
    let Some(value) = entry.joined(Target::SqlState) else { return Ok(None) };
    let wrong = |_| Refusal::of(Reason::Unknown(Target::SqlState), value.clone());
    value.as_bytes().try_into().map(|code| Some(SqlState(code))).map_err(wrong)
}

/// A text with `\n`, `\r`, `\t` and `\\` spelled out as what they stand for.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let stands_for = match (character, characters.peek()) {
            ('\\', Some('n')) => '\n',
            ('\\', Some('r')) => '\r',
            ('\\', Some('t')) => '\t',
            ('\\', Some('\\')) => '\\',
            _ => {
                plain.push(character);
                continue;
            }
        };
        characters.next();
        plain.push(stands_for);
    }
    plain
}

/// A file's name without its directory and extensions: what `@file` stands for.
pub(crate) fn bare_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.rsplit_once('.').map_or(name, |(bare, _)| bare).to_owned()
}
