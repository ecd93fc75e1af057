//! Tables that cannot be read in some place, and the families that hold them.
//!
//! RocksDB takes no write any more once a compaction has met damage, and after the next start it compacts the same
//! tables again. So a family that is known to hold such a table is not compacted: it is read and written as before,
//! and takes more room and time as it grows. What is known stays in the file `spoilt`; it is forgotten with the table,
//! or when a later start can read all of it: a disk may fail to read once what it reads well ever after.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use rocksdb::ColumnFamilyDescriptor;

use super::Rocks;
use super::db::{Db, Raw, family_name};
use super::files;
use super::options::Tuning;
use super::scrub;
use crate::table::store::Result;
use crate::table::{StoreError, TableSpec};

const NAME: &str = "spoilt";
/// What RocksDB is told of a family that is compacted, or not.
const COMPACTED: [(&str, &str); 1] = [("disable_auto_compactions", "false")];
const LEFT_ALONE: [(&str, &str); 1] = [("disable_auto_compactions", "true")];

/// The column family of each table, by the number of its file.
type Known = BTreeMap<u64, String>;

pub(super) struct Spoilt {
    /// Where it is noted; nowhere by who only reads.
    dir: Option<PathBuf>,
    known: Mutex<Known>,
}

impl Spoilt {
    /// As it was noted in this folder. `read_only`: what is found is not noted there.
    ///
    /// Errors: `Failed` if the note cannot be read. One that is damaged itself is none: what it said is met again.
    pub fn load(dir: &Path, read_only: bool) -> Result<Self> {
        let known = match fs::read(dir.join(NAME)) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|error| {
                tracing::warn!(%error, "the note of damaged tables cannot be read");
                Known::new()
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Known::new(),
            Err(error) => return Err(StoreError::Failed(format!("{}: {error}", dir.join(NAME).display()))),
        };
        Ok(Self { dir: (!read_only).then(|| dir.to_owned()), known: Mutex::new(known) })
    }

    /// None, of a database that is only read.
    pub fn none() -> Self {
        Self { dir: None, known: Mutex::default() }
    }

    /// What RocksDB is to open: the column families of these tables.
    pub fn families<'a>(
        &self,
        tuning: &Tuning,
        tables: impl Iterator<Item = &'a TableSpec>,
    ) -> Vec<ColumnFamilyDescriptor> {
        let mut families = vec![ColumnFamilyDescriptor::new("default", tuning.unused())];
        for table in tables {
            families.extend(table.families.iter().map(|family| {
                let (name, mut options) = (family_name(&table.name, &family.name), tuning.family(family));
                options.set_disable_auto_compactions(self.has_one_of(&name));
                ColumnFamilyDescriptor::new(name, options)
            }));
        }
        families
    }

    /// Whether a table of this column family is damaged.
    pub fn has_one_of(&self, family: &str) -> bool {
        self.known().values().any(|known| known == family)
    }

    /// Their files, as `000012.sst`, and their column families, as `dir:sub`.
    pub fn list(&self) -> Vec<(String, String)> {
        self.known().iter().map(|(number, family)| (file(*number), family.clone())).collect()
    }

    pub fn count(&self) -> usize {
        self.known().len()
    }

    /// Forgets tables that are in use no more, and names the others.
    pub fn compare(&self, raw: &Raw) {
        if self.known().is_empty() {
            return;
        }
        let live = match raw.live_files() {
            Ok(live) => live,
            Err(error) => return tracing::warn!(%error, "it is not known which tables are in use"),
        };
        let live: HashSet<_> = live.iter().map(|table| table.name.trim_start_matches('/').to_owned()).collect();
        let mut known = self.known();
        let before = known.clone();
        known.retain(|number, _| live.contains(&file(*number)));
        for (number, family) in &before {
            if known.contains_key(number) {
                tell(*number, family);
            } else if self.dir.is_some() && !known.values().any(|other| other == family) {
                compacted(raw, family, &COMPACTED);
            }
        }
        if *known != before {
            self.save(&known);
        }
    }

    /// Reads the tables that are known once more, and forgets those of which all can be read. What `go_on` is for:
    /// see [`scrub::reads_whole`].
    pub fn read_again(&self, raw: &Raw, go_on: &dyn Fn() -> bool) {
        let known = self.known().clone();
        let live = if known.is_empty() { Vec::new() } else { raw.live_files().unwrap_or_default() };
        for (number, family) in known {
            let table = live.iter().find(|table| table.name.trim_start_matches('/') == file(number));
            if table.is_some_and(|table| scrub::reads_whole(raw, table, go_on)) {
                tracing::info!(table = file(number), family, "all of the table can be read again: it is not damaged");
                self.forget(raw, number, &family);
            }
        }
    }

    fn forget(&self, raw: &Raw, number: u64, family: &str) {
        let mut known = self.known();
        known.remove(&number);
        self.save(&known);
        if self.dir.is_some() && !known.values().any(|other| other == family) {
            compacted(raw, family, &COMPACTED);
        }
    }

    /// Takes note of the table in which an error says that it met damage, if it names one.
    pub fn note(&self, raw: &Raw, cause: &str) {
        let Some(number) = named(cause) else { return };
        let live = raw.live_files().unwrap_or_default();
        let Some(table) = live.into_iter().find(|table| table.name.trim_start_matches('/') == file(number)) else {
            return;
        };
        let mut known = self.known();
        if known.insert(number, table.column_family_name.clone()).is_some() {
            return;
        }
        tell(number, &table.column_family_name);
        self.save(&known);
        drop(known);
        if self.dir.is_some() {
            compacted(raw, &table.column_family_name, &LEFT_ALONE);
        }
    }

    fn is_news(&self, cause: &str) -> bool {
        named(cause).is_some_and(|number| !self.known().contains_key(&number))
    }

    fn save(&self, known: &Known) {
        let Some(dir) = &self.dir else { return };
        let saved = serde_json::to_vec(known).map_err(io::Error::from);
        if let Err(error) = saved.and_then(|bytes| files::replace(dir, NAME, &bytes)) {
            tracing::warn!(%error, "it is not noted which tables are damaged");
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rocks {
    /// Tables that are known to be damaged: their files, as `000012.sst`, and their column families, as `dir:sub`.
    pub fn damaged_tables(&self) -> Vec<(String, String)> {
        self.db.spoilt.list()
    }

    /// Reads the tables that are known to be damaged once more, on a thread of its own.
    ///
    /// Errors: `Failed` if there is none to be had.
    pub(super) fn read_damaged_again(&self) -> Result<()> {
        if self.db.spoilt.count() == 0 {
            return Ok(());
        }
        let db = self.db.clone();
        // Once all others have let go of it, nobody waits for more than that the folder is closed.
        let read = move || db.spoilt.read_again(&db.raw, &|| Arc::strong_count(&db) > 1);
        let started = Builder::new().name("read-again".into()).spawn(read);
        started.map(drop).map_err(|e| StoreError::Failed(format!("no thread to read damaged tables: {e}")))
    }

    /// An answer; if it met a damaged table for the first time, that is noted.
    pub(super) async fn noted<T>(&self, answer: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let answer = answer.await;
        if let Err(StoreError::Damaged(cause) | StoreError::Failed(cause)) = &answer
            && self.db.spoilt.is_news(cause)
        {
            let cause = cause.clone();
            let note = move |db: &Db| {
                db.spoilt.note(&db.raw, &cause);
                Ok(())
            };
            // Without it, the next compaction tells.
            let _noted = self.pool.run(note).await;
        }
        answer
    }
}

fn compacted(raw: &Raw, family: &str, options: &[(&str, &str)]) {
    if let Some(handle) = raw.cf_handle(family)
        && let Err(error) = raw.set_options_cf(&handle, options)
    {
        tracing::warn!(%error, family, "the options of a column family cannot be changed before the next start");
    }
}

fn tell(number: u64, family: &str) {
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

/// The number of the table that could not be read, if an error of RocksDB is about one.
fn named(cause: &str) -> Option<u64> {
    let is_missing = cause.contains("No such file") && cause.contains("While open a file for random read");
    if !(cause.starts_with("Corruption") || cause.contains("While pread") || is_missing) {
        return None;
    }
    // A folder may be called `x.sst`.
    cause.match_indices(".sst").find_map(|(at, _)| cause.get(..at)?.rsplit('/').next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_cannot_be_read_is_named_by_its_number() {
        for cause in [
            "Corruption: block checksum mismatch: stored = 1, computed = 2, type = 4  in /a.sst/db/000012.sst offset 0",
            "IO error: Input/output error: While pread offset 4096 len 100: /a/db/000012.sst: Input/output error",
            "IO error: No such file or directory: While open a file for random read: /a/db/000012.sst: No such file",
        ] {
            assert_eq!(named(cause), Some(12), "{cause}");
        }
        for cause in [
            "Corruption: block checksum mismatch",
            "Corruption: bad entry in /a/db/MANIFEST-000012",
            "IO error: No space left on device: While appending to file: /a/db/000012.sst: No space left on device",
            "IO error: Too many open files: While open a file for random read: /a/db/000012.sst: Too many open files",
        ] {
            assert_eq!(named(cause), None, "{cause}");
        }
    }
}
