//! `page`: cells of one family in qualifier order, with other cells of the row at the same instant.

use std::ops::Bound;

use bytes::Bytes;
use rowdrive::table::limits::PAGE_CELLS;
use rowdrive::table::{Column, Page, PageQuery, Plan, RowRange, Tables};

use super::engines::EngineUnderTest;
use super::plans::{
    bounds, columns, delete, delete_family, dir, done, fill, guarded, open, page, put, qualifier, while_writing,
};

fn qualifiers(page: &Page) -> Vec<String> {
    page.cells.iter().map(|cell| cell.qualifier.escape_ascii().to_string()).collect()
}

/// A row with b, d, f and h in `sub`, between rows that a page must not show.
async fn four(engine: &dyn EngineUnderTest) -> Tables {
    let tables = open(engine).await;
    let four = ["h", "b", "f", "d"].map(|q| put("sub", q, q)).to_vec();
    let noise = |row: &'static str| dir(row, vec![put("sub", "a", "no"), put("sub", "z", "no")]);
    let other = dir("r", vec![put("cf", "c", "no"), put("cf", "j", "no")]);
    done(&tables, guarded(vec![dir("r", four), noise("q"), noise("r\0"), noise("r\x01"), noise("rr"), noise("s")]))
        .await;
    done(&tables, guarded(vec![other])).await;
    tables
}

pub async fn page_is_in_qualifier_order_and_of_one_family(engine: &dyn EngineUnderTest) {
    let tables = four(engine).await;
    let found = tables.page(&page("r", "sub", 100)).await.unwrap();
    assert_eq!(qualifiers(&found), ["b", "d", "f", "h"]);
    assert!(found.cells.iter().all(|cell| cell.qualifier == cell.value));
    assert_eq!((found.more, found.unchanged.len()), (false, 0));
    for missing in [page("none", "sub", 100), PageQuery { family: "cf", ..page("s", "sub", 100) }] {
        assert_eq!(tables.page(&missing).await.unwrap(), Page::default());
    }
}

pub async fn page_accepts_bounds_of_all_kinds(engine: &dyn EngineUnderTest) {
    let tables = four(engine).await;
    // Inverted bounds are valid too: they contain nothing.
    for from in bounds(&[b"", b"b", b"c", b"d", b"d\0", b"h", b"i", b"\xff"]) {
        for to in bounds(&[b"", b"a", b"b", b"c", b"f", b"f\0", b"h", b"\xff\xff"]) {
            let range = RowRange { from: from.clone(), to: to.clone() };
            let expected: Vec<_> = ["b", "d", "f", "h"].into_iter().filter(|q| range.contains(q.as_bytes())).collect();
            let unchanged = columns(&[("cf", "c")]);
            let query = PageQuery { from: from.clone(), to, unchanged, ..page("r", "sub", 100) };
            let found = tables.page(&query).await.unwrap();
            assert_eq!(qualifiers(&found), expected, "{range:?}");
            assert_eq!((found.more, found.unchanged), (false, vec![Some("no".into())]), "{range:?}");
        }
    }
}

pub async fn page_ends_at_its_limit_and_says_whether_more_follow(engine: &dyn EngineUnderTest) {
    let tables = four(engine).await;
    for limit in 0..6 {
        let found = tables.page(&page("r", "sub", limit)).await.unwrap();
        assert_eq!(qualifiers(&found), ["b", "d", "f", "h"][..limit.min(4)]);
        assert_eq!(found.more, limit < 4, "limit {limit}");

        // Cells after the end of the range do not count.
        let found =
            tables.page(&PageQuery { to: Bound::Excluded("f".into()), ..page("r", "sub", limit) }).await.unwrap();
        assert_eq!(qualifiers(&found), ["b", "d"][..limit.min(2)]);
        assert_eq!(found.more, limit < 2, "limit {limit} below f");
    }
}

pub async fn page_resumes_after_its_last_qualifier(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    fill(&tables, b"r", "sub", 0..1_000).await;
    for limit in [1, 7, 150, 1_000] {
        let mut found = Vec::new();
        let mut query = page("r", "sub", limit);
        loop {
            let page = tables.page(&query).await.unwrap();
            found.extend(qualifiers(&page));
            let Some(last) = page.cells.last().filter(|_| page.more) else {
                break;
            };
            assert_eq!(page.cells.len(), limit);
            query.from = Bound::Excluded(last.qualifier.clone());
        }
        assert!(found.iter().eq((0..1_000).map(qualifier).collect::<Vec<_>>().iter()), "limit {limit}");
    }
}

pub async fn page_returns_its_unchanged_cells_in_the_order_asked(engine: &dyn EngineUnderTest) {
    let tables = four(engine).await;
    let unchanged = columns(&[("sub", "h"), ("cf", "none"), ("cf", "c"), ("sub", "h")]);
    let values = vec![Some(Bytes::from("h")), None, Some("no".into()), Some("h".into())];
    let found = tables.page(&PageQuery { unchanged: unchanged.clone(), ..page("r", "sub", 1) }).await.unwrap();
    assert_eq!((qualifiers(&found), found.unchanged), (vec!["b".to_owned()], values.clone()));
    // The unchanged cells are returned even if the page is empty.
    let found = tables.page(&PageQuery { unchanged: unchanged.clone(), ..page("r", "sub", 0) }).await.unwrap();
    assert_eq!(found.unchanged, values);
    let found = tables.page(&PageQuery { unchanged, ..page("none", "sub", 1) }).await.unwrap();
    assert_eq!(found.unchanged, vec![None; 4]);
}

/// Sets all cells of `sub`, and the unchanged cell in `cf`, to one number; every other time the row is emptied first.
fn renumber(cells: usize) -> impl Fn(usize) -> Plan + Send + 'static {
    move |n| {
        let mut changes = if n.is_multiple_of(2) { vec![delete_family("sub"), delete_family("cf")] } else { vec![] };
        changes.extend((0..cells).map(|cell| put("sub", qualifier(cell), n.to_string())));
        changes.push(put("cf", "fence", n.to_string()));
        guarded(vec![dir("r", changes)])
    }
}

async fn never_torn(engine: &dyn EngineUnderTest, cells: usize, limit: usize) {
    let tables = open(engine).await;
    let write = renumber(cells);
    done(&tables, write(0)).await;
    let query = PageQuery { unchanged: vec![Column::new("cf", "fence")], ..page("r", "sub", limit) };
    while_writing(&tables, write, async || {
        let page = tables.page(&query).await.unwrap();
        assert_eq!((page.cells.len(), page.more), (limit.min(cells), limit < cells));
        let unchanged = page.unchanged[0].clone().unwrap();
        assert!(page.cells.iter().all(|cell| cell.value == unchanged), "{unchanged:?}: {:?}", page.cells);
    })
    .await;
}

pub async fn page_and_its_unchanged_cells_are_of_one_instant(engine: &dyn EngineUnderTest) {
    never_torn(engine, 20, 10).await;
}

pub async fn page_of_hundreds_and_its_unchanged_cells_are_of_one_instant(engine: &dyn EngineUnderTest) {
    never_torn(engine, 300, 400).await;
}

pub async fn page_reads_a_wide_family_to_its_end(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    fill(&tables, b"r", "sub", 0..PAGE_CELLS + 4).await;
    let found = tables.page(&page("r", "sub", PAGE_CELLS)).await.unwrap();
    assert_eq!((found.cells.len(), found.more), (PAGE_CELLS, true));
    let last = found.cells.last().unwrap().qualifier.clone();
    let rest = PageQuery { from: Bound::Excluded(last), ..page("r", "sub", PAGE_CELLS) };
    let found = tables.page(&rest).await.unwrap();
    assert_eq!((found.cells.len(), found.more), (4, false));
}

pub async fn page_skips_removed_cells(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    fill(&tables, b"r", "sub", 0..8_000).await;
    // Single cells at the front, then a range in the middle of the rest.
    let front = (0..5_000).map(|n| delete("sub", qualifier(n))).collect();
    done(&tables, guarded(vec![dir("r", front)])).await;
    let found = tables.page(&page("r", "sub", 2)).await.unwrap();
    assert_eq!((qualifiers(&found), found.more), (vec![qualifier(5_000), qualifier(5_001)], true));

    done(&tables, guarded(vec![dir("r", vec![delete_family("sub"), put("sub", "x", "v")])])).await;
    let found = tables.page(&page("r", "sub", 2)).await.unwrap();
    assert_eq!((qualifiers(&found), found.more), (vec!["x".to_owned()], false));

    done(&tables, guarded(vec![dir("r", vec![delete("sub", "x")])])).await;
    assert_eq!(tables.page(&page("r", "sub", 2)).await.unwrap(), Page::default());
}
