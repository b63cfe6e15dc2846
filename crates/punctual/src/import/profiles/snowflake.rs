//! Snowflake: `QUERY_HISTORY` of ACCOUNT_USAGE, or the function of that name. Durations are milliseconds.
//!
//! A warehouse may have several clusters, and queries on two of them are no neighbours: the cluster is the warehouse's
//! name with the cluster's number. Sizes are words, and stand for the credits of an hour: X-Small is 1, Small 2, and so on.

use punctual_core::query::Status;

use crate::import::layout::{Layout, PLAIN, Profile, may, must};
use crate::import::target::Target;
use crate::import::units::Unit;
use crate::import::words::Meaning;

pub(crate) static PROFILE: Profile =
    Profile { name: "snowflake", about: "Snowflake: QUERY_HISTORY", layouts: &[QUERY_HISTORY] };

const QUERY_HISTORY: Layout = Layout {
    name: "QUERY_HISTORY",
    fields: &[
        may(Target::QueryId, &["query_id"]),
        must(Target::Arrival, &["start_time"]),
        may(Target::Ended, &["end_time"]),
        must(Target::Latency, &["total_elapsed_time"]).of(Unit::Millis),
        may(Target::Waited, &["queued_provisioning_time", "queued_repair_time", "queued_overload_time"])
            .of(Unit::Millis),
        may(Target::Cluster, &["warehouse_name", "cluster_number"]),
        may(Target::Cluster, &["warehouse_name"]),
        may(Target::ClusterSize, &["warehouse_size"]),
        may(Target::User, &["user_name"]),
        may(Target::Database, &["database_name"]),
        must(Target::Sql, &["query_text"]),
        may(Target::Fingerprint, &["query_parameterized_hash"]),
        may(Target::Status, &["error_code"]),
        may(Target::Status, &["execution_status"]),
        may(Target::Rows, &["rows_produced"]),
        may(Target::Bytes, &["bytes_written_to_result"]),
    ],
    words: &[
        // Stopped by its user, and by STATEMENT_TIMEOUT_IN_SECONDS.
        ("error_code", "604", Meaning::Ended(Status::Cancelled)),
        ("error_code", "000604", Meaning::Ended(Status::Cancelled)),
        ("error_code", "630", Meaning::Timeout),
        ("error_code", "000630", Meaning::Timeout),
        ("execution_status", "INCIDENT", Meaning::Ended(Status::Failed)),
        ("execution_status", "FAILED_WITH_ERROR", Meaning::Ended(Status::Failed)),
        ("execution_status", "FAILED_WITH_INCIDENT", Meaning::Ended(Status::Failed)),
        ("execution_status", "RESUMING_WAREHOUSE", Meaning::NotEnded),
    ],
    ..PLAIN
};
