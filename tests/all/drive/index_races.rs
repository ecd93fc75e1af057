//! Files that move to another index row during a query, because of a new version, a new name or a move of their folder:
//! each page must still be exact.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rowdrive::drive::{DriveError, NameQuery, Node, Settings, Thresholds, TimeQuery};
use rowdrive::schema::index::by_time::Clock;

use super::fixture::{Fixture, SETTINGS, find_all, path, run, time_query};
use super::model::Op;
use super::query_races::{Query, SET_UP, answer, at_read, commit_before_read, files, nodes, queries};
use crate::stepwise::Fault;

/// Each version is a different file in the indexes, but the path always has a file.
const REPLACED: &[&[Op]] = &[
    &[Op::Put("/a/f", 15)],
    &[Op::Put("/a/f", 15), Op::Put("/a/f", 16), Op::Put("/a/f", 17)],
    &[Op::Move("/a/k", "/a/f", true)],
    &[Op::Move("/b/k", "/a/f", true), Op::Put("/a/f", 15)],
];

/// How many index rows a query reads in a turn.
#[derive(Clone, Copy, Debug)]
enum Turns {
    AllRows,
    OneRow,
    /// One row too, and the store is atomic.
    OneExactRow,
}

async fn in_turns(turns: Turns, set_up: &[Op]) -> Fixture {
    let limits = Thresholds { files_queried: 1, ..Thresholds::DEFAULT };
    match turns {
        Turns::AllRows => Fixture::with(SETTINGS, set_up).await,
        Turns::OneRow => Fixture::with(Settings { rows_per_step: 1, limits, ..SETTINGS }, set_up).await,
        Turns::OneExactRow => Fixture::atomic(1, set_up).await,
    }
}

fn no_doubles(title: &str, nodes: &[Node]) {
    let mut paths = BTreeSet::new();
    assert!(nodes.iter().all(|node| paths.insert(node.path().as_str())), "{title}: a path twice: {nodes:?}");
}

#[tokio::test]
async fn a_file_replaced_during_a_query_is_not_missed() {
    for (title, query) in queries() {
        let all = if title.contains("under") { Turns::OneRow } else { Turns::AllRows };
        let kinds = [all, Turns::OneRow, Turns::OneExactRow];
        for (changes, turns) in REPLACED.iter().flat_map(|changes| kinds.map(|turns| (changes, turns))) {
            for call in 1.. {
                let fixture = in_turns(turns, SET_UP).await;
                let (rival, hits) = (fixture.watcher.clone(), Arc::new(AtomicUsize::new(0)));
                let seen = hits.clone();
                fixture.store.once_before_call(fixture.store.calls() + call, move || async move {
                    for op in *changes {
                        run(&rival, *op).await.unwrap();
                    }
                    seen.store(1, Ordering::SeqCst);
                });
                let nodes = nodes(&fixture, &query).await;
                if hits.load(Ordering::SeqCst) == 0 {
                    break;
                }
                let found = nodes.iter().filter(|node| node.path().as_str() == "/a/f").count();
                assert_eq!(found, 1, "{title}, {changes:?} before call {call}, {turns:?}");
                no_doubles(title, &nodes);
            }
        }
    }
}

/// The new version is at another path than the one that the scan has found: the file, or its folder, was moved before.
const MOVED_AND_REPLACED: &[(&[Op], &[&str])] = &[
    (&[Op::Move("/a/f", "/a/g", false), Op::Put("/a/g", 15)], &["/a/f", "/a/g"]),
    (&[Op::Move("/a/f", "/b/g", false), Op::Put("/b/g", 15), Op::Put("/b/g", 16)], &["/a/f", "/b/g"]),
    (&[Op::Move("/a", "/d", false), Op::Put("/d/f", 15)], &["/a/f", "/d/f"]),
    (&[Op::Put("/a/f", 15), Op::Move("/a/f", "/a/g", false), Op::Put("/a/g", 16)], &["/a/f", "/a/g"]),
];

#[tokio::test]
async fn a_file_moved_and_replaced_during_a_query_is_shown_once() {
    let mut runs = 0;
    for (title, query) in queries() {
        let cases = MOVED_AND_REPLACED.iter().flat_map(|case| [Turns::OneRow, Turns::OneExactRow].map(|t| (case, t)));
        for ((changes, paths), (turns, stride)) in cases.flat_map(|(case, t)| (0..3).map(move |n| (case, (t, n)))) {
            for read in 1.. {
                let fixture = in_turns(turns, SET_UP).await;
                // All changes before one read, or with reads between them.
                let reads = at_read(&fixture, read, stride, changes);
                let found = answer(&fixture, &query).await;
                if reads.load(Ordering::SeqCst) < read {
                    break;
                }
                // Its folder may be gone, and the query refused while all moves.
                let Ok(nodes) = found else { continue };
                let shown = nodes.iter().filter(|node| paths.contains(&node.path().as_str())).count();
                assert!(shown <= 1, "{title}, {changes:?} from read {read} on, each {stride}, {turns:?}: {nodes:?}");
                // By another name, or in another folder, it may be none of the answer.
                let is_all = !title.contains("under") && !title.contains("name") && !title.contains("eva");
                assert!(shown == 1 || !is_all, "{title}, {changes:?} from read {read} on, {turns:?}: it is missing");
                no_doubles(title, &nodes);
                runs += 1;
            }
        }
    }
    assert!(runs > 500, "only {runs} runs");
}

/// Like [`a_file_replaced_during_a_query_is_not_missed`], with other reads between two replacements.
#[tokio::test]
async fn a_file_replaced_repeatedly_is_shown_once() {
    for (title, query) in queries() {
        let kinds = [Turns::OneRow, Turns::OneExactRow].into_iter();
        let strides = kinds.flat_map(|turns| (1..4).map(move |stride| (turns, stride)));
        for (changes, (turns, stride)) in REPLACED[1..].iter().flat_map(|all| strides.clone().map(|how| (*all, how))) {
            for read in 1.. {
                let fixture = in_turns(turns, SET_UP).await;
                let reads = at_read(&fixture, read, stride, changes);
                let nodes = nodes(&fixture, &query).await;
                if reads.load(Ordering::SeqCst) < read {
                    break;
                }
                let found = nodes.iter().filter(|node| node.path().as_str() == "/a/f").count();
                assert_eq!(found, 1, "{title}, {changes:?} from read {read} on, each {stride}: {nodes:?}");
                no_doubles(title, &nodes);
            }
        }
    }
}

/// The index row of the new version is written before the version is visible.
#[tokio::test]
async fn a_file_replaced_step_by_step_is_not_missed() {
    for (title, query) in queries() {
        for read in 1.. {
            let fixture = in_turns(Turns::OneRow, SET_UP).await;
            // After the file row and five index entries.
            let (writing, count) = commit_before_read(&fixture, Op::Put("/a/f", 15), 6, read).await;
            let nodes = nodes(&fixture, &query).await;
            writing.abort();
            let found = nodes.iter().filter(|node| node.path().as_str() == "/a/f").count();
            assert_eq!(found, 1, "{title}, replaced before read {read}: {nodes:?}");
            no_doubles(title, &nodes);
            if count.load(Ordering::SeqCst) < read {
                break;
            }
        }
    }
}

/// If no exact page can be made, the query is refused.
#[tokio::test]
async fn a_query_during_endless_replacements_is_exact_or_refused() {
    for (title, query) in queries() {
        // Oldest first, each new version sorts after the last one: only the limit on work ends such a page.
        let untils = [10, 40, usize::MAX].into_iter().take(if title.contains("ascending") { 2 } else { 3 });
        for until in untils {
            let fixture = in_turns(Turns::OneRow, SET_UP).await;
            let (reads, rival) = (Arc::new(AtomicUsize::new(0)), fixture.watcher.clone());
            fixture.store.reading(move |_| {
                let (reads, rival) = (reads.clone(), rival.clone());
                async move {
                    let read = reads.fetch_add(1, Ordering::SeqCst);
                    if read < until {
                        run(&rival, Op::Put("/a/f", 100 + read)).await.unwrap();
                    }
                }
            });
            let found = match answer(&fixture, &query).await {
                Err(DriveError::Contended) => continue,
                answered => answered.unwrap(),
            };
            let shown = found.iter().filter(|node| node.path().as_str() == "/a/f").count();
            assert_eq!(shown, 1, "{title}, replaced before each of {until} reads: {found:?}");
            no_doubles(title, &found);
        }
    }
}

/// A renamed file gets another row in the name index, but keeps its id.
#[tokio::test]
async fn a_file_renamed_during_a_name_query_is_found_once() {
    const NAMES: &[Op] =
        &[Op::Put("/a/c", 5), Op::Put("/a/k", 6), Op::Put("/a/m", 7), Op::Put("/b/m", 8), Op::Put("/a/x", 9)];
    const RENAMED: &[&[Op]] = &[
        &[Op::Move("/a/m", "/a/b", false)],
        &[Op::Move("/a/m", "/a/z", false)],
        &[Op::Move("/a/m", "/a/z", false), Op::Move("/a/z", "/a/b", false)],
        &[Op::Move("/a/m", "/a/b", false), Op::Move("/a/b", "/a/z", false), Op::Move("/a/z", "/b/b", false)],
        &[Op::Move("/a/m", "/a/b", false), Op::Move("/b/m", "/a/m", false)],
        &[Op::Move("/a/m", "/a/c", true)],
        &[Op::Move("/a/m", "/a/c", true), Op::Move("/a/c", "/a/b", false)],
        &[Op::Move("/a/m", "/a/c", true), Op::Move("/a/c", "/b/z", false)],
    ];
    for under in [None, Some(path("/"))] {
        for (changes, stride) in RENAMED.iter().flat_map(|changes| (0..6).map(move |stride| (*changes, stride))) {
            for read in 1.. {
                let fixture = in_turns(Turns::OneRow, NAMES).await;
                let reads = at_read(&fixture, read, stride, changes);
                let found = nodes(&fixture, &Query::Find(NameQuery { under: under.clone(), ..find_all() })).await;
                if reads.load(Ordering::SeqCst) < read {
                    break;
                }
                let title = format!("{changes:?} from read {read} on, each {stride}: {found:?}");
                no_doubles(&title, &found);
                assert!(found.is_sorted_by_key(|node| node.path().split().unwrap().1.as_str().to_owned()), "{title}");
                let shown = files(found);
                for size in [6, 7, 8, 9] {
                    assert_eq!(shown.iter().filter(|(_, found)| *found == size).count(), 1, "{size}: {title}");
                }
            }
        }
    }
}

/// An upload finds a file, which moves away before the upload replaces it: then it stores a new file at the path. Its
/// first attempt has replaced nothing.
#[tokio::test]
async fn a_file_that_moves_away_from_an_upload_is_found_beside_it() {
    const FILES: &[Op] = &[Op::Put("/a/c", 5), Op::Put("/a/m", 7), Op::Put("/a/x", 9), Op::Mkdir("/b")];
    let by_name = || Query::Find(find_all());
    let by_time = |ascending| Query::Time(TimeQuery { ascending, ..time_query(Clock::Added) });
    for (query, to) in [(by_name(), "/a/z"), (by_name(), "/a/b"), (by_time(false), "/b/m"), (by_time(true), "/b/m")] {
        let mut both = 0;
        for read in 1.. {
            let fixture = Fixture::atomic(1, FILES).await;
            let (reads, store) = (Arc::new(AtomicUsize::new(0)), Arc::downgrade(&fixture.store));
            let (counted, writer, rival) = (reads.clone(), fixture.drive.clone(), fixture.watcher.clone());
            fixture.store.reading(move |_| {
                let is_now = counted.fetch_add(1, Ordering::SeqCst) + 1 == read;
                let (store, writer, rival) = (store.upgrade().unwrap(), writer.clone(), rival.clone());
                async move {
                    if is_now {
                        store.once_before(store.steps() + 1, move |_| async move {
                            run(&rival, Op::Move("/a/m", to, false)).await.unwrap();
                        });
                        run(&writer, Op::Put("/a/m", 17)).await.unwrap();
                    }
                }
            });
            let found = nodes(&fixture, &query).await;
            if reads.load(Ordering::SeqCst) < read {
                break;
            }
            let title = format!("moved to {to} from read {read} on: {found:?}");
            no_doubles(&title, &found);
            let shown = files(found);
            for size in [5, 7, 9] {
                assert_eq!(shown.iter().filter(|(_, found)| *found == size).count(), 1, "{size}: {title}");
            }
            both += usize::from(shown.iter().any(|(_, size)| *size == 17));
        }
        assert!(both > 0, "no query has found the new file");
    }
}

/// A folder moves away while a query searches below it: the files at its new path are outside of the scope.
#[tokio::test]
async fn every_result_with_under_lies_below_that_path() {
    const FOLDERS: &[Op] = &[Op::Put("/s/f", 5), Op::Put("/s/d/f", 6), Op::Put("/o/f", 7)];
    const MOVED: &[&[Op]] = &[
        &[Op::Move("/s", "/t", false)],
        &[Op::Move("/s", "/t", false), Op::Move("/t", "/s", false)],
        &[Op::Move("/s", "/t", false), Op::Move("/o", "/s", false)],
    ];
    let under = Some(path("/s"));
    let queries = [
        Query::Time(TimeQuery { under: under.clone(), ..time_query(Clock::Added) }),
        Query::Find(NameQuery { under: under.clone(), ..find_all() }),
        Query::Find(NameQuery { under, prefix: false, name: "F".into(), ..find_all() }),
    ];
    for query in &queries {
        for (changes, stride) in MOVED.iter().flat_map(|changes| (0..6).map(move |stride| (*changes, stride))) {
            for read in 1.. {
                let fixture = in_turns(Turns::OneRow, FOLDERS).await;
                let reads = at_read(&fixture, read, stride, changes);
                let found = match answer(&fixture, query).await {
                    Err(DriveError::NotFound) => Vec::new(),
                    answered => answered.unwrap(),
                };
                if reads.load(Ordering::SeqCst) < read {
                    break;
                }
                let all_below = found.iter().all(|node| node.path().as_str().starts_with("/s/"));
                assert!(all_below, "{changes:?} from read {read} on, each {stride}: {found:?}");
            }
        }
    }
}

/// The outcome of the move is never known: the file is found at its real path, and only once.
#[tokio::test]
async fn a_file_whose_move_has_an_unknown_outcome_is_found_at_its_real_path() {
    let mut seen = BTreeSet::new();
    for fault in [Fault::Lose, Fault::LoseAnswer] {
        for (from, to) in [("/a/k", "/a/z"), ("/a/k", "/a/c"), ("/a/k", "/b/z")] {
            for step in 1.. {
                let fixture = in_turns(Turns::AllRows, SET_UP).await;
                fixture.idle().await;
                fixture.store.at(fixture.store.steps() + step, fault);
                if fixture.run(Op::Move(from, to, false)).await.is_ok() {
                    break;
                }
                // Every kind of query is compared with the listing.
                let files = fixture.view().await.files;
                assert!(files.contains_key(from) != files.contains_key(to), "{fault:?} at step {step}: {files:?}");
                seen.insert(files.contains_key(to));
            }
        }
    }
    assert_eq!(seen.len(), 2, "it has moved at some steps, and not at others");
}
