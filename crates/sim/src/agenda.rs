//! What is yet to happen, in the order of time; what is due at the same instant happens in the order in which it was
//! put down. Nothing else decides ties, so a run is a function of its seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use punctual_core::time::Time;

/// A queue of things by the instant at which they are due.
#[derive(Clone, Debug)]
pub struct Agenda<T> {
    heap: BinaryHeap<Reverse<Item<T>>>,
    added: u64,
}

#[derive(Clone, Debug)]
struct Item<T> {
    at: Time,
    number: u64,
    what: T,
}

impl<T> Agenda<T> {
    /// An empty one.
    pub fn new() -> Agenda<T> {
        Agenda { heap: BinaryHeap::new(), added: 0 }
    }

    /// Puts something down for `at`.
    pub fn add(&mut self, at: Time, what: T) {
        self.heap.push(Reverse(Item { at, number: self.added, what }));
        self.added += 1;
    }

    /// When the next thing is due.
    pub fn next_at(&self) -> Option<Time> {
        self.heap.peek().map(|item| item.0.at)
    }

    /// Takes the next thing off.
    pub fn take(&mut self) -> Option<(Time, T)> {
        self.heap.pop().map(|item| (item.0.at, item.0.what))
    }
}

impl<T> Default for Agenda<T> {
    fn default() -> Agenda<T> {
        Agenda::new()
    }
}

impl<T> Item<T> {
    fn rank(&self) -> (Time, u64) {
        (self.at, self.number)
    }
}

impl<T> Ord for Item<T> {
    fn cmp(&self, other: &Item<T>) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl<T> PartialOrd for Item<T> {
    fn partial_cmp(&self, other: &Item<T>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Item<T> {
    fn eq(&self, other: &Item<T>) -> bool {
        self.rank() == other.rank()
    }
}

impl<T> Eq for Item<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_come_by_time_and_those_of_one_instant_as_they_were_put_down() {
        let mut agenda = Agenda::new();
        for (at, what) in [(5, 'c'), (1, 'a'), (5, 'd'), (1, 'b'), (5, 'e')] {
            agenda.add(Time::from_micros(at), what);
        }
        assert_eq!(agenda.next_at(), Some(Time::from_micros(1)));
        let order: String = std::iter::from_fn(|| agenda.take()).map(|(_, what)| what).collect();
        assert_eq!(order, "abcde");
    }
}
