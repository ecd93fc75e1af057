//! The rows of a subtree, by key: the tree itself is not asked, so that rows which no name reaches are met too.

use std::ops::Bound;

use crate::drive::{Drive, Result};
use crate::schema::{DrivePath, dir};
use crate::table::{Ask, Row, RowKey, RowRange, ScanAsk};

/// Rows scanned at a time.
const ROWS: usize = 100;

/// A cursor over the keys of a subtree, its root first.
pub(in crate::drive) struct Keys {
    ranges: Vec<RowRange>,
    ask: Ask,
}

impl Keys {
    pub fn of(root: &DrivePath, ask: Ask) -> Self {
        let key = root.key();
        let own = RowRange { from: Bound::Included(key.clone()), to: Bound::Included(key) };
        Self { ranges: vec![root.below(), own], ask }
    }

    /// The next rows; none at the end.
    pub async fn next(&mut self, drive: &Drive) -> Result<Option<Vec<(RowKey, Row)>>> {
        while let Some(mut range) = self.ranges.pop() {
            let scan =
                ScanAsk { table: dir::TABLE, range: range.clone(), ask: self.ask.clone(), limit: ROWS, reverse: false };
            let rows = drive.inner.tables.scan(&scan).await?;
            match rows.last() {
                None => {}
                Some((last, _)) => {
                    range.from = Bound::Excluded(last.clone());
                    self.ranges.push(range);
                    return Ok(Some(rows));
                }
            }
        }
        Ok(None)
    }
}
