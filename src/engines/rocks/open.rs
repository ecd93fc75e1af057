//! Opens a folder: for reading and writing, read-only, or degraded.

use std::path::Path;
use std::sync::{Arc, Mutex};

use rustix::process::{Resource, getrlimit};

use super::blocking_pool::BlockingPool;
use super::commit::CommitQueue;
use super::compaction_space::CompactionSpace;
use super::db::{CloseWaiter, Db};
use super::disk_space::{self, DiskSpace};
use super::flush::FlushState;
use super::folder_lock::{self, FolderLock};
use super::kept_rows::{KeptRows, TableFamily};
use super::metrics::ReadCounters;
use super::options::Tuning;
use super::tables_file::TablesFile;
use super::{MAX_TOMBSTONES, Rocks};
use crate::table::StoreError;
use crate::table::store::Result;

/// The resources of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RocksOptions {
    /// Bytes for the block cache, the write buffers and the kept rows together; 32 MiB is enough to work.
    pub memory: usize,
    /// Families whose rows are read again and again and change seldom, each with its table: they are kept in a part of
    /// the memory.
    pub kept: &'static [TableFamily],
}

impl RocksOptions {
    /// With this memory, and no rows that are kept.
    pub fn with_memory(memory: usize) -> Self {
        Self { memory, kept: &[] }
    }
}

impl Default for RocksOptions {
    fn default() -> Self {
        Self::with_memory(1 << 30)
    }
}

/// The part of the memory that kept rows may take, if there are any.
const KEPT_PART: usize = 128;

impl Rocks {
    /// Opens the store in this folder. Creates the folder and its parents if they do not exist.
    ///
    /// Errors: `Failed` if this process or another has the folder open, or it cannot be read or written; `Damaged` if
    /// there is no sound store in it. Blocks while RocksDB replays the WAL.
    pub fn open(dir: &Path, options: RocksOptions) -> Result<Self> {
        Self::open_locked(FolderLock::lock(dir, folder_lock::SOON)?, options)
    }

    /// As [`open`](Self::open), in a folder that this process has locked.
    pub fn open_locked(folder: FolderLock, options: RocksOptions) -> Result<Self> {
        let space = DiskSpace::new(folder.dir());
        Self::open_with(folder, options, space, MAX_TOMBSTONES)
    }

    /// Opens the store in this folder read-only. Creates and changes no file: replays the WAL in memory.
    ///
    /// Errors: as [`open`](Self::open). Later, whatever would change the store is [`StoreError::ReadOnly`], including
    /// the creation of a table that does not exist.
    pub fn open_read_only(dir: &Path, options: RocksOptions) -> Result<Self> {
        let lock = FolderLock::lock_existing(dir, folder_lock::SOON)?;
        let tables = TablesFile::load(dir)?;
        let tuning = Tuning::new(options.memory).with_handles(dir, open_files_limit());
        let opened = Db::open_read_only(dir, lock, &tuning, &tables)?;
        Self::start(opened, tables, tuning, DiskSpace::new(dir), MAX_TOMBSTONES)
    }

    /// Opens what can be read of a damaged store, read-only. Does not change the folder; `copy` is a folder next to it
    /// that is created anew if RocksDB must write. Also returns what is damaged, if anything, and how the rest is read.
    ///
    /// Errors: `Damaged` if nothing can be read, `Failed` if the folder is in use, or there is no space for the copy.
    pub fn open_degraded(dir: &Path, copy: &Path, options: RocksOptions) -> Result<(Self, Option<String>)> {
        // Without `tables.json` the folder opens as a store without tables: that counts as damage too.
        let listed = TablesFile::load(dir).is_ok_and(|tables| !tables.specs().is_empty());
        let damage = match Self::open_read_only(dir, options) {
            Ok(sound) if listed => return Ok((sound, None)),
            Ok(_unlisted) => StoreError::Damaged(format!("{}: tables.json is missing or empty", dir.display())),
            Err(damage) => damage,
        };
        // Fails if the folder is in use, so that it is not taken for a damaged one.
        let lock = FolderLock::lock_existing(dir, folder_lock::SOON)?;
        let (tuning, tables) = (Tuning::new(options.memory), TablesFile::load(dir).ok().filter(|_| listed));
        let (opened, how) = Db::open_degraded(dir, copy, lock, &tuning, tables.as_ref())?;
        let tables = tables.unwrap_or_else(|| TablesFile::empty(dir));
        let rocks = Self::start(opened, tables, tuning, DiskSpace::new(dir), MAX_TOMBSTONES)?;
        Ok((Self { degraded: true, ..rocks }, Some(format!("{damage}; it is read {how}"))))
    }

    pub(super) fn open_with(folder: FolderLock, options: RocksOptions, space: DiskSpace, skip: u64) -> Result<Self> {
        let dir = &folder.dir().to_owned();
        let tables = TablesFile::load(dir)?;
        let kept = if options.kept.is_empty() { 0 } else { options.memory / KEPT_PART };
        let tuning = Tuning::new(options.memory - kept).with_disk(dir).with_handles(dir, open_files_limit());
        let ((mut db, closing), wal_in_memory) = Db::open(folder, &tuning, &tables)?;
        db.kept = KeptRows::new(options.kept, kept);
        let opened = (db, closing);
        let rocks = Self::start(opened, tables, tuning, space, skip)?;
        rocks.reread_damaged()?;
        let no_ballast = wal_in_memory || !disk_space::keep_ballast(dir, rocks.kept_free_now());
        Ok(Self { flushes: FlushState::new(wal_in_memory, no_ballast), ..rocks })
    }

    fn start(
        (db, closing): (Db, CloseWaiter),
        tables: TablesFile,
        tuning: Tuning,
        space: DiskSpace,
        skip: u64,
    ) -> Result<Self> {
        let db = Arc::new(db);
        Ok(Self {
            committer: CommitQueue::start(db.clone(), skip)?,
            pool: BlockingPool::new(db.clone()),
            db,
            tables: Arc::new(Mutex::new(tables)),
            tuning: Arc::new(tuning),
            space: Arc::new(space),
            compactions: CompactionSpace::default(),
            reads: ReadCounters::default(),
            skip,
            flushes: FlushState::default(),
            degraded: false,
            _closing: closing,
        })
    }
}

/// The limit of open files of this process.
fn open_files_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
