//! A copy of the store at one instant, for a backup.

use std::path::Path;
use std::sync::PoisonError;

use rocksdb::checkpoint::Checkpoint;

use super::Rocks;
use super::db::Db;
use super::folder_lock::FOLDER_MOVED;
use super::raw::ReadError;
use crate::table::StoreError;
use crate::table::store::Result;

impl Rocks {
    /// Creates a RocksDB checkpoint at `to`, which must not exist while its parent does: a store with all plans that
    /// were committed before the call, and of each concurrent plan either all or nothing. SST files are immutable, so
    /// they are hard links if `to` is on the same file system. Nothing is synced: the checkpoint is to be copied.
    ///
    /// Commits continue meanwhile; they may stall while write buffers are full.
    ///
    /// Errors: `Full`, before anything is written, if there is not enough disk space to flush what is in memory.
    pub async fn checkpoint(&self, to: &Path) -> Result<()> {
        // RocksDB flushes first: a checkpoint has no WAL.
        self.check_space_to_flush()?;
        let (tables, to) = (self.tables.clone(), to.to_owned());
        let make = move |db: &Db| {
            if db.is_moved() {
                return Err(StoreError::Failed(FOLDER_MOVED.to_owned()));
            }
            // Keep the lock over both steps: the copy does not open with a column family that its `tables.json` does
            // not name.
            let tables = tables.lock().unwrap_or_else(PoisonError::into_inner);
            Checkpoint::new(&db.raw).and_then(|store| store.create_checkpoint(&to)).map_err(ReadError::from)?;
            tables.save_to(&to)
        };
        self.pool.run(make).await
    }
}
