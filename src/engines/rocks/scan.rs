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
    while found.len() < query.limit && next_row(&cursors, query.reverse, &mut start) {
        let steps = || cursors.iter().map(|cursor| cursor.steps).sum::<usize>();
        if reader.tier() == ReadTier::Cached && steps() >= CELLS_CACHED {
            return Err(ReadError::Incomplete);
        }
        found.begin(&start).ok_or_else(|| undecodable(query.table, &start))?;
        for cursor in &mut cursors {
            if cursor.row.as_ref() == Some(&start) {
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

/// Copies `row_start` of the next row over all families. Returns false if there is none.
fn next_row(cursors: &[FamilyCursor<'_>], reverse: bool, into: &mut Vec<u8>) -> bool {
    let rows = cursors.iter().filter_map(|cursor| cursor.row.as_ref());
    let Some(next) = (if reverse { rows.max() } else { rows.min() }) else { return false };
    next.clone_into(into);
    true
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
    wanted: WantedCells,
    /// `row_start` of the row of the iterator; none at the end.
    row: Option<Vec<u8>>,
    /// Cells stepped over or read by now.
    steps: usize,
}

enum WantedCells {
    All,
    Cells(Vec<Bytes>),
}

fn cursors<'a>(reader: DbReader<'a>, query: &ScanQuery, range: &KeyRange) -> ReadResult<Vec<FamilyCursor<'a>>> {
    let mut wanted: Vec<(&'static str, WantedCells)> = Vec::new();
    for name in &query.row_query.families {
        if !wanted.iter().any(|(known, _)| known == name) {
            wanted.push((name, WantedCells::All));
        }
    }
    for column in &query.row_query.cells {
        match wanted.iter_mut().find(|(known, _)| *known == column.family) {
            Some((_, WantedCells::All)) => {}
            Some((_, WantedCells::Cells(qualifiers))) => qualifiers.push(column.qualifier.clone()),
            None => wanted.push((column.family, WantedCells::Cells(vec![column.qualifier.clone()]))),
        }
    }
    wanted.into_iter().map(|(name, wanted)| FamilyCursor::new(reader, query, name, wanted, range.clone())).collect()
}

impl<'a> FamilyCursor<'a> {
    fn new(
        reader: DbReader<'a>,
        query: &ScanQuery,
        name: &'static str,
        wanted: WantedCells,
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
        let mut cursor = Self { reader, table, name, family, cells, reverse, wanted, row: None, steps: 0 };
        cursor.update_row()?;
        Ok(cursor)
    }

    /// Sets `row` to the row of the iterator.
    fn update_row(&mut self) -> ReadResult<()> {
        let Some(key) = self.cells.key() else {
            self.cells.status()?;
            self.row = None;
            return Ok(());
        };
        let (start, _) = keys::split(key).ok_or_else(|| undecodable(self.table, key))?;
        let row = self.row.get_or_insert_default();
        row.clear();
        row.extend_from_slice(start);
        Ok(())
    }

    /// Adds the queried cells of the row of the iterator, and moves to the next row.
    fn read(&mut self, start: &[u8], into: &mut RowBuffer) -> ReadResult<()> {
        let wanted = std::mem::replace(&mut self.wanted, WantedCells::All);
        match &wanted {
            WantedCells::All => {
                self.step_through(start, most(self.reader.tier()), |_| true, into);
                match (self.in_row(start), self.reader.tier()) {
                    (false, _) => {}
                    (true, ReadTier::Cached) => return Err(ReadError::Incomplete),
                    (true, ReadTier::Disk) => {
                        let row = keys::row_of(start).unwrap_or_default();
                        return Err(too_wide(self.table, &row, self.name).into());
                    }
                }
            }
            WantedCells::Cells(qualifiers) => {
                let cells = into.cells();
                self.step_through(start, STEPS, |q| qualifiers.iter().any(|wanted| wanted == q), into);
                if self.in_row(start) {
                    into.truncate(cells);
                    self.wide_row(start, qualifiers, into)?;
                }
            }
        }
        self.wanted = wanted;
        self.update_row()
    }

    /// Steps over up to `most` cells of the row, and adds the queried ones.
    fn step_through(&mut self, start: &[u8], most: usize, wanted: impl Fn(&[u8]) -> bool, into: &mut RowBuffer) {
        for _ in 0..most {
            let Some((key, value)) = self.cells.item() else { break };
            let Some(qualifier) = key.strip_prefix(start) else {
                break;
            };
            self.steps += 1;
            if wanted(qualifier) {
                into.push(self.name, qualifier, value);
            }
            if self.reverse {
                self.cells.prev();
            } else {
                self.cells.next();
            }
        }
    }

    fn in_row(&self, start: &[u8]) -> bool {
        self.cells.key().is_some_and(|key| key.starts_with(start))
    }

    /// Adds single cells of a row that is too wide to step through, and seeks past the row.
    fn wide_row(&mut self, start: &[u8], qualifiers: &[Bytes], into: &mut RowBuffer) -> ReadResult<()> {
        self.steps += qualifiers.len();
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
