//! Which of many texts stand somewhere in a text: those of which three bytes in a row do, as a first sieve.
//!
//! Each needle stands under three bytes of its own that the fewest share. A text is gone through once; most of its three
//! bytes in a row are under nothing, which a table of bits says without looking further.

use std::collections::BTreeMap;

/// Three bytes in a row.
pub(super) type Gram = [u8; 3];

/// Bits of the first sieve: a thousand needles leave 97 of 100 empty.
const BITS: usize = 1 << 15;

/// Rules by three bytes that stand in every text which they match.
#[derive(Clone, Debug, Default)]
pub(super) struct Needles {
    /// Empty if there is none.
    sieve: Vec<u64>,
    grams: BTreeMap<Gram, Vec<u32>>,
}

/// The three bytes in a row of a needle; none of one that is shorter.
pub(super) fn grams(needle: &str) -> impl Iterator<Item = Gram> {
    needle.as_bytes().windows(3).map(|bytes| [bytes[0], bytes[1], bytes[2]])
}

impl Needles {
    pub(super) fn of(grams: BTreeMap<Gram, Vec<u32>>) -> Needles {
        let mut sieve = if grams.is_empty() { Vec::new() } else { vec![0; BITS / 64] };
        for gram in grams.keys() {
            let bit = bit(*gram);
            sieve[bit / 64] |= 1 << (bit % 64);
        }
        Needles { sieve, grams }
    }

    /// Calls `look` for each three bytes in a row of `text` that rules stand under, once.
    pub(super) fn each(&self, text: &str, mut look: impl FnMut(&[u32])) {
        if self.sieve.is_empty() {
            return;
        }
        let mut met = Vec::new();
        for gram in grams(text) {
            let bit = bit(gram);
            if self.sieve[bit / 64] & (1 << (bit % 64)) != 0
                && let Some(numbers) = self.grams.get(&gram)
                && !met.contains(&gram)
            {
                met.push(gram);
                look(numbers);
            }
        }
    }
}

/// Where in the sieve three bytes are: Fibonacci hashing.
fn bit([a, b, c]: Gram) -> usize {
    let gram = u32::from_le_bytes([a, b, c, 0]);
    (gram.wrapping_mul(0x9e37_79b1) >> (32 - BITS.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_a_text_is_found_once() {
        let needles = Needles::of(BTreeMap::from([(*b"dbt", vec![1, 4]), (*b"ngo", vec![2])]));
        let found = |text: &str| {
            let mut found = Vec::<u32>::new();
            needles.each(text, |numbers| found.extend(numbers));
            found
        };
        assert_eq!(found("app: dbt, again dbt"), [1, 4]);
        assert_eq!(found("django and dbt"), [2, 1, 4]);
        assert_eq!(found("db"), [0_u32; 0]);
        assert_eq!(grams("ab").count(), 0);
    }
}
