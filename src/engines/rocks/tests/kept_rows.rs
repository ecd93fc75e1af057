//! Rows that are kept in memory: they are those of the database, at each step of a write.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::engines::rocks::kept_rows::{Found, KeptRows, Written};
use crate::table::Row;

fn query() -> RowQuery {
    RowQuery { cells: vec![column("a", "q")], families: vec!["b"] }
}

/// The row as it is kept; none if it is read from the database.
fn kept(rocks: &Rocks, row: &str, query: &RowQuery) -> Option<Row> {
    match rocks.db.kept.find("t", row.as_bytes(), query) {
        Found::Kept(row) => Some(row),
        Found::Missing(_) => None,
    }
}

async fn read(rocks: &Rocks, row: &str, query: &RowQuery) -> Row {
    rocks.get("t", row.as_bytes(), query).await.unwrap()
}

#[tokio::test]
async fn a_row_is_kept_until_a_cell_or_a_family_of_the_read_changes() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open_keeping(dir.path(), keeping()).await;
    let (query, single) = (query(), RowQuery::cells(vec![column("a", "q")]));
    commit(&rocks, changes(vec![changed("r", vec![put("a", "q", "1"), put("b", "x", "1")])])).await;
    let all = async || {
        let found = (read(&rocks, "r", &query).await, read(&rocks, "r", &single).await);
        assert_eq!((kept(&rocks, "r", &query), kept(&rocks, "r", &single)), (Some(found.0), Some(found.1)));
    };
    for (row, change, [is_kept, is_single_kept]) in [
        ("r", put("a", "other", "2"), [true, true]),
        ("r", put("c", "q", "2"), [true, true]),
        ("s", put("a", "q", "2"), [true, true]),
        ("r", put("b", "y", "2"), [false, true]),
        ("r", Change::delete("b", "x"), [false, true]),
        ("r", Change::DeleteFamily { family: "b" }, [false, true]),
        ("r", put("a", "q", "2"), [false, false]),
        ("r", Change::DeleteFamily { family: "a" }, [false, false]),
        ("r", Change::add("a", "q", 3), [false, false]),
    ] {
        all().await;
        commit(&rocks, changes(vec![changed(row, vec![change.clone()])])).await;
        let found = [&query, &single].map(|query| kept(&rocks, "r", query).is_some());
        assert_eq!(found, [is_kept, is_single_kept], "{change:?}");
    }
    // What is missing is kept too.
    let missing = read(&rocks, "none", &query).await;
    assert!(missing.is_empty() && kept(&rocks, "none", &query) == Some(missing));
}

#[tokio::test]
async fn nothing_is_kept_of_what_is_being_written_or_of_a_write_that_failed() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open_keeping(dir.path(), keeping()).await;
    let (query, mut changed_versions) = (query(), Vec::new());
    let versions = &rocks.db.kept;
    versions.add(&mut changed_versions, ("t", b"r", "a"), Written::Cell(b"q"));
    let before = read(&rocks, "r", &query).await;
    versions.begin(&changed_versions);
    assert_eq!(kept(&rocks, "r", &query), None);
    // What is read meanwhile is not kept, since it may be of before or after.
    assert_eq!(read(&rocks, "r", &query).await, before);
    versions.end(&changed_versions);
    assert_eq!(kept(&rocks, "r", &query), None);
    // A read whose database part was before the write, and whose end is after it.
    let Found::Missing(Some(old)) = versions.find("t", b"r", &query) else { panic!("no versions") };
    commit(&rocks, changes(vec![changed("r", vec![put("a", "q", "2")])])).await;
    versions.keep(("t", b"r", &query), old, before);
    assert_eq!(kept(&rocks, "r", &query), None);

    // A write that fails does not end, until the next one does.
    versions.begin(&changed_versions);
    for _ in 0..2 {
        assert_eq!(read(&rocks, "r", &query).await.get("a", b"q").unwrap(), "2");
        assert_eq!(kept(&rocks, "r", &query), None);
    }
    commit(&rocks, changes(vec![changed("r", vec![put("a", "q", "3")])])).await;
    let after = read(&rocks, "r", &query).await;
    assert_eq!(kept(&rocks, "r", &query), Some(after));
}

#[tokio::test]
async fn a_row_of_many_bytes_or_of_other_families_is_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open_keeping(dir.path(), RocksOptions { kept: &[("t", "a")], ..options() }).await;
    let query = RowQuery::families(&["a"]);
    commit(&rocks, changes(vec![changed("r", vec![put("a", "q", &"v".repeat(70_000)), put("b", "q", "v")])])).await;
    for query in [&query, &self::query(), &RowQuery::families(&["b"])] {
        assert!(!read(&rocks, "r", query).await.is_empty());
        assert_eq!(kept(&rocks, "r", query), None, "{query:?}");
    }
    assert!(matches!(KeptRows::new(&[], 0).find("t", b"r", &query), Found::Missing(None)));
}

/// Readers that never find less than a commit that was answered before they began.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_read_is_older_than_an_answered_write() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = std::sync::Arc::new(open_keeping(dir.path(), keeping()).await);
    let (written, ended) =
        (std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0)), std::sync::Arc::new(AtomicBool::new(false)));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (rocks, written, ended) = (rocks.clone(), written.clone(), ended.clone());
            tokio::spawn(async move {
                let (query, mut reads) = (RowQuery::cells(vec![column("a", "n")]), 0);
                while !ended.load(Ordering::SeqCst) {
                    let least = written.load(Ordering::SeqCst);
                    let row = rocks.get("t", b"r", &query).await.unwrap();
                    let found = row.get("a", b"n").map_or(0, |value| u64::from_be_bytes(value[..].try_into().unwrap()));
                    assert!(found >= least, "{found} {least}");
                    reads += 1;
                    tokio::task::yield_now().await;
                }
                reads
            })
        })
        .collect();
    for n in 1..=2_000 {
        commit(&rocks, changes(vec![changed("r", vec![Change::add("a", "n", 1)])])).await;
        written.store(n, Ordering::SeqCst);
    }
    ended.store(true, Ordering::SeqCst);
    for reader in readers {
        assert!(reader.await.unwrap() > 100);
    }
}
