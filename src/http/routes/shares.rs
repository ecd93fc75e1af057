//! `/v1/shares`: what people without an account may do by a link.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use super::tokens::revoke;
use crate::api::account::{ShareJson, ShareModeJson, ShareRequest, SharesJson, UPLOAD_BYTES};
use crate::api::path::share_link;
use crate::auth::{AuthError, Credential, ListedShare, NewShare, password};
use crate::drive::UserDrive;
use crate::http::app::App;
use crate::http::request::Params;
use crate::http::request::account::{expiry, json_of_users, require_users, secret_id};
use crate::http::request::audit::{Audit, AuditEvent};
use crate::http::request::path::parse_text;
use crate::http::response::cursor::CursorScope;
use crate::http::response::problem::{Problem, Result};
use crate::http::response::{json, list};
use crate::schema::secret::SecretKind;
use crate::schema::share::{ShareMode, ShareTarget};
use crate::schema::{DrivePath, Timestamp};

/// The shares of a directory or file, or those of a user
///
/// With `path` those of this directory or file alone, whoever has made them, for who may share there. Without, those
/// that the user has made.
#[utoipa::path(get, path = "/v1/shares", operation_id = "shares", tag = "access",
    params(("path" = Option<String>, Query, description = "A directory or file, as `/photos`"),
           ("user" = Option<String>, Query, description = "Those of another user, for an admin; with `path` only his"),
           ("limit" = Option<u32>, Query, minimum = 1, maximum = 10000, description = "Shares of a page; 1000 unless told, and never more"),
           ("cursor" = Option<String>, Query, description = "`next` of the page before")),
    responses((status = 200, description = "A page of shares", body = SharesJson)))]
pub async fn get(State(app): State<App>, drive: UserDrive, by: Credential, uri: Uri) -> Result<Response> {
    let params = Params::parse(uri.query(), &["path", "user", "limit", "cursor"])?;
    let (path, limit) = (params.path("path")?, list::items(params.limit()?));
    require_users(&app).await?;
    let authority = app.auth.require_sharing(&by).await?;
    let owner = app.auth.owner_of_secrets(&by, params.text("user")).await?;
    let permit = list::permit(&app, limit, list::WITH_PATH).await?;
    let mut all = match &path {
        Some(path) => {
            let (chain, target) = drive.share_target(path).await.map_err(Problem::reading)?;
            let all = app.auth.shares_of(&by, &chain, target).await?;
            let is_asked = |share: &ListedShare| params.text("user").is_none() || share.user == owner;
            all.into_iter().filter(is_asked).collect()
        }
        None => app.auth.shares(&by, &owner).await?,
    };
    if !authority.is_for_account() {
        all = visible(&drive, all).await?;
    }
    let scope = CursorScope::new("shares").filter(Some(owner.as_str())).filter(params.text("user"));
    let scope = scope.filter(path.as_ref().map(|path| path.as_str()));
    let keyed = all.into_iter().map(|share| (share.id.0.to_string(), share)).collect();
    let (shares, next) = list::page(keyed, (limit, params.text("cursor")), &scope)?;
    let targets: Vec<ShareTarget> = shares.iter().map(|share| share.share.target).collect();
    let paths = drive.share_paths(&targets).await?;
    let shares = shares.iter().map(|share| share_json(share, paths.get(&share.share.target), None)).collect();
    let page = SharesJson { shares, next };
    list::response(&page, page.next.as_deref(), &uri, permit)
}

/// The shares whose target the requester sees: a token for one directory has to do with no others.
async fn visible(drive: &UserDrive, all: Vec<ListedShare>) -> Result<Vec<ListedShare>> {
    let targets: Vec<ShareTarget> = all.iter().map(|listed| listed.share.target).collect();
    let paths = drive.share_paths(&targets).await?;
    Ok(all.into_iter().filter(|listed| paths.contains_key(&listed.share.target)).collect())
}

fn share_json(listed: &ListedShare, path: Option<&DrivePath>, url: Option<String>) -> ShareJson {
    let share = &listed.share;
    let left = share.limit().map(|limit| limit.saturating_sub(listed.used));
    let (mode, downloads, bytes) = match share.mode {
        ShareMode::Read { .. } => (ShareModeJson::Read, left, None),
        ShareMode::Upload { .. } => (ShareModeJson::Upload, None, left),
    };
    ShareJson {
        id: listed.id.0.to_string(),
        path: path.map(|path| path.as_str().to_owned()),
        user: listed.user.as_str().to_owned(),
        mode,
        password: share.password.is_some(),
        expires: share.expires.map(Timestamp::rfc3339),
        downloads,
        bytes,
        created: share.created.rfc3339(),
        url,
    }
}

/// Make a share
///
/// To read a directory with all below it, or a file; or to upload files into a directory, which shows nothing. With a
/// password, if one is given. It follows a move. It ends when it is revoked, expires or is used up, and when its target
/// is deleted or replaced. While its maker is disabled, or has no right to share there or to do what it is for, it is
/// suspended: its link gets the answer of a wrong link.
#[utoipa::path(post, path = "/v1/shares", operation_id = "make_share", tag = "access", request_body = ShareRequest,
    responses((status = 201, description = "Made; `url` is told this once", body = ShareJson)))]
pub async fn make(
    State(app): State<App>,
    drive: UserDrive,
    (by, audit): (Credential, Audit),
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    let asked: ShareRequest = json_of_users(&app, &uri, &headers, body).await?;
    let (path, expires) = (parse_text("path", &asked.path)?, expiry(asked.expires.as_deref())?);
    asked.password.as_deref().map(password::check).transpose().map_err(AuthError::from)?;
    let (mode, password) = (mode(&asked)?, asked.password);
    app.auth.require_sharing(&by).await?;
    let (chain, target) = drive.share_target(&path).await.map_err(Problem::reading)?;
    if let (ShareMode::Upload { .. }, ShareTarget::File(_)) = (mode, target) {
        return Err(Problem::malformed("A file takes no uploads: `upload` is of a directory."));
    }
    let (made, listed) = app.auth.make_share(&by, &chain, NewShare { target, mode, expires, password }).await?;
    audit.note(AuditEvent::ShareMade, Some(&[&made.id.0.to_string(), " ", path.as_str()].concat()));
    let json = share_json(&listed, Some(&path), Some(share_link(&made.text)));
    Ok((StatusCode::CREATED, json::json(&json)?).into_response())
}

/// What a new share allows.
fn mode(asked: &ShareRequest) -> Result<ShareMode> {
    // A counter has to have room for it.
    let is_counter = |number: &u64| *number > 0 && i64::try_from(*number).is_ok();
    let detail = match (asked.mode, asked.downloads, asked.bytes) {
        (ShareModeJson::Read, downloads, None) if downloads.as_ref().is_none_or(is_counter) => {
            return Ok(ShareMode::Read { downloads });
        }
        (ShareModeJson::Upload, None, bytes) if bytes.as_ref().is_none_or(is_counter) => {
            return Ok(ShareMode::Upload { bytes: bytes.unwrap_or(UPLOAD_BYTES) });
        }
        (ShareModeJson::Read, _, None) => "`downloads` is at least 1; leave it out for no limit.",
        (ShareModeJson::Upload, None, _) => "`bytes` is at least 1; leave it out for 10 GiB.",
        (ShareModeJson::Read, _, Some(_)) => "`bytes` is for `upload`: what is read has `downloads`.",
        (ShareModeJson::Upload, Some(_), _) => "`downloads` is for `read`: an upload has `bytes`.",
    };
    Err(Problem::malformed(detail))
}

/// Revoke a share
#[utoipa::path(delete, path = "/v1/shares/{id}", operation_id = "revoke_share", tag = "access",
    params(("id" = String, Path, description = "Its id, from the list"),
           ("user" = Option<String>, Query, description = "That of another user, by an admin")),
    responses((status = 204, description = "Revoked")))]
pub async fn delete(
    State(app): State<App>,
    drive: UserDrive,
    (by, audit): (Credential, Audit),
    uri: Uri,
) -> Result<StatusCode> {
    Params::parse(uri.query(), &["user"])?;
    require_users(&app).await?;
    let authority = app.auth.require_sharing(&by).await?;
    if let Some(user) = authority.user().filter(|_| !authority.is_for_account()) {
        let id = secret_id(&uri, SecretKind::Share)?;
        let own = app.auth.shares(&by, user).await?.into_iter().filter(|share| share.id == id).collect();
        if visible(&drive, own).await?.is_empty() {
            return Err(AuthError::NoSecret(SecretKind::Share).into());
        }
    }
    revoke(&app, &by, &uri, SecretKind::Share, |id| audit.note(AuditEvent::ShareRevoked, Some(id))).await
}
