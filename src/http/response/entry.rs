//! The JSON of a file or directory.

use serde::{Serialize, Serializer};

use crate::api::entry::{CopiedJson, EntryJson, EntryKind};
use crate::api::{digest, etag};
use crate::drive::{CopyStats, Node};

/// The entries of a page. Each one is built when it is serialized, so that they are never all in memory.
pub struct LazyEntries<'a>(pub &'a [Node]);

impl Serialize for LazyEntries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(entry_json))
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
