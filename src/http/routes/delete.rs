//! `DELETE /v1/fs/<path>`: a file; with a trailing slash a directory, and with `recursive` its whole subtree.

use axum::http::{StatusCode, Uri};

use crate::drive::{DriveError, Node, UserDrive};
use crate::http::request::condition::resolve_condition;
use crate::http::request::{Params, Preconditions, RequestPath};
use crate::http::response::problem::{Problem, Result};
use crate::schema::DrivePath;

/// Delete a file
#[utoipa::path(delete, path = "/v1/fs/{path}", operation_id = "delete", tag = "files",
    params(("path" = String, Path, description = "Names, percent-encoded, with slashes between them"),
           ("If-Match" = Option<String>, Header, description = "Delete only this version"),
           ("If-None-Match" = Option<String>, Header, description = "Delete only another version"),
           ("If-Unmodified-Since" = Option<String>, Header, description = "Delete only a version that is not newer")),
    responses((status = 204, description = "Deleted")))]
pub async fn delete(
    drive: UserDrive,
    target: RequestPath,
    preconditions: Preconditions,
    uri: Uri,
) -> Result<StatusCode> {
    if target.path.is_root() {
        return Err(Problem::method("GET, HEAD, PUT", "The root is always there: remove what is in it."));
    }
    if !target.directory {
        Params::parse(uri.query(), &[])?;
        let condition = resolve_condition(&drive, &target.path, preconditions).await?;
        drive.delete(&target.path, &condition).await?;
        return Ok(StatusCode::NO_CONTENT);
    }
    delete_directory(&drive, &target.path, &preconditions, &uri).await
}

/// Delete a directory
///
/// An empty one, or with `recursive` all that it holds: at one instant for all readers.
#[utoipa::path(delete, path = "/v1/fs/{path}/", operation_id = "delete_directory", tag = "files",
    params(("path" = String, Path, description = "Names, percent-encoded, with slashes between them"),
           ("recursive" = Option<bool>, Query, description = "With all that it holds")),
    responses((status = 204, description = "Deleted")))]
pub async fn delete_directory(
    drive: &UserDrive,
    path: &DrivePath,
    preconditions: &Preconditions,
    uri: &Uri,
) -> Result<StatusCode> {
    let recursive = Params::parse(uri.query(), &["recursive"])?.flag("recursive", false)?;
    check_directory(drive, path, preconditions, recursive).await?;
    if recursive {
        drive.delete_subtree(path).await?;
        return Ok(StatusCode::NO_CONTENT);
    }
    drive.rmdir(path).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn check_directory(
    drive: &UserDrive,
    path: &DrivePath,
    preconditions: &Preconditions,
    recursive: bool,
) -> Result<()> {
    if *preconditions == Preconditions::default() && !recursive {
        return Ok(());
    }
    let there = match drive.stat(path).await {
        Ok(Node::Directory { .. }) => true,
        Ok(Node::File { .. }) | Err(DriveError::NotFound) => false,
        Err(error) => return Err(error.into()),
    };
    match (preconditions.hold_for_directory(there), there) {
        (false, _) => Err(Problem::precondition()),
        (true, false) => Err(Problem::not_found()),
        (true, true) => Ok(()),
    }
}
