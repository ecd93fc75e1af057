//! Migrations on stores that hold files: a stored one of an older schema, and small ones interrupted at every
//! step.

mod old;
mod program;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use rowdrive::drive::{Drive, FilesAsk, FindAsk, Node};
use rowdrive::engines::memory::Memory;
use rowdrive::engines::rocks::{Rocks, RocksOptions};
use rowdrive::migrate::{self, LATEST, MigrateError};
use rowdrive::schema::time::Clock;
use rowdrive::schema::{CF, meta, name, owner, time};
use rowdrive::table::{Ask, Change, Check, Guarded, Plan, RowRange, ScanAsk, Tables};

use crate::drive::world::{find_all, time_query};
use crate::stepwise::{Fault, Stepwise};
use old::Old;

/// A database as schema 1 left it, without what RocksDB writes for people.
fn stored() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schema-1")
}

fn copied(from: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
    }
    copy
}

fn rocks(dir: &Path) -> Arc<Rocks> {
    Arc::new(Rocks::open(dir, RocksOptions { memory: 32 << 20 }).unwrap())
}

/// Number of cells in the table.
async fn cells(tables: &Tables, table: &'static str) -> usize {
    let ask = Ask::families(&[CF]);
    let scan = ScanAsk { table, range: RowRange::all(), ask, limit: 10_000, reverse: false };
    tables.scan(&scan).await.unwrap().iter().map(|(_, row)| row.len()).sum()
}

fn paths(nodes: &[Node]) -> BTreeSet<String> {
    nodes.iter().map(|node| node.path().as_str().to_owned()).collect()
}

/// Every file is found by both clocks and by its name, as an upload to the newest schema would be, and the
/// indexes hold nothing else.
async fn is_indexed(tables: &Tables, old: &Old) {
    let content = tempfile::tempdir().unwrap();
    let drive = Drive::open(tables.clone(), content.path()).await.unwrap();
    let expected = old.paths();
    for clock in Clock::ALL {
        assert_eq!(paths(&drive.files(&time_query(clock)).await.unwrap().nodes), expected);
        let by_anna = FilesAsk { creator: Some("anna".into()), ..time_query(clock) };
        assert_eq!(paths(&drive.files(&by_anna).await.unwrap().nodes), expected);
    }
    for file in expected.iter().take(20) {
        let name = old::name(file).as_str().to_owned();
        let ask = FindAsk { name, prefix: false, ..find_all() };
        let found = paths(&drive.find(&ask).await.unwrap().nodes);
        let named = |path: &&String| old::name(path).folded() == old::name(file).folded();
        assert_eq!(found, expected.iter().filter(named).cloned().collect());
    }
    assert_eq!(cells(tables, time::TABLE).await, 2 * expected.len());
    assert_eq!(cells(tables, owner::TABLE).await, 2 * expected.len());
    assert_eq!(cells(tables, name::TABLE).await, expected.len());
    drive.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_indexes_are_filled_from_a_stored_tree() {
    let dir = copied(&stored());
    for _ in 0..2 {
        let rocks = rocks(dir.path());
        let tables = Tables::new(rocks.clone());
        migrate::up(&tables).await.unwrap();
        is_indexed(&tables, &Old::large()).await;
        rocks.close().await;
    }
}

/// A store of schema 1 with a small tree, that does plans step by step.
async fn small() -> (Arc<Stepwise>, Tables) {
    let store = Stepwise::new(Arc::new(Memory::default()));
    let tables = Tables::new(store.clone());
    migrate::up_to(&tables, 1).await.unwrap();
    Old::small().store(&tables).await;
    (store, tables)
}

#[tokio::test]
async fn an_interrupted_migration_is_done_again_from_any_step() {
    let (store, tables) = small().await;
    let begun = store.steps();
    migrate::up(&tables).await.unwrap();
    let steps = store.steps() - begun;
    assert!(steps > 3 * Old::small().paths().len(), "{steps}");
    for step in 1..=steps {
        for fault in [Fault::Stop, Fault::StopAfter, Fault::Lose, Fault::LoseAnswer, Fault::HoldAndStop, Fault::Twice] {
            let (store, tables) = small().await;
            store.at(begun + step, fault);
            let done = migrate::up(&tables).await;
            assert_eq!(done.is_ok(), fault == Fault::Twice, "{step}, {fault:?}: {done:?}");
            store.revive();
            // Another process, which knows no table yet.
            let tables = Tables::new(store.clone());
            migrate::up(&tables).await.unwrap();
            store.deliver().await;
            is_indexed(&tables, &Old::small()).await;
        }
    }
}

#[tokio::test]
async fn a_new_store_is_made_again_from_any_step() {
    let clean = Stepwise::new(Arc::new(Memory::default()));
    migrate::up(&Tables::new(clean.clone())).await.unwrap();
    for step in 1..=clean.steps() {
        for fault in [Fault::Stop, Fault::StopAfter] {
            let store = Stepwise::new(Arc::new(Memory::default()));
            store.at(step, fault);
            migrate::up(&Tables::new(store.clone())).await.unwrap_err();
            store.revive();
            let tables = Tables::new(store.clone());
            migrate::up(&tables).await.unwrap();
            is_indexed(&tables, &Old::default()).await;
        }
    }
}

#[tokio::test]
async fn the_back_fill_comes_to_every_directory() {
    let tables = Tables::new(Arc::new(Memory::default()));
    migrate::up_to(&tables, 1).await.unwrap();
    Old::wide().store(&tables).await;
    migrate::up(&tables).await.unwrap();
    is_indexed(&tables, &Old::wide()).await;
}

/// A move that a crash cut short has left two rows of one directory, both with its files.
#[tokio::test]
async fn the_back_fill_comes_through_what_an_operation_left() {
    let tables = Tables::new(Arc::new(Memory::default()));
    migrate::up_to(&tables, 2).await.unwrap();
    Old::small().store(&tables).await;
    Old::plant_staged_copy(&tables, "/a", "/moved").await;
    migrate::up(&tables).await.unwrap();
    assert_eq!(cells(&tables, owner::TABLE).await, 2 * Old::small().paths().len());
}

#[tokio::test]
async fn the_back_fill_sends_no_plan_that_is_too_large() {
    let tables = Tables::new(Arc::new(Memory::default()));
    migrate::up_to(&tables, 1).await.unwrap();
    Old::long().store(&tables).await;
    migrate::up(&tables).await.unwrap();
    let drive = Drive::open(tables, tempfile::tempdir().unwrap().path()).await.unwrap();
    for ascending in [false, true] {
        let by_anna = FilesAsk { creator: Some("anna".into()), ascending, ..time_query(Clock::Added) };
        assert_eq!(paths(&drive.files(&by_anna).await.unwrap().nodes), Old::long().paths());
    }
}

#[tokio::test]
async fn of_two_who_migrate_one_is_told_to_start_again() {
    let (clean, tables) = small().await;
    migrate::up(&tables).await.unwrap();
    let (store, tables) = small().await;
    let rival = Tables::new(store.inner());
    // The last step records the version.
    store.once_before(clean.steps(), |_| async move { migrate::up(&rival).await.unwrap() });
    assert!(matches!(migrate::up(&tables).await, Err(MigrateError::Raced)));
    migrate::up(&tables).await.unwrap();
    is_indexed(&tables, &Old::small()).await;
}

/// The recorded version.
async fn version(tables: &Tables) -> Bytes {
    tables.cell(meta::TABLE, meta::SCHEMA, CF, meta::VALUE).await.unwrap().unwrap()
}

pub async fn set_version(tables: &Tables, value: Bytes) {
    let row = Bytes::from_static(meta::SCHEMA);
    let checks = vec![Check::Equals(meta::column(), version(tables).await)];
    let changes = vec![Change::put(CF, meta::VALUE, value)];
    let guarded = vec![Guarded { table: meta::TABLE, row, checks, changes }];
    tables.commit(Plan { guarded, ..Plan::default() }).await.unwrap();
}

#[tokio::test]
async fn a_newer_store_is_refused_and_left_as_it_is() {
    let tables = Tables::new(Arc::new(Memory::default()));
    migrate::up(&tables).await.unwrap();
    set_version(&tables, meta::encode_version(LATEST + 1)).await;
    let refused = migrate::up(&tables).await.unwrap_err();
    assert!(matches!(refused, MigrateError::Newer { found, known } if found == LATEST + 1 && known == LATEST));
    let told = refused.to_string();
    assert!(told.contains(&LATEST.to_string()) && told.contains(&(LATEST + 1).to_string()), "{told}");
    assert_eq!(version(&tables).await, meta::encode_version(LATEST + 1));

    set_version(&tables, Bytes::from_static(b"\x01")).await;
    assert!(matches!(migrate::up(&tables).await, Err(MigrateError::Value(_))));
}

#[tokio::test]
async fn the_back_fill_does_not_guess_at_what_it_cannot_read() {
    let tables = Tables::new(Arc::new(Memory::default()));
    migrate::up_to(&tables, 1).await.unwrap();
    Old::small().store(&tables).await;
    Old::plant_unreadable_entry(&tables).await;
    assert!(matches!(migrate::up(&tables).await, Err(MigrateError::Value(_))));
    assert_eq!(version(&tables).await, meta::encode_version(1));
}

/// Writes `tests/fixtures/schema-1` anew: run by hand, once, by the program whose schema it is.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes into the source tree"]
async fn store_the_fixture() {
    let dir = tempfile::tempdir().unwrap();
    // Opened again, so that what was in the log lies in a table file too.
    for old in [Old::large(), Old::default()] {
        let rocks = rocks(dir.path());
        let tables = Tables::new(rocks.clone());
        migrate::up_to(&tables, 1).await.unwrap();
        old.store(&tables).await;
        rocks.close().await;
    }
    fs::create_dir_all(stored()).unwrap();
    for file in fs::read_dir(dir.path()).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        if !["LOG", "LOCK", "OPTIONS", "in-use"].iter().any(|start| name.starts_with(start)) {
            fs::copy(file.path(), stored().join(name)).unwrap();
        }
    }
}
