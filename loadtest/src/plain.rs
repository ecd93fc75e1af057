//! The same rows in a RocksDB of their own, with nothing around them: what moving them costs at least.

use std::path::Path;
use std::time::{Duration, Instant};

use rocksdb::{DB, Direction, IteratorMode, Options, ReadOptions, WriteBatch, WriteOptions};

/// Rows, and cells, after which a batch is written: as the drive's own.
const ROWS: usize = 100;
const CELLS: usize = 1_000;

/// How often a move is synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synced {
    EachBatch,
    /// One batch of everything.
    Once,
}

pub struct Plain {
    db: DB,
}

/// The key of a cell: no path and no family holds a zero.
pub fn key(path: &str, family: &str, qualifier: &[u8]) -> Vec<u8> {
    [path.as_bytes(), b"\0", family.as_bytes(), b"\0", qualifier].concat()
}

impl Plain {
    pub fn create(dir: &Path, cells: &[(Vec<u8>, Vec<u8>)]) -> anyhow::Result<Self> {
        let mut options = Options::default();
        options.create_if_missing(true);
        let db = DB::open(&options, dir)?;
        for part in cells.chunks(CELLS) {
            let mut batch = WriteBatch::default();
            part.iter().for_each(|(key, value)| batch.put(key, value));
            db.write(batch)?;
        }
        // Neither side begins with everything in memory tables.
        db.flush()?;
        Ok(Self { db })
    }

    /// Moves all rows at and below a path: scans them, puts them under their new keys, deletes the old range.
    pub fn move_rows(&self, from: &str, to: &str, synced: Synced) -> anyhow::Result<Duration> {
        let start = Instant::now();
        // The root's own row, and up to what follows the last one below it.
        let (first, end) = ([from.as_bytes(), b"\0"].concat(), [from.as_bytes(), b"0"].concat());
        let mut read = ReadOptions::default();
        read.set_iterate_upper_bound(end.clone());
        let mut batch = WriteBatch::default();
        let mut rows = 0;
        let mut row = Vec::new();
        for cell in self.db.iterator_opt(IteratorMode::From(&first, Direction::Forward), read) {
            let (key, value) = cell?;
            let path = key.split(|byte| *byte == 0).next().unwrap_or_default();
            if row != path {
                row = path.to_vec();
                rows += 1;
            }
            if synced == Synced::EachBatch && (rows > ROWS || batch.len() >= CELLS) {
                self.write(std::mem::take(&mut batch))?;
                rows = 1;
            }
            batch.put([to.as_bytes(), key.get(from.len()..).unwrap_or_default()].concat(), value);
        }
        if synced == Synced::EachBatch {
            self.write(std::mem::take(&mut batch))?;
        }
        batch.delete_range(first, end);
        self.write(batch)?;
        Ok(start.elapsed())
    }

    fn write(&self, batch: WriteBatch) -> anyhow::Result<()> {
        let mut options = WriteOptions::default();
        options.set_sync(true);
        Ok(self.db.write_opt(batch, &options)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rows_of_a_tree_move_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let mut paths = vec!["/a".to_owned()];
        paths.extend((0..250).map(|n| format!("/a/{n:03}")));
        let cell = |path: &str| (key(path, "sub", b"f"), path.as_bytes().to_vec());
        let mut cells: Vec<_> = paths.iter().map(|path| cell(path)).collect();
        cells.extend((0..2_500).map(|n| (key("/a/wide", "sub", format!("{n}").as_bytes()), vec![1])));
        let others = [cell("/0"), cell("/ab"), cell("/b0")];
        cells.extend(others.clone());
        let plain = Plain::create(dir.path(), &cells).unwrap();
        plain.move_rows("/a", "/b", Synced::EachBatch).unwrap();
        plain.move_rows("/b", "/c", Synced::Once).unwrap();
        let mut wanted: Vec<_> = others.to_vec();
        wanted.extend(cells.iter().filter(|cell| !others.contains(cell)).map(|(key, value)| {
            let rest = key.strip_prefix(b"/a").unwrap();
            ([b"/c", rest].concat(), value.clone())
        }));
        wanted.sort_unstable();
        let found: Vec<_> = plain.db.iterator(IteratorMode::Start).map(|cell| cell.unwrap()).collect();
        assert_eq!(found.len(), wanted.len());
        assert!(found.iter().zip(&wanted).all(|((k, v), (key, value))| k.as_ref() == key && v.as_ref() == value));
    }
}
