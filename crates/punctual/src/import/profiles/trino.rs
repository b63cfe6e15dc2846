//! Trino: `system.runtime.queries`, or the completed events of the HTTP event listener as JSON lines.

use punctual_core::query::Status;

use crate::import::layout::{Layout, PLAIN, Profile, may, must};
use crate::import::target::Target;
use crate::import::units::Unit;
use crate::import::words::Meaning;

pub(crate) static PROFILE: Profile = Profile {
    name: "trino",
    about: "Trino: system.runtime.queries, or completed events of the HTTP event listener",
    layouts: &[RUNTIME, EVENTS],
};

const CANCELLED: Meaning = Meaning::Ended(Status::Cancelled);

const RUNTIME: Layout = Layout {
    name: "system.runtime.queries",
    fields: &[
        may(Target::QueryId, &["query_id"]),
        must(Target::Arrival, &["created"]),
        must(Target::Ended, &["end"]),
        may(Target::Waited, &["queued_time_ms"]).of(Unit::Millis),
        may(Target::User, &["user"]),
        may(Target::Application, &["source"]),
        may(Target::Lane, &["resource_group_id"]),
        must(Target::Sql, &["query"]),
        may(Target::Status, &["error_code"]),
        may(Target::Status, &["state"]),
    ],
    words: &[
        ("error_code", "USER_CANCELED", CANCELLED),
        ("error_code", "ABANDONED_QUERY", CANCELLED),
        ("error_code", "ADMINISTRATIVELY_KILLED", CANCELLED),
        ("error_code", "EXCEEDED_TIME_LIMIT", Meaning::Timeout),
        ("error_code", "QUERY_QUEUE_FULL", Meaning::Ended(Status::Refused)),
        ("state", "WAITING_FOR_RESOURCES", Meaning::NotEnded),
        ("state", "DISPATCHING", Meaning::NotEnded),
    ],
    ..PLAIN
};

const EVENTS: Layout = Layout {
    name: "HTTP event listener",
    fields: &[
        may(Target::QueryId, &["metadata.queryId"]),
        must(Target::Arrival, &["createTime"]),
        may(Target::Started, &["executionStartTime"]),
        must(Target::Ended, &["endTime"]),
        may(Target::Cluster, &["context.environment"]),
        may(Target::User, &["context.user"]),
        may(Target::Database, &["context.catalog"]),
        may(Target::Application, &["context.source"]),
        must(Target::Sql, &["metadata.query"]),
        may(Target::Status, &["failureInfo.errorCode.name"]),
        may(Target::Status, &["metadata.queryState"]),
        may(Target::Rows, &["statistics.outputRows"]),
        may(Target::Bytes, &["statistics.outputBytes"]),
    ],
    words: &[
        ("failureInfo.errorCode.name", "USER_CANCELED", CANCELLED),
        ("failureInfo.errorCode.name", "ABANDONED_QUERY", CANCELLED),
        ("failureInfo.errorCode.name", "ADMINISTRATIVELY_KILLED", CANCELLED),
        ("failureInfo.errorCode.name", "EXCEEDED_TIME_LIMIT", Meaning::Timeout),
        ("failureInfo.errorCode.name", "QUERY_QUEUE_FULL", Meaning::Ended(Status::Refused)),
    ],
    ..PLAIN
};
