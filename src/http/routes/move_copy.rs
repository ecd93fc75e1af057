//! `POST /v1/move` and `/v1/copy`.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;

use crate::api::entry::{CopiedEntryJson, EntryJson, MoveRequest};
use crate::api::path::below;
use crate::api::problem::ProblemKind;
use crate::drive::{DriveError, Node, UserDrive};
use crate::http::app::App;
use crate::http::request::body::json;
use crate::http::request::path::parse_text;
use crate::http::request::{Creator, Params};
use crate::http::response::entry::{copied_json, entry_json};
use crate::http::response::problem::{Problem, Result};
use crate::http::response::written::{write_response, write_response_with};
use crate::schema::DrivePath;

/// Move a file or a directory
///
/// A moved file keeps its id, times and creator. A directory moves with all it holds, at one instant for all
/// readers. The target's parent must be there.
#[utoipa::path(post, path = "/v1/move", operation_id = "move", tag = "files", request_body = MoveRequest,
    responses((status = 201, description = "Moved", body = EntryJson<'static>),
              (status = 200, description = "Moved over a file, which is gone", body = EntryJson<'static>)))]
pub async fn move_to(
    State(app): State<App>,
    drive: UserDrive,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    let (from, to, overwrite) = read((&app, &drive), &uri, &headers, body).await?;
    write_response(&drive.move_node(&from, &to, overwrite).await.map_err(refused)?)
}

/// Copy a file or a directory
///
/// A copy has an id of its own. A directory is copied file by file, so that a copy may be seen half done; with
/// `overwrite` it merges into one that is there, and a repeat completes what was cut short.
#[utoipa::path(post, path = "/v1/copy", operation_id = "copy", tag = "files", request_body = MoveRequest,
    responses((status = 201, description = "Copied", body = CopiedEntryJson<'static>),
              (status = 200, description = "Copied over a file, or into a directory", body = CopiedEntryJson<'static>)))]
pub async fn copy_to(
    State(app): State<App>,
    drive: UserDrive,
    creator: Creator,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    let (from, to, overwrite) = read((&app, &drive), &uri, &headers, body).await?;
    let (made, copied) = drive.copy_node(&from, &to, overwrite, &creator.0).await.map_err(refused)?;
    write_response_with(&made, &CopiedEntryJson { entry: entry_json(&made.node), copied: copied.map(copied_json) })
}

async fn read(
    (app, drive): (&App, &UserDrive),
    uri: &Uri,
    headers: &HeaderMap,
    body: Body,
) -> Result<(DrivePath, DrivePath, bool)> {
    Params::parse(uri.query(), &[])?;
    let asked: MoveRequest = json(app.drive.memory(), headers, body).await?;
    let (from, to) = (parse_text("from", &asked.from)?, parse_text("to", &asked.to)?);
    // The line of the request has the path of the route alone.
    let [from_text, to_text] = [&from, &to].map(|path| below("", path, false));
    tracing::info!(from = from_text, to = to_text, overwrite = asked.overwrite, "a move or a copy");
    let (from_slash, to_slash) = (asked.from.ends_with('/'), asked.to.ends_with('/') && !to.is_root());
    // A trailing slash means a directory, as in all routes.
    if from_slash || to_slash {
        let node = drive.stat(&from).await.map_err(Problem::reading)?;
        if matches!(node, Node::File { .. }) {
            return Err(if from_slash {
                Problem::not_found()
            } else {
                Problem::malformed(
                    "`to` ends with a slash, which means a directory, and `from` is a file: write the file's new path in full.",
                )
            });
        }
    }
    Ok((from, to, asked.overwrite))
}

fn refused(error: DriveError) -> Problem {
    match error {
        // The two paths are valid, but the path of an entry below the source would be too long.
        DriveError::Path(_) => Problem::new(
            ProblemKind::PathTooLong,
            "Something below would get a path too long or too deep: choose a shorter target.",
        ),
        other => other.into(),
    }
}
