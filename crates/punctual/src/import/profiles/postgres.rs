//! Postgres: CSV logs (`log_destination = csvlog`) with durations, from `log_min_duration_statement` or `log_duration`.
//!
//! The columns are those of Postgres 14 and later; older ones have fewer at the end, and no version has a header.
//! [`Pairing`](crate::import::pairing) makes queries of the records.

use crate::import::layout::{Layout, PLAIN, Profile, may, must};
use crate::import::target::Target;

pub(crate) static PROFILE: Profile =
    Profile { name: "postgres-csvlog", about: "Postgres: csvlog with durations", layouts: &[CSVLOG] };

const CSVLOG: Layout = Layout {
    name: "csvlog",
    fields: &[
        must(Target::Arrival, &["@arrival"]),
        must(Target::Ended, &["@ended"]),
        must(Target::Sql, &["@sql"]),
        may(Target::Status, &["@status"]),
        may(Target::SqlState, &["@sqlstate"]),
        may(Target::User, &["user_name"]),
        may(Target::Database, &["database_name"]),
        may(Target::Application, &["application_name"]),
    ],
    header: Some(&[
        "log_time",
        "user_name",
        "database_name",
        "process_id",
        "connection_from",
        "session_id",
        "session_line_num",
        "command_tag",
        "session_start_time",
        "virtual_transaction_id",
        "transaction_id",
        "error_severity",
        "sql_state_code",
        "message",
        "detail",
        "hint",
        "internal_query",
        "internal_query_pos",
        "context",
        "query",
        "query_pos",
        "location",
        "application_name",
        "backend_type",
        "leader_pid",
        "query_id",
    ]),
    paired: true,
    ..PLAIN
};
