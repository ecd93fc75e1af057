//! Users: changed, removed, listed. At least one admin who can log in stays, once there was a user.

use std::fmt;
use std::net::IpAddr;
use std::time::Instant;

use super::Auth;
use super::authority::Authority;
use super::credential::Credential;
use super::error::{AuthError, Result};
use super::guards;
use crate::schema::CF;
use crate::schema::account::{
    self, Account, GRANT, Grantee, PasswordHash, Profile, Quota, SESSION, SHARE, Stamp, TOKEN, Usage,
};
use crate::schema::meta;
use crate::schema::secret::SecretKind;
use crate::schema::user_name::UserName;
use crate::schema::value;
use crate::table::{Change, Check, ConditionalRow, Plan, RowCursor, RowQuery, RowRange};

/// Accounts that are listed at a time.
const PAGE: usize = 100;

/// What changes of a user; none: it stays.
#[derive(Clone, Debug, Default)]
pub struct UserChange {
    /// The name for people.
    pub display: Option<String>,
    /// A new password revokes all sessions but that of the request.
    pub password: Option<String>,
    /// The present password. A user who is no admin proves it again when he changes his password.
    pub old_password: Option<OldPassword>,
    /// Whether he may do everything.
    pub admin: Option<bool>,
    /// Disabling revokes all sessions.
    pub disabled: Option<bool>,
    /// The limits of his usage.
    pub quota: QuotaChange,
}

/// What changes of a quota; none: the limit stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaChange {
    /// The limit of bytes; none in it: no limit.
    pub bytes: Option<Option<u64>>,
    /// The limit of files and directories; none in it: no limit.
    pub files: Option<Option<u64>>,
}

/// The present password of a user, as it was sent. A wrong one counts as a wrong one of a login does.
#[derive(Clone)]
pub struct OldPassword {
    /// The password.
    pub password: String,
    /// Where it was sent from.
    pub address: IpAddr,
    /// The time now.
    pub now: Instant,
}

/// No password appears in a log.
impl fmt::Debug for OldPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OldPassword").field("address", &self.address).finish_non_exhaustive()
    }
}

impl UserChange {
    /// Whether only an admin may do it.
    fn is_for_admins(&self) -> bool {
        self.admin.is_some() || self.disabled.is_some() || self.quota != QuotaChange::default()
    }
}

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: UserName,
    /// What is known of him.
    pub profile: Profile,
    /// What he has created.
    pub usage: Usage,
}

impl Auth {
    /// Changes a user. An admin changes everybody, a user his own display name and, with the old one, his password.
    ///
    /// Errors: [`AuthError::LastAdmin`] if no admin would be left who can log in; [`AuthError::WrongPassword`] if the
    /// present password is another one, [`AuthError::Slowed`] after too many such.
    pub async fn change_user(&self, by: &Credential, name: &str, change: UserChange) -> Result<User> {
        let authority = self.authority(by).await?;
        let name = match self.known_name(name).await? {
            Some(name) => name,
            None if authority.is_admin_user() => return Err(AuthError::NoUser),
            // Others do not learn which users there are.
            None => return Err(AuthError::Forbidden),
        };
        may_change(&authority, &name, &change)?;
        // Before a new one is hashed, and once: each takes a place of the queue.
        let needs_old = change.old_password.is_some() || (change.password.is_some() && !authority.is_admin());
        let old = if needs_old { Some(self.verify_old(&authority, &name, &change).await?) } else { None };
        let hash = match &change.password {
            None => None,
            Some(password) => Some(self.verifier.hash(password, authority.user()).await?),
        };
        let (this, name, change, hash, old) = (self, &name, &change, &hash, &old);
        self.until_committed_by(by, |authority| async move {
            may_change(&authority, name, change)?;
            let (mut plan, user) = this.plan_change(by, &authority, name, change, hash.as_ref()).await?;
            match old {
                Some(old) => guards::add_all(&mut plan, [this.still(name, old).await?]),
                // He was an admin when he sent no old one.
                None if hash.is_some() && !authority.is_admin() => return Err(AuthError::Forbidden),
                None => {}
            }
            Ok((plan, user))
        })
        .await
    }

    async fn plan_change(
        &self,
        by: &Credential,
        authority: &Authority,
        name: &UserName,
        change: &UserChange,
        hash: Option<&PasswordHash>,
    ) -> Result<(Plan, User)> {
        let (user, stamp) = self.user_with_stamp(name).await?;
        let is_self = authority.user() == Some(name);
        let before = user.profile.is_enabled_admin();
        let user = User { profile: changed(user.profile, change), ..user };
        let mut changes = vec![stamp.next().put(), user.profile.put()];
        let (mut plan, mut checks) =
            (Plan { reserve: takes_away(authority, change), ..Plan::default() }, vec![stamp.check()]);
        changes.extend(hash.map(PasswordHash::put));
        if hash.is_some() || change.disabled == Some(true) {
            checks.push(self.newest_secret(name).await?);
            let kept = by.secret().filter(|_| is_self && change.disabled != Some(true));
            plan.finish = self.secret_entries_of(name, SecretKind::Session, kept.map(|session| session.id)).await?;
            changes.push(Change::DeleteFamily { family: SESSION });
            if kept.is_some() {
                changes.extend(self.keep_session(by).await?);
            }
        }
        let row = ConditionalRow { table: account::TABLE, row: key(name), checks, changes };
        guards::add_all(&mut plan, [row, authority.guard()]);
        let counted = self.count_admins(before, user.profile.is_enabled_admin()).await;
        guards::add_all(&mut plan, self.of_stamp(name, stamp, counted).await?);
        Ok((plan, user))
    }

    /// The number of admins was read after the user. That he is the last one counts only if he has not changed since:
    /// otherwise he may have been counted out by another request.
    async fn of_stamp<T>(&self, name: &UserName, stamp: Stamp, counted: Result<T>) -> Result<T> {
        if matches!(counted, Err(AuthError::LastAdmin)) && self.user_with_stamp(name).await?.1 != stamp {
            return Err(AuthError::Contended);
        }
        counted
    }

    /// The check that no session and no token of a user is made from now on.
    ///
    /// IMPORTANT: before the secrets are read that the change revokes. It deletes all by their family, but their index
    /// entries by what was read: a login in between would leave its own.
    pub(super) async fn newest_secret(&self, name: &UserName) -> Result<Check> {
        let cell = account::newest_column();
        let row = self.tables.get(account::TABLE, &key(name), &RowQuery::cells(vec![cell.clone()])).await?;
        Ok(match row.get(cell.family, &cell.qualifier) {
            None => Check::Absent(cell),
            Some(newest) => Check::Equals(cell, newest.clone()),
        })
    }

    /// Verifies the present password of a user. Returns its hash.
    ///
    /// That of the user who asks is verified as in a login: otherwise who has stolen a session could guess without end.
    async fn verify_old(&self, by: &Authority, name: &UserName, change: &UserChange) -> Result<PasswordHash> {
        let OldPassword { password, address, now } = change.old_password.as_ref().ok_or(AuthError::Forbidden)?;
        let asker = by.user().ok_or(AuthError::Forbidden)?;
        if asker == name {
            return match self.log_in(name.as_str(), password, *address, *now).await {
                Ok(login) => login.password_hash().cloned().ok_or(AuthError::WrongPassword),
                Err(AuthError::Unauthorized) => Err(AuthError::WrongPassword),
                Err(error) => Err(error),
            };
        }
        let stored = self.tables.cell(account::TABLE, &key(name), CF, account::PASSWORD).await?;
        let hash = value::decode::<PasswordHash>(&stored.ok_or(AuthError::Forbidden)?)?;
        let is_right = self.verifier.verify_own(password, hash.clone(), asker).await?;
        if is_right { Ok(hash) } else { Err(AuthError::WrongPassword) }
    }

    /// The row that guards that a user's password is still the one with this hash.
    ///
    /// Errors: [`AuthError::WrongPassword`] if it is another one by now.
    async fn still(&self, name: &UserName, hash: &PasswordHash) -> Result<ConditionalRow> {
        let stored = self.tables.cell(account::TABLE, &key(name), CF, account::PASSWORD).await?;
        let stored = stored.ok_or(AuthError::WrongPassword)?;
        if value::decode::<PasswordHash>(&stored)? != *hash {
            return Err(AuthError::WrongPassword);
        }
        let checks = vec![Check::Equals(account::password_column(), stored)];
        Ok(ConditionalRow { table: account::TABLE, row: key(name), checks, changes: Vec::new() })
    }

    /// Puts the session of the request again, after all sessions of its user have been deleted.
    async fn keep_session(&self, by: &Credential) -> Result<Vec<Change>> {
        let Some(owner) = by.secret().filter(|owner| owner.kind.family() == SESSION) else { return Ok(Vec::new()) };
        let columns = vec![owner.column(), owner.used_column()];
        let row = self.tables.get(account::TABLE, &key(&owner.user), &RowQuery::cells(columns)).await?;
        Ok(row.family(SESSION).map(|cell| Change::put(SESSION, cell.qualifier.clone(), cell.value.clone())).collect())
    }

    /// Removes a user, with his secrets and all grants that he has. His files stay, and so does his row, as the creator
    /// of them. Grants that he has given do not count any more.
    ///
    /// Errors: [`AuthError::LastAdmin`] if no admin would be left who can log in.
    pub async fn remove_user(&self, by: &Credential, name: &str) -> Result<()> {
        let this = self;
        let removed = self
            .until_committed_by(by, |admin| async move {
                if !admin.is_admin_user() {
                    return Err(AuthError::Forbidden);
                }
                let name = this.known_name(name).await?.ok_or(AuthError::NoUser)?;
                let account = this.account(&Grantee::User(name.clone())).await?.ok_or(AuthError::NoUser)?;
                let (profile, stamp) = (account.user().ok_or(AuthError::NoUser)?.clone(), account.stamp);
                let before = profile.is_enabled_admin();
                let gone = Profile { removed: true, display: String::new(), quota: Quota::default(), ..profile };
                let mut changes = vec![stamp.next().put(), gone.put(), Change::delete(CF, account::PASSWORD)];
                changes.extend([GRANT, SESSION, TOKEN, SHARE].map(|family| Change::DeleteFamily { family }));
                let checks = vec![stamp.check(), this.newest_secret(&name).await?];
                let row = ConditionalRow { table: account::TABLE, row: key(&name), checks, changes };
                let finish = this.index_entries_of(&name, &account.grants).await?;
                let mut plan = Plan { finish, reserve: true, ..Plan::default() };
                guards::add_all(&mut plan, [row, admin.guard()]);
                let counted = this.count_admins(before, false).await;
                guards::add_all(&mut plan, this.of_stamp(&name, stamp, counted).await?);
                Ok((plan, name))
            })
            .await?;
        self.delete_given_by(&removed).await;
        Ok(())
    }

    /// One user.
    pub async fn user(&self, by: &Credential, name: &str) -> Result<User> {
        let authority = self.authority(by).await?;
        let name = self.known_name(name).await?;
        let is_own = |name: &UserName| authority.is_for_account() && authority.user() == Some(name);
        match name.filter(|name| authority.is_admin() || is_own(name)) {
            Some(name) => Ok(self.user_with_stamp(&name).await?.0),
            None if authority.is_admin() => Err(AuthError::NoUser),
            None => Err(AuthError::Forbidden),
        }
    }

    /// All users, by name, for an admin.
    pub async fn users(&self, by: &Credential) -> Result<Vec<User>> {
        self.admin(by).await?;
        self.all_users().await
    }

    /// All users, by name.
    pub(super) async fn all_users(&self) -> Result<Vec<User>> {
        let cells = [account::STAMP, account::PROFILE, account::BYTES, account::FILES];
        let query = RowQuery::cells(cells.map(|q| crate::table::Column::new(CF, q)).into());
        let mut cursor = RowCursor::new(account::TABLE, RowRange::all(), query, PAGE);
        let mut users = Vec::new();
        while let Some(rows) = cursor.next(&self.tables).await? {
            for (key, row) in rows {
                let (Grantee::User(name), Some(account)) = (Grantee::decode(&key)?, Account::from_row(&row)?) else {
                    continue;
                };
                users.extend(user_of(name, account).map(|(user, _)| user));
            }
        }
        Ok(users)
    }

    /// Who asks, if he is an admin.
    pub(super) async fn admin(&self, by: &Credential) -> Result<Authority> {
        let authority = self.authority(by).await?;
        if authority.is_admin_user() { Ok(authority) } else { Err(AuthError::Forbidden) }
    }

    /// A user who was not removed.
    pub(super) async fn user_with_stamp(&self, name: &UserName) -> Result<(User, Stamp)> {
        let account = self.account(&Grantee::User(name.clone())).await?;
        account.and_then(|account| user_of(name.clone(), account)).ok_or(AuthError::NoUser)
    }

    /// The change of the number of admins who can log in, if one more or one less is.
    pub(super) async fn count_admins(&self, before: bool, after: bool) -> Result<Option<ConditionalRow>> {
        if before == after {
            return Ok(None);
        }
        let admins = self.admins().await?.ok_or(AuthError::Contended)?;
        let counted = if after { admins.saturating_add(1) } else { admins.saturating_sub(1) };
        if counted == 0 {
            return Err(AuthError::LastAdmin);
        }
        // IMPORTANT: with the number that was read, so that of two admins who remove each other one stays.
        let checks = vec![Check::Equals(meta::admins_column(), meta::encode_admins(admins))];
        let changes = vec![put_admins(counted)];
        Ok(Some(ConditionalRow { table: meta::TABLE, row: meta::USERS.into(), checks, changes }))
    }
}

fn may_change(authority: &Authority, name: &UserName, change: &UserChange) -> Result<()> {
    let is_self = authority.user() == Some(name);
    if authority.is_admin_user() || (is_self && authority.is_for_account() && !change.is_for_admins()) {
        Ok(())
    } else {
        Err(AuthError::Forbidden)
    }
}

/// Whether a change of a user is possible on a full disk too: an admin ends rights or secrets, or bounds what the user
/// stores. What a user changes himself would fill the reserve in time.
fn takes_away(by: &Authority, change: &UserChange) -> bool {
    let QuotaChange { bytes, files } = change.quota;
    let adds = change.disabled == Some(false) || change.admin == Some(true) || [bytes, files].contains(&Some(None));
    let ends = change.disabled == Some(true) || change.admin == Some(false) || change.password.is_some();
    by.is_admin_user() && !adds && (ends || change.quota != QuotaChange::default())
}

fn changed(profile: Profile, change: &UserChange) -> Profile {
    Profile {
        display: change.display.clone().unwrap_or(profile.display),
        admin: change.admin.unwrap_or(profile.admin),
        disabled: change.disabled.unwrap_or(profile.disabled),
        quota: Quota {
            bytes: change.quota.bytes.unwrap_or(profile.quota.bytes),
            files: change.quota.files.unwrap_or(profile.quota.files),
        },
        ..profile
    }
}

fn user_of(name: UserName, account: Account) -> Option<(User, Stamp)> {
    let profile = account.user()?.clone();
    Some((User { name, profile, usage: account.usage }, account.stamp))
}

pub(super) fn put_admins(admins: u64) -> Change {
    Change::put(CF, meta::ADMINS, meta::encode_admins(admins))
}

pub(super) fn key(name: &UserName) -> bytes::Bytes {
    Grantee::User(name.clone()).key()
}
