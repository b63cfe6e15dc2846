//! The Cloud Analytics Benchmark's results: one file for each run, and so for each cluster, by the name of the file.
//!
//! A tenant waits for one of its connections (`query_duration_with_queue` counts from when it wanted to begin) and then
//! for the warehouse (`query_duration`). The number of a query is its shape; with the tenant it is its text.

use crate::import::layout::{Identity, Layout, PLAIN, Profile, may, must};
use crate::import::mapping::FILE;
use crate::import::target::Target;
use crate::import::units::Unit;

pub(crate) static PROFILE: Profile =
    Profile { name: "cab", about: "The Cloud Analytics Benchmark: results of a run", layouts: &[RESULTS] };

const RESULTS: Layout = Layout {
    name: "results",
    fields: &[
        must(Target::Arrival, &["start"]).of(Unit::Millis),
        must(Target::Latency, &["query_duration_with_queue"]).of(Unit::Millis),
        must(Target::Latency, &["query_duration"]).of(Unit::Millis),
        may(Target::Ran, &["query_duration"]).of(Unit::Millis),
        may(Target::Cluster, &[FILE]),
        may(Target::ClusterSize, &["warehouse_size"]),
        must(Target::Database, &["query_stream_id"]),
        must(Target::Fingerprint, &["query_id"]),
        may(Target::TextHash, &["query_id", "query_stream_id"]),
    ],
    identity: Identity::Column,
    ..PLAIN
};
