//! The children of a row that an operation has locked.
//!
//! These reads decide what is copied to the new path and which files are removed, so no page may belong to another
//! directory that has the path by now. A page counts only if id and lock of the row were unchanged while it was read:
//!
//! - The children of a locked row cannot change: every writer checks that the lock is absent. Only the finish of a delete
//!   takes files out of it.
//! - So such a page has the final children of this directory, or of a deleted one those that are left. Each file in it
//!   belongs to the subtree of this operation, and its id is never used again: plans that delete its rows may be late, and
//!   need no check of their own.
//! - Another id or lock means that another task has finished or aborted the row before, with all its children.

use std::ops::Bound;

use bytes::Bytes;

use crate::drive::error::Result;
use crate::drive::namespace::Namespace;
use crate::schema::dir::{self, RowLock};
use crate::schema::{DirId, DrivePath, OpId};
use crate::table::{Page, PageQuery};

/// A row that an operation has locked: which operation, where, and the directory's id.
#[derive(Clone, Debug)]
pub struct LockedDir {
    pub op: OpId,
    pub path: DrivePath,
    pub id: DirId,
}

impl LockedDir {
    /// A page of the children; none if the row is no longer locked by this operation.
    pub async fn page(
        &self,
        ns: &Namespace,
        (from, to): (Bound<Bytes>, Bound<Bytes>),
        limit: usize,
    ) -> Result<Option<Page>> {
        let (table, row, family) = (dir::TABLE, self.path.key(), dir::SUB);
        let unchanged = vec![dir::id_column(), dir::lock_column()];
        let page = ns.tables.page(&PageQuery { table, row, family, from, to, limit, unchanged }).await?;
        let locked = [dir::encode_id(self.id), RowLock::Source(self.op).encode()].map(Some);
        Ok(Some(page).filter(|page| page.unchanged == locked))
    }
}
