//! What becomes of a task by the tokens alone.
//!
//! ```text
//!               some idle-on?                    some busy?
//!  task ──▶ yes: a random one of them   no ──▶ yes: a random one of them     no ──▶ held, until a server is on
//!                                              and, under TABS, if some are idle-off: a random one of them starts
//! ```
//!
//! The paper loses the task that finds no server on (its N is large enough for that never to happen); here it is held,
//! and a server starts for it like for any other task that finds none idle.
//!
//! Under JIQ no server is ever off, so "busy" is "any". Of the two schemes TABS without turning off is the other: no
//! server is idle-off, so none starts, and the draws are the same.
//!
//! Delayed off is a scheme of one central queue: a task that finds none idle is held there until one is, and one starts as long
//! as fewer do than tasks wait (M/M/N with setup; Gandhi, Harchol-Balter, Adan, "Server farms with setup costs", 2010).
//!
//! **Messages.** Servers send three: *green* (my queue is empty), *on* (my setup is over), *red* (I turned off). Let A
//! tasks arrive, W of them find none idle-on. A server that turns green was given, idle, the first task of what it has
//! just finished, so greens ≤ A − W. Each of the W starts at most one setup, so ons ≤ W. A red ends an idleness that no
//! task ended: reds ≤ (those idle at first + greens + ons) − (A − W) ≤ those idle at first + W. Together at most
//! A + W ≤ 2 A, besides one for each server that was idle at first.

use serde::{Deserialize, Serialize};

use super::book::{Book, State, draw};
use crate::rng::Rng;

/// A scheme that goes by tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tokens {
    /// Servers turn off when they have been idle for long, and on when a task finds none idle.
    Tabs,
    /// All servers are always on.
    Jiq,
    /// Servers turn off as under TABS. A task waits for whichever server is idle first.
    DelayedOff,
}

/// What a task finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Found {
    /// A server that has nothing to do.
    Idle(u32),
    /// A server that has: the task waits in its queue.
    Busy(u32),
    /// No server that is on.
    Nothing,
}

/// Where a task goes, and which server starts on its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Where the task goes.
    pub on: Found,
    /// The server, idle-off until now, that is to start.
    pub start: Option<u32>,
}

impl Tokens {
    /// Whether servers turn off when they have been idle for long.
    pub const fn turns_off(self) -> bool {
        matches!(self, Tokens::Tabs | Tokens::DelayedOff)
    }

    /// Where a task goes that arrives now, and which server starts; see [`Tokens::find`] and [`Tokens::start`], which draw
    /// in this order. The caller carries it out and writes it into the book. `short`: fewer servers are in setup than tasks
    /// would wait with this one.
    #[inline]
    pub fn place(self, book: &Book, short: bool, rng: &mut Rng) -> Placement {
        let on = self.find(book, draw, rng);
        let start = if matches!(on, Found::Idle(_)) { None } else { self.start(book, short, rng) };
        Placement { on, start }
    }

    /// Where a task goes. `among` draws one of the servers that stand in the book side by side, or of those of them that it may
    /// go to.
    #[inline]
    pub fn find(self, book: &Book, among: impl Fn(&[u32], &mut Rng) -> Option<u32>, rng: &mut Rng) -> Found {
        if let Some(server) = among(book.members(State::IdleOn), rng) {
            return Found::Idle(server);
        }
        let busy = match self {
            Tokens::Tabs => among(book.members(State::Busy), rng),
            Tokens::Jiq => among(book.all(), rng),
            Tokens::DelayedOff => None,
        };
        busy.map_or(Found::Nothing, Found::Busy)
    }

    /// The server, idle-off until now, that starts because a task has found none idle.
    #[inline]
    pub fn start(self, book: &Book, short: bool, rng: &mut Rng) -> Option<u32> {
        let starts = match self {
            Tokens::Tabs => true,
            Tokens::Jiq => false,
            Tokens::DelayedOff => short,
        };
        if starts { book.pick(State::IdleOff, rng) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    fn placed(busy: u32, idle_on: u32, setup: u32, idle_off: u32) -> Placement {
        let mut book = Book::new(busy + idle_on + setup + idle_off, State::Busy);
        let states = [(State::IdleOn, busy, idle_on), (State::Setup, busy + idle_on, setup)];
        for (state, first, count) in states {
            (first..first + count).for_each(|server| book.set(server, state));
        }
        (busy + idle_on + setup..book.servers()).for_each(|server| book.set(server, State::IdleOff));
        Tokens::Tabs.place(&book, false, &mut Rng::stream(1, Stream::Routing))
    }

    #[test]
    fn a_task_prefers_an_idle_server_and_starts_none() {
        assert_eq!(placed(1, 1, 1, 1), Placement { on: Found::Idle(1), start: None });
    }

    #[test]
    fn a_task_that_finds_none_idle_waits_at_a_busy_one_and_starts_another() {
        assert_eq!(placed(1, 0, 1, 1), Placement { on: Found::Busy(0), start: Some(2) });
        assert_eq!(placed(1, 0, 1, 0), Placement { on: Found::Busy(0), start: None });
    }

    #[test]
    fn a_task_that_finds_none_on_is_held_and_one_starts() {
        assert_eq!(placed(0, 0, 1, 1), Placement { on: Found::Nothing, start: Some(1) });
        assert_eq!(placed(0, 0, 1, 0), Placement { on: Found::Nothing, start: None });
    }

    #[test]
    fn under_delayed_off_a_task_waits_for_an_idle_server_and_starts_one_if_too_few_start() {
        let mut book = Book::new(3, State::Busy);
        let mut rng = Rng::stream(1, Stream::Routing);
        let mut placed = |book: &Book, short| Tokens::DelayedOff.place(book, short, &mut rng);
        assert_eq!(placed(&book, true), Placement { on: Found::Nothing, start: None });
        book.set(2, State::IdleOff);
        assert_eq!(placed(&book, true), Placement { on: Found::Nothing, start: Some(2) });
        assert_eq!(placed(&book, false), Placement { on: Found::Nothing, start: None });
        book.set(1, State::IdleOn);
        assert_eq!(placed(&book, true), Placement { on: Found::Idle(1), start: None });
    }

    #[test]
    fn tokens_of_servers_that_are_all_on_are_those_of_join_the_idle_queue() {
        let mut nature = Rng::stream(3, Stream::Work);
        let (mut a, mut b) = (Rng::stream(3, Stream::Routing), Rng::stream(3, Stream::Routing));
        let mut book = Book::new(20, State::IdleOn);
        for _ in 0..10_000 {
            let placement = Tokens::Tabs.place(&book, false, &mut a);
            assert_eq!(placement, Tokens::Jiq.place(&book, false, &mut b));
            if let Found::Idle(server) = placement.on {
                book.set(server, State::Busy);
            }
            if nature.chance(0.9) {
                let server = book.pick(State::Busy, &mut nature).expect("at least one has just become busy");
                book.set(server, State::IdleOn);
            }
        }
    }
}
