//! `GET` and `HEAD /v1/fs/<path>`: the content of a file, or the [listing](super::list) of a directory.

use std::ops::Range;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, LOCATION};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream, StreamExt};
use percent_encoding::{CONTROLS, utf8_percent_encode};
use prometheus_client::metrics::counter::Counter;

use super::list;
use crate::api;
use crate::api::problem::{MEDIA_TYPE, ProblemJson, ProblemKind};
use crate::auth::Credential;
use crate::content::ContentError;
use crate::drive::{Condition, DriveError, Node, UserDrive};
use crate::http::app::App;
use crate::http::request::range;
use crate::http::request::{Params, Preconditions, RequestPath, drive_of};
use crate::http::response::headers;
use crate::http::response::http_date::HttpDate;
use crate::http::response::memory;
use crate::http::response::problem::{Problem, Result};
use crate::http::response::watched::Watched;
use crate::schema::dir::FileEntry;
use crate::schema::file::ContentLocation;
use crate::schema::{DrivePath, Timestamp};

/// How many times a file is opened if other requests keep replacing it.
const TRIES: usize = 4;

/// The parts of a request that decide the response.
struct DownloadRequest<'a> {
    preconditions: &'a Preconditions,
    headers: &'a HeaderMap,
    head: bool,
    download: bool,
    /// The share by which it is asked for, if its downloads are counted.
    counted: Option<&'a Credential>,
}

/// As [`get`], of the parts of a request.
pub async fn get_parts(app: App, Parts { method, uri, headers, extensions, .. }: Parts) -> Result<Response> {
    let target = RequestPath::of(&uri)?;
    let preconditions = Preconditions::parse(&headers)?;
    let drive = drive_of(&app, &extensions);
    get(State(app), drive, method, target, preconditions, uri, headers).await
}

/// Download a file
#[utoipa::path(get, path = "/v1/fs/{path}", operation_id = "download", tag = "files",
    params(("path" = String, Path, description = "Names, percent-encoded, with slashes between them"),
           ("download" = Option<bool>, Query, description = "Whether a browser shall save it rather than show it"),
           ("Range" = Option<String>, Header, description = "One range of bytes: `bytes=0-499`"),
           ("If-Range" = Option<String>, Header, description = "The range only of this version, told by its ETag, else the whole file"),
           ("If-Match" = Option<String>, Header, description = "Only this version"),
           ("If-None-Match" = Option<String>, Header, description = "Only if it is another version"),
           ("If-Modified-Since" = Option<String>, Header, description = "Only if it is newer"),
           ("If-Unmodified-Since" = Option<String>, Header, description = "Only if it is not newer")),
    responses((status = 200, description = "The content", content_type = "*/*", body = String,
                headers(("ETag" = String), ("Last-Modified" = String), ("Repr-Digest" = String))),
              (status = 206, description = "A part of the content", content_type = "*/*", body = String),
              (status = 304, description = "The version that the client has"),
              (status = 308, description = "A directory stands here: `Location` has a slash at its end"),
              (status = 416, description = "The range lies outside the file", content_type = MEDIA_TYPE, body = ProblemJson<'static>)))]
pub async fn get(
    State(app): State<App>,
    drive: UserDrive,
    method: Method,
    target: RequestPath,
    preconditions: Preconditions,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response> {
    serve((&app, &drive), &target, (&preconditions, &headers), (&method, &uri), None).await
}

/// The content of a file, or the listing of a directory. `counted`: the share by which it is asked for, if its downloads are
/// counted.
pub async fn serve(
    (app, drive): (&App, &UserDrive),
    target: &RequestPath,
    (preconditions, headers): (&Preconditions, &HeaderMap),
    (method, uri): (&Method, &Uri),
    counted: Option<&Credential>,
) -> Result<Response> {
    if target.directory {
        return list::get(drive, &target.path, uri, headers).await;
    }
    for _ in 0..TRIES {
        let entry = match drive.stat(&target.path).await {
            Ok(Node::File { entry, .. }) => entry,
            Ok(Node::Directory { .. }) => return to_directory(&target.path, uri),
            Err(error) => return Err(failed(error, &target.path)),
        };
        // Only now: a directory has other parameters, which its own address checks after the redirect.
        let download = Params::parse(uri.query(), &["download"])?.flag("download", false)?;
        let head = *method == Method::HEAD;
        let ask = DownloadRequest { preconditions, headers, head, download, counted };
        if let Some(response) = respond((app, drive), &target.path, &entry, &ask).await? {
            return Ok(response);
        }
    }
    Err(Problem::new(ProblemKind::Busy, "The file is being replaced all the time: try again."))
}

/// `/v1/fs` to `/v1/fs/`.
pub async fn to_root(uri: Uri) -> Result<Response> {
    to_directory(&DrivePath::root(), &uri)
}

/// 308 to the address of the directory: path-absolute, with the same query.
pub fn to_directory(path: &DrivePath, uri: &Uri) -> Result<Response> {
    let top = api::path::share_secret(uri.path()).map(|secret| [&api::path::share_link(secret), "fs"].concat());
    let mut to = api::path::below(top.as_deref().unwrap_or(api::path::FS), path, true);
    if let Some(query) = uri.query() {
        to.push('?');
        to.extend(utf8_percent_encode(query, CONTROLS));
    }
    // Not cached: the path may have a file later.
    let headers = [(LOCATION, headers::value(to)?), (CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    Ok((StatusCode::PERMANENT_REDIRECT, headers).into_response())
}

/// The response; none if the content was removed because the file was replaced meanwhile.
async fn respond(
    (app, drive): (&App, &UserDrive),
    path: &DrivePath,
    entry: &FileEntry,
    ask: &DownloadRequest<'_>,
) -> Result<Option<Response>> {
    let modified = HttpDate::last_modified(entry.attributes.modified, Timestamp::now());
    if !should_send(ask.preconditions, entry, modified)? {
        let headers = headers::validators(entry, modified)?;
        return Ok(Some((StatusCode::NOT_MODIFIED, headers).into_response()));
    }
    let size = entry.attributes.size;
    // A part would count as a whole download.
    let has_ranges = !ask.head && ask.counted.is_none();
    let range = if has_ranges { range::requested(ask.headers, size, entry.id)? } else { None };
    let mut headers = headers::content(entry, modified, path.last(), ask.download)?;
    if ask.counted.is_some() {
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("none"));
    }
    let status = match &range {
        Some(Range { start, end }) => {
            headers.insert(CONTENT_RANGE, headers::value(format!("bytes {start}-{}/{size}", end.saturating_sub(1)))?);
            StatusCode::PARTIAL_CONTENT
        }
        None => StatusCode::OK,
    };
    let Range { start, end } = range.unwrap_or(0..size);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(end - start));
    if ask.head || start == end {
        if !ask.head {
            count(app, ask).await?;
        }
        return Ok(Some((status, headers).into_response()));
    }
    // Inline content is in memory as soon as it is read; the pieces of a content file take a permit each.
    let inline = entry.attributes.location == ContentLocation::Inline;
    let memory = drive.memory();
    let permit = if inline { Some(memory::within(&memory, memory.take(size as usize)).await?) } else { None };
    // IMPORTANT: the first piece is read before the status is sent. So missing or damaged content gets an error status,
    // and never the head of a successful response.
    let body = match drive.content(path, entry).await {
        Err(DriveError::Content(ContentError::Gone(_))) => return Ok(None),
        body => body.map_err(|error| failed(error, path))?,
    };
    let mut pieces = Box::pin(body.stream_within(memory.clone(), start, end));
    match memory::within(&memory, pieces.next()).await? {
        Some(Ok(first)) => {
            let first = permit.map_or(first.clone(), |permit| permit.attach(first));
            count(app, ask).await?;
            let body = whole(first, pieces, path.clone(), app.metrics.damage.clone());
            let response = (status, headers, body).into_response();
            Ok(Some(if inline { response } else { Watched::mark(response) }))
        }
        Some(Err(DriveError::Content(ContentError::Gone(_)))) => Ok(None),
        Some(Err(error)) => Err(failed(error, path)),
        None => Err(Problem::internal(&format!("the content of {path} is empty"))),
    }
}

/// Counts a download, before its first byte is sent.
async fn count(app: &App, ask: &DownloadRequest<'_>) -> Result<()> {
    match ask.counted {
        Some(share) => Ok(app.auth.count_download(share).await?),
        None => Ok(()),
    }
}

/// Whether the content is to be sent (RFC 9110 section 13.2.2): an error if a precondition fails, false if the client has
/// this version already.
fn should_send(asked: &Preconditions, entry: &FileEntry, modified: HttpDate) -> Result<bool> {
    let if_match = Condition { if_match: asked.versions.if_match.clone(), if_none_match: None };
    if !if_match.holds(Some(entry.id)) || asked.unmodified_since.is_some_and(|date| modified > date) {
        return Err(Problem::precondition());
    }
    let if_none_match = Condition { if_match: None, if_none_match: asked.versions.if_none_match.clone() };
    Ok(if_none_match.holds(Some(entry.id)) && asked.modified_since.is_none_or(|date| modified > date))
}

/// The content as a body. An error ends the connection early, so that the client detects the missing bytes.
fn whole(
    first: Bytes,
    rest: impl Stream<Item = std::result::Result<Bytes, DriveError>> + Send + 'static,
    path: DrivePath,
    damage: Counter,
) -> Body {
    let rest = rest.inspect(move |piece| match piece {
        Ok(_) => {}
        Err(DriveError::NotFound | DriveError::Unauthorized) => {
            tracing::info!(path = ?path.as_str(), "a download was aborted: its user may not read the file any more");
        }
        Err(error) => {
            if matches!(error, DriveError::Content(ContentError::Damaged { .. })) {
                damage.inc();
            }
            tracing::error!(path = ?path.as_str(), cause = ?error, "a download was aborted");
        }
    });
    Body::from_stream(stream::once(async { Ok(first) }).chain(rest))
}

/// Maps an error within a span that names the file, so that the log line of the error names it too.
fn failed(error: DriveError, path: &DrivePath) -> Problem {
    tracing::error_span!("file", path = ?path.as_str()).in_scope(|| Problem::reading(error))
}
