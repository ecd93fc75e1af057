//! The retry loop of changes of accounts.

use super::Auth;
use super::authority::Authority;
use super::credential::Credential;
use super::error::{AuthError, Result};
use crate::table::{Outcome, Plan, RowChange};

/// Attempts of a change whose rows others change at the same time.
const TRIES: usize = 8;

impl Auth {
    /// Reads and decides, commits the plan, and decides again if a check of the plan does not hold. Nothing is locked
    /// between the reads and the commit, so the checks must cover all that was read for the decision.
    ///
    /// A refused plan may leave the rows that it prepares. The next attempt prepares the same ones, byte for byte, or
    /// they are deleted: a cell of an index is never put again after it was deleted.
    ///
    /// Errors: those of `decide`, but after [`AuthError::Contended`] it decides again; [`AuthError::Contended`] after
    /// too many attempts. After an unknown outcome there is no other attempt, since the change may have happened.
    pub(super) async fn until_committed<T, F>(&self, decide: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<(Plan, T)>>,
    {
        let mut left = Vec::new();
        for _ in 0..TRIES {
            let decided = decide().await;
            if !matches!(&decided, Ok((plan, _)) if plan.prepare == left) {
                self.delete_prepared(std::mem::take(&mut left)).await;
            }
            let (plan, answer) = match decided {
                // It has read rows that contradict each other.
                Err(AuthError::Contended) => continue,
                decided => decided?,
            };
            let prepared = plan.prepare.clone();
            match self.tables.commit(plan).await? {
                Outcome::Committed => return Ok(answer),
                Outcome::Refused(refusal) if refusal.prepared => left = prepared,
                Outcome::Refused(_) => {}
            }
        }
        self.delete_prepared(left).await;
        Err(AuthError::Contended)
    }

    /// As [`until_committed`](Self::until_committed), for a change by this user. `decide` gets who asks. If it refuses,
    /// his account is read again: a refusal is of an instant at which he might ask. A plan is guarded by his account.
    pub(super) async fn until_committed_by<T, F>(&self, by: &Credential, decide: impl Fn(Authority) -> F) -> Result<T>
    where
        F: Future<Output = Result<(Plan, T)>>,
    {
        let decide = &decide;
        self.until_committed(|| async move {
            let authority = self.authority(by).await?;
            let decided = decide(authority.clone()).await;
            if decided.is_err() && !self.authority(by).await?.is_same(&authority) {
                return Err(AuthError::Contended);
            }
            decided
        })
        .await
    }

    /// Deletes index entries that refused plans have prepared.
    async fn delete_prepared(&self, prepared: Vec<RowChange>) {
        if prepared.is_empty() {
            return;
        }
        let finish = prepared.into_iter().map(RowChange::deletion).collect();
        if let Err(error) = self.tables.commit(Plan { finish, ..Plan::default() }).await {
            tracing::warn!(%error, "stale index entries of a refused change of users may be left over");
        }
    }
}
