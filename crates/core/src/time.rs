//! Instants and durations that come in through the door.
//!
//! Core never asks what time it is: every entry point takes `now`. Both types count whole microseconds, the
//! resolution of history, so that a recorded run and its replay see the very same numbers. Arithmetic saturates:
//! a clock that jumps must not stop the decisions.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

/// An instant: microseconds since the Unix epoch, or since the start of a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Time(u64);

/// A duration in microseconds, never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span(u64);

impl Time {
    /// The epoch, and the start of every simulation.
    pub const ZERO: Time = Time(0);
    /// The end of time: what is due then is never due.
    pub const MAX: Time = Time(u64::MAX);

    /// The instant `micros` microseconds after the epoch.
    pub const fn from_micros(micros: u64) -> Time {
        Time(micros)
    }

    /// Microseconds since the epoch.
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// How long before `self` the instant `earlier` was; zero if it was not before.
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// Longer than anything that is waited for.
    pub const MAX: Span = Span(u64::MAX);

    /// A span of whole microseconds.
    pub const fn from_micros(micros: u64) -> Span {
        Span(micros)
    }

    /// A span of whole milliseconds.
    pub const fn from_millis(millis: u64) -> Span {
        Span(millis.saturating_mul(1_000))
    }

    /// A span of whole seconds.
    pub const fn from_secs(secs: u64) -> Span {
        Span(secs.saturating_mul(1_000_000))
    }

    /// The nearest microsecond to `secs`; negative values and NaN are zero, what does not fit is [`Span::MAX`].
    pub fn from_secs_f64(secs: f64) -> Span {
        // `as` saturates and maps NaN to zero, which is what is promised.
        Span((secs * 1e6 + 0.5) as u64)
    }

    /// Whole microseconds.
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// Seconds, with the fraction.
    pub fn secs_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// This span `times` over.
    pub const fn times(self, times: u64) -> Span {
        Span(self.0.saturating_mul(times))
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        *self = *self + other;
    }
}

impl From<Span> for std::time::Duration {
    fn from(span: Span) -> std::time::Duration {
        std::time::Duration::from_micros(span.0)
    }
}

impl Sub for Span {
    type Output = Span;
    fn sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Span(self.0).fmt(f)
    }
}

/// The shortest of the units that reads well: `850us`, `12ms`, `3.5s`, `30m`, `2h`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SECOND: u64 = 1_000_000;
        match self.0 {
            0 => write!(f, "0s"),
            us if us < 1_000 => write!(f, "{us}us"),
            us if us < SECOND => write!(f, "{}ms", trimmed(us, 1_000)),
            us if us % (3_600 * SECOND) == 0 => write!(f, "{}h", us / (3_600 * SECOND)),
            us if us >= 60 * SECOND && us % (60 * SECOND) == 0 => write!(f, "{}m", us / (60 * SECOND)),
            us => write!(f, "{}s", trimmed(us, SECOND)),
        }
    }
}

/// `value / unit` with at most three decimals and no trailing zeros.
fn trimmed(value: u64, unit: u64) -> String {
    let thousandths = (value % unit) * 1_000 / unit;
    let text = format!("{}.{thousandths:03}", value / unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_in_the_unit_that_fits() {
        let read = |us| Span::from_micros(us).to_string();
        assert_eq!(read(0), "0s");
        assert_eq!(read(850), "850us");
        assert_eq!(read(12_500), "12.5ms");
        assert_eq!(read(3_500_000), "3.5s");
        assert_eq!(read(1_800_000_000), "30m");
        assert_eq!(read(7_200_000_000), "2h");
        assert_eq!(read(61_000_000), "61s");
    }

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        assert_eq!(Time::from_micros(5).since(Time::from_micros(9)), Span::ZERO);
        assert_eq!(Time::from_micros(u64::MAX) + Span::from_secs(1), Time::from_micros(u64::MAX));
        assert_eq!(Span::from_secs_f64(f64::NAN), Span::ZERO);
        assert_eq!(Span::from_secs_f64(-1.0), Span::ZERO);
        assert_eq!(Span::from_secs_f64(f64::INFINITY), Span::MAX);
        assert_eq!(Span::from_secs_f64(0.25), Span::from_millis(250));
    }
}
