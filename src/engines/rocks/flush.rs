//! Flushes that a tight disk calls for.
//!
//! A write is in memory and in the log until it is flushed to tables. The log keeps its room that long, even for files
//! that were deleted since, so a flush makes room.
//!
//! A start on a disk without room for a flush is *cramped*: all that the log holds stays in memory, with no bound on
//! write buffers. Such a store reads and deletes. The first write that finds room for a flush ends that.
//!
//! When RocksDB itself finds no room, it takes no write before there is some, and looks every 5 seconds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use rocksdb::{ErrorKind, FlushOptions, WaitForCompactOptions};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout;

use super::Rocks;
use super::causes::is_full;
use super::db::{Db, Fault};
use super::space;
use crate::table::StoreError;
use crate::table::store::Result;

/// Flushes come no closer than this: each leaves a small table in every family.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a write waits for a flush. RocksDB delays one while compaction is behind.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct Flushes {
    /// When the last one ended; held while one runs.
    last: Arc<Mutex<Option<Instant>>>,
    cramped: Arc<AtomicBool>,
    /// Whether there was no room yet to keep some for the next start.
    bare: Arc<AtomicBool>,
}

impl Flushes {
    pub fn new(cramped: bool, bare: bool) -> Self {
        let flag = |is: bool| Arc::new(AtomicBool::new(is));
        Self { last: Arc::default(), cramped: flag(cramped), bare: flag(bare) }
    }
}

impl Db {
    /// Errors: as [`writable`](Self::writable); `Full` or `Failed` while RocksDB has an error that passes. Damage that a
    /// compaction has met does not: whoever asks first takes note of it, before a write finds out.
    pub fn works(&self) -> Result<()> {
        self.writable()?;
        // No property tells of it. A wait that may take no time at all returns such an error first.
        let mut no_time = WaitForCompactOptions::default();
        no_time.set_timeout(1);
        match self.raw.wait_for_compact(&no_time) {
            Err(e) if is_full(e.as_ref()) => Err(StoreError::Full(e.into_string())),
            Err(e) if e.kind() == ErrorKind::Corruption => {
                self.give_up(e.as_ref());
                self.writable()
            }
            Err(e) if e.kind() != ErrorKind::TimedOut => Err(StoreError::Failed(e.into_string())),
            _ => Ok(()),
        }
    }

    /// Errors: `Full` while RocksDB refuses writes since one found no room, although there may be room by now: it looks
    /// every 5 seconds. A write that it refuses is in doubt; one that is not tried is not.
    fn check_found_room(&self) -> Result<()> {
        if !self.crowded.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        match self.works() {
            Err(full @ StoreError::Full(_)) => {
                self.crowded.store(true, Ordering::Relaxed);
                Err(full)
            }
            _ => Ok(()),
        }
    }
}

impl Rocks {
    /// Errors: `Full` if what is in memory could not be written to tables. To try it would end all writes for a while,
    /// deletes too.
    pub(super) fn check_room_to_flush(&self) -> Result<()> {
        self.space.check_flush(self.tuning.buffered() as u64)
    }

    /// Looks for room before a write. `needed`: whether the write is refused without any.
    ///
    /// Errors: `Full` if it is refused, and a flush has made no room either, or if RocksDB would refuse it.
    pub(super) async fn look_for_room(&self, needed: bool) -> Result<()> {
        self.make_room(needed).await?;
        self.db.check_found_room()
    }

    async fn make_room(&self, needed: bool) -> Result<()> {
        let cramped = self.flushes.cramped.load(Ordering::Relaxed);
        if !needed && !cramped {
            return Ok(());
        }
        let unflushed = || self.tuning.buffered() as u64;
        match self.space.check(unflushed()) {
            Ok(()) if !cramped => return self.keep_room_for_a_start().await,
            Err(full) if !self.space.has_room_to_flush(unflushed()) => {
                return if needed { Err(full) } else { Ok(()) };
            }
            _ => {}
        }
        match timeout(PATIENCE, self.flush_once()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "a flush to make room failed"),
            Err(_) => tracing::warn!("a flush to make room has not ended after {PATIENCE:?}"),
        }
        if needed { self.space.check_anew(unflushed()) } else { Ok(()) }
    }

    /// Keeps some room for the next start, if there is none kept and plenty now.
    async fn keep_room_for_a_start(&self) -> Result<()> {
        let bare = self.flushes.bare.clone();
        if !bare.load(Ordering::Relaxed) || !self.space.has_plenty() || !bare.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let keep = move |db: &Db| {
            bare.store(!space::keep_ballast(db.raw.path()), Ordering::Relaxed);
            Ok(())
        };
        self.pool.run(keep).await
    }

    /// Flushes all families, unless that was done just now. Who comes while it runs waits for its end.
    async fn flush_once(&self) -> Result<()> {
        let last = self.flushes.last.clone().lock_owned().await;
        if last.is_some_and(|at| at.elapsed() < PAUSE) {
            return Ok(());
        }
        let specs: Vec<_> = {
            let specs = self.specs.lock().unwrap_or_else(PoisonError::into_inner);
            specs.families().map(|(table, family)| (table.name.clone(), family.clone())).collect()
        };
        let (tuning, cramped) = (self.tuning.clone(), self.flushes.cramped.clone());
        // A caller that goes away stops nothing of this: the job holds the lock.
        let flush = move |db: &Db| {
            let mut last: OwnedMutexGuard<_> = last;
            let mut families = Vec::new();
            for (table, spec) in &specs {
                families.push((db.family(table, &spec.name)?, tuning.write_buffer(spec).to_string()));
            }
            let all: Vec<_> = families.iter().map(|(family, _)| family).collect();
            let flushed = db.raw.flush_cfs_opt(&all, &FlushOptions::default());
            *last = Some(Instant::now());
            flushed.map_err(Fault::from)?;
            if cramped.load(Ordering::Relaxed) {
                for (family, buffer) in &families {
                    db.raw.set_options_cf(family, &[("write_buffer_size", buffer)]).map_err(Fault::from)?;
                }
                tuning.bound();
                cramped.store(false, Ordering::Relaxed);
                tracing::info!("there is room again: what the log held is written to tables");
            }
            Ok(())
        };
        self.pool.run(flush).await
    }
}
