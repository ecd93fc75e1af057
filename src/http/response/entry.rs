//! The JSON of a file or directory.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use crate::api::entry::{CopiedJson, EntryJson, EntryKind};
use crate::api::json_text::{is_plain, write_text};
use crate::api::{digest, etag};
use crate::drive::{CopyStats, EntryRef, Node, NodeRef};
use crate::schema::Timestamp;
use crate::schema::dir::{DirEntryRef, FileEntryRef};
use crate::schema::timestamp::{RFC3339_BYTES, rfc3339_bytes, write_rfc3339};

/// What follows the text of the name of a file, up to its size. Ids, times and digests in this template, and in those below,
/// are placeholders.
const FILE: &[u8; 67] = br#"","kind":"file","id":"00000000-0000-0000-0000-000000000000","size":"#;
/// Where the id is in [`FILE`].
const FILE_ID: usize = br#"","kind":"file","id":""#.len();

/// What follows the times of a file.
const FILE_END: &[u8; 117] = b",\"etag\":\"\\\"00000000-0000-0000-0000-000000000000\\\"\",\
    \"digest\":\"sha-256=:____________________________________________:\"}";
/// Where the id is in [`FILE_END`].
const FILE_END_ID: usize = br#","etag":"\""#.len();
/// Where the digest is in [`FILE_END`].
const FILE_END_DIGEST: usize = FILE_END_ID + ID_BYTES + br#"\"","digest":"sha-256=:"#.len();

/// What follows the text of the name of a directory, up to its creator.
const DIRECTORY: &[u8; 63] = br#"","kind":"directory","id":"00000000-0000-0000-0000-000000000000"#;
/// Where the id is in [`DIRECTORY`].
const DIRECTORY_ID: usize = br#"","kind":"directory","id":""#.len();

/// The quote that ends the text before the times, and both times.
const TIMES: &[u8; 74] = br#"","modified":"2026-01-02T03:04:05.678Z","added":"2026-01-02T03:04:05.678Z""#;
/// Where `modified` is in [`TIMES`].
const TIMES_MODIFIED: usize = br#"","modified":""#.len();
/// Where `added` is in [`TIMES`].
const TIMES_ADDED: usize = TIMES_MODIFIED + RFC3339_BYTES + br#"","added":""#.len();

/// Bytes of an id.
const ID_BYTES: usize = Hyphenated::LENGTH;

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
        let has_escapes = !is_plain(name);
        self.escaped_if(has_escapes, name);
        self.raw(br#"","name":""#);
        self.escaped_if(has_escapes, name);
        match entry {
            EntryRef::File(entry) => self.file(entry, has_creator),
            EntryRef::Directory(entry) => self.directory(entry, has_creator),
        }
    }

    fn file(&mut self, FileEntryRef { id, attributes, .. }: &FileEntryRef<'_>, has_creator: bool) {
        let id = id_text(id.0);
        put(self.append_template(FILE), FILE_ID, &id);
        self.number(attributes.size);
        self.raw(br#","type":""#);
        self.escaped(attributes.mime);
        self.creator(has_creator, attributes.creator);
        self.times(attributes.modified, attributes.added);
        let end = self.append_template(FILE_END);
        put(end, FILE_END_ID, &id);
        if let Some(base64) = end.get_mut(FILE_END_DIGEST..) {
            // It has room for these bytes, so this cannot fail.
            let _ = STANDARD.encode_slice(attributes.digest.0, base64);
        }
    }

    fn directory(&mut self, DirEntryRef { id, creator, created }: &DirEntryRef<'_>, has_creator: bool) {
        put(self.append_template(DIRECTORY), DIRECTORY_ID, &id_text(id.0));
        self.creator(has_creator, creator);
        // The time of a directory is its creation; changes of its children do not change it.
        self.times(*created, *created);
        self.raw(b"}");
    }

    fn creator(&mut self, has_creator: bool, creator: &str) {
        if has_creator {
            self.raw(br#"","creator":""#);
            self.escaped(creator);
        }
    }

    fn times(&mut self, modified: Timestamp, added: Timestamp) {
        if let (Some(modified), Some(added)) = (rfc3339_bytes(modified), rfc3339_bytes(added)) {
            let times = self.append_template(TIMES);
            put(times, TIMES_MODIFIED, &modified);
            return put(times, TIMES_ADDED, &added);
        }
        // Only damage gives such a time.
        self.raw(br#"","modified":""#);
        write_rfc3339(modified, &mut self.json);
        self.raw(br#"","added":""#);
        write_rfc3339(added, &mut self.json);
        self.raw(br#"""#);
    }

    /// Appends a template, and returns it, so that what differs between entries can be put in its place.
    fn append_template<const N: usize>(&mut self, bytes: &[u8; N]) -> &mut [u8] {
        self.raw(bytes);
        let start = self.json.len() - N;
        self.json.get_mut(start..).unwrap_or_default()
    }

    /// Appends a text in quotes.
    pub fn text(&mut self, text: &str) {
        write_text(&mut self.json, text);
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
        // 20 digits, two at a time.
        let mut pairs = [[b'0'; 2]; 10];
        let mut skipped = 20;
        for pair in pairs.iter_mut().rev() {
            let two = (number % 100) as u8;
            // With `|`, which cannot overflow, so that nothing is checked.
            *pair = [b'0' | (two / 10), b'0' | (two % 10)];
            number /= 100;
            skipped -= 2;
            if number == 0 {
                skipped += usize::from(two < 10);
                break;
            }
        }
        self.raw(pairs.as_flattened().get(skipped..).unwrap_or_default());
    }

    /// Appends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.json.extend_from_slice(bytes);
    }
}

/// The text of an id.
fn id_text(id: Uuid) -> [u8; ID_BYTES] {
    let mut text = [0; ID_BYTES];
    id.as_hyphenated().encode_lower(&mut text);
    text
}

/// Puts bytes into a template, from this place on. All places are constants, which a test tries.
fn put<const N: usize>(template: &mut [u8], at: usize, bytes: &[u8; N]) {
    if let Some(place) = template.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *place = *bytes;
    }
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

    #[test]
    fn numbers_are_written_as_the_library_does() {
        let powers =
            std::iter::successors(Some(1u64), |n| n.checked_mul(10)).flat_map(|n| [n - 1, n, n + 1, n / 3 * 2]);
        for number in powers.chain(0..1_000).chain([u64::MAX, u64::MAX - 1]) {
            let mut writer = EntryWriter::with_capacity(0);
            writer.number(number);
            assert_eq!(writer.json, number.to_string().as_bytes());
        }
    }

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
                // One of each pair of damaged times, and both of them, are written in another way.
                let [modified, added] = match at {
                    4 => [ms, i64::MAX],
                    5 => [i64::MIN, ms],
                    6 => [i64::MIN, i64::MAX],
                    _ => [ms, ms + 1],
                }
                .map(Timestamp::from_ms);
                let entry = DirEntry { id: DirId(Uuid::new_v4()), creator: (*text).into(), created: added };
                nodes.push(Node::Directory { path: path.clone(), entry });
                let attributes = Attributes {
                    size: u64::MAX >> (at * 9),
                    mime: (*text).into(),
                    creator: (*text).into(),
                    modified,
                    added,
                    digest: Digest(std::array::from_fn(|n| (at * 41 + n * 7) as u8)),
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
