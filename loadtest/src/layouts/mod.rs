//! The row-key layouts that are compared: one file each, all with the same operations on the same paths.
//!
//! | layout | row key |
//! |---|---|
//! | [`relational`] | no store: a table of nodes in a relational database, with parent ids and indexes |
//! | [`postgres`] | the same in PostgreSQL, if there is one |
//! | [`row_id`] | row id, counted up; parent id and name are cells |
//! | [`name`] | name; the parent's path is a cell |
//! | [`full_path`] | full path, of files and directories alike |
//! | [`dirid_name`] | directories by full path, files by directory id and name |
//! | [`uuid`] | directories by full path, files by random UUID; in three [steps](uuid::step) up to the drive's tables |
//! | [`drive`] | the same, with all that the drive does around them |
//! | [`tree`] | parent's random id and name, as inodes have it: the control |
//!
//! A path is `/a/b`; the root's is empty. Those made by hand keep no content, take no care of two writers that
//! meet in the middle of a rename, and rename folders in as many commits as it takes.

mod directories;
pub mod dirid_name;
pub mod drive;
pub mod full_path;
pub mod name;
mod newest;
pub mod postgres;
pub mod relational;
pub mod row_id;
mod rows;
#[cfg(test)]
mod tests;
pub mod tree;
pub mod uuid;

use std::future::Future;

use anyhow::Result;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, TryStreamExt, stream};
use rowdrive::schema::DrivePath;
use rowdrive::schema::file::Attributes;

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Done,
    /// Something stands at the path that it would have taken.
    Exists,
    /// The node, or the directory that it would have stood in, is not there.
    Missing,
}

/// What stands at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    Directory,
    File(Attributes),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    pub name: String,
    pub node: Node,
}

/// Which files to answer, newest first: those modified in `[from, to)`, in milliseconds since 1970.
#[derive(Clone, Debug)]
pub struct Period {
    pub from: i64,
    pub to: i64,
    /// The directory that they lie below; empty for all.
    pub under: String,
    pub limit: usize,
}

/// Files that are stored at once by a load: what has transactions takes one for these.
pub const LOAD: usize = 1_000;

/// A way to lay out files and directories. Cheap to clone.
pub trait Layout: Clone + Send + Sync + 'static {
    const NAME: &'static str;
    /// Whether one name can stand in two directories.
    const NAMES_REPEAT: bool = true;

    fn mkdir(&self, path: &str) -> impl Future<Output = Result<Verdict>> + Send;
    fn create(&self, path: &str, attributes: &Attributes) -> impl Future<Output = Result<Verdict>> + Send;
    fn overwrite(&self, path: &str, attributes: &Attributes) -> impl Future<Output = Result<Verdict>> + Send;
    fn stat(&self, path: &str) -> impl Future<Output = Result<Option<Node>>> + Send;
    /// The names of a directory's children, in any order; none if there is no such directory.
    fn list(&self, path: &str) -> impl Future<Output = Result<Option<Vec<String>>>> + Send;
    fn list_attributes(&self, path: &str) -> impl Future<Output = Result<Option<Vec<Child>>>> + Send;
    /// Up to `limit` of a directory's files whose names follow `after` in byte order, with attributes, in that order.
    fn page(&self, path: &str, after: &str, limit: usize) -> impl Future<Output = Result<Option<Vec<Child>>>> + Send;
    fn rename_folder(&self, from: &str, to: &str) -> impl Future<Output = Result<Verdict>> + Send;
    fn move_file(&self, from: &str, to: &str) -> impl Future<Output = Result<Verdict>> + Send;
    /// Removes a file.
    fn delete(&self, path: &str) -> impl Future<Output = Result<Verdict>> + Send;
    /// The paths of all files of this name.
    fn find(&self, name: &str) -> impl Future<Output = Result<Vec<String>>> + Send;
    /// Time of modification and path.
    fn period(&self, period: &Period) -> impl Future<Output = Result<Vec<(i64, String)>>> + Send;

    /// Makes a directory before the files are loaded: by whatever way is quickest.
    fn load_directory(&self, path: &str) -> impl Future<Output = Result<Verdict>> + Send {
        self.mkdir(path)
    }

    /// Stores many files, by whatever way is quickest, and returns how many there was room for.
    fn load(&self, files: &[(String, Attributes)], at_a_time: usize) -> impl Future<Output = Result<u64>> + Send {
        load_one_by_one(self, files, at_a_time)
    }

    /// Compacts what was loaded, and returns its bytes on the disk. None for a layout in a store, which is compacted
    /// while it is closed.
    fn settle(&self) -> impl Future<Output = Result<Option<u64>>> + Send {
        async { Ok(None) }
    }

    /// Ends what goes on in the background.
    fn close(&self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }
}

async fn load_one_by_one(layout: &impl Layout, files: &[(String, Attributes)], at_a_time: usize) -> Result<u64> {
    let mut changes: Vec<Changing<'_>> = Vec::with_capacity(files.len());
    for (path, attributes) in files {
        changes.push(Box::pin(layout.create(path, attributes)));
    }
    count(changes, at_a_time).await
}

type Changing<'a> = BoxFuture<'a, Result<Verdict>>;

/// Runs changes, so many at a time, and returns how many were done.
async fn count(changes: Vec<Changing<'_>>, at_a_time: usize) -> Result<u64> {
    let verdicts = stream::iter(changes).buffer_unordered(at_a_time);
    verdicts.try_fold(0, async |sum, verdict| Ok(sum + u64::from(verdict == Verdict::Done))).await
}

/// A path as the drive writes it.
fn at(path: &str) -> Result<DrivePath> {
    Ok(if path.is_empty() { DrivePath::root() } else { DrivePath::parse(path)? })
}

/// A path's parent directory and the name in it.
pub fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or_default()
}

/// Whether a path is this directory's or lies below it.
pub fn is_within(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
