//! Redset: the queries of Amazon's fleet without their texts; and Redbench's `workload.csv`, which has the same columns
//! and texts that stand for them. Durations are milliseconds.
//!
//! A query's latency is what it spent compiling, in the queue and executing. Its id is unique within its cluster only.

use punctual_core::query::Status;

use crate::import::layout::{Field, Identity, Layout, PLAIN, Profile, may, must};
use crate::import::target::Target;
use crate::import::units::Unit;
use crate::import::words::Meaning;

pub(crate) static PROFILE: Profile =
    Profile { name: "redset", about: "Redset: provisioned or serverless, CSV or Parquet", layouts: &[REDSET] };

/// Redbench's workloads.
pub(crate) static REDBENCH: Profile =
    Profile { name: "redbench", about: "Redbench: workload.csv, Redset with texts", layouts: &[WORKLOAD] };

const LATENCY: Field =
    must(Target::Latency, &["compile_duration_ms", "queue_duration_ms", "execution_duration_ms"]).of(Unit::Millis);

const WORDS: &[(&str, &str, Meaning)] = &[
    ("was_aborted", "0", Meaning::Ended(Status::Finished)),
    ("was_aborted", "false", Meaning::Ended(Status::Finished)),
    ("was_aborted", "1", Meaning::Ended(Status::Cancelled)),
    ("was_aborted", "true", Meaning::Ended(Status::Cancelled)),
];

const REDSET: Layout = Layout {
    name: "Redset",
    fields: &[
        may(Target::QueryId, &["query_id"]),
        must(Target::Arrival, &["arrival_timestamp"]),
        LATENCY,
        may(Target::Waited, &["queue_duration_ms"]).of(Unit::Millis),
        may(Target::Cluster, &["instance_id"]),
        may(Target::ClusterSize, &["cluster_size"]),
        may(Target::User, &["user_id"]),
        may(Target::Database, &["database_id"]),
        must(Target::Fingerprint, &["feature_fingerprint"]),
        may(Target::Status, &["was_aborted"]),
    ],
    words: WORDS,
    identity: Identity::Column,
    ..PLAIN
};

const WORKLOAD: Layout = Layout {
    name: "workload.csv",
    fields: &[
        may(Target::QueryId, &["query_id"]),
        must(Target::Arrival, &["arrival_timestamp"]),
        LATENCY,
        may(Target::Waited, &["queue_duration_ms"]).of(Unit::Millis),
        may(Target::Cluster, &["instance_id"]),
        may(Target::ClusterSize, &["cluster_size"]),
        may(Target::User, &["user_id"]),
        may(Target::Database, &["database_id"]),
        must(Target::Sql, &["sql"]),
        may(Target::Fingerprint, &["feature_fingerprint"]),
        may(Target::Status, &["was_aborted"]),
    ],
    words: WORDS,
    ..PLAIN
};
