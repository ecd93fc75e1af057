//! The audit log: a line for each login, for each credential that was refused, and for each change of users and rights.

use std::convert::Infallible;
use std::net::IpAddr;

use axum::extract::FromRequestParts;
use axum::http::Extensions;
use axum::http::request::Parts;
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

    /// Of a request that has proved nothing, and says that it is of this user.
    pub fn of_unproved(named: Option<&str>, extensions: &Extensions) -> Self {
        // What is no name may be a password in the wrong place.
        let name = named.and_then(|name| UserName::parse(name).ok());
        let user = name.map(|name| name.as_str().to_owned());
        Self { user, credential: None, address: address(extensions) }
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

/// Notes why a credential was refused: a line, and a metric. `audit`: whose it was said to be.
pub fn note_refusal(app: &App, error: &AuthError, audit: &Audit) {
    let (event, result) = match error {
        AuthError::Unauthorized | AuthError::WrongPassword => (AuditEvent::Refused, "wrong"),
        AuthError::Slowed(_) => (AuditEvent::Slowed, "slowed"),
        _ => return,
    };
    app.metrics.login(result);
    audit.note(event, None);
}

impl<S: Sync> FromRequestParts<S> for Audit {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let nobody = Credential::nobody();
        let credential = parts.extensions.get::<Requester>().and_then(Requester::credential);
        Ok(Self::of(credential.unwrap_or(&nobody), &parts.extensions))
    }
}
