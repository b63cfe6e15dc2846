//! The shapes of what goes over HTTP, as JSON Schema.

use serde_json::{Map, Value, json};

use crate::catalog::{ColumnKind, TABLES, Table, TableColumn};

pub(super) use crate::http::rows::{ARROW, LINES_MEDIA_TYPE as LINES};

/// A reference to the schema of that name.
pub(super) fn named(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// The answer that has the rows of a table.
pub(super) fn list(table: &str) -> Value {
    object(&[table], &[(table, json!({ "type": "array", "items": named(&row_name(table)) }))])
}

/// All schemas, by name.
pub(super) fn all() -> Map<String, Value> {
    let mut all = Map::new();
    for table in TABLES {
        all.insert(row_name(table.name), row(table));
    }
    let more = errors().into_iter().chain(queries()).chain(explained()).chain(plans()).chain(small());
    all.extend(more.map(|(name, schema)| (name.to_owned(), schema)));
    all
}

/// `queries` is made of `QueriesRow`.
fn row_name(table: &str) -> String {
    let mut name = table.to_owned();
    name[..1].make_ascii_uppercase();
    name + "Row"
}

fn row(table: &Table) -> Value {
    let columns: Map<String, Value> =
        table.columns.iter().map(|column| (column.name.to_owned(), cell(column))).collect();
    let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
    json!({
        "type": "object",
        "description": table.what,
        "properties": columns,
        "required": names,
        "additionalProperties": false,
    })
}

/// A value of a column. Ids of queries and sessions are texts, since they may be larger than JavaScript counts exactly.
fn cell(column: &TableColumn) -> Value {
    let mut schema = match (column.name, column.kind) {
        ("query_id" | "session_id", _) => json!({ "type": ["string", "null"], "pattern": "^[0-9]+$" }),
        ("candidates", _) => json!({ "type": ["array", "null"], "items": named("Candidate") }),
        ("prospects", _) => json!({ "type": ["array", "null"], "items": named("Prospect") }),
        (_, ColumnKind::Int8) => json!({ "type": ["integer", "null"] }),
        (_, ColumnKind::Float8) => json!({ "type": ["number", "null"] }),
        (_, ColumnKind::Text) => json!({ "type": ["string", "null"] }),
        (_, ColumnKind::Bool) => json!({ "type": ["boolean", "null"] }),
        (_, ColumnKind::Timestamptz) => json!({ "type": ["string", "null"], "format": "date-time" }),
    };
    schema["description"] = column.what.into();
    schema
}

/// An object of these fields and no others.
fn object(required: &[&str], fields: &[(&str, Value)]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn of(kind: &str, what: &str) -> Value {
    json!({ "type": kind, "description": what })
}

fn or_null(kind: &str, what: &str) -> Value {
    json!({ "type": [kind, "null"], "description": what })
}

fn list_of(kind: &str, what: &str) -> Value {
    json!({ "type": "array", "items": { "type": kind }, "description": what })
}

fn errors() -> [(&'static str, Value); 2] {
    let fields = [
        ("error", of("string", "What is wrong.")),
        ("sqlstate", json!({ "type": "string", "pattern": "^[0-9A-Z]{5}$", "description": "Postgres' code for it." })),
        ("detail", of("string", "More of it.")),
        ("hint", of("string", "What to do.")),
        ("problems", json!({ "type": "array", "items": named("Problem"), "description": "What is wrong in a file." })),
    ];
    let problem = [
        ("line", of("integer", "From 1; 0: it was typed on the command line.")),
        ("column", of("integer", "In characters, from 1.")),
        ("key", of("string", "The key that is to blame, or the flag; empty if the text is no TOML.")),
        ("found", of("string", "What was found.")),
        ("fix", of("string", "What to do; empty if that is obvious.")),
    ];
    let names = problem.clone().map(|(name, _)| name);
    [("Error", object(&["error"], &fields)), ("Problem", object(&names, &problem))]
}

/// What comes with a query, imagined or not.
fn asked() -> [(&'static str, Value); 7] {
    [
        ("sql", of("string", "The text.")),
        ("user", of("string", "Whose query it is.")),
        ("database", of("string", "The user's name, unless it is said.")),
        ("application", of("string", "The name of the application.")),
        ("class", of("string", "As with SET punctual.class.")),
        ("slo", of("string", "As with SET punctual.slo: a duration with a unit, as in `2s`.")),
        ("priority", of("integer", "As with SET punctual.priority.")),
    ]
}

fn queries() -> [(&'static str, Value); 3] {
    let column = [("name", of("string", "Its name.")), ("type", of("string", "Its type, as Postgres calls it."))];
    let column = object(&["name", "type"], &column);
    let line = json!({ "oneOf": [
        object(&["columns"], &[("columns", json!({ "type": "array", "items": column }))]),
        { "type": "array", "description": "A row: as many values as columns." },
        object(&["command"], &[("command", of("string", "The tag of a statement that has ended."))]),
        named("Error"),
    ] });
    let client = ("client", of("string", "Where its client is: an address, or `local`."));
    let imagined = [&asked()[..], &[client]].concat();
    [("Query", object(&["sql", "user"], &asked())), ("Imagined", object(&["sql"], &imagined)), ("Line", line)]
}

fn explained() -> [(&'static str, Value); 5] {
    let instead = [
        ("cluster", of("string", "Its name.")),
        ("cluster_id", of("integer", "Its identity.")),
        ("why", of("string", "Why there.")),
        ("regret_violations", or_null("number", "Violations that would be expected more, or fewer if negative.")),
        ("regret_usd", or_null("number", "Dollars.")),
    ];
    let scan = [
        ("reach_s", or_null("number", "Seconds back.")),
        ("duration_s", or_null("number", "Seconds that are read.")),
        ("segments", or_null("integer", "Segments that are read.")),
        ("segment_range_s", or_null("number", "Seconds from the first to the last.")),
        ("unbounded", list_of("string", "What has no bound.")),
    ];
    let verdict = json!({ "type": "string", "enum": ["run", "wait", "refuse", "answer"] });
    let fields = [
        ("class", of("string", "Its class.")),
        ("class_why", of("string", "Why it is of that one.")),
        ("slo_s", or_null("number", "Seconds after which it is late; null: never.")),
        ("priority_asked", or_null("integer", "The priority that it asks for.")),
        ("scan", json!({ "oneOf": [named("Scan"), { "type": "null" }] })),
        ("statement", of("string", "What it does.")),
        ("fingerprint", of("string", "The number of its shape.")),
        ("verdict", verdict),
        ("why", of("string", "Why.")),
        ("cluster", of("string", "Where it would run.")),
        ("cluster_id", of("integer", "The identity of that cluster.")),
        ("predicted_p50_s", or_null("number", "Seconds that it is expected to run, in the median.")),
        ("predicted_p90_s", or_null("number", "The same, nine times of ten.")),
        ("isolated_s", or_null("number", "Seconds that it would take alone.")),
        ("candidates", json!({ "type": "array", "items": named("Candidate") })),
        ("instead", json!({ "oneOf": [named("Instead"), { "type": "null" }] })),
        ("ahead", of("integer", "Queries that wait before it.")),
        ("expected_wait_s", or_null("number", "Seconds that it is expected to wait.")),
        ("sqlstate", of("string", "The code of its refusal.")),
        ("starts", list_of("string", "Clusters that would be started for it.")),
        ("priority", of("integer", "Its priority.")),
        ("lane", of("string", "Its lane.")),
    ];
    let always =
        ["class", "class_why", "slo_s", "priority_asked", "scan", "statement", "fingerprint", "verdict", "why"];
    let names = |fields: &[(&'static str, Value)]| fields.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    [
        ("Explained", object(&always, &fields)),
        ("Instead", object(&names(&instead), &instead)),
        ("Scan", object(&names(&scan), &scan)),
        ("Candidate", candidate()),
        ("Prospect", prospect()),
    ]
}

fn candidate() -> Value {
    let fields = [
        ("cluster", of("string", "Its name; in an explanation.")),
        ("cluster_id", of("integer", "Its identity.")),
        ("size", of("integer", "Its size in units.")),
        ("outstanding", of("integer", "Queries that it has.")),
        ("slots", of("integer", "Queries that it may have.")),
        ("awake", of("boolean", "True if it is billed already.")),
        ("p50_s", of("number", "Seconds that the query is expected to run there, in the median; if predicted.")),
        ("p90_s", of("number", "The same, nine times of ten.")),
        ("violations", of("number", "SLOs that are expected to be missed for it, its own among them.")),
        ("own", of("number", "Its own.")),
        ("cost", of("number", "Dollars that it costs there.")),
        ("harmed", list_of("string", "The ids of those whose SLOs it endangers.")),
    ];
    object(&["cluster_id", "size", "outstanding", "slots", "awake"], &fields)
}

fn prospect() -> Value {
    let fields = [
        ("size", or_null("integer", "The size in units that would be started; null: none.")),
        ("late_share", of("number", "The share of queries that would be late.")),
        ("cost", of("number", "Dollars.")),
    ];
    object(&["size", "late_share", "cost"], &fields)
}

fn plans() -> [(&'static str, Value); 4] {
    let spinup = [("at", of("integer", "Microseconds after `from`.")), ("size", of("integer", "Its size in units."))];
    let knobs = [
        ("lifetime", of("integer", "`scaling.lifetime`, in microseconds.")),
        ("idle", of("integer", "`scaling.idle`, in microseconds.")),
        ("observations", of("integer", "`scaling.observations`.")),
        ("window", of("integer", "`scaling.window`, in microseconds.")),
        ("completions", of("integer", "`scaling.completions`.")),
        ("late_share", of("number", "`scaling.late_share`.")),
        ("counting", of("string", "When routing counts a query as late.")),
    ];
    let plan = [
        ("id", of("integer", "Not read.")),
        ("from", of("integer", "When the day begins: microseconds since 1970 in UTC.")),
        ("until", of("integer", "When it ends.")),
        ("fleet", list_of("integer", "Sizes of the clusters that it should begin with.")),
        ("spinups", json!({ "type": "array", "items": object(&["at", "size"], &spinup) })),
        ("knobs", object(&knobs.clone().map(|(name, _)| name), &knobs)),
        ("made_for", of("integer", "The number of the policy that it was made for.")),
    ];
    let required = ["from", "until", "fleet", "spinups", "knobs", "made_for"];
    let fields = [("format", json!({ "type": "integer", "enum": [1] })), ("plan", named("Plan"))];
    // What else is in a file is evidence.
    let mut file = object(&["format", "plan"], &fields);
    file["additionalProperties"] = json!(true);
    [
        ("Plan", object(&required, &plan)),
        ("PlanFile", file),
        ("PlanAdopted", object(&["plan"], &[("plan", of("string", "The beginning of the hash of its file."))])),
        ("PlansDropped", object(&["dropped"], &[("dropped", of("integer", "How many there were."))])),
    ]
}

fn small() -> [(&'static str, Value); 4] {
    let status = |word: &str| json!({ "type": "string", "enum": [word] });
    let degraded = of("boolean", "True if the dispatcher has failed and queries go by the fallback.");
    let changed = list_of("string", "Keys that have changed.");
    let restart = list_of("string", "Keys that change by a restart only.");
    [
        ("Health", object(&["status", "degraded"], &[("status", status("ok")), ("degraded", degraded)])),
        ("Readiness", object(&["status"], &[("status", status("ready"))])),
        ("Cancelled", object(&["cancelled"], &[("cancelled", of("string", "The id of the query."))])),
        ("Reloaded", object(&["changed", "restart"], &[("changed", changed), ("restart", restart)])),
    ]
}
