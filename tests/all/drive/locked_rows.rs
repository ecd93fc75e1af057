//! Rows that an operation on a subtree holds, or has left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rowdrive::drive::DriveError;
use rowdrive::schema::dir::State;
use rowdrive::schema::op::{self, Kind, Phase, What};
use rowdrive::schema::{CF, DirId, OpId, dir};
use rowdrive::table::{Change, Check, Guarded, Outcome, Plan, StoreError, Tables};

use super::model::{No, Op};
use super::paused::Paused;
use super::world::{World, path, run, view};
use crate::stepwise::{Fault, Part};

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

/// What an operation that is at work nowhere left behind.
#[derive(Clone, Copy, Debug)]
enum Left {
    MarkAlone,
    Prepared,
    Aborted,
}

const LEFT: [Left; 3] = [Left::MarkAlone, Left::Prepared, Left::Aborted];

/// Holds a directory's row as the operation would.
async fn hold(tables: &Tables, directory: &str, left: Left) {
    let id = OpId::now();
    let unheld = vec![Check::Absent(dir::state_column())];
    let mark = vec![Change::put(CF, dir::STATE, State::Closed(id).encode())];
    let mut guarded = vec![Guarded { table: dir::TABLE, row: path(directory).key(), checks: unheld, changes: mark }];
    if !matches!(left, Left::MarkAlone) {
        let what = What { from: path(directory), root: DirId::random(), kind: Kind::Delete };
        let mut record = what.row();
        if matches!(left, Left::Aborted) {
            record[0] = Change::put(CF, op::PHASE, Phase::Aborted.encode());
        }
        let checks = vec![Check::Absent(op::phase_column())];
        guarded.push(Guarded { table: op::TABLE, row: id.key(), checks, changes: record });
    }
    let done = tables.commit(Plan { guarded, ..Plan::default() }).await.unwrap();
    assert_eq!(done, Outcome::Committed);
}

#[tokio::test]
async fn what_a_dead_operation_holds_is_no_hindrance() {
    for left in LEFT {
        for (set_up, op, directory) in CASES {
            let mut world = World::new(set_up).await;
            let before = world.view().await;
            hold(&world.tables, directory, left).await;
            assert_eq!(world.view().await, before, "{left:?} on {directory}");
            assert_eq!(world.run(*op).await, Ok(()), "{op:?} while {directory} is held: {left:?}");
            assert_eq!(Ok(world.view().await), before.after(*op), "{op:?} while {directory} is held: {left:?}");
            world.drive.close().await;
            world.restart().await;
            world.settled().await;
            world.nothing_left_over().await;
        }
    }
}

/// Where a sync fails, the write before it may be done by the next start. An answer that nothing was written is true
/// then, too.
#[tokio::test]
async fn a_change_that_is_refused_for_good_has_not_happened() {
    for to in [None, Some("/n"), Some("/b/n")] {
        for step in 1.. {
            let mut world = World::new(&[Op::Put("/a/f", 5), Op::Put("/a/c/g", 6), Op::Mkdir("/b")]).await;
            world.idle().await;
            let (before, last) = (world.view().await, world.store.steps() + step);
            world.store.at(last, Fault::EndWrites);
            let (op, done) = match to {
                None => (Op::Remove("/a"), world.drive.delete_subtree(&path("/a")).await),
                Some(to) => {
                    let moved = world.drive.move_node(&path("/a"), &path(to), false).await;
                    (Op::Move("/a", to, false), moved.map(drop))
                }
            };
            world.drive.close().await;
            if world.store.steps() < last {
                assert!(step > 5, "{op:?} has {step} steps");
                break;
            }
            world.restart().await;
            world.settled().await;
            let (after, changed) = (world.view().await, before.after(op).unwrap());
            match done {
                Ok(()) => assert_eq!(after, changed, "{op:?}, step {step}"),
                Err(DriveError::Store(StoreError::Unknown { .. })) => {
                    assert!(after == before || after == changed, "{op:?}, step {step}: {after:?}");
                }
                Err(refused) => assert_eq!(after, before, "{op:?}, step {step}: {refused}"),
            }
            world.nothing_left_over().await;
        }
    }
}

#[tokio::test]
async fn a_row_held_just_before_the_commit_is_freed_first() {
    for (set_up, op, directory) in CASES {
        let world = World::new(set_up).await;
        let before = world.view().await;
        let (tables, held) = (world.tables.clone(), Arc::new(AtomicBool::new(false)));
        world.store.before(move |step| {
            let (tables, held) = (tables.clone(), held.clone());
            async move {
                if step.part == Part::Guarded && !held.swap(true, Ordering::SeqCst) {
                    hold(&tables, directory, Left::MarkAlone).await;
                }
            }
        });
        assert_eq!(world.run(*op).await, Ok(()), "{op:?} while {directory} is held");
        assert_eq!(Ok(world.view().await), before.after(*op), "{op:?} while {directory} is held");
        world.nothing_left_over().await;
    }
}

/// A move that stops before some of its steps, as long as a writer is patient, and then goes on.
#[tokio::test]
async fn writers_wait_for_a_move_at_work_and_readers_do_not() {
    for step in [1, 2, 4, 5, 6, 7] {
        let world = World::new(&[Op::Put("/a/b/f", 5), Op::Mkdir("/t")]).await;
        let before = world.view().await;
        let after = before.after(Op::Move("/a", "/t/a", false)).unwrap();
        let (watcher, met) = (world.watcher.clone(), Arc::new(AtomicBool::new(false)));
        let (writer, seen) = (world.drive.clone(), met.clone());
        world.store.once_before(world.store.steps() + step, move |_| async move {
            let view = view(&watcher).await;
            assert!(view == before || view == after, "before step {step}: {view:?}");
            let (done, held) = (run(&writer, Op::Put("/a/b/g", 6)).await, before.after(Op::Put("/a/b/g", 6)));
            assert!(done == Ok(()) || done == Err(No::Unknown), "before step {step}: {done:?}, {held:?}");
            seen.store(true, Ordering::SeqCst);
        });
        let moved = world.run(Op::Move("/a", "/t/a", false)).await;
        assert!(met.load(Ordering::SeqCst));
        assert!(moved == Ok(()) || moved == Err(No::Unknown), "before step {step}: {moved:?}");
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

/// He may have sent the same again and be told that it is done: what is done for him after that undoes what others did
/// on the strength of it.
#[tokio::test]
async fn nothing_waits_for_a_caller_who_has_left() {
    for op in [Op::Put("/a/b/g", 6), Op::Mkdir("/a/b/c"), Op::Delete("/a/b/f"), Op::Move("/a/b/f", "/t/f", false)] {
        let world = World::with_patience(Duration::from_secs(60), &[Op::Put("/a/b/f", 5), Op::Mkdir("/t")]).await;
        let (drive, store) = (world.drive.clone(), world.store.clone());
        let moved = world.view().await.after(Op::Move("/a", "/t/a", false)).unwrap();
        let place = |wait| store.once_before(store.steps() + 4, move |_| wait);
        let mover = Paused::begin(place, async move { run(&drive, Op::Move("/a", "/t/a", false)).await }).await;
        assert!(mover.paused);
        let drive = world.drive.clone();
        let writer = tokio::spawn(async move { run(&drive, op).await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!writer.is_finished(), "{op:?} does not wait");
        writer.abort();
        assert!(writer.await.is_err());
        // The longest pause.
        tokio::time::sleep(Duration::from_millis(150)).await;
        mover.end().await.unwrap();
        // It would be done by now.
        tokio::time::sleep(Duration::from_millis(150)).await;
        assert_eq!(world.view().await, moved, "{op:?}");
        // Another one who comes is served.
        assert_eq!(world.run(Op::Put("/a/b/g", 7)).await, Ok(()));
        world.nothing_left_over().await;
    }
}
