//! Compares the outcomes of the program with those that the model of the protocol reaches: two operations, both stopped
//! before calls of the store, reads included, and a crash before every call. The program reaches no other outcome, and
//! it reaches every outcome of a sequential order. With `ROWDRIVE_EVERY_RACE` every pair of calls is tried.

use std::collections::BTreeSet;
use std::sync::Arc;

use rowdrive::drive::{Condition, Drive, DriveError, PutOptions, Settings, Versions, whole_body};
use rowdrive::migrate;
use rowdrive::table::Tables;

use super::fixture::{Fixture, SETTINGS, bytes, path, refused};
use super::model::{Op, OpError, View};
use super::paused::Paused;
use crate::stepwise::{Fault, Stepwise};
use outcomes::{CASES, Case, UserRequest, outcome};

#[path = "../../model/outcomes.rs"]
mod outcomes;

/// How long one operation waits for the other, which may be stopped.
const PATIENCE: std::time::Duration = std::time::Duration::from_millis(3);

/// Whether every call of one operation is combined with every call of the other; otherwise every call of each, and some
/// of the pairs.
fn whole_product() -> bool {
    std::env::var_os("ROWDRIVE_EVERY_RACE").is_some()
}

async fn create(drive: &Drive, at: &str) -> rowdrive::drive::Result<bool> {
    let condition = Condition { if_none_match: Some(Versions::Any), if_match: None };
    let options = PutOptions { parents: false, condition, ..PutOptions::new("image/png", "eva") };
    Ok(drive.unrestricted().put(&path(at), options, whole_body(bytes(7))).await.map(|_| true)?)
}

/// The answer to the user. `refused`: the operation was certainly impossible.
async fn ask(drive: &Drive, asked: UserRequest) -> &'static str {
    let done = match asked {
        UserRequest::Create(at) => create(drive, at).await,
        UserRequest::Mkdir(at) => drive.unrestricted().mkdir(&path(at), "eva", false).await.map(|made| made.new),
        UserRequest::Rmdir(at) => drive.unrestricted().rmdir(&path(at)).await.map(|()| true),
        UserRequest::MoveFile(from, to) | UserRequest::Move(from, to) => {
            drive.unrestricted().move_node(&path(from), &path(to), false).await.map(|_| true)
        }
        UserRequest::Delete(at) => drive.unrestricted().delete_subtree(&path(at)).await.map(|()| true),
    };
    match done {
        Ok(true) => "done",
        Ok(false) | Err(DriveError::IntoItself) => "refused",
        Err(error) => match refused(format!("{asked:?}"), error) {
            OpError::Unknown => "busy",
            _ => "refused",
        },
    }
}

fn names(view: View) -> Vec<String> {
    view.dirs.iter().map(|dir| format!("{dir}/")).chain(view.files.into_keys()).collect()
}

async fn fixture(case: &Case) -> Fixture {
    let dirs = case.dirs.iter().map(|at| Op::Mkdir(at));
    let set_up: Vec<Op> = dirs.chain(case.files.iter().map(|at| Op::Put(at, 5))).collect();
    let fixture = Fixture::with(Settings { lock_wait: PATIENCE, ..SETTINGS }, &set_up).await;
    fixture.store.scan_row_by_row();
    fixture
}

/// The outcome. Asserts that nothing changes after the answer.
async fn ended(fixture: &Fixture, answers: [&str; 2]) -> String {
    let seen = fixture.view().await;
    fixture.wait_until_no_records().await;
    fixture.idle().await;
    assert_eq!(fixture.view().await, seen, "{answers:?}: after the clean-up");
    fixture.nothing_left_over().await;
    outcome(answers, names(seen))
}

/// Starts a request that stops before a call of the store.
async fn begin(store: &Stepwise, drive: &Drive, asked: UserRequest, call: usize) -> Paused<&'static str> {
    let drive = drive.clone();
    let place = |wait| store.once_before_call(store.calls() + call, move || wait);
    Paused::begin(place, async move { ask(&drive, asked).await }).await
}

/// The outcome in which a busy operation has done nothing. The program may answer so at any time, since its limit is a
/// duration; the model only where it waits. So the tree is that of the other operation alone.
fn without_the_busy(case: &Case, answers: [&'static str; 2]) -> String {
    let mut view = View::default();
    view.dirs.extend(case.dirs.iter().map(|at| (*at).to_owned()));
    view.files.extend(case.files.iter().map(|at| ((*at).to_owned(), 5)));
    for (asked, _) in [case.first, case.second].into_iter().zip(answers).filter(|(_, answer)| *answer == "done") {
        let op = match asked {
            UserRequest::Create(at) => Op::New(at, 7),
            UserRequest::Mkdir(at) => Op::Mkdir(at),
            UserRequest::Rmdir(at) => Op::Rmdir(at),
            UserRequest::MoveFile(from, to) | UserRequest::Move(from, to) => Op::Move(from, to, false),
            UserRequest::Delete(at) => Op::Remove(at),
        };
        view = view.after(op).unwrap();
    }
    outcome(answers, names(view))
}

/// Runs the first operation up to one call and the second up to another, then the first to its end and the second to
/// its end. Returns whether each reached its call.
async fn crossed(case: &Case, calls: [usize; 2], found: &mut BTreeSet<String>) -> [bool; 2] {
    let fixture = fixture(case).await;
    let store = Stepwise::new(fixture.store.inner());
    store.scan_row_by_row();
    let tables = Tables::new(Arc::<Stepwise>::clone(&store));
    migrate::up(&tables).await.unwrap();
    let other = fixture.drive.with_tables(tables);
    let first = begin(&fixture.store, &fixture.drive, case.first, calls[0]).await;
    let second = begin(&store, &other, case.second, calls[1]).await;
    let came_there = [first.paused, second.paused];
    let answers = [first.end().await, second.end().await];
    other.idle().await;
    let outcome = ended(&fixture, answers).await;
    let explained = if answers.contains(&"busy") {
        outcome == without_the_busy(case, answers)
    } else {
        case.outcomes.contains(&outcome.as_str())
    };
    let (title, logs) =
        (format!("{:?}, {:?}, calls {calls:?}", case.first, case.second), [fixture.store.log(), store.log()]);
    assert!(explained, "{title}: {outcome}\n{logs:#?}");
    found.insert(outcome);
    came_there
}

async fn all_crossings(case: &Case) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let stride = if whole_product() { 1 } else { 5 };
    for first in 1.. {
        let mut came_there = crossed(case, [first, 1], &mut found).await;
        // The second operation also runs completely before this call: the loop ends when it has no such call.
        crossed(case, [first, usize::MAX / 2], &mut found).await;
        let (from, step) = if first == 1 { (2, 1) } else { (2 + first % stride, stride) };
        for second in (from..).step_by(step) {
            if !came_there[0] || !came_there[1] {
                break;
            }
            came_there = crossed(case, [first, second], &mut found).await;
        }
        if !came_there[0] {
            return found;
        }
    }
    found
}

/// The process of the first operation stops before each call in turn.
async fn all_crashes(case: &Case) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let clean = fixture(case).await;
    let begun = [clean.store.calls(), clean.store.steps()];
    assert_eq!(ask(&clean.drive, case.first).await, "done");
    let [calls, steps] = [clean.store.calls() - begun[0], clean.store.steps() - begun[1]];
    // Before every call, after every write, and after the end.
    let stops = (1..=calls).map(|call| (Fault::Stop, call)).chain((1..=steps).map(|step| (Fault::StopAfter, step)));
    for stop in stops.map(Some).chain([None]) {
        let mut fixture = fixture(case).await;
        match stop {
            Some((Fault::StopAfter, step)) => fixture.store.at(fixture.store.steps() + step, Fault::StopAfter),
            Some((fault, call)) => fixture.store.at_call(fixture.store.calls() + call, fault),
            None => {}
        }
        let first = ask(&fixture.drive, case.first).await;
        fixture.drive.close().await;
        fixture.restart().await;
        let mut second = "busy";
        while second == "busy" {
            // Start-up still finishes the rows that the second operation needs.
            second = ask(&fixture.drive, case.second).await;
        }
        let outcome = ended(&fixture, [if first == "busy" { "lost" } else { first }, second]).await;
        let title = format!("{:?}, {stop:?}, {:?}", case.first, case.second);
        assert!(case.outcomes.contains(&outcome.as_str()), "{title}: {outcome}\n{:#?}", fixture.store.log());
        found.insert(outcome);
    }
    found
}

fn all_reached(case: &Case, found: &BTreeSet<String>) {
    for outcome in case.outcomes.iter().filter(|outcome| !outcome.contains("busy")) {
        assert!(found.contains(*outcome), "{case:?}: never reached: {outcome}");
    }
    println!("{:?}, {:?}: {} of {} outcomes", case.first, case.second, found.len(), case.outcomes.len());
}

#[tokio::test]
async fn two_half_done_operations_end_as_the_model_says() {
    for case in CASES.iter().filter(|case| !case.crash) {
        all_reached(case, &all_crossings(case).await);
    }
}

#[tokio::test]
async fn an_operation_whose_process_stops_anywhere_ends_as_the_model_says() {
    for case in CASES.iter().filter(|case| case.crash) {
        all_reached(case, &all_crashes(case).await);
    }
}
