//! The creator of what a request makes: its user. On a drive without users the name of a Basic header is believed,
//! whatever the password.

use axum::extract::{FromRequestParts, Request};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::single_header;
use crate::http::response::problem::{Problem, Result};
use crate::schema::path::nfc;

const ANONYMOUS: &str = "anonymous";
const NAME_BYTES: usize = 255;

/// The creator of new files: a name in NFC, at most 255 bytes, without control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Creator(pub String);

/// Parses the name of every request to the API, so that every route refuses a malformed one.
pub fn identify(request: &mut Request) -> Result<()> {
    let creator = parse_basic(request.headers())?;
    // A read creates nothing.
    if !request.method().is_safe() {
        request.extensions_mut().insert(creator);
    }
    Ok(())
}

/// Sets the name of a user who has proved who he is.
pub fn set(request: &mut Request, user: &str) {
    if !request.method().is_safe() {
        request.extensions_mut().insert(Creator(user.to_owned()));
    }
}

impl<S: Sync> FromRequestParts<S> for Creator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        parts.extensions.get().cloned().ok_or_else(|| Problem::internal(&"a route lacks its identity"))
    }
}

/// The name of an HTTP Basic header (RFC 7617). It is anonymous without a header, for another scheme and for an empty name.
/// By hand and not by `headers`, which has one error for another scheme and for a malformed name.
fn parse_basic(headers: &HeaderMap) -> Result<Creator> {
    let anonymous = Ok(Creator(ANONYMOUS.to_owned()));
    let Some(value) = single_header(headers, &AUTHORIZATION)? else {
        return anonymous;
    };
    let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
    if !scheme.eq_ignore_ascii_case("basic") {
        return anonymous;
    }
    let malformed = || Problem::malformed("The Basic header is not base64 of a name, a colon and a password in UTF-8.");
    let decoded = STANDARD.decode(token.trim()).map_err(|_| malformed())?;
    let text = String::from_utf8(decoded).map_err(|_| malformed())?;
    let (name, _password) = text.split_once(':').ok_or_else(malformed)?;
    if name.is_empty() { anonymous } else { parse_user(name).map(Creator) }
}

/// Parses the name of a user, from a header or a parameter.
pub fn parse_user(name: &str) -> Result<String> {
    let name = nfc(name);
    if name.is_empty() || name.len() > NAME_BYTES || name.contains(char::is_control) {
        return Err(Problem::malformed(format!("A user's name has 1 to {NAME_BYTES} bytes and no control character.")));
    }
    Ok(name.into_owned())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn named(value: &str) -> Option<String> {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(value).unwrap())]);
        parse_basic(&headers).ok().map(|c| c.0)
    }

    fn basic(text: &[u8]) -> Option<String> {
        named(&format!("Basic {}", STANDARD.encode(text)))
    }

    #[test]
    fn names_are_parsed_and_bounded() {
        assert_eq!(basic(b"tom:secret").unwrap(), "tom");
        assert_eq!(basic(b"tom:").unwrap(), "tom");
        assert_eq!(basic("e\u{301}va:a:b".as_bytes()).unwrap(), "éva");
        assert_eq!(basic(b":x").unwrap(), ANONYMOUS);
        assert_eq!(named("Bearer abc").unwrap(), ANONYMOUS);
        assert_eq!(parse_basic(&HeaderMap::new()).unwrap().0, ANONYMOUS);
        assert_eq!(named(&format!("bAsIc {}", STANDARD.encode("tom:x"))).unwrap(), "tom");
        assert_eq!(basic(format!("{}:x", "u".repeat(255)).as_bytes()).unwrap().len(), 255);
        for bad in
            [&b"tom"[..], b"to\nm:x", b"\xff:x", "\u{85}:x".as_bytes(), format!("{}:x", "u".repeat(256)).as_bytes()]
        {
            assert_eq!(basic(bad), None);
        }
        for bad in ["Basic", "Basic !!!", "Basic dG9t OnNl"] {
            assert_eq!(named(bad), None, "{bad}");
        }
    }
}
