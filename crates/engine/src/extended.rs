//! Parse, Bind, Describe, Execute, Close: prepared statements and portals.
//!
//! A portal keeps its execution between two Executes with a row limit; the engine then waits on the bounded
//! channel, so a suspended portal costs a few pieces of rows and no work. What a client may keep is bounded.

use std::collections::HashMap;

use pgwire::api::Type;
use pgwire::api::portal::Format;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::PgWireFrontendMessage as Frontend;
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    Bind, BindComplete, Close, CloseComplete, Describe, Execute, Parse, ParseComplete, PortalSuspended,
    TARGET_TYPE_BYTE_STATEMENT,
};
use pgwire::messages::response::{EmptyQueryResponse, TransactionStatus};

use crate::engine::{Bound, Prepared, Running};
use crate::rows::{self, Chunk, Columns};
use crate::session::{Session, Stop, tag_of};
use crate::sqlstate::{Failure, SqlState};
use crate::statement::{self, Command};

/// Prepared statements that one session may keep.
const MOST_STATEMENTS: usize = 1000;

/// Portals that one session may keep.
const MOST_PORTALS: usize = 100;

/// What a session keeps for the extended protocol. The unnamed ones have the empty name.
#[derive(Default)]
pub(crate) struct Extended {
    statements: HashMap<String, Stored>,
    portals: HashMap<String, Portal>,
    /// After an error everything up to the next Sync is ignored.
    skipping: bool,
}

#[derive(Clone)]
enum Stored {
    /// Blanks and comments.
    Empty,
    Query {
        tag: &'static str,
        prepared: Box<Prepared>,
    },
    Session(Command),
}

struct Portal {
    stored: Stored,
    format: Format,
    state: State,
}

enum State {
    Bound(Bound),
    Started { running: Box<Running>, pending: Chunk },
    Finished,
}

impl Extended {
    pub(crate) fn skipping(&self) -> bool {
        self.skipping
    }

    pub(crate) fn skip_to_sync(&mut self) {
        self.skipping = true;
    }

    /// Outside a transaction block portals live until the Sync.
    pub(crate) fn sync(&mut self, status: TransactionStatus) {
        self.skipping = false;
        if status == TransactionStatus::Idle {
            self.portals.clear();
        }
    }

    pub(crate) fn end_transaction(&mut self) {
        self.portals.clear();
    }

    /// A simple message replaces the unnamed statement and portal.
    pub(crate) fn forget_unnamed(&mut self) {
        self.statements.remove("");
        self.portals.remove("");
    }

    pub(crate) fn deallocate(&mut self, name: Option<&str>) -> Result<(), Failure> {
        match name {
            None => self.statements.clear(),
            Some(name) => {
                self.statements.remove(name).ok_or_else(|| no_statement(name))?;
            }
        }
        Ok(())
    }
}

impl Session {
    /// Answers one of the messages of this module.
    pub(crate) async fn extended_message(&mut self, message: Frontend) -> Result<(), Stop> {
        match message {
            Frontend::Parse(parse) => self.parse(parse).await,
            Frontend::Bind(bind) => Ok(self.bind(bind)?),
            Frontend::Describe(describe) => Ok(self.describe(&describe)?),
            Frontend::Execute(execute) => self.execute(execute).await,
            Frontend::Close(close) => {
                self.close(&close);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn parse(&mut self, parse: Parse) -> Result<(), Stop> {
        let name = parse.name.unwrap_or_default();
        if !name.is_empty() {
            if self.extended.statements.contains_key(&name) {
                let message = format!("prepared statement \"{name}\" already exists");
                return Err(Failure::new(SqlState::DuplicatePreparedStatement, message).into());
            }
            if self.extended.statements.len() >= MOST_STATEMENTS {
                let message = format!("a session keeps at most {MOST_STATEMENTS} prepared statements");
                return Err(Failure::new(SqlState::LimitExceeded, message).into());
            }
        }
        let mut commands = statement::parse(&parse.query)?;
        if commands.len() > 1 {
            return Err(Failure::new(
                SqlState::SyntaxError,
                "cannot insert multiple commands into a prepared statement",
            )
            .into());
        }
        let stored = match commands.pop() {
            None => Stored::Empty,
            Some(command) => {
                self.check_transaction(&command)?;
                match command {
                    Command::Query(query) => {
                        // Zero and types we do not know mean: infer it.
                        let hints = parse.type_oids.iter().map(|oid| Type::from_oid(*oid)).collect();
                        let planning = self.engine.prepare(&query, hints);
                        let prepared = Box::new(self.interrupts.guard(planning).await??);
                        Stored::Query { tag: tag_of(&query), prepared }
                    }
                    command => Stored::Session(command),
                }
            }
        };
        self.extended.statements.insert(name, stored);
        self.outgoing.put(PgWireBackendMessage::ParseComplete(ParseComplete::new()));
        Ok(())
    }

    fn bind(&mut self, bind: Bind) -> Result<(), Failure> {
        let statement = bind.statement_name.unwrap_or_default();
        let portal = bind.portal_name.unwrap_or_default();
        let stored = self.stored(&statement)?.clone();
        if !portal.is_empty() && self.extended.portals.contains_key(&portal) {
            let message = format!("cursor \"{portal}\" already exists");
            return Err(Failure::new(SqlState::InvalidCursorName, message));
        }
        if self.extended.portals.len() >= MOST_PORTALS {
            let message = format!("a session keeps at most {MOST_PORTALS} portals");
            return Err(Failure::new(SqlState::LimitExceeded, message));
        }
        let parameters = match &stored {
            Stored::Query { prepared, .. } => prepared.parameters.len(),
            _ => 0,
        };
        if bind.parameters.len() != parameters {
            return Err(violation(format!(
                "bind message supplies {} parameters, but prepared statement \"{statement}\" requires {parameters}",
                bind.parameters.len()
            )));
        }
        check_formats("parameter", &bind.parameter_format_codes, parameters)?;
        let columns = self.columns(&stored)?.map_or(0, |columns| columns.len());
        check_formats("result", &bind.result_column_format_codes, columns)?;
        let bound = Bound { values: bind.parameters, formats: bind.parameter_format_codes };
        let format = format_of(&bind.result_column_format_codes);
        self.extended.portals.insert(portal, Portal { stored, format, state: State::Bound(bound) });
        self.outgoing.put(PgWireBackendMessage::BindComplete(BindComplete::new()));
        Ok(())
    }

    fn describe(&mut self, describe: &Describe) -> Result<(), Failure> {
        let name = describe.name.as_deref().unwrap_or_default();
        let (stored, format) = if describe.target_type == TARGET_TYPE_BYTE_STATEMENT {
            let stored = self.stored(name)?.clone();
            let parameters = match &stored {
                Stored::Query { prepared, .. } => prepared.parameters.iter().map(Type::oid).collect(),
                _ => Vec::new(),
            };
            self.outgoing.put(PgWireBackendMessage::ParameterDescription(ParameterDescription::new(parameters)));
            (stored, Format::UnifiedText)
        } else {
            let portal = self.extended.portals.get(name).ok_or_else(|| no_portal(name))?;
            (portal.stored.clone(), portal.format.clone())
        };
        match self.columns(&stored)? {
            Some(columns) => {
                let mut description = rows::describe(&columns);
                for (at, field) in description.fields.iter_mut().enumerate() {
                    field.format_code = format.format_for(at).value();
                }
                self.outgoing.put(PgWireBackendMessage::RowDescription(description));
            }
            None => self.outgoing.put(PgWireBackendMessage::NoData(NoData::new())),
        }
        Ok(())
    }

    async fn execute(&mut self, execute: Execute) -> Result<(), Stop> {
        let name = execute.name.unwrap_or_default();
        let limit = usize::try_from(execute.max_rows).ok().filter(|rows| *rows > 0);
        // Taken out while it runs: a failure must not leave half a portal behind.
        let mut portal = self.extended.portals.remove(&name).ok_or_else(|| no_portal(&name))?;
        match &portal.stored {
            Stored::Empty => {
                self.outgoing.put(PgWireBackendMessage::EmptyQueryResponse(EmptyQueryResponse::new()));
            }
            Stored::Session(command) => {
                self.check_transaction(command)?;
                let command = command.clone();
                self.session_command(command, false)?;
                portal.state = State::Finished;
            }
            Stored::Query { tag, prepared } => {
                if self.status == TransactionStatus::Error {
                    self.check_transaction(&Command::Nothing { tag: "" })?;
                }
                let tag = *tag;
                if let State::Bound(bound) = &mut portal.state {
                    let bound = std::mem::take(bound);
                    let output = self.output(portal.format.clone());
                    let running = Box::new(self.engine.execute_prepared(prepared, bound, output));
                    portal.state = State::Started { running, pending: Chunk::default() };
                }
                self.fetch(&mut portal, tag, limit.unwrap_or(usize::MAX)).await?;
            }
        }
        // COMMIT and ROLLBACK close every portal, their own among them.
        let ended = matches!(portal.stored, Stored::Session(Command::Commit | Command::Rollback));
        if !ended {
            self.extended.portals.insert(name, portal);
        }
        Ok(())
    }

    async fn fetch(&mut self, portal: &mut Portal, tag: &str, limit: usize) -> Result<(), Stop> {
        let State::Started { running, pending } = &mut portal.state else {
            self.complete(tag, Some(0));
            return Ok(());
        };
        let delivered = self.deliver(running, pending, limit, false).await?;
        if delivered.more {
            self.outgoing.put(PgWireBackendMessage::PortalSuspended(PortalSuspended::new()));
        } else {
            portal.state = State::Finished;
            self.complete(tag, Some(delivered.rows));
        }
        Ok(())
    }

    fn close(&mut self, close: &Close) {
        let name = close.name.as_deref().unwrap_or_default();
        if close.target_type == TARGET_TYPE_BYTE_STATEMENT {
            self.extended.statements.remove(name);
        } else {
            self.extended.portals.remove(name);
        }
        self.outgoing.put(PgWireBackendMessage::CloseComplete(CloseComplete::new()));
    }

    fn stored(&self, name: &str) -> Result<&Stored, Failure> {
        self.extended.statements.get(name).ok_or_else(|| no_statement(name))
    }

    /// What a statement returns, if it returns rows.
    fn columns(&self, stored: &Stored) -> Result<Option<Columns>, Failure> {
        match stored {
            Stored::Query { prepared, .. } => Ok(Some(prepared.columns.clone())),
            Stored::Session(command @ (Command::Show(_) | Command::ShowAll)) => Ok(Some(self.show(command)?.0)),
            Stored::Empty | Stored::Session(_) => Ok(None),
        }
    }
}

/// None at all, one for all, or one for each; and each text or binary.
fn check_formats(what: &str, codes: &[i16], columns: usize) -> Result<(), Failure> {
    if codes.len() > 1 && codes.len() != columns {
        return Err(violation(format!("bind message has {} {what} formats but {columns} columns", codes.len())));
    }
    match codes.iter().find(|code| !matches!(code, 0 | 1)) {
        None => Ok(()),
        Some(code) => Err(Failure::new(SqlState::InvalidParameterValue, format!("unsupported format code: {code}"))),
    }
}

fn format_of(codes: &[i16]) -> Format {
    match codes {
        [] => Format::UnifiedText,
        [code] => Format::from(*code),
        codes => Format::Individual(codes.to_vec()),
    }
}

fn violation(message: String) -> Failure {
    Failure::new(SqlState::ProtocolViolation, message)
}

fn no_statement(name: &str) -> Failure {
    let message = format!("prepared statement \"{name}\" does not exist");
    Failure::new(SqlState::InvalidStatementName, message)
}

fn no_portal(name: &str) -> Failure {
    Failure::new(SqlState::InvalidCursorName, format!("portal \"{name}\" does not exist"))
}
