//! Queries: what bounds a read, and what does not.

use super::found;

fn are(texts: &[(&str, &str)]) {
    for (text, expected) in texts {
        assert_eq!(found(text), *expected, "{text}");
    }
}

const ALL: &str = "..";
const JANUARY: &str = "2024-01-01..";

#[test]
fn joins_bound_the_sides_that_they_may() {
    are(&[
        ("select 1 from events e join other o on e.id = o.id and e.ts >= '2024-01-01'", JANUARY),
        ("select 1 from other o join events e on ts >= '2024-01-01'", JANUARY),
        ("select 1 from other o left join events e on e.id = o.id and e.ts >= '2024-01-01'", JANUARY),
        ("select 1 from events e left join other o on e.ts >= '2024-01-01'", ALL),
        ("select 1 from events e right join other o on e.ts >= '2024-01-01'", JANUARY),
        ("select 1 from other o right join events e on e.ts >= '2024-01-01'", ALL),
        ("select 1 from events e full join other o on e.ts >= '2024-01-01'", ALL),
        ("select 1 from events e left join other o on true where e.ts >= '2024-01-01'", JANUARY),
        ("select 1 from other o left join events e on true where e.ts >= '2024-01-01'", JANUARY),
        ("select 1 from other o left join events e on true where e.ts >= '2024-01-01' or e.ts is null", ALL),
        ("select 1 from events e cross join other where ts >= '2024-01-01'", JANUARY),
        ("select 1 from events, other where events.ts >= '2024-01-01'", JANUARY),
        ("select 1 from events e join events f using (id) where e.ts >= '2024-01-01'", ALL),
        (
            "select 1 from events e join events f on e.id = f.id and e.ts >= '2024-01-01' and f.ts >= '2024-02-01'",
            JANUARY,
        ),
        (
            "select 1 from events join facts using (id) where ts >= '2024-01-01' and day < '2023-01-01'",
            "2024-01-01.. & ..2023-01-01",
        ),
        ("select 1 from events e join parts p using (ts) where ts >= '2024-01-01'", "2024-01-01.. & 2024-01-01.."),
        ("select 1 from events e join facts f on f.day = e.ts where e.ts >= '2024-01-01'", "2024-01-01.. & .."),
        ("select 1 from (events e join other o on e.ts >= '2024-01-01')", JANUARY),
        ("select 1 from other o left join (events e join x on e.id = x.id) on e.ts >= '2024-01-01'", JANUARY),
        ("select 1 from other o, lateral (select 1 from events where events.ts > o.ts) l", ALL),
        ("select 1 from s1.events, s2.events where s1.events.ts >= '2024-01-01'", ALL),
    ]);
}

#[test]
fn subqueries_are_read_wherever_they_stand() {
    are(&[
        ("select 1 from other where id in (select id from events where ts >= '2024-01-01')", JANUARY),
        (
            "select 1 from other where not exists (select 1 from events where ts >= '2024-01-01' and id = other.id)",
            JANUARY,
        ),
        ("select (select count(*) from events where ts >= '2024-01-01') from other", JANUARY),
        ("select 1 from other where a > (select avg(a) from events)", ALL),
        ("select 1 from other having max(a) > (select avg(a) from events where ts >= '2024-01-01')", JANUARY),
        ("select 1 from other order by (select avg(a) from events where ts >= '2024-01-01')", JANUARY),
        ("select 1 from other limit (select count(*) from events where ts >= '2024-01-01')", JANUARY),
        ("select 1 from other o join x on x.id = (select max(id) from events where ts >= '2024-01-01')", JANUARY),
        ("select case when exists (select 1 from events where ts >= '2024-01-01') then 1 end", JANUARY),
        ("select f(array(select id from events where ts >= '2024-01-01'))", JANUARY),
        ("select sum(a) filter (where b in (select b from events where ts >= '2024-01-01')) from other", JANUARY),
        ("values ((select count(*) from events where ts >= '2024-01-01'))", JANUARY),
        // What stands inside does not bound what stands outside.
        ("select 1 from events where exists (select 1 from other where ts >= '2024-01-01')", ALL),
        ("select 1 from events where exists (select 1 from other where events.ts >= '2024-01-01')", ALL),
        ("select 1 from events e where ts >= '2024-01-01' and exists (select 1 from events f where f.ts >= e.ts)", ALL),
    ]);
}

#[test]
fn what_stands_outside_bounds_what_passes_its_column_on() {
    are(&[
        ("select 1 from (select * from events) e where ts >= '2024-01-01'", JANUARY),
        ("select 1 from (select e.* from events e join other o using (id)) x where x.ts >= '2024-01-01'", JANUARY),
        ("select 1 from (select a, ts as t from events) e where t >= '2024-01-01'", JANUARY),
        ("select 1 from (select a, ts from events) e(x, y) where y >= '2024-01-01'", JANUARY),
        ("select 1 from (select a, ts from events) e(x, y) where x >= '2024-01-01'", ALL),
        (
            "select 1 from (select * from (select * from events where ts < '2024-03-01') a) b where ts >= '2024-01-01'",
            "2024-01-01..2024-03-01",
        ),
        (
            "select 1 from (select date_trunc('month', ts) m from events) e where m = '2024-01-01'",
            "2024-01-01..2024-02-01",
        ),
        ("select 1 from (select ts::date d from events) e where d + 1 = '2024-01-02'", "2024-01-01..2024-01-02"),
        ("with t as (select * from events) select 1 from t where ts >= '2024-01-01'", JANUARY),
        ("with t(a, b) as (select id, ts from events) select 1 from t x where x.b >= '2024-01-01'", JANUARY),
        ("with t as (select * from events), u as (select * from t) select 1 from u where ts >= '2024-01-01'", JANUARY),
        (
            "select 1 from (select ts from events union all select ts from parts) u where ts >= '2024-01-01'",
            "2024-01-01.. & 2024-01-01..",
        ),
        (
            "select 1 from (select ts from events union all select x from parts) u where ts >= '2024-01-01'",
            "2024-01-01.. & ..",
        ),
        (
            "select 1 from (select * from events union all select * from parts) u where ts >= '2024-01-01'",
            "2024-01-01.. & ..",
        ),
        ("select 1 from (select ts, count(*) from events group by ts) g where ts >= '2024-01-01'", JANUARY),
        (
            "select 1 from (select date_trunc('day', ts) d, count(*) from events group by date_trunc('day', ts)) g where d >= '2024-01-01'",
            JANUARY,
        ),
        ("select 1 from (select ts d, count(*) from events group by d) g where d >= '2024-01-01'", JANUARY),
        ("select 1 from (select distinct ts from events) g where ts >= '2024-01-01'", JANUARY),
    ]);
}

#[test]
fn nothing_goes_in_where_it_would_change_what_comes_out() {
    are(&[
        ("select 1 from (select * from events order by a limit 10) e where ts >= '2024-01-01'", ALL),
        ("select 1 from (select * from events offset 10) e where ts >= '2024-01-01'", ALL),
        ("select 1 from (select * from events fetch first 10 rows only) e where ts >= '2024-01-01'", ALL),
        ("select 1 from (select ts, row_number() over (order by ts) from events) e where ts >= '2024-01-01'", ALL),
        ("select 1 from (select distinct on (a) * from events order by a, b) e where ts >= '2024-01-01'", ALL),
        ("select 1 from (select max(ts) as ts from events) e where ts >= '2024-01-01'", ALL),
        ("select 1 from (select max(ts) as ts from events group by a) e where ts >= '2024-01-01'", ALL),
        ("select 1 from (select created as ts from events) e where ts >= '2024-01-01'", ALL),
        ("select 1 from (select a, ts from events group by 1, 2) e where ts >= '2024-01-01'", ALL),
        ("select 1 from (select a, ts from events group by rollup (a, ts)) e where ts >= '2024-01-01'", ALL),
        ("select 1 from events group by a having max(ts) >= '2024-01-01'", ALL),
        ("with t as (select * from events) select 1 from t a join t b using (id) where a.ts >= '2024-01-01'", ALL),
        (
            "with t as (select * from events) select 1 from t where ts >= '2024-01-01' and a > (select avg(a) from t)",
            ALL,
        ),
        ("with t as materialized (select * from events) select 1 from t where ts >= '2024-01-01'", ALL),
        (
            "with recursive t as (select * from events union all select * from t) select 1 from t where ts >= '2024-01-01'",
            ALL,
        ),
    ]);
}

#[test]
fn ctes_hide_tables_of_their_name() {
    are(&[
        ("with events as (select * from other) select 1 from events where ts >= '2024-01-01'", ""),
        ("with events as (select * from events where ts >= '2024-01-01') select 1 from events", JANUARY),
        (
            "with t as (select 1 from events where ts >= '2024-01-01') select 1 from t join public.events e on e.ts >= '2024-02-01'",
            JANUARY,
        ),
        (
            "with t as (with events as (select 1) select * from events) select 1 from t, events where events.ts >= '2024-01-01'",
            JANUARY,
        ),
        (
            "with x as (select 1 from other where ts > '2024-02-01') select 1 from events where ts >= '2024-01-01'",
            JANUARY,
        ),
    ]);
}

#[test]
fn unions_read_what_each_side_reads() {
    are(&[
        (
            "select 1 from events where ts < '2023-01-01' union all select 1 from events where ts >= '2024-01-01'",
            "..2023-01-01, 2024-01-01..",
        ),
        ("select 1 from events where ts >= '2024-01-01' except select 1 from events", ALL),
        ("(select 1 from events where ts >= '2024-01-01') intersect (select 1 from facts)", "2024-01-01.. & .."),
        ("select 1 from events where ts >= '2024-01-01' union table events", ALL),
    ]);
}

#[test]
fn statements_of_other_kinds_read_too() {
    are(&[
        ("explain analyze select 1 from events where ts >= '2024-01-01'", JANUARY),
        ("insert into events select * from events where ts >= '2024-01-01'", JANUARY),
        ("create table t as select * from events where ts >= '2024-01-01'", JANUARY),
        ("update events set a = 1 where ts >= '2024-01-01'", JANUARY),
        ("update other set a = 1 from events e where e.ts >= '2024-01-01'", JANUARY),
        (
            "update events set a = (select max(a) from facts where day >= '2024-01-01') where ts >= '2024-01-01'",
            "2024-01-01.. & 2024-01-01..",
        ),
        ("delete from events where ts < '2024-01-01'", "..2024-01-01"),
        ("delete from other using events e where e.ts >= '2024-01-01'", JANUARY),
        ("copy events to stdout", ALL),
        ("copy (select * from events where ts >= '2024-01-01') to stdout", JANUARY),
        ("begin; select 1 from events where ts >= '2024-01-01'; commit", JANUARY),
        (
            "select 1 from events where ts >= '2024-01-01'; select 1 from events where ts < '2023-01-01'",
            "..2023-01-01, 2024-01-01..",
        ),
    ]);
}

#[test]
fn what_the_grammar_has_and_this_does_not_know_is_lost() {
    for text in [
        "table events",
        "merge into events e using other o on e.id = o.id when matched then delete",
        "with t as (delete from events returning *) select 1 from t",
        "alter table events add column x int",
        "select 1 from events where ts >= '2024-01-01' |> limit 5",
        "select 1 from events where ts >= ",
    ] {
        assert_eq!(found(text), "lost", "{text}");
    }
}
