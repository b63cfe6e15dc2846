//! One statement in SQLite, with walls around it.
//!
//! | what it could try | what stops it |
//! |---|---|
//! | write, attach a file, PRAGMA, read SQLite's own tables | the authorizer: only reading our tables and known functions |
//! | load code | functions are an allow-list; extensions are off |
//! | run for ever (recursion, cross joins, slow patterns) | a limit of steps and of time |
//! | fill the memory (huge values, sorts, results) | limits on values, rows and bytes; a limit on SQLite's heap |
//! | very long or very deep text | limits on text, depth and the size of the program |
//!
//! The database lives for this one statement, and holds only the tables whose names the text contains.

use std::time::{Duration, Instant};

use punctual_core::query::SqlState;
use punctual_core::statement::Statement;
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::{ToSql, ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, ErrorCode, Statement as RawStatement, params_from_iter};

use super::stamp::{is_timestamp, timestamp};
use super::tables::{Cell, ColumnKind, Reader, TABLES, Table};
use super::{Answer, CatalogError, Column, Parameter, Question};
use crate::link::Snapshot;

/// The longest statement.
const MAX_SQL: usize = 64 << 10;

/// Steps of SQLite's machine between two looks at the clock.
const STEPS_A_LOOK: i32 = 1_000;

/// How much a statement may compute.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// Looks at the clock.
    pub(super) looks: u32,
    /// Time.
    pub(super) time: Duration,
}

/// Twenty million steps, or two seconds.
pub(super) const WORK: Work = Work { looks: 20_000, time: Duration::from_secs(2) };

/// The largest result: rows, and bytes of values.
const MAX_ROWS: usize = 100_000;
const MAX_BYTES: usize = 32 << 20;

/// What all of SQLite in this process may have. Each answer holds the rows it reads (40 MB for the longest list of
/// queries) and what it sorts.
const MAX_HEAP: i64 = 192 << 20;

/// See the module: bounds that SQLite checks by itself.
const LIMITS: [(Limit, i32); 9] = [
    (Limit::SQLITE_LIMIT_SQL_LENGTH, MAX_SQL as i32),
    (Limit::SQLITE_LIMIT_LENGTH, 1 << 20),
    (Limit::SQLITE_LIMIT_COLUMN, 200),
    (Limit::SQLITE_LIMIT_EXPR_DEPTH, 100),
    (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 50),
    (Limit::SQLITE_LIMIT_VDBE_OP, 100_000),
    (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 256),
    (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 1),
    (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
];

/// Types that a computed column may turn out to have, the narrowest first.
const INFERRED: [ColumnKind; 3] = [ColumnKind::Int8, ColumnKind::Float8, ColumnKind::Timestamptz];

/// Functions that only compute. Everything else (extensions, tokenizers, virtual tables) stays out.
const FUNCTIONS: &[&str] = &[
    "abs",
    "avg",
    "ceil",
    "ceiling",
    "char",
    "coalesce",
    "concat",
    "concat_ws",
    "count",
    "cume_dist",
    "date",
    "datetime",
    "dense_rank",
    "exp",
    "first_value",
    "floor",
    "format",
    "glob",
    "group_concat",
    "hex",
    "ifnull",
    "iif",
    "if",
    "instr",
    "json",
    "json_array",
    "json_array_length",
    "json_extract",
    "json_group_array",
    "json_group_object",
    "json_object",
    "json_type",
    "json_valid",
    "->",
    "->>",
    "julianday",
    "lag",
    "last_value",
    "lead",
    "length",
    "like",
    "likelihood",
    "likely",
    "ln",
    "log",
    "log10",
    "log2",
    "lower",
    "ltrim",
    "max",
    "min",
    "mod",
    "nth_value",
    "ntile",
    "nullif",
    "octet_length",
    "percent_rank",
    "pow",
    "power",
    "printf",
    "quote",
    "rank",
    "replace",
    "round",
    "row_number",
    "rtrim",
    "sign",
    "sqrt",
    "strftime",
    "string_agg",
    "substr",
    "substring",
    "sum",
    "time",
    "timediff",
    "total",
    "trim",
    "trunc",
    "typeof",
    "unicode",
    "unixepoch",
    "unlikely",
    "upper",
];

/// See [`super::answer`].
pub(super) fn answer(question: Question<'_>, snapshot: &Snapshot, work: Work) -> Result<Answer, CatalogError> {
    if question.sql.len() > MAX_SQL {
        return Err(CatalogError::TooLarge { what: "the statement is longer than 64 KiB" });
    }
    let statements = Statement::read(question.sql).count;
    if statements != 1 {
        return Err(CatalogError::NotOne { statements });
    }
    let reader = if question.is_admin { Reader::Admin } else { Reader::User(question.user) };
    let mut database = Connection::open_in_memory().map_err(error)?;
    fill(&database, question.sql, snapshot, reader).map_err(error)?;
    wall_in(&mut database, work).map_err(error)?;
    run(&database, question)
}

/// Creates the tables, and fills those whose names the text contains.
fn fill(database: &Connection, sql: &str, snapshot: &Snapshot, reader: Reader<'_>) -> rusqlite::Result<()> {
    database.execute_batch(&format!("PRAGMA hard_heap_limit = {MAX_HEAP}; PRAGMA temp_store = memory;"))?;
    database.execute_batch("ATTACH ':memory:' AS punctual; BEGIN")?;
    let sql = sql.to_ascii_lowercase();
    for table in TABLES {
        database.execute_batch(&ddl(table))?;
        if !sql.contains(table.name) {
            continue;
        }
        let places = vec!["?"; table.columns.len()].join(",");
        let mut insert = database.prepare(&format!("INSERT INTO punctual.{} VALUES ({places})", table.name))?;
        for row in (table.rows)(snapshot, reader) {
            insert.execute(params_from_iter(row))?;
        }
    }
    database.execute_batch("COMMIT")
}

/// The declared types come back with the results.
fn ddl(table: &Table) -> String {
    let columns: Vec<String> =
        table.columns.iter().map(|column| format!("\"{}\" {}", column.name, column.kind.name())).collect();
    format!("CREATE TABLE punctual.{} ({})", table.name, columns.join(", "))
}

fn wall_in(database: &mut Connection, work: Work) -> rusqlite::Result<()> {
    for (limit, most) in LIMITS {
        database.set_limit(limit, most)?;
    }
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // A quoted word is a name, as in Postgres, not a text.
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    let (ends, mut looks) = (Instant::now() + work.time, 0);
    database.progress_handler(
        STEPS_A_LOOK,
        Some(move || {
            looks += 1;
            looks > work.looks || Instant::now() > ends
        }),
    )?;
    database.authorizer(Some(authorize))
}

fn authorize(context: AuthContext<'_>) -> Authorization {
    let allowed = match context.action {
        AuthAction::Select | AuthAction::Recursive => true,
        // A count of rows, of a common table expression too, which has no other name. Whatever it is, this database holds
        // nothing but our tables, and the PRAGMA behind a virtual table is asked about on its own.
        AuthAction::Read { column_name: "", .. } => true,
        AuthAction::Read { table_name, .. } => {
            context.database_name == Some("punctual") && Table::named(&table_name.to_ascii_lowercase()).is_some()
        }
        AuthAction::Function { function_name } => {
            FUNCTIONS.iter().any(|known| known.eq_ignore_ascii_case(function_name))
        }
        _ => false,
    };
    if allowed { Authorization::Allow } else { Authorization::Deny }
}

fn run(database: &Connection, question: Question<'_>) -> Result<Answer, CatalogError> {
    let mut statement = database.prepare(question.sql).map_err(error)?;
    if statement.column_count() == 0 {
        return Err(CatalogError::NotAllowed { message: "it returns no rows".to_owned() });
    }
    bind(&mut statement, question.parameters)?;
    let declared: Vec<(String, Option<ColumnKind>)> =
        statement.columns().map(|column| (column.name().to_owned(), column.decl_type().and_then(kind_named))).collect();
    let (mut values, mut bytes) = (Vec::new(), 0);
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(error)? {
        if values.len() == MAX_ROWS {
            return Err(CatalogError::TooLarge { what: "the result has more than 100,000 rows" });
        }
        let mut read = Vec::with_capacity(declared.len());
        for at in 0..declared.len() {
            let value = owned(row.get_ref(at).map_err(error)?);
            bytes += size_of::<Value>() + length(&value);
            read.push(value);
        }
        if bytes > MAX_BYTES {
            return Err(CatalogError::TooLarge { what: "the result is larger than 32 MiB" });
        }
        values.push(read);
    }
    Ok(typed(declared, values))
}

/// Gives `$1`, `$2`, ... their values. SQLite takes `$1::int8` for a name, so a cast needs no more than to be passed over.
fn bind(statement: &mut RawStatement<'_>, values: &[Parameter]) -> Result<(), CatalogError> {
    for at in 1..=statement.parameter_count() {
        let name = statement.parameter_name(at).unwrap_or("?").to_owned();
        let number = name.strip_prefix('$').map(|rest| rest.split_once("::").map_or(rest, |(digits, _)| digits));
        let number = number.and_then(|digits| digits.parse::<usize>().ok());
        let Some(value) = number.and_then(|number| values.get(number.checked_sub(1)?)) else {
            return Err(CatalogError::NoParameter { name });
        };
        statement.raw_bind_parameter(at, value).map_err(error)?;
    }
    Ok(())
}

/// SQLite's texts can hold any bytes (`CAST(x'ff' AS text)`), ours cannot.
fn owned(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

/// Gives each column a type that all its values have: the declared one, else the narrowest that fits.
fn typed(declared: Vec<(String, Option<ColumnKind>)>, values: Vec<Vec<Value>>) -> Answer {
    let columns: Vec<Column> = declared
        .into_iter()
        .enumerate()
        .map(|(at, (name, declared))| {
            let fits = |kind: ColumnKind| values.iter().all(|row| has_kind(&row[at], kind));
            let known = values.iter().any(|row| row[at] != Value::Null);
            let narrowest = || INFERRED.into_iter().find(|kind| known && fits(*kind));
            let kind = declared.filter(|kind| fits(*kind)).or_else(narrowest).unwrap_or(ColumnKind::Text);
            Column { name, kind }
        })
        .collect();
    let show =
        |row: Vec<Value>| row.into_iter().zip(&columns).map(|(value, column)| text(value, column.kind)).collect();
    let rows = values.into_iter().map(show).collect();
    Answer { columns, rows }
}

fn kind_named(name: &str) -> Option<ColumnKind> {
    use ColumnKind::{Bool, Float8, Int8, Text, Timestamptz};
    [Int8, Float8, Text, Bool, Timestamptz].into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name))
}

fn has_kind(value: &Value, kind: ColumnKind) -> bool {
    match (value, kind) {
        (Value::Null, _) | (_, ColumnKind::Text) => true,
        (Value::Integer(_), ColumnKind::Int8 | ColumnKind::Float8) | (Value::Real(_), ColumnKind::Float8) => true,
        (Value::Integer(number), ColumnKind::Bool) => matches!(number, 0 | 1),
        (Value::Text(text), ColumnKind::Timestamptz) => is_timestamp(text),
        _ => false,
    }
}

/// As Postgres would print it.
fn text(value: Value, kind: ColumnKind) -> Option<String> {
    Some(match (value, kind) {
        (Value::Null, _) => return None,
        (Value::Integer(number), ColumnKind::Bool) => if number == 0 { "f" } else { "t" }.to_owned(),
        (Value::Integer(number), _) => number.to_string(),
        (Value::Real(number), _) if number.is_infinite() => {
            if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
        }
        (Value::Real(number), _) => number.to_string(),
        (Value::Text(text), ColumnKind::Timestamptz) => format!("{text}+00"),
        // The wire's texts end at a NUL.
        (Value::Text(text), _) => text.replace('\0', "\u{fffd}"),
        (Value::Blob(bytes), _) => {
            let mut hex = String::with_capacity(2 + 2 * bytes.len());
            hex.push_str("\\x");
            bytes.iter().for_each(|byte| hex.push_str(&format!("{byte:02x}")));
            hex
        }
    })
}

fn length(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Blob(bytes) => 2 * bytes.len(),
        Value::Null | Value::Integer(_) | Value::Real(_) => 0,
    }
}

impl ToSql for Parameter {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Parameter::Null => ToSqlOutput::Owned(Value::Null),
            Parameter::Int(number) => ToSqlOutput::Owned(Value::Integer(*number)),
            Parameter::Float(number) => ToSqlOutput::Owned(Value::Real(*number)),
            Parameter::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        })
    }
}

impl ToSql for Cell {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Cell::Null => ToSqlOutput::Owned(Value::Null),
            Cell::Int(number) => ToSqlOutput::Owned(Value::Integer(*number)),
            // Gateways are numbered so that ids fit (`gateway.id`).
            Cell::Id(id) => ToSqlOutput::Owned(Value::Integer(i64::try_from(*id).unwrap_or(i64::MAX))),
            Cell::Float(number) => ToSqlOutput::Owned(Value::Real(*number)),
            Cell::Text(text) | Cell::Json(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Cell::Bool(truth) => ToSqlOutput::Owned(Value::Integer(i64::from(*truth))),
            Cell::At(time) => ToSqlOutput::Owned(Value::Text(timestamp(*time))),
        })
    }
}

/// SQLite's errors in ours. Its codes are coarse, so syntax and names are told apart by its words.
fn error(error: rusqlite::Error) -> CatalogError {
    let (code, message) = match error {
        rusqlite::Error::SqliteFailure(error, message) => (error.code, message.unwrap_or_else(|| error.to_string())),
        rusqlite::Error::SqlInputError { error, msg, .. } => (error.code, msg),
        other => return CatalogError::Broken { message: other.to_string() },
    };
    let wrong = |code: &[u8; 5]| CatalogError::Wrong { sqlstate: SqlState(*code), message: message.clone() };
    match code {
        ErrorCode::OperationInterrupted => CatalogError::TookTooLong,
        ErrorCode::OutOfMemory => CatalogError::TooMuchMemory,
        ErrorCode::TooBig => CatalogError::TooLarge { what: "a value would be larger than 1 MiB" },
        ErrorCode::AuthorizationForStatementDenied => CatalogError::NotAllowed { message },
        ErrorCode::Unknown => {
            let says = |words: &str| message.contains(words);
            if says("no such table") {
                wrong(b"42P01")
            } else if says("no such column") {
                wrong(b"42703")
            } else if says("no such function") || says("wrong number of arguments") {
                wrong(b"42883")
            } else if says("ambiguous column") {
                wrong(b"42702")
            } else if says("misuse of") {
                wrong(b"42803")
            } else if says("not authorized") || says("prohibited") {
                CatalogError::NotAllowed { message }
            } else {
                wrong(b"42601")
            }
        }
        _ => CatalogError::Broken { message },
    }
}
