//! Types that a client may take for others: those whose OIDs differ between clusters.
//!
//! The types that Postgres brings along have the same OIDs everywhere. Those that users make (enums, composites, what extensions
//! bring) have whatever comes next where they are made, and a client that has asked one cluster for them and gets rows of another
//! decodes them wrongly, or not at all. The gateway passes rows on undecoded, so it cannot mend that; it finds it out when a
//! cluster is there, and says so.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use super::asking::ask;
use super::connection::Connection;

/// Types that are compared; a database with more is left alone.
const MOST: usize = 20_000;

/// Bytes of their names.
const LONGEST: usize = 4 << 20;

/// Types that are named where some differ.
const NAMED: usize = 5;

/// What makes types: all but arrays, which follow their elements, and the rows of tables, which nobody sends.
const WHICH: &str = "SELECT t.oid || ' ' || n.nspname || '.' || t.typname FROM pg_catalog.pg_type t \
                     JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace \
                     LEFT JOIN pg_catalog.pg_class c ON c.oid = t.typrelid \
                     WHERE t.oid >= 16384 AND t.typelem = 0 AND n.nspname NOT LIKE 'pg\\_%' \
                     AND (c.oid IS NULL OR c.relkind = 'c') LIMIT 20001";

/// OIDs by the names of types.
type Types = BTreeMap<String, u32>;

/// What is known of the types of each cluster, by database as clients call it.
#[derive(Debug, Default)]
pub struct KnownTypes(Mutex<BTreeMap<String, BTreeMap<String, Types>>>);

impl KnownTypes {
    /// Asks a cluster for its types, and says in the log what differs from those of others.
    pub(super) async fn compare(&self, cluster: &str, database: &str, connection: &mut Connection) {
        match ask(connection, WHICH, LONGEST).await {
            Ok(answer) => {
                if let Some(differs) = self.note(cluster, database, read(&answer)) {
                    tracing::warn!(cluster, database, "{differs}");
                }
            }
            // What is not Postgres has no such catalogue, and no such types.
            Err(because) => tracing::debug!(cluster, database, %because, "its types are not known"),
        }
    }

    /// Keeps what a cluster has; Some: what differs from another.
    fn note(&self, cluster: &str, database: &str, types: Types) -> Option<String> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let clusters = known.entry(database.to_owned()).or_default();
        let differs = clusters.iter().filter(|(other, _)| *other != cluster).find_map(|(other, theirs)| {
            let both = types.iter().filter_map(|(name, oid)| Some((name, *oid, *theirs.get(name)?)));
            told(other, both.filter(|(_, ours, theirs)| ours != theirs).collect())
        });
        clusters.insert(cluster.to_owned(), types);
        differs
    }

    /// The clusters whose types are known for a database.
    pub fn clusters(&self, database: &str) -> Vec<String> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(database).map_or_else(Vec::new, |clusters| clusters.keys().cloned().collect())
    }

    /// The OID of a type on a cluster, if it is known.
    pub fn oid(&self, cluster: &str, database: &str, name: &str) -> Option<u32> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(database)?.get(cluster)?.get(name).copied()
    }

    /// Forgets clusters that are no more.
    pub(crate) fn keep(&self, is_there: impl Fn(&str) -> bool) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.values_mut().for_each(|clusters| clusters.retain(|name, _| is_there(name)));
        known.retain(|_, clusters| !clusters.is_empty());
    }
}

/// What differs, in words; None if nothing does.
fn told(other: &str, differing: Vec<(&String, u32, u32)>) -> Option<String> {
    if differing.is_empty() {
        return None;
    }
    let mut text = format!("types have other OIDs here than on cluster {other}: ");
    for (at, (name, ours, theirs)) in differing.iter().take(NAMED).enumerate() {
        let comma = if at > 0 { ", " } else { "" };
        let _ = write!(text, "{comma}{name} ({ours}, there {theirs})");
    }
    if differing.len() > NAMED {
        let _ = write!(text, " and {} more", differing.len() - NAMED);
    }
    text.push_str(
        "; a client that remembers OIDs (JDBC, asyncpg) may misread them: make them in the same order on both, or one from a \
         physical copy of the other",
    );
    Some(text)
}

/// Lines of an OID and a name.
fn read(answer: &str) -> Types {
    if answer.lines().count() > MOST {
        return Types::new();
    }
    let one = |line: &str| {
        let (oid, name) = line.split_once(' ')?;
        Some((name.to_owned(), oid.parse().ok()?))
    };
    answer.lines().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_between_clusters_of_a_database_is_told() {
        let known = KnownTypes::default();
        let note = |cluster: &str, database: &str, text: &str| known.note(cluster, database, read(text));
        assert_eq!(note("a", "shop", "16400 public.mood\n16404 public.size\n"), None);
        assert_eq!(note("b", "shop", "16400 public.mood\n16420 public.other\n"), None, "nothing differs");
        assert_eq!(note("c", "bank", "17000 public.mood\n"), None, "another database");
        let told = note("c", "shop", "16411 public.mood\n16404 public.size\n").unwrap();
        assert!(
            told.starts_with("types have other OIDs here than on cluster a: public.mood (16411, there 16400); "),
            "{told}"
        );
    }

    #[test]
    fn a_cluster_that_is_gone_is_compared_with_no_more() {
        let known = KnownTypes::default();
        assert_eq!(known.note("a", "shop", read("16400 public.mood\n")), None);
        known.keep(|name| name != "a");
        assert_eq!(known.note("b", "shop", read("16401 public.mood\n")), None);
        let many: String = (0..9).map(|at| format!("{} public.t{at}\n", 17_000 + at)).collect();
        known.note("b", "shop", read(&many));
        let told = known.note("c", "shop", read(&many.replace("17", "18"))).unwrap();
        assert!(told.contains("public.t4 (18004, there 17004) and 4 more;"), "{told}");
    }
}
