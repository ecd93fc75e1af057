//! A change of rights, or of the directories that they are bound to, before any single call of an operation of the drive.
//!
//! The operation answers as if it had run whole before the rival, or whole after it. Once the rival is answered, nothing
//! is committed that only the state before it allows.

use std::sync::{Arc, Mutex};

use rowdrive::auth::{Auth, DirChain, UserChange};
use rowdrive::drive::{Drive, Node};
use rowdrive::schema::DrivePath;
use rowdrive::schema::rights::Right;

use super::base::{Base, Case, ask};
use super::fixture::{grantee, path, rights};
use crate::drive::fixture::{run, view};
use crate::drive::model::{Op, View};

/// What an admin does in the middle of an operation of Tom's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rival {
    /// Takes Tom's grant on `/a` back.
    Revoke,
    Disable,
    /// Takes the grant on `/t` back from Max, who has given it to Tom.
    EndGiver,
    /// Moves `/a` away, and makes another one at the same path, with the same names.
    Remake,
    /// Moves `/a/c` to where Tom has no right.
    MoveOut,
    /// Takes Tom's grant on `/a` back, then stores a file in it that he must not see.
    Hide,
    /// The same for `/t`, by the grant of Max.
    HideFromGiver,
    /// The same in `/a/e`, which was empty.
    Fill,
    /// Removes what Tom does not see in `/h`, then lets him read `/h`.
    Unhide,
    /// Puts `/r`, which Tom may read, in the place of `/w`, with other names in it.
    Swap,
}

const RIVALS: [Rival; 5] = [Rival::Revoke, Rival::Disable, Rival::EndGiver, Rival::Remake, Rival::MoveOut];

const HIDING: [Rival; 2] = [Rival::Hide, Rival::HideFromGiver];

pub async fn chain(drive: &Drive, text: &str) -> DirChain {
    let (mut chain, mut at) = (DirChain::root(), DrivePath::root());
    for name in path(text).names() {
        at = at.join(&name).unwrap();
        let Node::Directory { entry, .. } = drive.unrestricted().stat(&at).await.unwrap() else { panic!("a file") };
        chain.push(at.clone(), entry.id);
    }
    chain
}

/// Whether the rival has done all that it does. It gives up if the operation has locked what it needs.
async fn act(base: &Base, auth: &Auth, drive: &Drive, rival: Rival) -> bool {
    match rival {
        Rival::Revoke => {
            let Ok(Node::Directory { .. }) = drive.unrestricted().stat(&path("/a")).await else { return false };
            let at = chain(drive, "/a").await;
            auth.delete_grant(&base.admin, &at, &grantee("tom")).await.unwrap();
            true
        }
        Rival::EndGiver => {
            let at = chain(drive, "/t").await;
            auth.delete_grant(&base.admin, &at, &grantee("max")).await.unwrap();
            true
        }
        Rival::Disable => {
            let change = UserChange { disabled: Some(true), ..UserChange::default() };
            auth.change_user(&base.admin, "tom", change).await.unwrap();
            true
        }
        Rival::Remake => {
            if run(drive, Op::Move("/a", "/z", false)).await.is_err() {
                return false;
            }
            for op in [Op::Put("/a/f", 40), Op::Put("/a/c/g", 41), Op::Mkdir("/a/e")] {
                run(drive, op).await.unwrap();
            }
            true
        }
        Rival::MoveOut => run(drive, Op::Move("/a/c", "/h/c", false)).await.is_ok(),
        Rival::Hide | Rival::HideFromGiver | Rival::Fill => {
            let (dir, holder, file) = match rival {
                Rival::Hide => ("/a", "tom", "/a/c/secret"),
                Rival::Fill => ("/a", "tom", "/a/e/secret"),
                _ => ("/t", "max", "/t/secret"),
            };
            // What was asked for may have made a directory of this name.
            if drive.unrestricted().stat(&path(file)).await.is_ok_and(|node| node.is_directory()) {
                return false;
            }
            auth.delete_grant(&base.admin, &chain(drive, dir).await, &grantee(holder)).await.unwrap();
            run(drive, Op::Put(file, 42)).await.unwrap();
            true
        }
        Rival::Swap => {
            for op in [Op::Move("/w", "/z", false), Op::Move("/r", "/w", false)] {
                if run(drive, op).await.is_err() {
                    return false;
                }
            }
            true
        }
        Rival::Unhide => {
            for op in [Op::Delete("/h/f"), Op::Remove("/h/d")] {
                run(drive, op).await.unwrap();
            }
            let at = chain(drive, "/h").await;
            auth.put_grant(&base.admin, &at, &grantee("tom"), rights(&[Right::Read])).await.unwrap();
            true
        }
    }
}

/// What was answered, and what is there then.
type Outcome = (String, View);

/// Both, one after the other.
async fn in_turn(base: &Base, asked: &str, rival: Rival, first: bool) -> Outcome {
    let case = base.case().await;
    if first {
        act(base, &case.rival, &case.fixture.watcher, rival).await;
    }
    let answer = ask(&case.drive(&base.tom), asked).await;
    if !first {
        act(base, &case.rival, &case.fixture.watcher, rival).await;
    }
    (answer, case.fixture.view().await)
}

/// An operation of Tom's with the rival before one of its calls.
struct Raced {
    case: Case,
    answer: String,
    /// Whether the rival has done all, and what was there when it was answered.
    rival: (bool, View),
}

/// None if the operation has no such call.
///
/// `twice`: of a read, which Tom has sent before: so it finds what the drive remembers of the directories.
async fn raced(base: &Arc<Base>, case: Case, (asked, twice): (&str, bool), rival: Rival, call: usize) -> Option<Raced> {
    let store = case.fixture.store.clone();
    let seen: Arc<Mutex<Option<(bool, View)>>> = Arc::default();
    let (auth, watcher, theirs) = (case.rival.clone(), case.fixture.watcher.clone(), seen.clone());
    let (tom, base) = (case.drive(&base.tom), base.clone());
    if twice {
        ask(&tom, asked).await;
    }
    store.once_before_call(store.calls() + call, move || async move {
        let done = act(&base, &auth, &watcher, rival).await;
        let after = view(&watcher).await;
        *theirs.lock().unwrap() = Some((done, after));
    });
    let answer = ask(&tom, asked).await;
    let rival = seen.lock().unwrap().take()?;
    Some(Raced { case, answer, rival })
}

/// Runs a race. None if the operation has no such call.
async fn race(
    base: &Arc<Base>,
    (asked, twice): (&str, bool),
    rival: Rival,
    call: usize,
    expected: &[Outcome; 3],
) -> Option<()> {
    let case = base.case().await;
    let Raced { case, answer, rival: (done, at_rival) } = raced(base, case, (asked, twice), rival, call).await?;
    case.fixture.idle().await;
    let found = (answer, case.fixture.view().await);
    let [before, after, alone] = expected;
    let is_right = if done {
        // The operation had happened when the rival was answered, or it is decided by the new state.
        (found == *before && at_rival == found.1) || found == *after || (found.0 == "503" && found.1 == at_rival)
    } else {
        found == *alone
    };
    let title = format!("{rival:?} before call {call} of {asked}: {done}");
    assert!(is_right, "{title}: {found:#?}, expected {expected:#?}\n{:#?}", case.fixture.store.log());
    case.fixture.nothing_left_over().await;
    Some(())
}

async fn races(asked: &[&str], rivals: &[Rival]) {
    races_of((asked, false), rivals).await;
}

/// Of reads, each sent once and sent again.
async fn races_of_reads(asked: &[&str], rivals: &[Rival]) {
    races_of((asked, false), rivals).await;
    races_of((asked, true), rivals).await;
}

async fn races_of((asked, twice): (&[&str], bool), rivals: &[Rival]) {
    let base = Arc::new(Base::new().await);
    let mut count = 0;
    for asked in asked {
        for rival in rivals.iter().copied() {
            let alone = {
                let case = base.case().await;
                let answer = ask(&case.drive(&base.tom), asked).await;
                (answer, case.fixture.view().await)
            };
            let expected = [in_turn(&base, asked, rival, false).await, in_turn(&base, asked, rival, true).await, alone];
            let mut call = 1;
            while race(&base, (asked, twice), rival, call, &expected).await.is_some() {
                call += 1;
            }
            assert!(call > 3, "{asked} has {call} calls");
            count += call - 1;
        }
    }
    println!("{count} races");
}

#[tokio::test]
async fn no_file_or_directory_is_changed_by_a_right_that_has_ended() {
    let changes = [
        "put /a/f",
        "put /a/c/x",
        "put /a/c/n/m/x",
        "mkdir /a/c/d",
        "delete /a/c/g",
        "rmdir /a/e",
        "move /a/f /t/f",
        "move /a/c/g /a/g",
        "copy /a/f /t/f",
        "copy /a/f /a/n",
        "copy /r/f /t/f",
    ];
    races(&changes, &RIVALS).await;
}

#[tokio::test]
async fn no_tree_is_moved_or_deleted_by_a_right_that_has_ended() {
    races(&["move /a/c /t/c", "move /a/c /a/e/c", "remove /a/c"], &RIVALS).await;
}

/// A read shows nothing that the requester could see neither before the rival nor after it.
#[tokio::test]
async fn no_read_shows_more_than_before_or_after() {
    races_of_reads(&["stat /a/c/g", "list /a/c", "list /", "open /a/f"], &RIVALS).await;
    races_of_reads(&["stat /a/c/secret", "list /a/c", "open /a/c/secret"], &[Rival::Hide]).await;
    races_of_reads(&["stat /t/secret", "list /t", "open /t/secret"], &[Rival::HideFromGiver]).await;
}

/// A refusal does not tell that something hidden was there, not even to one who may read it when it is gone.
#[tokio::test]
async fn no_refusal_tells_what_is_hidden() {
    let hidden = ["delete /h/f", "rmdir /h/d", "remove /h/d", "move /h/f /a/n", "move /h/d /a/n", "copy /h/f /a/n"];
    races(&hidden, &[Rival::Unhide]).await;
    races(&["delete /w/x/f", "remove /w/o", "move /w/x/f /a/n", "move /w/o /a/n"], &[Rival::Swap]).await;
}

/// A refusal does not tell what was stored after the end of the right.
#[tokio::test]
async fn no_refusal_tells_what_came_after_the_end_of_a_right() {
    let refused = [
        "mkdir /a/c/secret",
        "put /a/c/secret/x",
        "delete /a/c/secret",
        "move /a/f /a/c/secret",
        "move /a/c/g /a/c/secret",
        "move /a/e /a/c/secret",
        "copy /r/f /a/c/secret",
    ];
    races(&refused, &[Rival::Hide]).await;
    races(&["rmdir /a/e", "delete /a/e/secret"], &[Rival::Fill]).await;
}

/// The copy of a directory has many plans: what was copied before the end of the right stays. It has nothing that came
/// after that, and its answer does not say that it has all.
#[tokio::test]
async fn no_copy_of_a_directory_has_what_came_after_the_end_of_a_right() {
    let base = Arc::new(Base::new().await);
    let mut refused = 0;
    for call in 1.. {
        let case = base.case().await;
        // The directory that is copied last has a file: no other one is listed after it.
        run(&case.fixture.watcher, Op::Put("/a/e/i", 43)).await.unwrap();
        let (store, done) = (case.fixture.store.clone(), Arc::new(Mutex::new(false)));
        let (auth, watcher, seen, by) = (case.rival.clone(), case.fixture.watcher.clone(), done.clone(), base.clone());
        store.once_before_call(store.calls() + call, move || async move {
            auth.delete_grant(&by.admin, &chain(&watcher, "/a").await, &grantee("tom")).await.unwrap();
            for op in [Op::Mkdir("/a/secret"), Op::Mkdir("/a/c/secret"), Op::Put("/a/e/secret", 45)] {
                run(&watcher, op).await.unwrap();
            }
            *seen.lock().unwrap() = true;
        });
        let answer = ask(&case.drive(&base.tom), "copy /a /t/a").await;
        if !*done.lock().unwrap() {
            break;
        }
        let mut copied = String::new();
        for asked in ["list /t", "list /t/a", "list /t/a/c", "list /t/a/e"] {
            copied += &[&ask(&case.fixture.watcher.unrestricted(), asked).await, " "].concat();
        }
        let is_whole = ["/t/a/e/i", "/t/a/f", "/t/a/c/g", "/t/a/c/h"].iter().all(|at| copied.contains(at));
        let title = format!("before call {call}: {answer}, {copied}");
        assert!(!copied.contains("secret") && ["ok", "404"].contains(&answer.as_str()), "{title}");
        assert!(is_whole || answer != "ok", "{title}");
        refused += usize::from(answer != "ok");
    }
    assert!(refused > 10, "{refused}");
}

/// Asks with changes before two of the calls. Returns the answer, and whether there were both calls.
async fn away(base: &Base, asked: &str, [first, second]: [usize; 2]) -> (String, bool) {
    let case = base.on(true).await;
    let (store, seen) = (case.fixture.store.clone(), Arc::new(Mutex::new(0)));
    let calls = store.calls();
    let leave = &[Op::Move("/a", "/z", false), Op::Put("/a/secret", 44)];
    let come_back = &[Op::Move("/a", "/y", false), Op::Move("/z", "/a", false)];
    for (call, ops) in [(first, leave), (second, come_back)] {
        let (watcher, seen) = (case.fixture.watcher.clone(), seen.clone());
        store.once_before_call(calls + call, move || async move {
            for op in ops {
                run(&watcher, *op).await.unwrap();
            }
            *seen.lock().unwrap() += 1;
        });
    }
    let answer = ask(&case.drive(&base.tom), asked).await;
    let seen = *seen.lock().unwrap();
    (answer, seen == 2)
}

/// A directory that Tom may read leaves its path, and comes back to it; meanwhile another one is there.
#[tokio::test]
async fn no_read_shows_what_was_at_a_path_for_a_while() {
    let base = Base::new().await;
    let mut pairs = 0;
    for asked in ["list /a", "stat /a/secret", "open /a/secret", "time /a", "find /a"] {
        for second in 2.. {
            let before = pairs;
            for first in 1..second {
                let (answer, were_both) = away(&base, asked, [first, second]).await;
                assert!(!answer.contains("secret") && answer != "ok", "{first} and {second} of {asked}: {answer}");
                pairs += usize::from(were_both);
            }
            if pairs == before {
                break;
            }
        }
    }
    assert!(pairs > 30, "{pairs}");
}

/// A query reads at many instants: a file may be shown as before or as after the rival, but no other one.
#[tokio::test]
async fn no_query_shows_what_is_hidden() {
    let base = Arc::new(Base::new().await);
    let mut count = 0;
    let rivals = RIVALS.into_iter().chain(HIDING);
    for (asked, rival) in
        ["time", "find", "time /a", "find /a"].iter().flat_map(|asked| rivals.clone().map(move |rival| (asked, rival)))
    {
        let outcomes = [in_turn(&base, asked, rival, false).await, in_turn(&base, asked, rival, true).await];
        let shown: Vec<&str> = outcomes.iter().flat_map(|(answer, _)| answer.split(' ')).collect();
        for atomic in [false, true] {
            let mut call = 1;
            while let Some(Raced { answer, case, .. }) =
                raced(&base, base.on(atomic).await, (asked, false), rival, call).await
            {
                let is_right = answer.split(' ').all(|path| path == "503" || shown.contains(&path));
                assert!(is_right, "{rival:?} before call {call} of {asked}: {answer}, not of {shown:?}");
                let again = ask(&case.drive(&base.tom), asked).await;
                assert_eq!(again, outcomes[1].0, "{rival:?} before call {call} of {asked}, asked again");
                call += 1;
            }
            assert!(call > 3, "{asked} has {call} calls");
            count += call - 1;
        }
    }
    println!("{count} races");
}
