//! The backlog of a column family: what its flushes and compactions have not done yet. A write waits while it is long.
//!
//! IMPORTANT: RocksDB must not stop a write for its backlog, so [`options`](super::options) set no limits for that. A
//! write that RocksDB stops waits at the head of RocksDB's queue of writes. If a flush fails on a full disk meanwhile,
//! RocksDB recovers by another flush, which waits in that queue: both would wait for ever.

use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::Duration;

use rocksdb::properties::NUM_IMMUTABLE_MEM_TABLE;

use super::db::{Db, Families, WriteError};
use super::raw::{FamilyHandle, family_name};
use crate::table::StoreError;

/// Write buffers that wait for a flush, at which writes wait.
const MOST_UNFLUSHED: u64 = 4;
/// SST files in level 0, at which writes wait. At fewer RocksDB slows writes down.
pub(super) const MOST_AT_LEVEL_0: u64 = 48;
/// RocksDB's name of the number of SST files in level 0.
const FILES_AT_LEVEL_0: &str = "rocksdb.num-files-at-level0";
/// How long a write waits before it looks at the backlog again.
const PAUSE: Duration = Duration::from_millis(1);

impl Db {
    /// Waits while the backlog of one of these column families is long.
    ///
    /// Errors: a transient error of RocksDB, such as a full disk. Nothing was written.
    pub fn wait_for_backlog(&self, families: &Families<'_>) -> Result<(), WriteError> {
        while families.iter().any(|((table, family), handle)| self.has_long_backlog(table, family, handle)) {
            match self.ready() {
                Ok(()) => sleep(PAUSE),
                Err(StoreError::Full(cause)) => {
                    self.disk_was_full.store(true, Ordering::Relaxed);
                    return Err(WriteError { cause, full: true, sent: false });
                }
                Err(error) => return Err(WriteError { cause: error.to_string(), full: false, sent: false }),
            }
        }
        Ok(())
    }

    fn has_long_backlog(&self, table: &str, family: &str, handle: &FamilyHandle<'_>) -> bool {
        if self.raw.property_int_value_cf(handle, NUM_IMMUTABLE_MEM_TABLE).is_ok_and(|n| n >= Some(MOST_UNFLUSHED)) {
            return true;
        }
        let files = self.raw.property_int_value_cf(handle, FILES_AT_LEVEL_0);
        // The files of a family that is not compacted never become fewer.
        files.is_ok_and(|files| files >= Some(MOST_AT_LEVEL_0))
            && self.damaged_files.is_compacted(&family_name(table, family))
    }
}
