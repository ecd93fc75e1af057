//! `GET /v1/files`: files of a time period.

use std::ops::ControlFlow;

use axum::extract::State;
use axum::http::Uri;
use axum::http::request::Parts;
use axum::response::Response;
use uuid::Uuid;

use crate::api::entry::ListPage;
use crate::drive::{DriveError, EntryRef, MimeFilter, NodeRef, TimePage, TimeQuery, UserDrive};
use crate::http::app::App;
use crate::http::media_type;
use crate::http::request::identity::parse_user;
use crate::http::request::{Params, drive_of};
use crate::http::response::cursor::CursorScope;
use crate::http::response::json;
use crate::http::response::page::PageWriter;
use crate::http::response::problem::{Problem, Result};
use crate::schema::dir::FileEntryRef;
use crate::schema::index::by_time::Clock;
use crate::schema::{FileId, Timestamp};

const KNOWN: [&str; 9] = ["from", "to", "clock", "under", "creator", "type", "order", "limit", "cursor"];

/// As [`get`], of the parts of a request.
pub async fn get_parts(app: App, parts: Parts) -> Result<Response> {
    let drive = drive_of(&app, &parts.extensions);
    get(State(app), drive, parts.uri).await
}

/// Files of a time period
///
/// Half-open, [from, to); either bound may be missing. Newest first unless told otherwise.
#[utoipa::path(get, path = "/v1/files", operation_id = "files", tag = "queries",
    params(("from" = Option<String>, Query, format = DateTime, description = "RFC 3339, with a zone"),
           ("to" = Option<String>, Query, format = DateTime, description = "RFC 3339, with a zone"),
           ("clock" = Option<String>, Query, pattern = "^(modified|added)$", description = "Which time counts; `modified` unless told"),
           ("under" = Option<String>, Query, description = "Only below this directory, as `/photos`"),
           ("creator" = Option<String>, Query, description = "Only what this user uploaded"),
           ("type" = Option<String>, Query, description = "Only this media type: `image/jpeg`, or `image/*`"),
           ("order" = Option<String>, Query, pattern = "^(desc|asc)$", description = "`desc` unless told: newest first"),
           ("limit" = Option<u32>, Query, minimum = 1, maximum = 10000, description = "Entries of a page; 1000 unless told"),
           ("cursor" = Option<String>, Query, description = "`next` of the page before")),
    responses((status = 200, description = "A page of files", body = ListPage<'static>,
        headers(("Link" = String, description = "Where the next page is, if there is one: `rel=\"next\"`")))))]
pub async fn get(State(app): State<App>, drive: UserDrive, uri: Uri) -> Result<Response> {
    let params = Params::parse(uri.query(), &KNOWN)?;
    let mut query = TimeQuery {
        clock: params.choice("clock", &[("modified", Clock::Modified), ("added", Clock::Added)])?.unwrap_or_default(),
        from: params.time("from", Timestamp::parse_bound)?,
        to: params.time("to", Timestamp::parse_bound)?,
        under: params.path("under")?,
        creator: params.text("creator").map(parse_user).transpose()?,
        mime: params.text("type").map(mime_filter).transpose()?,
        ascending: params.choice("order", &[("desc", false), ("asc", true)])?.unwrap_or(false),
        after: None,
        limit: params.limit()?,
    };
    if query.from.zip(query.to).is_some_and(|(from, to)| from > to) {
        return Err(Problem::malformed("`from` lies after `to`: swap them."));
    }
    let scope = scope(&query).sealed(drive.cursor_seal().await?);
    query.after = params.text("cursor").map(|cursor| decode(&scope.decode(cursor)?)).transpose()?;
    let (permit, bytes) = json::permit(app.drive.memory(), query.limit).await?;
    let mut json = PageWriter::json(bytes, None);
    let next = fill(&drive, &query, &mut json).await.map_err(Problem::under)?;
    json.response(next.map(|(time, id)| scope.encode(&encode(time, id))).transpose()?, &uri, permit)
}

/// Adds what fits of the files. Returns where the next page starts.
async fn fill(
    drive: &UserDrive,
    query: &TimeQuery,
    json: &mut PageWriter,
) -> std::result::Result<Option<(Timestamp, FileId)>, DriveError> {
    let place = |node: &NodeRef<'_>| position(node, query.clock);
    let (added, next) = match drive.page_by_time(query).await? {
        TimePage::Stored(files) => (json.add_all(files.nodes(), place)?, files.next),
        TimePage::Decoded(page) => (json.add_all(page.nodes.iter().map(|node| Ok(node.into())), place)?, page.next),
    };
    Ok(match added {
        ControlFlow::Continue(()) => next,
        ControlFlow::Break(last) => last,
    })
}

/// The scope of a cursor: all parameters that decide which files a query returns, and in which order.
fn scope(query: &TimeQuery) -> CursorScope {
    let number = |time: Option<Timestamp>| time.map(|t| t.ms().to_string());
    let mime = query.mime.as_ref().map(|filter| match filter {
        MimeFilter::Top(top) => format!("{top}*"),
        MimeFilter::Exact(exact) => exact.clone(),
    });
    CursorScope::new("files")
        .filter(Some(match query.clock {
            Clock::Modified => "modified",
            Clock::Added => "added",
        }))
        .filter(number(query.from).as_deref())
        .filter(number(query.to).as_deref())
        .filter(query.under.as_ref().map(|path| path.as_str()))
        .filter(query.creator.as_deref())
        .filter(mime.as_deref())
        .filter(query.ascending.then_some("asc"))
}

/// The position of a file in the order of the query.
fn position(node: &NodeRef<'_>, clock: Clock) -> Option<(Timestamp, FileId)> {
    let EntryRef::File(FileEntryRef { id, attributes, .. }) = node.entry else { return None };
    let time = match clock {
        Clock::Modified => attributes.modified,
        Clock::Added => attributes.added,
    };
    Some((time, id))
}

/// 8 bytes of the time, 16 of the id.
fn encode(time: Timestamp, id: FileId) -> Vec<u8> {
    [time.ms().to_be_bytes().as_slice(), id.0.as_bytes()].concat()
}

fn decode(position: &[u8]) -> Result<(Timestamp, FileId)> {
    let parts =
        position.split_first_chunk().and_then(|(ms, id)| Some((i64::from_be_bytes(*ms), Uuid::from_slice(id).ok()?)));
    let (ms, id) = parts.ok_or_else(|| Problem::malformed("The cursor is damaged: start without one."))?;
    Ok((Timestamp::from_ms(ms), FileId(id)))
}

/// Parses `image/*` or a whole type; case and parameters are ignored.
fn mime_filter(text: &str) -> Result<MimeFilter> {
    let essence = media_type::essence(text.trim()).unwrap_or_default().to_ascii_lowercase();
    let (top, subtype) = essence.split_once('/').unwrap_or_default();
    if top.is_empty() || top.contains('*') || subtype != "*" && subtype.contains('*') {
        return Err(Problem::malformed(
            "`type` is a whole media type, as in image/jpeg, or image/* for all of its kind.",
        ));
    }
    Ok(if subtype == "*" { MimeFilter::Top(format!("{top}/")) } else { MimeFilter::Exact(essence) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_whole_or_all_of_a_kind() {
        assert_eq!(mime_filter("image/*").unwrap(), MimeFilter::Top("image/".into()));
        assert_eq!(mime_filter("Text/Plain; charset=utf-8").unwrap(), MimeFilter::Exact("text/plain".into()));
        for bad in [
            "image",
            "image/",
            "/jpeg",
            "*/*",
            "*",
            "",
            "a b/c",
            "image/png;, text/html",
            "image/j*",
            "im*/png",
            "image/**",
        ] {
            assert!(mime_filter(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn positions_are_decoded_as_encoded() {
        let at = (Timestamp::from_ms(-5), FileId(Uuid::from_bytes([3; 16])));
        assert_eq!(decode(&encode(at.0, at.1)).unwrap(), at);
        assert!(decode(b"short").is_err() && decode(&[0; 25]).is_err());
    }
}
