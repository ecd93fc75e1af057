//! What the web pages have in common: one style, nothing that is loaded from elsewhere; they are never kept, and shown
//! in no frame.

use std::sync::OnceLock;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_FRAME_OPTIONS};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::api::shown::is_hidden;
use crate::sha256::sha256;

const STYLE: &str = "body{font:1rem/1.6 system-ui,sans-serif;max-width:40rem;margin:2rem auto;padding:0 1rem}\
    input,button{font:inherit}\
    ul{list-style:none;padding:0}li{display:flex;justify-content:space-between;gap:1em;overflow-wrap:anywhere}\
    li span{white-space:nowrap}";

/// Nothing is loaded but the style of the page itself, by its hash, and no page shows it in a frame.
pub fn policy() -> HeaderValue {
    static POLICY: OnceLock<HeaderValue> = OnceLock::new();
    POLICY.get_or_init(|| made_policy("")).clone()
}

/// The same, with what another page needs `more`: directives, each with `; ` after it.
pub fn made_policy(more: &str) -> HeaderValue {
    let style = hash(STYLE);
    let policy = format!(
        "default-src 'none'; style-src '{style}'; {more}form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
}

/// The source of an element of the page, as the policy names it (Content Security Policy Level 3).
pub fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(sha256(text)))
}

/// A page with this body. `policy`: [`policy`], or one of [`made_policy`].
pub fn page(title: &str, body: &str, policy: HeaderValue) -> Response {
    response(document(title, body), policy)
}

/// The text of a page with this body.
pub fn document(title: &str, body: &str) -> String {
    let head = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n"
    );
    [&head, body, "</html>\n"].concat()
}

/// The response with the text of a page.
pub fn response(html: impl Into<Body>, policy: HeaderValue) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (CONTENT_SECURITY_POLICY, policy),
        // For browsers that do not support `frame-ancestors`.
        (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    ];
    (headers, html.into()).into_response()
}

/// A text that is no markup, in an element or in an attribute with quotes; what hides, or turns what stands beside it, as
/// `\u{202e}`.
pub fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            hidden if is_hidden(hidden) => html.extend(hidden.escape_default()),
            other => html.push(other),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_lets_the_style_of_a_page_through() {
        let policy = policy();
        assert!(policy.to_str().unwrap().contains(&format!("style-src '{}'; form-action", hash(STYLE))), "{policy:?}");
        assert!(made_policy("script-src 'x'; ").to_str().unwrap().contains("; script-src 'x'; form-action"));
    }

    #[test]
    fn names_are_no_markup() {
        assert_eq!(escaped("<a href=\"x\">'&"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;");
        assert_eq!(escaped("\u{202e}gpj.exe \u{feff}\u{e4}"), "\\u{202e}gpj.exe \\u{feff}\u{e4}");
    }

    #[test]
    fn a_target_cannot_leave_its_attribute() {
        let target = escaped(r#"/"><script>'&"#);
        assert!(!target.contains(['"', '<', '>', '\'']), "{target}");
        assert_eq!(escaped("/a&b"), "/a&amp;b");
    }
}
