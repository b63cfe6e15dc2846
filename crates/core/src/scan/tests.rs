//! What is understood, form by form, and what is not; and that nothing is ever found to be less than it is.

use std::sync::Arc;

use super::asked::Asked;
use super::calendar::{DAY, Micros};
use super::constant::Filling;
use super::ranges::{LEAST, MOST, Ranges};
use super::value::time_of;
use super::*;

mod forms;
mod queries;
mod random;

/// When all queries of these tests come.
const NOW: &str = "2024-05-15 10:30:00";

fn at(text: &str) -> Micros {
    time_of(text).expect(text).0
}

fn table(name: &str, column: &str, unit: ColumnUnit) -> TimeTable {
    TimeTable { name: name.into(), column: column.into(), unit, segment: None, from: None, to: None }
}

/// The tables of these tests.
fn tables() -> TimeTables {
    use ColumnUnit::*;
    TimeTables::new(vec![
        table("events", "ts", Timestamp),
        table("facts", "day", Date),
        table("secs", "at", Seconds),
        table("millis", "at", Millis),
        table("micros", "at", Micros),
        table("numbers", "k", DayNumber),
        table("shop.orders", "placed", Timestamp),
        table("old.orders", "placed", Timestamp),
        TimeTable { segment: Some(Span::from_micros(DAY as u64)), ..table("parts", "ts", Timestamp) },
        TimeTable {
            segment: Some(Span::from_micros(7 * DAY as u64)),
            from: Some(at("2024-01-04") as i64),
            to: Some(End::Before(at("2024-02-08") as i64)),
            ..table("weeks", "ts", Timestamp)
        },
        TimeTable { to: Some(End::Now), ..table("logs", "ts", Timestamp) },
    ])
}

/// What a text reads of the tables that it reads; None: it may be anything.
fn read(text: &str, parameters: &[Option<&str>]) -> Option<Vec<Ranges>> {
    let (tables, lower) = (tables(), text.to_ascii_lowercase());
    let asked = Asked::of(text, &lower)?;
    let recipe = compile::compile(&asked.shape, &tables);
    let filling = Filling { asked: &asked, parameters, now: at(NOW) };
    (!recipe.lost).then(|| by_table(&recipe, &tables, &filling).into_iter().map(|(_, ranges)| ranges).collect())
}

/// What a text reads of its one table, written as `from..to` with nothing where there is no end.
fn found(text: &str) -> String {
    match read(text, &[]).as_deref() {
        None => "lost".to_owned(),
        Some([ranges]) => shown(ranges),
        Some(several) => several.iter().map(shown).collect::<Vec<_>>().join(" & "),
    }
}

fn shown(ranges: &Ranges) -> String {
    let end = |at: Micros| if at <= LEAST || at >= MOST { String::new() } else { instant(at) };
    let piece = |(from, to): &(Micros, Micros)| format!("{}..{}", end(*from), end(*to));
    match ranges.pieces() {
        [] => "nothing".to_owned(),
        pieces => pieces.iter().map(piece).collect::<Vec<_>>().join(", "),
    }
}

/// `2024-01-31`, with the time of day and `+1us` where there are such.
fn instant(at: Micros) -> String {
    let (year, month, day) = calendar::civil(at.div_euclid(DAY) as i64);
    let of_day = at.rem_euclid(DAY);
    let (seconds, micros) = (of_day / 1_000_000, of_day % 1_000_000);
    let clock = match (seconds, micros) {
        (0, 0) => String::new(),
        (0, micros) => format!("+{micros}us"),
        (seconds, micros) => {
            let clock = format!(" {:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60);
            if micros == 0 { clock } else { format!("{clock}+{micros}us") }
        }
    };
    format!("{year:04}-{month:02}-{day:02}{clock}")
}

/// What a predicate on `events` lets through.
fn of(predicate: &str) -> String {
    found(&format!("select count(*) from events where {predicate}"))
}

fn scanned(text: &str) -> Option<Scan> {
    let mut scans = Scans::new(Arc::new(tables()), 64);
    scans.read(text, &Statement::read(text), &[], Time::from_micros(at(NOW) as u64))
}

#[test]
fn a_scan_says_how_far_back_and_how_much() {
    let days = |days: u64| Some(Span::from_secs(days * 86_400));
    let scan = scanned("select 1 from events where ts >= '2024-05-01' and ts < '2024-05-08'").expect("a scan");
    assert_eq!((scan.reach, scan.duration), (Some(Span::from_secs(14 * 86_400 + 37_800)), days(7)));
    assert_eq!((scan.segments, scan.segment_range), (None, None));
    let open = scanned("select 1 from events where ts >= now() - interval '7 days'").expect("a scan");
    assert_eq!((open.reach, open.duration), (days(7), None));
    // A table that holds nothing of the future has an end.
    let closed = scanned("select 1 from logs where ts > now() - interval '7 days'").expect("a scan");
    assert_eq!((closed.reach.map(|reach| reach.micros() + 1), closed.duration), (Some(7 * DAY as u64), days(7)));
    let none = scanned("select 1 from events where ts < '2024-01-01' and ts > '2024-02-01'").expect("a scan");
    assert_eq!((none.reach, none.duration), (Some(Span::ZERO), Some(Span::ZERO)));
    let future = scanned("select 1 from events where ts between '2030-01-01' and '2030-01-02'").expect("a scan");
    assert_eq!(future.reach, Some(Span::ZERO));
    assert_eq!(scanned("select 1 from events"), Some(Scan::default()));
    assert_eq!(scanned("select 1 from other where ts > '2024-01-01'"), None);
    assert_eq!(scanned("insert into events values ('2024-01-01')"), None);
}

#[test]
fn partitions_are_those_that_are_touched() {
    let days = |days: u64| Some(Span::from_secs(days * 86_400));
    let of = |text: &str| scanned(text).map(|scan| (scan.segments, scan.segment_range)).expect("a scan");
    assert_eq!(of("select 1 from parts where ts >= '2024-05-01' and ts < '2024-05-03'"), (Some(2), days(2)));
    assert_eq!(of("select 1 from parts where ts between '2024-05-01 12:00' and '2024-05-03'"), (Some(3), days(3)));
    assert_eq!(of("select 1 from parts where ts = '2024-05-01' or ts = '2024-05-01 23:00'"), (Some(1), days(1)));
    assert_eq!(of("select 1 from parts"), (Some(u32::MAX), Some(Span::MAX)));
    // Its data have ends of their own: five weeks from a Thursday on, as the epoch was one.
    assert_eq!(of("select 1 from weeks"), (Some(5), days(35)));
    assert_eq!(of("select 1 from weeks where ts > '2024-02-01'"), (Some(1), days(7)));
    assert_eq!(of("select 1 from weeks where ts > '2025-02-01'"), (Some(0), days(0)));
}

#[test]
fn of_several_tables_time_is_counted_once_and_partitions_are_summed() {
    let days = |days: u64| Some(Span::from_secs(days * 86_400));
    let text = "select 1 from parts p join weeks w on p.id = w.id \
                where p.ts >= '2024-01-11' and p.ts < '2024-01-14' and w.ts >= '2024-01-11' and w.ts < '2024-01-25'";
    let scan = scanned(text).expect("a scan");
    assert_eq!(scan.duration, days(14));
    assert_eq!((scan.segments, scan.segment_range), (Some(3 + 2), days(14)));
    let twice = "select 1 from parts a, parts b where a.ts >= '2024-01-11' and a.ts < '2024-01-13' \
                 and b.ts >= '2024-01-12' and b.ts < '2024-01-14'";
    assert_eq!(scanned(twice).map(|scan| (scan.segments, scan.duration)), Some((Some(3), days(3))));
    // One that is not bounded makes all of it so.
    let one = "select 1 from parts p join weeks w on p.id = w.id where w.ts >= '2024-01-11'";
    assert_eq!(scanned(one).map(|scan| (scan.reach, scan.duration)), Some((None, None)));
}

#[test]
fn what_a_scan_was_found_from_is_told_and_is_what_decides() {
    let mut scans = Scans::new(Arc::new(tables()), 64);
    let now = Time::from_micros(at(NOW) as u64);
    let mut explained = |text: &str, parameters: &[Option<&str>]| {
        let statement = Statement::read(text);
        let evidence = scans.explain(text, &statement, parameters, now);
        assert_eq!(evidence.as_ref().map(|evidence| evidence.scan), scans.read(text, &statement, parameters, now));
        evidence
    };
    let micros = |text: &str| Some(at(text) as i64);
    let text = "select 1 from events e join logs l on true where e.ts >= $1 and l.ts >= '2024-05-01'";
    let told = explained(text, &[None]).expect("it reads both");
    let events = TableRead { table: Some(0), pieces: vec![(None, None)] };
    let logs = TableRead { table: Some(10), pieces: vec![(micros("2024-05-01"), micros(NOW).map(|at| at + 1))] };
    assert_eq!((told.understood, told.unknown, told.reads.len()), (true, vec![1], 2));
    assert!(told.reads.contains(&events) && told.reads.contains(&logs), "{:?}", told.reads);
    assert!(events.has_no_beginning() && events.has_no_end() && !logs.has_no_beginning() && !logs.has_no_end());
    let told = explained(text, &[Some("2024-05-02")]).expect("it reads both");
    assert_eq!(told.unknown, []);
    assert!(told.reads.iter().all(|read| !read.has_no_beginning()), "{:?}", told.reads);
    let nothing = explained("select 1 from events where ts < '2024-01-01' and ts > '2024-02-01'", &[]).expect("a scan");
    assert_eq!(nothing.reads, [TableRead { table: Some(0), pieces: Vec::new() }]);
    let several = explained("select 1 from orders where placed > '2024-01-01'", &[]).expect("one of two");
    assert_eq!(several.reads, [TableRead { table: None, pieces: vec![(None, None)] }]);
    let lost = explained("select from from events where", &[]).expect("it may read it");
    assert_eq!((lost.understood, lost.reads.len(), lost.scan.reach), (false, 0, None));
    assert_eq!(explained("select 1 from other", &[]), None);
}

#[test]
fn what_was_seen_is_known_again_with_other_literals() {
    let mut scans = Scans::new(Arc::new(tables()), 64);
    let mut reach = |text: &str, parameters: &[Option<&str>]| {
        let now = Time::from_micros(at(NOW) as u64);
        scans.read(text, &Statement::read(text), parameters, now).and_then(|scan| scan.reach).map(Span::secs_f64)
    };
    let days = |days: u32| Some(f64::from(days) * 86_400.0);
    for count in [3, 9, 27] {
        let text = format!(
            "select 1 from events where ts >= now() - interval '{count} days' and a in (1{})",
            ", 2".repeat(count)
        );
        assert_eq!(reach(&text, &[]), days(count as u32));
    }
    let text = "select 1 from events where ts >= $1::timestamptz - interval '1 day' and b = $2";
    assert_eq!(reach(text, &[Some(NOW), None]), days(1));
    assert_eq!(reach(text, &[Some("2024-05-14 10:30"), Some("x")]), days(2));
    assert_eq!(reach(text, &[None, Some("x")]), None);
    assert_eq!(reach(text, &[]), None);
    assert_eq!(reach("select 1 from events where ts >= $9", &[Some(NOW)]), None);
    // The number of recipes is that of the shapes: a list of literals is one whatever its length.
    assert_eq!(scans.shelf.len(), 3);
}

#[test]
fn what_is_forgotten_is_found_again() {
    let mut scans = Scans::new(Arc::new(tables()), 8);
    let now = Time::from_micros(at(NOW) as u64);
    for round in 0..3 {
        for columns in 1..40 {
            let list = (0..columns).map(|column| format!("c{column}")).collect::<Vec<_>>().join(", ");
            let text = format!("select {list} from events where ts >= now() - interval '{columns} hours'");
            let scan = scans.read(&text, &Statement::read(&text), &[], now);
            assert_eq!(scan.and_then(|scan| scan.reach), Some(Span::from_secs(columns * 3_600)), "{round}");
            assert!(scans.shelf.len() <= 8);
        }
    }
    for length in 1..100 {
        let text = format!("select f({}) from events", "1,".repeat(length) + "1");
        assert_eq!(scans.read(&text, &Statement::read(&text), &[], now), Some(Scan::default()));
        assert!(scans.shelf.len() <= 8);
    }
}

#[test]
fn a_text_that_is_deep_long_or_nonsense_is_unbounded_and_harmless() {
    let deep = |open: &str, close: &str, times: usize| {
        format!("select 1 from events where ts > '2024-01-01' and {}1{} = 1", open.repeat(times), close.repeat(times))
    };
    for times in [1, 8, 12, 20, 32, 33, 5_000] {
        for (open, close) in [
            ("(", ")"),
            ("not ", ""),
            ("- ", ""),
            ("1+(", ")"),
            ("f(", ")"),
            ("(select (", "))"),
            ("case when ", " end"),
            ("cast(", " as int)"),
            ("array[", "]"),
            ("f(x => ", ")"),
            ("interval ", ""),
            ("(1, ", ")"),
            ("exists (select ", ")"),
            ("row(", ")"),
            ("coalesce(1, ", ")"),
            ("extract(year from ", ")"),
            ("x in (", ")"),
            ("substring(", " from 1)"),
            ("f(distinct ", ")"),
            ("f(1) over (order by ", ")"),
            ("struct(", ")"),
            ("{", "}"),
            ("any(", ")"),
            ("trim(", ")"),
            ("position(1 in ", ")"),
            ("x::decimal(", ")"),
            ("map {'a': ", "}"),
            ("a -> (b -> ", ")"),
            ("f(a -> ", ")"),
        ] {
            scanned(&deep(open, close, times));
        }
    }
    let chain =
        |piece: &str, times: usize| format!("select 1 from events where ts > '2024-01-01'{}", piece.repeat(times));
    for piece in
        [" and a = 1", " or a = 1", " + 1", " is null", "::int", " union select 1 from events", " || a", "[1]", ".a"]
    {
        for times in [30, 100, 240, 10_000] {
            scanned(&chain(piece, times));
        }
    }
    assert_eq!(
        scanned(&chain(" and a = 1", 100)).and_then(|scan| scan.reach),
        Some(Span::from_micros((at(NOW) - at("2024-01-01") - 1) as u64))
    );
    assert_eq!(scanned(&chain(" and a = 1", 1_000)).map(|scan| (scan.reach, scan.duration)), Some((None, None)));
    for join in [" join x on true", ", x", " left join x using (id)", ", (select 1) y"] {
        for times in [100, 1_000] {
            scanned(&format!("select 1 from events{}", join.repeat(times)));
        }
    }
    for times in [8, 16, 31, 40] {
        scanned(&format!("select 1 from {}events{}", "(".repeat(times), ")".repeat(times)));
        scanned(&format!("select 1 from {}select 1 from events{}", "(".repeat(times), ") t".repeat(times)));
        scanned(&format!("{}select 1 from events{}", "with t as (".repeat(times), ") select 1 from t".repeat(times)));
    }
    for text in [
        "select from from events where",
        "select 1 from events where ts >",
        "from events",
        "select 'x from events",
        "select 1 from events where ts > '2024-01-01' )",
    ] {
        assert!(scanned(text).is_none_or(|scan| scan.reach.is_none()), "{text}");
    }
}
