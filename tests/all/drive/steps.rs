//! Every step of every operation stopped, lost, delayed and repeated: a watcher sees the drive as before or as after,
//! acknowledged writes stay, and late steps harm nothing.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rowdrive::drive::{Drive, ListQuery};
use tokio::sync::Notify;

use super::fixture::{Fixture, path, run, view};
use super::model::{Op, OpError, View};
use crate::stepwise::{Fault, Finish, PlanPart};

const LARGE: usize = 300_000;

/// The drive before, and an operation on it.
const CASES: &[(&[Op], Op)] = &[
    (&[], Op::Put("/f", 5)),
    (&[], Op::Put("/a/b/c/f", 5)),
    (&[], Op::Put("/a/f", LARGE)),
    (&[Op::Mkdir("/a")], Op::Put("/a/f", 5)),
    (&[Op::Put("/a/f", 5)], Op::Put("/a/f", 6)),
    (&[Op::Put("/a/f", LARGE)], Op::Put("/a/f", LARGE + 1)),
    (&[], Op::Mkdir("/a")),
    (&[], Op::Mkdir("/a/b/c")),
    (&[Op::Mkdir("/a/b")], Op::Rmdir("/a/b")),
    (&[Op::Put("/a/f", 5)], Op::Delete("/a/f")),
    (&[Op::Put("/a/f", LARGE)], Op::Delete("/a/f")),
    (&[Op::Put("/a/f", 5)], Op::Move("/a/f", "/a/g", false)),
    (&[Op::Put("/a/f", 5)], Op::Move("/a/f", "/a/F", false)),
    (&[Op::Put("/a/f", 5), Op::Mkdir("/b")], Op::Move("/a/f", "/b/f", false)),
    (&[Op::Put("/a/f", LARGE), Op::Put("/b/g", 6)], Op::Move("/a/f", "/b/g", true)),
    (&[Op::Put("/a/f", 5), Op::Put("/a/g", LARGE)], Op::Move("/a/f", "/a/g", true)),
    (&[Op::Put("/a/f", 5), Op::Mkdir("/b")], Op::Copy("/a/f", "/b/f", false)),
    (&[Op::Put("/a/f", LARGE), Op::Put("/b/f", 6)], Op::Copy("/a/f", "/b/f", true)),
    (&[Op::Mkdir("/a")], Op::Move("/a", "/z", false)),
    (&[Op::Put("/a/f", 5), Op::Put("/a/c/g", LARGE), Op::Mkdir("/y")], Op::Move("/a", "/y/z", false)),
    (&[Op::Put("/y/a/c/g", 6)], Op::Move("/y/a", "/y/z", false)),
    (&[Op::Put("/a/f", 5), Op::Put("/a/c/g", LARGE), Op::Mkdir("/a/c/d")], Op::Remove("/a")),
];

/// More operations after a case, so that late steps find new data under the old names.
async fn go_on(fixture: &Fixture) {
    for op in [
        Op::Put("/a/f", 7),
        Op::Move("/a/f", "/a/g", true),
        Op::Move("/a/g", "/a/f", true),
        Op::Put("/b/f", 8),
        Op::Delete("/b/f"),
        Op::Put("/b/f", 9),
        Op::Move("/b/f", "/f", true),
        Op::Mkdir("/a/b"),
    ] {
        let before = fixture.view().await;
        let done = fixture.run(op).await;
        let after = before.after(op);
        assert_eq!(done, after.as_ref().map(|_| ()).map_err(|no| *no), "{op:?} on {before:?}");
        assert_eq!(fixture.view().await, after.unwrap_or(before), "{op:?}");
    }
}

async fn views(set_up: &[Op], op: Op) -> (View, View) {
    let before = Fixture::new(set_up).await.view().await;
    let after = before.after(op).expect("the operation can be done");
    (before, after)
}

#[tokio::test]
async fn at_every_step_readers_see_before_or_after() {
    for (set_up, op) in CASES {
        for finish in [Finish::Now, Finish::Twice, Finish::Delayed] {
            let (before, after) = views(set_up, *op).await;
            let fixture = Fixture::new(set_up).await;
            fixture.store.set_finish(finish);
            let (watcher, seen) = (fixture.watcher.clone(), Arc::new(Mutex::new(Vec::new())));
            let steps = seen.clone();
            fixture.store.after(move |step| {
                let (watcher, steps) = (watcher.clone(), steps.clone());
                async move {
                    let view = view(&watcher).await;
                    steps.lock().unwrap().push((step.to_string(), view));
                }
            });
            assert_eq!(fixture.run(*op).await, Ok(()), "{op:?}");
            assert_eq!(fixture.view().await, after, "{op:?} is acknowledged");
            fixture.store.set_finish(Finish::Now);
            fixture.store.deliver().await;
            let seen = std::mem::take(&mut *seen.lock().unwrap());
            assert!(!seen.is_empty());
            let turn = seen.iter().position(|(_, view)| *view == after).unwrap();
            for (at, (step, view)) in seen.iter().enumerate() {
                let wanted = if at < turn { &before } else { &after };
                assert_eq!(view, wanted, "{op:?}, {finish:?}, {step}");
            }
            fixture.nothing_left_over().await;
        }
    }
}

/// A reader has found a directory live, and remembers that. Then the directory is removed, and another one moves to its
/// path: until that move is committed, its copies there are absent.
#[tokio::test]
async fn copies_at_the_path_of_a_removed_directory_are_absent_until_the_move() {
    let set_up = [Op::Put("/a/f", 5), Op::Put("/a/c/g", 6), Op::Mkdir("/z")];
    let fixture = Fixture::new(&set_up).await;
    let watcher = fixture.watcher.clone();
    assert!(view(&watcher).await.dirs.contains("/z"));
    fixture.run(Op::Rmdir("/z")).await.unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let steps = seen.clone();
    let look = move |watcher: Drive| async move {
        let query = ListQuery { kind: None, prefix: String::new(), after: None, limit: 10 };
        let listed = watcher.unrestricted().list(&path("/z"), &query).await.map(|listing| listing.nodes.len()).ok();
        let is_file = watcher.unrestricted().stat(&path("/z/f")).await.is_ok();
        (watcher.unrestricted().stat(&path("/z")).await.is_ok(), listed, is_file)
    };
    fixture.store.after(move |_| {
        let (watcher, steps) = (watcher.clone(), steps.clone());
        async move {
            let found = look(watcher).await;
            steps.lock().unwrap().push(found);
        }
    });
    fixture.run(Op::Move("/a", "/z", false)).await.unwrap();
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    let turn = seen.iter().position(|found| found.0).unwrap();
    assert!(turn > 1, "{seen:?}");
    for (at, found) in seen.iter().enumerate() {
        let wanted = if at < turn { (false, None, false) } else { (true, Some(2), true) };
        assert_eq!(*found, wanted, "step {at}: {seen:?}");
    }
}

/// The number of steps of an operation, without those of the background clean-up.
async fn steps_of(set_up: &[Op], op: Op) -> usize {
    let fixture = Fixture::new(set_up).await;
    let steps = Arc::new(AtomicUsize::new(0));
    let count = steps.clone();
    fixture.store.before(move |step| {
        let is_unlinker = step.what.starts_with("unlink") && step.what.contains(": delete ");
        count.fetch_add(usize::from(!is_unlinker), Ordering::SeqCst);
        async {}
    });
    fixture.run(op).await.unwrap();
    steps.load(Ordering::SeqCst)
}

/// Where a fault is: at a step, or at a call (a read or a step).
#[derive(Clone, Copy, Debug, PartialEq)]
enum FaultPoint {
    Step,
    Call,
}

/// Runs a case with a fault at each of its steps or calls in turn, and checks the answer and the view against the views
/// before and after. Returns the number of faults.
async fn with_faults(at: FaultPoint, faults: &[Fault]) -> usize {
    let mut count = 0;
    for (set_up, op) in CASES {
        let (before, after) = views(set_up, *op).await;
        let clean = Fixture::new(set_up).await;
        clean.store.scan_row_by_row();
        let count_of =
            |fixture: &Fixture| if at == FaultPoint::Step { fixture.store.steps() } else { fixture.store.calls() };
        let begun = count_of(&clean);
        clean.run(*op).await.unwrap();
        // The background clean-up has steps too.
        clean.idle().await;
        let steps = count_of(&clean) - begun;
        for fault in faults {
            for step in 1..=steps {
                let mut fixture = Fixture::new(set_up).await;
                let title = format!("{op:?}, {fault:?} at {at:?} {step} of {steps}");
                fixture.store.scan_row_by_row();
                match at {
                    FaultPoint::Step => fixture.store.at(fixture.store.steps() + step, *fault),
                    FaultPoint::Call => fixture.store.at_call(fixture.store.calls() + step, *fault),
                }
                let done = fixture.run(*op).await;
                let seen = fixture.view().await;
                assert!(seen == before || seen == after, "{title}: half done: {seen:?}");
                if done.is_ok() {
                    assert_eq!(seen, after, "{title}: acknowledged, and lost");
                } else {
                    assert_eq!(done, Err(OpError::Unknown), "{title}");
                }
                fixture.drive.close().await;
                fixture.restart().await;
                assert_eq!(fixture.view().await, seen, "{title}: after a restart");
                fixture.wait_until_no_records().await;
                let (summary, findings) = fixture.check(false).await;
                assert_eq!(summary.wrong, 0, "{title}: {findings:#?}");
                fixture.store.deliver().await;
                let late = fixture.view().await;
                // A delayed commit may arrive late; then it takes effect as a whole.
                assert!(late == seen || (done.is_err() && late == after), "{title}: after late steps: {late:?}");
                if late == before {
                    assert_eq!(fixture.run(*op).await, Ok(()), "{title}: again");
                }
                assert_eq!(fixture.view().await, after, "{title}: again");
                go_on(&fixture).await;
                // The next start resolves a record that arrived late.
                fixture.drive.close().await;
                fixture.restart().await;
                fixture.wait_until_no_records().await;
                fixture.idle().await;
                fixture.nothing_wrong().await;
                count += 1;
            }
        }
    }
    println!("{count} faults: {faults:?}");
    count
}

#[tokio::test]
async fn a_stop_at_any_step_leaves_before_or_after() {
    let count = with_faults(FaultPoint::Step, &[Fault::Stop, Fault::StopAfter]).await;
    assert!(count > 100, "only {count} faults");
}

#[tokio::test]
async fn a_lost_step_or_answer_leaves_before_or_after() {
    let count = with_faults(FaultPoint::Step, &[Fault::Lose, Fault::LoseAnswer]).await;
    assert!(count > 100, "only {count} faults");
}

#[tokio::test]
async fn a_stop_at_any_call_or_a_lost_read_leaves_before_or_after() {
    let count = with_faults(FaultPoint::Call, &[Fault::Stop, Fault::Lose]).await;
    assert!(count > 400, "only {count} faults");
}

#[tokio::test]
async fn a_late_or_repeated_step_changes_nothing() {
    let count = with_faults(FaultPoint::Step, &[Fault::Delay, Fault::DelayAndStop, Fault::Twice]).await;
    assert!(count > 100, "only {count} faults");
}

#[tokio::test]
async fn the_next_start_removes_content_that_nothing_links_to_and_keeps_the_rest() {
    let large = |op: &Op| matches!(op, Op::Put(_, size) if *size >= LARGE);
    for (set_up, op) in CASES.iter().filter(|(set_up, op)| set_up.iter().chain([op]).any(large)) {
        let (before, after) = views(set_up, *op).await;
        let last = steps_of(set_up, *op).await;
        // The step after the last one belongs to the garbage collector, if there is one.
        for (step, fault, seen) in
            [(1, Fault::Stop, &before), (last, Fault::StopAfter, &after), (last + 1, Fault::StopAfter, &after)]
        {
            let mut fixture = Fixture::new(set_up).await;
            fixture.store.at(fixture.store.steps() + step, fault);
            let done = fixture.run(*op).await;
            // A subtree operation is answered after its commit, even if its clean-up fails.
            let answered = step > last || (step == last && is_subtree(set_up, *op));
            assert_eq!(done, if answered { Ok(()) } else { Err(OpError::Unknown) }, "{op:?}");
            fixture.drive.close().await;
            fixture.restart().await;
            assert_eq!(fixture.view().await, *seen, "{op:?}, {fault:?} at step {step}");
            fixture.wait_until_no_records().await;
            fixture.nothing_left_over().await;
        }
    }
}

/// Whether an operation concerns a directory with all its contents.
fn is_subtree(set_up: &[Op], op: Op) -> bool {
    match op {
        Op::Remove(_) => true,
        Op::Move(from, ..) => !set_up.iter().any(|made| matches!(made, Op::Put(path, _) if *path == from)),
        _ => false,
    }
}

#[tokio::test]
async fn a_change_completes_after_its_caller_was_dropped() {
    for (set_up, op) in CASES {
        let (_, after) = views(set_up, *op).await;
        for step in 1..=steps_of(set_up, *op).await {
            let fixture = Fixture::new(set_up).await;
            let (reached, left) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
            let (here, go_on) = (reached.clone(), left.clone());
            fixture.store.once_before(fixture.store.steps() + step, |_| async move {
                here.notify_one();
                go_on.notified().await;
            });
            let drive = fixture.drive.clone();
            let caller = tokio::spawn(async move { run(&drive, *op).await });
            reached.notified().await;
            caller.abort();
            assert!(caller.await.unwrap_err().is_cancelled());
            left.notify_one();
            fixture.idle().await;
            assert_eq!(fixture.view().await, after, "{op:?}, left at step {step}");
            fixture.nothing_left_over().await;
        }
    }
}

#[tokio::test]
async fn late_clean_up_never_removes_new_data() {
    for (set_up, op) in CASES {
        for finish in [Finish::Delayed, Finish::Twice] {
            let fixture = Fixture::new(set_up).await;
            fixture.store.set_finish(finish);
            fixture.run(*op).await.unwrap();
            go_on(&fixture).await;
            let seen = fixture.view().await;
            let delayed = fixture.store.delayed();
            fixture.store.set_finish(Finish::Now);
            for step in delayed {
                fixture.store.deliver_step(step.number).await;
                assert_eq!(fixture.view().await, seen, "{op:?}: {step} came late");
            }
            fixture.store.deliver().await;
            assert_eq!(fixture.view().await, seen);
            fixture.nothing_left_over().await;
        }
    }
}

#[tokio::test]
async fn a_refused_create_retries_and_leaves_nothing() {
    // Another version appears just before the commit: the next try replaces it.
    let fixture = Fixture::new(&[Op::Put("/a/f", 5)]).await;
    let (meddled, prepared) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(BTreeSet::new())));
    let (watcher, count, rows) = (fixture.watcher.clone(), meddled.clone(), prepared.clone());
    fixture.store.before(move |step| {
        let (watcher, count) = (watcher.clone(), count.clone());
        if step.part == PlanPart::Prepare {
            rows.lock().unwrap().extend(step.rows);
        }
        async move {
            if step.part == PlanPart::ConditionalRow && count.fetch_add(1, Ordering::SeqCst) < 3 {
                run(&watcher, Op::Put("/a/f", 100)).await.unwrap();
            }
        }
    });
    assert_eq!(fixture.run(Op::Put("/a/f", 6)).await, Ok(()));
    assert_eq!(meddled.load(Ordering::SeqCst), 4);
    assert_eq!(prepared.lock().unwrap().len(), 24, "each of four tries prepares a file row and index rows of its own");
    assert_eq!(fixture.view().await.files["/a/f"], 6);
    fixture.nothing_left_over().await;
}

#[tokio::test]
async fn a_create_that_always_loses_fails_and_leaves_nothing() {
    for size in [6, LARGE] {
        let fixture = Fixture::new(&[Op::Put("/a/f", 5)]).await;
        let watcher = fixture.watcher.clone();
        fixture.store.before(move |step| {
            let watcher = watcher.clone();
            async move {
                if step.part == PlanPart::ConditionalRow {
                    run(&watcher, Op::Put("/a/f", 100)).await.unwrap();
                }
            }
        });
        assert_eq!(fixture.run(Op::Put("/a/f", size)).await, Err(OpError::Unknown));
        assert_eq!(fixture.view().await.files["/a/f"], 100);
        fixture.nothing_left_over().await;
    }
}

#[tokio::test]
async fn on_a_disk_full_from_any_step_each_operation_aborts_or_finishes() {
    for (set_up, op) in CASES {
        let (before, after) = views(set_up, *op).await;
        for step in 0..=steps_of(set_up, *op).await {
            let fixture = Fixture::new(set_up).await;
            fixture.store.full_from(Some(fixture.store.steps() + step));
            let done = fixture.run(*op).await;
            let makes_room = matches!(op, Op::Delete(_) | Op::Rmdir(_) | Op::Remove(_));
            assert!(
                done == Ok(()) || (done == Err(OpError::Full) && !makes_room),
                "{op:?}, full from step {step}: {done:?}"
            );
            let seen = fixture.view().await;
            assert_eq!(&seen, if done.is_ok() { &after } else { &before }, "{op:?}, full from step {step}");
            fixture.store.full_from(None);
            fixture.nothing_left_over().await;
        }
    }
}

/// The number of rows that a start reads, on a drive with this many files in folders of ten.
async fn read_at_start(files: usize) -> usize {
    let mut fixture = Fixture::new(&[]).await;
    for n in 0..files {
        let path: &'static str = Box::leak(format!("/d{}/f{n}", n / 10).into_boxed_str());
        fixture.run(Op::Put(path, n + 1)).await.unwrap();
    }
    fixture.idle().await;
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = reads.clone();
    fixture.store.reading(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async {}
    });
    fixture.restart().await;
    fixture.idle().await;
    reads.load(Ordering::SeqCst)
}

#[tokio::test]
async fn a_start_reads_no_more_rows_in_a_larger_store() {
    let few = read_at_start(1).await;
    assert!(few > 0);
    assert_eq!(read_at_start(300).await, few);
}
