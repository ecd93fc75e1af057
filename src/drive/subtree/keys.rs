//! The rows of a subtree, by key: the tree itself is not asked, so that rows which no name reaches are met too.

use std::ops::Bound;

use crate::drive::{Drive, Result};
use crate::schema::{DrivePath, dir};
use crate::table::{Ask, Row, RowCursor, RowKey, RowRange};

/// Rows scanned at a time.
const ROWS: usize = 100;

/// A cursor over the keys of a subtree, its root first.
pub(in crate::drive) struct Keys {
    /// What is left, the next one last.
    ranges: Vec<RowCursor>,
}

impl Keys {
    pub fn of(root: &DrivePath, ask: Ask) -> Self {
        let key = root.key();
        let own = RowRange { from: Bound::Included(key.clone()), to: Bound::Included(key) };
        let over = |range| RowCursor::new(dir::TABLE, range, ask.clone(), ROWS);
        Self { ranges: [root.below(), own].map(over).into() }
    }

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
