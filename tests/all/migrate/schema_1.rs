//! Trees as a program with schema 1 stored them: directories and files, but no indexes.

use std::collections::BTreeSet;

use bytes::Bytes;
use rowdrive::schema::dir::{self, DirEntry, FileEntry, RowLock};
use rowdrive::schema::dir_parent::{self, DirParent};
use rowdrive::schema::file::{self, Attributes, ContentLocation, Digest, FilePosition};
use rowdrive::schema::{CF, DirId, DrivePath, FileId, Name, StayId, Timestamp, file_row};
use rowdrive::table::{Cell, Change, Check, Column, ConditionalRow, Outcome, Plan, RowChange, RowQuery, Tables};
use uuid::Uuid;

/// Directories with parents first, and files, by path.
#[derive(Default)]
pub struct OldTree {
    directories: Vec<String>,
    files: Vec<String>,
}

/// Ids that are derived from the path.
fn dir_id(path: &str) -> DirId {
    if path == "/" { DirId::ROOT } else { DirId(id(b"d", path)) }
}

fn id(kind: &[u8], path: &str) -> Uuid {
    let bytes = kind.iter().chain(path.as_bytes()).enumerate();
    let mix = bytes
        .fold(7u128, |mix, (at, byte)| mix.wrapping_mul(0x0100_0000_01b3_0000_0193) ^ (*byte as u128 + at as u128));
    uuid::Builder::from_random_bytes(mix.to_be_bytes()).into_uuid()
}

fn parts(path: &str) -> (DrivePath, Name) {
    DrivePath::parse(path).unwrap().split().unwrap()
}

/// The name of the file at this path.
pub fn name(path: &str) -> Name {
    parts(path).1
}

impl OldTree {
    /// Names in several scripts and cases, deep paths, and a folder of several pages.
    pub fn large() -> Self {
        let directories = ["/a", "/a/b", "/a/b/c", "/empty", "/many", "/Ünïcode 日本 🗻"].map(str::to_owned).to_vec();
        let mut files: Vec<_> =
            ["/f", "/F", "/a/b/c/f", "/a/b/c/Straße.txt", "/Ünïcode 日本 🗻/猫.jpg"].map(str::to_owned).to_vec();
        files.extend((0..1_100).map(|i| format!("/many/IMG_{i:04}.JPG")));
        Self { directories, files }
    }

    /// More directories than a scan reads at a time.
    pub fn wide() -> Self {
        let directories: Vec<_> = (0..1_100).map(|i| format!("/{i:04}")).collect();
        let files = ["/0000/f", "/0999/f", "/1000/f", "/1099/f"].map(str::to_owned).to_vec();
        Self { directories, files }
    }

    /// More bytes of names than fit in one plan.
    pub fn long() -> Self {
        let long = "x".repeat(240);
        Self { directories: vec!["/a".to_owned()], files: (0..9_000).map(|i| format!("/a/{i:05}{long}")).collect() }
    }

    /// A folder with so many files.
    pub fn many(files: usize) -> Self {
        Self { directories: vec!["/a".to_owned()], files: (0..files).map(|i| format!("/a/{i:05}")).collect() }
    }

    pub fn small() -> Self {
        let directories = ["/a", "/a/b", "/empty"].map(str::to_owned).to_vec();
        Self { directories, files: ["/f", "/a/f", "/a/b/g"].map(str::to_owned).to_vec() }
    }

    pub fn paths(&self) -> BTreeSet<String> {
        self.files.iter().cloned().collect()
    }

    /// Writes the tree into a store that has the tables of schema 1.
    pub async fn store(&self, tables: &Tables) {
        for path in &self.directories {
            mkdir(tables, path).await;
        }
        for path in &self.files {
            create(tables, path).await;
        }
    }

    /// Inserts a copy of a directory row, as a move does before its commit.
    pub async fn insert_copy(tables: &Tables, from: &str, to: &str, lock: RowLock) {
        let row = tables.get(dir::TABLE, from.as_bytes(), &RowQuery::families(&[CF, dir::SUB])).await.unwrap();
        let put =
            |(family, cell): &(&'static str, Cell)| Change::put(family, cell.qualifier.clone(), cell.value.clone());
        let mut changes: Vec<_> = row.cells().iter().map(put).collect();
        changes.push(Change::put(CF, dir::LOCK, lock.encode()));
        commit(tables, vec![], vec![(Bytes::copy_from_slice(to.as_bytes()), changes)]).await;
    }

    /// Inserts an entry of an unknown newer version.
    pub async fn insert_unreadable_entry(tables: &Tables) {
        let put = Change::put(dir::SUB, b"f_strange".as_slice(), b"\xff?".as_slice());
        commit(tables, vec![], vec![(DrivePath::root().key(), vec![put])]).await;
    }
}

/// Commits `prepare` rows and directory rows. The first cell of each directory row must be absent.
async fn commit(tables: &Tables, prepare: Vec<RowChange>, rows: Vec<(Bytes, Vec<Change>)>) {
    let guarded = rows.into_iter().map(|(row, changes)| {
        let Change::Put { family, qualifier, .. } = &changes[0] else { panic!("{changes:?}") };
        let checks = vec![Check::Absent(Column::new(family, qualifier.clone()))];
        ConditionalRow { table: dir::TABLE, row, checks, changes }
    });
    let plan = Plan { prepare, guarded: guarded.collect(), ..Plan::default() };
    assert_eq!(tables.commit(plan).await.unwrap(), Outcome::Committed);
}

async fn mkdir(tables: &Tables, path: &str) {
    let (parent, name) = parts(path);
    let created = Timestamp::from_ms(1_600_000_000_000);
    let entry = DirEntry { id: dir_id(path), creator: "anna".to_owned(), created };
    let link = DirParent { parent: dir_id(parent.as_str()), name: name.clone(), operation: Uuid::nil() };
    let prepare = vec![RowChange { table: dir_parent::TABLE, row: entry.id.key(), changes: link.put_cells() }];
    let put = Change::put(dir::SUB, dir::directory_qualifier(&name), entry.encode());
    let row = DrivePath::parse(path).unwrap().key();
    commit(tables, prepare, vec![(parent.key(), vec![put]), (row, entry.put_cells())]).await;
}

async fn create(tables: &Tables, path: &str) {
    let (parent, name) = parts(path);
    let id = FileId(id(b"f", path));
    let attributes = Attributes {
        size: 1,
        mime: "image/jpeg".to_owned(),
        creator: "anna".to_owned(),
        modified: Timestamp::from_ms(1_500_000_000_000 + (id.0.as_u128() % 100_000_000_000) as i64),
        added: Timestamp::from_ms(1_700_000_000_000),
        digest: Digest([7; 32]),
        location: ContentLocation::Inline,
    };
    let position = FilePosition { dir: dir_id(parent.as_str()), name: name.clone(), stay: StayId::CREATED };
    let mut changes = [file_row::put_old_attributes(&attributes), file_row::put_old_position(&position)].concat();
    changes.push(Change::put(file::C, file::DATA, vec![file::DATA_VERSION, b'x']));
    let prepare = vec![RowChange { table: file::TABLE, row: id.key(), changes }];
    let entry = FileEntry { id, stay: StayId::CREATED, attributes };
    let put = Change::put(dir::SUB, dir::file_qualifier(&name), entry.encode());
    commit(tables, prepare, vec![(parent.key(), vec![put])]).await;
}
