//! `PUT /s/<secret>/fs/<name>`: an upload by a share.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
use axum::http::{HeaderMap, StatusCode, Uri, Version};
use axum::response::{IntoResponse, Response};

use super::by_share::within_share;
use super::upload::UploadHeaders;
use crate::api::entry::SharedUpload;
use crate::api::problem::ProblemKind;
use crate::drive::{Condition, DriveError, PutError, PutOptions, UserDrive};
use crate::http::app::App;
use crate::http::request::audit::{Audit, AuditEvent};
use crate::http::request::body::{check_end, pieces};
use crate::http::request::path::decode;
use crate::http::request::watched::while_allowed;
use crate::http::request::{Creator, Params, RequestPath};
use crate::http::response::json;
use crate::http::response::problem::{Problem, Result};
use crate::schema::DrivePath;

/// Upload a file by a share
///
/// A new file in the directory of the share. Nothing is replaced: if the name is taken, the file gets another one, which the
/// answer does not tell. The maker of the share is its creator, and his quota counts.
#[utoipa::path(put, path = "/s/{secret}/fs/{path}", operation_id = "upload_by_share", tag = "shares",
    params(("secret" = String, Path, description = "From `url` of the share"),
           ("path" = String, Path, description = "The name of the file, percent-encoded"),
           ("modified" = Option<String>, Query, format = DateTime, description = "When the content was made: RFC 3339, with a zone"),
           ("X-OC-Mtime" = Option<String>, Header, description = "The same, in unix seconds"),
           ("Repr-Digest" = Option<String>, Header, description = "`sha-256=:<base64>:`, verified"),
           ("Content-Digest" = Option<String>, Header, description = "The same: a body has no coding here")),
    request_body(content = String, content_type = "*/*", description = "The content"),
    responses((status = 201, description = "Stored; with the name that was sent", body = SharedUpload)))]
pub async fn put(
    State(app): State<App>,
    drive: UserDrive,
    (creator, audit): (Creator, Audit),
    (uri, version): (Uri, Version),
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    within_share(add((&app, &drive), (creator, audit), (&uri, version), &headers, body).await)
}

async fn add(
    (app, drive): (&App, &UserDrive),
    (creator, audit): (Creator, Audit),
    (uri, version): (&Uri, Version),
    headers: &HeaderMap,
    body: Body,
) -> Result<Response> {
    let target = RequestPath::of_share(uri)?;
    let name = match target.path.split() {
        Some((parent, name)) if parent.is_root() && !target.directory => name,
        _ => return Err(Problem::malformed("The link of an upload share takes files, and no folders: send one name.")),
    };
    if [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE].iter().any(|name| headers.contains_key(name)) {
        return Err(Problem::malformed("The link of an upload share replaces nothing, so it takes no conditions."));
    }
    check_end(version, headers)?;
    let params = Params::parse(uri.query(), &["modified"])?;
    let asked = UploadHeaders::parse(&target.path, &params, headers, app.options.max_body)?;
    let options = PutOptions {
        mime: asked.mime,
        creator: creator.0,
        modified: asked.modified,
        parents: false,
        condition: Condition::default(),
        length: asked.length,
        digests: asked.digests.values().collect(),
    };
    let pieces = while_allowed(pieces(body, asked.length, app.options.max_body), || drive.find_shared());
    let written = drive.add(&name, options, pieces).await.map_err(|error| match error {
        PutError::Drive(DriveError::DigestMismatch(found)) => asked.digests.mismatch(found),
        error => refused(error),
    })?;
    let path: &DrivePath = written.node.path();
    audit.note(AuditEvent::ShareUpload, Some(path.as_str()));
    // As it was sent: which names are taken is not told.
    let sent = decode(uri.path().rsplit_once('/').unwrap_or_default().1)?;
    let answer = SharedUpload { name: sent.into_owned(), size: written.size() };
    Ok((StatusCode::CREATED, json::json(&answer)?).into_response())
}

/// Why a file is not stored. What bounds the uploads is of the maker: only that there is no room is told.
pub fn refused(error: PutError<Problem>) -> Problem {
    let problem = match error {
        // Where the folder is, is not told.
        PutError::Drive(DriveError::Path(_)) => {
            Problem::malformed("The folder of this link takes no file of such a name: send one with a shorter name.")
        }
        PutError::Drive(error) => error.into(),
        PutError::Body(problem) => problem,
    };
    match problem.kind() {
        ProblemKind::Quota => Problem::new(
            ProblemKind::ShareFull,
            "By this link there is no room for so much: send less, or ask whoever has sent you the link for more.",
        ),
        _ => problem,
    }
}
