//! The recipes of texts that were seen, to be found by their fingerprint; the text without its literals decides.
//!
//! It is bounded in number and in bytes. There are two generations: what is used is in the young one, and when that is
//! full the old one goes and the young one becomes old. So what was used lately stays, and nothing is kept count of.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::compile::compile;
use super::recipe::Recipe;
use super::tables::TimeTables;
use crate::fingerprint::Fingerprint;

/// Bytes of text that are kept for each recipe that may be, on average.
const BYTES_EACH: usize = 4 << 10;

/// The most that are kept of one fingerprint; those that differ in the length of lists alone would be without number.
const VARIANTS: usize = 16;

type Generation = BTreeMap<Fingerprint, Vec<(Box<str>, Arc<Recipe>)>>;

#[derive(Debug)]
pub(crate) struct Shelf {
    young: Generation,
    old: Generation,
    /// Recipes, and bytes of text, of the young generation.
    count: usize,
    bytes: usize,
    /// The most of both that it may have.
    most: usize,
    most_bytes: usize,
}

impl Shelf {
    pub(crate) fn new(capacity: usize) -> Shelf {
        let most = (capacity / 2).max(1);
        let (young, old) = (Generation::new(), Generation::new());
        Shelf { young, old, count: 0, bytes: 0, most, most_bytes: most * BYTES_EACH }
    }

    /// The recipe of a text of that fingerprint, which leaves `shape` without its literals.
    pub(crate) fn recipe(&mut self, fingerprint: Fingerprint, shape: &str, tables: &TimeTables) -> Arc<Recipe> {
        if let Some(found) = find(&self.young, fingerprint, shape) {
            return Arc::clone(found);
        }
        let recipe = match find(&self.old, fingerprint, shape) {
            Some(found) => Arc::clone(found),
            None => Arc::new(compile(shape, tables)),
        };
        self.put(fingerprint, shape, Arc::clone(&recipe));
        recipe
    }

    fn put(&mut self, fingerprint: Fingerprint, shape: &str, recipe: Arc<Recipe>) {
        if shape.len() > self.most_bytes {
            return;
        }
        if self.count >= self.most || self.bytes + shape.len() > self.most_bytes {
            self.old = std::mem::take(&mut self.young);
            (self.count, self.bytes) = (0, 0);
        }
        self.count += 1;
        self.bytes += shape.len();
        let variants = self.young.entry(fingerprint).or_default();
        if variants.len() >= VARIANTS {
            let (oldest, _) = variants.remove(0);
            self.count -= 1;
            self.bytes -= oldest.len();
        }
        variants.push((shape.into(), recipe));
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.young.values().chain(self.old.values()).map(Vec::len).sum()
    }
}

fn find<'g>(generation: &'g Generation, fingerprint: Fingerprint, shape: &str) -> Option<&'g Arc<Recipe>> {
    generation.get(&fingerprint)?.iter().find(|(known, _)| **known == *shape).map(|(_, recipe)| recipe)
}
