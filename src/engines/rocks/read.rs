//! Reads of rows and pages.

use bytes::Bytes;

use super::keys::{self, KeyRange};
use super::raw::{CellIterator, FamilyHandle, ReadError, ReadResult};
use super::read_tier::ReadTier;
use super::snapshot::DbReader;
use crate::table::limits::PAGE_CELLS;
use crate::table::{Cell, Page, PageQuery, Row, RowCells, RowQuery, StoreError};

/// The most cells that a thread that serves requests reads; the pool reads more.
pub(super) const CELLS_CACHED: usize = 128;

/// Whether the query takes several reads, which must then see the same instant.
pub(super) fn needs_snapshot(query: &RowQuery) -> bool {
    query.cells.len() + query.families.len() > 1
}

/// The queried cells of one row.
pub(super) fn row(reader: DbReader<'_>, table: &'static str, row: &[u8], query: &RowQuery) -> ReadResult<Row> {
    let mut cells = RowCells::with_capacity(query.cells.len());
    let mut key = keys::row_start(row);
    let start = key.len();
    let mut last: Option<(&'static str, FamilyHandle<'_>)> = None;
    for column in &query.cells {
        let family = match last.take() {
            Some((name, family)) if name == column.family => family,
            _ => reader.family(table, column.family)?,
        };
        key.truncate(start);
        key.extend_from_slice(&column.qualifier);
        if let Some(value) = reader.cell(&family, &key)? {
            cells.push((column.family, Cell { qualifier: column.qualifier.clone(), value }));
        }
        last = Some((column.family, family));
    }
    for family in &query.families {
        let whole = whole_family(reader, table, row, family)?;
        cells.extend(whole.into_iter().map(|cell| (*family, cell)));
    }
    Ok(Row::new(cells))
}

/// Cells of a row that a read of this tier may return.
pub(super) fn most(tier: ReadTier) -> usize {
    match tier {
        ReadTier::Cached => CELLS_CACHED,
        ReadTier::Disk => PAGE_CELLS,
    }
}

fn whole_family(reader: DbReader<'_>, table: &str, row: &[u8], family: &str) -> ReadResult<Vec<Cell>> {
    let most = most(reader.tier());
    let range = KeyRange::row(row);
    let start = range.from.len();
    let mut cells = reader.cells(&reader.family(table, family)?, range, None);
    cells.seek_to_first();
    let found = up_to(most, start, &mut cells)?;
    match (cells.valid(), reader.tier()) {
        (false, _) => Ok(found),
        (true, ReadTier::Cached) => Err(ReadError::Incomplete),
        (true, ReadTier::Disk) => Err(too_wide(table, row, family).into()),
    }
}

pub(super) fn too_wide(table: &str, row: &[u8], family: &str) -> StoreError {
    StoreError::TooWide { table: table.to_owned(), row: Bytes::copy_from_slice(row), family: family.to_owned() }
}

/// A page: its cells and the unchanged cells, all of one instant if the reader has a snapshot.
pub(super) fn page(reader: DbReader<'_>, query: &PageQuery) -> ReadResult<Page> {
    let unchanged = query
        .unchanged
        .iter()
        .map(|column| {
            let family = reader.family(query.table, column.family)?;
            reader.cell(&family, &keys::key(&query.row, &column.qualifier))
        })
        .collect::<ReadResult<Vec<_>>>()?;
    let range = KeyRange::within_row(&query.row, &query.from, &query.to);
    if range.is_empty() {
        return Ok(Page { cells: Vec::new(), unchanged, more: false });
    }
    let start = keys::row_start(&query.row).len();
    let mut cells = reader.cells(&reader.family(query.table, query.family)?, range, None);
    cells.seek_to_first();
    // Most limits are larger than the number of cells, so try memory for any limit: fail only if there are more cells.
    let most = most(reader.tier());
    let found = up_to(query.limit.min(most), start, &mut cells)?;
    match (cells.valid(), reader.tier()) {
        (true, ReadTier::Cached) if query.limit > most => Err(ReadError::Incomplete),
        (more, _) => Ok(Page { cells: found, unchanged, more }),
    }
}

/// The next cells, up to `most`; leaves the iterator at the following one. `start`: the length of `row_start`.
fn up_to(most: usize, start: usize, cells: &mut CellIterator<'_>) -> ReadResult<Vec<Cell>> {
    let mut gathered = CellBuffer::default();
    while gathered.len() < most
        && let Some((key, value)) = cells.item()
    {
        let qualifier = key.get(start..).unwrap_or_default();
        if gathered.len() == 0 {
            gathered.reserve(most, qualifier.len() + value.len());
        }
        gathered.push(qualifier, value);
        cells.next();
    }
    if !cells.valid() {
        cells.status()?;
    }
    Ok(gathered.cells())
}

/// Collects cells whose bytes share one allocation: a page has hundreds of short ones.
#[derive(Default)]
pub(super) struct CellBuffer {
    bytes: Vec<u8>,
    /// The ends of qualifier and value of each cell, which starts at the end of the one before.
    ends: Vec<(usize, usize)>,
}

impl CellBuffer {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Reserves memory for `cells` cells of about this length; for 128 at most, since most rows have fewer.
    fn reserve(&mut self, cells: usize, length: usize) {
        const CELLS: usize = 128;
        const BYTES: usize = 32 << 10;
        let cells = cells.min(CELLS);
        self.ends.reserve_exact(cells);
        self.bytes.reserve_exact((cells * length * 9 / 8).min(BYTES));
    }

    pub fn push(&mut self, qualifier: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(qualifier);
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((middle, self.bytes.len()));
    }

    pub fn cells(self) -> Vec<Cell> {
        let bytes = Bytes::from(self.bytes);
        let mut from = 0;
        let cell = |(middle, end): (usize, usize)| {
            let cell = Cell { qualifier: bytes.slice(from..middle), value: bytes.slice(middle..end) };
            from = end;
            cell
        };
        self.ends.into_iter().map(cell).collect()
    }
}
