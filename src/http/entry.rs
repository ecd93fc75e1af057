//! The JSON of a file or directory.

use serde::Serialize;

use super::headers;
use crate::drive::{Copied, Node};

/// Members in the order in which they are documented.
#[derive(Serialize)]
pub struct View<'a> {
    path: &'a str,
    name: &'a str,
    kind: &'static str,
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    mime: Option<&'a str>,
    creator: &'a str,
    modified: String,
    added: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
}

/// An entry, and what the copying of a directory made.
#[derive(Serialize)]
pub struct CopyView<'a> {
    #[serde(flatten)]
    pub entry: View<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copied: Option<CopiedView>,
}

#[derive(Serialize)]
pub struct CopiedView {
    directories: u64,
    files: u64,
    bytes: u64,
}

impl From<Copied> for CopiedView {
    fn from(Copied { directories, files, bytes }: Copied) -> Self {
        Self { directories, files, bytes }
    }
}

/// A page of entries, with the cursor of the next one.
#[derive(Serialize)]
pub struct Page<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<&'a str>,
    pub entries: Vec<View<'a>>,
    pub next: Option<String>,
}

pub fn view(node: &Node) -> View<'_> {
    let path = node.path();
    match node {
        Node::File { entry, .. } => View {
            path: path.as_str(),
            name: path.last(),
            kind: "file",
            id: entry.id.to_string(),
            size: Some(entry.attributes.size),
            mime: Some(&entry.attributes.mime),
            creator: &entry.attributes.creator,
            modified: entry.attributes.modified.rfc3339(),
            added: entry.attributes.added.rfc3339(),
            etag: Some(headers::etag(entry.id)),
            digest: Some(headers::repr_digest(&entry.attributes.digest)),
        },
        Node::Directory { entry, .. } => View {
            path: path.as_str(),
            name: path.last(),
            kind: "directory",
            id: entry.id.to_string(),
            size: None,
            mime: None,
            creator: &entry.creator,
            // A directory's time is its creation, whatever happens inside.
            modified: entry.created.rfc3339(),
            added: entry.created.rfc3339(),
            etag: None,
            digest: None,
        },
    }
}
