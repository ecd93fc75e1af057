//! Users: made, changed, removed.

use rowdrive::auth::{AuthError, NewToken, NewUser, QuotaChange, UserChange};
use rowdrive::drive::{DriveError, Home};
use rowdrive::schema::account::{self, Quota, Usage};
use rowdrive::schema::rights::Right;
use rowdrive::schema::secret::TokenScope;
use rowdrive::table::{Change, Check, Column, ConditionalRow, Plan};

use super::fixture::{ADMIN, PASSWORD, World, grantee, log_in, new_user, old_password, path, rights, user};
use crate::drive::fixture::run;
use crate::drive::model::Op;

pub async fn of_two_first_users_one_is_made(world: World) {
    let (one, other) = tokio::join!(
        world.auth.make_first_user(new_user("tom")),
        world.auth.make_first_user(NewUser { admin: true, ..new_user("eva") }),
    );
    let made = [&one, &other].into_iter().filter(|made| made.is_ok()).count();
    assert_eq!(made, 1, "{one:?} {other:?}");
    let refused = if one.is_ok() { other } else { one };
    assert!(matches!(refused, Err(AuthError::UsersExist)), "{refused:?}");
    assert!(matches!(world.auth.make_first_user(new_user("max")).await, Err(AuthError::UsersExist)));
}

pub async fn a_drive_with_users_knows_no_anonymous_request(world: World) {
    let nobody = world.auth.anonymous().await.unwrap();
    assert!(world.auth.authority(&nobody).await.unwrap().is_admin());
    assert!(matches!(world.auth.add_user(&nobody, new_user("tom")).await, Err(AuthError::Forbidden)));
    let admin = world.admin().await;
    assert!(world.auth.authority(&admin).await.unwrap().is_admin(), "the first user is an admin");
    assert!(matches!(world.auth.authority(&nobody).await, Err(AuthError::Unauthorized)));
    assert!(matches!(world.auth.anonymous().await, Err(AuthError::Unauthorized)));
}

pub async fn names_that_look_the_same_are_given_once(world: World) {
    let admin = world.admin().await;
    let made = world.auth.add_user(&admin, NewUser { display: "Tom".into(), ..new_user("Tom") }).await.unwrap();
    assert_eq!((made.name.as_str(), made.profile.display.as_str(), made.profile.admin), ("Tom", "Tom", false));
    for same in ["tom", "ＴＯＭ", "Tom"] {
        assert!(matches!(world.auth.add_user(&admin, new_user(same)).await, Err(AuthError::NameTaken)), "{same}");
    }
    assert_eq!(world.auth.user(&admin, "tOM").await.unwrap(), made);
    assert!(matches!(world.auth.add_user(&admin, new_user("a/b")).await, Err(AuthError::Name(_))));
    let short = NewUser { password: "short".into(), ..new_user("eva") };
    assert!(matches!(world.auth.add_user(&admin, short).await, Err(AuthError::Password(_))));
    let names: Vec<String> = world.auth.users(&admin).await.unwrap().into_iter().map(|u| u.name.to_string()).collect();
    assert_eq!(names, ["Tom", ADMIN]);
}

/// His password takes a while to hash: meanwhile the admin may have been demoted.
pub async fn who_is_no_admin_any_more_does_not_learn_what_is_at_a_home(world: World) {
    let admin = world.admin().await;
    world.auth.add_user(&admin, NewUser { admin: true, ..new_user("eva") }).await.unwrap();
    let eva = world.session("eva").await.credential;
    let [one, other] =
        [world.auth.prepare_user(&eva, new_user("tom")).await, world.auth.prepare_user(&eva, new_user("max")).await];
    let demote = UserChange { admin: Some(false), ..UserChange::default() };
    world.auth.change_user(&admin, "eva", demote).await.unwrap();
    run(&world.drive, Op::Put("/homes/max", 1)).await.unwrap();
    world.mkdir("/homes/tom").await;
    let drive = world.drive.for_requester(world.auth.requester(eva));
    for (user, home) in [(one, "/homes/tom"), (other, "/homes/max")] {
        let made = drive.make_user(user.unwrap(), Home::New(path(home))).await;
        assert!(matches!(made, Err(DriveError::Forbidden)), "{made:?}");
    }
}

pub async fn a_removed_user_has_nothing_and_his_name_is_never_given_again(world: World) {
    let admin = world.admin().await;
    let tom = world.user(&admin, "tom").await;
    let token = world.token(&tom, NewToken::default()).await;
    world.mkdir("/a").await;
    world.give(&admin, "/a", "tom", &[Right::Write]).await;
    world.auth.remove_user(&admin, "tom").await.unwrap();
    assert!(!world.is_valid(&tom).await && !world.is_valid(&token).await);
    assert!(matches!(log_in(&world.auth, "tom", PASSWORD).await, Err(AuthError::Unauthorized)));
    assert!(matches!(world.auth.add_user(&admin, new_user("TOM")).await, Err(AuthError::NameTaken)));
    assert!(matches!(world.auth.user(&admin, "tom").await, Err(AuthError::NoUser)));
    assert!(matches!(world.auth.remove_user(&admin, "tom").await, Err(AuthError::NoUser)));
    assert_eq!(world.auth.users(&admin).await.unwrap().len(), 1);
    assert_eq!(world.auth.grants_on(&admin, &world.chain("/a").await).await.unwrap(), []);
    let chain = world.chain("/a").await;
    let given = world.auth.put_grant(&admin, &chain, &grantee("tom"), rights(&[Right::Read])).await;
    assert!(matches!(given, Err(AuthError::NoUser)), "{given:?}");
}

pub async fn who_is_made_an_admin_anew_has_his_new_password_alone(world: World) {
    let admin = world.admin().await;
    let tom = world.user(&admin, "tom").await;
    let token = world.token(&tom, NewToken::default()).await;
    world.mkdir("/a").await;
    world.give(&admin, "/a", "tom", &[Right::Read]).await;
    let disabled = UserChange { disabled: Some(true), ..UserChange::default() };
    world.auth.change_user(&admin, "tom", disabled).await.unwrap();
    assert!(matches!(world.auth.reset_admin("none", PASSWORD).await, Err(AuthError::NoUser)));
    assert!(matches!(world.auth.reset_admin("tom", "short").await, Err(AuthError::Password(_))));
    let reset = world.auth.reset_admin("TOM", "another horse").await.unwrap();
    assert!(reset.profile.is_enabled_admin());
    assert!(!world.is_valid(&tom).await && !world.is_valid(&token).await);
    assert!(matches!(log_in(&world.auth, "tom", PASSWORD).await, Err(AuthError::Unauthorized)));
    let tom = log_in(&world.auth, "tom", "another horse").await.unwrap();
    assert_eq!(world.auth.grants_on(&tom, &world.chain("/a").await).await.unwrap().len(), 1, "his grants stay");
    // He counts: the other one may go, and then he is the last.
    world.auth.remove_user(&tom, ADMIN).await.unwrap();
    assert!(matches!(world.auth.remove_user(&tom, "tom").await, Err(AuthError::LastAdmin)));
    world.auth.reset_admin("tom", PASSWORD).await.unwrap();
    assert!(matches!(world.auth.reset_admin(ADMIN, PASSWORD).await, Err(AuthError::NoUser)), "removed");
    assert!(world.auth.is_user("TOM").await.unwrap() && !world.auth.is_user(ADMIN).await.unwrap());
    let (summary, findings) = world.check(false).await;
    assert_eq!(summary.wrong + summary.strays, 0, "{findings:#?}");
}

pub async fn an_account_begins_with_the_usage_of_files_that_are_there(world: World) {
    let row = ConditionalRow {
        table: account::TABLE,
        row: grantee("tom").key(),
        checks: vec![Check::Absent(Column::new("cf", "stamp"))],
        changes: vec![Change::add("cf", "bytes", 300), Change::add("cf", "files", 2)],
    };
    world.tables.commit(Plan { guarded: vec![row], ..Plan::default() }).await.unwrap();
    let admin = world.admin().await;
    let quota = Quota { bytes: Some(1_000), files: None };
    world.auth.add_user(&admin, NewUser { quota, ..new_user("tom") }).await.unwrap();
    let tom = world.session("tom").await.credential;
    let usage = Usage { bytes: 300, files: 2 };
    assert_eq!(world.auth.usage(&tom).await.unwrap(), (usage, quota));
    assert_eq!(world.auth.user(&admin, "tom").await.unwrap().usage, usage);
}

pub async fn the_last_admin_stays(world: World) {
    let admin = world.admin().await;
    let demote = UserChange { admin: Some(false), ..UserChange::default() };
    let disable = UserChange { disabled: Some(true), ..UserChange::default() };
    for change in [&demote, &disable] {
        let refused = world.auth.change_user(&admin, ADMIN, change.clone()).await;
        assert!(matches!(refused, Err(AuthError::LastAdmin)), "{refused:?}");
    }
    assert!(matches!(world.auth.remove_user(&admin, ADMIN).await, Err(AuthError::LastAdmin)));
    let eva = world.user(&admin, "eva").await;
    let promote = UserChange { admin: Some(true), ..UserChange::default() };
    world.auth.change_user(&admin, "eva", promote).await.unwrap();
    world.auth.change_user(&admin, "eva", disable).await.unwrap();
    assert!(!world.is_valid(&eva).await);
    let refused = world.auth.change_user(&admin, ADMIN, demote.clone()).await;
    assert!(matches!(refused, Err(AuthError::LastAdmin)), "a disabled admin does not count: {refused:?}");
    let enable = UserChange { disabled: Some(false), ..UserChange::default() };
    world.auth.change_user(&admin, "eva", enable).await.unwrap();
    assert!(!world.auth.change_user(&admin, ADMIN, demote).await.unwrap().profile.admin);
    assert!(matches!(world.auth.users(&admin).await, Err(AuthError::Forbidden)));
}

pub async fn two_admins_who_remove_each_other_leave_one(world: World) {
    let admin = world.admin().await;
    world.auth.add_user(&admin, NewUser { admin: true, ..new_user("eva") }).await.unwrap();
    let eva = world.session("eva").await.credential;
    let (one, other) = tokio::join!(world.auth.remove_user(&admin, "eva"), world.auth.remove_user(&eva, ADMIN));
    assert_eq!([&one, &other].into_iter().filter(|removed| removed.is_ok()).count(), 1, "{one:?} {other:?}");
    assert_ne!(world.is_valid(&admin).await, world.is_valid(&eva).await);
}

pub async fn users_change_themselves_only_within_limits(world: World) {
    let admin = world.admin().await;
    let tom = world.user(&admin, "tom").await;
    let _eva = world.user(&admin, "eva").await;
    let display = UserChange { display: Some("Tom".into()), ..UserChange::default() };
    assert_eq!(world.auth.change_user(&tom, "tom", display.clone()).await.unwrap().profile.display, "Tom");
    assert!(matches!(world.auth.change_user(&tom, "eva", display).await, Err(AuthError::Forbidden)));
    for change in [
        UserChange { admin: Some(true), ..UserChange::default() },
        UserChange { disabled: Some(true), ..UserChange::default() },
        UserChange { quota: QuotaChange { bytes: Some(None), files: None }, ..UserChange::default() },
        UserChange { password: Some("new password".into()), ..UserChange::default() },
        UserChange {
            password: Some("new password".into()),
            old_password: Some(old_password("wrong password")),
            ..UserChange::default()
        },
    ] {
        let refused = world.auth.change_user(&tom, "tom", change.clone()).await;
        assert!(matches!(refused, Err(AuthError::Forbidden | AuthError::WrongPassword)), "{change:?}: {refused:?}");
    }
    assert!(matches!(world.auth.user(&tom, "eva").await, Err(AuthError::Forbidden)));
    assert_eq!(world.auth.user(&tom, "tom").await.unwrap().name, user("tom"));
    assert!(matches!(world.auth.users(&tom).await, Err(AuthError::Forbidden)));
    assert!(matches!(world.auth.add_user(&tom, new_user("max")).await, Err(AuthError::Forbidden)));
    assert!(matches!(world.auth.remove_user(&tom, "tom").await, Err(AuthError::Forbidden)));
}

pub async fn a_token_for_a_directory_changes_no_account(world: World) {
    let admin = world.admin().await;
    let dir = world.mkdir("/a").await;
    let scope = Some(TokenScope { dir, rights: rights(&[Right::Write]) });
    let token = world.token(&admin, NewToken { scope, ..NewToken::default() }).await;
    assert!(!world.auth.authority(&token).await.unwrap().is_admin());
    assert!(matches!(world.auth.add_user(&token, new_user("tom")).await, Err(AuthError::Forbidden)));
    assert!(matches!(world.auth.make_token(&token, NewToken::default()).await, Err(AuthError::Forbidden)));
    let display = UserChange { display: Some("x".into()), ..UserChange::default() };
    assert!(matches!(world.auth.change_user(&token, ADMIN, display).await, Err(AuthError::Forbidden)));
    let all = world.token(&admin, NewToken::default()).await;
    world.auth.add_user(&all, new_user("tom")).await.unwrap();
}
