//! `/healthz` and `/readyz`.

use axum::extract::State;

use super::App;
use super::problem::{Kind, Problem, Result};

/// The process is alive.
pub async fn alive() -> &'static str {
    "ok\n"
}

/// The drive can serve.
pub async fn ready(State(app): State<App>) -> Result<&'static str> {
    app.drive.ready().await.map_err(|error| {
        tracing::warn!(cause = ?error, "not ready");
        Problem::new(Kind::Busy, "The server cannot serve yet: try again.")
    })?;
    Ok("ok\n")
}
