//! How much of time queries read, for their admission: only where tables with a column of time are configured.
//!
//! What core keeps of grammars is shared by all sessions, in parts behind locks of their own: a text belongs to the part that
//! its fingerprint says, so that sessions seldom meet.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use punctual_core::admit::claim::Scan;
use punctual_core::scan::{Scans, TimeTable, TimeTables, instant_text};

use super::messages::{self, Bind, Parse};
use super::query::Work;
use super::reading::Reading;
use super::statements::Statements;
use super::unit::frames_of;
use crate::clock::Clock;

/// Parts of what is kept.
const PARTS: usize = 16;
/// Grammars that are kept, in all.
const KEPT: usize = 4_096;

const INT2: u32 = 21;
const INT4: u32 = 23;
const INT8: u32 = 20;
const DATE: u32 = 1082;
const TIMESTAMP: u32 = 1114;
const TIMESTAMPTZ: u32 = 1184;
const TEXTS: [u32; 4] = [25, 1043, 1042, 705];

const FROM_1970_TO_2000: i64 = 946_684_800_000_000;
const DAY: i64 = 86_400_000_000;

/// Finds how much of time queries read.
pub(crate) struct TimeRanges {
    parts: Vec<Mutex<Scans>>,
    clock: Clock,
}

impl fmt::Debug for TimeRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimeRanges({} parts)", self.parts.len())
    }
}

impl TimeRanges {
    /// With these tables; None if there are none.
    pub(crate) fn new(tables: &[TimeTable], clock: Clock) -> Option<TimeRanges> {
        let tables = Arc::new(TimeTables::new(tables.to_vec()));
        let part = |_| Mutex::new(Scans::new(Arc::clone(&tables), KEPT / PARTS));
        (!tables.is_empty()).then(|| TimeRanges { parts: (0..PARTS).map(part).collect(), clock })
    }

    /// How much of time a text reads that comes now, with these parameters.
    pub(super) fn of(&self, reading: &Reading, parameters: &[Option<String>]) -> Option<Scan> {
        let statement = &reading.statement;
        let parameters: Vec<Option<&str>> = parameters.iter().map(Option::as_deref).collect();
        let part = &self.parts[(statement.fingerprint.0 % PARTS as u64) as usize];
        // What is kept is whole at any time.
        let mut scans = part.lock().unwrap_or_else(PoisonError::into_inner);
        scans.read(&reading.text, statement, &parameters, self.clock.now())
    }
}

/// The values of a query's parameters as text, where they are known: those of its one Bind, if what it binds is the query
/// and nothing else is executed. A pipeline with several may run the same text with different values.
pub(super) fn parameters(work: &Work, statements: &Statements) -> Vec<Option<String>> {
    let Work::Pipeline { segment, reading, .. } = work else { return Vec::new() };
    let only = |wanted: u8| {
        let mut frames = frames_of(segment).filter(|(tag, _)| *tag == wanted).map(|(_, frame)| frame);
        (frames.next(), frames.next().is_some())
    };
    let (Some(frame), false) = only(b'B') else { return Vec::new() };
    let Ok(bind) = Bind::read(frame) else { return Vec::new() };
    let executes_it = match only(b'E') {
        (None, _) => true,
        (Some(frame), several) => !several && messages::execute(frame).is_ok_and(|(portal, _)| portal == bind.portal),
    };
    let parsed = frames_of(segment).filter(|(tag, _)| *tag == b'P').filter_map(|(_, frame)| Parse::read(frame).ok());
    let (text, types, described) = match parsed.filter(|parse| parse.name == bind.statement).last() {
        Some(parse) => (parse.sql, parse.types, Arc::default()),
        None => match statements.get(bind.statement) {
            Some(entry) => (&*entry.prepared.text, entry.prepared.types.as_slice(), entry.described.types()),
            None => return Vec::new(),
        },
    };
    if executes_it && text == &*reading.text { values(&bind, types, &described) } else { Vec::new() }
}

/// The values that are bound, by the types that the client named or else those that a cluster described.
fn values(bind: &Bind<'_>, named: &[u8], described: &[u8]) -> Vec<Option<String>> {
    let type_of = |types: &[u8], at: usize| {
        let id = types.get(2 + 4 * at..).and_then(|rest| rest.first_chunk::<4>());
        id.map(|id| u32::from_be_bytes(*id)).filter(|id| *id != 0)
    };
    let (formats, values) = bind.values();
    let format = |at: usize| formats.get(if formats.len() == 1 { 0 } else { at }).copied().unwrap_or(0);
    let one = |(at, value): (usize, Option<&[u8]>)| {
        let id = type_of(named, at).or_else(|| type_of(described, at)).unwrap_or(0);
        match format(at) {
            0 => messages::utf8(value?).ok().map(str::to_owned),
            1 => binary(id, value?),
            _ => None,
        }
    };
    values.into_iter().enumerate().map(one).collect()
}

/// A value in Postgres' binary form, as text; None if it is of a type that is not known here.
fn binary(id: u32, value: &[u8]) -> Option<String> {
    match id {
        INT2 => Some(i16::from_be_bytes(value.try_into().ok()?).to_string()),
        INT4 => Some(i32::from_be_bytes(value.try_into().ok()?).to_string()),
        INT8 => Some(i64::from_be_bytes(value.try_into().ok()?).to_string()),
        DATE => {
            let days = i64::from(i32::from_be_bytes(value.try_into().ok()?));
            instant_text(days.checked_mul(DAY)?.checked_add(FROM_1970_TO_2000)?)
        }
        TIMESTAMP | TIMESTAMPTZ => {
            instant_text(i64::from_be_bytes(value.try_into().ok()?).checked_add(FROM_1970_TO_2000)?)
        }
        id if TEXTS.contains(&id) => messages::utf8(value).ok().map(str::to_owned),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::scan::ColumnUnit;
    use punctual_core::time::Span;

    use super::*;
    use crate::door::bearing::Bearing;
    use crate::door::statements::{Change, Described, Entry};
    use crate::door::unit::End;
    use crate::relay::carried::Prepared;
    use crate::relay::frames;

    fn ranges() -> TimeRanges {
        let (name, column) = ("events".to_owned(), "ts".to_owned());
        let table = TimeTable { name, column, unit: ColumnUnit::Timestamp, segment: None, from: None, to: None };
        TimeRanges::new(&[table], Clock::start()).expect("there is a table")
    }

    fn frame(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        frames::frame(&mut out, tag, |out| out.extend_from_slice(content));
        out
    }

    /// Parse with these types and Bind with these formats and values, of the unnamed statement.
    fn pipeline(types: &[u32], formats: &[u16], values: &[Option<&[u8]>], binds: usize) -> Work {
        let short = |n: usize| (n as u16).to_be_bytes();
        let mut parse = b"\0select 1\0".to_vec();
        parse.extend(short(types.len()));
        types.iter().for_each(|id| parse.extend(id.to_be_bytes()));
        let mut bind = b"\0\0".to_vec();
        bind.extend(short(formats.len()));
        formats.iter().for_each(|format| bind.extend(format.to_be_bytes()));
        bind.extend(short(values.len()));
        for value in values {
            bind.extend(value.map_or(-1, |value| value.len() as i32).to_be_bytes());
            bind.extend(value.unwrap_or_default());
        }
        bind.extend(short(0));
        let segment = [frame(b'P', &parse), frame(b'B', &bind).repeat(binds)].concat();
        Work::Pipeline {
            segment,
            end: End::Sync,
            reading: Arc::new(Reading::of("select 1")),
            counts: true,
            bearing: Bearing::default(),
        }
    }

    #[test]
    fn values_of_a_bind_are_read_in_text_and_in_binary() {
        let statements = Statements::new(1);
        let read = |types: &[u32], formats: &[u16], values: &[Option<&[u8]>]| {
            parameters(&pipeline(types, formats, values, 1), &statements)
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(read(&[], &[], &[Some(b"2024-01-31"), None]), [text("2024-01-31"), None]);
        let micros = (-1_i64).to_be_bytes();
        let days = 366_i32.to_be_bytes();
        let values: [Option<&[u8]>; 5] = [Some(&micros), Some(&days), Some(&[0, 7]), Some(b"x"), Some(&[0, 0, 0, 0])];
        let known =
            [text("1999-12-31 23:59:59.999999"), text("2001-01-01 00:00:00.000000"), text("7"), text("x"), None];
        assert_eq!(read(&[TIMESTAMPTZ, DATE, INT2, 25, 0], &[1], &values), known);
        assert_eq!(read(&[INT8], &[1], &[Some(&[0, 7])]), [None]);
        assert_eq!(parameters(&pipeline(&[], &[], &[Some(b"1")], 2), &statements), []);
        // What is bound is another text than the query.
        let Work::Pipeline { segment, end, counts, .. } = pipeline(&[], &[], &[Some(b"1")], 1) else { return };
        let other = Work::Pipeline {
            segment,
            end,
            reading: Arc::new(Reading::of("select 2")),
            counts,
            bearing: Bearing::default(),
        };
        assert_eq!(parameters(&other, &statements), []);
    }

    #[test]
    fn values_are_read_by_the_types_that_a_cluster_described() {
        let mut statements = Statements::new(1);
        let prepared = Arc::new(Prepared::new("select 1".into(), &[0, 0]));
        let entry = Entry::new(prepared, Arc::new(Reading::of("select 1")));
        statements.change(Change { name: String::new(), to: Some(entry.clone()) });
        let bind = |value: &[u8]| {
            let bind = [b"\0\0\0\x01\0\x01\0\x01", &(value.len() as i32).to_be_bytes()[..], value, &[0, 0]].concat();
            let reading = Arc::new(Reading::of("select 1"));
            let work = Work::Pipeline {
                segment: frame(b'B', &bind),
                end: End::Sync,
                reading,
                counts: true,
                bearing: Bearing::default(),
            };
            parameters(&work, &statements)
        };
        let day = 366_i32.to_be_bytes();
        assert_eq!(bind(&day), [None]);
        entry.described.tell(&[0, 1, 0, 0, 4, 0x3a]);
        assert_eq!(bind(&day), [Some("2001-01-01 00:00:00.000000".to_owned())]);
        // What is too long to be kept is not known.
        entry.described.tell(&[0; Described::MOST + 1]);
        assert_eq!(bind(&day), [None]);
    }

    #[test]
    fn a_text_is_found_to_read_as_much_of_time_as_it_does() {
        let ranges = ranges();
        let day = Some(Span::from_secs(86_400));
        let of = |text: &str, parameters: &[Option<String>]| ranges.of(&Reading::of(text), parameters);
        let read = of("select 1 from events where ts >= now() - interval '1 day'", &[]).expect("a scan");
        assert_eq!((read.reach, read.duration), (day, None));
        let text = "select 1 from events where ts between $1 and $2";
        let known = [Some("2020-01-01".to_owned()), Some("2020-01-02".to_owned())];
        assert_eq!(of(text, &known).and_then(|scan| scan.duration), Some(Span::from_micros(86_400_000_001)));
        assert_eq!(of(text, &[]).map(|scan| (scan.reach, scan.duration)), Some((None, None)));
        assert_eq!(of("select 1 from other", &[]), None);
        assert!(TimeRanges::new(&[], Clock::start()).is_none());
    }
}
