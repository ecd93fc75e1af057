//! The layouts that are compared: the steps of the worked example, then one addition at a time, and a control. All
//! answer the same operations on the same paths.
//!
//! `report/layouts.md` has their row keys, as a reader of the results sees them. [`relational`] is the SQL database,
//! [`drive`] the drive itself; [`uuid`] has the two tables that the worked example ends with, step by step, and
//! [`nodes`] all others: `rowkey-id`, `name`, `fullpath`, `dirid-name`, `fullpath-indexed` and the control, `tree`.
//!
//! [`rows`] and [`stored`] have what the layouts in a store share: scans and commits, one packing of attributes.
//! [`dir_table`] is the directory table of `dirid-name` and `uuid`, [`indexes`] has the rows by time, creator and name.
//!
//! A path is `/a/b`; the root's is empty. The layouts made by hand rename folders in as many commits as it takes.

mod dir_table;
mod drive;
mod indexes;
pub mod kinds;
mod nodes;
pub mod relational;
mod rows;
mod stored;
#[cfg(test)]
mod tests;
mod uuid;

use anyhow::Result;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use rowdrive::schema::file::Attributes;
use rowdrive::schema::index::by_time::Clock;

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Done,
    /// Another node has the path, or the row key that it would have.
    Exists,
    /// The node, or the directory that it would be in, does not exist.
    Missing,
}

/// The node of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    Directory,
    File(Attributes),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    pub name: String,
    /// None where names alone were asked for.
    pub node: Option<Node>,
}

/// A file that is stored.
#[derive(Clone, Debug)]
pub struct NewFile {
    pub path: String,
    pub attributes: Attributes,
    /// Empty for most measurements.
    pub content: Bytes,
}

/// Which children of a directory to answer.
#[derive(Clone, Debug)]
pub enum List {
    /// All, without attributes, in any order.
    Names,
    /// All, with attributes, in any order.
    Attributes,
    /// Files whose names follow `after` in byte order, with attributes, in that order.
    Page { after: String, limit: usize },
}

impl List {
    /// The name that all children to answer follow, and how many there are at most.
    fn page(&self) -> (&str, usize) {
        match self {
            Self::Names | Self::Attributes => ("", usize::MAX),
            Self::Page { after, limit } => (after, *limit),
        }
    }
}

/// Which files to answer, newest first: those of a creator, or of all, with a time in `[from, to)`, in milliseconds
/// since 1970.
#[derive(Clone, Debug)]
pub struct Period {
    pub clock: Clock,
    pub creator: Option<String>,
    pub from: i64,
    pub to: i64,
    /// The directory that they lie below; empty for all.
    pub under: String,
    pub limit: usize,
}

impl Period {
    /// The time of a file; none if the file is not asked for.
    fn time(&self, attributes: &Attributes) -> Option<i64> {
        let time = match self.clock {
            Clock::Modified => attributes.modified.ms(),
            Clock::Added => attributes.added.ms(),
        };
        let is_creator = self.creator.as_ref().is_none_or(|creator| *creator == attributes.creator);
        (is_creator && (self.from..self.to).contains(&time)).then_some(time)
    }

    /// The newest of these files, in the order of an answer.
    fn newest<T: Ord>(&self, mut found: Vec<(i64, T)>) -> Vec<(i64, T)> {
        found.sort_unstable_by(|one, other| other.cmp(one));
        found.truncate(self.limit);
        found
    }
}

/// Files that are stored at once by a load: what has transactions takes one for these.
pub const LOAD: usize = 1_000;

/// A way to lay out files and directories.
#[async_trait]
pub trait Layout: Send + Sync {
    async fn mkdir(&self, path: &str) -> Result<Verdict>;
    /// Stores a file where there is none, or (`is_new` false) over the one that is there.
    async fn put(&self, file: &NewFile, is_new: bool) -> Result<Verdict>;
    async fn stat(&self, path: &str) -> Result<Option<Node>>;
    /// The content of a file; none if there is none.
    async fn read(&self, path: &str) -> Result<Option<Bytes>>;
    /// None if there is no such directory.
    async fn list(&self, path: &str, ask: &List) -> Result<Option<Vec<Child>>>;
    /// Renames a file, or a directory with all that it holds. Nobody else renames the same directory.
    async fn rename(&self, from: &str, to: &str) -> Result<Verdict>;
    /// Removes a file.
    async fn delete(&self, path: &str) -> Result<Verdict>;
    /// The paths of all files of this name.
    async fn find(&self, name: &str) -> Result<Vec<String>>;
    /// Times and paths.
    async fn period(&self, period: &Period) -> Result<Vec<(i64, String)>>;

    /// Makes a directory before files are loaded, by whatever way is quickest.
    async fn load_directory(&self, path: &str) -> Result<Verdict> {
        self.mkdir(path).await
    }

    /// Stores a file of a load, by whatever way is quickest.
    async fn load_file(&self, file: &NewFile) -> Result<Verdict> {
        self.put(file, true).await
    }

    /// Stores many files, and returns how many there was room for.
    async fn load(&self, files: &[NewFile], at_a_time: usize) -> Result<u64> {
        let puts: Vec<_> = files.iter().map(|file| self.load_file(file)).collect();
        let verdicts = stream::iter(puts).buffer_unordered(at_a_time);
        verdicts.try_fold(0, async |sum, verdict| Ok(sum + u64::from(verdict == Verdict::Done))).await
    }

    /// Compacts what was loaded, and returns its bytes on the disk. None for a layout in a store, which is compacted
    /// while it is closed.
    async fn compact(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Waits for what goes on in the background.
    async fn idle(&self) {}

    /// Ends what goes on in the background.
    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// A path's parent directory and the name in it.
pub fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or_default()
}

/// Whether a path is this directory's or lies below it.
pub fn is_within(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
