//! Scans: rows of a table in key order or reversed, the queried column families merged by row.

use bytes::Bytes;

use super::keys::{self, KeyRange};
use super::raw::{CellIterator, FamilyHandle, ReadError, ReadResult};
use super::read::{CELLS_CACHED, most, too_wide};
use super::read_tier::ReadTier;
use super::row_buffer::RowBuffer;
use super::snapshot::DbReader;
use crate::table::{Row, RowKey, ScanQuery, StoreError};

/// Cells of a row to step over before a seek to the next row, which costs about as much.
const STEPS: usize = 8;

/// The rows that hold any cell of the query, all of the same instant if the reader has a snapshot.
///
/// From memory alone: `Incomplete` if it takes more than about [`CELLS_CACHED`] steps and reads of cells.
pub(super) fn scan(reader: DbReader<'_>, query: &ScanQuery) -> ReadResult<Vec<(RowKey, Row)>> {
    let range = KeyRange::rows(&query.range.from, &query.range.to);
    let mut found = RowBuffer::default();
    if range.is_empty() || query.limit == 0 {
        return Ok(Vec::new());
    }
    let mut cursors = cursors(reader, query, &range)?;
    let mut start = Vec::new();
    let is_single = cursors.len() == 1;
    while found.len() < query.limit && next_row(&mut cursors, query.reverse, &mut start) {
        let cells_seen = || cursors.iter().map(|cursor| cursor.cells_seen).sum::<usize>();
        if reader.tier() == ReadTier::Cached && cells_seen() >= CELLS_CACHED {
            return Err(ReadError::Incomplete);
        }
        found.begin(&start).ok_or_else(|| undecodable(query.table, &start))?;
        for cursor in &mut cursors {
            // `next_row` has taken the row of a single cursor, so there is nothing to compare.
            if is_single || cursor.row == start {
                cursor.read(&start, &mut found)?;
            }
        }
        found.end();
        if found.len() == 1 {
            found.reserve(query.limit - 1);
        }
    }
    Ok(found.rows())
}

/// Sets `start` to `row_start` of the next row over all families. Returns false if there is none.
fn next_row(cursors: &mut [FamilyCursor<'_>], reverse: bool, start: &mut Vec<u8>) -> bool {
    if let [cursor] = cursors {
        // Nothing is compared, so the buffers are swapped and not copied. `read` then sets `cursor.row` to the next row.
        std::mem::swap(&mut cursor.row, start);
        return !start.is_empty();
    }
    let rows = cursors.iter().map(|cursor| &cursor.row).filter(|row| !row.is_empty());
    let Some(next) = (if reverse { rows.max() } else { rows.min() }) else { return false };
    next.clone_into(start);
    true
}

/// Sets `row` to `row_start` of the row of this key.
fn set_row(row: &mut Vec<u8>, table: &str, key: &[u8]) -> ReadResult<()> {
    let (start, _) = keys::split(key).ok_or_else(|| undecodable(table, key))?;
    row.clear();
    row.extend_from_slice(start);
    Ok(())
}

fn undecodable(table: &str, key: &[u8]) -> StoreError {
    StoreError::Damaged(format!("table {table}: {key:?} is no key of a row"))
}

/// The position of a scan in one family.
struct FamilyCursor<'a> {
    reader: DbReader<'a>,
    table: &'static str,
    name: &'static str,
    family: FamilyHandle<'a>,
    cells: CellIterator<'a>,
    reverse: bool,
    queried: Queried,
    /// `row_start` of the row of the iterator; empty at the end. [`next_row`] takes that of a single cursor.
    row: Vec<u8>,
    /// Cells stepped over or read by now.
    cells_seen: usize,
}

/// The queried cells of a family.
enum Queried {
    All,
    Cells(Vec<Bytes>),
}

fn cursors<'a>(reader: DbReader<'a>, query: &ScanQuery, range: &KeyRange) -> ReadResult<Vec<FamilyCursor<'a>>> {
    let mut families: Vec<(&'static str, Queried)> = Vec::new();
    for name in &query.row_query.families {
        if !families.iter().any(|(known, _)| known == name) {
            families.push((name, Queried::All));
        }
    }
    for column in &query.row_query.cells {
        match families.iter_mut().find(|(known, _)| *known == column.family) {
            Some((_, Queried::All)) => {}
            Some((_, Queried::Cells(qualifiers))) => qualifiers.push(column.qualifier.clone()),
            None => families.push((column.family, Queried::Cells(vec![column.qualifier.clone()]))),
        }
    }
    let cursor = |(name, queried)| FamilyCursor::new(reader, query, name, queried, range.clone());
    families.into_iter().map(cursor).collect()
}

impl<'a> FamilyCursor<'a> {
    fn new(
        reader: DbReader<'a>,
        query: &ScanQuery,
        name: &'static str,
        queried: Queried,
        range: KeyRange,
    ) -> ReadResult<Self> {
        let family = reader.family(query.table, name)?;
        let mut cells = reader.cells(&family, range, None);
        if query.reverse {
            cells.seek_to_last();
        } else {
            cells.seek_to_first();
        }
        let (table, reverse) = (query.table, query.reverse);
        let row = Vec::new();
        let mut cursor = Self { reader, table, name, family, cells, reverse, queried, row, cells_seen: 0 };
        cursor.update_row()?;
        Ok(cursor)
    }

    /// Sets `row` to the row of the iterator.
    fn update_row(&mut self) -> ReadResult<()> {
        let Some(key) = self.cells.key() else {
            self.row.clear();
            self.cells.status()?;
            return Ok(());
        };
        set_row(&mut self.row, self.table, key)
    }

    /// Adds the queried cells of the row of the iterator, and moves to the next row.
    fn read(&mut self, start: &[u8], into: &mut RowBuffer) -> ReadResult<()> {
        let queried = std::mem::replace(&mut self.queried, Queried::All);
        match &queried {
            Queried::All => {
                let is_whole = self.step_through(start, most(self.reader.tier()), |_| true, into)?;
                match (is_whole, self.reader.tier()) {
                    (true, _) => {}
                    (false, ReadTier::Cached) => return Err(ReadError::Incomplete),
                    (false, ReadTier::Disk) => {
                        let row = keys::row_of(start).unwrap_or_default();
                        return Err(too_wide(self.table, &row, self.name).into());
                    }
                }
            }
            Queried::Cells(qualifiers) => {
                let before = into.cells();
                if !self.step_through(start, STEPS, |q| qualifiers.iter().any(|queried| queried == q), into)? {
                    into.truncate(before);
                    self.wide_row(start, qualifiers, into)?;
                    self.update_row()?;
                }
            }
        }
        self.queried = queried;
        Ok(())
    }

    /// Steps over up to `max_cells` cells of the row, and adds the queried ones. Returns true if the row has no more: `row`
    /// is then the next one. Else `row` is not set.
    fn step_through(
        &mut self,
        start: &[u8],
        max_cells: usize,
        is_queried: impl Fn(&[u8]) -> bool,
        into: &mut RowBuffer,
    ) -> ReadResult<bool> {
        for _ in 0..max_cells {
            let Some((key, value)) = self.cells.item() else { break };
            let Some(qualifier) = key.strip_prefix(start) else {
                set_row(&mut self.row, self.table, key)?;
                return Ok(true);
            };
            self.cells_seen += 1;
            if is_queried(qualifier) {
                into.push(self.name, qualifier, value);
            }
            if self.reverse {
                self.cells.prev();
            } else {
                self.cells.next();
            }
        }
        if self.cells.key().is_some_and(|key| key.starts_with(start)) {
            return Ok(false);
        }
        self.update_row()?;
        Ok(true)
    }

    /// Adds single cells of a row that is too wide to step through, and seeks past the row.
    fn wide_row(&mut self, start: &[u8], qualifiers: &[Bytes], into: &mut RowBuffer) -> ReadResult<()> {
        self.cells_seen += qualifiers.len();
        for qualifier in qualifiers {
            if let Some(value) = self.reader.cell(&self.family, &[start, qualifier].concat())? {
                into.push(self.name, qualifier, &value);
            }
        }
        if self.reverse {
            self.cells.seek_for_prev(start);
        } else {
            self.cells.seek(keys::end_of(start));
        }
        Ok(())
    }
}
