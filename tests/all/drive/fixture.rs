//! A drive under test, a second handle to watch it, and the view of a watcher.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, pin_mut};
use rowdrive::check::{CheckSummary, Finding};
use rowdrive::drive::{
    Backoff, Condition, Drive, DriveError, ListQuery, NameQuery, Node, OpenFile, PutOptions, Settings, Thresholds,
    TimeQuery, UserDrive, Versions, whole_body,
};
use rowdrive::engines::memory::Memory;
use rowdrive::migrate;
use rowdrive::schema::index::by_time::Clock;
use rowdrive::schema::{
    DrivePath, dir, dir_parent, file, index::by_name, index::by_owner, index::by_time, pending_unlink, subtree_op,
};
use rowdrive::table::{RowQuery, RowRange, ScanQuery, Tables};
use tempfile::TempDir;

use super::model::{Op, OpError, View};
use crate::stepwise::{NotAtomic, Stepwise};

pub struct Fixture {
    pub store: Arc<Stepwise>,
    /// The drive on the stepwise store.
    pub drive: Drive,
    /// A drive on the inner store, for watching.
    pub watcher: Drive,
    pub tables: Tables,
    /// The data folder.
    pub data: TempDir,
}

pub fn path(text: &str) -> DrivePath {
    DrivePath::parse(text).unwrap()
}

/// A folder in memory, if `/dev/shm` exists, so that syncs cost nothing.
fn in_memory() -> TempDir {
    let shared = std::path::Path::new("/dev/shm");
    if shared.is_dir() { tempfile::tempdir_in(shared).unwrap() } else { tempfile::tempdir().unwrap() }
}

/// The content of a version: each size is used only once.
pub fn bytes(size: usize) -> Bytes {
    (0..size).map(|i| (i ^ size) as u8).collect::<Vec<u8>>().into()
}

/// A clock that advances with each call, so that no two versions have the same time.
fn clock() -> rowdrive::schema::Timestamp {
    use std::sync::atomic::{AtomicI64, Ordering};
    static NOW: AtomicI64 = AtomicI64::new(1_700_000_000_000);
    rowdrive::schema::Timestamp::from_ms(NOW.fetch_add(1, Ordering::Relaxed))
}

/// Short waits: a caller that waits for a paused operation waits in vain.
pub const SETTINGS: Settings = Settings {
    clock,
    lock_wait: Duration::from_millis(20),
    rows_per_step: 64,
    cells_per_query: 150_000,
    memory: 256 << 20,
    path_cache: 1 << 20,
    folder_keys: 1 << 20,
    limits: Thresholds::DEFAULT,
    retry: Backoff { first: Duration::from_millis(2), longest: Duration::from_millis(20) },
};

impl Fixture {
    pub async fn new(set_up: &[Op]) -> Self {
        Self::with(SETTINGS, set_up).await
    }

    /// A drive whose queries read this many index rows in a turn.
    pub async fn with_turn(turn: usize, set_up: &[Op]) -> Self {
        Self::with(Settings { rows_per_step: turn, ..SETTINGS }, set_up).await
    }

    /// A drive whose writers wait this long for each other.
    pub async fn with_lock_wait(lock_wait: Duration, set_up: &[Op]) -> Self {
        Self::with(Settings { lock_wait, ..SETTINGS }, set_up).await
    }

    /// A drive whose queries read at most this many cells, in turns of this many rows.
    pub async fn with_work(turn: usize, work: usize) -> Self {
        Self::with(Settings { rows_per_step: turn, cells_per_query: work, ..SETTINGS }, &[]).await
    }

    pub async fn with(settings: Settings, set_up: &[Op]) -> Self {
        Self::on(Stepwise::new(Arc::new(Memory::default())), settings, set_up).await
    }

    /// A drive on an atomic store, whose queries read no more than this many index rows in a turn.
    pub async fn atomic(turn: usize, set_up: &[Op]) -> Self {
        let limits = Thresholds { files_queried: turn, ..Thresholds::DEFAULT };
        Self::atomic_with(Settings { rows_per_step: turn, limits, ..SETTINGS }, set_up).await
    }

    pub async fn atomic_with(settings: Settings, set_up: &[Op]) -> Self {
        Self::on(Stepwise::atomic(Arc::new(Memory::default())), settings, set_up).await
    }

    pub async fn on(store: Arc<Stepwise>, settings: Settings, set_up: &[Op]) -> Self {
        let data = in_memory();
        let through = Tables::new(store.clone());
        migrate::up(&through).await.unwrap();
        // Its queries verify every index row, whatever the drive under test does.
        let tables = Tables::new(Arc::new(NotAtomic(store.inner())));
        migrate::up(&tables).await.unwrap();
        let drive = Drive::open_with(through, &data.path().join("content"), settings).await.unwrap();
        let watcher = drive.with_tables(tables.clone());
        let fixture = Self { store, drive, watcher, tables, data };
        // The tasks of a start make store calls too, and would make them between those of the operations.
        fixture.idle().await;
        for op in set_up {
            fixture.run(*op).await.unwrap();
        }
        fixture
    }

    /// A new process on the same store: it finishes the work that the previous one left.
    pub async fn restart(&mut self) {
        self.store.revive();
        let tables = Tables::new(self.store.clone());
        migrate::up(&tables).await.unwrap();
        self.drive = Drive::open_with(tables, &self.data.path().join("content"), SETTINGS).await.unwrap();
        self.watcher = self.drive.with_tables(self.tables.clone());
    }

    pub async fn run(&self, op: Op) -> Result<(), OpError> {
        let done = run(&self.drive, op).await;
        // The clean-up that it has asked for begins.
        tokio::task::yield_now().await;
        done
    }

    pub async fn view(&self) -> View {
        view(&self.watcher).await
    }

    /// Waits until no record of an operation is left.
    pub async fn wait_until_no_records(&self) {
        for _ in 0..400 {
            if self.count(subtree_op::TABLE, "cf").await == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("records of operations are left");
    }

    /// The number of cells in a family, over all rows.
    pub async fn count(&self, table: &'static str, family: &'static str) -> usize {
        let range = RowRange::all();
        let scan = ScanQuery { table, range, row_query: RowQuery::families(&[family]), limit: 10_000, reverse: false };
        let rows = self.tables.scan(&scan).await.unwrap();
        rows.iter().map(|(_, row)| row.len()).sum()
    }

    /// Asserts that nothing is stored except what readers see.
    pub async fn nothing_left_over(&self) {
        self.idle().await;
        let seen = self.view().await;
        let files = seen.files.len();
        assert_eq!(self.count(dir::TABLE, dir::SUB).await, files + seen.dirs.len(), "directory rows of {seen:?}");
        let large = seen.files.values().filter(|size| **size > rowdrive::content::INLINE).count();
        assert_eq!(self.count(file::TABLE, "cf").await, 2 * files, "file rows of {seen:?}");
        assert_eq!(self.count(file::TABLE, file::C).await, files - large, "inline content of {seen:?}");
        assert_eq!(self.count(by_time::TABLE, "cf").await, 2 * files, "time index entries of {seen:?}");
        assert_eq!(self.count(by_owner::TABLE, "cf").await, 2 * files, "owner index entries of {seen:?}");
        assert_eq!(self.count(by_name::TABLE, "cf").await, files, "name index entries of {seen:?}");
        assert_eq!(self.count(dir_parent::TABLE, "cf").await, seen.dirs.len(), "directory ids of {seen:?}");
        self.drive.close().await;
        assert_eq!(self.count(subtree_op::TABLE, "cf").await, 0, "records");
        assert_eq!(self.count(dir::TABLE, "cf").await, 3 * (seen.dirs.len() + 1), "cells of directory rows");
        assert_eq!(self.content_files(large).await, large, "content files of {seen:?}");
        assert_eq!(std::fs::read_dir(self.data.path().join("content/new")).unwrap().count(), 0, "staged content");
        assert_eq!(self.count(pending_unlink::TABLE, "cf").await, 0);
        let (summary, findings) = self.check(false).await;
        assert_eq!((summary.wrong, summary.strays, summary.pending), (0, 0, 0), "{findings:#?}");
        assert_eq!((summary.directories, summary.files), (seen.dirs.len() as u64 + 1, files as u64));
    }

    /// Waits for the background clean-up.
    pub async fn idle(&self) {
        let idle = tokio::time::timeout(Duration::from_secs(30), self.drive.idle()).await;
        assert!(idle.is_ok(), "clean-up does not end");
    }

    /// The findings of a check of the inner store.
    pub async fn check(&self, repair: bool) -> (CheckSummary, Vec<Finding>) {
        crate::check::run(&self.tables, self.data.path(), repair).await
    }

    /// Asserts that no visible file or directory is damaged, whatever is left over, and that a repair removes only
    /// leftovers.
    pub async fn nothing_wrong(&self) {
        let (summary, findings) = self.check(false).await;
        assert_eq!(summary.wrong, 0, "{findings:#?}");
        let seen = self.view().await;
        let (summary, findings) = self.check(true).await;
        assert!(summary.is_right(), "{findings:#?}");
        assert_eq!(self.view().await, seen);
        let (summary, findings) = self.check(false).await;
        assert_eq!((summary.wrong, summary.strays), (0, 0), "{findings:#?}");
    }

    /// Every cell of every table.
    pub async fn rows(&self) -> Vec<String> {
        let mut found = Vec::new();
        let others = [
            dir_parent::TABLE,
            by_time::TABLE,
            by_owner::TABLE,
            by_name::TABLE,
            pending_unlink::TABLE,
            subtree_op::TABLE,
        ];
        let families: [(_, &[&'static str]); 2] = [(dir::TABLE, &["cf", "sub"]), (file::TABLE, &["cf", "c"])];
        for (table, families) in families.into_iter().chain(others.map(|table| (table, &["cf"][..]))) {
            let (range, query) = (RowRange::all(), RowQuery::families(families));
            let rows = self
                .tables
                .scan(&ScanQuery { table, range, row_query: query, limit: 10_000, reverse: false })
                .await
                .unwrap();
            found.extend(rows.into_iter().map(|row| format!("{table} {row:?}")));
        }
        found
    }

    /// Counts the content files, staged ones included. Unneeded uploads are removed in the background: waits for that.
    pub async fn content_files(&self, expected: usize) -> usize {
        let mut found = 0;
        for _ in 0..200 {
            let folders = std::fs::read_dir(self.data.path().join("content")).unwrap();
            found = folders.map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap().count()).sum();
            if found == expected {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        found
    }
}

/// Runs an operation.
pub async fn run(drive: &Drive, op: Op) -> Result<(), OpError> {
    let done = match op {
        Op::Put(at, size) => put(&drive.unrestricted(), at, size, Condition::default()).await,
        Op::New(at, size) => {
            put(&drive.unrestricted(), at, size, Condition { if_none_match: Some(Versions::Any), if_match: None }).await
        }
        Op::Mkdir(at) => drive.unrestricted().mkdir(&path(at), "eva", true).await.map(|_| ()),
        Op::Rmdir(at) => drive.unrestricted().rmdir(&path(at)).await,
        Op::Delete(at) => drive.unrestricted().delete(&path(at), &Condition::default()).await,
        Op::Remove(at) => drive.unrestricted().delete_subtree(&path(at)).await,
        Op::Move(from, to, overwrite) => {
            drive.unrestricted().move_node(&path(from), &path(to), overwrite).await.map(|_| ())
        }
        Op::Copy(from, to, overwrite) => {
            drive.unrestricted().copy_node(&path(from), &path(to), overwrite, "eva").await.map(|_| ())
        }
    };
    done.map_err(|error| refused(format!("{op:?}"), error))
}

/// The reason of a refusal, as far as the model distinguishes reasons.
pub fn refused(what: String, error: DriveError) -> OpError {
    match error {
        DriveError::NotFound => OpError::NotFound,
        DriveError::Precondition => OpError::Precondition,
        DriveError::Full(_) => OpError::Full,
        DriveError::Contended | DriveError::Unknown { .. } | DriveError::Failed(_) => OpError::Unknown,
        DriveError::ParentMissing
        | DriveError::ParentIsFile
        | DriveError::IsDirectory
        | DriveError::IsFile
        | DriveError::Exists
        | DriveError::NotEmpty => OpError::Conflict,
        other => panic!("{what}: {other:?}"),
    }
}

pub async fn put(drive: &UserDrive, at: &str, size: usize, condition: Condition) -> rowdrive::drive::Result<()> {
    let options = PutOptions { condition, ..PutOptions::new("image/png", "eva") };
    Ok(drive.put(&path(at), options, whole_body(bytes(size))).await.map(|_| ())?)
}

pub fn time_query(clock: Clock) -> TimeQuery {
    TimeQuery {
        clock,
        from: None,
        to: None,
        under: None,
        creator: None,
        mime: None,
        ascending: false,
        after: None,
        limit: 10_000,
    }
}

pub fn find_all() -> NameQuery {
    NameQuery { name: String::new(), prefix: true, under: None, after: None, limit: 10_000 }
}

/// All bytes of an opened file.
pub async fn content(opened: OpenFile) -> Vec<u8> {
    let size = opened.entry.attributes.size;
    let stream = opened.body.stream(0, size);
    pin_mut!(stream);
    let mut all = Vec::new();
    while let Some(chunk) = stream.next().await {
        all.extend_from_slice(&chunk.unwrap());
    }
    all
}

/// The path and the size of a file.
pub fn path_and_size(node: Node) -> (String, usize) {
    match node {
        Node::File { path, entry } => (path.to_string(), entry.attributes.size as usize),
        Node::Directory { path, .. } => panic!("{path} is a directory"),
    }
}

fn sizes(nodes: Vec<Node>) -> BTreeMap<String, usize> {
    let count = nodes.len();
    let files: BTreeMap<_, _> = nodes.into_iter().map(path_and_size).collect();
    assert_eq!(files.len(), count, "a file is shown twice: {files:?}");
    files
}

/// The view of a drive, by every kind of read; all must agree.
pub async fn view(drive: &Drive) -> View {
    let mut seen = View::default();
    let mut below = vec![DrivePath::root()];
    while let Some(at) = below.pop() {
        let query = ListQuery { kind: None, prefix: String::new(), after: None, limit: 10_000 };
        for node in drive.unrestricted().list(&at, &query).await.unwrap().nodes {
            assert_eq!(drive.unrestricted().stat(node.path()).await.unwrap(), node);
            match node {
                Node::Directory { path, .. } => {
                    seen.dirs.insert(path.to_string());
                    below.push(path);
                }
                Node::File { path, .. } => {
                    let all = content(drive.unrestricted().open_file(&path).await.unwrap()).await;
                    assert_eq!(all, bytes(all.len()), "{path} holds other bytes");
                    seen.files.insert(path.to_string(), all.len());
                }
            }
        }
    }
    for clock in Clock::ALL {
        let by_time = drive.unrestricted().files_by_time(&time_query(clock)).await.unwrap();
        assert_eq!(sizes(by_time.nodes), seen.files, "files by time");
    }
    let by_name = drive.unrestricted().files_by_name(&find_all()).await.unwrap();
    assert_eq!(sizes(by_name.nodes), seen.files, "files by name");
    seen
}
