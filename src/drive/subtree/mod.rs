//! Subtree operations: the move of a directory, and the delete of a directory with all that is in it.
//!
//! They change more rows than a plan may guard. Each row of the subtree has a lock that names a record in the table
//! `op`. The commit that sets the record to *committed* is the instant of the operation: from then on readers find the
//! subtree at its new path, or, after a delete, nowhere.
//!
//! 1. The record is written: prepared.
//! 2. [`mod@lock`]: each row of the subtree is locked, top-down, before its children are listed.
//! 3. [`mod@copy_rows`]: a move writes each row at its new path, locked too.
//! 4. [`mod@publish`]: the commit: record, names in both parents, the directory's link to its parent.
//! 5. `recovery::finish`: new rows lose their lock, then old rows are removed, and the record last.
//!
//! The record is written first: readers treat a lock without a record as one of an aborted operation, and any writer may
//! clear it. The record is deleted last for the same reason. An operation that does not reach step 4 is aborted by `recovery::abort`. Readers
//! and writers may come between any two steps: they read in the record what a locked row means.

mod copy_rows;
mod lock;
mod op;
mod publish;

use std::sync::Arc;

use super::attempts::{Attempts, Caller};
use super::commit::Committer;
use super::commit::rename::{Renamed, rename_file};
use super::commit::target::split_target;
use super::error::{DriveError, Result};
use super::model::{Node, Written};
use super::namespace::Namespace;
use super::recovery::abort::abort_and_clean;
use super::recovery::at_start::resume;
use super::recovery::complete::{complete, retry_later};
use super::recovery::locks::clear_locks_at;
use super::refusals::{settled, tells_of_the_tree};
use super::rights::Rights;
use crate::auth::Requester;
use crate::schema::dir::DirEntry;
use crate::schema::subtree_op::{self, OpRecord, SubtreeOpKind};
use crate::schema::{DrivePath, OpId};
use crate::table::{Check, ConditionalRow, Outcome, Plan, StoreError};
use copy_rows::copy_rows;
use lock::lock;
use op::{SubtreeOp, SubtreeRoot, free_target, parent_of, root_of};
use publish::{Stopped, publish};

/// Moves a file or a directory: it keeps its id, times, creator and type. With `overwrite` a file may replace a file.
pub async fn move_node(
    committer: &Arc<Committer>,
    requester: &Requester,
    from: &DrivePath,
    to: &DrivePath,
    overwrite: bool,
) -> Result<Written> {
    let (this, by, from, to) = (committer.clone(), requester.clone(), from.clone(), to.clone());
    let rename = |caller| async move {
        match rename_file(&this, &by, &from, &to, overwrite, &caller).await? {
            Renamed::File(written) => Ok(written),
            Renamed::IsDirectory => move_directory(&this, &by, &from, &to, &caller).await,
        }
    };
    committer.gate.run_to_end(rename).await
}

/// Moves a directory. The caller runs it to its end.
async fn move_directory(
    committer: &Committer,
    requester: &Requester,
    from: &DrivePath,
    to: &DrivePath,
    caller: &Caller,
) -> Result<Written> {
    split_target(from, to)?;
    let entry = run(committer, requester, from, &SubtreeOpKind::Move { to: to.clone() }, caller).await?;
    Ok(Written { node: Node::Directory { path: to.clone(), entry }, new: true })
}

/// Deletes a directory with all that is in it.
pub async fn delete_subtree(committer: &Arc<Committer>, requester: &Requester, path: &DrivePath) -> Result<()> {
    let (this, by, path) = (committer.clone(), requester.clone(), path.clone());
    let delete = |caller| async move { run(&this, &by, &path, &SubtreeOpKind::Delete, &caller).await };
    committer.gate.run_to_end(delete).await.map(|_| ())
}

/// The loop over attempts. Not the retry loop of `commit`: each attempt is an operation of its own, with an id and a
/// record of its own. An attempt is aborted, and the next one starts, if it yields to an older operation, or if its
/// paths have changed before it had locked them.
async fn run(
    committer: &Committer,
    requester: &Requester,
    from: &DrivePath,
    kind: &SubtreeOpKind,
    caller: &Caller,
) -> Result<DirEntry> {
    let ns = &committer.namespace;
    let parents = [Some(parent_of(from)?), kind.target().map(parent_of).transpose()?];
    let looked_at: Vec<&DrivePath> = [from].into_iter().chain(parents.iter().flatten()).collect();
    let mut attempts = Attempts::new(caller, committer.lock_wait);
    loop {
        // Before it waits for others, whose locks he may not see.
        let _may_take = Rights::read(ns, requester).await?.take(from).await?;
        // Without a record the operation waits like any writer. Once it has one, it yields to older operations.
        clear_locks_at(&committer.recovery, from, &mut attempts).await?;
        let Some(root) = settled(ns, requester, &looked_at, || find_root(ns, requester, from, kind)).await? else {
            attempts.next().await?;
            continue;
        };
        let record = OpRecord { from: from.clone(), root: root.entry.value.id, kind: kind.clone() };
        match attempt(committer, requester, &root, record, caller).await {
            Ok(()) => return Ok(root.entry.value),
            Err(DriveError::Contended) => attempts.wait().await?,
            // The next attempt refuses it, if its requester may still know that.
            Err(error) if tells_of_the_tree(&error) => attempts.wait().await?,
            Err(error) => return Err(error),
        }
    }
}

/// The directory of an operation, if its requester may move or delete it as things are now. None if source and target,
/// which are read at two instants, contradict each other. The commit decides anew, and is guarded.
async fn find_root(
    ns: &Namespace,
    requester: &Requester,
    from: &DrivePath,
    kind: &SubtreeOpKind,
) -> Result<Option<SubtreeRoot>> {
    let rights = Rights::read(ns, requester).await?;
    let _may_take = rights.take(from).await?;
    let root = root_of(ns, from).await?;
    let SubtreeOpKind::Move { to } = kind else { return Ok(Some(root)) };
    let _may_put = rights.write_from(from, &parent_of(to)?).await?;
    let Err(error) = free_target(ns, to).await else { return Ok(Some(root)) };
    // Another move may have put this directory there in between.
    let is_same = root_of(ns, from).await?.entry.bytes == root.entry.bytes;
    if is_same { Err(error) } else { Ok(None) }
}

/// One attempt: step 1, then the other steps, then the finish or the abort.
async fn attempt(
    committer: &Committer,
    requester: &Requester,
    root: &SubtreeRoot,
    record: OpRecord,
    caller: &Caller,
) -> Result<()> {
    let recovery = &committer.recovery;
    let id = OpId::now();
    // IMPORTANT: registered before the record is written. Otherwise a concurrent writer would abort it as an operation
    // without an owner.
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
    let mut op = SubtreeOp { committer, requester, id, record, attempts, cells: 0 };
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
        // IMPORTANT: after an unknown outcome nothing is undone, since the move may be visible. The operation loses its
        // owner, and recovery decides by its record, as for an operation of an earlier process.
        Err(Stopped::Unknown(error)) => {
            drop(guard);
            resume(recovery);
            Err(error)
        }
        // Aborted while it is still registered as active: only the owner may delete its record.
        Err(Stopped::Failed(error)) => {
            let aborted = abort_and_clean(recovery, id, &record).await;
            drop(guard);
            retry_later(recovery, id, aborted);
            Err(error)
        }
    }
}

/// Steps 2 to 4. The commit is sent only after every earlier write is known to be committed: otherwise a directory could
/// be missing at the new path, or stay without a lock when its parent is deleted.
async fn steps(op: &mut SubtreeOp<'_>, root: &SubtreeRoot) -> std::result::Result<(), Stopped> {
    lock(op).await.map_err(Stopped::Failed)?;
    if let SubtreeOpKind::Move { to } = op.record.kind.clone() {
        copy_rows(op, &to).await.map_err(Stopped::Failed)?;
    }
    publish(op, root).await
}
