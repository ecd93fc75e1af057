//! The rows of a subtree, by key: the tree itself is not asked, so that rows which no name reaches are met too.

use std::ops::Bound;

use crate::drive::{Drive, Result};
use crate::schema::{DrivePath, dir};
use crate::table::{Ask, Row, RowCursor, RowKey, RowRange};

/// A cursor over the keys of a subtree, its root first.
pub(in crate::drive) struct Keys {
    /// What is left, the next one last.
    ranges: Vec<RowCursor>,
}

impl Drive {
    pub(in crate::drive) fn keys(&self, root: &DrivePath, ask: Ask) -> Keys {
        let key = root.key();
        let own = RowRange { from: Bound::Included(key.clone()), to: Bound::Included(key) };
        let over = |range| RowCursor::new(dir::TABLE, range, ask.clone(), self.limits().keys_a_page);
        Keys { ranges: [root.below(), own].map(over).into() }
    }
}

impl Keys {
    /// The next rows; none at the end.
    pub async fn next(&mut self, drive: &Drive) -> Result<Option<Vec<(RowKey, Row)>>> {
        while let Some(range) = self.ranges.last_mut() {
            match range.next(&drive.inner.tables).await? {
                Some(rows) => return Ok(Some(rows)),
                None => self.ranges.pop(),
            };
        }
        Ok(None)
    }
}
