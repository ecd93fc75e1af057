//! Cursors: results larger than one page, page by page. The position is kept here, not in an engine.

use std::ops::Bound;

use super::row::{Cell, PageQuery, Row, RowKey, RowQuery, RowRange, ScanQuery};
use super::store::{Result, Tables};

/// A cursor over the rows of a range, in key order.
pub struct RowCursor(ScanQuery);

impl RowCursor {
    /// Up to `limit` rows at a time.
    pub fn new(table: &'static str, range: RowRange, row_query: RowQuery, limit: usize) -> Self {
        Self(ScanQuery { table, range, row_query, limit, reverse: false })
    }

    /// The next rows; none at the end.
    pub async fn next(&mut self, tables: &Tables) -> Result<Option<Vec<(RowKey, Row)>>> {
        let rows = tables.scan(&self.0).await?;
        let Some((last, _)) = rows.last() else { return Ok(None) };
        self.0.range.from = Bound::Excluded(last.clone());
        Ok(Some(rows))
    }

    /// All remaining rows: for tables that hold pending work only.
    pub async fn rest(mut self, tables: &Tables) -> Result<Vec<(RowKey, Row)>> {
        let mut found = Vec::new();
        while let Some(rows) = self.next(tables).await? {
            found.extend(rows);
        }
        Ok(found)
    }
}

/// A cursor over the cells of one row's family, in qualifier order.
pub struct CellCursor(Option<PageQuery>);

impl CellCursor {
    /// Starts with this page.
    pub fn new(first: PageQuery) -> Self {
        Self(Some(first))
    }

    /// The cells of the next page; none at the end. The first page of an empty range has no cells.
    pub async fn next(&mut self, tables: &Tables) -> Result<Option<Vec<Cell>>> {
        let Some(query) = &mut self.0 else { return Ok(None) };
        let page = tables.page(query).await?;
        match page.cells.last() {
            Some(last) if page.more => query.from = Bound::Excluded(last.qualifier.clone()),
            _ => self.0 = None,
        }
        Ok(Some(page.cells))
    }
}
