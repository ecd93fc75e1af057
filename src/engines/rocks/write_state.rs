//! Whether the store accepts writes. If a write fails because the disk is full, RocksDB refuses writes, and looks for space
//! every 5 seconds. After a failed sync, a log file that cannot be created, or any other failed write, the store *stops*
//! its writes: it accepts none until a restart. So it does after a panic, after damage that a compaction has found, and if
//! the folder was moved.
//!
//! | | reads | may stop writes |
//! |---|---|---|
//! | [`check_stopped`](Db::check_stopped) | a flag | no |
//! | [`check_disk_was_full`](Db::check_disk_was_full) | as `ready`, once a write has failed on a full disk; else a counter | yes |
//! | [`writable`](Db::writable) | the flag, and the path of the folder | yes |
//! | [`ready`](Db::ready) | those, and the state of RocksDB | yes |

use rocksdb::{ErrorKind, WaitForCompactOptions};

use super::db::Db;
use super::error_text::is_full;
use super::folder_lock::FOLDER_MOVED;
use crate::table::StoreError;
use crate::table::store::Result;

impl Db {
    /// Stops writes.
    pub fn stop_writes(&self, cause: &str) {
        if self.stopped.set(cause.to_owned()).is_ok() {
            tracing::error!(cause, "the store accepts no more writes until a restart");
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
            // If writes are stopped meanwhile, the write says so itself.
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
