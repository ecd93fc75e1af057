//! The JSON of a file or directory.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use uuid::Uuid;

use crate::api::entry::{CopiedJson, EntryJson, EntryKind};
use crate::api::{digest, etag};
use crate::drive::{CopyStats, EntryRef, Node, NodeRef};
use crate::schema::Timestamp;
use crate::schema::dir::{DirEntryRef, FileEntryRef};
use crate::schema::timestamp::write_rfc3339;

/// Writes the JSON of many entries into one buffer, each as serde writes [`entry_json`], without a text in memory for each
/// member: that takes most of the time of a page.
pub struct EntryWriter {
    /// What was written so far.
    pub json: Vec<u8>,
}

impl EntryWriter {
    /// With room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { json: Vec::with_capacity(bytes) }
    }

    /// Appends an entry.
    pub fn entry(&mut self, node: &NodeRef<'_>) {
        self.entry_of(node, true);
    }

    /// Appends an entry as a share shows it: it names nobody.
    pub fn shared_entry(&mut self, node: &NodeRef<'_>) {
        self.entry_of(node, false);
    }

    fn entry_of(&mut self, NodeRef { before_slash, name, entry }: &NodeRef<'_>, has_creator: bool) {
        self.raw(br#"{"path":""#);
        self.escaped(before_slash);
        self.raw(b"/");
        let is_plain = is_plain(name);
        self.escaped_if(!is_plain, name);
        self.raw(br#"","name":""#);
        self.escaped_if(!is_plain, name);
        match entry {
            EntryRef::File(entry) => self.file(entry, has_creator),
            EntryRef::Directory(entry) => self.directory(entry, has_creator),
        }
        self.raw(b"}");
    }

    fn file(&mut self, FileEntryRef { id, attributes, .. }: &FileEntryRef<'_>, has_creator: bool) {
        let mut buffer = Uuid::encode_buffer();
        let id = id.0.as_hyphenated().encode_lower(&mut buffer).as_bytes();
        self.raw(br#"","kind":"file","id":""#);
        self.raw(id);
        self.raw(br#"","size":"#);
        self.number(attributes.size);
        self.raw(br#","type":""#);
        self.escaped(attributes.mime);
        self.creator(has_creator, attributes.creator);
        self.times(attributes.modified, attributes.added);
        self.raw(br#","etag":"\""#);
        self.raw(id);
        self.raw(br#"\"","digest":"sha-256=:"#);
        // 32 bytes are 44 characters.
        let mut base64 = [0; 44];
        let length = STANDARD.encode_slice(attributes.digest.0, &mut base64).unwrap_or_default();
        self.raw(base64.get(..length).unwrap_or_default());
        self.raw(br#":""#);
    }

    fn directory(&mut self, DirEntryRef { id, creator, created }: &DirEntryRef<'_>, has_creator: bool) {
        let mut buffer = Uuid::encode_buffer();
        self.raw(br#"","kind":"directory","id":""#);
        self.raw(id.0.as_hyphenated().encode_lower(&mut buffer).as_bytes());
        self.creator(has_creator, creator);
        // The time of a directory is its creation; changes of its children do not change it.
        self.times(*created, *created);
    }

    fn creator(&mut self, has_creator: bool, creator: &str) {
        if has_creator {
            self.raw(br#"","creator":""#);
            self.escaped(creator);
        }
    }

    fn times(&mut self, modified: Timestamp, added: Timestamp) {
        self.raw(br#"","modified":""#);
        write_rfc3339(modified, &mut self.json);
        self.raw(br#"","added":""#);
        write_rfc3339(added, &mut self.json);
        self.raw(br#"""#);
    }

    /// Appends a text in quotes.
    pub fn text(&mut self, text: &str) {
        self.raw(b"\"");
        self.escaped(text);
        self.raw(b"\"");
    }

    /// Appends a text without quotes. Most texts have nothing to escape.
    fn escaped(&mut self, text: &str) {
        self.escaped_if(!is_plain(text), text);
    }

    fn escaped_if(&mut self, has_escapes: bool, text: &str) {
        if !has_escapes {
            return self.raw(text.as_bytes());
        }
        // Neither a write to memory nor the JSON of a text can fail.
        let json = serde_json::to_string(text).unwrap_or_default();
        self.raw(json.get(1..json.len().saturating_sub(1)).unwrap_or_default().as_bytes());
    }

    /// Appends a number in decimal digits.
    fn number(&mut self, mut number: u64) {
        let mut digits = [b'0'; 20];
        let mut length = 0;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
            length += 1;
            if number == 0 {
                break;
            }
        }
        self.raw(digits.get(digits.len() - length..).unwrap_or_default());
    }

    /// Appends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.json.extend_from_slice(bytes);
    }
}

/// Whether JSON has nothing to escape in a text.
pub fn is_plain(text: &str) -> bool {
    // Counted to the end: that is quicker than to stop at the first.
    let escaped = text.bytes().filter(|byte| *byte < b' ' || matches!(byte, b'"' | b'\\')).count();
    escaped == 0
}

pub fn entry_json(node: &Node) -> EntryJson<'_> {
    let path = node.path();
    match node {
        Node::File { entry, .. } => EntryJson {
            path: path.as_str().into(),
            name: path.last().into(),
            kind: EntryKind::File,
            id: entry.id.to_string(),
            size: Some(entry.attributes.size),
            mime: Some(entry.attributes.mime.as_str().into()),
            creator: entry.attributes.creator.as_str().into(),
            modified: entry.attributes.modified.rfc3339(),
            added: entry.attributes.added.rfc3339(),
            etag: Some(etag::format(entry.id)),
            digest: Some(digest::format(&entry.attributes.digest)),
        },
        Node::Directory { entry, .. } => EntryJson {
            path: path.as_str().into(),
            name: path.last().into(),
            kind: EntryKind::Directory,
            id: entry.id.to_string(),
            size: None,
            mime: None,
            creator: entry.creator.as_str().into(),
            // The time of a directory is its creation; changes of its children do not change it.
            modified: entry.created.rfc3339(),
            added: entry.created.rfc3339(),
            etag: None,
            digest: None,
        },
    }
}

pub fn copied_json(CopyStats { directories, files, bytes }: CopyStats) -> CopiedJson {
    CopiedJson { directories, files, bytes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::entry::SharedEntryJson;
    use crate::schema::dir::{DirEntry, FileEntry};
    use crate::schema::file::{Attributes, ContentLocation, Digest};
    use crate::schema::{DirId, DrivePath, FileId, StayId};

    /// Texts and numbers of each kind, and of each byte that JSON escapes.
    #[test]
    fn an_entry_is_written_as_serde_writes_it() {
        let escaped: String = (0..0x80u8).map(char::from).collect();
        let texts = ["", "a", "IMG 1.jpg", "\"", "\\", "é照😀\u{2028}", &escaped];
        let names = texts.map(|text| text.chars().filter(|c| *c != '/' && !c.is_control()).collect::<String>());
        let mut nodes = Vec::new();
        for (at, (text, name)) in texts.iter().zip(&names).enumerate() {
            for path in ["/".to_owned(), format!("/{name}x"), format!("/a\"b/c/{name}x")] {
                let (path, ms) = (DrivePath::parse(&path).unwrap(), (at as i64 - 3) * 100_000_007);
                let [modified, added] = [ms, ms + 1].map(Timestamp::from_ms);
                let entry = DirEntry { id: DirId(Uuid::new_v4()), creator: (*text).into(), created: added };
                nodes.push(Node::Directory { path: path.clone(), entry });
                let attributes = Attributes {
                    size: u64::MAX >> (at * 9),
                    mime: (*text).into(),
                    creator: (*text).into(),
                    modified,
                    added,
                    digest: Digest([at as u8 * 41; 32]),
                    location: ContentLocation::Large,
                };
                nodes.push(Node::File {
                    path,
                    entry: FileEntry { id: FileId::random(), stay: StayId::CREATED, attributes },
                });
            }
        }
        let mut writer = EntryWriter::with_capacity(0);
        for node in nodes {
            writer.json.clear();
            writer.entry(&NodeRef::from(&node));
            let written = String::from_utf8(writer.json.clone()).unwrap();
            assert_eq!(written, serde_json::to_string(&entry_json(&node)).unwrap());
            let mut expected = serde_json::to_value(entry_json(&node)).unwrap();
            expected.as_object_mut().unwrap().remove("creator").unwrap();
            writer.json.clear();
            writer.shared_entry(&NodeRef::from(&node));
            assert_eq!(serde_json::from_slice::<serde_json::Value>(&writer.json).unwrap(), expected);
            serde_json::from_slice::<SharedEntryJson>(&writer.json).unwrap();
        }
    }
}
