//! `[[table]]`: which tables have a column of time, and what it holds.

use std::collections::BTreeSet;

use punctual_core::scan::{ColumnUnit, End, TimeTable, instant_of};

use super::section::Section;
use super::value::quoted;

/// Tables that a file may name.
const MAX_TABLES: usize = 1_024;

/// The tables of the file, in its order.
pub(super) fn read(sections: &[Section<'_>]) -> Vec<TimeTable> {
    let mut tables = Vec::with_capacity(sections.len());
    let mut seen = BTreeSet::new();
    for (index, section) in sections.iter().enumerate() {
        if index == MAX_TABLES {
            section.complain_of_all(format!("there are more than {MAX_TABLES} tables"), "leave the least of them out");
        }
        let (name, column, unit) = (section.text("name"), section.text("time_column"), section.choice("unit"));
        let unit = ColumnUnit::ALL.into_iter().find(|known| Some(known.name()) == unit).unwrap_or_default();
        let segment = section.span("segment");
        let from = instant(section, "from", instant_of);
        let to = instant(section, "to", |text| match text {
            "now" => Some(End::Now),
            text => instant_of(text).map(End::Before),
        });
        if let (Some(from), Some(End::Before(to))) = (from, to)
            && from >= to
        {
            section.complain("to", "it is not after `from`", "write a later instant");
        }
        let (Some(name), Some(column)) = (name, column) else { continue };
        if !seen.insert(name.to_lowercase()) {
            section.complain("name", format!("there is a table {} already", quoted(&name)), "write each table once");
        }
        tables.push(TimeTable { name, column, unit, segment, from, to });
    }
    tables
}

fn instant<T>(section: &Section<'_>, key: &str, read: impl Fn(&str) -> Option<T>) -> Option<T> {
    let text = section.text(key)?;
    let instant = read(&text);
    if instant.is_none() {
        let fix = "write a date or a timestamp, as in \"2024-01-31\" or \"2024-01-31T12:00:00Z\"";
        section.complain(key, format!("{} is no instant", quoted(&text)), fix);
    }
    instant
}
