//! Each answer is of one instant, over all families, during concurrent writes.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;
use crate::table::{PageQuery, RowRange, ScanQuery};

/// Every plan sets a cell in each of two families to the same number; `look` must never see two numbers.
async fn never_torn<F>(look: impl Fn(Arc<Rocks>) -> F)
where
    F: Future<Output = Vec<Bytes>>,
{
    let dir = tempfile::tempdir().unwrap();
    let rocks = Arc::new(open(dir.path()).await);
    let set = |n: usize| {
        let n = n.to_string();
        changes(vec![changed("row", vec![put("a", "q", &n), put("b", "q", &n), put("b", "r", &n)])])
    };
    commit(&rocks, set(0)).await;
    let (written, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let writer = tokio::spawn({
        let (rocks, written, enough) = (rocks.clone(), written.clone(), enough.clone());
        async move {
            while !enough.load(Ordering::Relaxed) {
                let n = written.fetch_add(1, Ordering::Relaxed) + 1;
                commit(&rocks, set(n)).await;
            }
        }
    });
    let mut looks = 0;
    while !writer.is_finished() && (written.load(Ordering::Relaxed) < 1_500 || looks < 100) {
        let seen = look(rocks.clone()).await;
        assert!(seen.len() > 1 && seen.windows(2).all(|pair| pair[0] == pair[1]), "{seen:?}");
        looks += 1;
    }
    enough.store(true, Ordering::Relaxed);
    writer.await.unwrap();
}

fn values<'a>(cells: impl IntoIterator<Item = &'a crate::table::Cell>) -> Vec<Bytes> {
    cells.into_iter().map(|cell| cell.value.clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cells_of_a_row() {
    let query = RowQuery::cells(vec![column("a", "q"), column("b", "q"), column("b", "r")]);
    never_torn(|rocks| {
        let query = query.clone();
        async move { values(rocks.get("t", b"row", &query).await.unwrap().cells().iter().map(|(_, cell)| cell)) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn families_of_a_row() {
    let query = RowQuery::families(&["a", "b"]);
    never_torn(|rocks| {
        let query = query.clone();
        async move { values(rocks.get("t", b"row", &query).await.unwrap().cells().iter().map(|(_, cell)| cell)) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_and_its_unchanged_cells() {
    let query = PageQuery {
        table: "t",
        row: Bytes::from_static(b"row"),
        family: "b",
        from: Bound::Unbounded,
        to: Bound::Unbounded,
        limit: 10,
        unchanged: vec![column("a", "q")],
    };
    never_torn(|rocks| {
        let query = query.clone();
        async move {
            let page = rocks.page(&query).await.unwrap();
            values(&page.cells).into_iter().chain(page.unchanged.into_iter().flatten()).collect()
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_of_a_scan() {
    let query = ScanQuery {
        table: "t",
        range: RowRange::all(),
        row_query: RowQuery { cells: vec![column("a", "q")], families: vec!["b"] },
        limit: 10,
        reverse: false,
    };
    never_torn(|rocks| {
        let query = query.clone();
        async move { values(rocks.scan(&query).await.unwrap()[0].1.cells().iter().map(|(_, cell)| cell)) }
    })
    .await;
}
