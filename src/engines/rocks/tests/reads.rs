//! Which thread runs a read, and the limits of reads.

use std::ops::Bound;

use super::*;
use crate::engines::rocks::raw::ReadError;
use crate::engines::rocks::read::CELLS_CACHED;
use crate::engines::rocks::read_tier::ReadTier;
use crate::engines::rocks::{read_page, read_row, scan_rows};
use crate::table::limits::PAGE_CELLS;
use crate::table::{PageQuery, RowRange, ScanQuery};

fn page_of(row: &str, limit: usize) -> PageQuery {
    PageQuery {
        table: "t",
        row: Bytes::copy_from_slice(row.as_bytes()),
        family: "a",
        from: Bound::Unbounded,
        to: Bound::Unbounded,
        limit,
        unchanged: vec![column("b", "q")],
    }
}

#[tokio::test]
async fn a_thread_that_serves_requests_reads_no_disk() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    fill(&rocks, "row", "a", 50).await;
    commit(&rocks, changes(vec![changed("row", vec![put("b", "q", "v")])])).await;
    rocks.flush();
    drop(rocks);

    let rocks = open(dir.path()).await;
    let query = RowQuery::cells(vec![column("b", "q")]);
    let cached = |query: &RowQuery| read_row(&rocks.db, ReadTier::Cached, "t", b"row", query);
    assert!(matches!(cached(&query), Err(ReadError::Incomplete)));
    assert!(matches!(read_page(&rocks.db, ReadTier::Cached, &page_of("row", 10)), Err(ReadError::Incomplete)));
    for _before_and_after in 0..2 {
        assert_eq!(rocks.get("t", b"row", &query).await.unwrap().len(), 1);
        assert_eq!(rocks.page(&page_of("row", 10)).await.unwrap().cells.len(), 10);
        rocks.wait_for_compactions();
    }
    // The read by the pool has cached it.
    assert_eq!(cached(&query).unwrap().len(), 1);
    assert_eq!(read_page(&rocks.db, ReadTier::Cached, &page_of("row", 10)).unwrap().cells.len(), 10);
}

#[tokio::test]
async fn a_page_of_a_short_row_is_read_on_the_calling_thread() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    fill(&rocks, "short", "a", CELLS_CACHED).await;
    fill(&rocks, "long", "a", CELLS_CACHED + 1).await;
    let cached = |row: &str, limit| read_page(&rocks.db, ReadTier::Cached, &page_of(row, limit));
    for limit in [CELLS_CACHED, CELLS_CACHED + 1, PAGE_CELLS] {
        let page = cached("short", limit).unwrap();
        assert_eq!((page.cells.len(), page.more), (CELLS_CACHED, false));
    }
    let first = cached("long", CELLS_CACHED).unwrap();
    assert_eq!((first.cells.len(), first.more), (CELLS_CACHED, true));
    // The pool reads a longer page as a whole.
    assert!(matches!(cached("long", CELLS_CACHED + 1), Err(ReadError::Incomplete)));
    let page = rocks.page(&page_of("long", PAGE_CELLS)).await.unwrap();
    assert_eq!((page.cells.len(), page.more), (CELLS_CACHED + 1, false));
}

fn scan_of(row_query: RowQuery, limit: usize, reverse: bool) -> ScanQuery {
    ScanQuery { table: "t", range: RowRange::all(), row_query, limit, reverse }
}

#[tokio::test]
async fn a_short_scan_is_read_on_the_calling_thread() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    for n in 0..CELLS_CACHED {
        commit(&rocks, changes(vec![changed(&format!("{n:04}"), vec![put("a", "q", "v")])])).await;
    }
    rocks.flush();
    drop(rocks);

    let rocks = open(dir.path()).await;
    let (one, none) = (RowQuery::cells(vec![column("a", "q")]), RowQuery::cells(vec![column("a", "other")]));
    let cached = |query: &ScanQuery| scan_rows(&rocks.db, ReadTier::Cached, query);
    let incomplete = |query: &ScanQuery| matches!(cached(query), Err(ReadError::Incomplete));
    assert!(incomplete(&scan_of(one.clone(), 10, false)), "nothing is cached yet");
    for reverse in [false, true] {
        let whole = scan_of(one.clone(), 1_000, reverse);
        let expected = rocks.scan(&whole).await.unwrap();
        assert_eq!(expected.len(), CELLS_CACHED);
        assert_eq!(cached(&whole).unwrap(), expected);
        assert!(cached(&scan_of(none.clone(), 1_000, reverse)).unwrap().is_empty());
    }
    // One row more, with a cell of the query or without, is left to the pool.
    commit(&rocks, changes(vec![changed("9999", vec![put("a", "q", "v")])])).await;
    for reverse in [false, true] {
        assert_eq!(cached(&scan_of(one.clone(), CELLS_CACHED, reverse)).unwrap().len(), CELLS_CACHED);
        for query in [scan_of(one.clone(), CELLS_CACHED + 1, reverse), scan_of(none.clone(), 1, reverse)] {
            assert!(incomplete(&query), "{query:?}");
        }
        assert_eq!(rocks.scan(&scan_of(one.clone(), 1_000, reverse)).await.unwrap().len(), CELLS_CACHED + 1);
    }
}

/// A query of many short scans is one task.
#[tokio::test(flavor = "current_thread")]
async fn other_tasks_run_between_short_scans() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    commit(&rocks, changes(vec![changed("1", vec![put("a", "q", "v")])])).await;
    let query = scan_of(RowQuery::cells(vec![column("a", "q")]), 10, false);
    rocks.scan(&query).await.unwrap();
    let mut turns = 0;
    let query = async {
        for _ in 0..10 {
            rocks.scan(&query).await.unwrap();
        }
    };
    let other = async {
        loop {
            turns += 1;
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        () = query => {}
        () = other => {}
    }
    assert!(turns >= 9, "{turns} turns between 10 scans");
}

#[tokio::test]
async fn a_scan_of_wide_rows_is_left_to_the_pool() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    fill(&rocks, "1", "a", CELLS_CACHED).await;
    let whole = scan_of(RowQuery::families(&["a"]), 10, false);
    let cached = || scan_rows(&rocks.db, ReadTier::Cached, &whole);
    assert_eq!(cached().unwrap()[0].1.len(), CELLS_CACHED);
    commit(&rocks, changes(vec![changed("1", vec![put("a", "one more", "v")])])).await;
    assert!(matches!(cached(), Err(ReadError::Incomplete)));
    assert_eq!(rocks.scan(&whole).await.unwrap()[0].1.len(), CELLS_CACHED + 1);
}

#[tokio::test]
async fn many_cold_rows_come_back_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    let name = |n: usize| format!("{n:04}");
    for n in (0..300).step_by(2) {
        commit(&rocks, changes(vec![changed(&name(n), vec![put("c", "q", &name(n))])])).await;
    }
    rocks.flush();
    drop(rocks);
    let rocks = open(dir.path()).await;
    let query = |n: usize| (Bytes::from(name(299 - n)), RowQuery::cells(vec![column("c", "q")]));
    let queries: Vec<_> = (0..300).map(query).collect();
    for _cold_then_warm in 0..2 {
        let rows = rocks.get_many("t", &queries).await.unwrap();
        for (n, row) in rows.iter().enumerate() {
            let expected = (n % 2 == 1).then(|| name(299 - n));
            assert_eq!(row.get("c", b"q").cloned(), expected.map(Bytes::from));
        }
    }
}

#[tokio::test]
async fn a_wide_family_is_read_whole_up_to_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    let scan = |reverse| ScanQuery {
        table: "t",
        range: RowRange::all(),
        row_query: RowQuery::families(&["a"]),
        limit: 10,
        reverse,
    };
    fill(&rocks, "row", "a", PAGE_CELLS).await;
    assert_eq!(count(&rocks, "row", "a").await, PAGE_CELLS);
    assert_eq!(rocks.scan(&scan(true)).await.unwrap()[0].1.len(), PAGE_CELLS);
    commit(&rocks, changes(vec![changed("row", vec![put("a", "one more", "v")])])).await;
    let wide = |e: StoreError| matches!(e, StoreError::TooWide { row, family, .. } if row == "row" && family == "a");
    assert!(rocks.get("t", b"row", &RowQuery::families(&["a"])).await.is_err_and(wide));
    assert!(rocks.scan(&scan(false)).await.is_err_and(wide));
    assert!(rocks.scan(&scan(true)).await.is_err_and(wide));
    let page = rocks.page(&page_of("row", PAGE_CELLS)).await.unwrap();
    assert!(page.cells.len() == PAGE_CELLS && page.more);
}

#[tokio::test]
async fn a_scan_for_single_cells_seeks_past_wide_rows() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    for width in [1, 7, 8, 9, 10, 30, 300] {
        fill(&rocks, &format!("{width:03}"), "a", width).await;
    }
    for reverse in [false, true] {
        for (cell, rows) in [(0, 7), (6, 6), (7, 5), (8, 4), (9, 3), (29, 2), (299, 1), (300, 0)] {
            let query = ScanQuery {
                table: "t",
                range: RowRange::all(),
                row_query: RowQuery::cells(vec![column("a", &format!("{cell:08}"))]),
                limit: 10,
                reverse,
            };
            let found = rocks.scan(&query).await.unwrap();
            assert_eq!(found.len(), rows, "{cell} {reverse}");
            assert!(found.iter().all(|(_, row)| row.len() == 1));
            assert!(found.is_sorted_by(|a, b| if reverse { a.0 > b.0 } else { a.0 < b.0 }));
        }
    }
}

#[tokio::test]
async fn a_scan_reports_a_key_of_no_row() {
    // Without the end of a row, and with an escape that does not exist.
    for key in [b"n".as_slice(), b"n\x01\x03\0q"] {
        let dir = tempfile::tempdir().unwrap();
        let rocks = open(dir.path()).await;
        for row in ["m", "o"] {
            commit(&rocks, changes(vec![changed(row, vec![put("a", "q", "v"), put("b", "q", "v")])])).await;
        }
        rocks.db.raw.put_cf(&rocks.db.family("t", "a").unwrap(), key, b"v").unwrap();
        let ask = |families: &[&'static str], reverse| scan_of(RowQuery::families(families), 10, reverse);
        for reverse in [false, true] {
            for families in [&["a"][..], &["b", "a"]] {
                let found = rocks.scan(&ask(families, reverse)).await;
                assert!(is_damaged(&found), "{families:?} {reverse} {found:?}");
            }
            assert_eq!(rocks.scan(&ask(&["b"], reverse)).await.unwrap().len(), 2);
        }
    }
}

#[tokio::test]
async fn tombstones_send_a_read_to_the_pool() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    fill(&rocks, "row", "a", 5_000).await;
    let names = (0..4_999).map(|n| Change::delete("a", Bytes::from(format!("{n:08}"))));
    commit(&rocks, changes(vec![changed("row", names.collect())])).await;
    assert!(matches!(read_page(&rocks.db, ReadTier::Cached, &page_of("row", 10)), Err(ReadError::Incomplete)));
    let page = rocks.page(&page_of("row", 10)).await.unwrap();
    assert_eq!(page.cells.len(), 1);
    assert!(!page.more);
}
