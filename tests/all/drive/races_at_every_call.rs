//! One operation runs whole before a single call of another: before each of its reads and each of its writes in
//! turn, with every threshold at 1, 2 and 3. The answers and what is seen are those of one after the other, at once
//! and after all clean-up; acknowledged writes stay, nothing is left over, and a check finds nothing.
//!
//! [`races`](super::races) does the same before each write, with late clean-up; here a rival also comes between
//! what an operation has read and what it writes upon it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use rowdrive::drive::{Drive, FilesAsk, FindAsk, ListAsk, Node, Settings, Thresholds};
use rowdrive::schema::time::Clock;

use super::model::{No, Op, View};
use super::world::{SETTINGS, World, content, find_all, path, refused, run, time_query};

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

/// What is asked while others change the drive.
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

/// Races that are under way at once: those who wait for each other wait together.
const AT_ONCE: usize = 24;

fn limits(threshold: usize) -> Settings {
    Settings { limits: Thresholds::all(threshold), turn: threshold, patience: Duration::from_millis(8), ..SETTINGS }
}

/// Whether all of the product is run: every threshold with every pair.
fn whole_product() -> bool {
    std::env::var_os("ROWDRIVE_EVERY_RACE").is_some()
}

/// Lets a rival run before the call of this number of what is to come. Its answer, once it has run.
fn before_call(world: &World, call: usize, rival: Op) -> Arc<Mutex<Option<Result<(), No>>>> {
    world.store.scan_row_by_row();
    let (drive, answer) = (world.drive.clone(), Arc::new(Mutex::new(None)));
    let theirs = answer.clone();
    world.store.once_before_call(world.store.calls() + call, move || async move {
        let done = run(&drive, rival).await;
        *theirs.lock().unwrap() = Some(done);
    });
    answer
}

/// The view after both, in this order, if these are their answers. Who gave up has done nothing.
fn one_by_one(before: &View, done: [(Op, Result<(), No>); 2]) -> Option<View> {
    let mut view = before.clone();
    for (op, answer) in done {
        match (answer, view.after(op)) {
            (Ok(()), Ok(after)) => view = after,
            (Err(No::Unknown), _) => {}
            (Err(no), Err(other)) if no == other => {}
            _ => return None,
        }
    }
    Some(view)
}

/// A copy reads its source at many instants and makes its target at others: no promise ties them. What it made are
/// versions that stood at its source, under their names, and nothing else differs from one order or the other.
fn is_a_copy(before: &View, copy: Op, rival: Op, theirs: Result<(), No>, seen: &View) -> bool {
    let Op::Copy(from, to, _) = copy else { return false };
    let after = match theirs {
        Ok(()) => before.after(rival),
        Err(_) => Ok(before.clone()),
    };
    let Ok(after) = after else { return false };
    // The rival may have changed the copy itself, or what stands there by now.
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

fn is_explained(before: &View, ours: (Op, Result<(), No>), theirs: (Op, Result<(), No>), seen: &View) -> bool {
    one_by_one(before, [ours, theirs]).as_ref() == Some(seen)
        || one_by_one(before, [theirs, ours]).as_ref() == Some(seen)
        || is_a_copy(before, ours.0, theirs.0, theirs.1, seen)
        || is_a_copy(before, theirs.0, ours.0, ours.1, seen)
}

/// One race. Whether there was a call of this number.
async fn race(before: &View, ours: Op, rival: Op, call: usize, threshold: usize) -> bool {
    let world = World::with(limits(threshold), SET_UP).await;
    let answer = before_call(&world, call, rival);
    let done = world.run(ours).await;
    let Some(theirs) = answer.lock().unwrap().take() else { return false };
    let title = format!("{rival:?} before call {call} of {ours:?}, thresholds {threshold}: {theirs:?}, {done:?}");
    let seen = world.view().await;
    assert!(is_explained(before, (ours, done), (rival, theirs), &seen), "{title}: {seen:?}\n{:#?}", world.store.log());
    world.idle().await;
    assert_eq!(world.view().await, seen, "{title}: after the clean-up\n{:#?}", world.store.log());
    world.nothing_left_over().await;
    true
}

/// Runs a race before every call. Returns how many there were.
async fn before_every_call<F>(race: impl Fn(usize) -> F) -> usize
where
    F: Future<Output = bool>,
{
    let mut count = 0;
    loop {
        // Some at a time: the number of calls is known when one finds none.
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
    let before = World::new(SET_UP).await.view().await;
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
async fn a_rival_before_any_call_of_a_change() {
    all_pairs(|op| !is_of_a_subtree(op)).await;
}

#[tokio::test]
async fn a_rival_before_any_call_of_a_change_of_a_whole_directory() {
    all_pairs(is_of_a_subtree).await;
}

/// Files by path and size, which tells their versions apart: two versions may be found at one path, each once.
type Files = BTreeSet<(String, usize)>;

/// What a reader got: names of directories, files with their versions.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Got {
    Listed(BTreeSet<String>, Files),
    Files(Files),
    No(No),
}

async fn read(drive: &Drive, reading: Reading) -> Got {
    let got = match reading {
        Reading::List(at) => list(drive, at).await,
        Reading::Time(under) => {
            let ask = FilesAsk { under: under.map(path), ..time_query(Clock::Modified) };
            drive.files(&ask).await.map(|found| Got::Files(files_of(found.nodes)))
        }
        Reading::Find(name) => {
            let ask = FindAsk { name: name.into(), prefix: false, ..find_all() };
            drive.find(&ask).await.map(|found| Got::Files(files_of(found.nodes)))
        }
        Reading::Open(at) => match drive.open_file(&path(at)).await {
            Ok(opened) => {
                let all = content(opened).await;
                assert_eq!(all, super::world::bytes(all.len()), "{at} holds other bytes");
                Ok(Got::Files(BTreeSet::from([(at.to_owned(), all.len())])))
            }
            Err(error) => Err(error),
        },
    };
    got.unwrap_or_else(|error| Got::No(refused(format!("{reading:?}"), error)))
}

fn files_of(nodes: Vec<Node>) -> Files {
    let count = nodes.len();
    let files: Files = nodes
        .into_iter()
        .map(|node| match node {
            Node::File { path, entry } => (path.to_string(), entry.attributes.size as usize),
            Node::Directory { path, .. } => panic!("{path} is a directory"),
        })
        .collect();
    assert_eq!(files.len(), count, "a file is shown twice: {files:?}");
    files
}

async fn list(drive: &Drive, at: &str) -> rowdrive::drive::Result<Got> {
    let ask = ListAsk { kind: None, prefix: String::new(), after: None, limit: 10_000 };
    let (mut dirs, mut files) = (BTreeSet::new(), BTreeSet::new());
    for node in drive.list(&path(at), &ask).await?.nodes {
        match node {
            Node::Directory { path, .. } => drop(dirs.insert(path.to_string())),
            Node::File { path, entry } => drop(files.insert((path.to_string(), entry.attributes.size as usize))),
        }
    }
    Ok(Got::Listed(dirs, files))
}

fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

/// What a reader gets of a drive that nobody changes.
fn expected(view: &View, reading: Reading) -> Got {
    let is_child = |path: &str, of: &str| is_below(path, of) && !path[of.len() + 1..].contains('/');
    let files = |wanted: &dyn Fn(&str) -> bool| -> Files {
        view.files.iter().filter(|(path, _)| wanted(path)).map(|(path, size)| (path.clone(), *size)).collect()
    };
    match reading {
        Reading::List(at) if !view.dirs.contains(at) => Got::No(No::NotFound),
        Reading::List(at) => {
            let dirs = view.dirs.iter().filter(|path| is_child(path, at)).cloned().collect();
            Got::Listed(dirs, files(&|path| is_child(path, at)))
        }
        Reading::Time(Some(under)) if !view.dirs.contains(under) => Got::No(No::NotFound),
        Reading::Time(under) => Got::Files(files(&|path| under.is_none_or(|under| is_below(path, under)))),
        Reading::Find(name) => Got::Files(files(&|path| path.rsplit('/').next() == Some(name))),
        Reading::Open(at) if view.files.contains_key(at) => Got::Files(files(&|path| path == at)),
        Reading::Open(at) if view.dirs.contains(at) => Got::No(No::Conflict),
        Reading::Open(_) => Got::No(No::NotFound),
    }
}

/// A query reads at many instants: each file as before or as after, once, and none missed that is found in both. Its
/// scope is a directory, wherever that has moved.
fn is_between(reading: Reading, copies: bool, got: &Got, views: [&View; 2]) -> bool {
    let (Reading::Time(_) | Reading::Find(_)) = reading else { return false };
    let Got::Files(got) = got else { return false };
    let found = views.map(|view| match expected(view, reading) {
        Got::Files(files) => files.into_iter().map(|(_, size)| size).collect(),
        _ => BTreeSet::new(),
    });
    let versions: BTreeSet<_> = got.iter().map(|(_, size)| *size).collect();
    (copies || versions.len() == got.len())
        && got.iter().all(|(path, size)| views.iter().any(|view| view.files.get(path) == Some(size)))
        && found[0].intersection(&found[1]).all(|size| versions.contains(size))
}

async fn race_of_a_reader(before: &View, reading: Reading, rival: Op, call: usize, threshold: usize) -> bool {
    let world = World::with(limits(threshold), SET_UP).await;
    // Walks are kept from a query before: they must not be used once something has moved.
    drop(read(&world.drive, reading).await);
    let answer = before_call(&world, call, rival);
    let got = read(&world.drive, reading).await;
    let Some(theirs) = answer.lock().unwrap().take() else { return false };
    let after = theirs.and_then(|()| before.after(rival)).unwrap_or_else(|_| before.clone());
    let title = format!("{rival:?} before call {call} of {reading:?}, thresholds {threshold}: {theirs:?}");
    let copies = matches!(rival, Op::Copy(..));
    let (was, is) = (expected(before, reading), expected(&after, reading));
    assert!(
        got == was || got == is || is_between(reading, copies, &got, [before, &after]),
        "{title}: {got:?}, not {was:?} nor {is:?}"
    );
    assert_eq!(read(&world.drive, reading).await, is, "{title}: asked again");
    world.idle().await;
    assert_eq!(read(&world.drive, reading).await, is, "{title}: after the clean-up");
    true
}

#[tokio::test]
async fn a_rival_before_any_call_of_a_reader() {
    let before = World::new(SET_UP).await.view().await;
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
