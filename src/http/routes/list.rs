//! `GET /v1/fs/<directory>/`: a page of its entries as JSON, or all of them as lines of JSON or text.

use std::ops::ControlFlow;

use axum::body::{Body, Bytes};
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderValue, Uri};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use crate::api::entry::ListPage;
use crate::budget::Permit;
use crate::drive::{DriveError, EntryRef, ListQuery, NodeKind, UserDrive};
use crate::http::request::Params;
use crate::http::response::cursor::CursorScope;
use crate::http::response::json;
use crate::http::response::page::{PageWriter, WriteEntry};
use crate::http::response::problem::{Problem, Result};
use crate::schema::DrivePath;
use crate::schema::path::NAME_BYTES;

/// Entries read at a time.
const PAGE: usize = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListFormat {
    Json,
    Ndjson,
    Text,
}

impl ListFormat {
    const ALL: [(Self, &str, &str); 3] =
        [(Self::Json, "application", "json"), (Self::Ndjson, "application", "x-ndjson"), (Self::Text, "text", "plain")];

    /// The best format for an `Accept` header (RFC 9110 section 12.5.1); JSON if none is named.
    fn wanted(headers: &HeaderMap) -> Self {
        let values = headers.get_all(ACCEPT).iter().filter_map(|v| v.to_str().ok());
        let ranges: Vec<(&str, u32)> = values.flat_map(|v| v.split(',')).filter_map(media_range).collect();
        let rank = |&(_, kind, subtype): &(Self, &str, &str)| {
            // The most specific range that matches gives the quality of the format.
            let matching = ranges.iter().enumerate().filter_map(|(at, (range, quality))| {
                let (k, s) = range.split_once('/')?;
                let specific = match (k.eq_ignore_ascii_case(kind), s.eq_ignore_ascii_case(subtype)) {
                    (true, true) => 2,
                    (true, false) if s == "*" => 1,
                    _ if *range == "*/*" => 0,
                    _ => return None,
                };
                Some((specific, *quality, usize::MAX - at))
            });
            matching.max().map_or((0, 0, 0), |(specific, quality, at)| (quality, specific, at))
        };
        let best = Self::ALL.into_iter().map(|format| (rank(&format), format.0));
        // The first of equal formats, so JSON.
        best.fold(((0, 0, 0), Self::Json), |best, next| if next.0 > best.0 { next } else { best }).1
    }

    /// How a line is written. `is_share`: as a share shows it.
    fn write(self, is_share: bool) -> WriteEntry {
        match self {
            Self::Json | Self::Ndjson if is_share => |page, node| {
                page.shared_entry(node);
                page.raw(b"\n");
            },
            Self::Json | Self::Ndjson => |page, node| {
                page.entry(node);
                page.raw(b"\n");
            },
            Self::Text => |page, node| {
                page.raw(node.name.as_bytes());
                let is_directory = matches!(node.entry, EntryRef::Directory(_));
                page.raw(if is_directory { b"/\n" } else { b"\n" });
            },
        }
    }

    fn mime(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Ndjson => "application/x-ndjson",
            Self::Text => "text/plain; charset=utf-8",
        }
    }
}

/// A media range and its quality in thousandths.
fn media_range(text: &str) -> Option<(&str, u32)> {
    let mut parts = text.split(';').map(str::trim);
    let range = parts.next().filter(|r| !r.is_empty())?;
    let quality = parts.find_map(|p| p.strip_prefix("q=").or_else(|| p.strip_prefix("Q=")));
    let quality: f32 = quality.map_or(Ok(1.0), str::parse).unwrap_or(1.0);
    Some((range, (quality.clamp(0.0, 1.0) * 1000.0) as u32))
}

/// List a directory
///
/// Directories first, then files, each by name in byte order. As `application/x-ndjson` or `text/plain` the whole
/// directory is sent, a line for each entry; lines of JSON end with `{"done":true,"count":n}`.
#[utoipa::path(get, path = "/v1/fs/{path}/", operation_id = "list", tag = "files",
    params(("path" = String, Path, description = "Names, percent-encoded, with slashes between them"),
           ("limit" = Option<u32>, Query, minimum = 1, maximum = 10000, description = "Entries of a page; 1000 unless told"),
           ("cursor" = Option<String>, Query, description = "`next` of the page before"),
           ("prefix" = Option<String>, Query, description = "Only names that start so"),
           ("kind" = Option<String>, Query, pattern = "^(file|directory)$", description = "Only these")),
    responses((status = 200, description = "A page of entries, or all of them, by `Accept`",
        content((ListPage<'static> = "application/json"), (String = "application/x-ndjson"), (String = "text/plain")),
        headers(("Link" = String, description = "Where the next page is, if there is one: `rel=\"next\"`")))))]
pub async fn get(drive: &UserDrive, path: &DrivePath, uri: &Uri, headers: &HeaderMap) -> Result<Response> {
    let params = Params::parse(uri.query(), &["limit", "cursor", "prefix", "kind"])?;
    let format = ListFormat::wanted(headers);
    let query = ListQuery {
        kind: params.choice("kind", &[("file", NodeKind::File), ("directory", NodeKind::Directory)])?,
        prefix: params.name_start("prefix")?.unwrap_or_default(),
        after: None,
        limit: params.limit()?,
    };
    let mut response = if format == ListFormat::Json {
        page(drive, path, query, params.text("cursor"), uri).await?
    } else if params.has("limit") || params.has("cursor") {
        return Err(Problem::malformed(
            "This format lists the whole directory: send neither `limit` nor `cursor`, or ask for application/json.",
        ));
    } else {
        whole(drive, path.clone(), ListQuery { limit: PAGE, ..query }, format).await?
    };
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    Ok(response)
}

async fn page(
    drive: &UserDrive,
    path: &DrivePath,
    mut query: ListQuery,
    cursor: Option<&str>,
    uri: &Uri,
) -> Result<Response> {
    let scope =
        CursorScope::new("listing").filter(Some(path.as_str())).filter(Some(&query.prefix)).filter(match query.kind {
            None => None,
            Some(NodeKind::File) => Some("file"),
            Some(NodeKind::Directory) => Some("directory"),
        });
    let scope = scope.sealed(drive.cursor_seal().await?);
    query.after = cursor.map(|cursor| position(scope.decode(cursor)?)).transpose()?;
    let (permit, bytes) = json::permit(&drive.memory(), query.limit).await?;
    let json = PageWriter::json(bytes, Some(path));
    let mut json = if drive.is_share() { json.shared() } else { json };
    let next = read(drive, path, query, &mut json).await.map_err(Problem::reading)?;
    json.response(next.map(|at| scope.encode(&at)).transpose()?, uri, permit)
}

/// Reads as many entries as fit on a page, in small steps, so that few entries are read in vain. Returns where the next
/// page starts.
async fn read(
    drive: &UserDrive,
    path: &DrivePath,
    mut query: ListQuery,
    page: &mut PageWriter,
) -> std::result::Result<Option<Bytes>, DriveError> {
    let all = query.limit;
    while page.count() < all {
        query.limit = (all - page.count()).min(PAGE).min(page.most_below(path));
        let listing = drive.list_stored(path, &query).await?;
        if let ControlFlow::Break(last) = page.add_all(listing.nodes(), |node| Some(node.place()))? {
            return Ok(last.or(query.after));
        }
        query.after = listing.next;
        if query.after.is_none() {
            break;
        }
    }
    Ok(query.after)
}

/// Checks a position, which is a kind and a name.
fn position(bytes: Vec<u8>) -> Result<Bytes> {
    if bytes.len() > NAME_BYTES + 8 {
        return Err(Problem::malformed("The cursor is damaged: start without one."));
    }
    Ok(bytes.into())
}

/// A streamed listing, with one page in memory.
struct ListStream {
    drive: UserDrive,
    path: DrivePath,
    query: ListQuery,
    format: ListFormat,
    /// Of each page, at most.
    bytes: usize,
    count: usize,
    state: StreamState,
}

enum StreamState {
    /// The next page is written and not sent yet. Another one follows if there is a place where it starts.
    Page(PageWriter, Option<Bytes>, Permit),
    /// The next page is not read yet.
    Unread,
    End,
}

/// The whole directory, page by page. The first page is read before the status is sent. A later error ends the connection
/// early, so that the client detects the missing entries.
async fn whole(drive: &UserDrive, path: DrivePath, query: ListQuery, format: ListFormat) -> Result<Response> {
    let (permit, bytes) = json::permit(&drive.memory(), query.limit).await?;
    let (drive, state) = (drive.clone(), StreamState::Unread);
    let mut listing = ListStream { drive, path, query, format, bytes, count: 0, state };
    let (first, next) = listing.read().await.map_err(Problem::reading)?;
    listing.state = StreamState::Page(first, next, permit);
    let body = Body::from_stream(stream::try_unfold(listing, ListStream::next));
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(format.mime())),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, body).into_response())
}

impl ListStream {
    /// The next page, and where the one after it starts.
    async fn read(&self) -> std::result::Result<(PageWriter, Option<Bytes>), DriveError> {
        let mut page = PageWriter::new(self.bytes, self.format.write(self.drive.is_share()));
        let next = read(&self.drive, &self.path, self.query.clone(), &mut page).await?;
        Ok((page, next))
    }

    async fn next(mut self) -> std::result::Result<Option<(Bytes, Self)>, DriveError> {
        let (page, next, mut permit) = match std::mem::replace(&mut self.state, StreamState::End) {
            StreamState::End => return Ok(None),
            StreamState::Page(page, next, permit) => (page, next, permit),
            StreamState::Unread => {
                let permit = self.drive.memory().take(self.bytes).await;
                let (page, next) = self.read().await.inspect_err(|error| {
                    tracing::error!(path = ?self.path.as_str(), cause = ?error, "a listing was aborted");
                })?;
                (page, next, permit)
            }
        };
        self.count += page.count();
        let mut lines = page.done();
        if next.is_some() {
            self.query.after = next;
            self.state = StreamState::Unread;
        } else if self.format == ListFormat::Ndjson {
            lines.extend(format!("{{\"done\":true,\"count\":{}}}\n", self.count).into_bytes());
        }
        permit.shrink(lines.capacity());
        Ok(Some((permit.attach(lines.into()), self)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_format_is_chosen() {
        let chosen = |accept: &str| {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_str(accept).unwrap())]);
            ListFormat::wanted(&headers)
        };
        for accept in [
            "",
            "*/*",
            "application/json",
            "application/*",
            "text/html,application/xhtml+xml,*/*;q=0.8",
            "image/png",
            "application/json, text/plain, */*",
            "text/plain;q=0.5, application/json",
            "application/x-ndjson;q=0, */*",
        ] {
            assert_eq!(chosen(accept), ListFormat::Json, "{accept}");
        }
        for accept in [
            "application/x-ndjson",
            "Application/X-NDJSON",
            "application/json;q=0.9, application/x-ndjson",
            "application/x-ndjson, */*",
            "application/x-ndjson, application/json",
        ] {
            assert_eq!(chosen(accept), ListFormat::Ndjson, "{accept}");
        }
        for accept in ["text/plain", "text/*", "text/plain;charset=utf-8, */*;q=0.1"] {
            assert_eq!(chosen(accept), ListFormat::Text, "{accept}");
        }
        assert_eq!(ListFormat::wanted(&HeaderMap::new()), ListFormat::Json);
    }
}
