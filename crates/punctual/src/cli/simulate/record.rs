//! Simulated runs as history: to look at, and to learn from.
//!
//! All seeds of the first policy are written, each with clusters of its own, so that a model can be trained on runs that
//! are not those on which it is tried. Times count from the beginning of 1970.

use std::path::Path;
use std::sync::Arc;

use punctual_core::policy::Policy;
use punctual_core::query::Ended;
use punctual_sim::rehearsal::Rehearsed;
use punctual_sim::workload::Arrival;

use crate::cli::Stop;
use crate::history::{Bulk, Row};

/// Writes runs, each with its seed and what came in it.
pub(super) fn write(path: &Path, runs: &[(u64, &Rehearsed, Vec<Arrival>)], policy: &Policy) -> Result<usize, Stop> {
    let mut rows: Vec<Row> = Vec::new();
    for (seed, rehearsed, arrivals) in runs {
        rows.extend(rehearsed.ended.iter().map(|ended| row(*seed, ended, rehearsed, arrivals, policy)));
    }
    rows.sort_by_key(|row| row.ended);
    let mut bulk = Bulk::begin(path, false).map_err(Stop::failed)?;
    for row in rows {
        bulk.push(row).map_err(Stop::failed)?;
    }
    bulk.commit().map_err(Stop::failed)
}

fn row(seed: u64, ended: &Ended, rehearsed: &Rehearsed, arrivals: &[Arrival], policy: &Policy) -> Row {
    // Queries are numbered from one as they are sent.
    let number = (ended.query.id.0 & ((1 << 48) - 1)) as usize;
    let traits = arrivals.get(number.wrapping_sub(1)).map(|arrival| arrival.ask.traits());
    let name = |cluster| {
        let life = rehearsed.lives.iter().find(|life| life.cluster == cluster);
        life.map_or_else(|| format!("{cluster}"), |life| format!("{}-{cluster}", life.name))
    };
    let cluster: Option<Arc<str>> = ended.cluster.map(|(cluster, _)| format!("seed{seed}-{}", name(cluster)).into());
    Row {
        cluster,
        lane: Some(policy.lanes.name(ended.lane).into()),
        class: policy.classes.get(ended.query.class.0 as usize).map(|class| class.name.as_str().into()),
        text_hash: traits.as_ref().map(|traits| traits.text),
        features: traits.map(|traits| traits.features.to_vec()),
        ..Row::anonymous(ended)
    }
}
