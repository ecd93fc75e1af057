//! Grants: given, taken back, listed.

use rowdrive::auth::{AuthError, DirChain, GrantOnDir, NewUser};
use rowdrive::schema::account::Stamp;
use rowdrive::schema::account::{self, GRANTS, Grantee};
use rowdrive::schema::dir::NO_OPERATION;
use rowdrive::schema::dir_parent::{self, DirParent};
use rowdrive::schema::grant::{self, Giver, Grant};
use rowdrive::schema::ids::GrantId;
use rowdrive::schema::rights::{Right, Rights};
use rowdrive::schema::{DirId, Name};
use rowdrive::table::{Check, ConditionalRow, Plan, RowChange, RowQuery, RowRange, ScanQuery};

use super::fixture::{World, grantee, new_user, path, rights, user};

/// Index entries of grants.
async fn entries(world: &World) -> usize {
    let row_query = RowQuery::families(&["cf"]);
    let scan = ScanQuery { table: "grant", range: RowRange::all(), row_query, limit: 100, reverse: false };
    world.tables.scan(&scan).await.unwrap().len()
}

pub async fn a_grant_is_one_for_each_directory_and_giver(world: World) {
    let admin = world.admin().await;
    let eva = world.user(&admin, "eva").await;
    world.user(&admin, "tom").await;
    let dir = world.mkdir("/a").await;
    world.mkdir("/b").await;
    let chain = world.chain("/a").await;
    world.give(&admin, "/a", "eva", &[Right::Write, Right::Share]).await;
    assert!(world.auth.put_grant(&admin, &chain, &grantee("tom"), rights(&[Right::Read])).await.unwrap());
    assert!(!world.auth.put_grant(&admin, &chain, &grantee("tom"), rights(&[Right::Write])).await.unwrap());
    assert!(world.auth.put_grant(&eva, &chain, &grantee("tom"), rights(&[Right::Read])).await.unwrap());
    let expected =
        |holder: &str, giver, what: &[Right]| GrantOnDir { dir, holder: grantee(holder), giver, rights: rights(what) };
    let by_eva = expected("tom", Giver::User(user("eva")), &[Right::Read]);
    let all = [
        expected("eva", Giver::Admins, &[Right::Write, Right::Share]),
        expected("tom", Giver::Admins, &[Right::Write]),
        by_eva.clone(),
    ];
    assert_eq!(world.auth.grants_on(&admin, &chain).await.unwrap(), all);
    assert_eq!(world.auth.grants_on(&eva, &chain).await.unwrap(), all);
    assert_eq!(world.auth.grants_on(&admin, &world.chain("/b").await).await.unwrap(), []);
    assert_eq!(world.auth.grants_given(&eva).await.unwrap(), [by_eva]);
    assert_eq!(world.auth.grants_given(&admin).await.unwrap().len(), 2);
    // A user takes back what he has given, an admin all.
    world.auth.delete_grant(&eva, &chain, &grantee("tom")).await.unwrap();
    assert_eq!(world.auth.grants_on(&admin, &chain).await.unwrap(), all[..2]);
    let again = world.auth.delete_grant(&eva, &chain, &grantee("tom")).await;
    assert!(matches!(again, Err(AuthError::NoGrant)), "{again:?}");
    world.give(&eva, "/a", "tom", &[Right::Write]).await;
    world.auth.delete_grant(&admin, &chain, &grantee("tom")).await.unwrap();
    assert_eq!(world.auth.grants_on(&admin, &chain).await.unwrap(), all[..1]);
    assert_eq!(entries(&world).await, 2, "two for each grant");
    world.give(&admin, "/a", "tom", &[Right::Read]).await;
    assert_eq!(world.auth.grants_on(&admin, &chain).await.unwrap().len(), 2, "given anew");
}

pub async fn an_index_entry_without_a_grant_shows_nothing(world: World) {
    let admin = world.admin().await;
    world.user(&admin, "tom").await;
    let dir = world.mkdir("/a").await;
    let grant = Grant { dir, giver: Giver::Admins, rights: Rights::ALL, id: GrantId::random() };
    let early = Plan { prepare: grant.put_index(&grantee("tom")), ..Plan::default() };
    world.tables.commit(early).await.unwrap();
    assert_eq!(world.auth.grants_on(&admin, &world.chain("/a").await).await.unwrap(), []);
    world.give(&admin, "/a", "tom", &[Right::Read]).await;
    assert_eq!(world.auth.grants_on(&admin, &world.chain("/a").await).await.unwrap().len(), 1, "once, by two entries");
}

pub async fn only_who_shares_gives_and_only_what_he_has(world: World) {
    let admin = world.admin().await;
    let (tom, eva) = (world.user(&admin, "tom").await, world.user(&admin, "eva").await);
    world.mkdir("/a/x").await;
    world.mkdir("/b").await;
    world.give(&admin, "/a", "eva", &[Right::Share]).await;
    world.give(&admin, "/b", "eva", &[Right::Write]).await;
    let (below, elsewhere) = (world.chain("/a/x").await, world.chain("/b").await);
    world.auth.put_grant(&eva, &below, &grantee("tom"), rights(&[Right::Read])).await.unwrap();
    for (who, chain, what) in
        [(&eva, &below, Right::Write), (&eva, &elsewhere, Right::Read), (&tom, &below, Right::Read)]
    {
        let refused = world.auth.put_grant(who, chain, &grantee("tom"), rights(&[what])).await;
        assert!(matches!(refused, Err(AuthError::Forbidden)), "{refused:?}");
    }
    assert!(matches!(world.auth.grants_on(&tom, &below).await, Err(AuthError::Forbidden)));
    let unknown = world.auth.put_grant(&admin, &below, &grantee("max"), Rights::ALL).await;
    assert!(matches!(unknown, Err(AuthError::NoUser)), "{unknown:?}");
    assert!(matches!(world.auth.grantee("max").await, Err(AuthError::NoUser)));
    assert_eq!(world.auth.grantee("EVA").await.unwrap(), grantee("eva"));
}

/// The caller walks the path again: another directory may be there by now.
pub async fn nothing_is_given_on_a_directory_that_has_moved(world: World) {
    let admin = world.admin().await;
    world.user(&admin, "tom").await;
    world.mkdir("/a").await;
    let before = world.chain("/a").await;
    world.drive.unrestricted().move_node(&path("/a"), &path("/b"), false).await.unwrap();
    let refused = world.auth.put_grant(&admin, &before, &grantee("tom"), Rights::ALL).await;
    assert!(matches!(refused, Err(AuthError::Contended)), "{refused:?}");
    assert_eq!(world.auth.grants_on(&admin, &world.chain("/b").await).await.unwrap(), []);
    assert_eq!(entries(&world).await, 0, "no index entry is left");
}

pub async fn only_admins_give_to_everyone_or_the_right_to_share(world: World) {
    let admin = world.admin().await;
    let eva = world.user(&admin, "eva").await;
    world.user(&admin, "tom").await;
    world.mkdir("/a").await;
    let chain = world.chain("/a").await;
    world.give(&admin, "/a", "eva", &[Right::Write, Right::Share]).await;
    let everyone = world.auth.grantee("*").await.unwrap();
    assert_eq!(everyone, Grantee::Everyone);
    let refused = world.auth.put_grant(&eva, &chain, &everyone, rights(&[Right::Read])).await;
    assert!(matches!(refused, Err(AuthError::Forbidden)), "{refused:?}");
    let refused = world.auth.put_grant(&eva, &chain, &grantee("tom"), rights(&[Right::Share])).await;
    assert!(matches!(refused, Err(AuthError::Forbidden)), "{refused:?}");
    assert!(matches!(world.auth.delete_grant(&admin, &chain, &everyone).await, Err(AuthError::NoGrant)));
    assert!(world.auth.put_grant(&admin, &chain, &everyone, rights(&[Right::Share])).await.unwrap());
    assert!(!world.auth.put_grant(&admin, &chain, &everyone, rights(&[Right::Read])).await.unwrap());
    world.auth.delete_grant(&admin, &chain, &everyone).await.unwrap();
}

pub async fn a_user_has_at_most_a_thousand_grants(world: World) {
    let admin = world.admin().await;
    world.user(&admin, "tom").await;
    world.mkdir("/a").await;
    let given = |_| Grant { dir: DirId::random(), giver: Giver::Admins, rights: Rights::ALL, id: GrantId::random() };
    let grants: Vec<Grant> = (1..GRANTS).map(given).collect();
    // All their directories exist.
    let link = DirParent { parent: DirId::ROOT, name: Name::parse("x").unwrap(), operation: NO_OPERATION };
    let dir = |grant: &Grant| RowChange { table: "dirid", row: grant.dir.key(), changes: link.put_cells() };
    world.tables.commit(Plan { prepare: grants.iter().map(dir).collect(), ..Plan::default() }).await.unwrap();
    let row = ConditionalRow {
        table: account::TABLE,
        row: grantee("tom").key(),
        checks: vec![Stamp::FIRST.check()],
        changes: grants.iter().map(Grant::put).collect(),
    };
    world.tables.commit(Plan { guarded: vec![row], ..Plan::default() }).await.unwrap();
    world.give(&admin, "/a", "tom", &[Right::Read]).await;
    world.mkdir("/b").await;
    let chain = world.chain("/b").await;
    let refused = world.auth.put_grant(&admin, &chain, &grantee("tom"), Rights::ALL).await;
    assert!(matches!(refused, Err(AuthError::TooManyGrants(1_000))), "{refused:?}");
    world.give(&admin, "/a", "tom", &[Right::Write]).await;
    // A grant on a directory that was deleted makes room.
    let gone = RowChange { table: "dirid", row: grants[7].dir.key(), changes: dir_parent::delete_cells() };
    world.tables.commit(Plan { finish: vec![gone], ..Plan::default() }).await.unwrap();
    world.give(&admin, "/b", "tom", &[Right::Read]).await;
    let root = world.auth.put_grant(&admin, &DirChain::root(), &grantee("tom"), Rights::ALL).await;
    assert!(matches!(root, Err(AuthError::TooManyGrants(_))), "{root:?}");
}

pub async fn grants_of_a_removed_giver_are_deleted(world: World) {
    let admin = world.admin().await;
    let eva = world.user(&admin, "eva").await;
    let tom = world.user(&admin, "tom").await;
    world.mkdir("/a").await;
    world.give(&admin, "/a", "eva", &[Right::Write, Right::Share]).await;
    world.give(&eva, "/a", "tom", &[Right::Write]).await;
    assert!(world.may(&tom, "/a", Right::Write).await);
    world.auth.remove_user(&admin, "eva").await.unwrap();
    assert!(!world.may(&tom, "/a", Right::Write).await);
    assert_eq!(world.auth.grants_on(&admin, &world.chain("/a").await).await.unwrap(), []);
    let row = world.tables.get(account::TABLE, b"tom", &account::Account::query([])).await.unwrap();
    assert_eq!(account::Account::from_row(&row).unwrap().unwrap().grants, []);
    // Until they are deleted they do not count, although the giver was an admin.
    world.auth.add_user(&admin, NewUser { admin: true, ..new_user("max") }).await.unwrap();
    world.auth.remove_user(&admin, "max").await.unwrap();
    let (dir, giver) = (DirId::ROOT, Giver::User(user("max")));
    let grant = Grant { dir, giver, rights: Rights::ALL, id: GrantId::random() };
    let check = Check::Absent(grant::column(dir, &grant.giver));
    let row =
        ConditionalRow { table: account::TABLE, row: "tom".into(), checks: vec![check], changes: vec![grant.put()] };
    world.tables.commit(Plan { guarded: vec![row], ..Plan::default() }).await.unwrap();
    assert!(!world.may(&tom, "/a", Right::Read).await);
}
