//! Orders on their way from the driver to one session.
//!
//! A bounded queue like another, but for one thing: a session that is about to look into its mailbox anyway can say so, and is
//! not woken for what comes until then. Mostly that is the answer to what it has just reported, and waking a task that runs
//! has it run once more for nothing, and perhaps a thread besides.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::link::Order;

/// Orders that a mailbox holds. A session is never owed more than a verdict, a cancel, a recall, an abandonment and a farewell
/// at once; what does not fit is reported and dropped.
pub const MAILBOX: usize = 16;

/// Where orders for a session are put.
#[derive(Debug)]
pub struct Slot(Arc<Mutex<Contents>>);

/// Where a session finds its orders.
#[derive(Debug)]
pub struct Mailbox(Arc<Mutex<Contents>>);

/// Why an order was not put in.
#[derive(Debug)]
pub enum Unsent {
    /// As many as there may be are there, unread.
    Full(Order),
    /// The session is gone.
    Gone,
}

#[derive(Debug, Default)]
struct Contents {
    orders: VecDeque<Order>,
    reader: Option<Waker>,
    /// One of the two ends is gone.
    closed: bool,
}

/// An empty mailbox.
pub fn mailbox() -> (Slot, Mailbox) {
    let contents = Arc::<Mutex<Contents>>::default();
    (Slot(Arc::clone(&contents)), Mailbox(contents))
}

fn look(contents: &Mutex<Contents>) -> MutexGuard<'_, Contents> {
    contents.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slot {
    /// Puts an order in.
    ///
    /// # Errors
    /// If there is no room for it, or nobody to read it.
    pub fn send(&self, order: Order) -> Result<(), Unsent> {
        let reader = {
            let mut contents = look(&self.0);
            if contents.closed {
                return Err(Unsent::Gone);
            }
            if contents.orders.len() >= MAILBOX {
                return Err(Unsent::Full(order));
            }
            contents.orders.push_back(order);
            contents.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
        Ok(())
    }

    /// True if the session is gone.
    pub fn is_closed(&self) -> bool {
        look(&self.0).closed
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let reader = {
            let mut contents = look(&self.0);
            contents.closed = true;
            contents.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl Mailbox {
    /// The next order; None: none will come any more.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Order>> {
        let mut contents = look(&self.0);
        if let Some(order) = contents.orders.pop_front() {
            return Poll::Ready(Some(order));
        }
        if contents.closed {
            return Poll::Ready(None);
        }
        match &mut contents.reader {
            Some(reader) => reader.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// The next order, if one is there.
    pub fn try_recv(&mut self) -> Option<Order> {
        look(&self.0).orders.pop_front()
    }

    /// Its reader looks into it again before it waits for anything, and is not to be woken until then.
    pub fn will_be_read(&mut self) {
        look(&self.0).reader = None;
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        let mut contents = look(&self.0);
        contents.closed = true;
        contents.orders.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Counts(AtomicUsize);

    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_reader_is_woken_unless_it_is_about_to_look() {
        let counts = Arc::<Counts>::default();
        let (waker, woken) = (Waker::from(Arc::clone(&counts)), || counts.0.load(Ordering::Relaxed));
        let mut cx = Context::from_waker(&waker);
        let (slot, mut mailbox) = mailbox();
        assert!(mailbox.poll_recv(&mut cx).is_pending());
        slot.send(Order::Farewell).unwrap();
        assert_eq!(woken(), 1);
        assert!(matches!(mailbox.poll_recv(&mut cx), Poll::Ready(Some(Order::Farewell))));
        assert!(mailbox.poll_recv(&mut cx).is_pending());
        mailbox.will_be_read();
        slot.send(Order::Farewell).unwrap();
        assert_eq!(woken(), 1);
        assert!(matches!(mailbox.poll_recv(&mut cx), Poll::Ready(Some(Order::Farewell))));
        assert!(mailbox.poll_recv(&mut cx).is_pending());
        drop(slot);
        assert_eq!(woken(), 2);
        assert!(matches!(mailbox.poll_recv(&mut cx), Poll::Ready(None)));
    }

    #[test]
    fn it_holds_what_it_may_and_tells_when_nobody_reads() {
        let (slot, mut mailbox) = mailbox();
        for _ in 0..MAILBOX {
            slot.send(Order::Farewell).unwrap();
        }
        assert!(matches!(slot.send(Order::Farewell), Err(Unsent::Full(Order::Farewell))));
        assert!(mailbox.try_recv().is_some());
        slot.send(Order::Farewell).unwrap();
        assert!(!slot.is_closed());
        drop(mailbox);
        assert!(slot.is_closed());
        assert!(matches!(slot.send(Order::Farewell), Err(Unsent::Gone)));
    }
}
