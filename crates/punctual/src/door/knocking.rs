//! Connections that are on their way to a session: few at a time, and none keeps another out.
//!
//! Who has not said who they are may be anyone, and may say nothing for as long as they are let. So when there are as many
//! as may be and one more comes, one of the address that has most of them goes, the one that has taken longest: who means
//! to come in is through within milliseconds. Cancel requests come this way too.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Those that knock.
#[derive(Debug)]
pub(super) struct Knocking {
    places: Arc<Semaphore>,
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    next: u64,
    /// In the order in which they came, with what tells them to go.
    there: BTreeMap<u64, (IpAddr, oneshot::Sender<()>)>,
}

/// A place among them, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    among: Arc<Knocking>,
    number: u64,
    _place: OwnedSemaphorePermit,
}

impl Knocking {
    /// So many at once.
    pub(super) fn new(most: usize) -> Arc<Knocking> {
        Arc::new(Knocking { places: Arc::new(Semaphore::new(most)), list: Mutex::default() })
    }

    /// A place for one that comes from there, at the cost of another's if need be. It has to go when the second says so.
    pub(super) async fn enter(self: &Arc<Knocking>, from: IpAddr) -> Option<(Turn, oneshot::Receiver<()>)> {
        let place = match Arc::clone(&self.places).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => {
                self.list().send_one_away();
                // It is never closed.
                Arc::clone(&self.places).acquire_owned().await.ok()?
            }
        };
        let (tell, told) = oneshot::channel();
        let mut list = self.list();
        let number = list.next;
        list.next += 1;
        list.there.insert(number, (from, tell));
        Some((Turn { among: Arc::clone(self), number, _place: place }, told))
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl List {
    fn send_one_away(&mut self) {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        self.there.values().for_each(|(from, _)| *counts.entry(*from).or_default() += 1);
        let most = counts.values().copied().max().unwrap_or_default();
        let oldest = self.there.iter().find(|(_, (from, _))| counts.get(from) == Some(&most));
        if let Some(number) = oldest.map(|(number, _)| *number) {
            // What is dropped is heard.
            self.there.remove(&number);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.among.list().there.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_of_the_address_that_has_most_makes_room() {
        let knocking = Knocking::new(3);
        let (one, crowd) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let alone = knocking.enter(one).await.expect("there is room");
        let (turn, mut told) = knocking.enter(crowd).await.expect("there is room");
        let later = knocking.enter(crowd).await.expect("there is room");
        let entering = tokio::spawn({
            let knocking = Arc::clone(&knocking);
            async move { knocking.enter(one).await.map(drop) }
        });
        assert!((&mut told).await.is_err(), "it is told to go");
        drop(turn);
        assert_eq!(entering.await.expect("no panic"), Some(()));
        drop((alone, later));
        assert!(knocking.list().there.is_empty());
        assert_eq!(knocking.places.available_permits(), 3);
    }
}
