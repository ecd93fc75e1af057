//! Logins, sessions and tokens.

use futures_util::future::join_all;
use rowdrive::auth::{AuthError, Credential, NewToken, UserChange};
use rowdrive::schema::Timestamp;
use rowdrive::schema::rights::Right;
use rowdrive::schema::secret::SecretKind;
use rowdrive::table::{RowQuery, RowRange, ScanQuery, Tables};

use super::fixture::{ADMIN, PASSWORD, World, grantee, log_in, now, old_password, pass_days, user};

/// Index entries of secrets.
pub async fn entries(tables: &Tables) -> usize {
    let row_query = RowQuery::families(&["cf"]);
    let scan = ScanQuery { table: "secret", range: RowRange::all(), row_query, limit: 2_000, reverse: false };
    tables.scan(&scan).await.unwrap().len()
}

pub async fn a_login_needs_the_right_password_of_an_enabled_user(world: World) {
    let admin = world.admin().await;
    world.user(&admin, "tom").await;
    assert_eq!(log_in(&world.auth, "TOM", PASSWORD).await.unwrap().user(), Some(&user("tom")));
    for (name, password) in [("tom", "wrong password"), ("nobody", PASSWORD), ("*", PASSWORD), ("", ""), ("tom", "")] {
        let refused = log_in(&world.auth, name, password).await;
        assert!(matches!(refused, Err(AuthError::Unauthorized)), "{name} {password}: {refused:?}");
    }
    let login = log_in(&world.auth, "tom", PASSWORD).await.unwrap();
    assert!(world.is_valid(&login).await);
    let disable = UserChange { disabled: Some(true), ..UserChange::default() };
    world.auth.change_user(&admin, "tom", disable).await.unwrap();
    assert!(!world.is_valid(&login).await);
    assert!(matches!(log_in(&world.auth, "tom", PASSWORD).await, Err(AuthError::Unauthorized)));
}

/// Whether a request is valid by what was found of what it sends.
async fn proves(world: &World, found: Result<Credential, AuthError>) -> bool {
    match found {
        Ok(found) => world.is_valid(&found).await,
        Err(_) => false,
    }
}

/// Each is sent before and after each end, so it is known then.
pub async fn what_was_sent_before_proves_nothing_once_it_has_ended(world: World) {
    let admin = world.admin().await;
    let tom = world.user(&admin, "tom").await;
    let tokens =
        join_all((0..2).map(|_| async { world.auth.make_token(&tom, NewToken::default()).await.unwrap() })).await;
    let session = world.session("tom").await;
    let valid = async |password: &str| {
        let mut valid = Vec::new();
        for _ in 0..2 {
            valid.clear();
            for text in [&tokens[0].text, &tokens[1].text, &session.text] {
                valid.push(proves(&world, world.auth.find_secret(text).await).await);
            }
            valid.push(proves(&world, log_in(&world.auth, "tom", password).await).await);
        }
        valid
    };
    let change = async |change| world.auth.change_user(&admin, "tom", change).await.map(|_| ()).unwrap();
    assert_eq!(valid(PASSWORD).await, [true; 4]);
    world.auth.revoke(&tom, &user("tom"), SecretKind::Token, tokens[0].id).await.unwrap();
    assert_eq!(valid(PASSWORD).await, [false, true, true, true]);
    let disable = |disabled| UserChange { disabled: Some(disabled), ..UserChange::default() };
    change(disable(true)).await;
    assert_eq!(valid(PASSWORD).await, [false; 4]);
    change(disable(false)).await;
    assert_eq!(valid(PASSWORD).await, [false, true, false, true]);
    change(UserChange { password: Some("battery staple".into()), ..UserChange::default() }).await;
    assert_eq!(valid(PASSWORD).await, [false, true, false, false]);
    assert_eq!(valid("battery staple").await, [false, true, false, true]);
    world.auth.remove_user(&admin, "tom").await.unwrap();
    assert_eq!(valid("battery staple").await, [false; 4]);
}

/// As one whose download asks again all the time: each read finds more grants, and then fewer.
pub async fn a_credential_in_use_gets_and_loses_many_grants(world: World) {
    let admin = world.admin().await;
    let tom = world.user(&admin, "tom").await;
    let dirs: Vec<_> = (0..60).map(|n| format!("/many/{n}")).collect();
    for dir in &dirs {
        world.mkdir(dir).await;
        world.give(&admin, dir, "tom", &[Right::Read]).await;
        assert!(world.may(&tom, dir, Right::Read).await, "{dir}");
    }
    for dir in &dirs {
        world.auth.delete_grant(&admin, &world.chain(dir).await, &grantee("tom")).await.unwrap();
        assert!(!world.may(&tom, dir, Right::Read).await, "{dir}");
    }
    assert!(world.is_valid(&world.session("tom").await.credential).await);
}

pub async fn a_session_ends_when_it_is_not_used_and_after_ninety_days(world: World) {
    world.admin().await;
    let session = world.session(ADMIN).await;
    let found = world.auth.find_secret(&session.text).await.unwrap();
    assert_eq!(found.secret().unwrap().id, session.id);
    pass_days(13);
    assert!(world.is_valid(&found).await);
    let unused = world.session(ADMIN).await.credential;
    for _ in 0..6 {
        world.auth.note_use(&found, &world.auth.authority(&found).await.unwrap()).await.unwrap();
        pass_days(12);
        assert!(world.is_valid(&found).await);
    }
    assert!(!world.is_valid(&unused).await, "not used for 72 days");
    world.auth.note_use(&found, &world.auth.authority(&found).await.unwrap()).await.unwrap();
    pass_days(5);
    assert!(!world.is_valid(&found).await, "90 days after the login");
    let token = world.token(&world.session(ADMIN).await.credential, NewToken::default()).await;
    pass_days(1_000);
    assert!(world.is_valid(&token).await, "a token that does not expire");
}

pub async fn a_new_password_ends_the_other_sessions(world: World) {
    let admin = world.admin().await;
    let tom = world.user(&admin, "tom").await;
    let other = world.session("tom").await.credential;
    let login = log_in(&world.auth, "tom", PASSWORD).await.unwrap();
    let token = world.token(&tom, NewToken::default()).await;
    let password = Some("battery staple".to_owned());
    let old_password = Some(old_password(PASSWORD));
    let change = UserChange { password, old_password, ..UserChange::default() };
    world.auth.change_user(&tom, "tom", change).await.unwrap();
    assert!(world.is_valid(&tom).await, "the session of the request");
    assert!(!world.is_valid(&other).await && !world.is_valid(&login).await);
    assert!(world.is_valid(&token).await);
    assert!(log_in(&world.auth, "tom", PASSWORD).await.is_err());
    log_in(&world.auth, "tom", "battery staple").await.unwrap();
    // An admin needs no old password, and leaves no session.
    let change = UserChange { password: Some(PASSWORD.to_owned()), ..UserChange::default() };
    world.auth.change_user(&admin, "tom", change).await.unwrap();
    assert!(!world.is_valid(&tom).await);
    log_in(&world.auth, "tom", PASSWORD).await.unwrap();
}

pub async fn disabling_ends_sessions_and_stops_tokens(world: World) {
    let admin = world.admin().await;
    let tom = world.user(&admin, "tom").await;
    let token = world.token(&tom, NewToken::default()).await;
    for (disabled, is_token_valid) in [(true, false), (false, true)] {
        let change = UserChange { disabled: Some(disabled), ..UserChange::default() };
        world.auth.change_user(&admin, "tom", change).await.unwrap();
        assert!(!world.is_valid(&tom).await);
        assert_eq!(world.is_valid(&token).await, is_token_valid);
    }
}

pub async fn a_secret_that_was_ended_is_not_valid(world: World) {
    let admin = world.admin().await;
    let expires = Some(Timestamp::from_ms(now().ms() + 1));
    let short = world.auth.make_token(&admin, NewToken { expires, ..NewToken::default() }).await.unwrap();
    let token = world.auth.make_token(&admin, NewToken { name: "phone".into(), ..NewToken::default() }).await.unwrap();
    assert!(token.text.starts_with("rd_") && token.text.len() == 3 + 27, "160 bits");
    assert!(!format!("{token:?}").contains(&token.text));
    assert_eq!(entries(&world.tables).await, 3);
    let me = user(ADMIN);
    let names: Vec<_> = world.auth.secrets(&admin, &me, SecretKind::Token).await.unwrap();
    assert_eq!(names.iter().filter(|listed| listed.name == "phone" && listed.id == token.id).count(), 1);
    assert_eq!(names.len(), 2);
    world.auth.revoke(&admin, &me, SecretKind::Token, token.id).await.unwrap();
    assert!(matches!(world.auth.find_secret(&token.text).await, Err(AuthError::Unauthorized)));
    assert!(!world.is_valid(&token.credential).await);
    let again = world.auth.revoke(&admin, &me, SecretKind::Token, token.id).await;
    assert!(matches!(again, Err(AuthError::NoSecret(SecretKind::Token))), "{again:?}");
    assert!(world.is_valid(&short.credential).await);
    pass_days(1);
    assert!(!world.is_valid(&short.credential).await);
    assert_eq!(entries(&world.tables).await, 2);
}

pub async fn secrets_are_those_of_their_user(world: World) {
    let admin = world.admin().await;
    let (tom, eva) = (world.user(&admin, "tom").await, world.user(&admin, "eva").await);
    let token = world.auth.make_token(&tom, NewToken::default()).await.unwrap();
    for kind in [SecretKind::Session, SecretKind::Token] {
        assert!(matches!(world.auth.secrets(&eva, &user("tom"), kind).await, Err(AuthError::Forbidden)));
        assert_eq!(world.auth.secrets(&admin, &user("tom"), kind).await.unwrap().len(), 1);
    }
    let refused = world.auth.revoke(&eva, &user("tom"), SecretKind::Token, token.id).await;
    assert!(matches!(refused, Err(AuthError::Forbidden)), "{refused:?}");
    let foreign = world.auth.revoke(&eva, &user("eva"), SecretKind::Token, token.id).await;
    assert!(matches!(foreign, Err(AuthError::NoSecret(SecretKind::Token))), "{foreign:?}");
    assert!(world.is_valid(&token.credential).await);
    world.auth.revoke(&admin, &user("tom"), SecretKind::Token, token.id).await.unwrap();
    assert!(!world.is_valid(&token.credential).await && world.is_valid(&tom).await);
}

pub async fn no_session_is_made_for_an_old_password(world: World) {
    let admin = world.admin().await;
    world.user(&admin, "tom").await;
    let login = log_in(&world.auth, "tom", PASSWORD).await.unwrap();
    let change = UserChange { password: Some("battery staple".to_owned()), ..UserChange::default() };
    world.auth.change_user(&admin, "tom", change).await.unwrap();
    assert!(matches!(world.auth.make_session(&login).await, Err(AuthError::Unauthorized)));
}

pub async fn a_user_has_at_most_a_hundred_sessions_and_tokens(world: World) {
    let admin = world.admin().await;
    let tom = world.user(&admin, "tom").await;
    let login = log_in(&world.auth, "tom", PASSWORD).await.unwrap();
    // Its session is the oldest one.
    pass_days(1);
    let first = world.auth.make_session(&login).await.unwrap().credential;
    for _ in 0..98 {
        world.auth.make_session(&login).await.unwrap();
    }
    pass_days(1);
    world.auth.note_use(&first, &world.auth.authority(&first).await.unwrap()).await.unwrap();
    assert!(world.is_valid(&tom).await && world.is_valid(&first).await);
    let last = world.auth.make_session(&login).await.unwrap().credential;
    assert!(world.is_valid(&first).await && world.is_valid(&last).await, "it was used");
    assert!(!world.is_valid(&tom).await, "that which was used least recently has ended");
    let token = || NewToken { expires: Some(Timestamp::from_ms(now().ms() + 1)), ..NewToken::default() };
    for _ in 0..100 {
        world.auth.make_token(&login, token()).await.unwrap();
    }
    let refused = world.auth.make_token(&login, token()).await;
    assert!(matches!(refused, Err(AuthError::TooManyTokens(100))), "{refused:?}");
    // With those of the admin: no more is stored than is valid.
    assert_eq!(entries(&world.tables).await, 1 + 100 + 100);
    pass_days(100);
    let (session, kept) =
        (world.auth.make_session(&login).await.unwrap(), world.auth.make_token(&login, token()).await);
    assert!(world.is_valid(&session.credential).await && world.is_valid(&kept.unwrap().credential).await);
    assert_eq!(entries(&world.tables).await, 1 + 1 + 1, "what had ended has left");
    pass_days(1);
    assert_eq!(world.auth.remove_expired_secrets().await.unwrap(), 2);
    assert_eq!((entries(&world.tables).await, world.is_valid(&session.credential).await), (1, true));
    assert!(world.check(false).await.1.is_empty());
}

/// Two at once do not both take the last place.
pub async fn of_many_tokens_at_once_a_hundred_are_made(world: World) {
    let admin = world.admin().await;
    for _ in 0..98 {
        world.token(&admin, NewToken::default()).await;
    }
    let made = join_all((0..4).map(|_| world.auth.make_token(&admin, NewToken::default()))).await;
    let refused = |made: &&Result<_, AuthError>| matches!(made, Err(AuthError::TooManyTokens(_)));
    assert_eq!((made.iter().filter(|made| made.is_ok()).count(), made.iter().filter(refused).count()), (2, 2));
}

pub async fn a_token_makes_no_token_and_no_share_that_ends_after_it(world: World) {
    let admin = world.admin().await;
    let after = |ms: i64| Some(Timestamp::from_ms(now().ms() + ms));
    let maker = world.token(&admin, NewToken { expires: after(1_000), ..NewToken::default() }).await;
    for (asked, expires) in [(None, after(1_000)), (after(1_000), after(1_000)), (after(10), after(10))] {
        let made = world.auth.make_token(&maker, NewToken { expires: asked, ..NewToken::default() }).await.unwrap();
        assert_eq!(made.expires, expires);
    }
    let refused = world.auth.make_token(&maker, NewToken { expires: after(1_001), ..NewToken::default() }).await;
    assert!(matches!(refused, Err(AuthError::Outlives)), "{refused:?}");
    world.mkdir("/d").await;
    for (asked, expires) in [(None, after(1_000)), (Some(1_000), after(1_000)), (Some(10), after(10))] {
        assert_eq!(world.share(&maker, "/d", (None, asked)).await.unwrap().expires, expires);
    }
    let refused = world.share(&maker, "/d", (None, Some(1_001))).await.map(|share| share.expires);
    assert!(matches!(refused, Err(AuthError::Outlives)), "{refused:?}");
    // One that does not end, and a session, make others that do not.
    for maker in [world.token(&admin, NewToken::default()).await, admin] {
        assert_eq!(world.share(&maker, "/d", (None, None)).await.unwrap().expires, None);
        assert_eq!(world.auth.make_token(&maker, NewToken::default()).await.unwrap().expires, None);
    }
}
