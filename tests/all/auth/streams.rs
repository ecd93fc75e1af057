//! Content that is sent only as long as its user may read it.

use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use rowdrive::auth::{Credential, NewToken, UserChange};
use rowdrive::drive::{DriveError, Node, PutOptions, UserDrive, whole_body};
use rowdrive::schema::rights::Right;

use super::fixture::{World, memory, path};
use crate::drive::fixture::run;
use crate::drive::model::Op;

const SIZE: usize = 20 << 20;

type Pieces = Pin<Box<dyn Stream<Item = Result<bytes::Bytes, DriveError>> + Send>>;

async fn begin(drive: &UserDrive, at: &str) -> Pieces {
    let at = path(at);
    let Node::File { entry, .. } = drive.stat(&at).await.unwrap() else { panic!("a directory") };
    let mut pieces = Box::pin(drive.content(&at, &entry).await.unwrap().stream(0, SIZE as u64));
    pieces.next().await.unwrap().unwrap();
    pieces
}

/// The bytes that still come, or why they do not.
async fn rest(mut pieces: Pieces) -> Result<usize, &'static str> {
    let mut bytes = 0;
    while let Some(piece) = pieces.next().await {
        bytes += match piece {
            Ok(piece) => piece.len(),
            Err(DriveError::NotFound) => return Err("404"),
            Err(DriveError::Unauthorized) => return Err("401"),
            Err(error) => panic!("{error:?}"),
        };
    }
    Ok(bytes)
}

#[tokio::test]
async fn a_download_breaks_off_within_seconds_of_the_end_of_its_right() {
    let world = World::new(memory()).await;
    let admin = world.admin().await;
    for name in ["tom", "max", "eva"] {
        world.user(&admin, name).await;
    }
    let login = async |name: &str| world.session(name).await.credential;
    let big = PutOptions::new("text/plain", "tom");
    for at in ["/a/b/f", "/c/f"] {
        world.drive.unrestricted().put(&path(at), big.clone(), whole_body(vec![1; SIZE])).await.unwrap();
    }
    world.give(&admin, "/a", "tom", &[Right::Read]).await;
    world.give(&admin, "/a", "max", &[Right::Read, Right::Share]).await;
    world.give(&login("max").await, "/a/b", "eva", &[Right::Read]).await;
    let tom = login("tom").await;
    let token = world.token(&tom, NewToken::default()).await;
    let drive = |by: &Credential| world.drive.for_requester(world.auth.requester(by.clone()));
    let begun = async |by: &Credential, at: &str| begin(&drive(by), at).await;

    // He may still, also where the directory has moved to, or where nobody else finds the file any more.
    let (all, moved) = (begun(&tom, "/a/b/f").await, begun(&tom, "/a/b/f").await);
    pass(6).await;
    assert!(rest(all).await.unwrap() > SIZE / 2);
    run(&world.drive, Op::Move("/a/b", "/a/x", false)).await.unwrap();
    pass(6).await;
    assert!(rest(moved).await.unwrap() > SIZE / 2);

    // His giver has the right no more; the directory is moved out of his; it is another one that is at the path.
    let (eva, out) = (login("eva").await, begun(&tom, "/a/x/f").await);
    let given = begun(&eva, "/a/x/f").await;
    let max = world.auth.grantee("max").await.unwrap();
    world.auth.delete_grant(&admin, &world.chain("/a").await, &max).await.unwrap();
    run(&world.drive, Op::Move("/a/x", "/h", false)).await.unwrap();
    world.mkdir("/a/x").await;
    pass(4).await;
    pass(2).await;
    assert_eq!((rest(given).await, rest(out).await), (Err("404"), Err("404")));

    // The grant, the token and the user end.
    run(&world.drive, Op::Move("/h", "/a/b", false)).await.unwrap();
    let (by_token, by_session) = (begun(&token, "/a/b/f").await, begun(&tom, "/a/b/f").await);
    let soon = begun(&tom, "/a/b/f").await;
    let owner = token.secret().unwrap();
    world.auth.revoke(&admin, &owner.user, owner.kind, owner.id).await.unwrap();
    let to_tom = world.auth.grantee("tom").await.unwrap();
    world.auth.delete_grant(&admin, &world.chain("/a").await, &to_tom).await.unwrap();
    pass(4).await;
    assert!(rest(soon).await.is_ok(), "nothing is asked for some seconds");
    pass(2).await;
    assert_eq!((rest(by_token).await, rest(by_session).await), (Err("401"), Err("404")));
    world.give(&admin, "/c", "tom", &[Right::Read]).await;
    let disabled = begun(&tom, "/c/f").await;
    let change = UserChange { disabled: Some(true), ..UserChange::default() };
    world.auth.change_user(&admin, "tom", change).await.unwrap();
    pass(6).await;
    assert_eq!(rest(disabled).await, Err("401"));
}

async fn pass(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

/// The last download of a share ends it, and is sent to its end.
#[tokio::test]
async fn a_download_by_a_share_breaks_off_with_the_share_but_not_by_its_count() {
    let world = World::new(memory()).await;
    let admin = world.admin().await;
    let tom = world.user(&admin, "tom").await;
    let big = PutOptions::new("text/plain", "tom");
    world.drive.unrestricted().put(&path("/a/f"), big, whole_body(vec![1; SIZE])).await.unwrap();
    world.give(&admin, "/a", "tom", &[Right::Read, Right::Share]).await;
    let drive = |by: &Credential| world.drive.for_requester(world.auth.requester(by.clone()));
    for at in ["/a", "/a/f"] {
        let share = async |downloads| {
            let made = world.share(&tom, at, (Some(downloads), None)).await.unwrap();
            world.auth.find_share(&made.text).await.unwrap()
        };
        let (once, ended) = (share(1).await, share(2).await);
        let (last, broken) = (begin(&drive(&once), "/f").await, begin(&drive(&ended), "/f").await);
        for by in [&once, &ended] {
            world.auth.count_download(by).await.unwrap();
        }
        assert!(matches!(drive(&once).stat(&path("/f")).await, Err(DriveError::Unauthorized)));
        assert!(world.auth.count_download(&once).await.is_err());
        let owner = ended.secret().unwrap();
        world.auth.revoke(&admin, &owner.user, owner.kind, owner.id).await.unwrap();
        pass(6).await;
        assert!(rest(last).await.unwrap() > SIZE / 2, "{at}");
        assert_eq!(rest(broken).await, Err("401"), "{at}");
    }
    // Its maker may not share any more.
    let made = world.share(&tom, "/a", (None, None)).await.unwrap();
    let share = world.auth.find_share(&made.text).await.unwrap();
    let begun = begin(&drive(&share), "/f").await;
    world.give(&admin, "/a", "tom", &[Right::Read]).await;
    pass(6).await;
    assert_eq!(rest(begun).await, Err("404"));
}

#[tokio::test]
async fn a_download_of_nobody_breaks_off_once_there_is_a_user() {
    let world = World::new(memory()).await;
    let big = PutOptions::new("text/plain", "tom");
    world.drive.unrestricted().put(&path("/f"), big, whole_body(vec![1; SIZE])).await.unwrap();
    let pieces = begin(&world.drive.for_requester(world.auth.nobody()), "/f").await;
    world.admin().await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(6)).await;
    tokio::time::resume();
    assert_eq!(rest(pieces).await, Err("401"));
}
