//! The embedded engine: RocksDB, one column family per (table, family).
//!
//! ```text
//! reads:  read, scan -> snapshot -> db      inline if memory holds the data, else on the blocking pool
//! writes: commit (one at a time) -> group_writer -> group -> db
//! ```
//!
//! Words: the *WAL* is RocksDB's write-ahead log, the *info log* its file `LOG`; a *table* is one of the store
//! contract, an *SST file* one of RocksDB's. A *store* is a folder with a database and `tables.json`.
//!
//! - The folder: [`folder_lock`], [`files`]; [`tables_file`]: `tables.json`, the tables and their properties;
//!   [`clean_shutdown`]: `closed`, written by an orderly close; [`damaged_files`]: `spoilt`, the damaged SST files
//! - Before RocksDB opens it: [`wal_check`] distinguishes damage of the WAL and the `MANIFEST` from the torn end after
//!   a crash, with [`log_format`] (both files), [`version_edit`] (the `MANIFEST`) and [`unwritten`] (tails of
//!   zeros)
//! - Opening: [`open`]; [`options`]: RocksDB's options for a memory budget; [`degraded`]: opens what can be read of a
//!   damaged store
//! - The open database: [`raw`]: types of the `rocksdb` crate; [`db`]; [`error_text`]: what its messages mean;
//!   [`read_tier`], [`snapshot`]: from where and of which instant a read is; [`keys`]: the bytes of a key
//! - Reads: [`read`], [`scan`], [`blocking_pool`]; [`kept_rows`]: rows that are read often; [`sst_reader`], [`scrub`]: SST
//!   files read whole
//! - Writes: [`commit`], [`group_writer`], [`group`], [`overlay`]: plans are validated one by one and written in groups;
//!   [`write_state`]: whether writes are accepted, with [`full_disk_failures`]; [`backlog`]: groups wait for flushes and
//!   compactions; [`write_error`]: why a group could not be written
//! - Disk space: [`disk_space`]: the reserve; [`compaction_space`]: what a compaction takes besides; [`flush`]: flushes
//!   that free space; [`checkpoint`]: a copy for a backup
//! - [`commit_stats`], [`metrics`]: counters of the commits, and metrics of the engine

mod backlog;
mod blocking_pool;
mod checkpoint;
mod clean_shutdown;
mod commit;
mod commit_stats;
mod compaction_space;
mod damaged_files;
mod db;
mod degraded;
mod disk_space;
mod error_text;
mod files;
mod flush;
mod folder_lock;
mod full_disk_failures;
mod group;
mod group_writer;
mod kept_rows;
mod keys;
mod log_format;
mod metrics;
mod open;
mod options;
mod overlay;
mod raw;
mod read;
mod read_tier;
mod row_buffer;
mod scan;
mod scrub;
mod snapshot;
mod sst_reader;
mod tables_file;
#[cfg(test)]
mod tests;
mod unwritten;
mod version_edit;
mod wal_check;
mod write_error;
mod write_state;

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{BoxFuture, try_join_all};
use prometheus_client::registry::Registry;
use tokio::sync::oneshot;

use self::blocking_pool::BlockingPool;
use self::commit::CommitQueue;
pub use self::commit_stats::CommitStats;
use self::compaction_space::CompactionSpace;
use self::db::{CloseWaiter, Db, RowFamily};
use self::disk_space::DiskSpace;
use self::flush::FlushState;
pub use self::folder_lock::FolderLock;
use self::group_writer::{CommitReply, CommitRequest};
use self::kept_rows::Found;
pub use self::kept_rows::TableFamily;
use self::metrics::{ReadCounters, StoreCollector};
pub use self::open::RocksOptions;
use self::options::Tuning;
use self::raw::{ReadError, ReadResult};
use self::read_tier::ReadTier;
use self::tables_file::TablesFile;
use crate::table::store::Result;
use crate::table::{
    Check, Outcome, Page, PageQuery, Plan, Row, RowKey, RowQuery, ScanQuery, Store, StoreError, TableSpec,
};

/// Tombstones that a check of a group may skip: about a millisecond.
const MAX_TOMBSTONES: u64 = 10_000;
/// Compactions for one plan, until its checks may skip any number of tombstones.
const MAX_COMPACTIONS: usize = 3;
/// Rows of a `get_many` that one thread of the pool reads.
const ROWS_PER_THREAD: usize = 16;
/// Rows of a scan that any thread of the pool may read; scans of more share half of the threads.
const SHORT_SCAN_ROWS: usize = 1_000;
/// Rows of a `get_many` that are read before it yields to other tasks.
const ROWS_PER_YIELD: usize = 64;

/// A store in a local folder. Acknowledged plans survive any crash.
///
/// Dropping it commits the queued plans and closes the database; the folder can be opened again at once. The drop may
/// block as long as a sync, or a read on the pool.
// IMPORTANT: the order of the fields is the order in which they are dropped: release the commit thread and the pool,
// then wait until both have ended.
pub struct Rocks {
    committer: CommitQueue,
    pool: BlockingPool,
    db: Arc<Db>,
    tables: Arc<Mutex<TablesFile>>,
    tuning: Arc<Tuning>,
    space: Arc<DiskSpace>,
    compactions: CompactionSpace,
    reads: ReadCounters,
    skip: u64,
    flushes: FlushState,
    /// Whether the column families are those of the database, even if `tables.json` differs.
    degraded: bool,
    _closing: CloseWaiter,
}

impl Rocks {
    /// Refuses further plans, and waits until the queued ones are committed. Reads work until the store is dropped.
    pub async fn close(&self) {
        self.committer.stop().await;
    }

    /// What was committed since the store was opened.
    pub fn commit_stats(&self) -> CommitStats {
        self.committer.counters().read()
    }

    /// Registers the metrics of the engine, under `rowdrive_store_`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("rowdrive_store");
        self.committer.counters().register(registry);
        self.reads.register(registry);
        let counters = self.committer.counters().clone();
        let watch =
            StoreCollector::new(&self.db, counters, self.tuning.clone(), self.space.clone(), self.tables.clone());
        registry.register_collector(Box::new(watch));
    }

    async fn create_table(&self, spec: &TableSpec) -> Result<()> {
        if self.degraded {
            return self.db.check_table(spec);
        }
        let (tables, tuning, spec) = (self.tables.clone(), self.tuning.clone(), spec.clone());
        let create = move |db: &Db| {
            // Keep the lock over all steps, so that two callers do not create one column family twice.
            let mut tables = tables.lock().unwrap_or_else(PoisonError::into_inner);
            if !tables.is_created(&spec.name) {
                db.writable()?;
            }
            // IMPORTANT: the file first: the database does not open with a column family that the file does not name.
            tables.add(&spec)?;
            db.create(&tuning, &spec)?;
            tables.set_created(&spec.name)
        };
        self.pool.run(create).await
    }

    async fn read_row(&self, table: &'static str, row: &[u8], query: &RowQuery) -> Result<Row> {
        match read_row(&self.db, ReadTier::Cached, table, row, query) {
            Ok(found) => {
                self.reads.memory(1);
                Ok(found)
            }
            Err(ReadError::Store(error)) => Err(error),
            Err(ReadError::Incomplete) => {
                self.reads.pool(1);
                let (row, query) = (RowKey::copy_from_slice(row), query.clone());
                self.pool.run(move |db| Ok(read_row(db, ReadTier::Disk, table, &row, &query)?)).await
            }
        }
    }

    async fn read_page(&self, query: &PageQuery) -> Result<Page> {
        match read_page(&self.db, ReadTier::Cached, query) {
            Ok(page) => {
                self.reads.memory(1);
                Ok(page)
            }
            Err(ReadError::Store(error)) => Err(error),
            Err(ReadError::Incomplete) => {
                self.reads.pool(1);
                let query = query.clone();
                self.pool.run(move |db| Ok(read_page(db, ReadTier::Disk, &query)?)).await
            }
        }
    }

    async fn read_rows(&self, table: &'static str, queries: &[(RowKey, RowQuery)]) -> Result<Vec<Row>> {
        let mut rows = vec![Row::default(); queries.len()];
        let mut missing = Vec::new();
        for (at, ((row, query), found)) in queries.iter().zip(&mut rows).enumerate() {
            if at > 0 && at % ROWS_PER_YIELD == 0 {
                tokio::task::yield_now().await;
            }
            match read_row(&self.db, ReadTier::Cached, table, row, query) {
                Ok(row) => *found = row,
                Err(ReadError::Store(error)) => return Err(error),
                Err(ReadError::Incomplete) => missing.push((at, row.clone(), query.clone())),
            }
        }
        self.reads.memory(queries.len() - missing.len());
        self.reads.pool(missing.len());
        // Read with several threads: then a page that is not cached waits for the disk a few times, not once for each
        // row.
        let reads = missing.chunks(ROWS_PER_THREAD).map(|part| {
            let part = part.to_vec();
            self.pool.run(move |db| {
                let read = |(at, row, query): (usize, RowKey, RowQuery)| {
                    Ok((at, read_row(db, ReadTier::Disk, table, &row, &query)?))
                };
                part.into_iter().map(read).collect::<Result<Vec<_>>>()
            })
        });
        for (at, row) in try_join_all(reads).await?.into_iter().flatten() {
            if let Some(found) = rows.get_mut(at) {
                *found = row;
            }
        }
        Ok(rows)
    }

    async fn read_scan(&self, query: &ScanQuery) -> Result<Vec<(RowKey, Row)>> {
        let long = query.limit > SHORT_SCAN_ROWS;
        if !long {
            match scan_rows(&self.db, ReadTier::Cached, query) {
                Ok(found) => {
                    // A query that reads scan after scan must let other tasks of this thread run in between.
                    tokio::task::yield_now().await;
                    return Ok(found);
                }
                Err(ReadError::Store(error)) => return Err(error),
                Err(ReadError::Incomplete) => {}
            }
        }
        let query = query.clone();
        let scan = move |db: &Db| Ok(scan_rows(db, ReadTier::Disk, &query)?);
        if long { self.pool.run_long(scan).await } else { self.pool.run(scan).await }
    }

    async fn commit_plan(&self, mut plan: Plan) -> Result<Outcome> {
        self.db.check_stopped()?;
        let needs_space = plan.needs_space();
        let mut in_flight = self.compactions.begin(plan.bytes());
        self.ensure_space(needs_space).await?;
        self.precheck_empty(&plan).await?;
        in_flight.count_as_written();
        let mut compacted = 0;
        let _caller = self.committer.caller();
        loop {
            let (answer, answered) = oneshot::channel();
            let any_tombstones = compacted == MAX_COMPACTIONS;
            self.committer.send(CommitRequest { plan, any_tombstones, answer }).await?;
            match answered.await {
                Ok(CommitReply::Done(outcome)) => {
                    if !needs_space {
                        self.note_delete();
                    }
                    return outcome;
                }
                Ok(CommitReply::Compact(same, place)) => {
                    plan = same;
                    compacted += 1;
                    self.pool.run(move |db| db.compact(&place)).await?;
                }
                Err(_) => {
                    return Err(StoreError::Unknown { cause: "the write ended without an answer".into(), full: false });
                }
            }
        }
    }

    /// Reads the families that must be empty before the plan is queued, and compacts those with too many tombstones: on
    /// the commit thread every other plan would wait for that.
    async fn precheck_empty(&self, plan: &Plan) -> Result<()> {
        for guarded in &plan.guarded {
            for check in &guarded.checks {
                let Check::FamilyEmpty(family) = check else { continue };
                let place = RowFamily { table: guarded.table, family, row: guarded.row.clone() };
                if matches!(is_family_empty(&self.db, ReadTier::Cached, &place, None), Err(ReadError::Incomplete)) {
                    let skip = self.skip;
                    let is_family_empty = move |db: &Db| match is_family_empty(db, ReadTier::Disk, &place, Some(skip)) {
                        Err(ReadError::Incomplete) => db.compact(&place),
                        found => Ok(found.map(|_empty| ())?),
                    };
                    self.pool.run(is_family_empty).await?;
                }
            }
        }
        Ok(())
    }
}

fn read_row(db: &Db, tier: ReadTier, table: &'static str, row: &[u8], query: &RowQuery) -> ReadResult<Row> {
    let versions = match db.kept.find(table, row, query) {
        Found::Kept(found) => return Ok(found),
        Found::Missing(versions) => versions,
    };
    let found = if read::needs_snapshot(query) {
        db.with_snapshot(tier, |reader| read::row(reader, table, row, query))
    } else {
        read::row(db.reader(tier), table, row, query)
    }?;
    Ok(match versions {
        Some(versions) => db.kept.keep((table, row, query), versions, found),
        None => found,
    })
}

fn read_page(db: &Db, tier: ReadTier, query: &PageQuery) -> ReadResult<Page> {
    if query.unchanged.is_empty() {
        read::page(db.reader(tier), query)
    } else {
        db.with_snapshot(tier, |reader| read::page(reader, query))
    }
}

fn scan_rows(db: &Db, tier: ReadTier, query: &ScanQuery) -> ReadResult<Vec<(RowKey, Row)>> {
    db.with_snapshot(tier, |reader| scan::scan(reader, query))
}

fn is_family_empty(db: &Db, tier: ReadTier, place: &RowFamily, skip: Option<u64>) -> ReadResult<bool> {
    let reader = db.reader(tier);
    reader.is_empty(&reader.family(place.table, place.family)?, &place.row, skip)
}

impl Store for Rocks {
    fn create<'a>(&'a self, spec: &'a TableSpec) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.create_table(spec))
    }

    fn get<'a>(&'a self, table: &'static str, row: &'a [u8], query: &'a RowQuery) -> BoxFuture<'a, Result<Row>> {
        Box::pin(self.record_damage(self.read_row(table, row, query)))
    }

    fn page<'a>(&'a self, query: &'a PageQuery) -> BoxFuture<'a, Result<Page>> {
        Box::pin(self.record_damage(self.read_page(query)))
    }

    fn get_many<'a>(
        &'a self,
        table: &'static str,
        queries: &'a [(RowKey, RowQuery)],
    ) -> BoxFuture<'a, Result<Vec<Row>>> {
        Box::pin(self.record_damage(self.read_rows(table, queries)))
    }

    fn scan<'a>(&'a self, query: &'a ScanQuery) -> BoxFuture<'a, Result<Vec<(RowKey, Row)>>> {
        Box::pin(self.record_damage(self.read_scan(query)))
    }

    /// A plan is one write batch, and a scan has one snapshot. A damaged store does not count as atomic, since some
    /// of its rows may be missing: so queries verify.
    fn is_atomic(&self) -> bool {
        !self.degraded
    }

    fn writable(&self) -> Result<()> {
        self.db.writable()
    }

    fn known_writable(&self) -> Result<()> {
        self.db.check_stopped()
    }

    fn ready(&self) -> Result<()> {
        self.db.ready()
    }

    fn has_space_for(&self, bytes: u64) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.db.check_stopped()?;
            self.ensure_space(true).await?;
            if bytes == 0 { Ok(()) } else { self.space.check(self.kept_free_now().saturating_add(bytes)) }
        })
    }

    fn free_deleted_space(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.flush_to_free())
    }

    fn background_space(&self, free: u64) -> u64 {
        self.kept_free(free)
    }

    fn commit(&self, plan: Plan) -> BoxFuture<'_, Result<Outcome>> {
        Box::pin(self.record_damage(self.commit_plan(plan)))
    }
}
