//! Tries that go on until one succeeds: what may cost money is never given up.
//!
//! ```text
//!   0.25s 0.5s 1s 2s …………… 5m 5m 5m    the waits between them
//!                       │
//!                    a shutdown: at once, and from 0.25s again
//! ```

use std::time::Duration;

use tokio::sync::watch;

const FIRST: Duration = Duration::from_millis(250);
/// Long enough to be no burden on whoever fails, short enough to be no matter beside an hour's price.
const LONGEST: Duration = Duration::from_secs(300);

/// The waits between tries.
pub(super) struct Tries {
    pause: Duration,
    /// Changes once, when a shutdown begins; without a sender, the process is about to end.
    leaving: watch::Receiver<bool>,
}

impl Tries {
    /// Before the first try.
    pub(super) fn new(leaving: &watch::Receiver<bool>) -> Tries {
        let mut leaving = leaving.clone();
        leaving.mark_unchanged();
        Tries { pause: FIRST, leaving }
    }

    /// The wait after the next failure.
    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    /// One has failed: waits, longer each time.
    pub(super) async fn wait(&mut self) {
        let pause = self.lengthen();
        self.rest(pause).await;
    }

    /// The wait that is next; the one after it is longer.
    fn lengthen(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (2 * pause).min(LONGEST);
        pause
    }

    /// Waits that long, or until a shutdown begins.
    pub(super) async fn rest(&mut self, pause: Duration) {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            Ok(()) = self.leaving.changed() => self.pause = FIRST,
        }
    }

    /// One has succeeded.
    pub(super) fn start_over(&mut self) {
        self.pause = FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn they_wait_longer_each_time_up_to_a_limit_and_a_shutdown_hurries_them_once() {
        let (leave, leaving) = watch::channel(false);
        let mut tries = Tries::new(&leaving);
        let waits: Vec<f64> = (0..13).map(|_| tries.lengthen().as_secs_f64()).collect();
        assert_eq!(waits, [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 300.0, 300.0]);
        leave.send_replace(true);
        tries.wait().await;
        assert_eq!(tries.pause(), FIRST);
        let late = Tries::new(&leaving);
        assert!(!late.leaving.has_changed().expect("a sender"), "it has begun during the shutdown");
    }
}
