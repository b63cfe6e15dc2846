//! What a profile knows of a kind of file: which columns become what, what its words mean, what is no query.

use super::target::Target;
use super::units::Unit;
use super::words::Meaning;

/// The files of one system. One of its layouts fits a file, by the columns that the file has.
#[derive(Debug)]
pub(crate) struct Profile {
    /// What is typed.
    pub(crate) name: &'static str,
    /// What it reads, for people.
    pub(crate) about: &'static str,
    /// In the order in which they are tried. None: all columns are mapped by hand.
    pub(crate) layouts: &'static [Layout],
}

/// One kind of file.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The table or format that it comes from.
    pub(crate) name: &'static str,
    /// Where values come from. Several for one target are tried in order: the first that is there and not null counts.
    pub(crate) fields: &'static [Field],
    /// What words mean in a column, before what they mean anywhere: column, word (`*` is any), meaning. All columns of
    /// `status` are looked at in order, and the first word with a meaning counts.
    pub(crate) words: &'static [(&'static str, &'static str, Meaning)],
    /// Records that are no query.
    pub(crate) left_out: &'static [LeftOut],
    /// The columns of CSV, where it has no header.
    pub(crate) header: Option<&'static [&'static str]>,
    /// What a query is known by.
    pub(crate) identity: Identity,
    /// True if texts have `\n` spelled out for a new line.
    pub(crate) escaped: bool,
    /// True for Postgres's log, whose records are not queries yet.
    pub(crate) paired: bool,
}

/// What the fingerprint is made from, where a file has both a text and a hash of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// The text, as it would be here; the hash where there is no text.
    Text,
    /// The column.
    Column,
}

/// Where a target comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) target: Target,
    pub(crate) columns: &'static [&'static str],
    pub(crate) unit: Option<Unit>,
    /// True if the layout fits only files that have it, or another field of the same target.
    pub(crate) needed: bool,
}

/// Records with one of these values in a column are left out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeftOut {
    pub(crate) column: &'static str,
    pub(crate) values: &'static [&'static str],
    /// What they are instead.
    pub(crate) because: &'static str,
}

/// What most layouts are like.
pub(crate) const PLAIN: Layout = Layout {
    name: "",
    fields: &[],
    words: &[],
    left_out: &[],
    header: None,
    identity: Identity::Text,
    escaped: false,
    paired: false,
};

/// A field that a file must have.
pub(crate) const fn must(target: Target, columns: &'static [&'static str]) -> Field {
    Field { target, columns, unit: None, needed: true }
}

/// A field that a file may have.
pub(crate) const fn may(target: Target, columns: &'static [&'static str]) -> Field {
    Field { target, columns, unit: None, needed: false }
}

impl Field {
    /// The field with numbers of that unit.
    pub(crate) const fn of(self, unit: Unit) -> Field {
        Field { unit: Some(unit), ..self }
    }
}
