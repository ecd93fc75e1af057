//! The children of a row that an operation has closed.
//!
//! What is read here decides what is copied to the new path and which files are removed, so no page may come from
//! another directory that stands at the path by now. Each page is therefore fenced by the row's id and mark:
//!
//! - A row that is closed cannot change its children: every writer checks that the mark is absent.
//! - So a page that was read under the fence holds children of this very directory, for good: a file in it belongs
//!   to the subtree of this operation, and its id is never used again. What follows from the page may happen late,
//!   and without a check of its own.
//! - A fence that does not hold says that somebody else settled the row, and all that was in it, before.

use std::ops::Bound;

use bytes::Bytes;

use crate::drive::{Drive, Result};
use crate::schema::dir::{self, State};
use crate::schema::{DirId, DrivePath, OpId};
use crate::table::{Page, PageAsk};

/// A row that an operation has closed: which operation, where, and the directory's id.
#[derive(Clone, Debug)]
pub(super) struct Closed {
    pub op: OpId,
    pub path: DrivePath,
    pub id: DirId,
}

impl Closed {
    /// A page of the children; none if the row is no longer closed by this operation.
    pub async fn page(
        &self,
        drive: &Drive,
        (from, to): (Bound<Bytes>, Bound<Bytes>),
        limit: usize,
    ) -> Result<Option<Page>> {
        let (table, row, family) = (dir::TABLE, self.path.key(), dir::SUB);
        let fence = vec![dir::id_column(), dir::state_column()];
        let page = drive.inner.tables.page(&PageAsk { table, row, family, from, to, limit, fence }).await?;
        let held = [dir::encode_id(self.id), State::Closed(self.op).encode()].map(Some);
        Ok(Some(page).filter(|page| page.fence == held))
    }
}
