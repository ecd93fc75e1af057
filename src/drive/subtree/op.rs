//! A subtree operation while it runs, and what its steps have in common.

use crate::auth::{Permission, Requester};
use crate::drive::attempts::Attempts;
use crate::drive::commit::Committer;
use crate::drive::commit::target::check_target;
use crate::drive::error::{DriveError, Result};
use crate::drive::namespace::Namespace;
use crate::drive::namespace::lookup::{NameLookup, Versioned, lookup};
use crate::drive::recovery::batch::RowBatch;
use crate::drive::recovery::locks::clear_refusal;
use crate::drive::rights::Rights;
use crate::drive::settings::TRIES;
use crate::schema::dir::DirEntry;
use crate::schema::subtree_op::{OpRecord, SubtreeOpKind};
use crate::schema::{DrivePath, Name, OpId};
use crate::table::Refusal;

/// A subtree operation whose record is written.
pub struct SubtreeOp<'a> {
    pub committer: &'a Committer,
    pub requester: &'a Requester,
    pub id: OpId,
    pub record: OpRecord,
    pub attempts: Attempts,
    /// Cells found in the subtree so far: the cost of its finish.
    pub cells: usize,
}

/// The directory that an operation moves or deletes, as its parent names it.
pub struct SubtreeRoot {
    pub entry: Versioned<DirEntry>,
    pub parent: DrivePath,
    pub name: Name,
}

impl<'a> SubtreeOp<'a> {
    pub fn ns(&self) -> &'a Namespace {
        &self.committer.namespace
    }

    /// Decides whether the requester may still do this. The permissions are guarded by the plan of the commit.
    ///
    /// Errors: [`DriveError::Contended`] if he may not any more: the operation aborts itself and starts again, and its
    /// next attempt answers by the new state.
    pub async fn permissions(&self) -> Result<Vec<Permission>> {
        match self.decide().await {
            Err(DriveError::Forbidden | DriveError::NotFound | DriveError::Unauthorized) => Err(DriveError::Contended),
            decided => decided,
        }
    }

    async fn decide(&self) -> Result<Vec<Permission>> {
        let rights = Rights::read(self.ns(), self.requester).await?;
        let mut permissions = vec![rights.write_in(&parent_of(&self.record.from)?).await?];
        if let SubtreeOpKind::Move { to } = &self.record.kind {
            permissions.push(rights.write_in(&parent_of(to)?).await?);
        }
        Ok(permissions)
    }

    /// Clears the locks of other operations that may have refused a plan.
    pub async fn clear(&mut self, refusal: &Refusal) -> Result<()> {
        clear_refusal(&self.committer.recovery, refusal, &mut self.attempts).await
    }

    /// Commits a batch. Not the retry loop of `commit`: nothing is decided again. Only the refused rows are sent again,
    /// after the locks of other operations on them are cleared.
    pub async fn commit_all(&mut self, batch: &mut RowBatch<'_>) -> Result<()> {
        for _ in 0..TRIES {
            let refused = batch.commit().await?;
            if refused.is_empty() {
                return Ok(());
            }
            for (row, refusal) in refused {
                self.clear(&refusal).await?;
                batch.add(row);
            }
        }
        Err(DriveError::Contended)
    }
}

/// The directory whose children an operation changes that moves something from this path, or to it.
pub fn parent_of(path: &DrivePath) -> Result<DrivePath> {
    path.split().map(|(parent, _)| parent).ok_or(DriveError::Root)
}

/// The directory at the root of a subtree.
pub async fn root_of(ns: &Namespace, from: &DrivePath) -> Result<SubtreeRoot> {
    let (parent, name) = from.split().ok_or(DriveError::Root)?;
    let found = lookup(ns, &parent, &name).await?;
    match (found.parent, found.directory) {
        (Some(_), Some(entry)) => Ok(SubtreeRoot { entry, parent, name }),
        _ => Err(DriveError::NotFound),
    }
}

/// The parent of the target, the name, and its lookup, if a directory may be moved there.
pub async fn free_target(ns: &Namespace, to: &DrivePath) -> Result<(DrivePath, Name, NameLookup)> {
    let (parent, name) = to.split().ok_or(DriveError::Exists)?;
    let found = lookup(ns, &parent, &name).await?;
    check_target(ns, &found, &parent, false).await?;
    Ok((parent, name, found))
}
