//! Words for how a query ended.
//!
//! History knows five ends, and only `finished` says how long a query takes: every other one is a lower bound of it. A
//! timeout is such a bound too, so it is `cancelled` with the SQLSTATE 57014 that Postgres gives it. A query that has not
//! ended is no row of history.

use punctual_core::query::{SqlState, Status};

/// Postgres's `query_canceled`: by its user, or by a timeout.
pub(crate) const CANCELLED: SqlState = SqlState(*b"57014");

/// What a word means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The query ended so.
    Ended(Status),
    /// It ran out of time.
    Timeout,
    /// It has not ended yet, or this record is not about its end.
    NotEnded,
}

const FINISHED: Meaning = Meaning::Ended(Status::Finished);
const FAILED: Meaning = Meaning::Ended(Status::Failed);
const STOPPED: Meaning = Meaning::Ended(Status::Cancelled);

/// Words that mean the same wherever they are found.
const KNOWN: [(&str, Meaning); 38] = [
    ("finished", FINISHED),
    ("finish", FINISHED),
    ("success", FINISHED),
    ("succeeded", FINISHED),
    ("successful", FINISHED),
    ("ok", FINISHED),
    ("done", FINISHED),
    ("complete", FINISHED),
    ("completed", FINISHED),
    ("failed", FAILED),
    ("fail", FAILED),
    ("failure", FAILED),
    ("error", FAILED),
    ("errored", FAILED),
    ("exception", FAILED),
    ("cancelled", STOPPED),
    ("canceled", STOPPED),
    ("cancel", STOPPED),
    ("aborted", STOPPED),
    ("abort", STOPPED),
    ("killed", STOPPED),
    ("timeout", Meaning::Timeout),
    ("timed_out", Meaning::Timeout),
    ("timedout", Meaning::Timeout),
    ("timed out", Meaning::Timeout),
    ("refused", Meaning::Ended(Status::Refused)),
    ("rejected", Meaning::Ended(Status::Refused)),
    ("lost", Meaning::Ended(Status::Lost)),
    ("planning", Meaning::NotEnded),
    ("queued", Meaning::NotEnded),
    ("running", Meaning::NotEnded),
    ("returning", Meaning::NotEnded),
    ("waiting", Meaning::NotEnded),
    ("pending", Meaning::NotEnded),
    ("blocked", Meaning::NotEnded),
    ("starting", Meaning::NotEnded),
    ("finishing", Meaning::NotEnded),
    ("start", Meaning::NotEnded),
];

/// What a word means, whatever its case.
pub(crate) fn known(word: &str) -> Option<Meaning> {
    KNOWN.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)).map(|(_, meaning)| *meaning)
}

/// Reads `WORD=STATUS`: what a word means in this file alone.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn read(text: &str) -> Result<(String, Meaning), String> {
    let (word, meaning) = text.split_once('=').ok_or("write WORD=STATUS, as in ok=finished")?;
    let meaning = known(meaning.trim());
    let meaning = meaning.ok_or("a status is finished, failed, cancelled, timeout, refused, lost or running")?;
    Ok((word.trim().to_owned(), meaning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_no_failure_and_running_is_no_end() {
        assert_eq!(known("OK"), Some(Meaning::Ended(Status::Finished)));
        assert_eq!(known("timeout"), Some(Meaning::Timeout));
        assert_eq!(known("RUNNING"), Some(Meaning::NotEnded));
        assert_eq!(known("perhaps"), None);
        for status in Status::ALL {
            assert_eq!(known(status.name()), Some(Meaning::Ended(status)));
        }
    }

    #[test]
    fn a_word_can_be_given_a_meaning() {
        assert_eq!(read("True=timeout"), Ok(("True".to_owned(), Meaning::Timeout)));
        assert!(read("True").is_err());
        assert!(read("True=maybe").is_err());
    }
}
