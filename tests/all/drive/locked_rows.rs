//! Rows that a running or an interrupted subtree operation has locked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rowdrive::drive::DriveError;
use rowdrive::schema::dir::RowLock;
use rowdrive::schema::subtree_op::{self, OpRecord, Phase, SubtreeOpKind};
use rowdrive::schema::{CF, DirId, OpId, dir};
use rowdrive::table::{Change, Check, ConditionalRow, Outcome, Plan, Tables};

use super::fixture::{Fixture, path, run, view};
use super::model::{Op, OpError};
use super::paused::Paused;
use crate::stepwise::{Fault, PlanPart};

/// The drive before, an operation on it, and a directory row that the operation changes or depends on.
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

/// What an interrupted operation has left.
#[derive(Clone, Copy, Debug)]
enum Unfinished {
    LockAlone,
    Prepared,
    Aborted,
}

const LEFT: [Unfinished; 3] = [Unfinished::LockAlone, Unfinished::Prepared, Unfinished::Aborted];

/// Locks a directory row as such an operation does.
async fn lock_row(tables: &Tables, directory: &str, left: Unfinished) {
    let id = OpId::now();
    let unlocked = vec![Check::Absent(dir::lock_column())];
    let lock = vec![Change::put(CF, dir::LOCK, RowLock::Source(id).encode())];
    let mut guarded =
        vec![ConditionalRow { table: dir::TABLE, row: path(directory).key(), checks: unlocked, changes: lock }];
    if !matches!(left, Unfinished::LockAlone) {
        let what = OpRecord { from: path(directory), root: DirId::random(), kind: SubtreeOpKind::Delete };
        let mut record = what.put_cells();
        if matches!(left, Unfinished::Aborted) {
            record[0] = Change::put(CF, subtree_op::PHASE, Phase::Aborted.encode());
        }
        let checks = vec![Check::Absent(subtree_op::phase_column())];
        guarded.push(ConditionalRow { table: subtree_op::TABLE, row: id.key(), checks, changes: record });
    }
    let done = tables.commit(Plan { guarded, ..Plan::default() }).await.unwrap();
    assert_eq!(done, Outcome::Committed);
}

#[tokio::test]
async fn locks_of_a_dead_operation_block_no_writer() {
    for left in LEFT {
        for (set_up, op, directory) in CASES {
            let mut fixture = Fixture::new(set_up).await;
            let before = fixture.view().await;
            lock_row(&fixture.tables, directory, left).await;
            assert_eq!(fixture.view().await, before, "{left:?} on {directory}");
            assert_eq!(fixture.run(*op).await, Ok(()), "{op:?} while {directory} is locked: {left:?}");
            assert_eq!(Ok(fixture.view().await), before.after(*op), "{op:?} while {directory} is locked: {left:?}");
            fixture.drive.close().await;
            fixture.restart().await;
            fixture.wait_until_no_records().await;
            fixture.nothing_left_over().await;
        }
    }
}

/// After a failed sync, the next start may apply the write before it. An answer that nothing was written must be true
/// in this case, too.
#[tokio::test]
async fn a_change_answered_with_a_final_error_has_not_happened() {
    for to in [None, Some("/n"), Some("/b/n")] {
        for step in 1.. {
            let mut fixture = Fixture::new(&[Op::Put("/a/f", 5), Op::Put("/a/c/g", 6), Op::Mkdir("/b")]).await;
            fixture.idle().await;
            let (before, last) = (fixture.view().await, fixture.store.steps() + step);
            fixture.store.at(last, Fault::EndWrites);
            let (op, done) = match to {
                None => (Op::Remove("/a"), fixture.drive.unrestricted().delete_subtree(&path("/a")).await),
                Some(to) => {
                    let moved = fixture.drive.unrestricted().move_node(&path("/a"), &path(to), false).await;
                    (Op::Move("/a", to, false), moved.map(drop))
                }
            };
            fixture.drive.close().await;
            if fixture.store.steps() < last {
                assert!(step > 5, "{op:?} has {step} steps");
                break;
            }
            fixture.restart().await;
            fixture.wait_until_no_records().await;
            let (after, changed) = (fixture.view().await, before.after(op).unwrap());
            match done {
                Ok(()) => assert_eq!(after, changed, "{op:?}, step {step}"),
                Err(DriveError::Unknown { .. }) => {
                    assert!(after == before || after == changed, "{op:?}, step {step}: {after:?}");
                }
                Err(refused) => assert_eq!(after, before, "{op:?}, step {step}: {refused}"),
            }
            fixture.nothing_left_over().await;
        }
    }
}

#[tokio::test]
async fn a_row_locked_before_the_commit_is_unlocked_first() {
    for (set_up, op, directory) in CASES {
        let fixture = Fixture::new(set_up).await;
        let before = fixture.view().await;
        let (tables, locked) = (fixture.tables.clone(), Arc::new(AtomicBool::new(false)));
        fixture.store.before(move |step| {
            let (tables, locked) = (tables.clone(), locked.clone());
            async move {
                if step.part == PlanPart::ConditionalRow && !locked.swap(true, Ordering::SeqCst) {
                    lock_row(&tables, directory, Unfinished::LockAlone).await;
                }
            }
        });
        assert_eq!(fixture.run(*op).await, Ok(()), "{op:?} while {directory} is locked");
        assert_eq!(Ok(fixture.view().await), before.after(*op), "{op:?} while {directory} is locked");
        fixture.nothing_left_over().await;
    }
}

/// A move that stops before some of its steps, longer than a writer waits, and then continues.
#[tokio::test]
async fn writers_wait_for_a_running_move_and_readers_do_not() {
    for step in [1, 2, 4, 5, 6, 7] {
        let fixture = Fixture::new(&[Op::Put("/a/b/f", 5), Op::Mkdir("/t")]).await;
        let before = fixture.view().await;
        let after = before.after(Op::Move("/a", "/t/a", false)).unwrap();
        let (watcher, hit) = (fixture.watcher.clone(), Arc::new(AtomicBool::new(false)));
        let (writer, seen) = (fixture.drive.clone(), hit.clone());
        fixture.store.once_before(fixture.store.steps() + step, move |_| async move {
            let view = view(&watcher).await;
            assert!(view == before || view == after, "before step {step}: {view:?}");
            let (done, expected) = (run(&writer, Op::Put("/a/b/g", 6)).await, before.after(Op::Put("/a/b/g", 6)));
            assert!(done == Ok(()) || done == Err(OpError::Unknown), "before step {step}: {done:?}, {expected:?}");
            seen.store(true, Ordering::SeqCst);
        });
        let moved = fixture.run(Op::Move("/a", "/t/a", false)).await;
        assert!(hit.load(Ordering::SeqCst));
        assert!(moved == Ok(()) || moved == Err(OpError::Unknown), "before step {step}: {moved:?}");
        fixture.nothing_left_over().await;
    }
}

#[tokio::test]
async fn an_unreachable_directory_row_is_not_treated_as_absent() {
    for op in [Op::Mkdir("/a/b"), Op::Mkdir("/a/b/c"), Op::Put("/a/b/c/f", 5)] {
        let fixture = Fixture::new(&[Op::Mkdir("/a")]).await;
        let (before, row) = (fixture.view().await, path("/a/b").key());
        let id = dir::encode_id(DirId::random());
        let plan = |check, change| {
            let guarded = vec![ConditionalRow {
                table: dir::TABLE,
                row: row.clone(),
                checks: vec![check],
                changes: vec![change],
            }];
            Plan { guarded, ..Plan::default() }
        };
        let made = plan(Check::Absent(dir::id_column()), Change::put(CF, dir::ID, id.clone()));
        assert_eq!(fixture.tables.commit(made).await.unwrap(), Outcome::Committed);
        assert_eq!(fixture.run(op).await, Err(OpError::Unknown), "{op:?}");
        let gone = plan(Check::Equals(dir::id_column(), id), Change::delete(CF, dir::ID));
        assert_eq!(fixture.tables.commit(gone).await.unwrap(), Outcome::Committed, "{op:?} has changed the row");
        assert_eq!(fixture.view().await, before, "{op:?}");
        assert_eq!(fixture.run(op).await, Ok(()), "{op:?} afterwards");
        fixture.nothing_left_over().await;
    }
}

/// The caller may have repeated the request with success. Work done for the first request after that would undo changes
/// that others made since then.
#[tokio::test]
async fn nothing_waits_for_a_caller_that_was_dropped() {
    for op in [Op::Put("/a/b/g", 6), Op::Mkdir("/a/b/c"), Op::Delete("/a/b/f"), Op::Move("/a/b/f", "/t/f", false)] {
        let fixture = Fixture::with_lock_wait(Duration::from_secs(60), &[Op::Put("/a/b/f", 5), Op::Mkdir("/t")]).await;
        let (drive, store) = (fixture.drive.clone(), fixture.store.clone());
        let moved = fixture.view().await.after(Op::Move("/a", "/t/a", false)).unwrap();
        let place = |wait| store.once_before(store.steps() + 4, move |_| wait);
        let mover = Paused::begin(place, async move { run(&drive, Op::Move("/a", "/t/a", false)).await }).await;
        assert!(mover.paused);
        let drive = fixture.drive.clone();
        let writer = tokio::spawn(async move { run(&drive, op).await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!writer.is_finished(), "{op:?} does not wait");
        writer.abort();
        assert!(writer.await.is_err());
        // The longest pause.
        tokio::time::sleep(Duration::from_millis(150)).await;
        mover.end().await.unwrap();
        // Without the cancellation it would be done by now.
        tokio::time::sleep(Duration::from_millis(150)).await;
        assert_eq!(fixture.view().await, moved, "{op:?}");
        // Another caller gets its answer.
        assert_eq!(fixture.run(Op::Put("/a/b/g", 7)).await, Ok(()));
        fixture.nothing_left_over().await;
    }
}
