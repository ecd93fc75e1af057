//! A store in memory that lets other clients run between any two of its calls, and logs what is committed in the order
//! of the commits.
//!
//! It is for one thread: what a call does between its pauses happens at one instant.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rowdrive::engines::memory::Memory;
use rowdrive::schema::account::{self, GRANT, SESSION, SHARE, TOKEN};
use rowdrive::schema::dir::{self, SUB};
use rowdrive::schema::{CF, Timestamp, subtree_op};
use rowdrive::table::store::Result;
use rowdrive::table::{
    Outcome, Page, PageQuery, Plan, Row, RowKey, RowQuery, RowRange, ScanQuery, Store, TableSpec, Unchanged,
};

/// The tables that a state is decoded from, with their families.
const TABLES: [(&str, &[&str]); 3] =
    [(dir::TABLE, &[CF, SUB]), (subtree_op::TABLE, &[CF]), (account::TABLE, &[CF, GRANT, SESSION, TOKEN, SHARE])];

/// One of so many pauses is long enough for others to make many requests.
const LONG: u32 = 20;
/// How often a pause lets time pass, for those who wait for a lock.
const PASSES: u32 = 48;
const PASSED: Duration = Duration::from_millis(10);

/// A row as it is after a commit; without cells if it was removed.
pub struct StoredRow {
    pub table: &'static str,
    pub key: RowKey,
    pub row: Row,
}

/// What may change the answer to a request.
pub enum Event {
    /// A plan was committed. These are the rows that it has changed.
    Committed(Vec<StoredRow>),
    /// The clock was set.
    Clock(Timestamp),
}

pub struct Recorder {
    inner: Memory,
    is_atomic: bool,
    /// How often each row was written.
    written: Arc<Mutex<HashMap<(&'static str, RowKey), u64>>>,
    log: Mutex<Log>,
}

struct Log {
    events: Vec<Event>,
    rng: StdRng,
}

impl Recorder {
    /// `is_atomic`: what the store says of itself; such a store also knows later whether a row was written. Every plan is
    /// applied whole in any case.
    pub fn new(inner: Memory, seed: u64, is_atomic: bool) -> Self {
        let log = Mutex::new(Log { events: Vec::new(), rng: StdRng::seed_from_u64(seed) });
        Self { inner, is_atomic, written: Arc::default(), log }
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap()
    }

    /// The number of events since the log was taken.
    pub fn position(&self) -> usize {
        self.lock().events.len()
    }

    /// The events so far. The next ones are counted from 0 again.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.lock().events)
    }

    pub fn set_clock(&self, now: Timestamp) {
        self.lock().events.push(Event::Clock(now));
    }

    /// All rows of which a state is made.
    pub async fn rows(&self) -> Vec<StoredRow> {
        let mut found = Vec::new();
        for (table, families) in TABLES {
            let (range, row_query) = (RowRange::all(), RowQuery::families(families));
            let query = ScanQuery { table, range, row_query, limit: usize::MAX, reverse: false };
            let rows = self.inner.scan(&query).await.unwrap().into_iter();
            found.extend(rows.map(|(key, row)| StoredRow { table, key, row }));
        }
        found
    }

    /// Lets the other clients run.
    async fn pause(&self) {
        let (yields, passes) = {
            let rng = &mut self.lock().rng;
            let is_long = rng.random_ratio(1, LONG);
            (rng.random_range(0..if is_long { 100 } else { 4 }), rng.random_ratio(1, PASSES))
        };
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
        if passes {
            tokio::time::advance(PASSED).await;
        }
    }

    /// IMPORTANT: without a pause between the commit and the log. The calls of the inner store are ready at once.
    async fn commit_and_log(&self, plan: Plan) -> Result<Outcome> {
        let guarded = plan.guarded.iter().filter(|row| !row.changes.is_empty()).map(|row| (row.table, row.row.clone()));
        let others = plan.prepare.iter().chain(&plan.finish).map(|row| (row.table, row.row.clone()));
        let changed: Vec<_> = guarded.chain(others).collect();
        let outcome = self.inner.commit(plan).await?;
        if outcome != Outcome::Committed {
            return Ok(outcome);
        }
        for place in &changed {
            *self.written.lock().unwrap().entry(place.clone()).or_default() += 1;
        }
        let mut rows = Vec::new();
        for (name, key) in changed {
            let Some((table, families)) = TABLES.into_iter().find(|(table, _)| *table == name) else { continue };
            let row = self.inner.get(table, &key, &RowQuery::families(families)).await?;
            rows.push(StoredRow { table, key, row });
        }
        if !rows.is_empty() {
            self.lock().events.push(Event::Committed(rows));
        }
        Ok(outcome)
    }
}

impl Store for Recorder {
    fn create<'a>(&'a self, spec: &'a TableSpec) -> BoxFuture<'a, Result<()>> {
        self.inner.create(spec)
    }

    fn get<'a>(&'a self, table: &'static str, row: &'a [u8], query: &'a RowQuery) -> BoxFuture<'a, Result<Row>> {
        Box::pin(async move {
            self.pause().await;
            let found = self.inner.get(table, row, query).await?;
            if !self.is_atomic {
                return Ok(found);
            }
            let (all, place) = (self.written.clone(), (table, RowKey::copy_from_slice(row)));
            let times = move || all.lock().unwrap().get(&place).copied();
            let before = times();
            Ok(found.with_unchanged(Unchanged::new(move || times() == before)))
        })
    }

    fn page<'a>(&'a self, query: &'a PageQuery) -> BoxFuture<'a, Result<Page>> {
        Box::pin(async move {
            self.pause().await;
            self.inner.page(query).await
        })
    }

    fn get_many<'a>(
        &'a self,
        table: &'static str,
        queries: &'a [(RowKey, RowQuery)],
    ) -> BoxFuture<'a, Result<Vec<Row>>> {
        Box::pin(async move {
            // The contract allows an instant for each row.
            let mut rows = Vec::with_capacity(queries.len());
            for (row, query) in queries {
                self.pause().await;
                rows.push(self.inner.get(table, row, query).await?);
            }
            Ok(rows)
        })
    }

    fn scan<'a>(&'a self, query: &'a ScanQuery) -> BoxFuture<'a, Result<Vec<(RowKey, Row)>>> {
        Box::pin(async move {
            self.pause().await;
            self.inner.scan(query).await
        })
    }

    fn is_atomic(&self) -> bool {
        self.is_atomic
    }

    fn commit(&self, plan: Plan) -> BoxFuture<'_, Result<Outcome>> {
        Box::pin(async move {
            self.pause().await;
            let outcome = self.commit_and_log(plan).await;
            // What a process counts after a commit comes later than the commit.
            self.pause().await;
            outcome
        })
    }
}
