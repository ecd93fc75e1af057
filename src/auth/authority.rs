//! Who asks, by what he has proved, with all that his account says at one instant.

use crate::schema::CF;
use crate::schema::account::{self, Account, Grantee, PasswordHash, Quota, Stamp, Usage};
use crate::schema::grant::Grant;
use crate::schema::meta;
use crate::schema::secret::{Scope, Secret, SecretDigest, SecretKind, SecretOwner};
use crate::schema::timestamp::Timestamp;
use crate::schema::user_name::UserName;
use crate::schema::{secret, value};
use crate::table::{Check, ConditionalRow, Row};

use super::Auth;
use super::error::{AuthError, Result};

const HOUR_MS: i64 = 60 * 60 * 1_000;
/// A session ends so long after its last use.
pub(super) const SESSION_UNUSED_MS: i64 = 14 * 24 * HOUR_MS;
/// A session ends so long after its login.
pub(super) const SESSION_MS: i64 = 90 * 24 * HOUR_MS;

/// What a request has proved. Only [`Auth`] makes it; [`Auth::authority`] tells whether it still holds.
#[derive(Clone, Debug)]
pub struct Credential(pub(super) Proof);

#[derive(Clone, Debug)]
pub(super) enum Proof {
    /// Nothing, on a drive without users.
    Nobody,
    Password {
        user: UserName,
        /// The hash that was verified. Another one means another password.
        hash: PasswordHash,
    },
    Secret {
        owner: SecretOwner,
        digest: SecretDigest,
    },
}

impl Credential {
    /// That of a request that has proved nothing: it holds as long as there are no users.
    pub fn nobody() -> Self {
        Self(Proof::Nobody)
    }

    /// Whether a name, in any spelling that looks the same, is that of its user.
    pub fn is_of(&self, name: &str) -> bool {
        let named = UserName::parse(name).ok();
        named.zip(self.user()).is_some_and(|(named, user)| named.folded_key() == user.folded_key())
    }

    /// The user; none on a drive without users.
    pub fn user(&self) -> Option<&UserName> {
        match &self.0 {
            Proof::Nobody => None,
            Proof::Password { user, .. } => Some(user),
            Proof::Secret { owner, .. } => Some(&owner.user),
        }
    }

    /// The session or token; none if the password was sent.
    pub fn secret(&self) -> Option<&SecretOwner> {
        match &self.0 {
            Proof::Secret { owner, .. } => Some(owner),
            Proof::Nobody | Proof::Password { .. } => None,
        }
    }
}

/// Who asks, and what his account said at one instant. What is decided on it is guarded by its checks. Only [`Auth`]
/// makes it.
#[derive(Clone, Debug)]
pub struct Authority {
    pub(super) asker: Option<Asker>,
}

/// A user who asks.
#[derive(Clone, Debug)]
pub(super) struct Asker {
    pub name: UserName,
    pub stamp: Stamp,
    pub admin: bool,
    pub scope: Option<Scope>,
    pub grants: Vec<Grant>,
    pub everyone: Option<(Stamp, Vec<Grant>)>,
    /// The end of the token that was sent; none if it has none, or if it is no token.
    token_end: Option<Timestamp>,
    usage: Usage,
    quota: Quota,
    /// That the password or the secret is still valid.
    proof: Check,
}

impl Authority {
    /// The user; none on a drive without users.
    pub fn user(&self) -> Option<&UserName> {
        self.asker.as_ref().map(|asker| &asker.name)
    }

    /// Whether he may do everything that an admin may: not with a token for one directory.
    pub fn is_admin(&self) -> bool {
        self.asker.as_ref().is_none_or(|asker| asker.admin && asker.scope.is_none())
    }

    /// Whether he is a user who is an admin: on a drive without users there is none.
    pub(super) fn is_admin_user(&self) -> bool {
        self.asker.is_some() && self.is_admin()
    }

    /// Whether he may change his own account: not with a token for one directory.
    pub fn is_for_account(&self) -> bool {
        self.asker.as_ref().is_some_and(|asker| asker.scope.is_none())
    }

    /// What he has created, and its limits; none on a drive without users.
    pub fn usage(&self) -> Option<(Usage, Quota)> {
        self.asker.as_ref().map(|asker| (asker.usage, asker.quota))
    }

    /// The end of the token that was sent; none if it has none, or if it is no token.
    pub(super) fn token_end(&self) -> Option<Timestamp> {
        self.asker.as_ref().and_then(|asker| asker.token_end)
    }

    /// Whether the accounts on which both depend have not changed between the two reads of them: his own and that of
    /// everyone. Those of givers are not among them: a [permission](super::Permission) has their stamps.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let read = |asker: &Asker| {
            let everyone = asker.everyone.as_ref().map(|(stamp, _)| *stamp);
            (asker.name.clone(), asker.stamp, everyone, asker.proof.clone())
        };
        self.asker.as_ref().map(read) == other.asker.as_ref().map(read)
    }

    /// The row that guards what is decided on this.
    pub(super) fn guard(&self) -> ConditionalRow {
        match &self.asker {
            None => no_users(),
            Some(asker) => ConditionalRow {
                table: account::TABLE,
                row: Grantee::User(asker.name.clone()).key(),
                checks: vec![asker.stamp.check(), asker.proof.clone()],
                changes: Vec::new(),
            },
        }
    }
}

/// What a credential still proves.
struct Proven {
    check: Check,
    scope: Option<Scope>,
    token_end: Option<Timestamp>,
}

/// There was never a user.
pub(super) fn no_users() -> ConditionalRow {
    let checks = vec![Check::Absent(meta::admins_column())];
    ConditionalRow { table: meta::TABLE, row: meta::USERS.into(), checks, changes: Vec::new() }
}

impl Auth {
    /// What a request may do that sends no credential: everything on a drive without users.
    ///
    /// Errors: [`AuthError::Unauthorized`] if there are users.
    pub async fn anonymous(&self) -> Result<Credential> {
        if self.has_users().await? { Err(AuthError::Unauthorized) } else { Ok(Credential(Proof::Nobody)) }
    }

    /// Reads the account behind a credential as it is now.
    ///
    /// Errors: [`AuthError::Unauthorized`] if the credential is not valid any more.
    pub async fn authority(&self, credential: &Credential) -> Result<Authority> {
        let Some(user) = credential.user() else {
            self.anonymous().await?;
            return Ok(Authority { asker: None });
        };
        let cells = match &credential.0 {
            Proof::Secret { owner, .. } => vec![owner.column(), owner.used_column()],
            Proof::Nobody | Proof::Password { .. } => vec![account::password_column()],
        };
        let key = Grantee::User(user.clone()).key();
        let row = self.tables.get(account::TABLE, &key, &Account::query(cells)).await?;
        let Some(account) = Account::from_row(&row)? else { return Err(AuthError::Unauthorized) };
        let Some(profile) = account.profile.filter(account::Profile::is_enabled) else {
            return Err(AuthError::Unauthorized);
        };
        let Proven { check, scope, token_end } = self.prove(&credential.0, &row)?.ok_or(AuthError::Unauthorized)?;
        let asker = Asker {
            name: user.clone(),
            stamp: account.stamp,
            admin: profile.admin,
            scope,
            grants: account.grants,
            everyone: self.account(&Grantee::Everyone).await?.map(|everyone| (everyone.stamp, everyone.grants)),
            token_end,
            usage: account.usage,
            quota: profile.quota,
            proof: check,
        };
        Ok(Authority { asker: Some(asker) })
    }

    /// As [`authority`](Self::authority), for what is about accounts.
    ///
    /// Errors: [`AuthError::Forbidden`] to a token for one directory.
    pub async fn require_account(&self, credential: &Credential) -> Result<Authority> {
        let authority = self.authority(credential).await?;
        if authority.is_for_account() { Ok(authority) } else { Err(AuthError::Forbidden) }
    }

    /// Whether an account row still has what the credential has proved.
    fn prove(&self, proof: &Proof, row: &Row) -> Result<Option<Proven>> {
        match proof {
            Proof::Nobody => Ok(None),
            Proof::Password { hash, .. } => {
                let Some(stored) = row.get(CF, account::PASSWORD) else { return Ok(None) };
                let is_same = value::decode::<PasswordHash>(stored)? == *hash;
                let check = Check::Equals(account::password_column(), stored.clone());
                Ok(is_same.then_some(Proven { check, scope: None, token_end: None }))
            }
            Proof::Secret { owner, digest } => {
                let (stored, used) = (owner.column(), owner.used_column());
                let Some(value) = row.get(stored.family, &stored.qualifier) else { return Ok(None) };
                let secret = Secret::decode(value)?;
                let used = row.get(used.family, &used.qualifier).map(|value| secret::decode_used(value)).transpose()?;
                let is_valid = secret.digest == *digest && is_in_time(owner.kind, &secret, used, (self.clock)());
                let check = Check::Equals(stored, value.clone());
                let token_end = secret.expires.filter(|_| owner.kind == SecretKind::Token);
                Ok(is_valid.then_some(Proven { check, scope: secret.scope, token_end }))
            }
        }
    }
}

/// Whether a secret has not ended by itself.
pub(super) fn is_in_time(kind: SecretKind, secret: &Secret, used: Option<Timestamp>, now: Timestamp) -> bool {
    let since = |time: Timestamp| now.ms().saturating_sub(time.ms());
    let is_used = kind == SecretKind::Token || since(used.unwrap_or(secret.created)) < SESSION_UNUSED_MS;
    is_used && secret.expires.is_none_or(|expires| now < expires)
}
