//! Rows as columns: the schema of history's Parquet files, and how a foreign file's columns are understood.
//!
//! | column | type | notes |
//! |---|---|---|
//! | `arrival`, `started`, `ended` | timestamp, µs, UTC | `ended` may be `latency_s` or `latency` instead |
//! | `query_id`, `text_hash`, `rows`, `bytes` | u64 | |
//! | `cluster`, `class`, `lane`, `user`, `database`, `application`, `sql`, `status`, `sqlstate` | text | |
//! | `cluster_size` | u32 | |
//! | `fingerprint` | text of 16 hexadecimal digits, as views show it | may be missing where there is `sql` |
//! | `features` | list of f32 | |
//! | `slo_s`, `predicted_p50_s`, `predicted_p90_s`, `isolated_s` | f64, seconds | |
//! | `priority`, `priority_asked` | i32 | by which it was admitted, and what its client asked for |
//! | `scan_reach_s`, `scan_duration_s`, `scan_segment_range_s` | f64, seconds | infinite: without bound; no reach: not known, or no table with a column of time |
//! | `scan_segments` | u32 | the largest number: without bound |
//! | `blocked_s` | f64, seconds | how long the result waited for its client to take it, which is no part of its latency |
//! | `split`, `published_s` | text, f64 | traces only: `train`, `val` or `test`; somebody else's prediction, in seconds |
//!
//! A file from elsewhere may have any integer, float, text or timestamp type in their place, a timestamp without a
//! zone is UTC, and a time may be a floating-point number of seconds since 1970. A fingerprint that is a whole number
//! is taken as it is; any other text stands for the SipHash of it.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float32Builder, Float64Builder, Int32Builder, ListBuilder, RecordBatch, StringBuilder,
    TimestampMicrosecondBuilder, UInt32Builder, UInt64Builder,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, Field, Float32Type, Float64Type, Int32Type, Int64Type, Schema, SchemaRef, TimeUnit, UInt32Type,
    UInt64Type,
};
use punctual_core::admit::claim::Scan;
use punctual_core::fingerprint::Fingerprint;
use punctual_core::id::{QueryId, Units};
use punctual_core::query::{SqlState, Status};
use punctual_core::statement::Statement;
use punctual_core::time::{Span, Time};

use super::hash::Key;
use super::row::Row;

/// The schema of history's own files.
pub(crate) fn schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let needed = |name: &str, kind: &DataType| Field::new(name, kind.clone(), false);
    let column = |name: &str, kind: DataType| Field::new(name, kind, true);
    Arc::new(Schema::new(vec![
        column("query_id", DataType::UInt64),
        needed("arrival", &time),
        column("started", time.clone()),
        needed("ended", &time),
        column("cluster", DataType::Utf8),
        column("cluster_size", DataType::UInt32),
        column("class", DataType::Utf8),
        column("lane", DataType::Utf8),
        column("user", DataType::Utf8),
        column("database", DataType::Utf8),
        column("application", DataType::Utf8),
        needed("fingerprint", &DataType::Utf8),
        column("text_hash", DataType::UInt64),
        column("sql", DataType::Utf8),
        column("features", DataType::List(Arc::new(Field::new("item", DataType::Float32, true)))),
        column("slo_s", DataType::Float64),
        column("predicted_p50_s", DataType::Float64),
        column("predicted_p90_s", DataType::Float64),
        column("isolated_s", DataType::Float64),
        column("status", DataType::Utf8),
        column("sqlstate", DataType::Utf8),
        column("rows", DataType::UInt64),
        column("bytes", DataType::UInt64),
        column("priority", DataType::Int32),
        column("priority_asked", DataType::Int32),
        column("scan_reach_s", DataType::Float64),
        column("scan_duration_s", DataType::Float64),
        column("scan_segments", DataType::UInt32),
        column("scan_segment_range_s", DataType::Float64),
        column("blocked_s", DataType::Float64),
        column("split", DataType::Utf8),
        column("published_s", DataType::Float64),
    ]))
}

/// The rows as a batch of [`schema`].
pub(crate) fn batch_of(rows: &[Row]) -> RecordBatch {
    let text = |of: fn(&Row) -> Option<&Arc<str>>| texts(rows.iter().map(|row| of(row).map(|text| &**text)));
    let whole = |of: fn(&Row) -> Option<u64>| wholes(rows.iter().map(of));
    let time = |of: fn(&Row) -> Option<Time>| times(rows.iter().map(of));
    let secs = |of: fn(&Row) -> Option<Span>| seconds(rows.iter().map(of));
    let scan = |of: fn(&Scan) -> Option<Span>| bounds(rows.iter().map(|row| row.scan.as_ref().and_then(of)));
    let fingerprints: Vec<String> = rows.iter().map(|row| row.fingerprint.to_string()).collect();
    let columns: Vec<ArrayRef> = vec![
        whole(|row| row.query_id.map(|id| id.0)),
        time(|row| Some(row.arrival)),
        time(|row| row.started),
        time(|row| Some(row.ended)),
        text(|row| row.cluster.as_ref()),
        counts(rows.iter().map(|row| row.cluster_size.map(|units| units.0))),
        text(|row| row.class.as_ref()),
        text(|row| row.lane.as_ref()),
        text(|row| row.user.as_ref()),
        text(|row| row.database.as_ref()),
        text(|row| row.application.as_ref()),
        texts(fingerprints.iter().map(|text| Some(text.as_str()))),
        whole(|row| row.text_hash),
        text(|row| row.sql.as_ref()),
        lists(rows),
        secs(|row| row.slo),
        secs(|row| row.predicted_p50),
        secs(|row| row.predicted_p90),
        secs(|row| row.isolated),
        texts(rows.iter().map(|row| row.status.map(Status::name))),
        texts(rows.iter().map(|row| row.sqlstate.as_ref().map(SqlState::code))),
        whole(|row| row.rows),
        whole(|row| row.bytes),
        priorities(rows.iter().map(|row| row.priority)),
        priorities(rows.iter().map(|row| row.priority_asked)),
        scan(|scan| Some(scan.reach.unwrap_or(Span::MAX))),
        scan(|scan| Some(scan.duration.unwrap_or(Span::MAX))),
        counts(rows.iter().map(|row| row.scan.and_then(|scan| scan.segments))),
        scan(|scan| scan.segment_range),
        secs(|row| row.blocked),
        text(|row| row.split.as_ref()),
        secs(|row| row.published),
    ];
    RecordBatch::try_new(schema(), columns).expect("the columns above are those of the schema")
}

fn texts<'a>(values: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    let mut column = StringBuilder::new();
    values.for_each(|value| column.append_option(value));
    Arc::new(column.finish())
}

fn wholes(values: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    let mut column = UInt64Builder::new();
    values.for_each(|value| column.append_option(value));
    Arc::new(column.finish())
}

fn times(values: impl Iterator<Item = Option<Time>>) -> ArrayRef {
    let mut column = TimestampMicrosecondBuilder::new().with_timezone("UTC");
    let micros = |time: Time| i64::try_from(time.micros()).unwrap_or(i64::MAX);
    values.for_each(|value| column.append_option(value.map(micros)));
    Arc::new(column.finish())
}

fn seconds(values: impl Iterator<Item = Option<Span>>) -> ArrayRef {
    let mut column = Float64Builder::new();
    values.for_each(|value| column.append_option(value.map(Span::secs_f64)));
    Arc::new(column.finish())
}

/// Spans of which the longest stands for what has no bound.
fn bounds(values: impl Iterator<Item = Option<Span>>) -> ArrayRef {
    let mut column = Float64Builder::new();
    let secs = |span: Span| if span == Span::MAX { f64::INFINITY } else { span.secs_f64() };
    values.for_each(|value| column.append_option(value.map(secs)));
    Arc::new(column.finish())
}

fn counts(values: impl Iterator<Item = Option<u32>>) -> ArrayRef {
    let mut column = UInt32Builder::new();
    values.for_each(|value| column.append_option(value));
    Arc::new(column.finish())
}

fn priorities(values: impl Iterator<Item = Option<i32>>) -> ArrayRef {
    let mut column = Int32Builder::new();
    values.for_each(|value| column.append_option(value));
    Arc::new(column.finish())
}

fn lists(rows: &[Row]) -> ArrayRef {
    let mut column = ListBuilder::new(Float32Builder::new());
    for row in rows {
        column.values().append_slice(row.features.as_deref().unwrap_or(&[]));
        column.append(row.features.is_some());
    }
    Arc::new(column.finish())
}

/// Why columns cannot be read as rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// There is no such column (or columns, any of which would do).
    Missing(&'static str),
    /// It is there in a type that does not stand for what it should, or with such a value.
    Type { column: &'static str, why: String },
    /// A value makes no sense.
    Value { row: usize, column: &'static str, why: String },
}

/// What a file must have, seen before anything of it is read.
pub(crate) fn check(schema: &Schema) -> Result<(), Unreadable> {
    let has = |name: &str| schema.column_with_name(name).is_some();
    if !has("arrival") {
        return Err(Unreadable::Missing("arrival"));
    }
    if !(has("ended") || has("latency_s") || has("latency")) {
        return Err(Unreadable::Missing("ended (or latency_s)"));
    }
    if !(has("fingerprint") || has("sql")) {
        return Err(Unreadable::Missing("fingerprint (or sql)"));
    }
    Ok(())
}

/// The columns of a batch in the types that rows want.
#[derive(Debug)]
pub(crate) struct Columns {
    rows: usize,
    query_id: Option<ArrayRef>,
    arrival: Option<ArrayRef>,
    started: Option<ArrayRef>,
    ended: Option<ArrayRef>,
    latency: Option<ArrayRef>,
    cluster: Texts,
    cluster_size: Option<ArrayRef>,
    class: Texts,
    lane: Texts,
    user: Texts,
    database: Texts,
    application: Texts,
    fingerprint: Option<ArrayRef>,
    text_hash: Option<ArrayRef>,
    sql: Texts,
    features: Option<ArrayRef>,
    slo: Option<ArrayRef>,
    predicted_p50: Option<ArrayRef>,
    predicted_p90: Option<ArrayRef>,
    isolated: Option<ArrayRef>,
    status: Option<ArrayRef>,
    sqlstate: Option<ArrayRef>,
    count: Option<ArrayRef>,
    bytes: Option<ArrayRef>,
    priority: Option<ArrayRef>,
    priority_asked: Option<ArrayRef>,
    reach: Option<ArrayRef>,
    duration: Option<ArrayRef>,
    segments: Option<ArrayRef>,
    segment_range: Option<ArrayRef>,
    blocked: Option<ArrayRef>,
    split: Texts,
    published: Option<ArrayRef>,
}

impl Columns {
    /// Finds and converts the columns.
    pub(crate) fn of(batch: &RecordBatch) -> Result<Columns, Unreadable> {
        let whole = |name| cast(batch, name, DataType::UInt64);
        let text = |name| cast(batch, name, DataType::Utf8);
        let secs = |name| cast(batch, name, DataType::Float64);
        let shared = |name| Ok(Texts { column: cast(batch, name, DataType::Utf8)?, last: None });
        let list = DataType::List(Arc::new(Field::new("item", DataType::Float32, true)));
        Ok(Columns {
            rows: batch.num_rows(),
            query_id: whole("query_id")?,
            arrival: micros(batch, "arrival")?,
            started: micros(batch, "started")?,
            ended: micros(batch, "ended")?,
            latency: secs("latency_s")?.map_or_else(|| secs("latency"), |column| Ok(Some(column)))?,
            cluster: shared("cluster")?,
            cluster_size: cast(batch, "cluster_size", DataType::UInt32)?,
            class: shared("class")?,
            lane: shared("lane")?,
            user: shared("user")?,
            database: shared("database")?,
            application: shared("application")?,
            fingerprint: fingerprints(batch)?,
            text_hash: whole("text_hash")?,
            sql: shared("sql")?,
            features: cast(batch, "features", list)?,
            slo: secs("slo_s")?,
            predicted_p50: secs("predicted_p50_s")?,
            predicted_p90: secs("predicted_p90_s")?,
            isolated: secs("isolated_s")?,
            status: text("status")?,
            sqlstate: text("sqlstate")?,
            count: whole("rows")?,
            bytes: whole("bytes")?,
            priority: cast(batch, "priority", DataType::Int32)?,
            priority_asked: cast(batch, "priority_asked", DataType::Int32)?,
            reach: secs("scan_reach_s")?,
            duration: secs("scan_duration_s")?,
            segments: cast(batch, "scan_segments", DataType::UInt32)?,
            segment_range: secs("scan_segment_range_s")?,
            blocked: secs("blocked_s")?,
            split: shared("split")?,
            published: secs("published_s")?,
        })
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Row `at`, which must be below [`Columns::len`].
    pub(crate) fn row(&mut self, at: usize) -> Result<Row, Unreadable> {
        let arrival = self.time("arrival", &self.arrival, at)?.ok_or_else(|| null(at, "arrival"))?;
        let ended = match (self.time("ended", &self.ended, at)?, span(&self.latency, "latency_s", at)?) {
            (Some(ended), _) => ended,
            (None, Some(latency)) => arrival + latency,
            (None, None) => return Err(null(at, "ended (or latency_s)")),
        };
        let sql = self.sql.get(at);
        let fingerprint = match (whole(&self.fingerprint, at), &sql) {
            (Some(number), _) => Fingerprint(number),
            (None, Some(sql)) => Statement::read(sql).fingerprint,
            (None, None) => return Err(null(at, "fingerprint (or sql)")),
        };
        Ok(Row {
            query_id: whole(&self.query_id, at).map(QueryId),
            started: self.time("started", &self.started, at)?,
            cluster: self.cluster.get(at),
            cluster_size: count(&self.cluster_size, at).map(Units),
            class: self.class.get(at),
            lane: self.lane.get(at),
            user: self.user.get(at),
            database: self.database.get(at),
            application: self.application.get(at),
            text_hash: whole(&self.text_hash, at),
            sql,
            features: some(&self.features, at).map(|column| floats(column, at)),
            slo: span(&self.slo, "slo_s", at)?,
            predicted_p50: span(&self.predicted_p50, "predicted_p50_s", at)?,
            predicted_p90: span(&self.predicted_p90, "predicted_p90_s", at)?,
            isolated: span(&self.isolated, "isolated_s", at)?,
            status: status(&self.status, at)?,
            sqlstate: sqlstate(&self.sqlstate, at)?,
            rows: whole(&self.count, at),
            bytes: whole(&self.bytes, at),
            priority: integer(&self.priority, at),
            priority_asked: integer(&self.priority_asked, at),
            scan: self.scan(at)?,
            blocked: span(&self.blocked, "blocked_s", at)?,
            split: self.split.get(at),
            published: span(&self.published, "published_s", at)?,
            ..Row::new(arrival, ended, fingerprint)
        })
    }

    /// How much of time it read: known where its reach is.
    fn scan(&self, at: usize) -> Result<Option<Scan>, Unreadable> {
        let Some(reach) = bound(&self.reach, "scan_reach_s", at)? else { return Ok(None) };
        let finite = |span: Span| Some(span).filter(|span| *span != Span::MAX);
        Ok(Some(Scan {
            reach: finite(reach),
            duration: bound(&self.duration, "scan_duration_s", at)?.and_then(finite),
            segments: count(&self.segments, at),
            segment_range: bound(&self.segment_range, "scan_segment_range_s", at)?,
        }))
    }

    fn time(&self, name: &'static str, column: &Option<ArrayRef>, at: usize) -> Result<Option<Time>, Unreadable> {
        let Some(column) = some(column, at) else { return Ok(None) };
        let micros = column.as_primitive::<Int64Type>().value(at);
        let before = || Unreadable::Value { row: at, column: name, why: "it is before 1970".into() };
        Ok(Some(Time::from_micros(u64::try_from(micros).map_err(|_| before())?)))
    }
}

/// A column of text whose values repeat: equal neighbours share their memory.
#[derive(Debug)]
struct Texts {
    column: Option<ArrayRef>,
    last: Option<Arc<str>>,
}

impl Texts {
    fn get(&mut self, at: usize) -> Option<Arc<str>> {
        let text = some(&self.column, at)?.as_string::<i32>().value(at);
        if self.last.as_deref() != Some(text) {
            self.last = Some(text.into());
        }
        self.last.clone()
    }
}

/// The column, if it has a value at `at`.
fn some(column: &Option<ArrayRef>, at: usize) -> Option<&ArrayRef> {
    column.as_ref().filter(|column| column.is_valid(at))
}

fn whole(column: &Option<ArrayRef>, at: usize) -> Option<u64> {
    some(column, at).map(|column| column.as_primitive::<UInt64Type>().value(at))
}

fn span(column: &Option<ArrayRef>, name: &'static str, at: usize) -> Result<Option<Span>, Unreadable> {
    let Some(column) = some(column, at) else { return Ok(None) };
    let secs = column.as_primitive::<Float64Type>().value(at);
    if secs.is_finite() && secs >= 0.0 {
        return Ok(Some(Span::from_secs_f64(secs)));
    }
    Err(Unreadable::Value { row: at, column: name, why: format!("{secs} is no duration") })
}

/// A span, of which one without bound is the longest.
fn bound(column: &Option<ArrayRef>, name: &'static str, at: usize) -> Result<Option<Span>, Unreadable> {
    let infinite = |column: &ArrayRef| column.as_primitive::<Float64Type>().value(at) == f64::INFINITY;
    if some(column, at).is_some_and(infinite) { Ok(Some(Span::MAX)) } else { span(column, name, at) }
}

fn count(column: &Option<ArrayRef>, at: usize) -> Option<u32> {
    some(column, at).map(|column| column.as_primitive::<UInt32Type>().value(at))
}

fn integer(column: &Option<ArrayRef>, at: usize) -> Option<i32> {
    some(column, at).map(|column| column.as_primitive::<Int32Type>().value(at))
}

fn floats(column: &ArrayRef, at: usize) -> Vec<f32> {
    let list = column.as_list::<i32>().value(at);
    // A feature that is missing is one that is not a number.
    list.as_primitive::<Float32Type>().iter().map(|value| value.unwrap_or(f32::NAN)).collect()
}

fn status(column: &Option<ArrayRef>, at: usize) -> Result<Option<Status>, Unreadable> {
    let Some(column) = some(column, at) else { return Ok(None) };
    let name = column.as_string::<i32>().value(at);
    let status = Status::ALL.into_iter().find(|status| status.name() == name);
    let unknown = || {
        let known = Status::ALL.map(Status::name).join(", ");
        Unreadable::Value { row: at, column: "status", why: format!("{name:?} is none of {known}") }
    };
    status.map(Some).ok_or_else(unknown)
}

fn sqlstate(column: &Option<ArrayRef>, at: usize) -> Result<Option<SqlState>, Unreadable> {
    let Some(column) = some(column, at) else { return Ok(None) };
    let code = column.as_string::<i32>().value(at);
    let five = |_| Unreadable::Value { row: at, column: "sqlstate", why: format!("{code:?} has not five characters") };
    Ok(Some(SqlState(code.as_bytes().try_into().map_err(five)?)))
}

fn null(row: usize, column: &'static str) -> Unreadable {
    Unreadable::Value { row, column, why: "it is null".into() }
}

/// The column of that name as that type, if there is one.
fn cast(batch: &RecordBatch, name: &'static str, to: DataType) -> Result<Option<ArrayRef>, Unreadable> {
    let Some(column) = batch.column_by_name(name) else { return Ok(None) };
    convert(column, name, &to).map(Some)
}

fn convert(column: &ArrayRef, name: &'static str, to: &DataType) -> Result<ArrayRef, Unreadable> {
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(column, to, &strict)
        .map_err(|cause| Unreadable::Type { column: name, why: format!("{} is not {to}: {cause}", column.data_type()) })
}

/// A column of times as microseconds since 1970.
fn micros(batch: &RecordBatch, name: &'static str) -> Result<Option<ArrayRef>, Unreadable> {
    let Some(column) = batch.column_by_name(name) else { return Ok(None) };
    let scaled = |by: fn(i64) -> i64| {
        let whole = convert(column, name, &DataType::Int64)?;
        let whole = whole.as_primitive::<Int64Type>();
        Ok(Some(Arc::new(whole.unary::<_, Int64Type>(by)) as ArrayRef))
    };
    match column.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => scaled(|value| value.saturating_mul(1_000_000)),
        DataType::Timestamp(TimeUnit::Millisecond, _) => scaled(|value| value.saturating_mul(1_000)),
        DataType::Timestamp(TimeUnit::Microsecond, _) => scaled(|value| value),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => scaled(|value| value.div_euclid(1_000)),
        DataType::Float32 | DataType::Float64 => {
            let secs = convert(column, name, &DataType::Float64)?;
            let secs = secs.as_primitive::<Float64Type>();
            Ok(Some(Arc::new(secs.unary::<_, Int64Type>(|secs| (secs * 1e6).round() as i64))))
        }
        other => Err(Unreadable::Type {
            column: name,
            why: format!("{other} is neither a timestamp nor seconds in floating point"),
        }),
    }
}

/// The column of fingerprints as numbers.
fn fingerprints(batch: &RecordBatch) -> Result<Option<ArrayRef>, Unreadable> {
    let Some(column) = batch.column_by_name("fingerprint") else { return Ok(None) };
    if column.data_type().is_integer() {
        // The same bits, so that a signed column that carries ours is understood too.
        let signed = column.data_type().is_signed_integer();
        let wide = convert(column, "fingerprint", if signed { &DataType::Int64 } else { &DataType::UInt64 })?;
        return Ok(Some(if signed {
            Arc::new(wide.as_primitive::<Int64Type>().unary::<_, UInt64Type>(|value| value as u64))
        } else {
            wide
        }));
    }
    let text = convert(column, "fingerprint", &DataType::Utf8)?;
    Ok(Some(wholes(text.as_string::<i32>().iter().map(|text| text.map(fingerprint_of)))))
}

/// The number that a fingerprint's text stands for: the hexadecimal one that views show, or else the hash of it.
pub(crate) fn fingerprint_of(text: &str) -> u64 {
    match text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => u64::from_str_radix(text, 16).unwrap_or_default(),
        false => Key::PUBLIC.hash(text.as_bytes()),
    }
}
