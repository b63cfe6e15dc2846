//! Reading one table of the file, key by key.
//!
//! Reading never stops: a value that cannot be taken is noted with its place, and the default stands in for it, so
//! that everything that is wrong with a file is found in one go. What comes out is used only if nothing was noted.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use punctual_core::admit::lanes::Limit;
use punctual_core::time::Span;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Problem;
use super::keys::{Fallback, Kind, TABLES, Table};
use super::near::nearest;
use super::value::{self, Read, Wrong, quoted, wrong};
use crate::settings::Address;

/// The file, what surrounds it, and what was found wrong with it.
pub(super) struct File<'f> {
    pub(super) text: &'f str,
    /// Where relative paths start.
    pub(super) base: &'f Path,
    /// The environment: the value of a variable.
    pub(super) env: &'f dyn Fn(&str) -> Option<String>,
    /// Each with its byte in the text; None: it is about what was typed.
    pub(super) problems: RefCell<Vec<(Option<usize>, Problem)>>,
}

/// One table, written or not.
pub(super) struct Section<'f> {
    file: &'f File<'f>,
    table: &'static Table,
    /// What errors call it: `policy`, `cluster "a"`.
    called: String,
    written: Option<&'f DeTable<'f>>,
    /// Where it starts, in bytes.
    at: usize,
}

impl<'f> File<'f> {
    /// Notes what is wrong at a byte of the text.
    pub(super) fn note(&self, at: usize, key: &str, found: impl Into<String>, fix: impl Into<String>) {
        self.note_at(Some(at), key, found.into(), fix.into());
    }

    /// Notes what is wrong with what was typed for a key, such as `gateway.listen`.
    fn note_typed(&self, key: &str, found: impl Into<String>, fix: impl Into<String>) {
        self.note_at(None, &format!("--{key}"), found.into(), fix.into());
    }

    fn note_at(&self, at: Option<usize>, key: &str, found: String, fix: String) {
        let problem = Problem { line: 0, column: 0, key: key.to_owned(), found, fix };
        self.problems.borrow_mut().push((at, problem));
    }

    /// What was noted: what was typed, then the text in its order, with lines and columns.
    pub(super) fn noted(&self) -> Vec<Problem> {
        let mut problems = self.problems.take();
        problems.sort_by_key(|(at, _)| *at);
        let (mut line, mut line_start, mut read) = (1, 0, 0);
        for (at, problem) in problems.iter_mut().filter_map(|(at, problem)| Some(((*at)?, problem))) {
            let until = self.text.floor_char_boundary(at);
            for (newline, _) in self.text[read..until].match_indices('\n') {
                (line, line_start) = (line + 1, read + newline + 1);
            }
            read = until;
            (problem.line, problem.column) = (line, self.text[line_start..until].chars().count() + 1);
        }
        problems.into_iter().map(|(_, problem)| problem).collect()
    }

    /// A table that is written at most once.
    pub(super) fn section(&'f self, document: &'f DeTable<'f>, table: &'static Table) -> Section<'f> {
        let called = table.name.to_owned();
        let (written, at) = match document.get(table.name) {
            None => (None, self.text.len()),
            Some(value) => match value.get_ref() {
                DeValue::Table(written) => (Some(written), value.span().start),
                DeValue::Array(_) => {
                    self.note(
                        value.span().start,
                        &called,
                        "it is written as a list",
                        format!("write {}", table.header()),
                    );
                    (None, value.span().start)
                }
                _ => {
                    self.note(value.span().start, &called, "it is not a table", format!("write {}", table.header()));
                    (None, value.span().start)
                }
            },
        };
        Section::new(self, table, called, written, at)
    }

    /// The tables of a list, in the order of the file.
    pub(super) fn sections(&'f self, document: &'f DeTable<'f>, table: &'static Table) -> Vec<Section<'f>> {
        let Some(value) = document.get(table.name) else { return Vec::new() };
        let DeValue::Array(items) = value.get_ref() else {
            self.note(value.span().start, table.name, "it is not a list", format!("write {}", table.header()));
            return Vec::new();
        };
        let mut sections = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            match item.get_ref() {
                DeValue::Table(written) => {
                    let name = written.get("name").and_then(|name| value::name(name.get_ref()).ok());
                    let called = match name {
                        Some(name) => format!("{} \"{name}\"", table.name),
                        None => format!("{} number {}", table.name, index + 1),
                    };
                    sections.push(Section::new(self, table, called, Some(written), item.span().start));
                }
                _ => self.note(item.span().start, table.name, "it is not a table", format!("write {}", table.header())),
            }
        }
        sections
    }

    /// Notes the names at the top of the file that no table has.
    pub(super) fn check_names(&self, document: &DeTable<'_>) {
        for (name, _) in document.iter().filter(|(name, _)| Table::named(name.get_ref()).is_none()) {
            let fix = match nearest(name.get_ref(), TABLES.iter().map(|table| table.name)).and_then(Table::named) {
                Some(table) => format!("did you mean {}?", table.header()),
                None => home_of(name.get_ref()).unwrap_or_else(|| {
                    let headers: Vec<String> = TABLES.into_iter().map(Table::header).collect();
                    format!("there are {}", headers.join(", "))
                }),
            };
            self.note(name.span().start, &shown(name.get_ref()), "there is no such table", fix);
        }
    }
}

impl<'f> Section<'f> {
    /// A table, whose unknown keys are noted.
    pub(super) fn new(
        file: &'f File<'f>,
        table: &'static Table,
        called: String,
        written: Option<&'f DeTable<'f>>,
        at: usize,
    ) -> Section<'f> {
        let section = Section { file, table, called, written, at };
        for (name, _) in section.written.into_iter().flatten() {
            if table.key(name.get_ref()).is_none() {
                let key = format!("{}.{}", section.called, shown(name.get_ref()));
                file.note(name.span().start, &key, "there is no such key", suggestion(table, name.get_ref()));
            }
        }
        section
    }

    /// The file.
    pub(super) fn file(&self) -> &'f File<'f> {
        self.file
    }

    /// True if the key is there.
    pub(super) fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// Notes what is wrong with a key that could be read.
    pub(super) fn complain(&self, key: &str, found: impl Into<String>, fix: impl Into<String>) {
        let at = self.value(key).map_or(self.at, |value| value.span().start);
        self.file.note(at, &format!("{}.{key}", self.called), found, fix);
    }

    /// Notes what is wrong with the table as a whole.
    pub(super) fn complain_of_all(&self, found: impl Into<String>, fix: impl Into<String>) {
        self.file.note(self.at, &self.called, found, fix);
    }

    /// A whole number; its bounds are the table's.
    pub(super) fn count(&self, key: &str) -> u64 {
        let read = |kind, value: &DeValue<'_>| match kind {
            Kind::Count { least, most } => value::count(value, least, most),
            _ => not_its_kind(),
        };
        self.read(key, read).unwrap_or_default()
    }

    /// A whole number whose bounds fit 32 bits.
    pub(super) fn count32(&self, key: &str) -> u32 {
        u32::try_from(self.count(key)).unwrap_or(u32::MAX)
    }

    /// A whole number that may be below zero.
    pub(super) fn whole(&self, key: &str) -> i32 {
        let read = |kind, value: &DeValue<'_>| match kind {
            Kind::Whole { least, most } => value::whole(value, least, most),
            _ => not_its_kind(),
        };
        self.read(key, read).and_then(|number| i32::try_from(number).ok()).unwrap_or_default()
    }

    /// A number of queries, or a share of all; None: not written, and there is no default.
    pub(super) fn limit(&self, key: &str) -> Option<Limit> {
        self.read(key, |_, value| value::limit(value))
    }

    /// A number; None: not written, and there is no default.
    pub(super) fn number(&self, key: &str) -> Option<f64> {
        self.read(key, |kind, value| match kind {
            Kind::Number { least, most } => value::number(value, least, most),
            _ => not_its_kind(),
        })
    }

    /// A duration; None: not written, and there is no default.
    pub(super) fn span(&self, key: &str) -> Option<Span> {
        self.read(key, |kind, value| match kind {
            Kind::Duration { least, most } => value::span(value, least, most),
            _ => not_its_kind(),
        })
    }

    /// A duration that has a default.
    pub(super) fn span_or_default(&self, key: &str) -> Span {
        self.span(key).unwrap_or_default()
    }

    /// A number of bytes.
    pub(super) fn bytes(&self, key: &str) -> u64 {
        let read = |kind, value: &DeValue<'_>| match kind {
            Kind::Bytes { least, most } => value::bytes(value, least, most),
            _ => not_its_kind(),
        };
        self.read(key, read).unwrap_or_default()
    }

    /// One of the table's words.
    pub(super) fn choice(&self, key: &str) -> Option<&'static str> {
        self.read(key, |kind, value| match kind {
            Kind::Choice(words) => value::choice(value, words),
            _ => not_its_kind(),
        })
    }

    /// A name or a text.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.read(key, |kind, value| match kind {
            Kind::Name => value::name(value),
            Kind::Text => value::text(value),
            _ => not_its_kind(),
        })
    }

    /// A path, from the file's directory.
    pub(super) fn path(&self, key: &str) -> Option<PathBuf> {
        self.read(key, |_, value| value::path(value)).map(|path| self.file.base.join(path))
    }

    /// An address to listen at, as typed or else as written; Some(None): nowhere; None: it cannot be read.
    pub(super) fn listen(&self, key: &str, typed: Option<&str>) -> Option<Option<SocketAddr>> {
        let Some(typed) = typed else { return self.read(key, |_, value| value::listen(value)) };
        match value::listen(&DeValue::String(typed.into())) {
            Ok(listen) => Some(listen),
            Err(Wrong { found, fix }) => {
                self.file.note_typed(key, found, fix);
                None
            }
        }
    }

    /// Notes what is wrong with a key that was written, or typed.
    pub(super) fn complain_of(&self, key: &str, typed: Option<&str>, found: &str, fix: &str) {
        match typed {
            Some(_) => self.file.note_typed(key, found, fix),
            None => self.complain(key, found, fix),
        }
    }

    /// Where a cluster listens.
    pub(super) fn address(&self, key: &str) -> Option<Address> {
        self.read(key, |_, value| value::address(value))
    }

    /// The items of a list, each with its place.
    pub(super) fn list(&self, key: &str, of: &str) -> Vec<&'f Spanned<DeValue<'f>>> {
        let Some(value) = self.value(key) else { return Vec::new() };
        match value::list(value.get_ref(), of) {
            Ok(items) => items.iter().collect(),
            Err(Wrong { found, fix }) => {
                self.complain(key, found, fix);
                Vec::new()
            }
        }
    }

    /// The items of a list of texts; `fix` says how to write one.
    pub(super) fn words(&self, key: &str, fix: &str) -> Vec<String> {
        let read = |item: &Spanned<DeValue<'_>>| match item.get_ref().as_str() {
            Some(word) => Some(word.to_owned()),
            None => {
                self.file.note(item.span().start, &self.key_called(key), "it holds what is no text", fix);
                None
            }
        };
        self.list(key, "texts").into_iter().filter_map(read).collect()
    }

    /// What errors call one of its keys.
    pub(super) fn key_called(&self, key: &str) -> String {
        format!("{}.{key}", self.called)
    }

    /// The written value, else the default, else None.
    fn read<T>(&self, name: &str, read: impl Fn(Kind, &DeValue<'_>) -> Read<T>) -> Option<T> {
        let key = self.table.key(name);
        debug_assert!(key.is_some(), "{name} is not in the table of keys");
        let key = key?;
        if let Some(value) = self.value(name) {
            match read(key.kind, value.get_ref()) {
                Ok(value) => return Some(value),
                Err(Wrong { found, fix }) => self.complain(name, found, fix),
            }
        } else if matches!(key.fallback, Fallback::Required) {
            self.complain_of_all(format!("`{name}` is missing"), format!("write {}", key.kind));
        }
        let Fallback::Is(default) = key.fallback else { return None };
        let default = DeValue::parse(default).ok()?;
        read(key.kind, default.get_ref()).ok()
    }

    fn value(&self, key: &str) -> Option<&'f Spanned<DeValue<'f>>> {
        self.written?.get(key)
    }
}

/// A key is read as another kind than the table says: a mistake in here, which every test of the defaults meets.
fn not_its_kind<T>() -> Read<T> {
    debug_assert!(false, "a key is read as another kind than its own");
    wrong("it cannot be read", "report this")
}

/// What to write instead of a key that does not exist.
fn suggestion(table: &'static Table, written: &str) -> String {
    if written == "password" {
        return "secrets do not belong in this file: use `password_env` or `password_file`".to_owned();
    }
    match nearest(written, table.keys.iter().map(|key| key.name)) {
        Some(key) => format!("did you mean `{key}`?"),
        None => home_of(written).unwrap_or_else(|| {
            let keys: Vec<String> = table.keys.iter().map(|key| format!("`{}`", key.name)).collect();
            format!("there are {}", keys.join(", "))
        }),
    }
}

/// The table where a key of that name would be right.
fn home_of(key: &str) -> Option<String> {
    let home = TABLES.iter().find(|table| table.key(key).is_some())?;
    Some(format!("it belongs in {}", home.header()))
}

/// A name as written, in quotes if it is not a plain one.
fn shown(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.len() <= 64 && name.chars().all(plain) { name.to_owned() } else { quoted(name) }
}
