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
    let word = |at: usize| statement.get(at).map_or(Cow::Borrowed(""), Lexeme::lower);
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
    match Kind::of(&word(0)) {
        Kind::Empty | Kind::Show | Kind::Set | Kind::Reset | Kind::End => false,
        Kind::Select => any(&["into"]) || modifies() || locks() || calls(statement).any(|call| is_writing_call(&call)),
        Kind::Explain => {
            any(&["analyze", "analyse"]) && any(&["insert", "update", "delete", "merge", "create", "execute"])
        }
        Kind::Begin => !(1..statement.len()).any(|at| word(at - 1) == "read" && word(at) == "only"),
        Kind::Write | Kind::Ddl | Kind::Copy | Kind::Prepared | Kind::Cursor | Kind::Listen | Kind::Other => true,
    }
}

fn is_writing_call(name: &str) -> bool {
    const MADE_FOR_IT: [&str; 3] = ["nextval", "setval", "pg_notify"];
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
        ] {
            assert!(Statement::read(text).writes, "{text}");
        }
        for text in [
            "",
            "select \"update\", 'insert into t' from t /* delete */",
            "with x as (select 1) select * from x",
            "select substring(a for 3) from t",
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
