//! Predicates on a column, form by form.

use super::{found, of, read, shown};

/// What each predicate lets through.
fn are(forms: &[(&str, &str)]) {
    for (predicate, expected) in forms {
        assert_eq!(of(predicate), *expected, "{predicate}");
    }
}

/// What is not understood, and bounds nothing.
const ALL: &str = "..";

#[test]
fn comparisons_bound_whichever_way_round_they_are() {
    are(&[
        ("ts >= '2024-01-31'", "2024-01-31.."),
        ("ts > '2024-01-31'", "2024-01-31+1us.."),
        ("ts < '2024-01-31'", "..2024-01-31"),
        ("ts <= '2024-01-31'", "..2024-01-31+1us"),
        ("ts = '2024-01-31'", "2024-01-31..2024-01-31+1us"),
        ("ts <> '2024-01-31'", "..2024-01-31, 2024-01-31+1us.."),
        ("ts != '2024-01-31'", "..2024-01-31, 2024-01-31+1us.."),
        ("'2024-01-31' <= ts", "2024-01-31.."),
        ("'2024-01-31' > ts", "..2024-01-31"),
        ("('2024-01-31') = (ts)", "2024-01-31..2024-01-31+1us"),
        ("ts is not distinct from '2024-01-31'", "2024-01-31..2024-01-31+1us"),
        ("not ts is distinct from '2024-01-31'", "2024-01-31..2024-01-31+1us"),
        ("ts is distinct from '2024-01-31'", ALL),
    ]);
}

#[test]
fn between_and_lists_bound() {
    are(&[
        ("ts between '2024-01-01' and '2024-01-31'", "2024-01-01..2024-01-31+1us"),
        ("ts not between '2024-01-01' and '2024-01-31'", "..2024-01-01, 2024-01-31+1us.."),
        ("'2024-01-05' between ts and now()", "..2024-01-05+1us"),
        ("ts in ('2024-01-03', '2024-01-01')", "2024-01-01..2024-01-01+1us, 2024-01-03..2024-01-03+1us"),
        ("ts in ('2024-01-01')", "2024-01-01..2024-01-01+1us"),
        ("ts in (date '2024-01-01', current_date)", "2024-01-01..2024-01-01+1us, 2024-05-15..2024-05-15+1us"),
        ("ts not in ('2024-01-01')", "..2024-01-01, 2024-01-01+1us.."),
        ("ts::date in ('2024-01-01', '2024-01-02')", "2024-01-01..2024-01-03"),
        ("ts in ('2024-01-01', null)", ALL),
        ("ts in ('2024-01-01', 'soon')", ALL),
        ("ts in ('2024-01-01', other)", ALL),
        ("ts in (select x from other)", ALL),
    ]);
}

#[test]
fn and_or_and_not_combine() {
    are(&[
        ("ts >= '2024-01-01' and ts < '2024-02-01'", "2024-01-01..2024-02-01"),
        ("ts >= '2024-01-01' and a = 5 and f(b)", "2024-01-01.."),
        ("ts >= '2024-01-01' or a = 5", ALL),
        ("ts = '2024-01-01' or ts >= '2024-03-01'", "2024-01-01..2024-01-01+1us, 2024-03-01.."),
        ("not ts < '2024-01-01'", "2024-01-01.."),
        ("not (ts < '2024-01-01' or ts >= '2024-02-01')", "2024-01-01..2024-02-01"),
        ("not (ts >= '2024-01-01' and ts < '2024-02-01')", "..2024-01-01, 2024-02-01.."),
        ("not (ts >= '2024-01-01' and a = 5)", ALL),
        ("not (ts < '2024-01-01' or a = 5)", "2024-01-01.."),
        ("not (not (ts >= '2024-01-01'))", "2024-01-01.."),
        ("(ts >= '2024-01-01') is true", "2024-01-01.."),
        ("(ts >= '2024-01-01') is false", "..2024-01-01"),
        ("(ts >= '2024-01-01') is not true", ALL),
        ("(ts >= '2024-01-01') is not false", ALL),
        ("ts >= '2024-01-01' and ts < '2023-01-01'", "nothing"),
        ("ts >= '2024-01-01' and true", "2024-01-01.."),
        ("ts >= '2024-01-01' and false", "nothing"),
        ("ts >= '2024-01-01' or true", ALL),
        ("ts is null", ALL),
        ("ts is not null", ALL),
        ("ts >= '2024-01-01' or ts is null", ALL),
    ]);
}

#[test]
fn times_are_written_in_many_ways() {
    are(&[
        ("ts >= date '2024-01-31'", "2024-01-31.."),
        ("ts >= timestamp '2024-01-31 12:00'", "2024-01-31 12:00:00.."),
        ("ts >= timestamp with time zone '2024-01-31 12:00:00Z'", "2024-01-31 12:00:00.."),
        ("ts >= timestamptz '2024-01-31 12:00:00'", "2024-01-31 12:00:00.."),
        ("ts >= '2024-01-31 12:30:15.5'::timestamp", "2024-01-31 12:30:15+500000us.."),
        ("ts >= cast('2024-01-31 12:00' as date)", "2024-01-31.."),
        ("ts >= '20240131'", "2024-01-31.."),
        ("ts >= to_date('2024-01-31', 'YYYY-MM-DD')", "2024-01-31.."),
        ("ts >= to_timestamp('2024-01-31 10:00:00', 'YYYY-MM-DD HH24:MI:SS')", "2024-01-31 10:00:00.."),
        ("ts >= to_date('31/01/2024', 'DD/MM/YYYY')", ALL),
        ("ts >= to_timestamp(1704067200)", "2024-01-01.."),
        ("ts >= make_date(2024, 1, 31)", "2024-01-31.."),
        ("ts >= make_date(2024, 2, 31)", ALL),
        ("ts >= date('2024-01-31 10:00')", "2024-01-31.."),
        ("ts >= '01/31/2024'", ALL),
        ("ts >= 'yesterday'", ALL),
        ("ts < 'infinity'", ALL),
        ("ts >= E'2024-01-31'", ALL),
        ("ts >= null", ALL),
        ("ts >= 5", ALL),
        ("ts >= other", ALL),
        ("ts >= (select max(x) from other)", ALL),
    ]);
}

#[test]
fn a_time_zone_that_a_column_may_ignore_widens() {
    are(&[
        ("ts >= '2024-01-31 12:00+02'", "2024-01-31 10:00:00.."),
        ("ts < '2024-01-31 12:00+02'", "..2024-01-31 12:00:00"),
        ("ts >= '2024-01-31 12:00-05:30'", "2024-01-31 12:00:00.."),
        ("ts at time zone 'UTC' >= '2024-01-31'", "2024-01-31.."),
        ("ts at time zone 'Asia/Tokyo' >= '2024-01-31'", "2024-01-30 08:00:00.."),
        ("ts < '2024-01-31'::timestamp at time zone 'Asia/Tokyo'", "..2024-01-31 16:00:00"),
    ]);
}

#[test]
fn now_is_when_the_query_came() {
    are(&[
        ("ts >= now()", "2024-05-15 10:30:00.."),
        ("ts >= current_timestamp", "2024-05-15 10:30:00.."),
        ("ts >= localtimestamp", "2024-05-15 10:30:00.."),
        ("ts >= pg_catalog.now()", "2024-05-15 10:30:00.."),
        ("ts >= getdate()", "2024-05-15 10:30:00.."),
        ("ts >= current_date", "2024-05-15.."),
        ("ts >= now()::date", "2024-05-15.."),
        ("ts >= current_timestamp(0)", ALL),
        ("ts >= mine.now()", ALL),
        ("ts >= random()", ALL),
    ]);
}

#[test]
fn intervals_go_by_the_calendar() {
    are(&[
        ("ts >= now() - interval '7 days'", "2024-05-08 10:30:00.."),
        ("ts >= now() - interval '1' day", "2024-05-14 10:30:00.."),
        ("ts >= now() - interval '1 hour 30 minutes'", "2024-05-15 09:00:00.."),
        ("ts >= current_date - interval '3 months'", "2024-02-15.."),
        ("ts >= date '2024-03-31' - interval '1 month'", "2024-02-29.."),
        ("ts >= date '2024-02-29' - interval '1 year'", "2023-02-28.."),
        ("ts >= '2024-01-01'::date + interval '1' month", "2024-02-01.."),
        ("ts >= current_date - 7", "2024-05-08.."),
        ("ts >= current_date - 7 * interval '1 day'", "2024-05-08.."),
        ("ts >= now() - interval '1 day' * 2", "2024-05-13 10:30:00.."),
        ("ts >= now() - (interval '1 day' + interval '1 hour')", "2024-05-14 09:30:00.."),
        ("ts >= now() + - interval '1 day'", "2024-05-14 10:30:00.."),
        ("ts >= now() - '1 day'::interval", "2024-05-14 10:30:00.."),
        ("ts >= dateadd(day, -7, current_date)", "2024-05-08.."),
        ("ts >= dateadd('month', -1, getdate())", "2024-04-15 10:30:00.."),
        ("ts >= now() - interval 'a while'", ALL),
        ("ts >= now() - interval '1-2' year to month", ALL),
        ("ts >= now() - other", ALL),
        ("ts >= now() - make_interval(days => 7)", ALL),
    ]);
}

#[test]
fn date_trunc_cuts_constants_and_columns() {
    are(&[
        ("ts >= date_trunc('month', now())", "2024-05-01.."),
        ("ts >= date_trunc('quarter', current_date) - interval '1 year'", "2023-04-01.."),
        ("ts >= date_trunc('week', now())", "2024-05-13.."),
        ("date_trunc('day', ts) = '2024-01-31'", "2024-01-31..2024-02-01"),
        ("date_trunc('month', ts) = '2024-01-01'", "2024-01-01..2024-02-01"),
        ("date_trunc('month', ts) = '2024-01-02'", "nothing"),
        ("date_trunc('month', ts) > '2024-01-01'", "2024-02-01.."),
        ("date_trunc('month', ts) <= '2024-01-01'", "..2024-02-01"),
        ("date_trunc('year', ts) between '2023-01-01' and '2024-01-01'", "2023-01-01..2025-01-01"),
        ("date_trunc('hour', ts) in ('2024-01-01 10:00')", "2024-01-01 10:00:00..2024-01-01 11:00:00"),
        ("date_trunc('month', ts) = date_trunc('month', now())", "2024-05-01..2024-06-01"),
        ("date_trunc('fortnight', ts) >= '2024-01-01'", ALL),
        ("date_trunc('day', ts, 'UTC') >= '2024-01-01'", ALL),
        ("date_trunc(other, ts) >= '2024-01-01'", ALL),
    ]);
}

#[test]
fn what_is_done_to_a_column_is_undone() {
    are(&[
        ("ts::date = '2024-01-31'", "2024-01-31..2024-02-01"),
        ("ts::date <> '2024-01-31'", "..2024-01-31, 2024-02-01.."),
        ("cast(ts as date) <= '2024-01-31'", "..2024-02-01"),
        ("date(ts) = current_date - 1", "2024-05-14..2024-05-15"),
        ("ts::timestamp >= '2024-01-31'", "2024-01-31.."),
        ("ts::timestamp(0) >= '2024-01-31'", "2024-01-30 23:59:59.."),
        ("ts + interval '1 day' > now()", "2024-05-14 10:30:00+1us.."),
        ("ts - interval '1 hour' < '2024-01-31'", "..2024-01-31 01:00:00"),
        ("interval '1 day' + ts >= '2024-01-31'", "2024-01-30.."),
        ("dateadd(day, 7, ts) >= '2024-01-31'", "2024-01-24.."),
        ("date_trunc('day', ts + interval '2 hours') = '2024-01-31'", "2024-01-30 22:00:00..2024-01-31 22:00:00"),
        ("ts + interval '1 month' >= '2024-03-31'", "2024-02-25.."),
        ("extract(year from ts) = 2024", "2024-01-01..2025-01-01"),
        ("extract(year from ts) in (2020, 2021)", "2020-01-01..2022-01-01"),
        ("date_part('year', ts) >= 2024", "2024-01-01.."),
        ("year(ts) < 2024", "..2024-01-01"),
        ("extract(year from ts) = extract(year from now())", "2024-01-01..2025-01-01"),
        ("extract(epoch from ts) >= 1704067200", "2023-12-31 23:59:59.."),
        ("extract(month from ts) = 5", ALL),
        ("date_part('dow', ts) = 1", ALL),
        ("to_char(ts, 'YYYY') = '2024'", ALL),
        ("ts::text >= '2024'", ALL),
        ("ts::text like '2024-01%'", ALL),
        ("coalesce(ts, now()) >= '2024-01-01'", ALL),
        ("case when a then ts end >= '2024-01-01'", ALL),
        ("ts + a * interval '1 day' >= now()", ALL),
        ("ts >= ts2", ALL),
        ("(ts, ts2) overlaps (now(), now())", ALL),
    ]);
}

#[test]
fn differences_of_times_are_solved_for_the_column() {
    are(&[
        ("now() - ts < interval '7 days'", "2024-05-08 10:30:00+1us.."),
        ("now() - ts <= '7 days'", "2024-05-08 10:30:00.."),
        ("ts - now() > interval '-7 days'", "2024-05-08 10:30:00+1us.."),
        ("current_date - ts::date <= 7", "2024-05-08.."),
        ("current_date - ts::date = 7", "2024-05-08..2024-05-09"),
        ("ts::date - current_date >= -7", "2024-05-08.."),
        ("now() - ts between interval '1 day' and interval '2 days'", "2024-05-13 10:30:00..2024-05-14 10:30:00+1us"),
        ("now() - ts < interval '1 month'", "2024-04-15 10:30:00+1us.."),
        ("age(ts) < interval '7 days'", ALL),
        ("now() - ts < 7", ALL),
    ]);
}

#[test]
fn rows_are_compared_by_what_comes_first() {
    are(&[
        ("(ts, id) > ('2024-01-31', 7)", "2024-01-31.."),
        ("(ts, id) <= ('2024-01-31', 7)", "..2024-01-31+1us"),
        ("(ts, id) = ('2024-01-31', 7)", "2024-01-31..2024-01-31+1us"),
        ("(id, ts) = (7, '2024-01-31')", "2024-01-31..2024-01-31+1us"),
        ("(id, ts) > (7, '2024-01-31')", ALL),
        ("(ts, id) <> ('2024-01-31', 7)", ALL),
    ]);
}

#[test]
fn names_are_the_columns_only_where_they_are() {
    for (text, expected) in [
        ("select 1 from events e where e.ts > '2024-01-01'", "2024-01-01+1us.."),
        ("select 1 from events where events.ts >= '2024-01-01'", "2024-01-01.."),
        ("select 1 from public.events where public.events.ts >= '2024-01-01'", "2024-01-01.."),
        ("select 1 from public.events where events.TS >= '2024-01-01'", "2024-01-01.."),
        ("select 1 from events where \"ts\" >= '2024-01-01'", "2024-01-01.."),
        ("select 1 from events where \"TS\" >= '2024-01-01'", ALL),
        ("select 1 from events e where events.ts >= '2024-01-01'", ALL),
        ("select 1 from events e where x.ts >= '2024-01-01'", ALL),
        ("select 1 from events as e(a, ts) where ts >= '2024-01-01'", ALL),
        ("select 1 from events where day >= '2024-01-01'", ALL),
        ("select 1 from shop.orders where placed >= '2024-01-01'", "2024-01-01.."),
        ("select 1 from other.orders where placed >= '2024-01-01'", ""),
        ("select 1 from orders where placed >= '2024-01-01'", ALL),
    ] {
        assert_eq!(found(text), expected, "{text}");
    }
}

#[test]
fn columns_of_dates_cover_whole_days() {
    let of = |predicate: &str| found(&format!("select 1 from facts where {predicate}"));
    assert_eq!(of("day = '2024-01-31'"), "2024-01-31..2024-02-01");
    assert_eq!(of("day between '2024-01-01' and '2024-01-31'"), "2024-01-01..2024-02-01");
    assert_eq!(of("day > '2024-01-01'"), "2024-01-02..");
    assert_eq!(of("day <> '2024-01-01'"), "..2024-01-01, 2024-01-02..");
    // Some compare with the date, some with the time of day.
    assert_eq!(of("day >= '2024-01-01 12:00'"), "2024-01-01..");
    assert_eq!(of("day >= now() - interval '7 days'"), "2024-05-09..");
    assert_eq!(of("day >= current_date - 7"), "2024-05-08..");
    assert_eq!(of("day + 7 > current_date"), "2024-05-09..");
    assert_eq!(of("current_date - day < 7"), "2024-05-09..");
    assert_eq!(of("day - date '2024-01-01' between 0 and 6"), "2024-01-01..2024-01-08");
}

#[test]
fn columns_of_numbers_are_instants_in_their_unit() {
    for (text, expected) in [
        ("select 1 from secs where at >= 1704067200", "2024-01-01.."),
        ("select 1 from secs where at = 1704067200", "2024-01-01..2024-01-01 00:00:01"),
        ("select 1 from secs where at > 1704067200", "2024-01-01 00:00:01.."),
        ("select 1 from secs where at >= extract(epoch from now() - interval '1 day')", "2024-05-14 10:30:00.."),
        ("select 1 from secs where to_timestamp(at) >= '2024-01-01'", "2024-01-01.."),
        ("select 1 from secs where at >= '1704067200'", "2024-01-01.."),
        ("select 1 from secs where at >= '2024-01-01'", ALL),
        ("select 1 from millis where at between 1704067200000 and 1704067200999", "2024-01-01..2024-01-01 00:00:01"),
        ("select 1 from millis where at >= extract(epoch from now()) * 1000", "2024-05-15 10:30:00.."),
        ("select 1 from millis where to_timestamp(at / 1000) >= '2024-01-01'", "2023-12-31 23:59:59.."),
        ("select 1 from micros where at < 1704067200000000", "..2024-01-01"),
        ("select 1 from numbers where k between 20240101 and 20240131", "2024-01-01..2024-02-01"),
        ("select 1 from numbers where k = 20240230", "nothing"),
        ("select 1 from numbers where k in (20240101, 20240103)", "2024-01-01..2024-01-02, 2024-01-03..2024-01-04"),
        ("select 1 from numbers where k > '20240131'", "2024-02-01.."),
        ("select 1 from numbers where k % 2 = 0", ALL),
    ] {
        assert_eq!(found(text), expected, "{text}");
    }
}

#[test]
fn parameters_are_what_the_client_says_or_unknown() {
    let with = |predicate: &str, parameters: &[Option<&str>]| {
        shown(&read(&format!("select 1 from events where {predicate}"), parameters).expect("understood")[0])
    };
    assert_eq!(with("ts >= $1", &[Some("2024-01-31")]), "2024-01-31..");
    assert_eq!(with("ts >= $2 and ts < $1", &[Some("2024-02-01"), Some("2024-01-31")]), "2024-01-31..2024-02-01");
    assert_eq!(with("ts >= $1::date", &[Some("2024-01-31 10:00")]), "2024-01-31..");
    assert_eq!(with("ts >= current_date - $1::int", &[Some("7")]), "2024-05-08..");
    assert_eq!(with("ts >= now() - $1::interval", &[Some("7 days")]), "2024-05-08 10:30:00..");
    assert_eq!(with("date_trunc($1, ts) = '2024-01-01'", &[Some("month")]), "2024-01-01..2024-02-01");
    assert_eq!(with("ts in ($1, $2)", &[Some("2024-01-01"), Some("2024-01-02")]).matches(',').count(), 1);
    assert_eq!(with("ts in ($1, $2)", &[Some("2024-01-01"), None]), ALL);
    assert_eq!(with("ts >= $1", &[None]), ALL);
    assert_eq!(with("ts >= $1", &[]), ALL);
    assert_eq!(with("ts >= $0", &[Some("2024-01-01")]), ALL);
}
