//! What a loaded store holds, once it is compacted: read from RocksDB itself, with the store closed.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use rocksdb::properties::{AGGREGATED_TABLE_PROPERTIES, TOTAL_SST_FILES_SIZE};
use rocksdb::{BottommostLevelCompaction, Cache, CompactOptions, DB, Env, Options};

/// Bytes of blocks that the compaction may keep in memory.
const CACHE: usize = 64 << 20;

#[derive(Debug, Default)]
pub struct DiskUsage {
    /// Bytes on disk by table.
    pub tables: BTreeMap<String, u64>,
    /// Bytes of keys and values, uncompressed.
    pub raw: u64,
    pub index_and_filter: u64,
    pub cells: u64,
}

/// Compacts the store in this folder whole, and measures it.
pub fn compact(folder: &Path) -> Result<DiskUsage> {
    let (mut options, families) = Options::load_latest(folder, Env::new()?, false, Cache::new_lru_cache(CACHE))?;
    options.create_if_missing(false);
    let names: Vec<String> = families.iter().map(|family| family.name().to_owned()).collect();
    let db = DB::open_cf_descriptors(&options, folder, families)?;
    let mut usage = DiskUsage::default();
    // Or the next to open it rewrites its files, while it is measured.
    let mut whole = CompactOptions::default();
    whole.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
    for name in names {
        let family = db.cf_handle(&name).with_context(|| format!("{name} is gone"))?;
        db.flush_cf(&family)?;
        db.compact_range_cf_opt(&family, None::<&[u8]>, None::<&[u8]>, &whole);
        let bytes = db.property_int_value_cf(&family, TOTAL_SST_FILES_SIZE)?.unwrap_or_default();
        if bytes > 0 {
            let table = name.split(':').next().unwrap_or(&name).to_owned();
            *usage.tables.entry(table).or_default() += bytes;
        }
        // As `# entries=3; raw key size=40; index block size (user-key? 1, delta-value? 1)=29; ...`
        let text = db.property_value_cf(&family, AGGREGATED_TABLE_PROPERTIES)?.unwrap_or_default();
        for (property, value) in text.split(';').filter_map(|one| one.trim().split_once('=')) {
            let sum = match property.split(" (").next() {
                Some("raw key size" | "raw value size") => &mut usage.raw,
                Some("index block size" | "filter block size") => &mut usage.index_and_filter,
                Some("# entries") => &mut usage.cells,
                _ => continue,
            };
            *sum += value.trim().parse::<u64>().with_context(|| format!("{property} of {value}"))?;
        }
    }
    Ok(usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_measured_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        let db = DB::open_cf(&options, dir.path(), ["t:cf", "t:c", "u:cf"]).unwrap();
        for (family, key) in [("t:cf", "a"), ("t:c", "b"), ("u:cf", "c")] {
            db.put_cf(&db.cf_handle(family).unwrap(), key, "value").unwrap();
        }
        drop(db);
        let usage = compact(dir.path()).unwrap();
        assert_eq!(usage.tables.keys().collect::<Vec<_>>(), ["t", "u"]);
        // A key is followed by eight bytes of its sequence and kind.
        assert_eq!((usage.cells, usage.raw), (3, 3 * (1 + 8 + 5)));
        assert!(usage.index_and_filter > 0);
    }
}
