//! Cursors: what is too much for one answer, piece by piece. The place reached is kept here, none in an engine.

use std::ops::Bound;

use super::row::{Ask, Cell, PageAsk, Row, RowKey, RowRange, ScanAsk};
use super::store::{Result, Tables};

/// Over the rows of a range, in key order.
pub struct RowCursor(ScanAsk);

impl RowCursor {
    /// Up to `limit` rows at a time.
    pub fn new(table: &'static str, range: RowRange, ask: Ask, limit: usize) -> Self {
        Self(ScanAsk { table, range, ask, limit, reverse: false })
    }

    /// The next rows; none at the end.
    pub async fn next(&mut self, tables: &Tables) -> Result<Option<Vec<(RowKey, Row)>>> {
        let rows = tables.scan(&self.0).await?;
        let Some((last, _)) = rows.last() else { return Ok(None) };
        self.0.range.from = Bound::Excluded(last.clone());
        Ok(Some(rows))
    }

    /// All that are left: for tables that hold only what is still to be done.
    pub async fn rest(mut self, tables: &Tables) -> Result<Vec<(RowKey, Row)>> {
        let mut found = Vec::new();
        while let Some(rows) = self.next(tables).await? {
            found.extend(rows);
        }
        Ok(found)
    }
}

/// Over the cells of one row's family, in qualifier order.
pub struct CellCursor(Option<PageAsk>);

impl CellCursor {
    /// The pages from this one on.
    pub fn new(first: PageAsk) -> Self {
        Self(Some(first))
    }

    /// The cells of the next page, none at first if there are none at all; nothing at the end.
    pub async fn next(&mut self, tables: &Tables) -> Result<Option<Vec<Cell>>> {
        let Some(ask) = &mut self.0 else { return Ok(None) };
        let page = tables.page(ask).await?;
        match page.cells.last() {
            Some(last) if page.more => ask.from = Bound::Excluded(last.qualifier.clone()),
            _ => self.0 = None,
        }
        Ok(Some(page.cells))
    }
}
