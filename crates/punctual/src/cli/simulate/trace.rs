//! A history as a trace: what came when, and what each query takes alone.
//!
//! A history says how long queries took among others, and the simulation needs what they take alone, on every size that
//! there may be. With a model its Stage says that. Without one it is read off the history: the median of those runs of the
//! same fingerprint on the same size that nothing else ran beside, or, if there are none, the latency that a fifth of all
//! its runs there did not exceed. On other sizes half the units take twice the time. A fingerprint of which nothing ever
//! finished takes as long as each of its queries ran.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use punctual_core::admit::claim::Claim;
use punctual_core::class::{self, Class, DEFAULT};
use punctual_core::fingerprint::Fingerprint;
use punctual_core::id::{ClassId, QueryId, Units};
use punctual_core::math;
use punctual_core::predict::model::Model;
use punctual_core::query::{Status, Traits, violated};
use punctual_core::scan::TimeTable;
use punctual_core::time::{Span, Time};
use punctual_learn::observation::{Observation, isolated};
use punctual_sim::workload::{Recorded, Remembered};
use punctual_sim::world::warehouse::Table;
use serde::Serialize;

use super::claims::Claims;
use super::shadow::{Ran, UNNAMED, Was};
use super::typed::Target;
use crate::cli::Stop;
use crate::history::{self, Row};
use crate::model::pattern::Pattern;
use crate::model::seen::{Fold, Seen, Split};
use crate::print;

/// The most queries that are read of a history.
pub(super) const MOST: usize = 200_000;

/// Executions vary by no more than this, whatever a model says: the deviation of the logarithm.
const MOST_NOISE: f64 = 1.5;

/// The most classes of a history; queries of others are of the default class.
const CLASSES: usize = 64;

/// What is wanted of a history.
pub(super) struct Wanted<'a> {
    pub(super) history: &'a Path,
    /// Only queries that ran on clusters of such a name.
    pub(super) only: &'a [Pattern],
    /// Only what came within so long from the first.
    pub(super) length: Option<Span>,
    pub(super) most: usize,
    pub(super) target: Option<Target>,
    pub(super) model: Option<&'a Model>,
    /// The sizes that there may be.
    pub(super) sizes: &'a [Units],
    /// True if the classes are those of a configuration.
    pub(super) configured: bool,
    /// The configuration's tables with a column of time.
    pub(super) tables: &'a [TimeTable],
}

/// A history that has been read.
pub(super) struct Trace {
    pub(super) queries: Vec<Remembered>,
    /// The classes, those of the history added.
    pub(super) classes: Vec<Class>,
    pub(super) as_recorded: AsRecorded,
    /// When the first of them came, by the clock of the history.
    pub(super) first: Time,
    /// What was done with each of them.
    pub(super) was: Vec<Was>,
    /// Queries that are left out, as there would be too many.
    pub(super) left_out: u64,
}

/// What became of the queries when they were recorded.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct AsRecorded {
    /// The share of those with an SLO that missed it; None if none has one.
    pub(super) violation_rate: Option<f64>,
    /// Quantiles of the latencies of those that finished: 50, 90, 95 and 99 %. None if none did.
    pub(super) latency_s: Option<[f64; 4]>,
}

/// A row that is part of the trace.
struct Kept {
    id: Option<QueryId>,
    cluster: Option<Arc<str>>,
    arrival: Time,
    ended: Time,
    status: Option<Status>,
    class: Option<Arc<str>>,
    slo: Option<Span>,
    /// Its class by the configuration.
    found: Option<ClassId>,
    claim: Claim,
}

/// Where and when queries of a history ran, as many of them as would be read.
pub(super) fn placements(history: &Path, only: &[Pattern]) -> Result<Vec<Ran>, Stop> {
    let mut ran = Vec::new();
    let wanted = |row: &Row| is_wanted(only, row) && row.status != Some(Status::Refused);
    for row in history::read(history).map_err(Stop::failed)?.flatten().filter(wanted).take(MOST) {
        let is_control = row.class.as_deref() == Some("control");
        let unplaced = row.class.is_some() && row.cluster.is_none() && row.started.is_none();
        if !is_control && !unplaced {
            let ended = row.done();
            ran.push(Ran {
                cluster: row.cluster.unwrap_or_else(|| UNNAMED.into()),
                units: row.cluster_size.unwrap_or(Units(1)),
                started: row.started.unwrap_or(row.arrival),
                ended,
            });
        }
    }
    Ok(ran)
}

fn is_wanted(only: &[Pattern], row: &Row) -> bool {
    let name = row.cluster.as_deref().unwrap_or_default();
    only.is_empty() || only.iter().any(|pattern| pattern.matches(name))
}

/// Reads a history.
pub(super) fn read(wanted: &Wanted<'_>, classes: Vec<Class>) -> Result<Trace, Stop> {
    let (mut seen, mut kept, mut unreadable, mut left_out) = (Seen::default(), Vec::new(), 0u64, 0u64);
    let mut sizeless = 0u64;
    let mut claims = Claims::new(wanted.configured.then_some(&classes), wanted.tables);
    for row in history::read(wanted.history).map_err(Stop::failed)? {
        let row = match row {
            Ok(row) => row,
            Err(cause) => {
                unreadable += 1;
                if unreadable <= 3 {
                    print::aside(format_args!("punctual: {cause}"));
                }
                continue;
            }
        };
        if !is_wanted(wanted.only, &row) {
            continue;
        }
        if kept.len() == MOST {
            left_out += 1;
            continue;
        }
        // Those that were refused came, too, but never ran: they tell nothing of what they take.
        let before = seen.len();
        seen.push(&row);
        if seen.len() > before {
            sizeless += u64::from(row.cluster_size.is_none());
            let (found, claim) = claims.of(&row);
            let ended = row.done();
            let Row { query_id: id, cluster, arrival, status, class, slo, .. } = row;
            kept.push(Kept { id, cluster, arrival, ended, status, class, slo, found, claim });
        }
    }
    if unreadable > 3 {
        print::aside(format_args!("punctual: {} more rows could not be read", unreadable - 3));
    }
    if sizeless > 0 {
        print::aside(format_args!(
            "punctual: {sizeless} queries do not say how large their cluster was: it counts as size 1, and twice the size \
             is half the time; --clusters 1,1 are as large as it was"
        ));
    }
    if claims.unknown() > 0 {
        print::aside(format_args!(
            "punctual: of {} the history does not say how much of time was read: no threshold of that trips for them",
            print::counted(claims.unknown(), "query", "queries")
        ));
    }
    let observations = seen.split(&Split::None, Fold { number: 0, seed: 0 }).map_err(Stop::failed)?;
    let trace = traced(wanted, classes, kept, &observations, left_out);
    match trace.queries.is_empty() {
        true => {
            let only: Vec<String> = wanted.only.iter().map(Pattern::to_string).collect();
            let on =
                if only.is_empty() { String::new() } else { format!(" on a cluster called {}", only.join(" or ")) };
            let history = wanted.history.display();
            Err(Stop::failed(format_args!(
                "{history} holds no query that ran{on}, so there is nothing to be sent again"
            )))
        }
        false => Ok(trace),
    }
}

fn traced(wanted: &Wanted<'_>, classes: Vec<Class>, kept: Vec<Kept>, seen: &[Observation], left_out: u64) -> Trace {
    let alone = Alone::of(wanted, seen);
    let mut rows: Vec<(Kept, &Observation)> = kept.into_iter().zip(seen).collect();
    rows.sort_by_key(|(row, _)| row.arrival);
    let first = rows.first().map_or(Time::ZERO, |(row, _)| row.arrival);
    rows.retain(|(row, _)| wanted.length.is_none_or(|length| row.arrival.since(first) < length));
    rows.truncate(wanted.most);
    let mut trace = Trace {
        queries: Vec::new(),
        classes,
        as_recorded: AsRecorded { violation_rate: None, latency_s: None },
        first,
        was: Vec::new(),
        left_out,
    };
    let (mut late, mut counted, mut latencies) = (0u64, 0u64, Vec::new());
    for (row, seen) in &rows {
        let class = row.found.unwrap_or_else(|| class_of(&mut trace.classes, row.class.as_deref()));
        let (recorded, noise) = alone.of_query(seen, wanted.sizes);
        let own = || row.slo.or(trace.classes.get(class.0 as usize).and_then(|class| class.slo));
        let slo = match wanted.target {
            None => own(),
            Some(Target::Within(span)) => Some(span),
            Some(Target::Factor(factor)) => {
                recorded.alone_on(seen.size).map(|alone| Span::from_secs_f64(alone.secs_f64() * factor))
            }
        };
        let (status, latency) = (row.status.unwrap_or(Status::Finished), row.ended.since(row.arrival));
        let missed = violated(status, latency, slo);
        if let Some(missed) = missed {
            (late, counted) = (late + u64::from(missed), counted + 1);
        }
        if status == Status::Finished {
            latencies.push(latency.secs_f64());
        }
        let since_first = |at: Time| Time::ZERO + at.since(first);
        trace.was.push(Was {
            id: row.id,
            cluster: row.cluster.clone().unwrap_or_else(|| UNNAMED.into()),
            units: seen.size,
            started: since_first(seen.arrival),
            ended: since_first(row.ended),
            late: missed,
        });
        let at = since_first(row.arrival);
        let (claim, fingerprint) = (row.claim, seen.shape);
        trace.queries.push(Remembered { at, class, slo, claim, fingerprint, recorded, noise });
    }
    latencies.sort_by(f64::total_cmp);
    let latency_s = math::nearest_ranks(&latencies, [0.5, 0.9, 0.95, 0.99]);
    let violation_rate = (counted > 0).then(|| late as f64 / counted as f64);
    trace.as_recorded = AsRecorded { violation_rate, latency_s };
    trace
}

/// The class of that name, made if there is room for it.
fn class_of(classes: &mut Vec<Class>, name: Option<&str>) -> ClassId {
    let Some(name) = name else { return DEFAULT };
    match class::find(classes, name) {
        Some(id) => id,
        None if classes.len() >= CLASSES => DEFAULT,
        None => {
            classes.push(Class { name: name.to_owned(), ..Class::default() });
            ClassId(classes.len() as u32 - 1)
        }
    }
}

/// What queries take alone.
enum Alone<'a> {
    Model(&'a Model),
    History(BTreeMap<Fingerprint, Vec<(Units, Span)>>),
}

impl<'a> Alone<'a> {
    fn of(wanted: &Wanted<'a>, seen: &[Observation]) -> Alone<'a> {
        if let Some(model) = wanted.model {
            return Alone::Model(model);
        }
        // By shape and size: what ran beside nothing, and all.
        let mut runs: HashMap<(Fingerprint, Units), [Vec<f64>; 2]> = HashMap::new();
        for (seen, alone) in seen.iter().zip(isolated(seen)).filter(|(seen, _)| seen.finished) {
            let of = runs.entry((seen.shape, seen.size)).or_default();
            let took = seen.ended.since(seen.arrival).secs_f64();
            of[1].push(took);
            if alone {
                of[0].push(took);
            }
        }
        let mut known: BTreeMap<Fingerprint, Vec<(Units, Span)>> = BTreeMap::new();
        for ((shape, size), mut of) in runs {
            of.iter_mut().for_each(|of| of.sort_by(f64::total_cmp));
            let took = math::nearest_ranks(&of[0], [0.5]).or_else(|| math::nearest_ranks(&of[1], [0.2]));
            known.entry(shape).or_default().extend(took.map(|[took]| (size, Span::from_secs_f64(took))));
        }
        known.values_mut().for_each(|sizes| sizes.sort_unstable());
        Alone::History(known)
    }

    /// What is known of a query, and how far executions of it vary.
    fn of_query(&self, seen: &Observation, sizes: &[Units]) -> (Recorded, f64) {
        let traits = Traits { text: seen.text, features: seen.features };
        match self {
            Alone::Model(model) => {
                let on = |size: Units| model.stage().alone(&seen.features, seen.shape, seen.text, size);
                let all = sizes.iter().copied().chain([seen.size]);
                let alone = all.map(|size| (size, Span::from_secs_f64(math::exp(on(size).ln)))).collect();
                (Recorded { traits, alone }, on(seen.size).spread.clamp(0.0, MOST_NOISE))
            }
            Alone::History(known) => {
                let ran = || vec![(seen.size, seen.ended.since(seen.arrival))];
                let alone = known.get(&seen.shape).cloned().unwrap_or_else(ran);
                (Recorded { traits, alone }, Table::shipped().parameters.noise)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted<'a>(history: &'a Path, target: Option<Target>) -> Wanted<'a> {
        let (only, length, model, sizes, tables) = (&[][..], None, None, &[Units(8)][..], &[][..]);
        Wanted { history, only, length, most: MOST, target, model, sizes, configured: false, tables }
    }

    /// Queries of one shape on size 8, from and to in seconds.
    fn trace(runs: &[(u64, u64)], target: Option<Target>) -> Trace {
        let (mut seen, mut kept) = (Seen::default(), Vec::new());
        for (from, to) in runs {
            let at = |seconds: &u64| Time::from_micros(seconds * 1_000_000);
            let mut row = Row::new(at(from), at(to), Fingerprint(7));
            row.cluster_size = Some(Units(8));
            row.slo = Some(Span::from_secs(5));
            row.class = Some("bi".into());
            row.cluster = Some("a".into());
            seen.push(&row);
            let ended = row.done();
            let Row { query_id: id, cluster, arrival, status, class, slo, .. } = row;
            let (found, claim) = (None, Claim::default());
            kept.push(Kept { id, cluster, arrival, ended, status, class, slo, found, claim });
        }
        let observations = seen.split(&Split::None, Fold { number: 0, seed: 0 }).unwrap();
        traced(&wanted(Path::new("h"), target), Class::built_in(), kept, &observations, 0)
    }

    #[test]
    fn what_a_query_takes_alone_is_read_off_where_it_was_alone() {
        let trace = trace(&[(100, 104), (200, 230), (201, 240), (300, 306), (400, 405)], None);
        assert!(trace.queries.iter().all(|query| query.recorded.alone_on(Units(8)) == Some(Span::from_secs(5))));
        assert!(trace.queries.iter().all(|query| query.recorded.alone_on(Units(16)) == Some(Span::from_millis(2_500))));
        let at: Vec<u64> = trace.queries.iter().map(|query| query.at.micros() / 1_000_000).collect();
        assert_eq!(at, [0, 100, 101, 200, 300]);
        assert_eq!(trace.classes.last().map(|class| class.name.as_str()), Some("bi"));
        assert_eq!(trace.as_recorded.violation_rate, Some(0.6));
        assert_eq!(trace.as_recorded.latency_s.map(|all| all[0]), Some(6.0));
    }

    #[test]
    fn if_it_never_was_alone_its_quickest_runs_say() {
        let trace = trace(&[(100, 110), (101, 121), (102, 132), (103, 143), (104, 154)], Some(Target::Factor(2.0)));
        let alone = trace.queries[0].recorded.alone_on(Units(8));
        assert_eq!((alone, trace.queries[0].slo), (Some(Span::from_secs(10)), Some(Span::from_secs(20))));
        assert_eq!(trace.as_recorded.violation_rate, Some(0.6));
    }

    #[test]
    fn an_empty_history_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let said = read(&wanted(dir.path(), None), Class::built_in()).err().map(|stop| format!("{stop:?}"));
        assert!(said.is_some_and(|said| said.contains("no history") || said.contains("holds no")), "a reason");
    }
}
