//! Whether a request may reach its handler: the one place that every request passes.
//!
//! On a drive with users it has to send a valid [`credential`], and its route has to be for its user. Pages of other
//! sites are refused before that ([`browser`]), whatever the credential. The link of a share is for anybody who has it
//! ([`share`]).

mod browser;
mod credential;
mod share;

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::{Extensions, HeaderMap, Method, Uri};

use super::app::App;
use super::callers::Callers;
use super::request::audit::note_unproved;
use super::request::client::{Client, Relay, address, is_tls};
use super::response::problem::{Problem, Result};
use crate::api::problem::ProblemKind;
use crate::auth::{Auth, AuthError, Authority, Credential, Requester};
pub use browser::challenge;
use credential::Presented;

/// The head of a request: all but its body.
#[derive(Clone, Copy)]
pub struct RequestHead<'a> {
    method: &'a Method,
    uri: &'a Uri,
    headers: &'a HeaderMap,
    extensions: &'a Extensions,
}

impl<'a> RequestHead<'a> {
    pub fn of(request: &'a Request) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }
}

/// Refuses a request that has come over a connection on which others could read or change it, or could pass for its
/// sender.
///
/// What a proxy that nobody has named sends on is refused, on a drive with users: all its clients have one address, so
/// wrong passwords of some would slow the others.
pub async fn check_transport(app: &App, client: &Client) -> Result<()> {
    if !app.auth.has_users().await? {
        if client.is_from_afar() {
            return Err(Problem::forbidden().with_detail(
                "The drive has no users, so it serves its own machine alone. Its operator makes the first user there, or by \
                 `rowdrive user add` while the server is stopped.",
            ));
        }
        return Ok(());
    }
    if client.relay == Relay::Unnamed {
        return Err(Problem::forbidden().with_detail(
            "A proxy sends this on that the server does not know: its operator names it with --proxy. Or connect to the \
             server itself.",
        ));
    }
    if client.is_secure() || app.options.insecure_http {
        return Ok(());
    }
    Err(Problem::new(
        ProblemKind::TlsRequired,
        "What users send is secret: use https. Behind a proxy, it has to send X-Forwarded-Proto: https on. The operator may \
         allow http with --insecure-http.",
    ))
}

/// Decides whether a request may reach its handler. Returns who has sent it: none on a drive without users, or if its
/// route is for anybody.
///
/// Without a credential the answer is the same for what one may not see as for what there is not, and for a name
/// without user as for a wrong password. `note`: gets what was proved, also if the route is not for this user, and the
/// share of a link also if it has ended.
pub async fn admit(
    app: &App,
    callers: Callers,
    head: RequestHead<'_>,
    note: impl FnOnce(&Credential),
) -> Result<Option<Requester>> {
    let (auth, RequestHead { method, headers, extensions, .. }) = (&app.auth, head);
    if let Callers::Share(wanted) = callers {
        // In a box, so that the future of every request is small: it is moved a few times.
        return Box::pin(share::admit(app, wanted, head, note)).await.map(|share| Some(auth.requester(share)));
    }
    let is_foreign = browser::is_foreign(method, headers);
    if callers == Callers::Anybody && !is_foreign {
        return Ok(None);
    }
    if !auth.has_users().await? {
        // The requester is nobody: what a client says of himself is not verified.
        return Ok(None);
    }
    let presented = Presented::parse(headers, is_tls(extensions));
    if is_foreign || (presented.is_cookie() && browser::lacks_origin(method, headers)) {
        return Err(browser::refused());
    }
    if callers == Callers::Anybody {
        return Ok(None);
    }
    let verified = verify(auth, &presented, address(extensions)).await;
    let (credential, authority) = verified.inspect_err(|error| {
        if !presented.is_nothing() {
            note_unproved(app, error, presented.name_with_password(), extensions);
        }
    })?;
    note(&credential);
    if callers == Callers::Admins && !authority.is_admin() {
        return Err(
            Problem::forbidden().with_detail("Only an admin may do this, and not by a token for one directory.")
        );
    }
    // A failure of this must not fail the request: it only lets a session end too early.
    if let Err(error) = auth.note_use(&credential, &authority).await {
        tracing::warn!(%error, "the use of a credential is not noted");
    }
    Ok(Some(auth.requester(credential)))
}

/// What a request has proved, if that holds now, and what its user may do by it.
async fn verify(
    auth: &Auth,
    presented: &Presented<'_>,
    address: IpAddr,
) -> std::result::Result<(Credential, Authority), AuthError> {
    let credential = presented.find(auth, address).await?;
    let authority = auth.authority(&credential).await?;
    Ok((credential, authority))
}
