//! The embedded engine: RocksDB, one column family per (table, family).
//!
//! ```text
//! reads:  read, scan -> view -> db          inline while memory is enough, else on the pool
//! writes: commit (one thread) -> group -> db
//! ```
//!
//! - [`keys`]: the bytes of a key; [`files`]: files of the folder
//! - [`specs`]: `tables.json`, the properties of the tables in a folder
//! - [`options`]: RocksDB's options out of one budget of memory
//! - [`logs`], [`fragments`], [`edits`]: what the logs hold before they are replayed: the end that a crash leaves, or
//!   damage; [`closed`]: how long they were after an orderly end; [`zeros`]: what never reached the disk
//! - [`degraded`]: what is left of a damaged store, for reading; [`spoilt`]: damaged tables of one that is written
//! - [`opening`]: how a folder becomes a store; [`lock`]: that one process has it
//! - [`db`], [`tier`], [`view`]: the open database, and ways to look at it; [`causes`]: what its errors say
//! - [`read`], [`scan`], [`pool`]: rows, pages and scans
//! - [`commit`], [`group`], [`overlay`]: plans, gathered into writes
//! - [`counters`]: what the commit thread counts of its work; [`metrics`]: what operators see of the engine
//! - [`checkpoint`]: a copy of the store at one instant; [`scrub`]: every table read once
//! - [`space`]: room on the file system; [`flush`]: what is done when there is little

mod causes;
mod checkpoint;
mod closed;
mod commit;
mod counters;
mod db;
mod degraded;
mod edits;
mod files;
mod flush;
mod fragments;
mod group;
mod keys;
mod lock;
mod logs;
mod metrics;
mod opening;
mod options;
mod overlay;
mod pool;
mod read;
mod scan;
mod scrub;
mod space;
mod specs;
mod spoilt;
#[cfg(test)]
mod tests;
mod tier;
mod view;
mod zeros;

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{BoxFuture, try_join_all};
use prometheus_client::registry::Registry;
use tokio::sync::oneshot;

use self::commit::{Answer, Committer, Request};
pub use self::counters::Commits;
use self::db::{Closing, Db, Fault, Place, Read};
use self::flush::Flushes;
pub use self::lock::Folder;
use self::metrics::{Reads, Watch};
use self::options::Tuning;
use self::pool::Pool;
use self::space::Space;
use self::specs::Specs;
use self::tier::Tier;
use crate::table::store::Result;
use crate::table::{Ask, Check, Outcome, Page, PageAsk, Plan, Row, RowKey, ScanAsk, Store, StoreError, TableSpec};

/// Tombstones that a check may pass on the commit thread: about a millisecond.
const SKIP: u64 = 10_000;
/// How often a plan is sent back for a compaction before the commit thread passes whatever there is.
const COMPACTIONS: usize = 3;
/// Rows of a `get_many` that one thread of the pool reads.
const ROWS_PER_THREAD: usize = 16;
/// Rows of a scan that any thread of the pool may read; for more there are fewer threads.
const ROWS_AT_ONCE: usize = 1_000;
/// Rows of a `get_many` that are read before other requests get their turn.
const ROWS_PER_TURN: usize = 64;

/// What the engine may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RocksOptions {
    /// Bytes for the cache of blocks and for write buffers together; 32 MiB is enough to work.
    pub memory: usize,
}

impl RocksOptions {
    /// Bytes of the disk that are enough for any plan beside what is in write buffers, if those are full.
    pub fn reserve(&self) -> u64 {
        space::enough(Tuning::buffers(self.memory) as u64)
    }
}

impl Default for RocksOptions {
    fn default() -> Self {
        Self { memory: 1 << 30 }
    }
}

/// A store in a folder of this machine. What it acknowledged survives any crash.
///
/// Dropping it finishes the plans that wait and closes the database: the folder can be opened again at once.
/// That may take as long as a sync, or a read on the pool.
// IMPORTANT: fields are dropped in this order: the commit thread and the pool are let go, then their end is awaited.
pub struct Rocks {
    committer: Committer,
    pool: Pool,
    db: Arc<Db>,
    specs: Arc<Mutex<Specs>>,
    tuning: Arc<Tuning>,
    space: Arc<Space>,
    reads: Reads,
    skip: u64,
    flushes: Flushes,
    /// Whether the tables are those that were found, whatever `tables.json` says.
    degraded: bool,
    _closing: Closing,
}

impl Rocks {
    /// Refuses further plans and waits until those that wait are done. Reads go on until the store is dropped.
    pub async fn close(&self) {
        self.committer.stop().await;
    }

    /// What the commit thread has done since the store was opened.
    pub fn commits(&self) -> Commits {
        self.committer.counters().read()
    }

    /// Adds what operators see of the engine, under `rowdrive_store_`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("rowdrive_store");
        self.committer.counters().register(registry);
        self.reads.register(registry);
        let counters = self.committer.counters().clone();
        let watch = Watch::new(&self.db, counters, self.tuning.clone(), self.space.clone(), self.specs.clone());
        registry.register_collector(Box::new(watch));
    }

    async fn make(&self, spec: &TableSpec) -> Result<()> {
        if self.degraded {
            return self.db.has(spec);
        }
        let (specs, tuning, spec) = (self.specs.clone(), self.tuning.clone(), spec.clone());
        let make = move |db: &Db| {
            // Held over both steps, so that two callers do not make one column family twice.
            let mut specs = specs.lock().unwrap_or_else(PoisonError::into_inner);
            if !specs.is_made(&spec.name) {
                db.writable()?;
            }
            // IMPORTANT: the file first: a column family that it does not name keeps the database from opening.
            specs.add(&spec)?;
            db.create(&tuning, &spec)?;
            specs.made(&spec.name)
        };
        self.pool.run(make).await
    }

    async fn read_row(&self, table: &'static str, row: &[u8], ask: &Ask) -> Result<Row> {
        match read_row(&self.db, Tier::Cached, table, row, ask) {
            Ok(found) => {
                self.reads.memory(1);
                Ok(found)
            }
            Err(Fault::Store(error)) => Err(error),
            Err(Fault::Incomplete) => {
                self.reads.pool(1);
                let (row, ask) = (RowKey::copy_from_slice(row), ask.clone());
                self.pool.run(move |db| Ok(read_row(db, Tier::Disk, table, &row, &ask)?)).await
            }
        }
    }

    async fn read_page(&self, ask: &PageAsk) -> Result<Page> {
        match read_page(&self.db, Tier::Cached, ask) {
            Ok(page) => {
                self.reads.memory(1);
                Ok(page)
            }
            Err(Fault::Store(error)) => Err(error),
            Err(Fault::Incomplete) => {
                self.reads.pool(1);
                let ask = ask.clone();
                self.pool.run(move |db| Ok(read_page(db, Tier::Disk, &ask)?)).await
            }
        }
    }

    async fn read_rows(&self, table: &'static str, asks: &[(RowKey, Ask)]) -> Result<Vec<Row>> {
        let mut rows = vec![Row::default(); asks.len()];
        let mut missing = Vec::new();
        for (at, ((row, ask), found)) in asks.iter().zip(&mut rows).enumerate() {
            if at > 0 && at % ROWS_PER_TURN == 0 {
                tokio::task::yield_now().await;
            }
            match read_row(&self.db, Tier::Cached, table, row, ask) {
                Ok(row) => *found = row,
                Err(Fault::Store(error)) => return Err(error),
                Err(Fault::Incomplete) => missing.push((at, row.clone(), ask.clone())),
            }
        }
        self.reads.memory(asks.len() - missing.len());
        self.reads.pool(missing.len());
        // Several threads, so that a cold page waits for the disk a few times, not once for each row.
        let reads = missing.chunks(ROWS_PER_THREAD).map(|part| {
            let part = part.to_vec();
            self.pool.run(move |db| {
                let read =
                    |(at, row, ask): (usize, RowKey, Ask)| Ok((at, read_row(db, Tier::Disk, table, &row, &ask)?));
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

    async fn commit_plan(&self, mut plan: Plan) -> Result<Outcome> {
        self.db.writable()?;
        self.look_for_room(plan.needs_room()).await?;
        self.look_first(&plan).await?;
        let mut compacted = 0;
        loop {
            let (answer, answered) = oneshot::channel();
            let patient = compacted == COMPACTIONS;
            self.committer.send(Request { plan, patient, answer }).await?;
            match answered.await {
                Ok(Answer::Done(outcome)) => return outcome,
                Ok(Answer::Compact(same, place)) => {
                    plan = same;
                    compacted += 1;
                    self.pool.run(move |db| db.compact(&place)).await?;
                }
                Err(_) => {
                    return Err(StoreError::Unknown { cause: "the commit thread ended".into(), full: false });
                }
            }
        }
    }

    /// Meets the tombstones of families that must be empty here rather than on the commit thread, where every
    /// other plan would wait for it.
    async fn look_first(&self, plan: &Plan) -> Result<()> {
        for guarded in &plan.guarded {
            for check in &guarded.checks {
                let Check::FamilyEmpty(family) = check else { continue };
                let place = Place { table: guarded.table, family, row: guarded.row.clone() };
                if matches!(look(&self.db, Tier::Cached, &place, None), Err(Fault::Incomplete)) {
                    let skip = self.skip;
                    let look = move |db: &Db| match look(db, Tier::Disk, &place, Some(skip)) {
                        Err(Fault::Incomplete) => db.compact(&place),
                        found => Ok(found.map(|_empty| ())?),
                    };
                    self.pool.run(look).await?;
                }
            }
        }
        Ok(())
    }
}

fn read_row(db: &Db, tier: Tier, table: &'static str, row: &[u8], ask: &Ask) -> Read<Row> {
    if read::needs_one_instant(ask) {
        db.at_one_instant(tier, |view| read::row(view, table, row, ask))
    } else {
        read::row(db.view(tier), table, row, ask)
    }
}

fn read_page(db: &Db, tier: Tier, ask: &PageAsk) -> Read<Page> {
    if ask.fence.is_empty() {
        read::page(db.view(tier), ask)
    } else {
        db.at_one_instant(tier, |view| read::page(view, ask))
    }
}

fn look(db: &Db, tier: Tier, place: &Place, skip: Option<u64>) -> Read<bool> {
    let view = db.view(tier);
    view.is_empty(&view.family(place.table, place.family)?, &place.row, skip)
}

impl Store for Rocks {
    fn create<'a>(&'a self, spec: &'a TableSpec) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.make(spec))
    }

    fn get<'a>(&'a self, table: &'static str, row: &'a [u8], ask: &'a Ask) -> BoxFuture<'a, Result<Row>> {
        Box::pin(self.noted(self.read_row(table, row, ask)))
    }

    fn page<'a>(&'a self, ask: &'a PageAsk) -> BoxFuture<'a, Result<Page>> {
        Box::pin(self.noted(self.read_page(ask)))
    }

    fn get_many<'a>(&'a self, table: &'static str, asks: &'a [(RowKey, Ask)]) -> BoxFuture<'a, Result<Vec<Row>>> {
        Box::pin(self.noted(self.read_rows(table, asks)))
    }

    fn scan<'a>(&'a self, ask: &'a ScanAsk) -> BoxFuture<'a, Result<Vec<(RowKey, Row)>>> {
        let ask = ask.clone();
        let long = ask.limit > ROWS_AT_ONCE;
        let scan = move |db: &Db| Ok(db.at_one_instant(Tier::Disk, |view| scan::scan(view, &ask))?);
        let found = async move { if long { self.pool.run_long(scan).await } else { self.pool.run(scan).await } };
        Box::pin(self.noted(found))
    }

    fn writable(&self) -> Result<()> {
        self.db.writable()
    }

    fn works(&self) -> Result<()> {
        self.db.works()
    }

    fn room(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            self.db.writable()?;
            self.look_for_room(true).await
        })
    }

    fn commit(&self, plan: Plan) -> BoxFuture<'_, Result<Outcome>> {
        Box::pin(self.noted(self.commit_plan(plan)))
    }
}
