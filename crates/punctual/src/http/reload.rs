//! `POST /v1/reload`: reads the configuration again, as SIGHUP does, and says what came of it.
//!
//! ```text
//!   200 {"changed": ["policy.wait_limit", "class"], "restart": ["gateway.listen"]}
//!   400 {"error": "…", "problems": [{"line": 3, "column": 1, "key": "policy.max_wait", "found": "…", "fix": "…"}]}
//! ```

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::{Shared, refusal};
use crate::config::ConfigError;
use crate::reload::ReloadError;

pub(super) async fn reload(State(shared): State<Shared>) -> Response {
    let reload = Arc::clone(&shared.reload);
    // It is not left half done if whoever asked for it goes away.
    let outcome = tokio::spawn(async move { reload.reload().await }).await;
    match outcome {
        Ok(Ok(reloaded)) => Json(json!({ "changed": reloaded.changed, "restart": reloaded.restart })).into_response(),
        Ok(Err(error)) => refused(&error),
        Err(_) => refusal(StatusCode::INTERNAL_SERVER_ERROR, "reading the configuration failed; see the log"),
    }
}

fn refused(error: &ReloadError) -> Response {
    let status = match error {
        ReloadError::NoFile => StatusCode::CONFLICT,
        ReloadError::Config(_) => StatusCode::BAD_REQUEST,
        ReloadError::Tables(_) => StatusCode::INTERNAL_SERVER_ERROR,
        ReloadError::Degraded | ReloadError::Ending => StatusCode::SERVICE_UNAVAILABLE,
    };
    let problems: Vec<Value> = match error {
        ReloadError::Config(ConfigError::Wrong { problems, .. }) => {
            problems.iter().map(|problem| json!(problem)).collect()
        }
        _ => return refusal(status, &error.to_string()),
    };
    (status, Json(json!({ "error": error.to_string(), "problems": problems }))).into_response()
}
