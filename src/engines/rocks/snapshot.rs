//! Reads of the database at one instant, from memory alone or also from the disk.

use bytes::Bytes;
use rocksdb::ReadOptions;

use super::db::Db;
use super::keys::KeyRange;
use super::raw::{CellIterator, FamilyHandle, ReadResult, Snapshot};
use super::read_tier::{ReadTier, tiered};

/// Tombstones in a row that an iterator may skip on a thread that serves requests: about 0.1 ms.
const SKIP_CACHED: u64 = 1_000;

/// Reads the database: all reads at the instant of the snapshot, or without one each at its own.
#[derive(Clone, Copy)]
pub(super) struct DbReader<'a> {
    db: &'a Db,
    tier: ReadTier,
    snapshot: Option<&'a Snapshot<'a>>,
    points: &'a ReadOptions,
}

impl Db {
    /// A reader without a snapshot.
    pub fn reader(&self, tier: ReadTier) -> DbReader<'_> {
        DbReader { db: self, tier, snapshot: None, points: self.points.options(tier) }
    }

    /// Calls `read` with a reader whose reads all see the same instant.
    pub fn with_snapshot<T>(&self, tier: ReadTier, read: impl Fn(DbReader<'_>) -> ReadResult<T>) -> ReadResult<T> {
        if tier == ReadTier::Cached {
            // Optimistic: a snapshot takes the mutex of the whole database twice, and a thread that serves requests
            // should not wait for it. Every write sets the latest sequence number last, and it only grows. So if it is
            // the same before and after, every read in between saw the same state.
            let before = self.raw.latest_sequence_number();
            let found = read(self.reader(tier))?;
            if self.raw.latest_sequence_number() == before {
                return Ok(found);
            }
        }
        let snapshot = self.raw.snapshot();
        let mut points = tiered(tier);
        points.set_snapshot(&snapshot);
        read(DbReader { db: self, tier, snapshot: Some(&snapshot), points: &points })
    }
}

impl<'a> DbReader<'a> {
    pub fn tier(&self) -> ReadTier {
        self.tier
    }

    pub fn family(&self, table: &str, family: &str) -> ReadResult<FamilyHandle<'a>> {
        Ok(self.db.family(table, family)?)
    }

    pub fn cell(&self, family: &FamilyHandle<'_>, key: &[u8]) -> ReadResult<Option<Bytes>> {
        let found = self.db.raw.get_pinned_cf_opt(family, key, self.points)?;
        Ok(found.map(|value| Bytes::copy_from_slice(&value)))
    }

    /// An iterator over the cells of a range, all of one instant; the caller positions it. `skip`: tombstones in a row
    /// that it may skip.
    ///
    /// IMPORTANT: RocksDB skips tombstones up to the bounds, so always set both, as narrow as possible.
    pub fn cells(&self, family: &FamilyHandle<'_>, range: KeyRange, skip: Option<u64>) -> CellIterator<'a> {
        let mut options = tiered(self.tier);
        options.set_iterate_lower_bound(range.from);
        if let Some(to) = range.to {
            options.set_iterate_upper_bound(to);
        }
        let skip = skip.or((self.tier == ReadTier::Cached).then_some(SKIP_CACHED));
        if let Some(skip) = skip {
            options.set_max_skippable_internal_keys(skip);
        }
        match self.snapshot {
            Some(snapshot) => snapshot.raw_iterator_cf_opt(family, options),
            None => self.db.raw.raw_iterator_cf_opt(family, options),
        }
    }

    /// Whether the row's family has no cells. Skips at most `skip` tombstones.
    pub fn is_empty(&self, family: &FamilyHandle<'_>, row: &[u8], skip: Option<u64>) -> ReadResult<bool> {
        let mut cells = self.cells(family, KeyRange::row(row), skip);
        cells.seek_to_first();
        if cells.valid() {
            return Ok(false);
        }
        cells.status()?;
        Ok(true)
    }
}
