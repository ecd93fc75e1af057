//! Tests of this engine alone. The contract suite tests the promises of every engine.

mod backlog;
mod checkpoints;
mod clean_shutdown;
mod commit_stats;
mod counters;
mod damaged_files;
mod disk_space;
mod folder;
mod groups;
mod kept_rows;
mod manifest;
mod oracle;
mod read_only;
mod reads;
mod snapshots;
mod wal_check;

use std::path::Path;

use bytes::Bytes;
use rocksdb::{FlushOptions, WaitForCompactOptions};
use tokio::sync::oneshot;

use super::disk_space::{DiskSpace, FileSystemStats};
use super::group_writer::{CommitReply, CommitRequest};
use super::{FolderLock, MAX_TOMBSTONES, Rocks, RocksOptions, folder_lock};
use crate::table::spec::{CellSize, Compression};
use crate::table::{
    Change, Check, Column, ConditionalRow, FamilySpec, KeyLifecycle, Outcome, Plan, RowChange, RowQuery, Store,
    StoreError, TableSpec,
};

/// A table with three families of different properties.
pub(super) fn spec() -> TableSpec {
    let family = |name: &str, bloom, cells, compression| FamilySpec { name: name.into(), compression, bloom, cells };
    TableSpec {
        name: "t".into(),
        lifecycle: KeyLifecycle::Reusable,
        families: vec![
            family("a", true, CellSize::Small, Compression::Light),
            family("b", false, CellSize::Small, Compression::Light),
            family("c", true, CellSize::Large, Compression::None),
        ],
    }
}

pub(super) fn options() -> RocksOptions {
    RocksOptions::with_memory(64 << 20)
}

/// With all rows kept in memory.
pub(super) fn keeping() -> RocksOptions {
    RocksOptions { kept: &[("t", "a"), ("t", "b"), ("t", "c")], ..options() }
}

pub(super) async fn open(dir: &Path) -> Rocks {
    open_with(dir, MAX_TOMBSTONES).await
}

pub(super) async fn open_keeping(dir: &Path, options: RocksOptions) -> Rocks {
    let rocks = Rocks::open(dir, options).unwrap();
    rocks.create(&spec()).await.unwrap();
    rocks
}

pub(super) fn taken(dir: &Path) -> FolderLock {
    FolderLock::lock(dir, folder_lock::SOON).unwrap()
}

pub(super) async fn open_with(dir: &Path, skip: u64) -> Rocks {
    let plenty = || Ok(FileSystemStats { free: 1 << 40, total: 1 << 41, inodes: None });
    let rocks = Rocks::open_with(taken(dir), options(), DiskSpace::probed(dir, Box::new(plenty)), skip).unwrap();
    rocks.create(&spec()).await.unwrap();
    rocks
}

impl Rocks {
    /// Flushes everything to SST files, so that the next start has nothing in memory.
    pub(super) fn flush(&self) {
        for family in &spec().families {
            let family = self.db.family("t", &family.name).unwrap();
            self.db.raw.flush_cf_opt(&family, &FlushOptions::default()).unwrap();
        }
    }

    /// Waits for background compactions, which the end of a snapshot starts too: a compaction replaces cached blocks by
    /// a new SST file that is not cached.
    pub(super) fn wait_for_compactions(&self) {
        self.db.raw.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
    }
}

pub(super) fn column(family: &'static str, qualifier: &str) -> Column {
    Column::new(family, Bytes::copy_from_slice(qualifier.as_bytes()))
}

pub(super) fn put(family: &'static str, qualifier: &str, value: &str) -> Change {
    let owned = |s: &str| Bytes::copy_from_slice(s.as_bytes());
    Change::put(family, owned(qualifier), owned(value))
}

pub(super) fn changed(row: &str, changes: Vec<Change>) -> RowChange {
    RowChange { table: "t", row: Bytes::copy_from_slice(row.as_bytes()), changes }
}

pub(super) fn guarded(row: &str, checks: Vec<Check>, changes: Vec<Change>) -> ConditionalRow {
    ConditionalRow { table: "t", row: Bytes::copy_from_slice(row.as_bytes()), checks, changes }
}

/// A plan that only changes rows, without checks.
pub(super) fn changes(rows: Vec<RowChange>) -> Plan {
    Plan { finish: rows, ..Plan::default() }
}

pub(super) fn checked(row: &str, checks: Vec<Check>, changes: Vec<Change>) -> Plan {
    Plan { guarded: vec![guarded(row, checks, changes)], ..Plan::default() }
}

/// A plan as the queue has it, and where its answer comes.
pub(super) fn request(plan: Plan) -> (CommitRequest, oneshot::Receiver<CommitReply>) {
    let (answer, answered) = oneshot::channel();
    (CommitRequest { plan, any_tombstones: false, answer }, answered)
}

pub(super) async fn commit(rocks: &Rocks, plan: Plan) {
    assert_eq!(rocks.commit(plan).await.unwrap(), Outcome::Committed);
}

pub(super) async fn value(rocks: &Rocks, row: &str, family: &'static str, qualifier: &str) -> Option<Bytes> {
    let query = RowQuery::cells(vec![column(family, qualifier)]);
    rocks.get("t", row.as_bytes(), &query).await.unwrap().get(family, qualifier.as_bytes()).cloned()
}

/// Puts `count` cells named by number into the row's family.
pub(super) async fn fill(rocks: &Rocks, row: &str, family: &'static str, count: usize) {
    for from in (0..count).step_by(20_000) {
        let cells = (from..count.min(from + 20_000)).map(|n| put(family, &format!("{n:08}"), "v")).collect();
        commit(rocks, changes(vec![changed(row, cells)])).await;
    }
}

pub(super) async fn count(rocks: &Rocks, row: &str, family: &'static str) -> usize {
    rocks.get("t", row.as_bytes(), &RowQuery::families(&[family])).await.unwrap().len()
}

pub(super) fn is_damaged<T>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Damaged(_)))
}
