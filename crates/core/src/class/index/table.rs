//! Rules by the hash of what has to be equal: one table for conditions of every kind, looked up by bisection.

use std::collections::BTreeMap;

/// Ascending hashes, and the rules that stand under each.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    /// Apart from the rules, so that a search stays within few lines of the cache.
    hashes: Vec<u64>,
    numbers: Vec<Vec<u32>>,
}

impl Table {
    pub(super) fn of(rules: BTreeMap<u64, Vec<u32>>) -> Table {
        let (hashes, numbers) = rules.into_iter().unzip();
        Table { hashes, numbers }
    }

    /// The rules under that hash; none if there are none.
    pub(super) fn get(&self, hash: u64) -> &[u32] {
        self.hashes.binary_search(&hash).map_or(&[], |at| &self.numbers[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_under_a_hash_is_found() {
        let table = Table::of(BTreeMap::from([(7, vec![1, 2]), (3, vec![0])]));
        assert_eq!((table.get(7), table.get(3), table.get(5)), (&[1, 2][..], &[0][..], &[][..]));
        assert_eq!(Table::default().get(0), [0_u32; 0]);
    }
}
