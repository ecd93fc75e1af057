//! The share whose secret is in the path of a request.
//!
//! Before the first user, and if there is no such share or it has ended, there is nothing: the same answer each time.

use axum::http::{Extensions, Uri};

use crate::api::path::share_secret;
use crate::auth::{AuthError, Credential};
use crate::drive::DriveError;
use crate::http::app::App;
use crate::http::request::audit::{Audit, AuditEvent};
use crate::http::request::client::address;
use crate::http::response::problem::{Problem, Result};

/// Finds the share of a request. `Authorization` and cookies are not read. `note`: gets the share, also if it has ended.
pub async fn admit(
    app: &App,
    uri: &Uri,
    extensions: &Extensions,
    note: impl FnOnce(&Credential),
) -> Result<Credential> {
    if !app.auth.has_users().await? {
        return Err(Problem::no_share());
    }
    let secret = share_secret(uri.path()).unwrap_or_default();
    let found = app.auth.find_share(secret).await.map_err(|error| match error {
        AuthError::Unauthorized => Problem::no_share(),
        error => error.into(),
    })?;
    note(&found);
    // Before each route and method: it may have ended, and what it is of may be gone, or hidden from its maker.
    app.drive.for_requester(app.auth.requester(found.clone())).find_shared().await.map_err(|error| match error {
        DriveError::NotFound | DriveError::Unauthorized | DriveError::Forbidden => Problem::no_share(),
        error => error.into(),
    })?;
    if let Some(share) = found.secret()
        && app.share_uses.is_first(share.id, address(extensions))
    {
        Audit::of(&found, extensions).note(AuditEvent::ShareUsed, Some(&share.id.0.to_string()));
    }
    Ok(found)
}
