//! `POST /v1/query`: runs a text, and answers with its rows.
//!
//! ```text
//!   {"sql": …, "user": …} ──▶ a session of the front door, as any ──▶ rows ──▶ JSON lines, or an Arrow stream
//!           closed                 its client is gone: the query is cancelled
//! ```
//!
//! What a driver gets, this gets: the same classes, queues, refusals and limits, for it is a session, at the end of a pair of
//! sockets. The status is that of what came first; what fails after the first row is the last line.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bytes::BytesMut;
use postgres_protocol::message::backend::{ErrorResponseBody, Field, Message};
use punctual_core::class::Client;
use punctual_core::query::SqlState;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_postgres::fallible_iterator::FallibleIterator;

use super::bounded::{Answering, Place};
use super::rows::{Column, Form, Rows};
use super::{Shared, refusal};
use crate::auth::tokens::Grant;
use crate::door::{Hello, Problem, Visit};
use crate::relay::frames;

/// Queries that may come by HTTP at once: fewer than connections, so that health checks and metrics are answered beside them.
pub(super) const AT_ONCE: usize = 48;

/// How long a client may take no part of its answer before it is given up.
const STALLED: Duration = Duration::from_secs(60);

/// Bytes that are written before they are sent, and parts that may wait to be taken.
const PART: usize = 64 << 10;
const PARTS: usize = 4;

/// What is asked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    sql: String,
    user: String,
    /// The user's name, unless it is told.
    database: Option<String>,
    application: Option<String>,
    /// As with SET punctual.class.
    class: Option<String>,
    /// As with SET punctual.slo.
    slo: Option<String>,
    /// As with SET punctual.priority.
    priority: Option<i32>,
}

/// Why there is no answer, or no more of it.
#[derive(Debug)]
enum Failure {
    /// The database or the gateway has said why.
    Told(Problem),
    /// What came cannot be written in the form that was asked for.
    Unwritable(String),
    /// The session has broken off.
    Broken(io::Error),
}

pub(super) async fn query(
    State(shared): State<Shared>,
    ConnectInfo(place): ConnectInfo<Place>,
    Extension(grant): Extension<Grant>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let question: Question = match serde_json::from_slice(&body) {
        Ok(question) => question,
        Err(error) => {
            let what = format!(
                "the body is not what it should be, {{\"sql\": …, \"user\": …}} with database, application, class, slo, priority: {error}"
            );
            return refusal(StatusCode::BAD_REQUEST, &what);
        }
    };
    if !grant.covers(&question.user) {
        let why = "queries need a token that names their user: a line `TOKEN USER` in http_tokens_file";
        return refusal(StatusCode::FORBIDDEN, why);
    }
    let Ok(permit) = Arc::clone(&shared.queries).try_acquire_owned() else {
        let message = format!("{AT_ONCE} queries have come by HTTP and run or wait, as many as may");
        return failed(&Failure::Told(Problem::new(b"53300", message)), None);
    };
    let form = Form::of(&headers);
    let visit = match open(&shared, place.client(), &question) {
        Ok(visit) => visit,
        Err(failure) => return failed(&failure, None),
    };
    let retry_after = Arc::clone(&visit.retry_after);
    let mut exchange =
        Exchange { socket: visit.stream, input: BytesMut::new(), _kept: (permit, place.answers()), begun: false };
    let mut rows = Rows::new(form);
    match exchange.begin(&question.sql, &mut rows).await {
        Ok(over) => answer(exchange, rows, form, over),
        Err(failure) => failed(&failure, retry_after.get().map(|wait| wait.secs_f64())),
    }
}

/// Begins the session.
fn open(shared: &Shared, client: Client, question: &Question) -> Result<Visit, Failure> {
    let Question { sql, user, database, application, class, slo, priority } = question;
    let priority = priority.map(|priority| priority.to_string());
    let settings = [
        ("user", Some(user)),
        ("database", database.as_ref()),
        ("application_name", application.as_ref()),
        ("punctual.class", class.as_ref()),
        ("punctual.slo", slo.as_ref()),
        ("punctual.priority", priority.as_ref()),
    ];
    let given = settings.into_iter().filter_map(|(name, value)| Some((name, value?)));
    if given.clone().any(|(_, value)| value.contains('\0')) || sql.contains('\0') {
        return Err(Failure::Told(Problem::new(b"22021", "a text has a character with the code zero")));
    }
    let mut body = Vec::new();
    given.flat_map(|(name, value)| [name, value]).for_each(|text| frames::text(&mut body, text));
    body.push(0);
    let classes = &shared.front.rules().classes;
    let mut hello = Hello::read(0, &body).map_err(Failure::Told)?;
    hello.heed(classes).map_err(Failure::Told)?;
    Visit::begin(hello, client, shared.link.clone(), Arc::clone(&shared.front)).map_err(Failure::Broken)
}

/// A session that runs one text.
struct Exchange {
    socket: tokio::net::UnixStream,
    input: BytesMut,
    /// The place among those that may ask, and the connection that is not closed for others.
    _kept: (OwnedSemaphorePermit, Answering),
    /// True once the session has greeted.
    begun: bool,
}

impl Exchange {
    /// Sends the text and waits for the first row or end of a statement, or until all is over: true then.
    async fn begin(&mut self, sql: &str, rows: &mut Rows) -> Result<bool, Failure> {
        let mut text = Vec::new();
        frames::query(&mut text, sql);
        self.socket.write_all(&text).await.map_err(Failure::Broken)?;
        loop {
            match self.step(rows).await? {
                Step::Came => return Ok(false),
                Step::Over => return Ok(true),
                Step::Nothing => {}
            }
        }
    }

    /// Takes in one message.
    async fn step(&mut self, rows: &mut Rows) -> Result<Step, Failure> {
        match self.next().await.map_err(Failure::Broken)? {
            Message::RowDescription(body) => {
                let column = |field: Field<'_>| Ok(Column { name: field.name().to_owned(), oid: field.type_oid() });
                let columns: Vec<Column> = body.fields().map(column).collect().map_err(Failure::Broken)?;
                rows.begin(columns).map_err(Failure::Unwritable)?;
                Ok(Step::Nothing)
            }
            Message::DataRow(body) => {
                let ranges: Vec<_> = body.ranges().collect().map_err(Failure::Broken)?;
                rows.row(&ranges, body.buffer()).map_err(Failure::Unwritable)?;
                Ok(Step::of(rows))
            }
            Message::CommandComplete(body) => {
                rows.complete(body.tag().map_err(Failure::Broken)?).map_err(Failure::Unwritable)?;
                Ok(Step::of(rows))
            }
            Message::EmptyQueryResponse => {
                rows.complete("").map_err(Failure::Unwritable)?;
                Ok(Step::of(rows))
            }
            Message::ErrorResponse(body) => Err(Failure::Told(told(&body).map_err(Failure::Broken)?)),
            Message::CopyInResponse(_) => {
                let mut no = Vec::new();
                frames::frame(&mut no, b'f', |out| frames::text(out, "nothing can be copied in by HTTP"));
                self.socket.write_all(&no).await.map_err(Failure::Broken)?;
                Ok(Step::Nothing)
            }
            Message::CopyOutResponse(_) => {
                Err(Failure::Told(Problem::new(b"0A000", "COPY does not go by HTTP: use a SELECT")))
            }
            Message::ReadyForQuery(_) if self.begun => Ok(Step::Over),
            Message::ReadyForQuery(_) => {
                self.begun = true;
                Ok(Step::Nothing)
            }
            _ => Ok(Step::Nothing),
        }
    }

    async fn next(&mut self) -> io::Result<Message> {
        loop {
            if let Some(message) = Message::parse(&mut self.input)? {
                return Ok(message);
            }
            if self.socket.read_buf(&mut self.input).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Sends all that comes, until it is over or nobody takes it any more.
    async fn pour(mut self, mut rows: Rows, mut over: bool, parts: mpsc::Sender<io::Result<Bytes>>) {
        loop {
            if over || rows.len() >= PART {
                let part = if over { rows.end() } else { rows.take() };
                if !send(&parts, part.map_err(io::Error::other)).await || over {
                    return;
                }
            }
            let step = tokio::select! {
                step = self.step(&mut rows) => step,
                () = parts.closed() => return,
            };
            over = match step {
                Ok(step) => matches!(step, Step::Over),
                Err(failure) => {
                    // What has come already goes first.
                    let part = match rows.fail(&failure.as_json()) {
                        true => rows.end().map_err(io::Error::other),
                        false => Err(io::Error::other(failure.message().into_owned())),
                    };
                    send(&parts, part).await;
                    return;
                }
            };
        }
    }
}

/// What a message was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// A row, or the end of a statement.
    Came,
    /// The end of all.
    Over,
    /// Neither.
    Nothing,
}

impl Step {
    /// That something has come, if the answer can begin with that.
    fn of(rows: &Rows) -> Step {
        if rows.can_go(PART) { Step::Came } else { Step::Nothing }
    }
}

/// False if nobody takes it, or not in time.
async fn send(parts: &mpsc::Sender<io::Result<Bytes>>, part: io::Result<Bytes>) -> bool {
    matches!(tokio::time::timeout(STALLED, parts.send(part)).await, Ok(Ok(())))
}

fn answer(exchange: Exchange, rows: Rows, form: Form, over: bool) -> Response {
    let (sender, receiver) = mpsc::channel(PARTS);
    tokio::spawn(exchange.pour(rows, over, sender));
    let parts = futures::stream::unfold(receiver, |mut receiver| async { Some((receiver.recv().await?, receiver)) });
    ([(header::CONTENT_TYPE, form.media_type())], Body::from_stream(parts)).into_response()
}

/// The answer if nothing has come yet. `retry_after` is in seconds.
fn failed(failure: &Failure, retry_after: Option<f64>) -> Response {
    let status = failure.status();
    let mut response = (status, Json(failure.as_json())).into_response();
    if status == StatusCode::TOO_MANY_REQUESTS {
        // Not told: as fast as things change here.
        let seconds = retry_after.map_or(1, |wait| wait.ceil().clamp(1.0, 86_400.0) as u64);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

impl Failure {
    fn status(&self) -> StatusCode {
        let Failure::Told(Problem { sqlstate, .. }) = self else {
            return if matches!(self, Failure::Unwritable(_)) {
                StatusCode::NOT_ACCEPTABLE
            } else {
                StatusCode::SERVICE_UNAVAILABLE
            };
        };
        match sqlstate.code() {
            "53300" => StatusCode::TOO_MANY_REQUESTS,
            "57014" => StatusCode::CONFLICT,
            "28000" | "28P01" | "42501" => StatusCode::FORBIDDEN,
            code if code.starts_with("57") || code.starts_with("08") || code.starts_with("53") => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            code if code.starts_with("XX") || code.starts_with("58") => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    fn message(&self) -> Cow<'_, str> {
        match self {
            Failure::Told(told) => Cow::Borrowed(&told.message),
            Failure::Unwritable(why) => Cow::Borrowed(why),
            Failure::Broken(error) => Cow::Owned(format!("the session broke off: {error}")),
        }
    }

    fn as_json(&self) -> Value {
        let Failure::Told(told) = self else { return json!({ "error": self.message() }) };
        let mut value = json!({ "error": told.message, "sqlstate": told.sqlstate.code() });
        let more = [("detail", &told.detail), ("hint", &told.hint)];
        for (name, text) in more.into_iter().filter_map(|(name, text)| Some((name, text.as_ref()?))) {
            value[name] = text.as_str().into();
        }
        value
    }
}

/// An error as Postgres tells it.
fn told(body: &ErrorResponseBody) -> io::Result<Problem> {
    let mut told = Problem::new(b"XX000", "");
    let mut fields = body.fields();
    while let Some(field) = fields.next()? {
        let text = String::from_utf8_lossy(field.value_bytes()).into_owned();
        match field.type_() {
            b'C' => told.sqlstate = field.value_bytes().try_into().map_or(told.sqlstate, SqlState),
            b'M' => told.message = text,
            b'D' => told.detail = Some(text),
            b'H' => told.hint = Some(text),
            _ => {}
        }
    }
    Ok(told)
}
