//! What the web pages have in common: they are never kept, and shown in no frame.

use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_FRAME_OPTIONS};
use axum::response::{IntoResponse, Response};

/// A page. `policy`: its Content Security Policy, which has `frame-ancestors 'none'`.
pub fn page(policy: HeaderValue, html: String) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (CONTENT_SECURITY_POLICY, policy),
        // For browsers that do not support `frame-ancestors`.
        (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    ];
    (headers, html).into_response()
}

/// A text that is no markup, in an element or in an attribute with quotes.
pub fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            other => html.push(other),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_markup() {
        assert_eq!(escaped("<a href=\"x\">'&"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;");
    }

    #[test]
    fn a_target_cannot_leave_its_attribute() {
        let target = escaped(r#"/"><script>'&"#);
        assert!(!target.contains(['"', '<', '>', '\'']), "{target}");
        assert_eq!(escaped("/a&b"), "/a&amp;b");
    }
}
