//! Who asks, by what he has proved, with all that his account says at one instant; by a share that of its maker.

use std::sync::Arc;

use bytes::Bytes;

use crate::schema::CF;
use crate::schema::account::{self, Account, Grantee, PasswordHash, Profile, Quota, Usage};
use crate::schema::meta;
use crate::schema::rights::Right;
use crate::schema::secret::{Secret, SecretKind, TokenScope};
use crate::schema::timestamp::Timestamp;
use crate::schema::user_name::UserName;
use crate::schema::value;
use crate::table::{Check, Column, ConditionalRow, Row};

use super::Auth;
use super::asker::Asker;
use super::credential::{Credential, Proof};
use super::error::{AuthError, Result};
use super::open_share::{OpenShare, ShareOperation};

const HOUR_MS: i64 = 60 * 60 * 1_000;
/// A session expires so long after its last use.
pub(super) const SESSION_UNUSED_MS: i64 = 14 * 24 * HOUR_MS;
/// A session expires so long after its login.
pub(super) const SESSION_MS: i64 = 90 * 24 * HOUR_MS;

/// Who asks, and what his account said at one instant: the [`Asker`], or nobody. What is decided on it is guarded by
/// its checks. Only [`Auth`] makes it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Authority {
    pub(super) asker: Option<Arc<Asker>>,
}

/// What is still valid of a credential: the check of that, and what it is for.
struct Valid {
    proof: Check,
    scope: Option<TokenScope>,
    share: Option<OpenShare>,
    /// When a token expires, if it does.
    token_expires: Option<Timestamp>,
    /// The last use of a session or token that is noted.
    used: Option<Timestamp>,
    /// When it ends, if it does.
    ends: Option<Timestamp>,
}

impl Valid {
    fn of(column: Column, stored: &Bytes, scope: Option<TokenScope>) -> Self {
        let proof = Check::Equals(column, stored.clone());
        Self { proof, scope, share: None, token_expires: None, used: None, ends: None }
    }

    fn of_share(column: Column, stored: &Bytes, share: OpenShare) -> Self {
        Self { share: Some(share.clone()), ..Self::of(column, stored, share.scope()) }
    }
}

impl Authority {
    /// The user; none on a drive without users.
    pub fn user(&self) -> Option<&UserName> {
        self.asker.as_ref().map(|asker| &asker.name)
    }

    /// How many grants count for him, those to every user among them.
    pub fn grant_count(&self) -> usize {
        self.asker.as_ref().map_or(0, |asker| asker.grant_count())
    }

    /// Whether he may do what is for admins alone: not with a token for one directory.
    pub fn is_admin(&self) -> bool {
        self.asker.as_ref().is_none_or(|asker| asker.admin && asker.has_whole_account())
    }

    /// Whether he is a user who is an admin: on a drive without users there is none.
    pub(super) fn is_admin_user(&self) -> bool {
        self.asker.is_some() && self.is_admin()
    }

    /// Whether he may change his own account: not with a token for one directory.
    pub fn is_for_account(&self) -> bool {
        self.asker.as_ref().is_some_and(|asker| asker.has_whole_account())
    }

    /// Whether he may make and revoke shares: with a token for one directory only if it has the right to share.
    pub(super) fn may_share(&self) -> bool {
        self.asker.as_ref().is_some_and(|asker| {
            asker.share.is_none() && asker.scope.is_none_or(|scope| scope.rights.contains(Right::Share))
        })
    }

    /// The share by which a stranger asks.
    pub fn share(&self) -> Option<&OpenShare> {
        self.asker.as_ref().and_then(|asker| asker.share.as_ref())
    }

    /// What he has created, and its limits; none of a user without limits.
    pub(super) fn limits(&self) -> Option<(Usage, Quota)> {
        self.asker.as_ref().and_then(|asker| asker.limits)
    }

    /// When the token that was sent expires; none if it does not, or if it is no token.
    pub(super) fn token_expires(&self) -> Option<Timestamp> {
        self.asker.as_ref().and_then(|asker| asker.token_expires)
    }

    /// The last use of the session or token that is noted.
    pub(super) fn used(&self) -> Option<Timestamp> {
        self.asker.as_ref().and_then(|asker| asker.used)
    }

    /// Whether the accounts on which both depend have not changed between the two reads of them: his own and that of
    /// the grants to every user. Those of givers are not among them: a [permission](super::Permission) has their
    /// stamps.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        // `Auth::authority` gives the same one again only if it is current then.
        if let (Some(asker), Some(other)) = (&self.asker, &other.asker)
            && Arc::ptr_eq(asker, other)
        {
            return true;
        }
        let read = |asker: &Arc<Asker>| {
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
        if self.has_users().await? { Err(AuthError::Unauthorized) } else { Ok(Credential::nobody()) }
    }

    /// The account behind a credential as it is now.
    ///
    /// Errors: [`AuthError::Unauthorized`] if the credential is not valid any more; of nobody, if there are users.
    pub async fn authority(&self, credential: &Credential) -> Result<Authority> {
        let Some(user) = credential.user() else {
            let has_users = self.has_users().await?;
            return if has_users { Err(AuthError::Unauthorized) } else { Ok(Authority { asker: None }) };
        };
        if let Some(asker) = credential.asker(self.clock) {
            return Ok(Authority { asker: Some(asker) });
        }
        // In a box, since few requests wait for it: the future of each would have its size.
        let asker = Arc::new(Box::pin(self.read_asker(credential, user)).await?);
        if credential.keep_asker(&asker) {
            self.kept.keep(credential);
        }
        Ok(Authority { asker: Some(asker) })
    }

    async fn read_asker(&self, credential: &Credential, user: &UserName) -> Result<Asker> {
        let cells = match credential.proof() {
            Proof::Secret { owner, .. } | Proof::ShareFor { owner, .. } => {
                vec![owner.column(), owner.used_column()]
            }
            Proof::Nobody | Proof::Password { .. } => vec![account::password_column()],
        };
        let key = Grantee::User(user.clone()).key();
        let is_limited = |profile: &Profile| profile.quota != Quota::default();
        let mut row = self.tables.get(account::TABLE, &key, &Account::without_usage(cells.clone())).await?;
        if Account::from_row(&row)?.and_then(|account| account.profile).as_ref().is_some_and(is_limited) {
            row = self.tables.get(account::TABLE, &key, &Account::query(cells)).await?;
        }
        let Some(account) = Account::from_row(&row)? else { return Err(AuthError::Unauthorized) };
        let Some(profile) = account.profile.filter(Profile::is_enabled) else {
            return Err(AuthError::Unauthorized);
        };
        let (everyone_key, everyone_query) = (Grantee::Everyone.key(), Account::without_usage([]));
        let everyone_row = self.tables.get(account::TABLE, &everyone_key, &everyone_query).await?;
        let everyone = Account::from_row(&everyone_row)?.map(|everyone| (everyone.stamp, everyone.grants));
        let Valid { proof, scope, share, token_expires, used, ends } =
            self.prove(credential.proof(), &row)?.ok_or(AuthError::Unauthorized)?;
        let unchanged = row.unchanged().zip(everyone_row.unchanged()).map(|(row, other)| [row.clone(), other.clone()]);
        Ok(Asker {
            name: user.clone(),
            stamp: account.stamp,
            admin: profile.admin,
            scope,
            share,
            grants: account.grants,
            everyone,
            token_expires,
            used,
            limits: is_limited(&profile).then_some((account.usage, profile.quota)),
            proof,
            ends,
            // When a share ends is not known here: it is read each time.
            unchanged: unchanged.filter(|_| !credential.is_share()),
        })
    }

    /// What the user behind a credential has created, and its limits; none on a drive without users.
    pub async fn usage(&self, credential: &Credential) -> Result<(Usage, Quota)> {
        let Some(user) = credential.user() else { return Ok(Default::default()) };
        let account = self.account(&Grantee::User(user.clone())).await?.ok_or(AuthError::Unauthorized)?;
        Ok((account.usage, account.profile.map(|profile| profile.quota).unwrap_or_default()))
    }

    /// As [`authority`](Self::authority), for what is about accounts.
    ///
    /// Errors: [`AuthError::Forbidden`] to a token for one directory.
    pub async fn require_account(&self, credential: &Credential) -> Result<Authority> {
        let authority = self.authority(credential).await?;
        if authority.is_for_account() { Ok(authority) } else { Err(AuthError::Forbidden) }
    }

    /// As [`authority`](Self::authority), for what is about shares.
    ///
    /// Errors: [`AuthError::Forbidden`] to a token for one directory without the right to share.
    pub async fn require_sharing(&self, credential: &Credential) -> Result<Authority> {
        let authority = self.authority(credential).await?;
        if authority.may_share() { Ok(authority) } else { Err(AuthError::Forbidden) }
    }

    /// What an account row still has of what the credential has proved.
    fn prove(&self, proof: &Proof, row: &Row) -> Result<Option<Valid>> {
        match proof {
            Proof::Nobody => Ok(None),
            Proof::Password { hash, .. } => {
                let Some(stored) = row.get(CF, account::PASSWORD) else { return Ok(None) };
                let is_same = value::decode::<PasswordHash>(stored)? == *hash;
                Ok(is_same.then(|| Valid::of(account::password_column(), stored, None)))
            }
            Proof::Secret { owner, digest } | Proof::ShareFor { owner, digest, .. } => {
                let stored = owner.column();
                let Some(value) = row.get(stored.family, &stored.qualifier) else { return Ok(None) };
                if owner.kind == SecretKind::Share {
                    let operation = match proof {
                        Proof::ShareFor { operation, .. } => *operation,
                        _ => ShareOperation::default(),
                    };
                    let open = OpenShare::find((owner, digest), value, row, (operation, (self.clock)()))?;
                    return Ok(open.map(|share| Valid::of_share(stored, value, share)));
                }
                let (secret, used) = (Secret::decode(value)?, owner.last_use(row)?);
                let is_valid = secret.digest == *digest && is_in_time(owner.kind, &secret, used, (self.clock)());
                let token_expires = secret.expires.filter(|_| owner.kind == SecretKind::Token);
                let ends = end_of(owner.kind, &secret, used);
                Ok(is_valid.then(|| Valid { token_expires, used, ends, ..Valid::of(stored, value, secret.scope) }))
            }
        }
    }
}

/// Whether a session or token has not expired.
pub(super) fn is_in_time(kind: SecretKind, secret: &Secret, used: Option<Timestamp>, now: Timestamp) -> bool {
    end_of(kind, secret, used).is_none_or(|end| now < end)
}

/// When a session or token expires, if it does and is not used again.
fn end_of(kind: SecretKind, secret: &Secret, used: Option<Timestamp>) -> Option<Timestamp> {
    let last = used.unwrap_or(secret.created).ms();
    let unused = (kind == SecretKind::Session).then(|| Timestamp::from_ms(last.saturating_add(SESSION_UNUSED_MS)));
    [secret.expires, unused].into_iter().flatten().min()
}
