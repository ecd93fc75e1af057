//! What operations on whole directories cost: a directory of very many files, and a tree of very many directories,
//! beside the same rows in a RocksDB of their own.

use std::path::Path;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use futures_util::{StreamExt, TryStreamExt, stream};
use rowdrive::drive::{Drive, PutOptions, whole_body};
use rowdrive::engines::rocks::{CommitStats, Rocks, RocksOptions};
use rowdrive::migrate;
use rowdrive::schema::{CF, DrivePath, subtree_op};
use rowdrive::table::{RowCursor, RowQuery, RowRange, Tables};
use tempfile::TempDir;

use super::raw_rocksdb::{RawRocksDb, Synced};
use crate::progress::bar;
use crate::stats::median;

/// Requests at a time while a tree is made.
const AT_A_TIME: usize = 64;
/// Directories of a directory in the tree of directories; one in as many has a file.
const FAN: usize = 10;

#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Files of the large directory.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    files: u32,
    /// Directories of the large tree.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    directories: u32,
    /// Runs of which the median is reported.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
}

/// Seconds of one operation; not a number for what the plain store does not do.
#[derive(Clone, Copy)]
pub struct Times {
    /// Until the drive answered.
    pub answered: f64,
    /// Until nothing was left to be done in the background either.
    done: f64,
    /// Of the plain store, with one synced write for each batch as large as the drive's.
    pub batches: f64,
    /// The same with one synced write for all.
    once: f64,
}

/// A tree in a drive of its own, and its rows in a plain RocksDB.
pub struct Subject {
    title: String,
    drive: Drive,
    tables: Tables,
    rocks: Arc<Rocks>,
    raw: RawRocksDb,
    /// The tree is at `/<moves>`.
    moves: u32,
}

impl Subject {
    /// One directory of so many files.
    pub async fn wide(files: u32, folder: &Path) -> Result<Self> {
        let title = format!("1 directory, {files} files");
        let files = (0..files).map(|n| format!("/0/IMG_{n:08}.jpg")).collect();
        Self::make(title, folder, vec!["/0".to_owned()], files).await
    }

    async fn deep(count: u32, folder: &Path) -> Result<Self> {
        let mut directories: Vec<String> = vec!["/0".to_owned()];
        for n in 1..count as usize {
            let parent = directories.get((n - 1) / FAN).map_or("", String::as_str);
            directories.push(format!("{parent}/d{n}"));
        }
        let files: Vec<_> = directories.iter().step_by(FAN).map(|directory| format!("{directory}/IMG.jpg")).collect();
        Self::make(format!("{count} directories, {} files", files.len()), folder, directories, files).await
    }

    async fn make(title: String, folder: &Path, directories: Vec<String>, files: Vec<String>) -> Result<Self> {
        let rocks = Arc::new(Rocks::open(&folder.join("db"), RocksOptions::default())?);
        let tables = Tables::new(rocks.clone());
        migrate::up(&tables).await?;
        let drive = Drive::open(tables.clone(), &folder.join("content")).await?;
        let made = bar(&format!("making {title}"))?;
        for directory in directories {
            drive.mkdir(&DrivePath::parse(&directory)?, "loadtest", false).await?;
        }
        let puts = stream::iter(files).map(async |path| {
            made.inc(1);
            let options = PutOptions { parents: false, ..PutOptions::new("image/jpeg", "loadtest") };
            drive.put(&DrivePath::parse(&path)?, options, whole_body("small")).await.map_err(anyhow::Error::from)
        });
        puts.buffer_unordered(AT_A_TIME).try_for_each(async |_| Ok(())).await?;
        made.finish_and_clear();
        let raw = RawRocksDb::copy(&folder.join("db"), &folder.join("raw"))?;
        Ok(Self { title, drive, tables, rocks, raw, moves: 0 })
    }

    /// Moves the tree, and then its rows in the plain store.
    pub async fn run_move(&mut self) -> Result<Times> {
        let (from, to) = (format!("/{}", self.moves), format!("/{}", self.moves + 1));
        let (old, new) = (DrivePath::parse(&from)?, DrivePath::parse(&to)?);
        self.moves += 1;
        let times = self.timed(self.drive.move_node(&old, &new, false)).await?;
        // In the plain store by batches to a place between, and from there at once.
        let between = format!("{to}b");
        let batches = self.raw.move_rows(&from, &between, Synced::EachBatch)?;
        Ok(Times { batches, once: self.raw.move_rows(&between, &to, Synced::Once)?, ..times })
    }

    /// Each operation once: a move, a copy, a deletion.
    async fn run(&mut self) -> Result<[Times; 3]> {
        let moved = self.run_move().await?;
        let (tree, copy) = (DrivePath::parse(&format!("/{}", self.moves))?, DrivePath::parse("/copy")?);
        let copied = self.timed(self.drive.copy_node(&tree, &copy, false, "loadtest")).await?;
        Ok([moved, copied, self.timed(self.drive.delete_subtree(&copy)).await?])
    }

    async fn timed<T, E>(&self, operation: impl Future<Output = Result<T, E>>) -> Result<Times>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let start = Instant::now();
        operation.await?;
        let answered = start.elapsed().as_secs_f64();
        // A record of each operation exists until nothing of it is left.
        let records = || RowCursor::new(subtree_op::TABLE, RowRange::all(), RowQuery::families(&[CF]), 1);
        while records().next(&self.tables).await?.is_some() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(Times { answered, done: start.elapsed().as_secs_f64(), batches: f64::NAN, once: f64::NAN })
    }

    pub async fn close(self) {
        self.drive.close().await;
    }
}

/// A table of the medians of all operations on both trees.
pub async fn run(options: &Options, scratch: &TempDir) -> Result<String> {
    let wide = Subject::wide(options.files, &scratch.path().join("wide")).await?;
    let mut subjects = [wide, Subject::deep(options.directories, &scratch.path().join("deep")).await?];
    let mut times = [Vec::new(), Vec::new()];
    let title = bar("moving, copying and deleting")?;
    for _ in 0..options.runs {
        for (subject, times) in subjects.iter_mut().zip(&mut times) {
            times.push(subject.run().await?);
            title.inc(1);
        }
    }
    title.finish_and_clear();
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(["tree", "operation", "answered ms", "done ms", "plain, batches ms", "x", "plain, once ms", "x"]);
    let mut commits = String::new();
    for (subject, times) in subjects.into_iter().zip(times) {
        for (operation, name) in ["move", "copy", "delete"].into_iter().enumerate() {
            let times: Vec<Times> = times.iter().filter_map(|run| run.get(operation).copied()).collect();
            let of = |of: fn(&Times) -> f64| median(&times.iter().map(of).collect::<Vec<_>>()) * 1e3;
            let (answered, batches, once) = (of(|t| t.answered), of(|t| t.batches), of(|t| t.once));
            let columns = [answered, of(|t| t.done), batches, answered / batches, once, answered / once];
            let columns = columns.map(|ms| if ms.is_nan() { "-".to_owned() } else { format!("{ms:.1}") });
            table.add_row([subject.title.clone(), name.to_owned()].into_iter().chain(columns));
        }
        let CommitStats { groups, longest_group, longest_sync, most_changes_of_group, .. } =
            subject.rocks.commit_stats();
        commits += &format!(
            "{}: the commit thread was busy for at most {longest_group:.1?} ({longest_sync:.1?} of a sync) by one of \
             {groups} groups; the largest had {most_changes_of_group} changes\n",
            subject.title,
        );
        subject.close().await;
    }
    Ok(format!(
        "{} cores, {} {}; medians of {} runs, interleaved\n\n{table}\n\n{commits}\n\
         Plain: a scan of the same rows in a RocksDB of their own, a put of each under its new key, a range deletion;\n\
         one synced write for each batch as large as the drive's, or one for all. It has no reader to keep from seeing\n\
         a part, and no crash to survive between two batches. x: how many times as long the drive took to answer.\n\
         Done: nothing of the operation is left to the background either.",
        available_parallelism().map_or(0, usize::from),
        std::env::consts::OS,
        std::env::consts::ARCH,
        options.runs,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn every_operation_is_timed_on_both_trees() {
        let scratch = tempfile::tempdir().unwrap();
        let options = Options { files: 30, directories: 25, runs: 3 };
        let text = run(&options, &scratch).await.unwrap();
        let rows: Vec<_> = text.lines().filter(|line| line.starts_with("| ")).collect();
        assert_eq!(rows.len(), 7, "{text}");
        for (row, title) in [(1, "30 files"), (4, "25 directories")] {
            assert!(rows[row].contains(title) && rows[row].contains("| move"), "{text}");
            assert!(!rows[row].contains(" - ") && rows[row + 1].contains(" - "), "{text}");
        }
    }
}
