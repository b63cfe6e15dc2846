//! A table of bounded size that forgets what was put longest ago.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// The most keys that are remembered.
pub const REMEMBERED: usize = 4_096;

/// The last [`REMEMBERED`] keys that were put, each with its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recent<K: Ord, V> {
    values: BTreeMap<K, (Time, V)>,
    ages: BTreeSet<(Time, K)>,
}

impl<K: Ord, V> Default for Recent<K, V> {
    fn default() -> Recent<K, V> {
        Recent { values: BTreeMap::new(), ages: BTreeSet::new() }
    }
}

impl<K: Ord + Copy, V> Recent<K, V> {
    /// What was put last under a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.values.get(key).map(|(_, value)| value)
    }

    /// Puts a value in the place of the one that is there. O(log n).
    pub fn put(&mut self, key: K, at: Time, value: V) {
        if let Some((before, _)) = self.values.insert(key, (at, value)) {
            self.ages.remove(&(before, key));
        }
        self.ages.insert((at, key));
        if self.ages.len() > REMEMBERED
            && let Some((_, oldest)) = self.ages.pop_first()
        {
            self.values.remove(&oldest);
        }
    }

    /// How many keys are remembered.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// True if none is.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_longest_ago_is_forgotten() {
        let at = Time::from_micros;
        let mut recent = Recent::default();
        assert!(recent.is_empty());
        for key in 0..REMEMBERED as u64 {
            recent.put(key, at(key), 'a');
        }
        recent.put(0, at(9_999), 'b');
        recent.put(77_777, at(10_000), 'c');
        assert_eq!((recent.get(&0), recent.get(&1), recent.get(&2)), (Some(&'b'), None, Some(&'a')));
        assert_eq!((recent.len(), recent.ages.len()), (REMEMBERED, REMEMBERED));
    }
}
