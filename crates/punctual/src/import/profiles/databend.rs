//! Databend: `system_history.query_history`, and the slices of it in Bendset. A query has a record for its start and one
//! for its end; `query_duration_ms` includes the wait.

use punctual_core::query::Status;

use crate::import::layout::{Layout, LeftOut, PLAIN, Profile, may, must};
use crate::import::target::Target;
use crate::import::units::Unit;
use crate::import::words::Meaning;

pub(crate) static PROFILE: Profile = Profile {
    name: "databend",
    about: "Databend: system_history.query_history, or Bendset",
    layouts: &[QUERY_HISTORY],
};

const QUERY_HISTORY: Layout = Layout {
    name: "query_history",
    fields: &[
        may(Target::QueryId, &["query_id"]),
        must(Target::Arrival, &["query_start_time"]),
        must(Target::Latency, &["query_duration_ms"]).of(Unit::Millis),
        may(Target::Waited, &["query_queued_duration_ms"]).of(Unit::Millis),
        may(Target::Cluster, &["cluster_id"]),
        may(Target::User, &["sql_user"]),
        may(Target::Database, &["current_database"]),
        may(Target::Application, &["user_agent"]),
        may(Target::Sql, &["query_text"]),
        must(Target::Fingerprint, &["query_parameterized_hash"]),
        may(Target::TextHash, &["query_hash"]),
        must(Target::Status, &["log_type_name"]),
        may(Target::Rows, &["result_rows"]),
        may(Target::Bytes, &["result_bytes"]),
    ],
    words: &[("log_type_name", "Closed", Meaning::Ended(Status::Cancelled))],
    left_out: &[LeftOut { column: "log_type_name", values: &["Start"], because: "the start of a query" }],
    ..PLAIN
};
