//! `/v1/plan`: a plan is adopted, or taken back. What is in one, and why, says [`file`](crate::plan::file).
//!
//! ```text
//!   POST    the file of a plan   200 {"plan": "4f…"}     409 {"error": "its day is over"}
//!   DELETE                       200 {"dropped": 1}      404 {"error": "no plan is followed"}
//! ```

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use punctual_core::Event;
use serde_json::json;

use super::{Shared, look, refusal, stalled};
use crate::auth::tokens::Grant;
use crate::plan::file;

pub(super) async fn adopt(State(shared): State<Shared>, Extension(grant): Extension<Grant>, body: Bytes) -> Response {
    if let Some(refused) = stranger(&shared, &grant) {
        return refused;
    }
    let plan = match file::parse(&body) {
        Ok(plan) => plan,
        Err(error) => return refusal(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let id = plan.id;
    match shared.link.follow(plan).await {
        Ok(Some(Ok(()))) => Json(json!({ "plan": id.to_string() })).into_response(),
        Ok(Some(Err(because))) => refusal(StatusCode::CONFLICT, &because.to_string()),
        Ok(None) => refusal(StatusCode::SERVICE_UNAVAILABLE, "the dispatcher has failed, and follows no plan"),
        Err(_) => stalled(),
    }
}

pub(super) async fn drop_all(State(shared): State<Shared>, Extension(grant): Extension<Grant>) -> Response {
    if let Some(refused) = stranger(&shared, &grant) {
        return refused;
    }
    let Some(snapshot) = look(&shared.link).await else { return stalled() };
    let dropped = snapshot.view.planning.plans.len();
    if dropped == 0 {
        return refusal(StatusCode::NOT_FOUND, "no plan is followed");
    }
    match shared.link.happened(Event::PlanDropped).await {
        Ok(()) => Json(json!({ "dropped": dropped })).into_response(),
        Err(_) => stalled(),
    }
}

/// What is told to those who may not decide about plans: they cost money, so it takes an administrator.
fn stranger(shared: &Shared, grant: &Grant) -> Option<Response> {
    let is_admin = match grant {
        Grant::Nobody => false,
        Grant::User(user) => shared.front.guard().access().is_admin(user),
        Grant::Anyone => true,
    };
    let why =
        "only an administrator may decide about plans: show a token of one of gateway.admins, or one for all users (*)";
    (!is_admin).then(|| refusal(StatusCode::FORBIDDEN, why))
}
