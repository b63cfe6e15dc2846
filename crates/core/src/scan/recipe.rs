//! How a text's time ranges are found, whatever its literals: the tables that it reads and, for each, what must hold of
//! its column of time.
//!
//! A predicate is a tree of AND and OR over comparisons; NOT has been carried down to them. Each comparison has the column
//! on one side, with what is done to it step by step, and a constant on the other:
//!
//! ```text
//!   date_trunc('day', ts + interval '1 hour') >= '2024-01-31'
//!   column ts ──▶ plus 1 hour ──▶ trunc day ──▶ at least 2024-01-31
//! ```
//!
//! The values that pass are a set; it is pulled back through each step to the set of what comes before it, up to the
//! column. A step that is understood never loses anything on the way back; one that is not lets everything through.

use super::asked::Literal;
use super::calendar::{DAY, FAR, Micros, SECOND, Unit, add_months, day_numbered, midnight};
use super::constant::{Constant, Filling, Type, days};
use super::ranges::{MOST, Ranges};
use super::tables::ColumnUnit;
use super::value::{ONE, Value};

/// Everything there is to know of a text but its literals.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Recipe {
    /// What it reads of tables with a column of time.
    pub(crate) reads: Vec<Read>,
    /// True if it may read more, which was not understood.
    pub(crate) lost: bool,
}

/// One place where a table is read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Read {
    /// The number of the table; None: one of several, nothing of which is known.
    pub(crate) table: Option<usize>,
    /// What must hold of its column.
    pub(crate) bound: Bound,
}

/// What must hold of a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Bound {
    /// Nothing that is understood.
    Any,
    /// All of it; of none: nothing must hold.
    All(Vec<Bound>),
    /// One of it; of none: nothing can hold.
    Either(Vec<Bound>),
    /// What becomes of the column by these steps stands this test.
    Test(Vec<Step>, Test),
}

/// What is done to the value of a column, or to what was made of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Plus(Constant),
    Minus(Constant),
    /// The constant minus the value.
    MinusFrom(Constant),
    /// `dateadd`: the unit and how many.
    Add(Constant, Constant),
    Over(Constant),
    Trunc(Constant),
    Part(Constant),
    Zone(Constant),
    FromEpoch,
    Cast(Type),
}

/// A comparison with constants.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Test {
    Compare(Order, Constant),
    /// Equal to one of them.
    In(Vec<Constant>),
    /// Equal to none of them.
    NotIn(Vec<Constant>),
}

/// How a value compares with a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Equal,
    Other,
    Less,
    AtMost,
    More,
    AtLeast,
}

impl Order {
    /// The same, with the sides exchanged.
    pub(crate) fn flipped(self) -> Order {
        match self {
            Order::Less => Order::More,
            Order::AtMost => Order::AtLeast,
            Order::More => Order::Less,
            Order::AtLeast => Order::AtMost,
            same => same,
        }
    }

    /// What holds where this does not.
    pub(crate) fn denied(self) -> Order {
        match self {
            Order::Equal => Order::Other,
            Order::Other => Order::Equal,
            Order::Less => Order::AtLeast,
            Order::AtMost => Order::More,
            Order::More => Order::AtMost,
            Order::AtLeast => Order::Less,
        }
    }

    /// The values that may pass against a constant that is known between both.
    fn ranges(self, (least, most): (Micros, Micros)) -> Ranges {
        let from = |from| Ranges::between(from, MOST);
        let before = |to| Ranges::between(super::ranges::LEAST, to);
        match self {
            Order::Equal => Ranges::between(least, most + 1),
            Order::Other if least == most => before(least).or(from(most + 1)),
            Order::Other => Ranges::all(),
            Order::Less => before(most),
            Order::AtMost => before(most + 1),
            Order::More => from(least + 1),
            Order::AtLeast => from(least),
        }
    }
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    /// An instant, in microseconds; or the midnight of a date.
    Time { date: bool },
    /// A number, in millionths.
    Number,
    /// The difference of two instants, in microseconds.
    Length,
}

impl Bound {
    /// The instants for which it may hold, of a column of that unit.
    pub(crate) fn ranges<'a>(&'a self, unit: ColumnUnit, filling: &Filling<'a>) -> Ranges {
        match self {
            Bound::Any => Ranges::all(),
            Bound::All(bounds) => bounds.iter().fold(Ranges::all(), |all, bound| all.and(&bound.ranges(unit, filling))),
            Bound::Either(bounds) => {
                bounds.iter().fold(Ranges::none(), |either, bound| either.or(bound.ranges(unit, filling)))
            }
            Bound::Test(steps, test) => {
                let values = pull(steps, space_of(unit), test, filling);
                values.map_or_else(Ranges::all, |values| instants(values, unit))
            }
        }
    }
}

fn space_of(unit: ColumnUnit) -> Space {
    match unit {
        ColumnUnit::Timestamp => Space::Time { date: false },
        ColumnUnit::Date => Space::Time { date: true },
        ColumnUnit::Seconds | ColumnUnit::Millis | ColumnUnit::Micros | ColumnUnit::DayNumber => Space::Number,
    }
}

/// The instants that a column's values stand for: a date for its whole day, a number of seconds for its whole second.
fn instants(values: Ranges, unit: ColumnUnit) -> Ranges {
    let end = |value: Micros| match unit {
        ColumnUnit::Timestamp => value,
        ColumnUnit::Date => Unit::Day.ceil(value),
        ColumnUnit::Seconds => ceil(value, SECOND) * SECOND,
        ColumnUnit::Millis => ceil(value, ONE) * 1_000,
        ColumnUnit::Micros => ceil(value, ONE),
        ColumnUnit::DayNumber => day_numbered(ceil(value, ONE)),
    };
    values.map(|from, to| (end(from), end(to)))
}

fn ceil(value: Micros, by: Micros) -> Micros {
    -(-value).div_euclid(by)
}

/// The values in `space` from which these steps lead to one that stands the test; None: any.
fn pull<'a>(steps: &'a [Step], space: Space, test: &'a Test, filling: &Filling<'a>) -> Option<Ranges> {
    let Some((step, rest)) = steps.split_first() else { return passing(test, space, filling) };
    let back = |next: Space| pull(rest, next, test, filling);
    let time = Space::Time { date: false };
    match (step, space) {
        (Step::Trunc(unit), Space::Time { .. }) => {
            let unit = filling.unit(unit)?;
            Some(back(time)?.map(|from, to| (unit.ceil(from), unit.ceil(to))))
        }
        (Step::Cast(Type::Date), Space::Time { .. }) => {
            Some(back(Space::Time { date: true })?.map(|from, to| (Unit::Day.ceil(from), Unit::Day.ceil(to))))
        }
        (Step::Cast(Type::Timestamp { rounded: false }), Space::Time { .. }) => back(time),
        (Step::Cast(Type::Timestamp { rounded: true }), Space::Time { .. }) => Some(widen(back(time)?, SECOND, SECOND)),
        (Step::Cast(Type::Integer), Space::Number) => Some(widen(back(Space::Number)?, ONE, ONE)),
        (Step::Cast(Type::Number), Space::Number) => back(Space::Number),
        (Step::Zone(zone), Space::Time { .. }) => {
            let off = filling.zone(zone);
            Some(widen(back(time)?, off, off))
        }
        (Step::FromEpoch, Space::Number) => back(time),
        // Some leave the fraction away.
        (Step::Part(part), Space::Time { .. }) if filling.is(part, "epoch") => {
            Some(widen(back(Space::Number)?, SECOND, SECOND))
        }
        (Step::Part(part), Space::Time { .. }) if filling.is(part, "year") => {
            Some(back(Space::Number)?.map(|from, to| (year_from(from), year_from(to))))
        }
        (Step::Over(by), Space::Number) => {
            let by = Micros::from(filling.value(by).integer().filter(|by| (1..1 << 30).contains(by))?);
            Some(back(Space::Number)?.map(|from, to| ((from - ONE) * by, (to + ONE) * by)))
        }
        (Step::Add(unit, count), Space::Time { .. }) => {
            let interval = super::value::Interval::of(filling.value(count).integer()?.into(), filling.unit(unit)?)?;
            moved(back(time)?, interval)
        }
        (Step::Plus(by), _) => shift(space, filling.value(by), 1, back),
        (Step::Minus(by), _) => shift(space, filling.value(by), -1, back),
        (Step::MinusFrom(from), _) => difference(space, &filling.value(from), back),
        _ => None,
    }
}

fn widen(ranges: Ranges, before: Micros, after: Micros) -> Ranges {
    ranges.map(|from, to| (from - before, to + after))
}

/// When the first year begins that is at least a number, in millionths.
fn year_from(number: Micros) -> Micros {
    let year = ceil(number, ONE);
    match i64::try_from(year) {
        Ok(year) if year.abs() < 300_000 => midnight(year, 1, 1),
        _ => year.signum() * (FAR + 1),
    }
}

/// What an interval leads to one of `ranges` from.
fn moved(ranges: Ranges, interval: super::value::Interval) -> Option<Ranges> {
    let fixed = interval.fixed();
    if interval.months == 0 {
        return Some(ranges.map(|from, to| (from - fixed, to - fixed)));
    }
    // Months end on different days: from one that is longer, several days lead to the same.
    let back = |at: Micros| add_months(at - fixed, -interval.months);
    Some(ranges.map(|from, to| (back(from) - 4 * DAY, back(to) + 7 * DAY)))
}

/// The value with something added to it (`sign` 1) or subtracted from it (-1).
fn shift(space: Space, by: Value<'_>, sign: i64, back: impl Fn(Space) -> Option<Ranges>) -> Option<Ranges> {
    let wide = sign as Micros;
    let away = |ranges: Ranges, (least, most): (Micros, Micros)| {
        let (one, other) = (wide * least, wide * most);
        ranges.map(|from, to| (from - one.max(other), to - one.min(other)))
    };
    match (space, by) {
        (Space::Time { .. }, by @ Value::Interval(_)) => {
            moved(back(Space::Time { date: false })?, by.interval()?.times(sign))
        }
        (Space::Time { date: true }, by @ Value::Number { .. }) => {
            Some(away(back(Space::Time { date: true })?, days(&by)?))
        }
        // The difference of two dates is a number of days.
        (Space::Time { date: true }, Value::Time { least, most, date: true }) if sign < 0 => {
            let numbers = back(Space::Number)?;
            Some(numbers.map(|from, to| (ceil(from, ONE) * DAY + least, ceil(to, ONE) * DAY + most)))
        }
        (Space::Time { .. }, Value::Time { least, most, .. }) if sign < 0 => {
            Some(away(back(Space::Length)?, (least, most)))
        }
        (Space::Number, by @ Value::Number { .. }) => Some(away(back(Space::Number)?, by.number()?)),
        (Space::Length, Value::Interval(by)) => Some(away(back(Space::Length)?, (by.length(), by.length()))),
        (Space::Time { .. }, by @ Value::Text(_)) => {
            moved(back(Space::Time { date: false })?, by.interval()?.times(sign))
        }
        _ => None,
    }
}

/// A constant minus the value.
fn difference(space: Space, from: &Value<'_>, back: impl Fn(Space) -> Option<Ranges>) -> Option<Ranges> {
    let turned =
        |ranges: Ranges, (least, most): (Micros, Micros)| ranges.mirror(|from, to| (least - to + 1, most - from + 1));
    match (space, from) {
        (Space::Time { date: true }, Value::Time { least, most, date: true }) => {
            let numbers = back(Space::Number)?;
            let lengths = numbers.map(|from, to| (ceil(from, ONE) * DAY, ceil(to, ONE) * DAY));
            Some(turned(lengths, (*least, *most)))
        }
        (Space::Time { .. }, Value::Time { least, most, .. }) => Some(turned(back(Space::Length)?, (*least, *most))),
        (Space::Number, number @ Value::Number { .. }) => Some(turned(back(Space::Number)?, number.number()?)),
        _ => None,
    }
}

/// The values that may stand a test; None: any.
fn passing<'a>(test: &'a Test, space: Space, filling: &Filling<'a>) -> Option<Ranges> {
    match test {
        Test::Compare(order, constant) => Some(order.ranges(ends(&filling.value(constant), space)?)),
        Test::In(constants) => {
            let mut either = Ranges::none();
            for each in values(constants, filling) {
                either = either.or(Order::Equal.ranges(ends(&each, space)?));
            }
            Some(either)
        }
        Test::NotIn(constants) => {
            let mut all = Ranges::all();
            for each in values(constants, filling) {
                all = all.and(&Order::Other.ranges(ends(&each, space)?));
            }
            Some(all)
        }
    }
}

/// What the constants of a list come to; a number of literals may stand for many.
fn values<'a>(constants: &'a [Constant], filling: &Filling<'a>) -> impl Iterator<Item = Value<'a>> {
    let filling = *filling;
    constants.iter().flat_map(move |constant| {
        let literals: &'a [Literal<'a>] = match constant {
            Constant::Slot(number) => filling.asked.slot(*number),
            _ => &[],
        };
        let other = literals.is_empty().then(|| filling.value(constant));
        literals.iter().map(move |literal| filling.literal(literal)).chain(other)
    })
}

/// The ends of a constant, as what it is compared with.
fn ends(value: &Value<'_>, space: Space) -> Option<(Micros, Micros)> {
    match space {
        Space::Time { date } => value.instant(date),
        Space::Number => value.number(),
        Space::Length => value.interval().map(|interval| (interval.length(), interval.length())),
    }
}
