//! Rows that are read again and again, kept in memory: such a read is a look-up, and no search of the database.
//!
//! What is kept is as the database has it, since this process alone writes it: it holds the lock of the folder. Each
//! cell of the families that are kept has a *version*, shared with other cells of the same hash: odd while a write of
//! it is under way, and a higher one after it. A family has two: one of all writes of its cells, and one of the writes
//! that empty it.
//!
//! - A read takes the versions of all that it asks for, reads the database, and keeps both.
//! - A write makes the versions of what it changes odd before a reader can see it, and even again after that.
//! - A later read returns what is kept, if all versions are the same still: then no write of it has begun before the
//!   first of them was compared. Versions only grow, so what was written once is never taken for unchanged again.
//!
//! A write that fails leaves its versions odd: what it is of is read from the database until the next write of it.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::sync::Cache;
use quick_cache::{Equivalent, Weighter};

use crate::table::{Row, RowKey, RowQuery, Unchanged};

/// Versions: 128 KiB of them.
const VERSIONS: usize = 1 << 14;
/// About how many bytes of memory a row takes that is kept, without its cells; and a cell, without its bytes.
const USUAL: usize = 256;
/// A row of more bytes is not kept.
const LARGEST: usize = 64 << 10;

/// A table and a family of it.
pub type TableFamily = (&'static str, &'static str);

pub(super) struct KeptRows {
    /// What is kept; no row of other families.
    families: &'static [TableFamily],
    versions: Arc<[AtomicU64]>,
    /// Clients choose paths, and so keys of rows: its hasher has random keys.
    rows: Cache<Place, Row, ByteWeighter>,
}

/// What was read.
#[derive(PartialEq, Eq, Hash)]
struct Place {
    table: &'static str,
    row: RowKey,
    query: RowQuery,
}

/// As [`Place`], with the same hash.
#[derive(Hash)]
struct PlaceRef<'a> {
    table: &'static str,
    row: &'a [u8],
    query: &'a RowQuery,
}

impl Equivalent<Place> for PlaceRef<'_> {
    fn equivalent(&self, place: &Place) -> bool {
        self.table == place.table && *self.row == *place.row && *self.query == place.query
    }
}

#[derive(Clone)]
struct ByteWeighter;

impl Weighter<Place, Row> for ByteWeighter {
    fn weight(&self, place: &Place, row: &Row) -> u64 {
        (bytes_of(row) + place.row.len() + USUAL * (place.query.cells.len() + 1)) as u64
    }
}

/// Of its cells.
fn bytes_of(row: &Row) -> usize {
    row.cells().iter().map(|(_, cell)| USUAL + cell.qualifier.len() + cell.value.len()).sum()
}

/// What a version is of.
#[derive(Clone, Copy, Hash)]
enum Versioned<'a> {
    Cell(&'static str, &'a [u8]),
    /// All writes of the cells of a family.
    Family(&'static str),
    /// Writes that empty a family.
    Emptied(&'static str),
}

/// What a write changes.
#[derive(Clone, Copy)]
pub(super) enum Written<'a> {
    Cell(&'a [u8]),
    Family,
}

/// The answer to a read.
pub(super) enum Found {
    Kept(Row),
    /// It has to be read. It is kept with these versions; none if it is not to be kept.
    Missing(Option<Versions>),
}

/// The versions of what a read asks for, before it.
pub(super) struct Versions(Box<[(u32, u64)]>);

impl KeptRows {
    /// Keeps rows of these families, of about so many bytes in all.
    pub fn new(families: &'static [TableFamily], bytes: usize) -> Self {
        let versions = (0..if families.is_empty() { 0 } else { VERSIONS }).map(|_| AtomicU64::new(0)).collect();
        let rows = Cache::with_weighter(bytes / (8 * USUAL) + 1, bytes as u64, ByteWeighter);
        Self { families, versions, rows }
    }

    fn keeps(&self, table: &str, family: &str) -> bool {
        self.families.iter().any(|(kept, of)| *kept == table && *of == family)
    }

    pub fn find(&self, table: &'static str, row: &[u8], query: &RowQuery) -> Found {
        let mut families = query.cells.iter().map(|column| column.family).chain(query.families.iter().copied());
        if !families.all(|family| self.keeps(table, family)) {
            return Found::Missing(None);
        }
        if let Some(row) = self.rows.get(&PlaceRef { table, row, query })
            && row.unchanged().is_some_and(Unchanged::holds)
        {
            return Found::Kept(row);
        }
        let cells = query
            .cells
            .iter()
            .flat_map(|column| [Versioned::Cell(column.family, &column.qualifier), Versioned::Emptied(column.family)]);
        let families = query.families.iter().map(|family| Versioned::Family(family));
        let all = cells.chain(families).map(|of| {
            let at = self.place(table, row, of);
            Some((at, self.version(at).filter(|version| version.is_multiple_of(2))?))
        });
        Found::Missing(all.collect::<Option<_>>().map(Versions))
    }

    /// Keeps what was read after these versions were taken. Returns it with them.
    pub fn keep(
        &self,
        (table, row, query): (&'static str, &[u8], &RowQuery),
        Versions(taken): Versions,
        found: Row,
    ) -> Row {
        if bytes_of(&found) > LARGEST {
            return found;
        }
        let versions = self.versions.clone();
        let found = found.with_unchanged(Unchanged::new(move || {
            taken.iter().all(|(at, version)| load(&versions, *at) == Some(*version))
        }));
        let place = Place { table, row: RowKey::copy_from_slice(row), query: query.clone() };
        self.rows.insert(place, found.clone());
        found
    }

    /// Adds the versions of what a write changes.
    pub fn add(
        &self,
        changed: &mut Vec<u32>,
        (table, row, family): (&'static str, &[u8], &'static str),
        of: Written<'_>,
    ) {
        if self.keeps(table, family) {
            let of = match of {
                Written::Cell(qualifier) => Versioned::Cell(family, qualifier),
                Written::Family => Versioned::Emptied(family),
            };
            changed.extend([of, Versioned::Family(family)].map(|of| self.place(table, row, of)));
        }
    }

    /// Call it before a write of these becomes visible. One write at a time.
    pub fn begin(&self, changed: &[u32]) {
        for version in self.of(changed) {
            version.fetch_or(1, Ordering::SeqCst);
        }
    }

    /// Call it after the write.
    pub fn end(&self, changed: &[u32]) {
        // One of them may be there twice.
        for version in self.of(changed).filter(|version| !version.load(Ordering::SeqCst).is_multiple_of(2)) {
            version.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn of<'a>(&'a self, changed: &'a [u32]) -> impl Iterator<Item = &'a AtomicU64> {
        changed.iter().filter_map(|at| self.versions.get(*at as usize))
    }

    fn version(&self, at: u32) -> Option<u64> {
        load(&self.versions, at)
    }

    fn place(&self, table: &str, row: &[u8], of: Versioned<'_>) -> u32 {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one((table, row, of));
        (hash % self.versions.len().max(1) as u64) as u32
    }
}

fn load(versions: &[AtomicU64], at: u32) -> Option<u64> {
    versions.get(at as usize).map(|version| version.load(Ordering::SeqCst))
}
