//! tokio-postgres as a runner.

use std::collections::HashMap;
use std::error::Error as _;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use futures::{SinkExt, StreamExt, TryStreamExt, future, pin_mut, stream};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_postgres::types::{Format, FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{AsyncMessage, Client, Error, NoTls, Row, RowStream, SimpleQueryMessage, Statement};

use super::cases::{Case, Parameter, Step};
use super::world::{Place, SLEEPING, USER};

/// Carries all cases out, prepared and then as simple queries.
pub(crate) fn run(place: &Place) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut out = String::new();
        let cases = place.cases();
        for way in [Way::Prepared, Way::Simple] {
            let mut shared = Session::open(place, way).await;
            for case in cases.iter().filter(|case| case.is_for("tokio-postgres")) {
                if case.fresh {
                    Session::open(place, way).await.case(case, &mut out).await;
                } else {
                    shared.case(case, &mut out).await;
                }
            }
        }
        out + "\t\t\tend\n"
    })
}

/// How statements without parameters are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Prepared,
    Simple,
}

struct Session<'a> {
    place: &'a Place,
    way: Way,
    client: Client,
    /// What it was told, and what came of it.
    told: Arc<Mutex<Vec<String>>>,
    known: HashMap<String, Statement>,
}

impl<'a> Session<'a> {
    async fn open(place: &'a Place, way: Way) -> Session<'a> {
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let hears = Arc::clone(&told);
        let (client, mut connection) = config(place).connect(NoTls).await.expect("a connection");
        tokio::spawn(async move {
            let messages = stream::poll_fn(move |context| connection.poll_message(context));
            pin_mut!(messages);
            while let Some(Ok(message)) = messages.next().await {
                let line = match message {
                    AsyncMessage::Notice(notice) => format!("notice\t{notice:?}"),
                    AsyncMessage::Notification(news) => format!("notify\t{}\t{}", news.channel(), news.payload()),
                    _ => continue,
                };
                hears.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        Session { place, way, client, told, known: HashMap::new() }
    }

    fn say(&self, line: String) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    async fn case(&mut self, case: &Case, out: &mut String) {
        for (number, step) in case.steps.iter().enumerate() {
            match self.step(step).await {
                Ok(()) => self.say("done".to_owned()),
                Err(error) => self.say(match error.as_db_error() {
                    Some(told) => format!("error\t{told:?}"),
                    None => format!("error\t{error}\t{:?}", error.source().map(ToString::to_string)),
                }),
            }
            // Notices come past the rows: where among them is a matter of time.
            let told = std::mem::take(&mut *self.told.lock().unwrap_or_else(PoisonError::into_inner));
            let (notices, rest): (Vec<String>, Vec<String>) =
                told.into_iter().partition(|line| line.starts_with("noti"));
            for line in notices.iter().chain(&rest) {
                writeln!(out, "{:?}\t{}\t{}\t{line}", self.way, case.name, number + 1).expect("a text grows");
            }
        }
        self.known.clear();
        let _ = self.client.batch_execute("rollback").await;
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    async fn step(&mut self, step: &Step) -> Result<(), Error> {
        let (name, sql) = step.name_and_sql();
        match step.verb.as_str() {
            "run" if self.way == Way::Simple && step.parameters().is_empty() => self.simple(&step.sql).await,
            "run" => {
                let statement = self.client.prepare(&step.sql).await?;
                self.execute(&statement, &step.parameters()).await
            }
            "simple" => self.simple(&step.sql).await,
            "prepare" => {
                let statement = self.client.prepare(sql).await?;
                self.known.insert(name.to_owned(), statement);
                Ok(())
            }
            "execute" => {
                let Some(statement) = self.known.get(&step.sql).cloned() else {
                    self.say("it was not prepared".to_owned());
                    return Ok(());
                };
                self.execute(&statement, &step.parameters()).await
            }
            "close" => {
                self.known.remove(&step.sql);
                Ok(())
            }
            "fetch" => self.fetch(name.parse().expect("a number"), sql, &step.parameters()).await,
            "pipeline" => self.pipeline(&step.sql).await,
            "copyin" => self.copy_in(&step.sql, step.data()).await,
            "copyout" => self.copy_out(&step.sql).await,
            "cancel" => self.cancel(&step.sql).await,
            verb => panic!("no such verb: {verb}"),
        }
    }

    async fn simple(&self, sql: &str) -> Result<(), Error> {
        let messages = self.client.simple_query_raw(sql).await?;
        pin_mut!(messages);
        while let Some(message) = messages.try_next().await? {
            self.say(match message {
                SimpleQueryMessage::Row(row) => {
                    let values = (0..row.len()).map(|at| format!("{:?}", row.get(at)));
                    format!("row\t{}", values.collect::<Vec<_>>().join("\t"))
                }
                SimpleQueryMessage::CommandComplete(rows) => format!("tag\t{rows}"),
                SimpleQueryMessage::RowDescription(columns) => {
                    format!("columns\t{:?}", columns.iter().map(|column| column.name()).collect::<Vec<_>>())
                }
                _ => continue,
            });
        }
        Ok(())
    }

    fn describe(&self, statement: &Statement) {
        let new = self.place.new_oids;
        for column in statement.columns() {
            let table = column.table_oid().filter(|table| *table < new);
            let (name, kind, at) = (column.name(), column.type_(), column.column_id());
            self.say(format!(
                "column\t{name}\t{}\t{kind:?}\t{table:?}\t{at:?}\t{}",
                kind.oid(),
                column.type_modifier()
            ));
        }
        self.say(format!("parameters\t{:?}", statement.params()));
    }

    async fn execute(&self, statement: &Statement, parameters: &[Parameter]) -> Result<(), Error> {
        self.describe(statement);
        let rows = self.client.query_raw(statement, values(parameters)).await?;
        self.rows(rows).await
    }

    async fn rows(&self, rows: RowStream) -> Result<(), Error> {
        pin_mut!(rows);
        while let Some(row) = rows.try_next().await? {
            self.say(shown(&row));
        }
        self.say(format!("tag\t{:?}", rows.rows_affected()));
        Ok(())
    }

    async fn fetch(&mut self, count: i32, sql: &str, parameters: &[Parameter]) -> Result<(), Error> {
        let told = Arc::clone(&self.told);
        let say = |line| told.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        let transaction = self.client.transaction().await?;
        let statement = transaction.prepare(sql).await?;
        let portal = transaction.bind_raw(&statement, values(parameters)).await?;
        loop {
            let rows = transaction.query_portal(&portal, count).await?;
            say(format!("portion\t{}", rows.len()));
            rows.iter().for_each(|row| say(shown(row)));
            if rows.len() < count as usize {
                break;
            }
        }
        drop(portal);
        transaction.commit().await
    }

    async fn pipeline(&self, statements: &str) -> Result<(), Error> {
        let statements: Vec<&str> = statements.split(" ;; ").collect();
        let prepared = future::try_join_all(statements.iter().map(|sql| self.client.prepare(sql))).await?;
        let running = prepared.iter().map(|statement| self.client.query(statement, &[]));
        for rows in future::join_all(running).await {
            for row in rows? {
                self.say(shown(&row));
            }
            self.say("piped".to_owned());
        }
        Ok(())
    }

    async fn copy_in(&self, sql: &str, data: String) -> Result<(), Error> {
        let sink = self.client.copy_in::<_, Bytes>(sql).await?;
        pin_mut!(sink);
        sink.send(Bytes::from(data)).await?;
        self.say(format!("copied\t{}", sink.finish().await?));
        Ok(())
    }

    async fn copy_out(&self, sql: &str) -> Result<(), Error> {
        let parts = self.client.copy_out(sql).await?;
        pin_mut!(parts);
        while let Some(part) = parts.try_next().await? {
            self.say(format!("copied\t{}", part.escape_ascii()));
        }
        Ok(())
    }

    async fn cancel(&self, sql: &str) -> Result<(), Error> {
        let token = self.client.cancel_token();
        let cancel = async {
            let (watcher, connection) = config(self.place).connect(NoTls).await?;
            tokio::spawn(connection);
            while watcher.query_one(SLEEPING, &[]).await?.get::<_, i32>(0) == 0 {}
            // Until the server hangs up, a signal may be on its way that would end the next query.
            let mut server = TcpStream::connect(("127.0.0.1", self.place.port)).await.expect("it listens");
            let sent = token.cancel_query_raw(&mut server, NoTls).await;
            let _ = server.read_to_end(&mut Vec::new()).await;
            sent
        };
        let (ran, sent) = future::join(self.simple(sql), cancel).await;
        sent.expect("a cancel request is sent");
        ran
    }
}

fn config(place: &Place) -> tokio_postgres::Config {
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(place.port).user(USER).dbname(&place.database);
    config
}

/// A parameter in text, whatever its type.
#[derive(Debug)]
struct Text(Option<String>);

impl ToSql for Text {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        Ok(match &self.0 {
            None => IsNull::Yes,
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                IsNull::No
            }
        })
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

fn values(parameters: &[Parameter]) -> Vec<Text> {
    parameters.iter().map(|parameter| Text(parameter.text.clone())).collect()
}

/// A value's own bytes, whatever its type.
struct Raw(String);

impl<'a> FromSql<'a> for Raw {
    fn from_sql(_: &Type, bytes: &'a [u8]) -> Result<Raw, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Raw(bytes.escape_ascii().to_string()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

fn shown(row: &Row) -> String {
    let one = |at| row.get::<_, Option<Raw>>(at).map_or_else(|| "null".to_owned(), |raw| format!("'{}'", raw.0));
    format!("row\t{}", (0..row.len()).map(one).collect::<Vec<_>>().join("\t"))
}
