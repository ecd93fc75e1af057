//! `DELETE /v1/fs/<path>`: a file; with a trailing slash a directory, with all it holds if asked.

use axum::extract::State;
use axum::http::{StatusCode, Uri};

use super::App;
use super::extract::{Params, Preconditions, Target};
use super::fs_put::pin;
use super::problem::{Problem, Result};
use crate::drive::{DriveError, Node};
use crate::schema::DrivePath;

pub async fn delete(
    State(app): State<App>,
    target: Target,
    preconditions: Preconditions,
    uri: Uri,
) -> Result<StatusCode> {
    if target.path.is_root() {
        return Err(Problem::method("GET, HEAD, PUT", "The root is always there: remove what is in it."));
    }
    if !target.directory {
        Params::parse(uri.query(), &[])?;
        let condition = pin(&app, &target.path, preconditions).await?;
        app.drive.delete(&target.path, &condition).await?;
        return Ok(StatusCode::NO_CONTENT);
    }
    let recursive = Params::parse(uri.query(), &["recursive"])?.flag("recursive", false)?;
    check_directory(&app, &target.path, &preconditions, recursive).await?;
    if recursive {
        app.drive.delete_subtree(&target.path).await?;
        return Ok(StatusCode::NO_CONTENT);
    }
    app.drive.rmdir(&target.path).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn check_directory(app: &App, path: &DrivePath, preconditions: &Preconditions, recursive: bool) -> Result<()> {
    if *preconditions == Preconditions::default() && !recursive {
        return Ok(());
    }
    let there = match app.drive.stat(path).await {
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
