//! Answers about the gateway, as tables, and how they become rows on the wire.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use punctual_core::query::SqlState;

use crate::catalog::{Answer, Catalog, Column, ColumnKind, Question};
use crate::relay::frames::{frame, text};

/// Answers statements over the schema `punctual`. It reads a snapshot; it never waits for a cluster.
pub trait Answers: Send + Sync {
    /// The answer to a SELECT.
    fn answer<'a>(
        &'a self,
        question: Question<'a>,
    ) -> Pin<Box<dyn Future<Output = Result<Answer, AnswerError>> + Send + 'a>>;
}

/// A statement over the schema `punctual` that cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerError {
    /// The code that the client gets.
    pub sqlstate: SqlState,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.sqlstate.code())
    }
}

impl std::error::Error for AnswerError {}

impl Answers for Catalog {
    fn answer<'a>(
        &'a self,
        question: Question<'a>,
    ) -> Pin<Box<dyn Future<Output = Result<Answer, AnswerError>> + Send + 'a>> {
        Box::pin(async move {
            Catalog::answer(self, question).await.map_err(|error| AnswerError {
                sqlstate: error.sqlstate(),
                message: error.to_string(),
                hint: error.hint().map(str::to_owned),
            })
        })
    }
}

/// An answer of one row and one column of text.
pub(super) fn one(name: &str, value: Option<String>) -> Answer {
    let column = Column { name: name.to_owned(), kind: ColumnKind::Text };
    Answer { columns: vec![column], rows: vec![vec![value]] }
}

/// The id of a type in Postgres.
pub(super) fn oid_of(kind: ColumnKind) -> u32 {
    match kind {
        ColumnKind::Int8 => 20,
        ColumnKind::Float8 => 701,
        ColumnKind::Text => 25,
        ColumnKind::Bool => 16,
        ColumnKind::Timestamptz => 1184,
    }
}

/// An answer with the columns that its client was told of, which may have been found out from other rows; None if a
/// value does not fit.
pub(super) fn conform(answer: Arc<Answer>, told: &Arc<[Column]>) -> Option<Arc<Answer>> {
    if answer.columns[..] == told[..] {
        return Some(answer);
    }
    let fits = |value: &str, kind: ColumnKind| match kind {
        ColumnKind::Text => true,
        ColumnKind::Int8 => value.parse::<i64>().is_ok(),
        ColumnKind::Float8 => value.parse::<f64>().is_ok(),
        ColumnKind::Bool => matches!(value, "t" | "f"),
        ColumnKind::Timestamptz => micros_since_2000(value).is_some(),
    };
    let all = answer.rows.iter().all(|row| {
        row.iter().zip(told.iter()).all(|(value, column)| value.as_deref().is_none_or(|value| fits(value, column.kind)))
    });
    let same = answer.columns.len() == told.len();
    (same && all).then(|| Arc::new(Answer { columns: told.to_vec(), rows: answer.rows.clone() }))
}

/// The format of column `at`, given the codes of a Bind: none means text, one is for all.
fn format_of(formats: &[u16], at: usize) -> u16 {
    match formats {
        [] => 0,
        [one] => *one,
        many => many.get(at).copied().unwrap_or(0),
    }
}

/// Appends a RowDescription.
pub(super) fn describe(out: &mut Vec<u8>, columns: &[Column], formats: &[u16]) {
    frame(out, b'T', |out| {
        out.extend_from_slice(&(columns.len() as u16).to_be_bytes());
        for (at, column) in columns.iter().enumerate() {
            let size: i16 = match column.kind {
                ColumnKind::Int8 | ColumnKind::Float8 | ColumnKind::Timestamptz => 8,
                ColumnKind::Text => -1,
                ColumnKind::Bool => 1,
            };
            text(out, &column.name);
            // No table, no column of a table.
            out.extend_from_slice(&[0; 6]);
            out.extend_from_slice(&oid_of(column.kind).to_be_bytes());
            out.extend_from_slice(&size.to_be_bytes());
            out.extend_from_slice(&(-1i32).to_be_bytes());
            out.extend_from_slice(&format_of(formats, at).to_be_bytes());
        }
    });
}

/// Appends a DataRow.
pub(super) fn row(out: &mut Vec<u8>, columns: &[Column], formats: &[u16], values: &[Option<String>]) {
    frame(out, b'D', |out| {
        out.extend_from_slice(&(columns.len() as u16).to_be_bytes());
        for (at, column) in columns.iter().enumerate() {
            let Some(value) = values.get(at).and_then(Option::as_deref) else {
                out.extend_from_slice(&(-1i32).to_be_bytes());
                continue;
            };
            let length_at = out.len();
            out.extend_from_slice(&[0; 4]);
            match format_of(formats, at) {
                0 => out.extend_from_slice(value.as_bytes()),
                _ => binary(out, column.kind, value),
            }
            let length = (out.len() - length_at - 4) as u32;
            out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
        }
    });
}

/// Appends a value in Postgres' binary form. What its column cannot hold becomes zero: it is ours, and a test's to find.
fn binary(out: &mut Vec<u8>, kind: ColumnKind, value: &str) {
    match kind {
        ColumnKind::Int8 => out.extend_from_slice(&value.parse::<i64>().unwrap_or(0).to_be_bytes()),
        ColumnKind::Float8 => out.extend_from_slice(&value.parse::<f64>().unwrap_or(0.0).to_be_bytes()),
        ColumnKind::Text => out.extend_from_slice(value.as_bytes()),
        ColumnKind::Bool => out.push(u8::from(value.starts_with('t'))),
        ColumnKind::Timestamptz => out.extend_from_slice(&micros_since_2000(value).unwrap_or(0).to_be_bytes()),
    }
}

/// Reads `2026-01-02 03:04:05.123456+00` as microseconds since the start of 2000, in UTC.
pub(super) fn micros_since_2000(value: &str) -> Option<i64> {
    let number = |text: &str| text.parse::<i64>().ok();
    let (date, time) = value.split_at_checked(10)?;
    let (year, month, day) = (number(date.get(0..4)?)?, number(date.get(5..7)?)?, number(date.get(8..10)?)?);
    let time = time.get(1..)?.split(['+', 'Z']).next()?;
    let (hours, minutes) = (number(time.get(0..2)?)?, number(time.get(3..5)?)?);
    let seconds = time.get(6..8).map_or(Some(0), number)?;
    let fraction = format!("{:0<6.6}", time.get(9..).unwrap_or(""));
    let micros = number(&fraction)?;
    let seconds = days_since_2000(year, month, day) * 86_400 + hours * 3_600 + minutes * 60 + seconds;
    Some(seconds * 1_000_000 + micros)
}

/// Days from 2000-01-01 in the Gregorian calendar: years are counted from March, so that the leap day is their last.
fn days_since_2000(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // Days before a month of such a year: 0, 31, 61, 92, 122, 153, ...
    days + (153 * month + 2) / 5 + day - 730_426
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_count_from_the_year_2000() {
        assert_eq!(micros_since_2000("2000-01-01 00:00:00+00"), Some(0));
        assert_eq!(micros_since_2000("2000-03-01 00:00:01.5+00"), Some((60 * 86_400 + 1) * 1_000_000 + 500_000));
        assert_eq!(micros_since_2000("1999-12-31 23:59:59.999999+00"), Some(-1));
        assert_eq!(micros_since_2000("2026-11-05 12:00:00+00"), Some(847_195_200_000_000));
        assert_eq!(micros_since_2000("soon"), None);
    }

    #[test]
    fn values_have_their_binary_form() {
        let columns: Vec<Column> = [ColumnKind::Int8, ColumnKind::Bool, ColumnKind::Float8, ColumnKind::Text]
            .map(|kind| Column { name: "c".into(), kind })
            .into();
        let values = [Some("-2".into()), Some("t".into()), None, Some("é".into())];
        let mut out = Vec::new();
        row(&mut out, &columns, &[1], &values);
        let expected = [
            &b"D\0\0\0\x21\0\x04"[..],
            b"\0\0\0\x08\xff\xff\xff\xff\xff\xff\xff\xfe",
            b"\0\0\0\x01\x01",
            b"\xff\xff\xff\xff",
            b"\0\0\0\x02\xc3\xa9",
        ];
        assert_eq!(out, expected.concat());
    }
}
