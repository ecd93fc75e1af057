//! How many sessions and tokens a user has: with each new one, those that have ended leave the store, and the oldest
//! session if there are too many. Once a day those of all users leave.

use std::collections::HashMap;

use bytes::Bytes;

use super::Auth;
use super::authority::is_in_time;
use super::error::{AuthError, Result};
use crate::schema::account::{self, Grantee};
use crate::schema::ids::SecretId;
use crate::schema::secret::{self, Secret, SecretKind, SecretOwner};
use crate::schema::timestamp::Timestamp;
use crate::schema::user_name::UserName;
use crate::table::{Cell, CellCursor, Change, Check, ConditionalRow, PageQuery, Plan, RowCursor, RowQuery, RowRange};

/// Sessions of a user. For one more, the one that was used least recently ends.
pub const SESSIONS: usize = 100;
/// Tokens of a user.
pub const TOKENS: usize = 100;

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

/// Adds to a plan what deletes these secrets of a user.
///
/// No check guards it: a secret that has ended is never valid again, and one that leaves because there are too many may
/// leave with the other of two new ones. So two logins at once do not refuse each other.
fn leave(plan: &mut Plan, changes: &mut Vec<Change>, owner: &SecretOwner, secret: &Secret) {
    changes.extend(owner.delete());
    plan.finish.push(secret::delete_index(secret.digest));
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
            // Shares are made and bounded elsewhere.
            SecretKind::Token | SecretKind::Share => {}
            SecretKind::Session => {
                valid.sort_unstable_by_key(StoredSecret::last);
                leaving.extend(valid.drain(..(valid.len() + 1).saturating_sub(SESSIONS)));
            }
        }
        for StoredSecret { id, secret, .. } in leaving.into_iter().take(LEAVING) {
            leave(plan, changes, &SecretOwner { id, ..new.clone() }, &secret);
        }
        Ok(())
    }

    /// All sessions or tokens of a user, also those that have ended.
    pub(super) async fn stored_secrets(&self, of: &UserName, kind: SecretKind) -> Result<Vec<StoredSecret>> {
        let (from, to) = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        let (row, family) = (Grantee::User(of.clone()).key(), kind.family());
        let first = PageQuery { table: account::TABLE, row, family, from, to, limit: PAGE, unchanged: Vec::new() };
        let (mut cursor, mut cells) = (CellCursor::new(first), Vec::new());
        while let Some(page) = cursor.next(&self.tables).await? {
            cells.extend(page);
        }
        secrets_in(cells.iter())
    }

    /// Deletes the sessions and tokens of all users that have ended by themselves. Returns how many.
    pub async fn remove_ended_secrets(&self) -> Result<usize> {
        let families = RowQuery::families(&[account::SESSION, account::TOKEN]);
        let mut cursor = RowCursor::new(account::TABLE, RowRange::all(), families, ACCOUNTS);
        let mut removed = 0;
        while let Some(rows) = cursor.next(&self.tables).await? {
            for (key, row) in rows {
                let Grantee::User(user) = Grantee::decode(&key)? else { continue };
                for kind in [SecretKind::Session, SecretKind::Token] {
                    let stored = secrets_in(row.family(kind.family()))?;
                    removed += self.remove_ended(&user, kind, stored).await?;
                }
            }
        }
        Ok(removed)
    }

    async fn remove_ended(&self, user: &UserName, kind: SecretKind, stored: Vec<StoredSecret>) -> Result<usize> {
        let now = (self.clock)();
        let ended: Vec<_> = stored.into_iter().filter(|one| !one.is_in_time(kind, now)).take(LEAVING).collect();
        if ended.is_empty() {
            return Ok(0);
        }
        let (mut plan, mut changes, mut checks) = (Plan::default(), Vec::new(), Vec::new());
        for StoredSecret { id, secret, .. } in &ended {
            let owner = SecretOwner { user: user.clone(), kind, id: *id };
            // A password that was changed meanwhile has ended them already.
            checks.push(Check::Equals(owner.column(), secret.encode()));
            leave(&mut plan, &mut changes, &owner, secret);
        }
        let row: Bytes = Grantee::User(user.clone()).key();
        plan.guarded = vec![ConditionalRow { table: account::TABLE, row, checks, changes }];
        let outcome = self.tables.commit(plan).await?;
        Ok(if outcome == crate::table::Outcome::Committed { ended.len() } else { 0 })
    }
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
