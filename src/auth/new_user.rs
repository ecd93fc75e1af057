//! Users: made, the first one too.

use super::Auth;
use super::authority::{Authority, no_users};
use super::credential::Credential;
use super::error::{AuthError, Result};
use super::guards;
use super::seal::put_seal_key;
use super::users::{User, key, put_admins};
use crate::schema::account::{self, Grantee, PasswordHash, Profile, Quota, Stamp, Usage};
use crate::schema::grant::{Giver, Grant};
use crate::schema::ids::{DirId, GrantId};
use crate::schema::rights::Rights;
use crate::schema::user_name::UserName;
use crate::table::{Check, ConditionalRow, Plan};

/// A user to be made.
#[derive(Clone)]
pub struct NewUser {
    /// The name.
    pub name: String,
    /// The password.
    pub password: String,
    /// The name for people; may be empty.
    pub display: String,
    /// Whether he is an admin.
    pub admin: bool,
    /// The limits of his usage.
    pub quota: Quota,
}

/// A user to be made whose name is allowed, and whose password is hashed.
pub struct PreparedUser {
    name: UserName,
    profile: Profile,
    hash: PasswordHash,
}

impl PreparedUser {
    /// The name.
    pub fn name(&self) -> &UserName {
        &self.name
    }
}

impl Auth {
    /// Makes the first user, an admin. From then on nobody does anything without a credential.
    ///
    /// Errors: [`AuthError::UsersExist`] if there was ever a user.
    pub async fn make_first_user(&self, new: NewUser) -> Result<User> {
        self.make_user(&Credential::nobody(), NewUser { admin: true, ..new }).await
    }

    /// Makes a user.
    ///
    /// Errors: [`AuthError::NameTaken`] if the name was given before, even to a user who was removed.
    pub async fn add_user(&self, by: &Credential, new: NewUser) -> Result<User> {
        if by.user().is_none() {
            return Err(AuthError::Forbidden);
        }
        self.make_user(by, new).await
    }

    async fn make_user(&self, by: &Credential, new: NewUser) -> Result<User> {
        let prepared = self.prepare_user(by, new).await?;
        let (this, prepared) = (self, &prepared);
        self.until_committed(|| async move {
            let mut plan = Plan::default();
            let user = this.plan_user(&mut plan, by, prepared, None).await?;
            Ok((plan, user))
        })
        .await
    }

    /// Hashes the password of a new user, if `by` may make him as things are now. Nobody makes the first user, an
    /// admin.
    pub async fn prepare_user(&self, by: &Credential, new: NewUser) -> Result<PreparedUser> {
        let maker = self.maker(by).await?;
        let name = UserName::parse(&new.name)?;
        let hash = self.verifier.hash(&new.password, by.user()).await?;
        let NewUser { display, admin, quota, .. } = new;
        let (admin, created) = (admin || maker.is_none(), (self.clock)());
        let profile = Profile { admin, disabled: false, removed: false, created, display, quota };
        Ok(PreparedUser { name, profile, hash })
    }

    /// Adds a new user to a plan. `home`: the directory on which he gets all rights.
    pub async fn plan_user(
        &self,
        plan: &mut Plan,
        by: &Credential,
        user: &PreparedUser,
        home: Option<DirId>,
    ) -> Result<User> {
        let maker = self.maker(by).await?;
        let PreparedUser { name, profile, hash } = user;
        let mut account = account_row(name, profile, hash);
        if let Some(dir) = home {
            let grant = Grant { dir, giver: Giver::Admins, rights: Rights::ALL, id: GrantId::random() };
            account.changes.push(grant.put());
            plan.prepare.extend(grant.put_index(&Grantee::User(name.clone())));
        }
        guards::add_all(plan, [name.make_row(), account]);
        match maker {
            None => {
                self.known.begin_first();
                guards::add_all(plan, [ConditionalRow { changes: vec![put_admins(1), put_seal_key()?], ..no_users() }]);
            }
            Some(admin) => {
                if self.known_name(name.as_str()).await?.is_some() {
                    return Err(AuthError::NameTaken);
                }
                guards::add_all(plan, [admin.guard()]);
                guards::add_all(plan, self.count_admins(false, profile.is_enabled_admin()).await?);
            }
        }
        // Files may have been stored in this name before.
        let usage = Usage::from_row(&self.tables.get(account::TABLE, &key(name), &Usage::query()).await?)?;
        Ok(User { name: name.clone(), profile: profile.clone(), usage })
    }

    /// Who makes a user: an admin, or nobody if there are no users.
    pub(super) async fn maker(&self, by: &Credential) -> Result<Option<Authority>> {
        if by.user().is_some() {
            return self.admin(by).await.map(Some);
        }
        match self.admins().await? {
            None => Ok(None),
            Some(_) => Err(AuthError::UsersExist),
        }
    }
}

/// Creates the row of an account. There may be a usage in it, of files that were stored before.
fn account_row(name: &UserName, profile: &Profile, hash: &PasswordHash) -> ConditionalRow {
    let checks = vec![Check::Absent(account::stamp_column())];
    let changes = vec![Stamp::FIRST.put(), profile.put(), hash.put()];
    ConditionalRow { table: account::TABLE, row: key(name), checks, changes }
}
