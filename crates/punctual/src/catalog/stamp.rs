//! Instants as people and SQL read them.

use punctual_core::time::Time;

/// `2026-01-02 03:04:05.123456`, UTC.
pub(crate) fn timestamp(time: Time) -> String {
    let (days, of_day) = (time.micros() / 86_400_000_000, time.micros() % 86_400_000_000);
    let (year, month, day) = civil(days);
    let (second, micros) = (of_day / 1_000_000, of_day % 1_000_000);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}")
}

/// True for what [`timestamp`] prints.
pub(crate) fn is_timestamp(text: &str) -> bool {
    const SHAPE: &[u8] = b"0000-00-00 00:00:00.000000";
    let alike = |(c, shape): (u8, &u8)| if *shape == b'0' { c.is_ascii_digit() } else { c == *shape };
    text.len() == SHAPE.len() && text.bytes().zip(SHAPE).all(alike)
}

/// The date that is `days` after 1970-01-01, in the Gregorian calendar. Years are counted from March, so that the leap
/// day is a year's last; 400 years have 146,097 days, and the months from March on have 30.6 days on average, rounded.
fn civil(days: u64) -> (u64, u64, u64) {
    // From 0000-03-01 on.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let of_era_year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * of_era_year + of_era_year / 4 - of_era_year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + of_era_year + u64::from(month <= 2), month, day)
}

/// The days from 1970-01-01 to that date, the inverse of what is printed; None if there is no such date. From year 1 on.
pub(crate) fn days_before(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(leap),
        _ => return None,
    };
    if year < 1 || day < 1 || day > length {
        return None;
    }
    let (year, from_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    Some(year * 365 + year / 4 - year / 100 + year / 400 + of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_read_as_dates() {
        let at = |seconds: u64, micros: u64| timestamp(Time::from_micros(seconds * 1_000_000 + micros));
        assert_eq!(at(0, 0), "1970-01-01 00:00:00.000000");
        assert_eq!(at(951_782_400, 7), "2000-02-29 00:00:00.000007");
        assert_eq!(at(951_868_799, 999_999), "2000-02-29 23:59:59.999999");
        assert_eq!(at(1_767_323_045, 123_456), "2026-01-02 03:04:05.123456");
        assert_eq!(at(4_107_542_400, 0), "2100-03-01 00:00:00.000000");
        assert!(is_timestamp(&at(1, 2)));
    }

    #[test]
    fn every_day_of_eight_centuries_follows_the_one_before() {
        let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..293_000 {
            assert_eq!(civil(days), (year, month, day));
            assert_eq!(days_before(year as i64, month as i64, day as i64), Some(days as i64));
            let length = match month {
                2 => 28 + u64::from(leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > length {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }

    #[test]
    fn other_texts_are_no_timestamps() {
        for text in ["", "2026-01-02", "2026-01-02 03:04:05.12345x", "2026-01-02T03:04:05.123456", "now"] {
            assert!(!is_timestamp(text), "{text}");
        }
    }
}
