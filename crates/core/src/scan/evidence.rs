//! From what a scan was found: for people who ask why a query counts as it does.
//!
//! Decisions need four numbers, so nothing of this is made for them. It comes from the same recipe and the same ranges, so
//! that what is told is what was decided by.

use super::asked::{Asked, Literal};
use super::constant::Filling;
use super::ranges::{LEAST, MOST, Ranges};
use super::{by_table, scan, unbounded};
use super::{recipe::Recipe, tables::TimeTables};
use crate::admit::claim::Scan;

/// What was found of how much of time a query reads, and from what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// What was found.
    pub scan: Scan,
    /// What is read of each table; nothing where the text is not understood.
    pub reads: Vec<TableRead>,
    /// False if the text may read more than was understood of it: then nothing bounds it.
    pub understood: bool,
    /// The parameters of the text whose values are not known: 1 is `$1`.
    pub unknown: Vec<usize>,
}

/// What a query reads of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRead {
    /// Its number among the configured ones; None: a name that may be of several.
    pub table: Option<usize>,
    /// From when, and before when, in microseconds since the epoch, in order; None: without bound. Of none: nothing is
    /// read.
    pub pieces: Vec<(Option<i64>, Option<i64>)>,
}

impl TableRead {
    /// True if it reaches back without bound.
    pub fn has_no_beginning(&self) -> bool {
        self.pieces.first().is_some_and(|(from, _)| from.is_none())
    }

    /// True if it reaches forward without bound.
    pub fn has_no_end(&self) -> bool {
        self.pieces.last().is_some_and(|(_, to)| to.is_none())
    }
}

/// What is told of a text that is not asked about at all.
pub(super) fn of_nothing(tables: &TimeTables) -> Evidence {
    Evidence { scan: unbounded(tables), reads: Vec::new(), understood: false, unknown: Vec::new() }
}

/// From what a recipe's scan comes; None if it reads no table with a column of time.
pub(super) fn of_recipe(recipe: &Recipe, tables: &TimeTables, filling: &Filling<'_>) -> Option<Evidence> {
    let scan = scan(recipe, tables, filling)?;
    let reads = if recipe.lost { Vec::new() } else { by_table(recipe, tables, filling) };
    let reads = reads.into_iter().map(|(table, ranges)| TableRead { table, pieces: pieces(&ranges) }).collect();
    Some(Evidence { scan, reads, understood: !recipe.lost, unknown: unknown(filling.asked, filling.parameters) })
}

fn pieces(ranges: &Ranges) -> Vec<(Option<i64>, Option<i64>)> {
    let end = |at: i128| i64::try_from(at).unwrap_or(if at < 0 { i64::MIN } else { i64::MAX });
    let piece = |&(from, to): &(i128, i128)| ((from > LEAST).then(|| end(from)), (to < MOST).then(|| end(to)));
    ranges.pieces().iter().map(piece).collect()
}

fn unknown(asked: &Asked<'_>, parameters: &[Option<&str>]) -> Vec<usize> {
    let numbers = asked.literals().iter().filter_map(|literal| match literal {
        Literal::Parameter(at) if parameters.get(*at).is_none_or(Option::is_none) => Some(at + 1),
        _ => None,
    });
    let mut unknown: Vec<usize> = numbers.collect();
    unknown.sort_unstable();
    unknown.dedup();
    unknown
}
