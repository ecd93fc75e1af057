//! A user who asks: what his account says at one instant. By a share it is the account of its maker. The grants to
//! every user are of a second row, which is read at almost the same time.

use super::open_share::OpenShare;
use crate::schema::account::{Quota, Stamp, Usage};
use crate::schema::grant::Grant;
use crate::schema::secret::TokenScope;
use crate::schema::timestamp::Timestamp;
use crate::schema::user_name::UserName;
use crate::table::{Check, Unchanged};

/// A user who asks.
#[derive(Debug)]
pub(super) struct Asker {
    pub name: UserName,
    pub stamp: Stamp,
    pub admin: bool,
    /// The only directory that his secret is for.
    pub scope: Option<TokenScope>,
    /// The share by which a stranger asks in his place.
    pub share: Option<OpenShare>,
    pub grants: Vec<Grant>,
    pub everyone: Option<(Stamp, Vec<Grant>)>,
    /// When the token that was sent expires; none if it does not, or if it is no token.
    pub token_expires: Option<Timestamp>,
    /// What he has created, and its limits; none without limits: then his usage is not read, which each of his uploads
    /// changes.
    pub limits: Option<(Usage, Quota)>,
    /// The last use of his session or token that is noted.
    pub used: Option<Timestamp>,
    /// That the password or the secret is still valid.
    pub proof: Check,
    /// When that ends, if nothing is written; none if it does not.
    pub ends: Option<Timestamp>,
    /// Whether the two rows that this was read from are unchanged: his account, and the grants to every user. None by a
    /// share, and if the engine does not know. IMPORTANT: what is here depends on these rows and on `ends` alone.
    pub unchanged: Option<[Unchanged; 2]>,
}

impl Asker {
    /// Whether it can be known later that a read would find the same.
    pub fn can_be_kept(&self) -> bool {
        self.unchanged.is_some()
    }

    /// Whether a read of all this would find the same now.
    pub fn is_current(&self, clock: impl FnOnce() -> Timestamp) -> bool {
        let unchanged = self.unchanged.as_ref().is_some_and(|rows| rows.iter().all(Unchanged::holds));
        unchanged && self.ends.is_none_or(|ends| clock() < ends)
    }

    /// How many grants count for him, those to every user among them.
    pub fn grant_count(&self) -> usize {
        self.grants.len() + self.everyone.as_ref().map_or(0, |(_, grants)| grants.len())
    }

    /// Whether his secret is for all that he may do.
    pub fn has_whole_account(&self) -> bool {
        self.scope.is_none() && self.share.is_none()
    }
}
