//! `/s/<secret>/`: what a share shows to anybody who has its link.
//!
//! What is missing gets the same answer as a wrong link, also if the share ends meanwhile.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use super::{download, list};
use crate::api::entry::SharedListPage;
use crate::api::path::{share_link, share_secret};
use crate::api::problem::{MEDIA_TYPE, ProblemJson, ProblemKind};
use crate::auth::Credential;
use crate::drive::{ListQuery, UserDrive};
use crate::http::app::App;
use crate::http::request::{Params, Preconditions, RequestPath};
use crate::http::response::cursor::CursorScope;
use crate::http::response::problem::{Problem, Result};
use crate::http::response::{headers, share_page, upload_page};
use crate::schema::DrivePath;
use crate::schema::share::ShareMode;

/// `/s/<secret>` to its page.
pub async fn to_page(uri: Uri) -> Result<Response> {
    let to = share_link(share_secret(uri.path()).unwrap_or_default());
    let headers =
        [(header::LOCATION, headers::value(to)?), (header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    Ok((StatusCode::PERMANENT_REDIRECT, headers).into_response())
}

/// `/s/<secret>/fs` to `fs/`.
pub async fn to_root(uri: Uri) -> Result<Response> {
    download::to_directory(&DrivePath::root(), &uri)
}

/// The web page of a share
///
/// For people: links to the files. For an upload share: a form, with a script that sends each file by itself.
#[utoipa::path(get, path = "/s/{secret}/", operation_id = "shared_page", tag = "shares",
    params(("secret" = String, Path, description = "From `url` of the share"),
           ("path" = Option<String>, Query, description = "A directory of the share, as `/2026`"),
           ("cursor" = Option<String>, Query, description = "From the link to the next page")),
    responses((status = 200, description = "The page", content_type = "text/html", body = String)))]
pub async fn page(State(app): State<App>, drive: UserDrive, by: Credential, uri: Uri) -> Result<Response> {
    within_share(page_of((&app, &by), &drive, &uri).await)
}

async fn page_of((app, by): (&App, &Credential), drive: &UserDrive, uri: &Uri) -> Result<Response> {
    let authority = app.auth.authority(by).await?;
    if authority.share().is_some_and(|open| matches!(open.share.mode, ShareMode::Upload { .. })) {
        Params::parse(uri.query(), &[])?;
        return Ok(upload_page::upload(StatusCode::OK, &upload_page::SentFiles::default(), None));
    }
    let params = Params::parse(uri.query(), &["path", "cursor"])?;
    let path = params.path("path")?.unwrap_or_else(DrivePath::root);
    let scope = CursorScope::new("share").filter(Some(path.as_str())).sealed(drive.cursor_seal().await?);
    let after = params.text("cursor").map(|cursor| scope.decode(cursor)).transpose()?.map(Into::into);
    let memory = drive.memory();
    let permit = share_page::permit(&path, &memory).await?;
    let query = ListQuery { kind: None, prefix: String::new(), after, limit: share_page::entries(&path, &memory) };
    let listing = drive.list_stored(&path, &query).await.map_err(Problem::reading)?;
    let next = listing.next.as_ref().map(|at| scope.encode(at)).transpose()?;
    let nodes: std::result::Result<Vec<_>, _> = listing.nodes().collect();
    Ok(share_page::listing(&path, &nodes.map_err(Problem::reading)?, next.as_deref(), permit))
}

/// Download a file of a share, or list a directory of it
///
/// As `/v1/fs/`, with paths that begin at what the share is of; a file is the one entry of `fs/`. If the downloads of
/// the share are limited, each one is of the whole file: a `Range` is ignored.
#[utoipa::path(get, path = "/s/{secret}/fs/{path}", operation_id = "shared", tag = "shares",
    params(("secret" = String, Path, description = "From `url` of the share"),
           ("path" = String, Path, description = "Names, percent-encoded, with slashes between them")),
    responses((status = 200, description = "The content", content_type = "*/*", body = String,
                headers(("ETag" = String), ("Last-Modified" = String), ("Repr-Digest" = String))),
              (status = 206, description = "A part of the content", content_type = "*/*", body = String),
              (status = 304, description = "The version that the client has"),
              (status = 308, description = "A directory stands here: `Location` has a slash at its end"),
              (status = 416, description = "The range lies outside the file", content_type = MEDIA_TYPE, body = ProblemJson<'static>)))]
pub async fn get(
    State(app): State<App>,
    drive: UserDrive,
    by: Credential,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response> {
    let (target, preconditions) = (RequestPath::of_share(&uri)?, Preconditions::parse(&headers)?);
    if target.directory {
        return within_share(list(&drive, &target.path, &uri, &headers).await);
    }
    let served = async {
        let is_counted = app.auth.authority(&by).await?.share().is_some_and(|open| open.share.limit().is_some());
        let counted = Some(&by).filter(|_| is_counted);
        download::serve((&app, &drive), &target, (&preconditions, &headers), (&method, &uri), counted).await
    };
    within_share(served.await)
}

/// List a directory of a share
///
/// As `/v1/fs/`, without creators.
#[utoipa::path(get, path = "/s/{secret}/fs/{path}/", operation_id = "shared_list", tag = "shares",
    params(("secret" = String, Path, description = "From `url` of the share"),
           ("path" = String, Path, description = "Names, percent-encoded, with slashes between them"),
           ("limit" = Option<u32>, Query, minimum = 1, maximum = 10000, description = "Entries of a page; 1000 unless told"),
           ("cursor" = Option<String>, Query, description = "`next` of the page before"),
           ("prefix" = Option<String>, Query, description = "Only names that start so"),
           ("kind" = Option<String>, Query, pattern = "^(file|directory)$", description = "Only these")),
    responses((status = 200, description = "A page of entries, or all of them, by `Accept`",
        content((SharedListPage = "application/json"), (String = "application/x-ndjson"), (String = "text/plain")),
        headers(("Link" = String, description = "Where the next page is, if there is one: `rel=\"next\"`")))))]
pub async fn list(drive: &UserDrive, path: &DrivePath, uri: &Uri, headers: &HeaderMap) -> Result<Response> {
    list::get(drive, path, uri, headers).await
}

/// The answer to a request by a share. It has no user who could log in or get a right: a share that has ended, or whose
/// maker has lost the right, is as if it never was.
pub fn within_share(answer: Result<Response>) -> Result<Response> {
    answer.map_err(shown)
}

/// A problem as a share shows it.
pub fn shown(problem: Problem) -> Problem {
    match problem.kind() {
        ProblemKind::Unauthorized | ProblemKind::Forbidden | ProblemKind::NotFound => Problem::no_share(),
        _ => problem,
    }
}
