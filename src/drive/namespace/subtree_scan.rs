//! The rows of a subtree in the order of their keys. The scan uses no listings, so it also finds rows that no name
//! reaches: a parent may have lost the name of a locked row.
//!
//! The pages have no common instant. The steps of a subtree operation use only rows with its own lock, which do not
//! change meanwhile. A query compares move epochs before and after the scan.

use std::ops::Bound;

use super::Namespace;
use crate::drive::error::Result;
use crate::schema::{DrivePath, dir};
use crate::table::{Row, RowCursor, RowKey, RowQuery, RowRange};

/// A cursor over the keys of a subtree, its root first.
pub struct SubtreeScan {
    /// The ranges that are left, the next one last.
    ranges: Vec<RowCursor>,
}

/// Starts at the root of the subtree. `query` names the cells that are read of each row.
pub fn scan(ns: &Namespace, root: &DrivePath, query: RowQuery) -> SubtreeScan {
    let key = root.key();
    let own = RowRange { from: Bound::Included(key.clone()), to: Bound::Included(key) };
    let over = |range| RowCursor::new(dir::TABLE, range, query.clone(), ns.limits.keys_a_page);
    SubtreeScan { ranges: [root.below(), own].map(over).into() }
}

impl SubtreeScan {
    /// The next rows; none at the end.
    pub async fn next(&mut self, ns: &Namespace) -> Result<Option<Vec<(RowKey, Row)>>> {
        while let Some(range) = self.ranges.last_mut() {
            match range.next(&ns.tables).await? {
                Some(rows) => return Ok(Some(rows)),
                None => self.ranges.pop(),
            };
        }
        Ok(None)
    }
}
