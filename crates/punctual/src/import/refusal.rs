//! Why a record does not become a row of history.

use std::fmt;

use super::target::Target;

/// What is wrong with a record. Records with one reason are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// A value that every row needs is null.
    Missing(Target),
    /// Neither the shape nor the text of the query is known.
    Unidentified,
    /// The value is no number.
    NotANumber(Target),
    /// The duration, or the count, is below zero.
    Negative(Target),
    /// It is infinite, or larger than anything that is measured.
    Infinite(Target),
    /// It is no timestamp.
    NotAStamp(Target),
    /// Its zone is neither an offset nor a known abbreviation.
    Zone(Target),
    /// It is a number, and nobody said of what.
    Unitless(Target),
    /// It is before 1970 or after 9999.
    OutOfTime(Target),
    /// It is no whole number, or does not fit.
    NotWhole(Target),
    /// The word is not known.
    Unknown(Target),
    /// The query ends before it arrives.
    EndsEarly,
    /// The query starts before it arrives or after it ends.
    StartsOutside,
    /// A value that names a file of SQL would lead out of its directory.
    Path,
    /// There are more or fewer values than columns.
    Width,
    /// The line is no JSON.
    NotJson,
    /// The line is JSON, but no object.
    NotAnObject,
    /// The line is longer than is read.
    TooLong,
    /// Another record is the same, its id included.
    Duplicate,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Missing(target) => write!(f, "{target} is missing"),
            Reason::Unidentified => f.write_str("neither fingerprint nor sql is known"),
            Reason::NotANumber(target) => write!(f, "{target} is not a number"),
            Reason::Negative(target) => write!(f, "{target} is negative"),
            Reason::Infinite(target) => write!(f, "{target} is infinite"),
            Reason::NotAStamp(target) => write!(f, "{target} is not a timestamp"),
            Reason::Zone(target) => write!(f, "{target} has a zone that is neither an offset nor UTC"),
            Reason::Unitless(target) => {
                write!(f, "{target} is a number without a unit (map it with one: {target}=COLUMN:ms)")
            }
            Reason::OutOfTime(target) => write!(f, "{target} is before 1970 or after 9999"),
            Reason::NotWhole(target) => write!(f, "{target} is not a whole number that fits"),
            Reason::Unknown(target) => write!(f, "{target} is a word that is not known"),
            Reason::EndsEarly => f.write_str("it ends before it arrives"),
            Reason::StartsOutside => f.write_str("it starts before it arrives or after it ends"),
            Reason::Path => f.write_str("a value leads out of the directory of the SQL files"),
            Reason::Width => f.write_str("the number of values is not that of the columns"),
            Reason::NotJson => f.write_str("the line is not JSON"),
            Reason::NotAnObject => f.write_str("the line is not a JSON object"),
            Reason::TooLong => f.write_str("the line is longer than 64 MiB"),
            Reason::Duplicate => f.write_str("it is there twice"),
        }
    }
}

/// A reason, with the value that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: Reason,
    pub(crate) value: Option<String>,
}

/// The longest value that is shown.
const SHOWN: usize = 80;

impl Refusal {
    /// A reason that needs no value.
    pub(crate) fn bare(reason: Reason) -> Refusal {
        Refusal { reason, value: None }
    }

    /// A reason and the value, cut to what is worth showing.
    pub(crate) fn of(reason: Reason, mut value: String) -> Refusal {
        if value.len() > SHOWN {
            value.truncate(value.floor_char_boundary(SHOWN));
            value.push('…');
        }
        Refusal { reason, value: Some(value) }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            None => self.reason.fmt(f),
            Some(value) => write!(f, "{} ({value})", self.reason),
        }
    }
}
