//! `/login`: a page with a form for name and password. `/logout`: what a button of the start page asks for.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{LOCATION, SET_COOKIE};
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use super::{pattern, session};
use crate::api::account::BODY_BYTES;
use crate::api::path;
use crate::auth::Credential;
use crate::http::app::App;
use crate::http::request::Params;
use crate::http::request::account::require_users;
use crate::http::request::body::form_of_login;
use crate::http::request::client::is_tls;
use crate::http::response::problem::{Problem, Result};
use crate::http::response::{cookie, headers, html, password_form};

/// Where a login leads that was asked for by no page.
const START: &str = pattern::ROOT;
/// Bytes of a target that is kept over the login.
const NEXT_BYTES: usize = 4_096;

/// Sends a browser to the page, and from there back to where it wanted to go.
pub fn redirect(to: &Uri) -> Response {
    let next = to.path_and_query().map(|target| target.as_str()).filter(|target| target.len() <= NEXT_BYTES);
    let query = next.map(|next| ["?next=", &path::encode(next)].concat()).unwrap_or_default();
    let location = headers::value([pattern::LOGIN, &query].concat());
    location.map(|location| (StatusCode::SEE_OTHER, [(LOCATION, location)])).into_response()
}

/// Sends a browser to the page, and from there to the start.
pub fn redirect_to_start() -> Response {
    (StatusCode::SEE_OTHER, [(LOCATION, HeaderValue::from_static(pattern::LOGIN))]).into_response()
}

pub async fn page(State(app): State<App>, uri: Uri) -> Result<Response> {
    let params = Params::parse(uri.query(), &["next"])?;
    require_users(&app).await?;
    Ok(form(StatusCode::OK, own_path(params.text("next")), ""))
}

/// The form was sent.
pub async fn log_in(
    State(app): State<App>,
    extensions: Extensions,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    Params::parse(uri.query(), &[])?;
    require_users(&app).await?;
    let (mut user, mut password, mut next) = (String::new(), String::new(), None);
    for (name, value) in form_of_login(&headers, body, BODY_BYTES).await? {
        match name.as_str() {
            "user" => user = value,
            "password" => password = value,
            "next" => next = Some(value),
            _ => return Err(Problem::malformed("The form has `user`, `password` and `next`.")),
        }
    }
    let next = own_path(next.as_deref());
    let session = match session::make(&app, &user, &password, &extensions).await {
        Ok(session) => session,
        Err(error) => {
            let wrong = "The name or the password is wrong.";
            return password_form::again(error, wrong, |status, wrong| form(status, next, wrong));
        }
    };
    let set = cookie::set(&session.text, is_tls(&extensions))?;
    Ok((StatusCode::SEE_OTHER, [(LOCATION, headers::value(next.to_owned())?), (SET_COOKIE, set)]).into_response())
}

/// The button was pressed: revokes the session of the browser, and shows the login.
pub async fn log_out(State(app): State<App>, by: Credential, extensions: Extensions, uri: Uri) -> Result<Response> {
    let (_, remove_cookie) = session::log_out(State(app), by, extensions, uri).await?;
    Ok((remove_cookie, redirect_to_start()).into_response())
}

/// The target after the login, if it is a path of this server; else the start. Browsers read `//` and `/\` as the name of
/// another server, and leave tabs and line breaks out before.
fn own_path(next: Option<&str>) -> &str {
    let is_own = |next: &&str| {
        next.starts_with('/')
            && !next.starts_with("//")
            && next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
    };
    next.filter(is_own).unwrap_or(START)
}

/// The page, with what was wrong.
fn form(status: StatusCode, next: &str, wrong: &str) -> Response {
    let body = format!(
        r#"<h1>Log in</h1>
{wrong}<form method="post" action="{action}">
<p><label>Name <input name="user" autocomplete="username" autocapitalize="none" required autofocus></label></p>
<p><label>Password <input name="password" type="password" autocomplete="current-password" required></label></p>
<input type="hidden" name="next" value="{next}">
<p><button>Log in</button></p>
</form>
"#,
        wrong = password_form::alert(wrong),
        action = pattern::LOGIN,
        next = html::escaped(next),
    );
    // No foreign page may show it in a frame: people type into it.
    password_form::with_status(status, html::page("Log in: Rowdrive", &body, html::policy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_to_a_path_of_this_server_alone() {
        for own in ["/", "/docs/", "/v1/fs/a%20b/?limit=1&x=//y", "/.//evil.example", "/@evil.example"] {
            assert_eq!(own_path(Some(own)), own);
        }
        for foreign in [
            "//evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "\\/evil.example",
            "/\t/evil.example",
            "/\n/evil.example",
            " //evil.example",
            "https://evil.example/",
            "javascript:alert(1)",
            "evil.example",
            "/ä",
            "/\u{202e}",
            "",
        ] {
            assert_eq!(own_path(Some(foreign)), START, "{foreign:?}");
        }
        assert_eq!(own_path(None), START);
    }
}
