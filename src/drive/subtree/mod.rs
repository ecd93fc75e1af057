//! Operations on whole subtrees: moving a directory, deleting one with all it holds.
//!
//! They touch more rows than a plan may guard. A record in the `op` table stands for them all, and its change to
//! *committed* is the one instant at which the subtree is gone from one path and there at the other:
//!
//! 1. the record: prepared
//! 2. [`mod@lock`]: each row of the subtree is marked, top-down, before its children are listed
//! 3. [`mod@copy_rows`]: a move makes each row anew at its new path, marked too
//! 4. [`mod@publish`]: the instant: record, names in both parents, the directory's link to its parent
//! 5. `recovery::finish`: new rows lose their mark, then old rows go, and the record last
//!
//! An operation that does not reach step 4 is aborted by `recovery::abort`. Every step may be met by readers and
//! writers, who decide by the record what a marked row means.

mod copy_rows;
mod lock;
mod op;
mod publish;

use super::attempts::{Attempts, Caller};
use super::commit::Committer;
use super::commit::rename::{Renamed, rename_file};
use super::commit::target::split_target;
use super::error::{DriveError, Result};
use super::model::{Node, Written};
use super::recovery::abort::abort_and_clean;
use super::recovery::at_start::resume;
use super::recovery::complete::{complete, retry_later};
use super::recovery::locks::clear_locks_at;
use crate::schema::dir::DirEntry;
use crate::schema::subtree_op::{self, OpRecord, SubtreeOpKind};
use crate::schema::{DrivePath, OpId};
use crate::table::{Check, ConditionalRow, Outcome, Plan, StoreError};
use copy_rows::copy_rows;
use lock::lock;
use op::{SubtreeOp, SubtreeRoot, free_target, root_of};
use publish::{Stopped, publish};

/// Moves a file or a directory: it keeps its id, times, creator and type. With `overwrite` a file may replace a file.
pub async fn move_node(committer: &Committer, from: &DrivePath, to: &DrivePath, overwrite: bool) -> Result<Written> {
    let (this, from, to) = (committer.clone(), from.clone(), to.clone());
    let rename = |caller| async move {
        match rename_file(&this, &from, &to, overwrite, &caller).await? {
            Renamed::File(written) => Ok(written),
            Renamed::IsDirectory => move_directory(&this, &from, &to, &caller).await,
        }
    };
    committer.gate.run_to_end(rename).await
}

/// Part of a change that runs to its end.
async fn move_directory(committer: &Committer, from: &DrivePath, to: &DrivePath, caller: &Caller) -> Result<Written> {
    split_target(from, to)?;
    let entry = run(committer, from, &SubtreeOpKind::Move { to: to.clone() }, caller).await?;
    Ok(Written { node: Node::Directory { path: to.clone(), entry }, new: true })
}

/// Deletes a directory with all that it holds.
pub async fn delete_subtree(committer: &Committer, path: &DrivePath) -> Result<()> {
    let (this, path) = (committer.clone(), path.clone());
    let delete = |caller| async move { run(&this, &path, &SubtreeOpKind::Delete, &caller).await };
    committer.gate.run_to_end(delete).await.map(|_| ())
}

/// Not the retry loop of `commit`: each attempt is an operation of its own, with a record of its own. One that yields
/// to an older operation, or whose paths changed before it had locked them, is aborted and begun anew.
async fn run(committer: &Committer, from: &DrivePath, kind: &SubtreeOpKind, caller: &Caller) -> Result<DirEntry> {
    let ns = &committer.namespace;
    let mut attempts = Attempts::new(caller, committer.lock_wait);
    loop {
        // An operation that has no record yet waits like any writer.
        clear_locks_at(&committer.recovery, from, &mut attempts).await?;
        let root = root_of(ns, from).await?;
        if let SubtreeOpKind::Move { to } = kind
            && let Err(error) = free_target(ns, to).await
        {
            // Source and target were read at two instants: this very directory may have been moved there between them.
            if root_of(ns, from).await?.entry.bytes != root.entry.bytes {
                continue;
            }
            return Err(error);
        }
        let record = OpRecord { from: from.clone(), root: root.entry.value.id, kind: kind.clone() };
        match attempt(committer, &root, record, caller).await {
            Ok(()) => return Ok(root.entry.value),
            Err(DriveError::Contended) => attempts.wait().await?,
            Err(error) => return Err(error),
        }
    }
}

async fn attempt(committer: &Committer, root: &SubtreeRoot, record: OpRecord, caller: &Caller) -> Result<()> {
    let recovery = &committer.recovery;
    let id = OpId::now();
    // IMPORTANT: registered before the record is written, or a concurrent writer would abort it as orphaned.
    let guard = recovery.active.register(id);
    let preparing = committer.metrics.preparing();
    let row = ConditionalRow {
        table: subtree_op::TABLE,
        row: id.key(),
        checks: vec![Check::Absent(subtree_op::phase_column())],
        changes: record.put_cells(),
    };
    let reserve = record.frees_space();
    let recorded = committer.namespace.tables.commit(Plan { guarded: vec![row], reserve, ..Plan::default() }).await;
    let attempts = Attempts::new(caller, committer.lock_wait).of_op(id);
    let mut op = SubtreeOp { committer, id, record, attempts, cells: 0 };
    let done = match recorded {
        Ok(Outcome::Committed) => steps(&mut op, root).await,
        Ok(Outcome::Refused(_)) => return Err(DriveError::Contended),
        Err(error @ StoreError::Unknown { .. }) => Err(Stopped::Failed(error.into())),
        Err(error) => return Err(error.into()),
    };
    let SubtreeOp { record, cells, .. } = op;
    match done {
        Ok(()) => {
            drop(preparing);
            complete(recovery, guard, record, cells).await;
            Ok(())
        }
        // Nobody owns it any more: its record tells what became of it, as that of an earlier process does.
        Err(Stopped::Unknown(error)) => {
            drop(guard);
            resume(recovery);
            Err(error)
        }
        Err(Stopped::Failed(error)) => {
            let aborted = abort_and_clean(recovery, id, &record).await;
            drop(guard);
            retry_later(recovery, id, aborted);
            Err(error)
        }
    }
}

/// Steps 2 to 4.
async fn steps(op: &mut SubtreeOp<'_>, root: &SubtreeRoot) -> std::result::Result<(), Stopped> {
    lock(op).await.map_err(Stopped::Failed)?;
    if let SubtreeOpKind::Move { to } = op.record.kind.clone() {
        copy_rows(op, &to).await.map_err(Stopped::Failed)?;
    }
    publish(op, root).await
}
