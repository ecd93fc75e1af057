//! What callers ask of the drive, and what they get: the types of its front door.

use bytes::Bytes;

use crate::content::Body;
use crate::schema::dir::{DirEntry, Entry};
use crate::schema::time::Clock;
use crate::schema::{DrivePath, FileId, Timestamp};

/// A file or a directory, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    File { path: DrivePath, entry: Entry },
    Directory { path: DrivePath, entry: DirEntry },
}

impl Node {
    pub fn path(&self) -> &DrivePath {
        match self {
            Self::File { path, .. } | Self::Directory { path, .. } => path,
        }
    }

    pub fn is_directory(&self) -> bool {
        matches!(self, Self::Directory { .. })
    }
}

/// A set of versions, as `If-Match` and `If-None-Match` name them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Versions {
    /// `*`: any version that is there.
    Any,
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
    pub if_match: Option<Versions>,
    pub if_none_match: Option<Versions>,
}

impl Condition {
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
    pub creator: String,
    /// The client's time; without it the time of the upload.
    pub modified: Option<Timestamp>,
    /// Whether missing parents are made.
    pub parents: bool,
    pub condition: Condition,
}

/// What an operation made or found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    pub node: Node,
    /// False if something was replaced, or was there already.
    pub new: bool,
}

/// What the copying of a directory made, itself included; nothing that was there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    pub directories: u64,
    pub files: u64,
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
}

/// A page of a directory's children, directories first, each kind by name in byte order.
#[derive(Clone, Debug)]
pub struct ListAsk {
    pub kind: Option<Kind>,
    /// Only names that start so; empty for all.
    pub prefix: String,
    /// The `next` of the page before.
    pub after: Option<Bytes>,
    /// 1 to 10,000.
    pub limit: usize,
}

#[derive(Clone, Debug)]
pub struct Listing {
    pub nodes: Vec<Node>,
    /// Where the next page goes on; none at the end.
    pub next: Option<Bytes>,
}

/// A page of files of a time period, half-open `[from, to)`.
#[derive(Clone, Debug)]
pub struct FilesAsk {
    pub clock: Clock,
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
    pub under: Option<DrivePath>,
    pub creator: Option<String>,
    pub mime: Option<MimeFilter>,
    /// Oldest first.
    pub ascending: bool,
    /// The time and id of the last file of the page before.
    pub after: Option<(Timestamp, FileId)>,
    /// 1 to 10,000.
    pub limit: usize,
}

/// A media type to look for, compared without parameters and without case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MimeFilter {
    /// `image/*`: holds `image/`.
    Top(String),
    Exact(String),
}

impl MimeFilter {
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
pub struct FindAsk {
    /// The name, or the start of it; folded by the drive.
    pub name: String,
    pub prefix: bool,
    pub under: Option<DrivePath>,
    /// The folded name and id of the last file of the page before.
    pub after: Option<(String, FileId)>,
    /// 1 to 10,000.
    pub limit: usize,
}

/// Files found through an index.
#[derive(Clone, Debug)]
pub struct Found<K> {
    pub nodes: Vec<Node>,
    /// Where the next page goes on; none at the end. A page may be short and yet have a next one.
    pub next: Option<K>,
}

/// A file opened for reading: one version, its attributes and its bytes.
#[derive(Debug)]
pub struct Opened {
    pub path: DrivePath,
    pub entry: Entry,
    pub body: Body,
}
