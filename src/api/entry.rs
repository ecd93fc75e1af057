//! The JSON of files and directories.
//!
//! Server and client share each struct: the server borrows its values, the client owns them. Members that the client
//! does not use have a default, so that it also reads an answer without them. Comments on members appear in
//! `/openapi.json`; a member without a comment has no description there.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema::Timestamp;

/// Whether an entry is a file or a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// It has content.
    File,
    /// It holds other entries.
    Directory,
}

/// A file or directory. A directory has no size, type, etag and digest; its times are those of its creation.
// Members in the order in which they are documented.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Entry)]
#[allow(missing_docs)]
pub struct EntryJson<'a> {
    /// From the root, with a slash at its start.
    #[schema(value_type = String, example = "/photos/2026/cat.jpg")]
    pub path: Cow<'a, str>,
    #[schema(value_type = String, example = "cat.jpg")]
    pub name: Cow<'a, str>,
    #[schema(value_type = String, pattern = "^(file|directory)$", example = "file")]
    pub kind: EntryKind,
    /// Of a file, new with every version; a directory keeps its own.
    #[serde(default)]
    #[schema(required, format = Uuid)]
    pub id: String,
    /// Bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Media type.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub mime: Option<Cow<'a, str>>,
    /// Who uploaded or copied this version, or made the directory.
    #[serde(default)]
    #[schema(required, value_type = String)]
    pub creator: Cow<'a, str>,
    /// As given with the upload, else as `added`.
    #[schema(format = DateTime)]
    pub modified: String,
    /// When this version was stored.
    #[serde(default)]
    #[schema(required, format = DateTime)]
    pub added: String,
    /// Strong, in quotes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// SHA-256 of the content, as in `Repr-Digest` (RFC 9530).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

impl EntryJson<'_> {
    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == EntryKind::Directory
    }

    /// Bytes of a file, 0 for a directory.
    pub fn bytes(&self) -> u64 {
        self.size.unwrap_or(0)
    }

    /// The modified time; none if it cannot be parsed, so that no other time equals it.
    pub fn modified_time(&self) -> Option<Timestamp> {
        Timestamp::parse(&self.modified).ok()
    }
}

/// An entry as a share shows it: paths begin at what it is of, and nobody is named.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = SharedEntry)]
#[allow(missing_docs)]
pub struct SharedEntryJson {
    #[schema(example = "/2026/cat.jpg")]
    pub path: String,
    #[schema(example = "cat.jpg")]
    pub name: String,
    #[schema(value_type = String, pattern = "^(file|directory)$", example = "file")]
    pub kind: EntryKind,
    #[schema(format = Uuid)]
    pub id: String,
    /// Bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Media type.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
    #[schema(format = DateTime)]
    pub modified: String,
    #[schema(format = DateTime)]
    pub added: String,
    /// Strong, in quotes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// SHA-256 of the content, as in `Repr-Digest` (RFC 9530).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// A page of entries that a share shows.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = SharedListing)]
#[allow(missing_docs)]
pub struct SharedListPage {
    pub path: String,
    pub entries: Vec<SharedEntryJson>,
    /// The `cursor` of the next page.
    #[schema(required)]
    pub next: Option<String>,
}

/// A file that was uploaded by a share.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[allow(missing_docs)]
pub struct SharedUpload {
    /// As it was sent. If the name was taken, the file has another one.
    #[schema(example = "cat.jpg")]
    pub name: String,
    pub size: u64,
}

/// A page of entries, with the cursor of the next one.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Page)]
#[allow(missing_docs)]
pub struct ListPage<'a> {
    /// The directory, if the page lists one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub path: Option<Cow<'a, str>>,
    pub entries: Vec<EntryJson<'a>>,
    /// The `cursor` of the next page. Only null ends a walk: a page may hold fewer entries than its limit.
    #[schema(required)]
    pub next: Option<String>,
}

/// From where to where.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Relocation)]
#[allow(missing_docs)]
pub struct MoveRequest {
    #[schema(example = "/photos/2026/cat.jpg")]
    pub from: String,
    /// The new path in full, its last name included.
    #[schema(example = "/photos/2026/tiger.jpg")]
    pub to: String,
    /// Whether a file at the target may be replaced.
    #[serde(default)]
    pub overwrite: bool,
}

/// An entry, and what the copying of a directory made.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = CopiedEntry)]
#[allow(missing_docs)]
pub struct CopiedEntryJson<'a> {
    #[serde(flatten)]
    pub entry: EntryJson<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied: Option<CopiedJson>,
}

/// What the copying of a directory made; what was there already is not counted.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = Copied)]
#[allow(missing_docs)]
pub struct CopiedJson {
    pub directories: u64,
    pub files: u64,
    pub bytes: u64,
}
