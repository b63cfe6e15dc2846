//! How much of time a query reads: from the predicates on its tables' columns of time.
//!
//! ```text
//!   text ──▶ asked: what is left without its literals, and these
//!              │ known? else: parsed, compiled ──▶ recipe      (once per shape of a text)
//!              ▼
//!            recipe + literals + parameters + now ──▶ ranges of instants, per table ──▶ Scan
//! ```
//!
//! What is found is never too little: the ranges hold every instant of a row that makes a difference to what the query
//! gives, and what cannot be bounded is unbounded. They may be too much. Instants are in UTC, and `now` is when the query
//! came. `docs/time-ranges.md` says what is understood.
//!
//! Of several tables, and of one that is read several times: the query reaches as far back as the one that reaches
//! furthest, and covers what all of them cover together. (A week of two tables is a week: who limits the time that a query
//! covers means the window that it looks at. Druid goes by the intervals of the query, too.) Partitions are what is read
//! in fact, so those of all tables are added up, each once; the time that they cover is again that of all together.

mod asked;
mod calendar;
mod compile;
mod constant;
mod evidence;
mod expression;
mod ranges;
mod recipe;
mod scope;
mod shelf;
mod tables;
#[cfg(test)]
mod tests;
mod value;

use std::sync::Arc;

use crate::admit::claim::Scan;
use crate::statement::Statement;
use crate::time::{Span, Time};

pub use evidence::{Evidence, TableRead};
pub use tables::{ColumnUnit, End, TimeTable, TimeTables, instant_of, instant_text};

use asked::Asked;
use calendar::Micros;
use constant::Filling;
use ranges::{LEAST, MOST, Ranges};
use recipe::Recipe;
use shelf::Shelf;

/// Finds how much of time queries read, and remembers the grammar of those that it has seen.
#[derive(Debug)]
pub struct Scans {
    tables: Arc<TimeTables>,
    shelf: Shelf,
}

impl Scans {
    /// With these tables; remembers at most `capacity` recipes, each of at most some kilobytes.
    pub fn new(tables: Arc<TimeTables>, capacity: usize) -> Scans {
        Scans { tables, shelf: Shelf::new(capacity) }
    }

    /// How much of time a query reads that comes `now`; None if it reads no table with a column of time. `statement` is
    /// what was read of `text`; `parameters` are the values of `$1`, `$2`, …, as text: None for what is not known.
    pub fn read(&mut self, text: &str, statement: &Statement, parameters: &[Option<&str>], now: Time) -> Option<Scan> {
        self.found(text, statement, parameters, now, unbounded, scan)
    }

    /// The same, with what it was found from.
    pub fn explain(
        &mut self,
        text: &str,
        statement: &Statement,
        parameters: &[Option<&str>],
        now: Time,
    ) -> Option<Evidence> {
        self.found(text, statement, parameters, now, evidence::of_nothing, evidence::of_recipe)
    }

    /// True unless a text surely reads none of the tables; `statement` is what was read of it, or of its shape.
    pub fn concern(&self, text: &str, statement: &Statement) -> bool {
        self.tables.concern(text, statement)
    }

    fn found<T>(
        &mut self,
        text: &str,
        statement: &Statement,
        parameters: &[Option<&str>],
        now: Time,
        nothing: impl FnOnce(&TimeTables) -> T,
        of: impl FnOnce(&Recipe, &TimeTables, &Filling<'_>) -> Option<T>,
    ) -> Option<T> {
        if !self.tables.concern(text, statement) {
            return None;
        }
        let lower = text.to_ascii_lowercase();
        let Some(asked) = Asked::of(text, &lower) else { return Some(nothing(&self.tables)) };
        let recipe = self.shelf.recipe(statement.fingerprint, &asked.shape, &self.tables);
        let filling = Filling { asked: &asked, parameters, now: Micros::from(now.micros()) };
        of(&recipe, &self.tables, &filling)
    }
}

/// What a query may read of which nothing is known.
fn unbounded(tables: &TimeTables) -> Scan {
    let partitioned = tables.tables().iter().any(|table| table.segment.is_some());
    Scan {
        reach: None,
        duration: None,
        segments: partitioned.then_some(u32::MAX),
        segment_range: partitioned.then_some(Span::MAX),
    }
}

/// What a recipe comes to.
fn scan(recipe: &Recipe, tables: &TimeTables, filling: &Filling<'_>) -> Option<Scan> {
    if recipe.lost {
        return Some(unbounded(tables));
    }
    let read = by_table(recipe, tables, filling);
    let together = read.iter().fold(Ranges::none(), |all, (_, ranges)| all.or(ranges.clone()));
    let (segments, segment_range) = segments(&read, tables);
    let reach = match together.pieces() {
        [] => Some(Span::ZERO),
        _ => together.start().map(|start| span(filling.now - start)),
    };
    (!read.is_empty()).then(|| Scan { reach, duration: together.total().map(span), segments, segment_range })
}

/// The tables that are read, each once (None: one of several), and what is read of each.
fn by_table(recipe: &Recipe, tables: &TimeTables, filling: &Filling<'_>) -> Vec<(Option<usize>, Ranges)> {
    let mut read: Vec<(Option<usize>, Ranges)> = Vec::new();
    for each in &recipe.reads {
        let ranges = match each.table.map(|at| &tables.tables()[at]) {
            None => Ranges::all(),
            Some(table) => each.bound.ranges(table.unit, filling).and(&within(table, filling.now)),
        };
        match read.iter_mut().find(|(table, _)| *table == each.table) {
            Some((_, before)) => *before = std::mem::replace(before, Ranges::none()).or(ranges),
            None => read.push((each.table, ranges)),
        }
    }
    read
}

/// The time of which a table has data.
fn within(table: &TimeTable, now: Micros) -> Ranges {
    let to = match table.to {
        None => MOST,
        Some(End::Before(at)) => at.into(),
        Some(End::Now) => now + 1,
    };
    Ranges::between(table.from.map_or(LEAST, Micros::from), to)
}

/// The partitions of these, and the time that they cover.
fn segments(read: &[(Option<usize>, Ranges)], tables: &TimeTables) -> (Option<u32>, Option<Span>) {
    let (mut count, mut covered, mut any) = (Some(0), Ranges::none(), false);
    for (table, ranges) in read {
        let length = match table {
            Some(at) => tables.tables()[*at].segment,
            None => tables.tables().iter().find_map(|table| table.segment),
        };
        let Some(length) = length.map(|length| Micros::from(length.micros().max(1))) else { continue };
        any = true;
        let whole =
            ranges.clone().map(|from, to| (from.div_euclid(length) * length, -(-to).div_euclid(length) * length));
        count = count.zip(whole.total()).map(|(count, total)| count + total / length);
        covered = covered.or(whole);
    }
    let count = count.map_or(u32::MAX, |count: Micros| u32::try_from(count).unwrap_or(u32::MAX));
    (any.then_some(count), any.then(|| covered.total().map_or(Span::MAX, span)))
}

/// A span that is at least zero.
fn span(micros: Micros) -> Span {
    Span::from_micros(u64::try_from(micros.max(0)).unwrap_or(u64::MAX))
}
