//! `/s/<secret>/login`: the form for the password of a share.

use std::time::Instant;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{LOCATION, SET_COOKIE};
use axum::http::{Extensions, HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use crate::api::account::BODY_BYTES;
use crate::api::path::{share_link, share_secret};
use crate::auth::{AuthError, Credential, ShareLogin};
use crate::http::app::App;
use crate::http::request::Params;
use crate::http::request::audit::{Audit, AuditEvent, note_refusal};
use crate::http::request::body::form_of_login;
use crate::http::request::client::{address, is_tls};
use crate::http::response::problem::{Problem, Result};
use crate::http::response::{cookie, headers, password_form, share_page};

/// The form, in place of a page that needs the password.
pub fn ask() -> Response {
    share_page::password_form(StatusCode::UNAUTHORIZED, "")
}

/// Send the password of a share
///
/// The page of the share has a form for it. The cookie is for this share alone, for a day. A program sends the password by
/// HTTP Basic with each request, with any name.
#[utoipa::path(post, path = "/s/{secret}/login", operation_id = "log_in_by_share", tag = "shares",
    params(("secret" = String, Path, description = "From `url` of the share")),
    request_body(content = String, content_type = "application/x-www-form-urlencoded", description = "`password`"),
    responses((status = 303, description = "To the page", headers(("Location" = String), ("Set-Cookie" = String))),
              (status = 401, description = "The form again: the password is wrong", content_type = "text/html", body = String),
              (status = 429, description = "The form again: too many were wrong", content_type = "text/html", body = String)))]
pub async fn log_in(
    State(app): State<App>,
    share: Credential,
    extensions: Extensions,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    Params::parse(uri.query(), &[])?;
    let mut password = String::new();
    for (name, value) in form_of_login(&headers, body, BODY_BYTES).await? {
        match name.as_str() {
            "password" => password = value,
            _ => return Err(Problem::malformed("The form has `password`.")),
        }
    }
    let page = share_link(share_secret(uri.path()).unwrap_or_default());
    let location = headers::value(page.clone())?;
    let authority = app.auth.authority(&share).await.map_err(Problem::of_share)?;
    if authority.share().is_some_and(|open| open.share.password.is_none()) {
        return Ok((StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response());
    }
    let login = match verify(&app, &share, &password, &extensions).await {
        Ok(login) => login,
        Err(error) => return password_form::again(error, "The password is wrong.", share_page::password_form),
    };
    let sealed = app.auth.seal_share_login(&login).await?;
    let set = cookie::set_share(&sealed, &page, is_tls(&extensions))?;
    Ok((StatusCode::SEE_OTHER, [(LOCATION, location), (SET_COOKIE, set)]).into_response())
}

/// Verifies the password, and notes the login, or why it is refused.
async fn verify(
    app: &App,
    share: &Credential,
    password: &str,
    extensions: &Extensions,
) -> std::result::Result<ShareLogin, AuthError> {
    let audit = Audit::of(share, extensions);
    let login = app.auth.log_in_by_share(share, password, address(extensions), Instant::now()).await;
    let login = login.inspect_err(|error| note_refusal(app, error, &audit))?;
    app.metrics.login("right");
    audit.note(AuditEvent::Login, None);
    Ok(login)
}
