//! What an operation makes a store and this process do: it explains a rate without a clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use futures_util::future::BoxFuture;
use rowdrive::engines::rocks::Rocks;
use rowdrive::table::{
    Cell, Outcome, Page, PageQuery, Plan, Row, RowKey, RowQuery, ScanQuery, Store, StoreError, TableSpec,
};

use crate::report::model::Work;

/// A RocksDB store that counts what is read from it.
pub struct CountingStore {
    store: Rocks,
    reads: AtomicU64,
    rows: AtomicU64,
    cells: AtomicU64,
    bytes: AtomicU64,
    checks: AtomicU64,
}

impl CountingStore {
    pub fn new(store: Rocks) -> Self {
        let [reads, rows, cells, bytes, checks] = [0; 5].map(AtomicU64::new);
        Self { store, reads, rows, cells, bytes, checks }
    }

    /// Counts one read of a store: so many rows with these cells, each with the bytes of its qualifier and its value.
    fn count<'a>(&self, rows: usize, cells: impl Iterator<Item = &'a Cell>) {
        let (mut number, mut bytes) = (0, 0);
        for cell in cells {
            number += 1;
            bytes += cell.qualifier.len() + cell.value.len();
        }
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
        self.cells.fetch_add(number, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
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
        Box::pin(async move {
            let row = self.store.get(table, row, query).await?;
            self.count_row(&row);
            Ok(row)
        })
    }

    fn page<'a>(&'a self, query: &'a PageQuery) -> BoxFuture<'a, Answer<Page>> {
        Box::pin(async move {
            let page = self.store.page(query).await?;
            self.count(1, page.cells.iter());
            Ok(page)
        })
    }

    fn get_many<'a>(
        &'a self,
        table: &'static str,
        queries: &'a [(RowKey, RowQuery)],
    ) -> BoxFuture<'a, Answer<Vec<Row>>> {
        Box::pin(async move {
            let rows = self.store.get_many(table, queries).await?;
            rows.iter().for_each(|row| self.count_row(row));
            Ok(rows)
        })
    }

    fn scan<'a>(&'a self, query: &'a ScanQuery) -> BoxFuture<'a, Answer<Vec<(RowKey, Row)>>> {
        Box::pin(async move {
            let rows = self.store.scan(query).await?;
            self.count(rows.len(), rows.iter().flat_map(|(_, row)| row.cells()).map(|(_, cell)| cell));
            Ok(rows)
        })
    }

    fn is_atomic(&self) -> bool {
        self.store.is_atomic()
    }

    fn writable(&self) -> Answer<()> {
        self.store.writable()
    }

    fn ready(&self) -> Answer<()> {
        self.store.ready()
    }

    fn has_space(&self) -> BoxFuture<'_, Answer<()>> {
        self.store.has_space()
    }

    fn commit(&self, plan: Plan) -> BoxFuture<'_, Answer<Outcome>> {
        let checks: usize = plan.guarded.iter().map(|row| row.checks.len()).sum();
        self.checks.fetch_add(checks as u64, Ordering::Relaxed);
        self.store.commit(plan)
    }
}

/// Where a layout's work is read. Cheap to clone.
#[derive(Clone, Default)]
pub enum Meter {
    /// The time of this process alone.
    #[default]
    Process,
    Store(Arc<CountingStore>),
}

impl Meter {
    /// Everything since the start of this process, or since the store was opened.
    pub fn read(&self) -> Result<Work> {
        let mut work = Work { cpu_us: cpu_seconds()? * 1e6, ..Work::default() };
        if let Self::Store(counted) = self {
            let of = |counter: &AtomicU64| Some(counter.load(Ordering::Relaxed) as f64);
            let writes = counted.store.commit_stats();
            work.reads = of(&counted.reads);
            work.rows_read = of(&counted.rows);
            work.cells_read = of(&counted.cells);
            work.bytes_read = of(&counted.bytes);
            work.checks = of(&counted.checks);
            work.commits = Some(writes.plans as f64);
            work.cells_written = Some(writes.changes as f64);
            work.bytes_written = Some(writes.bytes as f64);
            work.syncs = Some(writes.syncs as f64);
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
        let meter = Meter::Store(counted.clone());
        let tables = Tables::new(counted);
        let cf = FamilySpec { name: "cf".into(), bloom: true, cells: CellSize::Small, compression: Default::default() };
        let spec = TableSpec { name: "t".into(), lifecycle: KeyLifecycle::Reusable, families: vec![cf] };
        tables.create(&spec).await.unwrap();
        for key in ["a", "b"] {
            let changes = vec![
                Change::put("cf", "q".as_bytes(), "12345".as_bytes()),
                Change::put("cf", "r".as_bytes(), "1".as_bytes()),
            ];
            let checks = vec![Check::Absent(Column::new("cf", "q".as_bytes()))];
            let guarded = vec![ConditionalRow { table: "t", row: key.into(), checks, changes }];
            assert_eq!(tables.commit(Plan { guarded, ..Plan::default() }).await.unwrap(), Outcome::Committed);
        }
        let query = RowQuery::families(&["cf"]);
        tables.get("t", b"a", &query).await.unwrap();
        tables.get("t", b"missing", &query).await.unwrap();
        let scan = ScanQuery { table: "t", range: RowRange::all(), row_query: query, limit: 10, reverse: false };
        assert_eq!(tables.scan(&scan).await.unwrap().len(), 2);
        let work = meter.read().unwrap();
        // A get of one row, one of no row, and a scan of two; each row has two cells of 1 + 5 and 1 + 1 bytes.
        assert_eq!(
            (work.reads, work.rows_read, work.cells_read, work.bytes_read),
            (Some(3.0), Some(3.0), Some(6.0), Some(24.0))
        );
        assert_eq!((work.commits, work.cells_written, work.syncs), (Some(2.0), Some(4.0), Some(2.0)));
        assert_eq!(Meter::default().read().unwrap().reads, None);
    }
}
