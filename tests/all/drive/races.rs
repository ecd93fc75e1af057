//! Every operation in the middle of every other: the two answers and the view afterwards are those of a sequential
//! order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rowdrive::drive::{Condition, DriveError, Node, Settings, Versions};
use tokio::time::timeout;

use super::fixture::{Fixture, SETTINGS, path, put, run};
use super::model::{Op, OpError, View};
use crate::stepwise::{Finish, PlanPart};

const SET_UP: &[Op] = &[Op::Put("/a/f", 5), Op::Put("/a/k", 6), Op::Mkdir("/b"), Op::Mkdir("/e")];

const OPS: &[Op] = &[
    Op::Put("/a/f", 20),
    Op::Put("/a/k", 26),
    Op::New("/b/f", 21),
    Op::Put("/b/f", 22),
    Op::Put("/e/x", 23),
    Op::Put("/n/m/x", 24),
    Op::Put("/n", 25),
    Op::Mkdir("/n"),
    Op::Mkdir("/n/m"),
    Op::Mkdir("/b/f"),
    Op::Rmdir("/e"),
    Op::Rmdir("/b"),
    Op::Delete("/a/f"),
    Op::Delete("/a/k"),
    Op::Move("/a/f", "/b/f", false),
    Op::Move("/a/f", "/b/f", true),
    Op::Move("/a/f", "/e/g", false),
    Op::Move("/a/f", "/a/g", false),
    Op::Move("/a/f", "/a/k", true),
    Op::Copy("/a/f", "/b/f", false),
    Op::Move("/a", "/n", false),
    Op::Move("/a", "/e/a", false),
    Op::Move("/e", "/a/e", false),
    Op::Move("/a", "/b/f", false),
    Op::Remove("/a"),
    Op::Remove("/e"),
];

type BothResults = (Result<(), OpError>, Result<(), OpError>, View);

/// The answers of both operations and the view afterwards, if `first` runs before `second`.
fn in_order(before: &View, first: Op, second: Op) -> BothResults {
    let one = before.after(first);
    let between = one.clone().unwrap_or_else(|_| before.clone());
    let two = between.after(second);
    let end = two.clone().unwrap_or(between);
    (one.map(|_| ()), two.map(|_| ()), end)
}

/// Runs `op`, and runs `rival` before its step of this number. `None` if there is no such step.
async fn race(op: Op, rival: Op, step: usize, finish: Finish) -> Option<(BothResults, Fixture)> {
    let fixture = Fixture::new(SET_UP).await;
    fixture.store.set_finish(finish);
    let (drive, answer) = (fixture.drive.clone(), Arc::new(Mutex::new(None)));
    let theirs = answer.clone();
    fixture.store.once_before(fixture.store.steps() + step, move |_| async move {
        let done = run(&drive, rival).await;
        *theirs.lock().unwrap() = Some(done);
    });
    let ours = fixture.run(op).await;
    let theirs = (*answer.lock().unwrap())?;
    let seen = fixture.view().await;
    fixture.store.set_finish(Finish::Now);
    fixture.store.deliver().await;
    Some(((ours, theirs, seen), fixture))
}

/// A copy reads its source at one instant and writes its target at another, and no promise connects the two. So a copy
/// may find its target taken by the very file or directory that it has read at the source.
fn copy_saw_both(ours: Op, theirs: Op, answers: &BothResults) -> bool {
    matches!((ours, theirs), (Op::Copy(from, to, _), Op::Move(source, target, _)) if to == target && from.starts_with(source))
        && answers.0 == Err(OpError::Conflict)
        && answers.1 == Ok(())
}

/// A writer that finds a subtree locked by a running operation waits for a while and then gives up: the result is that
/// of the other operation alone.
fn one_gave_up(before: &View, ours: Op, theirs: Op, answers: &BothResults) -> bool {
    let subtree = |op| matches!(op, Op::Remove(_) | Op::Move("/a" | "/e", ..));
    let alone = |op| (before.after(op).map(|_| ()), before.after(op).unwrap_or_else(|_| before.clone()));
    let (explained, other) = match answers {
        (answer, Err(OpError::Unknown), seen) => (subtree(ours), (*answer, seen.clone()) == alone(ours)),
        (Err(OpError::Unknown), answer, seen) => {
            (subtree(ours) || subtree(theirs), (*answer, seen.clone()) == alone(theirs))
        }
        _ => return false,
    };
    explained && other
}

/// Runs every race; the `finish` rows of each plan are written at once, or after both operations.
async fn all_races(finish: Finish) {
    let before = Fixture::new(SET_UP).await.view().await;
    let mut races = 0;
    for op in OPS {
        for rival in OPS {
            for step in 1.. {
                let Some((answers, fixture)) = race(*op, *rival, step, finish).await else {
                    break;
                };
                let ours_first = in_order(&before, *op, *rival);
                let (theirs, ours, end) = in_order(&before, *rival, *op);
                let theirs_first = (ours, theirs, end);
                assert!(
                    answers == ours_first
                        || answers == theirs_first
                        || copy_saw_both(*op, *rival, &answers)
                        || one_gave_up(&before, *op, *rival, &answers),
                    "{rival:?} before step {step} of {op:?}: {answers:?}, \
                     not {ours_first:?} nor {theirs_first:?}\n{:#?}",
                    fixture.store.log()
                );
                fixture.nothing_left_over().await;
                races += 1;
            }
        }
    }
    println!("{races} races");
    assert!(races > 1_000, "only {races} races");
}

#[tokio::test]
async fn two_concurrent_operations_are_serialisable() {
    all_races(Finish::Now).await;
}

#[tokio::test]
async fn two_concurrent_operations_are_serialisable_with_late_clean_up() {
    all_races(Finish::Delayed).await;
}

/// A directory that was removed and created again is a different directory: decisions about the first one are made
/// again.
#[tokio::test]
async fn a_parent_recreated_before_the_commit_is_not_mistaken_for_the_old_one() {
    for op in [
        Op::Put("/e/x", 23),
        Op::Put("/e/n/x", 24),
        Op::Mkdir("/e/n"),
        Op::Move("/a/f", "/e/g", false),
        Op::Copy("/a/f", "/e/g", false),
    ] {
        let fixture = Fixture::new(SET_UP).await;
        let after = fixture.view().await.after(op).unwrap();
        let (drive, hit) = (fixture.watcher.clone(), Arc::new(AtomicBool::new(false)));
        fixture.store.before(move |step| {
            let (drive, hit) = (drive.clone(), hit.clone());
            async move {
                if step.part == PlanPart::ConditionalRow && !hit.swap(true, Ordering::SeqCst) {
                    run(&drive, Op::Rmdir("/e")).await.unwrap();
                    run(&drive, Op::Mkdir("/e")).await.unwrap();
                }
            }
        });
        assert_eq!(fixture.run(op).await, Ok(()), "{op:?}");
        assert_eq!(fixture.view().await, after, "{op:?}");
        fixture.nothing_left_over().await;
    }
}

#[tokio::test]
async fn a_conditional_change_affects_only_the_named_version() {
    for delete in [true, false] {
        let fixture = Fixture::new(SET_UP).await;
        let at = path("/a/f");
        let Node::File { entry, .. } = fixture.drive.unrestricted().stat(&at).await.unwrap() else { panic!("no file") };
        let condition = Condition { if_match: Some(Versions::These(vec![entry.id])), if_none_match: None };
        let (drive, hit) = (fixture.watcher.clone(), Arc::new(AtomicBool::new(false)));
        fixture.store.before(move |step| {
            let (drive, hit) = (drive.clone(), hit.clone());
            async move {
                if step.part == PlanPart::ConditionalRow && !hit.swap(true, Ordering::SeqCst) {
                    run(&drive, Op::Put("/a/f", 20)).await.unwrap();
                }
            }
        });
        let done = if delete {
            fixture.drive.unrestricted().delete(&at, &condition).await
        } else {
            put(&fixture.drive.unrestricted(), "/a/f", 21, condition).await
        };
        assert!(matches!(done, Err(DriveError::Precondition)), "{done:?}");
        assert_eq!(fixture.view().await.files["/a/f"], 20);
        fixture.nothing_left_over().await;
    }
}

/// More than the number of tries without a pause.
#[tokio::test]
async fn every_one_of_many_concurrent_replacements_succeeds() {
    let fixture = Fixture::with_lock_wait(Duration::from_secs(60), &[Op::Put("/d/f", 1)]).await;
    // All writers read before one of them commits.
    fixture.store.before(|_| tokio::task::yield_now());
    let puts = (0..64).map(|n| {
        let drive = fixture.drive.clone();
        tokio::spawn(async move { put(&drive.unrestricted(), "/d/f", 2 + n, Condition::default()).await })
    });
    for done in puts.collect::<Vec<_>>() {
        done.await.unwrap().unwrap();
    }
    fixture.nothing_left_over().await;
}

/// A copy onto an ancestor would merge into it, and replace files below the source before they are copied.
#[tokio::test]
async fn a_folder_is_not_copied_onto_its_own_ancestor() {
    // A backup of `/d`, which contains an older one.
    let set_up = &[Op::Put("/d/l/f", 1), Op::Put("/d/b/d/l/f", 2), Op::Put("/d/b/d/b/d/l/f", 3)];
    let fixture = Fixture::new(set_up).await;
    let before = fixture.view().await;
    for (to, overwrite) in ["/d/b", "/d", "/"].into_iter().flat_map(|to| [(to, false), (to, true)]) {
        let copy = Op::Copy("/d/b/d", to, overwrite);
        assert_eq!(fixture.run(copy).await, before.after(copy).map(drop), "{copy:?}");
        assert_eq!(fixture.view().await, before, "{copy:?}");
    }
    // A name with a common prefix is a different name.
    fixture.run(Op::Mkdir("/d/b/d!")).await.unwrap();
    fixture.drive.unrestricted().copy_node(&path("/d/b/d"), &path("/d/b/d!"), true, "eva").await.unwrap();
    assert_eq!(fixture.view().await.files["/d/b/d!/b/d/l/f"], 3);
    fixture.nothing_left_over().await;
}

/// An entry that leaves the source during a copy may be in the copy or not; all others are.
#[tokio::test]
async fn a_copy_continues_when_entries_leave_its_source() {
    let set_up = &[Op::Put("/a/b/f", 1), Op::Put("/a/b/g", 2), Op::Put("/a/c/h", 3), Op::Put("/a/k", 4)];
    for change in
        [Op::Delete("/a/b/f"), Op::Move("/a/b/f", "/a/b/e", false), Op::Remove("/a/b"), Op::Move("/a/b", "/b", false)]
    {
        for call in 1.. {
            let fixture = Fixture::new(set_up).await;
            let (rival, hit) = (fixture.watcher.clone(), Arc::new(AtomicBool::new(false)));
            let seen = hit.clone();
            fixture.store.once_before_call(fixture.store.calls() + call, move || async move {
                run(&rival, change).await.unwrap();
                seen.store(true, Ordering::SeqCst);
            });
            let copied = fixture.drive.unrestricted().copy_node(&path("/a"), &path("/t"), false, "eva").await;
            assert!(copied.is_ok(), "{change:?} before call {call}: {:?}", copied.err());
            if !hit.load(Ordering::SeqCst) {
                break;
            }
            let files = fixture.view().await.files;
            for kept in ["/t/c/h", "/t/k"] {
                assert!(files.contains_key(kept), "{change:?} before call {call}: {files:?}");
            }
        }
    }
}

/// The directory that is moved is another one at each of its reads, and its target is taken.
#[tokio::test]
async fn a_move_whose_source_changes_all_the_time_gives_up() {
    let settings = Settings { lock_wait: Duration::from_millis(50), ..SETTINGS };
    let fixture = Fixture::with(settings, &[Op::Mkdir("/a"), Op::Mkdir("/b")]).await;
    let watcher = fixture.watcher.clone();
    fixture.store.reading(move |_| {
        let watcher = watcher.clone();
        async move {
            for op in [Op::Rmdir("/a"), Op::Mkdir("/a")] {
                run(&watcher, op).await.unwrap();
            }
        }
    });
    let moved = timeout(Duration::from_secs(20), fixture.run(Op::Move("/a", "/b", false))).await;
    assert_eq!(moved.expect("it gives up"), Err(OpError::Unknown));
}
