//! From the text of a message to the commands in it.
//!
//! A simple message may hold several statements; all are parsed before the first runs, as in Postgres, so a
//! mistake in the last one runs none. What is about the session (SET, SHOW, BEGIN, ...) becomes a small
//! command here; everything else that is allowed is a query for the engine, with its own text, so that hints
//! in comments survive.

use pgwire::messages::response::TransactionStatus;
use sqlparser::ast::{
    CloseCursor, ContextModifier, DiscardObject, Expr, Ident, ObjectName, Reset, Set, Statement, Value,
};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use crate::refuse;
use crate::sqlstate::{Failure, SqlState};

/// One statement.
#[derive(Debug, Clone)]
pub(crate) enum Command {
    /// For the engine.
    Query(Query),
    /// SET, RESET and their relatives: names with values, `None` for the default.
    Set {
        assignments: Vec<(String, Option<String>)>,
        local: bool,
        tag: &'static str,
    },
    ResetAll,
    Show(String),
    ShowAll,
    Begin {
        tag: &'static str,
    },
    Commit,
    Rollback,
    RollbackToSavepoint,
    /// DEALLOCATE of one name, or of all.
    Deallocate(Option<String>),
    DiscardAll,
    /// Accepted, and nothing to do: there are no locks, cursors, channels or roles here.
    Nothing {
        tag: &'static str,
    },
}

/// A query, or the request to explain one.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    /// Its text, with the comments before it.
    pub(crate) text: String,
    /// The query itself, without EXPLAIN. A `SHOW TABLES` or the like is here too.
    pub(crate) statement: Box<Statement>,
    pub(crate) explain: Option<Explain>,
}

/// How a query is to be explained.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Explain {
    pub(crate) analyze: bool,
    pub(crate) verbose: bool,
    /// With what is estimated of each step. Here only if it is asked for: it is long.
    pub(crate) costs: bool,
    /// A name for DataFusion: `indent`, `tree`, `pgjson`, `graphviz`.
    pub(crate) format: Option<String>,
}

impl Command {
    /// Whether it may run in a transaction that has failed.
    pub(crate) fn ends_failure(&self) -> bool {
        matches!(self, Self::Commit | Self::Rollback | Self::RollbackToSavepoint)
    }
}

/// The statements of a message, in order.
pub(crate) fn parse(sql: &str) -> Result<Vec<Command>, Failure> {
    let places = Places::of(sql);
    let dialect = PostgreSqlDialect {};
    let tokens = Tokenizer::new(&dialect, sql).tokenize_with_location().map_err(|error| {
        let position = places.characters_to(error.location);
        Failure::new(SqlState::SyntaxError, format!("syntax error: {}", error.message)).at(position)
    })?;
    let mut commands = Vec::new();
    let mut start = 0;
    for part in tokens.split(|token| token.token == Token::SemiColon) {
        let end = part.last().map_or(start, |last| places.bytes_to(last.span.end));
        let meaningful: Vec<TokenWithSpan> = part.iter().filter(|t| !is_blank(t)).cloned().collect();
        if !meaningful.is_empty() {
            let text = sql.get(start..end.max(start)).unwrap_or(sql).trim();
            commands.push(parse_one(text, meaningful, &places)?);
        }
        // The semicolon itself.
        start = (end + 1).min(sql.len());
    }
    Ok(commands)
}

/// A transaction status as SQL would have it after an error.
pub(crate) fn after_error(status: TransactionStatus) -> TransactionStatus {
    match status {
        TransactionStatus::Idle => TransactionStatus::Idle,
        TransactionStatus::Transaction | TransactionStatus::Error => TransactionStatus::Error,
    }
}

fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_) | Token::EOF)
}

fn word(token: Option<&TokenWithSpan>) -> Option<String> {
    match token.map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => Some(word.value.to_ascii_uppercase()),
        _ => None,
    }
}

fn parse_one(text: &str, mut tokens: Vec<TokenWithSpan>, places: &Places<'_>) -> Result<Command, Failure> {
    let first = word(tokens.first());
    if let Some(refusal) = first.as_deref().and_then(refuse::by_first_word) {
        return Err(refusal);
    }
    match first.as_deref() {
        Some("ABORT") => return Ok(Command::Rollback),
        Some("UNLISTEN") => return Ok(Command::Nothing { tag: "UNLISTEN" }),
        _ => {}
    }
    let explain = match first.as_deref() {
        Some("EXPLAIN") => Some(take_explain(&mut tokens, places)?),
        _ => None,
    };
    let statement = parse_tokens(tokens, places)?;
    if explain.is_some() && !matches!(statement, Statement::Query(_)) {
        return Err(refuse::statement("EXPLAIN of anything but a query"));
    }
    let text = text.to_owned();
    match statement {
        Statement::Query(ref query) => {
            refuse::query(query)?;
            Ok(Command::Query(Query { text, statement: Box::new(statement), explain }))
        }
        Statement::ShowTables { .. } | Statement::ShowColumns { .. } => {
            Ok(Command::Query(Query { text, statement: Box::new(statement), explain }))
        }
        other => session_command(other),
    }
}

fn parse_tokens(tokens: Vec<TokenWithSpan>, places: &Places<'_>) -> Result<Statement, Failure> {
    let end = tokens.last().map(|last| last.span.end);
    let dialect = PostgreSqlDialect {};
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens);
    let parsed = parser.parse_statement().and_then(|statement| {
        let next = parser.peek_token();
        match next.token {
            Token::EOF => Ok(statement),
            ref other => Err(ParserError::ParserError(format!("unexpected \"{other}\"{}", next.span.start))),
        }
    });
    parsed.map_err(|error| match error {
        ParserError::RecursionLimitExceeded => {
            Failure::new(SqlState::StatementTooComplex, "the statement is nested too deeply")
        }
        ParserError::ParserError(text) | ParserError::TokenizerError(text) => {
            let (message, location) = split_location(&text);
            let place = location.or(end).map_or(1, |at| places.characters_to(at));
            Failure::new(SqlState::SyntaxError, format!("syntax error: {message}")).at(place)
        }
    })
}

/// The parser appends its place to the text; this takes it off again.
fn split_location(text: &str) -> (&str, Option<Location>) {
    let parts = text.rsplit_once(" at Line: ").and_then(|(message, place)| {
        let (line, column) = place.split_once(", Column: ")?;
        Some((message, Location::new(line.parse().ok()?, column.trim().parse().ok()?)))
    });
    match parts {
        Some((message, location)) => (message, Some(location)),
        None => (text, None),
    }
}

/// Takes `EXPLAIN [ANALYZE] [VERBOSE] [FORMAT name]` or `EXPLAIN (option, ...)` off the front. Read here
/// because Postgres's options and DataFusion's formats are both wanted, and neither parser knows the other's.
fn take_explain(tokens: &mut Vec<TokenWithSpan>, places: &Places<'_>) -> Result<Explain, Failure> {
    let mut explain = Explain::default();
    let mut at = 1;
    let bracketed = matches!(tokens.get(at), Some(t) if t.token == Token::LParen);
    at += usize::from(bracketed);
    loop {
        let unexpected = |at: usize| {
            let place = tokens.get(at).or(tokens.last()).map_or(1, |t| places.characters_to(t.span.start));
            Failure::new(SqlState::SyntaxError, "syntax error in the options of EXPLAIN").at(place)
        };
        let value = word(tokens.get(at + 1));
        match word(tokens.get(at)).as_deref() {
            Some("ANALYZE") => explain.analyze = !bracketed || value.as_deref() != Some("FALSE"),
            Some("VERBOSE") => explain.verbose = !bracketed || value.as_deref() != Some("FALSE"),
            Some("FORMAT") => {
                let name = value.clone().ok_or_else(|| unexpected(at + 1))?;
                explain.format = Some(explain_format(&name)?);
            }
            Some("COSTS") if bracketed => {
                explain.costs = value.as_deref() != Some("OFF") && value.as_deref() != Some("FALSE")
            }
            // Postgres's other options change what is shown, not what is meant.
            Some("SETTINGS" | "BUFFERS" | "WAL" | "TIMING" | "SUMMARY") if bracketed => {}
            _ if bracketed => return Err(unexpected(at)),
            _ => break,
        }
        let has_value = match word(tokens.get(at)).as_deref() {
            Some("FORMAT") => true,
            _ => bracketed && value.is_some(),
        };
        at += 1 + usize::from(has_value);
        if bracketed {
            match tokens.get(at).map(|t| &t.token) {
                Some(Token::Comma) => at += 1,
                Some(Token::RParen) => {
                    at += 1;
                    break;
                }
                _ => return Err(unexpected(at)),
            }
        }
    }
    tokens.drain(..at);
    if tokens.is_empty() {
        return Err(Failure::new(SqlState::SyntaxError, "syntax error: EXPLAIN of what?"));
    }
    Ok(explain)
}

fn explain_format(name: &str) -> Result<String, Failure> {
    match name {
        "TEXT" | "INDENT" => Ok("indent".to_owned()),
        "JSON" | "PGJSON" => Ok("pgjson".to_owned()),
        "TREE" => Ok("tree".to_owned()),
        "GRAPHVIZ" => Ok("graphviz".to_owned()),
        other => Err(Failure::new(
            SqlState::InvalidParameterValue,
            format!("unrecognized value for EXPLAIN option \"format\": \"{other}\""),
        )
        .hint("The formats are TEXT, TREE, JSON and GRAPHVIZ.")),
    }
}

fn session_command(statement: Statement) -> Result<Command, Failure> {
    Ok(match statement {
        Statement::Set(set) => return set_command(set),
        Statement::Reset(reset) => match reset.reset {
            Reset::ALL => Command::ResetAll,
            Reset::ConfigurationParameter(name) => {
                Command::Set { assignments: vec![(dotted(&name), None)], local: false, tag: "RESET" }
            }
        },
        Statement::ShowVariable { variable } => show_command(&variable),
        Statement::StartTransaction { begin: true, .. } => Command::Begin { tag: "BEGIN" },
        Statement::StartTransaction { .. } => Command::Begin { tag: "START TRANSACTION" },
        Statement::Commit { .. } => Command::Commit,
        Statement::Rollback { savepoint: Some(_), .. } => Command::RollbackToSavepoint,
        Statement::Rollback { .. } => Command::Rollback,
        Statement::Savepoint { .. } => Command::Nothing { tag: "SAVEPOINT" },
        Statement::ReleaseSavepoint { .. } => Command::Nothing { tag: "RELEASE" },
        Statement::Deallocate { name, .. } if is_all(&name) => Command::Deallocate(None),
        Statement::Deallocate { name, .. } => Command::Deallocate(Some(name.value)),
        Statement::Discard { object_type: DiscardObject::ALL } => Command::DiscardAll,
        Statement::Discard { .. } => Command::Nothing { tag: "DISCARD" },
        Statement::Close { cursor: CloseCursor::All } => Command::Nothing { tag: "CLOSE CURSOR ALL" },
        Statement::Close { cursor: CloseCursor::Specific { name } } => {
            let message = format!("cursor \"{}\" does not exist", name.value);
            return Err(Failure::new(SqlState::InvalidCursorName, message));
        }
        other => {
            let text = other.to_string();
            return Err(refuse::statement(text.split_whitespace().next().unwrap_or("This")));
        }
    })
}

fn set_command(set: Set) -> Result<Command, Failure> {
    let one = |name: String, value: Option<String>, local: bool| Command::Set {
        assignments: vec![(name, value)],
        local,
        tag: "SET",
    };
    Ok(match set {
        Set::SingleAssignment { scope, variable, values, .. } => {
            let local = matches!(scope, Some(ContextModifier::Local));
            one(dotted(&variable), set_value(&values), local)
        }
        Set::SetTimeZone { local, value } => {
            let value = set_value(&[value]).filter(|zone| !zone.eq_ignore_ascii_case("local"));
            one("timezone".to_owned(), value, local)
        }
        Set::SetNames { charset_name, .. } => one("client_encoding".to_owned(), Some(charset_name.value), false),
        Set::SetNamesDefault {} => one("client_encoding".to_owned(), None, false),
        // Everything here is read only and sees one state: any isolation is kept.
        Set::SetTransaction { .. } => Command::Nothing { tag: "SET" },
        Set::SetRole { role_name: None, .. } => Command::Nothing { tag: "SET" },
        Set::SetRole { .. } | Set::SetSessionAuthorization(_) => {
            return Err(Failure::new(SqlState::InsufficientPrivilege, "a cluster has no roles to change to"));
        }
        _ => return Err(refuse::statement("This form of SET")),
    })
}

fn show_command(variable: &[Ident]) -> Command {
    let words: Vec<String> = variable.iter().map(|ident| ident.value.to_ascii_lowercase()).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["all"] => Command::ShowAll,
        ["time", "zone"] => Command::Show("timezone".to_owned()),
        ["transaction", "isolation", "level"] => Command::Show("transaction_isolation".to_owned()),
        ["session", "authorization"] => Command::Show("session_authorization".to_owned()),
        _ => Command::Show(words.join(".")),
    }
}

fn is_all(name: &Ident) -> bool {
    name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all")
}

fn dotted(name: &ObjectName) -> String {
    let parts: Vec<&str> = name.0.iter().filter_map(|part| part.as_ident()).map(|ident| ident.value.as_str()).collect();
    parts.join(".")
}

/// What is on the right of SET, as text; `None` is DEFAULT.
fn set_value(values: &[Expr]) -> Option<String> {
    if let [Expr::Identifier(ident)] = values
        && ident.quote_style.is_none()
        && ident.value.eq_ignore_ascii_case("default")
    {
        return None;
    }
    let texts: Vec<String> = values
        .iter()
        .map(|value| match value {
            Expr::Identifier(ident) => ident.value.clone(),
            Expr::Value(value) => match &value.value {
                Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => text.clone(),
                other => other.to_string(),
            },
            other => other.to_string(),
        })
        .collect();
    Some(texts.join(", "))
}

/// Turns the tokenizer's lines and columns into offsets.
struct Places<'a> {
    sql: &'a str,
    /// Where each line begins, in bytes.
    lines: Vec<usize>,
}

impl<'a> Places<'a> {
    fn of(sql: &'a str) -> Places<'a> {
        let after = sql.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Places { sql, lines: std::iter::once(0).chain(after).collect() }
    }

    fn bytes_to(&self, location: Location) -> usize {
        let line = (location.line as usize).saturating_sub(1);
        let Some(&start) = self.lines.get(line) else { return self.sql.len() };
        let column = (location.column as usize).saturating_sub(1);
        self.sql[start..].char_indices().nth(column).map_or(self.sql.len(), |(at, _)| start + at)
    }

    /// As Postgres counts: characters, from 1.
    fn characters_to(&self, location: Location) -> usize {
        self.sql[..self.bytes_to(location)].chars().count() + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(sql: &str) -> Command {
        let mut commands = parse(sql).unwrap();
        assert_eq!(commands.len(), 1, "{sql}");
        commands.remove(0)
    }

    fn failure(sql: &str) -> (&'static str, Option<usize>) {
        let failure = parse(sql).unwrap_err();
        (failure.state.code(), failure.position)
    }

    #[test]
    fn a_message_is_split_where_its_statements_end() {
        let texts: Vec<String> = parse(";; select ';' ; /* c; */ select 2;\n-- é;\nselect 3;")
            .unwrap()
            .into_iter()
            .map(|command| match command {
                Command::Query(query) => query.text,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(texts, ["select ';'", "/* c; */ select 2", "-- é;\nselect 3"]);
    }

    #[test]
    fn nothing_but_blanks_and_comments_is_empty() {
        for sql in ["", " ", ";", "; ;\n", "-- nothing", "/* nothing */ ;"] {
            assert!(parse(sql).unwrap().is_empty(), "{sql:?}");
        }
    }

    #[test]
    fn a_syntax_error_names_its_place() {
        assert_eq!(failure("select 1 frm x y"), ("42601", Some(14)));
        assert_eq!(failure("select 1;\nselekt 2"), ("42601", Some(11)));
        assert_eq!(failure("select 'é' frm x y"), ("42601", Some(16)));
        assert_eq!(failure("select 'abc"), ("42601", Some(8)));
        assert_eq!(failure("select"), ("42601", Some(7)));
    }

    #[test]
    fn deep_nesting_is_an_error_and_not_a_crash() {
        let sql = format!("select {}1{}", "(".repeat(5000), ")".repeat(5000));
        assert_eq!(failure(&sql).0, "54001");
    }

    #[test]
    fn what_writes_or_defines_is_refused() {
        for sql in [
            "create table t (a int)",
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'",
            "copy (select 1) to '/tmp/x'",
            "insert into t values (1)",
            "with x as (insert into t values (1) returning a) select * from x",
            "select 1 into t",
            "explain insert into t values (1)",
            "prepare p as select 1",
            "declare c cursor for select 1",
            "drop table t",
        ] {
            assert_eq!(failure(sql).0, "0A000", "{sql}");
        }
    }

    #[test]
    fn explain_understands_both_spellings() {
        let explained = |sql| match one(sql) {
            Command::Query(query) => query.explain.unwrap(),
            other => panic!("{other:?}"),
        };
        let format = |name: &str| Some(name.to_owned());
        assert_eq!(explained("explain select 1"), Explain::default());
        assert_eq!(
            explained("explain analyze verbose select 1"),
            Explain { analyze: true, verbose: true, ..Explain::default() }
        );
        assert_eq!(explained("explain format pgjson select 1").format, format("pgjson"));
        assert_eq!(
            explained("explain (analyze, costs off, format json) select 1"),
            Explain { analyze: true, format: format("pgjson"), ..Explain::default() }
        );
        assert!(!explained("explain (analyze false) select 1").analyze);
        assert!(
            explained("explain (costs) select 1").costs && explained("explain (costs true, analyze) select 1").costs
        );
        assert_eq!(failure("explain (nonsense) select 1").0, "42601");
        assert_eq!(failure("explain"), ("42601", None));
    }

    #[test]
    fn session_commands_are_recognised() {
        let set = |sql| match one(sql) {
            Command::Set { assignments, local, .. } => (assignments[0].clone(), local),
            other => panic!("{other:?}"),
        };
        let value = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
        assert_eq!(set("set a.b = 'c'"), (value("a.b", "c"), false));
        assert_eq!(set("set local x to 3"), (value("x", "3"), true));
        assert_eq!(set("set search_path to a, \"B\""), (value("search_path", "a, B"), false));
        assert_eq!(set("set time zone 'UTC'"), (value("timezone", "UTC"), false));
        assert_eq!(set("set x to default"), (("x".to_owned(), None), false));
        assert_eq!(set("reset x"), (("x".to_owned(), None), false));
        assert!(matches!(one("show server_version"), Command::Show(name) if name == "server_version"));
        assert!(
            matches!(one("show transaction isolation level"), Command::Show(name) if name == "transaction_isolation")
        );
        assert!(matches!(one("begin isolation level serializable"), Command::Begin { .. }));
        assert!(matches!(one("end"), Command::Commit));
        assert!(matches!(one("abort"), Command::Rollback));
        assert!(matches!(one("rollback to savepoint a"), Command::RollbackToSavepoint));
        assert!(matches!(one("deallocate all"), Command::Deallocate(None)));
        assert!(matches!(one("discard all"), Command::DiscardAll));
    }
}
