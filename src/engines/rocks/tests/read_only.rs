//! A store that is open read-only.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use super::*;

/// All files of a folder, with their bytes and times.
fn files(dir: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let file = |path: PathBuf| (path.clone(), (fs::read(&path).unwrap(), path.metadata().unwrap().modified().unwrap()));
    fs::read_dir(dir).unwrap().map(|entry| file(entry.unwrap().path())).collect()
}

#[tokio::test]
async fn a_read_only_store_reads_everything_and_changes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    commit(&rocks, changes(vec![changed("row", vec![put("a", "flushed", "v")])])).await;
    rocks.flush();
    commit(&rocks, changes(vec![changed("row", vec![put("b", "logged", "w")])])).await;
    drop(rocks);
    let before = files(dir.path());
    let rocks = Rocks::open_read_only(dir.path(), options()).unwrap();
    rocks.create(&spec()).await.unwrap();
    assert_eq!(value(&rocks, "row", "a", "flushed").await.as_deref(), Some(b"v".as_ref()));
    assert_eq!(value(&rocks, "row", "b", "logged").await.as_deref(), Some(b"w".as_ref()));
    let written = rocks.commit(changes(vec![changed("row", vec![put("a", "q", "v")])])).await;
    assert!(matches!(written, Err(StoreError::ReadOnly)), "{written:?}");
    assert!(matches!(rocks.writable(), Err(StoreError::ReadOnly)));
    let another = TableSpec { name: "another".into(), ..spec() };
    assert!(matches!(rocks.create(&another).await, Err(StoreError::ReadOnly)));
    drop(rocks);
    assert!(files(dir.path()) == before);
}

#[tokio::test]
async fn a_folder_in_use_is_refused_for_reading_too() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = open(dir.path()).await;
    let opened = Rocks::open_read_only(dir.path(), options()).map(drop);
    assert!(matches!(&opened, Err(StoreError::Failed(said)) if said.contains("is in use")), "{opened:?}");
    drop(rocks);
    let reading = Rocks::open_read_only(dir.path(), options()).unwrap();
    let opened = Rocks::open(dir.path(), options()).map(drop);
    assert!(matches!(&opened, Err(StoreError::Failed(said)) if said.contains("is in use")), "{opened:?}");
    drop(reading);
    Rocks::open(dir.path(), options()).unwrap();
}

#[tokio::test]
async fn an_incompletely_created_table_does_not_exist() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = Rocks::open(dir.path(), options()).unwrap();
    rocks.tables.lock().unwrap().add(&spec()).unwrap();
    let mut first = spec();
    first.families.truncate(1);
    rocks.db.create(&rocks.tuning, &first).unwrap();
    drop(rocks);
    let rocks = Rocks::open_read_only(dir.path(), options()).unwrap();
    assert!(matches!(rocks.create(&spec()).await, Err(StoreError::ReadOnly)));
}

#[tokio::test]
async fn an_empty_folder_stays_empty() {
    let dir = tempfile::tempdir().unwrap();
    assert!(is_damaged(&Rocks::open_read_only(dir.path(), options()).map(drop)));
    assert!(files(dir.path()).is_empty());
}
