//! What a constant of a query comes to: an instant, a number, an interval. Where it cannot be known exactly it is known
//! between two ends, and where not even that, it is unknown, which bounds nothing.

use std::borrow::Cow;

use super::calendar::{DAY, Micros, SECOND, Unit, add_months, midnight, month_length};

/// Numbers are counted in millionths.
pub(crate) const ONE: Micros = 1_000_000;

/// Numbers with more digits than this are not read.
const DIGITS: usize = 20;
/// What is larger than this is not known: so that no sum and no product of a few overflows.
pub(crate) const LARGEST: Micros = 1 << 80;

/// A constant, once its literals are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value<'t> {
    /// An instant between both, both included; `date`: it is a date, so the instant is its midnight.
    Time { least: Micros, most: Micros, date: bool },
    /// A number between both, in millionths.
    Number { least: Micros, most: Micros },
    /// An interval.
    Interval(Interval),
    /// A text that may yet become any of these.
    Text(Cow<'t, str>),
    /// Anything.
    Unknown,
}

/// An interval as SQL has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) months: i64,
    pub(crate) days: i64,
    pub(crate) micros: Micros,
}

impl Interval {
    /// That many units.
    pub(crate) fn of(count: Micros, unit: Unit) -> Option<Interval> {
        let whole = i64::try_from(count).ok().filter(|count| count.abs() < 1 << 40)?;
        Some(match (unit, unit.length()) {
            (Unit::Day, _) => Interval { days: whole, ..Interval::default() },
            (Unit::Week, _) => Interval { days: 7 * whole, ..Interval::default() },
            (_, Some(length)) => Interval { micros: count * length, ..Interval::default() },
            (unit, None) => Interval { months: whole * unit.months(), ..Interval::default() },
        })
    }

    /// Both together.
    pub(crate) fn plus(self, other: Interval) -> Interval {
        Interval {
            months: self.months.saturating_add(other.months),
            days: self.days.saturating_add(other.days),
            micros: self.micros.saturating_add(other.micros),
        }
    }

    /// So many times.
    pub(crate) fn times(self, times: i64) -> Interval {
        Interval {
            months: self.months.saturating_mul(times),
            days: self.days.saturating_mul(times),
            micros: self.micros.saturating_mul(Micros::from(times)),
        }
    }

    /// What follows `at` by this: months first, then days, then the rest.
    pub(crate) fn after(self, at: Micros) -> Micros {
        add_months(at, self.months) + self.fixed()
    }

    /// Its days and its rest.
    pub(crate) fn fixed(self) -> Micros {
        (Micros::from(self.days) * DAY).saturating_add(self.micros)
    }

    /// Its length where intervals are compared with each other: months have 30 days.
    pub(crate) fn length(self) -> Micros {
        (Micros::from(self.months) * 30 * DAY).saturating_add(self.fixed())
    }
}

impl Value<'_> {
    /// True unless it is so large that reckoning with it might overflow.
    pub(crate) fn is_moderate(&self) -> bool {
        let ends = match self {
            Value::Time { least, most, .. } | Value::Number { least, most } => [*least, *most],
            Value::Interval(interval) => [interval.length(), interval.micros],
            Value::Text(_) | Value::Unknown => return true,
        };
        ends.iter().all(|end| (-LARGEST..=LARGEST).contains(end))
    }

    /// One instant.
    pub(crate) fn at(instant: Micros) -> Value<'static> {
        Value::Time { least: instant, most: instant, date: false }
    }

    /// As an instant: what SQL makes of it where one is due. `date`: where a date is due.
    pub(crate) fn instant(&self, date: bool) -> Option<(Micros, Micros)> {
        match self {
            Value::Time { least, most, .. } => Some((*least, *most)),
            Value::Text(text) => {
                let (least, most) = time_of(text)?;
                // Some make a date of it, and others compare it as it is.
                Some((if date { Unit::Day.floor(least) } else { least }, most))
            }
            _ => None,
        }
    }

    /// As a number of millionths.
    pub(crate) fn number(&self) -> Option<(Micros, Micros)> {
        match self {
            Value::Number { least, most } => Some((*least, *most)),
            Value::Text(text) => number_of(text.trim()),
            _ => None,
        }
    }

    /// As a whole number.
    pub(crate) fn integer(&self) -> Option<i64> {
        let (least, most) = self.number()?;
        (least == most && least % ONE == 0).then(|| i64::try_from(least / ONE).ok())?
    }

    /// As an interval.
    pub(crate) fn interval(&self) -> Option<Interval> {
        match self {
            Value::Interval(interval) => Some(*interval),
            Value::Text(text) => interval_of(text),
            _ => None,
        }
    }
}

/// Reads `-12.5` or `3e2`, in millionths.
pub(crate) fn number_of(text: &str) -> Option<(Micros, Micros)> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, exponent) = match digits.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, exponent.parse::<u32>().ok().filter(|exponent| *exponent <= 18)?),
        None => (digits, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || digits.len() > DIGITS || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    // `1.5e3`: what is behind the point moves before it.
    let places = fraction.len() as u32;
    let mantissa: Micros = format!("{whole}{fraction}").parse().ok()?;
    let scaled = mantissa.checked_mul(Micros::pow(10, exponent))?.checked_mul(ONE)?;
    let divisor = Micros::pow(10, places);
    let (least, most) = (scaled.div_euclid(divisor), (scaled + divisor - 1).div_euclid(divisor));
    if most > LARGEST {
        return None;
    }
    Some(if negative { (-most, -least) } else { (least, most) })
}

/// Reads a date or a timestamp, as ISO 8601 and Postgres write them; between the instant as it is written and as it is in
/// UTC, since a column without a time zone takes no notice of one.
pub(crate) fn time_of(text: &str) -> Option<(Micros, Micros)> {
    let ((least, most), offset) = zoned(text)?;
    Some((least.min(least - offset), most.max(most - offset)))
}

/// The same: the instant as it is written, and how much later it is there than in UTC.
pub(crate) fn zoned(text: &str) -> Option<((Micros, Micros), Micros)> {
    let text = text.trim();
    let one = |at: Micros| Some(((at, at), 0));
    if text.eq_ignore_ascii_case("epoch") {
        return one(0);
    }
    let (date, rest) = split_date(text)?;
    let rest = rest.strip_prefix(['T', 't']).unwrap_or_else(|| rest.trim_start());
    if rest.is_empty() {
        return one(date);
    }
    let zone = rest.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.')).unwrap_or(rest.len());
    let (least, most) = clock_of(&rest[..zone])?;
    Some(((date + least, date + most), zone_of(rest[zone..].trim())?))
}

/// `2024-01-31` or `20240131` at the start: its midnight, and what follows.
fn split_date(text: &str) -> Option<(Micros, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (year, month, day, rest) = if digits == 8 {
        (&text[..4], &text[4..6], &text[6..8], &text[8..])
    } else {
        let (year, rest) = text.split_once('-')?;
        let (month, rest) = rest.split_once('-')?;
        let len = rest.bytes().take_while(u8::is_ascii_digit).count();
        (year, month, &rest[..len], &rest[len..])
    };
    let short = |part: &str, most: usize| (1..=most).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    if year.len() != 4 || !short(year, 4) || !short(month, 2) || !short(day, 2) {
        return None;
    }
    let (year, month, day) = (year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
    let exists = year >= 1 && (1..=12).contains(&month) && (1..=month_length(year, month)).contains(&day);
    exists.then(|| (midnight(year, month, day), rest))
}

/// `12:30` or `12:30:59.25`.
fn clock_of(text: &str) -> Option<(Micros, Micros)> {
    let mut parts = text.split(':');
    let mut part = |most: Micros| -> Option<Micros> {
        let text = parts.next()?;
        let value = (1..=2).contains(&text.len()).then(|| text.parse().ok())??;
        (value <= most).then_some(value)
    };
    let (hours, minutes) = (part(24)?, part(59)?);
    let seconds = parts.next();
    let whole = (hours * 3_600 + minutes * 60) * SECOND;
    if parts.next().is_some() {
        return None;
    }
    let (least, most) = match seconds {
        None => (0, 0),
        Some(seconds) => number_of(seconds).filter(|(least, most)| *least >= 0 && *most <= 60 * SECOND)?,
    };
    (whole + most <= DAY).then_some((whole + least, whole + most))
}

/// `Z`, `+02`, `-05:30` or nothing: how much later it is there.
fn zone_of(text: &str) -> Option<Micros> {
    if text.is_empty() || ["z", "utc", "gmt"].iter().any(|name| text.eq_ignore_ascii_case(name)) {
        return Some(0);
    }
    let (sign, digits) = match text.as_bytes()[0] {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let digits: String = digits.chars().filter(|c| *c != ':').collect();
    if !matches!(digits.len(), 2 | 4) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part = |from: usize| digits.get(from..from + 2).map_or(Some(0), |part| part.parse::<Micros>().ok());
    Some(sign * (part(0)? * 3_600 + part(2)? * 60) * SECOND)
}

/// Reads an interval as Postgres writes one: `1 year 2 mons -3 days 04:05:06`, `36 hours`, `1.5 days ago`.
pub(crate) fn interval_of(text: &str) -> Option<Interval> {
    let mut words = text.split_ascii_whitespace().flat_map(split_number).filter(|word| !word.is_empty()).peekable();
    let mut total = Interval::default();
    let mut any = false;
    while let Some(word) = words.next() {
        if any && word.eq_ignore_ascii_case("ago") && words.peek().is_none() {
            return Some(total.times(-1));
        }
        any = true;
        if word.contains(':') {
            let (sign, clock) = match word.strip_prefix('-') {
                Some(clock) => (-1, clock),
                None => (1, word.strip_prefix('+').unwrap_or(word)),
            };
            let (least, most) = clock_of(clock)?;
            if least != most {
                return None;
            }
            total = total.plus(Interval { micros: sign * least, ..Interval::default() });
            continue;
        }
        let unit = Unit::named(words.next()?)?;
        total = total.plus(counted(word, unit)?);
    }
    any.then_some(total)
}

/// `7days`: the number and the unit.
fn split_number(word: &str) -> [&str; 2] {
    let digits = word.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(word.len());
    match word.contains(':') {
        true => [word, ""],
        false => [&word[..digits], &word[digits..]],
    }
}

/// So many units, with a fraction where the unit has a length.
fn counted(number: &str, unit: Unit) -> Option<Interval> {
    let (least, most) = number_of(number)?;
    if least != most {
        return None;
    }
    if least % ONE == 0 {
        return Interval::of(least / ONE, unit);
    }
    let micros = least * unit.length()?;
    let whole = Interval::of(least / ONE, unit)?;
    (micros % ONE == 0).then(|| Interval { micros: micros / ONE - whole.fixed() + whole.micros, ..whole })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        let one = |text: &str| {
            let (least, most) = time_of(text).expect(text);
            assert_eq!(least, most, "{text}");
            least
        };
        let day = midnight(2024, 1, 31);
        assert_eq!([one("2024-01-31"), one(" 20240131 "), one("2024-1-31"), one("2024-01-31T00:00Z")], [day; 4]);
        let noon = day + 12 * 3_600 * SECOND;
        for text in ["2024-01-31 12:00", "2024-01-31T12:00:00", "2024-01-31 12:00:00.000+00", "2024-01-31 12:00:00 UTC"]
        {
            assert_eq!(one(text), noon, "{text}");
        }
        assert_eq!(one("2024-01-31 12:00:00.25"), noon + 250_000);
        assert_eq!(one("2024-01-31 24:00:00"), day + DAY);
        assert_eq!(time_of("2024-01-31 12:00+02:00"), Some((noon - 7_200 * SECOND, noon)));
        assert_eq!(time_of("2024-01-31 12:00:00.0000005"), Some((noon, noon + 1)));
        for text in [
            "",
            "2024",
            "2024-02-30",
            "0000-01-01",
            "2024-13-01",
            "01/31/2024",
            "2024-01-31 25:00",
            "2024-01-31 12:00 Europe/Berlin",
            "2024-01-31 12",
            "2024-01-31 12:61",
            "2024-01-31 24:00:01",
            "infinity",
            "now",
            "2024-01-31 BC",
            "２０２４-01-31",
        ] {
            assert_eq!(time_of(text), None, "{text}");
        }
    }

    #[test]
    fn intervals_are_read_as_postgres_writes_them() {
        let is = |text: &str, months, days, micros| {
            assert_eq!(interval_of(text), Some(Interval { months, days, micros }), "{text}");
        };
        is("1 day", 0, 1, 0);
        is("7days", 0, 7, 0);
        is("1 year 2 mons -3 days 04:05:06", 14, -3, 14_706 * SECOND);
        is("2 weeks", 0, 14, 0);
        is("90 minutes ago", 0, 0, -5_400 * SECOND);
        is("1.5 hours", 0, 0, 5_400 * SECOND);
        is("1.5 days", 0, 1, DAY / 2);
        is("-1.5 days", 0, -1, -DAY / 2);
        is("1 quarter", 3, 0, 0);
        for text in ["", "day", "1", "P1D", "1.5 months", "1 fortnight", "ago", "1 day x"] {
            assert_eq!(interval_of(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_read_to_the_millionth() {
        assert_eq!(number_of("12"), Some((12 * ONE, 12 * ONE)));
        assert_eq!(number_of("-.5"), Some((-ONE / 2, -ONE / 2)));
        assert_eq!(number_of("1.5e3"), Some((1_500 * ONE, 1_500 * ONE)));
        assert_eq!(number_of("0.1234567"), Some((123_456, 123_457)));
        assert_eq!(number_of("-0.1234567"), Some((-123_457, -123_456)));
        for text in ["", ".", "-", "1e", "1e-3", "1e99", "0x10", "1_000", "9999999999999999999999999"] {
            assert_eq!(number_of(text), None, "{text}");
        }
    }
}
