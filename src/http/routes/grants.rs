//! `/v1/grants`: rights of users on directories.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use crate::api::account::{GrantJson, GrantRequest, GrantsJson};
use crate::api::rights::in_words;
use crate::auth::{AuthError, Credential, DirChain};
use crate::drive::{DriveError, UserDrive};
use crate::http::app::App;
use crate::http::request::Params;
use crate::http::request::account::{json_of_users, require_users, rights};
use crate::http::request::audit::{Audit, AuditEvent};
use crate::http::request::path::parse_text;
use crate::http::response::account::rights_json;
use crate::http::response::cursor::CursorScope;
use crate::http::response::problem::{Problem, Result};
use crate::http::response::{json, list};
use crate::schema::DrivePath;
use crate::schema::grant::Giver;

/// The directories of the path of one that the requester sees.
pub async fn chain_of(drive: &UserDrive, path: &DrivePath) -> Result<DirChain> {
    drive.chain(path).await.map_err(|error| match error {
        DriveError::IsFile => {
            Problem::malformed("`path` is a file: rights are on directories, name the one that has it.")
        }
        other => Problem::reading(other),
    })
}

/// The grants on a directory, or those that a user has given
///
/// With `path` those on this directory alone, for who may share there. Without, those that the user has given; for an
/// admin all.
#[utoipa::path(get, path = "/v1/grants", operation_id = "grants", tag = "access",
    params(("path" = Option<String>, Query, description = "A directory, as `/photos`"),
           ("user" = Option<String>, Query, description = "Only grants to this user, or to `*`"),
           ("limit" = Option<u32>, Query, minimum = 1, maximum = 10000, description = "Grants of a page; 1000 unless told, and never more"),
           ("cursor" = Option<String>, Query, description = "`next` of the page before")),
    responses((status = 200, description = "A page of grants", body = GrantsJson)))]
pub async fn get(State(app): State<App>, drive: UserDrive, by: Credential, uri: Uri) -> Result<Response> {
    let params = Params::parse(uri.query(), &["path", "user", "limit", "cursor"])?;
    let (path, limit) = (params.path("path")?, list::items(params.limit()?));
    require_users(&app).await?;
    let authority = app.auth.require_account(&by).await?;
    let permit = list::permit(&app, limit, list::WITH_PATH).await?;
    let mut found = match &path {
        Some(path) => app.auth.grants_on(&by, &chain_of(&drive, path).await?).await?,
        None if authority.is_admin() => app.auth.all_grants(&by).await?,
        None => app.auth.grants_given(&by).await?,
    };
    if let Some(name) = params.text("user") {
        match app.auth.grantee(name).await {
            Ok(holder) => found.retain(|grant| grant.holder == holder),
            // Others do not learn which users there are.
            Err(AuthError::NoUser) if !authority.is_admin() => found.clear(),
            Err(error) => return Err(error.into()),
        }
    }
    let dirs: Vec<_> = found.iter().map(|grant| grant.dir).collect();
    let paths = drive.paths(&dirs).await?;
    let mut all = Vec::new();
    for grant in &found {
        // One on a directory that was deleted, or that he does not see any more.
        let Some(path) = paths.get(&grant.dir) else { continue };
        let by = match &grant.giver {
            Giver::Admins => None,
            Giver::User(name) => Some(name.as_str().to_owned()),
        };
        let (path, user) = (path.as_str().to_owned(), grant.holder.as_str().to_owned());
        let key = [path.as_str(), &user, by.as_deref().unwrap_or_default()].join("\0");
        all.push((key, GrantJson { path, user, rights: rights_json(grant.rights), by }));
    }
    let asker = authority.user().map(|name| name.as_str());
    let scope = CursorScope::new("grants").filter(asker).filter(path.as_ref().map(|path| path.as_str()));
    let scope = scope.filter(params.text("user"));
    let (grants, next) = list::page(all, (limit, params.text("cursor")), &scope)?;
    let page = GrantsJson { grants, next };
    list::response(&page, page.next.as_deref(), &uri, permit)
}

/// Give rights on a directory
///
/// In place of those that the same user gave before; all admins are one giver. Only admins give `share`, or to `*`.
#[utoipa::path(put, path = "/v1/grants", operation_id = "give", tag = "access", request_body = GrantRequest,
    responses((status = 201, description = "Given", body = GrantJson),
              (status = 200, description = "Given in place of others", body = GrantJson)))]
pub async fn put(
    State(app): State<App>,
    drive: UserDrive,
    (by, audit): (Credential, Audit),
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    let asked: GrantRequest = json_of_users(&app, &uri, &headers, body).await?;
    let (path, rights) = (parse_text("path", &asked.path)?, rights(&asked.rights)?);
    let authority = app.auth.require_account(&by).await?;
    let chain = chain_of(&drive, &path).await?;
    app.auth.require_share(&authority, &chain).await?;
    let to = app.auth.grantee(&asked.user).await?;
    let is_new = app.auth.put_grant(&by, &chain, &to, rights).await?;
    let by = authority.user().filter(|_| !authority.is_admin()).map(|name| name.as_str().to_owned());
    let (path, user) = (path.as_str().to_owned(), to.as_str().to_owned());
    let grant = GrantJson { path, user, rights: rights_json(rights), by };
    let change = ["rights=", &in_words(&grant.rights)].concat();
    audit.note_change(AuditEvent::GrantGiven, &[&grant.user, " ", &grant.path].concat(), &change);
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, json::json(&grant)?).into_response())
}

/// Take rights on a directory back
///
/// A user takes back what he has given; an admin what anyone has.
#[utoipa::path(delete, path = "/v1/grants", operation_id = "take_back", tag = "access",
    params(("path" = String, Query, description = "The directory, as `/photos`"),
           ("user" = String, Query, description = "Who has the rights, or `*`")),
    responses((status = 204, description = "Taken back")))]
pub async fn delete(
    State(app): State<App>,
    drive: UserDrive,
    (by, audit): (Credential, Audit),
    uri: Uri,
) -> Result<StatusCode> {
    let params = Params::parse(uri.query(), &["path", "user"])?;
    let (Some(path), Some(user)) = (params.path("path")?, params.text("user")) else {
        return Err(Problem::malformed("Say whose rights to take back, and where: `user` and `path`."));
    };
    require_users(&app).await?;
    let authority = app.auth.require_account(&by).await?;
    let chain = chain_of(&drive, &path).await?;
    app.auth.require_share(&authority, &chain).await?;
    let from = app.auth.grantee(user).await.map_err(|error| match error {
        // As for a user who has no grant there.
        AuthError::NoUser => AuthError::NoGrant,
        other => other,
    })?;
    app.auth.delete_grant(&by, &chain, &from).await?;
    audit.note(AuditEvent::GrantTaken, Some(&[from.as_str(), " ", path.as_str()].concat()));
    Ok(StatusCode::NO_CONTENT)
}
