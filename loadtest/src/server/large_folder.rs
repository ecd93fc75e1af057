//! A folder of very many files in a drive, and its rows in a plain RocksDB: what moving it costs beside the least.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::{StreamExt, TryStreamExt, stream};
use rowdrive::drive::{Drive, PutOptions, whole_body};
use rowdrive::engines::rocks::{Rocks, RocksOptions};
use rowdrive::migrate;
use rowdrive::schema::{CF, DrivePath, subtree_op};
use rowdrive::table::{RowCursor, RowQuery, RowRange, Tables};

use super::raw_rocksdb::RawRocksDb;
use crate::progress::bar;

/// Requests at a time while the folder is filled.
const AT_A_TIME: usize = 64;

pub struct LargeFolder {
    drive: Drive,
    tables: Tables,
    raw: RawRocksDb,
    /// The folder is at `/<moves>`.
    moves: u32,
}

impl LargeFolder {
    pub async fn create(files: u32, at: &Path) -> Result<Self> {
        let tables = Tables::new(Arc::new(Rocks::open(&at.join("db"), RocksOptions::default())?));
        migrate::up(&tables).await?;
        let drive = Drive::open(tables.clone(), &at.join("content")).await?;
        drive.mkdir(&DrivePath::parse("/0")?, "loadtest", false).await?;
        let made = bar(&format!("making a folder of {files}"))?;
        let puts = stream::iter(0..files).map(async |n| {
            made.inc(1);
            let options = PutOptions { parents: false, ..PutOptions::new("image/jpeg", "loadtest") };
            let path = DrivePath::parse(&format!("/0/IMG_{n:08}.jpg"))?;
            drive.put(&path, options, whole_body("small")).await.map_err(anyhow::Error::from)
        });
        puts.buffer_unordered(AT_A_TIME).try_for_each(async |_| Ok(())).await?;
        made.finish_and_clear();
        let raw = RawRocksDb::copy(&at.join("db"), &at.join("raw"))?;
        Ok(Self { drive, tables, raw, moves: 0 })
    }

    /// Moves the folder, and then its rows in the plain store, in batches as large as the drive's: seconds of both.
    pub async fn run_move(&mut self) -> Result<(f64, f64)> {
        let (from, to) = (format!("/{}", self.moves), format!("/{}", self.moves + 1));
        self.moves += 1;
        let start = Instant::now();
        self.drive.move_node(&DrivePath::parse(&from)?, &DrivePath::parse(&to)?, false).await?;
        let answered = start.elapsed().as_secs_f64();
        // A record of the move exists until nothing of it is left to the background.
        let records = || RowCursor::new(subtree_op::TABLE, RowRange::all(), RowQuery::families(&[CF]), 1);
        while records().next(&self.tables).await?.is_some() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok((answered, self.raw.move_rows(&from, &to)?))
    }

    pub async fn close(self) {
        self.drive.close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn it_moves_on_both_sides_and_nothing_of_a_move_is_left() {
        let at = tempfile::tempdir().unwrap();
        let mut folder = LargeFolder::create(30, at.path()).await.unwrap();
        for moves in 1..=3 {
            let (ours, plain) = folder.run_move().await.unwrap();
            assert!(ours > 0.0 && plain > 0.0);
            let path = |moves: u32| DrivePath::parse(&format!("/{moves}/IMG_00000029.jpg")).unwrap();
            assert!(
                folder.drive.stat(&path(moves)).await.is_ok() && folder.drive.stat(&path(moves - 1)).await.is_err()
            );
        }
        folder.close().await;
    }
}
