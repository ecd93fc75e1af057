//! Uploads by a share: within its bytes, under a free name, and never after its end.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::{Stream, StreamExt, stream};
use rowdrive::auth::{Auth, Credential, NewShare, QuotaChange, UserChange};
use rowdrive::drive::{Condition, Drive, DriveError, ListQuery, Node, PutError, PutOptions, UserDrive, whole_body};
use rowdrive::engines::memory::Memory;
use rowdrive::schema::account::Usage;
use rowdrive::schema::rights::Right::{self, Read, Share, Write};
use rowdrive::schema::secret::SecretOwner;
use rowdrive::schema::share::ShareMode;
use rowdrive::schema::{Name, Timestamp};
use tokio::sync::Notify;

use super::base::Case;
use super::drive_races::chain;
use super::fixture::{World, grantee, now, pass_ms, path};
use crate::drive::fixture::{bytes, run};
use crate::drive::model::Op;
use crate::drive::usage::counters;

impl World {
    /// An admin, Tom, and a share of Tom's to upload so many bytes to `/p/a`.
    async fn with_upload_share(&self, limit: u64) -> [Credential; 3] {
        let admin = self.admin().await;
        let tom = self.user(&admin, "tom").await;
        self.drive.unrestricted().mkdir(&path("/p/a"), "root", true).await.unwrap();
        self.give(&admin, "/p", "tom", &[Write, Share]).await;
        let share = share_of(&self.auth, &self.drive, &tom, limit).await;
        [admin, tom, share]
    }

    fn by(&self, credential: &Credential) -> UserDrive {
        self.drive.for_requester(self.auth.requester(credential.clone()))
    }

    async fn used(&self, share: &Credential) -> u64 {
        self.auth.authority(share).await.unwrap().share().unwrap().used
    }
}

async fn share_of(auth: &Auth, drive: &Drive, by: &Credential, limit: u64) -> Credential {
    share_until(auth, drive, by, (limit, None)).await
}

async fn share_until(
    auth: &Auth,
    drive: &Drive,
    by: &Credential,
    (limit, expires): (u64, Option<Timestamp>),
) -> Credential {
    let target = drive.for_requester(auth.requester(by.clone())).share_target(&path("/p/a")).await;
    let (chain, target) = target.unwrap();
    let mode = ShareMode::Upload { bytes: limit };
    let (made, _) = auth.make_share(by, &chain, NewShare { target, mode, expires, password: None }).await.unwrap();
    auth.find_share(&made.text).await.unwrap()
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// The creator is the maker, whoever is said to be.
fn options() -> PutOptions {
    PutOptions::new("image/png", "somebody")
}

/// An upload whose length is told.
async fn add(drive: &UserDrive, at: &str, size: usize) -> Result<(), DriveError> {
    let options = PutOptions { length: Some(size as u64), ..options() };
    drive.add(&name(at), options, whole_body(bytes(size))).await.map(|_| ()).map_err(DriveError::from)
}

/// The files of a directory, each with its size; none if it is not there.
async fn files(drive: &Drive, at: &str) -> Vec<(String, u64)> {
    let query = ListQuery { kind: None, prefix: String::new(), after: None, limit: 1_000 };
    let listing = match drive.unrestricted().list(&path(at), &query).await {
        Err(DriveError::NotFound | DriveError::ParentMissing) => return Vec::new(),
        listing => listing.unwrap(),
    };
    let file = |node: Node| match node {
        Node::File { path, entry } => Some((path.last().to_owned(), entry.attributes.size)),
        Node::Directory { .. } => None,
    };
    listing.nodes.into_iter().filter_map(file).collect()
}

pub async fn uploads_at_once_of_one_name_all_live_within_the_bytes_of_their_share(world: World) {
    let [_, tom, share] = world.with_upload_share(5_500).await;
    let drive = world.by(&share);
    let all = join_all((0..32).map(|_| add(&drive, "f.jpg", 1_000))).await;
    let stored = all.iter().filter(|one| one.is_ok()).count();
    assert!(all.iter().all(|one| matches!(one, Ok(()) | Err(DriveError::Quota))), "{all:?}");
    assert_eq!((stored, world.used(&share).await), (5, 5_000));
    let expected = (2..6).map(|n| format!("f ({n}).jpg")).chain(["f.jpg".into()]).map(|name| (name, 1_000));
    assert_eq!(files(&world.drive, "/p/a").await, expected.collect::<Vec<_>>());
    // The rest exactly, and then empty files.
    assert!(matches!(add(&drive, "more", 501).await, Err(DriveError::Quota)));
    add(&drive, "rest", 500).await.unwrap();
    assert!(matches!(add(&drive, "more", 1).await, Err(DriveError::Quota)));
    add(&drive, "empty", 0).await.unwrap();
    assert_eq!(world.used(&share).await, 5_500);
    let usage = world.auth.usage(&tom).await.unwrap().0;
    assert_eq!(usage, Usage { bytes: 5_500, files: 7 }, "they are his");
    world.is_counted().await;
}

/// Many of one name, one after the other: the number is always the next one.
pub async fn the_next_number_is_found_among_many(world: World) {
    let [_, _, share] = world.with_upload_share(1 << 20).await;
    let drive = world.by(&share);
    for n in 1..=40 {
        add(&drive, "f", n).await.unwrap();
    }
    let mut expected: Vec<_> = (2..=40).map(|n| (format!("f ({n})"), n)).chain([("f".to_owned(), 1)]).collect();
    expected.sort();
    assert_eq!(files(&world.drive, "/p/a").await, expected);
    // A gap is filled or not, and nothing is replaced.
    world.drive.unrestricted().delete(&path("/p/a/f (7)"), &Condition::default()).await.unwrap();
    add(&drive, "f", 100).await.unwrap();
    assert_eq!(files(&world.drive, "/p/a").await.len(), 40);
}

pub async fn the_quota_of_its_maker_bounds_a_share(world: World) {
    let [admin, tom, share] = world.with_upload_share(1 << 20).await;
    let (drive, of_tom) = (world.by(&share), world.by(&tom));
    let set = async |bytes, files| {
        let quota = QuotaChange { bytes: Some(bytes), files: Some(files) };
        world.auth.change_user(&admin, "tom", UserChange { quota, ..UserChange::default() }).await.unwrap();
    };
    set(Some(1_000), Some(3)).await;
    assert!(matches!(add(&drive, "f", 1_001).await, Err(DriveError::Quota)));
    add(&drive, "f", 600).await.unwrap();
    let own = PutOptions { length: Some(300), ..PutOptions::new("image/png", "tom") };
    of_tom.put(&path("/p/own"), own, whole_body(bytes(300))).await.unwrap();
    assert!(matches!(add(&drive, "f", 101).await, Err(DriveError::Quota)));
    add(&drive, "f", 100).await.unwrap();
    assert!(matches!(add(&drive, "f", 0).await, Err(DriveError::Quota)), "too many files");
    assert_eq!(world.used(&share).await, 700);
    set(None, None).await;
    let all = join_all((0..8).map(|_| add(&drive, "f", 100))).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    set(None, Some(13)).await;
    let all = join_all((0..8).map(|_| add(&drive, "f", 100))).await;
    assert_eq!(all.iter().filter(|one| one.is_ok()).count(), 2, "{all:?}");
    assert_eq!(world.used(&share).await, 700 + 10 * 100, "what was refused is not counted");
    world.is_counted().await;
}

/// A body that waits for its end.
fn slow(size: usize, reached: Arc<Notify>, go: Arc<Notify>) -> impl Stream<Item = Result<Bytes, ()>> {
    stream::iter([true, false]).then(move |is_first| {
        let (reached, go) = (reached.clone(), go.clone());
        async move {
            if !is_first {
                reached.notify_one();
                go.notified().await;
            }
            Ok(Bytes::from(vec![7; size / 2]))
        }
    })
}

pub async fn an_upload_under_way_holds_the_bytes_of_its_share_until_its_end(world: World) {
    let [_, _, share] = world.with_upload_share(1_000_000).await;
    let (go, reached) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let begin = |length: Option<u64>| {
        let (drive, body) = (world.by(&share), slow(600_000, reached.clone(), go.clone()));
        tokio::spawn(async move { drive.add(&name("slow"), PutOptions { length, ..options() }, body).await })
    };
    let drive = world.by(&share);
    // What has come, and not what was told: a client could tell much, and send it slowly.
    let first = begin(Some(1_000_000));
    reached.notified().await;
    assert!(matches!(add(&drive, "f", 700_001).await, Err(DriveError::Quota)));
    let body = stream::iter([Ok::<_, ()>(Bytes::new())]);
    let told = drive.add(&name("f"), PutOptions { length: Some(700_000), ..options() }, body).await;
    told.unwrap();
    // Its client leaves: then nothing is held any more, and another one finds room.
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    let other = begin(Some(600_000));
    reached.notified().await;
    go.notify_one();
    other.await.unwrap().unwrap();
    // What is deleted was uploaded all the same.
    world.drive.unrestricted().delete(&path("/p/a/slow"), &Condition::default()).await.unwrap();
    assert!(matches!(add(&drive, "f", 400_001).await, Err(DriveError::Quota)));
    // The same without a length.
    let first = begin(None);
    reached.notified().await;
    assert!(matches!(add(&drive, "f", 100_001).await, Err(DriveError::Quota)));
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    add(&drive, "f", 400_000).await.unwrap();
    assert_eq!(world.used(&share).await, 1_000_000);
    let is_refused = |done: &Result<_, PutError<()>>| matches!(done, Err(PutError::Drive(DriveError::Quota)));
    let body = stream::iter([Ok(Bytes::from_static(b"x"))]);
    assert!(is_refused(&drive.add(&name("f"), options(), body).await));
    world.is_counted().await;
}

/// The other ends of a share come before any call of an upload: below.
pub async fn an_upload_is_not_stored_after_the_time_of_its_share(world: World) {
    let [_, tom, _] = world.with_upload_share(1_000).await;
    let expires = Timestamp::from_ms(now().ms() + 1_000);
    let share = share_until(&world.auth, &world.drive, &tom, (1_000, Some(expires))).await;
    let (go, reached) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    for (ms, is_stored) in [(999, true), (1, false)] {
        let (drive, body) = (world.by(&share), slow(100, reached.clone(), go.clone()));
        let upload = tokio::spawn(async move { drive.add(&name("f"), options(), body).await });
        reached.notified().await;
        pass_ms(ms);
        go.notify_one();
        let answer = upload.await.unwrap();
        let is_ended = matches!(answer, Err(PutError::Drive(DriveError::Unauthorized)));
        let is_right = if is_stored { answer.is_ok() } else { is_ended };
        assert!(is_right, "{ms}: {answer:?}");
        assert_eq!(files(&world.drive, "/p/a").await.len(), 1, "{ms}");
    }
    world.is_counted().await;
}

/// Its maker may all of this, and a stranger nothing.
pub async fn a_share_to_upload_allows_no_other_operation(world: World) {
    let [_, _, share] = world.with_upload_share(1 << 20).await;
    for op in [Op::Put("/p/a/f", 1), Op::Put("/p/a/d/g", 2), Op::Put("/p/x", 3)] {
        run(&world.drive, op).await.unwrap();
    }
    let drive = world.by(&share);
    let before = (files(&world.drive, "/p/a").await, files(&world.drive, "/p").await);
    let list = ListQuery { kind: None, prefix: String::new(), after: None, limit: 100 };
    for at in ["/", "/f", "/d", "/p/a", "/p/a/f", "/none"] {
        let at = &path(at);
        assert!(matches!(drive.stat(at).await, Err(DriveError::NotFound)), "{at}");
        assert!(matches!(drive.list(at, &list).await, Err(DriveError::NotFound)), "{at}");
        assert!(drive.open_file(at).await.is_err(), "{at}");
    }
    let Node::File { entry, .. } = world.drive.unrestricted().stat(&path("/p/a/f")).await.unwrap() else { panic!() };
    for at in ["/f", "/p/a/f"] {
        assert!(matches!(drive.content(&path(at), &entry).await, Err(DriveError::NotFound)), "{at}");
    }
    let refused = |done: Result<(), DriveError>, what: &str| {
        assert!(matches!(done, Err(DriveError::NotFound | DriveError::Forbidden)), "{what}: {done:?}");
    };
    let (file, new) = (path("/p/a/f"), path("/p/a/new"));
    let put = drive.put(&new, PutOptions::new("image/png", "tom"), whole_body(bytes(5))).await;
    refused(put.map(|_| ()).map_err(DriveError::from), "put");
    refused(drive.mkdir(&new, "tom", true).await.map(|_| ()), "mkdir");
    refused(drive.delete(&file, &Condition::default()).await, "delete");
    refused(drive.delete_subtree(&path("/p/a/d")).await, "delete_subtree");
    refused(drive.rmdir(&path("/p/a/d")).await, "rmdir");
    refused(drive.move_node(&file, &new, false).await.map(|_| ()), "move");
    refused(drive.copy_node(&file, &new, false, "tom").await.map(|_| ()), "copy");
    refused(drive.check_below(&path("/p/a")).await, "check_below");
    // Nobody else adds by a share that he has not.
    let added = world.drive.unrestricted().add(&name("new"), options(), whole_body(bytes(5))).await;
    refused(added.map(|_| ()).map_err(DriveError::from), "without a share");
    assert_eq!((files(&world.drive, "/p/a").await, files(&world.drive, "/p").await), before);
}

/// What another client does before any call of an upload of 20 bytes as `new`, by a share of 30 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rival {
    /// Moves the directory to where Tom has no right, and makes another one at its path.
    MoveOut,
    RevokeShare,
    RevokeWrite,
    Disable,
    End,
    Delete,
    /// Moves the directory, and makes another one at its path.
    Rename,
    /// Makes another directory at its path, and moves the directory into that.
    Nest,
    /// Puts the directory that is in it in its place, and it into that.
    Invert,
    /// Stores a file under the same name.
    Take,
    /// Makes a directory of the name.
    TakeDir,
    /// Sends another file of the name by the same share, of 10 bytes.
    Same,
    /// Sends one that leaves not enough bytes.
    Spend,
}

const RIVALS: [Rival; 13] = [
    Rival::MoveOut,
    Rival::RevokeShare,
    Rival::RevokeWrite,
    Rival::Disable,
    Rival::End,
    Rival::Delete,
    Rival::Rename,
    Rival::Nest,
    Rival::Invert,
    Rival::Take,
    Rival::TakeDir,
    Rival::Same,
    Rival::Spend,
];

impl Rival {
    /// Where the directory of the share is after it; none if it is gone.
    fn dir(self) -> &'static str {
        match self {
            Self::MoveOut => "/z",
            Self::Rename => "/p/n",
            Self::Nest => "/p/a/d",
            Self::Invert => "/p/a/e",
            _ => "/p/a",
        }
    }

    /// Whether nothing is stored by the share after it.
    fn ends(self) -> bool {
        matches!(
            self,
            Self::MoveOut
                | Self::RevokeShare
                | Self::RevokeWrite
                | Self::Disable
                | Self::End
                | Self::Delete
                | Self::Spend
        )
    }
}

/// A store with Tom's share of `/p/a`.
struct Base {
    store: Memory,
    admin: Credential,
    share: Credential,
}

impl Base {
    async fn new() -> Self {
        let memory = Arc::new(Memory::default());
        let world = World::new((memory.clone(), tempfile::tempdir().unwrap())).await;
        let [admin, _, share] = world.with_upload_share(30).await;
        run(&world.drive, Op::Put("/p/a/b/f", 1)).await.unwrap();
        world.drive.close().await;
        Self { store: (*memory).clone(), admin, share }
    }
}

/// Whether it has happened.
async fn act(base: &Base, auth: &Auth, drive: &Drive, rival: Rival) -> bool {
    let ops: &[Op] = match rival {
        Rival::MoveOut => &[Op::Move("/p/a", "/z", false), Op::Put("/p/a/f", 41)],
        Rival::Rename => &[Op::Move("/p/a", "/p/n", false), Op::Put("/p/a/f", 41)],
        Rival::Nest => &[Op::Move("/p/a", "/z", false), Op::Put("/p/a/f", 41), Op::Move("/z", "/p/a/d", false)],
        Rival::Invert => {
            &[Op::Move("/p/a/b", "/z", false), Op::Move("/p/a", "/z/e", false), Op::Move("/z", "/p/a", false)]
        }
        Rival::Delete => &[Op::Remove("/p/a")],
        Rival::Take => &[Op::New("/p/a/new", 42)],
        Rival::TakeDir => &[Op::Mkdir("/p/a/new")],
        _ => &[],
    };
    let mut is_done = true;
    for op in ops {
        is_done &= run(drive, *op).await.is_ok();
    }
    let give = async |rights: &[Right]| {
        let rights = rights.iter().copied().collect();
        auth.put_grant(&base.admin, &chain(drive, "/p").await, &grantee("tom"), rights).await.unwrap();
    };
    let by_share = drive.for_requester(auth.requester(base.share.clone()));
    match rival {
        Rival::RevokeShare => give(&[Read, Write]).await,
        Rival::RevokeWrite => give(&[Read, Share]).await,
        Rival::Disable => {
            let change = UserChange { disabled: Some(true), ..UserChange::default() };
            auth.change_user(&base.admin, "tom", change).await.unwrap();
        }
        Rival::End => {
            let SecretOwner { user, kind, id } = base.share.secret().unwrap();
            auth.revoke(&base.admin, user, *kind, *id).await.unwrap();
        }
        Rival::Same => is_done = add(&by_share, "new", 10).await.is_ok(),
        Rival::Spend => is_done = add(&by_share, "spent", 11).await.is_ok(),
        _ => {}
    }
    is_done
}

#[tokio::test]
async fn an_upload_by_a_share_is_stored_before_its_end_or_not_at_all() {
    let base = Arc::new(Base::new().await);
    let mut count = 0;
    for rival in RIVALS {
        for atomic in [false, true] {
            let (mut stored, mut refused) = (0, 0);
            for call in 1.. {
                match raced(&base, rival, call, atomic).await {
                    None => break,
                    Some(true) => stored += 1,
                    Some(false) => refused += 1,
                }
            }
            let most = if rival.ends() { refused } else { stored };
            assert!(most > 5, "{rival:?}: {stored} stored, {refused} refused");
            count += stored + refused;
        }
    }
    println!("{count} races");
}

/// Whether the upload was stored; none if it has no such call.
async fn raced(base: &Arc<Base>, rival: Rival, call: usize, atomic: bool) -> Option<bool> {
    let case = Case::on(&base.store, atomic).await;
    let store = case.fixture.store.clone();
    let ran: Arc<Mutex<Option<(bool, bool)>>> = Arc::default();
    let (theirs, auth, watcher, by) = (ran.clone(), case.rival.clone(), case.fixture.watcher.clone(), base.clone());
    store.once_before_call(store.calls() + call, move || async move {
        let was_there = watcher.unrestricted().stat(&path("/p/a/new")).await.is_ok();
        let done = act(&by, &auth, &watcher, rival).await;
        *theirs.lock().unwrap() = Some((was_there, done));
    });
    let answer = add(&case.drive(&base.share), "new", 20).await;
    let (was_there, rival_done) = ran.lock().unwrap().take()?;
    case.fixture.idle().await;
    let title = format!("{rival:?} before call {call}, atomic {atomic}: {answer:?}, {was_there}, {rival_done}");
    let is_stored = answer.is_ok();
    let mut found = files(&case.fixture.watcher, rival.dir()).await;
    found.retain(|(_, size)| *size == 20);
    let is_expected = match rival {
        // One of both is refused.
        Rival::Spend => !rival_done,
        _ => was_there || !rival.ends(),
    };
    assert_eq!(is_stored, is_expected, "{title}");
    use DriveError::{Forbidden, NotFound, Quota, Unauthorized};
    assert!(matches!(answer, Ok(()) | Err(Unauthorized | Forbidden | NotFound | Quota)), "{title}");
    let is_there = is_stored && rival != Rival::Delete;
    assert_eq!(found.len(), usize::from(is_there), "{title}: {found:?}");
    // It is nowhere else, and replaces nothing.
    if rival.dir() != "/p/a" {
        let other = files(&case.fixture.watcher, "/p/a").await;
        assert!(other.iter().all(|(_, size)| *size != 20), "{title}: {other:?}");
    }
    let taken: u64 = match rival {
        Rival::Take => 42,
        Rival::Same => 10,
        _ => 0,
    };
    if taken > 0 && rival_done {
        let there = files(&case.fixture.watcher, "/p/a").await;
        assert!(there.iter().any(|(_, size)| *size == taken), "{title}: {there:?}");
        let is_numbered = there.iter().any(|(name, size)| name == "new (2)" && [20, taken].contains(size));
        assert!(is_numbered, "{title}: {there:?}");
    }
    if rival == Rival::TakeDir && rival_done && !was_there {
        assert_eq!(found[0].0, "new (2)", "{title}");
    }
    let sums = counters(&case.fixture.tables).await;
    let of_tom = sums.get("tom").copied().unwrap_or_default();
    let others = match rival {
        Rival::Same if rival_done => 10,
        Rival::Spend if rival_done => 11,
        _ => 0,
    };
    assert_eq!(of_tom.bytes, 20 * i64::from(is_there) + others, "{title}");
    if let Ok(authority) = case.rival.authority(&base.share).await {
        let used = authority.share().unwrap().used;
        assert_eq!(used, 20 * u64::from(is_stored) + others as u64, "{title}");
    }
    Some(is_stored)
}
