//! What one text of SQL is, read once by the tokenizer: its fingerprint, what kind of statement, which tables, the
//! class it asks for, and whether it is mere housekeeping of a driver.
//!
//! Everything here works without parsing, for any dialect and any text, in a few microseconds; what needs the
//! grammar is computed elsewhere, once per fingerprint. A text that the tokenizer rejects still gets a fingerprint
//! and a kind, from a cruder cut into words.

mod effects;
mod tables;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::fingerprint::{Fingerprint, Shape};
use crate::lexemes::{self, Lexeme};
use crate::tag::Tag;
use tables::{Tables, tables_of};

/// The most tables that are kept of one text.
pub const MAX_TABLES: usize = 64;

/// A text of SQL, as far as decisions need it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// The shape as a number.
    pub fingerprint: Fingerprint,
    /// The shape as text, at most [`MAX_SHAPE`](crate::fingerprint::MAX_SHAPE) bytes.
    pub shape: String,
    /// What the first statement of the text does.
    pub kind: Kind,
    /// How many statements the text holds.
    pub count: u32,
    /// Names after FROM and JOIN, and after the USING of a DELETE or MERGE, as written but lower case, at most [`MAX_TABLES`]; no names of CTEs.
    pub tables: Vec<String>,
    /// What the text asks for in a comment.
    pub tag: Tag,
    /// True for a driver's or tool's housekeeping: keepalives, catalogue queries, SHOW and SET. See [`Statement`].
    pub control: bool,
    /// True if one of its statements may change something that others see, as far as the text shows: what a function does is
    /// not known, but for those of Postgres that are made for it (`nextval`). A transaction may, unless it says that it does not.
    pub writes: bool,
    /// True if one of its statements calls a function of which it is not known by its name that it changes nothing: to run it
    /// twice may do something twice.
    pub calls_others: bool,
}

/// What a statement does, from its first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Nothing: an empty text or comments alone.
    Empty,
    /// SELECT, WITH, VALUES, TABLE.
    Select,
    /// EXPLAIN.
    Explain,
    /// INSERT, UPDATE, DELETE, MERGE.
    Write,
    /// CREATE, ALTER, DROP, TRUNCATE and their like.
    Ddl,
    /// BEGIN, START TRANSACTION.
    Begin,
    /// COMMIT, END, ROLLBACK, ABORT.
    End,
    /// SET.
    Set,
    /// RESET, DISCARD.
    Reset,
    /// SHOW.
    Show,
    /// COPY.
    Copy,
    /// PREPARE, EXECUTE, DEALLOCATE.
    Prepared,
    /// DECLARE, FETCH, MOVE, CLOSE.
    Cursor,
    /// LISTEN, UNLISTEN, NOTIFY.
    Listen,
    /// Anything else.
    Other,
}

impl Kind {
    /// The name that match rules and views use.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Empty => "empty",
            Kind::Select => "select",
            Kind::Explain => "explain",
            Kind::Write => "write",
            Kind::Ddl => "ddl",
            Kind::Begin => "begin",
            Kind::End => "end",
            Kind::Set => "set",
            Kind::Reset => "reset",
            Kind::Show => "show",
            Kind::Copy => "copy",
            Kind::Prepared => "prepared",
            Kind::Cursor => "cursor",
            Kind::Listen => "listen",
            Kind::Other => "other",
        }
    }

    /// Every kind, for reading a name back.
    pub const ALL: [Kind; 15] = [
        Kind::Empty,
        Kind::Select,
        Kind::Explain,
        Kind::Write,
        Kind::Ddl,
        Kind::Begin,
        Kind::End,
        Kind::Set,
        Kind::Reset,
        Kind::Show,
        Kind::Copy,
        Kind::Prepared,
        Kind::Cursor,
        Kind::Listen,
        Kind::Other,
    ];

    fn of(first: &str) -> Kind {
        match first {
            "" => Kind::Empty,
            "select" | "with" | "values" | "table" | "(" => Kind::Select,
            "explain" | "describe" => Kind::Explain,
            "insert" | "update" | "delete" | "merge" => Kind::Write,
            "create" | "alter" | "drop" | "truncate" | "grant" | "revoke" | "comment" | "vacuum" | "analyze" => {
                Kind::Ddl
            }
            "begin" | "start" => Kind::Begin,
            "commit" | "end" | "rollback" | "abort" => Kind::End,
            "set" => Kind::Set,
            "reset" | "discard" => Kind::Reset,
            "show" => Kind::Show,
            "copy" => Kind::Copy,
            "prepare" | "execute" | "deallocate" => Kind::Prepared,
            "declare" | "fetch" | "move" | "close" => Kind::Cursor,
            "listen" | "unlisten" | "notify" => Kind::Listen,
            _ => Kind::Other,
        }
    }
}

impl Statement {
    /// Reads `text`, which may hold several statements. Never fails.
    pub fn read(text: &str) -> Statement {
        read_with(text, |_, _| ()).0
    }
}

/// Reads `text`, and hands what it was cut into to `also`, with the tables of the statement; None if it cannot be cut.
pub(crate) fn read_with<T>(text: &str, also: impl FnOnce(&Statement, Option<&[Lexeme<'_>]>) -> T) -> (Statement, T) {
    let (lower, mut tag) = (text.to_ascii_lowercase(), Tag::default());
    let lexemes = lexemes::cut(text, &lower, &mut tag);
    let statement = match &lexemes {
        Some(lexemes) => read_lexemes(lexemes, tag),
        None => read_crudely(text),
    };
    let other = also(&statement, lexemes.as_deref());
    (statement, other)
}

fn read_lexemes(mut lexemes: &[Lexeme<'_>], tag: Tag) -> Statement {
    while let [rest @ .., last] = lexemes
        && last.is(";")
    {
        lexemes = rest;
    }
    let mut shape = Shape::new();
    lexemes.iter().for_each(|lexeme| shape.lexeme(lexeme));
    let (fingerprint, shape) = shape.finish();
    let (mut tables, mut control, mut count, mut writes) = (Tables::default(), true, 0, false);
    let mut calls_others = false;
    for statement in lexemes.split(|lexeme| lexeme.is(";")).filter(|statement| !statement.is_empty()) {
        let from = tables.names.len();
        tables_of(statement, &mut tables);
        control &= is_control(statement, &tables.names[from..]);
        writes |= effects::does_write(statement);
        calls_others |= effects::calls_others(statement);
        count += 1;
    }
    let mut tables = tables.names;
    tables.truncate(MAX_TABLES);
    let kind = Kind::of(&lexemes.first().map_or(Cow::Borrowed(""), Lexeme::lower));
    // Each costs next to nothing, and thousands of them do not.
    control &= count <= MOST_HOUSEKEEPING;
    Statement { fingerprint, shape, kind, count, tables, tag, control, writes, calls_others }
}

/// Statements of one text that can be a driver's housekeeping: pgAdmin sends a handful when it connects.
const MOST_HOUSEKEEPING: u32 = 16;

/// A text that the tokenizer rejects: runs of letters and digits are words, numbers and the insides of quotes are
/// literals (to the end, where a quote is not closed), every other character stands for itself.
fn read_crudely(text: &str) -> Statement {
    let mut shape = Shape::new();
    let mut first = None;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let word = |extra: &'static str| {
            rest.find(|c: char| !(c.is_alphanumeric() || extra.contains(c))).unwrap_or(rest.len())
        };
        let taken = if c.is_whitespace() {
            c.len_utf8()
        } else if c == '\'' {
            shape.literal();
            rest[1..].find('\'').map_or(rest.len(), |end| end + 2)
        } else if c.is_ascii_digit() {
            shape.literal();
            word(".")
        } else if c.is_alphabetic() || c == '_' {
            let end = word("_");
            let lower = rest[..end].to_lowercase();
            shape.piece(&lower);
            first.get_or_insert(lower);
            end
        } else {
            shape.piece(&rest[..c.len_utf8()]);
            c.len_utf8()
        };
        rest = &rest[taken..];
    }
    let (fingerprint, shape) = shape.finish();
    let kind = first.as_deref().map_or(Kind::Other, Kind::of);
    let writes = !matches!(kind, Kind::Empty | Kind::Select);
    let (tables, tag, calls_others) = (Vec::new(), Tag::default(), true);
    Statement { fingerprint, shape, kind, count: 1, tables, tag, control: false, writes, calls_others }
}

/// Housekeeping that a driver, a pool or a tool sends on its own account, and that costs the cluster next to nothing:
/// empty texts, SHOW, SET and RESET, transactions' ends, queries over the catalogue alone, and a SELECT without FROM
/// that calls nothing but what drivers ask at start-up (so `SELECT pg_sleep(60)` is a query like any other).
fn is_control(statement: &[Lexeme<'_>], tables: &[String]) -> bool {
    let first = statement.first().map_or(Cow::Borrowed(""), Lexeme::lower);
    match Kind::of(&first) {
        Kind::Empty | Kind::Show | Kind::Set | Kind::Reset => true,
        Kind::Select if tables.is_empty() => {
            !statement.iter().any(|token| token.lower() == "from")
                && calls(statement).all(|call| is_start_up_call(&call))
        }
        Kind::Select => tables.iter().all(|table| is_catalogue(table)),
        _ => false,
    }
}

fn is_catalogue(table: &str) -> bool {
    let bare = table.rsplit('.').next().unwrap_or(table);
    table.starts_with("pg_catalog.") || table.starts_with("information_schema.") || bare.starts_with("pg_")
}

/// Names that are followed by a parenthesis.
fn calls<'a>(statement: &'a [Lexeme<'a>]) -> impl Iterator<Item = Cow<'a, str>> {
    statement.windows(2).filter(|pair| pair[0].is_name() && pair[1].is("(")).map(|pair| pair[0].lower())
}

fn is_start_up_call(name: &str) -> bool {
    const ASKED_AT_START_UP: [&str; 11] = [
        "version",
        "current_schema",
        "current_schemas",
        "current_database",
        "current_user",
        "current_setting",
        "pg_backend_pid",
        "pg_is_in_recovery",
        "pg_encoding_to_char",
        "set_config",
        "now",
    ];
    ASKED_AT_START_UP.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_that_of_the_first_statement() {
        let kind = |sql| Statement::read(sql).kind;
        assert_eq!(kind("/* x */ select 1"), Kind::Select);
        assert_eq!(kind("-- nothing"), Kind::Empty);
        assert_eq!(kind("start transaction; select 1"), Kind::Begin);
        assert_eq!(kind("(select 1) union (select 2)"), Kind::Select);
        assert_eq!(kind("selec 'open"), Kind::Other);
        assert_eq!(Statement::read("select 1; ; select 2;").count, 2);
    }

    #[test]
    fn housekeeping_is_told_from_queries() {
        assert!(Statement::read(&"select 1;".repeat(16)).control);
        assert!(!Statement::read(&"select 1;".repeat(17)).control, "it is not next to nothing any more");
        for sql in [
            "",
            "SELECT 1",
            "select version()",
            "show transaction isolation level",
            "set extra_float_digits = 3",
            "select c.relname from pg_catalog.pg_class c join pg_namespace n on n.oid = c.relnamespace",
            "SELECT 1; SELECT current_schema()",
            "table pg_catalog.pg_class",
        ] {
            assert!(Statement::read(sql).control, "{sql}");
        }
        for sql in [
            "select pg_sleep(60)",
            "select 1 from lineitem",
            "select * from pg_class, lineitem",
            "select 1; select count(*) from t",
            "begin",
            "select count(*) from generate_series(1, 1000000000)",
            "select 'open",
            "table lineitem",
            "table pg_class union table lineitem",
        ] {
            assert!(!Statement::read(sql).control, "{sql}");
        }
    }

    #[test]
    fn a_comment_anywhere_tags_the_query() {
        let tag = Statement::read("select 1 /* punctual: class=etl */ from t").tag;
        assert_eq!(tag.class.as_deref(), Some("etl"));
    }
}
