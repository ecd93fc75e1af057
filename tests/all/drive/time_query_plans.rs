//! Files of a period below a folder: both query plans give the pages that a full scan of the folder gives.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use proptest::sample::select;
use rowdrive::drive::{Condition, Drive, ListQuery, MimeFilter, Node, PutOptions, TimeQuery, whole_body};
use rowdrive::schema::index::by_time::Clock;
use rowdrive::schema::{DrivePath, FileId, Timestamp};

use super::fixture::{Fixture, bytes, path, put, run, time_query};
use super::model::Op;
use crate::stepwise::Finish;

const FOLDERS: [&str; 5] = ["/", "/a", "/a/b", "/a/b/c", "/a!"];
const CREATORS: [&str; 3] = ["eva", "ava", "tom"];
const TYPES: [&str; 3] = ["image/png", "image/jpeg", "text/plain"];

/// A file by numbers: its folder, its creator, its type and its time.
#[derive(Clone, Debug)]
struct File(usize, usize, usize, i64);

fn files() -> impl Strategy<Value = Vec<File>> {
    let file = (0..FOLDERS.len(), 0..CREATORS.len(), 0..TYPES.len(), 0..12i64);
    proptest::collection::vec(file.prop_map(|(at, by, mime, ms)| File(at, by, mime, ms)), 0..40)
}

fn queries() -> impl Strategy<Value = TimeQuery> {
    let mimes = vec![None, Some(MimeFilter::Top("image/".into())), Some(MimeFilter::Exact("text/plain".into()))];
    let bound = || proptest::option::of((0..12i64).prop_map(Timestamp::from_ms));
    let under = proptest::option::of(select(FOLDERS.to_vec()).prop_map(path));
    let creator = proptest::option::of(select(CREATORS.to_vec()).prop_map(str::to_owned));
    let rest = (select(Clock::ALL.to_vec()), select(mimes), any::<bool>(), 1..8usize);
    (bound(), bound(), under, creator, rest).prop_map(|(from, to, under, creator, rest)| {
        let (clock, mime, ascending, limit) = rest;
        TimeQuery { clock, from, to, under, creator, mime, ascending, after: None, limit }
    })
}

async fn store(drive: &Drive, number: usize, File(at, by, mime, ms): &File) {
    let modified = Some(Timestamp::from_ms(*ms));
    let options = PutOptions { modified, ..PutOptions::new(TYPES[*mime], CREATORS[*by]) };
    let at = path(&format!("{}/{number}", FOLDERS[*at].trim_end_matches('/')));
    drive.unrestricted().put(&at, options, whole_body(bytes(number))).await.unwrap();
}

/// The sort key of a page's last file.
type SortKey = (Timestamp, FileId);

/// All pages of a query.
async fn paged(drive: &Drive, query: &TimeQuery) -> Vec<(SortKey, DrivePath)> {
    let mut query = query.clone();
    let mut shown = Vec::new();
    for _ in 0..1_000 {
        let found = drive.unrestricted().files_by_time(&query).await.unwrap();
        assert!(found.nodes.len() <= query.limit);
        shown.extend(found.nodes.iter().map(|node| keyed(&query, node)));
        let Some(next) = found.next else { return shown };
        query.after = Some(next);
    }
    panic!("the pages have no end: {query:?}");
}

fn keyed(query: &TimeQuery, node: &Node) -> (SortKey, DrivePath) {
    let Node::File { path, entry } = node else { panic!("{node:?}") };
    let time = if query.clock == Clock::Modified { entry.attributes.modified } else { entry.attributes.added };
    ((time, entry.id), path.clone())
}

/// The same result, computed from the listings alone.
async fn scanned(drive: &Drive, query: &TimeQuery) -> Vec<(SortKey, DrivePath)> {
    let mut found = Vec::new();
    let mut below = vec![query.under.clone().unwrap_or_else(DrivePath::root)];
    while let Some(at) = below.pop() {
        let list = ListQuery { kind: None, prefix: String::new(), after: None, limit: 10_000 };
        for node in drive.unrestricted().list(&at, &list).await.unwrap().nodes {
            match &node {
                Node::Directory { path, .. } => below.push(path.clone()),
                Node::File { entry, .. } => {
                    let attributes = &entry.attributes;
                    let ((time, _), _) = keyed(query, &node);
                    let fits = query.from.is_none_or(|from| time >= from)
                        && query.to.is_none_or(|to| time < to)
                        && query.creator.as_ref().is_none_or(|creator| *creator == attributes.creator)
                        && query.mime.as_ref().is_none_or(|mime| mime.matches(&attributes.mime));
                    found.extend(fits.then(|| keyed(query, &node)));
                }
            }
        }
    }
    found.sort_by_key(|((time, id), _)| (std::cmp::Reverse(*time), *id));
    if query.ascending {
        found.reverse();
    }
    found
}

fn on_a_runtime<F: Future>(test: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pages_equal_a_full_scan(
        files in files(),
        queries in proptest::collection::vec(queries(), 1..8),
        turn in select(vec![1usize, 2, 5, 64]),
        work in select(vec![1usize, 20, 150_000]),
    ) {
        on_a_runtime(async {
            let fixture = Fixture::with_work(turn, work).await;
            for folder in &FOLDERS[1..] {
                fixture.run(Op::Mkdir(folder)).await.unwrap();
            }
            for (number, file) in files.iter().enumerate() {
                store(&fixture.drive, number, file).await;
            }
            for query in queries {
                prop_assert_eq!(paged(&fixture.drive, &query).await, scanned(&fixture.drive, &query).await, "{:?}", query);
            }
            Ok(())
        })?;
    }
}

/// Moves before any read of any page, if their source exists: into the folder and out of it, and from a directory that
/// is read late to one that is read early.
const MOVES: [Op; 9] = [
    Op::Move("/a/b", "/a!/b", false),
    Op::Move("/a!/b", "/a/b", false),
    Op::Move("/a/m", "/a!/m", false),
    Op::Move("/a!/m", "/a/b/m", false),
    Op::Move("/a/b/m", "/a/m", false),
    Op::Move("/a/m", "/a/b/m", false),
    Op::Move("/a/b/c", "/a/a", false),
    Op::Move("/a/a", "/a/b/c", false),
    Op::Move("/a/b", "/a/a", false),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    /// Files that stay below the folder are on the pages exactly once; files that were never there are on none.
    #[test]
    fn unmoved_files_are_not_missed_while_others_move(
        files in files(),
        query in queries(),
        turn in select(vec![1usize, 2, 64]),
        moves in proptest::collection::vec((1..40usize, select(MOVES.to_vec())), 1..5),
    ) {
        on_a_runtime(async {
            let fixture = Fixture::with_turn(turn, &[Op::Put("/a/m", 900), Op::Mkdir("/a!"), Op::Mkdir("/a/b/c")]).await;
            for (number, file) in files.iter().enumerate() {
                store(&fixture.drive, number, file).await;
            }
            let query = TimeQuery { under: Some(path("/a")), clock: Clock::Modified, ..query };
            let mut first = scanned(&fixture.watcher, &query).await;
            let mut ever: BTreeSet<_> = first.iter().cloned().collect();
            // The paths of the files after each of the following moves.
            let rival = fixture.watcher.clone();
            let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
            let count = Arc::new(AtomicUsize::new(0));
            let (recorded, asked) = (seen.clone(), query.clone());
            fixture.store.reading(move |_| {
                let read = count.fetch_add(1, Ordering::SeqCst) + 1;
                let now: Vec<Op> = moves.iter().filter(|(at, _)| *at == read).map(|(_, op)| *op).collect();
                let (rival, recorded, asked) = (rival.clone(), recorded.clone(), asked.clone());
                async move {
                    for op in now {
                        let _may_have_nothing_to_move = run(&rival, op).await;
                        let after = scanned(&rival, &asked).await;
                        recorded.lock().unwrap().push(after);
                    }
                }
            });
            let shown = paged(&fixture.drive, &query).await;
            for after in seen.lock().unwrap().iter() {
                first.retain(|(key, _)| after.iter().any(|(other, _)| other == key));
                ever.extend(after.iter().cloned());
            }
            let keys: BTreeSet<SortKey> = shown.iter().map(|(key, _)| *key).collect();
            prop_assert_eq!(keys.len(), shown.len(), "twice: {:?}", shown);
            for file in &shown {
                prop_assert!(ever.contains(file), "never was: {:?}", file);
            }
            for (key, at) in first {
                prop_assert!(keys.contains(&key), "missed: {:?} of {:?}", at, shown);
            }
            Ok(())
        })?;
    }
}

/// The index has the file last, so the query reads the folder. Before any read, the file moves from a directory that is
/// read late to one that is read early.
#[tokio::test]
async fn a_file_moved_while_its_folder_is_read_is_not_missed() {
    for (there, change) in [
        (Op::Put("/a/b/m", 900), Op::Move("/a/b/m", "/a/m", false)),
        (Op::Put("/a/b/c/m", 900), Op::Move("/a/b/c", "/a/a", false)),
    ] {
        for read in 1.. {
            let fixture = Fixture::with_turn(1, &[there, Op::Mkdir("/a!")]).await;
            for number in 0..40 {
                store(&fixture.drive, number, &File(4, 0, 0, 4_000_000_000_000)).await;
            }
            let count = Arc::new(AtomicUsize::new(0));
            let (counted, rival) = (count.clone(), fixture.watcher.clone());
            fixture.store.reading(move |_| {
                let now = counted.fetch_add(1, Ordering::SeqCst) + 1 == read;
                let rival = rival.clone();
                async move {
                    if now {
                        run(&rival, change).await.unwrap();
                    }
                }
            });
            let query = TimeQuery { under: Some(path("/a")), limit: 10, ..time_query(Clock::Modified) };
            let found = fixture.drive.unrestricted().files_by_time(&query).await.unwrap();
            assert_eq!(found.nodes.len(), 1, "{change:?} before read {read}: {:?}", found.nodes);
            if count.load(Ordering::SeqCst) < read {
                break;
            }
        }
    }
}

/// A query that finds nothing still ends, and returns where to continue.
#[tokio::test]
async fn the_work_of_a_request_is_bounded() {
    let fixture = Fixture::with_work(10, 200).await;
    for number in 0..300 {
        store(&fixture.drive, number, &File(1, 0, 0, 1_000)).await;
    }
    let mime = Some(MimeFilter::Exact("no/such".into()));
    let nothing = TimeQuery { mime, limit: 10, ..time_query(Clock::Modified) };
    let read = rows(&fixture, &nothing).await;
    assert!((200..250).contains(&read), "{read} rows");
    let found = fixture.drive.unrestricted().files_by_time(&nothing).await.unwrap();
    assert!(found.nodes.is_empty() && found.next.is_some());
    let rest = fixture.drive.unrestricted().files_by_time(&TimeQuery { after: found.next, ..nothing }).await.unwrap();
    assert!(rest.nodes.is_empty() && rest.next.is_none());
}

/// Each stale row costs a path lookup up to the root, which is long for deep directories. The existing file may follow
/// in a later turn, or in the same turn after the row at which the work limit cuts it.
#[tokio::test]
async fn the_work_of_a_request_is_bounded_among_stale_index_rows_of_deep_directories() {
    for number in [64, 40] {
        let fixture = Fixture::with_work(64, 2_000).await;
        put(&fixture.drive.unrestricted(), "/d/oldest", 1, Condition::default()).await.unwrap();
        let gone: Vec<_> = (0..number).map(|number| format!("{}/{number}", "/d".repeat(60))).collect();
        for at in &gone {
            put(&fixture.drive.unrestricted(), at, 1, Condition::default()).await.unwrap();
        }
        fixture.store.set_finish(Finish::Delayed);
        for at in &gone {
            fixture.drive.unrestricted().delete(&path(at), &Condition::default()).await.unwrap();
        }
        let all = TimeQuery { limit: 10, ..time_query(Clock::Modified) };
        let read = rows(&fixture, &all).await;
        assert!((1_000..3_000).contains(&read), "{read} rows");
        let found = fixture.drive.unrestricted().files_by_time(&all).await.unwrap();
        assert!(found.nodes.is_empty() && found.next.is_some(), "{found:?}");
        let scanned = scanned(&fixture.watcher, &all).await;
        assert!(scanned.len() == 1 && paged(&fixture.drive, &all).await == scanned, "{scanned:?}");
        // Below a folder the other plan has its turn before the page ends early: it reads no index rows.
        let below =
            fixture.drive.unrestricted().files_by_time(&TimeQuery { under: Some(path("/d")), ..all }).await.unwrap();
        assert!(below.nodes.len() == 1 && below.next.is_none(), "{below:?}");
    }
}

/// The number of rows that a query reads.
async fn rows(fixture: &Fixture, query: &TimeQuery) -> usize {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    fixture.store.reading(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async {}
    });
    fixture.drive.unrestricted().files_by_time(query).await.unwrap();
    count.load(Ordering::SeqCst)
}

/// The work of a query is proportional to the smaller of the folder and the scanned part of the index.
#[tokio::test]
async fn a_query_of_a_small_or_a_huge_folder_does_not_read_all_files() {
    let fixture = Fixture::new(&[]).await;
    let all: Vec<_> = (0..6_000).map(|n| File(1, 0, 0, 1_000 + n)).collect();
    let few: Vec<_> = (0..3).map(|n| File(4, 1, 1, n)).collect();
    for (number, file) in all.iter().chain(&few).enumerate() {
        store(&fixture.drive, number, file).await;
    }
    let query = |under| TimeQuery { under: Some(path(under)), limit: 10, ..time_query(Clock::Modified) };
    let whole = TimeQuery { mime: Some(MimeFilter::Exact("no/such".into())), under: None, ..query("/") };
    let full_scan = rows(&fixture, &whole).await;
    assert!(full_scan > 6_000, "a scan of the whole index: {full_scan} rows");
    // The oldest files are in the small folder: the index has them last.
    for (title, cost) in [
        ("small folder", rows(&fixture, &query("/a!")).await),
        ("small folder, no such type", rows(&fixture, &TimeQuery { under: Some(path("/a!")), ..whole.clone() }).await),
        ("huge folder", rows(&fixture, &query("/a")).await),
        ("huge folder, ascending", rows(&fixture, &TimeQuery { ascending: true, ..query("/a") }).await),
        ("one creator", rows(&fixture, &TimeQuery { creator: Some("ava".into()), under: None, ..query("/") }).await),
    ] {
        assert!(cost <= 200, "{title}: {cost} rows");
    }
}
