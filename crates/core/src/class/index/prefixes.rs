//! Which of many texts a text starts with.
//!
//! They are sorted, and each knows the longest other one that it starts with, its *stem*. Of a text that is looked up, the
//! greatest that is not beyond it is found by bisection. All that the text starts with are then among that one, its
//! stem, the stem of that and so on: the longest of them is not beyond the text, and whatever stands between the two in
//! the order starts with it as well.

use std::collections::BTreeMap;

/// Texts, each with the rules that stand under it.
#[derive(Clone, Debug, Default)]
pub(super) struct Prefixes(Vec<Prefix>);

#[derive(Clone, Debug)]
struct Prefix {
    text: Vec<u8>,
    stem: Option<u32>,
    numbers: Vec<u32>,
}

impl Prefixes {
    pub(super) fn of(texts: BTreeMap<Vec<u8>, Vec<u32>>) -> Prefixes {
        let mut sorted: Vec<Prefix> = Vec::with_capacity(texts.len());
        for (text, numbers) in texts {
            let mut stem = sorted.len().checked_sub(1).map(|last| last as u32);
            while let Some(at) = stem
                && !text.starts_with(&sorted[at as usize].text)
            {
                stem = sorted[at as usize].stem;
            }
            sorted.push(Prefix { text, stem, numbers });
        }
        Prefixes(sorted)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Calls `look` for each that `text` starts with.
    pub(super) fn each(&self, text: &[u8], mut look: impl FnMut(&[u32])) {
        let mut at = self.0.partition_point(|prefix| prefix.text.as_slice() <= text).checked_sub(1);
        while let Some(prefix) = at.and_then(|at| self.0.get(at)) {
            if text.starts_with(&prefix.text) {
                look(&prefix.numbers);
            }
            at = prefix.stem.map(|stem| stem as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_start_is_found_and_nothing_else() {
        let texts = ["", "a", "ab", "abcd", "abd", "b", "ba"];
        let numbered = (0..).zip(texts).map(|(number, text)| (text.as_bytes().to_vec(), vec![number]));
        let prefixes = Prefixes::of(numbered.collect());
        for text in ["", "a", "abc", "abcd", "abcde", "abda", "ac", "aa", "b", "bab", "c"] {
            let mut found = Vec::<u32>::new();
            prefixes.each(text.as_bytes(), |numbers| found.extend(numbers));
            found.sort_unstable();
            let wanted: Vec<u32> =
                (0..).zip(texts).filter(|(_, start)| text.starts_with(start)).map(|(number, _)| number).collect();
            assert_eq!(found, wanted, "{text}");
        }
        Prefixes::default().each(b"a", |_| panic!("there is nothing"));
    }
}
