//! Time queries below a folder whose keys are in memory: they read the rows of its files alone, and answer as the other
//! strategies do, whatever has changed since the folder was read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rowdrive::drive::{Drive, Settings, Thresholds, TimeQuery};
use rowdrive::schema::Timestamp;
use rowdrive::schema::index::by_time::Clock;
use tokio::sync::Notify;

use super::damage::change;
use super::fixture::{Fixture, SETTINGS, path, path_and_size, run, time_query};
use super::model::Op;
use super::query_races::at_read;
use crate::stepwise::Fault;

fn below(folder: &str) -> TimeQuery {
    TimeQuery { under: Some(path(folder)), limit: 3, ..time_query(Clock::Added) }
}

/// Paths and sizes, page by page; none if there is no such folder.
async fn shown(drive: &Drive, query: &TimeQuery) -> Option<Vec<(String, usize)>> {
    let (mut query, mut all) = (query.clone(), Vec::new());
    loop {
        let page = match drive.unrestricted().files_by_time(&query).await {
            Err(rowdrive::drive::DriveError::NotFound) => return None,
            page => page.unwrap(),
        };
        all.extend(page.nodes.into_iter().map(path_and_size));
        query.after = page.next;
        if query.after.is_none() {
            return Some(all);
        }
    }
}

/// Fills `/z` with so many files that the index alone would end no query of the other folders.
async fn fill(fixture: &Fixture, files: usize) {
    for number in 0..files {
        let at: &'static str = Box::leak(format!("/z/{number}").into_boxed_str());
        fixture.run(Op::Put(at, 1)).await.unwrap();
    }
}

/// The reads of a query, and what it shows.
async fn reads(fixture: &Fixture, query: &TimeQuery) -> (usize, Vec<(String, usize)>) {
    let before = fixture.store.calls();
    let page = fixture.drive.unrestricted().files_by_time(query).await.unwrap();
    (fixture.store.calls() - before, page.nodes.into_iter().map(path_and_size).collect())
}

/// Two reads for the lookup of the folder, some rows of the index, and a read for each file of the page and the one after
/// it; two for one that has moved.
#[tokio::test]
async fn a_folder_is_read_once_and_then_the_rows_of_its_files_alone() {
    let fixture = Fixture::atomic(4, &[Op::Put("/b/other", 2)]).await;
    for number in 0..20 {
        let at: &'static str = Box::leak(format!("/a/d{}/{number}", number % 4).into_boxed_str());
        fixture.run(Op::Put(at, 3)).await.unwrap();
    }
    fill(&fixture, 200).await;
    let size = |shown: &[(String, usize)]| shown.iter().map(|(_, size)| *size).collect::<Vec<_>>();
    let query = below("/a");
    let (first, all) = reads(&fixture, &query).await;
    assert_eq!(size(&all), [3, 3, 3]);
    assert!(first > 20, "{first} reads of a folder that is not known");
    let known = async |expected: &[usize]| {
        let (reads, all) = reads(&fixture, &query).await;
        assert_eq!(size(&all), expected);
        assert!(reads <= 18, "{reads} reads");
    };
    known(&[3, 3, 3]).await;
    // An upload, a replacement, a delete, and moves into the folder and out of it.
    fill_in(&fixture, &[Op::Put("/a/d0/new", 4), Op::Put("/a/d1/new", 5)], 20).await;
    known(&[5, 4, 3]).await;
    fill_in(&fixture, &[Op::Put("/a/d0/new", 6), Op::Delete("/a/d1/new")], 20).await;
    known(&[6, 3, 3]).await;
    fill_in(&fixture, &[Op::Put("/b/in", 7)], 20).await;
    fixture.run(Op::Move("/b/in", "/a/d2/in", false)).await.unwrap();
    known(&[7, 6, 3]).await;
    fixture.run(Op::Move("/a/d0/new", "/a/d3/new", false)).await.unwrap();
    fixture.run(Op::Move("/a/d2/in", "/b/in", false)).await.unwrap();
    known(&[6, 3, 3]).await;
    let none = TimeQuery { to: Some(Timestamp::from_ms(1)), ..query.clone() };
    assert!(reads(&fixture, &none).await.1.is_empty());
    // The move of a directory ends the set.
    fixture.run(Op::Move("/a/d3", "/b/d3", false)).await.unwrap();
    let (again, all) = reads(&fixture, &query).await;
    assert_eq!(size(&all), [3, 3, 3]);
    assert!(again > 20, "{again} reads after the move of a directory");
    known(&[3, 3, 3]).await;
}

/// Makes changes, and then files elsewhere that are newer.
async fn fill_in(fixture: &Fixture, changes: &[Op], files: usize) {
    for op in changes {
        fixture.run(*op).await.unwrap();
    }
    fill(fixture, files).await;
}

const FOLDERS: [&str; 3] = ["/a", "/a/d", "/b"];
const FILES: [&str; 9] = ["/a/f", "/a/g", "/a/d/f", "/a/d/g", "/a/d/e/f", "/b/f", "/b/g", "/c/f", "/aa/f"];

fn draw(rng: &mut StdRng, size: usize) -> Op {
    let [one, other] = [(); 2].map(|()| FILES.choose(rng).copied().unwrap());
    match rng.random_range(0..40) {
        0..14 => Op::Put(one, size),
        14..18 => Op::Delete(one),
        18..32 => Op::Move(one, other, rng.random()),
        32..36 => Op::Copy(one, other, rng.random()),
        36 => Op::Move("/a/d", "/b/d", false),
        37 => Op::Move("/b/d", "/a/d", false),
        38 => Op::Remove("/a/d"),
        _ => Op::Rmdir(FOLDERS.choose(rng).copied().unwrap()),
    }
}

fn ask(rng: &mut StdRng) -> TimeQuery {
    let clock = *Clock::ALL.choose(rng).unwrap();
    let limit = rng.random_range(1..6);
    TimeQuery { clock, limit, ascending: rng.random(), ..below(FOLDERS.choose(rng).copied().unwrap()) }
}

/// The watcher reads the same store without keys, and verifies each row.
#[tokio::test]
async fn known_keys_answer_as_the_other_ways_after_each_change() {
    let mut files = 0;
    for seed in 0..40 {
        let rng = &mut StdRng::seed_from_u64(seed);
        let fixture = Fixture::atomic([1, 2][seed as usize % 2], &[]).await;
        for step in 0..60 {
            // Most that are refused find no file.
            let _ = fixture.run(draw(rng, 1 + step)).await;
            for _ in 0..2 {
                let query = ask(rng);
                let [known, verified] = [shown(&fixture.drive, &query).await, shown(&fixture.watcher, &query).await];
                assert_eq!(known, verified, "{query:?} after step {step} of seed {seed}");
                files += known.map_or(0, |known| known.len());
            }
        }
    }
    assert!(files > 3_000, "only {files} files were compared");
}

/// Changes that were under way when the folder was read, and ended later, or had an unknown outcome.
#[tokio::test]
async fn a_change_under_way_while_a_folder_is_read_is_not_missed() {
    for change in [Op::Put("/a/d/new", 7), Op::Move("/b/f", "/a/d/new", false), Op::Put("/a/f", 7)] {
        let fixture = Fixture::atomic(1, &[Op::Put("/b/f", 7), Op::Put("/a/f", 3), Op::Put("/a/d/f", 4)]).await;
        fill(&fixture, 20).await;
        let (ready, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (reached, resumed) = (ready.clone(), go_on.clone());
        fixture.store.once_before(fixture.store.steps() + 1, |_| async move {
            reached.notify_one();
            resumed.notified().await;
        });
        let writer = fixture.drive.clone();
        let running = tokio::spawn(async move { run(&writer, change).await.unwrap() });
        ready.notified().await;
        let query = TimeQuery { limit: 10, ..below("/a") };
        assert_eq!(shown(&fixture.drive, &query).await.unwrap().len(), 2, "{change:?}");
        go_on.notify_one();
        running.await.unwrap();
        // Of newer files, so that the index alone does not find it first.
        fill(&fixture, 20).await;
        let known = shown(&fixture.drive, &query).await;
        assert_eq!(known, shown(&fixture.watcher, &query).await, "{change:?}");
        assert!(known.unwrap().iter().any(|(_, size)| *size == 7), "{change:?}");
    }
}

#[tokio::test]
async fn changes_of_unknown_outcome_are_found_where_they_are() {
    let mut runs = 0;
    for (fault, is_known) in [Fault::Lose, Fault::LoseAnswer, Fault::Delay]
        .into_iter()
        .flat_map(|fault| [true, false].map(|known| (fault, known)))
    {
        for change in [Op::Put("/a/d/new", 7), Op::Move("/b/f", "/a/d/new", false), Op::Move("/a/d", "/b/d", false)] {
            for step in 1.. {
                let fixture = Fixture::atomic(1, &[Op::Put("/b/f", 7), Op::Put("/a/f", 3), Op::Put("/a/d/f", 4)]).await;
                fill(&fixture, 20).await;
                let query = TimeQuery { limit: 10, ..below("/a") };
                if is_known {
                    shown(&fixture.drive, &query).await;
                }
                fixture.store.at(fixture.store.steps() + step, fault);
                if fixture.run(change).await.is_ok() {
                    break;
                }
                for _ in 0..2 {
                    // Once the folder is read, what was delayed happens.
                    fill(&fixture, 20).await;
                    let found = [shown(&fixture.drive, &query).await, shown(&fixture.watcher, &query).await];
                    assert_eq!(found[0], found[1], "{change:?} with {fault:?} at step {step}");
                    fixture.store.deliver().await;
                }
                runs += 1;
            }
        }
    }
    assert!(runs > 10, "only {runs} runs");
}

/// A change before any read of a query: of one that reads the folder, and of one that knows its keys.
#[tokio::test]
async fn changes_between_any_two_reads_hide_no_file() {
    let set_up: &[Op] =
        &[Op::Put("/a/f", 3), Op::Put("/a/d/f", 4), Op::Put("/a/d/g", 5), Op::Put("/b/f", 6), Op::Mkdir("/a/e")];
    // With each, how many of the files 3 and 4, or of other versions at their paths, stay below the folder.
    let changes: &[(&[Op], usize)] = &[
        (&[Op::Put("/a/f", 13)], 2),
        (&[Op::Put("/a/e/x", 12), Op::Put("/a/f", 13), Op::Put("/a/f", 14)], 2),
        (&[Op::Move("/a/d/f", "/a/e/f", false)], 2),
        (&[Op::Move("/a/d/f", "/b/x", false), Op::Move("/b/x", "/a/e/f", false)], 1),
        (&[Op::Move("/a/f", "/a/d/h", false), Op::Move("/a/d/f", "/a/f", false)], 2),
        (&[Op::Move("/b/f", "/a/f", true)], 2),
        (&[Op::Delete("/a/d/g"), Op::Put("/a/d/f", 14), Op::Put("/a/d/f", 15)], 2),
        (&[Op::Move("/a/d", "/a/e/d", false)], 2),
        (&[Op::Move("/a/d", "/b/d", false), Op::Move("/b/d", "/a/d", false)], 1),
    ];
    let mut runs = 0;
    let ways = [(Clock::Added, false), (Clock::Added, true), (Clock::Modified, false)];
    for ((changes, stay), (clock, ascending)) in changes.iter().flat_map(|case| ways.map(|way| (*case, way))) {
        // In turns of one row, or all keys in one turn, of which the index reads too few.
        for (is_known, stride, turn) in [(false, 0, 1), (true, 0, 1), (true, 1, 1), (true, 2, 1), (true, 0, 10)] {
            for read in 1.. {
                let fixture = Fixture::atomic(turn, set_up).await;
                fill(&fixture, 12).await;
                let query = TimeQuery { clock, ascending, limit: 10, ..below("/a") };
                if is_known {
                    shown(&fixture.drive, &query).await;
                }
                let count = at_read(&fixture, read, stride, changes);
                let found = shown(&fixture.drive, &query).await.unwrap();
                if count.load(Ordering::SeqCst) < read {
                    break;
                }
                let title =
                    format!("{changes:?} from read {read} on, each {stride}, {is_known}, {turn}, {clock:?}: {found:?}");
                let mut paths: Vec<_> = found.iter().map(|(path, _)| path).collect();
                paths.sort();
                paths.dedup();
                assert_eq!(paths.len(), found.len(), "a path twice: {title}");
                let versions = found.iter().filter(|(_, size)| [3, 4, 6, 13, 14, 15].contains(size)).count();
                assert!((stay..=2).contains(&versions), "{title}");
                // What has ended is shown by the next query.
                fixture.store.reading(|_| async {});
                fixture.idle().await;
                assert_eq!(
                    shown(&fixture.drive, &query).await,
                    shown(&fixture.watcher, &query).await,
                    "afterwards: {title}"
                );
                runs += 1;
            }
        }
    }
    assert!(runs > 500, "only {runs} runs");
}

/// With memory for a few keys only, queries read the folder again each time, or answer by the index alone.
#[tokio::test]
async fn sets_without_enough_memory_are_dropped_and_answers_stay_exact() {
    for bytes in [0, 40, 200, 800] {
        let rng = &mut StdRng::seed_from_u64(bytes as u64);
        let limits = Thresholds { files_queried: 1, ..Thresholds::DEFAULT };
        let settings = Settings { rows_per_step: 1, limits, folder_keys: bytes, ..SETTINGS };
        let fixture = Fixture::atomic_with(settings, &[]).await;
        for step in 0..80 {
            let _ = fixture.run(draw(rng, 1 + step)).await;
            let query = ask(rng);
            assert_eq!(shown(&fixture.drive, &query).await, shown(&fixture.watcher, &query).await, "{query:?}");
        }
    }
}

/// The next query reads the folder anew, and misses nothing.
#[tokio::test]
async fn a_read_that_fails_leaves_a_set_without_gaps() {
    for read in 1.. {
        let fixture = Fixture::atomic(1, &[Op::Put("/a/f", 3), Op::Put("/a/d/f", 4), Op::Put("/a/e/g", 5)]).await;
        fill(&fixture, 20).await;
        let query = TimeQuery { limit: 10, ..below("/a") };
        fixture.store.at_call(fixture.store.calls() + read, Fault::Lose);
        if fixture.drive.unrestricted().files_by_time(&query).await.is_ok() {
            break;
        }
        for _ in 0..2 {
            let found = [shown(&fixture.drive, &query).await, shown(&fixture.watcher, &query).await];
            assert_eq!(found[0], found[1], "failed at read {read}");
        }
    }
}

/// A caller that leaves in the middle of reading a folder: the next one continues it, and misses nothing.
#[tokio::test]
async fn a_query_that_is_dropped_at_any_read_leaves_a_set_without_gaps() {
    for read in 1.. {
        let fixture = Fixture::atomic(1, &[Op::Put("/a/f", 3), Op::Put("/a/d/f", 4), Op::Put("/a/e/g", 5)]).await;
        fill(&fixture, 20).await;
        let query = TimeQuery { limit: 10, ..below("/a") };
        let (count, reached) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let (counted, at) = (count.clone(), reached.clone());
        fixture.store.reading(move |_| {
            let now = counted.fetch_add(1, Ordering::SeqCst) + 1 == read;
            let at = at.clone();
            async move {
                if now {
                    at.notify_one();
                    std::future::pending::<()>().await;
                }
            }
        });
        let left = tokio::select! {
            found = shown(&fixture.drive, &query) => found.is_none(),
            () = reached.notified() => true,
        };
        if !left {
            break;
        }
        fixture.store.reading(|_| async {});
        for _ in 0..2 {
            assert_eq!(
                shown(&fixture.drive, &query).await,
                shown(&fixture.watcher, &query).await,
                "left at read {read}"
            );
        }
    }
}

/// An entry that cannot be decoded is an error of each query that reads it: none of them takes the rest of the folder for
/// all of it.
#[tokio::test]
async fn a_damaged_entry_hides_no_file_of_its_folder() {
    let files = [Op::Put("/a/a", 1), Op::Put("/a/m", 2), Op::Put("/a/z", 3)];
    let fixture = Fixture::atomic(4, &files).await;
    fill(&fixture, 200).await;
    let (cell, query) = (("dir", "sub", b"f_m".as_slice()), TimeQuery { limit: 10, ..below("/a") });
    change(&fixture, cell, path("/a").key(), Some(b"\x09")).await;
    let mut errors = 0;
    for _ in 0..4 {
        match fixture.drive.unrestricted().files_by_time(&query).await {
            Err(_) => errors += 1,
            Ok(page) => {
                let sizes: Vec<_> = page.nodes.into_iter().map(|node| path_and_size(node).1).collect();
                assert_eq!(sizes, [3, 2, 1], "after {errors} errors");
            }
        }
    }
    assert!(errors > 0, "no query has read the entry");
}
