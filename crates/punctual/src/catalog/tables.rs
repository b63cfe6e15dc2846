//! The tables of the schema `punctual`, and what of a snapshot is in them.
//!
//! One table of columns for everything that shows a snapshot in rows: SQL over the Postgres wire, JSON over HTTP, and
//! `docs/schema.md`. So a column means the same wherever it is read.

use std::fmt::Write;

use punctual_core::id::{ClassId, ClusterId, QueryId, Units};
use punctual_core::predict::record::Lately;
use punctual_core::query::{Predicted, Status};
use punctual_core::route::{Candidate, Regret, Weighed};
use punctual_core::scale::{Prospect, Scaled};
use punctual_core::time::{Span, Time};
use punctual_core::view::{LaneView, ModelView, QueryView, View};

use super::controllers::CONTROLLERS;
use super::plan::PLAN;
use super::stamp::timestamp;
use crate::link::{About, Snapshot};

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// A whole number of 64 bits.
    Int8,
    /// A floating-point number of 64 bits.
    Float8,
    /// A text.
    Text,
    /// `t` or `f`.
    Bool,
    /// An instant: `2026-01-02 03:04:05.123456+00`.
    Timestamptz,
}

/// A table of the schema.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// What a row is.
    pub(crate) what: &'static str,
    pub(crate) columns: &'static [Column],
    /// Its rows, for a reader.
    pub(crate) rows: fn(&Snapshot, Reader<'_>) -> Vec<Vec<Cell>>,
}

/// A column of a table.
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: ColumnKind,
    /// What it holds.
    pub(crate) what: &'static str,
}

/// Who reads: nobody sees the literals of others.
#[derive(Clone, Copy)]
pub(crate) enum Reader<'a> {
    /// This user: its own texts.
    User(&'a str),
    /// Every text.
    Admin,
    /// Someone who did not say who: no text.
    Nobody,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Null,
    Int(i64),
    /// A number that names something, and may be larger than JavaScript counts exactly.
    Id(u64),
    Float(f64),
    Text(String),
    /// A text that is JSON.
    Json(String),
    Bool(bool),
    At(Time),
}

/// Queries that are shown: those that have been here longest. Texts are cut; see [`MAX_TEXT`].
pub(crate) const MAX_QUERIES: usize = 10_000;

/// Bytes of a text or a shape that are shown.
pub(crate) const MAX_TEXT: usize = 2_048;

pub(super) const fn column(name: &'static str, kind: ColumnKind, what: &'static str) -> Column {
    Column { name, kind, what }
}

use ColumnKind::{Bool, Float8, Int8, Text, Timestamptz};

/// The tables of the schema.
pub(crate) static TABLES: [&Table; 9] =
    [&QUERIES, &CLUSTERS, &CLASSES, &LANES, &DECISIONS, &SCALING, &PLAN, &CONTROLLERS, &MODEL];

/// `punctual.queries`.
pub(crate) static QUERIES: Table = Table {
    name: "queries",
    what: "A query that has not ended: it waits or runs. At most 10,000, those that have been here longest.",
    columns: &[
        column("query_id", Int8, "Its identity."),
        column("session_id", Int8, "The connection that sent it."),
        column("status", Text, "`waiting`, `running`, or `cancelling` if it was told to stop."),
        column("class", Text, "How it is treated."),
        column("kind", Text, "What its first statement does: `select`, `write`, …"),
        column("user", Text, "The user that sent it."),
        column("database", Text, "The database that the user connected to."),
        column("application", Text, "The application name, possibly empty."),
        column("arrival", Timestamptz, "When it reached the gateway."),
        column("started", Timestamptz, "When it was given to its cluster; null while it waits."),
        column("waited_s", Float8, "Seconds that it waited, or has waited so far."),
        column("running_s", Float8, "Seconds since it was given to its cluster; null while it waits."),
        column("slo_s", Float8, "The seconds after which it is late; null: never."),
        column("late", Bool, "True if it is late already; null if it never is."),
        column("cluster", Text, "The name of its cluster; null while it waits."),
        column("cluster_id", Int8, "The identity of its cluster; null while it waits."),
        column(
            "predicted_p50_s",
            Float8,
            "Seconds that it was expected to run, in the median; null if nothing was predicted.",
        ),
        column("predicted_p90_s", Float8, "The 90 % quantile of that."),
        column("priority", Int8, "By which it has its lane and its weight."),
        column("lane", Text, "The lane that it waits or counts in."),
        column(
            "waits_for",
            Text,
            "Why it waits: `class`, `lane`, `gateway` (as many run as may), `cluster` (none has room), or `turn`.",
        ),
        column(
            "ahead",
            Int8,
            "How many of its lane come before it: at most so many, where turns are fair; null once it runs.",
        ),
        column(
            "expected_wait_s",
            Float8,
            "Seconds until its turn, at the pace of the last minutes; null if nothing of its lane has ended lately.",
        ),
        column("fingerprint", Text, "The number of its shape."),
        column("shape", Text, "Its text without literals, at most 2,048 bytes."),
        column("sql", Text, "Its text, at most 2,048 bytes; null if another user sent it."),
    ],
    rows: queries,
};

/// `punctual.clusters`.
pub(crate) static CLUSTERS: Table = Table {
    name: "clusters",
    what: "A cluster that is there, or one of the last 64 that are gone.",
    columns: &[
        column("cluster_id", Int8, "Its identity."),
        column("cluster", Text, "Its name in the configuration."),
        column("phase", Text, "`starting`, `ready`, `draining`, `stopping`, `gone` or `failed`."),
        column("since", Timestamptz, "Since when it is in that phase."),
        column("generation", Int8, "How many times it has been started."),
        column("size", Int8, "Its size in units."),
        column("slots", Int8, "Queries that may run there at once."),
        column(
            "role",
            Text,
            "`writer`: what may change something runs there. `any`: anything, or what reads if there is a writer.",
        ),
        column("running", Int8, "Queries that run there, those of class `control` included."),
        column("pins", Int8, "Sessions that hold it without running anything."),
        column("stuck", Int8, "Cancelled queries that did not stop."),
        column("placed", Int8, "Queries ever given to it."),
        column("awake", Bool, "True while its billing timer runs."),
        column("active_s", Float8, "Seconds billed."),
        column("cost_usd", Float8, "What they cost, in dollars."),
        column("failed_by", Text, "Why it failed last, if it did since it was last ready."),
    ],
    rows: clusters,
};

/// `punctual.classes`.
pub(crate) static CLASSES: Table = Table {
    name: "classes",
    what: "A class of queries, with what became of them since the gateway started.",
    columns: &[
        column("class", Text, "Its name."),
        column("slo_s", Float8, "The seconds after which its queries are late; null: never."),
        column("waiting", Int8, "Its queries that wait."),
        column("running", Int8, "Its queries that run."),
        column("finished", Int8, "Its queries whose result was sent whole."),
        column("failed", Int8, "Its queries that the cluster answered with an error."),
        column("cancelled", Int8, "Its queries that were taken back."),
        column("refused", Int8, "Its queries that were never run."),
        column("lost", Int8, "Its queries whose cluster went away."),
        column("counted", Int8, "Its ended queries that had an SLO and were not cancelled."),
        column("violated", Int8, "Those of them that missed it."),
        column("violation_rate", Float8, "The share of them that missed it; null if there are none."),
    ],
    rows: classes,
};

/// `punctual.lanes`.
pub(crate) static LANES: Table = Table {
    name: "lanes",
    what: "A lane, with how full it is. `default` is the lane of queries without another.",
    columns: &[
        column("lane", Text, "Its name."),
        column("max_running", Int8, "How many of its queries may run at once; null: no limit of its own."),
        column("guarantee", Int8, "Up to how many running ones its queries go first."),
        column("running", Int8, "How many run, sessions that hold a cluster included."),
        column("waiting", Int8, "How many wait."),
        column("max_queued", Int8, "How many may wait; null: no limit of its own."),
        column(
            "expected_wait_s",
            Float8,
            "Seconds that one that comes now would wait, at the pace of the last minutes; null if nothing has ended lately.",
        ),
    ],
    rows: lanes,
};

/// `punctual.scaling`.
pub(crate) static SCALING: Table = Table {
    name: "scaling",
    what: "A decision about how many clusters there are, the last 256.",
    columns: &[
        column("at", Timestamptz, "When it was made."),
        column("mode", Text, "`on`: it was done. `shadow` or `suggest`: it was not."),
        column("decision", Text, "What was decided."),
        column("reason", Text, "Why."),
        column(
            "prospects",
            Text,
            "What a simulation said of each size that could be started, and of doing nothing (size null), as JSON: the share of \
             queries that would miss their SLO, and dollars.",
        ),
    ],
    rows: scaling,
};

/// `punctual.model`.
pub(crate) static MODEL: Table = Table {
    name: "model",
    what: "The model that predicts, if one does, and how it did on the last queries that it predicted and that finished, 512 \
           at most.",
    columns: &[
        column("model", Text, "The hash of its file."),
        column("corrected", Int8, "Fingerprints on sizes whose predictions are corrected by what has ended."),
        column("queries", Int8, "Queries that the other columns stand on."),
        column("q_error_p50", Float8, "The median of how far off the predicted medians were, as a factor."),
        column("q_error_p90", Float8, "The 90 % quantile of that."),
        column("coverage_p90", Float8, "The share that ended below the predicted 90 % quantile: about 0.9."),
        column("bias", Float8, "Latency by predicted median, in the median: about 1."),
        column(
            "drifted",
            Bool,
            "True if, over 64 queries at least, `coverage_p90` is below 0.8, or `bias` beyond a factor of 1.5.",
        ),
    ],
    rows: model,
};

/// `punctual.decisions`.
pub(crate) static DECISIONS: Table = Table {
    name: "decisions",
    what: "A recent decision to run a query somewhere (`policy.decisions_kept` of them), with its evidence.",
    columns: &[
        column("at", Timestamptz, "When it was made."),
        column("query_id", Int8, "For which query."),
        column("class", Text, "Of which class."),
        column("cluster", Text, "The name of the cluster that it was given to."),
        column("cluster_id", Int8, "The identity of that cluster."),
        column("why", Text, "Why there."),
        column("waited_s", Float8, "Seconds that it had waited."),
        column(
            "predicted_p50_s",
            Float8,
            "Seconds that it was expected to run there, in the median; null if nothing was predicted.",
        ),
        column("predicted_p90_s", Float8, "The 90 % quantile of that."),
        column("isolated_s", Float8, "Seconds that it was expected to run there alone, in the median."),
        column(
            "candidates",
            Text,
            "The clusters that had room, as JSON: `cluster_id`, `size`, `outstanding`, `slots`, `awake`; empty if the session held its cluster.",
        ),
        column("instead", Text, "Where the routing policy would have sent it that watches; null if none does."),
        column("instead_id", Int8, "The identity of that cluster."),
        column("instead_why", Text, "Why there."),
        column(
            "regret_violations",
            Float8,
            "Queries more that are expected to miss their SLO by what was done than by that; null if it would have been the \
             same, or is not known.",
        ),
        column("regret_usd", Float8, "Dollars more, in the same way; negative: less."),
    ],
    rows: decisions,
};

fn queries(snapshot: &Snapshot, reader: Reader<'_>) -> Vec<Vec<Cell>> {
    let view = &snapshot.view;
    let mut about: Vec<(QueryId, &About)> = snapshot.about.iter().map(|(id, about)| (*id, about)).collect();
    about.sort_unstable_by_key(|(id, _)| *id);
    let find = |id: QueryId| about.binary_search_by_key(&id, |(id, _)| *id).ok().map(|at| about[at].1);
    view.queries.iter().take(MAX_QUERIES).map(|query| query_row(view, query, find(query.id), reader)).collect()
}

fn query_row(view: &View, query: &QueryView, about: Option<&About>, reader: Reader<'_>) -> Vec<Cell> {
    let may_read = |about: &&About| match reader {
        Reader::User(user) => *about.user == *user,
        Reader::Admin => true,
        Reader::Nobody => false,
    };
    let of = |part: fn(&About) -> &str| about.map_or(Cell::Null, |about| Cell::Text(part(about).to_owned()));
    let status = match query.placed {
        _ if query.cancelled => "cancelling",
        Some(_) => "running",
        None => "waiting",
    };
    let (cluster, started) = (query.placed.map(|(cluster, _)| cluster), query.placed.map(|(_, at)| at));
    let age = view.now.since(query.arrived);
    vec![
        Cell::Id(query.id.0),
        Cell::Id(query.session.0),
        Cell::Text(status.to_owned()),
        class_name(view, query.query.class),
        Cell::Text(query.query.kind.name().to_owned()),
        of(|about| &about.user),
        of(|about| &about.database),
        of(|about| &about.application),
        Cell::At(query.arrived),
        started.map_or(Cell::Null, Cell::At),
        seconds(started.unwrap_or(view.now).since(query.arrived)),
        started.map_or(Cell::Null, |started| seconds(view.now.since(started))),
        query.query.slo.map_or(Cell::Null, seconds),
        query.query.slo.map_or(Cell::Null, |slo| Cell::Bool(age > slo)),
        cluster.map_or(Cell::Null, |cluster| cluster_name(view, cluster)),
        cluster.map_or(Cell::Null, |cluster| Cell::Int(cluster.0.into())),
        expected(query.predicted, |predicted| predicted.p50),
        expected(query.predicted, |predicted| predicted.p90),
        Cell::Int(query.priority.into()),
        view.lanes.get(query.lane.0 as usize).map_or(Cell::Null, |lane| Cell::Text(lane.name.clone())),
        query.queued.map_or(Cell::Null, |queued| Cell::Text(queued.because.name().to_owned())),
        query.queued.map_or(Cell::Null, |queued| Cell::Int(queued.ahead.into())),
        query.queued.and_then(|queued| queued.expected).map_or(Cell::Null, seconds),
        Cell::Text(query.query.fingerprint.to_string()),
        about.map_or(Cell::Null, |about| cut(&about.shape)),
        about.filter(may_read).map_or(Cell::Null, |about| cut(&about.text)),
    ]
}

fn clusters(snapshot: &Snapshot, _: Reader<'_>) -> Vec<Vec<Cell>> {
    let row = |cluster: &punctual_core::view::ClusterView| {
        vec![
            Cell::Int(cluster.id.0.into()),
            Cell::Text(cluster.name.clone()),
            Cell::Text(cluster.phase.name().to_owned()),
            Cell::At(cluster.since),
            Cell::Int(cluster.generation.into()),
            Cell::Int(cluster.units.0.into()),
            Cell::Int(cluster.slots.into()),
            Cell::Text(if cluster.writer { "writer" } else { "any" }.to_owned()),
            Cell::Int(cluster.running.into()),
            Cell::Int(cluster.pins.into()),
            Cell::Int(cluster.stuck.into()),
            count(cluster.placed),
            Cell::Bool(cluster.awake),
            seconds(cluster.active),
            Cell::Float(cluster.cost),
            cluster.failed_by.map_or(Cell::Null, |cause| Cell::Text(cause.to_string())),
        ]
    };
    snapshot.view.clusters.iter().map(row).collect()
}

fn classes(snapshot: &Snapshot, _: Reader<'_>) -> Vec<Vec<Cell>> {
    let row = |class: &punctual_core::view::ClassView| {
        let mut row = vec![
            Cell::Text(class.name.clone()),
            class.slo.map_or(Cell::Null, seconds),
            Cell::Int(class.waiting.into()),
            Cell::Int(class.running.into()),
        ];
        row.extend(Status::ALL.map(|status| count(class.tally.ended(status))));
        row.extend([count(class.tally.counted), count(class.tally.violated)]);
        row.push(class.tally.violation_rate().map_or(Cell::Null, Cell::Float));
        row
    };
    snapshot.view.classes.iter().map(row).collect()
}

fn lanes(snapshot: &Snapshot, _: Reader<'_>) -> Vec<Vec<Cell>> {
    let row = |lane: &LaneView| {
        vec![
            Cell::Text(lane.name.clone()),
            lane.limit.map_or(Cell::Null, |limit| Cell::Int(limit.into())),
            Cell::Int(lane.guarantee.into()),
            Cell::Int(lane.running.into()),
            Cell::Int(lane.waiting.into()),
            lane.max_queued.map_or(Cell::Null, |most| Cell::Int(most.into())),
            lane.expected_wait.map_or(Cell::Null, seconds),
        ]
    };
    snapshot.view.lanes.iter().map(row).collect()
}

fn decisions(snapshot: &Snapshot, _: Reader<'_>) -> Vec<Vec<Cell>> {
    let view = &snapshot.view;
    let row = |decision: &punctual_core::dispatcher::Decision| {
        let instead = decision.instead;
        let regret = |of: fn(Regret) -> f64| {
            instead.and_then(|other| other.regret).map_or(Cell::Null, |regret| Cell::Float(of(regret)))
        };
        vec![
            Cell::At(decision.at),
            Cell::Id(decision.query.0),
            class_name(view, decision.class),
            cluster_name(view, decision.cluster),
            Cell::Int(decision.cluster.0.into()),
            Cell::Text(decision.why.to_string()),
            seconds(decision.waited),
            expected(decision.predicted, |predicted| predicted.p50),
            expected(decision.predicted, |predicted| predicted.p90),
            expected(decision.predicted, |predicted| predicted.isolated),
            Cell::Json(candidates(&decision.candidates)),
            instead.map_or(Cell::Null, |other| cluster_name(view, other.cluster)),
            instead.map_or(Cell::Null, |other| Cell::Int(other.cluster.0.into())),
            instead.map_or(Cell::Null, |other| Cell::Text(other.why.to_string())),
            regret(|regret| regret.violations),
            regret(|regret| regret.cost),
        ]
    };
    view.decisions.iter().map(row).collect()
}

fn scaling(snapshot: &Snapshot, _: Reader<'_>) -> Vec<Vec<Cell>> {
    let row = |scaled: &Scaled| {
        vec![
            Cell::At(scaled.at),
            Cell::Text(scaled.mode.to_string()),
            Cell::Text(scaled.act.to_string()),
            Cell::Text(scaled.because.to_string()),
            Cell::Json(prospects(&scaled.prospects)),
        ]
    };
    snapshot.view.scaling.iter().map(row).collect()
}

fn prospects(prospects: &[Prospect]) -> String {
    let each = prospects.iter().map(|Prospect { size, late_share, cost, .. }| {
        let size = size.map_or_else(|| "null".to_owned(), |size| size.0.to_string());
        format!("{{\"size\":{size},\"late_share\":{late_share},\"cost\":{cost}}}")
    });
    format!("[{}]", each.collect::<Vec<_>>().join(","))
}

fn model(snapshot: &Snapshot, _: Reader<'_>) -> Vec<Vec<Cell>> {
    let row = |model: &ModelView| {
        let lately = |value: fn(&Lately) -> Cell| model.lately.as_ref().map_or(Cell::Null, value);
        vec![
            Cell::Text(model.id.to_string()),
            Cell::Int(model.corrected.into()),
            Cell::Int(model.lately.map_or(0, |lately| lately.queries.into())),
            lately(|lately| Cell::Float(lately.q_error_p50)),
            lately(|lately| Cell::Float(lately.q_error_p90)),
            lately(|lately| Cell::Float(lately.coverage_p90)),
            lately(|lately| Cell::Float(lately.bias)),
            lately(|lately| Cell::Bool(lately.drifted)),
        ]
    };
    snapshot.view.model.iter().map(row).collect()
}

/// Numbers, ids and truth values only, so that nothing needs to be escaped.
pub(crate) fn candidates(candidates: &[Candidate]) -> String {
    let mut json = String::from("[");
    for (index, candidate) in candidates.iter().enumerate() {
        let Candidate { cluster, units: Units(size), outstanding, slots, awake, weighed } = candidate;
        let comma = if index > 0 { "," } else { "" };
        let _ = write!(
            json,
            "{comma}{{\"cluster_id\":{cluster},\"size\":{size},\"outstanding\":{outstanding},\"slots\":{slots},\"awake\":{awake}"
        );
        if let Some(weighed) = weighed {
            let Weighed { predicted, violations, own, cost, harmed } = &**weighed;
            let harmed: Vec<String> = harmed.iter().map(|query| format!("\"{}\"", query.0)).collect();
            let _ = write!(
                json,
                ",\"p50_s\":{},\"p90_s\":{},\"violations\":{violations},\"own\":{own},\"cost\":{cost},\"harmed\":[{}]",
                predicted.p50.secs_f64(),
                predicted.p90.secs_f64(),
                harmed.join(",")
            );
        }
        json.push('}');
    }
    json.push(']');
    json
}

fn class_name(view: &View, class: ClassId) -> Cell {
    view.classes.iter().find(|known| known.id == class).map_or(Cell::Null, |class| Cell::Text(class.name.clone()))
}

pub(super) fn cluster_name(view: &View, cluster: ClusterId) -> Cell {
    view.clusters.iter().find(|known| known.id == cluster).map_or(Cell::Null, |known| Cell::Text(known.name.clone()))
}

fn expected(predicted: Option<Predicted>, what: fn(Predicted) -> Span) -> Cell {
    predicted.map_or(Cell::Null, |predicted| seconds(what(predicted)))
}

fn seconds(span: Span) -> Cell {
    Cell::Float(span.secs_f64())
}

pub(super) fn count(count: u64) -> Cell {
    Cell::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

/// At most [`MAX_TEXT`] bytes, and no NUL, which neither SQL nor the wire can carry.
fn cut(text: &str) -> Cell {
    Cell::Text(text[..text.floor_char_boundary(MAX_TEXT)].replace('\0', "\u{fffd}"))
}

impl ColumnKind {
    /// The name in SQL.
    pub const fn name(self) -> &'static str {
        match self {
            Int8 => "bigint",
            Float8 => "double precision",
            Text => "text",
            Bool => "boolean",
            Timestamptz => "timestamptz",
        }
    }
}

impl Table {
    /// The table of that name.
    pub(crate) fn named(name: &str) -> Option<&'static Table> {
        TABLES.into_iter().find(|table| table.name == name)
    }

    /// Rows as JSON objects, keys in the order of the columns where the reader keeps them. Ids are texts.
    pub(crate) fn json(&self, rows: Vec<Vec<Cell>>) -> serde_json::Value {
        let object = |row: Vec<Cell>| {
            let pairs = self.columns.iter().zip(row);
            serde_json::Value::Object(pairs.map(|(column, cell)| (column.name.to_owned(), cell.json())).collect())
        };
        serde_json::Value::Array(rows.into_iter().map(object).collect())
    }
}

impl Cell {
    fn json(self) -> serde_json::Value {
        match self {
            Cell::Null => serde_json::Value::Null,
            Cell::Int(number) => number.into(),
            Cell::Id(id) => id.to_string().into(),
            Cell::Float(number) => number.into(),
            Cell::Text(text) => text.into(),
            Cell::Json(json) => serde_json::from_str(&json).unwrap_or(serde_json::Value::Null),
            Cell::Bool(truth) => truth.into(),
            Cell::At(time) => format!("{}Z", timestamp(time).replace(' ', "T")).into(),
        }
    }
}

/// The tables with their columns, as Markdown: the generated part of `docs/schema.md`.
pub fn markdown() -> String {
    let mut text = String::new();
    for table in TABLES {
        let _ = write!(
            text,
            "### `punctual.{}`\n\n{}\n\n| column | type | what it holds |\n|---|---|---|\n",
            table.name, table.what
        );
        for Column { name, kind, what } in table.columns {
            let _ = writeln!(text, "| `{name}` | {} | {what} |", kind.name());
        }
        text.push('\n');
    }
    text
}
