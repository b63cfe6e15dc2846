//! What running something does besides giving an answer: what it leaves behind, where it may run.

use punctual_core::statement::{Kind, Statement};

use super::reading::{Effect, Reading};

/// What is left behind by running something, as far as its text shows. The least comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Impact {
    /// Nothing: a SELECT that only reads.
    #[default]
    Reads,
    /// Nothing but what the session carries anyway.
    Settles,
    /// A transaction in which anything may follow.
    Opens,
    /// Something that a second time would do once more.
    Changes,
}

/// What would come of running something on a cluster that only reads, where its session is held. The least comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum OnReader {
    /// Nothing is written.
    #[default]
    Reads,
    /// Nothing is written in a transaction that only reads, which keeps it from that; out of one it may be.
    ReadsInTransactions,
    /// Something is written, or the transaction would not only read any more.
    Writes,
}

impl OnReader {
    /// True if it is not to run there.
    pub(super) fn is_refused(self, in_transaction: bool) -> bool {
        self > if in_transaction { OnReader::ReadsInTransactions } else { OnReader::Reads }
    }
}

/// What running something does besides giving an answer, as far as its text shows; of several things together, the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bearing {
    /// What is left behind.
    pub impact: Impact,
    /// True if it may change what others see, or its session keeps its connection after it, for whatever comes.
    pub is_for_the_writer: bool,
    /// What would come of it on a cluster that only reads.
    pub on_reader: OnReader,
}

impl Bearing {
    /// Something else runs with it.
    pub(super) fn add(&mut self, other: Bearing) {
        self.impact = self.impact.max(other.impact);
        self.is_for_the_writer |= other.is_for_the_writer;
        self.on_reader = self.on_reader.max(other.on_reader);
    }
}

impl Reading {
    /// What running it does besides giving an answer.
    pub(super) fn bearing(&self) -> Bearing {
        let sticks = self.effects.iter().any(|effect| matches!(effect, Effect::Stick(_)));
        let is_for_the_writer = self.statement.writes || sticks;
        Bearing { impact: self.impact(), is_for_the_writer, on_reader: self.on_reader() }
    }

    fn on_reader(&self) -> OnReader {
        let Statement { kind, writes, count, .. } = *self.statement;
        match kind {
            _ if !writes => OnReader::Reads,
            _ if count > 1 => OnReader::Writes,
            Kind::Cursor | Kind::Prepared | Kind::Listen => OnReader::Reads,
            Kind::Begin | Kind::Other => OnReader::ReadsInTransactions,
            _ => OnReader::Writes,
        }
    }

    /// What is left behind by running it.
    fn impact(&self) -> Impact {
        let Statement { kind, writes, calls_others, count, .. } = *self.statement;
        match kind {
            _ if count > 1 => Impact::Changes,
            Kind::Begin if writes => Impact::Opens,
            _ if writes => Impact::Changes,
            // It may leave something behind where it has run; where it has not begun it has not.
            Kind::Select if calls_others => Impact::Settles,
            Kind::Empty | Kind::Select => Impact::Reads,
            Kind::Explain | Kind::Begin | Kind::Set | Kind::Reset | Kind::Show => Impact::Settles,
            _ => Impact::Changes,
        }
    }
}
