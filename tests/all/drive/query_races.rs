//! Changes during a query: each file is shown once, as before or as after, and a file that was there all the time is
//! not missed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;
use rowdrive::drive::{Condition, NameQuery, Node, TimeQuery};
use rowdrive::schema::index::by_time::Clock;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::fixture::{Fixture, bytes, content, find_all, path, path_and_size, put, run, time_query};
use super::model::{Op, View};
use crate::stepwise::{Finish, PlanPart};

pub(super) const SET_UP: &[Op] =
    &[Op::Put("/a/f", 5), Op::Put("/a/k", 6), Op::Put("/b/k", 7), Op::Mkdir("/c"), Op::Mkdir("/a/d")];

/// Sequences of changes that all run before one read.
const CHANGES: &[&[Op]] = &[
    &[Op::Move("/a/f", "/b/f", false)],
    &[Op::Move("/a/f", "/b/f", false), Op::Move("/b/f", "/a/f", false)],
    &[Op::Move("/a/f", "/c/f", false), Op::Move("/c/f", "/a/d/f", false)],
    &[Op::Put("/a/f", 15)],
    &[Op::Put("/a/f", 15), Op::Move("/a/f", "/b/f", false)],
    &[Op::Delete("/a/f")],
    &[Op::Move("/a/f", "/b/k", true)],
    &[Op::Delete("/a/f"), Op::Put("/a/f", 16)],
    &[Op::Move("/a/f", "/b/f", false), Op::Move("/b/f", "/c/f", false)],
    &[Op::Rmdir("/c"), Op::Put("/c/f", 17), Op::Move("/a/f", "/c/f", true)],
    &[Op::Move("/b", "/c/b", false)],
    &[Op::Move("/b", "/c/b", false), Op::Move("/c/b", "/b", false)],
    &[Op::Move("/b", "/a/b", false), Op::Move("/a/b/k", "/c/f", false)],
    &[Op::Remove("/b")],
    &[Op::Move("/a/d", "/b/d", false), Op::Move("/a/f", "/b/d/f", false)],
];

pub(super) enum Query {
    Time(TimeQuery),
    Find(NameQuery),
}

pub(super) fn queries() -> Vec<(&'static str, Query)> {
    let under = Some(path("/a"));
    let find = |name: &str| NameQuery { name: name.into(), prefix: false, ..find_all() };
    vec![
        ("by modified", Query::Time(time_query(Clock::Modified))),
        ("by added, ascending", Query::Time(TimeQuery { ascending: true, ..time_query(Clock::Added) })),
        ("by modified under /a", Query::Time(TimeQuery { under: under.clone(), ..time_query(Clock::Modified) })),
        ("of eva by added", Query::Time(TimeQuery { creator: Some("eva".into()), ..time_query(Clock::Added) })),
        (
            "of eva by modified under /a, ascending",
            Query::Time(TimeQuery {
                under: under.clone(),
                creator: Some("eva".into()),
                ascending: true,
                ..time_query(Clock::Modified)
            }),
        ),
        ("by name", Query::Find(find("F"))),
        ("by name under /a", Query::Find(NameQuery { under, ..find("f") })),
    ]
}

/// The files that a query must find in a view, by path and size.
fn wanted(query: &Query, view: &View) -> BTreeMap<String, usize> {
    let fits = |path: &str| match query {
        Query::Time(ask) => ask.under.is_none() || path.starts_with("/a/"),
        Query::Find(ask) => (ask.under.is_none() || path.starts_with("/a/")) && path.ends_with("/f"),
    };
    view.files.iter().filter(|(path, _)| fits(path)).map(|(path, size)| (path.clone(), *size)).collect()
}

/// Makes the first change before the read of this number, and each further change `stride` reads later.
pub(super) fn at_read(fixture: &Fixture, number: usize, stride: usize, changes: &'static [Op]) -> Arc<AtomicUsize> {
    let reads = Arc::new(AtomicUsize::new(0));
    let (counted, rival) = (reads.clone(), fixture.watcher.clone());
    fixture.store.reading(move |_| {
        let (reads, rival) = (counted.clone(), rival.clone());
        async move {
            let read = reads.fetch_add(1, Ordering::SeqCst) + 1;
            for (at, op) in changes.iter().enumerate() {
                if number + at * stride == read {
                    run(&rival, *op).await.unwrap();
                }
            }
        }
    });
    reads
}

/// Runs `op` until its commit, which follows this many steps of `prepare`. It commits before the read of this number,
/// and the read waits for its end. Returns its task, and the number of reads so far.
pub(super) async fn commit_before_read(
    fixture: &Fixture,
    op: Op,
    prepared: usize,
    read: usize,
) -> (JoinHandle<()>, Arc<AtomicUsize>) {
    let (ready, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (reached, resumed) = (ready.clone(), go_on.clone());
    fixture.store.once_before(fixture.store.steps() + prepared + 1, |step| async move {
        assert_eq!(step.part, PlanPart::ConditionalRow);
        reached.notify_one();
        resumed.notified().await;
    });
    let (writer, done) = (fixture.drive.clone(), Arc::new(Notify::new()));
    let ended = done.clone();
    let running = tokio::spawn(async move {
        run(&writer, op).await.unwrap();
        ended.notify_one();
    });
    ready.notified().await;
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    fixture.store.reading(move |_| {
        let now = counted.fetch_add(1, Ordering::SeqCst) + 1 == read;
        let (go_on, done) = (go_on.clone(), done.clone());
        async move {
            if now {
                go_on.notify_one();
                done.notified().await;
            }
        }
    });
    (running, count)
}

#[tokio::test]
async fn a_query_shows_each_file_as_before_or_as_after() {
    assert!(as_before_or_as_after(false).await > 1_000);
}

/// In an atomic store, whose index rows are taken as they stand. With one row in a turn, a page is of many instants.
#[tokio::test]
async fn a_query_of_an_atomic_store_shows_each_file_as_before_or_as_after() {
    assert!(as_before_or_as_after(true).await > 400);
}

/// Returns the number of races.
async fn as_before_or_as_after(atomic: bool) -> usize {
    let mut runs = 0;
    for (title, query) in queries() {
        for (changes, stride) in CHANGES.iter().flat_map(|changes| (0..4).map(move |stride| (*changes, stride))) {
            for read in 1.. {
                // With one index row in a turn, both plans below a folder reach their end.
                let turn = if title.contains("under") { 1 } else { 64 };
                let fixture = match atomic {
                    true => Fixture::atomic(1, SET_UP).await,
                    false => Fixture::with_turn(turn, SET_UP).await,
                };
                let mut views = vec![fixture.view().await];
                let reads = at_read(&fixture, read, stride, changes);
                let nodes = nodes(&fixture, &query).await;
                if reads.load(Ordering::SeqCst) < read {
                    break;
                }
                for op in changes {
                    let next = views.last().unwrap().after(*op).unwrap();
                    views.push(next);
                }
                check(&format!("{title}, {changes:?} from read {read} on, each {stride}"), &query, &views, &nodes);
                runs += 1;
            }
        }
    }
    runs
}

/// The index entry of a running move names a path that does not exist yet: a verification that is too early is
/// repeated.
#[tokio::test]
async fn a_file_moved_step_by_step_is_not_missed() {
    let (there, back) = (Op::Move("/a/f", "/b/f", false), Op::Move("/b/f", "/a/f", false));
    for (title, query) in queries().into_iter().filter(|(title, _)| !title.contains("under")) {
        for read in 1.. {
            let mut reads = 0;
            // Which of its index rows is read first is random.
            for _ in 0..8 {
                let fixture = Fixture::new(SET_UP).await;
                fixture.run(there).await.unwrap();
                // After five index entries.
                let (moving, count) = commit_before_read(&fixture, back, 5, read).await;
                let shown = files(nodes(&fixture, &query).await);
                reads = reads.max(count.load(Ordering::SeqCst));
                let places = shown.iter().filter(|(path, size)| *size == 5 && (path == "/a/f" || path == "/b/f"));
                assert_eq!(places.count(), 1, "{title}, moved before read {read}: {shown:?}");
                moving.abort();
            }
            if reads < read {
                break;
            }
        }
    }
}

/// The file row names the same position before and after two moves. The ids of the stays differ, so the query tries
/// again.
#[tokio::test]
async fn a_file_that_returns_between_two_reads_is_not_missed() {
    let changes: &[Op] = &[Op::Move("/b/f", "/c/f", false), Op::Move("/c/f", "/b/f", false)];
    for (title, query) in queries().into_iter().filter(|(title, _)| !title.contains("under")) {
        for stride in 1..4 {
            for read in 1.. {
                let fixture = Fixture::new(SET_UP).await;
                // The stale index row is the first that a query reads.
                fixture.store.set_finish(Finish::Delayed);
                fixture.run(Op::Move("/a/f", "/b/f", false)).await.unwrap();
                let reads = at_read(&fixture, read, stride, changes);
                let shown = files(nodes(&fixture, &query).await);
                if reads.load(Ordering::SeqCst) < read {
                    break;
                }
                let places = shown.iter().filter(|(_, size)| *size == 5).count();
                assert_eq!(places, 1, "{title}, from read {read} on, each {stride}: {shown:?}");
            }
        }
    }
}

/// Without concurrent changes a query is exact, however many stale index rows exist.
#[tokio::test]
async fn a_query_is_exact_among_stale_index_rows() {
    let out_and_in: &[Op] = &[Op::Put("/c/f", 17), Op::Move("/c/f", "/a/g", false), Op::Move("/a/f", "/c/f", false)];
    let gone: &[Op] = &[Op::Put("/e/x", 18), Op::Move("/e/x", "/a/x", false), Op::Rmdir("/e")];
    let all = CHANGES.iter().chain([&out_and_in, &gone]);
    for (changes, turn) in all.flat_map(|changes| [(changes, 64), (changes, 1)]) {
        let fixture = Fixture::with_turn(turn, SET_UP).await;
        fixture.store.set_finish(Finish::Delayed);
        let mut view = fixture.view().await;
        for op in *changes {
            fixture.run(*op).await.unwrap();
            view = view.after(*op).unwrap();
            for (title, query) in queries() {
                let mut shown = files(nodes(&fixture, &query).await);
                shown.sort();
                let wanted: Vec<_> = wanted(&query, &view).into_iter().collect();
                assert_eq!(shown, wanted, "{title} after {op:?} of {changes:?}");
            }
        }
    }
}

/// Paths and sizes.
pub(super) fn files(nodes: Vec<Node>) -> Vec<(String, usize)> {
    nodes.into_iter().map(path_and_size).collect()
}

pub(super) async fn nodes(fixture: &Fixture, query: &Query) -> Vec<Node> {
    answer(fixture, query).await.unwrap()
}

pub(super) async fn answer(fixture: &Fixture, query: &Query) -> rowdrive::drive::Result<Vec<Node>> {
    Ok(match query {
        Query::Time(ask) => fixture.drive.unrestricted().files_by_time(ask).await?.nodes,
        Query::Find(ask) => fixture.drive.unrestricted().files_by_name(ask).await?.nodes,
    })
}

/// In these tests the size identifies a file: it stays the same in a move.
fn check(title: &str, query: &Query, views: &[View], nodes: &[Node]) {
    let all: Vec<BTreeMap<usize, String>> =
        views.iter().map(|view| wanted(query, view).into_iter().map(|(path, size)| (size, path)).collect()).collect();
    let mut shown = BTreeMap::new();
    for node in nodes {
        let Node::File { path, entry } = node else { panic!("{node:?}") };
        let size = entry.attributes.size as usize;
        assert!(shown.insert(size, path.to_string()).is_none(), "{title}: shown twice: {nodes:?}");
        assert!(
            all.iter().any(|view| view.get(&size).is_some_and(|p| p == path.as_str())),
            "{title}: {path} never was"
        );
    }
    let (first, rest) = all.split_first().unwrap();
    for (size, path) in first {
        if rest.iter().all(|view| view.contains_key(size)) {
            assert!(shown.contains_key(size), "{title}: {path} is missed");
        }
    }
}

#[tokio::test]
async fn a_reader_gets_all_bytes_of_one_version() {
    const LARGE: usize = 600_000;
    for (old, new) in [(5, 6), (5, LARGE), (LARGE, LARGE + 1), (LARGE, 5)] {
        for read in 1.. {
            let set_up: &'static [Op] = Box::leak(Box::new([Op::Put("/a/f", old)]));
            let change: &'static [Op] = Box::leak(Box::new([Op::Put("/a/f", new)]));
            let fixture = Fixture::new(set_up).await;
            let reads = at_read(&fixture, read, 0, change);
            let all = content(fixture.drive.unrestricted().open_file(&path("/a/f")).await.unwrap()).await;
            assert!(all.len() == old || all.len() == new);
            assert_eq!(all, bytes(all.len()));
            if reads.load(Ordering::SeqCst) < read {
                break;
            }
        }
    }
}

/// A page may have the largest size even if all its entries are in one directory.
#[tokio::test]
async fn a_page_of_the_largest_size_may_lie_in_one_directory() {
    let fixture = Fixture::new(&[]).await;
    let most = 10_000;
    let puts = (0..most).map(|n| {
        let drive = fixture.watcher.clone();
        async move { put(&drive.unrestricted(), &format!("/d/{n:05}"), 1, Condition::default()).await.unwrap() }
    });
    futures_util::stream::iter(puts).buffer_unordered(64).collect::<Vec<()>>().await;
    for under in [None, Some(path("/d"))] {
        let ask = TimeQuery { limit: most, under: under.clone(), ..time_query(Clock::Added) };
        assert_eq!(fixture.watcher.unrestricted().files_by_time(&ask).await.unwrap().nodes.len(), most, "{under:?}");
        let ask = NameQuery { limit: most, under, ..find_all() };
        assert_eq!(fixture.watcher.unrestricted().files_by_name(&ask).await.unwrap().nodes.len(), most);
    }
}
