//! Flushes that free disk space.
//!
//! A write is in a write buffer and in the WAL until it is flushed to an SST file. Until then the WAL takes disk space,
//! even for rows that were deleted since, so a flush frees space.
//!
//! After a start on a disk without space for a flush, all data of the WAL stays in memory, with no bound on write
//! buffers (`wal_in_memory`). Such a store reads and deletes. The first write that finds space for a flush ends that
//! state.
//!
//! After a write on a full disk RocksDB refuses writes until there is space, and checks for it every 5 seconds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use rocksdb::{ErrorKind, FlushOptions, WaitForCompactOptions};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout;

use super::Rocks;
use super::db::Db;
use super::disk_space;
use super::error_text::is_full;
use super::raw::{ReadError, family_name};
use crate::table::StoreError;
use crate::table::store::Result;

/// The least time between two flushes: each leaves a small SST file in every column family.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// How long a write waits for a flush. RocksDB delays flushes while compaction is behind.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct FlushState {
    /// When the last flush ended; locked while one runs.
    last: Arc<Mutex<Option<Instant>>>,
    wal_in_memory: Arc<AtomicBool>,
    /// Whether the ballast file of the next start is still missing for lack of space.
    no_ballast: Arc<AtomicBool>,
}

impl FlushState {
    pub fn new(wal_in_memory: bool, no_ballast: bool) -> Self {
        let flag = |is: bool| Arc::new(AtomicBool::new(is));
        Self { last: Arc::default(), wal_in_memory: flag(wal_in_memory), no_ballast: flag(no_ballast) }
    }
}

impl Db {
    /// Errors: as [`writable`](Self::writable); `Full` or `Failed` during a transient error of RocksDB. Damage that a
    /// background compaction has found is permanent: the first call stops all writes.
    pub fn ready(&self) -> Result<()> {
        self.writable()?;
        // No property shows a background error. A wait with the least timeout returns it at once.
        let mut no_time = WaitForCompactOptions::default();
        no_time.set_timeout(1);
        match self.raw.wait_for_compact(&no_time) {
            Err(e) if is_full(e.as_ref()) => Err(StoreError::Full(e.into_string())),
            Err(e) if e.kind() == ErrorKind::Corruption => {
                self.stop_writes(e.as_ref());
                self.writable()
            }
            Err(e) if e.kind() != ErrorKind::TimedOut => Err(StoreError::Failed(e.into_string())),
            _ => Ok(()),
        }
    }

    /// Errors: `Full` while RocksDB refuses writes after one on a full disk, even if there is space now: RocksDB
    /// checks every 5 seconds. The outcome of a write that RocksDB refuses is unknown, so do not try one.
    fn check_disk_was_full(&self) -> Result<()> {
        if !self.disk_was_full.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        match self.ready() {
            Err(full @ StoreError::Full(_)) => {
                self.disk_was_full.store(true, Ordering::Relaxed);
                Err(full)
            }
            _ => Ok(()),
        }
    }
}

impl Rocks {
    /// Errors: `Full` if there is no space to flush the write buffers. An attempt would stop all writes for a while,
    /// deletes too.
    pub(super) fn check_space_to_flush(&self) -> Result<()> {
        self.space.check_flush(self.tuning.buffered() as u64)
    }

    /// Checks for disk space before a write, and flushes if there is little. `needed`: whether to refuse the write
    /// without.
    ///
    /// Errors: `Full` if the write is refused after the flush, or RocksDB would refuse it.
    pub(super) async fn ensure_space(&self, needed: bool) -> Result<()> {
        self.flush_for_space(needed).await?;
        self.db.check_disk_was_full()
    }

    async fn flush_for_space(&self, needed: bool) -> Result<()> {
        let wal_in_memory = self.flushes.wal_in_memory.load(Ordering::Relaxed);
        if !needed && !wal_in_memory {
            return Ok(());
        }
        let unflushed = || self.tuning.buffered() as u64;
        let can_flush = || match wal_in_memory {
            // A small WAL, too: nothing is compacted before the flush.
            true => self.check_space_to_flush().is_ok(),
            false => self.space.can_flush(unflushed()),
        };
        match self.space.check(unflushed()) {
            Ok(()) if !wal_in_memory => return self.keep_ballast_if_possible().await,
            Err(full) if !can_flush() => {
                return if needed { Err(full) } else { Ok(()) };
            }
            _ => {}
        }
        match timeout(FLUSH_TIMEOUT, self.flush_once()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "a flush to free disk space failed"),
            Err(_) => tracing::warn!("a flush to free disk space has not ended after {FLUSH_TIMEOUT:?}"),
        }
        if needed { self.space.check_anew(unflushed()) } else { Ok(()) }
    }

    /// Creates the ballast file for the next start, if there is none and plenty of space now.
    async fn keep_ballast_if_possible(&self) -> Result<()> {
        let no_ballast = self.flushes.no_ballast.clone();
        if !no_ballast.load(Ordering::Relaxed) || !self.space.has_plenty() || !no_ballast.swap(false, Ordering::Relaxed)
        {
            return Ok(());
        }
        let keep = move |db: &Db| {
            no_ballast.store(!disk_space::keep_ballast(db.raw.path()), Ordering::Relaxed);
            Ok(())
        };
        self.pool.run(keep).await
    }

    /// Flushes all families, unless the last flush has just ended. Concurrent callers wait for the running flush.
    async fn flush_once(&self) -> Result<()> {
        let last = self.flushes.last.clone().lock_owned().await;
        if last.is_some_and(|at| at.elapsed() < MIN_INTERVAL) {
            return Ok(());
        }
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
                // Before the first compaction. RocksDB requires the space of the largest write buffer until the next
                // start.
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
                tracing::info!("there is disk space again: the data of the log is written to tables");
            }
            Ok(())
        };
        self.pool.run(flush).await
    }
}
