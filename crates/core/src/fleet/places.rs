//! Servers in an order in which some have to stand side by side: those of a state, or of a length of queue.

use serde::{Deserialize, Serialize};

/// The servers 0 to n − 1, each once. To look one up and to have two change places is O(1); eight bytes a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    order: Vec<u32>,
    /// Where each server stands in `order`.
    place: Vec<u32>,
}

impl Places {
    /// So many servers, by number.
    pub fn new(servers: u32) -> Places {
        let order: Vec<u32> = (0..servers).collect();
        Places { place: order.clone(), order }
    }

    /// One more server, at the end. Its number is how many there were.
    pub fn grow(&mut self) {
        let server = self.order.len() as u32;
        self.order.push(server);
        self.place.push(server);
    }

    /// The servers in their order.
    #[inline]
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Where a server stands, which must be one of them.
    #[inline]
    pub fn of(&self, server: u32) -> u32 {
        self.place[server as usize]
    }

    /// Has a server change places with the one that stands at `place`.
    #[inline]
    pub fn stand(&mut self, server: u32, place: u32) {
        let was = self.place[server as usize];
        let other = self.order[place as usize];
        self.order[was as usize] = other;
        self.place[other as usize] = was;
        self.order[place as usize] = server;
        self.place[server as usize] = place;
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.order) + size_of_val(&*self.place)
    }
}
