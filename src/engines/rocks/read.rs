//! Rows and pages.

use bytes::Bytes;

use super::db::{Cells, Family, Fault, Read};
use super::keys::{self, KeyRange};
use super::tier::Tier;
use super::view::View;
use crate::table::rules::PAGE_CELLS;
use crate::table::{Ask, Cell, Page, PageAsk, Row, StoreError};

/// Cells that are read on a thread that serves requests; more go to the pool.
pub(super) const CELLS_CACHED: usize = 128;

/// Whether an answer needs several reads, which must then see the same instant.
pub(super) fn needs_one_instant(ask: &Ask) -> bool {
    ask.cells.len() + ask.families.len() > 1
}

/// What was asked of one row.
pub(super) fn row(view: View<'_>, table: &'static str, row: &[u8], ask: &Ask) -> Read<Row> {
    let mut cells = Vec::with_capacity(ask.cells.len());
    let mut key = keys::row_start(row);
    let start = key.len();
    let mut last: Option<(&'static str, Family<'_>)> = None;
    for column in &ask.cells {
        let family = match last.take() {
            Some((name, family)) if name == column.family => family,
            _ => view.family(table, column.family)?,
        };
        key.truncate(start);
        key.extend_from_slice(&column.qualifier);
        if let Some(value) = view.cell(&family, &key)? {
            cells.push((column.family, Cell { qualifier: column.qualifier.clone(), value }));
        }
        last = Some((column.family, family));
    }
    for family in &ask.families {
        let whole = whole_family(view, table, row, family)?;
        cells.extend(whole.into_iter().map(|cell| (*family, cell)));
    }
    Ok(Row::new(cells))
}

/// Cells of a row that a read at this tier may pass.
fn most(tier: Tier) -> usize {
    match tier {
        Tier::Cached => CELLS_CACHED,
        Tier::Disk => PAGE_CELLS,
    }
}

fn whole_family(view: View<'_>, table: &str, row: &[u8], family: &str) -> Read<Vec<Cell>> {
    let most = most(view.tier());
    let range = KeyRange::row(row);
    let start = range.from.len();
    let mut cells = view.cells(&view.family(table, family)?, range, None);
    cells.seek_to_first();
    let found = up_to(most, start, &mut cells)?;
    match (cells.valid(), view.tier()) {
        (false, _) => Ok(found),
        (true, Tier::Cached) => Err(Fault::Incomplete),
        (true, Tier::Disk) => Err(too_wide(table, row, family).into()),
    }
}

pub(super) fn too_wide(table: &str, row: &[u8], family: &str) -> StoreError {
    StoreError::TooWide { table: table.to_owned(), row: Bytes::copy_from_slice(row), family: family.to_owned() }
}

/// A page, its fence and its cells of one instant.
pub(super) fn page(view: View<'_>, ask: &PageAsk) -> Read<Page> {
    let fence = ask
        .fence
        .iter()
        .map(|column| {
            let family = view.family(ask.table, column.family)?;
            view.cell(&family, &keys::key(&ask.row, &column.qualifier))
        })
        .collect::<Read<Vec<_>>>()?;
    let range = KeyRange::within_row(&ask.row, &ask.from, &ask.to);
    if range.is_empty() {
        return Ok(Page { cells: Vec::new(), fence, more: false });
    }
    let start = keys::row_start(&ask.row).len();
    let mut cells = view.cells(&view.family(ask.table, ask.family)?, range, None);
    cells.seek_to_first();
    // Most pages are asked for with more room than there are cells: that is found out here.
    let most = most(view.tier());
    let found = up_to(ask.limit.min(most), start, &mut cells)?;
    match (cells.valid(), view.tier()) {
        (true, Tier::Cached) if ask.limit > most => Err(Fault::Incomplete),
        (more, _) => Ok(Page { cells: found, fence, more }),
    }
}

/// The next cells, up to `most`; the iterator is left at the one that follows. `start`: length of `row_start`.
fn up_to(most: usize, start: usize, cells: &mut Cells<'_>) -> Read<Vec<Cell>> {
    let mut gathered = Gathered::default();
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

/// Cells whose bytes share one allocation: a page has hundreds of short ones.
#[derive(Default)]
pub(super) struct Gathered {
    bytes: Vec<u8>,
    /// Ends of qualifier and value of each cell; it begins where the one before ends.
    ends: Vec<(usize, usize)>,
}

impl Gathered {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Makes room for so many cells, if all are about as long; for a hundred or so at most, since most rows have less.
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
