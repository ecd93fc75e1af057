//! A drive with users.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use rowdrive::auth::{
    Auth, AuthError, Credential, DirChain, NewSecret, NewShare, NewToken, NewUser, OldPassword, Permission,
};
use rowdrive::check::{CheckSummary, Finding};
use rowdrive::drive::{Drive, Node};
use rowdrive::engines::memory::Memory;
use rowdrive::engines::rocks::{Rocks, RocksOptions};
use rowdrive::migrate;
use rowdrive::schema::READ_OFTEN;
use rowdrive::schema::account::{Grantee, Quota};
use rowdrive::schema::rights::{Right, Rights};
use rowdrive::schema::share::ShareMode;
use rowdrive::schema::user_name::UserName;
use rowdrive::schema::{DirId, DrivePath, Timestamp};
use rowdrive::table::{Outcome, Plan, Store, Tables};
use tempfile::TempDir;

use crate::stepwise::Stepwise;

/// The password of every user.
pub const PASSWORD: &str = "correct horse";

pub const ADMIN: &str = "root@example.org";

thread_local! {
    static NOW: Cell<i64> = const { Cell::new(1_700_000_000_000) };
}

/// The clock of this test.
pub fn now() -> Timestamp {
    Timestamp::from_ms(NOW.get())
}

pub fn pass_days(days: i64) {
    pass_ms(days * 24 * 60 * 60 * 1_000);
}

pub fn pass_ms(ms: i64) {
    NOW.set(NOW.get() + ms);
}

pub fn memory() -> (Arc<dyn Store>, TempDir) {
    (Arc::new(Memory::default()), tempfile::tempdir().unwrap())
}

pub fn stepwise() -> (Arc<dyn Store>, TempDir) {
    (Stepwise::new(Arc::new(Memory::default())), tempfile::tempdir().unwrap())
}

/// As the server opens it: what is read often is kept in memory.
pub fn rocks() -> (Arc<dyn Store>, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let options = RocksOptions { kept: &READ_OFTEN, ..RocksOptions::with_memory(32 << 20) };
    (Arc::new(Rocks::open(&dir.path().join("db"), options).unwrap()), dir)
}

pub struct World {
    pub tables: Tables,
    pub auth: Auth,
    pub drive: Drive,
    data: TempDir,
}

pub fn path(text: &str) -> DrivePath {
    DrivePath::parse(text).unwrap()
}

pub fn rights(rights: &[Right]) -> Rights {
    rights.iter().copied().collect()
}

pub fn user(name: &str) -> UserName {
    UserName::parse(name).unwrap()
}

pub fn grantee(name: &str) -> Grantee {
    Grantee::User(user(name))
}

/// Logs in from an address of its own.
pub async fn log_in(auth: &Auth, name: &str, password: &str) -> Result<Credential, AuthError> {
    auth.log_in(name, password, [10, 0, 0, 1].into(), Instant::now()).await
}

/// The present password of a user, from the address of his logins.
pub fn old_password(password: &str) -> OldPassword {
    OldPassword { password: password.to_owned(), address: [10, 0, 0, 1].into(), now: Instant::now() }
}

pub fn new_user(name: &str) -> NewUser {
    let (name, password) = (name.to_owned(), PASSWORD.to_owned());
    NewUser { name, password, display: String::new(), admin: false, quota: Quota::default() }
}

impl World {
    pub async fn new((store, data): (Arc<dyn Store>, TempDir)) -> Self {
        let tables = Tables::new(store);
        migrate::up(&tables).await.unwrap();
        let drive = Drive::open(tables.clone(), &data.path().join("content")).await.unwrap();
        Self { auth: Auth::new(tables.clone(), now), tables, drive, data }
    }

    /// The first user, with a session.
    pub async fn admin(&self) -> Credential {
        self.auth.make_first_user(new_user(ADMIN)).await.unwrap();
        self.session(ADMIN).await.credential
    }

    /// A new user, with a session.
    pub async fn user(&self, admin: &Credential, name: &str) -> Credential {
        self.auth.add_user(admin, new_user(name)).await.unwrap();
        self.session(name).await.credential
    }

    pub async fn session(&self, name: &str) -> NewSecret {
        let login = log_in(&self.auth, name, PASSWORD).await.unwrap();
        self.auth.make_session(&login).await.unwrap()
    }

    pub async fn token(&self, by: &Credential, new: NewToken) -> Credential {
        self.auth.make_token(by, new).await.unwrap().credential
    }

    /// A share of a directory or file. `downloads`, and the time in which it ends: none without a limit.
    pub async fn share(
        &self,
        by: &Credential,
        at: &str,
        limits: (Option<u64>, Option<i64>),
    ) -> Result<NewSecret, AuthError> {
        self.share_with(by, at, limits, None).await
    }

    pub async fn share_with(
        &self,
        by: &Credential,
        at: &str,
        (downloads, ms): (Option<u64>, Option<i64>),
        password: Option<&str>,
    ) -> Result<NewSecret, AuthError> {
        let drive = self.drive.for_requester(self.auth.requester(by.clone()));
        let (chain, target) = drive.share_target(&path(at)).await.unwrap();
        let expires = ms.map(|ms| Timestamp::from_ms(now().ms() + ms));
        let new =
            NewShare { target, mode: ShareMode::Read { downloads }, expires, password: password.map(str::to_owned) };
        Ok(self.auth.make_share(by, &chain, new).await?.0)
    }

    pub async fn mkdir(&self, text: &str) -> DirId {
        self.drive.unrestricted().mkdir(&path(text), "tom", true).await.unwrap();
        self.chain(text).await.last().unwrap().1
    }

    /// The directories of a path.
    pub async fn chain(&self, text: &str) -> DirChain {
        let mut chain = DirChain::root();
        let mut at = DrivePath::root();
        for name in path(text).names() {
            at = at.join(&name).unwrap();
            let Node::Directory { entry, .. } = self.drive.unrestricted().stat(&at).await.unwrap() else {
                panic!("a file")
            };
            chain.push(at.clone(), entry.id);
        }
        chain
    }

    pub async fn give(&self, by: &Credential, dir: &str, to: &str, what: &[Right]) {
        let to = self.auth.grantee(to).await.unwrap();
        self.auth.put_grant(by, &self.chain(dir).await, &to, rights(what)).await.unwrap();
    }

    /// The permission, if the user has the right.
    pub async fn decide(&self, by: &Credential, dir: &str, right: Right) -> Option<Permission> {
        let authority = self.auth.authority(by).await.unwrap();
        self.auth.decide(&authority, &self.chain(dir).await, right).await.ok()
    }

    pub async fn may(&self, by: &Credential, dir: &str, right: Right) -> bool {
        self.decide(by, dir, right).await.is_some()
    }

    /// Whether a plan that this permission guards is committed.
    pub async fn commits(&self, permission: &Permission) -> bool {
        let mut plan = Plan::default();
        permission.guard(&mut plan);
        self.tables.commit(plan).await.unwrap() == Outcome::Committed
    }

    pub async fn check(&self, repair: bool) -> (CheckSummary, Vec<Finding>) {
        crate::check::run(&self.tables, self.data.path(), repair).await
    }

    pub async fn is_valid(&self, credential: &Credential) -> bool {
        self.auth.authority(credential).await.is_ok()
    }
}
