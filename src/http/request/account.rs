//! The parts of requests about users and rights.

use axum::body::Body;
use axum::http::{HeaderMap, Uri};
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::body::json_within;
use super::path::decode;
use super::query::Params;
use crate::api::account::BODY_BYTES;
use crate::api::rights::RightJson;
use crate::auth::AuthError;
use crate::http::app::App;
use crate::http::response::problem::{Problem, Result};
use crate::schema::Timestamp;
use crate::schema::ids::SecretId;
use crate::schema::path::nfc;
use crate::schema::rights::{Right, Rights};
use crate::schema::secret::SecretKind;

/// Bytes of a name for people.
const TEXT_BYTES: usize = 255;

/// Refuses what is about users on a drive without them.
pub async fn require_users(app: &App) -> Result<()> {
    if app.auth.has_users().await? { Ok(()) } else { Err(Problem::no_users()) }
}

/// The JSON body of a request without parameters, on a drive with users.
pub async fn json_of_users<T: DeserializeOwned>(app: &App, uri: &Uri, headers: &HeaderMap, body: Body) -> Result<T> {
    Params::parse(uri.query(), &[])?;
    require_users(app).await?;
    json_within(app.drive.memory(), headers, body, BODY_BYTES).await
}

/// The last part of a request target, decoded: a name or an id.
pub fn last_part(uri: &Uri) -> Result<String> {
    let (_, last) = uri.path().rsplit_once('/').unwrap_or_default();
    Ok(decode(last)?.into_owned())
}

/// The id of a session, token or share at the end of a target. A text that is no id is the id of nothing.
pub fn secret_id(uri: &Uri, kind: SecretKind) -> Result<SecretId> {
    let text = last_part(uri)?;
    Uuid::try_parse(&text).map(SecretId).map_err(|_| AuthError::NoSecret(kind).into())
}

/// A name for people, such as that of a token. `what` names it in errors.
pub fn text(what: &str, text: &str) -> Result<String> {
    let text = nfc(text);
    if text.len() > TEXT_BYTES || text.contains(char::is_control) {
        return Err(Problem::malformed(format!("`{what}` has at most {TEXT_BYTES} bytes and no control character.")));
    }
    Ok(text.into_owned())
}

/// When a secret expires; none if no time is sent.
pub fn expiry(text: Option<&str>) -> Result<Option<Timestamp>> {
    let expires = text.map(Timestamp::parse).transpose();
    let expires = expires.map_err(|error| Problem::malformed(format!("`expires` is {error}.")))?;
    if expires.is_some_and(|expires| expires <= Timestamp::now()) {
        return Err(Problem::malformed("`expires` is past: what is made expires in the future, or never."));
    }
    Ok(expires)
}

/// The rights of a request; at least one.
pub fn rights(asked: &[RightJson]) -> Result<Rights> {
    if asked.is_empty() {
        return Err(Problem::malformed("`rights` has at least one of read, write and share."));
    }
    let right = |json: &RightJson| match json {
        RightJson::Read => Right::Read,
        RightJson::Write => Right::Write,
        RightJson::Share => Right::Share,
    };
    Ok(asked.iter().map(right).collect())
}
