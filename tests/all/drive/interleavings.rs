//! Two operations, each stopped before one of its steps while the other continues: moves into each other's folders,
//! writers below a folder that is moved or removed, names that were just freed, and a move that continues after
//! everything else has ended.
//!
//! In [`races`](super::races) one operation runs completely in the middle of another; here both are half done at once.

use std::sync::Arc;
use std::time::Duration;

use rowdrive::drive::Drive;
use rowdrive::migrate;
use rowdrive::table::Tables;

use super::fixture::{Fixture, run};
use super::model::{Op, OpError, View};
use super::paused::Paused;
use crate::stepwise::Stepwise;

const SET_UP: &[Op] = &[Op::Put("/a/f", 5), Op::Put("/a/c/g", 6), Op::Mkdir("/b"), Op::Mkdir("/e")];

const OTHERS: &[Op] = &[
    Op::Move("/a", "/n", false),
    Op::Move("/a/c", "/b/c", false),
    Op::Move("/b", "/a/c/b", false),
    Op::Move("/e", "/n", false),
    Op::Remove("/a"),
    Op::Remove("/a/c"),
    Op::Put("/a/c/x", 21),
    Op::Put("/a/c/g", 22),
    Op::Put("/n/x", 23),
    Op::Mkdir("/n"),
    Op::Mkdir("/a/c/d"),
    Op::Rmdir("/e"),
    Op::Delete("/a/c/g"),
    Op::Move("/a/f", "/e/f", false),
    Op::Move("/a/c/g", "/a/g", false),
];

/// How long one operation waits for the other, which may be stopped.
const PATIENCE: Duration = Duration::from_millis(5);

/// Starts an operation that stops before a step.
async fn begin(store: &Stepwise, drive: &Drive, op: Op, step: usize) -> Paused<Result<(), OpError>> {
    let drive = drive.clone();
    let place = |wait| store.once_before(store.steps() + step, move |_| wait);
    Paused::begin(place, async move { run(&drive, op).await }).await
}

/// Whether the answers and the view are those of a sequential order. An operation that gave up has done nothing.
fn is_explained(before: &View, done: &[(Op, Result<(), OpError>)], seen: &View) -> bool {
    let mut view = before.clone();
    for (op, answer) in done {
        match (answer, view.after(*op)) {
            (Ok(()), Ok(after)) => view = after,
            (Err(OpError::Unknown), _) => {}
            (Err(no), Err(other)) if *no == other => {}
            _ => return false,
        }
    }
    view == *seen
}

/// Every step of `ours` with every step of each other operation.
async fn crossings(ours: Op) {
    let before = Fixture::new(SET_UP).await.view().await;
    let (mut both_half_done, mut gave_up) = (0, 0);
    for theirs in OTHERS {
        for our_step in 1.. {
            let mut came_there = true;
            for their_step in 1.. {
                let fixture = Fixture::with_lock_wait(PATIENCE, SET_UP).await;
                let other_store = Stepwise::new(fixture.store.inner());
                let tables = Tables::new(Arc::<Stepwise>::clone(&other_store));
                migrate::up(&tables).await.unwrap();
                let other = fixture.drive.with_tables(tables);
                let first = begin(&fixture.store, &fixture.drive, ours, our_step).await;
                came_there = first.paused;
                let second = begin(&other_store, &other, *theirs, their_step).await;
                let both = first.paused && second.paused;
                let last = !second.paused;
                let answers = [(ours, first.end().await), (*theirs, second.end().await)];
                let seen = fixture.view().await;
                let other_way = [answers[1], answers[0]];
                assert!(
                    is_explained(&before, &answers, &seen) || is_explained(&before, &other_way, &seen),
                    "{answers:?}, before steps {our_step} and {their_step}: {seen:?}\n{:#?}\n{:#?}",
                    fixture.store.log(),
                    other_store.log()
                );
                other.idle().await;
                fixture.nothing_left_over().await;
                both_half_done += usize::from(both);
                gave_up += answers.iter().filter(|(_, answer)| *answer == Err(OpError::Unknown)).count();
                if last || !came_there {
                    break;
                }
            }
            if !came_there {
                break;
            }
        }
    }
    println!("{ours:?}: both half done {both_half_done} times, {gave_up} gave up");
    assert!(both_half_done > 200, "only {both_half_done}");
}

#[tokio::test]
async fn a_half_done_move_and_another_half_done_operation() {
    crossings(Op::Move("/a", "/n", false)).await;
}

#[tokio::test]
async fn a_half_done_move_into_another_folder_and_another_half_done_operation() {
    crossings(Op::Move("/a/c", "/e/c", false)).await;
}

#[tokio::test]
async fn a_half_done_recursive_delete_and_another_half_done_operation() {
    crossings(Op::Remove("/a")).await;
}
