//! Whether the store accepts writes. After a write on a full disk RocksDB refuses writes until there is space, for which it
//! checks every 5 seconds. After any other failed write the store *stops* its writes: it accepts none until a restart.
//!
//! | | asks | may stop writes |
//! |---|---|---|
//! | [`check_stopped`](Db::check_stopped) | memory | no |
//! | [`check_disk_was_full`](Db::check_disk_was_full) | as `ready`, once a write has failed on a full disk; else memory | yes |
//! | [`writable`](Db::writable) | whether the folder is at its path | yes |
//! | [`ready`](Db::ready) | that, and RocksDB | yes |

use std::sync::atomic::{AtomicU64, Ordering};

use rocksdb::{ErrorKind, WaitForCompactOptions};

use super::db::Db;
use super::error_text::is_full;
use super::folder_lock::FOLDER_MOVED;
use crate::table::StoreError;
use crate::table::store::Result;

/// Counts writes that have failed on a full disk. After the first one RocksDB may refuse others.
#[derive(Default)]
pub(super) struct FullDiskFailures {
    all: AtomicU64,
    /// How many there were before RocksDB was last found to refuse none.
    over: AtomicU64,
}

impl FullDiskFailures {
    /// Counts a write, or a flush that writes wait for.
    pub fn add(&self) {
        self.all.fetch_add(1, Ordering::Relaxed);
    }

    /// How many there are; none if RocksDB has refused none after the last one. Read it before RocksDB is asked.
    fn unresolved(&self) -> Option<u64> {
        let over = self.over.load(Ordering::Relaxed);
        Some(self.all.load(Ordering::Relaxed)).filter(|all| *all > over)
    }

    /// RocksDB refuses no writes after the first `all` of them.
    fn resolve(&self, all: u64) {
        self.over.fetch_max(all, Ordering::Relaxed);
    }
}

impl Db {
    /// Stops writes.
    pub fn stop_writes(&self, cause: &str) {
        if self.stopped.set(cause.to_owned()).is_ok() {
            tracing::error!(cause, "a write failed: the store accepts no more writes until a restart");
            self.damaged_files.add_from_error(&self.raw, cause);
        }
    }

    /// Errors: `ReadOnly` if the database is open read-only; `Stopped` after a write has failed permanently, or if the
    /// folder was moved: RocksDB would create files in the folder that is at the path now.
    pub fn writable(&self) -> Result<()> {
        if self.is_moved() {
            self.stop_writes(FOLDER_MOVED);
        }
        self.check_stopped()
    }

    /// As [`writable`](Self::writable), without a look at the folder, which takes a call of the system. The writer of
    /// a group looks before each write.
    pub fn check_stopped(&self) -> Result<()> {
        match self.stopped.get() {
            _ if self.read_only => Err(StoreError::ReadOnly),
            None => Ok(()),
            Some(cause) => Err(StoreError::Stopped(cause.clone())),
        }
    }

    /// Checks whether RocksDB accepts writes now.
    ///
    /// Errors: as [`writable`](Self::writable); `Full` or `Failed` during a transient error of RocksDB. Damage that a
    /// background compaction has found is permanent: the first call stops all writes.
    pub fn ready(&self) -> Result<()> {
        self.writable()?;
        // No property shows a background error. A wait with the least timeout returns it at once.
        let mut no_time = WaitForCompactOptions::default();
        // In microseconds.
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
    pub fn check_disk_was_full(&self) -> Result<()> {
        let Some(failures) = self.full_disk_failures.unresolved() else { return Ok(()) };
        match self.ready() {
            Err(full @ StoreError::Full(_)) => Err(full),
            // Any other error is that of the write.
            _ => {
                self.full_disk_failures.resolve(failures);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
impl Db {
    /// Stops writes, as after a failed write.
    pub fn stop(&self, cause: String) {
        self.stopped.set(cause).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_between_two_answers_of_rocksdb_is_not_forgotten() {
        let failures = FullDiskFailures::default();
        assert_eq!(failures.unresolved(), None);
        failures.add();
        // Two callers ask RocksDB. The first one has its answer, then a write fails, then the second one has its own.
        let [first, second] = [(); 2].map(|()| failures.unresolved().unwrap());
        failures.resolve(first);
        assert_eq!(failures.unresolved(), None);
        failures.add();
        failures.resolve(second);
        assert_eq!(failures.unresolved(), Some(2));
        failures.resolve(2);
        assert_eq!(failures.unresolved(), None);
    }
}
