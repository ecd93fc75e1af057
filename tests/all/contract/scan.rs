//! `scan`: rows in key order or reversed.

use std::ops::Bound;

use rowdrive::table::limits::PAGE_CELLS;
use rowdrive::table::{Row, RowKey, RowQuery, RowRange, ScanQuery, StoreError, Tables};

use super::engines::EngineUnderTest;
use super::get::KEYS;
use super::plans::{
    bounds, columns, delete, delete_family, dir, done, fill, guarded, open, put, qualifier, scan, text, while_writing,
};

fn keys(rows: &[(RowKey, Row)]) -> Vec<&[u8]> {
    rows.iter().map(|(key, _)| key.as_ref()).collect()
}

/// A row for each of these keys, written in a different order.
async fn rows(engine: &dyn EngineUnderTest, keys: &[&'static [u8]]) -> Tables {
    let tables = open(engine).await;
    let (even, odd): (Vec<_>, Vec<_>) = keys.iter().rev().enumerate().partition(|(n, _)| n % 2 == 0);
    for (_, key) in even.into_iter().chain(odd) {
        done(&tables, guarded(vec![dir(*key, vec![put("cf", "q", *key)])])).await;
    }
    tables
}

pub async fn scan_is_in_key_order(engine: &dyn EngineUnderTest) {
    let tables = rows(engine, &KEYS).await;
    let found = tables.scan(&scan(&["cf"], 100)).await.unwrap();
    assert_eq!(keys(&found), KEYS);
    assert!(found.iter().all(|(key, row)| row.len() == 1 && row.get("cf", b"q") == Some(key)));
}

pub async fn scan_reverse_is_the_exact_reverse(engine: &dyn EngineUnderTest) {
    let tables = rows(engine, &KEYS).await;
    done(&tables, guarded(vec![dir("/a", vec![put("sub", "p", "v"), put("sub", "q", "v"), put("cf", "p", "v")])]))
        .await;
    for families in [&["cf"][..], &["sub"], &["sub", "cf"]] {
        let mut forward = tables.scan(&scan(families, 100)).await.unwrap();
        forward.reverse();
        let backward = tables.scan(&ScanQuery { reverse: true, ..scan(families, 100) }).await.unwrap();
        assert_eq!(backward, forward);
    }
}

pub async fn scan_accepts_bounds_of_all_kinds(engine: &dyn EngineUnderTest) {
    let there: [&'static [u8]; 6] = [b"\0", b"b", b"b\0", b"b\x01", b"d", b"\xff"];
    let tables = rows(engine, &there).await;
    // Inverted bounds are valid too: they contain nothing.
    for from in bounds(&[b"", b"\0", b"a", b"b", b"b\0", b"c", b"\xff"]) {
        for to in bounds(&[b"", b"\0", b"b", b"b\0", b"b\x01\0", b"d", b"\xff", b"\xff\xff"]) {
            let range = RowRange { from: from.clone(), to };
            let mut expected: Vec<_> = there.into_iter().filter(|key| range.contains(key)).collect();
            let query = ScanQuery { range, ..scan(&["cf"], 100) };
            assert_eq!(keys(&tables.scan(&query).await.unwrap()), expected, "{query:?}");
            expected.reverse();
            let query = ScanQuery { reverse: true, ..query };
            assert_eq!(keys(&tables.scan(&query).await.unwrap()), expected, "{query:?}");
        }
    }
}

pub async fn scan_of_a_prefix_finds_only_its_rows(engine: &dyn EngineUnderTest) {
    let tables = rows(engine, &KEYS).await;
    for prefix in [b"".as_slice(), b"/", b"/a", b"/a\0", b"\0", b"\x01", b"\xff", b"\xff\xff", b"none"] {
        let query = ScanQuery { range: RowRange::prefix(prefix), ..scan(&["cf"], 100) };
        let expected: Vec<_> = KEYS.into_iter().filter(|key| key.starts_with(prefix)).collect();
        assert_eq!(keys(&tables.scan(&query).await.unwrap()), expected, "{}", prefix.escape_ascii());
    }
}

pub async fn scan_ends_at_its_limit(engine: &dyn EngineUnderTest) {
    let there: [&'static [u8]; 4] = [b"a", b"b", b"c", b"d"];
    let tables = rows(engine, &there).await;
    for limit in 0..6 {
        let found = tables.scan(&scan(&["cf"], limit)).await.unwrap();
        assert_eq!(keys(&found), there[..limit.min(4)]);
        // In reverse, the limit counts from the end.
        let found = tables.scan(&ScanQuery { reverse: true, ..scan(&["cf"], limit) }).await.unwrap();
        let last: Vec<_> = there.into_iter().rev().take(limit).collect();
        assert_eq!(keys(&found), last);
    }
}

pub async fn scan_resumes_by_key(engine: &dyn EngineUnderTest) {
    let tables = rows(engine, &KEYS).await;
    for (reverse, limit) in [(false, 1), (true, 1), (false, 5), (true, 5)] {
        let mut query = ScanQuery { reverse, ..scan(&["cf"], limit) };
        let mut found: Vec<RowKey> = Vec::new();
        loop {
            let page = tables.scan(&query).await.unwrap();
            let Some((last, _)) = page.last() else { break };
            *(if reverse { &mut query.range.to } else { &mut query.range.from }) = Bound::Excluded(last.clone());
            found.extend(page.into_iter().map(|(key, _)| key));
        }
        if reverse {
            found.reverse();
        }
        assert_eq!(found, KEYS, "reverse {reverse}, limit {limit}");
    }
}

/// Rows `both`, `cf`, `sub`, each with a cell in the families of its name; `many` has many cells in `sub`.
async fn mixed(engine: &dyn EngineUnderTest) -> Tables {
    let tables = open(engine).await;
    let many = (0..30).map(|n| put("sub", qualifier(n), "v")).collect();
    let rows = vec![
        dir("both", vec![put("cf", "q", "v"), put("sub", "q", "v")]),
        dir("cf", vec![put("cf", "q", "v"), put("cf", "r", "v")]),
        dir("many", many),
        dir("sub", vec![put("sub", "q", "v")]),
    ];
    done(&tables, guarded(rows)).await;
    tables
}

pub async fn scan_skips_rows_that_hold_only_other_cells(engine: &dyn EngineUnderTest) {
    let tables = mixed(engine).await;
    let cases: [(RowQuery, &[&str]); 6] = [
        (RowQuery::families(&["cf"]), &["both", "cf"]),
        (RowQuery::families(&["sub"]), &["both", "many", "sub"]),
        (RowQuery::cells(columns(&[("cf", "q")])), &["both", "cf"]),
        (RowQuery::cells(columns(&[("sub", "q")])), &["both", "sub"]),
        (RowQuery::cells(columns(&[("sub", "000029"), ("cf", "r")])), &["cf", "many"]),
        (RowQuery::cells(columns(&[("sub", "none")])), &[]),
    ];
    for (query, expected) in cases {
        for limit in 1..6 {
            let plain = ScanQuery { row_query: query.clone(), ..scan(&[], limit) };
            let found = tables.scan(&plain).await.unwrap();
            let wanted: Vec<_> = expected.iter().take(limit).map(|key| key.as_bytes()).collect();
            assert_eq!(keys(&found), wanted, "{plain:?}");
            let found = tables.scan(&ScanQuery { reverse: true, ..plain }).await.unwrap();
            let wanted: Vec<_> = expected.iter().rev().take(limit).map(|key| key.as_bytes()).collect();
            assert_eq!(keys(&found), wanted, "reversed {query:?}");
        }
    }
}

pub async fn scan_returns_families_and_cells(engine: &dyn EngineUnderTest) {
    let tables = mixed(engine).await;
    let query = RowQuery { cells: columns(&[("sub", "q"), ("sub", "000003"), ("cf", "r")]), families: vec!["cf"] };
    for reverse in [false, true] {
        let mut found = tables.scan(&ScanQuery { row_query: query.clone(), reverse, ..scan(&[], 100) }).await.unwrap();
        if reverse {
            found.reverse();
        }
        let found: Vec<_> = found.iter().map(|(_, row)| text(row)).collect();
        let expected: [&[&str]; 4] = [&["cf:q=v", "sub:q=v"], &["cf:q=v", "cf:r=v"], &["sub:000003=v"], &["sub:q=v"]];
        assert_eq!(found, expected, "reverse {reverse}");
    }
}

pub async fn scan_reads_each_row_at_one_instant(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    let write = |n: usize| {
        let row = |key| {
            let gone = if n.is_multiple_of(2) { vec![delete_family("cf"), delete_family("sub")] } else { vec![] };
            let numbers = ["p", "q"].map(|q| [put("cf", q, n.to_string()), put("sub", q, n.to_string())]).concat();
            dir(key, [gone, numbers].concat())
        };
        guarded(vec![row("a"), row("b"), row("c")])
    };
    done(&tables, write(0)).await;
    let cells = RowQuery { cells: columns(&[("cf", "p")]), families: vec!["sub"] };
    while_writing(&tables, write, async || {
        for (query, reverse) in [(RowQuery::families(&["sub", "cf"]), false), (cells.clone(), true)] {
            let found = tables.scan(&ScanQuery { row_query: query.clone(), reverse, ..scan(&[], 10) }).await.unwrap();
            assert_eq!(found.len(), 3);
            for (_, row) in found {
                assert!(row.len() > 2, "{:?}", text(&row));
                assert!(row.cells().iter().all(|(_, cell)| cell.value == row.cells()[0].1.value), "{:?}", text(&row));
            }
        }
    })
    .await;
}

pub async fn scan_of_a_family_ends_at_a_page(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    done(&tables, guarded(["a", "z"].map(|key| dir(key, vec![put("cf", "q", "v"), put("sub", "q", "v")])).to_vec()))
        .await;
    fill(&tables, b"m", "sub", 0..PAGE_CELLS).await;
    for reverse in [false, true] {
        let found = tables.scan(&ScanQuery { reverse, ..scan(&["sub"], 10) }).await.unwrap();
        assert_eq!(found.iter().map(|(_, row)| row.len()).collect::<Vec<_>>(), [1, PAGE_CELLS, 1]);
    }
    fill(&tables, b"m", "sub", PAGE_CELLS..PAGE_CELLS + 1).await;
    for reverse in [false, true] {
        match tables.scan(&ScanQuery { reverse, ..scan(&["cf", "sub"], 10) }).await {
            Err(StoreError::TooWide { table, row, family }) => {
                assert_eq!((table.as_str(), row.as_ref(), family.as_str()), ("dir", b"m".as_slice(), "sub"));
            }
            other => panic!("{:?}", other.map(|rows| rows.len())),
        }
        // A scan that ends before the wide row, or does not ask for its family, does not read it.
        assert_eq!(tables.scan(&ScanQuery { reverse, ..scan(&["cf", "sub"], 1) }).await.unwrap().len(), 1);
        assert_eq!(tables.scan(&ScanQuery { reverse, ..scan(&["cf"], 10) }).await.unwrap().len(), 2);
    }
}

pub async fn scan_of_single_cells_skips_wide_rows(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    fill(&tables, b"b", "sub", 0..PAGE_CELLS + 10).await;
    fill(&tables, b"d", "sub", 0..50).await;
    let row = |key| dir(key, vec![put("sub", "000005", key)]);
    done(&tables, guarded(vec![row("a"), row("c"), row("e")])).await;
    let last = qualifier(PAGE_CELLS + 9);
    for reverse in [false, true] {
        let cells =
            vec![rowdrive::table::Column::new("sub", "000005"), rowdrive::table::Column::new("sub", last.clone())];
        let mut found =
            tables.scan(&ScanQuery { row_query: RowQuery::cells(cells), reverse, ..scan(&[], 10) }).await.unwrap();
        if reverse {
            found.reverse();
        }
        assert_eq!(keys(&found), ["a", "b", "c", "d", "e"].map(str::as_bytes), "reverse {reverse}");
        assert_eq!(found.iter().map(|(_, row)| row.len()).collect::<Vec<_>>(), [1, 2, 1, 1, 1]);
    }
}

pub async fn scan_skips_removed_rows(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    let rows = |n: usize, change: fn() -> rowdrive::table::Change| {
        (0..120).map(|m| dir(qualifier(n * 120 + m), vec![change()])).collect::<Vec<_>>()
    };
    for n in 0..25 {
        done(&tables, guarded(rows(n, || put("cf", "q", "v")))).await;
    }
    for n in 0..25 {
        // Only the last row is left.
        let mut gone = rows(n, if n.is_multiple_of(2) { || delete("cf", "q") } else { || delete_family("cf") });
        gone.truncate(if n == 24 { 119 } else { 120 });
        done(&tables, guarded(gone)).await;
    }
    for reverse in [false, true] {
        let found = tables.scan(&ScanQuery { reverse, ..scan(&["cf"], 10) }).await.unwrap();
        assert_eq!(keys(&found), [qualifier(2_999).as_bytes()]);
    }
}

pub async fn scan_of_an_empty_table_finds_nothing(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    assert!(tables.scan(&scan(&["cf", "sub"], 10)).await.unwrap().is_empty());
    done(&tables, guarded(vec![dir("r", vec![put("cf", "q", "v")])])).await;
    assert!(tables.scan(&ScanQuery { table: "file", ..scan(&["cf"], 10) }).await.unwrap().is_empty());
}
