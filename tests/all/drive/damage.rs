//! Content that does not match its entry is answered as damage, and never sent or copied.

use rowdrive::content::ContentError;
use rowdrive::drive::{DriveError, Node, Settings, Thresholds};
use rowdrive::schema::{FileId, dir, file};
use rowdrive::table::{Change, Check, Column, ConditionalRow, Outcome, Plan, RowKey};

use super::fixture::{Fixture, SETTINGS, bytes, content, path};
use super::model::Op;

const LARGE: usize = 300_000;

/// A cell: its table, its family and its qualifier.
pub type CellId = (&'static str, &'static str, &'static [u8]);

/// Changes the value of an existing cell, or removes the cell.
pub async fn change(fixture: &Fixture, (table, family, qualifier): CellId, row: RowKey, value: Option<&'static [u8]>) {
    let good = fixture.tables.cell(table, &row, family, qualifier).await.unwrap().unwrap();
    let changes = vec![match value {
        Some(value) => Change::put(family, qualifier, value),
        None => Change::delete(family, qualifier),
    }];
    let checks = vec![Check::Equals(Column::new(family, qualifier), good)];
    let guarded = vec![ConditionalRow { table, row, checks, changes }];
    let done = fixture.tables.commit(Plan { guarded, ..Plan::default() }).await.unwrap();
    assert_eq!(done, Outcome::Committed);
}

async fn id(fixture: &Fixture, at: &str) -> FileId {
    let Node::File { entry, .. } = fixture.drive.unrestricted().stat(&path(at)).await.unwrap() else {
        panic!("no file")
    };
    entry.id
}

/// Changes the content cell of a file, or removes it.
async fn damage_content(fixture: &Fixture, at: &str, data: Option<&'static [u8]>) -> FileId {
    let id = id(fixture, at).await;
    change(fixture, (file::TABLE, file::C, file::DATA), id.key(), data).await;
    id
}

/// A file of five bytes with a changed or removed content cell.
async fn file_with_damaged_content(data: Option<&'static [u8]>) -> (Fixture, FileId) {
    let fixture = Fixture::new(&[Op::Put("/a/f", 5)]).await;
    let id = damage_content(&fixture, "/a/f", data).await;
    (fixture, id)
}

fn is_damage<T>(answer: Result<T, DriveError>, of: FileId) -> bool {
    matches!(answer, Err(DriveError::Content(ContentError::Damaged { id, .. })) if id == of)
}

#[tokio::test]
async fn content_of_a_different_length_or_without_its_cell_is_damage() {
    for data in [Some(b"\x01four".as_slice()), Some(b"\x01sixsix"), None] {
        let (fixture, id) = file_with_damaged_content(data).await;
        assert!(is_damage(fixture.drive.unrestricted().open_file(&path("/a/f")).await, id), "{data:?}");
        assert!(
            is_damage(fixture.drive.unrestricted().copy_node(&path("/a/f"), &path("/g"), false, "eva").await, id),
            "{data:?}"
        );
        assert!(matches!(fixture.drive.unrestricted().stat(&path("/g")).await, Err(DriveError::NotFound)));
    }
}

#[tokio::test]
async fn content_that_differs_from_its_digest_is_not_copied() {
    let (fixture, id) = file_with_damaged_content(Some(b"\x01other")).await;
    assert!(is_damage(fixture.drive.unrestricted().copy_node(&path("/a/f"), &path("/g"), false, "eva").await, id));
    assert!(matches!(fixture.drive.unrestricted().stat(&path("/g")).await, Err(DriveError::NotFound)));
}

/// Every kind of damage, with intact files before, after and below it.
const FOLDER: &[Op] = &[
    Op::Put("/a/f", 5),
    Op::Put("/a/g", 6),
    Op::Put("/a/h", LARGE),
    Op::Put("/a/c/f", 7),
    Op::Put("/a/c/g", 8),
    Op::Put("/a/c/h", LARGE + 1),
    Op::Put("/a/d/f", 9),
    Op::Put("/a/d/e/f", 10),
    Op::Put("/a/k/f", 11),
    Op::Put("/a/k/g", 12),
];

/// The damaged folder, and the first damaged file in it.
async fn damaged_folder(threshold: usize) -> (Fixture, FileId) {
    let limits = if threshold == 1 { Thresholds::all(1) } else { Thresholds::DEFAULT };
    let fixture = Fixture::with(Settings { limits, ..SETTINGS }, FOLDER).await;
    let first = damage_content(&fixture, "/a/f", Some(b"\x01other")).await;
    damage_content(&fixture, "/a/c/f", None).await;
    damage_content(&fixture, "/a/k/f", Some(b"\0of no version")).await;
    let large = id(&fixture, "/a/c/h").await.to_string();
    let large = fixture.data.path().join("content").join(&large[..2]).join(large);
    let mut stored = std::fs::read(&large).unwrap();
    stored[1_000] ^= 1;
    std::fs::write(&large, stored).unwrap();
    // Read by a listing of this directory's files.
    change(&fixture, (dir::TABLE, dir::SUB, b"f_f"), path("/a/d").key(), Some(b"\0")).await;
    (fixture, first)
}

#[tokio::test]
async fn damaged_entries_do_not_block_the_copy_of_their_folder() {
    for threshold in [1, 100] {
        let (fixture, first) = damaged_folder(threshold).await;
        // A second copy has the same result.
        for _ in 0..2 {
            assert!(is_damage(
                fixture.drive.unrestricted().copy_node(&path("/a"), &path("/t"), true, "eva").await,
                first
            ));
            for (intact, size) in [("g", 6), ("h", LARGE), ("c/g", 8), ("d/e/f", 10), ("k/g", 12)] {
                let copy = fixture.drive.unrestricted().open_file(&path(&format!("/t/{intact}"))).await;
                let copy = copy.unwrap_or_else(|error| panic!("{intact}, thresholds {threshold}: {error}"));
                assert!(content(copy).await == bytes(size), "{intact}");
            }
            for damaged in ["f", "c/f", "c/h", "d/f", "k/f"] {
                let copy = fixture.drive.unrestricted().stat(&path(&format!("/t/{damaged}"))).await;
                assert!(matches!(copy, Err(DriveError::NotFound)), "{damaged}: {copy:?}");
            }
        }
    }
}

/// This error does not concern a single file, so the damage must not hide it.
#[tokio::test]
async fn a_full_disk_ends_the_copy_of_a_folder_at_once() {
    let (fixture, _) = damaged_folder(1).await;
    fixture.run(Op::Mkdir("/t")).await.unwrap();
    fixture.store.full_from(Some(0));
    let copied = fixture.drive.unrestricted().copy_node(&path("/a"), &path("/t"), true, "eva").await;
    assert!(matches!(copied, Err(DriveError::Full(_))), "{copied:?}");
}
