//! `get`: one row at one instant.

use rowdrive::table::limits::PAGE_CELLS;
use rowdrive::table::{Plan, Row, RowQuery, StoreError};

use super::engines::EngineUnderTest;
use super::plans::{
    all, columns, delete, delete_family, dir, done, fill, guarded, open, page, put, qualifier, scan, text,
    while_writing,
};

pub async fn get_returns_what_was_asked_and_no_more(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    let cells = ["a", "b", "c"].map(|q| put("cf", q, format!("cf-{q}")));
    let children = ["a", "b"].map(|q| put("sub", q, format!("sub-{q}")));
    done(&tables, guarded(vec![dir("r", [cells.to_vec(), children.to_vec()].concat())])).await;
    let cases = [
        (RowQuery::cells(columns(&[("cf", "b")])), vec!["cf:b=cf-b"]),
        (RowQuery::cells(columns(&[("sub", "a"), ("cf", "c"), ("cf", "none")])), vec!["cf:c=cf-c", "sub:a=sub-a"]),
        (RowQuery::cells(columns(&[("cf", "a"), ("cf", "a")])), vec!["cf:a=cf-a"]),
        (RowQuery::families(&["sub"]), vec!["sub:a=sub-a", "sub:b=sub-b"]),
        (
            RowQuery::families(&["sub", "cf", "sub"]),
            vec!["cf:a=cf-a", "cf:b=cf-b", "cf:c=cf-c", "sub:a=sub-a", "sub:b=sub-b"],
        ),
        (
            RowQuery { cells: columns(&[("cf", "b"), ("sub", "b")]), families: vec!["sub"] },
            vec!["cf:b=cf-b", "sub:a=sub-a", "sub:b=sub-b"],
        ),
    ];
    for (query, expected) in cases {
        assert_eq!(text(&tables.get("dir", b"r", &query).await.unwrap()), expected, "{query:?}");
    }
}

pub async fn get_of_a_missing_row_is_an_empty_row(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    assert!(all(&tables, b"r").await.is_empty());
    done(&tables, guarded(vec![dir("r", vec![put("cf", "q", "v")])])).await;
    assert!(all(&tables, b"s").await.is_empty());
    for query in [RowQuery::families(&["sub"]), RowQuery::cells(columns(&[("cf", "p"), ("sub", "q")]))] {
        assert_eq!(tables.get("dir", b"r", &query).await.unwrap(), Row::default());
    }
    done(&tables, guarded(vec![dir("r", vec![delete("cf", "q")])])).await;
    assert!(all(&tables, b"r").await.is_empty());
}

/// Sets all cells of both families to one number; every other time both families are removed first.
fn renumber(cells: usize) -> impl Fn(usize) -> Plan + Send + 'static {
    move |n| {
        let mut changes = if n.is_multiple_of(2) { vec![delete_family("cf"), delete_family("sub")] } else { vec![] };
        for cell in 0..cells {
            changes.push(put("cf", qualifier(cell), n.to_string()));
            changes.push(put("sub", qualifier(cell), n.to_string()));
        }
        guarded(vec![dir("r", changes)])
    }
}

/// Reads a row that always has `cells` cells in each family: all of them must have the same number.
async fn never_torn(engine: &dyn EngineUnderTest, cells: usize, query: RowQuery, expected: usize) {
    let tables = open(engine).await;
    let write = renumber(cells);
    done(&tables, write(0)).await;
    while_writing(&tables, write, async || {
        let row = tables.get("dir", b"r", &query).await.unwrap();
        assert_eq!(row.len(), expected);
        let first = &row.cells()[0].1.value;
        assert!(row.cells().iter().all(|(_, cell)| cell.value == *first), "{:?}", text(&row));
    })
    .await;
}

pub async fn get_reads_families_at_one_instant(engine: &dyn EngineUnderTest) {
    never_torn(engine, 3, RowQuery::families(&["sub", "cf"]), 6).await;
}

pub async fn get_reads_cells_at_one_instant(engine: &dyn EngineUnderTest) {
    let cells = [("cf", "000000"), ("sub", "000001"), ("sub", "000000"), ("cf", "000002")];
    never_torn(engine, 3, RowQuery::cells(columns(&cells)), 4).await;
}

pub async fn get_reads_wide_families_at_one_instant(engine: &dyn EngineUnderTest) {
    let query = RowQuery { cells: columns(&[("cf", "000007")]), families: vec!["sub"] };
    never_torn(engine, 300, query, 301).await;
}

pub async fn get_of_a_family_ends_at_a_page(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    let query = RowQuery::families(&["cf", "sub"]);
    fill(&tables, b"r", "sub", 0..PAGE_CELLS).await;
    assert_eq!(tables.get("dir", b"r", &query).await.unwrap().len(), PAGE_CELLS);

    fill(&tables, b"r", "sub", PAGE_CELLS..PAGE_CELLS + 1).await;
    match tables.get("dir", b"r", &query).await {
        Err(StoreError::TooWide { table, row, family }) => {
            assert_eq!((table.as_str(), row.as_ref(), family.as_str()), ("dir", b"r".as_slice(), "sub"));
        }
        other => panic!("{:?}", other.map(|row| row.len())),
    }
    // The page limit drops no other cells of the row.
    assert!(tables.get("dir", b"r", &RowQuery::families(&["cf"])).await.unwrap().is_empty());
    assert!(tables.cell("dir", b"r", "sub", b"010000").await.unwrap().is_some());
}

/// Keys that a wrong encoding would confuse: zeroes, separators, escapes, and prefixes of one another.
pub const KEYS: [&[u8]; 22] = [
    b"\0",
    b"\0\0",
    b"\0\x01",
    b"\0\xff",
    b"\x01",
    b"\x01\0",
    b"\x01\x01",
    b"\x01\x02",
    b"\x02",
    b"/",
    b"/a",
    b"/a\0",
    b"/a\0\0q",
    b"/a\0q",
    b"/a\x01",
    b"/a\x01\x01",
    b"/a/",
    b"/a/b",
    b"/aq",
    b"\xfe\xff",
    b"\xff",
    b"\xff\xff",
];

pub async fn get_accepts_any_bytes_as_row_key(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    let number = |n: usize| format!("{n}");
    for (n, key) in KEYS.iter().enumerate() {
        done(&tables, guarded(vec![dir(*key, vec![put("cf", "q", number(n)), put("sub", number(n), "v")])])).await;
    }
    for (n, key) in KEYS.iter().enumerate() {
        assert_eq!(all(&tables, key).await, [format!("cf:q={n}"), format!("sub:{n}=v")], "{}", key.escape_ascii());
    }
    for (n, key) in KEYS.iter().enumerate() {
        done(&tables, guarded(vec![dir(*key, vec![delete("cf", "q"), delete_family("sub")])])).await;
        assert_eq!(tables.scan(&scan(&["cf", "sub"], 100)).await.unwrap().len(), KEYS.len() - n - 1);
    }
}

pub async fn get_accepts_any_bytes_as_qualifier(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    let cells = KEYS.iter().enumerate().map(|(n, key)| put("cf", *key, n.to_string())).collect();
    done(&tables, guarded(vec![dir("r", cells), dir("r\0", vec![put("cf", "q", "other")])])).await;
    let row = tables.get("dir", b"r", &RowQuery::families(&["cf"])).await.unwrap();
    let found: Vec<&[u8]> = row.family("cf").map(|cell| cell.qualifier.as_ref()).collect();
    assert_eq!(found, KEYS);
    for (n, key) in KEYS.iter().enumerate() {
        assert_eq!(row.get("cf", key).unwrap(), n.to_string().as_bytes());
        let cell = tables.cell("dir", b"r", "cf", key).await.unwrap();
        assert_eq!(cell.unwrap(), n.to_string().as_bytes(), "{}", key.escape_ascii());
    }
    assert_eq!(tables.page(&page("r", "cf", 100)).await.unwrap().cells.len(), KEYS.len());
}

pub async fn get_sees_acknowledged_writes(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    for n in 0..50 {
        done(&tables, guarded(vec![dir("r", vec![put("cf", "q", n.to_string())])])).await;
        let other = tables.clone();
        let found = tokio::spawn(async move { other.cell("dir", b"r", "cf", b"q").await });
        assert_eq!(found.await.unwrap().unwrap().unwrap(), n.to_string());
    }
}
