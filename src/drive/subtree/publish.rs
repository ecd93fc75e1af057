//! Step 4: the one plan that makes the operation visible.
//!
//! It changes at most four rows: the record, the source parent, the target parent and the parent row of the directory. Its
//! checks guard the rights of the requester too. All other rows were locked or copied before, so this one commit moves the
//! whole subtree.

use super::op::{SubtreeOp, SubtreeRoot, free_target};
use crate::drive::error::{DriveError, Result};
use crate::drive::namespace::lookup::{LiveDir, lookup, no_directory};
use crate::drive::namespace::visibility::record;
use crate::drive::settings::TRIES;
use crate::schema::dir;
use crate::schema::dir_parent::{self, DirParent};
use crate::schema::subtree_op::{self, Phase, SubtreeOpKind};
use crate::schema::{CF, DirId, Name};
use crate::table::{Change, Check, Column, ConditionalRow, Outcome, Plan, StoreError};

/// Why an operation is not known to have committed.
pub enum Stopped {
    /// It has not committed and will not: abort it.
    Failed(DriveError),
    /// It may have committed: recovery decides by its record.
    Unknown(DriveError),
}

/// Commits the operation. Not the retry loop of `commit`: a plan of unknown outcome is sent again. If the record
/// refuses the plan, another writer has aborted the operation.
///
/// The commit counts as a directory move: it begins in the move epoch before it and ends there after it, so that no query
/// believes a path that it has read around the instant.
pub async fn publish(op: &mut SubtreeOp<'_>, root: &SubtreeRoot) -> std::result::Result<(), Stopped> {
    let recovery = &op.committer.recovery;
    for _ in 0..TRIES {
        let plan = commit_plan(op, root).await.map_err(Stopped::Failed)?;
        recovery.begin_undecided(op.id);
        let outcome = commit_until_known(op, plan).await;
        // A plan of unknown outcome may yet happen: no path counts as unchanged until recovery has decided the operation.
        if !matches!(outcome, Err(Stopped::Unknown(_))) {
            recovery.end_undecided(op.id);
        }
        match outcome? {
            Outcome::Committed => return Ok(()),
            Outcome::Refused(refusal) if refusal.table == subtree_op::TABLE => {
                return Err(Stopped::Failed(DriveError::Contended));
            }
            Outcome::Refused(refusal) => {
                op.clear(&refusal).await.map_err(Stopped::Failed)?;
            }
        }
    }
    Err(Stopped::Failed(DriveError::Contended))
}

/// Sends the plan until its outcome is known, a few times at most. The plan changes the record from prepared to committed,
/// so it happens once at most. If the repeated plan is refused, the record says what the earlier one has done, unless the
/// record is still prepared.
async fn commit_until_known(op: &SubtreeOp<'_>, plan: Plan) -> std::result::Result<Outcome, Stopped> {
    let mut cause = None;
    for _ in 0..TRIES {
        match op.ns().tables.commit(plan.clone()).await {
            Ok(outcome) if cause.is_none() || outcome == Outcome::Committed => return Ok(outcome),
            // Refused after an unknown outcome, perhaps because the first attempt was committed. While the record says
            // prepared, the first attempt may still commit, until recovery aborts the operation. A record that is missing
            // or cannot be read decides nothing either.
            Ok(refused) => match record(op.ns(), op.id).await {
                Ok(Some((Phase::Committed, _))) => return Ok(Outcome::Committed),
                Ok(Some((Phase::Aborted, _))) => return Ok(refused),
                Ok(Some((Phase::Prepared, _)) | None) | Err(_) => break,
            },
            Err(error @ StoreError::Unknown { .. }) => cause = Some(error),
            Err(error) if cause.is_none() => return Err(Stopped::Failed(error.into())),
            // IMPORTANT: a failure of this attempt, such as a store that takes no more writes, says nothing about the
            // attempt before: its outcome stays unknown.
            Err(_) => {}
        }
    }
    Err(Stopped::Unknown(cause.map_or(DriveError::Contended, DriveError::from)))
}

/// The plan of the commit: record, names in both parents, the link of the directory to its parent. Everything that was
/// read for it is in its checks; [`DriveError::Contended`] if the source is not as the operation has locked it.
async fn commit_plan(op: &SubtreeOp<'_>, root: &SubtreeRoot) -> Result<Plan> {
    let (ns, id) = (op.ns(), root.entry.value.id);
    let permissions = op.permissions().await?;
    let source = lookup(ns, &root.parent, &root.name).await?;
    let Some(live) = source.parent.as_ref() else { return Err(DriveError::Contended) };
    if source.directory.as_ref().is_none_or(|found| found.bytes != root.entry.bytes) {
        return Err(DriveError::Contended);
    }
    let qualifier = dir::directory_qualifier(&root.name);
    let mut checks = live.checks();
    checks.push(Check::Equals(Column::new(dir::SUB, qualifier.clone()), root.entry.bytes.clone()));
    let mut source_row = ConditionalRow {
        table: dir::TABLE,
        row: root.parent.key(),
        checks,
        changes: vec![Change::delete(dir::SUB, qualifier)],
    };
    let mut guarded = vec![subtree_op::decide(op.id, Phase::Committed)];
    if let SubtreeOpKind::Move { to } = &op.record.kind {
        let (parent, name, found) = free_target(ns, to).await?;
        let Some(target) = found.parent.as_ref() else { return Err(DriveError::Contended) };
        let put = Change::put(dir::SUB, dir::directory_qualifier(&name), root.entry.bytes.clone());
        let free = vec![no_directory(&name), found.file_check(&name)];
        if parent == root.parent {
            source_row.checks.extend(free);
            source_row.changes.push(put);
        } else {
            let checks = [target.checks(), free].concat();
            guarded.push(ConditionalRow { table: dir::TABLE, row: parent.key(), checks, changes: vec![put] });
        }
        guarded.push(link(op, id, live, target, &name).await?);
    }
    guarded.push(source_row);
    let mut plan = Plan { guarded, reserve: op.record.frees_space(), ..Plan::default() };
    permissions.iter().for_each(|permission| permission.guard(&mut plan));
    Ok(plan)
}

/// Changes the directory's link from the old parent to the new one. The link has the id of this operation: two path
/// lookups differ even if the directory moves away and back between them.
async fn link(op: &SubtreeOp<'_>, root: DirId, from: &LiveDir, to: &LiveDir, name: &Name) -> Result<ConditionalRow> {
    let stored = op.ns().tables.cell(dir_parent::TABLE, root.0.as_bytes(), CF, dir_parent::PARENT).await?;
    let stored = stored.ok_or(DriveError::Contended)?;
    if DirParent::decode(&stored)?.parent != from.id {
        return Err(DriveError::Contended);
    }
    let link = DirParent { parent: to.id, name: name.clone(), operation: op.id.0 };
    let checks = vec![Check::Equals(dir_parent::column(), stored)];
    Ok(ConditionalRow { table: dir_parent::TABLE, row: root.key(), checks, changes: link.put_cells() })
}
