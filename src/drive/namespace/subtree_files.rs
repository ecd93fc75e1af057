//! The entries of all files of a subtree, page by page, in the order of the directories' keys.
//!
//! As the rows of [`subtree_scan`](super::subtree_scan), the pages have no common instant.

use std::collections::VecDeque;

use bytes::Bytes;

use super::Namespace;
use super::list::file_cells;
use super::subtree_scan::{SubtreeScan, scan};
use crate::drive::error::{DriveError, Result};
use crate::schema::{DrivePath, dir};
use crate::table::{Cell, Page, RowQuery};

/// A cursor over the entries of the files of a subtree.
pub struct SubtreeFiles {
    rows: SubtreeScan,
    /// Directories whose files are not all read yet, each with the last name that was read.
    unread: VecDeque<(DrivePath, Option<Bytes>)>,
}

/// What one step has read.
pub struct FilesRead {
    pub directory: DrivePath,
    /// Files of the directory.
    pub files: Vec<Cell>,
    /// Cells read.
    pub work: usize,
}

impl SubtreeFiles {
    pub fn new(ns: &Namespace, root: &DrivePath) -> Self {
        Self { rows: scan(ns, root, RowQuery::cells(vec![dir::id_column()])), unread: VecDeque::new() }
    }

    /// Reads some more rows, or at most so many files of a directory. None at the end.
    ///
    /// The position changes only after a read: if that fails, or if the caller leaves meanwhile, the next call repeats
    /// it.
    pub async fn next(&mut self, ns: &Namespace, most: usize) -> Result<Option<FilesRead>> {
        let Some((directory, after)) = self.unread.front() else {
            let Some(rows) = self.rows.next(ns).await? else { return Ok(None) };
            for (key, _) in &rows {
                self.unread.push_back((DrivePath::from_key(key)?, None));
            }
            return Ok(Some(FilesRead { directory: DrivePath::root(), files: Vec::new(), work: rows.len() }));
        };
        let limit = most.clamp(1, ns.limits.files_queried);
        let page = match file_cells(ns, directory, after.clone(), limit).await {
            Ok(page) => page,
            // Removed meanwhile, or a subtree operation has locked it so that it reads as absent.
            Err(DriveError::NotFound) => Page::default(),
            Err(error) => return Err(error),
        };
        let Some((directory, _)) = self.unread.pop_front() else { return Ok(None) };
        if let Some(last) = page.cells.last().filter(|_| page.more) {
            // Copied, or this one qualifier would keep the bytes of the whole page in memory.
            let last = Bytes::copy_from_slice(&last.qualifier);
            self.unread.push_front((directory.clone(), Some(last)));
        }
        let work = 1 + page.cells.len();
        Ok(Some(FilesRead { directory, files: page.cells, work }))
    }
}
