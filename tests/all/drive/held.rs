//! Rows that an operation on a subtree holds, or has left. No operation of this version does either: whoever
//! meets one comes back later, and has changed nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rowdrive::drive::{DriveError, ListAsk};
use rowdrive::schema::{CF, DirId, dir};
use rowdrive::table::{Change, Check, Column, Guarded, Outcome, Plan, Tables};

use super::model::{No, Op};
use super::world::{World, path, run};
use crate::stepwise::Part;

/// A drive before, an operation on it, and a directory whose row it changes or relies on.
const CASES: &[(&[Op], Op, &str)] = &[
    (&[Op::Mkdir("/a")], Op::Put("/a/f", 5), "/a"),
    (&[Op::Mkdir("/a")], Op::Put("/a/b/c/f", 5), "/a"),
    (&[Op::Put("/a/f", 5)], Op::Put("/a/f", 6), "/a"),
    (&[Op::Mkdir("/a")], Op::Mkdir("/a/b"), "/a"),
    (&[Op::Mkdir("/a")], Op::Mkdir("/a/b/c"), "/a"),
    (&[Op::Put("/a/f", 5)], Op::Delete("/a/f"), "/a"),
    (&[Op::Mkdir("/a/b")], Op::Rmdir("/a/b"), "/a"),
    (&[Op::Mkdir("/a/b")], Op::Rmdir("/a/b"), "/a/b"),
    (&[Op::Put("/a/f", 5)], Op::Move("/a/f", "/a/g", false), "/a"),
    (&[Op::Put("/a/f", 5), Op::Mkdir("/b")], Op::Move("/a/f", "/b/g", false), "/a"),
    (&[Op::Put("/a/f", 5), Op::Mkdir("/b")], Op::Move("/a/f", "/b/g", false), "/b"),
    (&[Op::Put("/a/f", 5), Op::Put("/b/g", 6)], Op::Move("/a/f", "/b/g", true), "/b"),
    (&[Op::Put("/a/f", 5), Op::Mkdir("/b")], Op::Copy("/a/f", "/b/g", false), "/b"),
];

/// Puts the mark of an operation on a directory's row, or takes it away.
async fn hold(tables: &Tables, directory: &str, held: bool) {
    let change = if held { Change::put(CF, dir::STATE, b"\x01".as_slice()) } else { Change::delete(CF, dir::STATE) };
    let checks = vec![Check::Absent(Column::new(CF, b"none".as_slice()))];
    let guarded = vec![Guarded { table: dir::TABLE, row: path(directory).key(), checks, changes: vec![change] }];
    let done = tables.commit(Plan { guarded, ..Plan::default() }).await.unwrap();
    assert_eq!(done, Outcome::Committed);
}

#[tokio::test]
async fn a_row_held_just_before_the_commit_takes_no_change() {
    for (set_up, op, directory) in CASES {
        let world = World::new(set_up).await;
        let before = world.view().await;
        let (tables, held) = (world.tables.clone(), Arc::new(AtomicBool::new(false)));
        world.store.before(move |step| {
            let (tables, held) = (tables.clone(), held.clone());
            async move {
                if step.part == Part::Guarded && !held.swap(true, Ordering::SeqCst) {
                    hold(&tables, directory, true).await;
                }
            }
        });
        assert_eq!(world.run(*op).await, Err(No::Unknown), "{op:?} while {directory} is held");
        hold(&world.tables, directory, false).await;
        assert_eq!(world.view().await, before, "{op:?} while {directory} is held");
        assert_eq!(world.run(*op).await, Ok(()), "{op:?} afterwards");
        world.nothing_left_over().await;
    }
}

#[tokio::test]
async fn what_is_below_a_held_row_is_not_told_and_not_changed() {
    for (set_up, op, directory) in CASES {
        let world = World::new(set_up).await;
        hold(&world.tables, directory, true).await;
        assert_eq!(run(&world.drive, *op).await, Err(No::Unknown), "{op:?} while {directory} is held");
        let ask = ListAsk { kind: None, prefix: String::new(), after: None, limit: 10 };
        let listed = world.drive.list(&path(directory), &ask).await;
        assert!(matches!(listed, Err(DriveError::Contended)), "{listed:?}");
        let told = world.drive.stat(&path(&format!("{directory}/f"))).await;
        assert!(matches!(told, Err(DriveError::Contended)), "{told:?}");
        hold(&world.tables, directory, false).await;
        assert_eq!(world.run(*op).await, Ok(()), "{op:?} afterwards");
        world.nothing_left_over().await;
    }
}

#[tokio::test]
async fn a_directory_row_that_no_name_reaches_is_not_taken_for_absent() {
    for op in [Op::Mkdir("/a/b"), Op::Mkdir("/a/b/c"), Op::Put("/a/b/c/f", 5)] {
        let world = World::new(&[Op::Mkdir("/a")]).await;
        let (before, row) = (world.view().await, path("/a/b").key());
        let id = dir::encode_id(DirId::random());
        let plan = |check, change| {
            let guarded =
                vec![Guarded { table: dir::TABLE, row: row.clone(), checks: vec![check], changes: vec![change] }];
            Plan { guarded, ..Plan::default() }
        };
        let made = plan(Check::Absent(dir::id_column()), Change::put(CF, dir::ID, id.clone()));
        assert_eq!(world.tables.commit(made).await.unwrap(), Outcome::Committed);
        assert_eq!(world.run(op).await, Err(No::Unknown), "{op:?}");
        let gone = plan(Check::Equals(dir::id_column(), id), Change::delete(CF, dir::ID));
        assert_eq!(world.tables.commit(gone).await.unwrap(), Outcome::Committed, "{op:?} has changed the row");
        assert_eq!(world.view().await, before, "{op:?}");
        assert_eq!(world.run(op).await, Ok(()), "{op:?} afterwards");
        world.nothing_left_over().await;
    }
}
