//! Numbers with units, read exactly.
//!
//! A duration of `20.224` seconds or an instant of `1649855166175` milliseconds is decimal text in nearly every log. It
//! is read as whole microseconds without passing through binary floating point, so that what was written is what is
//! kept; finer digits are rounded to the nearest microsecond.

use std::fmt;

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Millis,
    Micros,
    Nanos,
}

impl Unit {
    /// Every unit, with the name that a mapping uses.
    pub(crate) const ALL: [(Unit, &str); 4] =
        [(Unit::Seconds, "s"), (Unit::Millis, "ms"), (Unit::Micros, "us"), (Unit::Nanos, "ns")];

    /// The unit of that name.
    pub(crate) fn named(name: &str) -> Option<Unit> {
        Unit::ALL.into_iter().find(|(_, known)| *known == name).map(|(unit, _)| unit)
    }

    /// How many digits a number moves to the left to become microseconds.
    fn shift(self) -> i32 {
        match self {
            Unit::Seconds => 6,
            Unit::Millis => 3,
            Unit::Micros => 0,
            Unit::Nanos => -3,
        }
    }

    /// A number of this unit as microseconds.
    pub(crate) fn micros(self, text: &str) -> Result<i128, NotFinite> {
        scaled(text, self.shift())
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Unit::ALL.iter().find(|(unit, _)| unit == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

/// Why a text stands for no finite number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotFinite {
    /// It is `NaN`.
    NaN,
    /// It is infinite, or larger than anything that is measured.
    Infinite,
    /// It is minus infinity, or as far below zero.
    MinusInfinite,
    /// It is no number at all.
    Text,
}

/// The whole number that a text is, as in `42`, `-3` or `8.0`.
pub(crate) fn whole(text: &str) -> Option<i128> {
    let value = scaled(text, 3).ok()?;
    (value % 1_000 == 0).then_some(value / 1_000)
}

/// More digits than anything that is measured has.
const MOST_DIGITS: i32 = 34;

/// A decimal number times ten to the power of `shift`, rounded to the nearest.
fn scaled(text: &str, shift: i32) -> Result<i128, NotFinite> {
    let text = text.trim();
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let too_much = if negative { NotFinite::MinusInfinite } else { NotFinite::Infinite };
    match unsigned.to_ascii_lowercase().as_str() {
        "nan" => return Err(NotFinite::NaN),
        "inf" | "infinity" => return Err(too_much),
        _ => {}
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| NotFinite::Text)?),
        None => (unsigned, 0),
    };
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || before.bytes().chain(after.bytes());
    if digits().next().is_none() || !digits().all(|digit| digit.is_ascii_digit()) {
        return Err(NotFinite::Text);
    }
    // The point's place counted from the left, once the number is scaled: what lies behind it is rounded away.
    let point = i32::try_from(before.len()).unwrap_or(i32::MAX).saturating_add(exponent).saturating_add(shift);
    let leading = i32::try_from(digits().take_while(|digit| *digit == b'0').count()).unwrap_or(i32::MAX);
    if digits().all(|digit| digit == b'0') || point < leading {
        return Ok(0);
    }
    if point - leading > MOST_DIGITS {
        return Err(too_much);
    }
    let digit = |at: i32| digits().nth(at as usize).map_or(0, |digit| i128::from(digit - b'0'));
    let value = (leading..point).fold(0i128, |value, at| value * 10 + digit(at));
    let value = value + i128::from(point >= 0 && digit(point) >= 5);
    Ok(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_to_the_microsecond() {
        for (text, unit, micros) in [
            ("20.224", Unit::Seconds, 20_224_000),
            ("0.0000005", Unit::Seconds, 1),
            ("0.00000049", Unit::Seconds, 0),
            ("6.686583", Unit::Seconds, 6_686_583),
            ("1649855166175", Unit::Millis, 1_649_855_166_175_000),
            ("1.5e3", Unit::Millis, 1_500_000),
            ("2E-3", Unit::Seconds, 2_000),
            ("7", Unit::Micros, 7),
            ("1499", Unit::Nanos, 1),
            ("1500", Unit::Nanos, 2),
            ("-1", Unit::Seconds, -1_000_000),
            (" +3. ", Unit::Millis, 3_000),
            (".5", Unit::Seconds, 500_000),
            ("000.000", Unit::Seconds, 0),
            ("9007199254740993", Unit::Micros, 9_007_199_254_740_993),
            ("1e-999999999", Unit::Seconds, 0),
        ] {
            assert_eq!(unit.micros(text), Ok(micros), "{text}{unit}");
        }
    }

    #[test]
    fn what_is_no_finite_number_says_why() {
        for (text, why) in [
            ("NaN", NotFinite::NaN),
            ("-nan", NotFinite::NaN),
            ("inf", NotFinite::Infinite),
            ("-Infinity", NotFinite::MinusInfinite),
            ("1e40", NotFinite::Infinite),
            ("-1e2147483647", NotFinite::MinusInfinite),
            ("", NotFinite::Text),
            ("-", NotFinite::Text),
            (".", NotFinite::Text),
            ("12x", NotFinite::Text),
            ("1.2.3", NotFinite::Text),
            ("1e", NotFinite::Text),
            ("é", NotFinite::Text),
        ] {
            assert_eq!(Unit::Seconds.micros(text), Err(why), "{text}");
        }
    }

    #[test]
    fn whole_numbers_may_have_a_fraction_of_zero() {
        assert_eq!(whole("18446744073709551615"), Some(i128::from(u64::MAX)));
        assert_eq!(whole("-3"), Some(-3));
        assert_eq!(whole("8.0"), Some(8));
        assert_eq!(whole("1.3371e4"), Some(13_371));
        assert_eq!(whole("8.5"), None);
        assert_eq!(whole("eight"), None);
    }
}
