//! The open database: opening it, its column families, and its writes.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};

use rocksdb::{BottommostLevelCompaction, CompactOptions, DBRecoveryMode, ErrorKind, WriteBatch, WriteOptions};

use super::clean_shutdown;
use super::damaged_files::DamagedFiles;
use super::degraded::{self, DegradedDb};
use super::disk_space;
use super::error_text::{is_failed_sync, is_full, is_full_for_good};
use super::files;
use super::folder_lock::FolderLock;
use super::full_disk_failures::FullDiskFailures;
use super::kept_rows::KeptRows;
use super::keys;
use super::options::Tuning;
use super::raw::{FamilyHandle, ReadError, RocksDb, family_name};
use super::read_tier::PointReadOptions;
use super::tables_file::TablesFile;
use super::wal_check::{self, WalTail};
use super::write_error::WriteError;
use crate::table::store::Result;
use crate::table::validate::RuleViolation;
use crate::table::{StoreError, TableSpec};

/// One family of one row.
#[derive(Clone, Debug)]
pub(super) struct RowFamily {
    pub table: &'static str,
    pub family: &'static str,
    pub row: bytes::Bytes,
}

// IMPORTANT: the order of the fields is the order in which they are dropped: close the database, write the marker of
// the clean shutdown, release the folder, wake the `Closing`.
pub(super) struct Db {
    pub raw: Arc<RocksDb>,
    pub points: PointReadOptions,
    pub read_only: bool,
    pub damaged_files: DamagedFiles,
    pub kept: KeptRows,
    /// Why writes are stopped; unset while they are not.
    pub stopped: OnceLock<String>,
    pub full_disk_failures: FullDiskFailures,
    /// None if the database is open read-only.
    shutdown_marker: Option<clean_shutdown::MarkerOnDrop>,
    /// None in a folder that no process has ever opened for writing.
    lock: Option<FolderLock>,
    _open: Sender<()>,
}

/// When dropped, waits until the database is closed and its folder released.
pub(super) struct CloseWaiter(Mutex<Receiver<()>>);

impl Drop for CloseWaiter {
    fn drop(&mut self) {
        let receiver = self.0.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Nothing is ever sent: `recv` returns when the sender is dropped.
        let _closed = receiver.recv();
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        let is_moved = self.is_moved();
        if is_moved {
            // IMPORTANT: leak the database instead of closing it: closing removes files that RocksDB does not use, and
            // may write a new `MANIFEST`, in the folder that is at the path now.
            std::mem::forget(self.raw.clone());
        }
        if let Some(marker) = &mut self.shutdown_marker {
            marker.is_clean = !is_moved && self.stopped.get().is_none();
        }
    }
}

impl Db {
    /// Opens the database of a folder with these tables.
    ///
    /// On a disk without space to flush the data of the WAL, the data stays in memory; also returns whether it does.
    pub fn open(folder: FolderLock, tuning: &Tuning, tables: &TablesFile) -> Result<((Self, CloseWaiter), bool)> {
        let dir = &folder.dir().to_owned();
        // Once `tables.json` names tables, there must be a database in the folder: creating an empty one would hide the
        // loss.
        let mut options = tuning.database(tables.specs().is_empty());
        if files::lacks_current(dir).map_err(|e| failed(dir, e))? {
            return Err(StoreError::Damaged(format!("{}: there are tables or logs, and no CURRENT", dir.display())));
        }
        check_wal(dir, &mut options, tables)?;
        check_families(dir, &options, tables)?;
        let damaged_files = DamagedFiles::load(dir, false)?;
        let (raw, wal_in_memory) = open_with_space_or_without(dir, options, tuning, |options, tuning| {
            let families = damaged_files.families(tuning, tables.specs().iter());
            RocksDb::open_cf_descriptors(options, dir, families)
        })?;
        // IMPORTANT: remove the marker only after the opening: a refused start must leave it for the next one. A start
        // that fails later has written another `CURRENT`, for which the marker is not valid.
        clean_shutdown::remove_marker(dir).map_err(|e| failed(dir, e))?;
        if wal_in_memory {
            damaged_files.pause();
            disk_space::allocate_log(dir, tuning.log_for_deletes());
        }
        damaged_files.compare(&raw);
        let (mut db, closing) = Self::new(raw, Some(folder), false, damaged_files);
        db.shutdown_marker = Some(clean_shutdown::MarkerOnDrop::new(dir));
        Ok(((db, closing), wal_in_memory))
    }

    /// Opens what can be read of a damaged database, read-only; also returns how it is read. `copy`: the folder for a
    /// copy, if one is needed.
    pub fn open_degraded(
        dir: &Path,
        copy: &Path,
        lock: Option<FolderLock>,
        tuning: &Tuning,
        tables: Option<&TablesFile>,
    ) -> Result<((Self, CloseWaiter), &'static str)> {
        let DegradedDb { raw, how } = degraded::open(dir, copy, tuning, tables)?;
        Ok((Self::new(raw, lock, true, DamagedFiles::none()), how))
    }

    /// Opens the database of a folder read-only, with the tables whose column families exist.
    pub fn open_read_only(
        dir: &Path,
        lock: Option<FolderLock>,
        tuning: &Tuning,
        tables: &TablesFile,
    ) -> Result<(Self, CloseWaiter)> {
        let mut options = tuning.database(false);
        check_wal(dir, &mut options, tables)?;
        check_families(dir, &options, tables)?;
        let damaged_files = DamagedFiles::load(dir, true)?;
        let families = damaged_files.families(tuning, tables.created());
        let raw =
            RocksDb::open_cf_descriptors_read_only(&options, dir, families, false).map_err(|e| open_error(dir, e))?;
        damaged_files.compare(&raw);
        damaged_files.reread(&raw, &|| true);
        Ok(Self::new(raw, lock, true, damaged_files))
    }

    fn new(
        raw: RocksDb,
        lock: Option<FolderLock>,
        read_only: bool,
        damaged_files: DamagedFiles,
    ) -> (Self, CloseWaiter) {
        let (open, closed) = channel();
        let db = Self {
            raw: Arc::new(raw),
            points: PointReadOptions::default(),
            read_only,
            damaged_files,
            kept: KeptRows::new(&[], 0),
            stopped: OnceLock::new(),
            full_disk_failures: FullDiskFailures::default(),
            shutdown_marker: None,
            lock,
            _open: open,
        };
        (db, CloseWaiter(Mutex::new(closed)))
    }

    /// Errors: `Damaged` if a column family of the table is missing.
    pub fn check_table(&self, spec: &TableSpec) -> Result<()> {
        let names = spec.families.iter().map(|family| family_name(&spec.name, &family.name));
        match names.into_iter().find(|name| self.raw.cf_handle(name).is_none()) {
            Some(lost) => Err(StoreError::Damaged(format!("it has lost column family {lost}"))),
            None => Ok(()),
        }
    }

    /// Creates the column families of the table that do not exist.
    pub fn create(&self, tuning: &Tuning, spec: &TableSpec) -> Result<()> {
        for family in &spec.families {
            let name = family_name(&spec.name, &family.name);
            if self.raw.cf_handle(&name).is_none() {
                self.raw.create_cf(&name, &tuning.family(family)).map_err(ReadError::from)?;
            }
        }
        Ok(())
    }

    pub fn family(&self, table: &str, family: &str) -> Result<FamilyHandle<'_>> {
        self.raw
            .cf_handle(&family_name(table, family))
            .ok_or_else(|| RuleViolation::NoFamily(table.to_owned(), family.to_owned()).into())
    }

    /// Writes the batch and syncs the WAL. After `Ok` the batch is durable and visible. After an error no read of this
    /// process sees it, but the WAL may hold it, and the next start may replay it.
    pub fn write(&self, batch: WriteBatch) -> std::result::Result<(), WriteError> {
        let mut options = WriteOptions::default();
        options.set_sync(true);
        self.raw.write_opt(batch, &options).map_err(|error| {
            let cause = error.into_string();
            // After a failed sync the WAL holds the batch, and the next start may replay it: the outcome is not known,
            // even if the disk was full.
            let full = is_full(&cause) && !is_failed_sync(&cause);
            // A failed sync is final: the kernel may have dropped the dirty pages, and a second sync would succeed
            // without them. If a full disk has no space for a WAL record, RocksDB recovers by itself, with exceptions.
            if !full || is_full_for_good(&cause) {
                self.stop_writes(&cause);
            }
            if full {
                self.full_disk_failures.add();
            }
            WriteError::Sent { cause, full }
        })
    }

    /// Whether the path of the folder no longer leads to it. If so, this also disables RocksDB's deletion of files
    /// permanently: RocksDB opens and deletes files by path, and would delete those of the folder that is there now.
    pub fn is_moved(&self) -> bool {
        let is_moved = self.lock.as_ref().is_some_and(|folder| !folder.is_at_path());
        if is_moved && let Err(error) = self.raw.disable_file_deletions() {
            tracing::error!(%error, "RocksDB may remove files of the folder that is at the path now");
        }
        is_moved
    }

    /// Compacts the SST files of the row's family, which drops its tombstones. Takes up to seconds.
    pub fn compact(&self, place: &RowFamily) -> Result<()> {
        let family = self.family(place.table, place.family)?;
        if self.is_moved() || !self.damaged_files.is_compacted(&family_name(place.table, place.family)) {
            return Ok(());
        }
        let mut options = CompactOptions::default();
        options.set_exclusive_manual_compaction(false);
        // Without force RocksDB may move a file to the last level unchanged, with its tombstones.
        options.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
        let (from, to) = (keys::row_start(&place.row), keys::row_end(&place.row));
        self.raw.compact_range_cf_opt(&family, Some(from), Some(to), &options);
        Ok(())
    }
}

/// The column families of a database by name; looks each up once.
pub(super) struct Families<'a> {
    db: &'a Db,
    known: HashMap<(&'static str, &'static str), FamilyHandle<'a>>,
}

impl<'a> Families<'a> {
    pub fn new(db: &'a Db) -> Self {
        Self { db, known: HashMap::new() }
    }

    pub fn get(&mut self, table: &'static str, family: &'static str) -> Result<FamilyHandle<'a>> {
        if let Some(known) = self.known.get(&(table, family)) {
            return Ok(known.clone());
        }
        let found = self.db.family(table, family)?;
        self.known.insert((table, family), found.clone());
        Ok(found)
    }

    /// All that were looked up.
    pub fn iter(&self) -> impl Iterator<Item = (&(&'static str, &'static str), &FamilyHandle<'a>)> {
        self.known.iter()
    }
}

fn failed(dir: &Path, error: io::Error) -> StoreError {
    StoreError::Failed(format!("{}: {error}", dir.display()))
}

/// Opens a database. On a disk without space to flush the data of the WAL, opens it again with write buffers that are
/// large enough for all of it; also returns whether it did.
fn open_with_space_or_without(
    dir: &Path,
    options: rocksdb::Options,
    tuning: &Tuning,
    open: impl Fn(&rocksdb::Options, &Tuning) -> std::result::Result<RocksDb, rocksdb::Error>,
) -> Result<(RocksDb, bool)> {
    let is_disk_full = |opened: &std::result::Result<RocksDb, rocksdb::Error>| {
        opened.as_ref().err().is_some_and(|error| is_full(error.as_ref()))
    };
    let mut opened = open(&options, tuning);
    if !is_disk_full(&opened) {
        return Ok((opened.map_err(|e| open_error(dir, e))?, false));
    }
    // The ballast is for the small files of a start, not for a flush: if it is too small for the flush, the first
    // opening has used it up in vain.
    if disk_space::remove_ballast(dir) {
        tracing::warn!("the disk is full: the ballast file was removed for this start");
    }
    tracing::warn!("the disk is full: the data of the log stays in memory until there is disk space");
    let log = files::bytes(dir, "log").map_err(|e| failed(dir, e))?;
    let options = tuning.without_flush(options, log).map_err(|e| open_error(dir, e))?;
    for buffer in Tuning::enough_for(log) {
        if is_disk_full(&opened) {
            opened = open(&options, &tuning.unbounded(buffer));
        }
    }
    Ok((opened.map_err(|e| open_error(dir, e))?, true))
}

/// Refuses a database whose WAL is damaged, and sets how RocksDB replays a sound one.
fn check_wal(dir: &Path, options: &mut rocksdb::Options, tables: &TablesFile) -> Result<()> {
    let has_tables = tables.created().next().is_some();
    let torn = clean_shutdown::verify(dir)?;
    options.set_wal_recovery_mode(match wal_check::examine(dir, has_tables, torn.as_ref())? {
        // RocksDB then refuses a record with a wrong checksum a second time.
        WalTail::Cut => DBRecoveryMode::TolerateCorruptedTailRecords,
        // Only the tail is unreadable, and RocksDB must skip it.
        WalTail::Unwritten => DBRecoveryMode::PointInTime,
    });
    Ok(())
}

/// Refuses a database that has lost a column family: opening it would create an empty one.
fn check_families(dir: &Path, options: &rocksdb::Options, tables: &TablesFile) -> Result<()> {
    let names = tables.created().flat_map(|table| {
        table.families.iter().map(|family| family_name(&table.name, &family.name)).collect::<Vec<_>>()
    });
    let expected: Vec<_> = names.collect();
    if expected.is_empty() {
        return Ok(());
    }
    let found = RocksDb::list_cf(options, dir).map_err(|e| open_error(dir, e))?;
    match expected.iter().find(|name| !found.contains(name)) {
        Some(lost) => Err(StoreError::Damaged(format!("{}: it has lost column family {lost}", dir.display()))),
        None => Ok(()),
    }
}

fn open_error(dir: &Path, error: rocksdb::Error) -> StoreError {
    // The arguments are constant, so an invalid argument means damage of the folder: no `CURRENT` although there are
    // SST files, or column families that `tables.json` does not name.
    let damaged = matches!(error.kind(), ErrorKind::Corruption | ErrorKind::InvalidArgument)
        || error.as_ref().contains("No such file");
    let full = is_full(error.as_ref());
    let message = format!("{}: {}", dir.display(), error.into_string());
    match (full, damaged) {
        (true, _) => StoreError::Full(message),
        (_, true) => StoreError::Damaged(message),
        _ => StoreError::Failed(message),
    }
}
