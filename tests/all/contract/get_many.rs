//! `get_many`: a `get` for each row, in the order of the request.

use rowdrive::table::limits::PAGE_CELLS;
use rowdrive::table::{RowKey, RowQuery, StoreError};

use super::engines::EngineUnderTest;
use super::plans::{columns, dir, done, fill, guarded, open, put, qualifier, text, while_writing};

pub async fn get_many_answers_in_order_and_for_missing_rows(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    let put_row = |key: &'static str| dir(key, vec![put("cf", "q", key), put("sub", "q", key)]);
    done(&tables, guarded(vec![put_row("a"), put_row("b"), put_row("c")])).await;
    let query = |key: &'static str, query: RowQuery| (RowKey::from(key), query);
    let queries = [
        query("c", RowQuery::families(&["cf"])),
        query("none", RowQuery::families(&["cf", "sub"])),
        query("a", RowQuery::cells(columns(&[("sub", "q")]))),
        query("b", RowQuery::cells(columns(&[("sub", "other")]))),
        query("c", RowQuery::families(&["cf", "sub"])),
        query("c", RowQuery::families(&["cf"])),
    ];
    let found: Vec<_> = tables.get_many("dir", &queries).await.unwrap().iter().map(text).collect();
    let expected: [&[&str]; 6] = [&["cf:q=c"], &[], &["sub:q=a"], &[], &["cf:q=c", "sub:q=c"], &["cf:q=c"]];
    assert_eq!(found, expected);
    assert!(tables.get_many("dir", &[]).await.unwrap().is_empty());
}

pub async fn get_many_answers_for_a_thousand_rows(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    // Every third row is missing.
    for part in (0..1_000).collect::<Vec<usize>>().chunks(100) {
        let there = part.iter().filter(|n| !n.is_multiple_of(3));
        done(&tables, guarded(there.map(|n| dir(qualifier(*n), vec![put("cf", "q", qualifier(*n))])).collect())).await;
    }
    let queries: Vec<_> = (0..1_000).rev().map(|n| (qualifier(n).into(), RowQuery::families(&["cf"]))).collect();
    let found = tables.get_many("dir", &queries).await.unwrap();
    assert_eq!(found.len(), 1_000);
    for (n, row) in (0..1_000_usize).rev().zip(found) {
        let expected = (!n.is_multiple_of(3)).then(|| qualifier(n));
        assert_eq!(row.get("cf", b"q").map(AsRef::as_ref), expected.as_deref().map(str::as_bytes));
    }
}

pub async fn get_many_reads_each_row_at_one_instant(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    let write = |n: usize| {
        let row = |key| dir(key, vec![put("cf", "q", n.to_string()), put("sub", "q", n.to_string())]);
        guarded(vec![row("a"), row("b")])
    };
    done(&tables, write(0)).await;
    let queries = ["a", "b"].map(|key| (RowKey::from(key), RowQuery::families(&["sub", "cf"])));
    while_writing(&tables, write, async || {
        for row in tables.get_many("dir", &queries).await.unwrap() {
            assert!(row.get("cf", b"q").is_some() && row.get("cf", b"q") == row.get("sub", b"q"), "{:?}", text(&row));
        }
    })
    .await;
}

pub async fn get_many_of_a_family_ends_at_a_page(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    fill(&tables, b"wide", "sub", 0..PAGE_CELLS + 1).await;
    done(&tables, guarded(vec![dir("narrow", vec![put("sub", "q", "v")])])).await;
    let queries = ["narrow", "wide"].map(|key| (RowKey::from(key), RowQuery::families(&["sub"])));
    let answer = tables.get_many("dir", &queries).await;
    assert!(matches!(answer, Err(StoreError::TooWide { .. })), "{:?}", answer.map(|rows| rows.len()));
}
