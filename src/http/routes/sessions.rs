//! `/v1/sessions`: the logins of a user that are still valid.

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;

use super::tokens::revoke;
use crate::api::account::{ListedSessionJson, SessionsJson};
use crate::auth::{Credential, ListedSecret, SESSIONS};
use crate::http::app::App;
use crate::http::request::Params;
use crate::http::request::account::require_users;
use crate::http::request::audit::{Audit, AuditEvent};
use crate::http::response::cursor::CursorScope;
use crate::http::response::list;
use crate::http::response::problem::Result;
use crate::schema::secret::SecretKind;

/// The sessions of a user
#[utoipa::path(get, path = "/v1/sessions", operation_id = "sessions", tag = "access",
    params(("user" = Option<String>, Query, description = "Those of another user, for an admin"),
           ("limit" = Option<u32>, Query, minimum = 1, maximum = 10000, description = "Sessions of a page; 1000 unless told, and never more"),
           ("cursor" = Option<String>, Query, description = "`next` of the page before")),
    responses((status = 200, description = "A page of sessions", body = SessionsJson)))]
pub async fn get(State(app): State<App>, by: Credential, uri: Uri) -> Result<Response> {
    let params = Params::parse(uri.query(), &["user", "limit", "cursor"])?;
    let limit = list::items(params.limit()?);
    require_users(&app).await?;
    let owner = app.auth.owner_of_secrets(&by, params.text("user")).await?;
    let permit = list::permit(&app, limit.min(SESSIONS), list::SHORT).await?;
    let all = app.auth.secrets(&by, &owner, SecretKind::Session).await?;
    let current = by.secret().map(|sent| sent.id);
    let listed = |secret: ListedSecret| {
        let id = secret.id.0.to_string();
        let session = ListedSessionJson {
            id: id.clone(),
            created: secret.created.rfc3339(),
            last_used: secret.used.unwrap_or(secret.created).rfc3339(),
            current: current == Some(secret.id),
        };
        (id, session)
    };
    let scope = CursorScope::new("sessions").filter(Some(owner.as_str()));
    let (sessions, next) = list::page(all.into_iter().map(listed).collect(), (limit, params.text("cursor")), &scope)?;
    let page = SessionsJson { sessions, next };
    list::response(&page, page.next.as_deref(), &uri, permit)
}

/// Revoke all sessions of a user
#[utoipa::path(delete, path = "/v1/sessions", operation_id = "revoke_sessions", tag = "access",
    params(("user" = Option<String>, Query, description = "Those of another user, by an admin")),
    responses((status = 204, description = "Revoked, that of the request too")))]
pub async fn delete_all(State(app): State<App>, by: Credential, audit: Audit, uri: Uri) -> Result<StatusCode> {
    let params = Params::parse(uri.query(), &["user"])?;
    require_users(&app).await?;
    let owner = app.auth.owner_of_secrets(&by, params.text("user")).await?;
    app.auth.revoke_sessions(&by, &owner).await?;
    audit.note(AuditEvent::SessionsRevoked, Some(owner.as_str()));
    Ok(StatusCode::NO_CONTENT)
}

/// Revoke a session
#[utoipa::path(delete, path = "/v1/sessions/{id}", operation_id = "revoke_session", tag = "access",
    params(("id" = String, Path, description = "Its id, from the list"),
           ("user" = Option<String>, Query, description = "That of another user, by an admin")),
    responses((status = 204, description = "Revoked")))]
pub async fn delete(State(app): State<App>, by: Credential, audit: Audit, uri: Uri) -> Result<StatusCode> {
    revoke(&app, &by, &uri, SecretKind::Session, |id| audit.note(AuditEvent::SessionRevoked, Some(id))).await
}
