//! `rowdrive check` finds damage of accounts, and mends what follows from them.

use rowdrive::auth::{Credential, NewToken, UserChange};
use rowdrive::check::FindingKind::{
    self, AccountDiffers, AccountIndexEntryMissing, StrayGrant, StrayIndexEntry, StrayShare, Unreadable, UsageDiffers,
};
use rowdrive::schema::rights::Right;
use rowdrive::schema::{CF, account, grant, meta, secret, user_name};
use rowdrive::table::{
    Change, Check, Column, ConditionalRow, Outcome, Plan, RowChange, RowCursor, RowKey, RowQuery, RowRange,
};

use super::fixture::{ADMIN, PASSWORD, World, memory, old_password, path, rocks};
use crate::drive::fixture::run;
use crate::drive::model::Op;

/// The keys of all rows, and their first qualifier.
async fn rows(world: &World, table: &'static str) -> Vec<(RowKey, Vec<u8>)> {
    let all = RowCursor::new(table, RowRange::all(), RowQuery::families(&[CF]), 100);
    let rows = all.rest(&world.tables).await.unwrap().into_iter();
    rows.map(|(key, row)| (key, row.family(CF).next().unwrap().qualifier.to_vec())).collect()
}

async fn write(world: &World, table: &'static str, row: &[u8], change: Change) {
    let is_index = [secret::TABLE, grant::TABLE].contains(&table);
    let is_put = matches!(change, Change::Put { .. });
    let never = Check::Absent(Column::new(CF, b"never".as_slice()));
    let (row, changes, checks) = (row.to_vec().into(), vec![change], vec![never]);
    let plan = match (is_index, is_put) {
        (true, true) => Plan { prepare: vec![RowChange { table, row, changes }], ..Plan::default() },
        (true, false) => Plan { finish: vec![RowChange { table, row, changes }], ..Plan::default() },
        (false, _) => Plan { guarded: vec![ConditionalRow { table, row, checks, changes }], ..Plan::default() },
    };
    assert_eq!(world.tables.commit(plan).await.unwrap(), Outcome::Committed);
}

/// Exactly these kinds are found; a repair mends all of them, or none; then nothing is found.
async fn finds(world: &World, what: &str, kinds: &[FindingKind], is_mended: bool) {
    let (summary, findings) = world.check(false).await;
    let mut found: Vec<_> = findings.iter().map(|finding| finding.kind).collect();
    found.dedup();
    assert_eq!((found.as_slice(), summary.repaired), (kinds, 0), "{what}: {findings:#?}");
    let (summary, findings) = world.check(true).await;
    assert_eq!(summary.is_right(), is_mended, "{what}, repaired: {findings:#?}");
    let (summary, findings) = world.check(false).await;
    assert_eq!(summary.wrong + summary.strays == 0, is_mended, "{what}, after the repair: {findings:#?}");
}

async fn share(world: &World, by: &Credential, at: &str) -> Credential {
    world.share(by, at, (None, None)).await.unwrap().credential
}

#[tokio::test]
async fn a_check_finds_and_mends_what_is_wrong_with_an_account() {
    for store in [memory(), rocks()] {
        each_damage(World::new(store).await).await;
    }
}

async fn each_damage(world: World) {
    let admin = world.admin().await;
    let tom = world.user(&admin, "tom").await;
    world.mkdir("/photos").await;
    world.mkdir("/photos/2024").await;
    world.give(&admin, "/photos", "tom", &[Right::Read]).await;
    world.give(&admin, "/photos/2024", "tom", &[Right::Write]).await;
    let token = world.token(&tom, NewToken::default()).await;
    run(&world.drive, Op::Put("/photos/f", 1)).await.unwrap();
    for at in ["/photos", "/photos/f"] {
        share(&world, &admin, at).await;
    }
    // Sessions that end leave no index entry, and the one that stays keeps its own.
    world.session("tom").await;
    let new = UserChange { password: Some("another horse".to_owned()), ..UserChange::default() };
    let new = UserChange { old_password: Some(old_password(PASSWORD)), ..new };
    world.auth.change_user(&tom, "tom", new).await.unwrap();
    assert!(world.is_valid(&tom).await);
    finds(&world, "nothing", &[], true).await;

    for (table, rows) in
        [(secret::TABLE, rows(&world, secret::TABLE).await), (grant::TABLE, rows(&world, grant::TABLE).await)]
    {
        assert!(rows.len() >= 3, "{table}: {rows:?}");
        for (key, qualifier) in rows {
            write(&world, table, &key, Change::delete(CF, qualifier.clone())).await;
            finds(&world, "an entry is missing", &[AccountIndexEntryMissing], true).await;
            write(&world, table, &key, Change::put(CF, b"other".as_slice(), b"\x01".as_slice())).await;
            finds(&world, "an entry is left over", &[StrayIndexEntry], true).await;
        }
    }
    let (key, qualifier) = rows(&world, secret::TABLE).await.remove(0);
    let owner = world.tables.cell(secret::TABLE, &key, CF, secret::OWNER).await.unwrap().unwrap();
    write(&world, secret::TABLE, &[9; 32], Change::put(CF, qualifier, owner)).await;
    finds(&world, "an entry has another digest", &[StrayIndexEntry], true).await;
    write(&world, grant::TABLE, b"what", Change::put(CF, b"x".as_slice(), b"\x01".as_slice())).await;
    finds(&world, "a key cannot be read", &[StrayIndexEntry], true).await;

    each_wrong_number(&world).await;
    each_wrong_counter(&world, &admin).await;

    // Nothing that has a user is taken for a stray.
    for credential in [&admin, &tom, &token] {
        assert!(world.is_valid(credential).await);
    }
    assert!(world.may(&tom, "/photos", Right::Read).await && world.may(&tom, "/photos/2024", Right::Write).await);
    world.drive.unrestricted().delete_subtree(&path("/photos/2024")).await.unwrap();
    // A note: nothing is wrong.
    let (summary, findings) = world.check(false).await;
    assert!(summary.is_right() && summary.notes == 1, "{findings:#?}");
    assert!(findings[0].to_string().starts_with("note: stray-grant: "), "{findings:#?}");
    finds(&world, "a directory is gone", &[StrayGrant], true).await;
    assert_eq!(world.check(false).await.0.notes, 0);
    assert!(world.may(&tom, "/photos", Right::Read).await);

    shares_of_nothing(&world, &admin).await;

    world.mkdir("/photos").await;
    world.give(&admin, "/photos", "tom", &[Right::Share]).await;
    let of_removed = share(&world, &tom, "/photos").await;
    world.auth.remove_user(&admin, "tom").await.unwrap();
    assert!(!world.is_valid(&of_removed).await);
    finds(&world, "a user was removed", &[], true).await;
    write(&world, user_name::TABLE, b"zoe", Change::put(CF, user_name::NAME, b"\x01\x03zoe".as_slice())).await;
    finds(&world, "an account is missing", &[AccountDiffers], false).await;
    write(&world, user_name::TABLE, b"zoe", Change::delete(CF, user_name::NAME)).await;
    write(&world, account::TABLE, b"tom", Change::put(CF, account::PROFILE, b"\x09".as_slice())).await;
    finds(&world, "an account cannot be read", &[Unreadable], false).await;
}

/// Names, the number of admins, and usage.
async fn each_wrong_number(world: &World) {
    write(world, user_name::TABLE, b"tom", Change::delete(CF, user_name::NAME)).await;
    finds(world, "a name is missing", &[AccountDiffers], true).await;
    write(world, meta::TABLE, meta::USERS, Change::put(CF, meta::ADMINS, meta::encode_admins(7))).await;
    finds(world, "the number of admins is wrong", &[AccountDiffers], true).await;
    write(world, meta::TABLE, meta::USERS, Change::delete(CF, meta::ADMINS)).await;
    finds(world, "the number of admins is missing", &[AccountDiffers], true).await;

    let counter = |number: &'static [u8]| Change::put(CF, account::BYTES, number);
    write(world, account::TABLE, b"tom", counter(&[0, 0, 0, 0, 0, 0, 0, 9])).await;
    finds(world, "a sum is wrong", &[UsageDiffers], true).await;
    write(world, account::TABLE, b"tom", Change::delete(CF, account::FILES)).await;
    finds(world, "a sum is missing", &[UsageDiffers], true).await;
    write(world, account::TABLE, b"zoe", counter(&[0, 0, 0, 0, 0, 0, 0, 1])).await;
    finds(world, "a sum of someone who has nothing", &[UsageDiffers], true).await;
    write(world, account::TABLE, b"tom", counter(b"damaged")).await;
    let (summary, findings) = world.check(true).await;
    assert_eq!((findings[0].kind, summary.wrong), (UsageDiffers, 1), "{findings:#?}");
    finds(world, "nothing after the repair", &[], true).await;
}

/// The counter of a share without one, beyond its limit, and no counter at all. Nothing is left of it then.
async fn each_wrong_counter(world: &World, admin: &Credential) {
    let mut limited = Vec::new();
    for limit in [9, 9, 300] {
        limited.push(world.share(admin, "/photos", (Some(limit), None)).await.unwrap().credential);
    }
    let counter = |credential: &Credential| credential.secret().unwrap().used_column();
    let set = |column: Column, bytes: &[u8]| Change::put(column.family, column.qualifier, bytes.to_vec());
    let row = ADMIN.as_bytes();
    finds(world, "shares with limits", &[], true).await;
    write(world, account::TABLE, row, set(counter(&limited[0]), &[0, 0, 0, 0, 0, 0, 0, 9])).await;
    write(world, account::TABLE, row, set(counter(&limited[2]), &[0, 0, 0, 0, 0, 0, 1, 0])).await;
    finds(world, "as much as the limit, and less", &[], true).await;
    for (what, bytes) in [("more than the limit", &[0, 0, 0, 0, 0, 0, 0, 10][..]), ("no number", b"no")] {
        write(world, account::TABLE, row, set(counter(&limited[1]), bytes)).await;
        finds(world, what, &[AccountDiffers], true).await;
        assert!(world.auth.authority(&limited[1]).await.is_err(), "{what}");
    }
    assert!(world.is_valid(&limited[2]).await);
    let owner = limited[2].secret().unwrap();
    world.auth.revoke(admin, &owner.user, owner.kind, owner.id).await.unwrap();
    finds(world, "a share that was ended", &[], true).await;
    write(world, account::TABLE, row, set(counter(&limited[2]), &[0; 8])).await;
    finds(world, "a counter without its share", &[AccountDiffers], true).await;
    for credential in &limited[..2] {
        let owner = credential.secret().unwrap();
        world.auth.revoke(admin, &owner.user, owner.kind, owner.id).await.unwrap();
    }
}

async fn shares_of_nothing(world: &World, admin: &Credential) {
    let shares = [share(world, admin, "/photos").await, share(world, admin, "/photos/f").await];
    finds(world, "shares", &[], true).await;
    world.drive.unrestricted().delete_subtree(&path("/photos")).await.unwrap();
    let (summary, findings) = world.check(false).await;
    assert!(summary.is_right() && summary.notes == 5, "{findings:#?}");
    let notes = findings.iter().filter(|finding| finding.to_string().starts_with("note: stray-share: ")).count();
    assert_eq!(notes, 4, "{findings:#?}");
    finds(world, "what is shared is gone", &[StrayShare, StrayGrant], true).await;
    assert_eq!(world.check(false).await.0.notes, 0);
    assert!(!world.is_valid(&shares[0]).await && !world.is_valid(&shares[1]).await);
}
