//! Operations of one plan: its commit is the instant at which they happen. Only the copy of a directory has many plans,
//! one for each directory and file of the copy.
//!
//! One file for each operation: [`put`], [`add`] (by an upload share), [`mkdir`], [`delete`] (files and empty directories), [`rename`] (files),
//! [`copy`], [`new_user`] (with his home). [`body`] reads what comes in, and [`reserved`] counts it for the quota;
//! [`target`] checks the target path of renames and copies. All share the retry loop below.

pub mod add;
pub mod body;
pub mod copy;
pub mod delete;
pub mod mkdir;
pub mod new_user;
pub mod put;
pub mod rename;
pub mod reserved;
pub mod target;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::attempts::{Attempts, Caller};
use super::error::{DriveError, Result};
use super::folder_keys::{FileChange, FolderKeys};
use super::gate::Gate;
use super::gc::ContentGc;
use super::index_changes::{IndexChange, IndexChanges};
use super::metrics::DriveMetrics;
use super::namespace::Namespace;
use super::namespace::dir_paths::MoveEpoch;
use super::namespace::lookup::Versioned;
use super::recovery::Recovery;
use super::recovery::locks::clear_refusal;
use crate::content::{Content, StagedContent};
use crate::schema::Timestamp;
use crate::schema::dir::FileEntry;
use crate::schema::file::ContentLocation;
use crate::schema::usage::is_quota;
use crate::table::store::Result as StoreResult;
use crate::table::{Check, Outcome, Plan, RowChange, StoreError};
use reserved::UnderWay;

/// What changes need.
pub struct Committer {
    pub namespace: Namespace,
    pub recovery: Arc<Recovery>,
    pub gate: Arc<Gate>,
    pub content: Content,
    pub gc: Arc<ContentGc>,
    pub index_changes: Arc<IndexChanges>,
    /// The epoch of file moves. The one of directory moves is in `namespace.dir_paths`.
    pub file_moves: Arc<MoveEpoch>,
    pub folder_keys: Arc<FolderKeys>,
    pub under_way: Arc<UnderWay>,
    pub metrics: DriveMetrics,
    pub clock: fn() -> Timestamp,
    pub lock_wait: Duration,
}

/// The decision of an attempt, by the rows that it has read.
enum Decision<'a, T> {
    /// Change nothing, and return this answer.
    Answer(T),
    /// Decide again: the rows contradict each other, since each was read at its own instant.
    Again,
    /// Commit this plan, then return this answer. `change`: set if the plan gives a file new index rows. `content`: the
    /// staged content that the plan links.
    Commit { plan: Plan, change: Option<IndexChange>, content: Option<&'a StagedContent>, answer: T },
}

/// Whether a decision may use the ids of the attempt before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ids {
    /// It may: nothing of that plan was written.
    Kept,
    /// It needs new ids: rows of that plan were prepared, and deleted. A row key with a random id is never used again.
    New,
}

impl Committer {
    /// The retry loop: reads and decides, commits the plan, and after a refusal clears the locks that may have caused it
    /// and decides again. Nothing is locked between the reads and the commit, so the checks of the plan must cover all
    /// that was read for the decision.
    ///
    /// Errors: those of `decide`; [`DriveError::Contended`] after too many attempts or too long a time; an unknown
    /// outcome ends the loop, since the plan may have happened.
    async fn until_committed<'a, T, F>(&self, caller: &Caller, decide: impl Fn(Ids) -> F) -> Result<T>
    where
        F: Future<Output = Result<Decision<'a, T>>>,
    {
        let mut attempts = Attempts::new(caller, self.lock_wait);
        let mut ids = Ids::Kept;
        loop {
            attempts.next().await?;
            let (plan, change, content, answer) = match decide(ids).await? {
                Decision::Answer(answer) => return Ok(answer),
                Decision::Again => continue,
                Decision::Commit { plan, change, content, answer } => (plan, change, content, answer),
            };
            // An atomic store writes nothing of a refused plan.
            let prepared = if self.namespace.tables.is_atomic() { Vec::new() } else { plan.prepare.clone() };
            let refusal = match self.commit(plan, change, content).await? {
                Outcome::Committed => return Ok(answer),
                Outcome::Refused(refusal) => refusal,
            };
            ids = Ids::Kept;
            if refusal.prepared && !prepared.is_empty() {
                ids = Ids::New;
                self.delete_prepared(prepared).await;
            }
            // The last check of the plan: all others hold, so the decision was right at this instant.
            if is_quota(refusal.table, &refusal.check) {
                return Err(DriveError::Quota);
            }
            // No lock refuses it, and the next attempt would find the same children.
            if is_emptiness(&refusal.check) {
                return Err(DriveError::NotEmpty);
            }
            clear_refusal(&self.recovery, &refusal, &mut attempts).await?;
        }
    }

    /// Commits a plan. The change is noted in [`FolderKeys`] and [`IndexChanges`] before the commit, or a query that runs
    /// meanwhile could miss the file.
    async fn commit(
        &self,
        plan: Plan,
        change: Option<IndexChange>,
        content: Option<&StagedContent>,
    ) -> StoreResult<Outcome> {
        // IMPORTANT: before the plan is sent. From here on it may link the content, even if this process ends.
        if let Some(content) = content {
            content.keep();
        }
        let change_of_keys = FileChange::of(&plan);
        let moves = match &change {
            Some(change) => change.moved.then_some(&self.file_moves),
            None => removes_directory(&plan).then_some(&self.namespace.live_dirs.removals),
        };
        let commit = self.folder_keys.counted(change_of_keys, self.namespace.tables.commit(plan));
        let outcome = match (change, moves) {
            (Some(change), Some(moves)) => moves.counted(self.index_changes.counted(change, commit)).await,
            (Some(change), None) => self.index_changes.counted(change, commit).await,
            // IMPORTANT: a reader takes the epoch, finds the directory live, and asks later whether the epoch is unchanged.
            // The count begins before the plan is sent: whoever asks after the removal finds it changed. It ends after
            // the outcome: whoever takes the new epoch reads after the removal. The reads of the decision change nothing.
            (None, Some(moves)) => moves.counted_if_committed(commit).await,
            (None, None) => commit.await,
        };
        if let (Some(moves), Err(StoreError::Unknown { full: true, .. })) = (moves, &outcome) {
            self.recovery.end_once_ready(moves.clone());
        }
        // For certain the plan does not link the content: unless a later attempt links it, it is removed.
        if let Some(content) = content
            && !matches!(outcome, Ok(Outcome::Committed) | Err(StoreError::Unknown { .. }))
        {
            content.release();
        }
        outcome
    }

    /// Deletes the rows that a refused plan may have prepared. Never call it for a plan of unknown outcome: its rows
    /// may be linked by now.
    async fn delete_prepared(&self, prepared: Vec<RowChange>) {
        let finish = prepared.into_iter().map(RowChange::deletion).collect();
        if let Err(error) = self.namespace.tables.commit(Plan { finish, ..Plan::default() }).await {
            tracing::warn!(%error, "prepared rows of a refused plan may be left over");
        }
    }

    /// Queues the content of a version that a committed plan has dropped.
    fn unlink_dropped(&self, old: Option<&Versioned<FileEntry>>) {
        if let Some(old) = old.filter(|old| old.value.attributes.location == ContentLocation::Large) {
            self.gc.unlink(old.value.id);
        }
    }
}

/// Whether a plan removes a directory.
fn removes_directory(plan: &Plan) -> bool {
    plan.guarded.iter().any(|row| row.checks.iter().any(is_emptiness))
}

/// That a directory has no children. Only `rmdir` has this check.
fn is_emptiness(check: &Check) -> bool {
    matches!(check, Check::FamilyEmpty(_))
}
