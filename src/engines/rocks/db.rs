//! The open database: its column families, its folder's lock, and what its errors mean.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};

use rocksdb::{
    BottommostLevelCompaction, BoundColumnFamily, CompactOptions, DBRawIteratorWithThreadMode, DBRecoveryMode,
    DBWithThreadMode, ErrorKind, MultiThreaded, SnapshotWithThreadMode, WriteBatch, WriteOptions,
};

use super::causes::{is_failed_sync, is_full, is_full_for_good};
use super::closed;
use super::degraded::{self, Left};
use super::files;
use super::keys;
use super::lock::Folder;
use super::logs::{self, Tail};
use super::options::Tuning;
use super::space;
use super::specs::Specs;
use super::spoilt::Spoilt;
use super::tier::Points;
use crate::table::rules::Broken;
use crate::table::store::Result;
use crate::table::{StoreError, TableSpec};

pub(super) type Raw = DBWithThreadMode<MultiThreaded>;
pub(super) type Family<'a> = Arc<BoundColumnFamily<'a>>;
pub(super) type Snapshot<'a> = SnapshotWithThreadMode<'a, Raw>;
pub(super) type Cells<'a> = DBRawIteratorWithThreadMode<'a, Raw>;

/// Why a read did not answer.
#[derive(Debug)]
pub(super) enum Fault {
    /// It would have to read the disk, or to pass more tombstones than allowed: ask again elsewhere.
    Incomplete,
    Store(StoreError),
}

pub(super) type Read<T> = std::result::Result<T, Fault>;

impl From<rocksdb::Error> for Fault {
    fn from(error: rocksdb::Error) -> Self {
        match error.kind() {
            ErrorKind::Incomplete => Self::Incomplete,
            ErrorKind::Corruption => Self::Store(StoreError::Damaged(error.into_string())),
            // A table that is opened when it is first read.
            ErrorKind::IOError if error.as_ref().contains("No such file or directory") => {
                Self::Store(StoreError::Damaged(error.into_string()))
            }
            _ => Self::Store(StoreError::Failed(error.into_string())),
        }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Incomplete => Self::Failed("a read was cut short".into()),
            Fault::Store(error) => error,
        }
    }
}

/// A row's family.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub table: &'static str,
    pub family: &'static str,
    pub row: bytes::Bytes,
}

/// A write that failed; whether because the disk has no room.
#[derive(Clone, Debug)]
pub(super) struct WriteFailure {
    pub cause: String,
    pub full: bool,
}

// IMPORTANT: fields are dropped in this order: the database is closed, then that is noted, then the folder let go, then
// that is told.
pub(super) struct Db {
    pub raw: Arc<Raw>,
    pub points: Points,
    read_only: bool,
    pub spoilt: Spoilt,
    /// Why no further write is tried.
    stopped: OnceLock<String>,
    /// Whether a write has found no room, and RocksDB may not have found any since.
    pub crowded: AtomicBool,
    /// None if it was opened for reading.
    note: Option<closed::Note>,
    /// None in a folder that no process has ever opened for writing.
    lock: Option<Folder>,
    _open: Sender<()>,
}

/// Waits, when dropped, until the database is closed and its folder let go.
pub(super) struct Closing(Mutex<Receiver<()>>);

impl Drop for Closing {
    fn drop(&mut self) {
        let receiver = self.0.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Nothing is ever sent: the answer is the error that the sender is gone.
        let _closed = receiver.recv();
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        let is_moved = self.is_moved();
        if is_moved {
            // IMPORTANT: it is never closed. Closing removes files that it does not know, and may write another
            // `MANIFEST`.
            std::mem::forget(self.raw.clone());
        }
        if let Some(note) = &mut self.note {
            note.in_order = !is_moved && self.stopped.get().is_none();
        }
    }
}

impl Db {
    /// Opens the database in a folder that holds these tables.
    ///
    /// Without room for tables of what the log holds, that stays in memory; tells whether it does.
    pub fn open(folder: Folder, tuning: &Tuning, specs: &Specs) -> Result<((Self, Closing), bool)> {
        let dir = &folder.dir().to_owned();
        // A folder that is known to hold tables holds a database: making an empty one would hide the loss.
        let mut options = tuning.database(specs.tables().is_empty());
        if files::orphans(dir).map_err(|e| failed(dir, e))? {
            return Err(StoreError::Damaged(format!("{}: there are tables or logs, and no CURRENT", dir.display())));
        }
        recover(dir, &mut options, specs)?;
        nothing_lost(dir, &options, specs)?;
        let spoilt = Spoilt::load(dir, false)?;
        let open = |options: &rocksdb::Options, tuning: &Tuning| {
            Raw::open_cf_descriptors(options, dir, spoilt.families(tuning, specs.tables().iter()))
        };
        let full = |opened: &std::result::Result<Raw, rocksdb::Error>| {
            opened.as_ref().err().is_some_and(|error| is_full(error.as_ref()))
        };
        let (mut opened, mut cramped) = (open(&options, tuning), false);
        if full(&opened) {
            // Not for tables: if the room is too small for them, the start has lost it.
            if space::give_ballast_up(dir) {
                tracing::warn!("the disk is full: room that was kept for this is given up");
            }
            tracing::warn!("the disk is full: what the log holds stays in memory until there is room");
            let log = files::bytes(dir, "log").map_err(|e| failed(dir, e))?;
            let options = tuning.without_flush(options, log).map_err(|e| open_error(dir, e))?;
            for buffer in Tuning::enough_for(log) {
                if full(&opened) {
                    opened = open(&options, &tuning.unbounded(buffer));
                }
            }
            cramped = true;
        }
        let raw = opened.map_err(|e| open_error(dir, e))?;
        // Not before: a start that is refused leaves the note for the next one. One that opened and came no further
        // has put another `CURRENT`, which the note does not fit.
        closed::forget(dir).map_err(|e| failed(dir, e))?;
        spoilt.compare(&raw);
        let (mut db, closing) = Self::new(raw, Some(folder), false, spoilt);
        db.note = Some(closed::Note::of(dir));
        Ok(((db, closing), cramped))
    }

    /// Opens what is left of a damaged database, for reading; `copy`: where one may be made of it. Tells how.
    pub fn open_degraded(
        dir: &Path,
        copy: &Path,
        lock: Option<Folder>,
        tuning: &Tuning,
        specs: Option<&Specs>,
    ) -> Result<((Self, Closing), &'static str)> {
        let Left { raw, how } = degraded::open(dir, copy, tuning, specs)?;
        Ok((Self::new(raw, lock, true, Spoilt::none()), how))
    }

    /// Opens the database of a folder as it is: with the tables that were made.
    pub fn open_read_only(dir: &Path, lock: Option<Folder>, tuning: &Tuning, specs: &Specs) -> Result<(Self, Closing)> {
        let mut options = tuning.database(false);
        recover(dir, &mut options, specs)?;
        nothing_lost(dir, &options, specs)?;
        let spoilt = Spoilt::load(dir, true)?;
        let families = spoilt.families(tuning, specs.tables().iter().filter(|table| specs.is_made(&table.name)));
        let raw = Raw::open_cf_descriptors_read_only(&options, dir, families, false).map_err(|e| open_error(dir, e))?;
        spoilt.compare(&raw);
        spoilt.read_again(&raw, &|| true);
        Ok(Self::new(raw, lock, true, spoilt))
    }

    fn new(raw: Raw, lock: Option<Folder>, read_only: bool, spoilt: Spoilt) -> (Self, Closing) {
        let (open, closed) = channel();
        let (points, stopped, crowded) = (Points::default(), OnceLock::new(), AtomicBool::default());
        let db =
            Self { raw: Arc::new(raw), points, read_only, spoilt, stopped, crowded, note: None, lock, _open: open };
        (db, Closing(Mutex::new(closed)))
    }

    /// Errors: `Damaged` if a column family of the table is not there.
    pub fn has(&self, spec: &TableSpec) -> Result<()> {
        let names = spec.families.iter().map(|family| family_name(&spec.name, &family.name));
        match names.into_iter().find(|name| self.raw.cf_handle(name).is_none()) {
            Some(lost) => Err(StoreError::Damaged(format!("it has lost column family {lost}"))),
            None => Ok(()),
        }
    }

    /// Makes the column families of the table that are not there.
    pub fn create(&self, tuning: &Tuning, spec: &TableSpec) -> Result<()> {
        for family in &spec.families {
            let name = family_name(&spec.name, &family.name);
            if self.raw.cf_handle(&name).is_none() {
                self.raw.create_cf(&name, &tuning.family(family)).map_err(Fault::from)?;
            }
        }
        Ok(())
    }

    pub fn family(&self, table: &str, family: &str) -> Result<Family<'_>> {
        self.raw
            .cf_handle(&family_name(table, family))
            .ok_or_else(|| Broken::NoFamily(table.to_owned(), family.to_owned()).into())
    }

    /// Writes the batch and syncs the log. Afterwards it is durable and visible, or, as far as this process can
    /// see, it did not happen; the log may hold it all the same.
    pub fn write(&self, batch: WriteBatch) -> std::result::Result<(), WriteFailure> {
        let mut options = WriteOptions::default();
        options.set_sync(true);
        self.raw.write_opt(batch, &options).map_err(|error| {
            let cause = error.into_string();
            // What a failed sync leaves in the log may come back at the next start, so its outcome is not known.
            let full = is_full(&cause) && !is_failed_sync(&cause);
            // A failed sync is final: the kernel may have dropped the pages, and a second one would say that all is
            // well. Of a disk that has no room for a record RocksDB recovers by itself, but not always.
            if !full || is_full_for_good(&cause) {
                self.give_up(&cause);
            }
            self.crowded.fetch_or(full, Ordering::Relaxed);
            WriteFailure { cause, full }
        })
    }

    /// No further write is tried.
    pub fn give_up(&self, cause: &str) {
        if self.stopped.set(cause.to_owned()).is_ok() {
            tracing::error!(cause, "a write failed: no more are taken until a restart");
            self.spoilt.note(&self.raw, cause);
        }
    }

    /// Whether the folder was moved away: its files are opened, and removed, by paths that lead to another one now.
    pub fn is_moved(&self) -> bool {
        let is_moved = self.lock.as_ref().is_some_and(|folder| !folder.is_in_its_place());
        if is_moved && let Err(error) = self.raw.disable_file_deletions() {
            tracing::error!(%error, "files of what has taken the folder's place may be removed");
        }
        is_moved
    }

    /// Errors: `ReadOnly` if it was opened so, `Stopped` once a write has failed for a cause that does not pass, or the
    /// folder was moved away: what is written then would be written to what has taken its place.
    pub fn writable(&self) -> Result<()> {
        if self.is_moved() {
            self.give_up("the folder was moved away, or another one has taken its place");
        }
        match self.stopped.get() {
            _ if self.read_only => Err(StoreError::ReadOnly),
            None => Ok(()),
            Some(cause) => Err(StoreError::Stopped(cause.clone())),
        }
    }

    /// Rewrites the tables that hold the row's family, without its tombstones. Takes up to seconds.
    pub fn compact(&self, place: &Place) -> Result<()> {
        let family = self.family(place.table, place.family)?;
        if self.is_moved() || self.spoilt.has_one_of(&family_name(place.table, place.family)) {
            return Ok(());
        }
        let mut options = CompactOptions::default();
        options.set_exclusive_manual_compaction(false);
        // Without force a table may be moved to the last level as it is, tombstones and all.
        options.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
        let (from, to) = (keys::row_start(&place.row), keys::row_end(&place.row));
        self.raw.compact_range_cf_opt(&family, Some(from), Some(to), &options);
        Ok(())
    }
}

/// The families of a database by name, looked up once.
pub(super) struct Families<'a> {
    db: &'a Db,
    known: HashMap<(&'static str, &'static str), Family<'a>>,
}

impl<'a> Families<'a> {
    pub fn new(db: &'a Db) -> Self {
        Self { db, known: HashMap::new() }
    }

    pub fn get(&mut self, table: &'static str, family: &'static str) -> Result<Family<'a>> {
        if let Some(known) = self.known.get(&(table, family)) {
            return Ok(known.clone());
        }
        let found = self.db.family(table, family)?;
        self.known.insert((table, family), found.clone());
        Ok(found)
    }
}

pub(super) fn family_name(table: &str, family: &str) -> String {
    let mut name = String::with_capacity(table.len() + 1 + family.len());
    name.push_str(table);
    name.push(':');
    name.push_str(family);
    name
}

fn failed(dir: &Path, error: io::Error) -> StoreError {
    StoreError::Failed(format!("{}: {error}", dir.display()))
}

/// Refuses a database whose log is damaged, and says how far the log of a sound one is replayed.
fn recover(dir: &Path, options: &mut rocksdb::Options, specs: &Specs) -> Result<()> {
    let made = specs.tables().iter().any(|table| specs.is_made(&table.name));
    let closed = closed::verify(dir)?;
    options.set_wal_recovery_mode(match logs::examine(dir, made, closed.as_ref())? {
        // Any record whose checksum is wrong is refused a second time, by RocksDB.
        Tail::Cut => DBRecoveryMode::TolerateCorruptedTailRecords,
        // Nothing but the end was found to be so, and RocksDB must pass over it.
        Tail::Unwritten => DBRecoveryMode::PointInTime,
    });
    Ok(())
}

/// Refuses a database that lacks a column family that was made: opening it would make an empty one.
fn nothing_lost(dir: &Path, options: &rocksdb::Options, specs: &Specs) -> Result<()> {
    let made = specs.tables().iter().filter(|table| specs.is_made(&table.name));
    let made = made.flat_map(|table| table.families.iter().map(|family| family_name(&table.name, &family.name)));
    let made: Vec<_> = made.collect();
    if made.is_empty() {
        return Ok(());
    }
    let there = Raw::list_cf(options, dir).map_err(|e| open_error(dir, e))?;
    match made.iter().find(|name| !there.contains(name)) {
        Some(lost) => Err(StoreError::Damaged(format!("{}: it has lost column family {lost}", dir.display()))),
        None => Ok(()),
    }
}

fn open_error(dir: &Path, error: rocksdb::Error) -> StoreError {
    // Invalid arguments are ours alone to pass, and they are constant: what differs is what the folder holds (no
    // `CURRENT` although there are tables, or column families that `tables.json` does not name).
    let damaged = matches!(error.kind(), ErrorKind::Corruption | ErrorKind::InvalidArgument)
        || error.as_ref().contains("No such file");
    let full = is_full(error.as_ref());
    let said = format!("{}: {}", dir.display(), error.into_string());
    match (full, damaged) {
        (true, _) => StoreError::Full(said),
        (_, true) => StoreError::Damaged(said),
        _ => StoreError::Failed(said),
    }
}

#[cfg(test)]
impl Db {
    /// As if a write had failed.
    pub fn stop(&self, cause: String) {
        self.stopped.set(cause).unwrap();
    }
}
