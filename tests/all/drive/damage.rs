//! Content that is not what its entry says: told as damage, never given out or copied.

use rowdrive::content::ContentError;
use rowdrive::drive::{DriveError, Node};
use rowdrive::schema::{FileId, file};
use rowdrive::table::{Change, Check, Column, Guarded, Outcome, Plan};

use super::model::Op;
use super::world::{World, path};

/// A file of five bytes whose content cell is put in another way, or removed.
async fn spoilt(data: Option<&'static [u8]>) -> (World, FileId) {
    let world = World::new(&[Op::Put("/a/f", 5)]).await;
    let Node::File { entry, .. } = world.drive.stat(&path("/a/f")).await.unwrap() else { panic!("no file") };
    let row = entry.id.key();
    let good = world.tables.cell(file::TABLE, &row, file::C, file::DATA).await.unwrap().unwrap();
    let changes = vec![match data {
        Some(data) => Change::put(file::C, file::DATA, data),
        None => Change::delete(file::C, file::DATA),
    }];
    let checks = vec![Check::Equals(Column::new(file::C, file::DATA), good)];
    let guarded = vec![Guarded { table: file::TABLE, row, checks, changes }];
    let done = world.tables.commit(Plan { guarded, ..Plan::default() }).await.unwrap();
    assert_eq!(done, Outcome::Committed);
    (world, entry.id)
}

fn is_damage<T>(answer: Result<T, DriveError>, of: FileId) -> bool {
    matches!(answer, Err(DriveError::Content(ContentError::Damaged { id, .. })) if id == of)
}

#[tokio::test]
async fn content_of_another_length_or_without_its_cell_is_damage() {
    for data in [Some(b"\x01four".as_slice()), Some(b"\x01sixsix"), None] {
        let (world, id) = spoilt(data).await;
        assert!(is_damage(world.drive.open_file(&path("/a/f")).await, id), "{data:?}");
        assert!(is_damage(world.drive.copy_node(&path("/a/f"), &path("/g"), false, "eva").await, id), "{data:?}");
        assert!(matches!(world.drive.stat(&path("/g")).await, Err(DriveError::NotFound)));
    }
}

#[tokio::test]
async fn content_that_differs_from_its_digest_is_not_copied() {
    let (world, id) = spoilt(Some(b"\x01other")).await;
    assert!(is_damage(world.drive.copy_node(&path("/a/f"), &path("/g"), false, "eva").await, id));
    assert!(matches!(world.drive.stat(&path("/g")).await, Err(DriveError::NotFound)));
}
