//! Who has which right where, and what guards a decision.

use rowdrive::auth::{AuthError, NewToken, UserChange};
use rowdrive::drive::{DriveError, ListQuery};
use rowdrive::schema::DirId;
use rowdrive::schema::rights::Right::{self, Read, Share, Write};
use rowdrive::schema::secret::TokenScope;

use super::base::ask;
use super::fixture::{World, grantee, new_user, path, rights};
use crate::drive::fixture::{run, view};
use crate::drive::model::Op;

pub async fn a_right_holds_on_its_directory_and_below(world: World) {
    let admin = world.admin().await;
    let tom = world.user(&admin, "tom").await;
    world.mkdir("/a/x/y").await;
    world.mkdir("/b").await;
    world.give(&admin, "/a/x", "tom", &[Read]).await;
    world.give(&admin, "/a/x/y", "tom", &[Share]).await;
    for (dir, right, has) in [
        ("/", Read, false),
        ("/a", Read, false),
        ("/b", Read, false),
        ("/a/x", Read, true),
        ("/a/x", Write, false),
        ("/a/x", Share, false),
        ("/a/x/y", Read, true),
        ("/a/x/y", Write, false),
        ("/a/x/y", Share, true),
    ] {
        assert_eq!(world.may(&tom, dir, right).await, has, "{dir} {right:?}");
    }
    world.give(&admin, "/", "tom", &[Write]).await;
    assert!(world.may(&tom, "/a/x/y", Write).await && world.may(&tom, "/b", Write).await, "rights add up");
}

pub async fn an_admin_may_do_all_and_a_drive_without_users_allows_all(world: World) {
    world.mkdir("/a").await;
    let nobody = world.auth.anonymous().await.unwrap();
    let all = [Read, Write, Share];
    for right in all {
        assert_eq!(world.decide(&nobody, "/a", right).await.unwrap().user(), None);
    }
    let admin = world.admin().await;
    for right in all {
        let permission = world.decide(&admin, "/a", right).await.unwrap();
        assert!(permission.user().is_some() && world.commits(&permission).await);
    }
}

pub async fn a_right_moves_and_ends_with_its_directory(world: World) {
    let admin = world.admin().await;
    let tom = world.user(&admin, "tom").await;
    world.mkdir("/a/x").await;
    world.mkdir("/t").await;
    world.give(&admin, "/a", "tom", &[Write]).await;
    world.drive.unrestricted().move_node(&path("/a"), &path("/b"), false).await.unwrap();
    assert!(world.may(&tom, "/b/x", Write).await);
    world.mkdir("/a/x").await;
    assert!(!world.may(&tom, "/a/x", Write).await, "another directory at the same path");
    world.drive.unrestricted().move_node(&path("/b/x"), &path("/t/x"), false).await.unwrap();
    assert!(!world.may(&tom, "/t/x", Write).await, "moved out of the directory of the right");
}

pub async fn a_given_right_counts_while_its_giver_has_it(world: World) {
    let admin = world.admin().await;
    let tom = world.user(&admin, "tom").await;
    let (eva, max) = (world.user(&admin, "eva").await, world.user(&admin, "max").await);
    world.mkdir("/a/x").await;
    world.give(&admin, "/a", "max", &[Write, Share]).await;
    world.give(&admin, "/a", "eva", &[Share]).await;
    world.give(&max, "/a", "eva", &[Write]).await;
    world.give(&eva, "/a/x", "tom", &[Write]).await;
    assert!(world.may(&tom, "/a/x", Write).await, "max, then eva, then tom");
    let permission = world.decide(&tom, "/a/x", Write).await.unwrap();
    // Max keeps the right to share, and loses that to write.
    world.give(&admin, "/a", "max", &[Share]).await;
    assert!(!world.commits(&permission).await);
    assert!(!world.may(&tom, "/a/x", Write).await);
    assert!(world.may(&tom, "/a/x", Read).await, "eva may read, and share that");
    // Eva keeps both rights, without that to share.
    world.give(&admin, "/a", "max", &[Write, Share]).await;
    assert!(world.may(&tom, "/a/x", Write).await);
    world.give(&admin, "/a", "eva", &[Write]).await;
    assert!(!world.may(&tom, "/a/x", Read).await);
    // An admin gives as much as he likes.
    let promote = UserChange { admin: Some(true), ..UserChange::default() };
    world.auth.change_user(&admin, "eva", promote).await.unwrap();
    assert!(world.may(&tom, "/a/x", Write).await);
}

pub async fn a_giver_needs_the_right_where_he_has_given_it(world: World) {
    let admin = world.admin().await;
    let (tom, eva) = (world.user(&admin, "tom").await, world.user(&admin, "eva").await);
    world.mkdir("/a/x").await;
    world.give(&admin, "/a", "eva", &[Share]).await;
    world.give(&eva, "/a", "tom", &[Read]).await;
    assert!(world.may(&tom, "/a/x", Read).await);
    world.give(&admin, "/a", "eva", &[Read]).await;
    world.give(&admin, "/a/x", "eva", &[Share]).await;
    assert!(!world.may(&tom, "/a/x", Read).await, "what the giver has further down does not count");
    world.give(&eva, "/a/x", "tom", &[Read]).await;
    assert!(world.may(&tom, "/a/x", Read).await && !world.may(&tom, "/a", Read).await);
}

pub async fn givers_in_a_circle_have_nothing(world: World) {
    let admin = world.admin().await;
    let (eva, max) = (world.user(&admin, "eva").await, world.user(&admin, "max").await);
    world.mkdir("/a").await;
    world.give(&admin, "/a", "eva", &[Write, Share]).await;
    world.give(&admin, "/a", "max", &[Share]).await;
    world.give(&eva, "/a", "max", &[Write]).await;
    world.give(&max, "/a", "eva", &[Write]).await;
    assert!(world.may(&max, "/a", Write).await);
    world.give(&admin, "/a", "eva", &[Share]).await;
    assert!(!world.may(&max, "/a", Write).await && !world.may(&eva, "/a", Write).await);
    assert!(world.may(&max, "/a", Share).await && world.may(&eva, "/a", Read).await);
}

pub async fn everyone_has_what_was_given_to_everyone(world: World) {
    let admin = world.admin().await;
    let (tom, eva) = (world.user(&admin, "tom").await, world.user(&admin, "eva").await);
    world.mkdir("/a").await;
    world.give(&admin, "/a", "*", &[Write]).await;
    assert!(world.may(&tom, "/a", Write).await && !world.may(&tom, "/", Read).await);
    let permission = world.decide(&tom, "/a", Write).await.unwrap();
    world.give(&admin, "/a", "eva", &[Share]).await;
    assert!(world.commits(&permission).await, "a grant of another user");
    let everyone = world.auth.grantee("*").await.unwrap();
    world.auth.delete_grant(&admin, &world.chain("/a").await, &everyone).await.unwrap();
    assert!(!world.commits(&permission).await && !world.may(&tom, "/a", Read).await);
    // A giver has it from everyone's too.
    world.give(&admin, "/a", "*", &[Write]).await;
    world.give(&eva, "/a", "tom", &[Write]).await;
    assert!(world.may(&tom, "/a", Write).await);
}

pub async fn a_token_narrows(world: World) {
    let admin = world.admin().await;
    let tom = world.user(&admin, "tom").await;
    let dir = world.mkdir("/a/x").await;
    world.give(&admin, "/a", "tom", &[Read]).await;
    let scope = Some(TokenScope { dir, rights: rights(&[Write]) });
    let of_admin = world.token(&admin, NewToken { scope, ..NewToken::default() }).await;
    let of_tom = world.token(&tom, NewToken { scope, ..NewToken::default() }).await;
    let has = async |token, dir, right| world.may(token, dir, right).await;
    assert!(has(&of_admin, "/a/x", Write).await && !has(&of_admin, "/a/x", Share).await);
    assert!(!has(&of_admin, "/a", Read).await && !has(&of_admin, "/", Read).await);
    assert!(has(&of_tom, "/a/x", Read).await && !has(&of_tom, "/a/x", Write).await && !has(&of_tom, "/a", Read).await);
    let permission = world.decide(&of_admin, "/a/x", Write).await.unwrap();
    assert!(world.commits(&permission).await);
    world.drive.unrestricted().move_node(&path("/a/x"), &path("/x"), false).await.unwrap();
    assert!(!world.commits(&permission).await);
    assert!(has(&of_admin, "/x", Write).await, "it follows its directory");
    assert!(!has(&of_tom, "/x", Read).await, "its user has lost the right");
}

/// Each change that ends a right, or a credential, after the decision and before the commit.
pub async fn a_commit_is_refused_once_the_right_has_ended(world: World) {
    let admin = world.admin().await;
    world.user(&admin, "tom").await;
    world.mkdir("/a/x").await;
    let chain = world.chain("/a").await;
    let change = async |change: UserChange| drop(world.auth.change_user(&admin, "tom", change).await.unwrap());
    for round in 0..6 {
        let session = world.session("tom").await;
        let token = world.auth.make_token(&session.credential, NewToken::default()).await.unwrap();
        let kept = world.session("tom").await.credential;
        world.give(&admin, "/a", "tom", &[Write]).await;
        let by = if round == 1 { &token.credential } else { &session.credential };
        let (permission, other) =
            (world.decide(by, "/a/x", Write).await.unwrap(), world.decide(&kept, "/a/x", Write).await.unwrap());
        assert!(world.commits(&permission).await, "nothing has changed yet");
        match round {
            0 => world.auth.delete_grant(&admin, &chain, &grantee("tom")).await.unwrap(),
            1 => {
                let owner = by.secret().unwrap();
                world.auth.revoke(&admin, &owner.user, owner.kind, owner.id).await.unwrap();
                assert!(world.commits(&other).await, "another credential");
            }
            2 => world.give(&admin, "/a", "tom", &[Read]).await,
            3 => change(UserChange { password: Some("correct horse".into()), ..UserChange::default() }).await,
            4 => {
                change(UserChange { disabled: Some(true), ..UserChange::default() }).await;
                change(UserChange { disabled: Some(false), ..UserChange::default() }).await;
            }
            _ => world.auth.remove_user(&admin, "tom").await.unwrap(),
        }
        assert!(!world.commits(&permission).await, "round {round}");
        assert!(round == 1 || !world.commits(&other).await, "round {round}");
    }
}

pub async fn a_commit_of_an_admin_is_refused_once_he_is_none(world: World) {
    let admin = world.admin().await;
    let eva = world.user(&admin, "eva").await;
    world.mkdir("/a").await;
    let change = |admin| UserChange { admin: Some(admin), ..UserChange::default() };
    world.auth.change_user(&admin, "eva", change(true)).await.unwrap();
    let permission = world.decide(&eva, "/a", Write).await.unwrap();
    assert!(world.commits(&permission).await);
    world.auth.change_user(&admin, "eva", change(false)).await.unwrap();
    assert!(!world.commits(&permission).await && !world.may(&eva, "/a", Read).await);
}

pub async fn a_commit_is_refused_once_the_directory_of_the_right_is_gone(world: World) {
    let admin = world.admin().await;
    let tom = world.user(&admin, "tom").await;
    world.mkdir("/a/x").await;
    world.mkdir("/b").await;
    world.give(&admin, "/a", "tom", &[Write]).await;
    world.give(&admin, "/b", "tom", &[Write]).await;
    let (below, other) =
        (world.decide(&tom, "/a/x", Write).await.unwrap(), world.decide(&tom, "/b", Write).await.unwrap());
    world.drive.unrestricted().move_node(&path("/a"), &path("/t"), false).await.unwrap();
    assert!(!world.commits(&below).await && world.commits(&other).await);
    world.mkdir("/a/x").await;
    assert!(!world.commits(&below).await, "another directory at the same path");
    world.drive.unrestricted().rmdir(&path("/b")).await.unwrap();
    assert!(!world.commits(&other).await);
}

pub async fn an_anonymous_commit_is_refused_once_there_is_a_user(world: World) {
    world.mkdir("/a").await;
    let nobody = world.auth.anonymous().await.unwrap();
    let permission = world.decide(&nobody, "/a", Right::Write).await.unwrap();
    assert!(world.commits(&permission).await);
    world.auth.make_first_user(new_user("tom")).await.unwrap();
    assert!(!world.commits(&permission).await);
    assert!(matches!(world.auth.authority(&nobody).await, Err(AuthError::Unauthorized)));
}

pub async fn a_share_needs_the_rights_of_its_maker_on_its_own_directory(world: World) {
    let admin = world.admin().await;
    let tom = world.user(&admin, "tom").await;
    run(&world.drive, Op::Put("/a/x/f", 1)).await.unwrap();
    world.give(&admin, "/a", "tom", &[Share]).await;
    let share = world.share(&tom, "/a", (None, None)).await.unwrap().credential;
    let drive = world.drive.for_requester(world.auth.requester(share));
    for at in ["/", "/x", "/x/f"] {
        drive.stat(&path(at)).await.unwrap();
    }
    // He may still read there, and share what is further down.
    world.give(&admin, "/a", "tom", &[Read]).await;
    world.give(&admin, "/a/x", "tom", &[Share]).await;
    for at in ["/", "/x", "/x/f"] {
        assert!(matches!(drive.stat(&path(at)).await, Err(DriveError::NotFound)), "{at}");
    }
    let all = ListQuery { kind: None, prefix: String::new(), after: None, limit: 10 };
    assert!(matches!(drive.list(&path("/"), &all).await, Err(DriveError::NotFound)));
    world.give(&admin, "/", "tom", &[Share]).await;
    drive.stat(&path("/x/f")).await.unwrap();
}

/// Its maker may all of this, and a stranger nothing.
pub async fn a_share_of_a_file_allows_no_other_operation(world: World) {
    let admin = world.admin().await;
    let tom = world.user(&admin, "tom").await;
    for op in [Op::Put("/p/a/f", 1), Op::Put("/p/a/d/g", 2), Op::Put("/p/x", 3), Op::Mkdir("/p/a/e")] {
        run(&world.drive, op).await.unwrap();
    }
    world.give(&admin, "/p", "tom", &[Write, Share]).await;
    let share = world.share(&tom, "/p/a/f", (None, None)).await.unwrap().credential;
    let [by_share, by_tom] = [share, tom].map(|by| world.drive.for_requester(world.auth.requester(by)));
    for (asked, answer) in [("stat /f", "ok"), ("list /", "/f"), ("stat /", "404"), ("stat /d", "404")] {
        assert_eq!(ask(&by_share, asked).await, answer, "{asked}");
    }
    let before = view(&world.drive).await;
    let others = [
        "time",
        "find",
        "time /p",
        "find /p",
        "stat /p/a/f",
        "list /p/a",
        "open /p/a/f",
        "open /p/x",
        "below /p/a",
        "put /p/a/new",
        "mkdir /p/a/m",
        "copy /p/a/f /p/n",
        "copy /p/a /p/b",
        "move /p/a/f /p/y",
        "delete /p/a/d/g",
        "rmdir /p/a/e",
        "remove /p/a/d",
    ];
    let is_refused = |answer: &str| ["none", "403", "404"].contains(&answer);
    for asked in others {
        let answer = ask(&by_share, asked).await;
        assert!(is_refused(&answer), "{asked}: {answer}");
    }
    assert_eq!(view(&world.drive).await, before);
    for asked in others {
        let answer = ask(&by_tom, asked).await;
        assert!(!is_refused(&answer), "{asked} by Tom: {answer}");
    }
}

pub async fn only_what_leads_to_a_right_is_seen(world: World) {
    let admin = world.admin().await;
    let (tom, eva) = (world.user(&admin, "tom").await, world.user(&admin, "eva").await);
    let y = world.mkdir("/a/x/y").await;
    let z = world.mkdir("/b/z").await;
    let other = world.mkdir("/c/d").await;
    let ids = async |text| world.chain(text).await.last().unwrap().1;
    let (root, a, x, b, c) = (DirId::ROOT, ids("/a").await, ids("/a/x").await, ids("/b").await, ids("/c").await);
    world.give(&admin, "/a/x/y", "tom", &[Read]).await;
    world.give(&admin, "/b", "eva", &[Share]).await;
    world.give(&eva, "/b/z", "tom", &[Read]).await;
    world.give(&admin, "/c/d", "*", &[Read]).await;
    let ways = async |by| {
        let authority = world.auth.authority(by).await.unwrap();
        let mut chains = Vec::new();
        for (text, id) in [("/a/x", x), ("/a/x/y", y), ("/b/z", z), ("/c/d", other)] {
            if authority.granted_dirs().contains(&id) {
                chains.push(world.chain(text).await);
            }
        }
        world.auth.ways(&authority, &chains).await.unwrap()
    };
    let seen = ways(&tom).await;
    assert!([root, a, x, b, c].into_iter().all(|dir| seen.is_way(dir)));
    assert!(![y, z, other].into_iter().any(|dir| seen.is_way(dir)), "they may be read");
    assert!(seen.shows(root, a) && seen.shows(a, x) && seen.shows(x, y) && !seen.shows(a, y));
    // The right of the giver has ended.
    world.auth.delete_grant(&admin, &world.chain("/b").await, &grantee("eva")).await.unwrap();
    let seen = ways(&tom).await;
    assert!(!seen.is_way(b) && !seen.shows(root, b) && seen.shows(root, a));
    // A token sees nothing above its directory.
    let scope = Some(TokenScope { dir: x, rights: rights(&[Read]) });
    let seen = ways(&world.token(&tom, NewToken { scope, ..NewToken::default() }).await).await;
    assert!(seen.shows(x, y) && ![root, a, c].into_iter().any(|dir| seen.is_way(dir)));
}
