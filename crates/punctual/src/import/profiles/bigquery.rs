//! BigQuery: `INFORMATION_SCHEMA.JOBS`, as JSON lines or Parquet (CSV cannot hold its nested columns).
//!
//! A script has a job of its own and one for each of its statements: the statements count. A reservation is the nearest
//! that BigQuery has to a cluster.

use punctual_core::query::Status;

use crate::import::layout::{Layout, LeftOut, PLAIN, Profile, may, must};
use crate::import::target::Target;
use crate::import::words::Meaning;

pub(crate) static PROFILE: Profile =
    Profile { name: "bigquery", about: "BigQuery: INFORMATION_SCHEMA.JOBS", layouts: &[JOBS] };

const JOBS: Layout = Layout {
    name: "INFORMATION_SCHEMA.JOBS",
    fields: &[
        may(Target::QueryId, &["job_id"]),
        must(Target::Arrival, &["creation_time"]),
        may(Target::Started, &["start_time"]),
        must(Target::Ended, &["end_time"]),
        may(Target::Cluster, &["reservation_id"]),
        may(Target::User, &["user_email"]),
        may(Target::Database, &["project_id"]),
        may(Target::Lane, &["priority"]),
        must(Target::Sql, &["query"]),
        may(Target::Fingerprint, &["query_info.query_hashes.normalized_literals"]),
        may(Target::Status, &["error_result.reason"]),
        may(Target::Status, &["state"]),
    ],
    words: &[
        ("error_result.reason", "stopped", Meaning::Ended(Status::Cancelled)),
        ("error_result.reason", "timeout", Meaning::Timeout),
        ("error_result.reason", "*", Meaning::Ended(Status::Failed)),
    ],
    left_out: &[
        LeftOut { column: "job_type", values: &["LOAD", "EXTRACT", "COPY"], because: "no query" },
        LeftOut { column: "statement_type", values: &["SCRIPT"], because: "a script, whose statements count" },
    ],
    ..PLAIN
};
