//! What the changes of the drive add to the usage of users, within their quotas.

use super::authority::Authority;
use super::guards;
use super::requester::Access;
use crate::schema::account::{Grantee, Quota, Usage};
use crate::schema::usage::{UsageChange, number};
use crate::schema::user_name::UserName;
use crate::table::Plan;

/// A user with a quota, and his usage at the same instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limited {
    /// The user.
    pub user: UserName,
    /// His limits.
    pub quota: Quota,
    /// What he has created.
    pub usage: Usage,
}

impl Limited {
    /// Whether each of his sums that this adds to stays within the quota. `under_way`: what others of his are about to add.
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
    /// The user, if he has a quota; by a share its maker, whose quota counts what strangers upload.
    pub fn limited(&self) -> Option<Limited> {
        limited(self.authority()?)
    }

    /// Adds the usage of a change to its plan, within the quota of the user. A plan that would pass it is refused by a check
    /// that [`is_quota`](crate::schema::usage::is_quota).
    ///
    /// IMPORTANT: after all other guarded rows of the plan. The check of the quota is the last one of the plan, so a refusal
    /// by it means that all others hold: the change itself was right.
    pub fn count(&self, plan: &mut Plan, change: &UsageChange) {
        let limited = self.limited();
        let limited = limited.as_ref().map(|limited| (&limited.user, limited.quota));
        let mut rows = change.rows(limited);
        if let (Some((user, _)), Some(authority)) = (limited, self.authority()) {
            let own = Grantee::User(user.clone()).key();
            rows.sort_by_key(|row| row.row == own);
            // The quota is that of this stamp.
            guards::add(&mut plan.guarded, authority.guard());
        }
        rows.into_iter().for_each(|row| guards::add_last(&mut plan.guarded, row));
    }
}

fn limited(authority: &Authority) -> Option<Limited> {
    let (user, (usage, quota)) = (authority.user()?.clone(), authority.usage()?);
    (quota != Quota::default()).then_some(Limited { user, quota, usage })
}
