//! A full disk: what takes rights away is possible, and nothing is made.

use std::sync::Arc;

use rowdrive::auth::{AuthError, NewToken, QuotaChange, UserChange};
use rowdrive::engines::memory::Memory;
use rowdrive::schema::rights::Right::{Read, Write};
use rowdrive::table::StoreError;

use super::fixture::{PASSWORD, World, grantee, log_in, new_user, old_password, rights, user};
use crate::stepwise::Stepwise;

fn is_full<T>(result: Result<T, AuthError>) -> bool {
    matches!(result, Err(AuthError::Store(StoreError::Full(_))))
}

#[tokio::test]
async fn on_a_full_disk_users_are_stopped_and_nothing_is_made() {
    let store = Stepwise::new(Arc::new(Memory::default()));
    let world = World::new((store.clone(), tempfile::tempdir().unwrap())).await;
    let admin = world.admin().await;
    let tom = world.user(&admin, "tom").await;
    world.user(&admin, "max").await;
    world.mkdir("/d").await;
    world.give(&admin, "/d", "tom", &[Read, Write]).await;
    let (auth, chain, none) = (&world.auth, world.chain("/d").await, UserChange::default());
    let give = |name: &str, what: &[_]| {
        let (to, what, chain, admin) = (grantee(name), rights(what), chain.clone(), admin.clone());
        async move { auth.put_grant(&admin, &chain, &to, what).await }
    };
    let login = log_in(auth, "max", PASSWORD).await.unwrap();
    store.full_from(Some(0));

    assert!(is_full(auth.add_user(&admin, new_user("eva")).await));
    assert!(is_full(auth.make_session(&login).await) && is_full(auth.make_token(&tom, NewToken::default()).await));
    assert!(is_full(give("tom", &[Read, Write]).await), "the same again");
    let display = UserChange { display: Some("Tom".into()), ..none.clone() };
    assert!(is_full(auth.change_user(&admin, "tom", display).await));

    assert!(!give("tom", &[Read]).await.unwrap());
    assert!(!world.may(&tom, "/d", Write).await && world.may(&tom, "/d", Read).await);
    assert!(is_full(give("tom", &[Read, Write]).await), "more");
    auth.delete_grant(&admin, &chain, &grantee("tom")).await.unwrap();
    assert!(!world.may(&tom, "/d", Read).await);
    let quota = UserChange { quota: QuotaChange { bytes: Some(Some(1)), files: None }, ..none.clone() };
    assert!(is_full(auth.change_user(&admin, "tom", UserChange { admin: Some(true), ..quota.clone() }).await));
    auth.change_user(&admin, "tom", quota).await.unwrap();
    let own = Some("my own horse".to_owned());
    let own = UserChange { password: own, old_password: Some(old_password(PASSWORD)), ..none.clone() };
    assert!(is_full(auth.change_user(&tom, "tom", own).await), "again and again it would fill the reserve");
    auth.revoke_sessions(&admin, &user("tom")).await.unwrap();
    assert!(!world.is_valid(&tom).await);
    assert!(is_full(auth.revoke_sessions(&admin, &user("tom")).await), "there is none");
    let password = UserChange { password: Some("another horse".into()), ..none.clone() };
    auth.change_user(&admin, "max", password).await.unwrap();
    assert!(!world.is_valid(&login).await);
    auth.change_user(&admin, "tom", UserChange { disabled: Some(true), ..none.clone() }).await.unwrap();
    assert!(is_full(auth.change_user(&admin, "tom", UserChange { disabled: Some(false), ..none }).await));
    auth.remove_user(&admin, "max").await.unwrap();
    auth.reset_admin("tom", PASSWORD).await.unwrap();
    store.full_from(None);
    world.user(&admin, "eva").await;
}
