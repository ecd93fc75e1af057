//! `GET /metrics`.

use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::text;

use crate::http::app::App;
use crate::http::response::problem::{Problem, Result};

/// The format of `/metrics`: OpenMetrics 1.0, which Prometheus accepts like its own text format.
const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the server counts, for Prometheus
#[utoipa::path(get, path = "/metrics", operation_id = "metrics", tag = "operating",
    responses((status = 200, description = "In the OpenMetrics format", content_type = MEDIA_TYPE, body = String)))]
pub async fn get(State(app): State<App>) -> Result<Response> {
    // Some values are read from the database and the file system, which may block.
    let encoded = tokio::task::spawn_blocking(move || {
        // Updates the metric that shows whether the drive takes writes.
        let _known = app.drive.works();
        let mut out = String::new();
        text::encode(&mut out, &app.registry).map(|()| out)
    });
    let encoded = encoded.await.map_err(|e| Problem::internal(&e))?;
    let out = encoded.map_err(|e| Problem::internal(&e))?;
    let headers =
        [(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE)), (CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    Ok((headers, out).into_response())
}
