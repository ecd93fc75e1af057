//! Logins, sessions and tokens: made, found, revoked.

use std::fmt;
use std::net::IpAddr;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;

use super::Auth;
use super::authority::{Authority, SESSION_MS};
use super::credential::Credential;
use super::error::{AuthError, Result};
use super::guards;
use super::password::TOKEN_PREFIX;
use super::random::random;
use super::secret_bounds::{self, StoredSecret};
use super::sender::Sender;
use super::verifier::SentPassword;
use crate::schema::CF;
use crate::schema::account::{self, Account, Grantee, PasswordHash, Profile, SESSION};
use crate::schema::ids::SecretId;
use crate::schema::secret::{self, Secret, SecretDigest, SecretKind, SecretOwner, TokenScope};
use crate::schema::timestamp::Timestamp;
use crate::schema::user_name::UserName;
use crate::schema::value;
use crate::sha256::sha256;
use crate::table::{Change, Check, Column, ConditionalRow, Plan, RowQuery};

/// The time of the last use is written when it is so much later than the stored one.
const USE_MS: i64 = 60 * 60 * 1_000;

/// A session or a token that was just made.
pub struct NewSecret {
    /// What its user sends. It is told once: only its SHA-256 is stored.
    pub text: String,
    /// Its id.
    pub id: SecretId,
    /// When it was made.
    pub created: Timestamp,
    /// When it expires.
    pub expires: Option<Timestamp>,
    /// What its user has proved with it.
    pub credential: Credential,
}

/// No secret appears in a log.
impl fmt::Debug for NewSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewSecret").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A token to be made.
#[derive(Clone, Debug, Default)]
pub struct NewToken {
    /// What its user calls it.
    pub name: String,
    /// When it expires.
    pub expires: Option<Timestamp>,
    /// None: it may do all that its user may.
    pub scope: Option<TokenScope>,
}

/// A session or a token in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSecret {
    /// Its id.
    pub id: SecretId,
    /// What its user calls it; empty for a session.
    pub name: String,
    /// When it was made.
    pub created: Timestamp,
    /// When it was used last, to the hour; none if it never was.
    pub used: Option<Timestamp>,
    /// When it expires.
    pub expires: Option<Timestamp>,
    /// None: it may do all that its user may.
    pub scope: Option<TokenScope>,
}

impl Auth {
    /// Verifies a password that a client has sent from an address. An unknown name, a wrong password and a disabled
    /// user are the same error, as late.
    ///
    /// Errors: [`AuthError::Unauthorized`]; [`AuthError::Slowed`] after too many wrong ones; [`PasswordError::Busy`] if
    /// too many are sent.
    ///
    /// [`PasswordError::Busy`]: super::password::PasswordError::Busy
    pub async fn log_in(&self, name: &str, password: &str, address: IpAddr, now: Instant) -> Result<Credential> {
        let digest = self.verifier.login_digest(name, password, address)?;
        if let Some(kept) = self.kept.find_password(digest, now, self.clock) {
            return Ok(kept);
        }
        let sent = SentPassword { password, sender: Sender::new(name, address), now };
        let read = || async { self.user_with_password(name).await };
        // In a box, since few requests wait for it: the future of each would have its size.
        let verified = Box::pin(self.verifier.verify_sent(sent, read)).await?;
        Ok(Credential::password(verified.ok_or(AuthError::Unauthorized)?, digest, now))
    }

    /// The user of a name who may log in, with the hash of his password.
    async fn user_with_password(&self, name: &str) -> Result<Option<((UserName, PasswordHash), PasswordHash)>> {
        let Some(user) = self.known_name(name).await? else { return Ok(None) };
        let hash = self.password_of(&user).await?;
        Ok(hash.map(|hash| ((user, hash.clone()), hash)))
    }

    /// The hash of a user who may log in.
    async fn password_of(&self, user: &UserName) -> Result<Option<PasswordHash>> {
        let query = Account::without_usage([account::password_column()]);
        let row = self.tables.get(account::TABLE, &Grantee::User(user.clone()).key(), &query).await?;
        let profile = Account::from_row(&row)?.and_then(|account| account.profile);
        let hash = row.get(CF, account::PASSWORD).map(|value| value::decode(value)).transpose()?;
        Ok(hash.filter(|_| profile.as_ref().is_some_and(Profile::is_enabled)))
    }

    /// Makes a session after a login. The password that was verified must still be the user's at the commit.
    pub async fn make_session(&self, login: &Credential) -> Result<NewSecret> {
        let text = URL_SAFE_NO_PAD.encode(random::<32>()?);
        let created = (self.clock)();
        let expires = Some(Timestamp::from_ms(created.ms().saturating_add(SESSION_MS)));
        self.make_secret(login, SecretKind::Session, text, NewToken { expires, ..NewToken::default() }).await
    }

    /// Makes a token. One that is made with a token expires no later than that.
    ///
    /// Errors: [`AuthError::Forbidden`] to a token that is for one directory; [`AuthError::Outlives`] to one that
    /// expires earlier; [`AuthError::TooManyTokens`].
    pub async fn make_token(&self, by: &Credential, new: NewToken) -> Result<NewSecret> {
        let text = format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(random::<20>()?));
        self.make_secret(by, SecretKind::Token, text, new).await
    }

    async fn make_secret(&self, by: &Credential, kind: SecretKind, text: String, new: NewToken) -> Result<NewSecret> {
        let user = by.user().ok_or(AuthError::Forbidden)?.clone();
        let owner = SecretOwner { user, kind, id: SecretId::random() };
        let (digest, created) = (digest_of(&text), (self.clock)());
        let (this, owner, new) = (self, &owner, &new);
        let expires = self
            .until_committed_by(by, |authority| async move {
                if !authority.is_for_account() {
                    return Err(AuthError::Forbidden);
                }
                let expires = match kind {
                    SecretKind::Session | SecretKind::Share => new.expires,
                    SecretKind::Token => expiry_by_token(new.expires, authority.token_expires())?,
                };
                let NewToken { name, scope, .. } = new.clone();
                // The stamp stays: only a change that revokes all secrets depends on a new one, and it checks which is
                // the newest.
                let ConditionalRow { table, row, mut checks, .. } = authority.guard();
                if kind == SecretKind::Token {
                    // IMPORTANT: before the tokens are counted.
                    checks.push(this.newest_secret(&owner.user).await?);
                }
                let mut changes =
                    vec![owner.put(&Secret { digest, name, created, expires, scope }), account::put_newest(owner.id)];
                let mut plan = Plan { prepare: vec![owner.put_index(digest)], ..Plan::default() };
                this.make_room(&mut plan, &mut changes, owner).await?;
                plan.guarded = vec![ConditionalRow { table, row, checks, changes }];
                Ok((plan, expires))
            })
            .await?;
        let credential = Credential::of_secret(owner.clone(), digest);
        Ok(NewSecret { text, id: owner.id, created, expires, credential })
    }

    /// Finds the session, token or share that a client has sent. [`Auth::authority`] tells whether it is still valid.
    pub async fn find_secret(&self, text: &str) -> Result<Credential> {
        let digest = digest_of(text);
        if let Some(kept) = self.kept.find_secret(digest, self.clock) {
            return Ok(kept);
        }
        let query = RowQuery::cells(vec![Column::new(CF, secret::OWNER)]);
        let row = self.tables.get(secret::TABLE, &digest.0, &query).await?;
        let owner = row.get(CF, secret::OWNER).ok_or(AuthError::Unauthorized)?;
        Ok(Credential::of_secret(SecretOwner::decode(owner)?, digest))
    }

    /// Notes that a session or token was used, at most once an hour. `authority`: what was read of it.
    pub async fn note_use(&self, credential: &Credential, authority: &Authority) -> Result<()> {
        let Some(owner) = credential.secret() else { return Ok(()) };
        let now = (self.clock)();
        if authority.used().is_some_and(|used| now.ms().saturating_sub(used.ms()) < USE_MS) {
            return Ok(());
        }
        let (key, stored) = (Grantee::User(owner.user.clone()).key(), owner.column());
        let row = self.tables.get(account::TABLE, &key, &RowQuery::cells(vec![stored.clone()])).await?;
        let Some(secret) = row.get(stored.family, &stored.qualifier).cloned() else { return Ok(()) };
        let (checks, changes) = (vec![Check::Equals(stored, secret)], vec![owner.put_used(now)]);
        let guarded = vec![ConditionalRow { table: account::TABLE, row: key, checks, changes }];
        // A refusal means that the secret was revoked meanwhile.
        self.tables.commit(Plan { guarded, ..Plan::default() }).await?;
        Ok(())
    }

    /// Revokes a session, a token or a share, of the user himself or, for an admin, of another one.
    ///
    /// Errors: [`AuthError::NoSecret`] if there is none.
    pub async fn revoke(&self, by: &Credential, of: &UserName, kind: SecretKind, id: SecretId) -> Result<()> {
        let owner = SecretOwner { user: of.clone(), kind, id };
        let (this, owner) = (self, &owner);
        self.until_committed_by(by, |authority| async move {
            may_revoke(&authority, of, by, owner)?;
            let key = Grantee::User(of.clone()).key();
            let cell = owner.column();
            let row = this.tables.get(account::TABLE, &key, &RowQuery::cells(vec![cell.clone()])).await?;
            let stored: Bytes =
                row.get(cell.family, &cell.qualifier).cloned().ok_or(AuthError::NoSecret(owner.kind))?;
            let finish = secret_bounds::delete_index(owner, &stored)?;
            let (checks, changes) = (vec![Check::Equals(cell, stored)], owner.delete());
            let mut plan = Plan { finish, ..Plan::default() };
            let row = ConditionalRow { table: account::TABLE, row: key, checks, changes };
            guards::add_all(&mut plan, [row, authority.guard()]);
            Ok((plan, ()))
        })
        .await
    }

    /// Revokes all sessions of the user himself or, for an admin, of another one.
    pub async fn revoke_sessions(&self, by: &Credential, of: &UserName) -> Result<()> {
        let this = self;
        self.until_committed_by(by, |authority| async move {
            may_list(&authority, of)?;
            let (_, stamp) = this.user_with_stamp(of).await?;
            let finish = this.secret_entries_of(of, SecretKind::Session, None).await?;
            let changes = vec![stamp.next().put(), Change::DeleteFamily { family: SESSION }];
            let (row, checks) = (Grantee::User(of.clone()).key(), vec![stamp.check()]);
            // Also on a full disk, if there is a session.
            let mut plan = Plan { reserve: !finish.is_empty(), finish, ..Plan::default() };
            guards::add_all(
                &mut plan,
                [ConditionalRow { table: account::TABLE, row, checks, changes }, authority.guard()],
            );
            Ok((plan, ()))
        })
        .await
    }

    /// The user whose secrets are asked for: the one who asks or, by an admin, another one.
    ///
    /// Errors: [`AuthError::NoUser`] if there is no such user; [`AuthError::Forbidden`] to others than admins.
    pub async fn owner_of_secrets(&self, by: &Credential, named: Option<&str>) -> Result<UserName> {
        let authority = self.authority(by).await?;
        let own = authority.user().ok_or(AuthError::Forbidden)?;
        let Some(named) = named else { return Ok(own.clone()) };
        match self.known_name(named).await? {
            Some(name) if authority.is_admin_user() || name == *own => Ok(name),
            None if authority.is_admin_user() => Err(AuthError::NoUser),
            _ => Err(AuthError::Forbidden),
        }
    }

    /// The sessions or tokens of the user himself or, for an admin, of another one, without those that have expired.
    pub async fn secrets(&self, by: &Credential, of: &UserName, kind: SecretKind) -> Result<Vec<ListedSecret>> {
        let authority = self.authority(by).await?;
        may_list(&authority, of)?;
        let (row, all) = self.stored_secrets(of, kind).await?;
        let listed = |StoredSecret { owner, stored, .. }: StoredSecret| {
            let Secret { name, created, expires, scope, .. } = Secret::decode(&stored)?;
            Ok(ListedSecret { id: owner.id, name, created, used: owner.last_use(&row)?, expires, scope })
        };
        all.into_iter().filter(|one| !one.is_expired).map(listed).collect()
    }
}

/// When a new token or share expires. `maker`: when the token expires that it is made with, if it does.
pub(super) fn expiry_by_token(expires: Option<Timestamp>, maker: Option<Timestamp>) -> Result<Option<Timestamp>> {
    match (expires, maker) {
        (Some(expires), Some(maker)) if expires > maker => Err(AuthError::Outlives),
        (None, maker) => Ok(maker),
        (expires, _) => Ok(expires),
    }
}

/// A user revokes his own secrets, with any credential the one that he has sent, and an admin those of all.
fn may_revoke(authority: &Authority, of: &UserName, by: &Credential, owner: &SecretOwner) -> Result<()> {
    let is_sent = by.secret() == Some(owner);
    let is_own_share = owner.kind == SecretKind::Share && authority.user() == Some(of) && authority.may_share();
    if is_own(authority, of) || authority.is_admin_user() || is_sent || is_own_share {
        Ok(())
    } else {
        Err(AuthError::Forbidden)
    }
}

/// A user lists his own secrets, and revokes all his sessions, an admin those of all.
fn may_list(authority: &Authority, of: &UserName) -> Result<()> {
    if is_own(authority, of) || authority.is_admin_user() { Ok(()) } else { Err(AuthError::Forbidden) }
}

fn is_own(authority: &Authority, of: &UserName) -> bool {
    authority.is_for_account() && authority.user() == Some(of)
}

pub(super) fn digest_of(text: &str) -> SecretDigest {
    SecretDigest(sha256(text))
}
