//! A pipeline as a client sent it becomes a pipeline as one connection needs it: a state machine without I/O.
//!
//! What changes on the way:
//! - names of prepared statements become those that they have on clusters (see [`carried`](crate::relay::carried));
//! - a statement that the connection has not got is prepared first, and nobody hears of it;
//! - statements about the gateway are answered in their turn and never sent;
//! - what the gateway refuses (a name that is taken, one statement too many) fails on the cluster too, so that the
//!   transaction's state is true there as well.
//!
//! Everything else goes out as it came in.

use std::sync::Arc;

use punctual_core::class::Classes;

use super::frames as say;
use super::local::{self, Wishes};
use super::messages::{self, Bind, Malformed, Parse, target};
use super::parameters;
use super::problem::Problem;
use super::reading::{Local, Reading, Readings};
use super::replies::{Expect, LocalEffect, Replies};
use super::statements::{Change, Entry, Statements};
use super::survey::Looked;
use super::table;
use super::unit::frames_of;
use crate::catalog::{Answer, Parameter};
use crate::relay::carried::{Carried, NAME_PREFIX, Prepared};
use crate::relay::frames;

/// What a session knows that a plan depends on.
#[derive(Debug)]
pub struct Desk<'a> {
    /// Its prepared statements.
    pub statements: &'a Statements,
    /// What it wishes.
    pub wishes: &'a Wishes,
    /// The classes there are.
    pub classes: &'a Classes,
    /// Who its user is.
    pub user: &'a str,
    /// True if its connection may hold statements that the gateway does not know of.
    pub stuck: bool,
    /// True if what the client sends is UTF-8.
    pub utf8: bool,
}

/// Answers about the gateway that were fetched beforehand, by the text of the question and the values in it.
pub type Fetched = Vec<(Arc<str>, Vec<Parameter>, Result<Arc<Answer>, Problem>)>;

/// A pipeline on its way: what is known of it beyond the session's own state.
#[derive(Debug, Default)]
pub struct Pipeline {
    /// Changes that are due with replies to come, newest last; one for each name.
    pending: Vec<Change>,
    portals: Vec<(String, Portal)>,
    /// Statements that will have been prepared on the present connection.
    prepared: Vec<Arc<Prepared>>,
    /// What the unnamed statement there will be.
    unnamed: Option<Arc<Prepared>>,
    /// Texts that were executed, in their order.
    pub executed: Vec<Arc<Reading>>,
    /// True from a refusal to the next Sync.
    refused: bool,
    /// Answers about the gateway.
    pub fetched: Fetched,
}

#[derive(Clone, Debug)]
enum Portal {
    Cluster(Arc<Reading>),
    Local(Own),
}

/// A portal of a statement that the gateway answers.
#[derive(Clone, Debug)]
struct Own {
    entry: Entry,
    parameters: Vec<Parameter>,
    formats: Vec<u16>,
    /// Rows that went out.
    sent: usize,
}

impl Pipeline {
    /// What a name means at this point.
    pub(super) fn lookup<'a>(&'a self, desk: &'a Desk<'_>, name: &str) -> Option<&'a Entry> {
        match self.pending.iter().rev().find(|change| change.name == name) {
            Some(change) => change.to.as_ref(),
            None => desk.statements.get(name),
        }
    }

    /// What was bound to a portal of this pipeline.
    pub(super) fn bound(&self, portal: &str) -> Looked {
        match self.portal(portal) {
            None => (None, None),
            Some(Portal::Cluster(reading)) => (Some(Arc::clone(reading)), None),
            Some(Portal::Local(own)) => (Some(Arc::clone(&own.entry.reading)), Some(own.parameters.clone())),
        }
    }

    fn portal(&self, name: &str) -> Option<&Portal> {
        self.portals.iter().rev().find(|(known, _)| known == name).map(|(_, portal)| portal)
    }

    /// Nothing of the pipeline has happened: it is planned anew, for another connection.
    pub fn start_over(&mut self) {
        let fetched = std::mem::take(&mut self.fetched);
        *self = Pipeline { fetched, ..Pipeline::default() };
    }

    /// What follows goes to another connection.
    pub fn change_connection(&mut self) {
        self.prepared.clear();
        self.unnamed = None;
    }

    /// What was pending has been carried out, or never will be.
    pub fn settle(&mut self) {
        self.pending.clear();
    }
}

/// True if the gateway answers a text itself.
pub fn is_local(reading: &Reading, desk: &Desk<'_>) -> bool {
    match &reading.local {
        None => false,
        Some(Local::Deallocate(Some(name))) => desk.statements.get(name).is_some(),
        Some(Local::Deallocate(None)) => !desk.stuck,
        Some(_) => true,
    }
}

/// Plans segments of a pipeline for a connection, or for none.
pub struct Planner<'a> {
    /// The session.
    pub desk: Desk<'a>,
    /// What it has read.
    pub readings: &'a mut Readings,
    /// What the connection carries; None if nothing goes to a cluster.
    pub carried: Option<&'a mut Carried>,
    /// What is due.
    pub replies: &'a mut Replies,
    /// What goes out.
    pub out: &'a mut Vec<u8>,
}

impl Planner<'_> {
    /// Plans one segment. What is malformed is refused.
    pub fn plan(&mut self, pipeline: &mut Pipeline, segment: &[u8]) {
        for (tag, frame) in frames_of(segment) {
            let planned = match tag {
                _ if pipeline.refused => Ok(()),
                b'P' => self.parse(pipeline, frame),
                b'B' => self.bind(pipeline, frame),
                b'D' => self.describe(pipeline, frame),
                b'E' => self.execute(pipeline, frame),
                b'C' => self.close(pipeline, frame),
                // A segment consists of nothing else.
                _ => self.bare(tag, frame),
            };
            if let Err(problem) = planned {
                self.refuse(&problem);
                pipeline.refused = true;
            }
            if tag == b'S' {
                self.sync(true);
                pipeline.refused = false;
            }
        }
    }

    /// A Flush, or a Sync, whose own sending waits for what is said of it.
    fn bare(&mut self, tag: u8, frame: &[u8]) -> Result<(), Problem> {
        self.read(messages::bare(frame))?;
        if tag == b'H' {
            self.pass(frame);
        }
        Ok(())
    }

    fn read<T>(&self, read: Result<T, Malformed>) -> Result<T, Problem> {
        read.map_err(|malformed| Problem::malformed(&malformed, self.desk.utf8))
    }

    /// A Sync, of the client's or of the gateway's own.
    pub fn sync(&mut self, pass: bool) {
        self.pass(&frames::SYNC);
        self.replies.expect(Expect::Ready { pass });
    }

    /// Sends a frame as it is, if it goes anywhere.
    fn pass(&mut self, frame: &[u8]) {
        if self.carried.is_some() {
            self.out.extend_from_slice(frame);
        }
    }

    fn local(&mut self, bytes: Vec<u8>, effect: LocalEffect) {
        self.replies.expect(Expect::Local(bytes, effect));
    }

    fn refuse(&mut self, problem: &Problem) {
        match self.carried.as_deref_mut() {
            None => self.replies.expect(Expect::LocalError(error_frame(problem), problem.sqlstate)),
            Some(carried) => poison(problem, carried, self.replies, self.out),
        }
    }

    fn parse(&mut self, pipeline: &mut Pipeline, frame: &[u8]) -> Result<(), Problem> {
        let parse = self.read(Parse::read(frame))?;
        let unnamed = parse.name.is_empty();
        if !unnamed && pipeline.lookup(&self.desk, parse.name).is_some() {
            let message = format!("prepared statement \"{}\" already exists", parse.name);
            return Err(Problem::new(b"42P05", message));
        }
        let more = pipeline.pending.iter().filter(|change| change.to.is_some()).count();
        if !unnamed && self.desk.statements.is_full_with(more) {
            let message = format!("a session may have {} prepared statements", self.desk.statements.limit());
            return Err(Problem::new(b"53400", message).hint("Close some, or raise max_statements."));
        }
        let reading = self.readings.of(parse.sql);
        let prepared = Arc::new(Prepared::new(Arc::clone(&reading.text), parse.types));
        let local = is_local(&reading, &self.desk);
        let entry = Entry::new(Arc::clone(&prepared), reading);
        let change = Change { name: parse.name.to_owned(), to: Some(entry) };
        pipeline.pend(change.clone());
        let Some(carried) = self.carried.as_deref_mut().filter(|_| !local) else {
            self.local(say::PARSE_COMPLETE.to_vec(), LocalEffect::Change(change));
            return Ok(());
        };
        if unnamed {
            carried.unnamed = None;
            pipeline.unnamed = Some(Arc::clone(&prepared));
            self.out.extend_from_slice(frame);
        } else {
            self.prepare(pipeline, &prepared);
        }
        let carry = Some((prepared, unnamed));
        self.replies.expect(Expect::Parse { pass: true, carry, change: Some(change) });
        Ok(())
    }

    /// Sends a Parse of a statement with a name, behind a Close of whatever has that name; only the Close's reply is
    /// entered as due.
    fn prepare(&mut self, pipeline: &mut Pipeline, prepared: &Arc<Prepared>) {
        let Some(carried) = self.carried.as_deref_mut() else { return };
        carried.forget(&prepared.name);
        let evicted = carried.evict();
        for name in evicted.iter().map(|statement| &statement.name).chain([&prepared.name]) {
            frames::close(self.out, b'S', name);
            self.replies.expect(Expect::Close { pass: false });
        }
        frames::parse(self.out, &prepared.name, &prepared.text, &prepared.types);
        pipeline.prepared.retain(|statement| statement.name != prepared.name);
        pipeline.prepared.push(Arc::clone(prepared));
    }

    /// Makes sure that the connection has a statement, and gives the name that it has there.
    fn ensure<'b>(&mut self, pipeline: &mut Pipeline, name: &str, prepared: &'b Arc<Prepared>) -> &'b str {
        let Some(carried) = self.carried.as_deref_mut() else { return &prepared.name };
        if name.is_empty() {
            let there = pipeline.unnamed.as_ref().or(carried.unnamed.as_ref());
            if !there.is_some_and(|there| Arc::ptr_eq(there, prepared) || there == prepared) {
                carried.unnamed = None;
                pipeline.unnamed = Some(Arc::clone(prepared));
                frames::parse(self.out, "", &prepared.text, &prepared.types);
                let carry = Some((Arc::clone(prepared), true));
                self.replies.expect(Expect::Parse { pass: false, carry, change: None });
            }
            return "";
        }
        if !carried.has(prepared) && !pipeline.prepared.contains(prepared) {
            self.prepare(pipeline, prepared);
            let carry = Some((Arc::clone(prepared), false));
            self.replies.expect(Expect::Parse { pass: false, carry, change: None });
        }
        &prepared.name
    }

    fn bind(&mut self, pipeline: &mut Pipeline, frame: &[u8]) -> Result<(), Problem> {
        let bind = self.read(Bind::read(frame))?;
        let Some(entry) = pipeline.lookup(&self.desk, bind.statement).cloned() else {
            if self.desk.stuck && !bind.statement.is_empty() && !bind.statement.starts_with(NAME_PREFIX) {
                // It may be one of PREPARE.
                self.pass(frame);
                self.replies.expect(Expect::Bind);
                return Ok(());
            }
            return Err(no_statement(bind.statement));
        };
        if is_local(&entry.reading, &self.desk) {
            let parameters = parameters::decode(&own_types(&entry), &bind)?;
            let own = Own { entry, parameters, formats: bind.result_formats(), sent: 0 };
            pipeline.open(bind.portal, Portal::Local(own));
            self.local(say::BIND_COMPLETE.to_vec(), LocalEffect::Nothing);
            return Ok(());
        }
        let name = self.ensure(pipeline, bind.statement, &entry.prepared);
        if name == bind.statement {
            self.pass(frame);
        } else {
            frames::frame(self.out, b'B', |out| {
                frames::text(out, bind.portal);
                frames::text(out, name);
                out.extend_from_slice(bind.rest);
            });
        }
        let reading = entry.reading.bound(&bind).map_or(entry.reading, Arc::new);
        pipeline.open(bind.portal, Portal::Cluster(reading));
        self.replies.expect(Expect::Bind);
        Ok(())
    }

    fn describe(&mut self, pipeline: &mut Pipeline, frame: &[u8]) -> Result<(), Problem> {
        let (what, name) = self.read(target(b'D', frame))?;
        let mut described = None;
        if what == b'P' {
            if let Some(Portal::Local(own)) = pipeline.portal(name).cloned() {
                let table = self.outcome(&pipeline.fetched, &own.entry, &own.parameters)?.table;
                self.describe_locally(Vec::new(), table, &own.formats);
                return Ok(());
            }
            self.pass(frame);
        } else {
            match pipeline.lookup(&self.desk, name).cloned() {
                Some(entry) if is_local(&entry.reading, &self.desk) => {
                    return self.describe_statement(pipeline, &entry);
                }
                Some(entry) => {
                    let name = self.ensure(pipeline, name, &entry.prepared);
                    frames::describe(self.out, b'S', name);
                    described = Some(entry.described.clone());
                }
                None if self.desk.stuck && !name.is_empty() && !name.starts_with(NAME_PREFIX) => self.pass(frame),
                None => return Err(no_statement(name)),
            }
        }
        self.replies.expect(Expect::Describe(described));
        Ok(())
    }

    fn describe_statement(&mut self, pipeline: &Pipeline, entry: &Entry) -> Result<(), Problem> {
        let types = own_types(entry);
        let mut bytes = Vec::new();
        frames::frame(&mut bytes, b't', |out| {
            out.extend_from_slice(&(types.len() as u16).to_be_bytes());
            types.iter().for_each(|id| out.extend_from_slice(&id.to_be_bytes()));
        });
        let table = self.outcome(&pipeline.fetched, entry, &vec![Parameter::Null; types.len()])?.table;
        if let Some(table) = &table {
            entry.told.get_or_init(|| table.columns.as_slice().into());
        }
        self.describe_locally(bytes, table, &[]);
        Ok(())
    }

    /// Answers a Describe, behind what is to be said before.
    fn describe_locally(&mut self, mut bytes: Vec<u8>, table: Option<Arc<Answer>>, formats: &[u16]) {
        match table {
            Some(table) => table::describe(&mut bytes, &table.columns, formats),
            None => bytes.extend_from_slice(&say::NO_DATA),
        }
        self.local(bytes, LocalEffect::Nothing);
    }

    fn execute(&mut self, pipeline: &mut Pipeline, frame: &[u8]) -> Result<(), Problem> {
        let (name, limit) = self.read(messages::execute(frame))?;
        match pipeline.portal(name).cloned() {
            Some(Portal::Local(own)) => return self.execute_locally(pipeline, name, own, limit),
            Some(Portal::Cluster(reading)) => pipeline.executed.push(reading),
            None => {}
        }
        self.pass(frame);
        self.replies.expect(Expect::Execute);
        Ok(())
    }

    fn execute_locally(&mut self, pipeline: &mut Pipeline, name: &str, own: Own, limit: u32) -> Result<(), Problem> {
        let outcome = self.outcome(&pipeline.fetched, &own.entry, &own.parameters)?;
        let mut bytes = Vec::new();
        let mut suspended = false;
        let mut tag = outcome.tag;
        if let Some(table) = outcome.table {
            let left = table.rows.len().saturating_sub(own.sent);
            let n = if limit == 0 { left } else { left.min(limit as usize) };
            for values in table.rows.iter().skip(own.sent).take(n) {
                table::row(&mut bytes, &table.columns, &own.formats, values);
            }
            suspended = n < left;
            if tag == "SELECT" {
                tag = format!("SELECT {n}");
            }
            let sent = own.sent + n;
            pipeline.open(name, Portal::Local(Own { sent, ..own }));
        }
        if suspended {
            bytes.extend_from_slice(&say::PORTAL_SUSPENDED);
        } else {
            say::complete(&mut bytes, &tag);
        }
        self.local(bytes, outcome.effect);
        Ok(())
    }

    fn close(&mut self, pipeline: &mut Pipeline, frame: &[u8]) -> Result<(), Problem> {
        let (what, name) = self.read(target(b'C', frame))?;
        if what == b'S' {
            // It may stay on the connection, for whoever prepares the same.
            let change = Change { name: name.to_owned(), to: None };
            pipeline.pend(change.clone());
            self.local(say::CLOSE_COMPLETE.to_vec(), LocalEffect::Change(change));
            return Ok(());
        }
        let local = matches!(pipeline.portal(name), Some(Portal::Local(_)));
        pipeline.portals.retain(|(known, _)| known != name);
        if local || self.carried.is_none() {
            self.local(say::CLOSE_COMPLETE.to_vec(), LocalEffect::Nothing);
        } else {
            self.pass(frame);
            self.replies.expect(Expect::Close { pass: true });
        }
        Ok(())
    }

    /// What becomes of a statement about the gateway, with the columns that its client was told of.
    fn outcome(&self, fetched: &Fetched, entry: &Entry, parameters: &[Parameter]) -> Result<Outcome, Problem> {
        let mut outcome = outcome(&self.desk, fetched, &entry.reading, parameters)?;
        if let Some(told) = entry.told.get()
            && let Some(table) = outcome.table.take()
        {
            let table = table::conform(table, told);
            outcome.table =
                Some(table.ok_or_else(|| Problem::new(b"0A000", "cached plan must not change result type"))?);
        }
        Ok(outcome)
    }
}

/// The types of the parameters of a statement about the gateway. Only those that ask have any.
fn own_types(entry: &Entry) -> Vec<u32> {
    match entry.reading.local {
        Some(Local::Catalogue) => parameters::types(&entry.reading.text, &entry.prepared.types),
        _ => Vec::new(),
    }
}

/// What becomes of a statement about the gateway.
#[derive(Debug)]
pub struct Outcome {
    /// Its rows, if it has any.
    pub table: Option<Arc<Answer>>,
    /// The tag of its CommandComplete; `SELECT` wants the number of rows behind it.
    pub tag: String,
    /// What it changes.
    pub effect: LocalEffect,
}

/// Answers a statement about the gateway.
///
/// # Errors
/// What the client is to be told if it cannot be answered.
pub fn outcome(
    desk: &Desk<'_>,
    fetched: &Fetched,
    reading: &Reading,
    parameters: &[Parameter],
) -> Result<Outcome, Problem> {
    let done = |tag: &str, effect| Ok(Outcome { table: None, tag: tag.to_owned(), effect });
    match &reading.local {
        Some(Local::Set(name, value)) => {
            let wish = local::wish(name, value.as_deref(), desk.classes)?;
            local::permit(&wish, desk.classes, desk.user)?;
            let tag = if reading.statement.kind == punctual_core::statement::Kind::Reset { "RESET" } else { "SET" };
            done(tag, LocalEffect::Wish(wish))
        }
        Some(Local::Show(name)) => {
            let table = Some(Arc::new(desk.wishes.show(name)?));
            Ok(Outcome { table, tag: "SHOW".to_owned(), effect: LocalEffect::Nothing })
        }
        Some(Local::Deallocate(None)) => done("DEALLOCATE ALL", LocalEffect::ForgetAll),
        Some(Local::Deallocate(Some(name))) => {
            done("DEALLOCATE", LocalEffect::Change(Change { name: name.clone(), to: None }))
        }
        Some(Local::Impossible(problem)) => Err(Problem::clone(problem)),
        Some(Local::Catalogue) | None => {
            let fits = |text: &Arc<str>, with: &[Parameter]| *text == reading.text && with == parameters;
            let answer = fetched.iter().find(|(text, with, _)| fits(text, with)).map(|(_, _, answer)| answer.clone());
            let answer = answer.unwrap_or_else(|| Err(Problem::new(b"XX000", "the answer was not fetched")));
            Ok(Outcome { table: Some(answer?), tag: "SELECT".to_owned(), effect: LocalEffect::Nothing })
        }
    }
}

impl Pipeline {
    fn pend(&mut self, change: Change) {
        self.pending.retain(|pending| pending.name != change.name);
        self.pending.push(change);
    }

    fn open(&mut self, name: &str, portal: Portal) {
        self.portals.retain(|(known, _)| known != name);
        self.portals.push((name.to_owned(), portal));
    }
}

/// Makes a pipeline fail on the connection that it is sent to, and the client hear of `problem`.
pub(super) fn poison(problem: &Problem, carried: &mut Carried, replies: &mut Replies, out: &mut Vec<u8>) {
    // Fails on every cluster there is, and leaves nothing behind.
    frames::parse(out, "", "punctual refuses this", &[0, 0]);
    carried.unnamed = None;
    replies.expect(Expect::Poison(error_frame(problem)));
}

fn error_frame(problem: &Problem) -> Vec<u8> {
    let mut bytes = Vec::new();
    say::problem(&mut bytes, say::Severity::Error, problem);
    bytes
}

fn no_statement(name: &str) -> Problem {
    Problem::new(
        b"26000",
        match name {
            "" => "unnamed prepared statement does not exist".to_owned(),
            name => format!("prepared statement \"{name}\" does not exist"),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::unit::body;

    /// Plans a segment and says what goes out, shortly.
    fn plan(segment: &[u8], statements: &Statements, carried: &mut Carried) -> String {
        let (wishes, classes) = (Wishes::default(), Classes::new(Vec::new()));
        let desk = Desk { statements, wishes: &wishes, classes: &classes, user: "", stuck: false, utf8: true };
        let (mut replies, mut out) = (Replies::to_pipeline(), Vec::new());
        let readings = &mut Readings::default();
        let mut planner = Planner { desk, readings, carried: Some(carried), replies: &mut replies, out: &mut out };
        planner.plan(&mut Pipeline::default(), segment);
        let name = Prepared::new("select 1".into(), &[0, 0]).name;
        let tell = |(tag, frame): (u8, &[u8])| {
            let text = String::from_utf8_lossy(body(frame)).replace(&name, "<1>").replace('\0', "|");
            format!("{}:{}", tag as char, text.trim_end_matches('|'))
        };
        frames_of(&out).map(tell).collect::<Vec<_>>().join(" ")
    }

    fn parse(name: &str) -> Vec<u8> {
        let mut out = Vec::new();
        frames::parse(&mut out, name, "select 1", &[0, 0]);
        out
    }

    fn bind(name: &str) -> Vec<u8> {
        let mut out = Vec::new();
        frames::frame(&mut out, b'B', |out| {
            frames::text(out, "");
            frames::text(out, name);
            out.extend_from_slice(&[0; 6]);
        });
        out
    }

    fn known(name: &str) -> Statements {
        let mut statements = Statements::new(10);
        let prepared = Arc::new(Prepared::new("select 1".into(), &[0, 0]));
        let entry = Entry::new(prepared, Arc::new(Reading::of("select 1")));
        statements.change(Change { name: name.to_owned(), to: Some(entry) });
        statements
    }

    #[test]
    fn names_become_those_that_statements_have_on_clusters() {
        let segment = [parse("s"), bind("s"), frames::SYNC.to_vec()].concat();
        let planned = plan(&segment, &Statements::new(10), &mut Carried::default());
        assert_eq!(planned, "C:S<1> P:<1>|select 1 B:|<1> S:");
        let segment = [parse(""), bind(""), frames::SYNC.to_vec()].concat();
        let planned = plan(&segment, &Statements::new(10), &mut Carried::default());
        assert_eq!(planned, "P:|select 1 B: S:");
    }

    #[test]
    fn a_statement_that_the_connection_lacks_is_prepared_once() {
        let segment = [bind("s"), bind("s")].concat();
        assert_eq!(plan(&segment, &known("s"), &mut Carried::default()), "C:S<1> P:<1>|select 1 B:|<1> B:|<1>");
        let mut carried = Carried::default();
        carried.add(Arc::new(Prepared::new("select 1".into(), &[0, 0])));
        assert_eq!(plan(&segment, &known("s"), &mut carried), "B:|<1> B:|<1>");
        assert_eq!(plan(&bind(""), &known(""), &mut Carried::default()), "P:|select 1 B:");
    }

    #[test]
    fn what_is_refused_fails_on_the_cluster_and_skips_the_rest() {
        let segment = [parse("s"), bind("s"), frames::SYNC.to_vec()].concat();
        assert_eq!(plan(&segment, &known("s"), &mut Carried::default()), "P:|punctual refuses this S:");
        assert_eq!(plan(&bind("t"), &known("s"), &mut Carried::default()), "P:|punctual refuses this");
    }

    #[test]
    fn what_is_malformed_fails_on_the_cluster_and_is_never_sent() {
        let mut malformed = Vec::new();
        frames::frame(&mut malformed, b'B', |out| out.extend_from_slice(b"\0s\0\0\0\0\x07"));
        let segment = [parse(""), malformed, bind(""), frames::SYNC.to_vec()].concat();
        let planned = plan(&segment, &Statements::new(10), &mut Carried::default());
        assert_eq!(planned, "P:|select 1 P:|punctual refuses this S:");
        let sync = b"S\0\0\0\x05!".to_vec();
        assert_eq!(plan(&sync, &Statements::new(10), &mut Carried::default()), "P:|punctual refuses this S:");
    }
}
