//! The gateway's clock: wall time once, at the start, and steady from there on.
//!
//! Decisions must not see time go back when the machine's clock is set, nor jump; history wants wall time. So the wall clock is
//! read once and the steady clock carries it on. That the two have come apart is said, and a metric tells by how much.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use punctual_core::time::Time;

use crate::metrics::Metrics;

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

    /// How many seconds the machine's clock is ahead of this one: it has been set, or the machine slept.
    pub fn is_behind_by(&self) -> f64 {
        self.behind(SystemTime::now(), self.now())
    }

    fn behind(&self, wall: SystemTime, now: Time) -> f64 {
        let wall = micros(wall.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO));
        wall.since(now).secs_f64() - now.since(wall).secs_f64()
    }

    /// When `time` comes, on the steady clock; now if it is past.
    pub fn instant(&self, time: Time) -> Instant {
        self.started + Duration::from_micros(time.since(self.origin).micros())
    }
}

/// How often the two are compared, and how far apart is worth a word: clocks that are disciplined differ by less.
const COMPARED_EVERY: Duration = Duration::from_secs(10);
const APART: f64 = 1.0;

/// Says when the machine's clock has been set, and tells the metrics, for as long as it is polled.
pub(crate) async fn watch(clock: Clock, metrics: Arc<Metrics>) {
    let mut said = 0.0_f64;
    loop {
        let behind = clock.is_behind_by();
        metrics.clock_behind(behind);
        if (behind - said).abs() > APART {
            said = behind;
            tracing::warn!(
                seconds = behind.round(),
                "the machine's clock was set or stood still: decisions and records go on by the clock of the start, \
                 which differs by so much, until the next start"
            );
        }
        tokio::time::sleep(COMPARED_EVERY).await;
    }
}

fn micros(duration: Duration) -> Time {
    Time::from_micros(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_is_seen_and_time_goes_on_as_before() {
        let clock = Clock::start();
        let now = clock.now();
        let wall = UNIX_EPOCH + Duration::from_micros(now.micros());
        assert_eq!(clock.behind(wall, now), 0.0);
        assert_eq!(clock.behind(wall + Duration::from_secs(3_600), now), 3_600.0);
        assert_eq!(clock.behind(wall - Duration::from_secs(86_400), now), -86_400.0);
        assert!(clock.behind(UNIX_EPOCH - Duration::from_secs(1), now) < 0.0);
    }

    #[test]
    fn an_instant_and_its_time_agree() {
        let clock = Clock::start();
        let now = clock.now();
        assert!(clock.instant(now) <= Instant::now());
        assert!(clock.now() >= now);
    }
}
