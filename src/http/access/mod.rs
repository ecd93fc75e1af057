//! Whether a request may reach its handler: the one place that every request passes.
//!
//! On a drive with users it has to send a valid [`credential`], and its route has to be for its user. Pages of other sites
//! are refused before that ([`browser`]), whatever the credential.

mod browser;
mod credential;

use axum::http::{HeaderMap, Method};

use super::callers::Callers;
use super::response::problem::{Problem, Result};
use crate::auth::{Auth, AuthError, Credential};
pub use browser::challenge;
use credential::Presented;

/// Decides whether a request may reach its handler. Returns what it has proved: nothing on a drive without users, or if
/// its route is for everyone.
///
/// A stranger gets the same answer for what he may not see as for what there is not, and for a name without user as for a
/// wrong password.
pub async fn admit(auth: &Auth, callers: Callers, method: &Method, headers: &HeaderMap) -> Result<Option<Credential>> {
    let is_foreign = browser::is_foreign(method, headers);
    if callers == Callers::Everyone && !is_foreign {
        return Ok(None);
    }
    if !auth.has_users().await? {
        // Everyone is nobody: what a client says of himself is not verified.
        return Ok(None);
    }
    let presented = Presented::parse(headers);
    if is_foreign || (presented.is_cookie() && browser::lacks_origin(method, headers)) {
        return Err(browser::refused());
    }
    if callers == Callers::Everyone {
        return Ok(None);
    }
    let (credential, is_admin) = verify(auth, &presented).await?;
    if callers == Callers::Admins && !is_admin {
        return Err(Problem::forbidden());
    }
    // A failure of this must not fail the request: it only lets a session end too early.
    if let Err(error) = auth.note_use(&credential).await {
        tracing::warn!(%error, "the use of a credential is not noted");
    }
    Ok(Some(credential))
}

/// What a request has proved, if that holds now, and whether its user is an admin by it.
async fn verify(auth: &Auth, presented: &Presented) -> std::result::Result<(Credential, bool), AuthError> {
    let credential = presented.find(auth).await?;
    let authority = auth.authority(&credential).await?;
    Ok((credential, authority.is_admin()))
}
