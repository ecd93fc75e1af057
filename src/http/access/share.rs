//! The share whose secret is in the path of a request, and its password.
//!
//! Before the first user, and if there is no such share or it has ended, there is nothing: the same answer each time.

use std::time::Instant;

use axum::http::Method;

use super::credential::{Presented, cookies};
use super::{RequestHead, browser};
use crate::api::path::share_secret;
use crate::auth::{AuthError, Credential, OpenShare};
use crate::drive::DriveError;
use crate::http::app::App;
use crate::http::callers::ShareRoute;
use crate::http::request::audit::{Audit, AuditEvent, note_refusal};
use crate::http::request::client::{address, is_tls};
use crate::http::response::cookie;
use crate::http::response::problem::{Problem, Result};
use crate::schema::share::ShareMode;

/// Finds the share of a request. If it has a password, `Authorization` and the cookie of the share are read for it; no other
/// credential counts. `note`: gets the share, also if it has ended.
pub async fn admit(
    app: &App,
    wanted: ShareRoute,
    head: RequestHead<'_>,
    note: impl FnOnce(&Credential),
) -> Result<Credential> {
    let RequestHead { method, uri, extensions, .. } = head;
    if !app.auth.has_users().await? {
        return Err(Problem::no_share());
    }
    let secret = share_secret(uri.path()).unwrap_or_default();
    let found = app.auth.find_share(secret).await.map_err(Problem::of_share);
    let found = found.inspect(note);
    if wanted == ShareRoute::Nothing && *method == Method::PUT {
        return Err(Problem::no_upload_here());
    }
    let found = found?;
    let authority = app.auth.authority(&found).await.map_err(Problem::of_share)?;
    let open = authority.share().ok_or_else(Problem::no_share)?;
    if open.share.password.is_some() {
        // Who does not know the password does not learn whether the target of the share is still there.
        if wanted == ShareRoute::Enter {
            return Ok(found);
        }
        check_password(app, (&found, open), head).await?;
    }
    // Before each route and method: its target may be gone, or its maker may have lost his rights on it.
    let drive = app.drive.for_requester(app.auth.requester(found.clone()));
    drive.find_target(&open.share).await.map_err(|error| match error {
        DriveError::NotFound | DriveError::Unauthorized | DriveError::Forbidden => Problem::no_share(),
        error => error.into(),
    })?;
    if let Some(share) = found.secret()
        && app.share_visitors.is_first(share.id, address(extensions))
    {
        Audit::of(&found, extensions).note(AuditEvent::ShareUsed, Some(&share.id.0.to_string()));
    }
    match (open.share.mode, wanted) {
        (ShareMode::Read { .. }, ShareRoute::Upload) => {
            Err(Problem::method("GET, HEAD", "The link is to read by alone."))
        }
        (ShareMode::Upload { .. }, ShareRoute::Read | ShareRoute::Nothing) => Err(Problem::no_share()),
        _ => Ok(found),
    }
}

/// Checks that a request has the password of a share: in `Authorization`, with any name, else by the cookie of its form.
async fn check_password(app: &App, (share, open): (&Credential, &OpenShare), head: RequestHead<'_>) -> Result<()> {
    let RequestHead { method, headers, extensions, .. } = head;
    let proved = match Presented::in_authorization(headers) {
        Some(Presented::Password(basic)) => {
            let login = app.auth.log_in_by_share(share, basic.password(), address(extensions), Instant::now());
            login.await.map(|_| ())
        }
        Some(_) => Err(AuthError::Unauthorized),
        None => {
            let mut logins = cookies(headers, cookie::share_name(is_tls(extensions))).peekable();
            if logins.peek().is_none() {
                return Err(Problem::share_password());
            }
            if browser::lacks_origin(method, headers) {
                return Err(browser::refused());
            }
            by_cookie(app, open, logins).await
        }
    };
    proved.map_err(|error| {
        note_refusal(app, &error, &Audit::of(share, extensions));
        match error {
            AuthError::Unauthorized => Problem::share_password(),
            AuthError::Slowed(seconds) => Problem::slowed(seconds)
                .with_detail("Too many wrong passwords were sent for this link: wait as long as Retry-After says."),
            error => error.into(),
        }
    })
}

/// Another server on the same host may have set a cookie of the name too.
async fn by_cookie<'a>(
    app: &App,
    open: &OpenShare,
    logins: impl Iterator<Item = &'a str>,
) -> std::result::Result<(), AuthError> {
    for login in logins {
        if app.auth.is_share_login(open, login).await? {
            return Ok(());
        }
    }
    Err(AuthError::Unauthorized)
}
