//! Timestamps as logs write them.
//!
//! `2026-01-13 03:36:26.777169+00:00`, `2024-05-27T13:45:02Z`, `2024-05-27 06:45:02.123 -0700`, `2024-05-27 13:45:02 UTC`,
//! `2024-05-27`. What has no zone is in the zone that the user names (UTC unless said otherwise). Zones are offsets,
//! UTC, or the abbreviations that Postgres knows without being told; the name of a region is refused, since what it
//! stands for changes from year to year and would need a database of its own.

use crate::catalog::stamp::days_before;

/// Why a text is no instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAStamp {
    /// It has another form, or is a date that does not exist.
    Form,
    /// It ends with a zone that is neither an offset nor known.
    Zone,
}

const MINUTE: i64 = 60_000_000;

/// Abbreviations and their offsets in minutes: those of Postgres's default set that are found in logs.
const ZONES: [(&str, i64); 20] = [
    ("Z", 0),
    ("UTC", 0),
    ("GMT", 0),
    ("WET", 0),
    ("WEST", 60),
    ("BST", 60),
    ("CET", 60),
    ("CEST", 120),
    ("EET", 120),
    ("EEST", 180),
    ("MSK", 180),
    ("JST", 540),
    ("EST", -300),
    ("EDT", -240),
    ("CST", -360),
    ("CDT", -300),
    ("MST", -420),
    ("MDT", -360),
    ("PST", -480),
    ("PDT", -420),
];

/// Microseconds since 1970 of a timestamp; `offset` (in minutes east of Greenwich) is that of a timestamp without one.
pub(crate) fn micros(text: &str, offset: i64) -> Result<i64, NotAStamp> {
    let text = text.trim();
    let date = text.get(..10).ok_or(NotAStamp::Form)?;
    let midnight = days(date).ok_or(NotAStamp::Form)? * 24 * 60 * MINUTE;
    let rest = &text[10..];
    if rest.is_empty() {
        return Ok(midnight - offset * MINUTE);
    }
    let time = rest.strip_prefix(['T', 't', ' ']).ok_or(NotAStamp::Form)?;
    let end = time.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.')).unwrap_or(time.len());
    let of_day = of_day(&time[..end]).ok_or(NotAStamp::Form)?;
    let zone = match time[end..].trim() {
        "" => offset,
        zone => minutes(zone).ok_or(NotAStamp::Zone)?,
    };
    Ok(midnight + of_day - zone * MINUTE)
}

/// The offset that a zone stands for, in minutes east of Greenwich.
pub(crate) fn minutes(zone: &str) -> Option<i64> {
    if let Some((_, minutes)) = ZONES.iter().find(|(name, _)| name.eq_ignore_ascii_case(zone)) {
        return Some(*minutes);
    }
    let (sign, digits) = match zone.as_bytes().first()? {
        b'+' => (1, &zone[1..]),
        b'-' => (-1, &zone[1..]),
        _ => return None,
    };
    let (hours, minutes) = match (digits.split_once(':'), digits.len()) {
        (Some((hours, minutes)), _) => (hours, minutes),
        (None, 4) if digits.is_ascii() => digits.split_at(2),
        (None, _) => (digits, "00"),
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (hours <= 15 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

/// Days since 1970 of a date such as `2024-05-27`.
fn days(date: &str) -> Option<i64> {
    let bytes = date.as_bytes();
    let shaped = bytes.len() == 10 && bytes[4] == b'-' && bytes[7] == b'-';
    if !shaped || !date.is_ascii() {
        return None;
    }
    days_before(number(&date[..4])?, number(&date[5..7])?, number(&date[8..])?)
}

/// Microseconds since midnight of `13:45`, `13:45:02` or `13:45:02.123456789`. A leap second counts to the next minute.
fn of_day(time: &str) -> Option<i64> {
    let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = clock.split(':');
    let (hour, minute) = (number(parts.next()?)?, number(parts.next()?)?);
    let second = parts.next().map_or(Some(0), number)?;
    let known = parts.next().is_none() && hour < 24 && minute < 60 && second <= 60;
    if !known || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let micros =
        fraction.bytes().chain(*b"000000").take(6).fold(0, |micros, digit| micros * 10 + i64::from(digit - b'0'));
    Some((hour * 60 + minute) * MINUTE + second * 1_000_000 + micros)
}

/// A short number of digits only.
fn number(digits: &str) -> Option<i64> {
    let plain = (1..=4).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use punctual_core::time::Time;

    use super::*;
    use crate::catalog::stamp::timestamp;

    #[test]
    fn every_form_of_an_instant_is_that_instant() {
        for text in [
            "2024-05-27 13:45:02.123456",
            "2024-05-27T13:45:02.123456Z",
            "2024-05-27 13:45:02.123456+00:00",
            "2024-05-27 13:45:02.123456 UTC",
            "2024-05-27 06:45:02.123456 -0700",
            "2024-05-27 06:45:02.123456 PDT",
            "2024-05-27T19:15:02.123456+05:30",
            "2024-05-27 15:45:02.123456+02",
            " 2024-05-27t13:45:02.123456789z ",
            "2024-05-28 00:45:02.123456+11:00",
        ] {
            assert_eq!(micros(text, 0), Ok(1_716_817_502_123_456), "{text}");
        }
    }

    #[test]
    fn what_has_no_zone_is_in_the_one_that_was_named() {
        assert_eq!(micros("2024-05-27 15:45:02.5", 120), Ok(1_716_817_502_500_000));
        assert_eq!(micros("2024-05-27 13:45:02.5Z", 120), Ok(1_716_817_502_500_000));
        assert_eq!(micros("1970-01-01", 0), Ok(0));
        assert_eq!(micros("1970-01-01 00:01", 0), Ok(MINUTE));
        assert_eq!(micros("1969-12-31 23:59:59", 0), Ok(-1_000_000));
        assert_eq!(micros("2016-12-31 23:59:60Z", 0), micros("2017-01-01 00:00:00Z", 0));
    }

    #[test]
    fn what_is_no_instant_says_why() {
        for text in [
            "",
            "now",
            "2023-02-29",
            "2024-13-01",
            "2024-00-01",
            "2024-05-27 24:00:00",
            "2024-05-27 13",
            "2024-5-27",
            "2024-05-27 13:45:61",
            "2024-05-27 13:45:02.12.3",
            "2024-05-27x13:45:02",
            "1716817502",
            "２０２４-05-27",
        ] {
            assert_eq!(micros(text, 0), Err(NotAStamp::Form), "{text}");
        }
        for text in ["2024-05-27 13:45:02 Europe/Berlin", "2024-05-27 13:45:02+99:00", "2024-05-27 13:45:02 +1:2:3"] {
            assert_eq!(micros(text, 0), Err(NotAStamp::Zone), "{text}");
        }
    }

    #[test]
    fn what_views_print_is_read_back() {
        for at in [0, 951_782_400_000_007, 1_767_323_045_123_456, 4_107_542_400_000_000] {
            assert_eq!(micros(&timestamp(Time::from_micros(at)), 0), Ok(at as i64));
        }
    }
}
