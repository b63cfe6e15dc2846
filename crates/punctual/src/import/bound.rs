//! A layout and a mapping, bound to the columns that a file has.

use std::path::Path;

use super::error::ImportError;
use super::layout::{Identity, Layout, LeftOut, PLAIN, Profile};
use super::mapping::{FILE, Source};
use super::pairing;
use super::records::{Cell, Input};
use super::target::Target;
use super::texts::Template;
use super::units::Unit;
use crate::config::near::nearest;

/// Where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// In that cell of a record.
    Cell(usize),
    /// It is the file's name.
    File,
}

/// Where the values of a target are.
#[derive(Clone, Debug)]
pub(crate) struct BoundSource {
    pub(crate) columns: Vec<At>,
    pub(crate) unit: Option<Unit>,
    /// The first column's name, which words are looked up by.
    pub(crate) name: String,
}

/// What a file's records are read with.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) layout: &'static Layout,
    /// By target: what to try in order.
    sources: Vec<Vec<BoundSource>>,
    /// Cells and what they say when a record is no query.
    pub(crate) left_out: Vec<(usize, LeftOut)>,
    /// The cells that name the file of a query's text, if there is one.
    pub(crate) text: Option<Vec<usize>>,
    /// True if the fingerprint is the column's, even where the text is known.
    pub(crate) by_column: bool,
    wanted: Vec<String>,
    needs: Vec<Need>,
}

/// A column that must be there, or others in its place.
#[derive(Debug)]
struct Need {
    column: String,
    any_of: Vec<Vec<At>>,
}

impl Bound {
    /// Finds the layout that fits a file and asks for its columns.
    ///
    /// # Errors
    /// If a column is missing, or there twice.
    pub(crate) fn to(
        path: &Path,
        input: &mut Input,
        profile: &Profile,
        mapping: &[Source],
        text: Option<&Template>,
    ) -> Result<Bound, ImportError> {
        let columns = input.columns().to_vec();
        let layout = choose(profile, mapping, &columns);
        let mut bound = Bound {
            layout,
            sources: vec![Vec::new(); Target::ALL.len()],
            left_out: Vec::new(),
            text: None,
            by_column: layout.identity == Identity::Column || mapping.iter().any(|s| s.target == Target::Fingerprint),
            wanted: Vec::new(),
            needs: Vec::new(),
        };
        if layout.paired {
            bound.wanted.extend(pairing::READS.map(str::to_owned));
        }
        bound.take_fields(layout, mapping, text.is_some());
        for source in mapping {
            let names: Vec<&str> = source.columns.iter().map(String::as_str).collect();
            bound.add(source.target, &names, source.unit, true);
        }
        bound.text = text.map(|template| template.columns().map(|name| bound.need(name)).collect());
        for left_out in layout.left_out {
            let cell = bound.want(left_out.column);
            bound.left_out.push((cell, *left_out));
        }
        let there = input.ask(&bound.wanted)?;
        if input.seen().is_none() {
            bound.check(path, &there, &columns)?;
            bound.prune(&there);
        }
        Ok(bound)
    }

    /// The sources of a target, in the order in which they are tried.
    pub(crate) fn sources(&self, target: Target) -> &[BoundSource] {
        &self.sources[target as usize]
    }

    /// How many cells the reader fills; what pairing gives follows them.
    pub(crate) fn width(&self) -> usize {
        self.wanted.len()
    }

    /// Complains of a column that was needed and never seen.
    ///
    /// # Errors
    /// If there is one.
    pub(crate) fn check(&self, path: &Path, seen: &[bool], columns: &[String]) -> Result<(), ImportError> {
        let there = |at: &At| match at {
            At::File => true,
            At::Cell(cell) => seen.get(*cell).copied().unwrap_or(true),
        };
        let missing = self.needs.iter().find(|need| !need.any_of.iter().any(|columns| columns.iter().all(there)));
        missing.map_or(Ok(()), |need| {
            let absent = need.any_of.first().into_iter().flatten().find(|at| !there(at));
            let column = match absent {
                Some(At::Cell(cell)) => self.wanted.get(*cell).unwrap_or(&need.column),
                _ => &need.column,
            };
            Err(ImportError::MissingColumn {
                file: path.to_owned(),
                column: column.clone(),
                nearest: nearest(column, columns.iter().map(String::as_str)).map(str::to_owned),
                columns: columns.to_vec(),
            })
        })
    }

    fn take_fields(&mut self, layout: &'static Layout, mapping: &[Source], has_text: bool) {
        let overridden = |target| mapping.iter().any(|s| s.target == target) || (has_text && target == Target::Sql);
        for field in layout.fields.iter().filter(|field| !overridden(field.target)) {
            self.add(field.target, field.columns, field.unit, field.needed);
        }
    }

    fn add(&mut self, target: Target, columns: &[&str], unit: Option<Unit>, needed: bool) {
        let at: Vec<At> = columns
            .iter()
            .map(|name| match *name {
                FILE => At::File,
                name => At::Cell(self.want(name)),
            })
            .collect();
        let column = columns.join("+");
        let source = BoundSource { columns: at.clone(), unit, name: columns[0].to_owned() };
        let before = self.sources[target as usize].first().map(|first| first.columns.clone());
        self.sources[target as usize].push(source);
        if !needed {
            return;
        }
        // Another field of a target that is needed already stands in for it.
        match before.and_then(|first| self.needs.iter_mut().find(|need| need.any_of.contains(&first))) {
            Some(need) => need.any_of.push(at),
            None => self.needs.push(Need { column, any_of: vec![at] }),
        }
    }

    fn need(&mut self, name: &str) -> usize {
        let cell = self.want(name);
        self.needs.push(Need { column: name.to_owned(), any_of: vec![vec![At::Cell(cell)]] });
        cell
    }

    /// The cell of a column; what pairing gives is found behind all that is read.
    fn want(&mut self, name: &str) -> usize {
        if let Some(given) = pairing::GIVES.iter().position(|given| *given == name) {
            return GIVEN + given;
        }
        self.wanted.iter().position(|known| known == name).unwrap_or_else(|| {
            self.wanted.push(name.to_owned());
            self.wanted.len() - 1
        })
    }

    /// Drops sources whose columns are not there.
    fn prune(&mut self, there: &[bool]) {
        let has = |at: &At| match at {
            At::File => true,
            At::Cell(cell) => there.get(*cell).copied().unwrap_or(true),
        };
        for sources in &mut self.sources {
            sources.retain(|source| source.columns.iter().all(has));
        }
    }

    /// The value at a place of a record.
    pub(crate) fn cell<'a>(&self, cells: &'a [Cell], at: usize) -> &'a Cell {
        let at = if at >= GIVEN { self.width() + at - GIVEN } else { at };
        cells.get(at).unwrap_or(&Cell::Null)
    }
}

/// Cells from here on are those that pairing gives.
const GIVEN: usize = 1 << 20;

/// The first layout that fits, or else the one that comes nearest: its missing columns are complained of.
fn choose(profile: &Profile, mapping: &[Source], columns: &[String]) -> &'static Layout {
    static MAPPED: Layout = Layout { identity: Identity::Column, ..PLAIN };
    let there = |name: &str| name.starts_with('@') || columns.iter().any(|column| column.eq_ignore_ascii_case(name));
    let missing = |layout: &&Layout| {
        let needed = layout.fields.iter().filter(|field| field.needed);
        let open = needed.filter(|field| !mapping.iter().any(|source| source.target == field.target));
        open.filter(|field| {
            let mut same = layout.fields.iter().filter(|other| other.target == field.target);
            !same.any(|other| other.columns.iter().all(|name| there(name)))
        })
        .count()
    };
    profile.layouts.iter().min_by_key(missing).unwrap_or(&MAPPED)
}
