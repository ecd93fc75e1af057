//! What the pages with a form for a password have in common: `/login`, and the page of a share.

use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use super::problem::Result;
use crate::auth::AuthError;

/// The challenge of a 401 (RFC 9110 section 11.6.1) for which no browser opens a window for name and password.
pub const SESSION_CHALLENGE: &str = r#"Session realm="Rowdrive""#;

/// The paragraph that says what was wrong; nothing if nothing was.
pub fn alert(wrong: &str) -> String {
    if wrong.is_empty() { String::new() } else { format!("<p role=\"alert\">{wrong}</p>\n") }
}

/// A page with the form, as an answer of this status.
pub fn with_status(status: StatusCode, page: impl IntoResponse) -> Response {
    let mut response = (status, page).into_response();
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(SESSION_CHALLENGE));
    }
    response
}

/// The form again, after a password that was refused. `wrong`: the text for one that is not right. `form`: the page, by its
/// status and what was wrong.
///
/// Errors: all but [`AuthError::Unauthorized`] and [`AuthError::Slowed`].
pub fn again(error: AuthError, wrong: &str, form: impl FnOnce(StatusCode, &str) -> Response) -> Result<Response> {
    match error {
        AuthError::Unauthorized => Ok(form(StatusCode::UNAUTHORIZED, wrong)),
        AuthError::Slowed(seconds) => {
            let wrong = "Too many wrong passwords were sent. Wait for some minutes, then try again.";
            let mut response = form(StatusCode::TOO_MANY_REQUESTS, wrong);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
            Ok(response)
        }
        error => Err(error.into()),
    }
}
