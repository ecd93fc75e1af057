//! Shares: made, found, listed. They are revoked as all secrets are.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::Auth;
use super::authority::Authority;
use super::credential::Credential;
use super::decide::DirChain;
use super::error::{AuthError, Result};
use super::guards;
use super::open_share::{is_open, used_of};
use super::random::random;
use super::secret_bounds::StoredSecret;
use super::secrets::{NewSecret, digest_of, expiry_by_token};
use crate::schema::CF;
use crate::schema::account::{self, Grantee};
use crate::schema::grant;
use crate::schema::ids::SecretId;
use crate::schema::rights::Right;
use crate::schema::secret::{SecretKind, SecretOwner};
use crate::schema::share::{self, Share, ShareMode, ShareTarget};
use crate::schema::timestamp::Timestamp;
use crate::schema::user_name::UserName;
use crate::table::{Change, Check, ConditionalRow, Plan, Row, RowCursor, RowQuery};

/// Index entries that are read at a time.
const PAGE: usize = 100;

/// A share to be made.
#[derive(Clone)]
pub struct NewShare {
    /// Its target.
    pub target: ShareTarget,
    /// What it allows.
    pub mode: ShareMode,
    /// When it expires.
    pub expires: Option<Timestamp>,
    /// What a stranger needs beside the link; none: nothing.
    pub password: Option<String>,
}

/// No password appears in a log.
impl fmt::Debug for NewShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewShare").field("target", &self.target).field("mode", &self.mode).finish_non_exhaustive()
    }
}

/// A share in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedShare {
    /// Its id.
    pub id: SecretId,
    /// Who has made it.
    pub user: UserName,
    /// The share.
    pub share: Share,
    /// Downloads that it has served, or bytes that were uploaded by it.
    pub used: u64,
}

impl Auth {
    /// Makes a share. `chain`: the directories down to its target; of a file down to its parent. One that is made with
    /// a token expires no later than that.
    ///
    /// Errors: [`AuthError::Contended`] if the directory is not at this path any more: read the path again.
    /// [`AuthError::TooManyShares`]. [`AuthError::Outlives`] by a token that expires earlier. [`AuthError::Password`]
    /// if the password is not allowed. [`AuthError::Forbidden`] to a user without the right to share there, or without
    /// what he shares.
    pub async fn make_share(
        &self,
        by: &Credential,
        chain: &DirChain,
        new: NewShare,
    ) -> Result<(NewSecret, ListedShare)> {
        let text = URL_SAFE_NO_PAD.encode(random::<20>()?);
        let user = by.user().ok_or(AuthError::Forbidden)?.clone();
        let owner = SecretOwner { user, kind: SecretKind::Share, id: SecretId::random() };
        let NewShare { target, mode, expires, password } = new;
        let password = match password {
            Some(password) => Some(self.verifier.hash(&password, by.user()).await?),
            None => None,
        };
        let (digest, created) = (digest_of(&text), (self.clock)());
        let share = Share { digest, target, mode, created, expires, password };
        let (this, owner, share) = (self, &owner, &share);
        let decide = |authority: Authority| async move {
            // Nothing can be added to a file.
            let is_possible = matches!((target, mode), (ShareTarget::Dir(_), _) | (_, ShareMode::Read { .. }));
            if !authority.may_share() || !is_possible {
                return Err(AuthError::Forbidden);
            }
            let expires = expiry_by_token(expires, authority.token_expires())?;
            let share = Share { expires, ..share.clone() };
            let mut plan = Plan { prepare: share.put_index(owner), ..Plan::default() };
            for right in [Right::Share, share.right()] {
                this.decide(&authority, chain, right).await?.guard(&mut plan);
            }
            guards::add_all(&mut plan, chain.bound_last());
            let ConditionalRow { table, row, mut checks, .. } = authority.guard();
            // IMPORTANT: before the shares are counted. The removal of the user checks this cell too.
            checks.push(this.newest_secret(&owner.user).await?);
            let mut changes = vec![share.put(owner), account::put_newest(owner.id)];
            this.make_room(&mut plan, &mut changes, owner).await?;
            guards::add_all(&mut plan, [ConditionalRow { table, row, checks, changes }]);
            Ok((plan, share))
        };
        let share = self.until_committed_by(by, decide).await?;
        let (credential, expires) = (Credential::of_secret(owner.clone(), digest), share.expires);
        let listed = ListedShare { id: owner.id, user: owner.user.clone(), share, used: 0 };
        Ok((NewSecret { text, id: owner.id, created, expires, credential }, listed))
    }

    /// Finds the share of the secret in a link. [`Auth::authority`] tells whether it is still valid.
    pub async fn find_share(&self, text: &str) -> Result<Credential> {
        let found = self.find_secret(text).await?;
        if found.is_share() { Ok(found) } else { Err(AuthError::Unauthorized) }
    }

    /// Counts a download by a share, if its downloads are limited. The content is sent after that.
    ///
    /// Errors: [`AuthError::Unauthorized`] if the share is not open any more.
    pub async fn count_download(&self, by: &Credential) -> Result<()> {
        let this = self;
        self.until_committed(|| async move {
            let authority = this.authority(by).await?;
            let (owner, open) = by.secret().zip(authority.share()).ok_or(AuthError::Unauthorized)?;
            let ShareMode::Read { downloads: Some(limit) } = open.share.mode else { return Ok((Plan::default(), ())) };
            let counter = owner.used_column();
            // IMPORTANT: the number that was read decides nothing. Many may be at the last download at once.
            let ConditionalRow { table, row, mut checks, .. } = authority.guard();
            checks.push(Check::fits(counter.clone(), 1, i64::try_from(limit).unwrap_or(i64::MAX)));
            let changes = vec![Change::add(counter.family, counter.qualifier, 1)];
            Ok((Plan { guarded: vec![ConditionalRow { table, row, checks, changes }], ..Plan::default() }, ()))
        })
        .await
    }

    /// The shares of the user himself or, for an admin, of another one, without those that have expired or are used up.
    pub async fn shares(&self, by: &Credential, of: &UserName) -> Result<Vec<ListedShare>> {
        let authority = self.authority(by).await?;
        if !authority.is_admin_user() && (authority.user() != Some(of) || !authority.may_share()) {
            return Err(AuthError::Forbidden);
        }
        let (row, all) = self.stored_secrets(of, SecretKind::Share).await?;
        let mut found = Vec::new();
        for StoredSecret { owner, stored, .. } in all {
            found.extend(self.listed(owner, Share::decode(&stored)?, &row)?);
        }
        Ok(found)
    }

    /// The shares of a directory or file, whoever has made them. `chain`: the directories down to it; of a file down to
    /// its parent.
    ///
    /// Errors: [`AuthError::Forbidden`] to a user without the right to share there.
    pub async fn shares_of(&self, by: &Credential, chain: &DirChain, target: ShareTarget) -> Result<Vec<ListedShare>> {
        let authority = self.authority(by).await?;
        if !authority.may_share() {
            return Err(AuthError::Forbidden);
        }
        // Nothing is written, so nothing is guarded.
        let _may_share = self.decide(&authority, chain, Right::Share).await?;
        let mut cursor = RowCursor::new(grant::TABLE, share::of_target(target), RowQuery::families(&[CF]), PAGE);
        let mut found = Vec::new();
        while let Some(rows) = cursor.next(&self.tables).await? {
            for (key, row) in rows {
                for entry in row.family(CF) {
                    let owner = share::owner_of(&key, &entry.qualifier)?;
                    let cells = RowQuery::cells(vec![owner.column(), owner.used_column()]);
                    let holder = Grantee::User(owner.user.clone()).key();
                    let row = self.tables.get(account::TABLE, &holder, &cells).await?;
                    let cell = owner.column();
                    // An index entry may be early or stale.
                    let Some(stored) = row.get(cell.family, &cell.qualifier) else { continue };
                    let share = Share::decode(stored)?;
                    found.extend(self.listed(owner, share, &row)?);
                }
            }
        }
        Ok(found)
    }

    /// A share, if it is open. `row`: with its counter.
    fn listed(&self, owner: SecretOwner, share: Share, row: &Row) -> Result<Option<ListedShare>> {
        let used = used_of(&owner, row)?;
        let is_open = is_open(&share, used, (self.clock)());
        Ok(is_open.then_some(ListedShare { id: owner.id, user: owner.user, share, used }))
    }
}
