//! Finds damaged SST files: by reading all of them, and by the errors of other reads.
//!
//! A scrub finds a damaged file while a backup may still hold a sound copy of its rows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::Builder;

use rocksdb::LiveFile;

use super::Rocks;
use super::db::Db;
use super::raw::ReadError;
use super::sst_reader::read_options;
use crate::table::StoreError;
use crate::table::store::Result;

impl Rocks {
    /// Reads all rows of all families from the SST files, and verifies the checksum of each block. Returns one message
    /// of RocksDB for each damage, which names the file. Skips the rest of a damaged file.
    ///
    /// Takes as long as reading the folder, and no space in the block cache.
    ///
    /// Errors: `Failed` if RocksDB does not list its SST files.
    pub async fn scrub(&self) -> Result<Vec<String>> {
        self.pool.run_long(|db| Ok(scrub(db)?)).await
    }

    /// The SST files that are known to be damaged, as `000012.sst`, each with its column family, as `dir:sub`.
    pub fn damaged_tables(&self) -> Vec<(String, String)> {
        self.db.damaged_files.list()
    }

    /// Reads the SST files that are known to be damaged once more, on a thread of its own.
    ///
    /// Errors: `Failed` if no thread can be started.
    pub(super) fn reread_damaged(&self) -> Result<()> {
        if self.db.damaged_files.count() == 0 {
            return Ok(());
        }
        let db = self.db.clone();
        // Stop once this thread holds the last reference: the store was dropped, and waits for the folder's release.
        let read = move || db.damaged_files.reread(&db.raw, &|| Arc::strong_count(&db) > 1);
        let started = Builder::new().name("read-again".into()).spawn(read);
        started.map(drop).map_err(|e| StoreError::Failed(format!("no thread to read damaged tables: {e}")))
    }

    /// Returns the answer; if it is an error that names a damaged SST file for the first time, records the file.
    pub(super) async fn record_damage<T>(&self, answer: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let answer = answer.await;
        if let Err(StoreError::Damaged(cause) | StoreError::Failed(cause)) = &answer
            && self.db.damaged_files.is_new(cause)
        {
            let cause = cause.clone();
            let add = move |db: &Db| {
                db.damaged_files.add_from_error(&db.raw, &cause);
                Ok(())
            };
            // If this fails, the next compaction of the file reports the damage again.
            let _recorded = self.pool.run(add).await;
        }
        answer
    }
}

fn scrub(db: &Db) -> std::result::Result<Vec<String>, ReadError> {
    let mut families: BTreeMap<String, Vec<LiveFile>> = BTreeMap::new();
    for sst in db.raw.live_files()? {
        families.entry(sst.column_family_name.clone()).or_default().push(sst);
    }
    Ok(families.iter().flat_map(|(name, ssts)| scrub_family(db, name, ssts)).collect())
}

fn scrub_family(db: &Db, name: &str, ssts: &[LiveFile]) -> Vec<String> {
    let Some(family) = db.raw.cf_handle(name) else { return Vec::new() };
    let mut cells = db.raw.raw_iterator_cf_opt(&family, read_options());
    let (mut damage, mut passed) = (Vec::new(), Vec::new());
    cells.seek_to_first();
    loop {
        while cells.valid() {
            cells.next();
        }
        let Err(error) = cells.status() else { return damage };
        let text = error.into_string();
        // An iterator cannot go on after an error: seek past the last key of the file that the error names.
        let named = ssts.iter().filter(|sst| text.contains(sst.name.trim_start_matches('/')));
        let end = named.filter_map(|sst| sst.end_key.clone()).max();
        damage.push(text);
        match end {
            // Move only forward: otherwise two damaged files that overlap would be read alternately for ever.
            Some(mut next_key) if next_key >= passed => {
                next_key.push(0);
                cells.seek(&next_key);
                passed = next_key;
            }
            _ => return damage,
        }
    }
}
