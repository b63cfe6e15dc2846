//! Runs the cases of a file with sqlx, and prints what the driver sees: the same program straight and through the gateway.
//!
//! ```text
//! sqlx-runner sqlx PORT DATABASE CASES...
//! ```

#[path = "../../cases.rs"]
#[allow(dead_code, reason = "a part of it is for those who compare")]
mod cases;

use std::collections::HashMap;
use std::env;
use std::path::PathBuf;

use cases::{Case, Parameter, Step};
use futures::{StreamExt, TryStreamExt, pin_mut};
use sqlx::postgres::{
    PgArguments, PgConnectOptions, PgConnection, PgDatabaseError, PgErrorPosition, PgQueryResult, PgRow, PgSslMode,
    PgStatement,
};
use sqlx::{
    Arguments as _, AssertSqlSafe, Column as _, ConnectOptions as _, Connection as _, Either, Error, Executor as _,
    Postgres, Row as _, SqlSafeStr as _, Statement as _, ValueRef as _, query_with, raw_sql,
};

/// Where cases are carried out.
struct Place {
    port: u16,
    database: String,
    new_oids: u32,
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(run());
}

/// Carries all cases out, with statements that are kept and with such that are not.
async fn run() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [runner, port, database, files @ ..] = arguments.as_slice() else { panic!("arguments are missing") };
    let new_oids = env::var("PUNCTUAL_NEW_OIDS").ok().and_then(|id| id.parse().ok()).unwrap_or(u32::MAX);
    let place = Place { port: port.parse().expect("a port"), database: database.clone(), new_oids };
    let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
    let cases = cases::read(&files);
    for way in [Way::Kept, Way::Unkept] {
        let mut shared = Session::open(&place, way).await;
        for case in cases.iter().filter(|case| case.is_for(runner)) {
            if case.fresh {
                Session::open(&place, way).await.case(case).await;
            } else {
                shared.case(case).await;
            }
        }
    }
    println!("\t\t\tend");
}

/// What becomes of the statements that it prepares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Kept,
    Unkept,
}

struct Session<'a> {
    place: &'a Place,
    way: Way,
    connection: PgConnection,
    known: HashMap<String, PgStatement>,
    seen: Vec<String>,
}

impl<'a> Session<'a> {
    async fn open(place: &'a Place, way: Way) -> Session<'a> {
        let options = PgConnectOptions::new_without_pgpass()
            .host("127.0.0.1")
            .port(place.port)
            .username("ann")
            .database(&place.database)
            .ssl_mode(PgSslMode::Disable);
        let connection = options.connect().await.expect("a connection");
        Session { place, way, connection, known: HashMap::new(), seen: Vec::new() }
    }

    async fn case(&mut self, case: &Case) {
        for (number, step) in case.steps.iter().enumerate() {
            let line = match self.step(step).await {
                Ok(()) => "done".to_owned(),
                Err(Error::Database(error)) => told(error.downcast_ref()),
                Err(error) => format!("error\t{error}"),
            };
            self.seen.push(line.replace('\n', "\\n"));
            for line in self.seen.drain(..) {
                println!("{:?}\t{}\t{}\t{line}", self.way, case.name, number + 1);
            }
        }
        self.known.clear();
        let _ = self.connection.execute(raw_sql("rollback")).await;
    }

    async fn step(&mut self, step: &Step) -> Result<(), Error> {
        let (name, sql) = step.name_and_sql();
        match step.verb.as_str() {
            "run" => self.statement(&step.sql, &step.parameters()).await,
            "simple" => self.simple(&step.sql).await,
            "prepare" => {
                let statement = self.prepare(sql).await?;
                self.known.insert(name.to_owned(), statement);
                Ok(())
            }
            "execute" => self.execute(&step.sql, &step.parameters()).await,
            "close" => {
                self.known.remove(&step.sql);
                self.connection.clear_cached_statements().await
            }
            "fetch" => self.statement(sql, &step.parameters()).await,
            "copyin" => self.copy_in(&step.sql, step.data()).await,
            "copyout" => self.copy_out(&step.sql).await,
            verb => panic!("no such verb: {verb}"),
        }
    }

    async fn prepare(&mut self, sql: &str) -> Result<PgStatement, Error> {
        let statement = self.connection.prepare(AssertSqlSafe(sql.to_owned()).into_sql_str()).await?;
        let new = self.place.new_oids;
        for column in statement.columns() {
            let table = column.relation_id().map(|table| table.0).filter(|table| *table < new);
            let (name, kind, at) = (column.name(), column.type_info(), column.relation_attribute_no());
            self.seen.push(format!("column\t{name}\t{:?}\t{kind:?}\t{table:?}\t{at:?}", kind.oid()));
        }
        self.seen.push(format!("parameters\t{:?}", statement.parameters()));
        Ok(statement)
    }

    async fn statement(&mut self, sql: &str, parameters: &[Parameter]) -> Result<(), Error> {
        let kept = self.way == Way::Kept;
        if kept {
            self.prepare(sql).await?;
        }
        let query = query_with::<Postgres, _>(AssertSqlSafe(sql.to_owned()), arguments(parameters)?).persistent(kept);
        let results = self.connection.fetch_many(query);
        pin_mut!(results);
        while let Some(result) = results.try_next().await? {
            self.seen.push(shown(result));
        }
        Ok(())
    }

    async fn execute(&mut self, name: &str, parameters: &[Parameter]) -> Result<(), Error> {
        let Some(statement) = self.known.get(name) else {
            self.seen.push("it was not prepared".to_owned());
            return Ok(());
        };
        let results = self.connection.fetch_many(statement.query_with(arguments(parameters)?));
        pin_mut!(results);
        while let Some(result) = results.try_next().await? {
            self.seen.push(shown(result));
        }
        Ok(())
    }

    async fn simple(&mut self, sql: &str) -> Result<(), Error> {
        let results = self.connection.fetch_many(raw_sql(AssertSqlSafe(sql.to_owned())));
        pin_mut!(results);
        while let Some(result) = results.try_next().await? {
            self.seen.push(shown(result));
        }
        Ok(())
    }

    async fn copy_in(&mut self, sql: &str, data: String) -> Result<(), Error> {
        let mut sink = self.connection.copy_in_raw(sql).await?;
        sink.send(data.as_bytes()).await?;
        let rows = sink.finish().await?;
        self.seen.push(format!("copied\t{rows}"));
        Ok(())
    }

    async fn copy_out(&mut self, sql: &str) -> Result<(), Error> {
        let mut parts = self.connection.copy_out_raw(sql).await?;
        while let Some(part) = parts.next().await {
            self.seen.push(format!("copied\t{}", part?.escape_ascii()));
        }
        Ok(())
    }
}

/// An error of the server, but for the line of its source: sqlx asks for statements that are not there, and then it is the
/// gateway that says so.
fn told(error: &PgDatabaseError) -> String {
    let position = error.position().map(|position| match position {
        PgErrorPosition::Original(at) => format!("at {at}"),
        PgErrorPosition::Internal { position, query } => format!("at {position} of {query}"),
    });
    let of = (error.severity(), error.code(), error.message(), position, error.detail(), error.hint(), error.r#where());
    let on = (error.schema(), error.table(), error.column(), error.data_type(), error.constraint());
    format!("error\t{of:?}\t{on:?}")
}

fn shown(result: Either<PgQueryResult, PgRow>) -> String {
    let row = match result {
        Either::Left(result) => return format!("tag\t{result:?}"),
        Either::Right(row) => row,
    };
    let one = |at: usize| match row.try_get_raw(at) {
        Ok(value) if value.is_null() => format!("{:?} null", value.format()),
        Ok(value) => {
            let bytes = value.as_bytes().map(|bytes| bytes.escape_ascii().to_string());
            format!("{:?} '{}'", value.format(), bytes.unwrap_or_else(|error| error.to_string()))
        }
        Err(error) => error.to_string(),
    };
    format!("row\t{}", (0..row.len()).map(one).collect::<Vec<_>>().join("\t"))
}

/// Parameters as Rust has them; what it has not is a text, which the statement casts.
fn arguments(parameters: &[Parameter]) -> Result<PgArguments, Error> {
    let mut arguments = PgArguments::default();
    for Parameter { kind, text } in parameters {
        let text = text.as_deref();
        fn read<T: std::str::FromStr>(text: Option<&str>) -> Option<T> {
            text.map(|text| text.parse().unwrap_or_else(|_| panic!("no such value: {text}")))
        }
        let inside = || text.map(|text| text.trim_matches(['{', '}']).split(','));
        let added = match kind.as_str() {
            "bool" => arguments.add(text.map(|text| text == "t")),
            "int2" => arguments.add(read::<i16>(text)),
            "int4" => arguments.add(read::<i32>(text)),
            "int8" => arguments.add(read::<i64>(text)),
            "float4" => arguments.add(read::<f32>(text)),
            "float8" => arguments.add(read::<f64>(text)),
            "bytea" => arguments.add(text.map(|text| {
                let digits = text.as_bytes()[2..].chunks(2).map(|pair| std::str::from_utf8(pair).expect("digits"));
                digits.map(|pair| u8::from_str_radix(pair, 16).expect("digits")).collect::<Vec<u8>>()
            })),
            "int4[]" => {
                arguments.add(inside().map(|all| all.map(|one| one.parse().expect("a number")).collect::<Vec<i32>>()))
            }
            "text[]" => arguments.add(inside().map(|all| all.map(str::to_owned).collect::<Vec<String>>())),
            _ => arguments.add(text.map(str::to_owned)),
        };
        added.map_err(Error::Encode)?;
    }
    Ok(arguments)
}
