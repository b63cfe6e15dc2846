//! Predicates by chance, evaluated row by row: every instant that is selected must lie in what was found.

use proptest::prelude::*;

use super::calendar::{DAY, Micros, Unit, add_months};
use super::{NOW, at, read};

/// A value as SQL text, and what it is.
#[derive(Clone, Debug)]
struct Time(String, Micros);

/// What is done to the column.
#[derive(Clone, Copy, Debug)]
enum Side {
    Plain,
    Trunc(&'static str),
    Day,
    Days(i64),
    Months(i64),
    TruncAfterHours(&'static str, i64),
    Year,
    SinceThen,
    DaysSince,
}

/// A predicate.
#[derive(Clone, Debug)]
enum Predicate {
    Compare(Side, &'static str, Time, bool),
    Between(Side, bool, Time, Time),
    In(Side, bool, Vec<Time>),
    /// Something of another column: the row says whether it is true, false or unknown.
    Other,
    And(Vec<Predicate>),
    Or(Vec<Predicate>),
    Not(Box<Predicate>),
}

/// Some instants are whole days, months or years, so that ends are met.
fn instants() -> impl Strategy<Value = Micros> {
    let base = at("2023-01-01");
    prop_oneof![
        (0..800_i128).prop_map(move |day| base + day * DAY),
        (0..26_i64).prop_map(move |month| add_months(base, month)),
        (0..800_i128, 0..24_i128).prop_map(move |(day, hour)| base + day * DAY + hour * 3_600_000_000),
        (0..800 * DAY).prop_map(move |micros| base + micros),
    ]
}

fn times() -> impl Strategy<Value = Time> {
    let now = at(NOW);
    let literal = |at: Micros| format!("'{}'", written(at));
    prop_oneof![
        instants().prop_map(move |at| Time(literal(at), at)),
        instants().prop_map(move |at| Time(format!("timestamp {}", literal(at)), at)),
        instants().prop_map(move |at| Time(format!("{}::date", literal(at)), Unit::Day.floor(at))),
        (0..500_i128).prop_map(move |days| Time(format!("now() - interval '{days} days'"), now - days * DAY)),
        (-9..15_i64)
            .prop_map(move |months| { Time(format!("now() - interval '{months} months'"), add_months(now, -months)) }),
        (0..500_i128).prop_map(move |days| Time(format!("current_date - {days}"), Unit::Day.floor(now) - days * DAY)),
        (instants(), units()).prop_map(move |(at, unit)| {
            let floor = Unit::named(unit).expect(unit).floor(at);
            Time(format!("date_trunc('{unit}', timestamp {})", literal(at)), floor)
        }),
    ]
}

fn units() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["hour", "day", "week", "month", "quarter", "year"])
}

fn sides() -> impl Strategy<Value = Side> {
    prop_oneof![
        3 => Just(Side::Plain),
        1 => units().prop_map(Side::Trunc),
        1 => Just(Side::Day),
        1 => (-40..40_i64).prop_map(Side::Days),
        1 => (-14..14_i64).prop_map(Side::Months),
        1 => (units(), -30..30_i64).prop_map(|(unit, hours)| Side::TruncAfterHours(unit, hours)),
        1 => Just(Side::Year),
        1 => Just(Side::SinceThen),
        1 => Just(Side::DaysSince),
    ]
}

fn predicates() -> impl Strategy<Value = Predicate> {
    let operators = || prop::sample::select(vec!["=", "<>", "<", "<=", ">", ">="]);
    let leaf = prop_oneof![
        6 => (sides(), operators(), times(), any::<bool>()).prop_map(|(side, op, time, turned)| {
            Predicate::Compare(side, op, time, turned)
        }),
        2 => (sides(), any::<bool>(), times(), times()).prop_map(|(side, not, a, b)| Predicate::Between(side, not, a, b)),
        1 => (sides(), any::<bool>(), prop::collection::vec(times(), 1..4)).prop_map(|(side, not, list)| {
            Predicate::In(side, not, list)
        }),
        1 => Just(Predicate::Other),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(Predicate::And),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Predicate::Or),
            inner.prop_map(|of| Predicate::Not(Box::new(of))),
        ]
    })
}

fn written(at: Micros) -> String {
    let (year, month, day) = super::calendar::civil(at.div_euclid(DAY) as i64);
    let of_day = at.rem_euclid(DAY);
    let (seconds, micros) = (of_day / 1_000_000, of_day % 1_000_000);
    let clock = format!("{:02}:{:02}:{:02}.{micros:06}", seconds / 3_600, seconds / 60 % 60, seconds % 60);
    if of_day == 0 {
        format!("{year:04}-{month:02}-{day:02}")
    } else {
        format!("{year:04}-{month:02}-{day:02} {clock}")
    }
}

impl Side {
    fn text(self) -> String {
        match self {
            Side::Plain => "ts".to_owned(),
            Side::Trunc(unit) => format!("date_trunc('{unit}', ts)"),
            Side::Day => "ts::date".to_owned(),
            Side::Days(days) => format!("(ts + interval '{days} days')"),
            Side::Months(months) => format!("(ts - interval '{months} months')"),
            Side::TruncAfterHours(unit, hours) => format!("date_trunc('{unit}', ts + interval '{hours} hours')"),
            Side::Year => "extract(year from ts)".to_owned(),
            Side::SinceThen => format!("(timestamp '{NOW}' - ts)"),
            Side::DaysSince => "(current_date - ts::date)".to_owned(),
        }
    }

    fn value(self, ts: Micros) -> Micros {
        let trunc = |unit: &str, at| Unit::named(unit).expect("a unit").floor(at);
        match self {
            Side::Plain => ts,
            Side::Trunc(unit) => trunc(unit, ts),
            Side::Day => Unit::Day.floor(ts),
            Side::Days(days) => ts + Micros::from(days) * DAY,
            Side::Months(months) => add_months(ts, -months),
            Side::TruncAfterHours(unit, hours) => trunc(unit, ts + Micros::from(hours) * 3_600_000_000),
            Side::Year => Micros::from(super::calendar::civil(ts.div_euclid(DAY) as i64).0),
            Side::SinceThen => at(NOW) - ts,
            Side::DaysSince => (Unit::Day.floor(at(NOW)) - Unit::Day.floor(ts)) / DAY,
        }
    }

    /// What it is compared with, made of a time.
    fn constant(self, time: &Time) -> Time {
        match self {
            Side::Year => {
                let year = Side::Year.value(time.1);
                Time(year.to_string(), year)
            }
            Side::SinceThen => {
                let hours = (at(NOW) - time.1) / 3_600_000_000;
                Time(format!("interval '{hours} hours'"), hours * 3_600_000_000)
            }
            Side::DaysSince => {
                let days = Side::DaysSince.value(time.1);
                Time(days.to_string(), days)
            }
            // With a date, a text is made a date; what has a time of day is compared as it is.
            _ => time.clone(),
        }
    }
}

impl Predicate {
    fn text(&self) -> String {
        let list = |parts: &[Predicate], word: &str| {
            let parts: Vec<String> = parts.iter().map(|part| format!("({})", part.text())).collect();
            parts.join(word)
        };
        match self {
            Predicate::Compare(side, op, time, false) => format!("{} {op} {}", side.text(), side.constant(time).0),
            Predicate::Compare(side, op, time, true) => {
                let turned = match *op {
                    "<" => ">",
                    "<=" => ">=",
                    ">" => "<",
                    ">=" => "<=",
                    same => same,
                };
                format!("{} {turned} {}", side.constant(time).0, side.text())
            }
            Predicate::Between(side, not, low, high) => {
                let not = if *not { "not " } else { "" };
                format!("{} {not}between {} and {}", side.text(), side.constant(low).0, side.constant(high).0)
            }
            Predicate::In(side, not, list) => {
                let list: Vec<String> = list.iter().map(|time| side.constant(time).0).collect();
                format!("{} {}in ({})", side.text(), if *not { "not " } else { "" }, list.join(", "))
            }
            Predicate::Other => "a = 5".to_owned(),
            Predicate::And(parts) => list(parts, " and "),
            Predicate::Or(parts) => list(parts, " or "),
            Predicate::Not(of) => format!("not ({})", of.text()),
        }
    }

    /// As SQL has it: true, false or unknown.
    fn holds(&self, ts: Micros, other: Option<bool>) -> Option<bool> {
        match self {
            Predicate::Compare(side, op, time, _) => {
                let (value, than) = (side.value(ts), side.constant(time).1);
                Some(match *op {
                    "=" => value == than,
                    "<>" => value != than,
                    "<" => value < than,
                    "<=" => value <= than,
                    ">" => value > than,
                    _ => value >= than,
                })
            }
            Predicate::Between(side, not, low, high) => {
                let value = side.value(ts);
                Some((side.constant(low).1 <= value && value <= side.constant(high).1) != *not)
            }
            Predicate::In(side, not, list) => {
                Some(list.iter().any(|time| side.constant(time).1 == side.value(ts)) != *not)
            }
            Predicate::Other => other,
            Predicate::And(parts) => {
                let holds: Vec<_> = parts.iter().map(|part| part.holds(ts, other)).collect();
                if holds.contains(&Some(false)) {
                    Some(false)
                } else if holds.contains(&None) {
                    None
                } else {
                    Some(true)
                }
            }
            Predicate::Or(parts) => {
                let holds: Vec<_> = parts.iter().map(|part| part.holds(ts, other)).collect();
                if holds.contains(&Some(true)) {
                    Some(true)
                } else if holds.contains(&None) {
                    None
                } else {
                    Some(false)
                }
            }
            Predicate::Not(of) => of.holds(ts, other).map(|holds| !holds),
        }
    }

    /// The instants at which something may change.
    fn ends(&self, ends: &mut Vec<Micros>) {
        match self {
            Predicate::Compare(side, _, time, _) => ends.extend(side.near(time)),
            Predicate::Between(side, _, low, high) => ends.extend(side.near(low).into_iter().chain(side.near(high))),
            Predicate::In(side, _, list) => ends.extend(list.iter().flat_map(|time| side.near(time))),
            Predicate::Other => {}
            Predicate::And(parts) | Predicate::Or(parts) => parts.iter().for_each(|part| part.ends(ends)),
            Predicate::Not(of) => of.ends(ends),
        }
    }

    /// True if what is found is exactly what passes.
    fn is_exact(&self) -> bool {
        // A text with a time of day is a date to some, compared with a date, and is compared as it is by others.
        let plain = |side: &Side, time: &Time| match side {
            Side::Months(_) => false,
            Side::Day => !time.0.starts_with('\'') || time.1.rem_euclid(DAY) == 0 || time.0.ends_with("::date"),
            _ => true,
        };
        match self {
            Predicate::Compare(side, _, time, _) => plain(side, time),
            Predicate::Between(side, _, low, high) => plain(side, low) && plain(side, high),
            Predicate::In(side, _, list) => list.iter().all(|time| plain(side, time)),
            Predicate::Other => false,
            Predicate::And(parts) | Predicate::Or(parts) => parts.iter().all(Predicate::is_exact),
            Predicate::Not(of) => of.is_exact(),
        }
    }
}

impl Side {
    fn near(self, time: &Time) -> Vec<Micros> {
        let mut near = vec![time.1];
        match self {
            Side::Trunc(unit) | Side::TruncAfterHours(unit, _) => {
                let unit = Unit::named(unit).expect("a unit");
                near.extend([unit.floor(time.1), unit.ceil(time.1), unit.ceil(unit.ceil(time.1) + 1)]);
            }
            Side::Year => near.extend([Unit::Year.floor(time.1), Unit::Year.ceil(time.1 + 1)]),
            Side::Day | Side::DaysSince => near.extend([Unit::Day.floor(time.1), Unit::Day.ceil(time.1 + 1)]),
            Side::SinceThen => near.push(at(NOW) - self.constant(time).1),
            Side::Plain | Side::Days(_) | Side::Months(_) => {}
        }
        let off = match self {
            Side::Days(days) => -Micros::from(days) * DAY,
            Side::TruncAfterHours(_, hours) => -Micros::from(hours) * 3_600_000_000,
            _ => 0,
        };
        let months = if let Side::Months(months) = self { months } else { 0 };
        let moved: Vec<Micros> = near.iter().map(|at| add_months(*at, months) + off).collect();
        moved.iter().flat_map(|at| [at - DAY, at - 1, *at, at + 1, at + DAY, at + 3 * DAY]).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_row_that_is_selected_lies_outside_of_what_was_found(
        predicate in predicates(),
        rows in prop::collection::vec(instants(), 24),
    ) {
        let text = format!("select count(*) from events where {}", predicate.text());
        let found = read(&text, &[]).expect(&text);
        let mut rows = rows;
        predicate.ends(&mut rows);
        for ts in rows {
            let inside = found[0].pieces().iter().any(|(from, to)| *from <= ts && ts < *to);
            for other in [None, Some(true), Some(false)] {
                let selected = predicate.holds(ts, other) == Some(true);
                prop_assert!(inside || !selected, "{text}: {}", written(ts));
                if predicate.is_exact() {
                    prop_assert!(inside == selected, "{text}: {} {selected}", written(ts));
                }
            }
        }
    }
}
