//! What becomes of one query: its class, how much of time it reads, and so its priority and its lane.

use std::sync::Arc;

use punctual_core::admit::claim::Scan;
use punctual_core::admit::terms::{Terms, Threshold};
use punctual_core::class::{CONTROL, Classes, Origin};
use punctual_core::scan::{Evidence, Scans, TableRead, TimeTable, TimeTables, instant_text};
use punctual_core::statement::Statement;
use punctual_core::time::{Span, Time};
use serde::Serialize;

use super::admission::so_many;
use crate::door::local::{self, Wished};
use crate::door::{reason, treated};
use crate::settings::Settings;

/// A query that is asked about.
#[derive(Clone, Debug)]
pub(super) struct Question<'a> {
    /// Its text.
    pub(super) sql: &'a str,
    /// The values of its parameters, as far as they are known.
    pub(super) parameters: &'a [String],
    /// From where it comes.
    pub(super) origin: Origin<'a>,
    /// What its session has chosen.
    pub(super) wished: Wished,
    /// When it comes.
    pub(super) now: Time,
}

/// What becomes of it.
#[derive(Debug, Serialize)]
pub struct QueryMeaning {
    /// Its class.
    pub class: String,
    /// Why it is in that class.
    pub because: String,
    /// When it is late, in seconds; None: never.
    pub slo_s: Option<f64>,
    /// How much of time it reads; None where it reads no table with a column of time.
    pub scan: Option<ScanMeaning>,
    /// The priority that it asks for.
    pub priority_asked: Option<i32>,
    /// Its priority before thresholds: what it asks for within what its class allows.
    pub priority_before: i32,
    /// The keys of the thresholds that trip.
    pub thresholds_tripped: Vec<&'static str>,
    /// The keys of those that go by what a model expects of it when it comes.
    pub thresholds_predicted: Vec<&'static str>,
    /// What is subtracted, once, if any threshold trips.
    pub adjustment: i32,
    /// Its priority, but for thresholds that go by what a model expects.
    pub priority: i32,
    /// Its lane with that priority, if it is in one that has a limit.
    pub lane: Option<String>,
    /// The number of its shape.
    pub fingerprint: String,
    /// Its shape.
    pub shape: String,
    /// What its first statement does.
    pub statement: &'static str,
    /// The tables that it reads.
    pub tables: Vec<String>,
    /// What it asks for in vain.
    pub warnings: Vec<String>,
}

/// How much of time a query reads. What is unbounded is None, and named.
#[derive(Debug, Default, Serialize)]
pub struct ScanMeaning {
    /// How far before now the earliest instant lies, in seconds.
    pub reach_s: Option<f64>,
    /// How much time it covers, in seconds.
    pub duration_s: Option<f64>,
    /// How many partitions it reads; None as well where tables do not say how long theirs are.
    pub segments: Option<u32>,
    /// How much time these hold, in seconds.
    pub segment_range_s: Option<f64>,
    /// Which of these are unbounded: `reach`, `duration`, `segments`, `segment_range`.
    pub unbounded: Vec<&'static str>,
    /// Why, a sentence each.
    pub because: Vec<String>,
    /// What is read of each table.
    pub reads: Vec<ReadMeaning>,
    /// All of it in a sentence.
    #[serde(skip)]
    pub sentence: String,
}

/// What is read of a table.
#[derive(Debug, Serialize)]
pub struct ReadMeaning {
    /// The table as configured; None: one of several.
    pub table: Option<String>,
    /// Its column of time.
    pub column: Option<String>,
    /// From when, and before when, in UTC; None: without bound.
    pub ranges: Vec<(Option<String>, Option<String>)>,
}

impl QueryMeaning {
    /// What becomes of a query.
    pub(super) fn of(question: &Question<'_>, settings: &Settings) -> QueryMeaning {
        let (policy, wished) = (&settings.policy, &question.wished);
        let (statement, classes) = (Statement::read(question.sql), Classes::new(policy.classes.clone()));
        let (id, because, slo) = treated(&classes, wished, question.origin, &statement);
        let class = &classes.list()[id.0 as usize];
        let evidence = if id == CONTROL { None } else { evidence(question, &statement, &settings.time_tables) };
        let scan = evidence.as_ref().map(|evidence| evidence.scan);
        let asked = statement.tag.priority.or(wished.priority);
        let priority = class.terms.priority(asked, scan, None);
        let lane = policy.lanes.lane_of(&class.terms, priority);
        QueryMeaning {
            class: class.name.clone(),
            because: reason(because, class),
            slo_s: slo.filter(|_| id != CONTROL).map(Span::secs_f64),
            scan: evidence.map(|evidence| scan_meaning(&evidence, &settings.time_tables)),
            priority_asked: asked,
            priority_before: class.terms.priority(asked, None, None),
            thresholds_tripped: class.terms.thresholds.tripped(scan, None).map(Threshold::key).collect(),
            thresholds_predicted: predicted(&class.terms),
            adjustment: class.terms.adjustment,
            priority,
            lane: policy.lanes.get(lane).map(|lane| lane.name.clone()),
            warnings: in_vain(&statement, wished, &classes, question.origin.user),
            fingerprint: statement.fingerprint.to_string(),
            statement: statement.kind.name(),
            shape: statement.shape,
            tables: statement.tables,
        }
    }
}

/// What a query asks for and does not get.
fn in_vain(statement: &Statement, wished: &Wished, classes: &Classes, user: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let asks = [("the query's comment", &statement.tag.class), ("its session", &wished.class)];
    for (who, wanted) in asks.iter().filter_map(|(who, wanted)| Some((who, wanted.as_deref()?))) {
        if classes.find(wanted).is_none() {
            warnings.push(format!("{who} asks for class \"{wanted}\", which does not exist"));
        } else if let Err(problem) = local::permit_class(Some(wanted), classes, user) {
            let why = problem.detail.unwrap_or_default();
            warnings.push(format!("{who} asks for class \"{wanted}\" in vain: {why}"));
        }
    }
    if let Some(unreadable) = &statement.tag.unreadable {
        warnings.push(format!("the query's comment says `{unreadable}`, which cannot be read"));
    }
    warnings
}

fn evidence(question: &Question<'_>, statement: &Statement, tables: &[TimeTable]) -> Option<Evidence> {
    let parameters: Vec<Option<&str>> = question.parameters.iter().map(|value| Some(value.as_str())).collect();
    let mut scans = Scans::new(Arc::new(TimeTables::new(tables.to_vec())), 1);
    scans.explain(question.sql, statement, &parameters, question.now)
}

fn predicted(terms: &Terms) -> Vec<&'static str> {
    let limits = &terms.thresholds;
    let work = limits.work.map(|_| Threshold::Work.key());
    work.into_iter().chain(limits.latency.map(|_| Threshold::Latency.key())).collect()
}

fn scan_meaning(evidence: &Evidence, tables: &[TimeTable]) -> ScanMeaning {
    let Scan { reach, duration, segments, segment_range } = evidence.scan.bounded();
    ScanMeaning {
        reach_s: reach.map(Span::secs_f64),
        duration_s: duration.map(Span::secs_f64),
        segments,
        segment_range_s: segment_range.map(Span::secs_f64),
        because: because(evidence, tables),
        unbounded: evidence.scan.unbounded().collect(),
        reads: evidence.reads.iter().map(|read| read_meaning(read, tables)).collect(),
        sentence: sentence(evidence.scan),
    }
}

/// `It reaches back 6.4 days and covers 6.4 days, in 7 partitions of 7 days together.`
fn sentence(scan: Scan) -> String {
    let reach = scan.reach.map_or("without bound".to_owned(), long);
    let duration = scan.duration.map_or("time without bound".to_owned(), long);
    let parts = match (scan.segments, scan.segment_range) {
        (None, _) => String::new(),
        (Some(u32::MAX), _) => ", in partitions without bound".to_owned(),
        (Some(1), Some(range)) => format!(", in one partition of {}", long(range)),
        (Some(count), Some(Span::MAX) | None) => format!(", in {}", so_many(count, "partition", "partitions")),
        (Some(count), Some(range)) => format!(", in {count} partitions of {} together", long(range)),
    };
    format!("It reaches back {reach} and covers {duration}{parts}.")
}

/// A span of time, to a tenth of a day or an hour where it is long.
fn long(span: Span) -> String {
    const HOUR: f64 = 3_600.0;
    let of = |unit: f64, name: &str| {
        let text = format!("{:.1}", span.secs_f64() / unit);
        format!("{} {name}", text.trim_end_matches(".0"))
    };
    match span.secs_f64() {
        secs if secs >= 48.0 * HOUR => of(24.0 * HOUR, "days"),
        secs if secs >= 2.0 * HOUR => of(HOUR, "hours"),
        _ => span.to_string(),
    }
}

/// Why something of it is unbounded; nothing if nothing is.
fn because(evidence: &Evidence, tables: &[TimeTable]) -> Vec<String> {
    if !evidence.understood {
        return vec!["its text is not understood well enough to say what it reads".to_owned()];
    }
    let mut said = Vec::new();
    for read in &evidence.reads {
        let Some(table) = read.table.and_then(|at| tables.get(at)) else {
            said.push("a name in it may be of several tables with a column of time".to_owned());
            continue;
        };
        let column = format!("{}.{}", table.name, table.column);
        let without = |key: &str, end: &str| {
            format!("no predicate that is understood bounds {column} {end}, and the table does not say `{key}`")
        };
        said.extend(read.has_no_beginning().then(|| without("from", "from below")));
        said.extend(read.has_no_end().then(|| without("to", "from above")));
    }
    if let (false, [_, ..]) = (said.is_empty(), evidence.unknown.as_slice()) {
        let names: Vec<String> = evidence.unknown.iter().map(|number| format!("${number}")).collect();
        said.push(format!("not known: the value of {}", names.join(", ")));
    }
    said
}

fn read_meaning(read: &TableRead, tables: &[TimeTable]) -> ReadMeaning {
    let table = read.table.and_then(|at| tables.get(at));
    let shown = |at: &Option<i64>| at.and_then(instant_text).map(|text| text.trim_end_matches(".000000").to_owned());
    ReadMeaning {
        table: table.map(|table| table.name.clone()),
        column: table.map(|table| table.column.clone()),
        ranges: read.pieces.iter().map(|(from, to)| (shown(from), shown(to))).collect(),
    }
}
