//! What can be asked over HTTP, and what may come of it.

use axum::http::StatusCode;
use serde_json::json;

use super::{Answer, JSON, Operation, PATH, Verb, schemas};
use crate::catalog::Table;
use crate::metrics::MEDIA_TYPE;

const READ_ONLY: &str = "this can only be read: use GET";
const SEND: &str = "send the query with POST, as {\"sql\": …}";

fn get(id: &str, path: &str, what: &str, answers: Vec<Answer>) -> Operation {
    Operation {
        id: id.to_owned(),
        verb: Verb::Get,
        path: path.to_owned(),
        what: what.to_owned(),
        otherwise: READ_ONLY,
        open: false,
        parameters: Vec::new(),
        body: None,
        answers,
    }
}

fn ok(what: &'static str, schema: &str) -> Answer {
    Answer::json(StatusCode::OK, what, schema)
}

fn text(status: StatusCode, what: &'static str, media: &'static str) -> Answer {
    Answer { status, what, content: vec![(media, json!({ "type": "string" }))], retry_after: false }
}

/// What each may answer.
pub(super) fn everywhere(open: bool) -> Vec<Answer> {
    let forbidden = "It is not meant for this machine, or a page of another site sent it; or the user may not do that.";
    let mut all = vec![
        Answer::error(StatusCode::FORBIDDEN, forbidden),
        Answer::error(StatusCode::PAYLOAD_TOO_LARGE, "The body is larger than 1 MiB, or did not come whole."),
        Answer::error(StatusCode::SERVICE_UNAVAILABLE, "The gateway does not answer in time, ends, or has no cluster."),
    ];
    if !open {
        all.push(Answer::error(StatusCode::UNAUTHORIZED, "A token is needed, and none that is known was shown."));
    }
    all
}

/// This document.
pub(super) fn document() -> Operation {
    let answer = Answer {
        status: StatusCode::OK,
        what: "This document.",
        content: vec![(JSON, json!({ "type": "object" }))],
        retry_after: false,
    };
    get("openapi", PATH, "What is served over HTTP.", vec![answer])
}

/// Metrics for Prometheus.
pub(in crate::http) fn metrics() -> Operation {
    let metrics = text(StatusCode::OK, "Metrics, in OpenMetrics' text format.", MEDIA_TYPE);
    get("metrics", "/metrics", "Metrics for Prometheus.", vec![metrics])
}

/// Whether the driver answers.
pub(in crate::http) fn health() -> Operation {
    let what = "Whether the gateway works.";
    Operation { open: true, ..get("health", "/healthz", what, vec![ok("It does.", "Health")]) }
}

/// Whether a query could run.
pub(in crate::http) fn readiness() -> Operation {
    let what = "Whether a query could run: a cluster is ready and nothing is shutting down.";
    Operation { open: true, ..get("readiness", "/readyz", what, vec![ok("It could.", "Readiness")]) }
}

/// The rows of a table of the schema `punctual`.
pub(in crate::http) fn list(table: &Table) -> Operation {
    let name = table.name;
    let content = vec![(JSON, schemas::list(name))];
    let rows = Answer { status: StatusCode::OK, what: "Its rows.", content, retry_after: false };
    let wrong = Answer::error(StatusCode::BAD_REQUEST, "A parameter is not known, or no number from 0 to 10000.");
    let limit = json!({
        "name": "limit",
        "in": "query",
        "description": "How many rows at most.",
        "schema": { "type": "integer", "minimum": 0, "maximum": 10_000, "default": 100 },
    });
    let list = get(name, &format!("/v1/{name}"), table.what, vec![rows, wrong]);
    Operation { id: format!("list_{name}"), parameters: vec![limit], ..list }
}

/// Ends a query.
pub(in crate::http) fn cancel() -> Operation {
    let answers = vec![
        Answer::json(StatusCode::ACCEPTED, "It has been told to end.", "Cancelled"),
        Answer::error(StatusCode::BAD_REQUEST, "That is no id of a query."),
        Answer::error(StatusCode::NOT_FOUND, "No such query waits or runs."),
    ];
    let id = json!({
        "name": "id",
        "in": "path",
        "required": true,
        "description": "The `query_id` of `/v1/queries`.",
        "schema": { "type": "string", "pattern": "^[0-9]+$" },
    });
    Operation {
        verb: Verb::Delete,
        otherwise: "one query can only be cancelled: use DELETE; /v1/queries has them all",
        parameters: vec![id],
        ..get("cancel_query", "/v1/queries/{id}", "Cancels a query, whether it waits or runs.", answers)
    }
}

/// Where a query would go.
pub(in crate::http) fn explain() -> Operation {
    let answers = vec![
        ok("What would become of it.", "Explained"),
        Answer::error(StatusCode::BAD_REQUEST, "The body is not what it should be, or asks for what there is not."),
    ];
    Operation {
        verb: Verb::Post,
        otherwise: SEND,
        body: Some("Imagined"),
        ..get("explain", "/v1/explain", "Where a query would go if it came now, and why. Nothing is run.", answers)
    }
}

/// Runs a query.
pub(in crate::http) fn run() -> Operation {
    let lines = json!({
        "type": "string",
        "description": "Lines, each of which is a `Line`. Whole if the last has a `command`.",
        "x-lines": schemas::named("Line"),
    });
    let arrow =
        json!({ "type": "string", "format": "binary", "description": "The rows, if it is asked for in `Accept`." });
    let rows = Answer {
        status: StatusCode::OK,
        what: "Its rows. What fails after the first is the last line; an Arrow stream breaks off.",
        content: vec![(schemas::LINES, lines), (schemas::ARROW, arrow)],
        retry_after: false,
    };
    let refused = Answer {
        retry_after: true,
        ..Answer::error(StatusCode::TOO_MANY_REQUESTS, "It was refused: too many wait, or it would be late anyway.")
    };
    let answers = vec![
        rows,
        Answer::error(StatusCode::BAD_REQUEST, "The query is wrong, or the request."),
        Answer::error(StatusCode::NOT_ACCEPTABLE, "The rows cannot be written as Arrow."),
        Answer::error(StatusCode::CONFLICT, "The query was cancelled."),
        refused,
        Answer::error(StatusCode::INTERNAL_SERVER_ERROR, "The cluster failed, or the gateway."),
    ];
    Operation {
        verb: Verb::Post,
        otherwise: SEND,
        body: Some("Query"),
        ..get("run_query", crate::http::QUERY, "Runs a query. Closing the connection cancels it.", answers)
    }
}

/// Has a plan followed.
pub(in crate::http) fn adopt_plan() -> Operation {
    let answers = vec![
        ok("It is followed, or waits for its day.", "PlanAdopted"),
        Answer::error(StatusCode::BAD_REQUEST, "The body is not the file of a plan."),
        Answer::error(StatusCode::CONFLICT, "It is refused: `error` says why."),
    ];
    Operation {
        verb: Verb::Post,
        body: Some("PlanFile"),
        ..get("adopt_plan", "/v1/plan", "Has a plan of a day followed. For administrators.", answers)
    }
}

/// Takes plans back.
pub(in crate::http) fn drop_plans() -> Operation {
    let answers = vec![
        ok("None is followed any more.", "PlansDropped"),
        Answer::error(StatusCode::NOT_FOUND, "No plan is followed."),
    ];
    Operation {
        verb: Verb::Delete,
        ..get("drop_plans", "/v1/plan", "Takes all plans back that are followed or wait. For administrators.", answers)
    }
}

/// Reads the configuration again.
pub(in crate::http) fn reload() -> Operation {
    let answers = vec![
        ok("It is in force.", "Reloaded"),
        Answer::error(StatusCode::BAD_REQUEST, "The file is wrong: everything is as it was."),
        Answer::error(StatusCode::CONFLICT, "The gateway was started without a file."),
        Answer::error(StatusCode::INTERNAL_SERVER_ERROR, "It could not be tried."),
    ];
    Operation {
        verb: Verb::Post,
        otherwise: "a reload changes things: use POST, without a body",
        ..get("reload", "/v1/reload", "Reads the configuration again, as SIGHUP does.", answers)
    }
}

/// All of them, as a gateway serves them.
#[cfg(test)]
pub(super) fn every() -> Vec<Operation> {
    let lists = crate::catalog::TABLES.into_iter().map(list);
    lists
        .chain([
            document(),
            metrics(),
            health(),
            readiness(),
            cancel(),
            explain(),
            run(),
            adopt_plan(),
            drop_plans(),
            reload(),
        ])
        .collect()
}
