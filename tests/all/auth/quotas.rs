//! What users have created is counted, and bounded by their quotas.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::{Stream, StreamExt, stream};
use rowdrive::auth::{Auth, Credential, NewUser, QuotaChange, UserChange};
use rowdrive::drive::{Condition, DriveError, Home, PutError, PutOptions, UserDrive, whole_body};
use rowdrive::schema::account::{Quota, Usage};
use rowdrive::schema::rights::Right;
use tokio::sync::Notify;

use super::base::Base;
use super::fixture::{ADMIN, World, new_user, path};
use crate::drive::fixture::bytes;
use crate::drive::usage::counters;

impl World {
    /// An admin, and Tom and Eva, who may write in `/t`, the admin's.
    async fn with_writers(&self) -> [Credential; 3] {
        let admin = self.admin().await;
        let [tom, eva] = [self.user(&admin, "tom").await, self.user(&admin, "eva").await];
        self.drive.unrestricted().mkdir(&path("/t"), ADMIN, true).await.unwrap();
        for name in ["tom", "eva"] {
            self.give(&admin, "/t", name, &[Right::Write]).await;
        }
        [admin, tom, eva]
    }

    fn drive_of(&self, by: &Credential) -> UserDrive {
        self.drive.for_requester(self.auth.requester(by.clone()))
    }

    async fn usage(&self, by: &Credential) -> Usage {
        self.auth.usage(by).await.unwrap().0
    }

    /// No sum is wrong.
    pub async fn is_counted(&self) {
        self.drive.idle().await;
        let (summary, findings) = self.check(false).await;
        assert_eq!(summary.wrong + summary.strays, 0, "{findings:#?}");
    }
}

async fn set_quota(auth: &Auth, admin: &Credential, name: &str, bytes: Option<u64>, files: Option<u64>) {
    let quota = QuotaChange { bytes: Some(bytes), files: Some(files) };
    let changed = auth.change_user(admin, name, UserChange { quota, ..UserChange::default() }).await.unwrap();
    assert_eq!(changed.profile.quota, Quota { bytes, files });
}

fn options(creator: &str) -> PutOptions {
    PutOptions::new("image/png", creator)
}

/// An upload whose length is told; whether it was refused by the quota.
async fn put(drive: &UserDrive, by: &str, at: &str, size: usize) -> Result<(), &'static str> {
    let options = PutOptions { length: Some(size as u64), ..options(by) };
    outcome(drive.put(&path(at), options, whole_body(bytes(size))).await.map_err(DriveError::from))
}

fn outcome<T>(done: Result<T, DriveError>) -> Result<(), &'static str> {
    match done {
        Ok(_) => Ok(()),
        Err(DriveError::Quota) => Err("quota"),
        Err(other) => panic!("{other:?}"),
    }
}

fn usage(bytes: i64, files: i64) -> Usage {
    Usage { bytes, files }
}

pub async fn of_many_uploads_at_once_none_passes_the_quota(world: World) {
    let [admin, tom, _] = world.with_writers().await;
    for (round, (bytes, files), size) in
        [(0, (Some(10_500), None), 1_000), (1, (None, Some(17)), 0), (2, (Some(600_000), Some(30)), 290_000)]
    {
        set_quota(&world.auth, &admin, "tom", bytes, files).await;
        let drive = world.drive_of(&tom);
        let stored = AtomicUsize::new(0);
        join_all((0..32).map(|n| {
            let (drive, stored, world, tom) = (&drive, &stored, &world, &tom);
            async move {
                if put(drive, "tom", &format!("/t/{round}-{n}"), size).await.is_ok() {
                    stored.fetch_add(1, Ordering::SeqCst);
                }
                let now = world.usage(tom).await;
                assert!(bytes.is_none_or(|limit| now.bytes <= limit as i64), "{now:?}");
                assert!(files.is_none_or(|limit| now.files <= limit as i64), "{now:?}");
            }
        }))
        .await;
        // Exactly as many as there is room for, the room of the rounds before included.
        let before = [0, 10, 17][round];
        let expected = [10, 17 - 10, 2][round];
        assert_eq!(stored.load(Ordering::SeqCst), expected, "round {round}");
        assert_eq!(world.usage(&tom).await.files, before + expected as i64);
    }
    world.is_counted().await;
}

pub async fn a_quota_lower_than_the_usage_refuses_only_what_adds(world: World) {
    let [admin, tom, eva] = world.with_writers().await;
    let (of_tom, of_eva) = (world.drive_of(&tom), world.drive_of(&eva));
    for (at, size) in [("/t/a", 1_000), ("/t/b", 500), ("/t/d/c", 10)] {
        put(&of_tom, "tom", at, size).await.unwrap();
    }
    put(&of_eva, "eva", "/t/eva", 5_000).await.unwrap();
    assert_eq!((world.usage(&tom).await, world.usage(&eva).await), (usage(1_510, 4), usage(5_000, 1)));
    set_quota(&world.auth, &admin, "tom", Some(100), Some(1)).await;
    for (at, size) in [("/t/new", 1), ("/t/new", 0), ("/t/a", 1_001), ("/t/eva", 1), ("/t/eva", 0), ("/t/n/x", 0)] {
        assert_eq!(put(&of_tom, "tom", at, size).await, Err("quota"), "{at} {size}");
    }
    assert_eq!(outcome(of_tom.mkdir(&path("/t/made"), "tom", true).await), Err("quota"));
    assert_eq!(outcome(of_tom.copy_node(&path("/t/b"), &path("/t/copy"), false, "tom").await), Err("quota"));
    assert_eq!(outcome(of_tom.copy_node(&path("/t/d"), &path("/t/e"), false, "tom").await), Err("quota"));
    assert_eq!(world.usage(&tom).await, usage(1_510, 4));
    // Others' changes are theirs, and what does not add is done.
    put(&of_eva, "eva", "/t/b", 20).await.unwrap();
    assert_eq!((world.usage(&tom).await, world.usage(&eva).await), (usage(1_010, 3), usage(5_020, 2)));
    put(&of_tom, "tom", "/t/a", 999).await.unwrap();
    of_tom.mkdir(&path("/t/d"), "tom", true).await.unwrap();
    of_tom.move_node(&path("/t/a"), &path("/t/d/a"), false).await.unwrap();
    of_tom.move_node(&path("/t/d"), &path("/t/e"), false).await.unwrap();
    of_tom.move_node(&path("/t/eva"), &path("/t/e/c"), true).await.unwrap();
    assert_eq!((world.usage(&tom).await, world.usage(&eva).await), (usage(999, 2), usage(5_020, 2)));
    of_tom.delete(&path("/t/b"), &Condition::default()).await.unwrap();
    of_tom.delete_subtree(&path("/t/e")).await.unwrap();
    world.drive.idle().await;
    assert_eq!((world.usage(&tom).await, world.usage(&eva).await), (usage(0, 0), usage(0, 0)));
    put(&of_tom, "tom", "/t/fits", 100).await.unwrap();
    world.is_counted().await;
}

/// A body of so many pieces, and how many of them were read.
fn pieces(count: usize, size: usize) -> (impl Stream<Item = Result<Bytes, ()>>, Arc<AtomicUsize>) {
    let read = Arc::new(AtomicUsize::new(0));
    let seen = read.clone();
    let body = stream::iter(0..count).map(move |_| {
        seen.fetch_add(1, Ordering::SeqCst);
        Ok(Bytes::from(vec![7; size]))
    });
    (body, read)
}

fn is_quota<T>(done: &Result<T, PutError<()>>) -> bool {
    matches!(done, Err(PutError::Drive(DriveError::Quota)))
}

pub async fn an_upload_is_refused_before_its_body_or_while_it_comes(world: World) {
    let [admin, tom, _] = world.with_writers().await;
    set_quota(&world.auth, &admin, "tom", Some(1_000_000), None).await;
    let drive = world.drive_of(&tom);
    let (body, read) = pieces(1, 1_000_001);
    let told = PutOptions { length: Some(1_000_001), ..options("tom") };
    assert!(is_quota(&drive.put(&path("/t/told"), told, body).await));
    assert_eq!(read.load(Ordering::SeqCst), 0, "its body is not read");
    let (body, read) = pieces(1_000, 10_000);
    assert!(is_quota(&drive.put(&path("/t/untold"), options("tom"), body).await));
    assert_eq!(read.load(Ordering::SeqCst), 101, "it is read as far as it fits");
    let (body, _) = pieces(100, 10_000);
    drive.put(&path("/t/fits"), options("tom"), body).await.unwrap();
    // A replacement adds what it is larger.
    let (body, read) = pieces(1_000, 10_000);
    assert!(is_quota(&drive.put(&path("/t/fits"), options("tom"), body).await));
    assert_eq!(read.load(Ordering::SeqCst), 101);
    let (body, _) = pieces(100, 10_000);
    drive.put(&path("/t/fits"), options("tom"), body).await.unwrap();
    let (body, read) = pieces(1, 1);
    assert!(is_quota(&drive.put(&path("/t/more"), options("tom"), body).await));
    assert_eq!(read.load(Ordering::SeqCst), 1);
    world.is_counted().await;
}

pub async fn uploads_under_way_count_until_they_end(world: World) {
    let [admin, tom, _] = world.with_writers().await;
    set_quota(&world.auth, &admin, "tom", Some(1_000_000), Some(3)).await;
    let drive = world.drive_of(&tom);
    let (go, reached) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let slow = |at: &'static str, length, is_whole: bool| {
        let (go, reached, drive) = (go.clone(), reached.clone(), drive.clone());
        tokio::spawn(async move {
            let body = stream::once(async move {
                reached.notify_one();
                go.notified().await;
                if is_whole { Ok(Bytes::from(vec![7; 600_000])) } else { Err(()) }
            });
            drive.put(&path(at), PutOptions { length, ..options("tom") }, body).await.map(|_| ())
        })
    };
    for (at, is_whole) in [("/t/broken", false), ("/t/whole", true)] {
        let first = slow(at, Some(600_000), is_whole);
        reached.notified().await;
        assert_eq!(put(&drive, "tom", "/t/x", 400_001).await, Err("quota"));
        let (body, read) = pieces(100, 100_000);
        assert!(is_quota(&drive.put(&path("/t/x"), options("tom"), body).await));
        assert_eq!(read.load(Ordering::SeqCst), 5, "with the length that the other one has told");
        put(&drive, "tom", "/t/x", 400_000).await.unwrap();
        drive.delete(&path("/t/x"), &Condition::default()).await.unwrap();
        go.notify_one();
        assert_eq!(first.await.unwrap().is_ok(), is_whole);
        assert_eq!(put(&drive, "tom", "/t/x", 400_001).await.is_ok(), !is_whole);
        let _there_or_not = drive.delete(&path("/t/x"), &Condition::default()).await;
    }
    // Files under way count too: one is there, and two more have begun.
    let begun = [slow("/t/1", Some(1), false), slow("/t/2", Some(1), false)];
    reached.notified().await;
    reached.notified().await;
    assert_eq!(put(&drive, "tom", "/t/3", 1).await, Err("quota"));
    go.notify_one();
    go.notify_one();
    for upload in begun {
        assert!(upload.await.unwrap().is_err());
    }
    put(&drive, "tom", "/t/3", 1).await.unwrap();
    world.is_counted().await;
}

/// Whoever begins a large upload of his own may be above the quota before it ends: it breaks off.
pub async fn an_upload_that_cannot_be_committed_any_more_breaks_off(world: World) {
    let [admin, tom, _] = world.with_writers().await;
    set_quota(&world.auth, &admin, "tom", Some(200 << 20), None).await;
    let drive = world.drive_of(&tom);
    let (auth, by, count) = (world.auth.clone(), admin.clone(), Arc::new(AtomicUsize::new(0)));
    let read = count.clone();
    let body = stream::unfold(0, move |n| {
        let (auth, by, read) = (auth.clone(), by.clone(), read.clone());
        async move {
            read.fetch_add(1, Ordering::SeqCst);
            if n == 2 {
                set_quota(&auth, &by, "tom", Some(1 << 20), None).await;
            }
            (n < 100).then(|| (Ok::<_, ()>(Bytes::from(vec![7; 1 << 20])), n + 1))
        }
    });
    let told = PutOptions { length: Some(100 << 20), ..options("tom") };
    assert!(is_quota(&drive.put(&path("/t/large"), told, body).await));
    assert_eq!(count.load(Ordering::SeqCst), 16, "16 MiB later");
    assert_eq!(world.usage(&tom).await, Usage::default());
    world.is_counted().await;
}

pub async fn a_home_is_counted_for_its_maker_and_files_for_a_removed_user(world: World) {
    let nobody = world.drive.for_requester(world.auth.nobody());
    put(&nobody, "tom", "/before", 30).await.unwrap();
    let first = world.auth.prepare_user(&Credential::nobody(), new_user(ADMIN)).await.unwrap();
    let made = nobody.make_user(first, Home::New(path("/home/root"))).await.unwrap();
    assert_eq!(made.usage, usage(0, 2), "the home, and the directory above it");
    let admin = world.session(ADMIN).await.credential;
    let tom = world.auth.prepare_user(&admin, new_user("tom")).await.unwrap();
    let made = world.drive_of(&admin).make_user(tom, Home::New(path("/home/tom"))).await.unwrap();
    assert_eq!(made.usage, usage(30, 1), "what was stored in his name before");
    assert_eq!(world.usage(&admin).await, usage(0, 3));
    set_quota(&world.auth, &admin, ADMIN, None, Some(3)).await;
    let max = world.auth.prepare_user(&admin, NewUser { admin: true, ..new_user("max") }).await.unwrap();
    let refused = world.drive_of(&admin).make_user(max, Home::New(path("/home/max"))).await;
    assert!(matches!(refused, Err(DriveError::Quota)), "{refused:?}");
    assert!(world.auth.user(&admin, "max").await.is_err());
    let tom = world.session("tom").await.credential;
    put(&world.drive_of(&tom), "tom", "/home/tom/f", 70).await.unwrap();
    world.auth.remove_user(&admin, "tom").await.unwrap();
    assert_eq!(counters(&world.tables).await["tom"], usage(100, 2), "his files stay, and count");
    world.drive_of(&admin).delete(&path("/home/tom/f"), &Condition::default()).await.unwrap();
    assert_eq!(counters(&world.tables).await["tom"], usage(30, 1));
    world.is_counted().await;
}

/// What another client does before a call of Tom's upload of 20 bytes, with a quota of 30.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rival {
    /// Tom uploads 20 bytes elsewhere.
    Upload,
    /// An admin lowers the quota to 10.
    Lower,
    /// Someone else stores a file at the same path.
    Other,
    /// Tom stores 25 bytes at the same path.
    Same,
}

#[tokio::test]
async fn no_change_before_any_call_of_an_upload_lets_it_pass_the_quota() {
    let base = Arc::new(Base::new().await);
    for rival in [Rival::Upload, Rival::Lower, Rival::Other, Rival::Same] {
        for atomic in [false, true] {
            let mut refused = 0;
            for call in 1.. {
                match raced(&base, rival, call, atomic).await {
                    None => break,
                    Some(was_refused) => refused += usize::from(was_refused),
                }
            }
            let may_refuse = matches!(rival, Rival::Upload | Rival::Lower);
            assert_eq!(refused > 3, may_refuse, "{rival:?}: {refused} refused");
        }
    }
}

/// Whether Tom's upload was refused; none if it has no such call.
async fn raced(base: &Arc<Base>, rival: Rival, call: usize, atomic: bool) -> Option<bool> {
    let case = base.on(atomic).await;
    set_quota(&case.rival, &base.admin, "tom", Some(30), None).await;
    let store = case.fixture.store.clone();
    let ran: Arc<Mutex<Option<(bool, bool)>>> = Arc::default();
    let (theirs, auth, watcher, base) = (ran.clone(), case.rival.clone(), case.fixture.watcher.clone(), base.clone());
    let tom = case.drive(&base.tom);
    store.once_before_call(store.calls() + call, move || async move {
        let drive = watcher.for_requester(auth.requester(base.tom.clone()));
        let was_there = watcher.unrestricted().stat(&path("/a/new")).await.is_ok();
        let done = match rival {
            Rival::Upload => put(&drive, "tom", "/a/other", 20).await.is_ok(),
            Rival::Same => put(&drive, "tom", "/a/new", 25).await.is_ok(),
            Rival::Other => put(&watcher.unrestricted(), "max", "/a/new", 50).await.is_ok(),
            Rival::Lower => {
                set_quota(&auth, &base.admin, "tom", Some(10), None).await;
                true
            }
        };
        *theirs.lock().unwrap() = Some((was_there, done));
    });
    let answer = put(&tom, "tom", "/a/new", 20).await;
    let (was_there, rival_done) = ran.lock().unwrap().take()?;
    case.fixture.idle().await;
    let title = format!("{rival:?} before call {call}: {answer:?}, {was_there}, {rival_done}");
    let sums = counters(&case.fixture.tables).await;
    let of_tom = sums.get("tom").copied().unwrap_or_default();
    match rival {
        Rival::Upload => assert_eq!((answer.is_ok(), of_tom.bytes), (!rival_done, 20), "{title}"),
        Rival::Lower => assert_eq!((answer.is_ok(), of_tom.bytes), (was_there, 20 * i64::from(was_there)), "{title}"),
        Rival::Other if was_there => assert_eq!(of_tom, Usage::default(), "{title}"),
        Rival::Same if was_there => assert_eq!(of_tom.bytes, 25, "{title}"),
        Rival::Other | Rival::Same => assert_eq!((answer, of_tom.bytes), (Ok(()), 20), "{title}"),
    }
    case.fixture.nothing_wrong().await;
    Some(answer.is_err())
}
