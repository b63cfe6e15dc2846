//! Days and hours as people who send queries live them: by the clock on their wall.
//!
//! Load follows local time, so what came on a Monday at nine is looked up under Monday, nine o'clock, on both sides of a
//! change to daylight saving time. A day is made of those hours that its clocks show, each with when it begins and how
//! long it lasts:
//!
//! ```text
//!   an ordinary day    │ 0 │ 1 │ 2 │ 3 │ 4 │ …     24 hours of one hour
//!   clocks go forward  │ 0 │ 1 │ 3 │ 4 │ …         hour 2 is missing, the day has 23
//!   clocks go back     │ 0 │ 1 │ 2     │ 3 │ …     hour 2 lasts two hours, the day has 25
//! ```
//!
//! An hour never comes again once a later one has begun: what the clock shows twice is one long hour. So the hours of a
//! day are whole stretches of time without a hole, whatever the zone does. A date that a zone left out (Samoa had no
//! 30 December 2011) has no hours.
//!
//! Zones are fixed offsets from UTC, or named ones of the IANA database that is part of the program (chrono-tz): the
//! machine's own is not asked. Changes are seen to the quarter of an hour, which is exact for every zone since 1972.

use std::fmt;

use chrono::{Datelike, NaiveDate, NaiveDateTime, Offset, TimeZone};
use chrono_tz::Tz;
use punctual_core::time::{Span, Time};
use serde::{Deserialize, Serialize, Serializer};

/// Seconds in a quarter of an hour: what all offsets are multiples of.
const QUARTER: i64 = 900;
/// Seconds in an hour.
const HOUR: i64 = 3_600;
/// Days from the first of January of year 1 to the Unix epoch, counted as chrono does.
const EPOCH: i32 = 719_163;

/// Where the clocks hang that hours are read off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// So many seconds ahead of UTC, always.
    Offset(i32),
    /// A zone of the IANA database.
    Named(Tz),
}

/// A date of the Gregorian calendar, from 1970 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
pub struct Date(i32);

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weekday(u8);

/// A day of a zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Day {
    /// Which.
    pub date: Date,
    /// Its hours, in order, one after the other. None: the zone left the date out.
    pub hours: Vec<Hour>,
}

/// An hour of a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hour {
    /// What the clock shows, 0 to 23.
    pub hour: u8,
    /// When it begins.
    pub starts: Time,
    /// How long it lasts: an hour, but for changes of the clock.
    pub length: Span,
}

impl Zone {
    /// Coordinated universal time.
    pub const UTC: Zone = Zone::Offset(0);

    /// The zone of that name: `UTC`, an offset in quarters of an hour (`+05:30`, `-08:00`), or a name of the IANA
    /// database (`Europe/Berlin`). None if there is no such zone.
    pub fn named(name: &str) -> Option<Zone> {
        let name = name.trim();
        if name.eq_ignore_ascii_case("utc") || name == "Z" {
            return Some(Zone::UTC);
        }
        match name.strip_prefix(['+', '-']) {
            None => name.parse().ok().map(Zone::Named),
            Some(rest) => {
                let (hours, minutes) = rest.split_once(':')?;
                let number = |text: &str| (text.len() == 2).then(|| text.parse::<i32>().ok())?;
                let (hours, minutes) = (number(hours)?, number(minutes)?);
                let fits = (0..=14).contains(&hours) && (0..60).contains(&minutes) && minutes % 15 == 0;
                let seconds = hours * 3_600 + minutes * 60;
                fits.then_some(Zone::Offset(if name.starts_with('-') { -seconds } else { seconds }))
            }
        }
    }

    /// The date that it is there; the last one that there is for what lies beyond.
    pub fn date_of(self, at: Time) -> Date {
        let at = Time::ZERO + Span::from_secs(seconds(at) as u64);
        let day = self.day(Date::of_local(self.local(seconds(at))));
        match day.hours.last() {
            // The clock has gone back over midnight, and shows the day before again.
            Some(last) if at >= last.starts + last.length => day.date.plus(1),
            _ => day.date,
        }
    }

    /// A day with its hours.
    pub fn day(self, date: Date) -> Day {
        let midnight = i64::from(date.0) * 24 * HOUR;
        if let Some(starts) = self.ordinary(midnight) {
            let length = Span::from_secs(HOUR as u64);
            let hour = |hour: u8| Hour { hour, starts: starts + length.times(hour.into()), length };
            return Day { date, hours: (0..24).map(hour).collect() };
        }
        let mut hours: Vec<Hour> = Vec::new();
        // The hour that the clock shows, from the epoch, and never an earlier one again. No zone is further from UTC than
        // 15 hours, and none goes back by more than a day.
        let mut shown = i64::MIN;
        let mut at = midnight - 40 * HOUR;
        let (first, end) = (i64::from(date.0) * 24, i64::from(date.0) * 24 + 24);
        while shown < end && at < midnight + 64 * HOUR {
            shown = shown.max(self.local(at).div_euclid(HOUR));
            if (first..end).contains(&shown) && at >= 0 {
                let hour = (shown - first) as u8;
                let quarter = Span::from_secs(QUARTER as u64);
                match hours.last_mut().filter(|last| last.hour == hour) {
                    Some(last) => last.length += quarter,
                    None => hours.push(Hour { hour, starts: Time::ZERO + Span::from_secs(at as u64), length: quarter }),
                }
            }
            at += QUARTER;
        }
        Day { date, hours }
    }

    /// When a day begins around which the clock is not changed, and before which it has not gone back into it. None: it may be.
    fn ordinary(self, midnight: i64) -> Option<Time> {
        let offset = self.local(midnight) - midnight;
        // No zone changes its clock twice within twelve hours.
        let changes = (-4..6).map(|half| midnight + half * 12 * HOUR).any(|at| self.local(at) - at != offset);
        let starts = u64::try_from(midnight - offset).ok()?;
        (!changes && offset % QUARTER == 0).then_some(Time::ZERO + Span::from_secs(starts))
    }

    /// What a clock there shows, as seconds that would have gone by at UTC.
    fn local(self, seconds: i64) -> i64 {
        seconds
            + match self {
                Zone::Offset(offset) => i64::from(offset),
                Zone::Named(zone) => {
                    let utc = chrono::DateTime::from_timestamp(seconds, 0).map(|at| at.naive_utc());
                    let offset = |utc: NaiveDateTime| zone.offset_from_utc_datetime(&utc).fix().local_minus_utc();
                    i64::from(utc.map_or(0, offset))
                }
            }
    }
}

/// Whole seconds since the epoch, of what is before the year 10000.
fn seconds(at: Time) -> i64 {
    (at.micros() / 1_000_000).min(253_402_300_799) as i64
}

/// As [`Zone::named`] reads it.
impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Zone::Offset(0) => f.write_str("UTC"),
            Zone::Offset(offset) => {
                let (sign, minutes) = (if *offset < 0 { '-' } else { '+' }, offset.abs() / 60);
                write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            }
            Zone::Named(zone) => f.write_str(zone.name()),
        }
    }
}

impl Date {
    /// 2026-09-07, a Monday: where weeks that are generated begin.
    pub const GENERATED: Date = Date(20_703);

    /// That date; None if there is none such, or it is before 1970 or after 9999.
    pub fn of(year: i32, month: u32, day: u32) -> Option<Date> {
        let date = NaiveDate::from_ymd_opt(year, month, day)?;
        (1970..10_000).contains(&year).then(|| Date(date.num_days_from_ce() - EPOCH))
    }

    /// Reads `2026-11-30`.
    pub fn parse(text: &str) -> Option<Date> {
        let mut parts = text.split('-');
        let [year, month, day] = [parts.next()?, parts.next()?, parts.next()?];
        let shaped = parts.next().is_none() && year.len() == 4 && month.len() == 2 && day.len() == 2;
        shaped.then(|| Date::of(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?))?
    }

    fn of_local(seconds: i64) -> Date {
        Date(seconds.div_euclid(24 * HOUR).clamp(0, 2_932_896) as i32)
    }

    /// Its day of the week.
    pub fn weekday(self) -> Weekday {
        // The epoch was a Thursday.
        Weekday((self.0 + 3).rem_euclid(7) as u8)
    }

    /// So many days later, or earlier; the first or last one that there is for what lies beyond.
    pub fn plus(self, days: i32) -> Date {
        Date(self.0.saturating_add(days).clamp(0, 2_932_896))
    }

    /// Days from `earlier` to it; negative if it is before.
    pub fn since(self, earlier: Date) -> i32 {
        self.0 - earlier.0
    }
}

/// As in `2026-11-30` where people read it, else as a number: only such is read again.
impl Serialize for Date {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() { serializer.collect_str(self) } else { self.0.serialize(serializer) }
    }
}

/// As in `2026-11-30`.
impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NaiveDate::from_num_days_from_ce_opt(self.0.saturating_add(EPOCH)) {
            Some(date) => write!(f, "{:04}-{:02}-{:02}", date.year(), date.month(), date.day()),
            None => write!(f, "day {}", self.0),
        }
    }
}

impl Weekday {
    /// All of them, from Monday.
    pub const ALL: [Weekday; 7] = [Weekday(0), Weekday(1), Weekday(2), Weekday(3), Weekday(4), Weekday(5), Weekday(6)];

    /// Its place in the week, from Monday, which is 0.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The day that is called so, in English and in any case.
    pub fn named(name: &str) -> Option<Weekday> {
        Weekday::ALL.into_iter().find(|day| day.name().eq_ignore_ascii_case(name.trim()))
    }

    /// True on Saturdays and Sundays.
    pub fn is_weekend(self) -> bool {
        self.0 >= 5
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"][self.index()]
    }
}

impl fmt::Display for Weekday {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Day {
    /// When it begins; None if it has no hours.
    pub fn starts(&self) -> Option<Time> {
        self.hours.first().map(|hour| hour.starts)
    }

    /// How long it lasts.
    pub fn length(&self) -> Span {
        self.hours.iter().fold(Span::ZERO, |sum, hour| sum + hour.length)
    }

    /// The hour that `at` is in, if it is of this day.
    pub fn hour_at(&self, at: Time) -> Option<&Hour> {
        let next = self.hours.partition_point(|hour| hour.starts <= at);
        self.hours[..next].last().filter(|hour| at < hour.ends())
    }
}

impl Hour {
    /// When it is over.
    pub fn ends(&self) -> Time {
        self.starts + self.length
    }

    /// How many hours it lasts.
    pub fn hours(&self) -> f64 {
        self.length.secs_f64() / 3_600.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str) -> Zone {
        Zone::named(name).expect("a zone")
    }

    fn date(text: &str) -> Date {
        Date::parse(text).expect("a date")
    }

    fn lengths(zone: Zone, date: Date) -> Vec<(u8, f64)> {
        zone.day(date).hours.iter().map(|hour| (hour.hour, hour.hours())).collect()
    }

    #[test]
    fn zones_are_read_and_written_alike_and_what_is_none_is_refused() {
        for name in ["UTC", "+05:30", "-08:00", "Europe/Berlin", "America/New_York"] {
            assert_eq!(zone(name).to_string(), name);
        }
        for name in ["", "+5", "+15:00", "+01:10", "Europe/Atlantis", "+1:00", "-"] {
            assert_eq!(Zone::named(name), None, "{name}");
        }
    }

    #[test]
    fn dates_are_read_and_written_alike() {
        assert_eq!(date("2026-11-30").to_string(), "2026-11-30");
        assert_eq!((date("2024-05-27").weekday().name(), date("1970-01-01").weekday().name()), ("Monday", "Thursday"));
        assert_eq!((Date::GENERATED, Date::GENERATED.weekday().name()), (date("2026-09-07"), "Monday"));
        assert_eq!((date("2024-03-01").since(date("2024-02-28")), date("2024-02-29").plus(1)), (2, date("2024-03-01")));
        for text in ["2023-02-29", "1969-12-31", "2026-1-01", "x", "2026-11-30-1"] {
            assert_eq!(Date::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_ordinary_day_has_24_hours_that_begin_at_its_midnight() {
        let day = zone("+05:30").day(date("2026-11-30"));
        assert_eq!(day.length(), Span::from_secs(86_400));
        // 2026-11-30 is day 20,787; half past five before that at UTC.
        assert_eq!(day.starts(), Some(Time::ZERO + Span::from_secs(20_787 * 86_400 - 19_800)));
        assert!(day.hours.iter().map(|hour| hour.hour).eq(0..24));
    }

    #[test]
    fn the_hour_that_is_left_out_is_missing_and_the_one_that_comes_twice_is_long() {
        let berlin = zone("Europe/Berlin");
        let forward = lengths(berlin, date("2026-03-29"));
        assert_eq!((forward.len(), forward[1], forward[2]), (23, (1, 1.0), (3, 1.0)));
        let back = lengths(berlin, date("2026-10-25"));
        assert_eq!((back.len(), back[2], back[3]), (24, (2, 2.0), (3, 1.0)));
        assert_eq!(berlin.day(date("2026-10-25")).length(), Span::from_secs(25 * 3_600));
        // Lord Howe Island goes back by half an hour.
        assert_eq!(lengths(zone("Australia/Lord_Howe"), date("2026-04-05"))[1], (1, 1.5));
    }

    #[test]
    fn days_follow_each_other_without_a_hole_whatever_the_zone_does() {
        for name in ["Europe/Berlin", "America/St_Johns", "Pacific/Apia", "Africa/Casablanca", "Asia/Gaza", "-08:00"] {
            let zone = zone(name);
            let mut end = None;
            for number in 0..1_100 {
                let day = zone.day(date("2009-01-01").plus(number));
                for hour in &day.hours {
                    assert!(end.is_none_or(|end| end == hour.starts), "{name}, {}: {hour:?}", day.date);
                    end = Some(hour.ends());
                    let middle = hour.starts + Span::from_micros(hour.length.micros() / 2);
                    assert_eq!((zone.date_of(middle), day.hour_at(middle)), (day.date, Some(hour)), "{name}");
                }
            }
        }
        assert_eq!(zone("Pacific/Apia").day(date("2011-12-30")).hours, []);
    }

    #[test]
    fn the_ends_of_time_have_dates() {
        assert_eq!(Zone::UTC.date_of(Time::MAX).to_string(), "9999-12-31");
        assert_eq!(zone("America/New_York").date_of(Time::ZERO).to_string(), "1970-01-01");
    }
}
