//! Every operation in the middle of every other: the two answers and what is seen after are those of one
//! after the other.

use std::sync::{Arc, Mutex};

use super::model::{No, Op, View};
use super::world::{World, run};

const SET_UP: &[Op] = &[Op::Put("/a/f", 5), Op::Mkdir("/b"), Op::Mkdir("/e")];

const OPS: &[Op] = &[
    Op::Put("/a/f", 20),
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
    Op::Move("/a/f", "/b/f", false),
    Op::Move("/a/f", "/b/f", true),
    Op::Move("/a/f", "/e/g", false),
    Op::Move("/a/f", "/a/g", false),
    Op::Copy("/a/f", "/b/f", false),
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
async fn race(op: Op, rival: Op, step: usize) -> Option<(Answers, World)> {
    let world = World::new(SET_UP).await;
    let (drive, answer) = (world.drive.clone(), Arc::new(Mutex::new(None)));
    let theirs = answer.clone();
    world.store.once_before(world.store.steps() + step, move |_| async move {
        let done = run(&drive, rival).await;
        *theirs.lock().unwrap() = Some(done);
    });
    let ours = world.run(op).await;
    let theirs = (*answer.lock().unwrap())?;
    let seen = world.view().await;
    Some(((ours, theirs, seen), world))
}

/// A copy reads its source at one instant and makes its target at another: no promise ties the two, so a
/// copy may find its target taken by the very file that it has seen at the source before.
fn copy_saw_both(ours: Op, theirs: Op, answers: &Answers) -> bool {
    matches!((ours, theirs), (Op::Copy(from, to, _), Op::Move(source, target, _)) if (from, to) == (source, target))
        && answers.0 == Err(No::Conflict)
        && answers.1 == Ok(())
}

#[tokio::test]
async fn two_operations_are_one_after_the_other() {
    let before = World::new(SET_UP).await.view().await;
    let mut races = 0;
    for op in OPS {
        for rival in OPS {
            for step in 1.. {
                let Some((answers, world)) = race(*op, *rival, step).await else {
                    break;
                };
                let ours_first = in_order(&before, *op, *rival);
                let (theirs, ours, end) = in_order(&before, *rival, *op);
                let theirs_first = (ours, theirs, end);
                assert!(
                    answers == ours_first || answers == theirs_first || copy_saw_both(*op, *rival, &answers),
                    "{rival:?} before step {step} of {op:?}: {answers:?}, \
                     not {ours_first:?} nor {theirs_first:?}\n{:#?}",
                    world.store.log()
                );
                world.nothing_left_over().await;
                races += 1;
            }
        }
    }
    assert!(races > 1_000, "only {races} races");
}
