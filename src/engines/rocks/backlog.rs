//! The backlog of a column family: what its flushes and compactions have not done yet. A write waits while it is long.
//!
//! IMPORTANT: RocksDB itself must neither stop a write nor slow it down, so [`options`](super::options) set no limits for
//! that. A write that RocksDB stops waits at the head of RocksDB's queue of writes. If a flush fails on a full disk
//! meanwhile, RocksDB recovers by another flush, which waits in that queue: both would wait for ever.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::db::{Db, Families};
use super::raw::{FamilyHandle, family_name};
use super::write_error::WriteError;
use crate::table::StoreError;

/// A write waits until none of its column families has so many write buffers that are full and not flushed.
const LONG_IN_BUFFERS: u64 = 4;
/// A write waits until none of its column families has so many SST files in level 0.
pub(super) const LONG_AT_LEVEL_0: u64 = 128;
/// With more files than these, each group of plans is delayed once before its write. If each group adds a file, the delays
/// are 54 seconds together until writes wait for a compaction, which may end before.
const SLOW_AT_LEVEL_0: u64 = 24;
/// How long such a group is delayed for each file beyond that.
const SLOW_FOR_A_FILE: Duration = Duration::from_millis(10);
/// RocksDB's names of both numbers.
const UNFLUSHED_BUFFERS: &str = "rocksdb.num-immutable-mem-table";
const FILES_AT_LEVEL_0: &str = "rocksdb.num-files-at-level0";
/// How long a write waits before it looks at a long backlog again.
const PAUSE: Duration = Duration::from_millis(1);
/// After how long a wait is logged.
const LOGGED_AFTER: Duration = Duration::from_secs(10);

impl Db {
    /// Delays a write once if one of these column families has many SST files in level 0, and lets it wait until no backlog
    /// is long. Blocks the thread.
    ///
    /// Errors: that of [`ready`](Self::ready). Nothing was written.
    pub fn wait_for_backlog(&self, families: &Families<'_>) -> Result<(), WriteError> {
        let begun = Instant::now();
        let mut is_logged = false;
        loop {
            let mut waits = families.iter().map(|(family, handle)| self.wait_for_family(family, handle));
            if let Some(wait) = waits.try_fold(Duration::ZERO, |longest, next| Some(longest.max(next?))) {
                let left = wait.saturating_sub(begun.elapsed());
                if left > Duration::ZERO {
                    sleep(left);
                }
                return Ok(());
            }
            if let Err(error) = self.ready() {
                if matches!(error, StoreError::Full(_)) {
                    self.full_disk_failures.add();
                }
                return Err(WriteError::not_sent(error));
            }
            if !is_logged && begun.elapsed() >= LOGGED_AFTER {
                is_logged = true;
                tracing::warn!(
                    "writes have waited for {LOGGED_AFTER:?} for a flush or a compaction: is the disk slow?"
                );
            }
            sleep(PAUSE);
        }
    }

    /// How long a write to this column family is delayed. None if its backlog is long: then it waits and looks again.
    fn wait_for_family(&self, (table, family): &(&str, &str), handle: &FamilyHandle<'_>) -> Option<Duration> {
        let number = |property: &str| self.raw.property_int_value_cf(handle, property).ok().flatten().unwrap_or(0);
        if number(UNFLUSHED_BUFFERS) >= LONG_IN_BUFFERS {
            return None;
        }
        match number(FILES_AT_LEVEL_0) {
            few if few < SLOW_AT_LEVEL_0 => Some(Duration::ZERO),
            // They never become fewer: this family is not compacted.
            _ if !self.damaged_files.is_compacted(&family_name(table, family)) => Some(Duration::ZERO),
            files => wait_for_files(files),
        }
    }
}

/// How long a write is delayed for so many files in level 0. None if they are too many: then it waits and looks again.
fn wait_for_files(files: u64) -> Option<Duration> {
    let slow = u32::try_from(files.saturating_sub(SLOW_AT_LEVEL_0)).unwrap_or(u32::MAX);
    (files < LONG_AT_LEVEL_0).then(|| SLOW_FOR_A_FILE.saturating_mul(slow))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_waits_the_longer_the_more_files_there_are() {
        for (files, wait) in [(0, Some(0)), (24, Some(0)), (25, Some(10)), (127, Some(1_030)), (128, None)] {
            assert_eq!(wait_for_files(files), wait.map(Duration::from_millis), "{files}");
        }
    }
}
