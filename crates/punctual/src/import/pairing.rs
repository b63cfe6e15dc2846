//! Queries from Postgres's log, whose records are about moments.
//!
//! ```text
//!  duration: 12.3 ms  statement: SELECT …        a query: it began that long before the record's time
//!  statement: SELECT …  then  duration: 12.3 ms  one too: the text is remembered for its session
//!  statement: SELECT …  then  ERROR              one that failed
//! ```
//!
//! `execute` stands where `statement` does in the extended protocol; the durations of its `parse` and `bind` are left
//! out. What is remembered is bounded: beyond it all is forgotten, and what follows without its text is left out.

use std::collections::HashMap;

use punctual_core::query::{SqlState, Status};

use super::records::{Cell, Record};
use super::refusal::{Reason, Refusal};
use super::stamp;
use super::target::Target;
use super::units::Unit;
use super::words::CANCELLED;
use crate::history::MAX_SQL;

/// Sessions and bytes of text that are remembered.
const SESSIONS: usize = 16_384;
const BYTES: usize = 64 << 20;

/// The columns that it reads, in the order in which a record has them.
pub(crate) const READS: [&str; 5] = ["log_time", "session_id", "error_severity", "sql_state_code", "message"];

/// The columns that it gives, which a layout may name.
pub(crate) const GIVES: [&str; 5] = ["@arrival", "@ended", "@sql", "@status", "@sqlstate"];

/// What became of a record.
#[derive(Debug, PartialEq)]
pub(crate) enum Paired {
    /// A query: the values of [`GIVES`].
    Query(Box<[Cell; 5]>),
    /// No query, and what it is instead.
    Nothing(&'static str),
    /// It cannot be read.
    Spoilt(Refusal),
}

/// What sessions have begun.
#[derive(Debug, Default)]
pub(crate) struct Pairing {
    begun: HashMap<String, Begun>,
    bytes: usize,
}

#[derive(Debug)]
struct Begun {
    at: i64,
    sql: String,
}

impl Pairing {
    /// Takes in a record that begins with the values of [`READS`]. Times without a zone are `offset` minutes east.
    pub(crate) fn take(&mut self, record: &Record, offset: i64) -> Paired {
        let text = |at: usize| record.cells.get(at).and_then(Cell::text).unwrap_or_default();
        let (stamp, session, severity, state) = (text(0), text(1), text(2), text(3));
        let message = match record.cells.get(4) {
            Some(Cell::Text(message)) => message.as_str(),
            _ => "",
        };
        let Ok(now) = stamp::micros(&stamp, offset) else {
            return Paired::Spoilt(Refusal::of(Reason::NotAStamp(Target::Ended), stamp));
        };
        if matches!(severity.as_str(), "ERROR" | "FATAL" | "PANIC") {
            return self.failed(&session, now, state);
        }
        if severity != "LOG" {
            return Paired::Nothing("a notice");
        }
        match message.strip_prefix("duration: ") {
            Some(rest) => self.ended(&session, now, rest),
            None => match statement(message) {
                Some(sql) => self.began(session, now, sql),
                None => Paired::Nothing("a message that is not about a query"),
            },
        }
    }

    fn began(&mut self, session: String, at: i64, sql: &str) -> Paired {
        let sql = sql[..sql.floor_char_boundary(MAX_SQL)].to_owned();
        if self.begun.len() >= SESSIONS || self.bytes + sql.len() > BYTES {
            (self.begun, self.bytes) = (HashMap::new(), 0);
        }
        self.bytes += sql.len();
        if let Some(before) = self.begun.insert(session, Begun { at, sql }) {
            self.bytes -= before.sql.len();
        }
        Paired::Nothing("the start of a query")
    }

    fn forget(&mut self, session: &str) -> Option<Begun> {
        let begun = self.begun.remove(session)?;
        self.bytes -= begun.sql.len();
        Some(begun)
    }

    fn ended(&mut self, session: &str, now: i64, rest: &str) -> Paired {
        let (number, after) = rest.split_once(" ms").unwrap_or((rest, ""));
        let Ok(micros) = Unit::Millis.micros(number) else {
            return Paired::Spoilt(Refusal::of(Reason::NotANumber(Target::Latency), number.to_owned()));
        };
        let after = after.trim_start();
        let sql = match statement(after) {
            Some(sql) => {
                self.forget(session);
                sql.to_owned()
            }
            None if after.is_empty() => match self.forget(session) {
                Some(begun) => begun.sql,
                None => return Paired::Nothing("a duration without its text"),
            },
            None => return Paired::Nothing("a step of a query"),
        };
        let arrival = i64::try_from(i128::from(now) - micros).unwrap_or(i64::MIN);
        query(arrival, now, sql, Status::Finished, None)
    }

    fn failed(&mut self, session: &str, now: i64, state: String) -> Paired {
        let Some(begun) = self.forget(session) else {
            return Paired::Nothing("an error of a query whose start is not known");
        };
        let cancelled = state == CANCELLED.code();
        let status = if cancelled { Status::Cancelled } else { Status::Failed };
        query(begun.at, now, begun.sql, status, Some(state))
    }
}

fn query(arrival: i64, ended: i64, sql: String, status: Status, state: Option<String>) -> Paired {
    let state = state.filter(|state| state.len() == size_of::<SqlState>());
    Paired::Query(Box::new([
        Cell::Time(arrival),
        Cell::Time(ended),
        if sql.trim().is_empty() { Cell::Null } else { Cell::Text(sql) },
        Cell::Text(status.name().to_owned()),
        state.map_or(Cell::Null, Cell::Text),
    ]))
}

/// The text after `statement:` or `execute NAME:`.
fn statement(message: &str) -> Option<&str> {
    if let Some(sql) = message.strip_prefix("statement: ") {
        return Some(sql);
    }
    let (_, sql) = message.strip_prefix("execute ")?.split_once(": ")?;
    Some(sql)
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: &str = "2026-01-02 03:04:05.500 UTC";
    const NOW: i64 = 1_767_323_045_500_000;

    fn take(pairing: &mut Pairing, severity: &str, state: &str, message: &str) -> Paired {
        let cells = [T, "s1", severity, state, message].map(Cell::of_text).to_vec();
        pairing.take(&Record { cells, at: 1 }, 0)
    }

    fn told(arrival: i64, sql: &str, status: &str, state: Option<&str>) -> Paired {
        let text = |text: &str| Cell::Text(text.to_owned());
        let state = state.map_or(Cell::Null, text);
        Paired::Query(Box::new([Cell::Time(arrival), Cell::Time(NOW), text(sql), text(status), state]))
    }

    #[test]
    fn a_duration_with_its_text_is_a_query() {
        let mut pairing = Pairing::default();
        let expected = told(NOW - 12_345, "select 1", "finished", None);
        assert_eq!(take(&mut pairing, "LOG", "00000", "duration: 12.345 ms  statement: select 1"), expected);
        assert_eq!(take(&mut pairing, "LOG", "00000", "duration: 12.345 ms  execute <unnamed>: select 1"), expected);
        let step = take(&mut pairing, "LOG", "00000", "duration: 0.1 ms  parse <unnamed>: select 1");
        assert_eq!(step, Paired::Nothing("a step of a query"));
    }

    #[test]
    fn a_duration_alone_takes_the_text_that_its_session_began() {
        let mut pairing = Pairing::default();
        assert_eq!(take(&mut pairing, "LOG", "", "statement: select 2"), Paired::Nothing("the start of a query"));
        assert_eq!(take(&mut pairing, "LOG", "", "duration: 1 ms"), told(NOW - 1_000, "select 2", "finished", None));
        assert_eq!(take(&mut pairing, "LOG", "", "duration: 1 ms"), Paired::Nothing("a duration without its text"));
    }

    #[test]
    fn an_error_ends_what_its_session_began() {
        let mut pairing = Pairing::default();
        for (state, status) in [("22012", "failed"), ("57014", "cancelled")] {
            take(&mut pairing, "LOG", "", "statement: select 1/0");
            let expected = told(NOW, "select 1/0", status, Some(state));
            assert_eq!(take(&mut pairing, "ERROR", state, "it went wrong"), expected);
        }
        let unknown = take(&mut pairing, "ERROR", "22012", "it went wrong");
        assert_eq!(unknown, Paired::Nothing("an error of a query whose start is not known"));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut pairing = Pairing::default();
        for session in 0..200 {
            let message = format!("statement: {}", "x".repeat(MAX_SQL));
            let cells = [T, &session.to_string(), "LOG", "", &message].map(Cell::of_text).to_vec();
            pairing.take(&Record { cells, at: 1 }, 0);
            assert!(pairing.bytes <= BYTES);
        }
        assert!(!pairing.begun.is_empty());
    }

    #[test]
    fn nonsense_is_no_query() {
        let mut pairing = Pairing::default();
        assert!(matches!(take(&mut pairing, "LOG", "", "duration: x ms"), Paired::Spoilt(_)));
        assert!(matches!(take(&mut pairing, "LOG", "", "checkpoint starting: time"), Paired::Nothing(_)));
        assert!(matches!(take(&mut pairing, "WARNING", "", "there is no transaction"), Paired::Nothing(_)));
        let cells = ["soon", "s1", "LOG", "", "duration: 1 ms"].map(Cell::of_text).to_vec();
        assert!(matches!(pairing.take(&Record { cells, at: 1 }, 0), Paired::Spoilt(_)));
    }
}
