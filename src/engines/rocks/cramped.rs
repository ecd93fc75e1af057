//! A store that was opened on a full disk: what its log holds stays in memory, since there is no room for tables of
//! it. It reads and deletes, and takes new content as soon as there is room for all that is in memory.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use rocksdb::FlushOptions;

use super::Rocks;
use super::db::{Db, Fault};
use crate::table::store::Result;

impl Rocks {
    /// Bytes that only memory and the log hold.
    pub(super) fn unflushed(&self) -> u64 {
        if !self.cramped.load(Ordering::Relaxed) {
            return self.tuning.buffered() as u64;
        }
        let specs = self.specs.lock().unwrap_or_else(PoisonError::into_inner);
        let size = |family| self.db.raw.property_int_value_cf(&family, "rocksdb.cur-size-all-mem-tables").ok()?;
        specs.families().filter_map(|(table, f)| size(self.db.family(&table.name, &f.name).ok()?)).sum()
    }

    /// Called once there is room for it.
    pub(super) async fn leave_memory(&self) -> Result<()> {
        if !self.cramped.load(Ordering::Relaxed) {
            return Ok(());
        }
        tracing::info!("there is room again: what the log holds is written to tables");
        let (specs, tuning) = (self.specs.clone(), self.tuning.clone());
        let flush = move |db: &Db| {
            let specs = specs.lock().unwrap_or_else(PoisonError::into_inner);
            let mut families = Vec::new();
            for (table, spec) in specs.families() {
                let family = db.family(&table.name, &spec.name)?;
                let buffer = tuning.write_buffer(spec).to_string();
                db.raw.set_options_cf(&family, &[("write_buffer_size", &buffer)]).map_err(Fault::from)?;
                families.push(family);
            }
            let families: Vec<_> = families.iter().collect();
            Ok(db.raw.flush_cfs_opt(&families, &FlushOptions::default()).map_err(Fault::from)?)
        };
        self.pool.run(flush).await?;
        self.cramped.store(false, Ordering::Relaxed);
        Ok(())
    }
}
