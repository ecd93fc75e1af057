//! Every table read once, so that one that has rotted is told while there may be a sound copy of it elsewhere.

use std::collections::BTreeMap;

use rocksdb::{LiveFile, ReadOptions};

use super::Rocks;
use super::db::{Db, Fault, Raw};
use crate::table::store::Result;

impl Rocks {
    /// Reads all rows of all families from their tables, and compares each block with its checksum. Tells what could
    /// not be read, in RocksDB's words, which name the table. The rest of such a table is passed over.
    ///
    /// Takes as long as the reading of the folder, and no room in the cache.
    ///
    /// Errors: `Failed` if RocksDB does not list its tables.
    pub async fn read_all(&self) -> Result<Vec<String>> {
        self.pool.run_long(|db| Ok(read_all(db)?)).await
    }
}

fn read_all(db: &Db) -> std::result::Result<Vec<String>, Fault> {
    let mut families: BTreeMap<String, Vec<LiveFile>> = BTreeMap::new();
    for table in db.raw.live_files()? {
        families.entry(table.column_family_name.clone()).or_default().push(table);
    }
    Ok(families.iter().flat_map(|(name, tables)| read_family(db, name, tables)).collect())
}

/// Whether all of the table can be read, what is deleted too: a compaction reads that as well. `go_on` is asked now
/// and then; false if it was not read to its end.
///
/// Other tables of its family are read too, where they hold rows between its first and its last.
pub(super) fn reads_whole(raw: &Raw, table: &LiveFile, go_on: &dyn Fn() -> bool) -> bool {
    let Some(family) = raw.cf_handle(&table.column_family_name) else { return false };
    let mut options = options();
    #[expect(deprecated, reason = "nothing else reads what a deletion of a whole family covers")]
    options.set_ignore_range_deletions(true);
    let mut cells = raw.raw_iterator_cf_opt(&family, options);
    match &table.start_key {
        Some(start) => cells.seek(start),
        None => cells.seek_to_first(),
    }
    let is_behind = |key: Option<&[u8]>| table.end_key.as_deref().zip(key).is_some_and(|(end, key)| key > end);
    while go_on() && cells.valid() && !is_behind(cells.key()) {
        cells.next();
    }
    go_on() && cells.status().is_ok()
}

fn options() -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_verify_checksums(true);
    options.fill_cache(false);
    options
}

fn read_family(db: &Db, name: &str, tables: &[LiveFile]) -> Vec<String> {
    let Some(family) = db.raw.cf_handle(name) else { return Vec::new() };
    let mut cells = db.raw.raw_iterator_cf_opt(&family, options());
    let (mut damage, mut passed) = (Vec::new(), Vec::new());
    cells.seek_to_first();
    loop {
        while cells.valid() {
            cells.next();
        }
        let Err(error) = cells.status() else { return damage };
        let text = error.into_string();
        let named = tables.iter().filter(|table| text.contains(table.name.trim_start_matches('/')));
        let end = named.filter_map(|table| table.end_key.clone()).max();
        damage.push(text);
        match end {
            // Each is behind the one before, or it would go round in a circle.
            Some(mut behind) if behind >= passed => {
                behind.push(0);
                cells.seek(&behind);
                passed = behind;
            }
            _ => return damage,
        }
    }
}
