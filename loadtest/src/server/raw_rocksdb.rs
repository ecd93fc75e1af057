//! The rows of a drive's directory table in a RocksDB of their own, with nothing around them: what moving them costs at
//! least.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use rocksdb::{DB, Direction, IteratorMode, Options, ReadOptions, WriteBatch, WriteOptions};

/// Rows, and cells, after which a batch is written: as the drive's own.
const ROWS: usize = 100;
const CELLS: usize = 1_000;

pub struct RawRocksDb(DB);

impl RawRocksDb {
    /// Copies the rows of the drive's store, which may be open. A key there is a path, a zero and a qualifier, in a
    /// column family for each family.
    pub fn copy(store: &Path, to: &Path) -> Result<Self> {
        let families = DB::list_cf(&Options::default(), store)?.into_iter().filter(|name| name.starts_with("dir:"));
        let families: Vec<String> = families.collect();
        let source = DB::open_cf_for_read_only(&Options::default(), store, &families, false)?;
        let db = DB::open_default(to)?;
        for name in &families {
            let family = source.cf_handle(name).with_context(|| format!("{name} is gone"))?;
            for cell in source.iterator_cf(&family, IteratorMode::Start) {
                let (key, value) = cell?;
                let end = key.iter().position(|byte| *byte == 0).context("a key without an end of its row")?;
                let (path, qualifier) = key.split_at(end);
                db.put([path, b"\0", name.as_bytes(), qualifier].concat(), value)?;
            }
        }
        // Neither side begins with everything in memory tables.
        db.flush()?;
        Ok(Self(db))
    }

    /// Moves all rows at and below a path: scans them, puts them under their new keys, deletes the old range. Returns
    /// seconds.
    pub fn move_rows(&self, from: &str, to: &str) -> Result<f64> {
        let start = Instant::now();
        // The root's own row, and up to what follows the last one below it.
        let (first, end) = ([from.as_bytes(), b"\0"].concat(), [from.as_bytes(), b"0"].concat());
        let mut read = ReadOptions::default();
        read.set_iterate_upper_bound(end.clone());
        let (mut batch, mut rows, mut row) = (WriteBatch::default(), 0, Vec::new());
        for cell in self.0.iterator_opt(IteratorMode::From(&first, Direction::Forward), read) {
            let (key, value) = cell?;
            let path = key.split(|byte| *byte == 0).next().unwrap_or_default();
            if row != path {
                row = path.to_vec();
                rows += 1;
            }
            if rows > ROWS || batch.len() >= CELLS {
                self.write(std::mem::take(&mut batch))?;
                rows = 1;
            }
            batch.put([to.as_bytes(), key.get(from.len()..).unwrap_or_default()].concat(), value);
        }
        self.write(std::mem::take(&mut batch))?;
        batch.delete_range(first, end);
        self.write(batch)?;
        Ok(start.elapsed().as_secs_f64())
    }

    fn write(&self, batch: WriteBatch) -> Result<()> {
        let mut options = WriteOptions::default();
        options.set_sync(true);
        Ok(self.0.write_opt(batch, &options)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rows_of_a_tree_move_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        let store = DB::open_cf(&options, folder.path().join("store"), ["dir:sub", "file:sub"]).unwrap();
        let put = |family, key: String| store.put_cf(&store.cf_handle(family).unwrap(), &key, &key).unwrap();
        put("file:sub", "/a\0of another table".into());
        let others = ["/0\0f", "/ab\0f", "/b0\0f"].map(str::to_owned);
        let rows = (0..250).map(|n| format!("/a/{n:03}\0f"));
        let moved: Vec<String> =
            rows.chain((0..2_500).map(|n| format!("/a/wide\0{n}"))).chain(["/a\0f".into()]).collect();
        others.iter().chain(&moved).for_each(|key| put("dir:sub", key.clone()));

        let raw = RawRocksDb::copy(&folder.path().join("store"), &folder.path().join("raw")).unwrap();
        raw.move_rows("/a", "/b").unwrap();
        raw.move_rows("/b", "/c").unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let found = raw.0.iterator(IteratorMode::Start).map(|cell| cell.map(|(k, v)| (text(&k), text(&v))).unwrap());
        let mut expected: Vec<(String, String)> = others.iter().map(|key| (key.clone(), key.clone())).collect();
        expected.extend(moved.iter().map(|key| (key.replacen("/a", "/c", 1), key.clone())));
        expected.iter_mut().for_each(|(key, _)| *key = key.replacen('\0', "\0dir:sub\0", 1));
        expected.sort_unstable();
        assert!(found.eq(expected));
    }
}
