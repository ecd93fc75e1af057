//! Where shares are made, and how many.

use futures_util::future::join_all;
use rowdrive::auth::{AuthError, NewShare};
use rowdrive::schema::share::ShareMode;

use super::fixture::{ADMIN, World, memory, pass_days, path, rocks, stepwise, user};
use super::secrets::entries;
use crate::drive::fixture::run;
use crate::drive::model::Op;

#[tokio::test]
async fn a_user_has_a_thousand_shares_and_those_that_have_expired_leave() {
    for store in [memory(), rocks()] {
        bound(World::new(store).await).await;
    }
}

async fn bound(world: World) {
    let admin = world.admin().await;
    world.mkdir("/photos").await;
    let before = entries(&world.tables).await;
    let once = world.share(&admin, "/photos", (Some(1), None)).await.unwrap();
    for _ in 0..997 {
        world.share(&admin, "/photos", (None, Some(1_000))).await.unwrap();
    }
    // Two at once do not both take the last place.
    let made = join_all((0..4).map(|_| world.share(&admin, "/photos", (None, Some(1_000))))).await;
    let refused = |made: &&Result<_, _>| matches!(made, Err(AuthError::TooManyShares(1_000)));
    assert_eq!((made.iter().filter(|made| made.is_ok()).count(), made.iter().filter(refused).count()), (2, 2));
    assert_eq!(entries(&world.tables).await, before + 1_000, "no more is stored than is valid");
    // One that is used up makes room for another.
    world.auth.count_download(&world.auth.find_share(&once.text).await.unwrap()).await.unwrap();
    assert_eq!(world.auth.remove_expired_secrets().await.unwrap(), 0, "that download may be under way");
    world.share(&admin, "/photos", (None, None)).await.unwrap();
    assert!(world.auth.find_share(&once.text).await.is_err());
    assert!(world.share(&admin, "/photos", (None, None)).await.is_err());
    pass_days(1);
    // Those that have expired leave with the next one, in steps, or at a start.
    world.share(&admin, "/photos", (None, None)).await.unwrap();
    assert_eq!(entries(&world.tables).await, before + 1_000 - 500 + 1);
    assert_eq!(world.auth.remove_expired_secrets().await.unwrap(), 499);
    assert_eq!(entries(&world.tables).await, before + 2);
    assert!(world.check(false).await.1.is_empty());
}

/// The caller walks the path again: another directory may be there by now.
#[tokio::test]
async fn no_share_is_made_on_a_directory_that_has_moved() {
    for store in [memory(), stepwise(), rocks()] {
        moved(World::new(store).await).await;
    }
}

async fn moved(world: World) {
    let admin = world.admin().await;
    let drive = world.drive.for_requester(world.auth.requester(admin.clone()));
    for (at, mode) in [
        ("/a", ShareMode::Read { downloads: None }),
        ("/a", ShareMode::Upload { bytes: 1_000 }),
        ("/a/f", ShareMode::Read { downloads: None }),
    ] {
        run(&world.drive, Op::Put("/a/f", 1)).await.unwrap();
        let before = entries(&world.tables).await;
        let (chain, target) = drive.share_target(&path(at)).await.unwrap();
        for op in [Op::Move("/a", "/b", false), Op::Put("/a/f", 2)] {
            run(&world.drive, op).await.unwrap();
        }
        let new = NewShare { target, mode, expires: None, password: None };
        let refused = world.auth.make_share(&admin, &chain, new.clone()).await;
        assert!(matches!(refused, Err(AuthError::Contended)), "{at}, {mode:?}: {refused:?}");
        assert_eq!(world.auth.shares(&admin, &user(ADMIN)).await.unwrap(), []);
        assert_eq!(entries(&world.tables).await, before, "no index entry is left");
        run(&world.drive, Op::Remove("/a")).await.unwrap();
        run(&world.drive, Op::Move("/b", "/a", false)).await.unwrap();
        let (made, _) = world.auth.make_share(&admin, &chain, new).await.unwrap();
        let owner = made.credential.secret().unwrap();
        world.auth.revoke(&admin, &owner.user, owner.kind, owner.id).await.unwrap();
    }
}
