//! The audit log: a line for each login, for each credential that was refused, and for each change of users and rights.

use std::convert::Infallible;
use std::net::IpAddr;

use axum::extract::FromRequestParts;
use axum::http::Extensions;
use axum::http::request::Parts;
use tracing::Instrument;
use uuid::Uuid;

use super::client::address;
use crate::auth::{AuthError, Credential, Requester};
use crate::http::app::App;
use crate::schema::user_name::UserName;

/// Who has sent a request, and from where, as the audit log names them.
pub struct Audit {
    user: Option<String>,
    credential: Option<Uuid>,
    address: IpAddr,
}

/// What has happened. A test compares the names with `docs/access.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditEvent {
    /// A session was made for a name and a password, or the form of a share had its password.
    Login,
    /// A credential was not valid.
    Refused,
    /// Too many passwords were wrong.
    Slowed,
    Logout,
    SessionRevoked,
    SessionsRevoked,
    UserMade,
    UserChanged,
    UserRemoved,
    GrantGiven,
    GrantTaken,
    TokenMade,
    TokenRevoked,
    ShareMade,
    ShareRevoked,
    /// The first request of an address with its secret.
    ShareUsed,
    /// A stranger has added a file.
    ShareUpload,
}

impl AuditEvent {
    fn name(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Refused => "refused",
            Self::Slowed => "slowed",
            Self::Logout => "logout",
            Self::SessionRevoked => "session-revoked",
            Self::SessionsRevoked => "sessions-revoked",
            Self::UserMade => "user-made",
            Self::UserChanged => "user-changed",
            Self::UserRemoved => "user-removed",
            Self::GrantGiven => "grant-given",
            Self::GrantTaken => "grant-taken",
            Self::TokenMade => "token-made",
            Self::TokenRevoked => "token-revoked",
            Self::ShareMade => "share-made",
            Self::ShareRevoked => "share-revoked",
            Self::ShareUsed => "share-used",
            Self::ShareUpload => "share-upload",
        }
    }
}

impl Audit {
    /// Of a request that has proved this.
    pub fn of(credential: &Credential, extensions: &Extensions) -> Self {
        Self {
            // By a share a stranger asks, not its maker.
            user: credential.user().filter(|_| !credential.is_share()).map(|name| name.as_str().to_owned()),
            credential: credential.secret().map(|owner| owner.id.0),
            address: address(extensions),
        }
    }

    /// Of a request that has proved nothing.
    fn of_unproved(user: Option<&UserName>, address: IpAddr) -> Self {
        Self { user: user.map(|name| name.as_str().to_owned()), credential: None, address }
    }

    /// Writes a line. `object`: what was changed. No secret is ever in it.
    pub fn note(&self, event: AuditEvent, object: Option<&str>) {
        self.write(event, object, None);
    }

    /// Writes a line that also says what was set, as `password admin=true`. No secret is ever in it.
    pub fn note_change(&self, event: AuditEvent, object: &str, change: &str) {
        self.write(event, Some(object), Some(change).filter(|change| !change.is_empty()));
    }

    fn write(&self, event: AuditEvent, object: Option<&str>, change: Option<&str>) {
        tracing::info!(
            target: "audit",
            event = event.name(),
            user = self.user,
            credential = self.credential.map(tracing::field::display),
            address = %self.address,
            object,
            change,
        );
    }
}

/// Notes why a credential was refused: a line, and a metric. `audit`: whose it is.
pub fn note_refusal(app: &App, error: &AuthError, audit: &Audit) {
    if let Some(event) = count_refusal(app, error) {
        audit.note(event, None);
    }
}

/// As [`note_refusal`], of a request that has proved nothing. `named`: the name that it has sent with a password.
///
/// The line has the name only if it is that of a user. Another text in its place may be a password or a token.
/// IMPORTANT: whether there is such a user is read by a task of its own, for which the answer does not wait: so the time
/// of the answer does not tell that.
pub fn note_unproved(app: &App, error: &AuthError, named: Option<&str>, extensions: &Extensions) {
    let Some(event) = count_refusal(app, error) else { return };
    let address = address(extensions);
    // A wrong password is hashed, so few of them are refused at a time. What is slowed costs its sender nothing.
    let permit = match event {
        AuditEvent::Slowed => app.name_lookups.clone().try_acquire_owned().map(Some),
        _ => Ok(None),
    };
    let name = named.and_then(|name| UserName::parse(name).ok());
    let Some((name, permit)) = name.zip(permit.ok()) else {
        return Audit::of_unproved(None, address).note(event, None);
    };
    let app = app.clone();
    let look_up = async move {
        let user = app.auth.known_name(name.as_str()).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the user name that a refused request has sent cannot be looked up");
            None
        });
        Audit::of_unproved(user.as_ref(), address).note(event, None);
        drop(permit);
    };
    tokio::spawn(look_up.in_current_span());
}

/// Counts a refusal in the metrics. Returns the event of it; none if the error is no refusal of a credential.
fn count_refusal(app: &App, error: &AuthError) -> Option<AuditEvent> {
    let (event, result) = match error {
        AuthError::Unauthorized | AuthError::WrongPassword => (AuditEvent::Refused, "wrong"),
        AuthError::Slowed(_) => (AuditEvent::Slowed, "slowed"),
        _ => return None,
    };
    app.metrics.login(result);
    Some(event)
}

impl<S: Sync> FromRequestParts<S> for Audit {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let nobody = Credential::nobody();
        let credential = parts.extensions.get::<Requester>().and_then(Requester::credential);
        Ok(Self::of(credential.unwrap_or(&nobody), &parts.extensions))
    }
}
