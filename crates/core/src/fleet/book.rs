//! Which servers are busy, idle-on, in setup, idle-off: one permutation, cut in four.
//!
//! The dispatcher needs three things of its tokens: to move a server from one state to another, to draw one of a state
//! uniformly, and to count a state. All are O(1) if the servers stand in one array, those of a state side by side:
//!
//! ```text
//!  order   7 2 9 │ 4 1 │ 0 │ 3 5 6 8          place[4] = 3, so 4 is between the first cut and the second: idle-on
//!          busy    idle  setup  idle-off
//!               cut 0  cut 1  cut 2
//! ```
//!
//! To cross a cut, a server changes places with the one that stands at it, and the cut moves by one. The states are in
//! this order because then every step of a server's life but one crosses a single cut: busy ⇄ idle-on, setup → idle-on,
//! idle-off → setup; only turning off crosses two. A draw is one random number. Eight bytes a server, nothing else.
//!
//! The order within a state depends on what happened before, and on nothing else: the same calls and the same random
//! numbers give the same draws.

use serde::{Deserialize, Serialize};

use super::places::Places;
use crate::rng::Rng;

/// What the dispatcher knows of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum State {
    /// It works.
    Busy = 0,
    /// It is on and has nothing to do.
    IdleOn = 1,
    /// It was told to turn on, and is not on yet.
    Setup = 2,
    /// It is off.
    IdleOff = 3,
}

/// How many states there are.
pub const STATES: usize = 4;

impl State {
    /// All of them, in the order in which they stand in the book.
    pub const ALL: [State; STATES] = [State::Busy, State::IdleOn, State::Setup, State::IdleOff];
}

/// The states of the servers 0 to n − 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Book {
    /// The servers, by state.
    places: Places,
    /// Where the servers of each state but the last end.
    cuts: [u32; STATES - 1],
}

impl Book {
    /// A book of so many servers, all in one state.
    pub fn new(servers: u32, state: State) -> Book {
        let cuts = [0, 1, 2].map(|cut| if cut >= state as usize { servers } else { 0 });
        Book { places: Places::new(servers), cuts }
    }

    /// One more server, which is idle-off. Its number is how many there were.
    pub fn grow(&mut self) {
        self.places.grow();
    }

    /// How many servers there are.
    pub fn servers(&self) -> u32 {
        self.places.order().len() as u32
    }

    /// How many are in that state.
    #[inline]
    pub fn count(&self, state: State) -> u32 {
        let (start, end) = self.stretch(state);
        end - start
    }

    /// The state of a server, which must be one of the book's.
    #[inline]
    pub fn state(&self, server: u32) -> State {
        let place = self.places.of(server);
        State::ALL[self.cuts.iter().map(|cut| usize::from(place >= *cut)).sum::<usize>()]
    }

    /// The servers of a state, in an order that means nothing.
    #[inline]
    pub fn members(&self, state: State) -> &[u32] {
        let (start, end) = self.stretch(state);
        &self.places.order()[start as usize..end as usize]
    }

    /// All servers, those that are busy first.
    #[inline]
    pub fn all(&self) -> &[u32] {
        self.places.order()
    }

    /// One of those in that state, each as likely as the other, as [`draw`] does it.
    #[inline]
    pub fn pick(&self, state: State, rng: &mut Rng) -> Option<u32> {
        draw(self.members(state), rng)
    }

    /// Puts a server, which must be one of the book's, in a state.
    #[inline]
    pub fn set(&mut self, server: u32, state: State) {
        let (mut at, to) = (self.state(server) as usize, state as usize);
        while at < to {
            self.cuts[at] -= 1;
            self.places.stand(server, self.cuts[at]);
            at += 1;
        }
        while at > to {
            at -= 1;
            self.places.stand(server, self.cuts[at]);
            self.cuts[at] += 1;
        }
    }

    #[inline]
    fn stretch(&self, state: State) -> (u32, u32) {
        let state = state as usize;
        let start = if state == 0 { 0 } else { self.cuts[state - 1] };
        let end = if state == STATES - 1 { self.servers() } else { self.cuts[state] };
        (start, end)
    }
}

/// One of these, each as likely as the other. Where there is no choice no random number is used.
#[inline]
pub fn draw(members: &[u32], rng: &mut Rng) -> Option<u32> {
    match members {
        [] => None,
        [one] => Some(*one),
        several => Some(several[rng.index(several.len())]),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rng::{Rng, Stream};

    proptest! {
        #[test]
        fn a_book_is_a_list_of_states(
            servers in 1..40u32,
            first in 0..STATES,
            moves in prop::collection::vec((any::<u32>(), 0..STATES), 0..200),
        ) {
            let mut book = Book::new(servers, State::ALL[first]);
            let mut naive = vec![State::ALL[first]; servers as usize];
            for (server, to) in moves {
                let server = server % servers;
                book.set(server, State::ALL[to]);
                naive[server as usize] = State::ALL[to];
                for state in State::ALL {
                    let mut members = book.members(state).to_vec();
                    members.sort_unstable();
                    let expected: Vec<u32> = (0..servers).filter(|s| naive[*s as usize] == state).collect();
                    prop_assert_eq!(book.count(state) as usize, expected.len());
                    prop_assert_eq!(members, expected);
                }
                prop_assert!((0..servers).all(|server| book.state(server) == naive[server as usize]));
            }
        }
    }

    #[test]
    fn a_server_that_is_added_is_off() {
        let mut book = Book::new(2, State::Busy);
        book.grow();
        book.grow();
        book.set(3, State::IdleOn);
        assert_eq!((book.servers(), book.state(2), book.state(3)), (4, State::IdleOff, State::IdleOn));
        assert_eq!((book.members(State::IdleOff), book.members(State::IdleOn)), (&[2][..], &[3][..]));
    }

    #[test]
    fn each_server_of_a_state_is_drawn_as_often_as_the_other() {
        let mut book = Book::new(50, State::IdleOff);
        (0..10).for_each(|n| book.set(n * 5, State::IdleOn));
        let mut rng = Rng::stream(1, Stream::Routing);
        let mut drawn = [0i32; 50];
        for _ in 0..100_000 {
            drawn[book.pick(State::IdleOn, &mut rng).expect("there are some") as usize] += 1;
        }
        // 10,000 each, with a deviation of 95.
        for (server, count) in drawn.iter().enumerate() {
            assert_eq!(*count > 0, server % 5 == 0);
            assert!(*count == 0 || (count - 10_000).abs() < 450, "{server}: {count}");
        }
    }

    #[test]
    fn where_there_is_no_choice_no_random_number_is_used() {
        let mut book = Book::new(3, State::IdleOn);
        book.set(1, State::Setup);
        let mut rng = Rng::stream(1, Stream::Routing);
        assert_eq!(book.pick(State::Busy, &mut rng), None);
        assert_eq!(book.pick(State::Setup, &mut rng), Some(1));
        assert_eq!(Book::new(0, State::Busy).pick(State::Busy, &mut rng), None);
        assert_eq!(rng, Rng::stream(1, Stream::Routing));
    }
}
