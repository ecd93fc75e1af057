//! The clean-up of a recursive delete, or of a directory move, is stopped before each of its calls while two other
//! operations change the same paths, one after the other. They take effect after the commit, whatever the clean-up has
//! done.

use std::sync::Arc;
use std::time::Duration;

use rowdrive::drive::{Settings, Thresholds};
use tokio::sync::Notify;

use super::fixture::{Fixture, SETTINGS, run};
use super::model::{Op, OpError, View};

const SET_UP: &[Op] =
    &[Op::Put("/a/f", 5), Op::Put("/a/c/g", 6), Op::Put("/a/c/h", 7), Op::Put("/k", 8), Op::Mkdir("/b")];

const FIRST: &[Op] = &[Op::Remove("/a"), Op::Move("/a", "/n", false), Op::Move("/a", "/b/a", false)];

const OTHERS: &[Op] = &[
    Op::Put("/a/f", 20),
    Op::Put("/a/c/g", 21),
    Op::Put("/n/c/g", 22),
    Op::Mkdir("/a/c"),
    Op::Rmdir("/a"),
    Op::Delete("/n/c/h"),
    Op::Remove("/a"),
    Op::Remove("/n"),
    Op::Move("/b", "/a", false),
    Op::Move("/n", "/a", false),
    Op::Move("/k", "/a/c/g", true),
    Op::Copy("/k", "/a/k", false),
];

/// Batches of one row; a writer finishes subtrees of up to this many children itself.
fn pieces(children_finished_by_writer: usize) -> Settings {
    let limits = Thresholds { children_finished_by_writer, ..Thresholds::all(1) };
    Settings { limits, lock_wait: Duration::from_millis(8), ..SETTINGS }
}

/// A fixture in which the clean-up of an operation waits before its call of this number. `None` if there is no such
/// call, `Some(None)` if the call is before the answer.
async fn stopped_in_clean_up(op: Op, call: usize, settings: Settings) -> Option<Option<(Fixture, Arc<Notify>)>> {
    let fixture = Fixture::with(settings, SET_UP).await;
    fixture.idle().await;
    fixture.store.scan_row_by_row();
    let (reached, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (here, resume) = (reached.clone(), go_on.clone());
    fixture.store.once_before_call(fixture.store.calls() + call, move || async move {
        here.notify_one();
        resume.notified().await;
    });
    let drive = fixture.drive.clone();
    let running = tokio::spawn(async move {
        let done = run(&drive, op).await;
        drive.idle().await;
        done
    });
    let answered = fixture.watcher.clone();
    loop {
        if running.is_finished() {
            return None;
        }
        if tokio::time::timeout(Duration::from_micros(1), reached.notified()).await.is_ok() {
            break;
        }
    }
    // After the commit no reader finds the folder.
    let gone = matches!(
        answered.unrestricted().stat(&super::fixture::path("/a")).await,
        Err(rowdrive::drive::DriveError::NotFound)
    );
    if !gone {
        go_on.notify_one();
        running.await.unwrap().unwrap();
        return Some(None);
    }
    Some(Some((fixture, go_on)))
}

fn expected(view: View, op: Op, answer: Result<(), OpError>) -> Option<View> {
    match (answer, view.after(op)) {
        (Ok(()), Ok(after)) => Some(after),
        (Err(OpError::Unknown), _) => Some(view),
        (Err(no), Err(other)) if no == other => Some(view),
        _ => None,
    }
}

async fn two_others_during_clean_up(first: Op) {
    let every = std::env::var_os("ROWDRIVE_EVERY_RACE").is_some();
    let (mut races, mut gave_up) = (0, 0);
    for (i, second) in OTHERS.iter().enumerate() {
        for (j, third) in OTHERS.iter().enumerate() {
            for call in 1.. {
                if !every && (i + j + call) % 5 != 0 {
                    if call > 200 {
                        break;
                    }
                    continue;
                }
                let settings = pieces(if (i + j) % 3 == 0 { 1 } else { 100 });
                let Some(stopped) = stopped_in_clean_up(first, call, settings).await else { break };
                let Some((fixture, go_on)) = stopped else { continue };
                let mut view = fixture.view().await;
                let mut answers = Vec::new();
                for op in [second, third] {
                    let answer = fixture.run(*op).await;
                    answers.push(answer);
                    gave_up += usize::from(answer == Err(OpError::Unknown));
                    let title =
                        format!("{answers:?} of {second:?} and {third:?} before call {call} of {first:?}'s clean-up");
                    view = expected(view.clone(), *op, answer).unwrap_or_else(|| panic!("{title}: {view:?}"));
                    assert_eq!(fixture.view().await, view, "{title}\n{:#?}", fixture.store.log());
                }
                go_on.notify_one();
                fixture.idle().await;
                let title = format!("{second:?} and {third:?} before call {call} of {first:?}'s clean-up");
                assert_eq!(fixture.view().await, view, "{title}, in the end\n{:#?}", fixture.store.log());
                fixture.nothing_left_over().await;
                races += 1;
            }
        }
    }
    println!("{first:?}: {races} races, {gave_up} gave up");
    assert!(races > 100, "{races}");
}

#[tokio::test]
async fn two_other_operations_during_the_clean_up_of_a_recursive_delete() {
    two_others_during_clean_up(FIRST[0]).await;
}

#[tokio::test]
async fn two_other_operations_during_the_clean_up_of_a_move() {
    two_others_during_clean_up(FIRST[1]).await;
}

#[tokio::test]
async fn two_other_operations_during_the_clean_up_of_a_move_into_another_folder() {
    two_others_during_clean_up(FIRST[2]).await;
}
