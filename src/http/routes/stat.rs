//! `GET /v1/stat/<path>`: the entry of a file or directory.

use axum::http::Uri;
use axum::http::request::Parts;
use axum::response::Response;

use crate::api::entry::EntryJson;
use crate::drive::UserDrive;
use crate::http::app::App;
use crate::http::request::{Params, RequestPath, drive_of};
use crate::http::response::json;
use crate::http::response::problem::{Problem, Result};

/// As [`get`], of the parts of a request.
pub async fn get_parts(app: App, parts: Parts) -> Result<Response> {
    get(drive_of(&app, &parts.extensions), RequestPath::of(&parts.uri)?, parts.uri).await
}

/// The entry of a file or directory
#[utoipa::path(get, path = "/v1/stat/{path}", operation_id = "stat", tag = "files",
    params(("path" = String, Path, description = "Names, percent-encoded, with slashes between them")),
    responses((status = 200, description = "The entry", body = EntryJson<'static>)))]
pub async fn get(drive: UserDrive, target: RequestPath, uri: Uri) -> Result<Response> {
    Params::parse(uri.query(), &[])?;
    let node = drive.stat(&target.path).await.map_err(Problem::reading)?;
    if target.directory && !node.is_directory() {
        return Err(Problem::not_found());
    }
    Ok(json::entry(&node))
}
