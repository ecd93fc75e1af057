//! How many shares a user has.

use futures_util::future::join_all;
use rowdrive::auth::{AuthError, Credential, NewSecret, NewShare};
use rowdrive::schema::Timestamp;
use rowdrive::schema::share::ShareMode;
use rowdrive::table::{RowQuery, RowRange, ScanQuery};

use super::fixture::{World, memory, now, pass_days, path, rocks};

/// Index entries of secrets.
async fn entries(world: &World) -> usize {
    let row_query = RowQuery::families(&["cf"]);
    let scan = ScanQuery { table: "secret", range: RowRange::all(), row_query, limit: 2_000, reverse: false };
    world.tables.scan(&scan).await.unwrap().len()
}

async fn share(world: &World, by: &Credential, new: (Option<u64>, Option<i64>)) -> Result<NewSecret, AuthError> {
    let drive = world.drive.for_requester(world.auth.requester(by.clone()));
    let (chain, target) = drive.share_target(&path("/photos")).await.unwrap();
    let (downloads, ms) = new;
    let expires = ms.map(|ms| Timestamp::from_ms(now().ms() + ms));
    let new = NewShare { target, mode: ShareMode::Read { downloads }, expires };
    Ok(world.auth.make_share(by, &chain, new).await?.0)
}

#[tokio::test]
async fn a_user_has_a_thousand_shares_and_those_that_have_ended_leave() {
    for store in [memory(), rocks()] {
        bound(World::new(store).await).await;
    }
}

async fn bound(world: World) {
    let admin = world.admin().await;
    world.mkdir("/photos").await;
    let before = entries(&world).await;
    let once = share(&world, &admin, (Some(1), None)).await.unwrap();
    for _ in 0..997 {
        share(&world, &admin, (None, Some(1_000))).await.unwrap();
    }
    // Two at once do not both take the last place.
    let made = join_all((0..4).map(|_| share(&world, &admin, (None, Some(1_000))))).await;
    let refused = |made: &&Result<_, _>| matches!(made, Err(AuthError::TooManyShares(1_000)));
    assert_eq!((made.iter().filter(|made| made.is_ok()).count(), made.iter().filter(refused).count()), (2, 2));
    assert_eq!(entries(&world).await, before + 1_000, "no more is stored than is valid");
    // What has served its last download makes room for one.
    world.auth.count_download(&world.auth.find_share(&once.text).await.unwrap()).await.unwrap();
    assert_eq!(world.auth.remove_ended_secrets().await.unwrap(), 0, "that download may be under way");
    share(&world, &admin, (None, None)).await.unwrap();
    assert!(world.auth.find_share(&once.text).await.is_err());
    assert!(share(&world, &admin, (None, None)).await.is_err());
    pass_days(1);
    // Those of which the time is over leave with the next one, in steps, or at a start.
    share(&world, &admin, (None, None)).await.unwrap();
    assert_eq!(entries(&world).await, before + 1_000 - 500 + 1);
    assert_eq!(world.auth.remove_ended_secrets().await.unwrap(), 499);
    assert_eq!(entries(&world).await, before + 2);
    assert!(world.check(false).await.1.is_empty());
}
