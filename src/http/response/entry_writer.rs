//! The JSON of entries, written into one buffer: a page has hundreds of them.
//!
//! [`EntryJson`](crate::api::entry::EntryJson) says what an entry is; a test compares the bytes with those that serde
//! writes of it.

use std::io::Write;

use uuid::Uuid;

use crate::api::digest;
use crate::drive::Node;
use crate::schema::DrivePath;

/// Appends a page: the path of the directory if it lists one, its entries, and the cursor of the next page.
pub fn write_page(to: &mut Vec<u8>, path: Option<&DrivePath>, nodes: &[Node], next: Option<&str>) {
    to.push(b'{');
    if let Some(path) = path {
        to.extend_from_slice(b"\"path\":");
        write_text(to, path.as_str());
        to.push(b',');
    }
    to.extend_from_slice(b"\"entries\":[");
    for (at, node) in nodes.iter().enumerate() {
        if at > 0 {
            to.push(b',');
        }
        write_entry(to, node);
    }
    to.extend_from_slice(b"],\"next\":");
    match next {
        Some(cursor) => write_text(to, cursor),
        None => to.extend_from_slice(b"null"),
    }
    to.push(b'}');
}

/// Appends an entry.
pub fn write_entry(to: &mut Vec<u8>, node: &Node) {
    let path = node.path();
    member(to, "{\"path\":", |to| write_text(to, path.as_str()));
    member(to, ",\"name\":", |to| write_text(to, path.last()));
    match node {
        Node::File { entry, .. } => {
            let attributes = &entry.attributes;
            member(to, ",\"kind\":\"file\",\"id\":\"", |to| write_id(to, entry.id.0));
            // Writing to memory cannot fail.
            member(to, "\",\"size\":", |to| drop(write!(to, "{}", attributes.size)));
            member(to, ",\"type\":", |to| write_text(to, &attributes.mime));
            member(to, ",\"creator\":", |to| write_text(to, &attributes.creator));
            member(to, ",\"modified\":\"", |to| attributes.modified.write_rfc3339(to));
            member(to, "\",\"added\":\"", |to| attributes.added.write_rfc3339(to));
            member(to, "\",\"etag\":\"\\\"", |to| write_id(to, entry.id.0));
            member(to, "\\\"\",\"digest\":\"", |to| digest::write(to, &attributes.digest));
        }
        Node::Directory { entry, .. } => {
            member(to, ",\"kind\":\"directory\",\"id\":\"", |to| write_id(to, entry.id.0));
            member(to, "\",\"creator\":", |to| write_text(to, &entry.creator));
            // The time of a directory is its creation; changes of its children do not change it.
            member(to, ",\"modified\":\"", |to| entry.created.write_rfc3339(to));
            member(to, "\",\"added\":\"", |to| entry.created.write_rfc3339(to));
        }
    }
    to.extend_from_slice(b"\"}");
}

/// What stands before a value, and the value.
fn member(to: &mut Vec<u8>, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
    to.extend_from_slice(name.as_bytes());
    value(to);
}

fn write_id(to: &mut Vec<u8>, id: Uuid) {
    to.extend_from_slice(id.as_hyphenated().encode_lower(&mut Uuid::encode_buffer()).as_bytes());
}

/// A text in quotes. Most have nothing to escape.
fn write_text(to: &mut Vec<u8>, text: &str) {
    if text.bytes().any(|byte| byte < b' ' || byte == b'"' || byte == b'\\') {
        // Neither writing to memory nor the JSON of a text can fail.
        let _ = serde_json::to_writer(to, text);
        return;
    }
    to.push(b'"');
    to.extend_from_slice(text.as_bytes());
    to.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::super::entry::entry_json;
    use super::*;
    use crate::api::entry::ListPage;
    use crate::schema::dir::{DirEntry, FileEntry};
    use crate::schema::file::{Attributes, ContentLocation, Digest};
    use crate::schema::{DirId, FileId, StayId, Timestamp};

    const TEXTS: [&str; 7] = ["", "a.jpg", "\u{1}\t\n\"\\\u{7f}\u{2028}é照", "\"", "a/b c&<>'", "\u{8}\u{c}\r", "🦀"];
    const TIMES: [i64; 5] = [0, -1, 1_767_323_045_678, -2_177_452_800_000, 253_402_300_799_999];

    fn nodes() -> Vec<Node> {
        let mut nodes = Vec::new();
        for (at, text) in TEXTS.iter().enumerate() {
            let path = DrivePath::parse(["/", "/a", "/é照/\"q\" \\", "/x/y/z"][at % 4]).unwrap();
            let [modified, added] = [at, at + 1].map(|at| Timestamp::from_ms(TIMES[at % TIMES.len()]));
            let created = DirEntry { id: DirId::random(), creator: (*text).to_owned(), created: added };
            nodes.push(Node::Directory { path: path.clone(), entry: created });
            let attributes = Attributes {
                size: [0, 9, 10, u64::MAX][at % 4],
                mime: (*text).to_owned(),
                creator: TEXTS[(at + 1) % TEXTS.len()].to_owned(),
                modified,
                added,
                digest: Digest([at as u8 * 41; 32]),
                location: ContentLocation::Inline,
            };
            nodes.push(Node::File {
                path,
                entry: FileEntry { id: FileId::random(), stay: StayId::CREATED, attributes },
            });
        }
        nodes
    }

    #[test]
    fn an_entry_is_written_as_serde_writes_it() {
        for node in nodes() {
            let mut written = Vec::new();
            write_entry(&mut written, &node);
            assert_eq!(String::from_utf8(written).unwrap(), serde_json::to_string(&entry_json(&node)).unwrap());
        }
    }

    #[test]
    fn a_page_is_written_as_serde_writes_it() {
        let nodes = nodes();
        let paths = [None, Some(DrivePath::root()), Some(DrivePath::parse("/é照/\"q\"").unwrap())];
        for (path, next) in paths.iter().flat_map(|path| [(path, None), (path, Some("a\"b"))]) {
            for some in [&nodes[..], &nodes[..1], &[]] {
                let mut written = Vec::new();
                write_page(&mut written, path.as_ref(), some, next);
                let page = ListPage {
                    path: path.as_ref().map(|path| path.as_str().into()),
                    entries: some.iter().map(entry_json).collect(),
                    next: next.map(str::to_owned),
                };
                assert_eq!(String::from_utf8(written).unwrap(), serde_json::to_string(&page).unwrap());
            }
        }
    }
}
