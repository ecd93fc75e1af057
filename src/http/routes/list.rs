//! `GET /v1/fs/<directory>/`: a page of its entries as JSON, or all of them as lines of JSON or text.

use axum::body::{Body, Bytes};
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderValue, Uri};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use crate::api::entry::ListPage;
use crate::budget::Permit;
use crate::drive::{Drive, DriveError, ListQuery, Listing, Node, NodeKind};
use crate::http::app::App;
use crate::http::request::Params;
use crate::http::response::cursor::CursorScope;
use crate::http::response::entry::EntryWriter;
use crate::http::response::json;
use crate::http::response::json::PageBudget;
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
pub async fn get(app: &App, path: &DrivePath, uri: &Uri, headers: &HeaderMap) -> Result<Response> {
    let params = Params::parse(uri.query(), &["limit", "cursor", "prefix", "kind"])?;
    let format = ListFormat::wanted(headers);
    let query = ListQuery {
        kind: params.choice("kind", &[("file", NodeKind::File), ("directory", NodeKind::Directory)])?,
        prefix: params.name_start("prefix")?.unwrap_or_default(),
        after: None,
        limit: params.limit()?,
    };
    let mut response = if format == ListFormat::Json {
        page(app, path, query, params.text("cursor"), uri).await?
    } else if params.has("limit") || params.has("cursor") {
        return Err(Problem::malformed(
            "This format lists the whole directory: send neither `limit` nor `cursor`, or ask for application/json.",
        ));
    } else {
        whole(app, path.clone(), ListQuery { limit: PAGE, ..query }, format).await?
    };
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    Ok(response)
}

async fn page(app: &App, path: &DrivePath, mut query: ListQuery, cursor: Option<&str>, uri: &Uri) -> Result<Response> {
    let scope =
        CursorScope::new("listing").filter(Some(path.as_str())).filter(Some(&query.prefix)).filter(match query.kind {
            None => None,
            Some(NodeKind::File) => Some("file"),
            Some(NodeKind::Directory) => Some("directory"),
        });
    query.after = cursor.map(|cursor| position(scope.decode(cursor)?)).transpose()?;
    let permit = json::permit(app, query.limit).await?;
    let listing = read(&app.drive, path, &query).await.map_err(Problem::reading)?;
    json::page(Some(path), &listing.nodes, listing.next.map(|at| scope.encode(&at)), uri, permit)
}

/// Reads as many entries as fit on a page, in small steps, so that few entries are read in vain.
async fn read(drive: &Drive, path: &DrivePath, query: &ListQuery) -> std::result::Result<Listing, DriveError> {
    let mut budget = PageBudget::new(query.limit, Some(path));
    let mut listing = Listing { nodes: Vec::new(), next: query.after.clone() };
    while listing.nodes.len() < query.limit {
        let limit = (query.limit - listing.nodes.len()).min(PAGE).min(budget.most_below(path));
        let turn = drive.list(path, &ListQuery { after: listing.next.take(), limit, ..query.clone() }).await?;
        let fits = budget.fill(&turn.nodes);
        let is_full = fits < turn.nodes.len();
        listing.nodes.extend(turn.nodes.into_iter().take(fits));
        listing.next = if is_full { listing.nodes.last().and_then(Node::place) } else { turn.next };
        if is_full || listing.next.is_none() {
            break;
        }
    }
    Ok(listing)
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
    drive: Drive,
    path: DrivePath,
    query: ListQuery,
    format: ListFormat,
    count: u64,
    state: StreamState,
}

enum StreamState {
    /// The next page is read and not sent yet.
    Page(Listing, Permit),
    /// The next page is not read yet.
    Unread,
    End,
}

/// The whole directory, page by page. The first page is read before the status is sent. A later error ends the connection
/// early, so that the client detects the missing entries.
async fn whole(app: &App, path: DrivePath, query: ListQuery, format: ListFormat) -> Result<Response> {
    let permit = json::permit(app, query.limit).await?;
    let drive = app.drive.clone();
    let first = read(&drive, &path, &query).await.map_err(Problem::reading)?;
    let listing = ListStream { drive, path, query, format, count: 0, state: StreamState::Page(first, permit) };
    let body = Body::from_stream(stream::try_unfold(listing, ListStream::next));
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(format.mime())),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, body).into_response())
}

impl ListStream {
    async fn next(mut self) -> std::result::Result<Option<(Bytes, Self)>, DriveError> {
        let (listing, mut permit) = match std::mem::replace(&mut self.state, StreamState::End) {
            StreamState::End => return Ok(None),
            StreamState::Page(listing, permit) => (listing, permit),
            StreamState::Unread => {
                let permit = self.drive.memory().take(json::bytes(self.query.limit)).await;
                let listing = read(&self.drive, &self.path, &self.query).await.inspect_err(|error| {
                    tracing::error!(path = ?self.path.as_str(), cause = ?error, "a listing was aborted");
                })?;
                (listing, permit)
            }
        };
        let mut lines = EntryWriter::with_capacity(0);
        for node in &listing.nodes {
            self.line(&mut lines, node);
        }
        let mut lines = lines.json;
        self.count += listing.nodes.len() as u64;
        if listing.next.is_some() {
            self.query.after = listing.next;
            self.state = StreamState::Unread;
        } else if self.format == ListFormat::Ndjson {
            lines.extend(format!("{{\"done\":true,\"count\":{}}}\n", self.count).into_bytes());
        }
        permit.shrink(lines.len());
        Ok(Some((permit.attach(lines.into()), self)))
    }

    fn line(&self, lines: &mut EntryWriter, node: &Node) {
        if self.format == ListFormat::Ndjson {
            lines.entry(node);
        } else {
            lines.raw(node.path().last().as_bytes());
            if node.is_directory() {
                lines.raw(b"/");
            }
        }
        lines.raw(b"\n");
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
