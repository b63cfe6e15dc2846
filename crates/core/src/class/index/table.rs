//! Rules by what has to be equal: one table for conditions of every kind, by their hashes, with linear probing.
//!
//! The hash is for nothing else and for nobody outside. Where two conditions have the same, a query tries rules that do not
//! match, and nothing else comes of it.

use std::collections::BTreeMap;

/// Hashes, and the rules that stand under each.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    /// A power of two of them, at least half of them free; or none at all.
    slots: Vec<Slot>,
    numbers: Vec<Vec<u32>>,
}

/// A hash, and where its rules are; [`FREE`]: nothing.
#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u64,
    at: u32,
}

const FREE: u32 = u32::MAX;

impl Table {
    pub(super) fn of(rules: BTreeMap<u64, Vec<u32>>) -> Table {
        if rules.is_empty() {
            return Table::default();
        }
        let size = (2 * rules.len()).next_power_of_two();
        let (mut slots, mut numbers) = (vec![Slot { hash: 0, at: FREE }; size], Vec::with_capacity(rules.len()));
        for (hash, under) in rules {
            let mut slot = hash as usize & (size - 1);
            while slots[slot].at != FREE {
                slot = (slot + 1) & (size - 1);
            }
            slots[slot] = Slot { hash, at: numbers.len() as u32 };
            numbers.push(under);
        }
        Table { slots, numbers }
    }

    /// The rules under that hash; none if there are none.
    pub(super) fn get(&self, hash: u64) -> &[u32] {
        let Some(mask) = self.slots.len().checked_sub(1) else { return &[] };
        let mut slot = hash as usize & mask;
        // Half of them are free, so this ends.
        loop {
            match self.slots[slot] {
                Slot { at: FREE, .. } => return &[],
                Slot { hash: known, at } if known == hash => return &self.numbers[at as usize],
                _ => slot = (slot + 1) & mask,
            }
        }
    }
}

/// A hash of one or two texts, told apart by `what`: eight bytes at a time, multiplied and turned.
pub(super) fn hash(what: u64, texts: &[&str]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = what ^ ODD;
    let mut take = |word: u64| hash = (hash.rotate_left(26) ^ word).wrapping_mul(ODD);
    for text in texts {
        let (words, rest) = text.as_bytes().as_chunks::<8>();
        words.iter().for_each(|word| take(u64::from_le_bytes(*word)));
        let last = rest.iter().fold(0, |last, byte| last << 8 | u64::from(*byte));
        take(last);
        take(text.len() as u64);
    }
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_under_a_hash_is_found_also_where_places_collide() {
        let hashes = [7, 3, 7 + 64, 7 + 128, 0, u64::MAX, 63, 127];
        let rules = (0..).zip(hashes).map(|(number, hash)| (hash, vec![number, number + 100]));
        let table = Table::of(rules.clone().collect());
        for (hash, under) in rules {
            assert_eq!(table.get(hash), under);
        }
        for absent in [1, 7 + 256, 64, 191] {
            assert_eq!(table.get(absent), [0_u32; 0]);
        }
        assert_eq!(Table::default().get(0), [0_u32; 0]);
    }

    #[test]
    fn texts_of_every_length_and_kind_have_hashes_of_their_own() {
        let mut met = std::collections::BTreeSet::new();
        for len in 0..40 {
            let text = "x".repeat(len);
            for what in 0..3 {
                assert!(met.insert(hash(what, &[&text])), "{what} {len}");
                assert!(met.insert(hash(what, &[&text, ""])) && met.insert(hash(what, &["y", &text])), "{what} {len}");
            }
        }
    }
}
