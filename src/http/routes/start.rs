//! `/`: a page with links to what there is, for people. Programs find nothing here.

use axum::http::HeaderMap;
use axum::response::Response;

use super::pattern;
use crate::auth::Credential;
use crate::http::request::accepts_html;
use crate::http::response::html;
use crate::http::response::problem::{Problem, Result};
use crate::schema::secret::SecretKind;

pub async fn page(by: Credential, headers: HeaderMap) -> Result<Response> {
    if !accepts_html(&headers) {
        return Err(Problem::no_such_route());
    }
    let links = [
        (pattern::FS_ROOT, "The files and folders", "as programs read them, in JSON"),
        (pattern::SESSION, "Who you are", "your rights, what you have, and may have"),
        (pattern::DOCS_PAGE, "The API", "what programs can do here, to be tried out"),
    ];
    let links: String =
        links.iter().map(|(to, what, how)| format!("<p><a href=\"{to}\">{what}</a>: {how}</p>\n")).collect();
    let has_session = by.secret().is_some_and(|secret| secret.kind == SecretKind::Session);
    let log_out = format!("<form method=\"post\" action=\"{}\"><button>Log out</button></form>\n", pattern::LOGOUT);
    let log_out = if has_session { log_out } else { String::new() };
    Ok(html::page("Rowdrive", &format!("<h1>Rowdrive</h1>\n{links}{log_out}"), html::policy()))
}
