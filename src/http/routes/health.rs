//! `/healthz` and `/readyz`.

use axum::extract::State;

use crate::api::problem::ProblemKind;
use crate::http::app::App;
use crate::http::response::problem::{Problem, Result};

/// Whether the process lives
#[utoipa::path(get, path = "/healthz", operation_id = "alive", tag = "operating",
    responses((status = 200, description = "It does", content_type = "text/plain", body = String)))]
pub async fn alive() -> &'static str {
    "ok\n"
}

/// Whether the drive can serve, reads and writes
#[utoipa::path(get, path = "/readyz", operation_id = "ready", tag = "operating",
    responses((status = 200, description = "It can", content_type = "text/plain", body = String)))]
pub async fn ready(State(app): State<App>) -> Result<&'static str> {
    // A drive that takes no changes, or that has no disk space, has problem kinds of its own.
    app.drive.works()?;
    app.drive.ready().await.map_err(|error| {
        tracing::warn!(cause = ?error, "not ready");
        Problem::new(ProblemKind::Busy, "The server cannot serve yet: try again.")
    })?;
    Ok("ok\n")
}
