//! Every operation in the middle of every other: the two answers and what is seen after are those of one
//! after the other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rowdrive::drive::{Condition, DriveError, Node, Versions};

use super::model::{No, Op, View};
use super::world::{World, path, put, run};
use crate::stepwise::{Finish, Part};

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

type Answers = (Result<(), No>, Result<(), No>, View);

/// The answers of the first and the second operation, and the view after, if `first` runs before `second`.
fn in_order(before: &View, first: Op, second: Op) -> Answers {
    let one = before.after(first);
    let between = one.clone().unwrap_or_else(|_| before.clone());
    let two = between.after(second);
    let end = two.clone().unwrap_or(between);
    (one.map(|_| ()), two.map(|_| ()), end)
}

/// Runs `op` and, before its step of this number, `rival`. None if it has no such step.
async fn race(op: Op, rival: Op, step: usize, finish: Finish) -> Option<(Answers, World)> {
    let world = World::new(SET_UP).await;
    world.store.set_finish(finish);
    let (drive, answer) = (world.drive.clone(), Arc::new(Mutex::new(None)));
    let theirs = answer.clone();
    world.store.once_before(world.store.steps() + step, move |_| async move {
        let done = run(&drive, rival).await;
        *theirs.lock().unwrap() = Some(done);
    });
    let ours = world.run(op).await;
    let theirs = (*answer.lock().unwrap())?;
    let seen = world.view().await;
    world.store.set_finish(Finish::Now);
    world.store.deliver().await;
    Some(((ours, theirs, seen), world))
}

/// A copy reads its source at one instant and makes its target at another: no promise ties the two, so a
/// copy may find its target taken by the very file or directory that it has seen at the source before.
fn copy_saw_both(ours: Op, theirs: Op, answers: &Answers) -> bool {
    matches!((ours, theirs), (Op::Copy(from, to, _), Op::Move(source, target, _)) if to == target && from.starts_with(source))
        && answers.0 == Err(No::Conflict)
        && answers.1 == Ok(())
}

/// Who meets a subtree that is held by an operation at work waits for a while and comes back later: then the other
/// is as if it were alone.
fn one_gave_up(before: &View, ours: Op, theirs: Op, answers: &Answers) -> bool {
    let subtree = |op| matches!(op, Op::Remove(_) | Op::Move("/a" | "/e", ..));
    let alone = |op| (before.after(op).map(|_| ()), before.after(op).unwrap_or_else(|_| before.clone()));
    let (met, other) = match answers {
        (answer, Err(No::Unknown), seen) => (subtree(ours), (*answer, seen.clone()) == alone(ours)),
        (Err(No::Unknown), answer, seen) => {
            (subtree(ours) || subtree(theirs), (*answer, seen.clone()) == alone(theirs))
        }
        _ => return false,
    };
    met && other
}

/// Runs every race; what a plan leaves to its finish is done now, or after both operations.
async fn all_races(finish: Finish) {
    let before = World::new(SET_UP).await.view().await;
    let mut races = 0;
    for op in OPS {
        for rival in OPS {
            for step in 1.. {
                let Some((answers, world)) = race(*op, *rival, step, finish).await else {
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
                    world.store.log()
                );
                world.nothing_left_over().await;
                races += 1;
            }
        }
    }
    println!("{races} races");
    assert!(races > 1_000, "only {races} races");
}

#[tokio::test]
async fn two_operations_are_one_after_the_other() {
    all_races(Finish::Now).await;
}

#[tokio::test]
async fn two_operations_are_one_after_the_other_however_late_the_clean_up() {
    all_races(Finish::Held).await;
}

/// A directory that is removed and made anew is another one: what was decided upon the first is decided anew.
#[tokio::test]
async fn a_parent_made_anew_just_before_the_commit_is_another() {
    for op in [
        Op::Put("/e/x", 23),
        Op::Put("/e/n/x", 24),
        Op::Mkdir("/e/n"),
        Op::Move("/a/f", "/e/g", false),
        Op::Copy("/a/f", "/e/g", false),
    ] {
        let world = World::new(SET_UP).await;
        let after = world.view().await.after(op).unwrap();
        let (drive, met) = (world.watcher.clone(), Arc::new(AtomicBool::new(false)));
        world.store.before(move |step| {
            let (drive, met) = (drive.clone(), met.clone());
            async move {
                if step.part == Part::Guarded && !met.swap(true, Ordering::SeqCst) {
                    run(&drive, Op::Rmdir("/e")).await.unwrap();
                    run(&drive, Op::Mkdir("/e")).await.unwrap();
                }
            }
        });
        assert_eq!(world.run(op).await, Ok(()), "{op:?}");
        assert_eq!(world.view().await, after, "{op:?}");
        world.nothing_left_over().await;
    }
}

#[tokio::test]
async fn a_version_that_was_named_is_the_only_one_that_is_changed() {
    for delete in [true, false] {
        let world = World::new(SET_UP).await;
        let at = path("/a/f");
        let Node::File { entry, .. } = world.drive.stat(&at).await.unwrap() else { panic!("no file") };
        let condition = Condition { if_match: Some(Versions::These(vec![entry.id])), if_none_match: None };
        let (drive, met) = (world.watcher.clone(), Arc::new(AtomicBool::new(false)));
        world.store.before(move |step| {
            let (drive, met) = (drive.clone(), met.clone());
            async move {
                if step.part == Part::Guarded && !met.swap(true, Ordering::SeqCst) {
                    run(&drive, Op::Put("/a/f", 20)).await.unwrap();
                }
            }
        });
        let done = if delete {
            world.drive.delete(&at, &condition).await
        } else {
            put(&world.drive, "/a/f", 21, condition).await
        };
        assert!(matches!(done, Err(DriveError::Precondition)), "{done:?}");
        assert_eq!(world.view().await.files["/a/f"], 20);
        world.nothing_left_over().await;
    }
}

/// More than the tries that come without a pause.
#[tokio::test]
async fn of_many_who_replace_one_file_all_come_to_it() {
    let world = World::with_patience(Duration::from_secs(60), &[Op::Put("/d/f", 1)]).await;
    // All of them read before one of them commits.
    world.store.before(|_| tokio::task::yield_now());
    let puts = (0..64).map(|n| {
        let drive = world.drive.clone();
        tokio::spawn(async move { put(&drive, "/d/f", 2 + n, Condition::default()).await })
    });
    for done in puts.collect::<Vec<_>>() {
        done.await.unwrap().unwrap();
    }
    world.nothing_left_over().await;
}

/// It would be merged into what holds it: files of its own would be replaced before they are copied.
#[tokio::test]
async fn a_folder_is_not_copied_onto_what_holds_it() {
    // A backup of `/d`, which holds an older one.
    let set_up = &[Op::Put("/d/l/f", 1), Op::Put("/d/b/d/l/f", 2), Op::Put("/d/b/d/b/d/l/f", 3)];
    let world = World::new(set_up).await;
    let before = world.view().await;
    for (to, overwrite) in ["/d/b", "/d", "/"].into_iter().flat_map(|to| [(to, false), (to, true)]) {
        let copy = Op::Copy("/d/b/d", to, overwrite);
        assert_eq!(world.run(copy).await, before.after(copy).map(drop), "{copy:?}");
        assert_eq!(world.view().await, before, "{copy:?}");
    }
    // A name that starts as theirs do is another one.
    world.run(Op::Mkdir("/d/b/d!")).await.unwrap();
    world.drive.copy_node(&path("/d/b/d"), &path("/d/b/d!"), true, "eva").await.unwrap();
    assert_eq!(world.view().await.files["/d/b/d!/b/d/l/f"], 3);
    world.nothing_left_over().await;
}

/// What leaves the source while it is copied may be in the copy or not; the rest is.
#[tokio::test]
async fn a_copy_goes_on_when_something_leaves_its_source() {
    let set_up = &[Op::Put("/a/b/f", 1), Op::Put("/a/b/g", 2), Op::Put("/a/c/h", 3), Op::Put("/a/k", 4)];
    for change in
        [Op::Delete("/a/b/f"), Op::Move("/a/b/f", "/a/b/e", false), Op::Remove("/a/b"), Op::Move("/a/b", "/b", false)]
    {
        for call in 1.. {
            let world = World::new(set_up).await;
            let (rival, met) = (world.watcher.clone(), Arc::new(AtomicBool::new(false)));
            let seen = met.clone();
            world.store.once_before_call(world.store.calls() + call, move || async move {
                run(&rival, change).await.unwrap();
                seen.store(true, Ordering::SeqCst);
            });
            let copied = world.drive.copy_node(&path("/a"), &path("/t"), false, "eva").await;
            assert!(copied.is_ok(), "{change:?} before call {call}: {:?}", copied.err());
            if !met.load(Ordering::SeqCst) {
                break;
            }
            let files = world.view().await.files;
            for kept in ["/t/c/h", "/t/k"] {
                assert!(files.contains_key(kept), "{change:?} before call {call}: {files:?}");
            }
        }
    }
}
