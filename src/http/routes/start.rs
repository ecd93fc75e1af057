//! `/`: a page with links to what there is, for people. Programs find nothing here.

use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;

use super::pattern;
use crate::http::request::accepts_html;
use crate::http::response::html;
use crate::http::response::problem::{Problem, Result};

/// It needs nothing but itself.
const POLICY: &str = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'";

pub async fn page(headers: HeaderMap) -> Result<Response> {
    if !accepts_html(&headers) {
        return Err(Problem::no_such_route());
    }
    let links = [
        (pattern::FS_ROOT, "The files and folders", "as programs read them, in JSON"),
        (pattern::SESSION, "Who you are", "your rights, what you have, and may have"),
        (pattern::DOCS_PAGE, "The API", "what programs can do here, to be tried out"),
    ];
    let links: String =
        links.iter().map(|(to, what, how)| format!("<li><a href=\"{to}\">{what}</a>: {how}</li>\n")).collect();
    let html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Rowdrive</title></head>\n\
         <body>\n<h1>Rowdrive</h1>\n<ul>\n{links}</ul>\n</body>\n</html>\n"
    );
    Ok(html::page(HeaderValue::from_static(POLICY), html))
}
