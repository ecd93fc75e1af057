//! How many sessions, tokens and shares a user has. With each new one those of its kind that have expired leave the
//! store; if there are still too many, the session that was used least recently, or the shares that are used up. At a
//! start all that have expired leave.

use bytes::Bytes;

use super::Auth;
use super::authority::is_in_time;
use super::error::{AuthError, Result};
use super::open_share::used_of;
use crate::schema::account::{self, Grantee};
use crate::schema::secret::{self, Secret, SecretKind, SecretOwner};
use crate::schema::share::Share;
use crate::schema::timestamp::Timestamp;
use crate::schema::user_name::UserName;
use crate::table::{
    CellCursor, Change, Check, ConditionalRow, PageQuery, Plan, Row, RowChange, RowCursor, RowQuery, RowRange,
};

/// Sessions of a user. For one more, the one that was used least recently leaves.
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

/// A session, token or share, as its user's account row has it.
pub(super) struct StoredSecret {
    pub owner: SecretOwner,
    /// Its cell.
    pub stored: Bytes,
    pub is_expired: bool,
    /// When a session or token was used last; of one that never was, and of a share, when it was made.
    last: Timestamp,
}

impl StoredSecret {
    /// Adds to a plan what deletes it.
    ///
    /// No check guards it: a secret that has expired is never valid again, and one that leaves because there are too
    /// many may leave with the other of two new ones. So two logins at once do not refuse each other.
    fn leave(self, plan: &mut Plan, changes: &mut Vec<Change>) -> Result<()> {
        plan.finish.extend(delete_index(&self.owner, &self.stored)?);
        changes.extend(self.owner.delete());
        Ok(())
    }
}

impl Auth {
    /// Adds to a plan with a new session, token or share that others of its kind leave. `changes`: of the account row.
    ///
    /// Two sessions that are made at the same time may both find room: then there is one more than the bound, until the
    /// next one is made. Of tokens and shares the caller checks that none was made meanwhile.
    ///
    /// A share that is used up leaves only for want of room: its last download may still be under way.
    ///
    /// Errors: [`AuthError::TooManyTokens`], [`AuthError::TooManyShares`].
    pub(super) async fn make_room(&self, plan: &mut Plan, changes: &mut Vec<Change>, new: &SecretOwner) -> Result<()> {
        let (row, all) = self.stored_secrets(&new.user, new.kind).await?;
        let (mut leaving, mut kept): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.is_expired);
        let excess = |bound: usize, kept: &Vec<StoredSecret>| (kept.len() + 1).saturating_sub(bound);
        match new.kind {
            SecretKind::Session => {
                kept.sort_unstable_by_key(|one| one.last);
                let excess = excess(SESSIONS, &kept);
                leaving.extend(kept.drain(..excess));
            }
            SecretKind::Token if excess(TOKENS, &kept) > 0 => return Err(AuthError::TooManyTokens(TOKENS)),
            SecretKind::Share if excess(SHARES, &kept) > 0 => {
                let before = leaving.len();
                for one in kept {
                    if Share::decode(&one.stored)?.is_used_up(used_of(&one.owner, &row)?) {
                        leaving.push(one);
                    }
                }
                if leaving.len() == before {
                    return Err(AuthError::TooManyShares(SHARES));
                }
            }
            SecretKind::Token | SecretKind::Share => {}
        }
        leaving.into_iter().take(LEAVING).try_for_each(|one| one.leave(plan, changes))
    }

    /// All sessions, tokens or shares of a user, also those that have expired or are used up, and the family of his
    /// account row in which they are.
    pub(super) async fn stored_secrets(&self, of: &UserName, kind: SecretKind) -> Result<(Row, Vec<StoredSecret>)> {
        let row = self.secret_row(of, kind).await?;
        let all = secrets_in(&row, of, (kind, (self.clock)()))?;
        Ok((row, all))
    }

    /// The family of an account row with the secrets of one kind.
    pub(super) async fn secret_row(&self, of: &UserName, kind: SecretKind) -> Result<Row> {
        let (from, to) = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        let (row, family) = (Grantee::User(of.clone()).key(), kind.family());
        let first = PageQuery { table: account::TABLE, row, family, from, to, limit: PAGE, unchanged: Vec::new() };
        let (mut cursor, mut cells) = (CellCursor::new(first), Vec::new());
        while let Some(page) = cursor.next(&self.tables).await? {
            cells.extend(page.into_iter().map(|cell| (family, cell)));
        }
        Ok(Row::new(cells))
    }

    /// Deletes the sessions, tokens and shares of all users that have expired. Returns how many.
    ///
    /// Shares that are used up stay: a download may be under way.
    pub async fn remove_expired_secrets(&self) -> Result<usize> {
        let families: Vec<_> = SecretKind::all().map(SecretKind::family).collect();
        let families = RowQuery::families(&families);
        let mut cursor = RowCursor::new(account::TABLE, RowRange::all(), families, ACCOUNTS);
        let mut removed = 0;
        while let Some(rows) = cursor.next(&self.tables).await? {
            for (key, row) in rows {
                let Grantee::User(user) = Grantee::decode(&key)? else { continue };
                for kind in SecretKind::all() {
                    let mut expired = secrets_in(&row, &user, (kind, (self.clock)()))?;
                    expired.retain(|one| one.is_expired);
                    removed += self.remove_expired(&user, expired).await?;
                }
            }
        }
        Ok(removed)
    }

    async fn remove_expired(&self, user: &UserName, mut expired: Vec<StoredSecret>) -> Result<usize> {
        expired.truncate(LEAVING);
        let count = expired.len();
        if count == 0 {
            return Ok(0);
        }
        let (mut plan, mut changes, mut checks) = (Plan::default(), Vec::new(), Vec::new());
        for one in expired {
            // It may have been revoked meanwhile, such as by a new password.
            checks.push(Check::Equals(one.owner.column(), one.stored.clone()));
            one.leave(&mut plan, &mut changes)?;
        }
        let row: Bytes = Grantee::User(user.clone()).key();
        plan.guarded = vec![ConditionalRow { table: account::TABLE, row, checks, changes }];
        let outcome = self.tables.commit(plan).await?;
        Ok(if outcome == crate::table::Outcome::Committed { count } else { 0 })
    }
}

/// The secrets of a kind in an account row.
fn secrets_in(row: &Row, user: &UserName, (kind, now): (SecretKind, Timestamp)) -> Result<Vec<StoredSecret>> {
    let mut found = Vec::new();
    for cell in row.family(kind.family()) {
        let Some(id) = secret::stored_id(&cell.qualifier)? else { continue };
        let (owner, stored) = (SecretOwner { user: user.clone(), kind, id }, cell.value.clone());
        let (is_expired, last) = match kind {
            SecretKind::Session | SecretKind::Token => {
                let (secret, used) = (Secret::decode(&stored)?, owner.last_use(row)?);
                (!is_in_time(kind, &secret, used, now), used.unwrap_or(secret.created))
            }
            SecretKind::Share => {
                let share = Share::decode(&stored)?;
                (share.is_expired(now), share.created)
            }
        };
        found.push(StoredSecret { owner, stored, is_expired, last });
    }
    Ok(found)
}

/// Deletes the index entries of a session, token or share. `stored`: its cell.
pub(super) fn delete_index(owner: &SecretOwner, stored: &[u8]) -> Result<Vec<RowChange>> {
    Ok(match owner.kind {
        SecretKind::Session | SecretKind::Token => vec![secret::delete_index(Secret::decode(stored)?.digest)],
        SecretKind::Share => Share::decode(stored)?.delete_index(owner),
    })
}
