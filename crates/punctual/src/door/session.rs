//! A session: one client's connection, from its welcome to its end, in one task.
//!
//! ```text
//!   idle ──▶ a unit came ──▶ about the gateway? ──▶ answer                                   ──▶ idle
//!                       ├──▶ counts as a query? ──▶ Arrived ─▶ verdict ─▶ lease ─▶ relay ─▶ Finished ──▶ idle
//!                       └──▶ Parse and Describe alone ──▶ lease at any cluster ─▶ relay      ──▶ idle
//! ```

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use punctual_core::Event;
use punctual_core::class::{self, Origin};
use punctual_core::event::PinEnd;
use punctual_core::id::SessionId;
use punctual_core::time::Span;

use super::bearing::Bearing;
use super::cancelling::Cancelling;
use super::client::Client;
use super::frames as say;
use super::in_force::Rules;
use super::local::Wishes;
use super::messages;
use super::plan::{Desk, Fetched, Pipeline, Planner, is_local, outcome};
use super::problem::Problem;
use super::pump::{ClusterSide, Happening, OUTGOING, Outgoing, Pump};
use super::query::Work;
use super::reading::{Local, Reading, Readings};
use super::replies::{LocalEffect, Note, Replies};
use super::shared::Shared;
use super::standing::Standing;
use super::statements::Statements;
use super::table;
use super::unit::{self, End, Next};
use crate::catalog::{Answer, Parameter, Question};
use crate::driver::fallback::Slot;
use crate::link::{Link, Order, Report};
use crate::mailbox::Mailbox;
use crate::relay::carried::{Carried, Memory};
use crate::relay::{Garbled, Lease};

/// How long a session that ends waits for its client to take the last words.
const LAST_WORDS: std::time::Duration = std::time::Duration::from_secs(2);

/// Memory that an idle session keeps for its client's next message.
const KEPT_INPUT: usize = 8 << 10;

/// The session is over; the client has been told why if it can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Over;

/// Who is at the other end.
#[derive(Clone, Debug)]
pub(super) struct Who {
    /// The user.
    pub user: Arc<str>,
    /// The database.
    pub database: Arc<str>,
    /// The application's name.
    pub application: Arc<str>,
    /// Where it is.
    pub client: class::Client,
}

impl Who {
    /// Where its queries come from.
    pub(super) fn origin(&self) -> Origin<'_> {
        let Who { user, database, application, client } = self;
        Origin { user, database, application, client: *client }
    }
}

/// A session.
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) who: Who,
    pub(super) link: Link,
    pub(super) shared: Arc<Shared>,
    /// What it goes by until its client has sent another unit.
    pub(super) rules: Arc<Rules>,
    pub(super) client: Client,
    pub(super) mailbox: Mailbox,
    /// The query that a cancel request is about; 0: none.
    pub(super) running: Arc<AtomicU64>,
    /// When a query that was refused may be sent again; the first one counts.
    pub(super) retry_after: Arc<OnceLock<Span>>,
    pub(super) statements: Statements,
    pub(super) readings: Readings,
    pub(super) wishes: Wishes,
    pub(super) standing: Standing,
    /// The `work_mem` of its last query.
    pub(super) memory: Memory,
    /// The connection that it holds, and what is left of a message that the cluster sent unasked.
    pub(super) held: Option<Lease>,
    /// The slot that it has taken itself, in degraded mode.
    pub(super) slot: Option<Slot>,
    pub(super) unasked: Replies,
    /// The pipeline that is open.
    pub(super) pipeline: Pipeline,
    /// What the last query was, for an Execute of a portal from before.
    pub(super) last: Arc<Reading>,
    /// How far the client's input has been looked at.
    pub(super) seen: usize,
    /// True from an error in a pipeline to its Sync.
    pub(super) skipping: bool,
    pub(super) farewell: bool,
    pub(super) pin_ended: Option<PinEnd>,
    /// What became of its query on a cluster that was lost, while it is tried on another.
    pub(super) lost: Option<Problem>,
    pub(super) cancelling: Option<Cancelling>,
    /// True once the driver has been told of the end.
    pub(super) ended: bool,
}

impl Session {
    /// Serves the client until it or the session is done. The driver is told of the end by whoever holds the session's
    /// place, unless it has been already.
    pub(super) async fn live(mut self) -> bool {
        while self.turn().await.is_ok() {}
        if !self.client.gone {
            let last_words = async {
                let flushed = self.client.flush().await;
                self.client.socket.close().await;
                flushed
            };
            let _ = tokio::time::timeout(LAST_WORDS, last_words).await;
        }
        self.ended
    }

    async fn turn(&mut self) -> Result<(), Over> {
        // A client that asks and does not listen is not answered any further.
        if self.client.out.len() > OUTGOING && self.client.flush().await.is_err() {
            self.client.gone = true;
            return Err(Over);
        }
        self.rules = self.shared.rules();
        let max = self.rules.door.max_message;
        match unit::next(self.client.input.filled(), &mut self.seen, max) {
            Err(garbled) => Err(self.garbled(&garbled)),
            Ok(Next::Partial) => self.wait().await,
            Ok(Next::Terminate) => Err(Over),
            Ok(Next::Segment(len, end)) if self.skipping => {
                self.client.input.consume(len);
                if end == End::Sync {
                    self.skipping = false;
                    self.pipeline = Pipeline::default();
                    self.say_ready();
                }
                Ok(())
            }
            Ok(Next::Segment(len, end)) => {
                let segment = self.client.input.take(len);
                self.segment(segment, end).await
            }
            // After an error in a pipeline, and after a COPY, some messages are not for anybody.
            Ok(Next::Stray(len)) => {
                self.client.input.consume(len);
                Ok(())
            }
            Ok(Next::Simple(len) | Next::Call(len)) if self.skipping => {
                self.client.input.consume(len);
                Ok(())
            }
            Ok(Next::Simple(len)) => {
                let frame = self.client.input.take(len);
                self.simple(frame).await
            }
            Ok(Next::Call(len)) => {
                self.client.input.consume(len);
                let problem = Problem::new(b"0A000", "function calls of the protocol do not pass through the gateway");
                self.refuse(problem.hint("Call functions with SELECT.")).await
            }
        }
    }

    /// Waits while the client has not sent a whole unit.
    async fn wait(&mut self) -> Result<(), Over> {
        if self.client.input.is_empty() {
            self.client.input.shrink(KEPT_INPUT);
            if self.farewell && self.standing.status == b'I' {
                return Err(self.fatal(&Problem::farewell()));
            }
        }
        let (mut approved, mut outgoing) = (0, Outgoing::default());
        loop {
            let cluster = match self.held.as_deref_mut() {
                Some(connection) => {
                    if !connection.input.is_empty()
                        && let Err(garbled) = self.unasked.scan(&mut connection.input, &mut approved)
                    {
                        return Err(self.hold_lost(&garbled.to_string()));
                    }
                    Some(ClusterSide { connection, approved: &mut approved, outgoing: &mut outgoing })
                }
                None => None,
            };
            let client_limit = self.rules.door.max_message + KEPT_INPUT;
            let (client, mailbox) = (&mut self.client, &mut self.mailbox);
            match (Pump { client, mailbox, cluster, client_limit }).next().await {
                Happening::Client => return self.keep_unasked(approved),
                Happening::ClientGone => return Err(Over),
                Happening::Cluster | Happening::Stalled => {}
                Happening::ClusterGone(loss) => {
                    let why = self.unasked.goodbye.take().map_or_else(|| loss.to_string(), |error| error.to_string());
                    return Err(self.hold_lost(&why));
                }
                Happening::Order(Order::Farewell) => {
                    self.farewell = true;
                    return self.keep_unasked(approved);
                }
                Happening::Order(Order::EndPin { because }) => return Err(self.end_pin(&because)),
                // It is about a query that has ended.
                Happening::Order(_) => {}
                Happening::Orphaned => return Err(self.fatal(&Problem::farewell())),
            }
        }
    }

    /// Moves what the held cluster said unasked, and may pass, to what goes to the client.
    fn keep_unasked(&mut self, approved: usize) -> Result<(), Over> {
        if let Some(connection) = self.held.as_deref_mut().filter(|_| approved > 0) {
            self.client.out.extend(connection.input.take(approved));
        }
        Ok(())
    }

    fn hold_lost(&mut self, why: &str) -> Over {
        let cluster = self.held.as_ref().map_or("?", |lease| lease.pool().name());
        let message = format!("terminating connection: the session held a connection to cluster {cluster}: {why}");
        self.fatal(&Problem::new(b"08006", message))
    }

    /// The session loses its cluster, and with it everything that made it hold it.
    pub(super) fn end_pin(&mut self, because: &PinEnd) -> Over {
        let cluster = self.held.as_ref().map_or("?", |lease| lease.pool().name());
        let problem = Problem::pin_ended(because, cluster);
        self.fatal(&problem)
    }

    /// A simple query.
    async fn simple(&mut self, frame: Vec<u8>) -> Result<(), Over> {
        let is_utf8 = self.standing.is_utf8();
        let text = messages::query(&frame).and_then(|text| match messages::utf8(text) {
            Ok(text) => Ok(Cow::Borrowed(text)),
            Err(_) if !is_utf8 => Ok(String::from_utf8_lossy(text)),
            Err(malformed) => Err(malformed),
        });
        let reading = match text {
            Ok(text) => self.readings.of(&text),
            Err(malformed) => return self.refuse(Problem::malformed(&malformed, true)).await,
        };
        self.statements.forget_unnamed();
        if reading.statement.count == 0 {
            self.client.out.extend_from_slice(&say::EMPTY_QUERY);
            self.say_ready();
            return Ok(());
        }
        let local = self.with_desk(|desk, _| is_local(&reading, desk));
        if local {
            return self.simple_locally(&reading).await;
        }
        let work = Work::Simple { frame, reading: Arc::clone(&reading) };
        self.query(work, reading).await
    }

    /// Answers a message of its own with an error, which fails a transaction that is open on a cluster.
    async fn refuse(&mut self, problem: Problem) -> Result<(), Over> {
        if self.held.is_some() {
            return self.uncounted(Work::Refusal { problem }).await;
        }
        self.say(say::Severity::Error, &problem);
        self.say_ready();
        Ok(())
    }

    /// A simple query about the gateway.
    async fn simple_locally(&mut self, reading: &Arc<Reading>) -> Result<(), Over> {
        let fetched = self.fetch(&[(Arc::clone(reading), Vec::new())]).await;
        match self.with_desk(|desk, _| outcome(desk, &fetched, reading, &[])) {
            Err(problem) => self.say(say::Severity::Error, &problem),
            Ok(mut outcome) => {
                let out = &mut self.client.out;
                if let Some(table) = &outcome.table {
                    table::describe(out, &table.columns, &[]);
                    table.rows.iter().for_each(|values| table::row(out, &table.columns, &[], values));
                    if outcome.tag == "SELECT" {
                        outcome.tag = format!("SELECT {}", table.rows.len());
                    }
                }
                say::complete(out, &outcome.tag);
                self.take_effect(outcome.effect);
            }
        }
        self.say_ready();
        Ok(())
    }

    /// Part of a pipeline.
    async fn segment(&mut self, segment: Vec<u8>, end: End) -> Result<(), Over> {
        let survey = {
            let (desk, readings, pipeline) = self.parts();
            pipeline.survey(&segment, &desk, readings)
        };
        if !survey.questions.is_empty() {
            self.pipeline.fetched = self.fetch(&survey.questions).await;
        }
        if survey.counts {
            let reading = survey.main.unwrap_or_else(|| Arc::clone(&self.last));
            let bearing = survey.bearing;
            let work = Work::Pipeline { segment, end, reading: Arc::clone(&reading), counts: true, bearing };
            self.query(work, reading).await
        } else if survey.needs_cluster || ((survey.closes_portal || survey.malformed) && self.held.is_some()) {
            let reading = Arc::clone(&self.last);
            let (counts, bearing) = (false, Bearing::default());
            self.uncounted(Work::Pipeline { segment, end, reading, counts, bearing }).await
        } else {
            self.segment_locally(&segment, end);
            Ok(())
        }
    }

    /// Part of a pipeline that needs no cluster.
    fn segment_locally(&mut self, segment: &[u8], end: End) {
        let mut replies = Replies::to_pipeline();
        self.plan(segment, None, &mut replies, &mut Vec::new());
        loop {
            while let Some(bytes) = replies.take_local() {
                self.client.out.extend_from_slice(&bytes);
            }
            if !replies.take_ready() {
                break;
            }
            self.say_ready();
        }
        self.take_notes(&mut replies, None);
        if end == End::Sync {
            self.pipeline = Pipeline::default();
        } else {
            self.skipping |= replies.is_skipping();
        }
    }

    /// Plans part of a pipeline for a connection, or for none.
    pub(super) fn plan(
        &mut self,
        segment: &[u8],
        carried: Option<&mut Carried>,
        replies: &mut Replies,
        out: &mut Vec<u8>,
    ) {
        let desk = Desk {
            statements: &self.statements,
            wishes: &self.wishes,
            classes: &self.rules.classes,
            user: &self.who.user,
            stuck: self.standing.stuck.is_some(),
            utf8: self.standing.is_utf8(),
        };
        let mut planner = Planner { desk, readings: &mut self.readings, carried, replies, out };
        planner.plan(&mut self.pipeline, segment);
    }

    fn parts(&mut self) -> (Desk<'_>, &mut Readings, &mut Pipeline) {
        let desk = Desk {
            statements: &self.statements,
            wishes: &self.wishes,
            classes: &self.rules.classes,
            user: &self.who.user,
            stuck: self.standing.stuck.is_some(),
            utf8: self.standing.is_utf8(),
        };
        (desk, &mut self.readings, &mut self.pipeline)
    }

    fn with_desk<T>(&mut self, look: impl FnOnce(&Desk<'_>, &mut Readings) -> T) -> T {
        let desk = Desk {
            statements: &self.statements,
            wishes: &self.wishes,
            classes: &self.rules.classes,
            user: &self.who.user,
            stuck: self.standing.stuck.is_some(),
            utf8: self.standing.is_utf8(),
        };
        look(&desk, &mut self.readings)
    }

    /// Has questions about the gateway answered.
    async fn fetch(&self, questions: &[(Arc<Reading>, Vec<Parameter>)]) -> Fetched {
        let mut fetched = Fetched::new();
        for (reading, parameters) in questions {
            let is_new = !fetched.iter().any(|(text, with, _)| *text == reading.text && with == parameters);
            if is_new && matches!(reading.local, Some(Local::Catalogue)) {
                let answer = self.ask(reading, parameters).await;
                fetched.push((Arc::clone(&reading.text), parameters.clone(), answer));
            }
        }
        fetched
    }

    async fn ask(&self, reading: &Reading, parameters: &[Parameter]) -> Result<Arc<Answer>, Problem> {
        let is_admin = self.shared.is_admin(&self.who.user);
        let question = Question { sql: &reading.text, parameters, user: &self.who.user, is_admin };
        match self.shared.answers().answer(question).await {
            Ok(table) => Ok(Arc::new(table)),
            Err(error) => {
                Err(Problem { sqlstate: error.sqlstate, hint: error.hint, ..Problem::new(b"XX000", error.message) })
            }
        }
    }

    /// Takes note of what happened while replies came in.
    pub(super) fn take_notes(&mut self, replies: &mut Replies, mut connection: Option<&mut Lease>) {
        for note in replies.notes.drain(..) {
            match note {
                Note::Carry(statement, unnamed) => {
                    if let Some(connection) = &mut connection {
                        if unnamed {
                            connection.carried.unnamed = Some(statement);
                        } else {
                            connection.carried.add(statement);
                        }
                    }
                }
                Note::Change(change) => self.statements.change(change),
                Note::Effect(effect) => self.take_effect(effect),
                Note::Untidy => {
                    if let Some(connection) = &mut connection {
                        connection.tainted = true;
                    }
                }
            }
        }
        if replies.is_skipping() {
            self.pipeline.settle();
        }
    }

    fn take_effect(&mut self, effect: LocalEffect) {
        match effect {
            LocalEffect::Nothing => {}
            LocalEffect::Change(change) => self.statements.change(change),
            LocalEffect::Wish(wish) => self.wishes.take(wish),
            LocalEffect::ForgetAll => self.statements.forget_all(),
        }
    }

    /// Tells the driver.
    pub(super) async fn report(&mut self, report: Report) -> Result<(), Over> {
        self.mailbox.will_be_read();
        // In degraded mode nobody listens, and a full queue would never empty.
        if !self.shared.fallback().is_on() && self.link.report(report).await.is_err() {
            return Err(self.fatal(&Problem::farewell()));
        }
        Ok(())
    }

    /// Tells the driver that the session is over, while its query goes on.
    pub(super) async fn report_end(&mut self) {
        self.running.store(0, Ordering::Relaxed);
        self.ended = true;
        if self.shared.fallback().is_on() {
            return;
        }
        // If the driver is gone there is nobody to tell.
        let _ = self.link.happened(Event::SessionEnded { session: self.id }).await;
    }

    /// Tells the client.
    pub(super) fn say(&mut self, severity: say::Severity, problem: &Problem) {
        say::problem(&mut self.client.out, severity, problem);
    }

    /// Tells the client that the session is ready.
    pub(super) fn say_ready(&mut self) {
        say::ready(&mut self.client.out, self.standing.status);
    }

    /// Tells the client why the session ends.
    pub(super) fn fatal(&mut self, problem: &Problem) -> Over {
        self.say(say::Severity::Fatal, problem);
        Over
    }

    /// Tells the client that it broke the protocol.
    pub(super) fn garbled(&mut self, garbled: &Garbled) -> Over {
        self.fatal(&Problem::garbled(garbled))
    }
}
