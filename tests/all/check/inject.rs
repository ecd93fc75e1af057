//! Injects damage into a drive's folder and tables.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rowdrive::drive::{ListQuery, Node};
use rowdrive::schema::dir::{self, DirEntry, FileEntry, RowLock};
use rowdrive::schema::dir_parent::{self, DirParent};
use rowdrive::schema::file::{self, Attributes, ContentLocation};
use rowdrive::schema::index::by_name::NameIndexEntry;
use rowdrive::schema::index::by_time::Clock;
use rowdrive::schema::{CF, DirId, DrivePath, FileId, Name, OpId, index, index::by_time, pending_unlink};
use rowdrive::table::{Change, Check, Column, ConditionalRow, Outcome, Plan, RowChange, RowQuery};
use uuid::Uuid;

use crate::drive::fixture::{Fixture, bytes, path, time_query};

pub const LARGE: usize = 300_000;

#[derive(Clone, Copy, Debug)]
pub enum Damage {
    NoFileRow(&'static str),
    OtherFileRow(&'static str),
    /// Of a file or a directory: only its entry is removed.
    NoName(&'static str),
    /// The file row of a replaced version.
    OldVersion(&'static str),
    NoIndexRow(&'static str, &'static str),
    OtherIndexRow(&'static str, &'static str),
    StrayIndexRow(&'static str),
    UnreadableIndexRow,
    NoInline(&'static str),
    OtherInline(&'static str),
    NoContent(&'static str),
    FlippedByte(&'static str, usize),
    CutContent(&'static str),
    StrayContent,
    Foreign,
    Condemned(&'static str),
    NoLink(&'static str),
    OtherLink(&'static str),
    StrayLink,
    DeadMark(&'static str),
    DeadStaged(&'static str),
    StrayDirectory(&'static str),
    NoDirectoryRow(&'static str),
    OtherDirectory(&'static str),
    SameId(&'static str, &'static str),
    SameName(&'static str),
    UnreadableEntry(&'static str),
    UnreadableName(&'static str),
    BadKey,
    SecondName(&'static str, &'static str),
}

async fn entry(fixture: &Fixture, at: &str) -> FileEntry {
    match fixture.watcher.unrestricted().stat(&path(at)).await.unwrap() {
        Node::File { entry, .. } => entry,
        other => panic!("{other:?}"),
    }
}

async fn directory(fixture: &Fixture, at: &str) -> DirEntry {
    match fixture.watcher.unrestricted().stat(&path(at)).await.unwrap() {
        Node::Directory { entry, .. } => entry,
        other => panic!("{other:?}"),
    }
}

fn split(at: &str) -> (DrivePath, Name) {
    path(at).split().unwrap()
}

/// The index rows of a file in one index table.
async fn index_rows(fixture: &Fixture, at: &str, table: &str) -> Vec<RowChange> {
    let (parent, name) = split(at);
    let dir = directory(fixture, parent.as_str()).await.id;
    index::put_rows(dir, &name, &entry(fixture, at).await).into_iter().filter(|row| row.table == table).collect()
}

async fn commit(fixture: &Fixture, plan: Plan) {
    assert_eq!(fixture.tables.commit(plan).await.unwrap(), Outcome::Committed);
}

async fn prepare(fixture: &Fixture, prepare: Vec<RowChange>) {
    commit(fixture, Plan { prepare, ..Plan::default() }).await;
}

async fn finish(fixture: &Fixture, finish: Vec<RowChange>) {
    commit(fixture, Plan { finish, ..Plan::default() }).await;
}

/// Changes a directory row.
async fn change(fixture: &Fixture, row: Bytes, changes: Vec<Change>) {
    // A conditional row needs a check.
    let checks = vec![Check::Absent(Column::new(CF, b"nothing".as_slice()))];
    let guarded = vec![ConditionalRow { table: dir::TABLE, row, checks, changes }];
    commit(fixture, Plan { guarded, ..Plan::default() }).await;
}

/// Changes cells of a file row.
async fn change_file(fixture: &Fixture, id: FileId, changes: Vec<Change>) {
    let position = fixture.tables.cell(file::TABLE, id.0.as_bytes(), CF, file::POSITION).await.unwrap().unwrap();
    let checks = vec![Check::Equals(Column::new(CF, file::POSITION), position)];
    let guarded = vec![ConditionalRow { table: file::TABLE, row: id.key(), checks, changes }];
    commit(fixture, Plan { guarded, ..Plan::default() }).await;
}

/// The content file of a large file.
fn content(fixture: &Fixture, id: FileId) -> PathBuf {
    fixture.data.path().join("content").join(&id.to_string()[..2]).join(id.to_string())
}

fn removals(index_rows: Vec<RowChange>) -> Vec<RowChange> {
    let gone = |change: Change| Change::delete(CF, change.qualifier().unwrap().clone());
    index_rows
        .into_iter()
        .map(|row| RowChange { changes: row.changes.into_iter().map(gone).collect(), ..row })
        .collect()
}

pub async fn inject_damage(fixture: &Fixture, damage: Damage) {
    match damage {
        Damage::NoFileRow(_)
        | Damage::OtherFileRow(_)
        | Damage::NoInline(_)
        | Damage::OtherInline(_)
        | Damage::OldVersion(_)
        | Damage::SecondName(..) => in_files(fixture, damage).await,
        Damage::NoIndexRow(..) | Damage::OtherIndexRow(..) | Damage::StrayIndexRow(_) | Damage::UnreadableIndexRow => {
            in_indexes(fixture, damage).await;
        }
        Damage::NoContent(_)
        | Damage::FlippedByte(..)
        | Damage::CutContent(_)
        | Damage::StrayContent
        | Damage::Foreign
        | Damage::Condemned(_) => in_contents(fixture, damage).await,
        Damage::NoLink(_) | Damage::OtherLink(_) | Damage::StrayLink => in_links(fixture, damage).await,
        _ => in_directories(fixture, damage).await,
    }
}

async fn in_files(fixture: &Fixture, damage: Damage) {
    match damage {
        Damage::NoFileRow(at) => {
            let row = entry(fixture, at).await.id.key();
            finish(
                fixture,
                vec![RowChange { table: file::TABLE, row, changes: file::delete_cells(ContentLocation::Large) }],
            )
            .await;
        }
        Damage::OtherFileRow(at) => {
            let FileEntry { id, attributes, .. } = entry(fixture, at).await;
            let other = Attributes { mime: "x/y".to_owned(), ..attributes };
            change_file(fixture, id, vec![Change::put(CF, file::ATTRIBUTES, other.encode())]).await;
        }
        Damage::NoInline(at) => {
            change_file(fixture, entry(fixture, at).await.id, vec![Change::delete(file::C, file::DATA)]).await;
        }
        Damage::OtherInline(at) => {
            let put = Change::put(file::C, file::DATA, b"\x01other".as_slice());
            change_file(fixture, entry(fixture, at).await.id, vec![put]).await;
        }
        Damage::OldVersion(at) => {
            let (id, query) = (entry(fixture, at).await.id, RowQuery::families(&[CF, file::C]));
            let cells = fixture.tables.get(file::TABLE, id.0.as_bytes(), &query).await.unwrap().cells().to_vec();
            let put = cells.into_iter().map(|(family, cell)| Change::put(family, cell.qualifier, cell.value));
            prepare(
                fixture,
                vec![RowChange { table: file::TABLE, row: FileId::random().key(), changes: put.collect() }],
            )
            .await;
        }
        Damage::SecondName(at, other) => {
            let (parent, name) = split(other);
            let put = Change::put(dir::SUB, dir::file_qualifier(&name), entry(fixture, at).await.encode());
            change(fixture, parent.key(), vec![put]).await;
        }
        other => panic!("{other:?}"),
    }
}

async fn in_indexes(fixture: &Fixture, damage: Damage) {
    match damage {
        Damage::NoIndexRow(at, table) => finish(fixture, removals(index_rows(fixture, at, table).await)).await,
        Damage::OtherIndexRow(at, table) => {
            let mut index_rows = index_rows(fixture, at, table).await;
            let value = NameIndexEntry { dir: DirId::ROOT, name: Name::parse("other").unwrap() }.encode();
            let qualifier = index_rows[0].changes[0].qualifier().unwrap().clone();
            index_rows[0].changes = vec![Change::put(CF, qualifier, value)];
            prepare(fixture, index_rows).await;
        }
        Damage::StrayIndexRow(table) => {
            let entry = FileEntry { id: FileId::random(), ..entry(fixture, "/a/f").await };
            let all = index::put_rows(directory(fixture, "/a").await.id, &Name::parse("f").unwrap(), &entry);
            prepare(fixture, all.into_iter().filter(|row| row.table == table).collect()).await;
        }
        Damage::UnreadableIndexRow => {
            let mut index_rows = index_rows(fixture, "/a/f", by_time::TABLE).await;
            index_rows.truncate(1);
            index_rows[0].changes = vec![Change::put(CF, b"12345678".as_slice(), b"\xff?".as_slice())];
            prepare(fixture, index_rows).await;
        }
        other => panic!("{other:?}"),
    }
}

async fn in_contents(fixture: &Fixture, damage: Damage) {
    match damage {
        Damage::NoContent(at) => fs::remove_file(content(fixture, entry(fixture, at).await.id)).unwrap(),
        Damage::FlippedByte(at, byte) => {
            let file = content(fixture, entry(fixture, at).await.id);
            let mut all = fs::read(&file).unwrap();
            all[byte] ^= 1;
            fs::write(file, all).unwrap();
        }
        Damage::CutContent(at) => {
            let file = fs::OpenOptions::new().write(true).open(content(fixture, entry(fixture, at).await.id)).unwrap();
            file.set_len(file.metadata().unwrap().len() - 1).unwrap();
        }
        Damage::StrayContent => {
            let stray = content(fixture, FileId::random());
            fs::create_dir_all(stray.parent().unwrap()).unwrap();
            fs::copy(content(fixture, entry(fixture, "/a/large").await.id), stray).unwrap();
        }
        Damage::Foreign => {
            let folder = content(fixture, entry(fixture, "/a/large").await.id);
            fs::write(folder.with_file_name("notes.txt"), "mine").unwrap();
        }
        Damage::Condemned(at) => finish(fixture, vec![pending_unlink::put(entry(fixture, at).await.id)]).await,
        other => panic!("{other:?}"),
    }
}

async fn in_links(fixture: &Fixture, damage: Damage) {
    let link = |parent| DirParent { parent, name: Name::parse("x").unwrap(), operation: Uuid::nil() }.put_cells();
    match damage {
        Damage::NoLink(at) => {
            let row = directory(fixture, at).await.id.key();
            finish(fixture, vec![RowChange { table: dir_parent::TABLE, row, changes: dir_parent::delete_cells() }])
                .await;
        }
        Damage::OtherLink(at) => {
            let row = directory(fixture, at).await.id.key();
            let stored = fixture.tables.cell(dir_parent::TABLE, &row, CF, dir_parent::PARENT).await.unwrap().unwrap();
            let checks = vec![Check::Equals(dir_parent::column(), stored)];
            let guarded = vec![ConditionalRow { table: dir_parent::TABLE, row, checks, changes: link(DirId::ROOT) }];
            commit(fixture, Plan { guarded, ..Plan::default() }).await;
        }
        Damage::StrayLink => {
            let (row, changes) = (DirId::random().key(), link(DirId::ROOT));
            prepare(fixture, vec![RowChange { table: dir_parent::TABLE, row, changes }]).await;
        }
        other => panic!("{other:?}"),
    }
}

async fn in_directories(fixture: &Fixture, damage: Damage) {
    let put_state = |state: RowLock| Change::put(CF, dir::LOCK, state.encode());
    let new = || DirEntry { id: DirId::random(), ..some_directory() };
    match damage {
        Damage::NoName(at) => {
            let (parent, name) = split(at);
            let gone = [dir::file_qualifier(&name), dir::directory_qualifier(&name)];
            change(fixture, parent.key(), gone.map(|q| Change::delete(dir::SUB, q)).to_vec()).await;
        }
        Damage::DeadMark(at) => change(fixture, path(at).key(), vec![put_state(RowLock::Source(OpId::now()))]).await,
        Damage::DeadStaged(at) => {
            let mut changes = new().put_cells();
            changes.push(put_state(RowLock::Copy(OpId::now())));
            change(fixture, path(at).key(), changes).await;
        }
        Damage::StrayDirectory(at) => change(fixture, path(at).key(), new().put_cells()).await,
        Damage::NoDirectoryRow(at) => change(fixture, path(at).key(), dir::delete_row()).await,
        Damage::OtherDirectory(at) => {
            let other = DirEntry { id: directory(fixture, at).await.id, ..some_directory() };
            change(fixture, path(at).key(), other.put_cells()).await;
        }
        Damage::SameId(at, other) => {
            let entry = DirEntry { id: directory(fixture, other).await.id, ..directory(fixture, at).await };
            let (parent, name) = split(at);
            let named = Change::put(dir::SUB, dir::directory_qualifier(&name), entry.encode());
            change(fixture, parent.key(), vec![named]).await;
            change(fixture, path(at).key(), entry.put_cells()).await;
        }
        Damage::SameName(at) => {
            let (parent, name) = split(at);
            let named = Change::put(dir::SUB, dir::directory_qualifier(&name), new().encode());
            change(fixture, parent.key(), vec![named]).await;
        }
        Damage::UnreadableEntry(at) => {
            let put = Change::put(dir::SUB, b"f_strange".as_slice(), b"\xff?".as_slice());
            change(fixture, path(at).key(), vec![put]).await;
        }
        Damage::UnreadableName(at) => {
            let put = Change::put(dir::SUB, b"x_strange".as_slice(), b"\x01".as_slice());
            change(fixture, path(at).key(), vec![put]).await;
        }
        Damage::BadKey => change(fixture, Bytes::from_static(b"no slash"), new().put_cells()).await,
        other => panic!("{other:?}"),
    }
}

fn some_directory() -> DirEntry {
    DirEntry { id: DirId::ROOT, creator: "nobody".into(), created: rowdrive::schema::Timestamp::from_ms(1) }
}

/// All names that listings show, with the sizes of files.
pub async fn listed(fixture: &Fixture) -> Vec<String> {
    let mut found = Vec::new();
    let mut below = vec![DrivePath::root()];
    while let Some(at) = below.pop() {
        let query = ListQuery { kind: None, prefix: String::new(), after: None, limit: 10_000 };
        match fixture.watcher.unrestricted().list(&at, &query).await {
            Err(error) => found.push(format!("{at}: {error}")),
            Ok(listing) => {
                for node in listing.nodes {
                    match node {
                        Node::Directory { path, .. } => below.push(path),
                        Node::File { path, entry } => found.push(format!("{path} {}", entry.attributes.size)),
                    }
                }
            }
        }
    }
    found
}

/// All files that a time query finds.
pub async fn found(fixture: &Fixture) -> Vec<String> {
    // A fresh drive has no cached paths.
    let fresh = fixture.drive.with_tables(fixture.tables.clone());
    match fresh.unrestricted().files_by_time(&time_query(Clock::Modified)).await {
        Ok(found) => found.nodes.iter().map(|node| node.path().to_string()).collect(),
        Err(error) => vec![error.to_string()],
    }
}

/// The names and bytes of the files that a repair saved.
fn in_lost(data: &Path) -> Vec<(String, Vec<u8>)> {
    let Ok(folders) = fs::read_dir(data.join("lost")) else { return Vec::new() };
    let files = folders.flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap());
    let files = files.map(|file| file.unwrap());
    files.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())).collect()
}

/// Asserts that a repair saved the content of each entry that it removed, and nothing else.
pub fn saved(fixture: &Fixture, damage: Damage) {
    let expected = match damage {
        Damage::NoName("/a/f") | Damage::OldVersion("/a/f") => vec![("f", 5)],
        Damage::NoName("/a/large") => vec![("large", LARGE)],
        Damage::NoName("/a/b") => vec![("g", 6)],
        Damage::StrayContent => vec![("content", LARGE)],
        _ => vec![],
    };
    let expected: Vec<_> = expected.into_iter().map(|(name, size)| (name.to_owned(), bytes(size).to_vec())).collect();
    assert!(in_lost(fixture.data.path()) == expected, "{damage:?}");
}
