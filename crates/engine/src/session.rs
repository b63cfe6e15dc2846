//! One client: its messages in order, each answered.
//!
//! ```text
//!  socket ──▶ reader task ──▶ session ──▶ engine (other threads)
//!                 │              ▲ │          │
//!                 │ gone    cancel │ pieces ◀─┘   bounded
//!                 └────────────▶ │ ▼
//!                             socket
//! ```
//!
//! Reading runs ahead in its own task, so that a client which leaves is noticed while its query runs. Whatever
//! the session waits for (the engine, or the client to take its rows), it waits under one guard: a cancel
//! request, the statement timeout and the client's leaving all end the wait at once, however busy the engine's
//! threads are.

use std::future::Future;
use std::time::Duration;

use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::PgWireFrontendMessage as Frontend;
use pgwire::messages::response::{CommandComplete, EmptyQueryResponse, ReadyForQuery, TransactionStatus};
use pgwire::messages::startup::ParameterStatus;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::engine::{EngineSession, Output, Piece, Running};
use crate::extended::Extended;
use crate::rows::{self, Chunk};
use crate::settings::Settings;
use crate::sqlstate::{Failure, SqlState};
use crate::startup::Opened;
use crate::statement::{self, Command};
use crate::wire::{Incoming, Lost, Outgoing};

/// Messages that may wait to be handled; then the client waits.
const AHEAD: usize = 16;

/// A session with all it keeps.
pub(crate) struct Session {
    pub(crate) engine: EngineSession,
    pub(crate) user: String,
    pub(crate) settings: Settings,
    pub(crate) status: TransactionStatus,
    pub(crate) outgoing: Outgoing,
    pub(crate) interrupts: Interrupts,
    pub(crate) extended: Extended,
}

/// How long the word of a cancel or a timeout is held back for what it ended to stop. That takes an instant, unless it
/// will not stop; then our supervisor is told before the client is.
const INSTANT: Duration = Duration::from_millis(50);

/// What may end a wait.
pub(crate) struct Interrupts {
    cancel: watch::Receiver<u64>,
    gone: watch::Receiver<bool>,
    deadline: Option<Instant>,
}

/// Why a message could not be answered as asked.
pub(crate) enum Stop {
    /// The client is told, and the session goes on.
    Failed(Failure),
    /// There is no client any more.
    Gone,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failed(failure)
    }
}

impl From<std::io::Error> for Stop {
    fn from(_: std::io::Error) -> Stop {
        Stop::Gone
    }
}

/// Serves an opened connection to its end.
pub(crate) async fn serve(engine: EngineSession, opened: Opened, incoming: Incoming, outgoing: Outgoing) {
    let (gone_sender, gone) = watch::channel(false);
    let (sender, mut messages) = mpsc::channel(AHEAD);
    let reader = tokio::spawn(read_ahead(incoming, sender, gone_sender));
    let Opened { user, settings, place } = opened;
    let interrupts = Interrupts { cancel: place.cancel.clone(), gone, deadline: None };
    let mut session = Session {
        engine,
        user,
        settings,
        status: TransactionStatus::Idle,
        outgoing,
        interrupts,
        extended: Extended::default(),
    };
    while let Some(message) = messages.recv().await {
        let handled = match message {
            Ok(Frontend::Terminate(_)) | Err(Lost::Closed) => Err(Stop::Gone),
            Ok(message) => session.handle(message).await,
            Err(Lost::Protocol(text)) => Err(Stop::Failed(Failure::fatal(SqlState::ProtocolViolation, text))),
        };
        match handled {
            Ok(()) => {}
            Err(Stop::Gone) => break,
            Err(Stop::Failed(failure)) => {
                session.outgoing.put(PgWireBackendMessage::ErrorResponse(failure.into_error_info().into()));
                break;
            }
        }
    }
    reader.abort();
    drop(place);
    session.outgoing.close().await;
}

async fn read_ahead(mut incoming: Incoming, sender: mpsc::Sender<Result<Frontend, Lost>>, gone: watch::Sender<bool>) {
    loop {
        let message = incoming.next().await;
        let last = matches!(message, Err(_) | Ok(Frontend::Terminate(_)));
        if last {
            gone.send_replace(true);
        }
        if sender.send(message).await.is_err() || last {
            return;
        }
    }
}

impl Interrupts {
    /// A message begins: what was cancelled before it is past.
    fn begin(&mut self, settings: &Settings) {
        self.cancel.mark_unchanged();
        self.deadline = settings.statement_timeout().map(|timeout| Instant::now() + timeout);
    }

    /// Waits for `work`, or for the first reason to stop.
    pub(crate) async fn guard<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Stop> {
        let deadline = self.deadline;
        let timeout = async move {
            match deadline {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Ok(_) = self.gone.wait_for(|gone| *gone) => Err(Stop::Gone),
            Ok(()) = self.cancel.changed() => Err(Failure::cancelled().into()),
            () = timeout => Err(Failure::timed_out().into()),
            result = work => Ok(result),
        }
    }
}

impl Session {
    /// Answers one message. An error ends the session; a statement's own failure does not come back here.
    async fn handle(&mut self, message: Frontend) -> Result<(), Stop> {
        match message {
            Frontend::Query(query) => {
                self.extended.forget_unnamed();
                self.interrupts.begin(&self.settings);
                match self.simple(&query.query).await {
                    Err(Stop::Failed(failure)) => self.failed(failure).await,
                    other => other?,
                }
                self.ready().await
            }
            Frontend::Sync(_) => {
                self.extended.sync(self.status);
                self.ready().await
            }
            _ if self.extended.skipping() => Ok(()),
            Frontend::Flush(_) => Ok(self.flush().await?),
            Frontend::Parse(_)
            | Frontend::Bind(_)
            | Frontend::Describe(_)
            | Frontend::Execute(_)
            | Frontend::Close(_) => {
                self.interrupts.begin(&self.settings);
                match self.extended_message(message).await {
                    Err(Stop::Failed(failure)) => {
                        self.failed(failure).await;
                        self.extended.skip_to_sync();
                        self.flush().await
                    }
                    other => other,
                }
            }
            // The tail of a COPY that we refused.
            Frontend::CopyData(_) | Frontend::CopyDone(_) | Frontend::CopyFail(_) => Ok(()),
            _ => Err(Failure::fatal(SqlState::ProtocolViolation, "unexpected message").into()),
        }
    }

    async fn simple(&mut self, sql: &str) -> Result<(), Stop> {
        let commands = statement::parse(sql)?;
        if commands.is_empty() {
            self.outgoing.put(PgWireBackendMessage::EmptyQueryResponse(EmptyQueryResponse::new()));
        }
        for command in commands {
            self.check_transaction(&command)?;
            match command {
                Command::Query(query) => {
                    let tag = tag_of(&query);
                    let mut running = self.engine.execute(query, self.output(Default::default()));
                    let mut pending = Chunk::default();
                    let rows = self.deliver(&mut running, &mut pending, usize::MAX, true).await?.rows;
                    self.complete(tag, Some(rows));
                }
                command => self.session_command(command, true)?,
            }
        }
        Ok(())
    }

    /// In a failed transaction nothing runs but what ends it.
    pub(crate) fn check_transaction(&self, command: &Command) -> Result<(), Failure> {
        if self.status == TransactionStatus::Error && !command.ends_failure() {
            return Err(Failure::new(
                SqlState::FailedTransaction,
                "current transaction is aborted, commands ignored until end of transaction block",
            ));
        }
        Ok(())
    }

    /// Sends up to `limit` rows. `pending` holds what arrived and was not sent yet.
    pub(crate) async fn deliver(
        &mut self,
        running: &mut Running,
        pending: &mut Chunk,
        limit: usize,
        describe: bool,
    ) -> Result<Delivered, Stop> {
        let mut sent = 0;
        loop {
            if !pending.is_empty() {
                let (messages, rows) = pending.take(limit - sent);
                self.outgoing.put_encoded(&messages);
                sent += rows;
                if self.outgoing.is_full() {
                    self.interrupts.guard(self.outgoing.flush()).await??;
                }
            }
            if sent == limit {
                return Ok(Delivered { rows: sent, more: true });
            }
            match self.interrupts.guard(running.next()).await?? {
                Piece::Columns(columns) if describe => {
                    let description = rows::describe(&columns);
                    self.outgoing.put(PgWireBackendMessage::RowDescription(description));
                }
                Piece::Columns(_) => {}
                Piece::Rows(chunk) => *pending = chunk,
                Piece::Done => return Ok(Delivered { rows: sent, more: false }),
            }
        }
    }

    /// Runs what concerns the session itself.
    pub(crate) fn session_command(&mut self, command: Command, describe: bool) -> Result<(), Failure> {
        match command {
            Command::Query(_) => {}
            Command::Set { assignments, local, tag } => {
                for (name, value) in assignments {
                    let told = match local {
                        // Outside a transaction SET LOCAL lasts for nothing.
                        true if self.status == TransactionStatus::Idle => None,
                        true => self.settings.set_local(&name, value)?,
                        false => self.settings.set(&name, value)?,
                    };
                    self.tell(told);
                }
                self.complete(tag, None);
            }
            Command::ResetAll => {
                let told = self.settings.reset_all();
                self.tell(told);
                self.complete("RESET", None);
            }
            Command::Show(_) | Command::ShowAll => {
                let (columns, mut chunk) = self.show(&command)?;
                if describe {
                    let description = rows::describe(&columns);
                    self.outgoing.put(PgWireBackendMessage::RowDescription(description));
                }
                let (messages, _) = chunk.take(usize::MAX);
                self.outgoing.put_encoded(&messages);
                self.complete("SHOW", None);
            }
            Command::Begin { tag } => {
                self.status = TransactionStatus::Transaction;
                self.complete(tag, None);
            }
            Command::Commit => {
                // As in Postgres, committing what has failed rolls it back and says so.
                let failed = self.status == TransactionStatus::Error;
                self.end_transaction(if failed { "ROLLBACK" } else { "COMMIT" });
            }
            Command::Rollback => self.end_transaction("ROLLBACK"),
            Command::RollbackToSavepoint => {
                self.status = TransactionStatus::Transaction;
                self.complete("ROLLBACK", None);
            }
            Command::Deallocate(name) => {
                let tag = if name.is_none() { "DEALLOCATE ALL" } else { "DEALLOCATE" };
                self.extended.deallocate(name.as_deref())?;
                self.complete(tag, None);
            }
            Command::DiscardAll => {
                self.extended = Extended::default();
                let told = self.settings.reset_all();
                self.tell(told);
                self.complete("DISCARD ALL", None);
            }
            Command::Nothing { tag } => self.complete(tag, None),
        }
        Ok(())
    }

    /// The answer to SHOW.
    pub(crate) fn show(&self, command: &Command) -> Result<(rows::Columns, Chunk), Failure> {
        match command {
            Command::Show(name) if name == "session_authorization" => rows::text(&[name], &[vec![self.user.clone()]]),
            Command::Show(name) => rows::text(&[name], &[vec![self.settings.get(name)?]]),
            _ => {
                let all: Vec<Vec<String>> =
                    self.settings.all().into_iter().map(|(name, value)| vec![name, value, String::new()]).collect();
                rows::text(&["name", "setting", "description"], &all)
            }
        }
    }

    /// How results are written for this session now.
    pub(crate) fn output(&self, format: pgwire::api::portal::Format) -> Output {
        Output { format, styles: self.settings.formats(), memory: self.settings.work_mem() }
    }

    pub(crate) fn complete(&mut self, tag: &str, rows: Option<usize>) {
        let tag = match rows {
            Some(rows) => format!("{tag} {rows}"),
            None => tag.to_owned(),
        };
        self.outgoing.put(PgWireBackendMessage::CommandComplete(CommandComplete::new(tag)));
    }

    fn end_transaction(&mut self, tag: &str) {
        self.status = TransactionStatus::Idle;
        self.extended.end_transaction();
        let told = self.settings.end_transaction();
        self.tell(told);
        self.complete(tag, None);
    }

    fn tell(&mut self, changed: impl IntoIterator<Item = (&'static str, String)>) {
        for (name, value) in changed {
            self.outgoing.put(PgWireBackendMessage::ParameterStatus(ParameterStatus::new(name.to_owned(), value)));
        }
    }

    async fn failed(&mut self, failure: Failure) {
        if failure.state == SqlState::QueryCanceled {
            self.engine.activity().calm(INSTANT).await;
        }
        self.status = statement::after_error(self.status);
        self.outgoing.put(PgWireBackendMessage::ErrorResponse(failure.into_error_info().into()));
    }

    async fn ready(&mut self) -> Result<(), Stop> {
        self.outgoing.put(PgWireBackendMessage::ReadyForQuery(ReadyForQuery::new(self.status)));
        self.flush().await
    }

    /// Waits for the client to take what there is, for as long as it is there.
    pub(crate) async fn flush(&mut self) -> Result<(), Stop> {
        tokio::select! {
            biased;
            written = self.outgoing.flush() => Ok(written?),
            Ok(_) = self.interrupts.gone.wait_for(|gone| *gone) => Err(Stop::Gone),
        }
    }
}

/// How far a delivery came.
pub(crate) struct Delivered {
    pub(crate) rows: usize,
    /// The limit was reached; whether there are more rows is not known.
    pub(crate) more: bool,
}

/// The word that the end of a query is reported with.
pub(crate) fn tag_of(query: &statement::Query) -> &'static str {
    match (&query.explain, query.statement.as_ref()) {
        (Some(_), _) => "EXPLAIN",
        (None, sqlparser::ast::Statement::Query(_)) => "SELECT",
        (None, _) => "SHOW",
    }
}
