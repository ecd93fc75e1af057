//! Rows of a table in key order or reversed: the column families that were asked for, merged by row.

use bytes::Bytes;

use super::db::{Cells, Family, Read};
use super::keys::{self, KeyRange};
use super::read::{Gathered, too_wide};
use super::view::View;
use crate::table::rules::PAGE_CELLS;
use crate::table::{Cell, Row, RowKey, ScanAsk, StoreError};

/// Cells of a row to step over before it is left by a seek, which costs about as much.
const STEPS: usize = 8;

/// Rows that hold any of what was asked, all of the instant of the view.
pub(super) fn scan(view: View<'_>, ask: &ScanAsk) -> Read<Vec<(RowKey, Row)>> {
    let range = KeyRange::rows(&ask.range.from, &ask.range.to);
    let mut found = Vec::new();
    if range.is_empty() || ask.limit == 0 {
        return Ok(found);
    }
    let mut tracks = tracks(view, ask, &range)?;
    while found.len() < ask.limit {
        let Some(start) = next_row(&tracks, ask.reverse) else {
            break;
        };
        let key = keys::row_of(&start).ok_or_else(|| undecodable(ask.table, &start))?;
        let mut cells = Vec::new();
        for track in &mut tracks {
            if track.row.as_ref() == Some(&start) {
                track.read(&start, &key, &mut cells)?;
            }
        }
        if !cells.is_empty() {
            found.push((key, Row::new(cells)));
        }
    }
    Ok(found)
}

/// `row_start` of the row that comes next in any family.
fn next_row(tracks: &[Track<'_>], reverse: bool) -> Option<Vec<u8>> {
    let rows = tracks.iter().filter_map(|track| track.row.as_ref());
    if reverse { rows.max().cloned() } else { rows.min().cloned() }
}

fn undecodable(table: &str, key: &[u8]) -> StoreError {
    StoreError::Damaged(format!("table {table}: {key:?} is no key of a row"))
}

/// One family on its way through its rows.
struct Track<'a> {
    view: View<'a>,
    table: &'static str,
    name: &'static str,
    family: Family<'a>,
    cells: Cells<'a>,
    reverse: bool,
    wanted: Wanted,
    /// `row_start` of the row that the iterator is in.
    row: Option<Vec<u8>>,
}

enum Wanted {
    All,
    Cells(Vec<Bytes>),
}

fn tracks<'a>(view: View<'a>, ask: &ScanAsk, range: &KeyRange) -> Read<Vec<Track<'a>>> {
    let mut wanted: Vec<(&'static str, Wanted)> = Vec::new();
    for name in &ask.ask.families {
        if !wanted.iter().any(|(known, _)| known == name) {
            wanted.push((name, Wanted::All));
        }
    }
    for column in &ask.ask.cells {
        match wanted.iter_mut().find(|(known, _)| *known == column.family) {
            Some((_, Wanted::All)) => {}
            Some((_, Wanted::Cells(qualifiers))) => qualifiers.push(column.qualifier.clone()),
            None => wanted.push((column.family, Wanted::Cells(vec![column.qualifier.clone()]))),
        }
    }
    wanted.into_iter().map(|(name, wanted)| Track::new(view, ask, name, wanted, range.clone())).collect()
}

impl<'a> Track<'a> {
    fn new(view: View<'a>, ask: &ScanAsk, name: &'static str, wanted: Wanted, range: KeyRange) -> Read<Self> {
        let family = view.family(ask.table, name)?;
        let mut cells = view.cells(&family, range, None);
        if ask.reverse {
            cells.seek_to_last();
        } else {
            cells.seek_to_first();
        }
        let (table, reverse) = (ask.table, ask.reverse);
        let mut track = Self { view, table, name, family, cells, reverse, wanted, row: None };
        track.settle()?;
        Ok(track)
    }

    /// Notes which row the iterator is in.
    fn settle(&mut self) -> Read<()> {
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

    /// Adds what is wanted of the row that the iterator is in, and goes on to the next row.
    fn read(&mut self, start: &[u8], row: &[u8], into: &mut Vec<(&'static str, Cell)>) -> Read<()> {
        let found = match &self.wanted {
            Wanted::All => {
                let all = self.step_through(start, PAGE_CELLS, |_| true);
                if self.in_row(start) {
                    return Err(too_wide(self.table, row, self.name).into());
                }
                all
            }
            Wanted::Cells(qualifiers) => {
                let qualifiers = qualifiers.clone();
                let found = self.step_through(start, STEPS, |q| qualifiers.iter().any(|wanted| wanted == q));
                if self.in_row(start) { self.wide_row(start, row, &qualifiers)? } else { found }
            }
        };
        into.extend(found.into_iter().map(|cell| (self.name, cell)));
        self.settle()
    }

    /// Up to `most` cells of the row, those that are wanted gathered.
    fn step_through(&mut self, start: &[u8], most: usize, wanted: impl Fn(&[u8]) -> bool) -> Vec<Cell> {
        let mut gathered = Gathered::default();
        for _ in 0..most {
            let Some((key, value)) = self.cells.item() else { break };
            let Some(qualifier) = key.strip_prefix(start) else {
                break;
            };
            if wanted(qualifier) {
                gathered.push(qualifier, value);
            }
            if self.reverse {
                self.cells.prev();
            } else {
                self.cells.next();
            }
        }
        gathered.cells()
    }

    fn in_row(&self, start: &[u8]) -> bool {
        self.cells.key().is_some_and(|key| key.starts_with(start))
    }

    /// Reads single cells of a row that is too wide to step through, and leaves it.
    fn wide_row(&mut self, start: &[u8], row: &[u8], qualifiers: &[Bytes]) -> Read<Vec<Cell>> {
        let mut found = Vec::new();
        for qualifier in qualifiers {
            if let Some(value) = self.view.cell(&self.family, &keys::key(row, qualifier))? {
                found.push(Cell { qualifier: qualifier.clone(), value });
            }
        }
        if self.reverse {
            self.cells.seek_for_prev(start);
        } else {
            self.cells.seek(keys::end_of(start));
        }
        Ok(found)
    }
}
