//! What a statement leaves behind, as far as its text shows: whether it may change something, and whether running it twice may.
//!
//! What a function does is not in the text. To choose a cluster, one of which nothing is known is taken to read, or nothing that
//! calls one would be spread; to run something twice, it is taken to write, since that cannot be taken back.

use std::borrow::Cow;

use super::{Kind, calls, is_start_up_call};
use crate::lexemes::Lexeme;

/// Functions that change nothing wherever they are called.
const FUNCTIONS: &str = "\
    abs array_agg avg bool_and bool_or cast ceil ceiling char_length coalesce concat concat_ws \
    corr count cume_dist date date_part date_trunc dense_rank exp extract first_value floor \
    generate_series greatest initcap json_agg jsonb_agg lag last_value lead least left length ln \
    log lower lpad ltrim make_date max md5 min mod now ntile nullif overlay percent_rank \
    percentile_cont percentile_disc position power rank regexp_replace repeat replace right \
    round row_number rpad rtrim sign split_part sqrt stddev string_agg strpos substr substring \
    sum to_char to_date to_number to_timestamp trim upper variance";

/// Words before a parenthesis that are no functions.
const WORDS: &str = "\
    all and any array as between by case char cube decimal distinct else except exists filter \
    float from group having ilike in intersect interval join lateral like not numeric on or over \
    rollup row select sets some then union using values varchar when where";

/// True if a statement may change something that others see; see [`Statement::writes`](super::Statement::writes).
pub(super) fn does_write(statement: &[Lexeme<'_>]) -> bool {
    let word = |at: usize| statement.get(at).map_or(Cow::Borrowed(""), keyword);
    let any = |words: &[&str]| (0..statement.len()).any(|at| words.contains(&&*word(at)));
    // A statement within this one begins after a parenthesis: one of WITH, or the one that WITH is for.
    let modifies = || {
        let inner = |at: usize| statement[at - 1].is("(") || statement[at - 1].is(")");
        (1..statement.len()).any(|at| matches!(&*word(at), "insert" | "update" | "delete" | "merge") && inner(at))
    };
    let locks = || {
        let lock = |at: usize| matches!(&*word(at), "update" | "share" | "no" | "key");
        (1..statement.len()).any(|at| word(at - 1) == "for" && lock(at))
    };
    let follow = |one: &str, other: &str| (1..statement.len()).any(|at| word(at - 1) == one && word(at) == other);
    let selects = || any(&["into"]) || modifies() || locks() || calls_to_write(statement);
    match Kind::of(&word(0)) {
        Kind::Empty | Kind::Show | Kind::End => false,
        Kind::Set | Kind::Reset => follow("read", "write") || (1..statement.len()).any(|at| is_leave(&statement[at])),
        Kind::Select => selects(),
        Kind::Explain => {
            let changes = || any(&["insert", "update", "delete", "merge", "create", "execute"]);
            any(&["analyze", "analyse"]) && (changes() || selects())
        }
        Kind::Begin => !follow("read", "only"),
        Kind::Copy => !goes_to_the_client(statement) || selects(),
        Kind::Write | Kind::Ddl | Kind::Prepared | Kind::Cursor | Kind::Listen | Kind::Other => true,
    }
}

/// A word or sign that is not in quotes, lower case.
fn keyword<'a>(lexeme: &'a Lexeme<'_>) -> Cow<'a, str> {
    if matches!(lexeme, Lexeme::Quoted(_)) { Cow::Borrowed("") } else { lexeme.lower() }
}

/// The variable that decides whether a transaction may write, as a name or as a text.
fn is_leave(lexeme: &Lexeme<'_>) -> bool {
    const NAME: &str = "transaction_read_only";
    matches!(lexeme, Lexeme::Word(text) | Lexeme::Quoted(text) | Lexeme::Text(text) if text.eq_ignore_ascii_case(NAME))
}

/// `COPY … TO STDOUT`.
fn goes_to_the_client(statement: &[Lexeme<'_>]) -> bool {
    let mut depth = 0_u32;
    statement.windows(2).any(|pair| {
        depth = match &pair[0] {
            sign if sign.is("(") => depth + 1,
            sign if sign.is(")") => depth.saturating_sub(1),
            _ => depth,
        };
        depth == 0 && keyword(&pair[0]) == "to" && keyword(&pair[1]) == "stdout"
    })
}

fn calls_to_write(statement: &[Lexeme<'_>]) -> bool {
    let configures = || calls(statement).any(|call| call == "set_config") && statement.iter().any(is_leave);
    calls(statement).any(|call| is_writing_call(&call)) || configures()
}

fn is_writing_call(name: &str) -> bool {
    const MADE_FOR_IT: [&str; 6] =
        ["nextval", "setval", "pg_notify", "txid_current", "pg_current_xact_id", "pg_logical_emit_message"];
    MADE_FOR_IT.contains(&name)
        || ["lo_", "dblink", "pg_advisory_", "pg_try_advisory_"].iter().any(|of| name.starts_with(of))
}

/// True if a statement calls a function that is not known to change nothing; see
/// [`Statement::calls_others`](super::Statement::calls_others).
pub(super) fn calls_others(statement: &[Lexeme<'_>]) -> bool {
    calls(statement).any(|call| !is_known_to_read(&call))
}

fn is_known_to_read(name: &str) -> bool {
    let known = FUNCTIONS.split(' ').chain(WORDS.split(' ')).any(|known| known == name);
    known || is_start_up_call(name) && name != "set_config"
}

#[cfg(test)]
mod tests {
    use super::super::Statement;

    #[test]
    fn functions_of_which_nothing_is_known_are_told() {
        for text in
            ["select f(1)", "select * from g('x')", "select pg_sleep(1)", "select 1; select s.h(2)", "select \"f\"(1)"]
        {
            assert!(Statement::read(text).calls_others, "{text}");
        }
        for text in [
            "select count(*), sum(a) over (partition by b) from t where a in (1, 2) and (b > 1 or not (c))",
            "select cast(a as numeric(10, 2)), date_trunc('day', b) from t where exists (select 1 from u)",
            "select 'f(1)' /* g() */ from t",
        ] {
            assert!(!Statement::read(text).calls_others, "{text}");
        }
    }

    #[test]
    fn very_many_settings_take_no_longer_than_other_texts() {
        let text = format!("select {} 1", "set_config('a', 'b', false), ".repeat(50_000));
        assert!(!Statement::read(&text).writes);
    }

    #[test]
    fn what_may_change_something_is_told_by_the_text() {
        for text in [
            "insert into t values (1)",
            "with x as (delete from t returning a) select * from x",
            "with x as (select 1) insert into t select * from x",
            "with x as (select 1) update t set a = 1",
            "select a into u from t",
            "select * from t for update",
            "select * from t for no key update skip locked",
            "select nextval('s')",
            "select pg_advisory_lock(1)",
            "begin",
            "start transaction isolation level serializable",
            "explain analyze delete from t",
            "copy t from stdin",
            "select 1; drop table t",
            "call p()",
            "explain analyze select nextval('s')",
            "explain (analyze) select a into u from t",
            "select txid_current()",
            "begin read only; set transaction read write; select 1",
            "set local transaction_read_only = off",
            "reset \"transaction_read_only\"",
            "select set_config('transaction_read_only', 'off', true)",
            "copy t to '/tmp/t'",
            "copy (with x as (delete from t returning a) select * from x) to stdout",
            "copy t (\"to\", stdout) from stdin",
        ] {
            assert!(Statement::read(text).writes, "{text}");
        }
        for text in [
            "",
            "select \"update\", 'insert into t' from t /* delete */",
            "with x as (select 1) select * from x",
            "select substring(a for 3) from t",
            "select 1 as \"into\"",
            "copy t to stdout",
            "COPY (SELECT a FROM t) TO STDOUT WITH (FORMAT csv)",
            "set transaction read only",
            "set default_transaction_read_only = on",
            "table t",
            "select updated from t where deleted = false",
            "begin read only",
            "start transaction read only",
            "explain delete from t",
            "explain analyze select 1",
            "show x",
            "set a = 1",
            "rollback",
        ] {
            assert!(!Statement::read(text).writes, "{text}");
        }
    }
}
