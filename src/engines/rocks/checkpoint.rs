//! A copy of the store as it is at one instant.

use std::path::Path;
use std::sync::PoisonError;

use rocksdb::checkpoint::Checkpoint;

use super::Rocks;
use super::db::{Db, Fault};
use crate::table::StoreError;
use crate::table::store::Result;

impl Rocks {
    /// Makes `to`, which must not be there while its parent is, a store of its own: all plans that were committed
    /// before, and of later ones either all or none of each. Table files are linked where `to` is on the same file
    /// system: they never change. Nothing of it is synced: it is for being copied.
    ///
    /// Commits go on meanwhile, and wait as they do when write buffers are full.
    ///
    /// Errors: `Full`, and nothing was tried, if there is no room for tables of what is in memory.
    pub async fn checkpoint(&self, to: &Path) -> Result<()> {
        // The copy has tables only.
        self.check_room_to_flush()?;
        let (specs, to) = (self.specs.clone(), to.to_owned());
        let make = move |db: &Db| {
            if db.is_moved() {
                return Err(StoreError::Failed(
                    "the folder was moved away, or another one has taken its place".to_owned(),
                ));
            }
            // Held over both steps: a column family that `tables.json` does not name keeps the copy from opening.
            let specs = specs.lock().unwrap_or_else(PoisonError::into_inner);
            Checkpoint::new(&db.raw).and_then(|store| store.create_checkpoint(&to)).map_err(Fault::from)?;
            specs.save_to(&to)
        };
        self.pool.run(make).await
    }
}
