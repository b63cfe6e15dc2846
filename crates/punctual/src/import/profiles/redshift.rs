//! Amazon Redshift: `SYS_QUERY_HISTORY` (durations in microseconds), and `STL_QUERY` of older clusters.
//!
//! Timestamps are UTC without a zone. Names are padded with blanks, texts are cut at 4,000 characters and have `\n`
//! spelled out. `compute_type` tells the main cluster from concurrency scaling: queries there do not share a cluster.

use crate::import::layout::{Layout, PLAIN, Profile, may, must};
use crate::import::target::Target;
use crate::import::units::Unit;
use crate::import::words::Meaning;
use punctual_core::query::Status;

pub(crate) static PROFILE: Profile =
    Profile { name: "redshift", about: "Amazon Redshift: SYS_QUERY_HISTORY or STL_QUERY", layouts: &[SYS, STL] };

const SYS: Layout = Layout {
    name: "SYS_QUERY_HISTORY",
    fields: &[
        may(Target::QueryId, &["query_id"]),
        must(Target::Arrival, &["start_time"]),
        must(Target::Ended, &["end_time"]),
        may(Target::Latency, &["elapsed_time"]).of(Unit::Micros),
        may(Target::Waited, &["queue_time"]).of(Unit::Micros),
        may(Target::Cluster, &["compute_type"]),
        may(Target::User, &["user_id"]),
        may(Target::Database, &["database_name"]),
        may(Target::Lane, &["service_class_name"]),
        must(Target::Sql, &["query_text"]),
        may(Target::Fingerprint, &["generic_query_hash"]),
        may(Target::Status, &["status"]),
        may(Target::Rows, &["returned_rows"]),
        may(Target::Bytes, &["returned_bytes"]),
    ],
    escaped: true,
    ..PLAIN
};

const STL: Layout = Layout {
    name: "STL_QUERY",
    fields: &[
        may(Target::QueryId, &["query"]),
        must(Target::Arrival, &["starttime"]),
        must(Target::Ended, &["endtime"]),
        may(Target::User, &["userid"]),
        may(Target::Database, &["database"]),
        must(Target::Sql, &["querytxt"]),
        may(Target::Status, &["aborted"]),
    ],
    words: &[("aborted", "0", Meaning::Ended(Status::Finished)), ("aborted", "1", Meaning::Ended(Status::Cancelled))],
    escaped: true,
    ..PLAIN
};
