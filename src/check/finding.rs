//! What can be wrong with a store.

use std::fmt;

use serde::Serialize;

/// A broken promise, a stray (something that no name leads to), or a note of what is as it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// A row, a cell or a part of a table that cannot be read.
    Unreadable,
    /// A name leads to a directory that has no row.
    DirectoryMissing,
    /// A directory row differs from the entry in its parent.
    DirectoryDiffers,
    /// Two directories have one id.
    SameId,
    /// The link from a directory's id to its parent is missing or wrong.
    #[serde(rename = "link")]
    DirParent,
    /// A file and a directory have one name.
    SameName,
    /// A name leads to a file that has no row.
    FileMissing,
    /// A file row differs from its entry.
    FileDiffers,
    /// An index has no entry of a file.
    #[serde(rename = "hint-missing")]
    IndexEntryMissing,
    /// A file row whose content file is missing.
    ContentMissing,
    /// Content that differs from the digest in its row, or from its checksums.
    ContentDamaged,
    /// A pending unlink names the content file of an existing file.
    #[serde(rename = "content-condemned")]
    ContentPendingUnlink,
    /// A row is locked by an operation that has no record.
    #[serde(rename = "mark")]
    OrphanedLock,
    /// An account, the name that was given to it, the counter of one of its shares, or the number of admins disagree.
    AccountDiffers,
    /// The counters of an account are not the sums of what its user has created.
    UsageDiffers,
    /// An index has no entry of a session, a token, a share or a grant.
    AccountIndexEntryMissing,
    /// A directory row that no name leads to.
    StrayDirectory,
    /// A file row that no name leads to.
    StrayFile,
    /// A link of a directory that does not exist.
    #[serde(rename = "stray-link")]
    StrayDirParent,
    /// An index entry of a file, or of a session, token, share or grant, that does not exist.
    #[serde(rename = "stray-hint")]
    StrayIndexEntry,
    /// A content file that no file has.
    StrayContent,
    /// A grant on a directory that was deleted: a note. It gives no right.
    StrayGrant,
    /// A share of a directory or file that was deleted, or of a user who was removed: a note. Its link shows nothing.
    StrayShare,
    /// Something among the content files that Rowdrive did not create.
    #[serde(rename = "foreign")]
    ForeignFile,
}

impl FindingKind {
    /// Whether it is a stray: no file or directory with a name is affected.
    pub fn is_stray(self) -> bool {
        use FindingKind::{ForeignFile, StrayContent, StrayDirParent, StrayDirectory, StrayFile, StrayIndexEntry};
        matches!(self, ForeignFile | StrayContent | StrayDirectory | StrayFile | StrayIndexEntry | StrayDirParent)
    }

    /// Whether it is a note: nothing is wrong. The delete of a directory leaves the grants on it and its shares.
    pub fn is_note(self) -> bool {
        matches!(self, Self::StrayGrant | Self::StrayShare)
    }
}

/// One thing that is wrong, or a note.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The promise that is broken, the kind of stray, or a note.
    pub kind: FindingKind,
    /// The table, or `content` for the folder of content files, or `db` for that of RocksDB.
    pub table: &'static str,
    /// The key of the row, in a form that can be read; of a content file its path or id.
    pub row: String,
    /// The affected file or directory, if a name leads to it.
    pub path: Option<String>,
    /// What was found, in words.
    pub detail: String,
    /// Whether it was repaired.
    pub repaired: bool,
}

impl fmt::Display for FindingKind {
    /// The name in JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, table, row, path, detail, repaired } = self;
        let repaired = if *repaired { " (repaired)" } else { "" };
        f.write_str(if kind.is_note() { "note: " } else { "" })?;
        match path {
            Some(path) => write!(f, "{kind}: {}: {detail} [{table} {row}]{repaired}", path.escape_debug()),
            None => write!(f, "{kind}: {detail} [{table} {row}]{repaired}"),
        }
    }
}

/// What was checked, and the counts of findings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CheckSummary {
    /// Directories that names lead to.
    pub directories: u64,
    /// Files that names lead to.
    pub files: u64,
    /// Bytes of all files' content, as their entries say.
    pub bytes: u64,
    /// Broken promises.
    pub wrong: u64,
    /// Strays: what no name leads to.
    pub strays: u64,
    /// Notes: they are not wrong.
    pub notes: u64,
    /// Broken promises and strays that were repaired.
    pub repaired: u64,
    /// Content of strays that was saved in the folder `lost`.
    pub saved: u64,
    /// Operations, pending unlinks and staged uploads that the next start completes or removes: they are not wrong.
    #[serde(rename = "unsettled")]
    pub pending: u64,
    /// Whether the check looked for strays: not if the directories could not be read whole.
    pub looked_for_strays: bool,
}

impl CheckSummary {
    /// Whether nothing is wrong any more.
    pub fn is_right(&self) -> bool {
        self.wrong + self.strays == self.repaired && self.looked_for_strays
    }
}
