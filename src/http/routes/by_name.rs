//! `GET /v1/find`: files by name, wherever they stand.

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use uuid::Uuid;

use super::cursor::Scope;
use super::extract::Params;
use super::extract::query::name_start;
use super::files::under_missing;
use super::problem::{Problem, Result};
use super::{App, entry, respond};
use crate::drive::{FindAsk, Node};
use crate::schema::path::{NAME_BYTES, fold};
use crate::schema::{FileId, Name};

/// Files by name, anywhere
///
/// Upper and lower case are one (full Unicode case folding). Order: folded name, then id.
#[utoipa::path(get, path = "/v1/find", operation_id = "find", tag = "queries",
    params(("name" = String, Query, description = "A whole name, or the start of one and an asterisk: `cat*`"),
           ("under" = Option<String>, Query, description = "Only below this directory, as `/photos`"),
           ("limit" = Option<u32>, Query, minimum = 1, maximum = 10000, description = "Entries of a page; 1000 unless told"),
           ("cursor" = Option<String>, Query, description = "`next` of the page before")),
    responses((status = 200, description = "A page of files", body = entry::Page<'static>,
        headers(("Link" = String, description = "Where the next page is, if there is one: `rel=\"next\"`")))))]
pub async fn get(State(app): State<App>, uri: Uri) -> Result<Response> {
    let params = Params::parse(uri.query(), &["name", "under", "limit", "cursor"])?;
    let text = params
        .text("name")
        .ok_or_else(|| Problem::malformed("Say which `name` to find; `name=foo*` finds all that start so."))?;
    let (name, prefix) = match text.strip_suffix('*') {
        Some(start) => (name_start("name", start)?, true),
        None => {
            (Name::parse(text).map_err(|e| Problem::malformed(format!("`name`: {e}.")))?.as_str().to_owned(), false)
        }
    };
    let under = params.path("under")?;
    let limit = params.limit()?;
    let scope = Scope::new("find")
        .filter(Some(&name))
        .filter(prefix.then_some("*"))
        .filter(under.as_ref().map(|path| path.as_str()));
    let after = params.text("cursor").map(|cursor| decode(&scope.open(cursor)?)).transpose()?;
    let permit = respond::permit(&app, limit).await?;
    let found = app.drive.find(&FindAsk { name, prefix, under, after, limit }).await.map_err(under_missing)?;
    let found = respond::cut(found, limit, place);
    let next = found.next.map(|(folded, id)| scope.seal(&[id.0.as_bytes(), folded.as_bytes()].concat()));
    respond::page(None, &found.nodes, next, &uri, permit)
}

/// Where a file stands in the order of a query.
fn place(node: &Node) -> Option<(String, FileId)> {
    let Node::File { path, entry } = node else { return None };
    Some((fold(path.last()), entry.id))
}

/// 16 bytes of the id, then the folded name, which is at most twice as long as a name.
fn decode(position: &[u8]) -> Result<(String, FileId)> {
    let parts = position.split_first_chunk::<16>().and_then(|(id, folded)| {
        let folded = std::str::from_utf8(folded).ok().filter(|f| f.len() <= 2 * NAME_BYTES)?;
        Some((folded.to_owned(), FileId(Uuid::from_bytes(*id))))
    });
    parts.ok_or_else(|| Problem::malformed("The cursor is damaged: start without one."))
}
