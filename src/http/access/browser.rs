//! What browsers say of the page that a request comes from (Fetch Metadata; for `Origin` RFC 6454).

use axum::http::header::ORIGIN;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::api::problem::ProblemKind;
use crate::http::response::password_form::SESSION_CHALLENGE;
use crate::http::response::problem::Problem;

// Not as texts, which would be parsed for each request.
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const BASIC_CHALLENGE: &str = r#"Basic realm="Rowdrive", charset="UTF-8""#;

/// Whether a request comes from a page of another site, or of another server on the same site. A link to a page here does
/// not count: the page that has the link does not learn what it leads to.
pub fn is_foreign(method: &Method, headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all(SITE).iter();
    let is_other = |site: &HeaderValue| site == "cross-site" || site == "same-site";
    let is_link = *method == Method::GET && is(headers, MODE, "navigate") && is(headers, DEST, "document");
    sites.any(is_other) && !is_link
}

/// Whether a change comes without its origin, which a browser sends with every one.
pub fn lacks_origin(method: &Method, headers: &HeaderMap) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) && !headers.contains_key(ORIGIN)
}

/// What a 401 asks for (RFC 9110 section 11.6.1). To a script of a page it names a scheme for which no browser opens a window
/// for name and password.
pub fn challenge(headers: &HeaderMap) -> HeaderValue {
    let is_script = headers.contains_key(MODE) && !is(headers, MODE, "navigate");
    HeaderValue::from_static(if is_script { SESSION_CHALLENGE } else { BASIC_CHALLENGE })
}

pub fn refused() -> Problem {
    Problem::new(
        ProblemKind::ForeignOrigin,
        "Only pages of this very server may ask for this: open it by its own address.",
    )
}

fn is(headers: &HeaderMap, name: HeaderName, expected: &str) -> bool {
    headers.get(name).is_some_and(|value| value == expected)
}
