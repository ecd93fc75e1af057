//! What a browser sends in place of the password of a share.

use std::time::Instant;

use rowdrive::auth::{Credential, ShareLogin};
use rowdrive::schema::account::{self, Grantee, PasswordHash};
use rowdrive::schema::share::Share;
use rowdrive::table::{Check, ConditionalRow, Outcome, Plan, RowQuery};

use super::fixture::{World, memory, pass_ms};

const SESAME: &str = "sesame, open";

impl World {
    /// A share of `/photos`, with a password.
    async fn locked(&self, by: &Credential) -> Credential {
        let made = self.share_with(by, "/photos", (None, None), Some(SESAME)).await.unwrap();
        self.auth.find_share(&made.text).await.unwrap()
    }

    async fn log_in_by(&self, share: &Credential) -> ShareLogin {
        self.auth.log_in_by_share(share, SESAME, [10, 0, 0, 1].into(), Instant::now()).await.unwrap()
    }

    async fn counts(&self, share: &Credential, sealed: &str) -> bool {
        let authority = self.auth.authority(share).await.unwrap();
        self.auth.is_share_login(authority.share().unwrap(), sealed).await.unwrap()
    }

    /// Stores another hash, as a new password would.
    async fn set_hash(&self, share: &Credential, hash: Option<PasswordHash>) -> Option<PasswordHash> {
        let owner = share.secret().unwrap();
        let (row, cell) = (Grantee::User(owner.user.clone()).key(), owner.column());
        let stored = self.tables.get(account::TABLE, &row, &RowQuery::cells(vec![cell.clone()])).await.unwrap();
        let stored = stored.get(cell.family, &cell.qualifier).unwrap().clone();
        let old = Share::decode(&stored).unwrap();
        let changes = vec![Share { password: hash, ..old.clone() }.put(owner)];
        let guarded =
            vec![ConditionalRow { table: account::TABLE, row, checks: vec![Check::Equals(cell, stored)], changes }];
        assert_eq!(self.tables.commit(Plan { guarded, ..Plan::default() }).await.unwrap(), Outcome::Committed);
        old.password
    }
}

#[tokio::test]
async fn a_login_by_a_share_counts_for_a_day_for_this_share_and_this_password() {
    let world = World::new(memory()).await;
    let admin = world.admin().await;
    world.mkdir("/photos").await;
    let (share, other) = (world.locked(&admin).await, world.locked(&admin).await);
    let login = world.log_in_by(&share).await;
    let sealed = world.auth.seal_share_login(&login).await.unwrap();
    assert!(world.counts(&share, &sealed).await && !world.counts(&other, &sealed).await);
    // The same password again has another hash; without a password nothing counts, since nothing is asked for.
    let old = world.set_hash(&share, Some(PasswordHash("$another".into()))).await;
    assert!(!world.counts(&share, &sealed).await);
    world.set_hash(&share, None).await;
    assert!(!world.counts(&share, &sealed).await);
    world.set_hash(&share, old).await;
    assert!(world.counts(&share, &sealed).await);
    for odd in ["", "A", "?", &"A".repeat(48), &sealed[4..]] {
        assert!(!world.counts(&share, odd).await, "{odd}");
    }
    const DAY: i64 = 24 * 60 * 60 * 1_000;
    pass_ms(DAY - 1);
    assert!(world.counts(&share, &sealed).await);
    pass_ms(1);
    assert!(!world.counts(&share, &sealed).await);
}

/// A password that was verified while another one was set.
#[tokio::test]
async fn a_login_by_a_share_is_of_the_password_that_was_verified() {
    let world = World::new(memory()).await;
    let admin = world.admin().await;
    world.mkdir("/photos").await;
    let share = world.locked(&admin).await;
    let login = world.log_in_by(&share).await;
    let old = world.set_hash(&share, Some(PasswordHash("$another".into()))).await;
    let sealed = world.auth.seal_share_login(&login).await.unwrap();
    assert!(!world.counts(&share, &sealed).await);
    world.set_hash(&share, old).await;
    assert!(world.counts(&share, &sealed).await);
}
