//! `/v1/session`: who asks, the login, and its end.

use std::time::Instant;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::response::Response;

use crate::api::account::{BODY_BYTES, LoginRequest, RightsJson, SessionJson};
use crate::auth::{AuthError, Credential, NewSecret};
use crate::drive::UserDrive;
use crate::http::app::App;
use crate::http::request::Params;
use crate::http::request::account::require_users;
use crate::http::request::audit::{Audit, AuditEvent, note_unproved};
use crate::http::request::body::json_of_login;
use crate::http::request::client::{address, is_tls};
use crate::http::response::account::{quota_json, rights_json, usage_json};
use crate::http::response::problem::Result;
use crate::http::response::{cookie, json, list};
use crate::schema::secret::SecretKind;

/// Who asks, and what he may do
#[utoipa::path(get, path = "/v1/session", operation_id = "session", tag = "access",
    responses((status = 200, description = "By what was sent", body = SessionJson)))]
pub async fn get(State(app): State<App>, drive: UserDrive, by: Credential, uri: Uri) -> Result<Response> {
    Params::parse(uri.query(), &[])?;
    let authority = app.auth.authority(&by).await?;
    // One more for all else, with the right on all.
    let permit = list::permit(&app, 1 + authority.grant_count(), list::WITH_PATH).await?;
    let rights = drive.rights().await?;
    let (usage, quota) = app.auth.usage(&by).await?;
    let session = SessionJson {
        user: authority.user().map(|name| name.as_str().to_owned()),
        admin: authority.is_admin(),
        rights: rights
            .into_iter()
            .map(|(path, rights)| RightsJson { path: path.as_str().to_owned(), rights: rights_json(rights) })
            .collect(),
        quota: quota_json(quota),
        usage: usage_json(usage),
    };
    json::large(&session, permit)
}

/// Log in
///
/// The session is in a cookie that scripts cannot read. It expires 14 days after its last use, and 90 days after the
/// login.
#[utoipa::path(post, path = "/v1/session", operation_id = "log_in", tag = "access", request_body = LoginRequest,
    responses((status = 204, description = "Logged in", headers(("Set-Cookie" = String)))))]
pub async fn log_in(
    State(app): State<App>,
    extensions: Extensions,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, [(HeaderName, HeaderValue); 1])> {
    Params::parse(uri.query(), &[])?;
    require_users(&app).await?;
    let LoginRequest { user, password } = json_of_login(&headers, body, BODY_BYTES).await?;
    let session = make(&app, &user, &password, &extensions).await?;
    Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, cookie::set(&session.text, is_tls(&extensions))?)]))
}

/// Makes a session by a password, and notes the login, or why it is refused.
pub async fn make(
    app: &App,
    user: &str,
    password: &str,
    extensions: &Extensions,
) -> std::result::Result<NewSecret, AuthError> {
    let login = app.auth.log_in(user, password, address(extensions), Instant::now()).await;
    let login = login.inspect_err(|error| note_unproved(app, error, Some(user), extensions))?;
    let session = app.auth.make_session(&login).await?;
    app.metrics.login("right");
    Audit::of(&session.credential, extensions).note(AuditEvent::Login, None);
    Ok(session)
}

/// Log out
///
/// Revokes the session of the request. With a password or a token there is none, and nothing is revoked.
#[utoipa::path(delete, path = "/v1/session", operation_id = "log_out", tag = "access",
    responses((status = 204, description = "Logged out", headers(("Set-Cookie" = String)))))]
pub async fn log_out(
    State(app): State<App>,
    by: Credential,
    extensions: Extensions,
    uri: Uri,
) -> Result<(StatusCode, [(HeaderName, HeaderValue); 1])> {
    Params::parse(uri.query(), &[])?;
    require_users(&app).await?;
    app.auth.require_account(&by).await?;
    if let Some(owner) = by.secret().filter(|owner| owner.kind == SecretKind::Session) {
        app.auth.revoke(&by, &owner.user, owner.kind, owner.id).await?;
        Audit::of(&by, &extensions).note(AuditEvent::Logout, None);
    }
    Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, cookie::remove(is_tls(&extensions))?)]))
}
