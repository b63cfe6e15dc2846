//! What this gateway has in hand: names under which its commands may run, and what does not stop.
//!
//! A name is in hand from the moment at which a start of it is wanted until its stop has succeeded. What is listed and is not
//! in hand is nobody's. What is in hand has a run, a word that no other start of any gateway has had: what is listed under the
//! same name with another one is nobody's either.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What does not stop, and is told: so many of them at most.
const MOST_TOLD: usize = 100;

/// A gateway's names, shared by all that run commands.
#[derive(Debug)]
pub(in crate::provider) struct Roll {
    /// The gateway's number.
    pub(in crate::provider) gateway: u16,
    /// When this process began, in microseconds since 1970: runs begin with it.
    began: u128,
    hands: Mutex<BTreeMap<String, Arc<Hand>>>,
    unstopped: Mutex<BTreeMap<(String, String), u32>>,
    /// By table.
    doubles: Mutex<BTreeMap<String, BTreeMap<String, u32>>>,
}

/// A name in hand.
#[derive(Debug, Default)]
pub(in crate::provider) struct Hand {
    /// Held while commands of it may run.
    pub(super) turn: tokio::sync::Mutex<()>,
    origin: Mutex<Origin>,
}

/// Where the cluster of a name comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Origin {
    /// It is not decided yet whether it is taken over or started.
    #[default]
    Undecided,
    /// From that run; None: from one that is not told.
    Run(Option<String>),
}

impl Roll {
    /// Nothing in hand.
    pub(in crate::provider) fn new(gateway: u16) -> Roll {
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_micros();
        Roll { gateway, began, hands: Mutex::default(), unstopped: Mutex::default(), doubles: Mutex::default() }
    }

    /// The run of a start of that generation in this process.
    pub(super) fn run(&self, generation: u32) -> String {
        format!("{}-{generation}", self.began)
    }

    /// Takes a name in hand for as long as the answer lives.
    pub(in crate::provider) fn take(&self, name: &str) -> Arc<Hand> {
        let mut hands = held(&self.hands);
        hands.retain(|_, hand| Arc::strong_count(hand) > 1);
        Arc::clone(hands.entry(name.to_owned()).or_default())
    }

    /// The same, if nobody has it in hand.
    pub(super) fn take_free(&self, name: &str) -> Option<Arc<Hand>> {
        let mut hands = held(&self.hands);
        if hands.get(name).is_some_and(|hand| Arc::strong_count(hand) > 1) {
            return None;
        }
        let hand = Arc::default();
        hands.insert(name.to_owned(), Arc::clone(&hand));
        Some(hand)
    }

    /// A name, if it is in hand.
    pub(super) fn get(&self, name: &str) -> Option<Arc<Hand>> {
        held(&self.hands).get(name).filter(|hand| Arc::strong_count(hand) > 1).cloned()
    }

    /// All names that are in hand.
    pub(super) fn names(&self) -> BTreeSet<String> {
        let hands = held(&self.hands);
        hands.iter().filter(|(_, hand)| Arc::strong_count(hand) > 1).map(|(name, _)| name.clone()).collect()
    }

    /// Another try to stop that run of a cluster has failed; how many have.
    pub(super) fn failed(&self, name: &str, run: &str) -> u32 {
        let mut unstopped = held(&self.unstopped);
        let tries = unstopped.entry((name.to_owned(), run.to_owned())).or_default();
        *tries = tries.saturating_add(1);
        *tries
    }

    /// It has stopped, or is not there.
    pub(super) fn over(&self, name: &str, run: &str) {
        held(&self.unstopped).remove(&(name.to_owned(), run.to_owned()));
    }

    /// Names of a table under which several run that cannot be told apart, and how many; those that are new.
    pub(super) fn doubled(&self, table: &str, names: BTreeMap<String, u32>) -> Vec<(String, u32)> {
        let before = held(&self.doubles).insert(table.to_owned(), names.clone()).unwrap_or_default();
        names.into_iter().filter(|(name, _)| !before.contains_key(name)).collect()
    }

    /// True if what was to stop all has.
    pub(in crate::provider) fn has_stopped_all(&self) -> bool {
        held(&self.unstopped).is_empty()
    }

    /// Clusters that may be paid for though nobody wants them, as their stop has failed, or another runs under the same name;
    /// not more than some of them.
    pub(in crate::provider) fn unstopped(&self) -> Vec<String> {
        let mut names: BTreeSet<String> = held(&self.unstopped).keys().map(|(name, _)| name.clone()).collect();
        names.extend(held(&self.doubles).values().flat_map(|names| names.keys().cloned()));
        names.into_iter().take(MOST_TOLD).collect()
    }
}

impl Hand {
    /// Where it comes from.
    pub(super) fn origin(&self) -> Origin {
        held(&self.origin).clone()
    }

    /// A new start has its turn.
    pub(super) fn begins(&self) {
        *held(&self.origin) = Origin::Undecided;
    }

    /// That is decided.
    pub(super) fn comes_from(&self, run: Option<String>) {
        *held(&self.origin) = Origin::Run(run);
    }
}

/// What is in there is whole whatever happened to whoever had it last.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_in_hand_for_as_long_as_somebody_has_it() {
        let roll = Roll::new(0);
        let hand = roll.take("a");
        assert!(roll.take_free("a").is_none() && roll.get("a").is_some());
        drop(hand);
        assert!(roll.get("a").is_none() && roll.take_free("a").is_some());
    }

    #[test]
    fn what_does_not_stop_is_told_until_it_does() {
        let roll = Roll::new(0);
        assert_eq!((roll.failed("a", "1-0"), roll.failed("a", "1-0"), roll.failed("b", "")), (1, 2, 1));
        let doubles = BTreeMap::from([("c".to_owned(), 2)]);
        assert_eq!(roll.doubled("t", doubles.clone()), [("c".to_owned(), 2)]);
        assert_eq!(roll.doubled("t", doubles), []);
        assert_eq!(roll.unstopped(), ["a", "b", "c"]);
        ["1-0", ""].into_iter().zip(["a", "b"]).for_each(|(run, name)| roll.over(name, run));
        assert!(roll.has_stopped_all());
        assert_eq!(roll.unstopped(), ["c"]);
    }
}
