//! HTTP: metrics, health, what the gateway knows as JSON, and queries.
//!
//! | path | answers |
//! |---|---|
//! | `/metrics` | Prometheus's text format |
//! | `/healthz` | 200 if the driver answers in time |
//! | `/readyz` | 200 if a query could run: a cluster is ready, nothing is shutting down |
//! | `/v1/queries`, `/v1/clusters`, `/v1/classes`, `/v1/lanes`, `/v1/decisions`, `/v1/scaling`, `/v1/plan`, `/v1/controllers`, `/v1/model` | the rows of the schema `punctual`; `?limit=` |
//! | `POST /v1/explain` | where a query would go if it came now, and why: [`explain`] |
//! | `POST /v1/query` | runs a query: [`query`] |
//! | `DELETE /v1/queries/ID` | cancels a query |
//! | `POST /v1/plan`, `DELETE /v1/plan` | has a plan followed, or takes all back: [`plan`] |
//! | `POST /v1/reload` | reads the configuration again: [`reload`] |
//! | `/openapi.json` | all of this for programs: [`openapi`] |
//!
//! Where there are tokens, each request but those for health has to show one, and none of a page from elsewhere can.
//! Without them it listens on loopback alone, where a browser can be led to it by a name that an attacker points there
//! (DNS rebinding): so a `Host` that is not this machine is refused, and so is an `Origin`. As whom a query is run is never only
//! claimed: [`Grant`]. Connections, their time, and the time of each request are bounded; a query may take as long as the
//! gateway lets it.

mod bounded;
mod explain;
mod openapi;
mod plan;
mod query;
mod reload;
mod rows;

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use punctual_core::Event;
use punctual_core::cluster::Phase;
use punctual_core::id::QueryId;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::auth::tokens::Grant;
use crate::catalog::{CLASSES, CLUSTERS, CONTROLLERS, DECISIONS, LANES, MODEL, PLAN, QUERIES, Reader, SCALING, Table};
use crate::door;
use crate::link::{Link, Snapshot};
use crate::metrics::{MEDIA_TYPE, Metrics};
use crate::reload::Reload;
use crate::settings::{Access, Auth};
use bounded::{Bounded, Bounds, Place};
use openapi::Routes;

/// How long the driver may take for a snapshot before it counts as stalled.
const SNAPSHOT_WITHIN: Duration = Duration::from_secs(2);

/// How long a request may take.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);

/// Where queries are sent to.
const QUERY: &str = "/v1/query";

/// Rows that a list has, and the most that may be asked for.
const ROWS: usize = 100;
const MAX_ROWS: usize = 10_000;

/// What requests are answered from.
#[derive(Clone)]
pub struct Shared {
    /// The way to the driver.
    pub link: Link,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// How queries are read.
    pub front: Arc<door::Shared>,
    /// The way to other settings.
    pub reload: Arc<Reload>,
    /// Places of queries that come this way.
    queries: Arc<Semaphore>,
}

impl Shared {
    /// What requests are answered from.
    pub fn new(link: Link, metrics: Arc<Metrics>, front: Arc<door::Shared>, reload: Arc<Reload>) -> Shared {
        Shared { link, metrics, front, reload, queries: Arc::new(Semaphore::new(query::AT_ONCE)) }
    }
}

/// Serves until `until` is over, then lets the requests that are here finish.
///
/// # Errors
/// If the listener's own address cannot be told.
pub async fn serve(
    listener: TcpListener,
    shared: Shared,
    until: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    serve_within(Bounds::default(), listener, shared, until).await
}

async fn serve_within(
    bounds: Bounds,
    listener: TcpListener,
    shared: Shared,
    until: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let router = routes(shared).into_make_service_with_connect_info::<Place>();
    axum::serve(Bounded::new(listener, bounds), router).with_graceful_shutdown(until).await
}

fn routes(shared: Shared) -> Router {
    let list = |table: &'static Table, newest_first: bool| {
        move |state: State<Shared>, uri: Uri| list(state, uri, table, newest_first)
    };
    Routes::new()
        .on(openapi::metrics(), metrics)
        .on(openapi::health(), healthz)
        .on(openapi::readiness(), readyz)
        .on(openapi::list(&QUERIES), list(&QUERIES, false))
        .on(openapi::list(&CLUSTERS), list(&CLUSTERS, false))
        .on(openapi::list(&CLASSES), list(&CLASSES, false))
        .on(openapi::list(&LANES), list(&LANES, false))
        .on(openapi::list(&DECISIONS), list(&DECISIONS, true))
        .on(openapi::list(&SCALING), list(&SCALING, true))
        .on(openapi::list(&PLAN), list(&PLAN, false))
        .on(openapi::adopt_plan(), plan::adopt)
        .on(openapi::drop_plans(), plan::drop_all)
        .on(openapi::list(&CONTROLLERS), list(&CONTROLLERS, false))
        .on(openapi::list(&MODEL), list(&MODEL, false))
        .on(openapi::cancel(), cancel)
        .on(openapi::run(), query::query)
        .on(openapi::explain(), explain::explain)
        .on(openapi::reload(), reload::reload)
        .served()
        .fallback(|| async { refusal(StatusCode::NOT_FOUND, "there is nothing at this path") })
        .with_state(shared.clone())
        .layer(middleware::from_fn_with_state(shared, guard))
}

/// Cancels a query, whether it waits or runs.
async fn cancel(State(shared): State<Shared>, Path(id): Path<String>) -> Response {
    let Ok(id) = id.parse().map(QueryId) else {
        return refusal(StatusCode::BAD_REQUEST, "a query's id is a number, as in /v1/queries");
    };
    let Some(snapshot) = look(&shared.link).await else { return stalled() };
    if !snapshot.view.queries.iter().any(|query| query.id == id) {
        return refusal(StatusCode::NOT_FOUND, "no such query waits or runs");
    }
    match shared.link.happened(Event::Cancel { query: id }).await {
        Ok(()) => (StatusCode::ACCEPTED, Json(json!({ "cancelled": id.to_string() }))).into_response(),
        Err(_) => stalled(),
    }
}

/// Refuses strangers, and ends what takes too long.
async fn guard(State(shared): State<Shared>, mut request: Request, next: Next) -> Response {
    let place = request.extensions().get().map(|ConnectInfo::<Place>(place)| place.clone());
    match admitted(&shared.front.guard().access(), &request) {
        Ok(grant) => drop(request.extensions_mut().insert(grant)),
        Err(refusal) => return *refusal,
    }
    let (head, body) = request.into_parts();
    let may_take_long = head.uri.path() == QUERY;
    // Until it is here whole, the connection waits like any whose request has not been sent.
    let Ok(body) = to_bytes(body, explain::LARGEST_BODY).await else {
        return refusal(StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than 1 MiB, or did not come whole");
    };
    let _answering = place.as_ref().map(Place::answers);
    let answer = next.run(Request::from_parts(head, Body::from(body)));
    if may_take_long {
        return answer.await;
    }
    match tokio::time::timeout(REQUEST_WITHIN, answer).await {
        Ok(response) => response,
        Err(_) => refusal(StatusCode::SERVICE_UNAVAILABLE, "the request took too long"),
    }
}

/// As whom a request may run queries; Err with what it is told if it may not come in at all.
fn admitted(access: &Access, request: &Request) -> Result<Grant, Box<Response>> {
    let Some(tokens) = &access.tokens else {
        from_elsewhere(request)?;
        // Where the front door asks for a password, this is no way around it.
        return Ok(if access.auth == Auth::Trust { Grant::Anyone } else { Grant::Nobody });
    };
    let shown = request.headers().get(header::AUTHORIZATION).and_then(|shown| shown.to_str().ok());
    let (scheme, token) = shown.and_then(|shown| shown.split_once(' ')).unwrap_or_default();
    let grant = if scheme.eq_ignore_ascii_case("bearer") { tokens.grant(token.trim()) } else { None };
    match grant {
        Some(grant) => Ok(grant.clone()),
        None if matches!(request.uri().path(), "/healthz" | "/readyz") => Ok(Grant::Nobody),
        None => {
            let refused =
                refusal(StatusCode::UNAUTHORIZED, "show a token that is known, as Authorization: Bearer TOKEN");
            let challenge = [(header::WWW_AUTHENTICATE, "Bearer realm=\"punctual\"")];
            Err(Box::new((challenge, refused).into_response()))
        }
    }
}

/// Refuses a request that was led here from elsewhere.
fn from_elsewhere(request: &Request) -> Result<(), Box<Response>> {
    let forbidden = |why| Err(Box::new(refusal(StatusCode::FORBIDDEN, why)));
    if !is_for_us(request.headers(), request.uri()) {
        return forbidden("the Host is not this machine: use localhost, 127.0.0.1 or [::1]");
    }
    if !is_from_us(request.headers()) {
        return forbidden("the Origin is not this machine");
    }
    Ok(())
}

/// True if every host that the request names is this machine, and it names one.
fn is_for_us(headers: &HeaderMap, uri: &Uri) -> bool {
    let named: Vec<Option<&str>> = headers.get_all(header::HOST).iter().map(|host| host.to_str().ok()).collect();
    let is_ours = |host: &Option<&str>| host.is_some_and(is_loopback);
    !named.is_empty() && named.iter().all(is_ours) && uri.host().is_none_or(is_loopback)
}

/// True if no page from elsewhere has sent the request: a browser says from where, of all that may change something.
fn is_from_us(headers: &HeaderMap) -> bool {
    headers.get_all(header::ORIGIN).iter().all(|origin| {
        let host = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
        host.is_some_and(|(_, host)| is_loopback(host))
    })
}

/// `localhost`, `127.0.0.1` and the like, with or without a port.
fn is_loopback(host: &str) -> bool {
    let bare = match host.rsplit_once(':') {
        Some((bare, port))
            if port.bytes().all(|c| c.is_ascii_digit()) && (bare.ends_with(']') || !bare.contains(':')) =>
        {
            bare
        }
        _ => host,
    };
    let bare = bare.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(bare);
    bare.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

async fn metrics(State(shared): State<Shared>) -> Response {
    let snapshot = look(&shared.link).await;
    ([(header::CONTENT_TYPE, MEDIA_TYPE)], shared.metrics.text(snapshot.as_ref())).into_response()
}

async fn healthz(State(shared): State<Shared>) -> Response {
    match look(&shared.link).await {
        Some(snapshot) => Json(json!({ "status": "ok", "degraded": snapshot.degraded })).into_response(),
        None => stalled(),
    }
}

async fn readyz(State(shared): State<Shared>) -> Response {
    let Some(Snapshot { view, .. }) = look(&shared.link).await else { return stalled() };
    if view.shutting_down {
        refusal(StatusCode::SERVICE_UNAVAILABLE, "the gateway is shutting down")
    } else if !view.clusters.iter().any(|cluster| cluster.phase == Phase::Ready) {
        refusal(StatusCode::SERVICE_UNAVAILABLE, "no cluster is ready")
    } else {
        Json(json!({ "status": "ready" })).into_response()
    }
}

/// The rows of a table, without the texts of queries: HTTP does not say who asks.
async fn list(State(shared): State<Shared>, uri: Uri, table: &'static Table, newest_first: bool) -> Response {
    let Some(limit) = limit(uri.query().unwrap_or_default()) else {
        return refusal(StatusCode::BAD_REQUEST, "the only parameter is limit, a whole number from 0 to 10000");
    };
    let Some(snapshot) = look(&shared.link).await else { return stalled() };
    let mut rows = (table.rows)(&snapshot, Reader::Nobody);
    if newest_first {
        rows.reverse();
    }
    rows.truncate(limit);
    Json(json!({ table.name: table.json(rows) })).into_response()
}

/// What `limit=` says; the usual if nothing does; None if it says nonsense.
fn limit(query: &str) -> Option<usize> {
    let mut limit = ROWS;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        limit = pair.strip_prefix("limit=")?.parse().ok().filter(|limit| *limit <= MAX_ROWS)?;
    }
    Some(limit)
}

async fn look(link: &Link) -> Option<Snapshot> {
    look_within(link, SNAPSHOT_WITHIN).await
}

async fn look_within(link: &Link, within: Duration) -> Option<Snapshot> {
    tokio::time::timeout(within, link.look()).await.ok()?.ok()
}

fn stalled() -> Response {
    refusal(StatusCode::SERVICE_UNAVAILABLE, "the driver does not answer")
}

/// Every error has this form.
fn refusal(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({ "error": message }))).into_response()
}

#[cfg(test)]
mod tests;
