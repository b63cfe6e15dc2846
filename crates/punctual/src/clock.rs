//! The gateway's clock: wall time once, at the start, and steady from there on.
//!
//! Decisions must not see time go back when the machine's clock is set; history wants wall time. So the wall clock is
//! read once and the steady clock carries it on.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use punctual_core::time::Time;

/// A clock that never goes back.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Time,
    started: Instant,
}

impl Clock {
    /// A clock that starts at the present wall time.
    pub fn start() -> Clock {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Clock { origin: micros(since_epoch), started: Instant::now() }
    }

    /// The present instant.
    pub fn now(&self) -> Time {
        Time::from_micros(self.origin.micros() + micros(self.started.elapsed()).micros())
    }

    /// When `time` comes, on the steady clock; now if it is past.
    pub fn instant(&self, time: Time) -> Instant {
        self.started + Duration::from_micros(time.since(self.origin).micros())
    }
}

fn micros(duration: Duration) -> Time {
    Time::from_micros(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_and_its_time_agree() {
        let clock = Clock::start();
        let now = clock.now();
        assert!(clock.instant(now) <= Instant::now());
        assert!(clock.now() >= now);
    }
}
