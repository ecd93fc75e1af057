//! `GET /v1/find`: files by name, in all directories.

use std::ops::ControlFlow;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use uuid::Uuid;

use crate::api::entry::ListPage;
use crate::drive::{EntryRef, NameQuery, NodeRef, UserDrive};
use crate::http::app::App;
use crate::http::request::Params;
use crate::http::request::query::name_start;
use crate::http::response::cursor::CursorScope;
use crate::http::response::json;
use crate::http::response::page::PageWriter;
use crate::http::response::problem::{Problem, Result};
use crate::schema::dir::FileEntryRef;
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
    responses((status = 200, description = "A page of files", body = ListPage<'static>,
        headers(("Link" = String, description = "Where the next page is, if there is one: `rel=\"next\"`")))))]
pub async fn get(State(app): State<App>, drive: UserDrive, uri: Uri) -> Result<Response> {
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
    let scope = CursorScope::new("find")
        .filter(Some(&name))
        .filter(prefix.then_some("*"))
        .filter(under.as_ref().map(|path| path.as_str()))
        .sealed(drive.cursor_seal().await?);
    let after = params.text("cursor").map(|cursor| decode(&scope.decode(cursor)?)).transpose()?;
    let (permit, bytes) = json::permit(app.drive.memory(), limit).await?;
    let query = NameQuery { name, prefix, under, after, limit };
    let page = drive.files_by_name(&query).await.map_err(Problem::under)?;
    let mut json = PageWriter::json(bytes, None);
    let added = json.add_all(page.nodes.iter().map(|node| Ok(node.into())), position).map_err(Problem::under)?;
    let next = match added {
        ControlFlow::Continue(()) => page.next,
        ControlFlow::Break(last) => last,
    };
    let next = next.map(|(folded, id)| scope.encode(&[id.0.as_bytes(), folded.as_bytes()].concat())).transpose()?;
    json.response(next, &uri, permit)
}

/// The position of a file in the order of the query.
fn position(node: &NodeRef<'_>) -> Option<(String, FileId)> {
    let EntryRef::File(FileEntryRef { id, .. }) = node.entry else { return None };
    Some((fold(&node.name), id))
}

/// 16 bytes of the id, then the folded name, which is at most twice as long as a name.
fn decode(position: &[u8]) -> Result<(String, FileId)> {
    let parts = position.split_first_chunk::<16>().and_then(|(id, folded)| {
        let folded = std::str::from_utf8(folded).ok().filter(|f| f.len() <= 2 * NAME_BYTES)?;
        Some((folded.to_owned(), FileId(Uuid::from_bytes(*id))))
    });
    parts.ok_or_else(|| Problem::malformed("The cursor is damaged: start without one."))
}
