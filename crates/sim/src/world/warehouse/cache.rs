//! What a cluster has read and still holds: whole tables, the most recently used ones first.
//!
//! Eleven tables of TPC-DS hold nearly all of its bytes; what a query reads is spread over those it names in proportion
//! to their sizes. A query that ends has brought its tables into the cache; what no longer fits is cut off at the least
//! recently used end, where a table may be held in part. A new cluster holds nothing: it is cold.
//!
//! ```text
//!   most recent                                        s·K
//!   ├── store_sales ──┼─ item ─┼── catalog_sales ──┼── web_│sales ··· gone
//! ```

/// The tables that matter, with what one stored copy at scale factor 1,000 takes in GB, in columns and compressed.
/// Rough figures, from row counts and widths: only their proportions, to each other and to the cache, have an effect.
const GROUPS: [(&str, f64); 11] = [
    ("store_sales", 140.0),
    ("catalog_sales", 110.0),
    ("web_sales", 55.0),
    ("store_returns", 18.0),
    ("catalog_returns", 12.0),
    ("web_returns", 6.0),
    ("inventory", 8.0),
    ("customer", 1.5),
    ("customer_address", 0.5),
    ("customer_demographics", 0.1),
    ("item", 0.1),
];

/// A set of those tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tables(u16);

impl Tables {
    /// None of them.
    pub const NONE: Tables = Tables(0);

    /// The tables of these names, which `+` divides; `-` is none. None if one is not known.
    pub fn parse(names: &str) -> Option<Tables> {
        if names == "-" {
            return Some(Tables::NONE);
        }
        names.split('+').try_fold(Tables::NONE, |Tables(bits), name| {
            let at = GROUPS.iter().position(|(known, _)| *known == name)?;
            Some(Tables(bits | 1 << at))
        })
    }

    /// Their names, as [`parse`](Tables::parse) reads them.
    pub fn names(self) -> String {
        let names: Vec<&str> = self.groups().map(|at| GROUPS[at].0).collect();
        if names.is_empty() { "-".to_owned() } else { names.join("+") }
    }

    fn groups(self) -> impl Iterator<Item = usize> {
        (0..GROUPS.len()).filter(move |at| self.0 & 1 << at != 0)
    }
}

/// The cache of one cluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cache {
    room: f64,
    /// Most recent first.
    held: Vec<usize>,
}

impl Cache {
    /// An empty one with room for so many GB.
    pub(super) fn cold(room: f64) -> Cache {
        Cache { room, held: Vec::new() }
    }

    /// The share of these tables' bytes that is here. Of no tables, all.
    pub(super) fn share(&self, tables: Tables) -> f64 {
        let (mut before, mut here, mut whole) = (0.0, 0.0, 0.0);
        for &at in &self.held {
            let size = GROUPS[at].1;
            if tables.0 & 1 << at != 0 {
                here += (self.room - before).clamp(0.0, size);
            }
            before += size;
        }
        for at in tables.groups() {
            whole += GROUPS[at].1;
        }
        if whole > 0.0 { here / whole } else { 1.0 }
    }

    /// These tables have been read.
    pub(super) fn read(&mut self, tables: Tables) {
        self.held.retain(|at| tables.0 & 1 << at == 0);
        self.held.splice(0..0, tables.groups());
    }
}

/// What a cluster's cache holds of what is read next, one query after the other, whatever else they do.
#[derive(Clone, Debug)]
pub struct Steady(Cache);

impl Steady {
    /// A cluster that has read nothing and has room for so many GB.
    pub fn new(room: f64) -> Steady {
        Steady(Cache::cold(room))
    }

    /// These tables are read; the share of their bytes that was there.
    pub fn read(&mut self, tables: Tables) -> f64 {
        let share = self.0.share(tables);
        self.0.read(tables);
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let both = Tables::parse("store_sales+item").expect("known tables");
        assert_eq!(both.names(), "store_sales+item");
        assert_eq!(Tables::parse("-").map(Tables::names).as_deref(), Some("-"));
        assert_eq!(Tables::parse("store_sales+nowhere"), None);
    }

    #[test]
    fn what_was_read_last_is_held_and_the_oldest_is_cut_off() {
        let [store, web] = ["store_sales", "web_sales"].map(|name| Tables::parse(name).expect("a known table"));
        let mut cache = Cache::cold(155.0);
        assert_eq!((cache.share(store), cache.share(Tables::NONE)), (0.0, 1.0));
        cache.read(store);
        assert_eq!(cache.share(store), 1.0);
        cache.read(web);
        // 155 − 55 of 140 GB.
        assert_eq!((cache.share(web), cache.share(store)), (1.0, 100.0 / 140.0));
        cache.read(store);
        assert_eq!((cache.share(web), cache.share(store)), (15.0 / 55.0, 1.0));
    }
}
