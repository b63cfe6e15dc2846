//! The thread that writes: it takes what is queued, writes what was gathered now and then, and rests.

use std::path::Path;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::error::FileError;
use super::queue::{Drain, Popped};

/// How long the thread rests when there is nothing to do.
const REST: Duration = Duration::from_millis(100);

/// How long what was taken in stays in memory at most before it is in its file.
const FLUSH: Duration = Duration::from_millis(250);

/// Things that are taken in before other work is looked at.
const TURN: usize = 4_096;

/// What is done with what is queued.
pub(crate) trait Desk<T> {
    /// Does what is asked. False: this was the last.
    fn take(&mut self, ask: T) -> bool;

    /// Writes what was gathered, and does what else is due.
    fn tidy(&mut self);

    /// Writes what is left. Nothing comes any more.
    fn close(self);
}

/// Works until the last is asked for, or nobody can ask.
pub(crate) fn work<T>(drain: &Drain<T>, mut desk: impl Desk<T>) {
    drain.attach();
    let mut flush_at = Instant::now();
    loop {
        let mut idle = false;
        for _ in 0..TURN {
            match drain.pop() {
                Popped::Item(ask) => {
                    if !desk.take(ask) {
                        return desk.close();
                    }
                }
                Popped::Over => return desk.close(),
                Popped::Empty => {
                    idle = true;
                    break;
                }
            }
        }
        if Instant::now() >= flush_at {
            desk.tidy();
            flush_at = Instant::now() + FLUSH;
        }
        if idle {
            drain.rest(REST);
        }
    }
}

/// A thread that is waited for when this is dropped.
#[derive(Debug)]
pub(crate) struct Thread(Option<JoinHandle<()>>);

impl Thread {
    /// Starts the work of writing to a directory.
    ///
    /// # Errors
    /// If there are no threads left.
    pub(crate) fn start(name: &str, dir: &Path, work: impl FnOnce() + Send + 'static) -> Result<Thread, FileError> {
        let started = Builder::new().name(name.into()).spawn(work);
        Ok(Thread(Some(started.map_err(FileError::of("start a thread for", dir))?)))
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
}
