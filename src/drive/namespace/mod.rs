//! Reading the directory tree as callers see it, whatever operations on subtrees are under way.
//!
//! Everything below reads directory rows through [`visibility`], which decides what a row that such an operation has
//! locked looks like from outside. Nothing here writes.
//!
//! - [`lookup`]: what a directory row says of one name; stat
//! - [`resolve`]: the directories on the way to a path, and those that are missing
//! - [`list`]: the children of a directory, page by page
//! - [`dir_paths`]: from a directory's id to its path, cached
//! - [`subtree_scan`]: all rows of a subtree by key

pub mod dir_paths;
pub mod list;
pub mod lookup;
pub mod resolve;
pub mod subtree_scan;
pub mod visibility;

use std::sync::Arc;

use super::settings::Thresholds;
use crate::table::Tables;
use dir_paths::DirPathCache;

/// What reading takes. Cheap to clone.
#[derive(Clone)]
pub struct Namespace {
    pub tables: Tables,
    pub dir_paths: Arc<DirPathCache>,
    pub limits: Thresholds,
}
