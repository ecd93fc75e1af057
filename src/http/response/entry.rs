//! The JSON of a file or directory.

use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::headers;
use crate::drive::{Copied, Node};

/// A file or directory. A directory has no size, type, etag and digest; its times are those of its creation.
// Members in the order in which they are documented.
#[derive(Serialize, ToSchema)]
#[schema(as = Entry)]
pub struct View<'a> {
    /// From the root, with a slash at its start.
    #[schema(example = "/photos/2026/cat.jpg")]
    path: &'a str,
    #[schema(example = "cat.jpg")]
    name: &'a str,
    #[schema(pattern = "^(file|directory)$", example = "file")]
    kind: &'static str,
    /// Of a file, new with every version; a directory keeps its own.
    #[schema(format = Uuid)]
    id: String,
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// Media type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    mime: Option<&'a str>,
    /// Who uploaded or copied this version, or made the directory.
    creator: &'a str,
    /// As given with the upload, else as `added`.
    #[schema(format = DateTime)]
    modified: String,
    /// When this version was stored.
    #[schema(format = DateTime)]
    added: String,
    /// Strong, in quotes.
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    /// SHA-256 of the content, as in `Repr-Digest` (RFC 9530).
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
}

/// An entry, and what the copying of a directory made.
#[derive(Serialize, ToSchema)]
#[schema(as = CopiedEntry)]
pub struct CopyView<'a> {
    #[serde(flatten)]
    pub entry: View<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copied: Option<CopiedView>,
}

/// What the copying of a directory made; what was there already is not counted.
#[derive(Serialize, ToSchema)]
#[schema(as = Copied)]
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
#[derive(Serialize, ToSchema)]
pub struct Page<'a> {
    /// The directory, if the page lists one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<&'a str>,
    #[schema(value_type = Vec<View<'a>>)]
    pub entries: Entries<'a>,
    /// The `cursor` of the next page. Only null ends a walk: a page may hold fewer entries than its limit.
    #[schema(required)]
    pub next: Option<String>,
}

/// Each is made when it is written.
pub struct Entries<'a>(pub &'a [Node]);

impl Serialize for Entries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(view))
    }
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
