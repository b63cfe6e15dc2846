//! What a column of a file can become: the columns of history, and two durations that history derives a column from.

use std::fmt;

/// A column of history, or a duration that gives one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    QueryId,
    Arrival,
    Started,
    Ended,
    Latency,
    /// How long it waited: `started` is that long after `arrival`.
    Waited,
    /// How long it ran on its cluster: `started` is that long before `ended`.
    Ran,
    Cluster,
    ClusterSize,
    Class,
    Lane,
    User,
    Database,
    Application,
    Fingerprint,
    TextHash,
    Sql,
    Slo,
    PredictedP50,
    PredictedP90,
    Isolated,
    Status,
    SqlState,
    Rows,
    Bytes,
    Split,
    Published,
}

/// What kind of value a target takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// An instant.
    Instant,
    /// A duration; several columns are added up.
    Duration,
    /// Text; several columns are joined by a slash.
    Text,
    /// A number, or text that stands for one; several columns make one key.
    Key,
    /// A whole number.
    Whole,
    /// A word for how a query ended.
    Word,
}

impl Target {
    /// Every target with the name that mappings use and what it takes.
    pub(crate) const ALL: [(Target, &str, Takes); 27] = [
        (Target::QueryId, "query_id", Takes::Key),
        (Target::Arrival, "arrival", Takes::Instant),
        (Target::Started, "started", Takes::Instant),
        (Target::Ended, "ended", Takes::Instant),
        (Target::Latency, "latency", Takes::Duration),
        (Target::Waited, "waited", Takes::Duration),
        (Target::Ran, "ran", Takes::Duration),
        (Target::Cluster, "cluster", Takes::Text),
        (Target::ClusterSize, "cluster_size", Takes::Whole),
        (Target::Class, "class", Takes::Text),
        (Target::Lane, "lane", Takes::Text),
        (Target::User, "user", Takes::Text),
        (Target::Database, "database", Takes::Text),
        (Target::Application, "application", Takes::Text),
        (Target::Fingerprint, "fingerprint", Takes::Key),
        (Target::TextHash, "text_hash", Takes::Key),
        (Target::Sql, "sql", Takes::Text),
        (Target::Slo, "slo", Takes::Duration),
        (Target::PredictedP50, "predicted_p50", Takes::Duration),
        (Target::PredictedP90, "predicted_p90", Takes::Duration),
        (Target::Isolated, "isolated", Takes::Duration),
        (Target::Status, "status", Takes::Word),
        (Target::SqlState, "sqlstate", Takes::Word),
        (Target::Rows, "rows", Takes::Whole),
        (Target::Bytes, "bytes", Takes::Whole),
        (Target::Split, "split", Takes::Text),
        (Target::Published, "published", Takes::Duration),
    ];

    /// The target of that name; durations may also be named as in Parquet, with `_s`.
    pub(crate) fn named(name: &str) -> Option<Target> {
        let known = |name: &str| Target::ALL.into_iter().find(|(_, known, _)| *known == name);
        let as_in_parquet = || known(name.strip_suffix("_s")?).filter(|(_, _, takes)| *takes == Takes::Duration);
        known(name).or_else(as_in_parquet).map(|(target, _, _)| target)
    }

    /// The name that mappings use.
    pub(crate) fn name(self) -> &'static str {
        Target::ALL[self as usize].1
    }

    /// What it takes.
    pub(crate) fn takes(self) -> Takes {
        Target::ALL[self as usize].2
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_listed_in_their_own_order() {
        for (at, (target, name, _)) in Target::ALL.into_iter().enumerate() {
            assert_eq!(target as usize, at, "{name}");
            assert_eq!(Target::named(name), Some(target));
        }
        assert_eq!(Target::named("latency_s"), Some(Target::Latency));
        assert_eq!(Target::named("published_s"), Some(Target::Published));
        assert_eq!(Target::named("cluster_s"), None);
    }
}
