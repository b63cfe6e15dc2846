//! What would keep embedded clusters from starting, as far as that shows before anything is started.
//!
//! A gateway starts all the same and tries again for ever, since files may come: so these are no mistakes of the
//! configuration. But whoever asks beforehand wants to know.

use crate::settings::{Cluster, ClusterKind, Embedded};

/// What is missing, a sentence for each cluster that would not start.
pub(super) fn problems(clusters: &[Cluster]) -> Vec<String> {
    let embedded = clusters.iter().filter_map(|cluster| match &cluster.kind {
        ClusterKind::Embedded(embedded) => Some((&cluster.spec.name, embedded)),
        ClusterKind::Simulated(_) | ClusterKind::Exec(_) | ClusterKind::Address(_) => None,
    });
    embedded
        .filter_map(|(name, embedded)| {
            problem(embedded).map(|why| format!("cluster \"{name}\" would not start: {why}"))
        })
        .collect()
}

#[cfg(feature = "embedded")]
fn problem(embedded: &Embedded) -> Option<String> {
    use crate::settings::Tables;

    match &embedded.tables {
        Tables::Dirs(dirs) => punctual_engine::check_tables(dirs).err().map(|error| error.to_string()),
        Tables::Tpch { .. } | Tables::Tpcds { .. } => None,
    }
}

#[cfg(not(feature = "embedded"))]
fn problem(_: &Embedded) -> Option<String> {
    Some("this program was built without embedded clusters".to_owned())
}
