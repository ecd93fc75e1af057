//! How many sessions, tokens and shares a user has: with each new one, those that have ended leave the store, and the oldest
//! session if there are too many. At a start those of all users leave.

use std::collections::HashMap;

use bytes::Bytes;

use super::Auth;
use super::authority::is_in_time;
use super::error::{AuthError, Result};
use super::open_share::is_open;
use crate::schema::account::{self, Grantee};
use crate::schema::ids::SecretId;
use crate::schema::secret::{self, Secret, SecretKind, SecretOwner};
use crate::schema::share::{self, Share};
use crate::schema::timestamp::Timestamp;
use crate::schema::user_name::UserName;
use crate::table::{
    Cell, CellCursor, Change, Check, ConditionalRow, PageQuery, Plan, Row, RowChange, RowCursor, RowQuery, RowRange,
};

/// Sessions of a user. For one more, the one that was used least recently ends.
pub const SESSIONS: usize = 100;
/// Tokens of a user.
pub const TOKENS: usize = 100;
/// Shares of a user.
pub const SHARES: usize = 1_000;

/// Cells that are read at a time.
const PAGE: usize = 100;
/// Accounts that are read at a time, each with all its sessions and tokens.
const ACCOUNTS: usize = 10;
/// Secrets that leave in one plan.
const LEAVING: usize = 500;

/// A session or token as it is stored.
pub(super) struct StoredSecret {
    pub id: SecretId,
    pub secret: Secret,
    pub used: Option<Timestamp>,
}

impl StoredSecret {
    pub(super) fn is_in_time(&self, kind: SecretKind, now: Timestamp) -> bool {
        is_in_time(kind, &self.secret, self.used, now)
    }

    fn last(&self) -> Timestamp {
        self.used.unwrap_or(self.secret.created)
    }
}

/// A secret that has ended by itself.
struct Ended {
    owner: SecretOwner,
    stored: Bytes,
    /// What deletes its index entries.
    index: Vec<RowChange>,
}

impl Ended {
    fn secret(owner: SecretOwner, secret: &Secret) -> Self {
        Self { owner, stored: secret.encode(), index: vec![secret::delete_index(secret.digest)] }
    }

    fn share(owner: SecretOwner, share: &Share) -> Self {
        Self { stored: share.encode(), index: share.delete_index(&owner), owner }
    }

    /// Adds to a plan what deletes it.
    ///
    /// No check guards it: a secret that has ended is never valid again, and one that leaves because there are too many may
    /// leave with the other of two new ones. So two logins at once do not refuse each other.
    fn leave(self, plan: &mut Plan, changes: &mut Vec<Change>) {
        changes.extend(self.owner.delete());
        plan.finish.extend(self.index);
    }
}

impl Auth {
    /// Adds to a plan with a new secret of a user that others leave. `changes`: of his account row.
    ///
    /// Two that are made at the same time may both find room: then there is one session more than the bound, until the
    /// next one is made. Of tokens the caller checks that none was made meanwhile.
    ///
    /// Errors: [`AuthError::TooManyTokens`].
    pub(super) async fn make_room(&self, plan: &mut Plan, changes: &mut Vec<Change>, new: &SecretOwner) -> Result<()> {
        let SecretOwner { user, kind, .. } = new;
        let (kind, now) = (*kind, (self.clock)());
        let all = self.stored_secrets(user, kind).await?;
        let (mut valid, mut leaving): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.is_in_time(kind, now));
        match kind {
            SecretKind::Token if valid.len() >= TOKENS => return Err(AuthError::TooManyTokens(TOKENS)),
            // Shares have a room of their own.
            SecretKind::Token | SecretKind::Share => {}
            SecretKind::Session => {
                valid.sort_unstable_by_key(StoredSecret::last);
                leaving.extend(valid.drain(..(valid.len() + 1).saturating_sub(SESSIONS)));
            }
        }
        for StoredSecret { id, secret, .. } in leaving.into_iter().take(LEAVING) {
            Ended::secret(SecretOwner { id, ..new.clone() }, &secret).leave(plan, changes);
        }
        Ok(())
    }

    /// Adds to a plan with a new share of a user that others leave. The caller checks that none was made meanwhile.
    ///
    /// One that has served all its downloads leaves only for want of room: the last of them may still be under way.
    ///
    /// Errors: [`AuthError::TooManyShares`].
    pub(super) async fn make_room_for_share(
        &self,
        plan: &mut Plan,
        changes: &mut Vec<Change>,
        user: &UserName,
    ) -> Result<()> {
        let now = (self.clock)();
        let all = self.stored_shares(user).await?;
        let (mut leaving, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.share.is_over(now));
        if kept.len() >= SHARES {
            let served = kept.into_iter().filter(|one| !is_open(&one.share, one.used, now));
            let before = leaving.len();
            leaving.extend(served);
            if leaving.len() == before {
                return Err(AuthError::TooManyShares(SHARES));
            }
        }
        for one in leaving.into_iter().take(LEAVING) {
            let owner = SecretOwner { user: user.clone(), kind: SecretKind::Share, id: one.id };
            Ended::share(owner, &one.share).leave(plan, changes);
        }
        Ok(())
    }

    /// All sessions or tokens of a user, also those that have ended.
    pub(super) async fn stored_secrets(&self, of: &UserName, kind: SecretKind) -> Result<Vec<StoredSecret>> {
        secrets_in(self.secret_cells(of, kind.family()).await?.iter())
    }

    /// The cells of a user's secrets of one kind.
    pub(super) async fn secret_cells(&self, of: &UserName, family: &'static str) -> Result<Vec<Cell>> {
        let (from, to) = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        let row = Grantee::User(of.clone()).key();
        let first = PageQuery { table: account::TABLE, row, family, from, to, limit: PAGE, unchanged: Vec::new() };
        let (mut cursor, mut cells) = (CellCursor::new(first), Vec::new());
        while let Some(page) = cursor.next(&self.tables).await? {
            cells.extend(page);
        }
        Ok(cells)
    }

    /// Deletes the sessions, tokens and shares of all users that have ended by themselves. Returns how many.
    ///
    /// Shares that have served all their downloads stay: a download may be under way.
    pub async fn remove_ended_secrets(&self) -> Result<usize> {
        let families = RowQuery::families(&[account::SESSION, account::TOKEN, account::SHARE]);
        let mut cursor = RowCursor::new(account::TABLE, RowRange::all(), families, ACCOUNTS);
        let mut removed = 0;
        while let Some(rows) = cursor.next(&self.tables).await? {
            for (key, row) in rows {
                let Grantee::User(user) = Grantee::decode(&key)? else { continue };
                for kind in [SecretKind::Session, SecretKind::Token, SecretKind::Share] {
                    removed += self.remove_ended(&user, ended_in(&user, kind, &row, (self.clock)())?).await?;
                }
            }
        }
        Ok(removed)
    }

    async fn remove_ended(&self, user: &UserName, mut ended: Vec<Ended>) -> Result<usize> {
        ended.truncate(LEAVING);
        let count = ended.len();
        if count == 0 {
            return Ok(0);
        }
        let (mut plan, mut changes, mut checks) = (Plan::default(), Vec::new(), Vec::new());
        for one in ended {
            // A password that was changed meanwhile has ended them already.
            checks.push(Check::Equals(one.owner.column(), one.stored.clone()));
            one.leave(&mut plan, &mut changes);
        }
        let row: Bytes = Grantee::User(user.clone()).key();
        plan.guarded = vec![ConditionalRow { table: account::TABLE, row, checks, changes }];
        let outcome = self.tables.commit(plan).await?;
        Ok(if outcome == crate::table::Outcome::Committed { count } else { 0 })
    }
}

/// The secrets of a kind in an account row that have ended by themselves.
fn ended_in(user: &UserName, kind: SecretKind, row: &Row, now: Timestamp) -> Result<Vec<Ended>> {
    let owner = |id| SecretOwner { user: user.clone(), kind, id };
    let cells = row.family(kind.family());
    if kind == SecretKind::Share {
        let mut over = Vec::new();
        for cell in cells {
            let stored = share::from_cell(cell)?.filter(|(_, share)| share.is_over(now));
            over.extend(stored.map(|(id, share)| Ended::share(owner(id), &share)));
        }
        return Ok(over);
    }
    let ended = secrets_in(cells)?.into_iter().filter(|one| !one.is_in_time(kind, now));
    Ok(ended.map(|one| Ended::secret(owner(one.id), &one.secret)).collect())
}

/// The secrets in the cells of a family, each with the time of its last use.
fn secrets_in<'a>(cells: impl Iterator<Item = &'a Cell>) -> Result<Vec<StoredSecret>> {
    let (mut found, mut last_uses) = (Vec::new(), HashMap::new());
    for cell in cells {
        found.extend(secret::from_cell(cell)?);
        last_uses.extend(secret::use_from_cell(cell)?);
    }
    let stored = |(id, secret)| StoredSecret { id, secret, used: last_uses.get(&id).copied() };
    Ok(found.into_iter().map(stored).collect())
}
