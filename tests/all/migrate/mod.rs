//! Migrations of stores with files: a stored fixture of an older schema, and small stores that are interrupted at every
//! step.

mod command;
mod packing;
pub mod schema_1;
mod usage;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use rowdrive::drive::{Drive, NameQuery, Node, TimeQuery};
use rowdrive::engines::memory::Memory;
use rowdrive::engines::rocks::{Rocks, RocksOptions};
use rowdrive::migrate::{self, LATEST, MigrateError};
use rowdrive::schema::dir::{self, RowLock};
use rowdrive::schema::file::{self, FilePosition};
use rowdrive::schema::index::by_time::{Clock, CopiedAttributes, TimeIndexEntry};
use rowdrive::schema::subtree_op::{self, OpRecord, Phase, SubtreeOpKind};
use rowdrive::schema::{CF, DrivePath, OpId, index::by_name, index::by_owner, index::by_time, meta};
use rowdrive::table::{
    Change, Check, Column, ConditionalRow, Outcome, Plan, RowChange, RowQuery, RowRange, ScanQuery, Tables,
};

use crate::drive::fixture::{find_all, time_query};
use crate::stepwise::{Fault, Stepwise};
use schema_1::OldTree;

/// A database of schema 1, without RocksDB's own logs.
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

pub fn rocks(dir: &Path) -> Arc<Rocks> {
    Arc::new(Rocks::open(dir, RocksOptions::with_memory(32 << 20)).unwrap())
}

/// Number of cells in the table.
pub async fn cells(tables: &Tables, table: &'static str) -> usize {
    let query = RowQuery::families(&[CF]);
    let scan = ScanQuery { table, range: RowRange::all(), row_query: query, limit: 10_000, reverse: false };
    tables.scan(&scan).await.unwrap().iter().map(|(_, row)| row.len()).sum()
}

fn paths(nodes: &[Node]) -> BTreeSet<String> {
    nodes.iter().map(|node| node.path().as_str().to_owned()).collect()
}

/// Asserts that every file is found by both clocks and by its name, as after an upload to the newest schema, and that
/// the indexes contain nothing else.
async fn is_indexed(tables: &Tables, old: &OldTree) {
    let content = tempfile::tempdir().unwrap();
    let drive = Drive::open(tables.clone(), content.path()).await.unwrap();
    let expected = old.paths();
    for clock in Clock::ALL {
        assert_eq!(paths(&drive.unrestricted().files_by_time(&time_query(clock)).await.unwrap().nodes), expected);
        let by_anna = TimeQuery { creator: Some("anna".into()), ..time_query(clock) };
        assert_eq!(paths(&drive.unrestricted().files_by_time(&by_anna).await.unwrap().nodes), expected);
    }
    for file in expected.iter().take(20) {
        let name = schema_1::name(file).as_str().to_owned();
        let query = NameQuery { name, prefix: false, ..find_all() };
        let found = paths(&drive.unrestricted().files_by_name(&query).await.unwrap().nodes);
        let named = |path: &&String| schema_1::name(path).folded() == schema_1::name(file).folded();
        assert_eq!(found, expected.iter().filter(named).cloned().collect());
    }
    assert_eq!(cells(tables, by_time::TABLE).await, 2 * expected.len());
    assert_eq!(cells(tables, by_owner::TABLE).await, 2 * expected.len());
    assert_eq!(cells(tables, by_name::TABLE).await, expected.len());
    drive.close().await;
}

/// Asserts that each file row has the attributes and the position in a cell each, with the values of the entry, and
/// nothing else but content.
async fn is_packed(tables: &Tables, old: &OldTree) {
    let content = tempfile::tempdir().unwrap();
    let drive = Drive::open(tables.clone(), content.path()).await.unwrap();
    for file in old.paths() {
        let path = DrivePath::parse(&file).unwrap();
        let Node::File { entry, .. } = drive.unrestricted().stat(&path).await.unwrap() else { panic!("{file}") };
        let (parent, name) = path.split().unwrap();
        let dir = match drive.unrestricted().stat(&parent).await.unwrap() {
            Node::Directory { entry, .. } => entry.id,
            other => panic!("{other:?}"),
        };
        let row = tables.get(file::TABLE, entry.id.0.as_bytes(), &RowQuery::families(&[CF])).await.unwrap();
        let position = FilePosition { dir, name, stay: entry.stay };
        let expected: Vec<_> = file::put_cells(&entry.attributes, &position);
        let found = row.cells().iter().map(|(f, cell)| Change::put(f, cell.qualifier.clone(), cell.value.clone()));
        assert_eq!(found.collect::<Vec<_>>(), expected, "{file}");
        let body = drive.unrestricted().open_file(&path).await.unwrap().body;
        assert_eq!(body.len(), 1, "{file}");
    }
    assert_eq!(cells(tables, file::TABLE).await, 2 * old.paths().len());
    drive.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_indexes_are_filled_from_a_stored_tree() {
    let dir = copied(&stored());
    for _ in 0..2 {
        let rocks = rocks(dir.path());
        let tables = Tables::new(rocks.clone());
        migrate::up(&tables).await.unwrap();
        is_indexed(&tables, &OldTree::large()).await;
        is_packed(&tables, &OldTree::large()).await;
        rocks.close().await;
    }
}

/// A store of schema 1 with a small tree, on the stepwise store.
async fn small() -> (Arc<Stepwise>, Tables) {
    let store = Stepwise::new(Arc::new(Memory::default()));
    let tables = Tables::new(store.clone());
    migrate::up_to(&tables, 1).await.unwrap();
    OldTree::small().store(&tables).await;
    (store, tables)
}

#[tokio::test]
async fn an_interrupted_migration_is_repeated_after_any_step() {
    let (store, tables) = small().await;
    let begun = store.steps();
    migrate::up(&tables).await.unwrap();
    let steps = store.steps() - begun;
    assert!(steps > 3 * OldTree::small().paths().len(), "{steps}");
    for step in 1..=steps {
        for fault in [Fault::Stop, Fault::StopAfter, Fault::Lose, Fault::LoseAnswer, Fault::DelayAndStop, Fault::Twice]
        {
            let (store, tables) = small().await;
            store.at(begun + step, fault);
            let done = migrate::up(&tables).await;
            assert_eq!(done.is_ok(), fault == Fault::Twice, "{step}, {fault:?}: {done:?}");
            store.revive();
            // Another process, without knowledge of the tables.
            let tables = Tables::new(store.clone());
            migrate::up(&tables).await.unwrap();
            store.deliver().await;
            is_indexed(&tables, &OldTree::small()).await;
            is_packed(&tables, &OldTree::small()).await;
        }
    }
}

/// A program that knows the migrations up to 4 refuses version 5. It would take a packed row for one without content, and
/// would remove a content file that it finds in no row.
#[tokio::test]
async fn an_older_program_refuses_a_store_whose_file_rows_are_packed_in_part() {
    let files = OldTree::large().paths().len();
    let mut packed_in_part = 0;
    for step in 1.. {
        let store = Stepwise::new(Arc::new(Memory::default()));
        let tables = Tables::new(store.clone());
        migrate::up_to(&tables, 1).await.unwrap();
        OldTree::large().store(&tables).await;
        migrate::up_to(&tables, 4).await.unwrap();
        store.at(store.steps() + step, Fault::Stop);
        let done = migrate::up_to(&tables, 5).await;
        store.revive();
        let is_packed_in_part = cells(&tables, file::TABLE).await < 10 * files;
        assert!(!is_packed_in_part || version(&tables).await == meta::encode_version(5), "step {step}");
        if done.is_ok() {
            break;
        }
        packed_in_part += usize::from(is_packed_in_part);
        assert_eq!(migrate::status(&tables).await.unwrap().version, 4, "step {step}");
        assert!(matches!(migrate::open(&tables).await, Err(MigrateError::Older { found: 4, .. })), "step {step}");
        // A drive that is opened degraded is not migrated: it reads rows of both kinds.
        is_indexed(&tables, &OldTree::large()).await;
        migrate::up(&tables).await.unwrap();
        is_packed(&tables, &OldTree::large()).await;
        migrate::open(&tables).await.unwrap();
    }
    assert!(packed_in_part > 3, "{packed_in_part}");
}

#[tokio::test]
async fn an_interrupted_first_start_is_repeated_after_any_step() {
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
            is_indexed(&tables, &OldTree::default()).await;
        }
    }
}

#[tokio::test]
async fn the_back_fill_reads_every_directory() {
    let tables = Tables::new(Arc::new(Memory::default()));
    migrate::up_to(&tables, 1).await.unwrap();
    OldTree::wide().store(&tables).await;
    migrate::up(&tables).await.unwrap();
    is_indexed(&tables, &OldTree::wide()).await;
}

/// Entries of schema 3 have only what queries filter by. A drive that finds such ones all the same answers by the tree.
#[tokio::test]
async fn the_time_index_gets_all_attributes() {
    let tables = Tables::new(Arc::new(Memory::default()));
    migrate::up_to(&tables, 1).await.unwrap();
    OldTree::small().store(&tables).await;
    migrate::up_to(&tables, 3).await.unwrap();
    let entries = time_entries(&tables).await;
    assert!(!entries.is_empty());
    for (row, cell, entry) in &entries {
        let CopiedAttributes::All(attributes) = &entry.copied else { panic!("{entry:?}") };
        let (mime, creator) = (attributes.mime.clone(), attributes.creator.clone());
        let old = TimeIndexEntry { copied: CopiedAttributes::Filters { mime, creator }, ..entry.clone() };
        let changes = vec![Change::put(CF, cell.clone(), old.encode())];
        let prepare = vec![RowChange { table: by_time::TABLE, row: row.clone(), changes }];
        tables.commit(Plan { prepare, ..Plan::default() }).await.unwrap();
    }
    assert_ne!(time_entries(&tables).await, entries);
    is_indexed(&tables, &OldTree::small()).await;
    migrate::up(&tables).await.unwrap();
    assert_eq!(time_entries(&tables).await, entries);
    is_indexed(&tables, &OldTree::small()).await;
}

/// Rows, qualifiers and values of the time index.
async fn time_entries(tables: &Tables) -> Vec<(Bytes, Bytes, TimeIndexEntry)> {
    let query = RowQuery::families(&[CF]);
    let all =
        ScanQuery { table: by_time::TABLE, range: RowRange::all(), row_query: query, limit: 10_000, reverse: false };
    let rows = tables.scan(&all).await.unwrap();
    let cells = rows.iter().flat_map(|(key, row)| row.family(CF).map(move |cell| (key, cell)));
    cells
        .map(|(key, cell)| (key.clone(), cell.qualifier.clone(), TimeIndexEntry::decode(&cell.value).unwrap()))
        .collect()
}

/// A move that a crash interrupted has left two rows of one directory, both with its files.
#[tokio::test]
async fn the_back_fill_skips_copies_of_an_unfinished_move() {
    let tables = Tables::new(Arc::new(Memory::default()));
    migrate::up_to(&tables, 2).await.unwrap();
    OldTree::small().store(&tables).await;
    OldTree::insert_copy(&tables, "/a", "/moved", RowLock::Copy(OpId::now())).await;
    migrate::up(&tables).await.unwrap();
    assert_eq!(cells(&tables, by_owner::TABLE).await, 2 * OldTree::small().paths().len());
}

/// A move is committed, and its old row is not removed yet. A file that was deleted meanwhile at the new path is still in
/// the old row: its index entries must not come back.
#[tokio::test]
async fn the_back_fill_brings_back_no_file_that_was_deleted_during_a_move() {
    let tables = Tables::new(Arc::new(Memory::default()));
    migrate::up_to(&tables, 1).await.unwrap();
    OldTree::small().store(&tables).await;
    migrate::up_to(&tables, 3).await.unwrap();
    let id = tables.cell(dir::TABLE, b"/a", CF, dir::ID).await.unwrap().unwrap();
    let (id, op) = (dir::decode_id(&id).unwrap(), OpId::now());
    let to = DrivePath::parse("/a").unwrap();
    let record = OpRecord { from: DrivePath::parse("/old").unwrap(), root: id, kind: SubtreeOpKind::Move { to } };
    let checks = vec![Check::Absent(subtree_op::phase_column())];
    let written = ConditionalRow { table: subtree_op::TABLE, row: op.key(), checks, changes: record.put_cells() };
    for row in [written, subtree_op::decide(op, Phase::Committed)] {
        let plan = Plan { guarded: vec![row], ..Plan::default() };
        assert_eq!(tables.commit(plan).await.unwrap(), Outcome::Committed);
    }
    OldTree::insert_copy(&tables, "/a", "/old", RowLock::Source(op)).await;
    let entries = time_entries(&tables).await;
    let (_, _, deleted) = entries.iter().find(|(_, _, entry)| entry.dir == id).unwrap();
    let of_it = entries.iter().filter(|(_, _, entry)| entry == deleted);
    let remove = |(row, cell, _): &(Bytes, Bytes, TimeIndexEntry)| {
        let changes = vec![Change::delete(CF, cell.clone())];
        RowChange { table: by_time::TABLE, row: row.clone(), changes }
    };
    let guarded = vec![ConditionalRow {
        table: dir::TABLE,
        row: Bytes::from_static(b"/a"),
        checks: vec![Check::Absent(dir::lock_column())],
        changes: vec![Change::delete(dir::SUB, dir::file_qualifier(&deleted.name))],
    }];
    let finish = of_it.map(remove).collect::<Vec<_>>();
    assert_eq!(finish.len(), 2);
    tables.commit(Plan { guarded, finish, ..Plan::default() }).await.unwrap();
    migrate::up(&tables).await.unwrap();
    let left = time_entries(&tables).await;
    assert_eq!(left.len(), entries.len() - 2);
    assert!(left.iter().all(|(_, _, entry)| entry != deleted));
}

#[tokio::test]
async fn the_back_fill_sends_no_plan_that_is_too_large() {
    let tables = Tables::new(Arc::new(Memory::default()));
    migrate::up_to(&tables, 1).await.unwrap();
    OldTree::long().store(&tables).await;
    migrate::up(&tables).await.unwrap();
    let drive = Drive::open(tables, tempfile::tempdir().unwrap().path()).await.unwrap();
    for ascending in [false, true] {
        let by_anna = TimeQuery { creator: Some("anna".into()), ascending, ..time_query(Clock::Added) };
        assert_eq!(paths(&drive.unrestricted().files_by_time(&by_anna).await.unwrap().nodes), OldTree::long().paths());
    }
}

#[tokio::test]
async fn of_two_concurrent_migrations_one_is_refused() {
    let (clean, tables) = small().await;
    migrate::up(&tables).await.unwrap();
    let (store, tables) = small().await;
    let rival = Tables::new(store.inner());
    // The last step records the version.
    store.once_before(clean.steps(), |_| async move { migrate::up(&rival).await.unwrap() });
    assert!(matches!(migrate::up(&tables).await, Err(MigrateError::Raced)));
    migrate::up(&tables).await.unwrap();
    is_indexed(&tables, &OldTree::small()).await;
}

/// The recorded version.
async fn version(tables: &Tables) -> Bytes {
    tables.cell(meta::TABLE, meta::SCHEMA, CF, meta::VALUE).await.unwrap().unwrap()
}

pub async fn set_version(tables: &Tables, value: Bytes) {
    let row = Bytes::from_static(meta::SCHEMA);
    let checks = vec![Check::Equals(meta::column(), version(tables).await)];
    let changes = vec![Change::put(CF, meta::VALUE, value)];
    let guarded = vec![ConditionalRow { table: meta::TABLE, row, checks, changes }];
    tables.commit(Plan { guarded, ..Plan::default() }).await.unwrap();
}

#[tokio::test]
async fn a_newer_store_is_refused_and_left_unchanged() {
    let tables = Tables::new(Arc::new(Memory::default()));
    migrate::up(&tables).await.unwrap();
    set_version(&tables, meta::encode_version(LATEST + 1)).await;
    let refused = migrate::up(&tables).await.unwrap_err();
    assert!(matches!(refused, MigrateError::Newer { found, known } if found == LATEST + 1 && known == LATEST));
    let message = refused.to_string();
    assert!(message.contains(&LATEST.to_string()) && message.contains(&(LATEST + 1).to_string()), "{message}");
    assert_eq!(version(&tables).await, meta::encode_version(LATEST + 1));

    set_version(&tables, Bytes::from_static(b"\x01")).await;
    assert!(matches!(migrate::up(&tables).await, Err(MigrateError::Value(_))));
}

/// More rows than a step packs at a time.
#[tokio::test]
async fn all_file_rows_are_packed() {
    let tables = Tables::new(Arc::new(Memory::default()));
    migrate::up_to(&tables, 1).await.unwrap();
    OldTree::large().store(&tables).await;
    migrate::up_to(&tables, 4).await.unwrap();
    assert_eq!(cells(&tables, file::TABLE).await, 10 * OldTree::large().paths().len());
    migrate::up(&tables).await.unwrap();
    is_packed(&tables, &OldTree::large()).await;
}

/// A store of schema 4 in which a cell of the last file row was changed.
async fn with_last_row(tree: &OldTree, change: Change) -> (Tables, Bytes) {
    let tables = Tables::new(Arc::new(Memory::default()));
    migrate::up_to(&tables, 1).await.unwrap();
    tree.store(&tables).await;
    migrate::up_to(&tables, 4).await.unwrap();
    let row_query = RowQuery::families(&[CF]);
    let last = ScanQuery { table: file::TABLE, range: RowRange::all(), row_query, limit: 1, reverse: true };
    let (row, found) = tables.scan(&last).await.unwrap().remove(0);
    let qualifier = change.qualifier().unwrap().clone();
    let checks = vec![Check::Equals(Column::new(CF, qualifier.clone()), found.get(CF, &qualifier).unwrap().clone())];
    let damage = ConditionalRow { table: file::TABLE, row: row.clone(), checks, changes: vec![change] };
    tables.commit(Plan { guarded: vec![damage], ..Plan::default() }).await.unwrap();
    (tables, row)
}

const SIZE: &[u8] = b"size";

/// The rest of the drive is served, and what is left of the row too.
#[tokio::test]
async fn a_damaged_file_row_is_left_as_it_is() {
    let old = OldTree::small();
    let (tables, key) = with_last_row(&old, Change::delete(CF, SIZE)).await;
    migrate::up(&tables).await.unwrap();
    let damaged = tables.get(file::TABLE, &key, &RowQuery::families(&[CF])).await.unwrap();
    assert_eq!(damaged.len(), 6 + 1, "the attributes that are left, and the position");
    assert_eq!(cells(&tables, file::TABLE).await, 7 + 2 * (old.paths().len() - 1));
    is_indexed(&tables, &old).await;
    // Any file of the drive can be moved, also that of the damaged row.
    let content = tempfile::tempdir().unwrap();
    let drive = Drive::open(tables.clone(), content.path()).await.unwrap();
    for path in old.paths() {
        let to = DrivePath::parse(&format!("{path}.moved")).unwrap();
        drive.unrestricted().move_node(&DrivePath::parse(&path).unwrap(), &to, false).await.unwrap();
    }
    drive.close().await;
}

/// Otherwise no program would open it: the older one refuses it from its first packed row on, and this one cannot go on.
#[tokio::test]
async fn a_store_that_cannot_be_packed_stays_one_of_the_older_program() {
    let old = OldTree::large();
    let (tables, _) = with_last_row(&old, Change::put(CF, SIZE, b"\xff?".as_slice())).await;
    let refused = migrate::up(&tables).await;
    assert!(matches!(refused, Err(MigrateError::Value(_))), "{refused:?}");
    assert_eq!(version(&tables).await, meta::encode_version(4));
    assert_eq!(cells(&tables, file::TABLE).await, 10 * old.paths().len());
    is_indexed(&tables, &old).await;
}

#[tokio::test]
async fn the_back_fill_refuses_rows_that_it_cannot_read() {
    let tables = Tables::new(Arc::new(Memory::default()));
    migrate::up_to(&tables, 1).await.unwrap();
    OldTree::small().store(&tables).await;
    OldTree::insert_unreadable_entry(&tables).await;
    assert!(matches!(migrate::up(&tables).await, Err(MigrateError::Value(_))));
    assert_eq!(version(&tables).await, meta::encode_version(1));
}

/// Writes `tests/fixtures/schema-1` anew. It was run once by hand, by a program with schema 1.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes into the source tree"]
async fn store_the_fixture() {
    let dir = tempfile::tempdir().unwrap();
    // A second start writes the log to a table file.
    for old in [OldTree::large(), OldTree::default()] {
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
