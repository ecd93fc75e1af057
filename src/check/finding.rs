//! What can be wrong with a store.

use std::fmt;

use serde::Serialize;

/// A promise that is not kept, or something that nothing leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// A row, a cell or a part of a table that cannot be read.
    Unreadable,
    /// A name leads to a directory that has no row.
    DirectoryMissing,
    /// A directory's row is not as its name in the parent says.
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
    /// A file's row is not as its entry says.
    FileDiffers,
    /// An index does not know a file.
    #[serde(rename = "hint-missing")]
    IndexEntryMissing,
    /// A file row whose content file is not there.
    ContentMissing,
    /// Content that is not what its row or its checksums say.
    ContentDamaged,
    /// The content of a file that is there is marked to be removed.
    #[serde(rename = "content-condemned")]
    ContentPendingUnlink,
    /// A row is marked by an operation that has no record.
    #[serde(rename = "mark")]
    OrphanedLock,
    /// A directory's row that no name leads to.
    StrayDirectory,
    /// A file's row that no name leads to.
    StrayFile,
    /// A link of a directory that is not there.
    #[serde(rename = "stray-link")]
    StrayDirParent,
    /// An index row of a file that is not there.
    #[serde(rename = "stray-hint")]
    StrayIndexEntry,
    /// A content file that no file has.
    StrayContent,
    /// Something among the content files that no Rowdrive has made.
    #[serde(rename = "foreign")]
    ForeignFile,
}

impl FindingKind {
    /// Whether it is only left over: nothing that a name leads to is touched by it.
    pub fn is_stray(self) -> bool {
        use FindingKind::{ForeignFile, StrayContent, StrayDirParent, StrayDirectory, StrayFile, StrayIndexEntry};
        matches!(self, ForeignFile | StrayContent | StrayDirectory | StrayFile | StrayIndexEntry | StrayDirParent)
    }
}

/// One thing that is not as it should be.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The promise that is broken, or the kind of stray.
    pub kind: FindingKind,
    /// The table, or `content` for the folder of content files, or `db` for that of RocksDB.
    pub table: &'static str,
    /// The key of the row, in a form that can be read; of a content file its path or id.
    pub row: String,
    /// The file or directory that it is about, if a name leads there.
    pub path: Option<String>,
    /// What was found, in words.
    pub detail: String,
    /// Whether it was repaired.
    pub repaired: bool,
}

impl fmt::Display for FindingKind {
    /// As in JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, table, row, path, detail, repaired } = self;
        let repaired = if *repaired { " (repaired)" } else { "" };
        match path {
            Some(path) => write!(f, "{kind}: {}: {detail} [{table} {row}]{repaired}", path.escape_debug()),
            None => write!(f, "{kind}: {detail} [{table} {row}]{repaired}"),
        }
    }
}

/// What was looked at, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CheckSummary {
    /// Directories that names lead to.
    pub directories: u64,
    /// Files that names lead to.
    pub files: u64,
    /// Bytes of all files' content, as their entries say.
    pub bytes: u64,
    /// Promises that are not kept.
    pub wrong: u64,
    /// What nothing leads to.
    pub strays: u64,
    /// How many of both were put right.
    pub repaired: u64,
    /// Content of strays that was saved in the folder `lost`.
    pub saved: u64,
    /// Operations, dropped content files and uploads that the next start will settle: they are not wrong.
    #[serde(rename = "unsettled")]
    pub pending: u64,
    /// Whether what nothing leads to was looked for: not if the tree could not be read whole.
    pub looked_for_strays: bool,
}

impl CheckSummary {
    /// Whether everything is right, by now.
    pub fn is_right(&self) -> bool {
        self.wrong + self.strays == self.repaired && self.looked_for_strays
    }
}
