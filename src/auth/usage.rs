//! What the changes of the drive add to the usage of users, within their quotas.

use super::authority::Authority;
use super::guards;
use super::requester::Access;
use crate::schema::account::{self, Grantee, Quota, Usage};
use crate::schema::ids::SecretId;
use crate::schema::share::ShareMode;
use crate::schema::usage::{UsageChange, number};
use crate::schema::user_name::UserName;
use crate::table::{Change, Check, ConditionalRow, Plan};

/// Whose sums are limited.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LimitOf {
    /// A user.
    User(UserName),
    /// An upload share.
    Share(SecretId),
}

/// A user with a quota and what he has created, or a share with its bytes and those that were uploaded by it: both at
/// one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limited {
    /// Whose sums these are.
    pub of: LimitOf,
    /// His limits.
    pub quota: Quota,
    /// His sums.
    pub usage: Usage,
}

impl Limited {
    /// Whether each of his sums that this adds to stays within the quota. `under_way`: what others of his are about to
    /// add.
    pub fn fits(&self, under_way: Usage, more: Usage) -> bool {
        let Self { quota, usage, .. } = self;
        let fits = |parts: [i64; 2], more: i64, limit: Option<u64>| {
            let sum = parts.into_iter().fold(more, i64::saturating_add);
            more <= 0 || limit.is_none_or(|limit| sum <= number(limit))
        };
        fits([usage.bytes, under_way.bytes], more.bytes, quota.bytes)
            && fits([usage.files, under_way.files], more.files, quota.files)
    }
}

impl Access {
    /// What limits the files that he adds: by an upload share its bytes, and the quota of its maker; else his own
    /// quota. Nothing of what has no limit.
    pub fn limits(&self) -> Vec<Limited> {
        let Some(authority) = self.authority() else { return Vec::new() };
        let share = authority.share().and_then(|open| {
            let ShareMode::Upload { bytes } = open.share.mode else { return None };
            let (quota, usage) =
                (Quota { bytes: Some(bytes), files: None }, Usage { bytes: number(open.used), files: 0 });
            Some(Limited { of: LimitOf::Share(open.id), quota, usage })
        });
        let user = limited_user(authority);
        let user = user.map(|(user, quota, usage)| Limited { of: LimitOf::User(user), quota, usage });
        share.into_iter().chain(user).collect()
    }

    /// Adds the usage of a change to its plan, within the quota of the user. A plan that would pass it is refused by a
    /// check that [`is_quota`](crate::schema::usage::is_quota).
    ///
    /// IMPORTANT: after all other guarded rows of the plan. The check of the quota is the last one of the plan, so a
    /// refusal by it means that all others hold: the change itself was right.
    pub fn count(&self, plan: &mut Plan, change: &UsageChange) {
        let limited = self.authority().and_then(limited_user);
        let mut rows = change.rows(limited.as_ref().map(|(user, quota, _)| (user, *quota)));
        if let (Some((user, ..)), Some(authority)) = (limited, self.authority()) {
            let own = Grantee::User(user).key();
            rows.sort_by_key(|row| row.row == own);
            // The quota is that of this stamp.
            guards::add(&mut plan.guarded, authority.guard());
        }
        guards::add_all(plan, self.share_row(change));
        rows.into_iter().for_each(|row| guards::add_last(&mut plan.guarded, row));
    }

    /// The row of an upload share with the bytes that a change adds by it, within its limit.
    fn share_row(&self, change: &UsageChange) -> Option<ConditionalRow> {
        let (open, owner) = (self.authority()?.share()?, self.credential()?.secret()?);
        let ShareMode::Upload { bytes: limit } = open.share.mode else { return None };
        let (bytes, counter) = (change.of(&owner.user).bytes, owner.used_column());
        if bytes <= 0 {
            return None;
        }
        Some(ConditionalRow {
            table: account::TABLE,
            row: Grantee::User(owner.user.clone()).key(),
            checks: vec![Check::fits(counter.clone(), bytes, number(limit))],
            changes: vec![Change::add(counter.family, counter.qualifier, bytes)],
        })
    }
}

/// The user, if he has a quota.
fn limited_user(authority: &Authority) -> Option<(UserName, Quota, Usage)> {
    let (usage, quota) = authority.limits()?;
    Some((authority.user()?.clone(), quota, usage))
}
