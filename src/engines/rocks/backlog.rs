//! The backlog of a column family: what its flushes and compactions have not done yet. A write waits while it is long.
//!
//! IMPORTANT: RocksDB itself must neither stop a write nor slow it down, so [`options`](super::options) set no limits for
//! that. A write that RocksDB stops waits at the head of RocksDB's queue of writes. If a flush fails on a full disk
//! meanwhile, RocksDB recovers by another flush, which waits in that queue: both would wait for ever.

use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rocksdb::properties::NUM_IMMUTABLE_MEM_TABLE;

use super::db::{Db, Families};
use super::raw::{FamilyHandle, family_name};
use super::write_error::WriteError;
use crate::table::StoreError;

/// A write waits while one of its column families has so many write buffers that are full and not flushed.
const LONG_IN_BUFFERS: u64 = 4;
/// A write waits while one of its column families has so many SST files in level 0.
pub(super) const LONG_AT_LEVEL_0: u64 = 48;
/// RocksDB's name of the number of SST files in level 0.
const FILES_AT_LEVEL_0: &str = "rocksdb.num-files-at-level0";
/// How long a write waits before it looks at the backlog again.
const PAUSE: Duration = Duration::from_millis(1);
/// After how long a wait is logged.
const LONG_WAIT: Duration = Duration::from_secs(10);

impl Db {
    /// Waits while the backlog of one of these column families is long. Blocks the thread, for as long as RocksDB works.
    ///
    /// Errors: that of [`ready`](Self::ready). Nothing was written.
    pub fn wait_for_backlog(&self, families: &Families<'_>) -> Result<(), WriteError> {
        let begun = Instant::now();
        let mut is_logged = false;
        while let Some((family, _)) = families.iter().find(|(family, handle)| self.has_long_backlog(family, handle)) {
            if let Err(error) = self.ready() {
                self.disk_was_full.fetch_or(matches!(error, StoreError::Full(_)), Ordering::Relaxed);
                return Err(WriteError::not_sent(error));
            }
            if !is_logged && begun.elapsed() >= LONG_WAIT {
                is_logged = true;
                tracing::warn!(
                    ?family,
                    "writes have waited for {LONG_WAIT:?} for a flush or a compaction: is the disk slow?"
                );
            }
            sleep(PAUSE);
        }
        Ok(())
    }

    fn has_long_backlog(&self, (table, family): &(&str, &str), handle: &FamilyHandle<'_>) -> bool {
        if self.raw.property_int_value_cf(handle, NUM_IMMUTABLE_MEM_TABLE).is_ok_and(|n| n >= Some(LONG_IN_BUFFERS)) {
            return true;
        }
        let files = self.raw.property_int_value_cf(handle, FILES_AT_LEVEL_0);
        // The files of a family that is not compacted never become fewer.
        files.is_ok_and(|files| files >= Some(LONG_AT_LEVEL_0))
            && self.damaged_files.is_compacted(&family_name(table, family))
    }
}
