//! What browsers say of the page that a request comes from (Fetch Metadata, RFC 6454).

use axum::http::header::ORIGIN;
use axum::http::{HeaderMap, HeaderValue, Method};

use crate::api::problem::ProblemKind;
use crate::http::response::problem::Problem;

const SITE: &str = "sec-fetch-site";
const MODE: &str = "sec-fetch-mode";
const DEST: &str = "sec-fetch-dest";

/// Whether a request comes from a page of another site, or of another server on the same site. A link to a page here is
/// none: the page that has the link does not learn what it leads to.
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

/// Whether a script of a page asks: no browser may show a window for name and password because of it.
pub fn is_script(headers: &HeaderMap) -> bool {
    headers.contains_key(MODE) && !is(headers, MODE, "navigate")
}

pub fn refused() -> Problem {
    Problem::new(
        ProblemKind::ForeignOrigin,
        "Only pages of this very server may ask for this: open it by its own address.",
    )
}

fn is(headers: &HeaderMap, name: &str, expected: &str) -> bool {
    headers.get(name).is_some_and(|value| value == expected)
}
