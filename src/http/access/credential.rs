//! The credential that a request sends: in `Authorization`, else in the cookie of a session.

use std::net::IpAddr;
use std::time::Instant;

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, COOKIE};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::auth::password::TOKEN_PREFIX;
use crate::auth::{Auth, AuthError, Credential};
use crate::http::response::cookie;
use crate::schema::secret::SecretKind;

/// A credential as it was sent; nothing is verified.
pub enum Presented<'a> {
    Nothing,
    /// It can be no credential.
    Invalid,
    Password(Basic),
    /// A token in the place of a password.
    TokenInBasic(Basic),
    Bearer(&'a str),
    Session(&'a str),
}

/// What Basic has: a name, a colon, and a password, in whose place a token may be.
pub struct Basic {
    /// In one piece, so that neither part is copied.
    text: String,
    /// Where the colon is, the first one.
    colon: usize,
}

impl Basic {
    /// Decodes base64. None if it is malformed.
    fn decode(sent: &str) -> Option<Self> {
        let text = String::from_utf8(STANDARD.decode(sent).ok()?).ok()?;
        let colon = text.find(':')?;
        Some(Self { text, colon })
    }

    pub fn name(&self) -> &str {
        self.text.get(..self.colon).unwrap_or_default()
    }

    pub fn password(&self) -> &str {
        self.text.get(self.colon + 1..).unwrap_or_default()
    }
}

impl<'a> Presented<'a> {
    /// `Authorization` goes before the cookie, also if it is wrong.
    pub fn parse(headers: &'a HeaderMap, is_secure: bool) -> Self {
        Self::in_authorization(headers).unwrap_or_else(|| session(headers, is_secure))
    }

    /// What `Authorization` has; none without that header.
    pub fn in_authorization(headers: &'a HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        match (values.next(), values.next()) {
            (None, _) => None,
            (Some(value), None) => Some(value.to_str().ok().and_then(authorization).unwrap_or(Self::Invalid)),
            _ => Some(Self::Invalid),
        }
    }

    /// Whether a browser has added it by itself.
    pub fn is_cookie(&self) -> bool {
        matches!(self, Self::Session(_))
    }

    pub fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// The name that was sent with a password.
    pub fn name_with_password(&self) -> Option<&str> {
        match self {
            Self::Password(basic) => Some(basic.name()),
            Self::Nothing | Self::Invalid | Self::TokenInBasic(_) | Self::Bearer(_) | Self::Session(_) => None,
        }
    }

    /// `address`: where the request comes from. Verifies the password, or finds the session or token.
    pub async fn find(&self, auth: &Auth, address: IpAddr) -> Result<Credential, AuthError> {
        match self {
            Self::Nothing | Self::Invalid => Err(AuthError::Unauthorized),
            Self::Password(basic) => auth.log_in(basic.name(), basic.password(), address, Instant::now()).await,
            Self::TokenInBasic(basic) => {
                let token = find(auth, basic.password(), SecretKind::Token).await?;
                // The name has to be that of its user, if one came with it.
                let is_of = |name: &str| name.is_empty() || token.is_of(name);
                if is_of(basic.name()) { Ok(token) } else { Err(AuthError::Unauthorized) }
            }
            Self::Bearer(text) => find(auth, text, SecretKind::Token).await,
            Self::Session(text) => find(auth, text, SecretKind::Session).await,
        }
    }
}

/// A session is no token, and a token no session, however they are sent.
async fn find(auth: &Auth, text: &str, kind: SecretKind) -> Result<Credential, AuthError> {
    let found = auth.find_secret(text).await?;
    if found.secret().is_some_and(|owner| owner.kind == kind) { Ok(found) } else { Err(AuthError::Unauthorized) }
}

/// Basic (RFC 7617) or Bearer (RFC 6750).
fn authorization(value: &str) -> Option<Presented<'_>> {
    let (scheme, rest) = value.split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return rest.starts_with(TOKEN_PREFIX).then_some(Presented::Bearer(rest));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let basic = Basic::decode(rest)?;
    let is_token = basic.password().starts_with(TOKEN_PREFIX);
    Some(if is_token { Presented::TokenInBasic(basic) } else { Presented::Password(basic) })
}

/// The cookies of this name (RFC 6265).
pub fn cookies<'a>(headers: &'a HeaderMap, named: &'a str) -> impl Iterator<Item = &'a str> {
    let pairs = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(';'));
    let pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(name, _)| *name == named).map(|(_, text)| text)
}

/// The session of a cookie. Two of them are none: one may be of another server on the same host.
fn session(headers: &HeaderMap, is_secure: bool) -> Presented<'_> {
    let mut found = cookies(headers, cookie::name(is_secure));
    match (found.next(), found.next()) {
        (None, _) => Presented::Nothing,
        (Some(text), None) => Presented::Session(text),
        _ => Presented::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_name_ends_before_the_first_colon() {
        for (text, name, password) in
            [("tom:sesame", "tom", "sesame"), ("tom:a:b:", "tom", "a:b:"), (":x", "", "x"), ("tom:", "tom", "")]
        {
            let value = format!("Basic {}", STANDARD.encode(text));
            let Some(Presented::Password(basic)) = authorization(&value) else { panic!("{text}") };
            assert_eq!((basic.name(), basic.password()), (name, password));
        }
        assert!(matches!(authorization("bearer  rd_x"), Some(Presented::Bearer("rd_x"))));
        for bad in ["Basic dG9t", "Basic !", "Bearer x", "Digest dG9tOng=", "Basic"] {
            assert!(authorization(bad).is_none(), "{bad}");
        }
    }

    /// A cookie of the other name may be one that another server on this host has set.
    #[test]
    fn a_session_is_in_the_cookie_of_its_connection() {
        for (cookie, is_secure, session) in [
            ("__Host-rowdrive=s", true, Some("s")),
            ("rowdrive=s", true, None),
            ("rowdrive=s", false, Some("s")),
            ("__Host-rowdrive=s", false, None),
            ("rowdrive=t; __Host-rowdrive=s", true, Some("s")),
        ] {
            let headers = HeaderMap::from_iter([(COOKIE, HeaderValue::from_static(cookie))]);
            let found = match Presented::parse(&headers, is_secure) {
                Presented::Session(text) => Some(text),
                _ => None,
            };
            assert_eq!(found, session, "{cookie} {is_secure}");
        }
    }
}
