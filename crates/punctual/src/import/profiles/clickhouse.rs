//! ClickHouse: `system.query_log`, which has a record for a query's start and one for its end.
//!
//! A query that is spread over several servers has a record on each: only the first server's counts. Timestamps have no
//! zone; they are the server's (`--zone` says which).

use punctual_core::query::Status;

use crate::import::layout::{Layout, LeftOut, PLAIN, Profile, may, must};
use crate::import::target::Target;
use crate::import::units::Unit;
use crate::import::words::Meaning;

pub(crate) static PROFILE: Profile =
    Profile { name: "clickhouse", about: "ClickHouse: system.query_log", layouts: &[QUERY_LOG] };

const FINISHED: Meaning = Meaning::Ended(Status::Finished);
const FAILED: Meaning = Meaning::Ended(Status::Failed);

const QUERY_LOG: Layout = Layout {
    name: "system.query_log",
    fields: &[
        may(Target::QueryId, &["query_id"]),
        must(Target::Arrival, &["query_start_time_microseconds"]),
        must(Target::Arrival, &["query_start_time"]),
        must(Target::Latency, &["query_duration_ms"]).of(Unit::Millis),
        may(Target::Cluster, &["hostname"]),
        may(Target::User, &["user"]),
        may(Target::Database, &["current_database"]),
        may(Target::Application, &["client_name"]),
        must(Target::Sql, &["query"]),
        may(Target::Fingerprint, &["normalized_query_hash"]),
        may(Target::Status, &["exception_code"]),
        must(Target::Status, &["type"]),
        may(Target::Rows, &["result_rows"]),
        may(Target::Bytes, &["result_bytes"]),
    ],
    words: &[
        // QUERY_WAS_CANCELLED and TIMEOUT_EXCEEDED.
        ("exception_code", "394", Meaning::Ended(Status::Cancelled)),
        ("exception_code", "159", Meaning::Timeout),
        ("type", "QueryFinish", FINISHED),
        ("type", "2", FINISHED),
        ("type", "ExceptionBeforeStart", FAILED),
        ("type", "3", FAILED),
        ("type", "ExceptionWhileProcessing", FAILED),
        ("type", "4", FAILED),
    ],
    left_out: &[
        LeftOut { column: "type", values: &["QueryStart", "1"], because: "the start of a query" },
        LeftOut { column: "is_initial_query", values: &["0", "false"], because: "a part of a query elsewhere" },
    ],
    ..PLAIN
};
