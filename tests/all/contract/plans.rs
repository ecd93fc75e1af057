//! The tables of the suite, and short constructors for plans and reads.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use rowdrive::table::spec::{CellSize, Compression, FamilySpec};
use rowdrive::table::{
    Change, Check, Column, ConditionalRow, KeyLifecycle, Outcome, PageQuery, Plan, Refusal, Row, RowChange, RowKey,
    RowQuery, RowRange, ScanQuery, TableSpec, Tables,
};

use super::engines::EngineUnderTest;

pub fn spec(name: &str, lifecycle: KeyLifecycle, families: &[&str]) -> TableSpec {
    let family = |name: &&str| FamilySpec {
        name: (*name).to_owned(),
        compression: if *name == "c" { Compression::None } else { Compression::Light },
        bloom: *name == "cf",
        cells: if *name == "c" { CellSize::Large } else { CellSize::Small },
    };
    TableSpec { name: name.to_owned(), lifecycle, families: families.iter().map(family).collect() }
}

/// One table for each life cycle.
pub fn specs() -> [TableSpec; 4] {
    [
        spec("dir", KeyLifecycle::Reusable, &["cf", "sub"]),
        spec("file", KeyLifecycle::UniqueId, &["cf", "c"]),
        spec("index", KeyLifecycle::Immutable, &["cf"]),
        spec("todo", KeyLifecycle::ImmutableLate, &["cf"]),
    ]
}

/// Opens the tables of this store, and creates them if they do not exist.
pub async fn tables_of(store: Arc<dyn rowdrive::table::Store>) -> Tables {
    let tables = Tables::new(store);
    for spec in specs() {
        tables.create(&spec).await.unwrap();
    }
    tables
}

pub async fn open(engine: &dyn EngineUnderTest) -> Tables {
    tables_of(engine.open()).await
}

pub fn put(family: &'static str, qualifier: impl Into<Bytes>, value: impl Into<Bytes>) -> Change {
    Change::put(family, qualifier, value)
}

pub fn delete(family: &'static str, qualifier: impl Into<Bytes>) -> Change {
    Change::delete(family, qualifier)
}

pub fn delete_family(family: &'static str) -> Change {
    Change::DeleteFamily { family }
}

pub fn absent(family: &'static str, qualifier: impl Into<Bytes>) -> Check {
    Check::Absent(Column::new(family, qualifier))
}

pub fn equals(family: &'static str, qualifier: impl Into<Bytes>, value: impl Into<Bytes>) -> Check {
    Check::Equals(Column::new(family, qualifier), value.into())
}

/// A check that always holds: no test writes this cell.
pub fn always() -> Check {
    absent("cf", "never")
}

pub fn guard(table: &'static str, row: impl Into<RowKey>, checks: Vec<Check>, changes: Vec<Change>) -> ConditionalRow {
    ConditionalRow { table, row: row.into(), checks, changes }
}

/// A row of `dir` that changes unconditionally.
pub fn dir(row: impl Into<RowKey>, changes: Vec<Change>) -> ConditionalRow {
    guard("dir", row, vec![always()], changes)
}

pub fn row(table: &'static str, row: impl Into<RowKey>, changes: Vec<Change>) -> RowChange {
    RowChange { table, row: row.into(), changes }
}

pub fn guarded(guarded: Vec<ConditionalRow>) -> Plan {
    Plan { guarded, ..Plan::default() }
}

pub fn prepare(prepare: Vec<RowChange>) -> Plan {
    Plan { prepare, ..Plan::default() }
}

pub fn finish(finish: Vec<RowChange>) -> Plan {
    Plan { finish, ..Plan::default() }
}

/// Commits a plan that must be committed.
pub async fn done(tables: &Tables, plan: Plan) {
    assert_eq!(tables.commit(plan).await.unwrap(), Outcome::Committed);
}

/// Commits a plan that must be refused.
pub async fn refused(tables: &Tables, plan: Plan) -> Refusal {
    match tables.commit(plan).await.unwrap() {
        Outcome::Refused(refusal) => refusal,
        Outcome::Committed => panic!("committed"),
    }
}

/// Fills a family of a row of `dir` with many cells, in as many plans as necessary.
pub async fn fill(tables: &Tables, row: &'static [u8], family: &'static str, cells: std::ops::Range<usize>) {
    let cells: Vec<_> = cells.map(|n| put(family, qualifier(n), "v")).collect();
    for part in cells.chunks(5_000) {
        done(tables, guarded(vec![dir(row, part.to_vec())])).await;
    }
}

/// Qualifiers that sort like their numbers.
pub fn qualifier(n: usize) -> String {
    format!("{n:06}")
}

pub fn page(row: impl Into<RowKey>, family: &'static str, limit: usize) -> PageQuery {
    let (from, to) = (Bound::Unbounded, Bound::Unbounded);
    PageQuery { table: "dir", row: row.into(), family, from, to, limit, unchanged: Vec::new() }
}

pub fn scan(families: &[&'static str], limit: usize) -> ScanQuery {
    ScanQuery { table: "dir", range: RowRange::all(), row_query: RowQuery::families(families), limit, reverse: false }
}

pub fn columns(cells: &[(&'static str, &'static str)]) -> Vec<Column> {
    cells.iter().map(|(family, qualifier)| Column::new(family, *qualifier)).collect()
}

/// A row as text, `family:qualifier=value`, for comparisons and messages.
pub fn text(row: &Row) -> Vec<String> {
    let cell = |(family, cell): &(&str, rowdrive::table::Cell)| {
        format!("{family}:{}={}", cell.qualifier.escape_ascii(), cell.value.escape_ascii())
    };
    row.cells().iter().map(cell).collect()
}

/// A whole row of `dir`, as text.
pub async fn all(tables: &Tables, row: &[u8]) -> Vec<String> {
    text(&tables.get("dir", row, &RowQuery::families(&["cf", "sub"])).await.unwrap())
}

/// Bounds of every kind at these qualifiers, and unbounded.
pub fn bounds(places: &[&'static [u8]]) -> Vec<Bound<Bytes>> {
    let at = |place: &&'static [u8]| {
        [Bound::Included(Bytes::from_static(place)), Bound::Excluded(Bytes::from_static(place))]
    };
    places.iter().flat_map(at).chain([Bound::Unbounded]).collect()
}

/// Commits `write(1)`, `write(2)` and so on, and calls `read` repeatedly meanwhile: until many writes have happened
/// between two reads.
pub async fn while_writing(
    tables: &Tables,
    write: impl Fn(usize) -> Plan + Send + 'static,
    mut read: impl AsyncFnMut(),
) {
    let written = Arc::new(AtomicUsize::new(0));
    let writer = tokio::spawn({
        let (tables, written) = (tables.clone(), written.clone());
        async move {
            for n in 1.. {
                done(&tables, write(n)).await;
                written.store(n, Ordering::Release);
                tokio::task::yield_now().await;
            }
        }
    });
    let (mut reads, mut overtaken, mut last) = (0, 0, 0);
    while reads < 200 || overtaken < 20 {
        read().await;
        reads += 1;
        let now = written.load(Ordering::Acquire);
        overtaken += usize::from(now != last);
        last = now;
        tokio::task::yield_now().await;
        assert!(!writer.is_finished(), "the writer failed");
    }
    writer.abort();
    assert!(writer.await.is_err_and(|end| end.is_cancelled()));
}
