//! Which cluster stands for which server of the book.
//!
//! The book has places that stay; clusters come and go, each under a number that is never used again. A place that is
//! idle-off has no cluster: to start the server is to start a cluster and to seat it there.
//!
//! ```text
//!  place      0        1        2        3
//!  cluster    c0       c5       –        c3          the next start draws among the places without one: 2
//!  state      busy     setup    off      idle-on
//! ```
//!
//! A cluster is *busy* while queries, or sessions in a transaction, have slots of it, and *idle-on* while it is ready and none
//! does. Whatever is neither on nor off stands with those in *setup*: what starts, but also what drains, stops, or has failed and
//! will be tried again. Nobody draws from them.
//!
//! The roll is called after every event, and brings the book in line with what the clusters are by then: one place to go wrong
//! instead of one for each thing that can happen to a cluster.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::book::{Book, State, draw};
use super::tokens::{Found, Tokens};
use crate::id::ClusterId;
use crate::rng::Rng;

/// The clusters of a fleet, and the tokens that they have sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Roll {
    book: Book,
    /// The cluster at each place of the book.
    seats: Vec<Option<ClusterId>>,
    /// Where each cluster is.
    places: BTreeMap<ClusterId, u32>,
}

impl Default for Roll {
    fn default() -> Roll {
        Roll { book: Book::new(0, State::IdleOff), seats: Vec::new(), places: BTreeMap::new() }
    }
}

impl Roll {
    /// Brings the book in line with the clusters that there are, which come in the order of their ids, and has at least
    /// so many places.
    pub fn call(&mut self, least: u32, clusters: impl Iterator<Item = (ClusterId, State)> + Clone) {
        while self.book.servers() < least {
            self.grow();
        }
        self.dismiss(clusters.clone().map(|(cluster, _)| cluster));
        for (cluster, state) in clusters {
            let place = self.places.get(&cluster).copied().unwrap_or_else(|| self.seat_anywhere(cluster));
            self.book.set(place, state);
        }
    }

    /// Where a query goes, among the clusters that may take it, by the tokens alone.
    pub fn find(&self, tokens: Tokens, may: impl Fn(ClusterId) -> bool, rng: &mut Rng) -> Option<(ClusterId, bool)> {
        let open = |place: &u32| self.seats[*place as usize].is_some_and(&may);
        let among = |members: &[u32], rng: &mut Rng| {
            let open: Vec<u32> = members.iter().copied().filter(open).collect();
            draw(&open, rng)
        };
        let (place, idle) = match tokens.find(&self.book, among, rng) {
            Found::Idle(place) => (place, true),
            Found::Busy(place) => (place, false),
            Found::Nothing => return None,
        };
        self.seats[place as usize].map(|cluster| (cluster, idle))
    }

    /// The place whose server starts because a query has found none idle; see [`Tokens::start`].
    pub fn start(&self, tokens: Tokens, short: bool, rng: &mut Rng) -> Option<u32> {
        tokens.start(&self.book, short, rng)
    }

    /// A cluster is started for a place that has none.
    pub fn seat(&mut self, place: u32, cluster: ClusterId) {
        self.seats[place as usize] = Some(cluster);
        self.places.insert(cluster, place);
        self.book.set(place, State::Setup);
    }

    /// How many are in that state.
    pub fn count(&self, state: State) -> u32 {
        self.book.count(state)
    }

    /// What the book says of a cluster.
    pub fn state(&self, cluster: ClusterId) -> Option<State> {
        self.places.get(&cluster).map(|place| self.book.state(*place))
    }

    /// The clusters that have places, in the order of their ids.
    pub fn clusters(&self) -> impl Iterator<Item = ClusterId> {
        self.places.keys().copied()
    }

    /// Frees the places of all but these.
    fn dismiss(&mut self, here: impl Iterator<Item = ClusterId>) {
        let mut here = here.peekable();
        let gone: Vec<ClusterId> = self
            .places
            .keys()
            .copied()
            .filter(|cluster| {
                while here.next_if(|next| next < cluster).is_some() {}
                here.peek() != Some(cluster)
            })
            .collect();
        for cluster in gone {
            if let Some(place) = self.places.remove(&cluster) {
                self.seats[place as usize] = None;
                self.book.set(place, State::IdleOff);
            }
        }
    }

    fn seat_anywhere(&mut self, cluster: ClusterId) -> u32 {
        let place = self.seats.iter().position(Option::is_none).unwrap_or_else(|| self.grow()) as u32;
        self.seat(place, cluster);
        place
    }

    fn grow(&mut self) -> usize {
        self.book.grow();
        self.seats.push(None);
        self.seats.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    fn called(roll: &mut Roll, clusters: &[(u32, State)]) {
        roll.call(4, clusters.iter().map(|(id, state)| (ClusterId(*id), *state)));
        let known: Vec<(u32, State)> =
            roll.clusters().map(|id| (id.0, roll.state(id).expect("it has a place"))).collect();
        assert_eq!(known, clusters);
        assert_eq!(roll.count(State::IdleOff), 4u32.saturating_sub(clusters.len() as u32));
    }

    #[test]
    fn clusters_that_are_called_have_places_and_those_that_are_not_lose_them() {
        let mut roll = Roll::default();
        called(&mut roll, &[]);
        called(&mut roll, &[(0, State::Setup), (1, State::IdleOn), (7, State::Busy)]);
        called(&mut roll, &[(1, State::Busy), (7, State::IdleOn)]);
        called(&mut roll, &[(1, State::Busy), (8, State::Setup), (9, State::Setup), (10, State::Setup)]);
        called(&mut roll, &[(9, State::IdleOn)]);
        called(
            &mut roll,
            &[(9, State::IdleOn), (20, State::Setup), (21, State::Setup), (22, State::Busy), (23, State::Busy)],
        );
    }

    #[test]
    fn only_clusters_that_may_are_drawn_and_idle_ones_first() {
        let mut roll = Roll::default();
        called(&mut roll, &[(0, State::IdleOn), (1, State::IdleOn), (2, State::Busy), (3, State::Setup)]);
        let mut rng = Rng::stream(1, Stream::Routing);
        let mut find =
            |may: &[u32]| roll.find(Tokens::Tabs, |id| may.contains(&id.0), &mut rng).map(|(id, idle)| (id.0, idle));
        for _ in 0..20 {
            assert!(matches!(find(&[0, 1, 2]), Some((0 | 1, true))));
            assert_eq!(find(&[1, 2]), Some((1, true)));
            assert_eq!(find(&[2]), Some((2, false)));
            assert_eq!(find(&[3]), None);
        }
    }

    #[test]
    fn a_start_takes_a_place_that_has_no_cluster() {
        let mut roll = Roll::default();
        called(&mut roll, &[(0, State::Busy), (1, State::Busy)]);
        let mut rng = Rng::stream(1, Stream::Routing);
        let place = roll.start(Tokens::Tabs, false, &mut rng).expect("two are off");
        roll.seat(place, ClusterId(5));
        assert_eq!(roll.state(ClusterId(5)), Some(State::Setup));
        called(&mut roll, &[(0, State::Busy), (1, State::Busy), (5, State::IdleOn)]);
        assert!(roll.start(Tokens::Tabs, false, &mut rng).is_some());
        assert!(roll.start(Tokens::Jiq, false, &mut rng).is_none());
        called(&mut roll, &[(0, State::Busy), (1, State::Busy), (5, State::IdleOn), (6, State::Setup)]);
        assert!(roll.start(Tokens::Tabs, false, &mut rng).is_none());
    }
}
