//! A change before any single call of a read by a share: the read answers as before the change, or as after it.
//!
//! Paths of a share begin at its directory, which is found by its id. So a change moves the directory, or puts another one
//! at its path, in the middle of the read.

use std::sync::Arc;

use futures_util::TryStreamExt;
use rowdrive::auth::{Auth, AuthError, Credential, NewShare, UserChange};
use rowdrive::content::ContentError;
use rowdrive::drive::{Drive, DriveError, ListQuery, Node, UserDrive};
use rowdrive::engines::memory::Memory;
use rowdrive::schema::rights::Right::{self, Read, Share};
use rowdrive::schema::secret::SecretOwner;
use rowdrive::schema::share::{ShareMode, ShareTarget};

use super::base::Case;
use super::fixture::{World, grantee, path};
use crate::drive::fixture::run;
use crate::drive::model::Op;

const TREE: &[Op] = &[Op::Put("/p/a/f", 1), Op::Put("/p/a/d/g", 2), Op::Put("/p/x", 3)];

/// A store with two shares of Tom's: of `/p/a`, and of `/p/a/f`.
struct Base {
    store: Memory,
    admin: Credential,
    of_dir: Credential,
    of_file: Credential,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rival {
    /// Moves the directory, and makes another one at its path, with the same names and a secret.
    Remake,
    /// Makes another directory at its path, and moves the directory into that, under the name `d`.
    Nest,
    /// Moves the directory away and back; another one is at its path meanwhile.
    Away,
    /// Stores a new version of the file.
    Replace,
    /// Moves the file, and stores another one at its path.
    MoveFile,
    Delete,
    /// Takes Tom's right to share back.
    Revoke,
    Disable,
    End,
}

const RIVALS: [Rival; 9] = [
    Rival::Remake,
    Rival::Nest,
    Rival::Away,
    Rival::Replace,
    Rival::MoveFile,
    Rival::Delete,
    Rival::Revoke,
    Rival::Disable,
    Rival::End,
];

impl Base {
    async fn new() -> Self {
        let memory = Arc::new(Memory::default());
        let world = World::new((memory.clone(), tempfile::tempdir().unwrap())).await;
        let admin = world.admin().await;
        let tom = world.user(&admin, "tom").await;
        for op in TREE {
            run(&world.drive, *op).await.unwrap();
        }
        world.give(&admin, "/p", "tom", &[Read, Share]).await;
        let drive = world.drive.for_requester(world.auth.requester(tom.clone()));
        let share = async |at: &str| {
            let (chain, target) = drive.share_target(&path(at)).await.unwrap();
            assert_eq!(matches!(target, ShareTarget::File(_)), at == "/p/a/f");
            let new = NewShare { target, mode: ShareMode::Read { downloads: None }, expires: None, password: None };
            let (made, _) = world.auth.make_share(&tom, &chain, new).await.unwrap();
            world.auth.find_share(&made.text).await.unwrap()
        };
        let (of_dir, of_file) = (share("/p/a").await, share("/p/a/f").await);
        world.drive.close().await;
        Self { store: (*memory).clone(), admin, of_dir, of_file }
    }

    async fn case(&self, atomic: bool) -> Case {
        Case::on(&self.store, atomic).await
    }
}

async fn act(admin: &Credential, share: &Credential, auth: &Auth, drive: &Drive, rival: Rival) {
    let ops: &[Op] = match rival {
        Rival::Remake => &[Op::Move("/p/a", "/z", false), Op::Put("/p/a/f", 41), Op::Put("/p/a/secret", 42)],
        Rival::Nest => &[Op::Move("/p/a", "/z", false), Op::Put("/p/a/f", 41), Op::Move("/z", "/p/a/d", false)],
        Rival::Away => &[
            Op::Move("/p/a", "/z", false),
            Op::Put("/p/a/f", 41),
            Op::Move("/p/a", "/y", false),
            Op::Move("/z", "/p/a", false),
        ],
        Rival::Replace => &[Op::Put("/p/a/f", 43)],
        Rival::MoveFile => &[Op::Move("/p/a/f", "/p/n", false), Op::Put("/p/a/f", 44)],
        Rival::Delete => &[Op::Remove("/p/a")],
        Rival::Revoke | Rival::Disable | Rival::End => &[],
    };
    for op in ops {
        run(drive, *op).await.unwrap();
    }
    match rival {
        Rival::Revoke => {
            let chain = super::drive_races::chain(drive, "/p").await;
            let rights = [Right::Read].into_iter().collect();
            auth.put_grant(admin, &chain, &grantee("tom"), rights).await.unwrap();
        }
        Rival::Disable => {
            let change = UserChange { disabled: Some(true), ..UserChange::default() };
            auth.change_user(admin, "tom", change).await.unwrap();
        }
        Rival::End => {
            let SecretOwner { user, kind, id } = share.secret().unwrap();
            auth.revoke(admin, user, *kind, *id).await.unwrap();
        }
        _ => {}
    }
}

/// What a share shows, as a text.
async fn ask(drive: &UserDrive, asked: &str) -> String {
    let (word, at) = asked.split_once(' ').unwrap();
    let found = match word {
        "stat" => drive.stat(&path(at)).await.map(|node| shown(&node)),
        "list" => {
            let query = ListQuery { kind: None, prefix: String::new(), after: None, limit: 100 };
            drive.list(&path(at), &query).await.map(|listing| listing.nodes.iter().map(shown).collect())
        }
        _ => read(drive, at).await,
    };
    match found {
        Ok(text) => text,
        Err(DriveError::NotFound | DriveError::Unauthorized | DriveError::ParentMissing) => "404".to_owned(),
        Err(DriveError::Contended) => "503".to_owned(),
        Err(error) => panic!("{asked}: {error:?}"),
    }
}

fn shown(node: &Node) -> String {
    match node {
        Node::File { path, entry } => format!("{path} {:?};", entry.attributes.digest),
        Node::Directory { path, .. } => format!("{path};"),
    }
}

/// As a download does.
async fn read(drive: &UserDrive, at: &str) -> Result<String, DriveError> {
    for _ in 0..4 {
        let Node::File { path, entry } = drive.stat(&path(at)).await? else { return Ok("directory".to_owned()) };
        match drive.content(&path, &entry).await {
            Err(DriveError::Content(ContentError::Gone(_))) => {}
            body => {
                let body = body?;
                let length = entry.attributes.size;
                let pieces: Vec<_> = body.stream(0, length).try_collect().await?;
                return Ok(format!("{pieces:?}"));
            }
        }
    }
    Err(DriveError::Contended)
}

/// The answers before the rival and after it.
async fn in_turn(base: &Base, share: &Credential, asked: &str, rival: Rival) -> [String; 2] {
    let case = base.case(true).await;
    let before = ask(&case.drive(share), asked).await;
    act(&base.admin, share, &case.rival, &case.fixture.watcher, rival).await;
    [before, ask(&case.drive(share), asked).await]
}

async fn races(asked: &[&str], is_file: bool) {
    let base = Arc::new(Base::new().await);
    let mut count = 0;
    for (asked, rival) in asked.iter().flat_map(|asked| RIVALS.into_iter().map(move |rival| (*asked, rival))) {
        let share = if is_file { base.of_file.clone() } else { base.of_dir.clone() };
        let expected = in_turn(&base, &share, asked, rival).await;
        for atomic in [false, true] {
            for call in 1.. {
                let case = base.case(atomic).await;
                let (store, done) = (case.fixture.store.clone(), Arc::new(std::sync::Mutex::new(false)));
                let (auth, watcher, seen) = (case.rival.clone(), case.fixture.watcher.clone(), done.clone());
                let (base, by) = (base.clone(), share.clone());
                store.once_before_call(store.calls() + call, move || async move {
                    act(&base.admin, &by, &auth, &watcher, rival).await;
                    *seen.lock().unwrap() = true;
                });
                let answer = ask(&case.drive(&share), asked).await;
                if !*done.lock().unwrap() {
                    assert!(call > 3, "{asked} has {call} calls");
                    break;
                }
                let is_right = expected.contains(&answer) || answer == "503";
                assert!(is_right, "{rival:?} before call {call} of {asked}: {answer}, expected {expected:?}");
                let again = ask(&case.drive(&share), asked).await;
                assert_eq!(again, expected[1], "{rival:?} before call {call} of {asked}, asked again");
                count += 1;
            }
        }
    }
    println!("{count} races");
}

#[tokio::test]
async fn a_share_of_a_directory_shows_what_is_in_it_before_or_after_a_change() {
    races(&["stat /f", "stat /secret", "stat /d/g", "stat /d/f", "list /", "list /d", "read /f"], false).await;
}

#[tokio::test]
async fn a_share_of_a_file_shows_it_before_or_after_a_change() {
    races(&["stat /f", "stat /n", "stat /secret", "list /", "read /f"], true).await;
}

/// Another one counts the last download before a call of the count of this one.
#[tokio::test]
async fn the_last_download_is_counted_once() {
    let memory = Arc::new(Memory::default());
    let world = World::new((memory.clone(), tempfile::tempdir().unwrap())).await;
    let admin = world.admin().await;
    run(&world.drive, Op::Put("/a/f", 1)).await.unwrap();
    let made = world.share(&admin, "/a/f", (Some(1), None)).await.unwrap();
    world.drive.close().await;
    for atomic in [false, true] {
        for call in 1.. {
            let case = Case::on(&memory, atomic).await;
            let share = case.auth.find_share(&made.text).await.unwrap();
            let (store, theirs) = (case.fixture.store.clone(), Arc::new(std::sync::Mutex::new(None)));
            let (rival, seen, by) = (case.rival.clone(), theirs.clone(), share.clone());
            store.once_before_call(store.calls() + call, move || async move {
                *seen.lock().unwrap() = Some(rival.count_download(&by).await.is_ok());
            });
            let counted = case.auth.count_download(&share).await;
            let Some(was_theirs) = theirs.lock().unwrap().take() else {
                assert!(call > 2, "{call} calls");
                break;
            };
            assert!(matches!(counted, Ok(()) | Err(AuthError::Unauthorized)), "{counted:?}");
            assert_eq!(
                usize::from(counted.is_ok()) + usize::from(was_theirs),
                1,
                "before call {call}, atomic {atomic}"
            );
        }
    }
}
