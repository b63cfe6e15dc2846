//! Servers in the order of their queues' lengths, for whoever wants the shortest.
//!
//! As in the token book, those of one length stand side by side, so that one more task or one less is a change of places
//! at the edge and the shortest queue is at the front: O(1) both, where a heap would take a logarithm.

use punctual_core::fleet::Places;
use punctual_core::rng::Rng;

/// All servers by length.
#[derive(Clone, Debug)]
pub(super) struct ByLength {
    places: Places,
    /// How many servers are of that length or shorter, for each length there is.
    upto: Vec<u32>,
}

impl ByLength {
    /// So many servers with empty queues.
    pub(super) fn new(servers: u32) -> ByLength {
        ByLength { places: Places::new(servers), upto: vec![servers] }
    }

    /// One of those with the shortest queue, each as likely as the other, and that length.
    pub(super) fn shortest(&self, rng: &mut Rng) -> Option<(u32, u32)> {
        let length = self.upto.iter().position(|count| *count > 0)?;
        Some((self.places.order()[rng.index(self.upto[length] as usize)], length as u32))
    }

    /// A server of that length has one more.
    pub(super) fn raise(&mut self, server: u32, length: u32) {
        let length = length as usize;
        if length + 1 == self.upto.len() {
            self.upto.push(self.places.order().len() as u32);
        }
        self.upto[length] -= 1;
        self.places.stand(server, self.upto[length]);
    }

    /// A server of that length, which is not zero, has one less.
    pub(super) fn lower(&mut self, server: u32, length: u32) {
        let shorter = length as usize - 1;
        self.places.stand(server, self.upto[shorter]);
        self.upto[shorter] += 1;
    }

    /// Bytes in use.
    pub(super) fn bytes(&self) -> usize {
        self.places.bytes() + self.upto.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use punctual_core::rng::{Rng, Stream};

    use super::*;

    proptest! {
        #[test]
        fn the_shortest_is_the_shortest(steps in prop::collection::vec((0..12u32, any::<bool>()), 0..300)) {
            let mut rng = Rng::stream(1, Stream::Routing);
            let mut order = ByLength::new(12);
            let mut naive = [0u32; 12];
            for (server, more) in steps {
                let length = &mut naive[server as usize];
                if more {
                    order.raise(server, *length);
                    *length += 1;
                } else if *length > 0 {
                    order.lower(server, *length);
                    *length -= 1;
                }
                let (shortest, length) = order.shortest(&mut rng).expect("there are servers");
                prop_assert_eq!(Some(&length), naive.iter().min());
                prop_assert_eq!(naive[shortest as usize], length);
            }
        }
    }
}
