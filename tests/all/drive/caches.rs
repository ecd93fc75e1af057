//! Caches and shortcuts must not make an answer wrong: cached paths, paths used without a second check, and listings
//! that are not read again.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use rowdrive::drive::{Drive, ListQuery, NameQuery, Node, Settings, Thresholds, TimeQuery};
use rowdrive::migrate;
use rowdrive::schema::index::by_time::Clock;
use rowdrive::schema::subtree_op;
use rowdrive::table::Tables;
use tokio::sync::{Notify, Semaphore};

use super::fixture::{Fixture, SETTINGS, find_all, path, run, time_query};
use super::model::{Op, OpError};
use crate::stepwise::{Fault, Step, Stepwise};

fn pieces(threshold: usize) -> Settings {
    let limits = Thresholds { paths_cached: 1_000, ..Thresholds::all(threshold) };
    Settings { limits, rows_per_step: threshold, ..SETTINGS }
}

/// The paths of the files that an index plan finds below a folder; none if the folder does not exist.
async fn found(drive: &Drive, under: &str) -> Option<BTreeSet<String>> {
    let found = drive.unrestricted().files_by_name(&NameQuery { under: Some(path(under)), ..find_all() }).await.ok()?;
    Some(found.nodes.iter().map(|node| node.path().to_string()).collect())
}

fn paths(all: &[&str]) -> Option<BTreeSet<String>> {
    Some(all.iter().map(|path| (*path).to_owned()).collect())
}

/// Whether a step has the record of a subtree operation.
fn has_record(step: &Step) -> bool {
    step.rows.iter().any(|(table, _)| *table == subtree_op::TABLE)
}

/// Whether a step is the commit of a subtree operation: it has the record, and other rows.
fn is_commit(step: &Step) -> bool {
    step.rows.len() > 1 && has_record(step)
}

#[tokio::test]
async fn a_cached_path_is_not_used_after_a_directory_move() {
    for threshold in [1, 100] {
        let fixture = Fixture::with(pieces(threshold), &[Op::Put("/x/y/f", 5), Op::Put("/a/g", 6)]).await;
        // From here on the paths of both folders are cached.
        assert_eq!(found(&fixture.drive, "/a").await, paths(&["/a/g"]));
        for (from, to, seen) in [
            ("/x", "/a/x", &["/a/g", "/a/x/y/f"][..]),
            ("/a/x", "/x", &["/a/g"]),
            ("/x/y", "/a/y", &["/a/g", "/a/y/f"]),
        ] {
            assert_eq!(fixture.run(Op::Move(from, to, false)).await, Ok(()));
            assert_eq!(found(&fixture.drive, "/a").await, paths(seen), "{from} has moved to {to}");
        }
    }
}

/// How many paths queries have taken from memory and read from rows, by the metrics.
fn paths_counted(drive: &Drive) -> (u64, u64) {
    let (mut metrics, mut text) = (Registry::default(), String::new());
    drive.register(&mut metrics);
    encode(&mut text, &metrics).unwrap();
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok()).unwrap();
    (value("rowdrive_drive_paths_kept_total "), value("rowdrive_drive_paths_read_total "))
}

#[tokio::test]
async fn a_page_counts_each_path_that_it_takes_from_memory() {
    let files = [Op::Put("/a/f", 5), Op::Put("/b/g", 6), Op::Put("/b/h", 7), Op::Put("/a/i", 8)];
    let fixture = Fixture::atomic(100, &files).await;
    let counted = async |ascending: bool, files: usize| {
        let before = paths_counted(&fixture.drive);
        let query = TimeQuery { ascending, limit: 10, ..time_query(Clock::Added) };
        let found = fixture.drive.unrestricted().files_by_time(&query).await.unwrap();
        assert_eq!(found.nodes.len(), files);
        let after = paths_counted(&fixture.drive);
        (after.0 - before.0, after.1 - before.1)
    };
    assert_eq!(counted(false, 4).await, (0, 2), "nothing is cached");
    // Files in a row of one folder take its path once.
    assert_eq!(counted(false, 4).await, (3, 0));
    fixture.run(Op::Put("/c/j", 9)).await.unwrap();
    // `/a`, `/b` and `/a` until the new folder is not found. Then all paths are looked up: two are found, and one is read.
    assert_eq!(counted(true, 5).await, (3 + 2, 1));
    assert_eq!(counted(false, 5).await, (4, 0));
}

/// A file that is in `/s` all the time. The lookup of its path passes two folders, and one of them leaves `/s`.
const SET_UP: &[Op] = &[Op::Put("/s/p/c/f", 5), Op::Mkdir("/x")];
/// The path may be read half before and half after these moves: then it is `/x/p/c`, outside of `/s`.
const TORN: &[Op] = &[Op::Move("/s/p/c", "/s/c", false), Op::Move("/s/p", "/x/p", false)];
/// Moves the file's folder to `/x/p/c`, and the folder that was `/s` to `/x/p`.
const IN_PLACE: &[Op] = &[Op::Move("/x/p", "/t", false), Op::Move("/s", "/x/p", false)];

/// A query with changes before one or two of its calls. Returns its result, and the result of the same query
/// afterwards.
async fn torn(first: usize, second: Option<usize>) -> Option<[Option<BTreeSet<String>>; 2]> {
    let fixture = Fixture::with(pieces(1), SET_UP).await;
    fixture.store.scan_row_by_row();
    let begun = fixture.store.calls();
    let watcher = fixture.watcher.clone();
    // Through the handle of the watcher: the calls of these changes are not counted.
    fixture.store.once_before_call(begun + first, move || async move {
        for op in TORN {
            run(&watcher, *op).await.unwrap();
        }
    });
    if let Some(second) = second {
        let watcher = fixture.watcher.clone();
        fixture.store.once_before_call(begun + second, move || async move {
            for op in IN_PLACE {
                run(&watcher, *op).await.unwrap();
            }
        });
    }
    let during = found(&fixture.drive, "/s").await;
    if fixture.store.calls() - begun < second.unwrap_or(first) {
        return None;
    }
    let now = if second.is_some() { "/x/p" } else { "/s" };
    let after = found(&fixture.drive, now).await;
    Some([during, after])
}

#[tokio::test]
async fn a_path_read_while_directories_move_is_not_cached() {
    let mut calls = 0;
    for call in 1.. {
        let Some([_, after]) = torn(call, None).await else { break };
        assert_eq!(after, paths(&["/s/c/f"]), "asked again, after moves before call {call}");
        calls += 1;
    }
    assert!(calls > 5, "{calls}");
}

#[tokio::test]
async fn a_path_read_while_directories_move_is_not_trusted() {
    let all = [paths(&["/s/p/c/f"]), paths(&["/s/c/f"]), paths(&["/x/p/c/f"])];
    let mut pairs = 0;
    for first in 1.. {
        let Some([during, _]) = torn(first, None).await else { break };
        assert!(all.contains(&during), "moves before call {first}: {during:?}");
        for second in first + 1.. {
            let Some([during, after]) = torn(first, Some(second)).await else { break };
            // The folder itself may have moved away before the lookup.
            assert!(all.contains(&during) || during.is_none(), "moves before calls {first} and {second}: {during:?}");
            assert_eq!(after, paths(&["/x/p/c/f"]), "asked again, after moves before calls {first} and {second}");
            pairs += 1;
        }
    }
    assert!(pairs > 20, "{pairs}");
}

/// A move that has begun and not ended: a path that was read before its commit is invalid after it.
#[tokio::test]
async fn a_path_read_during_an_unfinished_move_is_not_cached() {
    let fixture = Fixture::with(pieces(100), &[Op::Put("/s/p/c/f", 5), Op::Mkdir("/x")]).await;
    let (reached, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (here, resume) = (reached.clone(), go_on.clone());
    fixture.store.before(move |step| {
        let instant = is_commit(&step);
        let (here, resume) = (here.clone(), resume.clone());
        async move {
            if instant {
                here.notify_one();
                resume.notified().await;
            }
        }
    });
    let mover = fixture.drive.clone();
    let moving = tokio::spawn(async move { run(&mover, Op::Move("/s/p", "/x/p", false)).await });
    reached.notified().await;
    assert_eq!(found(&fixture.watcher, "/s").await, paths(&["/s/p/c/f"]));
    go_on.notify_one();
    assert_eq!(moving.await.unwrap(), Ok(()));
    assert_eq!(found(&fixture.watcher, "/x").await, paths(&["/x/p/c/f"]), "asked again, after the move");
    assert_eq!(found(&fixture.watcher, "/s").await, paths(&[]));
}

/// The move of a folder whose commit has an unknown outcome, and may have happened or not. Paths are cached again once
/// recovery has decided it.
#[tokio::test]
async fn paths_are_cached_again_after_a_move_of_unknown_outcome() {
    for (first, seen) in [(Fault::Lose, "/a/p/f"), (Fault::LoseAnswer, "/x/p/f")] {
        for atomic in [true, false] {
            let files = [Op::Put("/a/p/f", 5), Op::Mkdir("/x")];
            let fixture = if atomic { Fixture::atomic(100, &files).await } else { Fixture::new(&files).await };
            let counted = async || {
                let before = paths_counted(&fixture.drive);
                let query = TimeQuery { limit: 10, ..time_query(Clock::Added) };
                let found = fixture.drive.unrestricted().files_by_time(&query).await.unwrap();
                let after = paths_counted(&fixture.drive);
                assert_eq!(after.0 - before.0 + after.1 - before.1, 1);
                (found.nodes[0].path().to_string(), after.0 - before.0 == 1)
            };
            let (store, faults) = (Arc::downgrade(&fixture.store), AtomicUsize::new(0));
            fixture.store.before(move |step| {
                if is_commit(&step)
                    && let Some(store) = store.upgrade()
                {
                    let is_first = faults.fetch_add(1, Ordering::Relaxed) == 0;
                    store.at(step.number, if is_first { first } else { Fault::Lose });
                }
                async {}
            });
            let moved = fixture.run(Op::Move("/a/p", "/x/p", false)).await;
            assert_eq!(moved, Err(OpError::Unknown), "{first:?}");
            fixture.wait_until_no_records().await;
            counted().await;
            assert_eq!(counted().await, (seen.to_owned(), true), "{first:?}, atomic: {atomic}");
            fixture.nothing_left_over().await;
        }
    }
}

/// The task of a move panics before its commit. A writer that meets a lock of the move aborts it, and paths are cached
/// again.
#[tokio::test]
async fn paths_are_cached_again_after_a_panic_at_the_commit_of_a_move() {
    let fixture = Fixture::atomic(100, &[Op::Put("/a/p/f", 5), Op::Mkdir("/x")]).await;
    fixture.store.before(|step| async move { assert!(!is_commit(&step), "a panic that the test wants") });
    let mover = fixture.drive.clone();
    let moving = tokio::spawn(async move { run(&mover, Op::Move("/a/p", "/x/p", false)).await });
    assert_eq!(moving.await.unwrap(), Err(OpError::Unknown));
    fixture.store.before(|_| async {});
    fixture.run(Op::Put("/a/p/g", 6)).await.unwrap();
    let reads = async || {
        let before = fixture.store.calls();
        let found = fixture.drive.unrestricted().files_by_time(&time_query(Clock::Added)).await.unwrap();
        assert_eq!(found.nodes.len(), 2);
        fixture.store.calls() - before
    };
    reads().await;
    assert_eq!(reads().await, 1);
}

/// The removal of an empty folder, or the move of a file, has an unknown outcome because the disk was full. Once there is
/// free space, reads trust again what is remembered of directories, and make the calls of before.
#[tokio::test(start_paused = true)]
async fn reads_are_as_before_once_a_full_disk_has_free_space() {
    for change in [Op::Rmdir("/a/d"), Op::Move("/a/g", "/a/h", false)] {
        let set_up = [Op::Put("/a/f", 5), Op::Put("/a/g", 6), Op::Mkdir("/a/d"), Op::Mkdir("/a/e")];
        let fixture = Fixture::atomic(4, &set_up).await;
        for _ in 0..40 {
            fixture.run(Op::Put("/z", 1)).await.unwrap();
            fixture.run(Op::Copy("/z", "/y", true)).await.unwrap();
        }
        let reads = async || {
            let (before, drive) = (fixture.store.calls(), fixture.drive.unrestricted());
            if matches!(change, Op::Rmdir(_)) {
                // A cell of a file, then one of a directory. If the parent is not known to be live: one row.
                drive.stat(&path("/a/e")).await.unwrap();
            } else {
                let below =
                    TimeQuery { under: Some(path("/a")), creator: Some("eva".to_owned()), ..time_query(Clock::Added) };
                assert_eq!(drive.files_by_time(&below).await.unwrap().nodes.len(), 2);
            }
            fixture.store.calls() - before
        };
        reads().await;
        let usual = reads().await;
        assert_eq!(reads().await, usual);
        fixture.store.at(fixture.store.steps() + 1, Fault::Fill);
        assert_eq!(fixture.run(change).await, Err(OpError::Unknown));
        tokio::time::sleep(Duration::from_secs(20)).await;
        reads().await;
        let undecided = reads().await;
        assert_ne!(undecided, usual, "{change:?}");
        fixture.store.free_space();
        fixture.idle().await;
        reads().await;
        assert_eq!(reads().await, usual, "{change:?}");
    }
}

/// The commit of a move has an unknown outcome, and comes late: a path that was read before it came is not taken from
/// memory after it. In one case all later attempts at the commit are lost. In the other the second attempt is refused,
/// because there is a file at the target; then the test deletes that file.
#[tokio::test]
async fn a_path_read_before_a_late_move_is_not_cached() {
    for is_refused in [false, true] {
        let fixture = Fixture::atomic(100, &[Op::Put("/a/p/f", 5), Op::Mkdir("/x")]).await;
        let seen = async || {
            let query = TimeQuery { limit: 10, ..time_query(Clock::Added) };
            let found = fixture.drive.unrestricted().files_by_time(&query).await.unwrap();
            found.nodes.iter().map(|node| node.path().to_string()).collect::<Vec<_>>()
        };
        // Nobody decides the operation until its commit has come.
        let (reached, decides) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
        let (here, gate, store) = (reached.clone(), decides.clone(), Arc::downgrade(&fixture.store));
        let (commits, rival) = (AtomicUsize::new(0), Mutex::new(is_refused.then(|| fixture.watcher.clone())));
        fixture.store.before(move |step| {
            let commit = if is_commit(&step) { commits.fetch_add(1, Ordering::Relaxed) + 1 } else { 0 };
            let rival = if commit == 2 { rival.lock().unwrap().take() } else { None };
            if let Some(store) = store.upgrade().filter(|_| commit > 0 && rival.is_none()) {
                store.at(step.number, if commit == 1 { Fault::Delay } else { Fault::Lose });
            }
            let decides = has_record(&step) && commit == 0 && commits.load(Ordering::Relaxed) > 0;
            let gate = decides.then(|| (here.clone(), gate.clone()));
            async move {
                if let Some(rival) = rival {
                    run(&rival, Op::Put("/x/p", 6)).await.unwrap();
                }
                if let Some((here, gate)) = gate {
                    here.notify_one();
                    // It is closed, without a permit.
                    assert!(gate.acquire().await.is_err());
                }
            }
        });
        let mover = fixture.drive.clone();
        let moving = tokio::spawn(async move { run(&mover, Op::Move("/a/p", "/x/p", false)).await });
        reached.notified().await;
        if is_refused {
            run(&fixture.watcher, Op::Delete("/x/p")).await.unwrap();
        }
        for _ in 0..2 {
            assert_eq!(seen().await, ["/a/p/f"]);
        }
        assert_eq!(fixture.store.deliver().await, 1);
        assert_eq!(seen().await, ["/x/p/f"], "refused: {is_refused}");
        decides.close();
        assert_eq!(moving.await.unwrap(), Err(OpError::Unknown));
        fixture.wait_until_no_records().await;
        assert_eq!(seen().await, ["/x/p/f"]);
        fixture.nothing_left_over().await;
    }
}

/// A file moves to another folder in the same scope, just before its first folder leaves the scope. The index row that
/// was read before says that the file is in the first folder only.
#[tokio::test]
async fn an_index_row_read_before_its_folder_moved_skips_no_file() {
    const MOVES: &[Op] = &[Op::Move("/s/p/f", "/s/q/f", false), Op::Move("/s/p", "/x/p", false)];
    let mut calls = 0;
    for call in 1.. {
        let fixture = Fixture::with(pieces(1), &[Op::Put("/s/p/f", 5), Op::Mkdir("/s/q"), Op::Mkdir("/x")]).await;
        fixture.store.scan_row_by_row();
        let (begun, watcher) = (fixture.store.calls(), fixture.watcher.clone());
        fixture.store.once_before_call(begun + call, move || async move {
            for op in MOVES {
                run(&watcher, *op).await.unwrap();
            }
        });
        let found = found(&fixture.drive, "/s").await;
        if fixture.store.calls() - begun < call {
            break;
        }
        assert!([paths(&["/s/p/f"]), paths(&["/s/q/f"])].contains(&found), "moves before call {call}: {found:?}");
        calls += 1;
    }
    assert!(calls > 4, "{calls}");
}

/// A folder is listed at its new path while its row there is incomplete. The move ends before the reader reads the
/// record.
#[tokio::test]
async fn a_listing_that_reads_a_half_written_row_is_repeated() {
    const FOLDER: &[Op] = &[Op::Put("/a/f", 5), Op::Put("/a/g", 6), Op::Put("/a/h", 7), Op::Mkdir("/a/d")];
    let (mut half_made, mut calls) = (0, 0);
    for call in 1.. {
        let fixture = Fixture::with(Settings { lock_wait: Duration::from_secs(20), ..pieces(1) }, FOLDER).await;
        fixture.idle().await;
        fixture.store.scan_row_by_row();
        let (reached, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (here, resume) = (reached.clone(), go_on.clone());
        fixture.store.once_before_call(fixture.store.calls() + call, move || async move {
            here.notify_one();
            resume.notified().await;
        });
        let mover = fixture.drive.clone();
        let mut moving = tokio::spawn(async move { run(&mover, Op::Move("/a", "/n", false)).await });
        let came_there = tokio::select! {
            biased;
            () = reached.notified() => true,
            done = &mut moving => { assert_eq!(done.unwrap(), Ok(())); false }
        };
        if !came_there {
            break;
        }
        // The move stops once more, at its commit, before its own caller gets the answer.
        let (instant, finish) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (come, clean_up) = (instant.clone(), finish.clone());
        fixture.store.after(move |step| {
            let is_it = is_commit(&step);
            let (come, clean_up) = (come.clone(), clean_up.clone());
            async move {
                if is_it {
                    come.notify_one();
                    clean_up.notified().await;
                }
            }
        });
        // The reader has its own store. Before its second call, which reads the record, the move continues to the
        // commit.
        let store = Stepwise::new(fixture.store.inner());
        let tables = Tables::new(Arc::<Stepwise>::clone(&store));
        migrate::up(&tables).await.unwrap();
        let reader = fixture.drive.with_tables(tables);
        let second = go_on.clone();
        store.once_before_call(store.calls() + 2, move || async move {
            second.notify_one();
            let _ = tokio::time::timeout(Duration::from_millis(200), instant.notified()).await;
        });
        let query = ListQuery { kind: None, prefix: String::new(), after: None, limit: 100 };
        let listed = reader.unrestricted().list(&path("/n"), &query).await;
        half_made += usize::from(store.calls() > 1);
        go_on.notify_one();
        finish.notify_one();
        assert_eq!(moving.await.unwrap(), Ok(()));
        if let Ok(listed) = listed {
            let names: Vec<_> = listed.nodes.iter().map(|node: &Node| node.path().to_string()).collect();
            assert_eq!(names, ["/n/d", "/n/f", "/n/g", "/n/h"], "the move stopped before call {call}");
        }
        calls += 1;
    }
    assert!(half_made > 3, "{half_made} of {calls}");
}

/// A directory is known to be live when a read of it begins, and ceases to be there before the only call of the read. Its
/// row may still have its children then.
#[tokio::test]
async fn a_known_directory_that_ceases_to_be_during_a_read_is_not_shown() {
    let set_up = [Op::Put("/a/f", 5), Op::Put("/a/g", 6), Op::Mkdir("/a/d"), Op::Mkdir("/e")];
    let limits = Thresholds { cells_before_answer: 1, ..Thresholds::DEFAULT };
    let everything = ListQuery { kind: None, prefix: String::new(), after: None, limit: 10 };
    for (op, directory) in [(Op::Move("/a", "/z", false), "/a"), (Op::Remove("/a"), "/a"), (Op::Rmdir("/e"), "/e")] {
        for child in [None, Some("f"), Some("d")] {
            let fixture = Fixture::with(Settings { limits, ..SETTINGS }, &set_up).await;
            let read = async || match child {
                None => fixture.drive.unrestricted().list(&path(directory), &everything).await.map(|_| ()),
                Some(name) => {
                    fixture.drive.unrestricted().stat(&path(&format!("{directory}/{name}"))).await.map(|_| ())
                }
            };
            fixture.drive.unrestricted().list(&path(directory), &everything).await.unwrap();
            let rival = fixture.watcher.clone();
            fixture.store.once_before_call(fixture.store.calls() + 1, move || async move {
                run(&rival, op).await.unwrap();
            });
            assert!(read().await.is_err(), "{op:?} during a read of {child:?}");
        }
    }
}
