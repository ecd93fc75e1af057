//! What callers ask of the drive, and what they get: the types of its front door.

use std::borrow::Cow;
use std::convert::Infallible;

use bytes::Bytes;
use futures_util::stream::{self, Stream};

use super::error::DriveError;
use crate::content::Body;
use crate::schema::dir::{self, DirEntry, DirEntryRef, FileEntry, FileEntryRef};
use crate::schema::file::{Attributes, Digest};
use crate::schema::index::by_time::Clock;
use crate::schema::{DrivePath, FileId, Timestamp};
use crate::table::Cell;

/// A file or a directory, and its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A file.
    File {
        /// Its path.
        path: DrivePath,
        /// Its version and attributes.
        entry: FileEntry,
    },
    /// A directory.
    Directory {
        /// Its path.
        path: DrivePath,
        /// Its id and attributes.
        entry: DirEntry,
    },
}

impl Node {
    /// Its path.
    pub fn path(&self) -> &DrivePath {
        match self {
            Self::File { path, .. } | Self::Directory { path, .. } => path,
        }
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        matches!(self, Self::Directory { .. })
    }
}

/// A [`Node`] whose texts are borrowed, from a node or from stored bytes.
#[derive(Clone, Debug)]
pub struct NodeRef<'a> {
    /// What its path has before the last slash.
    pub before_slash: &'a str,
    /// Its name; empty for the root.
    pub name: Cow<'a, str>,
    /// Its id and attributes.
    pub entry: EntryRef<'a>,
}

/// The entry of a [`NodeRef`].
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum EntryRef<'a> {
    File(FileEntryRef<'a>),
    Directory(DirEntryRef<'a>),
}

impl NodeRef<'_> {
    /// The same file or directory, with texts of its own.
    pub fn to_owned(&self) -> Result<Node, DriveError> {
        let path = DrivePath::parse(&[self.before_slash, "/", &self.name].concat())?;
        Ok(match self.entry {
            EntryRef::File(entry) => Node::File { path, entry: entry.to_owned() },
            EntryRef::Directory(entry) => Node::Directory { path, entry: entry.to_owned() },
        })
    }

    /// The `next` of a listing that ends with this child.
    pub fn place(&self) -> Bytes {
        let kind = match self.entry {
            EntryRef::File(..) => dir::FILE,
            EntryRef::Directory(_) => dir::DIRECTORY,
        };
        [kind, self.name.as_bytes()].concat().into()
    }
}

impl<'a> From<&'a Node> for NodeRef<'a> {
    fn from(node: &'a Node) -> Self {
        let (before_slash, name) = node.path().around_slash();
        let entry = match node {
            Node::File { entry: FileEntry { id, stay, attributes }, .. } => {
                EntryRef::File(FileEntryRef { id: *id, stay: *stay, attributes: attributes.borrowed() })
            }
            Node::Directory { entry: DirEntry { id, creator, created }, .. } => {
                EntryRef::Directory(DirEntryRef { id: *id, creator, created: *created })
            }
        };
        Self { before_slash, name: Cow::Borrowed(name), entry }
    }
}

/// A set of versions, as `If-Match` and `If-None-Match` name them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Versions {
    /// `*`: any version that is there.
    Any,
    /// One of these versions.
    These(Vec<FileId>),
}

impl Versions {
    fn has(&self, current: Option<FileId>) -> bool {
        match (self, current) {
            (_, None) => false,
            (Self::Any, Some(_)) => true,
            (Self::These(ids), Some(id)) => ids.contains(&id),
        }
    }
}

/// What must hold of the file at a path, checked at the instant of the commit (RFC 9110 section 13).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// The current version must be one of these.
    pub if_match: Option<Versions>,
    /// The current version must be none of these.
    pub if_none_match: Option<Versions>,
}

impl Condition {
    /// Whether it holds for the current version; none if no file is there.
    pub fn holds(&self, current: Option<FileId>) -> bool {
        self.if_match.as_ref().is_none_or(|v| v.has(current))
            && self.if_none_match.as_ref().is_none_or(|v| !v.has(current))
    }
}

/// How an upload is to be stored.
#[derive(Clone, Debug)]
pub struct PutOptions {
    /// Media type.
    pub mime: String,
    /// The user name that is stored with the file.
    pub creator: String,
    /// The client's time; without it the time of the upload.
    pub modified: Option<Timestamp>,
    /// Whether missing parents are made.
    pub parents: bool,
    /// Checked before the body is read, and at the instant of the commit.
    pub condition: Condition,
    /// Bytes of the body, if that is known: disk space and memory are asked for before it is read.
    pub length: Option<u64>,
    /// The content must have each of these SHA-256 digests.
    pub digests: Vec<Digest>,
}

impl PutOptions {
    /// Of this media type and creator; with missing parents, and without any condition.
    pub fn new(mime: impl Into<String>, creator: impl Into<String>) -> Self {
        Self {
            mime: mime.into(),
            creator: creator.into(),
            modified: None,
            parents: true,
            condition: Condition::default(),
            length: None,
            digests: Vec::new(),
        }
    }
}

/// The body of an upload whose bytes are in memory already.
pub fn whole_body(bytes: impl Into<Bytes>) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static {
    stream::iter([Ok(bytes.into())])
}

/// What an operation made or found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The file or directory as it is now.
    pub node: Node,
    /// False if something was replaced, or was there already.
    pub new: bool,
}

impl Written {
    /// Bytes of the file; none of a directory.
    pub fn size(&self) -> u64 {
        match &self.node {
            Node::File { entry, .. } => entry.attributes.size,
            Node::Directory { .. } => 0,
        }
    }
}

/// What the copying of a directory made, itself included; nothing that was there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyStats {
    /// Directories.
    pub directories: u64,
    /// Files.
    pub files: u64,
    /// Bytes of the content of these files.
    pub bytes: u64,
}

/// What a [`Node`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A file.
    File,
    /// A directory.
    Directory,
}

/// A page of a directory's children, directories first, each kind by name in byte order.
#[derive(Clone, Debug)]
pub struct ListQuery {
    /// Only children of this kind.
    pub kind: Option<NodeKind>,
    /// Only names that start so; empty for all.
    pub prefix: String,
    /// The `next` of the page before.
    pub after: Option<Bytes>,
    /// 1 to 10,000.
    pub limit: usize,
}

/// A page of children.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The children, in the order of [`ListQuery`].
    pub nodes: Vec<Node>,
    /// Where the next page goes on; none at the end.
    pub next: Option<Bytes>,
}

/// As [`Listing`], but the children are as they are stored: each is decoded when it is used.
#[derive(Clone, Debug)]
pub struct StoredListing {
    pub(super) directory: DrivePath,
    pub(super) cells: Vec<Cell>,
    /// Where the next page goes on; none at the end.
    pub next: Option<Bytes>,
}

impl StoredListing {
    /// The children, in the order of [`ListQuery`].
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = Result<NodeRef<'_>, DriveError>> {
        self.cells.iter().map(|Cell { qualifier, value }| {
            let (kind, name) = dir::child_text(qualifier)?;
            self.directory.check_child(&name)?;
            let entry = if kind == dir::FILE {
                EntryRef::File(FileEntryRef::decode(value)?)
            } else {
                EntryRef::Directory(DirEntryRef::decode(value)?)
            };
            Ok(NodeRef { before_slash: self.directory.before_slash(), name, entry })
        })
    }
}

/// A page of files of a time period, half-open `[from, to)`.
#[derive(Clone, Debug)]
pub struct TimeQuery {
    /// Which time of a file counts.
    pub clock: Clock,
    /// Inclusive; none for the earliest.
    pub from: Option<Timestamp>,
    /// Exclusive; none for the latest.
    pub to: Option<Timestamp>,
    /// Only files below this directory.
    pub under: Option<DrivePath>,
    /// Only files of this creator.
    pub creator: Option<String>,
    /// Only files of this media type.
    pub mime: Option<MimeFilter>,
    /// Oldest first.
    pub ascending: bool,
    /// The time and id of the last file of the page before.
    pub after: Option<(Timestamp, FileId)>,
    /// 1 to 10,000.
    pub limit: usize,
}

impl TimeQuery {
    /// Whether some files of the period and the directory are not asked for.
    pub(super) fn has_filter(&self) -> bool {
        // IMPORTANT: name every field, so that a new filter is not forgotten: the fast pages have all files.
        let Self { clock: _, from: _, to: _, under: _, creator, mime, ascending: _, after: _, limit: _ } = self;
        creator.is_some() || mime.is_some()
    }

    /// Whether a file of the period and the directory is asked for.
    pub(super) fn has(&self, attributes: &Attributes) -> bool {
        self.creator.as_ref().is_none_or(|creator| *creator == attributes.creator)
            && self.mime.as_ref().is_none_or(|filter| filter.matches(&attributes.mime))
    }
}

/// A media type to look for, compared without parameters and without case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MimeFilter {
    /// `image/*`: holds `image/`.
    Top(String),
    /// `image/png`: holds `image/png`.
    Exact(String),
}

impl MimeFilter {
    /// Whether a media type, parameters included, is one that this filter looks for.
    pub fn matches(&self, mime: &str) -> bool {
        let essence = mime.split(';').next().unwrap_or_default().trim();
        match self {
            Self::Exact(wanted) => essence.eq_ignore_ascii_case(wanted),
            Self::Top(top) => essence.get(..top.len()).is_some_and(|start| start.eq_ignore_ascii_case(top)),
        }
    }
}

/// A page of files by name, ordered by folded name, then by id.
#[derive(Clone, Debug)]
pub struct NameQuery {
    /// The name, or the start of it; folded by the drive.
    pub name: String,
    /// Whether `name` is only the start of a name.
    pub prefix: bool,
    /// Only files below this directory.
    pub under: Option<DrivePath>,
    /// The folded name and id of the last file of the page before.
    pub after: Option<(String, FileId)>,
    /// 1 to 10,000.
    pub limit: usize,
}

/// Files found through an index.
#[derive(Clone, Debug)]
pub struct FilePage<K> {
    /// The files, in the order of the query.
    pub nodes: Vec<Node>,
    /// Where the next page goes on; none at the end. A page may be short and yet have a next one.
    pub next: Option<K>,
}

/// A file opened for reading: one version, its attributes and its bytes.
#[derive(Debug)]
pub struct OpenFile {
    /// Its path.
    pub path: DrivePath,
    /// Its version and attributes.
    pub entry: FileEntry,
    /// Its bytes.
    pub body: Body,
}
