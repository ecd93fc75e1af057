//! What an operation makes a store and this process do: it explains a rate without a clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use futures_util::TryFutureExt;
use futures_util::future::BoxFuture;
use rowdrive::engines::rocks::{CommitStats, Rocks};
use rowdrive::table::{
    Cell, Outcome, Page, PageQuery, Plan, Row, RowKey, RowQuery, ScanQuery, Store, StoreError, TableSpec,
};

use crate::report::model::Work;

/// A RocksDB store that counts what is read from it.
pub struct CountingStore {
    store: Rocks,
    /// Reads, rows, cells, bytes and checks.
    counters: [AtomicU64; 5],
}

impl CountingStore {
    pub fn new(store: Rocks) -> Self {
        Self { store, counters: Default::default() }
    }

    fn add(&self, more: [usize; 5]) {
        for (counter, more) in self.counters.iter().zip(more).filter(|(_, more)| *more > 0) {
            counter.fetch_add(more as u64, Ordering::Relaxed);
        }
    }

    /// Counts one read of a store: so many rows with these cells, each with the bytes of its qualifier and its value.
    fn count<'a>(&self, rows: usize, cells: impl Iterator<Item = &'a Cell>) {
        let size = |cell: &Cell| cell.qualifier.len() + cell.value.len();
        let (cells, bytes) = cells.fold((0, 0), |(cells, bytes), cell| (cells + 1, bytes + size(cell)));
        self.add([1, rows, cells, bytes, 0]);
    }

    fn count_row(&self, row: &Row) {
        self.count(usize::from(!row.is_empty()), row.cells().iter().map(|(_, cell)| cell));
    }
}

type Answer<T> = Result<T, StoreError>;

impl Store for CountingStore {
    fn create<'a>(&'a self, spec: &'a TableSpec) -> BoxFuture<'a, Answer<()>> {
        self.store.create(spec)
    }

    fn get<'a>(&'a self, table: &'static str, row: &'a [u8], query: &'a RowQuery) -> BoxFuture<'a, Answer<Row>> {
        Box::pin(self.store.get(table, row, query).inspect_ok(|row| self.count_row(row)))
    }

    fn page<'a>(&'a self, query: &'a PageQuery) -> BoxFuture<'a, Answer<Page>> {
        Box::pin(self.store.page(query).inspect_ok(|page| self.count(1, page.cells.iter())))
    }

    fn get_many<'a>(&'a self, table: &'static str, asked: &'a [(RowKey, RowQuery)]) -> BoxFuture<'a, Answer<Vec<Row>>> {
        let counted = |rows: &Vec<Row>| rows.iter().for_each(|row| self.count_row(row));
        Box::pin(self.store.get_many(table, asked).inspect_ok(counted))
    }

    fn scan<'a>(&'a self, query: &'a ScanQuery) -> BoxFuture<'a, Answer<Vec<(RowKey, Row)>>> {
        Box::pin(self.store.scan(query).inspect_ok(|rows| {
            self.count(rows.len(), rows.iter().flat_map(|(_, row)| row.cells()).map(|(_, cell)| cell));
        }))
    }

    fn is_atomic(&self) -> bool {
        self.store.is_atomic()
    }

    fn writable(&self) -> Answer<()> {
        self.store.writable()
    }

    fn has_space_for(&self, bytes: u64) -> BoxFuture<'_, Answer<()>> {
        self.store.has_space_for(bytes)
    }

    fn commit(&self, plan: Plan) -> BoxFuture<'_, Answer<Outcome>> {
        self.add([0, 0, 0, 0, plan.guarded.iter().map(|row| row.checks.len()).sum()]);
        self.store.commit(plan)
    }
}

/// Where a layout's work is read: in the time of this process and, if it has one, in its store.
#[derive(Default)]
pub struct Meter(pub Option<Arc<CountingStore>>);

impl Meter {
    /// Everything since the start of this process, or since the store was opened.
    pub fn read(&self) -> Result<Work> {
        let mut work = Work { cpu_us: cpu_seconds()? * 1e6, ..Work::default() };
        if let Some(counted) = &self.0 {
            let read = counted.counters.each_ref().map(|counter| Some(counter.load(Ordering::Relaxed) as f64));
            [work.reads, work.rows_read, work.cells_read, work.bytes_read, work.checks] = read;
            let CommitStats { plans, changes, bytes, syncs, .. } = counted.store.commit_stats();
            let written = [plans, changes, bytes, syncs].map(|count| Some(count as f64));
            [work.commits, work.cells_written, work.bytes_written, work.syncs] = written;
        }
        Ok(work)
    }
}

/// Of all threads of this process.
pub fn cpu_seconds() -> Result<f64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Ok(Duration::try_from(time)?.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use rowdrive::engines::rocks::RocksOptions;
    use rowdrive::table::spec::CellSize;
    use rowdrive::table::{Change, Check, Column, ConditionalRow, FamilySpec, KeyLifecycle, RowRange, Tables};

    use super::*;

    #[tokio::test]
    async fn reads_and_writes_of_a_store_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let counted = Arc::new(CountingStore::new(Rocks::open(dir.path(), RocksOptions::default()).unwrap()));
        let meter = Meter(Some(counted.clone()));
        let tables = Tables::new(counted);
        let cf = FamilySpec { name: "cf".into(), bloom: true, cells: CellSize::Small, compression: Default::default() };
        let spec = TableSpec { name: "t".into(), lifecycle: KeyLifecycle::Reusable, families: vec![cf] };
        tables.create(&spec).await.unwrap();
        for key in ["a", "b"] {
            let changes =
                [("q", "12345"), ("r", "1")].map(|(q, value)| Change::put("cf", q.as_bytes(), value.as_bytes()));
            let checks = vec![Check::Absent(Column::new("cf", "q".as_bytes()))];
            let guarded = vec![ConditionalRow { table: "t", row: key.into(), checks, changes: changes.into() }];
            assert_eq!(tables.commit(Plan { guarded, ..Plan::default() }).await.unwrap(), Outcome::Committed);
        }
        let query = RowQuery::families(&["cf"]);
        tables.get("t", b"a", &query).await.unwrap();
        tables.get("t", b"missing", &query).await.unwrap();
        let scan = ScanQuery { table: "t", range: RowRange::all(), row_query: query, limit: 10, reverse: false };
        assert_eq!(tables.scan(&scan).await.unwrap().len(), 2);
        let work = meter.read().unwrap();
        // A get of one row, one of no row, and a scan of two; each row has two cells of 1 + 5 and 1 + 1 bytes.
        let read = [work.reads, work.rows_read, work.cells_read, work.bytes_read];
        assert_eq!(read, [3.0, 3.0, 6.0, 24.0].map(Some));
        let written = [work.checks, work.commits, work.cells_written, work.syncs];
        assert_eq!(written, [2.0, 2.0, 4.0, 2.0].map(Some));
        assert_eq!(Meter::default().read().unwrap().reads, None);
    }
}
