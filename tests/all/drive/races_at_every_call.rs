//! One operation runs completely before a single call of another: before each of its reads and each of its writes in
//! turn, with every threshold at 1, 2 and 3. The answers and the view are those of a sequential order, at once and
//! after all clean-up; acknowledged writes stay, nothing is left over, and a check finds nothing.
//!
//! [`races`](super::races) does the same before each write, with late clean-up. Here a rival operation also runs
//! between the reads of an operation and the write that depends on them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use rowdrive::drive::{Drive, ListQuery, NameQuery, Node, Settings, Thresholds, TimeQuery};
use rowdrive::schema::index::by_time::Clock;

use super::fixture::{Fixture, SETTINGS, content, find_all, path, path_and_size, refused, run, time_query};
use super::model::{Op, OpError, View};

const SET_UP: &[Op] =
    &[Op::Put("/a/f", 5), Op::Put("/a/c/g", 6), Op::Put("/a/c/h", 7), Op::Mkdir("/b"), Op::Mkdir("/e")];

const CHANGES: &[Op] = &[
    Op::Put("/a/f", 20),
    Op::Put("/a/c/x", 21),
    Op::New("/n/m/x", 22),
    Op::Mkdir("/a/c/d"),
    Op::Mkdir("/n"),
    Op::Rmdir("/e"),
    Op::Delete("/a/c/g"),
    Op::Move("/a/f", "/a/c/g", true),
    Op::Move("/a/c/h", "/e/h", false),
    Op::Move("/a", "/n", false),
    Op::Move("/a/c", "/b/c", false),
    Op::Move("/b", "/a/b", false),
    Op::Remove("/a"),
    Op::Remove("/a/c"),
    Op::Copy("/a/f", "/b/f", false),
    Op::Copy("/a", "/b/a", false),
];

/// A read that runs while others change the drive.
#[derive(Clone, Copy, Debug)]
enum Reading {
    List(&'static str),
    Time(Option<&'static str>),
    Find(&'static str),
    Open(&'static str),
}

const READINGS: &[Reading] = &[
    Reading::List("/a"),
    Reading::List("/a/c"),
    Reading::Time(None),
    Reading::Time(Some("/a")),
    Reading::Find("g"),
    Reading::Open("/a/f"),
    Reading::Open("/a/c/g"),
];

/// How many races run at once, so that their waits overlap.
const AT_ONCE: usize = 24;

fn limits(threshold: usize) -> Settings {
    Settings {
        limits: Thresholds::all(threshold),
        rows_per_step: threshold,
        lock_wait: Duration::from_millis(8),
        ..SETTINGS
    }
}

/// Whether the whole product runs: every threshold with every pair.
fn whole_product() -> bool {
    std::env::var_os("ROWDRIVE_EVERY_RACE").is_some()
}

/// Runs a rival before the call of this number, counted from now. Returns its answer, once it has run.
fn before_call(fixture: &Fixture, call: usize, rival: Op) -> Arc<Mutex<Option<Result<(), OpError>>>> {
    fixture.store.scan_row_by_row();
    let (drive, answer) = (fixture.drive.clone(), Arc::new(Mutex::new(None)));
    let theirs = answer.clone();
    fixture.store.once_before_call(fixture.store.calls() + call, move || async move {
        let done = run(&drive, rival).await;
        *theirs.lock().unwrap() = Some(done);
    });
    answer
}

/// The view after both operations in this order, if these are their answers. An operation that gave up has done
/// nothing.
fn one_by_one(before: &View, done: [(Op, Result<(), OpError>); 2]) -> Option<View> {
    let mut view = before.clone();
    for (op, answer) in done {
        match (answer, view.after(op)) {
            (Ok(()), Ok(after)) => view = after,
            (Err(OpError::Unknown), _) => {}
            (Err(no), Err(other)) if no == other => {}
            _ => return None,
        }
    }
    Some(view)
}

/// A copy reads its source and writes its target at many instants, and no promise connects them. It must consist of
/// versions that were at its source, under their names, and nothing else may differ from a sequential order.
fn is_a_copy(before: &View, copy: Op, rival: Op, theirs: Result<(), OpError>, seen: &View) -> bool {
    let Op::Copy(from, to, _) = copy else { return false };
    let after = match theirs {
        Ok(()) => before.after(rival),
        Err(_) => Ok(before.clone()),
    };
    let Ok(after) = after else { return false };
    // The rival may have changed the copy itself, or the current entry.
    let touched = |path: &str| path == to || path.starts_with(&format!("{to}/"));
    let moved_to = match rival {
        Op::Move(source, target, _) if to.starts_with(source) => Some(to.replacen(source, target, 1)),
        _ => None,
    };
    let in_copy = |path: &str| {
        touched(path) || moved_to.as_deref().is_some_and(|to| path == to || path.starts_with(&format!("{to}/")))
    };
    let outside = |view: &View| {
        let dirs: BTreeSet<_> = view.dirs.iter().filter(|path| !in_copy(path)).cloned().collect();
        let files: BTreeMap<_, _> =
            view.files.iter().filter(|(path, _)| !in_copy(path)).map(|(p, s)| (p.clone(), *s)).collect();
        (dirs, files)
    };
    let source = |view: &View| -> BTreeSet<usize> {
        view.files
            .iter()
            .filter(|(path, _)| *path == from || path.starts_with(&format!("{from}/")))
            .map(|(_, s)| *s)
            .collect()
    };
    let versions: BTreeSet<usize> = source(before).union(&source(&after)).copied().collect();
    let copied = |path: &str, size: &usize| versions.contains(size) || after.files.get(path) == Some(size);
    outside(seen) == outside(&after) && seen.files.iter().filter(|(path, _)| in_copy(path)).all(|(p, s)| copied(p, s))
}

fn is_explained(
    before: &View,
    ours: (Op, Result<(), OpError>),
    theirs: (Op, Result<(), OpError>),
    seen: &View,
) -> bool {
    one_by_one(before, [ours, theirs]).as_ref() == Some(seen)
        || one_by_one(before, [theirs, ours]).as_ref() == Some(seen)
        || is_a_copy(before, ours.0, theirs.0, theirs.1, seen)
        || is_a_copy(before, theirs.0, ours.0, ours.1, seen)
}

/// Runs one race. Returns whether there was a call of this number.
async fn race(before: &View, ours: Op, rival: Op, call: usize, threshold: usize) -> bool {
    let fixture = Fixture::with(limits(threshold), SET_UP).await;
    let answer = before_call(&fixture, call, rival);
    let done = fixture.run(ours).await;
    let Some(theirs) = answer.lock().unwrap().take() else { return false };
    let title = format!("{rival:?} before call {call} of {ours:?}, thresholds {threshold}: {theirs:?}, {done:?}");
    let seen = fixture.view().await;
    assert!(
        is_explained(before, (ours, done), (rival, theirs), &seen),
        "{title}: {seen:?}\n{:#?}",
        fixture.store.log()
    );
    fixture.idle().await;
    assert_eq!(fixture.view().await, seen, "{title}: after the clean-up\n{:#?}", fixture.store.log());
    fixture.nothing_left_over().await;
    true
}

/// Runs a race before every call. Returns the number of calls.
async fn before_every_call<F>(race: impl Fn(usize) -> F) -> usize
where
    F: Future<Output = bool>,
{
    let mut count = 0;
    loop {
        // In groups: the number of calls is known only when a race finds no such call.
        let some = stream::iter(count + 1..=count + AT_ONCE).map(&race).buffered(AT_ONCE);
        let done: Vec<bool> = some.collect().await;
        let ran = done.iter().take_while(|ran| **ran).count();
        count += ran;
        if ran < AT_ONCE {
            return count;
        }
    }
}

fn thresholds(ours: usize, rival: usize) -> Vec<usize> {
    if whole_product() { vec![1, 2, 3] } else { vec![1 + (ours + rival) % 3] }
}

async fn all_pairs(which: impl Fn(Op) -> bool) {
    let before = Fixture::new(SET_UP).await.view().await;
    let mut races = 0;
    for (i, ours) in CHANGES.iter().enumerate().filter(|(_, op)| which(**op)) {
        for (j, rival) in CHANGES.iter().enumerate() {
            for threshold in thresholds(i, j) {
                races += before_every_call(|call| race(&before, *ours, *rival, call, threshold)).await;
            }
        }
    }
    println!("{races} races");
    assert!(races > 1_000, "only {races} races");
}

fn is_of_a_subtree(op: Op) -> bool {
    matches!(op, Op::Remove(_) | Op::Move("/a" | "/a/c" | "/b", ..))
}

#[tokio::test]
async fn a_concurrent_change_before_any_store_call_of_a_change() {
    all_pairs(|op| !is_of_a_subtree(op)).await;
}

#[tokio::test]
async fn a_concurrent_change_before_any_store_call_of_a_directory_change() {
    all_pairs(is_of_a_subtree).await;
}

/// Files by path and size. Two versions may be found at one path, each once.
type Files = BTreeSet<(String, usize)>;

/// The result of a read: names of directories, or files with their versions.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ReadResult {
    Listed(BTreeSet<String>, Files),
    Files(Files),
    No(OpError),
}

async fn read(drive: &Drive, reading: Reading) -> ReadResult {
    let got = match reading {
        Reading::List(at) => list(drive, at).await,
        Reading::Time(under) => {
            let query = TimeQuery { under: under.map(path), ..time_query(Clock::Modified) };
            drive.unrestricted().files_by_time(&query).await.map(|found| ReadResult::Files(files_of(found.nodes)))
        }
        Reading::Find(name) => {
            let query = NameQuery { name: name.into(), prefix: false, ..find_all() };
            drive.unrestricted().files_by_name(&query).await.map(|found| ReadResult::Files(files_of(found.nodes)))
        }
        Reading::Open(at) => match drive.unrestricted().open_file(&path(at)).await {
            Ok(opened) => {
                let all = content(opened).await;
                assert_eq!(all, super::fixture::bytes(all.len()), "{at} holds other bytes");
                Ok(ReadResult::Files(BTreeSet::from([(at.to_owned(), all.len())])))
            }
            Err(error) => Err(error),
        },
    };
    got.unwrap_or_else(|error| ReadResult::No(refused(format!("{reading:?}"), error)))
}

fn files_of(nodes: Vec<Node>) -> Files {
    let count = nodes.len();
    let files: Files = nodes.into_iter().map(path_and_size).collect();
    assert_eq!(files.len(), count, "a file is shown twice: {files:?}");
    files
}

async fn list(drive: &Drive, at: &str) -> rowdrive::drive::Result<ReadResult> {
    let query = ListQuery { kind: None, prefix: String::new(), after: None, limit: 10_000 };
    let (mut dirs, mut files) = (BTreeSet::new(), BTreeSet::new());
    for node in drive.unrestricted().list(&path(at), &query).await?.nodes {
        match node {
            Node::Directory { path, .. } => drop(dirs.insert(path.to_string())),
            Node::File { path, entry } => drop(files.insert((path.to_string(), entry.attributes.size as usize))),
        }
    }
    Ok(ReadResult::Listed(dirs, files))
}

fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

/// The result of a read on an unchanging drive.
fn expected(view: &View, reading: Reading) -> ReadResult {
    let is_child = |path: &str, of: &str| is_below(path, of) && !path[of.len() + 1..].contains('/');
    let files = |wanted: &dyn Fn(&str) -> bool| -> Files {
        view.files.iter().filter(|(path, _)| wanted(path)).map(|(path, size)| (path.clone(), *size)).collect()
    };
    match reading {
        Reading::List(at) if !view.dirs.contains(at) => ReadResult::No(OpError::NotFound),
        Reading::List(at) => {
            let dirs = view.dirs.iter().filter(|path| is_child(path, at)).cloned().collect();
            ReadResult::Listed(dirs, files(&|path| is_child(path, at)))
        }
        Reading::Time(Some(under)) if !view.dirs.contains(under) => ReadResult::No(OpError::NotFound),
        Reading::Time(under) => ReadResult::Files(files(&|path| under.is_none_or(|under| is_below(path, under)))),
        Reading::Find(name) => ReadResult::Files(files(&|path| path.rsplit('/').next() == Some(name))),
        Reading::Open(at) if view.files.contains_key(at) => ReadResult::Files(files(&|path| path == at)),
        Reading::Open(at) if view.dirs.contains(at) => ReadResult::No(OpError::Conflict),
        Reading::Open(_) => ReadResult::No(OpError::NotFound),
    }
}

/// A query reads at many instants: it shows each file once, as before or as after, and misses none that both views
/// contain. Its scope is a directory, even if that directory moves.
fn is_between(reading: Reading, copies: bool, got: &ReadResult, views: [&View; 2]) -> bool {
    let (Reading::Time(_) | Reading::Find(_)) = reading else { return false };
    let ReadResult::Files(got) = got else { return false };
    let found = views.map(|view| match expected(view, reading) {
        ReadResult::Files(files) => files.into_iter().map(|(_, size)| size).collect(),
        _ => BTreeSet::new(),
    });
    let versions: BTreeSet<_> = got.iter().map(|(_, size)| *size).collect();
    (copies || versions.len() == got.len())
        && got.iter().all(|(path, size)| views.iter().any(|view| view.files.get(path) == Some(size)))
        && found[0].intersection(&found[1]).all(|size| versions.contains(size))
}

async fn race_of_a_reader(before: &View, reading: Reading, rival: Op, call: usize, threshold: usize) -> bool {
    let fixture = Fixture::with(limits(threshold), SET_UP).await;
    // Paths are cached by an earlier query: they must not be used once a directory has moved.
    drop(read(&fixture.drive, reading).await);
    let answer = before_call(&fixture, call, rival);
    let got = read(&fixture.drive, reading).await;
    let Some(theirs) = answer.lock().unwrap().take() else { return false };
    let after = theirs.and_then(|()| before.after(rival)).unwrap_or_else(|_| before.clone());
    let title = format!("{rival:?} before call {call} of {reading:?}, thresholds {threshold}: {theirs:?}");
    let copies = matches!(rival, Op::Copy(..));
    let (was, is) = (expected(before, reading), expected(&after, reading));
    assert!(
        got == was || got == is || is_between(reading, copies, &got, [before, &after]),
        "{title}: {got:?}, not {was:?} nor {is:?}"
    );
    assert_eq!(read(&fixture.drive, reading).await, is, "{title}: asked again");
    fixture.idle().await;
    assert_eq!(read(&fixture.drive, reading).await, is, "{title}: after the clean-up");
    true
}

#[tokio::test]
async fn a_concurrent_change_before_any_store_call_of_a_reader() {
    let before = Fixture::new(SET_UP).await.view().await;
    let mut races = 0;
    for reading in READINGS {
        for rival in CHANGES {
            for threshold in [1, 2, 3] {
                races += before_every_call(|call| race_of_a_reader(&before, *reading, *rival, call, threshold)).await;
            }
        }
    }
    println!("{races} races");
    assert!(races > 1_000, "only {races} races");
}
