//! Flushes that free disk space.
//!
//! A write is in a write buffer and in the WAL until it is flushed to an SST file. Until then the WAL takes disk space,
//! even for rows that were deleted since, so a flush frees space.
//!
//! The space of deleted rows in SST files comes back with a compaction. RocksDB compacts an SST file of tombstones at
//! once. That file exists only after a flush, so the store flushes deletes when it refuses a write for lack of space.
//!
//! After a start on a disk without space for a flush, all data of the WAL stays in memory, with no bound on write
//! buffers (`wal_in_memory`). Such a store reads and deletes. The first write that finds space for a flush ends that
//! state.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use rocksdb::FlushOptions;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout;

use super::Rocks;
use super::db::Db;
use super::disk_space;
use super::raw::{ReadError, family_name};
use crate::table::store::Result;

/// The least time between two flushes for disk space: each leaves a small SST file in every column family.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// The least time between a flush and the next one that is for deletes: RocksDB compacts after each of those.
const DELETES_INTERVAL: Duration = Duration::from_secs(5);
/// How long a write waits for a flush.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct FlushState {
    /// When the last flush ended; locked while one runs.
    last: Arc<Mutex<Option<Instant>>>,
    wal_in_memory: Arc<AtomicBool>,
    /// Whether a plan that frees space was committed since the last flush.
    has_deletes: Arc<AtomicBool>,
    /// Whether the ballast file of the next start is still missing for lack of space.
    no_ballast: Arc<AtomicBool>,
}

impl FlushState {
    pub fn new(wal_in_memory: bool, no_ballast: bool) -> Self {
        let flag = |is: bool| Arc::new(AtomicBool::new(is));
        let (wal_in_memory, no_ballast) = (flag(wal_in_memory), flag(no_ballast));
        Self { last: Arc::default(), wal_in_memory, has_deletes: flag(false), no_ballast }
    }
}

impl Rocks {
    /// Errors: `Full` if there is no space to flush the write buffers. After an attempt RocksDB would refuse all writes
    /// for a while, deletes too.
    pub(super) fn check_space_to_flush(&self) -> Result<()> {
        self.space.check_flush(self.tuning.buffered() as u64)
    }

    /// Checks for disk space before a write, and flushes if there is little. `needed`: whether a write without enough
    /// space is refused.
    ///
    /// Errors: `Full` if `needed` and there is too little space, also after the flush if one was possible; or if RocksDB would
    /// refuse the write.
    pub(super) async fn ensure_space(&self, needed: bool) -> Result<()> {
        self.flush_for_space(needed).await?;
        self.db.check_disk_was_full()
    }

    async fn flush_for_space(&self, needed: bool) -> Result<()> {
        let wal_in_memory = self.flushes.wal_in_memory.load(Ordering::Relaxed);
        // Many deletes could fill the reserve with their WAL, so half of the reserve is for the flush.
        if !needed && !wal_in_memory && !self.space.is_low(self.kept_free_now()) {
            return Ok(());
        }
        match self.space.check(self.kept_free_now()) {
            Ok(()) if !wal_in_memory => return self.keep_ballast_if_possible().await,
            Ok(()) => self.flush_in_time(MIN_INTERVAL).await,
            Err(_) => self.flush_to_free().await,
        }
        if needed { self.space.check(self.kept_free_now()) } else { Ok(()) }
    }

    /// Flushes if a flush could free space, unless one has just done so.
    pub(super) async fn flush_to_free(&self) {
        if let Some(interval) = self.flush_interval() {
            self.flush_in_time(interval).await;
        }
    }

    async fn flush_in_time(&self, interval: Duration) {
        match timeout(FLUSH_TIMEOUT, self.flush_once(interval)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "a flush to free disk space failed"),
            Err(_) => tracing::warn!("a flush to free disk space has not ended after {FLUSH_TIMEOUT:?}"),
        }
    }

    /// How long after the last flush the next one may begin. None if a flush would free no space now, or has no space for
    /// its SST files.
    fn flush_interval(&self) -> Option<Duration> {
        let wal_in_memory = self.flushes.wal_in_memory.load(Ordering::Relaxed);
        let has_space = || self.check_space_to_flush().is_ok();
        match self.space.can_flush(self.tuning.buffered() as u64) {
            true => Some(MIN_INTERVAL),
            // However small the WAL is: nothing is compacted before this flush.
            false if wal_in_memory => has_space().then_some(MIN_INTERVAL),
            false if self.flushes.has_deletes.load(Ordering::Relaxed) => has_space().then_some(DELETES_INTERVAL),
            false => None,
        }
    }

    /// Call it after each plan that may free space.
    pub(super) fn note_delete(&self) {
        self.flushes.has_deletes.store(true, Ordering::Relaxed);
    }

    /// Bytes that are kept free besides the reserve: for a flush of the write buffers, for the plans that are being
    /// committed (each twice: in the WAL, and in a write buffer), and for a compaction. `free`: free bytes beyond the
    /// reserve.
    pub(super) fn kept_free(&self, free: u64) -> u64 {
        let buffered = || self.tuning.buffered() as u64;
        let unflushed = buffered() + 2 * self.compactions.in_flight();
        let available = free.saturating_sub(unflushed);
        unflushed + self.compactions.needed(available, self.tuning.sizes(), &self.db.raw, buffered)
    }

    pub(super) fn kept_free_now(&self) -> u64 {
        self.kept_free(self.space.beyond_reserve())
    }

    /// Creates the ballast file for the next start, if there is none and plenty of space now.
    async fn keep_ballast_if_possible(&self) -> Result<()> {
        let no_ballast = self.flushes.no_ballast.clone();
        if !no_ballast.load(Ordering::Relaxed) {
            return Ok(());
        }
        let kept = self.kept_free_now();
        if !self.space.has_plenty(kept) || !no_ballast.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let keep = move |db: &Db| {
            no_ballast.store(!disk_space::keep_ballast(db.raw.path(), kept), Ordering::Relaxed);
            Ok(())
        };
        self.pool.run(keep).await
    }

    /// Flushes all families, unless the last flush has ended within this interval. Concurrent callers wait for the
    /// running flush.
    async fn flush_once(&self, interval: Duration) -> Result<()> {
        let last = self.flushes.last.clone().lock_owned().await;
        if last.is_some_and(|at| at.elapsed() < interval) {
            return Ok(());
        }
        self.flushes.has_deletes.store(false, Ordering::Relaxed);
        let tables: Vec<_> = {
            let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
            tables.families().map(|(table, family)| (table.name.clone(), family.clone())).collect()
        };
        let (tuning, wal_in_memory) = (self.tuning.clone(), self.flushes.wal_in_memory.clone());
        // If the caller is cancelled the job continues: it owns the lock.
        let flush = move |db: &Db| {
            let mut last: OwnedMutexGuard<_> = last;
            let mut families = Vec::new();
            for (table, spec) in &tables {
                families.push(db.family(table, &spec.name)?);
            }
            let flushed = db.raw.flush_cfs_opt(&families.iter().collect::<Vec<_>>(), &FlushOptions::default());
            *last = Some(Instant::now());
            flushed.map_err(ReadError::from)?;
            if wal_in_memory.load(Ordering::Relaxed) {
                // Now, before the first compaction takes the space. Until the next start RocksDB recovers from a full disk
                // only if as much is free as its largest write buffer had.
                disk_space::allocate_log(db.raw.path(), tuning.log_for_deletes());
                for ((_, spec), family) in tables.iter().zip(&families) {
                    let buffer = tuning.write_buffer(spec).to_string();
                    if let Err(error) = db.raw.set_options_cf(family, &[("write_buffer_size", &buffer)]) {
                        tracing::warn!(%error, "write buffers may keep their size until the next start");
                    }
                }
                tuning.bound();
                wal_in_memory.store(false, Ordering::Relaxed);
                db.damaged_files.resume(&db.raw, tables.iter().map(|(table, spec)| family_name(table, &spec.name)));
                tracing::info!("there is disk space again: the data of the log is written to table files");
            }
            Ok(())
        };
        self.pool.run(flush).await
    }
}
