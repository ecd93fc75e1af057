//! JSON responses.

use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::Response;
use serde::Serialize;

use super::entry::EntryWriter;
use super::problem::{Problem, Result};
use crate::api::json_text::is_plain;
use crate::budget::{Budget, Permit};
use crate::drive::{EntryRef, Node, NodeRef};
use crate::http::response::memory;
use crate::schema::dir::FileEntryRef;

/// Bytes of an entry without its texts, at most.
pub const ENTRY: usize = 350;
/// Bytes of a byte that is escaped, at most.
const ESCAPED: usize = 6;
/// Bytes of a page for each entry that was asked for: more than most entries need.
const USUAL: usize = 1 << 10;
/// Bytes of the smallest page: the longest entry fits.
const LEAST: usize = 20 << 10;
/// Bytes of the longest page.
const PAGE: usize = 8 << 20;
/// Header fields that a response has room for at first: few have more.
const ROOM_FOR_FIELDS: usize = 12;

pub fn json(value: &impl Serialize) -> Result<Response> {
    Ok(response(text(value)?, None))
}

/// As [`json`], of a value that may be large. `permit`: for its memory.
pub fn large(value: &impl Serialize, permit: Permit) -> Result<Response> {
    Ok(response(text(value)?, Some(permit)))
}

/// A value as JSON.
pub fn text(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut json = Vec::with_capacity(ENTRY);
    serde_json::to_writer(&mut json, value).map_err(|e| Problem::internal(&e))?;
    Ok(json)
}

/// Bytes of a page of so many entries, of this memory. A page that would need more ends early, with a `next`. Four have room:
/// one may be sent while the next one is read, and others have some too.
pub fn bytes(memory: &Budget, entries: usize) -> usize {
    entries.saturating_mul(USUAL).clamp(LEAST, PAGE).min(memory.largest().max(LEAST))
}

/// Memory for a page of so many entries, and the bytes that the page may have.
pub async fn permit(memory: &Budget, entries: usize) -> Result<(Permit, usize)> {
    let bytes = bytes(memory, entries);
    Ok((memory::take(memory, bytes).await?, bytes))
}

/// Bytes of a text in JSON, without its quotes.
fn escaped(text: &str) -> usize {
    if is_plain(text) {
        return text.len();
    }
    let escaped_byte = |byte| match byte {
        b'"' | b'\\' => 2,
        0..b' ' => ESCAPED,
        _ => 1,
    };
    text.bytes().map(escaped_byte).sum()
}

/// Bytes of an entry, at most.
pub fn bytes_of(node: &NodeRef<'_>) -> usize {
    ENTRY + texts(node).iter().map(|text| escaped(text)).sum::<usize>()
}

/// As [`bytes_of`], if all characters were escaped: a larger number, computed without a look at them.
pub fn most_bytes_of(node: &NodeRef<'_>) -> usize {
    ENTRY + ESCAPED * texts(node).iter().map(|text| text.len()).sum::<usize>()
}

/// The texts in the JSON of an entry.
fn texts<'a>(NodeRef { before_slash, name, entry }: &'a NodeRef<'a>) -> [&'a str; 5] {
    let (mime, creator) = match entry {
        EntryRef::File(FileEntryRef { attributes, .. }) => (attributes.mime, attributes.creator),
        EntryRef::Directory(entry) => ("", entry.creator),
    };
    [before_slash, name, name, mime, creator]
}

/// The response with one entry.
pub fn entry(node: &Node) -> Response {
    let node = NodeRef::from(node);
    let mut entry = EntryWriter::with_capacity(bytes_of(&node));
    entry.entry(&node);
    response(entry.json, None)
}

/// The response with JSON; `permit`: for its memory.
pub fn response(json: Vec<u8>, permit: Option<Permit>) -> Response {
    let body: Bytes = match permit {
        Some(mut permit) => {
            permit.shrink(json.capacity());
            permit.attach(json.into())
        }
        None => json.into(),
    };
    with_headers(body)
}

/// The response with this JSON.
pub fn with_headers(json: Bytes) -> Response {
    // Also for those of the middleware: a map that grows allocates memory and moves its fields.
    let mut response = Response::new(Body::from(json));
    let headers = response.headers_mut();
    headers.reserve(ROOM_FOR_FIELDS);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
pub mod tests {
    use super::super::entry::entry_json;
    use super::*;
    use crate::client_net::ClientNet;
    use crate::schema::dir::FileEntry;
    use crate::schema::file::{Attributes, ContentLocation, Digest};
    use crate::schema::{DrivePath, FileId, StayId, Timestamp};

    pub fn file(path: &str, text: &str) -> Node {
        let attributes = Attributes {
            size: u64::MAX,
            mime: text.to_owned(),
            creator: text.to_owned(),
            modified: Timestamp::from_ms(253_402_300_799_999),
            added: Timestamp::from_ms(-2_177_452_800_000),
            digest: Digest([255; 32]),
            location: ContentLocation::Inline,
        };
        let entry = FileEntry { id: FileId::random(), stay: StayId::CREATED, attributes };
        Node::File { path: DrivePath::parse(path).unwrap(), entry }
    }

    #[test]
    fn memory_has_room_for_four_pages() {
        for mib in [8, 16, 32, 64, 256] {
            let memory = Budget::new(mib << 20);
            for memory in [memory.of_stranger(ClientNet::NONE), memory.of_strangers(), memory] {
                let page = bytes(&memory, 100_000);
                let permits = [(); 4].map(|()| memory.try_take(page));
                assert!(permits.iter().all(Option::is_some), "{page} of {mib} MiB");
                assert!(page > 2 * LEAST, "of {mib} MiB");
            }
        }
    }

    #[test]
    fn an_entry_needs_no_more_than_its_bound() {
        let long = "/\"".to_owned() + &vec!["\\\"".repeat(127); 15].join("/");
        let texts = ["", "a", "\u{1}\t\"\\\u{7f}é照", &"\"".repeat(255)];
        for node in texts.iter().flat_map(|text| [file("/a", text), file(&long, text)]) {
            let (json, most) = (serde_json::to_string(&entry_json(&node)).unwrap(), bytes_of(&(&node).into()));
            // A comma follows.
            assert!(json.len() < most, "{} of {most}: {json}", json.len());
            assert!(most + (1 << 10) + escaped(&long) <= LEAST);
        }
    }
}
