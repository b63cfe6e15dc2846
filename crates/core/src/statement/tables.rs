//! Which tables a statement names, found without its grammar: the names where a list of tables is being written.
//!
//! ```text
//!   select … from a, (b join (c join d on …) on …) where x in (select y from e)
//!                 ▲  ▲▲      ▲▲      ▲                                      ▲
//! ```
//!
//! A list of tables begins at FROM, at JOIN, and at the USING of a DELETE or a MERGE, and goes on after a comma. Each
//! parenthesis is a level of its own. One that opens where a table is expected holds a join, or a subquery, which its first
//! word says; in any other a name is no table until there is a SELECT or a change of rows in it, so that a FROM inside a call
//! (`extract(year from d)`) is passed over.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::lexemes::Lexeme;

/// Names of tables in the order in which they are first met, each once. A text of megabytes may name very many, so they
/// are looked up rather than searched for.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) names: Vec<String>,
    met: BTreeSet<String>,
}

impl Tables {
    fn meet(&mut self, name: String) {
        if !self.met.contains(&name) {
            self.met.insert(name.clone());
            self.names.push(name);
        }
    }
}

/// What is between a parenthesis and its partner, or the whole.
#[derive(Clone, Copy, Default)]
struct Level {
    /// It is a statement, so its FROM is followed by tables.
    reads: bool,
    /// It is a list of tables, or in one.
    in_list: bool,
    /// The next USING is followed by tables, not by columns: that of a DELETE or a MERGE, before any JOIN.
    using: bool,
    /// It is a MERGE, whose WHEN ends the list.
    merges: bool,
}

/// Adds the tables of a statement.
pub(super) fn tables_of(statement: &[Lexeme<'_>], tables: &mut Tables) {
    let ctes = cte_names(statement);
    let mut levels = vec![Level { reads: true, ..Level::default() }];
    // True where a table comes next.
    let mut expects = false;
    let mut at = 0;
    while at < statement.len() {
        let word = statement[at].lower();
        let outermost = levels.len() == 1;
        let depth = levels.len() - 1;
        let level = &mut levels[depth];
        match &*word {
            "(" => levels.push(Level { in_list: expects, ..Level::default() }),
            ")" if !outermost => {
                levels.pop();
                expects = false;
            }
            "select" => (*level, expects) = (Level { reads: true, ..Level::default() }, false),
            "delete" | "merge" if begins_change(statement, at, outermost) => {
                *level = Level { reads: true, using: true, merges: word == "merge", ..Level::default() };
                expects = false;
            }
            "update" if begins_change(statement, at, outermost) => level.reads = true,
            "from" if level.reads && !is_distinct_from(statement, at) => (level.in_list, expects) = (true, true),
            "using" if level.using => (level.using, level.in_list, expects) = (false, true, true),
            "join" => (level.using, expects) = (false, true),
            "," if level.in_list => expects = true,
            "when" if !level.merges => expects = false,
            "for" if !locks(statement, at) => expects = false,
            "where" | "group" | "order" | "having" | "limit" | "union" | "intersect" | "except" | "window"
            | "returning" | "qualify" | "when" | "for" => (level.in_list, expects) = (false, false),
            "values" | "with" if expects => (level.in_list, expects) = (false, false),
            "only" | "lateral" if expects => {}
            "table" if begins_table(statement, at) => (level.reads, level.in_list, expects) = (true, false, true),
            "rows" if expects && statement.get(at + 1).is_some_and(|next| next.lower() == "from") => {}
            _ if expects && statement[at].is_name() => {
                let (name, next) = dotted_name(statement, at);
                let call = statement.get(next).is_some_and(|t| t.is("("));
                if !call && !ctes.contains(&*name) {
                    tables.meet(name);
                }
                expects = false;
                at = next;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
}

/// True if a word begins a DELETE, MERGE or UPDATE, and is no column of that name.
fn begins_change(statement: &[Lexeme<'_>], at: usize, outermost: bool) -> bool {
    let begins = outermost || at.checked_sub(1).is_some_and(|before| statement[before].is("("));
    let next = statement.get(at + 1).map(Lexeme::lower);
    begins
        && match &*statement[at].lower() {
            "delete" => next.as_deref() == Some("from"),
            "merge" => next.as_deref() == Some("into"),
            _ => next.as_deref() != Some("from") && statement.get(at + 1).is_some_and(Lexeme::is_name),
        }
}

/// `TABLE t` as a query of its own: first of all, in parentheses, after those of an INSERT, WITH or EXPLAIN, beside another
/// one, or as what a view, a cursor or a new table is made from.
fn begins_table(statement: &[Lexeme<'_>], at: usize) -> bool {
    const BEFORE: [&str; 11] =
        ["(", ")", "union", "intersect", "except", "all", "distinct", "explain", "verbose", "as", "for"];
    let begins = at.checked_sub(1).is_none_or(|before| BEFORE.contains(&&*statement[before].lower()));
    begins && matches!(statement[at], Lexeme::Word(_)) && statement.get(at + 1).is_some_and(Lexeme::is_name)
}

/// `a IS DISTINCT FROM b`, which compares.
fn is_distinct_from(statement: &[Lexeme<'_>], at: usize) -> bool {
    let before = |by: usize| at.checked_sub(by).map(|at| statement[at].lower());
    before(1).as_deref() == Some("distinct") && matches!(before(2).as_deref(), Some("is" | "not"))
}

/// `FOR UPDATE OF a, b`, whose names are those of the list again.
fn locks(statement: &[Lexeme<'_>], at: usize) -> bool {
    let next = statement.get(at + 1).map(Lexeme::lower);
    matches!(next.as_deref(), Some("update" | "share" | "no" | "key"))
}

/// Names defined by WITH: a word before `AS (`, or before a column list and `AS (`.
fn cte_names<'a>(statement: &'a [Lexeme<'a>]) -> BTreeSet<Cow<'a, str>> {
    let mut names = BTreeSet::new();
    if statement.first().is_none_or(|token| token.lower() != "with") {
        return names;
    }
    // The first `)` at or after the last list that was looked at; lists come in order, so it only moves on.
    let mut closing = 0;
    for at in 1..statement.len().saturating_sub(1) {
        let before = statement[at - 1].lower();
        if statement[at].is_name() && matches!(&*before, "with" | "recursive" | ",") {
            let mut next = at + 1;
            if statement[next].is("(") {
                closing = closing.max(next);
                closing += statement[closing..].iter().take_while(|token| !token.is(")")).count();
                next = closing + 1;
            }
            if statement.get(next).is_some_and(|token| token.lower() == "as") {
                names.insert(statement[at].lower());
            }
        }
    }
    names
}

/// Joins `schema . table` and says where the name ends.
fn dotted_name(statement: &[Lexeme<'_>], mut at: usize) -> (String, usize) {
    let mut name = statement[at].lower().into_owned();
    at += 1;
    while at + 1 < statement.len() && statement[at].is(".") && statement[at + 1].is_name() {
        name.push('.');
        name.push_str(&statement[at + 1].lower());
        at += 2;
    }
    (name, at)
}

#[cfg(test)]
mod tests {
    use crate::statement::{MAX_TABLES, Statement};

    fn tables(sql: &str) -> String {
        Statement::read(sql).tables.join(" ")
    }

    #[test]
    fn tables_come_from_joins_commas_and_subqueries() {
        assert_eq!(tables("select * from a, s.b x join c on a.i = c.i where d in (select e from f)"), "a s.b c f");
        assert_eq!(tables("select extract(year from day), substring(x from 1) from t"), "t");
        assert_eq!(tables("with w(a) as (select 1 from u), v as (select 2) select * from w, v, t"), "u t");
        assert_eq!(tables("select * from generate_series(1, 3) g, (select 1 from q) s"), "q");
        assert_eq!(tables("delete from t where a in (select b from u)"), "t u");
    }

    #[test]
    fn very_many_tables_are_told_apart_in_the_order_in_which_they_are_met() {
        const MANY: usize = 50_000;
        let list = |of: &dyn Fn(usize) -> String| (0..MANY).map(of).collect::<Vec<_>>().join(", ");
        // Each again in the next statement; half of them by names that WITH defines, in lists that are never closed too.
        let twice = format!("select 1 from {}; select 2 from x, {0}", list(&|at| format!("T{}", at % 30_000)));
        let first: Vec<String> = (0..MAX_TABLES).map(|at| format!("t{at}")).collect();
        assert_eq!(Statement::read(&twice).tables, first);
        let defined = list(&|at| format!("w{at}(a) as (select {at} from u{})", at % 40));
        let used = list(&|at| format!("w{at} join t{}", at % 20));
        let found = tables(&format!("with {defined} select 1 from {used}"));
        let expected = (0..40).map(|at| format!("u{at}")).chain((0..20).map(|at| format!("t{at}")));
        assert_eq!(found, expected.collect::<Vec<_>>().join(" "));
        assert_eq!(tables(&format!("with {} select 1 from t", list(&|at| format!("w{at}(a")))), "t");
    }

    #[test]
    fn joins_in_parentheses_name_their_tables_however_deep() {
        for (sql, found) in [
            ("select 1 from (a join b on a.i = b.i)", "a b"),
            ("select 1 from ((a join s.b on f(a.i, 1) = b.i) left join c using (i, j)) where d = 1", "a s.b c"),
            ("select 1 from a join (b join (c cross join d) on true) on a.x in (1, x), e", "a b c d e"),
            ("select 1 from (((a)))", "a"),
            ("select 1 from x, (a as y (i, j) natural join b z (k, l)) as w (m, n), c", "x a b c"),
            (
                "select 1 from (a join (select f from b, c) s on true join lateral (select 1 from d) t on true)",
                "a b c d",
            ),
            ("select 1 from (with v as (select 1 from a), w as (select 2 from b) select y from c) q, d", "a b c d"),
            ("select 1 from ((select 1 from a) union all (select x, y from b) order by z, u) q", "a b"),
            ("select 1 from (values (a, b), (c, d)) v, t", "t"),
            ("select 1 from (table a) x, only (b), rows from (f(1, x), g(y)) z, c", "a b c"),
            ("select (select 1 from (a join b on true)), (x, y), g((z)) from c", "a b c"),
            ("select 1 from (f(1) join a on true)", "a"),
            ("select 1 from (a join b on true", "a b"),
            ("select 1 from (", ""),
        ] {
            assert_eq!(tables(sql), found, "{sql}");
        }
        let deep = format!("select 1 from {}a join b on true{}", "(".repeat(20_000), ")".repeat(20_000));
        assert_eq!(tables(&deep), "a b");
    }

    #[test]
    fn changes_read_the_tables_of_their_from_and_using() {
        for (sql, found) in [
            ("update t set a = 1, b = x from (u join v on u.i = v.i), w where t.i = u.i", "u v w"),
            ("delete from t using u, (v join w using (i, j)) where t.i = u.i", "t u v w"),
            ("delete from only t using u x join v using (i) where true returning a, b", "t u v"),
            (
                "merge into t using (a join b on a.i = b.i) s on t.i = s.i when matched then update set x = s.x, y = s.y",
                "a b",
            ),
            ("merge into t x using s.a y on true when not matched then insert (i, j) values (1, z)", "s.a"),
            ("with d as (delete from t using u returning i, j) select k, l from d, v", "t u v"),
            (
                "with d as (update t set a = 1 from u returning i, j) insert into x select i from d join v using (i)",
                "u v",
            ),
            ("explain analyze delete from t using (u cross join v)", "t u v"),
            ("insert into t select 1 from (a join b on true) on conflict do update set a = 1, b = 2", "a b"),
        ] {
            assert_eq!(tables(sql), found, "{sql}");
        }
    }

    #[test]
    fn a_table_may_be_a_query_of_its_own() {
        for (sql, found) in [
            ("table t", "t"),
            ("TABLE ONLY s.t", "s.t"),
            ("table a union all table b except (table c) order by d", "a b c"),
            ("with w as (table a) table w", "a"),
            ("insert into t (a) table b", "b"),
            ("explain (verbose) table t", "t"),
            ("create view v as table t", "t"),
            ("declare c cursor for table t", "t"),
            ("copy (table t) to stdout", "t"),
            ("drop table t", ""),
            ("truncate table t", ""),
        ] {
            assert_eq!(tables(sql), found, "{sql}");
        }
    }

    #[test]
    fn what_only_looks_like_a_list_of_tables_is_none() {
        for (sql, found) in [
            ("select delete from t join u using (i)", "t u"),
            ("select substring(update from 2), substring(x from i for n) from t", "t"),
            ("select a is distinct from b, c is not distinct from d from t", "t"),
            ("select 1 from t where a is distinct from b and c in (d, e)", "t"),
            ("select 1 from a x, b y for update of x, y", "a b"),
            ("select 1 from f(a) with ordinality as x (y, z), t", "t"),
            ("select case when a then b end from t join u on case when v then w end, x", "t u x"),
        ] {
            assert_eq!(tables(sql), found, "{sql}");
        }
    }
}
