//! Days, months and years of the Gregorian calendar, and the units in which SQL cuts time.
//!
//! Instants are whole microseconds since the Unix epoch, UTC; a day has 86,400 seconds. They are `i128` here, so that sums
//! of whatever stands in a text cannot overflow; what is further away than [`FAR`] is cut by no calendar and stays as it is.

/// Microseconds since the Unix epoch, UTC; or a number of them.
pub(crate) type Micros = i128;

/// One second.
pub(crate) const SECOND: Micros = 1_000_000;
/// One day.
pub(crate) const DAY: Micros = 86_400 * SECOND;
/// Beyond this (some 300,000 years) there is no calendar.
pub(crate) const FAR: Micros = 300_000 * 365 * DAY;

/// A unit in which SQL cuts time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    /// From Monday on.
    Week,
    Month,
    Quarter,
    Year,
}

impl Unit {
    /// The unit of that name, as Postgres spells it, in any case.
    pub(crate) fn named(name: &str) -> Option<Unit> {
        Some(match name.trim().to_ascii_lowercase().as_str() {
            "us" | "usec" | "usecs" | "microsecond" | "microseconds" => Unit::Microsecond,
            "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => Unit::Millisecond,
            "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
            "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
            "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
            "d" | "day" | "days" => Unit::Day,
            "w" | "week" | "weeks" => Unit::Week,
            "mon" | "mons" | "month" | "months" => Unit::Month,
            "qtr" | "quarter" | "quarters" => Unit::Quarter,
            "y" | "yr" | "yrs" | "year" | "years" => Unit::Year,
            _ => return None,
        })
    }

    /// How long it is, if it is always as long.
    pub(crate) fn length(self) -> Option<Micros> {
        Some(match self {
            Unit::Microsecond => 1,
            Unit::Millisecond => 1_000,
            Unit::Second => SECOND,
            Unit::Minute => 60 * SECOND,
            Unit::Hour => 3_600 * SECOND,
            Unit::Day => DAY,
            Unit::Week => 7 * DAY,
            Unit::Month | Unit::Quarter | Unit::Year => return None,
        })
    }

    /// Months in it; zero if it is no number of months.
    pub(crate) fn months(self) -> i64 {
        match self {
            Unit::Month => 1,
            Unit::Quarter => 3,
            Unit::Year => 12,
            _ => 0,
        }
    }

    /// The last beginning of such a unit that is not after `at`.
    pub(crate) fn floor(self, at: Micros) -> Micros {
        if at.abs() > FAR {
            return at;
        }
        // The epoch was a Thursday.
        let offset = if self == Unit::Week { 4 * DAY } else { 0 };
        match self.length() {
            Some(length) => (at - offset).div_euclid(length) * length + offset,
            None => {
                let (year, month, _) = civil(at.div_euclid(DAY) as i64);
                let months = self.months() as u32;
                midnight(year, (month - 1) / months * months + 1, 1)
            }
        }
    }

    /// The first beginning of such a unit that is not before `at`.
    pub(crate) fn ceil(self, at: Micros) -> Micros {
        let floor = self.floor(at);
        if floor == at {
            return at;
        }
        match self.length() {
            Some(length) => floor + length,
            None => add_months(floor, self.months()),
        }
    }
}

/// The year, month and day of a number of days since the epoch. (Howard Hinnant, "chrono-compatible low-level date
/// algorithms": years begin in March, so that the day that leap years add is the last.)
pub(crate) fn civil(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month as u32, day as u32)
}

/// Days from the epoch to a date.
pub(crate) fn days(year: i64, month: u32, day: u32) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let month = i64::from(if month > 2 { month - 3 } else { month + 9 });
    let of_year = (153 * month + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// When a date begins.
pub(crate) fn midnight(year: i64, month: u32, day: u32) -> Micros {
    Micros::from(days(year, month, day)) * DAY
}

/// Days of a month.
pub(crate) fn month_length(year: i64, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// That many months later, on the same day of the month or, where there is none, on its last.
pub(crate) fn add_months(at: Micros, months: i64) -> Micros {
    if at.abs() > FAR || months == 0 || months.abs() > 12 * 300_000 {
        return at;
    }
    let (year, month, day) = civil(at.div_euclid(DAY) as i64);
    let total = year * 12 + i64::from(month) - 1 + months;
    let (year, month) = (total.div_euclid(12), total.rem_euclid(12) as u32 + 1);
    midnight(year, month, day.min(month_length(year, month))) + at.rem_euclid(DAY)
}

/// When the first day begins whose number, such as 20240131, is at least `number`.
pub(crate) fn day_numbered(number: Micros) -> Micros {
    if !(0..3_000_000_000).contains(&number) {
        return if number < 0 { -FAR - 1 } else { FAR + 1 };
    }
    let number = number as i64;
    let (year, month, day) = (number / 10_000, (number / 100 % 100) as u32, (number % 100) as u32);
    match (month, day) {
        (0, _) => midnight(year, 1, 1),
        (13.., _) => midnight(year + 1, 1, 1),
        (_, 0) => midnight(year, month, 1),
        (_, day) if day > month_length(year, month) => add_months(midnight(year, month, 1), 1),
        (_, day) => midnight(year, month, day),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_days_are_each_others_inverse() {
        assert_eq!((days(1970, 1, 1), days(2000, 2, 29), days(2024, 1, 1)), (0, 11_016, 19_723));
        for day in (-800_000..800_000).step_by(17) {
            let (year, month, of_month) = civil(day);
            assert!(of_month >= 1 && of_month <= month_length(year, month));
            assert_eq!(days(year, month, of_month), day);
        }
    }

    #[test]
    fn months_end_where_they_end() {
        assert_eq!(add_months(midnight(2024, 1, 31) + 5, 1), midnight(2024, 2, 29) + 5);
        assert_eq!(add_months(midnight(2024, 3, 31), -13), midnight(2023, 2, 28));
        assert_eq!(add_months(midnight(1969, 12, 15), 1), midnight(1970, 1, 15));
    }

    #[test]
    fn units_begin_where_they_begin() {
        let at = midnight(2024, 5, 15) + 5 * 3_600 * SECOND + 7;
        for (unit, floor, ceil) in [
            (Unit::Day, midnight(2024, 5, 15), midnight(2024, 5, 16)),
            (Unit::Week, midnight(2024, 5, 13), midnight(2024, 5, 20)),
            (Unit::Month, midnight(2024, 5, 1), midnight(2024, 6, 1)),
            (Unit::Quarter, midnight(2024, 4, 1), midnight(2024, 7, 1)),
            (Unit::Year, midnight(2024, 1, 1), midnight(2025, 1, 1)),
            (Unit::Hour, at - 7, at - 7 + 3_600 * SECOND),
        ] {
            assert_eq!((unit.floor(at), unit.ceil(at)), (floor, ceil), "{unit:?}");
            assert_eq!((unit.floor(floor), unit.ceil(floor)), (floor, floor), "{unit:?}");
        }
        assert_eq!(Unit::Week.floor(midnight(1969, 12, 31)), midnight(1969, 12, 29));
        assert_eq!(Unit::Year.ceil(i128::MAX / 4), i128::MAX / 4);
    }

    #[test]
    fn numbers_of_days_that_do_not_exist_are_those_of_the_next() {
        assert_eq!(day_numbered(20_240_131), midnight(2024, 1, 31));
        assert_eq!(day_numbered(20_240_199), midnight(2024, 2, 1));
        assert_eq!(day_numbered(20_240_200), midnight(2024, 2, 1));
        assert_eq!(day_numbered(20_241_301), midnight(2025, 1, 1));
        assert_eq!(day_numbered(20_240_000), midnight(2024, 1, 1));
    }
}
