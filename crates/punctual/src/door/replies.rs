//! What a cluster's bytes mean for the query that they answer: a state machine without I/O.
//!
//! ```text
//!   sent to the cluster    Close p ─ Parse p ─ Bind ─ Execute ─ Sync
//!   replies due            3         1         2      D… C      Z
//!   to the client          ─         ─         2      D… C      Z     what the client did not send is not answered
//! ```
//!
//! For each message that went out there is one reply that completes it, and replies come in order. So a queue of what
//! is due says of each frame that comes in whether it passes, is cut out, or has an answer of the gateway's own put in
//! front of it. Frames stay where they were read; only headers are looked at, and the bodies of a few short frames.
//! After an error the cluster skips everything up to the next Sync, and so does the queue.

use std::collections::VecDeque;
use std::sync::Arc;

use punctual_core::query::SqlState;

use super::statements::{Change, Described};
use crate::relay::buffer::Buffer;
use crate::relay::carried::Prepared;
use crate::relay::frames::{self, HEADER, Header};
use crate::relay::{Garbled, ServerError, sqlstate};

/// The most of an error that is waited for before it passes: code and severity come first.
const ERROR_HEAD: usize = 2 << 10;

/// The longest reply that has to be whole before it is looked at.
const LONGEST_SHORT: usize = 16 << 10;

/// A reply that is due.
#[derive(Debug)]
pub enum Expect {
    /// ParseComplete.
    Parse {
        /// False if the client did not ask for it.
        pass: bool,
        /// What the connection has prepared then, and whether without a name.
        carry: Option<(Arc<Prepared>, bool)>,
        /// What it means for the session.
        change: Option<Change>,
    },
    /// BindComplete.
    Bind,
    /// CloseComplete.
    Close {
        /// False if the client did not ask for it.
        pass: bool,
    },
    /// RowDescription or NoData; of a statement, a ParameterDescription before it.
    Describe(Option<Described>),
    /// The end of an Execute.
    Execute,
    /// ReadyForQuery.
    Ready {
        /// False if the client did not ask for it.
        pass: bool,
    },
    /// An error that was brought about on purpose, so that the cluster knows of a failure that it could not see.
    /// The client gets this frame instead.
    Poison(Vec<u8>),
    /// The gateway's own answer.
    Local(Vec<u8>, LocalEffect),
    /// The gateway's own error: what follows up to the next Sync is skipped.
    LocalError(Vec<u8>, SqlState),
}

/// What the gateway's own answer means, once it is given.
#[derive(Clone, Debug)]
pub enum LocalEffect {
    /// Nothing.
    Nothing,
    /// A prepared statement changes.
    Change(Change),
    /// A wish changes.
    Wish(super::local::Wish),
    /// Every prepared statement is forgotten.
    ForgetAll,
}

/// What happened while replies came in, for the session and its connection to take note of.
#[derive(Debug)]
pub enum Note {
    /// The connection has this statement now; true: as its unnamed one.
    Carry(Arc<Prepared>, bool),
    /// A prepared statement of the session changed.
    Change(Change),
    /// The gateway's own answer took effect.
    Effect(LocalEffect),
    /// Something was skipped that was to tidy up the connection.
    Untidy,
}

/// What to do after a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Pass on what is approved and read more.
    More,
    /// The cluster is ready, with this transaction status. Its ReadyForQuery is not approved yet if the client is to
    /// get it, and cut out otherwise.
    Ready {
        /// `I`, `T` or `E`.
        status: u8,
        /// Whether the client is to get it.
        pass: bool,
    },
}

/// How the last command that completed ended a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LastCommand {
    /// It did not.
    #[default]
    Other,
    /// ROLLBACK.
    Rollback,
}

/// The replies to one query.
#[derive(Debug, Default)]
pub struct Replies {
    due: VecDeque<Expect>,
    /// Bytes of the present frame that have not come yet.
    rest: usize,
    /// Whether they are cut out.
    cutting: bool,
    /// True from an error until the next ReadyForQuery.
    skipping: bool,
    /// Cut out everything: it answers what the client did not ask.
    mute: bool,
    /// Replies to this unit are those to a simple query: an error skips nothing.
    simple: bool,
    /// What to take note of; to be drained after each scan.
    pub notes: Vec<Note>,
    /// True once any byte has come.
    pub began: bool,
    /// True while the cluster takes CopyData.
    pub copying_in: bool,
    /// True if a CopyInResponse came to a pipeline, whose Sync was ignored: another has to come.
    pub reopened: bool,
    /// Rows that passed.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The first error's code.
    pub error: Option<SqlState>,
    /// Errors that were muted, with the number of ReadyForQuery seen before each.
    pub muted: Vec<(usize, ServerError)>,
    readies: usize,
    /// An error after which the cluster hangs up.
    pub goodbye: Option<ServerError>,
    /// How the last command ended.
    pub last: LastCommand,
    /// What the client gets instead if the cluster says that it has stopped as it was told.
    pub stopped: Option<Vec<u8>>,
}

impl Replies {
    /// The replies to a simple query.
    pub fn to_simple() -> Replies {
        let mut replies = Replies::default();
        replies.begin_simple();
        replies
    }

    /// What comes from here on are replies to a simple query.
    pub fn begin_simple(&mut self) {
        self.simple = true;
        self.expect(Expect::Ready { pass: true });
    }

    /// The replies to a pipeline; what is due is added as it is sent.
    pub fn to_pipeline() -> Replies {
        Replies::default()
    }

    /// The replies to `n` simple queries that the client did not send.
    pub fn muted(n: usize) -> Replies {
        let mut replies = Replies { simple: true, mute: true, ..Replies::default() };
        (0..n).for_each(|_| replies.expect(Expect::Ready { pass: false }));
        replies
    }

    /// One more reply is due.
    pub fn expect(&mut self, expect: Expect) {
        // After an error nothing but a Sync is answered.
        if !self.skipping || matches!(expect, Expect::Ready { .. }) {
            self.due.push_back(expect);
        } else if matches!(expect, Expect::Close { pass: false }) {
            self.notes.push(Note::Untidy);
        }
    }

    /// True if nothing is due.
    pub fn is_settled(&self) -> bool {
        self.due.is_empty()
    }

    /// True from an error until the next ReadyForQuery.
    pub fn is_skipping(&self) -> bool {
        self.skipping
    }

    /// True if a frame has passed in part: nothing else can be said to the client.
    pub fn is_cut(&self) -> bool {
        self.rest > 0 && !self.cutting
    }

    /// What has not come of the frame that passes.
    pub fn rest(&self) -> usize {
        if self.cutting { 0 } else { self.rest }
    }

    /// The rest of the frame that passes has come, and nothing that follows is looked at any more.
    pub fn end_with_rest(&mut self) {
        self.rest = 0;
    }

    /// Looks at what has come in: `input` holds `approved` bytes that may pass, then bytes that have not been looked at.
    ///
    /// # Errors
    /// If it is not what a cluster may say now.
    pub fn scan(&mut self, input: &mut Buffer, approved: &mut usize) -> Result<Step, Garbled> {
        self.began |= input.len() > *approved;
        loop {
            if self.rest > 0 {
                let n = self.rest.min(input.len() - *approved);
                self.rest -= n;
                if self.cutting {
                    input.cut(*approved, n);
                } else {
                    *approved += n;
                }
                if self.rest > 0 {
                    return Ok(Step::More);
                }
            }
            self.answer_locally(input, approved);
            self.pass_rows(input, approved);
            if self.rest > 0 {
                continue;
            }
            let unseen = &input.filled()[*approved..];
            let Some(header) = frames::header(unseen).map_err(Garbled::Length)? else { return Ok(Step::More) };
            if unseen.len() < needed(header)? {
                return Ok(Step::More);
            }
            if let Some(step) = self.frame(header, input, *approved)? {
                return Ok(step);
            }
        }
    }

    /// Passes rows, which are most of what comes, with a look at nothing but their lengths.
    #[inline]
    fn pass_rows(&mut self, input: &Buffer, approved: &mut usize) {
        if self.mute {
            return;
        }
        let unseen = &input.filled()[*approved..];
        let mut at = 0;
        while let [b'D' | b'd', a, b, c, d, ..] = unseen[at..] {
            let len = i32::from_be_bytes([a, b, c, d]) as usize;
            // A length that cannot be is left for the slow path to find.
            if !(4..1 << 31).contains(&len) {
                break;
            }
            self.rows += 1;
            self.bytes += len as u64 + 1;
            let there = unseen.len() - at;
            if len + 1 > there {
                (self.rest, self.cutting) = (len + 1 - there, false);
                at += there;
                break;
            }
            at += len + 1;
        }
        *approved += at;
    }

    /// Gives the gateway's own answers that are due before anything else of the cluster's.
    fn answer_locally(&mut self, input: &mut Buffer, approved: &mut usize) {
        while let Some(Expect::Local(..) | Expect::LocalError(..)) = self.due.front() {
            if let Some(bytes) = self.take_local() {
                input.insert(*approved, &bytes);
                *approved += bytes.len();
            }
        }
    }

    /// The gateway's own answer, if that is what is due next.
    pub fn take_local(&mut self) -> Option<Vec<u8>> {
        match self.due.pop_front()? {
            Expect::Local(bytes, effect) => {
                match effect {
                    LocalEffect::Nothing => {}
                    LocalEffect::Change(change) => self.notes.push(Note::Change(change)),
                    effect => self.notes.push(Note::Effect(effect)),
                }
                Some(bytes)
            }
            Expect::LocalError(bytes, code) => {
                self.fail(code);
                Some(bytes)
            }
            other => {
                self.due.push_front(other);
                None
            }
        }
    }

    /// Answers a Sync without a cluster; true if one was due.
    pub fn take_ready(&mut self) -> bool {
        let due = matches!(self.due.front(), Some(Expect::Ready { .. }));
        if due {
            self.due.pop_front();
            self.skipping = false;
        }
        due
    }

    /// Looks at one frame at `at`; Some if the scan ends here.
    fn frame(&mut self, header: Header, input: &mut Buffer, at: usize) -> Result<Option<Step>, Garbled> {
        let Header { tag, len } = header;
        let body = &input.filled()[at + HEADER..(at + len).min(input.len())];
        let pass = match tag {
            b'1' => self.completed(tag)?,
            b'2' | b'3' | b'n' | b's' | b'I' => self.completed(tag)?,
            b'T' => self.simple || self.completed(tag)?,
            b'C' => {
                self.last = if body == b"ROLLBACK\0" { LastCommand::Rollback } else { LastCommand::Other };
                self.copying_in = false;
                self.simple || self.completed(tag)?
            }
            b'Z' => {
                let status = *body.first().filter(|_| len == HEADER + 1).ok_or(Garbled::Short(tag))?;
                return self.ready(status, input, at);
            }
            b'E' => {
                self.server_error(header, input, at);
                return Ok(None);
            }
            b'G' => {
                self.copy_in();
                true
            }
            b't' => {
                if let Some(Expect::Describe(Some(described))) = self.due.front() {
                    described.tell(if body.len() == len - HEADER { body } else { &[] });
                }
                true
            }
            b'D' | b'd' | b'H' | b'c' | b'N' | b'S' | b'A' => true,
            tag => return Err(Garbled::Unexpected(tag)),
        };
        (self.rest, self.cutting) = (len, self.mute || !pass);
        Ok(None)
    }

    /// A reply has come: checks that it is the one that is due, and says whether it passes.
    fn completed(&mut self, tag: u8) -> Result<bool, Garbled> {
        if self.simple {
            // Simple queries know an empty one; everything else is for pipelines.
            return if tag == b'I' { Ok(true) } else { Err(Garbled::Unexpected(tag)) };
        }
        match (self.due.pop_front(), tag) {
            (Some(Expect::Parse { pass, carry, change }), b'1') => {
                self.notes.extend(carry.map(|(statement, unnamed)| Note::Carry(statement, unnamed)));
                self.notes.extend(change.map(Note::Change));
                Ok(pass)
            }
            (Some(Expect::Bind), b'2') => Ok(true),
            (Some(Expect::Close { pass }), b'3') => Ok(pass),
            (Some(Expect::Describe(_)), b'T' | b'n') => Ok(true),
            (Some(Expect::Execute), b'C' | b'I' | b's') => Ok(true),
            _ => Err(Garbled::Unexpected(tag)),
        }
    }

    fn ready(&mut self, status: u8, input: &mut Buffer, at: usize) -> Result<Option<Step>, Garbled> {
        if !matches!(status, b'I' | b'T' | b'E') {
            return Err(Garbled::Unexpected(b'Z'));
        }
        let Some(Expect::Ready { pass }) = self.due.pop_front() else { return Err(Garbled::Unexpected(b'Z')) };
        (self.skipping, self.copying_in) = (false, false);
        self.readies += 1;
        if !pass {
            input.cut(at, HEADER + 1);
        }
        let more = self.mute && !self.due.is_empty();
        Ok((!more).then_some(Step::Ready { status, pass }))
    }

    /// An error of the cluster's.
    fn server_error(&mut self, Header { len, .. }: Header, input: &Buffer, at: usize) {
        let body = &input.filled()[at + HEADER..(at + len).min(input.len())];
        let fields = frames::error_fields(body);
        let code = sqlstate(fields.code);
        let message = || String::from_utf8_lossy(fields.message).into_owned();
        if matches!(fields.severity, b"FATAL" | b"PANIC") {
            // The client gets an error of the gateway's own once the cluster has hung up: its session lives on.
            self.goodbye = Some(ServerError { sqlstate: code, message: message() });
            (self.rest, self.cutting) = (len, true);
            return;
        }
        if self.mute {
            self.muted.push((self.readies, ServerError { sqlstate: code, message: message() }));
            (self.rest, self.cutting) = (len, true);
            return;
        }
        let poison = match self.due.front_mut() {
            Some(Expect::Poison(instead)) => Some(std::mem::take(instead)),
            _ if &code.0 == b"57014" => self.stopped.take(),
            _ => None,
        };
        let code = poison.as_deref().map_or(code, |frame| sqlstate(frames::error_fields(&frame[HEADER..]).code));
        self.fail(code);
        (self.rest, self.cutting) = (len, poison.is_some());
        if let Some(instead) = poison {
            // Behind the cluster's own, which is cut out.
            self.due.push_front(Expect::Local(instead, LocalEffect::Nothing));
        }
    }

    /// Something failed: in a pipeline, what was sent before the next Sync is not answered.
    fn fail(&mut self, code: SqlState) {
        self.error.get_or_insert(code);
        self.copying_in = false;
        if self.simple {
            return;
        }
        self.skipping = true;
        while let Some(expect) = self.due.front() {
            match expect {
                Expect::Ready { .. } => break,
                Expect::Close { pass: false } => self.notes.push(Note::Untidy),
                _ => {}
            }
            self.due.pop_front();
        }
    }

    /// The cluster takes CopyData now. In a pipeline it ignores what was sent behind the Execute, a Sync too.
    fn copy_in(&mut self) {
        self.copying_in = true;
        if !self.simple {
            self.reopened |= self.due.len() > 1;
            self.due.truncate(1);
        }
    }
}

/// How many bytes of a frame have to be there before it is looked at.
fn needed(header: Header) -> Result<usize, Garbled> {
    let Header { tag, len } = header;
    match tag {
        b'E' => Ok(len.min(ERROR_HEAD)),
        b'C' | b'Z' if len <= LONGEST_SHORT => Ok(len),
        b't' if len <= HEADER + Described::MOST => Ok(len),
        b'C' | b'Z' => Err(Garbled::TooLong { tag, len }),
        _ => Ok(HEADER),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::frames as say;
    use crate::door::problem::Problem;

    const ROW: &[u8] = b"D\0\0\0\x0b\0\x01\0\0\0\x011";
    const DONE: &[u8] = b"C\0\0\0\x0dSELECT 1\0";
    const IDLE: &[u8] = b"Z\0\0\0\x05I";

    fn error(code: &[u8; 5], severity: say::Severity) -> Vec<u8> {
        let mut out = Vec::new();
        say::problem(&mut out, severity, &Problem::new(code, "no"));
        out
    }

    /// Feeds `bytes` in pieces of `piece` and says what passed and how it ended.
    fn feed(replies: &mut Replies, bytes: &[u8], piece: usize) -> (Vec<u8>, Result<Step, Garbled>) {
        let (mut input, mut approved, mut passed) = (Buffer::default(), 0, Vec::new());
        let mut step = Ok(Step::More);
        for piece in bytes.chunks(piece) {
            input.push(piece);
            step = replies.scan(&mut input, &mut approved);
            passed.extend(input.take(approved));
            approved = 0;
            if step != Ok(Step::More) {
                break;
            }
        }
        (passed, step)
    }

    const READY: Result<Step, Garbled> = Ok(Step::Ready { status: b'I', pass: true });

    #[test]
    fn a_simple_querys_rows_pass_and_are_counted_however_they_are_cut() {
        let bytes = [b"T\0\0\0\x06\0\0", ROW, ROW, DONE, IDLE].concat();
        for piece in 1..bytes.len() {
            let mut replies = Replies::to_simple();
            let (passed, step) = feed(&mut replies, &bytes, piece);
            assert_eq!(passed, bytes[..bytes.len() - IDLE.len()], "in pieces of {piece}");
            assert_eq!((step, replies.rows, replies.bytes), (READY, 2, 24));
            assert_eq!(replies.error, None);
        }
    }

    fn statement() -> Arc<Prepared> {
        Arc::new(Prepared::new("select 1".into(), &[0, 0]))
    }

    #[test]
    fn replies_that_the_client_did_not_ask_for_are_cut_out() {
        let bytes = [&b"3\0\0\0\x041\0\0\0\x042\0\0\0\x04"[..], ROW, DONE, IDLE].concat();
        for piece in 1..bytes.len() {
            let mut replies = Replies::to_pipeline();
            replies.expect(Expect::Close { pass: false });
            replies.expect(Expect::Parse { pass: false, carry: Some((statement(), false)), change: None });
            replies.expect(Expect::Bind);
            replies.expect(Expect::Execute);
            replies.expect(Expect::Ready { pass: true });
            let (passed, step) = feed(&mut replies, &bytes, piece);
            assert_eq!(passed, [&say::BIND_COMPLETE[..], ROW, DONE].concat());
            assert_eq!(step, READY);
            assert!(matches!(&replies.notes[..], [Note::Carry(_, false)]));
        }
    }

    #[test]
    fn the_gateways_own_answers_come_in_their_turn() {
        let mut replies = Replies::to_pipeline();
        replies.expect(Expect::Local(b"<1>".to_vec(), LocalEffect::Nothing));
        replies.expect(Expect::Bind);
        replies.expect(Expect::Execute);
        replies.expect(Expect::Local(b"<2>".to_vec(), LocalEffect::ForgetAll));
        replies.expect(Expect::Ready { pass: true });
        let (passed, step) = feed(&mut replies, &[&say::BIND_COMPLETE[..], ROW, DONE, IDLE].concat(), 3);
        assert_eq!(passed, [&b"<1>"[..], &say::BIND_COMPLETE, ROW, DONE, b"<2>"].concat());
        assert_eq!(step, READY);
        assert!(matches!(&replies.notes[..], [Note::Effect(LocalEffect::ForgetAll)]));
    }

    #[test]
    fn an_error_in_a_pipeline_skips_what_follows_it() {
        let mut replies = Replies::to_pipeline();
        replies.expect(Expect::Parse { pass: true, carry: Some((statement(), true)), change: None });
        replies.expect(Expect::Bind);
        replies.expect(Expect::Local(b"never".to_vec(), LocalEffect::ForgetAll));
        replies.expect(Expect::Close { pass: false });
        replies.expect(Expect::Ready { pass: true });
        let error = error(b"42601", say::Severity::Error);
        let (passed, step) = feed(&mut replies, &[&error[..], IDLE].concat(), 7);
        assert_eq!((passed, step), (error, READY));
        assert_eq!(replies.error, Some(SqlState(*b"42601")));
        assert!(matches!(&replies.notes[..], [Note::Untidy]), "{:?}", replies.notes);
    }

    #[test]
    fn a_failure_that_the_cluster_cannot_see_is_brought_about_there() {
        let mut replies = Replies::to_pipeline();
        let ours = error(b"53400", say::Severity::Error);
        replies.expect(Expect::Poison(ours.clone()));
        replies.expect(Expect::Ready { pass: true });
        let theirs = error(b"42601", say::Severity::Error);
        let (passed, step) = feed(&mut replies, &[&theirs[..], b"Z\0\0\0\x05E"].concat(), 5);
        assert_eq!(passed, ours);
        assert_eq!(step, Ok(Step::Ready { status: b'E', pass: true }));
        assert_eq!(replies.error, Some(SqlState(*b"53400")));
    }

    #[test]
    fn a_clusters_goodbye_is_kept_back() {
        let mut replies = Replies::to_simple();
        let goodbye = error(b"57P01", say::Severity::Fatal);
        let (passed, step) = feed(&mut replies, &[ROW, &goodbye[..]].concat(), 9);
        assert_eq!((passed, step), (ROW.to_vec(), Ok(Step::More)));
        assert_eq!(replies.goodbye.map(|error| error.sqlstate), Some(SqlState(*b"57P01")));
    }

    #[test]
    fn muted_replies_leave_nothing_but_their_errors() {
        let mut replies = Replies::muted(2);
        let error = error(b"42704", say::Severity::Error);
        let (passed, step) = feed(&mut replies, &[DONE, IDLE, ROW, &error[..], IDLE].concat(), 4);
        assert_eq!((passed, step), (vec![], Ok(Step::Ready { status: b'I', pass: false })));
        assert_eq!(replies.muted.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_sync_sent_behind_a_copy_is_ignored_as_the_cluster_does() {
        let mut replies = Replies::to_pipeline();
        replies.expect(Expect::Execute);
        replies.expect(Expect::Ready { pass: true });
        let (passed, step) = feed(&mut replies, b"G\0\0\0\x07\0\0\0", 8);
        assert_eq!((passed.len(), step), (8, Ok(Step::More)));
        assert!(replies.copying_in && replies.reopened);
        replies.expect(Expect::Ready { pass: true });
        assert_eq!(feed(&mut replies, &[DONE, IDLE].concat(), 30).1, READY);
    }

    #[test]
    fn what_a_cluster_may_not_say_is_found() {
        let unexpected = |bytes: &[u8]| feed(&mut Replies::to_simple(), bytes, 100).1.unwrap_err();
        assert_eq!(unexpected(b"2\0\0\0\x04"), Garbled::Unexpected(b'2'));
        assert_eq!(unexpected(b"Q\0\0\0\x04"), Garbled::Unexpected(b'Q'));
        assert_eq!(unexpected(b"Z\0\0\0\x05X"), Garbled::Unexpected(b'Z'));
        assert_eq!(unexpected(b"Z\x7f\0\0\x05X"), Garbled::TooLong { tag: b'Z', len: 0x7f00_0006 });
        assert!(matches!(unexpected(b"D\xff\xff\xff\xffX"), Garbled::Length(_)));
        assert!(matches!(unexpected(b"D\0\0\0\x03X"), Garbled::Length(_)));
    }
}
