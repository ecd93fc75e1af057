//! Reads the directory tree as callers see it while subtree operations are running. Nothing here writes.
//!
//! Every read for an answer passes [`visibility`], which decides whether a locked row is live or absent.
//!
//! - [`lookup`]: one name in a directory row; stat
//! - [`resolve`]: the directories of a path that exist, and those that are missing
//! - [`list`]: the children of a directory, page by page
//! - [`dir_chain`]: the ids of the directories of a path
//! - [`dir_paths`]: from a directory's id to its path, cached
//! - [`live_dirs`]: which directories were found live, and the ids of their paths
//! - [`scope`]: the directories whose files a query may return
//! - [`subtree_scan`], [`subtree_files`]: all rows of a subtree by key, and the files in them

pub mod dir_chain;
pub mod dir_paths;
pub mod list;
pub mod live_dirs;
pub mod lookup;
pub mod resolve;
pub mod scope;
pub mod subtree_files;
pub mod subtree_scan;
pub mod visibility;

use std::sync::Arc;

use super::settings::Thresholds;
use crate::table::Tables;
use dir_paths::DirPathCache;
use live_dirs::LiveDirs;

/// What reads of the directory tree need. Cheap to clone.
#[derive(Clone)]
pub struct Namespace {
    pub tables: Tables,
    pub dir_paths: Arc<DirPathCache>,
    pub live_dirs: Arc<LiveDirs>,
    pub limits: Thresholds,
}
