//! What operations on whole directories cost: a directory of very many files, and a tree of very many directories.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args;
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use futures_util::{StreamExt, TryStreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};
use rowdrive::drive::{Drive, PutOptions, whole_body};
use rowdrive::engines::rocks::{CommitStats, Rocks, RocksOptions};
use rowdrive::migrate;
use rowdrive::schema::{CF, DrivePath, dir, subtree_op};
use rowdrive::table::{CellCursor, PageQuery, RowCursor, RowQuery, RowRange, ScanQuery, Tables};
use tempfile::TempDir;

use crate::plain::{Plain, Synced, key};
use crate::progress::bar;
use crate::stats::median;

/// Requests at a time while a tree is made.
const AT_A_TIME: usize = 64;
/// Directories of a directory in the tree of directories; one in as many has a file.
const FAN: usize = 10;
const COPY: &str = "/copy";

#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Files of the large directory.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    files: u32,
    /// Directories of the large tree.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    directories: u32,
    /// Runs of which the median is told.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
}

/// Times of one operation on one tree, by run.
#[derive(Default)]
struct Times {
    answered: Vec<Duration>,
    /// Until nothing was left to be done in the background either.
    done: Vec<Duration>,
    plain_batches: Vec<Duration>,
    plain_once: Vec<Duration>,
}

/// A tree in a drive of its own, and its rows in a plain RocksDB.
struct Subject {
    title: String,
    drive: Drive,
    tables: Tables,
    rocks: Arc<Rocks>,
    plain: Plain,
    moved: Times,
    copied: Times,
    deleted: Times,
}

/// Seconds until a move was answered, and those that the same rows took in a RocksDB of their own.
pub struct Moved {
    pub ours: f64,
    pub plain: f64,
}

/// Moves a folder of many files to and fro.
pub struct Mover {
    subject: Subject,
    runs: u32,
}

impl Mover {
    pub async fn new(files: u32, folder: &Path) -> anyhow::Result<Self> {
        Ok(Self { subject: Subject::wide(files, folder).await?, runs: 0 })
    }

    /// What the next moves take.
    pub async fn times(&mut self, runs: u32) -> anyhow::Result<Vec<Moved>> {
        let (first, before) = (self.runs, self.subject.moved.answered.len());
        self.runs += runs;
        for run in first..self.runs {
            self.subject.run_move(run).await?;
        }
        let Times { answered, plain_batches, .. } = &self.subject.moved;
        let seconds =
            |(ours, plain): (&Duration, &Duration)| Moved { ours: ours.as_secs_f64(), plain: plain.as_secs_f64() };
        Ok(answered.iter().zip(plain_batches).skip(before).map(seconds).collect())
    }

    pub async fn close(self) {
        self.subject.drive.close().await;
    }
}

pub async fn run(options: &Options, scratch: &TempDir) -> anyhow::Result<String> {
    let wide = Subject::wide(options.files, &scratch.path().join("wide")).await?;
    let mut directories: Vec<String> = vec!["/0".to_owned()];
    for n in 1..options.directories as usize {
        let parent = directories.get((n - 1) / FAN).map_or("", String::as_str);
        directories.push(format!("{parent}/d{n}"));
    }
    let files: Vec<_> = directories.iter().step_by(FAN).map(|directory| format!("{directory}/IMG.jpg")).collect();
    let title = format!("{} directories, {} files", options.directories, files.len());
    let deep = Subject::make(title, &scratch.path().join("deep"), directories, files).await?;

    let mut subjects = [wide, deep];
    let style = ProgressStyle::with_template("{msg:42} {bar:30} {pos}/{len}")?;
    let bar = ProgressBar::new(u64::from(options.runs) * subjects.len() as u64 * 3).with_style(style);
    for run in 0..options.runs {
        for subject in &mut subjects {
            subject.run(run, &bar).await?;
        }
    }
    bar.finish_and_clear();
    let said = render(options, &subjects);
    for subject in &subjects {
        subject.drive.close().await;
    }
    Ok(said)
}

impl Subject {
    /// One directory of so many files.
    async fn wide(files: u32, folder: &Path) -> anyhow::Result<Self> {
        let title = format!("1 directory, {files} files");
        let files = (0..files).map(|n| format!("/0/IMG_{n:08}.jpg")).collect();
        Self::make(title, folder, vec!["/0".to_owned()], files).await
    }

    async fn make(title: String, folder: &Path, directories: Vec<String>, files: Vec<String>) -> anyhow::Result<Self> {
        let rocks = Arc::new(Rocks::open(&folder.join("db"), RocksOptions::default())?);
        let tables = Tables::new(rocks.clone());
        migrate::up(&tables).await?;
        let drive = Drive::open(tables.clone(), &folder.join("content")).await?;
        for directory in directories {
            drive.mkdir(&DrivePath::parse(&directory)?, "loadtest", false).await?;
        }
        let made = bar(&format!("making {title}"))?;
        let puts = stream::iter(files).map(|path| put(drive.clone(), path)).buffer_unordered(AT_A_TIME);
        puts.inspect(|_| made.inc(1)).try_collect::<()>().await?;
        made.finish_and_clear();
        let plain = Plain::create(&folder.join("plain"), &cells(&tables, &DrivePath::parse("/0")?).await?)?;
        let [moved, copied, deleted] = [Times::default(), Times::default(), Times::default()];
        Ok(Self { title, drive, tables, rocks, plain, moved, copied, deleted })
    }

    /// Moves the tree, beside the plain ones, so that all meet the same machine. Returns where it is then.
    async fn run_move(&mut self, run: u32) -> anyhow::Result<DrivePath> {
        let (from, to) = (format!("/{run}"), format!("/{}", run + 1));
        let (old, new) = (DrivePath::parse(&from)?, DrivePath::parse(&to)?);
        let start = Instant::now();
        self.drive.move_node(&old, &new, false).await?;
        self.moved.answered.push(start.elapsed());
        self.finished().await?;
        self.moved.done.push(start.elapsed());
        // There by batches, and on at once: the plain store is a step ahead of its name in each run.
        let between = format!("{to}b");
        self.moved.plain_batches.push(self.plain.move_rows(&from, &between, Synced::EachBatch)?);
        self.moved.plain_once.push(self.plain.move_rows(&between, &to, Synced::Once)?);
        Ok(new)
    }

    /// Each operation once.
    async fn run(&mut self, run: u32, bar: &ProgressBar) -> anyhow::Result<()> {
        bar.set_message(format!("move: {}", self.title));
        let new = self.run_move(run).await?;
        let copy = DrivePath::parse(COPY)?;
        bar.inc(1);

        bar.set_message(format!("copy: {}", self.title));
        let start = Instant::now();
        self.drive.copy_node(&new, &copy, false, "loadtest").await?;
        self.copied.answered.push(start.elapsed());
        self.copied.done.push(start.elapsed());
        bar.inc(1);

        bar.set_message(format!("delete: {}", self.title));
        let start = Instant::now();
        self.drive.delete_subtree(&copy).await?;
        self.deleted.answered.push(start.elapsed());
        self.finished().await?;
        self.deleted.done.push(start.elapsed());
        bar.inc(1);
        Ok(())
    }

    /// Waits until no record of an operation is left.
    async fn finished(&self) -> anyhow::Result<()> {
        let ask = ScanQuery {
            table: subtree_op::TABLE,
            range: RowRange::all(),
            row_query: RowQuery::families(&[CF]),
            limit: 1,
            reverse: false,
        };
        while !self.tables.scan(&ask).await?.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }
}

async fn put(drive: Drive, path: String) -> anyhow::Result<()> {
    let options = PutOptions { parents: false, ..PutOptions::new("image/jpeg", "loadtest") };
    drive.put(&DrivePath::parse(&path)?, options, whole_body("small")).await?;
    Ok(())
}

/// All cells of the rows of directories at and below a path.
async fn cells(tables: &Tables, root: &DrivePath) -> anyhow::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let own = RowRange { from: Bound::Included(root.key()), to: Bound::Included(root.key()) };
    let mut found = Vec::new();
    for range in [own, root.below()] {
        let mut cursor = RowCursor::new(dir::TABLE, range, RowQuery::families(&[CF]), 100);
        while let Some(rows) = cursor.next(tables).await? {
            for (path, row) in &rows {
                let path = DrivePath::from_key(path)?;
                let cells = row.family(CF).map(|cell| (key(path.as_str(), CF, &cell.qualifier), cell.value.to_vec()));
                found.extend(cells);
                children(tables, &path, &mut found).await?;
            }
        }
    }
    ensure!(!found.is_empty(), "nothing lies at {root}");
    Ok(found)
}

async fn children(tables: &Tables, path: &DrivePath, into: &mut Vec<(Vec<u8>, Vec<u8>)>) -> anyhow::Result<()> {
    let (table, row, family, limit) = (dir::TABLE, path.key(), dir::SUB, 1_000);
    let first =
        PageQuery { table, row, family, from: Bound::Unbounded, to: Bound::Unbounded, limit, unchanged: vec![] };
    let mut cursor = CellCursor::new(first);
    while let Some(cells) = cursor.next(tables).await? {
        into.extend(cells.iter().map(|cell| (key(path.as_str(), family, &cell.qualifier), cell.value.to_vec())));
    }
    Ok(())
}

/// The median; none of nothing.
fn middle(times: &[Duration]) -> Option<Duration> {
    let seconds: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
    (!times.is_empty()).then(|| Duration::from_secs_f64(median(&seconds)))
}

fn milliseconds(time: Option<Duration>) -> String {
    time.map_or_else(|| "-".into(), |time| format!("{:.1}", time.as_secs_f64() * 1e3))
}

fn render(options: &Options, subjects: &[Subject]) -> String {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(["tree", "operation", "answered ms", "done ms", "plain, batches ms", "x", "plain, once ms", "x"]);
    for Subject { title, moved, copied, deleted, .. } in subjects {
        for (operation, times) in [("move", moved), ("copy", copied), ("delete", deleted)] {
            let answered = middle(&times.answered);
            let mut row =
                vec![title.clone(), operation.into(), milliseconds(answered), milliseconds(middle(&times.done))];
            for plain in [&times.plain_batches, &times.plain_once].map(|plain| middle(plain)) {
                let ratio = answered.zip(plain).map(|(ours, plain)| ours.as_secs_f64() / plain.as_secs_f64().max(1e-9));
                row.extend([milliseconds(plain), ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.1}"))]);
            }
            table.add_row(row);
        }
    }
    let holds: Vec<_> = subjects.iter().map(|subject| hold(&subject.title, &subject.rocks.commit_stats())).collect();
    format!(
        "{} cores, {} {}; medians of {} runs, interleaved\n\n{table}\n\n{}\n\n\
         Plain: a scan of the same rows in a RocksDB of their own, a put of each under its new key, a range deletion;\n\
         one synced write for each batch as large as the drive's, or one for all. It has no reader to keep from seeing\n\
         a part, and no crash to survive between two batches. x: how many times as long the drive took to answer.\n\
         Done: nothing of the operation is left to the background either.",
        available_parallelism().map_or(0, usize::from),
        std::env::consts::OS,
        std::env::consts::ARCH,
        options.runs,
        holds.join("\n"),
    )
}

/// The making of the tree included.
fn hold(title: &str, commits: &CommitStats) -> String {
    let CommitStats { groups, longest_group, longest_sync, most_changes_of_group, .. } = commits;
    format!(
        "{title}: the commit thread was held for at most {} ms ({} ms of a sync) by one of {groups} groups; \
         the largest had {most_changes_of_group} changes",
        milliseconds(Some(*longest_group)),
        milliseconds(Some(*longest_sync)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn every_operation_is_timed_in_every_run() {
        let scratch = tempfile::tempdir().unwrap();
        let options = Options { files: 30, directories: 25, runs: 3 };
        let said = run(&options, &scratch).await.unwrap();
        let rows: Vec<_> = said.lines().filter(|line| line.starts_with("| ")).collect();
        assert_eq!(rows.len(), 7, "{said}");
        for (title, row) in [("30 files", 1), ("25 directories", 4)] {
            assert!(rows[row].contains(title) && rows[row].contains("| move"), "{said}");
            assert!(!rows[row].contains(" - "), "{said}");
        }
    }

    #[test]
    fn nothing_has_no_median() {
        let times = [5, 1, 9].map(Duration::from_millis);
        assert_eq!(milliseconds(middle(&times)), "5.0");
        assert_eq!(milliseconds(middle(&[])), "-");
    }
}
