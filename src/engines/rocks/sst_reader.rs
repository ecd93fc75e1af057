//! Reads SST files from the disk, checksums included, past the block cache.

use rocksdb::{LiveFile, ReadOptions};

use super::raw::RocksDb;

pub(super) fn read_options() -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_verify_checksums(true);
    options.fill_cache(false);
    options
}

/// Whether the whole SST file can be read, deleted cells too: a compaction reads those as well. Calls `go_on` for each
/// cell; returns false if that ends the reading.
///
/// Also reads the other SST files of the column family between the first and the last key of this one.
pub(super) fn is_readable(raw: &RocksDb, sst: &LiveFile, go_on: &dyn Fn() -> bool) -> bool {
    let Some(family) = raw.cf_handle(&sst.column_family_name) else { return false };
    let mut options = read_options();
    #[expect(deprecated, reason = "no other option reads the cells that a range deletion covers")]
    options.set_ignore_range_deletions(true);
    let mut cells = raw.raw_iterator_cf_opt(&family, options);
    match &sst.start_key {
        Some(start) => cells.seek(start),
        None => cells.seek_to_first(),
    }
    let is_past_end = |key: Option<&[u8]>| sst.end_key.as_deref().zip(key).is_some_and(|(end, key)| key > end);
    while go_on() && cells.valid() && !is_past_end(cells.key()) {
        cells.next();
    }
    go_on() && cells.status().is_ok()
}
