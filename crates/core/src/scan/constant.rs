//! The constants of a query, as expressions over its literals, its parameters and the time at which it came; and what they
//! come to once these are known.

use std::borrow::Cow;

use super::asked::{Asked, Literal};
use super::calendar::{DAY, Micros, SECOND, Unit, midnight, month_length};
use super::value::{Interval, ONE, Value, number_of};

/// No clock is further from UTC than this; some were further than any is today.
const ZONES: Micros = 16 * 3_600 * SECOND;
/// Beyond this, numbers are not multiplied.
const LARGE: Micros = 1 << 60;

/// An expression without columns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Constant {
    /// The literals under a number of [`Asked`].
    Slot(usize),
    /// A word that stands where SQL wants a unit.
    Word(String),
    Now,
    Today,
    Cast(Box<Constant>, Type),
    /// `INTERVAL '7' DAY`; without a unit the text says it.
    Interval(Box<Constant>, Option<Unit>),
    Negative(Box<Constant>),
    Plus(Box<Constant>, Box<Constant>),
    Minus(Box<Constant>, Box<Constant>),
    Times(Box<Constant>, Box<Constant>),
    Over(Box<Constant>, Box<Constant>),
    /// `date_trunc`: the unit, and of what.
    Trunc(Box<Constant>, Box<Constant>),
    /// `extract`, `date_part`: the part, and of what.
    Part(Box<Constant>, Box<Constant>),
    /// `at time zone`: what, and the zone.
    Zone(Box<Constant>, Box<Constant>),
    /// `to_timestamp` of seconds since the epoch.
    FromEpoch(Box<Constant>),
    /// `to_date`, `to_timestamp` of a text in a format.
    Formatted(Box<Constant>, Box<Constant>),
    /// `make_date`.
    Date(Box<[Constant; 3]>),
    /// `dateadd`: the unit, how many, to what.
    Add(Box<[Constant; 3]>),
}

/// A type that something is cast to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Date,
    /// `rounded`: to a number of digits.
    Timestamp {
        rounded: bool,
    },
    Interval,
    Integer,
    Number,
    Text,
}

/// What a recipe lacks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filling<'a> {
    /// The literals.
    pub(crate) asked: &'a Asked<'a>,
    /// The values of `$1`, `$2`, …; None: not known.
    pub(crate) parameters: &'a [Option<&'a str>],
    /// When the query came.
    pub(crate) now: Micros,
}

impl<'a> Filling<'a> {
    /// What a literal comes to.
    pub(crate) fn literal(&self, literal: &'a Literal<'_>) -> Value<'a> {
        match literal {
            Literal::Text(text) => Value::Text(Cow::Borrowed(text)),
            Literal::Number(text) => {
                number_of(text).map_or(Value::Unknown, |(least, most)| Value::Number { least, most })
            }
            Literal::Parameter(at) => match self.parameters.get(*at) {
                Some(Some(text)) => Value::Text(Cow::Borrowed(text)),
                _ => Value::Unknown,
            },
            Literal::Other => Value::Unknown,
        }
    }

    /// What a constant comes to.
    pub(crate) fn value(&self, constant: &'a Constant) -> Value<'a> {
        self.try_value(constant).filter(Value::is_moderate).unwrap_or(Value::Unknown)
    }

    fn try_value(&self, constant: &'a Constant) -> Option<Value<'a>> {
        Some(match constant {
            Constant::Slot(number) => match self.asked.slot(*number) {
                [literal] => self.literal(literal),
                _ => return None,
            },
            Constant::Word(word) => Value::Text(Cow::Borrowed(word)),
            Constant::Now => Value::at(self.now),
            Constant::Today => {
                let today = Unit::Day.floor(self.now);
                Value::Time { least: today, most: today, date: true }
            }
            Constant::Cast(of, to) => return cast(self.value(of), *to),
            Constant::Interval(of, unit) => Value::Interval(match (self.value(of), unit) {
                (value, Some(unit)) => Interval::of(value.integer()?.into(), *unit)?,
                (Value::Text(text), None) => Value::Text(text).interval()?,
                _ => return None,
            }),
            Constant::Negative(of) => match self.value(of) {
                Value::Number { least, most } => Value::Number { least: -most, most: -least },
                Value::Interval(interval) => Value::Interval(interval.times(-1)),
                _ => return None,
            },
            Constant::Plus(left, right) => return plus(self.value(left), self.value(right)),
            Constant::Minus(left, right) => return minus(self.value(left), self.value(right)),
            Constant::Times(left, right) => return times(&self.value(left), &self.value(right)),
            Constant::Over(left, right) => {
                let ((least, most), by) = (self.value(left).number()?, self.value(right).integer()?);
                let (least, most) = over((least, most), by)?;
                Value::Number { least, most }
            }
            Constant::Trunc(unit, of) => {
                let (unit, (least, most)) = (self.unit(unit)?, self.value(of).instant(false)?);
                Value::Time { least: unit.floor(least), most: unit.floor(most), date: false }
            }
            Constant::Part(part, of) => return self.part(part, &self.value(of)),
            Constant::Zone(of, zone) => {
                let ((least, most), off) = (self.value(of).instant(false)?, self.zone(zone));
                Value::Time { least: least - off, most: most + off, date: false }
            }
            Constant::FromEpoch(of) => {
                let Value::Number { least, most } = self.value(of) else { return None };
                Value::Time { least, most, date: false }
            }
            Constant::Formatted(of, format) => {
                let (Value::Text(text), Value::Text(format)) = (self.value(of), self.value(format)) else {
                    return None;
                };
                let known = ["yyyy-mm-dd", "yyyymmdd", "yyyy-mm-dd hh24:mi:ss"];
                let length = |format: &str| format.len() - if format.contains("hh24") { 2 } else { 0 };
                let format = known.iter().find(|known| format.eq_ignore_ascii_case(known))?;
                return (text.len() == length(format)).then_some(Value::Text(text));
            }
            Constant::Date(parts) => {
                let [year, month, day] = parts.each_ref().map(|part| self.value(part).integer());
                date(year?, month?, day?)?
            }
            Constant::Add(parts) => {
                let [unit, count, to] = &**parts;
                let interval = Interval::of(self.value(count).integer()?.into(), self.unit(unit)?)?;
                return plus(self.value(to), Value::Interval(interval));
            }
        })
    }

    /// The unit that a text names.
    pub(crate) fn unit(&self, constant: &'a Constant) -> Option<Unit> {
        match self.value(constant) {
            Value::Text(text) => Unit::named(&text),
            _ => None,
        }
    }

    /// How far a clock may be from UTC in the time zone that a text names.
    pub(crate) fn zone(&self, constant: &'a Constant) -> Micros {
        match self.value(constant) {
            Value::Text(text) if ["utc", "gmt", "z"].iter().any(|name| text.eq_ignore_ascii_case(name)) => 0,
            _ => ZONES,
        }
    }

    /// True if a text is that word.
    pub(crate) fn is(&self, constant: &'a Constant, word: &str) -> bool {
        matches!(self.value(constant), Value::Text(text) if text.trim().eq_ignore_ascii_case(word))
    }

    fn part(&self, part: &'a Constant, of: &Value<'_>) -> Option<Value<'a>> {
        match of {
            Value::Time { least, most, .. } if self.is(part, "epoch") => {
                // Some leave the fraction away.
                Some(Value::Number { least: Unit::Second.floor(*least), most: *most })
            }
            Value::Time { least, most, .. } if self.is(part, "year") => {
                let year = |at: Micros| year_of(at) * ONE;
                Some(Value::Number { least: year(*least), most: year(*most) })
            }
            Value::Interval(interval) if self.is(part, "epoch") && interval.months == 0 => {
                Some(Value::Number { least: interval.fixed(), most: interval.fixed() })
            }
            _ => None,
        }
    }
}

/// The year in which an instant lies.
pub(crate) fn year_of(at: Micros) -> Micros {
    let days = at.div_euclid(DAY).clamp(-100_000_000, 100_000_000) as i64;
    Micros::from(super::calendar::civil(days).0)
}

fn date(year: i64, month: i64, day: i64) -> Option<Value<'static>> {
    let month = u32::try_from(month).ok().filter(|month| (1..=12).contains(month))?;
    let day = u32::try_from(day).ok()?;
    let exists = (1..=9_999).contains(&year) && (1..=month_length(year, month)).contains(&day);
    let at = exists.then(|| midnight(year, month, day))?;
    Some(Value::Time { least: at, most: at, date: true })
}

fn cast(value: Value<'_>, to: Type) -> Option<Value<'_>> {
    Some(match to {
        Type::Date => {
            let (least, most) = value.instant(false)?;
            Value::Time { least: Unit::Day.floor(least), most: Unit::Day.floor(most), date: true }
        }
        Type::Timestamp { rounded } => {
            let ((least, most), off) = (value.instant(false)?, if rounded { SECOND } else { 0 });
            Value::Time { least: least - off, most: most + off, date: false }
        }
        Type::Interval => Value::Interval(value.interval()?),
        Type::Integer => {
            let (least, most) = value.number()?;
            // Some round, some cut.
            let whole = least == most && least % ONE == 0;
            let off = if whole { 0 } else { ONE };
            Value::Number { least: least - off, most: most + off }
        }
        Type::Number => {
            let (least, most) = value.number()?;
            Value::Number { least, most }
        }
        Type::Text => match value {
            Value::Text(text) => Value::Text(text),
            _ => return None,
        },
    })
}

fn plus<'v>(left: Value<'v>, right: Value<'v>) -> Option<Value<'v>> {
    Some(match (left, right) {
        (Value::Interval(one), Value::Interval(other)) => Value::Interval(one.plus(other)),
        (Value::Interval(interval), time) | (time, Value::Interval(interval)) => later(time.instant(false)?, interval),
        (Value::Time { least, most, date }, number) | (number, Value::Time { least, most, date }) => {
            let Some((fewest, days)) = days(&number) else { return Some(later((least, most), number.interval()?)) };
            Value::Time { least: least + fewest, most: most + days, date }
        }
        (left, right) => {
            let ((least, most), (also_least, also_most)) = (left.number()?, right.number()?);
            Value::Number { least: least + also_least, most: most + also_most }
        }
    })
}

fn minus<'v>(left: Value<'v>, right: Value<'v>) -> Option<Value<'v>> {
    Some(match (left, right) {
        (Value::Interval(one), Value::Interval(other)) => Value::Interval(one.plus(other.times(-1))),
        (time, Value::Interval(interval)) => later(time.instant(false)?, interval.times(-1)),
        (Value::Time { least, most, date }, Value::Time { least: also_least, most: also_most, date: also_date }) => {
            let (least, most) = (least - also_most, most - also_least);
            match date && also_date {
                true => Value::Number { least: least / DAY * ONE, most: most / DAY * ONE },
                false if least == most => Value::Interval(Interval { micros: least, ..Interval::default() }),
                false => return None,
            }
        }
        (Value::Time { least, most, date }, number) => {
            let Some((fewest, days)) = days(&number) else {
                return Some(later((least, most), number.interval()?.times(-1)));
            };
            Value::Time { least: least - days, most: most - fewest, date }
        }
        (left, right) => {
            let ((least, most), (also_least, also_most)) = (left.number()?, right.number()?);
            Value::Number { least: least - also_most, most: most - also_least }
        }
    })
}

/// What follows an instant by an interval.
fn later((least, most): (Micros, Micros), interval: Interval) -> Value<'static> {
    // Of two instants in order, the months after them may be out of order by the days that months differ in.
    let off = if interval.months == 0 || least == most { 0 } else { 4 * DAY };
    Value::Time { least: interval.after(least) - off, most: interval.after(most) + off, date: false }
}

/// A number of days.
pub(crate) fn days(number: &Value<'_>) -> Option<(Micros, Micros)> {
    let (least, most) = number.number()?;
    Some((least * DAY / ONE, most * DAY / ONE))
}

fn times<'v>(left: &Value<'v>, right: &Value<'v>) -> Option<Value<'v>> {
    Some(match (left, right) {
        (Value::Interval(interval), number) | (number, Value::Interval(interval)) => {
            Value::Interval(interval.times(number.integer()?))
        }
        (left, right) => {
            let ((least, most), by) = match (left.integer(), right.integer()) {
                (_, Some(by)) => (left.number()?, by),
                (Some(by), None) => (right.number()?, by),
                (None, None) => return None,
            };
            if least.abs().max(most.abs()) > LARGE || Micros::from(by).abs() > LARGE {
                return None;
            }
            let (one, other) = (least * Micros::from(by), most * Micros::from(by));
            Value::Number { least: one.min(other), most: one.max(other) }
        }
    })
}

/// A number over a whole one, whether or not what is behind the point falls away.
pub(crate) fn over((least, most): (Micros, Micros), by: i64) -> Option<(Micros, Micros)> {
    let by = Micros::from(by);
    (by > 0).then(|| (least.div_euclid(by * ONE) * ONE, -(-most).div_euclid(by * ONE) * ONE))
}
