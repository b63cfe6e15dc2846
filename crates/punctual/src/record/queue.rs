//! A bounded queue to a writing thread that costs the sender next to nothing.
//!
//! Waking a thread is a system call, and the driver must not pay for one with each query. So a push wakes nobody: the
//! writing thread rests for a moment and then takes all that is there. Only a queue that is half full, or someone who
//! waits for an answer, wakes it. What is queued is bounded in number and in bytes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;

/// The end that is written to. Cheap to clone.
#[derive(Debug)]
pub(crate) struct Feed<T> {
    sender: SyncSender<(T, usize)>,
    level: Arc<Level>,
}

/// The end that the writing thread reads.
#[derive(Debug)]
pub(crate) struct Drain<T> {
    receiver: Receiver<(T, usize)>,
    level: Arc<Level>,
}

#[derive(Debug)]
struct Level {
    items: AtomicUsize,
    bytes: AtomicUsize,
    max_items: usize,
    max_bytes: usize,
    thread: OnceLock<Thread>,
}

/// A queue of at most `max_items` things of at most `max_bytes` together.
pub(crate) fn queue<T>(max_items: usize, max_bytes: usize) -> (Feed<T>, Drain<T>) {
    let (sender, receiver) = sync_channel(max_items.max(1));
    let level = Arc::new(Level {
        items: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
        max_items: max_items.max(1),
        max_bytes,
        thread: OnceLock::new(),
    });
    (Feed { sender, level: level.clone() }, Drain { receiver, level })
}

impl<T> Clone for Feed<T> {
    fn clone(&self) -> Feed<T> {
        Feed { sender: self.sender.clone(), level: self.level.clone() }
    }
}

impl<T> Feed<T> {
    /// Puts in something that holds `bytes` bytes. False if there is no room or nobody reads; never waits.
    pub(crate) fn push(&self, item: T, bytes: usize) -> bool {
        let level = &*self.level;
        if level.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) > level.max_bytes {
            level.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.wake();
            return false;
        }
        // Counted before it is sent: the reader must never count down first.
        let items = level.items.fetch_add(1, Ordering::Relaxed) + 1;
        match self.sender.try_send((item, bytes)) {
            Ok(()) => {
                if items == level.max_items.div_ceil(2) {
                    self.wake();
                }
                true
            }
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                level.items.fetch_sub(1, Ordering::Relaxed);
                level.bytes.fetch_sub(bytes, Ordering::Relaxed);
                false
            }
        }
    }

    /// Puts it in, waiting for room, and wakes the reader. False if nobody reads. The limit in bytes does not hold.
    pub(crate) fn push_waiting(&self, item: T, bytes: usize) -> bool {
        self.level.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.level.items.fetch_add(1, Ordering::Relaxed);
        self.wake();
        let sent = self.sender.send((item, bytes)).is_ok();
        if !sent {
            self.level.items.fetch_sub(1, Ordering::Relaxed);
            self.level.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        self.wake();
        sent
    }

    /// True while less than half of what may be queued is.
    pub(crate) fn is_roomy(&self) -> bool {
        self.level.items.load(Ordering::Relaxed) * 2 < self.level.max_items
            && self.level.bytes.load(Ordering::Relaxed) * 2 < self.level.max_bytes
    }

    fn wake(&self) {
        if let Some(thread) = self.level.thread.get() {
            thread.unpark();
        }
    }
}

/// What a look into the queue found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Popped<T> {
    /// The oldest thing.
    Item(T),
    /// Nothing now.
    Empty,
    /// Nothing any more: every [`Feed`] is gone.
    Over,
}

impl<T> Drain<T> {
    /// Makes the calling thread the one that is woken.
    pub(crate) fn attach(&self) {
        let _ = self.level.thread.set(thread::current());
    }

    /// Takes the oldest thing out; does not wait.
    pub(crate) fn pop(&self) -> Popped<T> {
        match self.receiver.try_recv() {
            Ok((item, bytes)) => {
                self.level.items.fetch_sub(1, Ordering::Relaxed);
                self.level.bytes.fetch_sub(bytes, Ordering::Relaxed);
                Popped::Item(item)
            }
            Err(TryRecvError::Empty) => Popped::Empty,
            Err(TryRecvError::Disconnected) => Popped::Over,
        }
    }

    /// Rests until woken, for at most that long.
    pub(crate) fn rest(&self, at_most: Duration) {
        thread::park_timeout(at_most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_in_number_or_bytes_is_refused_until_there_is_room() {
        let (feed, drain) = queue(2, 100);
        assert!(feed.push('a', 60));
        assert!(!feed.push('b', 60), "too many bytes");
        assert!(feed.push('c', 40));
        assert!(!feed.push('d', 0), "too many things");
        assert_eq!(drain.pop(), Popped::Item('a'));
        assert!(feed.push('e', 60));
        assert_eq!(drain.pop(), Popped::Item('c'));
        assert_eq!(drain.pop(), Popped::Item('e'));
        assert_eq!(drain.pop(), Popped::Empty);
        drop(feed);
        assert_eq!(drain.pop(), Popped::Over);
    }

    #[test]
    fn nothing_goes_in_when_nobody_reads() {
        let (feed, drain) = queue(2, 100);
        drop(drain);
        assert!(!feed.push('a', 1));
        assert!(!feed.push_waiting('a', 1));
        assert!(feed.is_roomy());
    }

    #[test]
    fn one_who_waits_gets_through_a_full_queue() {
        let (feed, drain) = queue(1, 100);
        assert!(feed.push(0, 1));
        let reader = thread::spawn(move || {
            drain.attach();
            let mut read = Vec::new();
            loop {
                match drain.pop() {
                    Popped::Item(item) => read.push(item),
                    Popped::Empty => drain.rest(Duration::from_secs(60)),
                    Popped::Over => return read,
                }
                if read.len() == 3 {
                    return read;
                }
            }
        });
        assert!(feed.push_waiting(1, 1));
        assert!(feed.push_waiting(2, 1));
        assert_eq!(reader.join().unwrap(), [0, 1, 2]);
    }
}
