//! Queries of an atomic store take index rows as they stand. They answer as those that verify each row, and as the tree
//! was at one instant, whatever changes meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rowdrive::drive::{Drive, DriveError, MimeFilter, NameQuery, Node, TimeQuery};
use rowdrive::schema::Timestamp;
use rowdrive::schema::index::by_time::Clock;

use super::fixture::{Fixture, find_all, path, run, time_query};
use super::model::Op;
use crate::faults::number;
use crate::stepwise::Fault;

const DIRECTORIES: [&str; 5] = ["/a", "/b", "/a/d", "/b/d", "/c"];
const FILES: [&str; 7] = ["/f", "/a/f", "/a/g", "/b/f", "/a/d/f", "/b/d/g", "/c/f"];
const FAULTS: [Fault; 3] = [Fault::Stop, Fault::StopAfter, Fault::Lose];

fn draw(rng: &mut StdRng, size: usize) -> Op {
    let [one, other] = [(); 2].map(|()| FILES.choose(rng).copied().unwrap());
    let [from, to] = [(); 2].map(|()| DIRECTORIES.choose(rng).copied().unwrap());
    match rng.random_range(0..12) {
        0..4 => Op::Put(one, size),
        4 => Op::Delete(one),
        5..7 => Op::Move(one, other, rng.random()),
        7..9 if !to.starts_with(from) && !from.starts_with(to) => Op::Move(from, to, false),
        9 => Op::Remove(from),
        10 if !to.starts_with(from) => Op::Copy(from, to, false),
        _ => Op::Rmdir(from),
    }
}

fn ask(rng: &mut StdRng) -> TimeQuery {
    let under = [None, Some("/"), Some("/a"), Some("/b/d"), Some("/c")].choose(rng).copied().flatten();
    TimeQuery {
        from: rng.random_bool(0.1).then(Timestamp::now),
        under: under.map(path),
        creator: rng.random_bool(0.3).then(|| "eva".to_owned()),
        mime: rng.random_bool(0.2).then(|| MimeFilter::Top("application/".to_owned())),
        ascending: rng.random(),
        limit: rng.random_range(1..6),
        ..time_query(*Clock::ALL.choose(rng).unwrap())
    }
}

/// All files, page by page; those of the first page and its cursor too, if one strategy alone can answer.
async fn pages(drive: &Drive, query: &TimeQuery) -> rowdrive::drive::Result<(Vec<Vec<Node>>, Vec<Node>)> {
    let (mut query, mut pages) = (query.clone(), Vec::new());
    loop {
        let page = drive.unrestricted().files_by_time(&query).await?;
        pages.push(page.nodes);
        query.after = page.next;
        if query.after.is_none() {
            let all = pages.concat();
            // Below a folder one of two strategies answers: only the scan of the folder knows that nothing follows.
            pages.retain(|page| query.under.is_none() || !page.is_empty());
            return Ok((pages, all));
        }
    }
}

/// The same pages; or the same error.
async fn compare(exact: &Drive, verified: &Drive, rng: &mut StdRng) -> usize {
    let query = ask(rng);
    let files = match (pages(exact, &query).await, pages(verified, &query).await) {
        (Ok(one), Ok(other)) => {
            assert_eq!(one, other, "{query:?}");
            one.1.len()
        }
        (Err(DriveError::NotFound), Err(DriveError::NotFound)) => 0,
        (one, other) => panic!("{query:?}: {:?} and {:?}", one.err(), other.err()),
    };
    let query = NameQuery { name: "f".to_owned(), limit: rng.random_range(1..6), ..find_all() };
    let [one, other] = [
        exact.unrestricted().files_by_name(&query).await.unwrap(),
        verified.unrestricted().files_by_name(&query).await.unwrap(),
    ];
    assert_eq!((&one.nodes, &one.next), (&other.nodes, &other.next), "{query:?}");
    files + one.nodes.len()
}

#[tokio::test]
async fn both_ways_answer_the_same_after_each_change() {
    let (seeds, mut files) = (number("ROWDRIVE_EXACT_SEEDS").unwrap_or(40), 0);
    for seed in 0..seeds {
        let rng = &mut StdRng::seed_from_u64(seed);
        let fixture = Fixture::atomic([1, 3, 64][seed as usize % 3], &[]).await;
        for step in 0..40 {
            // Most are refused, as by a path that is taken.
            let _ = fixture.run(draw(rng, 1 + step)).await;
            files += compare(&fixture.drive, &fixture.watcher, rng).await;
        }
    }
    println!("{} changes, a period and a name query after each: {files} files in both answers, wrong 0", 40 * seeds);
    assert!(files as u64 > 75 * seeds, "only {files} files were compared");
}

/// A process stops before and after each step of the move or delete of a folder. The index rows below it stay as they
/// are, or are removed later; the same process and the next one know what they mean.
#[tokio::test]
async fn both_ways_answer_the_same_after_a_stop_at_any_step() {
    let set_up: &[Op] = &[Op::Put("/a/f", 1), Op::Put("/a/d/f", 2), Op::Put("/c/f", 3)];
    let (mut runs, mut files) = (0, 0);
    for (op, fault) in
        [Op::Remove("/a"), Op::Move("/a", "/c/a", false)].into_iter().flat_map(|op| FAULTS.map(|fault| (op, fault)))
    {
        for step in 1.. {
            let mut fixture = Fixture::atomic(64, set_up).await;
            // Its directories are known to be live.
            assert_eq!(shown(&fixture.drive, None).await.unwrap().len(), 3);
            let at = fixture.store.steps() + step;
            fixture.store.at(at, fault);
            let _ = fixture.run(op).await;
            if fixture.store.steps() < at {
                break;
            }
            runs += 1;
            for is_next_process in [false, true] {
                fixture.store.revive();
                if is_next_process {
                    fixture.restart().await;
                }
                let rng = &mut StdRng::seed_from_u64(step as u64);
                for _ in 0..20 {
                    files += compare(&fixture.drive, &fixture.watcher, rng).await;
                }
            }
        }
    }
    println!("{runs} stops, {} queries of each way: {files} files in both answers, wrong 0", 2 * 20 * 2 * runs);
    assert!(runs > 20 && files > 500, "only {runs} runs and {files} files");
}

/// A page is as the tree was at one instant: a change between any two reads is in it whole, or not at all.
#[tokio::test]
async fn a_page_is_of_one_instant() {
    let set_up: &[Op] = &[Op::Put("/a/f", 5), Op::Put("/a/k", 6), Op::Put("/b/k", 7), Op::Mkdir("/c")];
    let changes: &[&[Op]] = &[
        &[Op::Put("/a/f", 15), Op::Put("/b/k", 16)],
        &[Op::Move("/a/f", "/c/f", false), Op::Delete("/a/k")],
        &[Op::Delete("/a/f"), Op::Rmdir("/c"), Op::Put("/c/x", 17)],
        &[Op::Remove("/b"), Op::Put("/a/f", 18)],
        &[Op::Move("/b", "/c/b", false), Op::Move("/a/f", "/c/b/f", false)],
        &[Op::Put("/a/f", 15), Op::Move("/b", "/c/b", false)],
        &[Op::Put("/a/f", 15), Op::Remove("/b")],
    ];
    let mut runs = 0;
    let known = [(None, false), (None, true), (Some("/c"), false), (Some("/c"), true)];
    for (changes, (under, is_known)) in changes.iter().flat_map(|changes| known.map(|known| (changes, known))) {
        for read in 1.. {
            let fixture = Fixture::atomic(64, set_up).await;
            // Of the drive under test, its queries know the directories.
            let before = if is_known { &fixture.drive } else { &fixture.watcher };
            // All of them: what is outside is told by the cache.
            shown(before, None).await;
            let mut views = vec![shown(before, under).await];
            let reads = Arc::new(AtomicUsize::new(0));
            let (counted, rival) = (reads.clone(), fixture.watcher.clone());
            let changes: &'static [Op] = changes;
            fixture.store.reading(move |_| {
                let (now, rival) = (counted.fetch_add(1, Ordering::SeqCst) + 1, rival.clone());
                async move {
                    for op in changes.iter().filter(|_| now == read) {
                        run(&rival, *op).await.unwrap();
                    }
                }
            });
            let page = shown(&fixture.drive, under).await;
            if reads.load(Ordering::SeqCst) < read {
                break;
            }
            // The states before, between and after the changes.
            let again = Fixture::atomic(64, set_up).await;
            for op in changes {
                again.run(*op).await.unwrap();
                views.push(shown(&again.drive, under).await);
            }
            assert!(
                views.contains(&page),
                "{changes:?} before read {read} of {under:?}: {page:?} is none of {views:?}"
            );
            runs += 1;
        }
    }
    assert!(runs > 80, "only {runs} runs");
}

/// Paths and sizes of all files below a folder; none if there is no such folder.
async fn shown(drive: &Drive, under: Option<&str>) -> Option<Vec<(String, u64)>> {
    let query = TimeQuery { under: under.map(path), limit: 50, ..time_query(Clock::Modified) };
    let page = match drive.unrestricted().files_by_time(&query).await {
        Err(DriveError::NotFound) => return None,
        page => page.unwrap(),
    };
    let mut shown: Vec<_> = page.nodes.iter().map(size).collect();
    shown.sort();
    Some(shown)
}

fn size(node: &Node) -> (String, u64) {
    let Node::File { path, entry } = node else { panic!("{node:?}") };
    (path.to_string(), entry.attributes.size)
}

/// While nothing moves, a page reads no directory: one scan, and no other read.
#[tokio::test]
async fn a_page_is_one_scan_once_its_directories_are_known() {
    let fixture = Fixture::atomic(64, &[Op::Put("/a/f", 5), Op::Put("/a/d/f", 6)]).await;
    let reads_of = async |query: TimeQuery| {
        let before = fixture.store.calls();
        let found = fixture.drive.unrestricted().files_by_time(&query).await.unwrap();
        assert_eq!(found.nodes.len(), 2);
        fixture.store.calls() - before
    };
    assert!(reads_of(time_query(Clock::Modified)).await > 1);
    assert_eq!(reads_of(time_query(Clock::Modified)).await, 1);
    assert_eq!(reads_of(time_query(Clock::Added)).await, 1);
    // An upload is no move; its directory is new.
    fixture.run(Op::Delete("/a/f")).await.unwrap();
    fixture.run(Op::Put("/a/x", 7)).await.unwrap();
    assert_eq!(reads_of(time_query(Clock::Added)).await, 1);
    fixture.run(Op::Move("/a/d", "/a/e", false)).await.unwrap();
    assert!(reads_of(time_query(Clock::Added)).await > 1);
    assert_eq!(reads_of(time_query(Clock::Added)).await, 1);
    let by_eva = TimeQuery { creator: Some("eva".to_owned()), ..time_query(Clock::Added) };
    assert_eq!(reads_of(by_eva).await, 3, "the owner index has no attributes: two directories are read");
}
