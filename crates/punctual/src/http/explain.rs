//! `POST /v1/explain`: where a query would go if it came now, and why. A dry run: nothing is placed, waits or is counted.
//!
//! ```text
//!   {"sql": "SELECT …", "application": "looker"} ──▶ {"class": "dash", "verdict": "run", "cluster": "b", "why": …, "candidates": […]}
//! ```
//!
//! The driver has a copy of the dispatcher decide, so what is told is what would happen, not what someone thinks would.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use punctual_core::admit::claim::Scan;
use punctual_core::class::{Client, Origin};
use punctual_core::dispatcher::{Considered, Decision, Queued, Verdict};
use punctual_core::query::Predicted;
use punctual_core::tag::parse_span;
use punctual_core::time::Span;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{SNAPSHOT_WITHIN, Shared, refusal, stalled};
use crate::catalog;
use crate::door::{Asked, Imagined, Problem};
use crate::link::Explained;

/// The largest body, in bytes.
pub(super) const LARGEST_BODY: usize = 1 << 20;

/// What is asked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    /// The text.
    sql: String,
    /// Who would send it.
    #[serde(default)]
    user: String,
    #[serde(default)]
    database: String,
    #[serde(default)]
    application: String,
    /// Where its client would be: an address, or `local`.
    client: Option<String>,
    /// What the session would have chosen, as with SET punctual.class.
    class: Option<String>,
    /// The same, as with SET punctual.slo.
    slo: Option<String>,
    /// The same, as with SET punctual.priority.
    priority: Option<i32>,
}

pub(super) async fn explain(State(shared): State<Shared>, body: Bytes) -> Response {
    let imagined = match imagine(&shared, &body) {
        Ok(imagined) => imagined,
        Err(wrong) => return refusal(StatusCode::BAD_REQUEST, &wrong),
    };
    let mut told = about(&imagined);
    let Some(query) = imagined.query else {
        told.insert("verdict".to_owned(), "answer".into());
        told.insert("why".to_owned(), "the gateway answers it by itself".into());
        return Json(Value::Object(told)).into_response();
    };
    match tokio::time::timeout(SNAPSHOT_WITHIN, shared.link.explain(query, imagined.under)).await {
        Ok(Ok(Some(explained))) => {
            told.extend(verdict(&explained));
            Json(Value::Object(told)).into_response()
        }
        Ok(Ok(None)) => refusal(StatusCode::SERVICE_UNAVAILABLE, "nothing is decided: queries go by the fallback"),
        Ok(Err(_)) | Err(_) => stalled(),
    }
}

fn imagine(shared: &Shared, body: &[u8]) -> Result<Imagined, String> {
    let question: Question = serde_json::from_slice(body).map_err(|error| {
        format!(
            "the body is not what it should be, {{\"sql\": …}} with user, database, application, client, class, slo, priority: {error}"
        )
    })?;
    let slo = match question.slo.as_deref() {
        None => None,
        Some(text) => match parse_span(text) {
            None => return Err(format!("slo is no duration: {text:?}; write 250ms, 2s, 30m or 1.5h")),
            slo => slo,
        },
    };
    let client = match question.client.as_deref() {
        None => Client::Unknown,
        Some(text) => {
            Client::read(text).ok_or_else(|| format!("client is neither an address nor \"local\": {text:?}"))?
        }
    };
    let Question { sql, user, database, application, class, priority, .. } = &question;
    let origin = Origin { user, database, application, client };
    shared.front.imagine(&Asked { sql, origin, class: class.as_deref(), slo, priority: *priority })
}

/// What is known of the query without asking anybody.
fn about(imagined: &Imagined) -> Map<String, Value> {
    let statement = &imagined.reading.statement;
    let slo = imagined.query.as_ref().and_then(|query| query.slo);
    let claim = imagined.query.as_ref().map(|query| query.claim);
    let asks = claim.and_then(|claim| claim.priority);
    let pairs = [
        ("class", imagined.class.as_str().into()),
        ("class_why", imagined.because.as_str().into()),
        ("slo_s", slo.map(Span::secs_f64).into()),
        ("priority_asked", asks.into()),
        ("scan", claim.and_then(|claim| claim.scan).map_or(Value::Null, scan)),
        ("statement", statement.kind.name().into()),
        ("fingerprint", statement.fingerprint.to_string().into()),
    ];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// How much of time it reads: what is unbounded is null, and named.
fn scan(scan: Scan) -> Value {
    let Scan { reach, duration, segments, segment_range } = scan.bounded();
    json!({
        "reach_s": reach.map(Span::secs_f64),
        "duration_s": duration.map(Span::secs_f64),
        "segments": segments,
        "segment_range_s": segment_range.map(Span::secs_f64),
        "unbounded": scan.unbounded().collect::<Vec<_>>(),
    })
}

fn verdict(explained: &Explained) -> Map<String, Value> {
    let told = match &explained.considered.verdict {
        Verdict::Run(decision) => decided(decision, explained),
        Verdict::Wait(Queued { because, ahead, expected }) => json!({
            "verdict": "wait",
            "why": because.to_string(),
            "ahead": ahead,
            "expected_wait_s": expected.map(Span::secs_f64),
        }),
        Verdict::Refuse(because) => {
            let problem = Problem::refused(because);
            json!({ "verdict": "refuse", "why": because.to_string(), "sqlstate": problem.sqlstate.code() })
        }
    };
    let mut told = if let Value::Object(told) = told { told } else { Map::new() };
    let Considered { starts, priority, lane, .. } = &explained.considered;
    for (key, value) in [("starts", json!(starts)), ("priority", json!(priority)), ("lane", json!(lane))] {
        told.insert(key.to_owned(), value);
    }
    told
}

fn decided(decision: &Decision, explained: &Explained) -> Value {
    let seconds = |of: fn(Predicted) -> Span| decision.predicted.map(|predicted| of(predicted).secs_f64());
    let mut candidates: Value = serde_json::from_str(&catalog::candidates(&decision.candidates)).unwrap_or_default();
    for (candidate, evidence) in candidates.as_array_mut().into_iter().flatten().zip(&decision.candidates) {
        candidate["cluster"] = explained.name(evidence.cluster).into();
    }
    let instead = decision.instead.map(|other| {
        json!({
            "cluster": explained.name(other.cluster),
            "cluster_id": other.cluster.0,
            "why": other.why.to_string(),
            "regret_violations": other.regret.map(|regret| regret.violations),
            "regret_usd": other.regret.map(|regret| regret.cost),
        })
    });
    json!({
        "verdict": "run",
        "cluster": explained.name(decision.cluster),
        "cluster_id": decision.cluster.0,
        "why": decision.why.to_string(),
        "predicted_p50_s": seconds(|predicted| predicted.p50),
        "predicted_p90_s": seconds(|predicted| predicted.p90),
        "isolated_s": seconds(|predicted| predicted.isolated),
        "candidates": candidates,
        "instead": instead,
    })
}
