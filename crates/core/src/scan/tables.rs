//! Which tables have a column of time, as they were configured.

use std::collections::BTreeMap;

use super::calendar::{DAY, Micros, SECOND, civil};
use super::value;
use crate::fingerprint::MAX_SHAPE;
use crate::statement::{Kind, MAX_TABLES, Statement};
use crate::time::Span;

/// A table with a column of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeTable {
    /// Its name, with or without its schema.
    pub name: String,
    /// The name of the column.
    pub column: String,
    /// What the column holds.
    pub unit: ColumnUnit,
    /// How much time one of its partitions holds; they begin at whole multiples of it since the epoch. None: not said.
    pub segment: Option<Span>,
    /// It has nothing from before this, in microseconds since the epoch. None: not said.
    pub from: Option<i64>,
    /// It has nothing from then on. None: not said.
    pub to: Option<End>,
}

/// Where the data of a table ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Before this instant, in microseconds since the epoch.
    Before(i64),
    /// Now: nothing in it is later than a query that comes.
    Now,
}

/// What a column of time holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColumnUnit {
    /// Timestamps.
    #[default]
    Timestamp,
    /// Dates.
    Date,
    /// Numbers: seconds since the epoch.
    Seconds,
    /// Numbers: milliseconds since the epoch.
    Millis,
    /// Numbers: microseconds since the epoch.
    Micros,
    /// Numbers such as 20240131.
    DayNumber,
}

impl ColumnUnit {
    /// Every unit.
    pub const ALL: [ColumnUnit; 6] = [
        ColumnUnit::Timestamp,
        ColumnUnit::Date,
        ColumnUnit::Seconds,
        ColumnUnit::Millis,
        ColumnUnit::Micros,
        ColumnUnit::DayNumber,
    ];

    /// Its name in configuration.
    pub const fn name(self) -> &'static str {
        match self {
            ColumnUnit::Timestamp => "timestamp",
            ColumnUnit::Date => "date",
            ColumnUnit::Seconds => "s",
            ColumnUnit::Millis => "ms",
            ColumnUnit::Micros => "us",
            ColumnUnit::DayNumber => "yyyymmdd",
        }
    }
}

/// The instant that a text such as `2024-01-31` or `2024-01-31T12:00:00Z` says, in microseconds since the epoch; UTC unless
/// it says otherwise. None: it is none.
pub fn instant_of(text: &str) -> Option<i64> {
    let ((least, _), offset) = value::zoned(text)?;
    i64::try_from(least - offset).ok()
}

/// An instant as text that [`instant_of`] reads; None beyond the years 1 to 9999.
pub fn instant_text(micros: i64) -> Option<String> {
    let at = Micros::from(micros);
    let (year, month, day) = civil(at.div_euclid(DAY) as i64);
    let (seconds, rest) = (at.rem_euclid(DAY) / SECOND, at.rem_euclid(SECOND));
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    (1..=9_999)
        .contains(&year)
        .then(|| format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{rest:06}"))
}

/// The tables with a column of time, to be looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeTables {
    tables: Vec<TimeTable>,
    /// The tables by the last part of their name, lower case.
    by_name: BTreeMap<String, Vec<usize>>,
    /// For each first byte of these names, the lengths that they have: a bit each, the last for all that are longer. Most
    /// words of a text are passed over by it.
    lengths: BTreeMap<u8, u64>,
    /// Those that are no plain word.
    unusual: Vec<String>,
}

/// Which table a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// None that was configured.
    None,
    /// This.
    One(usize),
    /// One of several, who knows which.
    Several,
}

impl TimeTables {
    /// Of these.
    pub fn new(tables: Vec<TimeTable>) -> TimeTables {
        let mut by_name: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, table) in tables.iter().enumerate() {
            let name = table.name.to_ascii_lowercase();
            by_name.entry(last_part(&name).to_owned()).or_default().push(at);
        }
        let mut lengths: BTreeMap<u8, u64> = BTreeMap::new();
        for name in by_name.keys() {
            *lengths.entry(name.as_bytes().first().copied().unwrap_or(0)).or_default() |= length_bit(name);
        }
        let unusual = by_name.keys().filter(|name| name.bytes().any(|byte| !is_of_word(byte))).cloned().collect();
        TimeTables { tables, by_name, lengths, unusual }
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// The tables, as they were given.
    pub fn tables(&self) -> &[TimeTable] {
        &self.tables
    }

    /// The table of that name, lower case: the one that agrees with it in the most parts, from the last.
    pub(crate) fn find(&self, name: &str) -> Found {
        let Some(candidates) = self.by_name.get(last_part(name)) else { return Found::None };
        let mut found = (0, Found::None);
        for &at in candidates {
            let configured = self.tables[at].name.to_ascii_lowercase();
            let pairs = || configured.rsplit('.').zip(name.rsplit('.'));
            if pairs().any(|(ours, theirs)| ours != theirs) {
                continue;
            }
            let parts = pairs().count();
            if parts > found.0 {
                found = (parts, Found::One(at));
            } else if parts == found.0 {
                found.1 = Found::Several;
            }
        }
        found.1
    }

    /// True unless the text, of which `statement` was read, surely reads none of them. Costs next to nothing for most.
    pub(crate) fn concern(&self, text: &str, statement: &Statement) -> bool {
        use Kind::*;
        if self.tables.is_empty() || matches!(statement.kind, Empty | Begin | End | Set | Reset | Show | Listen) {
            return false;
        }
        if statement.tables.iter().any(|name| self.find(name) != Found::None) {
            return true;
        }
        if statement.kind == Select && is_complete(statement) {
            return false;
        }
        if statement.shape.len() + 256 >= MAX_SHAPE {
            return self.is_word_of(&text.to_ascii_lowercase());
        }
        // What is inserted into is not read.
        let shape = statement.shape.as_str();
        self.is_word_of(shape.strip_prefix("insert into ").map_or(shape, after_name))
    }

    /// True if a word of the text, which is in lower case, is the last part of a table's name.
    fn is_word_of(&self, text: &str) -> bool {
        let known = |word: &str| {
            let lengths = self.lengths.get(&word.as_bytes()[0]).copied().unwrap_or(0);
            lengths & length_bit(word) != 0 && self.by_name.contains_key(word)
        };
        let mut rest = text;
        while let Some(start) = rest.bytes().position(is_of_word) {
            rest = &rest[start..];
            let len = rest.bytes().position(|byte| !is_of_word(byte)).unwrap_or(rest.len());
            if known(&rest[..len]) {
                return true;
            }
            rest = &rest[len..];
        }
        self.unusual.iter().any(|name| text.contains(name.as_str()))
    }
}

/// True for the bytes of plain words, and of what is beyond ASCII.
fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || !byte.is_ascii()
}

fn length_bit(word: &str) -> u64 {
    1 << word.len().min(63)
}

fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// What follows a name, with dots between its parts, in a shape.
fn after_name(shape: &str) -> &str {
    let mut rest = shape;
    loop {
        rest = rest.split_once(' ').map_or("", |(_, rest)| rest);
        match rest.strip_prefix(". ") {
            Some(part) => rest = part,
            None => return rest,
        }
    }
}

/// True if the names of a SELECT's tables are surely all that it reads: where there is none, or where WITH or a parenthesis
/// in FROM may hide one, they are not.
fn is_complete(statement: &Statement) -> bool {
    let shape = statement.shape.as_str();
    let plain = shape.starts_with("select ") && statement.count == 1;
    let hides = || {
        shape.match_indices("( ").any(|(at, _)| {
            let (before, after) = (&shape[..at], &shape[at + 2..]);
            let joins = ["from ", "join ", ", ", "( "].iter().any(|word| before.ends_with(word));
            joins && !["select ", "?", "values "].iter().any(|word| after.starts_with(word))
        })
    };
    let known = !statement.tables.is_empty() && statement.tables.len() < MAX_TABLES && shape.len() + 256 < MAX_SHAPE;
    plain && known && !shape.contains(" with ") && !shape.contains(" table ") && !hides()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(names: &[&str]) -> TimeTables {
        let table = |name: &&str| TimeTable {
            name: (*name).to_owned(),
            column: "ts".to_owned(),
            unit: ColumnUnit::Timestamp,
            segment: None,
            from: None,
            to: None,
        };
        TimeTables::new(names.iter().map(table).collect())
    }

    #[test]
    fn a_name_means_the_table_that_agrees_in_the_most_parts() {
        let tables = tables(&["events", "a.events", "A.Orders", "b.orders"]);
        assert_eq!(tables.find("events"), Found::Several);
        assert_eq!(tables.find("a.events"), Found::One(1));
        assert_eq!(tables.find("db.a.events"), Found::One(1));
        assert_eq!(tables.find("c.events"), Found::One(0));
        assert_eq!(tables.find("a.orders"), Found::One(2));
        assert_eq!(tables.find("orders"), Found::Several);
        assert_eq!(tables.find("c.orders"), Found::None);
        assert_eq!(tables.find("other"), Found::None);
    }

    #[test]
    fn a_text_concerns_tables_that_it_may_read() {
        let tables = tables(&["events"]);
        let concern = |text: &str| tables.concern(text, &Statement::read(text));
        for reading in [
            "select 1 from events",
            "select 1 from x, public.Events e",
            "select 1 from (events e join x on true)",
            "with events as (select * from events) select 1 from events",
            "table events",
            "update events set a = 1",
            "delete from events",
            "insert into x select * from events",
            "insert into events select * from events",
            "copy events to stdout",
            "explain analyze select 1 from events",
            "select (table events)",
        ] {
            assert!(concern(reading), "{reading}");
        }
        for not in [
            "select 1",
            "select 1 from other",
            "select events from other where events.ts > 5",
            "insert into events values (1)",
            "insert into events (a) values (1), (2)",
            "insert into a.events values (1)",
            "set events = 1",
            "begin",
            "show events",
            "",
        ] {
            assert!(!concern(not), "{not}");
        }
    }

    #[test]
    fn instants_of_configuration_heed_their_zone() {
        let noon = 1_706_702_400_000_000;
        assert_eq!(instant_of("2024-01-31T12:00:00Z"), Some(noon));
        assert_eq!(instant_of("2024-01-31 14:00+02:00"), Some(noon));
        assert_eq!(instant_of("2024-01-31 10:00-02"), Some(noon));
        assert_eq!(instant_of("2024-01-31"), Some(noon - 43_200_000_000));
        assert_eq!(instant_of("yesterday"), None);
        for micros in [noon + 7, -1, 0, -62_135_596_800_000_000] {
            assert_eq!(instant_text(micros).as_deref().and_then(instant_of), Some(micros));
        }
        assert_eq!((instant_text(i64::MAX), instant_text(i64::MIN)), (None, None));
    }
}
