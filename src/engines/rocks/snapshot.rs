//! How the database is looked at: from where, and at which instant.

use bytes::Bytes;
use rocksdb::ReadOptions;

use super::db::{Cells, Db, Family, Read, Snapshot};
use super::keys::KeyRange;
use super::tier::{Tier, tiered};

/// An iterator on a thread that serves requests passes this many tombstones at one place, not more: about 0.1 ms.
const SKIP_CACHED: u64 = 1_000;

/// A look at the database: at one instant if it has a snapshot, else each read at its own.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    db: &'a Db,
    tier: Tier,
    snapshot: Option<&'a Snapshot<'a>>,
    points: &'a ReadOptions,
}

impl Db {
    /// A look without a common instant.
    pub fn view(&self, tier: Tier) -> View<'_> {
        View { db: self, tier, snapshot: None, points: self.points.of(tier) }
    }

    /// Lets `read` look at the database at one instant.
    pub fn at_one_instant<T>(&self, tier: Tier, read: impl Fn(View<'_>) -> Read<T>) -> Read<T> {
        if tier == Tier::Cached {
            // A snapshot takes the lock of the whole database, twice; a thread that serves requests should not
            // wait for it. The newest sequence number is set last in every write and only grows, so if it is the
            // same before and after, every read in between saw the same state.
            let before = self.raw.latest_sequence_number();
            let found = read(self.view(tier))?;
            if self.raw.latest_sequence_number() == before {
                return Ok(found);
            }
        }
        let snapshot = self.raw.snapshot();
        let mut points = tiered(tier);
        points.set_snapshot(&snapshot);
        read(View { db: self, tier, snapshot: Some(&snapshot), points: &points })
    }
}

impl<'a> View<'a> {
    pub fn tier(&self) -> Tier {
        self.tier
    }

    pub fn family(&self, table: &str, family: &str) -> Read<Family<'a>> {
        Ok(self.db.family(table, family)?)
    }

    pub fn cell(&self, family: &Family<'_>, key: &[u8]) -> Read<Option<Bytes>> {
        let found = self.db.raw.get_pinned_cf_opt(family, key, self.points)?;
        Ok(found.map(|value| Bytes::copy_from_slice(&value)))
    }

    /// The cells of a range, not yet positioned; all of one instant. `skip`: tombstones to pass at one place.
    ///
    /// IMPORTANT: RocksDB passes tombstones up to the bounds, so they are always set, as narrow as can be.
    pub fn cells(&self, family: &Family<'_>, range: KeyRange, skip: Option<u64>) -> Cells<'a> {
        let mut options = tiered(self.tier);
        options.set_iterate_lower_bound(range.from);
        if let Some(to) = range.to {
            options.set_iterate_upper_bound(to);
        }
        let skip = skip.or((self.tier == Tier::Cached).then_some(SKIP_CACHED));
        if let Some(skip) = skip {
            options.set_max_skippable_internal_keys(skip);
        }
        match self.snapshot {
            Some(snapshot) => snapshot.raw_iterator_cf_opt(family, options),
            None => self.db.raw.raw_iterator_cf_opt(family, options),
        }
    }

    /// Whether the row's family holds nothing. Passes at most `skip` tombstones.
    pub fn is_empty(&self, family: &Family<'_>, row: &[u8], skip: Option<u64>) -> Read<bool> {
        let mut cells = self.cells(family, KeyRange::row(row), skip);
        cells.seek_to_first();
        if cells.valid() {
            return Ok(false);
        }
        cells.status()?;
        Ok(true)
    }
}
