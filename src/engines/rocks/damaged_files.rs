//! `spoilt`: the SST files that are known to be damaged, and their column families.
//!
//! RocksDB refuses all writes once a compaction has read a damaged block, and after the next start it compacts the same
//! files again. So a column family with a damaged file is not compacted any more: it is read and written as before, and
//! takes more space and time as it grows. The file `spoilt` keeps the list across restarts. An entry is removed with
//! its SST file, or when a later start can read all of the file: a read error of a disk may be temporary.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rocksdb::ColumnFamilyDescriptor;

use super::error_text::damaged_sst;
use super::files;
use super::options::Tuning;
use super::raw::{RocksDb, family_name};
use super::sst_reader::is_readable;
use crate::table::store::Result;
use crate::table::{StoreError, TableSpec};

const NAME: &str = "spoilt";
/// Options of a column family that is compacted, and of one that is not.
const COMPACTED: (&str, &str) = ("disable_auto_compactions", "false");
const NOT_COMPACTED: (&str, &str) = ("disable_auto_compactions", "true");

/// The column family of each SST file, by the number of the file.
type FamilyByFile = BTreeMap<u64, String>;

pub(super) struct DamagedFiles {
    /// The folder of `spoilt`; none for a database that is open read-only.
    dir: Option<PathBuf>,
    known: Mutex<FamilyByFile>,
    /// Whether no family at all is compacted, because the data of the WAL is in memory. A compaction would use the space
    /// that its flush needs.
    paused: AtomicBool,
}

impl DamagedFiles {
    /// Reads `spoilt` of this folder. `read_only`: later changes are not written there.
    ///
    /// Errors: `Failed` if the file cannot be read. A file that cannot be parsed counts as empty: RocksDB will find the
    /// damage again.
    pub fn load(dir: &Path, read_only: bool) -> Result<Self> {
        let known = match fs::read(dir.join(NAME)) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|error| {
                tracing::warn!(%error, "the list of damaged tables cannot be read");
                FamilyByFile::new()
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => FamilyByFile::new(),
            Err(error) => return Err(StoreError::Failed(format!("{}: {error}", dir.join(NAME).display()))),
        };
        Ok(Self { dir: (!read_only).then(|| dir.to_owned()), known: Mutex::new(known), paused: AtomicBool::default() })
    }

    /// An empty list that is not written anywhere.
    pub fn none() -> Self {
        Self { dir: None, known: Mutex::default(), paused: AtomicBool::default() }
    }

    /// The descriptors of the column families of these tables, for opening. Those with a damaged file are not compacted,
    /// and none is while the data of the WAL is in memory.
    pub fn families<'a>(
        &self,
        tuning: &Tuning,
        tables: impl Iterator<Item = &'a TableSpec>,
    ) -> Vec<ColumnFamilyDescriptor> {
        let mut families = vec![ColumnFamilyDescriptor::new("default", tuning.unused())];
        for table in tables {
            families.extend(table.families.iter().map(|family| {
                let (name, mut options) = (family_name(&table.name, &family.name), tuning.family(family));
                options.set_disable_auto_compactions(self.has_family(&name) || tuning.keeps_wal_in_memory());
                ColumnFamilyDescriptor::new(name, options)
            }));
        }
        families
    }

    /// Whether an SST file of this column family is damaged.
    pub fn has_family(&self, family: &str) -> bool {
        !Self::may_compact(&self.known(), family)
    }

    /// Whether this column family may be compacted.
    pub fn is_compacted(&self, family: &str) -> bool {
        Self::may_compact(&self.known(), family) && !self.paused.load(Ordering::Relaxed)
    }

    /// Says that the database was opened with the data of the WAL in memory.
    pub fn pause(&self) {
        self.paused.store(true, Ordering::Relaxed);
    }

    /// Turns compaction on in these column families, but not in those with a damaged file.
    pub fn resume(&self, raw: &RocksDb, families: impl Iterator<Item = String>) {
        let known = self.known();
        self.paused.store(false, Ordering::Relaxed);
        families.for_each(|family| self.set_compaction(raw, &family, &known));
    }

    fn may_compact(known: &FamilyByFile, family: &str) -> bool {
        !known.values().any(|damaged| damaged == family)
    }

    /// Turns compaction of the family on or off. The caller holds the lock of the list, so that no other change comes
    /// in between.
    fn set_compaction(&self, raw: &RocksDb, family: &str, known: &FamilyByFile) {
        let is_compacted = Self::may_compact(known, family) && !self.paused.load(Ordering::Relaxed);
        let option = if is_compacted { COMPACTED } else { NOT_COMPACTED };
        if self.dir.is_some()
            && let Some(handle) = raw.cf_handle(family)
            && let Err(error) = raw.set_options_cf(&handle, &[option])
        {
            tracing::warn!(%error, family, "the options of a column family cannot be changed before the next start");
        }
    }

    /// The files, as `000012.sst`, each with its column family, as `dir:sub`.
    pub fn list(&self) -> Vec<(String, String)> {
        self.known().iter().map(|(number, family)| (file(*number), family.clone())).collect()
    }

    pub fn count(&self) -> usize {
        self.known().len()
    }

    /// Removes the files from the list that RocksDB no longer uses, and logs the others.
    pub fn compare(&self, raw: &RocksDb) {
        if self.known().is_empty() {
            return;
        }
        let live = match raw.live_files() {
            Ok(live) => live,
            Err(error) => return tracing::warn!(%error, "RocksDB does not list the tables in use"),
        };
        let live: HashSet<_> = live.iter().map(|table| table.name.trim_start_matches('/').to_owned()).collect();
        let mut known = self.known();
        let before = known.clone();
        known.retain(|number, _| live.contains(&file(*number)));
        for (number, family) in &before {
            if known.contains_key(number) {
                log_damage(*number, family);
            } else {
                self.set_compaction(raw, family, &known);
            }
        }
        if *known != before {
            self.save(&known);
        }
    }

    /// Reads the listed files again, and removes those from the list that can be read whole. `go_on`: see
    /// [`is_readable`].
    pub fn reread(&self, raw: &RocksDb, go_on: &dyn Fn() -> bool) {
        let known = self.known().clone();
        let live = if known.is_empty() { Vec::new() } else { raw.live_files().unwrap_or_default() };
        for (number, family) in known {
            let table = live.iter().find(|table| table.name.trim_start_matches('/') == file(number));
            if table.is_some_and(|table| is_readable(raw, table, go_on)) {
                tracing::info!(table = file(number), family, "all of the table can be read again: it is not damaged");
                self.remove(raw, number, &family);
            }
        }
    }

    fn remove(&self, raw: &RocksDb, number: u64, family: &str) {
        let mut known = self.known();
        known.remove(&number);
        self.save(&known);
        self.set_compaction(raw, family, &known);
    }

    /// Adds the file that an error of RocksDB says is damaged, if it names one.
    pub fn add_from_error(&self, raw: &RocksDb, cause: &str) {
        let Some(number) = damaged_sst(cause) else { return };
        let live = raw.live_files().unwrap_or_default();
        let Some(table) = live.into_iter().find(|table| table.name.trim_start_matches('/') == file(number)) else {
            return;
        };
        let mut known = self.known();
        if known.insert(number, table.column_family_name.clone()).is_some() {
            return;
        }
        log_damage(number, &table.column_family_name);
        self.save(&known);
        self.set_compaction(raw, &table.column_family_name, &known);
    }

    /// Whether an error of RocksDB names a damaged file that is not known yet.
    pub fn is_new(&self, cause: &str) -> bool {
        damaged_sst(cause).is_some_and(|number| !self.known().contains_key(&number))
    }

    fn save(&self, known: &FamilyByFile) {
        let Some(dir) = &self.dir else { return };
        let saved = serde_json::to_vec(known).map_err(io::Error::from);
        if let Err(error) = saved.and_then(|bytes| files::replace(dir, NAME, &bytes)) {
            tracing::warn!(%error, "the list of damaged tables cannot be written");
        }
    }

    fn known(&self) -> MutexGuard<'_, FamilyByFile> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn log_damage(number: u64, family: &str) {
    tracing::error!(
        table = file(number),
        family,
        "a table is damaged: its family is served, and no longer compacted. Export the drive, or restore a backup, \
         into a new folder"
    );
}

fn file(number: u64) -> String {
    format!("{number:06}.sst")
}
