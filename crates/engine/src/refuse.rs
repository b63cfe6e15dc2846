//! What this server does not do, said before anything is planned.
//!
//! A cluster answers queries. DataFusion by itself also creates tables over any file, copies results to any
//! path and changes its own options, so a statement is let through only if it begins like a query or like
//! one of the few session commands that drivers send. Behind this door stands a second: the planner's own
//! check (`SQLOptions`) refuses a plan that would define, write or set anything, wherever in the text it hides.

use sqlparser::ast::{Query, SetExpr, Statement};

use crate::sqlstate::{Failure, SqlState};

/// First words of statements that exist in Postgres or DataFusion and are refused here.
const REFUSED: [&str; 36] = [
    "ALTER",
    "ANALYZE",
    "ATTACH",
    "CACHE",
    "CALL",
    "CHECKPOINT",
    "CLUSTER",
    "COMMENT",
    "COPY",
    "CREATE",
    "DECLARE",
    "DELETE",
    "DETACH",
    "DO",
    "DROP",
    "EXECUTE",
    "EXPORT",
    "FETCH",
    "GRANT",
    "IMPORT",
    "INSERT",
    "INSTALL",
    "LISTEN",
    "LOAD",
    "LOCK",
    "MERGE",
    "MOVE",
    "NOTIFY",
    "PRAGMA",
    "PREPARE",
    "REFRESH",
    "REINDEX",
    "REVOKE",
    "TRUNCATE",
    "UPDATE",
    "VACUUM",
];

/// Whether a statement that begins with `word` is refused unread.
pub(crate) fn by_first_word(word: &str) -> Option<Failure> {
    let word = word.to_ascii_uppercase();
    REFUSED.contains(&word.as_str()).then(|| statement(&word))
}

/// The refusal of a kind of statement.
pub(crate) fn statement(kind: &str) -> Failure {
    let hint = match kind {
        "DECLARE" | "FETCH" | "MOVE" => "Use a portal with a row limit (a driver's fetch size) instead of a cursor.",
        "PREPARE" | "EXECUTE" => "Use the prepared statements of the extended protocol, as drivers do.",
        _ => "Send SELECT, WITH, VALUES, EXPLAIN, SHOW or SET.",
    };
    Failure::new(SqlState::FeatureNotSupported, format!("{kind} is not supported: this cluster answers queries only"))
        .hint(hint)
}

/// Whether something that parsed as a query is one: Postgres allows statements that write inside WITH, and
/// SELECT INTO makes a table.
pub(crate) fn query(query: &Query) -> Result<(), Failure> {
    for table in query.with.iter().flat_map(|with| &with.cte_tables) {
        self::query(&table.query)?;
    }
    body(&query.body)
}

fn body(expression: &SetExpr) -> Result<(), Failure> {
    match expression {
        SetExpr::Select(select) if select.into.is_some() => Err(statement("SELECT INTO")),
        SetExpr::Select(_) | SetExpr::Values(_) | SetExpr::Table(_) => Ok(()),
        SetExpr::Query(inner) => query(inner),
        SetExpr::SetOperation { left, right, .. } => {
            body(left)?;
            body(right)
        }
        SetExpr::Insert(inner) | SetExpr::Update(inner) => Err(statement(first_word(inner))),
        SetExpr::Delete(inner) | SetExpr::Merge(inner) => Err(statement(first_word(inner))),
    }
}

fn first_word(statement: &Statement) -> &'static str {
    match statement {
        Statement::Insert(_) => "INSERT",
        Statement::Update(_) => "UPDATE",
        Statement::Delete(_) => "DELETE",
        _ => "MERGE",
    }
}
