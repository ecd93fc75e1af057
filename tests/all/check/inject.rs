//! Damage, planted behind the drive's back.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rowdrive::drive::{ListAsk, Node};
use rowdrive::schema::dir::{self, DirEntry, Entry, State};
use rowdrive::schema::dirid::{self, DirLink};
use rowdrive::schema::file::{self, Location};
use rowdrive::schema::name::NameHint;
use rowdrive::schema::time::Clock;
use rowdrive::schema::{CF, DirId, DrivePath, FileId, Name, OpId, index, time, unlink};
use rowdrive::table::{Ask, Change, Check, Column, Guarded, Outcome, Plan, RowChange};
use uuid::Uuid;

use crate::drive::world::{World, bytes, path, time_query};

pub const LARGE: usize = 300_000;

#[derive(Clone, Copy, Debug)]
pub enum Planted {
    NoFileRow(&'static str),
    OtherFileRow(&'static str),
    /// Of a file or a directory: only its name goes.
    NoName(&'static str),
    /// The row of a version that was replaced.
    OldVersion(&'static str),
    NoHint(&'static str, &'static str),
    OtherHint(&'static str, &'static str),
    StrayHint(&'static str),
    UnreadableHint,
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

async fn entry(world: &World, at: &str) -> Entry {
    match world.watcher.stat(&path(at)).await.unwrap() {
        Node::File { entry, .. } => entry,
        other => panic!("{other:?}"),
    }
}

async fn directory(world: &World, at: &str) -> DirEntry {
    match world.watcher.stat(&path(at)).await.unwrap() {
        Node::Directory { entry, .. } => entry,
        other => panic!("{other:?}"),
    }
}

fn split(at: &str) -> (DrivePath, Name) {
    path(at).split().unwrap()
}

/// The hints of a file in one index.
async fn hints(world: &World, at: &str, table: &str) -> Vec<RowChange> {
    let (parent, name) = split(at);
    let dir = directory(world, parent.as_str()).await.id;
    index::hints(dir, &name, &entry(world, at).await).into_iter().filter(|hint| hint.table == table).collect()
}

async fn commit(world: &World, plan: Plan) {
    assert_eq!(world.tables.commit(plan).await.unwrap(), Outcome::Committed);
}

async fn prepare(world: &World, prepare: Vec<RowChange>) {
    commit(world, Plan { prepare, ..Plan::default() }).await;
}

async fn finish(world: &World, finish: Vec<RowChange>) {
    commit(world, Plan { finish, ..Plan::default() }).await;
}

/// Changes a row of directories.
async fn change(world: &World, row: Bytes, changes: Vec<Change>) {
    // A plan must check something.
    let checks = vec![Check::Absent(Column::new(CF, b"nothing".as_slice()))];
    let guarded = vec![Guarded { table: dir::TABLE, row, checks, changes }];
    commit(world, Plan { guarded, ..Plan::default() }).await;
}

/// Changes cells of a file row.
async fn change_file(world: &World, id: FileId, changes: Vec<Change>) {
    let size = world.tables.cell(file::TABLE, id.0.as_bytes(), CF, file::SIZE).await.unwrap().unwrap();
    let checks = vec![Check::Equals(Column::new(CF, file::SIZE), size)];
    let guarded = vec![Guarded { table: file::TABLE, row: id.key(), checks, changes }];
    commit(world, Plan { guarded, ..Plan::default() }).await;
}

/// Where a large file's content lies.
fn content(world: &World, id: FileId) -> PathBuf {
    world.data.path().join("content").join(&id.to_string()[..2]).join(id.to_string())
}

fn removals(hints: Vec<RowChange>) -> Vec<RowChange> {
    let gone = |change: Change| Change::delete(CF, change.qualifier().unwrap().clone());
    hints.into_iter().map(|hint| RowChange { changes: hint.changes.into_iter().map(gone).collect(), ..hint }).collect()
}

pub async fn plant(world: &World, planted: Planted) {
    match planted {
        Planted::NoFileRow(_)
        | Planted::OtherFileRow(_)
        | Planted::NoInline(_)
        | Planted::OtherInline(_)
        | Planted::OldVersion(_)
        | Planted::SecondName(..) => in_files(world, planted).await,
        Planted::NoHint(..) | Planted::OtherHint(..) | Planted::StrayHint(_) | Planted::UnreadableHint => {
            in_indexes(world, planted).await;
        }
        Planted::NoContent(_)
        | Planted::FlippedByte(..)
        | Planted::CutContent(_)
        | Planted::StrayContent
        | Planted::Foreign
        | Planted::Condemned(_) => in_contents(world, planted).await,
        Planted::NoLink(_) | Planted::OtherLink(_) | Planted::StrayLink => in_links(world, planted).await,
        _ => in_directories(world, planted).await,
    }
}

async fn in_files(world: &World, planted: Planted) {
    match planted {
        Planted::NoFileRow(at) => {
            let row = entry(world, at).await.id.key();
            finish(world, vec![RowChange { table: file::TABLE, row, changes: file::removal(Location::Large) }]).await;
        }
        Planted::OtherFileRow(at) => {
            let put = Change::put(CF, file::TYPE, b"\x01\x03x/y".as_slice());
            change_file(world, entry(world, at).await.id, vec![put]).await;
        }
        Planted::NoInline(at) => {
            change_file(world, entry(world, at).await.id, vec![Change::delete(file::C, file::DATA)]).await;
        }
        Planted::OtherInline(at) => {
            let put = Change::put(file::C, file::DATA, b"\x01other".as_slice());
            change_file(world, entry(world, at).await.id, vec![put]).await;
        }
        Planted::OldVersion(at) => {
            let (id, ask) = (entry(world, at).await.id, Ask::families(&[CF, file::C]));
            let cells = world.tables.get(file::TABLE, id.0.as_bytes(), &ask).await.unwrap().cells().to_vec();
            let put = cells.into_iter().map(|(family, cell)| Change::put(family, cell.qualifier, cell.value));
            prepare(world, vec![RowChange { table: file::TABLE, row: FileId::random().key(), changes: put.collect() }])
                .await;
        }
        Planted::SecondName(at, other) => {
            let (parent, name) = split(other);
            let put = Change::put(dir::SUB, dir::file_qualifier(&name), entry(world, at).await.encode());
            change(world, parent.key(), vec![put]).await;
        }
        other => panic!("{other:?}"),
    }
}

async fn in_indexes(world: &World, planted: Planted) {
    match planted {
        Planted::NoHint(at, table) => finish(world, removals(hints(world, at, table).await)).await,
        Planted::OtherHint(at, table) => {
            let mut hints = hints(world, at, table).await;
            let value = NameHint { dir: DirId::ROOT, name: Name::parse("other").unwrap() }.encode();
            let qualifier = hints[0].changes[0].qualifier().unwrap().clone();
            hints[0].changes = vec![Change::put(CF, qualifier, value)];
            prepare(world, hints).await;
        }
        Planted::StrayHint(table) => {
            let entry = Entry { id: FileId::random(), ..entry(world, "/a/f").await };
            let all = index::hints(directory(world, "/a").await.id, &Name::parse("f").unwrap(), &entry);
            prepare(world, all.into_iter().filter(|hint| hint.table == table).collect()).await;
        }
        Planted::UnreadableHint => {
            let mut hints = hints(world, "/a/f", time::TABLE).await;
            hints.truncate(1);
            hints[0].changes = vec![Change::put(CF, b"12345678".as_slice(), b"\xff?".as_slice())];
            prepare(world, hints).await;
        }
        other => panic!("{other:?}"),
    }
}

async fn in_contents(world: &World, planted: Planted) {
    match planted {
        Planted::NoContent(at) => fs::remove_file(content(world, entry(world, at).await.id)).unwrap(),
        Planted::FlippedByte(at, byte) => {
            let file = content(world, entry(world, at).await.id);
            let mut all = fs::read(&file).unwrap();
            all[byte] ^= 1;
            fs::write(file, all).unwrap();
        }
        Planted::CutContent(at) => {
            let file = fs::OpenOptions::new().write(true).open(content(world, entry(world, at).await.id)).unwrap();
            file.set_len(file.metadata().unwrap().len() - 1).unwrap();
        }
        Planted::StrayContent => {
            let stray = content(world, FileId::random());
            fs::create_dir_all(stray.parent().unwrap()).unwrap();
            fs::copy(content(world, entry(world, "/a/large").await.id), stray).unwrap();
        }
        Planted::Foreign => {
            let folder = content(world, entry(world, "/a/large").await.id);
            fs::write(folder.with_file_name("notes.txt"), "mine").unwrap();
        }
        Planted::Condemned(at) => finish(world, vec![unlink::make(entry(world, at).await.id)]).await,
        other => panic!("{other:?}"),
    }
}

async fn in_links(world: &World, planted: Planted) {
    let link = |parent| DirLink { parent, name: Name::parse("x").unwrap(), operation: Uuid::nil() }.row();
    match planted {
        Planted::NoLink(at) => {
            let row = directory(world, at).await.id.key();
            finish(world, vec![RowChange { table: dirid::TABLE, row, changes: dirid::removal() }]).await;
        }
        Planted::OtherLink(at) => {
            let row = directory(world, at).await.id.key();
            let stored = world.tables.cell(dirid::TABLE, &row, CF, dirid::LINK).await.unwrap().unwrap();
            let checks = vec![Check::Equals(dirid::column(), stored)];
            let guarded = vec![Guarded { table: dirid::TABLE, row, checks, changes: link(DirId::ROOT) }];
            commit(world, Plan { guarded, ..Plan::default() }).await;
        }
        Planted::StrayLink => {
            let (row, changes) = (DirId::random().key(), link(DirId::ROOT));
            prepare(world, vec![RowChange { table: dirid::TABLE, row, changes }]).await;
        }
        other => panic!("{other:?}"),
    }
}

async fn in_directories(world: &World, planted: Planted) {
    let put_state = |state: State| Change::put(CF, dir::STATE, state.encode());
    let new = || DirEntry { id: DirId::random(), ..some_directory() };
    match planted {
        Planted::NoName(at) => {
            let (parent, name) = split(at);
            let gone = [dir::file_qualifier(&name), dir::directory_qualifier(&name)];
            change(world, parent.key(), gone.map(|q| Change::delete(dir::SUB, q)).to_vec()).await;
        }
        Planted::DeadMark(at) => change(world, path(at).key(), vec![put_state(State::Closed(OpId::now()))]).await,
        Planted::DeadStaged(at) => {
            let mut changes = new().row();
            changes.push(put_state(State::Staged(OpId::now())));
            change(world, path(at).key(), changes).await;
        }
        Planted::StrayDirectory(at) => change(world, path(at).key(), new().row()).await,
        Planted::NoDirectoryRow(at) => change(world, path(at).key(), dir::removal_whole()).await,
        Planted::OtherDirectory(at) => {
            let other = DirEntry { id: directory(world, at).await.id, ..some_directory() };
            change(world, path(at).key(), other.row()).await;
        }
        Planted::SameId(at, other) => {
            let entry = DirEntry { id: directory(world, other).await.id, ..directory(world, at).await };
            let (parent, name) = split(at);
            let named = Change::put(dir::SUB, dir::directory_qualifier(&name), entry.encode());
            change(world, parent.key(), vec![named]).await;
            change(world, path(at).key(), entry.row()).await;
        }
        Planted::SameName(at) => {
            let (parent, name) = split(at);
            let named = Change::put(dir::SUB, dir::directory_qualifier(&name), new().encode());
            change(world, parent.key(), vec![named]).await;
        }
        Planted::UnreadableEntry(at) => {
            let put = Change::put(dir::SUB, b"f_strange".as_slice(), b"\xff?".as_slice());
            change(world, path(at).key(), vec![put]).await;
        }
        Planted::UnreadableName(at) => {
            let put = Change::put(dir::SUB, b"x_strange".as_slice(), b"\x01".as_slice());
            change(world, path(at).key(), vec![put]).await;
        }
        Planted::BadKey => change(world, Bytes::from_static(b"no slash"), new().row()).await,
        other => panic!("{other:?}"),
    }
}

fn some_directory() -> DirEntry {
    DirEntry { id: DirId::ROOT, creator: "nobody".into(), created: rowdrive::schema::Timestamp::from_ms(1) }
}

/// All names that can be listed, with the sizes of files.
pub async fn listed(world: &World) -> Vec<String> {
    let mut found = Vec::new();
    let mut below = vec![DrivePath::root()];
    while let Some(at) = below.pop() {
        let ask = ListAsk { kind: None, prefix: String::new(), after: None, limit: 10_000 };
        match world.watcher.list(&at, &ask).await {
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

/// All files that are found by time.
pub async fn found(world: &World) -> Vec<String> {
    // One that has kept no way from an earlier look.
    let fresh = world.drive.beside(world.tables.clone());
    match fresh.files(&time_query(Clock::Modified)).await {
        Ok(found) => found.nodes.iter().map(|node| node.path().to_string()).collect(),
        Err(error) => vec![error.to_string()],
    }
}

/// The names and bytes of what a repair has saved.
fn in_lost(data: &Path) -> Vec<(String, Vec<u8>)> {
    let Ok(folders) = fs::read_dir(data.join("lost")) else { return Vec::new() };
    let files = folders.flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap());
    let files = files.map(|file| file.unwrap());
    files.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())).collect()
}

/// A repair has saved the content of what it removed, and nothing else.
pub fn saved(world: &World, planted: Planted) {
    let expected = match planted {
        Planted::NoName("/a/f") | Planted::OldVersion("/a/f") => vec![("f", 5)],
        Planted::NoName("/a/large") => vec![("large", LARGE)],
        Planted::NoName("/a/b") => vec![("g", 6)],
        Planted::StrayContent => vec![("content", LARGE)],
        _ => vec![],
    };
    let expected: Vec<_> = expected.into_iter().map(|(name, size)| (name.to_owned(), bytes(size).to_vec())).collect();
    assert!(in_lost(world.data.path()) == expected, "{planted:?}");
}
