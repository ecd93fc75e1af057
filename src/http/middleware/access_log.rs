//! Around every request: its id, its log line, its metrics, the body of a problem, and headers of every response.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, REFERRER_POLICY, STRICT_TRANSPORT_SECURITY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http_body::{Frame, SizeHint};
use percent_encoding::{CONTROLS, utf8_percent_encode};
use tracing::Instrument;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::host_check;
use crate::api::header;
use crate::api::path::{SHARED, share_secret};
use crate::api::problem::ProblemKind;
use crate::auth::{Credential, Requester};
use crate::http::access;
use crate::http::app::App;
use crate::http::callers::{Callers, ShareRoute};
use crate::http::metrics::InFlight;
use crate::http::request::client::{self, Client};
use crate::http::request::{accepts_html, identity, requester};
use crate::http::response::problem::{self, Problem};
use crate::http::response::share_page;
use crate::http::response::watched::Watched;
use crate::http::routes::pattern::{self, label};
use crate::http::routes::{login, share_login};
use crate::http::server::{BodyWaiter, RunningStream, UserRequest, drain};
use crate::schema::user_name::UserName;

/// Characters of a half of the shortest secret, that of a share.
const HALF_SECRET: usize = 13;
const REQUEST_ID: HeaderName = HeaderName::from_static(header::REQUEST_ID);
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// As [`handle`], for the routes of axum.
pub async fn record(State(app): State<App>, request: Request, next: Next) -> Response {
    let pattern = request.extensions().get::<MatchedPath>().cloned();
    handle(app, request, pattern.as_ref().map(MatchedPath::as_str), |request| next.run(request)).await
}

/// Handles a request under an id of its own, writes the body of a problem, and logs the request when its response is
/// sent or its client has left.
pub async fn handle<F: Future<Output = Response>>(
    app: App,
    request: Request,
    pattern: Option<&str>,
    run: impl FnOnce(Request) -> F,
) -> Response {
    let id = Uuid::now_v7();
    let mut line = LogLine {
        id,
        method: request.method().clone(),
        path: logged_path(request.uri().path(), pattern, None),
        caller: None,
        status: None,
        bytes: 0,
        started: Instant::now(),
        _in_flight: app.metrics.start_request(),
        of_user: None,
        app: app.clone(),
    };
    let client = Client::of(&request, &app.options.proxies);
    let shows_no_share = shows_no_share(pattern, &request);
    let hsts = app.options.hsts && client.as_ref().is_ok_and(|client| client.is_tls);
    let challenge = access::challenge(request.headers());
    let route = label(pattern, request.uri().path().ends_with('/'));
    let callers = callers_of(&app, pattern, &request);
    let mut id_text = Uuid::encode_buffer();
    let id_text: &str = id.as_hyphenated().encode_lower(&mut id_text);
    // Of this level, so that errors have the id also when only they are logged.
    let span = tracing::error_span!("request", id = id_text);
    // A panic must not end the connection without a response.
    let checked = async {
        let mut request = drain::drain_on_drop(request, &app.metrics.received);
        let authorized = match client {
            Ok(client) => authorize(&mut request, client, &app, (pattern, callers), &mut line).await,
            Err(problem) => Err(problem),
        };
        match authorized {
            Ok(()) => run(request).await,
            Err(problem) => refuse(problem, pattern, &request),
        }
    };
    let answer = AssertUnwindSafe(checked).catch_unwind().instrument(span.clone()).await;
    let mut response = span.in_scope(|| {
        answer.unwrap_or_else(|_| {
            app.metrics.panics.inc();
            Problem::internal(&"a handler panicked").into_response()
        })
    });
    if !Watched::is(&response) {
        // Nobody asks any more whether its user still is one, and its client may read for hours.
        line.of_user = None;
    }
    tell_problem(&app, &mut response, id, shows_no_share);
    app.metrics.answered(route, &line.method, response.status(), line.started.elapsed());
    line.status = Some(response.status().as_u16());
    let is_of_caller = is_of_caller(&app, response.status()).await;
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // A page elsewhere can neither load what is here as its script or picture, nor learn by it what there is; but a link is
    // for anybody, also in such a page. No other server learns from `Referer` what a page here is called, and so no secret
    // of a link.
    let policy = if matches!(callers, Callers::Share(_)) { "cross-origin" } else { "same-origin" };
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static(policy));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    if is_of_caller {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if line.status == Some(StatusCode::UNAUTHORIZED.as_u16()) {
        headers.entry(WWW_AUTHENTICATE).or_insert(challenge);
    }
    if hsts {
        // A year, for this name alone.
        headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
    if let Ok(id) = HeaderValue::from_str(id_text) {
        headers.insert(REQUEST_ID, id);
    }
    response.map(|body| Body::new(CountedBody { body, line }))
}

/// Writes the problem that a response has, if it has one: as a page if the browser of a link gets it.
fn tell_problem(app: &App, response: &mut Response, id: Uuid, shows_no_share: bool) {
    let Some(problem) = response.extensions_mut().remove::<Problem>() else { return };
    problem.log();
    if problem.is_damage() {
        app.metrics.damage.inc();
    }
    if shows_no_share && problem.kind() == ProblemKind::NotFound {
        *response = share_page::nothing();
    } else {
        problem.render(response, id);
    }
}

/// Whether this refusal depends on who asks: a cache must not give it to another user, nor to the same one later.
async fn is_of_caller(app: &App, status: StatusCode) -> bool {
    let is_refusal = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND);
    is_refusal && app.auth.has_users().await.unwrap_or(true)
}

/// The answer to a request that did not reach its handler. Someone who opens a page without being logged in can do that now.
fn refuse(problem: Problem, pattern: Option<&str>, request: &Request) -> Response {
    let may_log_in = problem.kind() == ProblemKind::Unauthorized && !request.headers().contains_key(AUTHORIZATION);
    match pattern.filter(|_| may_log_in) {
        // The session has ended: that is what was asked for.
        Some(pattern::LOGOUT) => login::redirect_to_start(),
        _ if !request.method().is_safe() => problem.into_response(),
        // To a program there is nothing at the start.
        Some(pattern::ROOT) if !accepts_html(request.headers()) => problem.into_response(),
        Some(pattern) if pattern::is_page(pattern) => login::redirect(request.uri()),
        Some(pattern) if pattern::is_page_of_share(pattern) => share_login::ask(),
        _ => problem.into_response(),
    }
}

/// Whether a browser opens a link, or a file below it: people then get a page also if there is none.
fn shows_no_share(pattern: Option<&str>, request: &Request) -> bool {
    let is_of_share = pattern.is_some_and(pattern::is_of_share);
    request.method() == Method::GET && is_of_share && accepts_html(request.headers())
}

/// Who may send a request. Below a link it is whoever knows its secret, also where there is no route or method: the secret
/// comes first.
fn callers_of(app: &App, pattern: Option<&str>, request: &Request) -> Callers {
    match (share_secret(request.uri().path()), app.callers.of(pattern, request.method())) {
        (None, callers) | (Some(_), callers @ Callers::Share(_)) => callers,
        (Some(_), _) => Callers::Share(ShareRoute::Nothing),
    }
}

/// Refuses a request before its handler: a foreign host or origin, a connection without TLS, a caller that the route is
/// not for, a malformed user name, a write that cannot be stored.
async fn authorize(
    request: &mut Request,
    client: Client,
    app: &App,
    (pattern, callers): (Option<&str>, Callers),
    line: &mut LogLine,
) -> problem::Result<()> {
    let called = host_check::check(request, &app.options.hosts, &client)?;
    if called.needs_users && !app.auth.has_users().await? {
        return Err(host_check::unknown_host());
    }
    // What asks whether the server lives is often no client of the proxy, and its answer tells nothing.
    if !pattern.is_some_and(pattern::is_of_health) {
        access::check_transport(app, &client).await?;
    }
    host_check::check_origin(request.method(), request.headers(), &called, client.page_scheme())?;
    client::set(request, client);
    let uri = request.uri().clone();
    let note = |credential: &Credential| line.note_caller(credential, (uri.path(), pattern));
    let requester = access::admit(app, callers, access::RequestHead::of(request), note).await?;
    // A user, or anybody on a drive without users: the body of this request gets the patience of users, and other requests of
    // its HTTP/2 connection have places of users.
    if callers.need_user() {
        if let Some(waiter) = request.extensions().get::<BodyWaiter>() {
            waiter.note_user();
        }
        line.of_user = request.extensions().get::<Arc<RunningStream>>().map(|stream| stream.begin_of_user());
    }
    let is_api = matches!(callers, Callers::Share(_)) || pattern.is_some_and(|pattern| pattern.starts_with("/v1/"));
    match requester.as_ref().and_then(Requester::user) {
        _ if !is_api => {}
        Some(user) => identity::set(request, user.as_str()),
        None => identity::identify(request)?,
    }
    if let Some(requester) = requester {
        requester::set(request, requester);
    }
    if !is_api {
        return Ok(());
    }
    // Before the body: what cannot be stored need not be sent. The password of a share is not stored.
    let stores = !request.method().is_safe() && callers != Callers::Share(ShareRoute::Enter);
    if stores { Ok(app.drive.writable()?) } else { Ok(()) }
}

/// The path of a request, percent-encoded. In place of the secret of a share it has the id, and a hyphen until the id is
/// known. A path of files is shown whole. Any other path may be a mistyped link, or have a secret in the place of an id: it
/// is cut before the first part that could be one, and behind a part `s`. A hyphen marks the cut.
fn logged_path(path: &str, pattern: Option<&str>, share: Option<Uuid>) -> String {
    let secret = share_secret(path);
    let (start, rest) = match secret {
        Some(secret) => {
            let shown = share.map_or_else(|| "-".to_owned(), |id| id.to_string());
            ([SHARED, &shown].concat(), path.get(SHARED.len() + secret.len()..).unwrap_or_default())
        }
        None => (String::new(), path),
    };
    let is_shown_whole = pattern.is_some_and(pattern::is_of_files) && (secret.is_none() || share.is_some());
    if is_shown_whole {
        // Borrowed, if the client has encoded all that has to be, as most do.
        return start + &Cow::from(utf8_percent_encode(rest, CONTROLS));
    }
    let mut is_below_s = false;
    let shown = rest.split('/').take_while(|part| {
        let is_shown = !is_below_s && !could_be_secret(part);
        is_below_s |= part.eq_ignore_ascii_case("s");
        is_shown
    });
    let shown = shown.collect::<Vec<_>>().join("/");
    if shown.len() == rest.len() { [start, shown].concat() } else { [&start, &shown, "/-"].concat() }
}

/// Whether a part of a path could be a secret, or more than a half of one. An id, as the server writes it, is none.
fn could_be_secret(part: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'~');
    let is_short = part.len() <= HALF_SECRET && part.bytes().all(is_plain);
    let is_id = part.len() == Hyphenated::LENGTH && Uuid::try_parse(part).is_ok();
    !is_short && !is_id
}

/// A method that a client has made up could be a secret too.
fn logged_method(method: &Method) -> &str {
    match *method {
        Method::GET | Method::HEAD | Method::PUT | Method::POST | Method::DELETE | Method::PATCH | Method::OPTIONS => {
            method.as_str()
        }
        Method::TRACE | Method::CONNECT => method.as_str(),
        _ => "-",
    }
}

/// The log line of a request, written when its response is dropped.
struct LogLine {
    id: Uuid,
    method: Method,
    /// Percent-encoded as it was sent, and what was not: no name can pass for anything else in a log.
    path: String,
    /// What has proved who asks: none on a drive without users, and if no valid credential was sent.
    caller: Option<Credential>,
    /// None if the client left before there was an answer.
    status: Option<u16>,
    /// Of the answer's body.
    bytes: u64,
    started: Instant,
    app: App,
    _in_flight: InFlight,
    /// Proves of whom its connection of HTTP/2 is, as long as the server asks whether he still is a user.
    of_user: Option<UserRequest>,
}

impl LogLine {
    /// Notes who has sent the request.
    fn note_caller(&mut self, credential: &Credential, (path, pattern): (&str, Option<&str>)) {
        self.caller = Some(credential.clone());
        if credential.is_share() {
            self.path = logged_path(path, pattern, self.credential_id());
        }
    }

    /// The id of the session, token or share; none of a password.
    fn credential_id(&self) -> Option<Uuid> {
        self.caller.as_ref().and_then(Credential::secret).map(|owner| owner.id.0)
    }

    /// The user. By a share a stranger asks, not the user who has made it.
    fn user(&self) -> Option<&UserName> {
        self.caller.as_ref().filter(|caller| !caller.is_share()).and_then(Credential::user)
    }
}

impl Drop for LogLine {
    fn drop(&mut self) {
        self.app.metrics.sent.inc_by(self.bytes);
        let (mut id, mut credential_id) = (Uuid::encode_buffer(), Uuid::encode_buffer());
        let credential = self.credential_id().map(|id| &*id.as_hyphenated().encode_lower(&mut credential_id));
        tracing::info!(
            target: "access",
            id = &*self.id.as_hyphenated().encode_lower(&mut id),
            method = logged_method(&self.method),
            path = self.path,
            user = self.user().map(UserName::as_str),
            credential,
            status = self.status.unwrap_or(0),
            bytes = self.bytes,
            ms = self.started.elapsed().as_secs_f64() * 1000.0,
        );
    }
}

/// A body that counts what is sent of it.
struct CountedBody {
    body: Body,
    line: LogLine,
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            self.line.bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
        }
        if self.body.is_end_stream() || matches!(polled, Poll::Ready(None)) {
            // The rest is in the buffers of the connection.
            self.line.of_user = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    /// None for a 304: its `Content-Length` would be that of the file (RFC 9110, section 8.6), and not 0.
    fn size_hint(&self) -> SizeHint {
        let is_length_of_another = self.line.status == Some(StatusCode::NOT_MODIFIED.as_u16());
        if is_length_of_another { SizeHint::default() } else { self.body.size_hint() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_in_a_logged_path() {
        let id = Uuid::nil();
        let secret = "x".repeat(27);
        let (fs, of_share, of_token) = (Some(pattern::FS_PATH), Some(pattern::SHARED_PATH), Some(pattern::TOKENS_ID));
        for (path, pattern, share, logged) in [
            ("/v1/fs/s/x", fs, None, "/v1/fs/s/x"),
            ("/v1/fs/SECRET SECRET/\u{7f}", fs, None, "/v1/fs/SECRET SECRET/%7F"),
            ("/v1/stat/a%20b", Some(pattern::STAT_PATH), None, "/v1/stat/a%20b"),
            ("/s/SECRET/fs/a%20b", of_share, Some(id), "/s/ID/fs/a%20b"),
            ("/s/SECRET/fs/a%20b", of_share, None, "/s/-/fs/-"),
            ("/s/SECRET/fs/SECRET", of_share, Some(id), "/s/ID/fs/SECRET"),
            ("/s/SECRET/s/SECRET/", None, Some(id), "/s/ID/s/-"),
            ("/s/SECRET/", Some(pattern::SHARED_PAGE), Some(id), "/s/ID/"),
            ("/s/SECRET/login", Some(pattern::SHARED_LOGIN), None, "/s/-/login"),
            ("/s//SECRET/", None, None, "/s/-/-"),
            ("/s/x/SECRET/", None, None, "/s/-/-"),
            ("/s/./SECRET", None, None, "/s/-/-"),
            ("/s/-/fs/SECRET", of_share, None, "/s/-/fs/-"),
            ("/s/SECRET", None, None, "/s/-"),
            ("/s/", None, None, "/s/-"),
            ("/s", None, None, "/s"),
            ("/%73/SECRET/", None, None, "/-"),
            ("//s/SECRET/", None, None, "//s/-"),
            ("/S/SECRET/", None, None, "/S/-"),
            ("/s%2fSECRET/", None, None, "/-"),
            ("/drive/s/SECRET/fs/", None, None, "/drive/s/-"),
            ("/./s/SECRET", None, None, "/./s/-"),
            ("/x/../s/SECRET/", None, None, "/x/../s/-"),
            ("/v1/s/SECRET/", None, None, "/v1/s/-"),
            ("/s;x/SECRET/", None, None, "/-"),
            ("/%20s/SECRET/", None, None, "/-"),
            ("/\\s/SECRET/", None, None, "/-"),
            ("/v1/tokens/rd_SECRET", of_token, None, "/v1/tokens/-"),
            ("/v1/tokens/ID", of_token, None, "/v1/tokens/ID"),
            ("/v1/tokens/{ID}", of_token, None, "/v1/tokens/-"),
            ("/v1/users/9f86d081884c7d659a2feaa0c55ad015", Some(pattern::USERS_NAME), None, "/v1/users/-"),
            ("/S/xxx/xxx", None, None, "/S/-"),
            ("/s/SECRET/s/x", None, Some(id), "/s/ID/s/-"),
            ("SECRET", None, None, "/-"),
            ("/drive/v1/fs/x", None, None, "/drive/v1/fs/x"),
            ("/no/", None, None, "/no/"),
            ("*", None, None, "/-"),
            ("", None, None, ""),
        ] {
            let text = |text: &str| text.replace("SECRET", &secret).replace("ID", &id.to_string());
            assert_eq!(logged_path(&text(path), pattern, share), text(logged), "{path}");
        }
        // Of a part of a secret less than a half is shown.
        for length in 0..27 {
            let logged = logged_path(&format!("/v/{}", "x".repeat(length)), None, None);
            assert!(logged.len() <= "/v/".len() + HALF_SECRET, "{logged}");
        }
    }

    #[test]
    fn only_a_method_of_http_is_logged() {
        for (method, logged) in [("GET", "GET"), ("PATCH", "PATCH"), ("TRACE", "TRACE"), ("rd_x", "-"), ("get", "-")] {
            assert_eq!(logged_method(&Method::from_bytes(method.as_bytes()).unwrap()), logged);
        }
    }
}
