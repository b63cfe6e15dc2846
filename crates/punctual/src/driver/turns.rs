//! Whose turn it is to drive: the loop's, or that of whoever brings a report.
//!
//! Waking the loop for each report, and it the session in turn, costs a query more than all that is decided about it, the more
//! so across threads. So who brings a report takes it in at once, with all that others have brought by then, if nobody else is
//! at it; otherwise the loop does. All that is decided is still decided one at a time, in the order in which reports came.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex as Brief, PoisonError};

use tokio::sync::{Mutex, MutexGuard, Notify};

use super::Driver;
use crate::link::Taker;

/// The driver, for one at a time.
pub(super) struct Turns {
    /// None once it has ended, or panicked.
    driver: Mutex<Option<Driver>>,
    /// The loop is wanted.
    wanted: Notify,
    panic: Brief<Option<Box<dyn Any + Send>>>,
}

impl Turns {
    /// Has reports taken in by those who bring them from now on.
    pub(super) fn of(driver: Driver) -> Arc<Turns> {
        let taker = driver.reports.taker();
        let turns = Turns { driver: Mutex::new(Some(driver)), wanted: Notify::new(), panic: Brief::new(None) };
        let turns = Arc::new(turns);
        // What was brought before is taken in by the loop, which looks before it waits.
        let _ = taker.set(turns.clone());
        turns
    }

    /// The loop's turn.
    pub(super) async fn next<T>(&self, turn: impl FnOnce(&mut Driver) -> T) -> T {
        let mut driver = self.driver.lock().await;
        match self.turn(&mut driver, turn) {
            Some(result) => result,
            None => self.go_on_with_panic(),
        }
    }

    /// The loop is to have another turn at once.
    pub(super) fn want(&self) {
        self.wanted.notify_one();
    }

    /// Resolves when the loop is to have a turn.
    pub(super) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// The loop has ended.
    pub(super) async fn end(&self) -> Driver {
        match self.driver.lock().await.take() {
            Some(driver) => driver,
            None => self.go_on_with_panic(),
        }
    }

    /// A turn that panics is the last one, whoever has it: what it leaves cannot be gone on with, and the gateway ends.
    fn turn<T>(&self, driver: &mut MutexGuard<'_, Option<Driver>>, turn: impl FnOnce(&mut Driver) -> T) -> Option<T> {
        let present = driver.as_mut()?;
        match catch_unwind(AssertUnwindSafe(|| turn(present))) {
            Ok(result) => Some(result),
            Err(panic) => {
                **driver = None;
                *self.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
                self.want();
                None
            }
        }
    }

    fn go_on_with_panic(&self) -> ! {
        let panic = self.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        resume_unwind(panic.unwrap_or_else(|| Box::new("the driver had ended")))
    }
}

impl Taker for Turns {
    fn take(&self) {
        // Whoever is at it now may have looked for reports for the last time.
        let Ok(mut driver) = self.driver.try_lock() else { return self.want() };
        if self.turn(&mut driver, Driver::drain) == Some(true) {
            self.want();
        }
    }

    fn links_gone(&self) {
        self.want();
    }
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Turns")
    }
}
