//! The children of a row that an operation has locked.
//!
//! What is read here decides what is copied to the new path and which files are removed, so no page may come from
//! another directory that has taken the path since. So each page counts only if id and mark of the row were unchanged
//! while it was read:
//!
//! - A locked row cannot change its children: every writer checks that the mark is absent.
//! - So such a page holds children of this very directory, for good: a file in it belongs
//!   to the subtree of this operation, and its id is never used again. What follows from the page may happen late,
//!   and without a check of its own.
//! - Another id or mark means that somebody else has finished or aborted the row before, with all that was in it.

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
        let held = [dir::encode_id(self.id), RowLock::Source(self.op).encode()].map(Some);
        Ok(Some(page).filter(|page| page.unchanged == held))
    }
}
