//! `/v1/tokens`: what a program of a user sends in place of his password.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use super::grants::chain_of;
use crate::api::account::{TokenJson, TokenRequest, TokensJson};
use crate::auth::{Credential, ListedSecret, NewSecret, NewToken, TOKENS};
use crate::drive::UserDrive;
use crate::http::app::App;
use crate::http::request::Params;
use crate::http::request::account::{expiry, json_of_users, require_users, rights, secret_id, text};
use crate::http::request::audit::{Audit, AuditEvent};
use crate::http::request::path::parse_text;
use crate::http::response::account::rights_json;
use crate::http::response::cursor::CursorScope;
use crate::http::response::problem::{Problem, Result};
use crate::http::response::{json, list};
use crate::schema::Timestamp;
use crate::schema::rights::Rights;
use crate::schema::secret::{SecretKind, TokenScope};

/// The tokens of a user
#[utoipa::path(get, path = "/v1/tokens", operation_id = "tokens", tag = "access",
    params(("user" = Option<String>, Query, description = "Those of another user, for an admin"),
           ("limit" = Option<u32>, Query, minimum = 1, maximum = 10000, description = "Tokens of a page; 1000 unless told, and never more"),
           ("cursor" = Option<String>, Query, description = "`next` of the page before")),
    responses((status = 200, description = "A page of tokens", body = TokensJson)))]
pub async fn get(State(app): State<App>, drive: UserDrive, by: Credential, uri: Uri) -> Result<Response> {
    let params = Params::parse(uri.query(), &["user", "limit", "cursor"])?;
    let limit = list::items(params.limit()?);
    require_users(&app).await?;
    let owner = app.auth.owner_of_secrets(&by, params.text("user")).await?;
    let permit = list::permit(&app, limit.min(TOKENS), list::WITH_PATH).await?;
    let all = app.auth.secrets(&by, &owner, SecretKind::Token).await?;
    let scope = CursorScope::new("tokens").filter(Some(owner.as_str()));
    let keyed = all.into_iter().map(|token| (token.id.0.to_string(), token)).collect();
    let (tokens, next) = list::page(keyed, (limit, params.text("cursor")), &scope)?;
    let dirs: Vec<_> = tokens.iter().filter_map(|token| token.scope.map(|scope| scope.dir)).collect();
    let paths = drive.paths(&dirs).await?;
    let path_of = |token: &ListedSecret| paths.get(&token.scope?.dir).map(|path| path.as_str().to_owned());
    let tokens = tokens.iter().map(|token| token_json(token, path_of(token), None)).collect();
    let page = TokensJson { tokens, next };
    list::response(&page, page.next.as_deref(), &uri, permit)
}

fn token_json(token: &ListedSecret, path: Option<String>, secret: Option<String>) -> TokenJson {
    TokenJson {
        id: token.id.0.to_string(),
        name: token.name.clone(),
        account: token.scope.is_none(),
        path,
        rights: rights_json(token.scope.map_or(Rights::ALL, |scope| scope.rights)),
        expires: token.expires.map(Timestamp::rfc3339),
        created: token.created.rfc3339(),
        last_used: token.used.map(Timestamp::rfc3339),
        secret,
    }
}

/// Make a token
///
/// For one directory and with some rights, or for all that its user may.
#[utoipa::path(post, path = "/v1/tokens", operation_id = "make_token", tag = "access", request_body = TokenRequest,
    responses((status = 201, description = "Made; `secret` is told this once", body = TokenJson)))]
pub async fn make(
    State(app): State<App>,
    drive: UserDrive,
    (by, audit): (Credential, Audit),
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    let asked: TokenRequest = json_of_users(&app, &uri, &headers, body).await?;
    let (name, expires) = (text("name", &asked.name)?, expiry(asked.expires.as_deref())?);
    let rights = asked.rights.as_deref().map(rights).transpose()?;
    let path = asked.path.as_deref().map(|path| parse_text("path", path)).transpose()?;
    app.auth.require_account(&by).await?;
    let scope = match &path {
        None if rights.is_some() => {
            return Err(Problem::malformed("`rights` are those on a directory: send its `path` too."));
        }
        None => None,
        Some(path) => {
            let chain = chain_of(&drive, path).await?;
            let (_, dir) = chain.last().ok_or_else(|| Problem::internal(&"a path without directories"))?;
            Some(TokenScope { dir: *dir, rights: rights.unwrap_or(Rights::ALL) })
        }
    };
    let made = app.auth.make_token(&by, NewToken { name: name.clone(), expires, scope }).await?;
    audit.note(AuditEvent::TokenMade, Some(&made.id.0.to_string()));
    let NewSecret { id, text, created, expires, .. } = made;
    let token = ListedSecret { id, name, created, used: None, expires, scope };
    let path = path.map(|path| path.as_str().to_owned());
    Ok((StatusCode::CREATED, json::json(&token_json(&token, path, Some(text)))?).into_response())
}

/// Revoke a token
#[utoipa::path(delete, path = "/v1/tokens/{id}", operation_id = "revoke_token", tag = "access",
    params(("id" = String, Path, description = "Its id, from the list"),
           ("user" = Option<String>, Query, description = "That of another user, by an admin")),
    responses((status = 204, description = "Revoked")))]
pub async fn delete(State(app): State<App>, by: Credential, audit: Audit, uri: Uri) -> Result<StatusCode> {
    revoke(&app, &by, &uri, SecretKind::Token, |id| audit.note(AuditEvent::TokenRevoked, Some(id))).await
}

/// Revokes the session, token or share whose id is in the path of a request. `note`: gets that id.
pub async fn revoke(
    app: &App,
    by: &Credential,
    uri: &Uri,
    kind: SecretKind,
    note: impl FnOnce(&str),
) -> Result<StatusCode> {
    let params = Params::parse(uri.query(), &["user"])?;
    require_users(app).await?;
    let owner = app.auth.owner_of_secrets(by, params.text("user")).await?;
    let id = secret_id(uri, kind)?;
    app.auth.revoke(by, &owner, kind, id).await?;
    note(&id.0.to_string());
    Ok(StatusCode::NO_CONTENT)
}
