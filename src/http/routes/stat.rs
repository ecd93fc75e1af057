//! `GET /v1/stat/<path>`: the entry of a file or directory.

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;

use super::App;
use super::extract::{Params, Target};
use super::problem::{Problem, Result};
use super::{entry, respond};

/// The entry of a file or directory
#[utoipa::path(get, path = "/v1/stat/{path}", operation_id = "stat", tag = "files",
    params(("path" = String, Path, description = "Names, percent-encoded, with slashes between them")),
    responses((status = 200, description = "The entry", body = entry::View<'static>)))]
pub async fn get(State(app): State<App>, target: Target, uri: Uri) -> Result<Response> {
    Params::parse(uri.query(), &[])?;
    let node = app.drive.stat(&target.path).await.map_err(Problem::reading)?;
    if target.directory && !node.is_directory() {
        return Err(Problem::not_found());
    }
    respond::json(&entry::view(&node))
}
