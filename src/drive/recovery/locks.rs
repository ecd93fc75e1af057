//! Gets the locks of subtree operations out of a writer's way.
//!
//! A writer waits for a prepared operation whose owner is active, aborts one that has no owner, and otherwise finishes
//! or clears the one row that it wants.

use bytes::Bytes;

use super::Recovery;
use super::abort::{abort, clear};
use super::finish::finish_row;
use crate::drive::attempts::Attempts;
use crate::drive::error::Result;
use crate::drive::namespace::visibility::{mark, record};
use crate::schema::DrivePath;
use crate::schema::dir::{self, RowLock};
use crate::schema::subtree_op::Phase;
use crate::table::{Refusal, RowQuery};

/// Gets a mark out of a writer's way. When it returns, the row is to be read again: it may be free, gone, or
/// locked by another operation.
async fn clear_lock(recovery: &Recovery, path: &DrivePath, mark: &Bytes, attempts: &mut Attempts) -> Result<()> {
    let state = RowLock::decode(mark)?;
    match record(&recovery.namespace, state.op()).await? {
        Some((Phase::Prepared, _)) if recovery.active.contains(state.op()) => attempts.wait_for(state.op()).await,
        Some((Phase::Prepared, _)) => abort(recovery, state.op()).await.map(|_| ()),
        Some((Phase::Committed, what)) => finish_row(recovery, state, &what, path, attempts).await,
        Some((Phase::Aborted, _)) | None => clear(recovery, path, state).await,
    }
}

/// Clears the locks that may be why a directory row refused a plan.
pub async fn clear_refusal(recovery: &Recovery, refusal: &Refusal, attempts: &mut Attempts) -> Result<()> {
    if refusal.table != dir::TABLE {
        return Ok(());
    }
    clear_locks_at(recovery, &DrivePath::from_key(&refusal.row)?, attempts).await
}

/// Clears locks until the row at this path has none.
pub async fn clear_locks_at(recovery: &Recovery, path: &DrivePath, attempts: &mut Attempts) -> Result<()> {
    let query = RowQuery::cells(vec![dir::lock_column()]);
    loop {
        let row = recovery.namespace.tables.get(dir::TABLE, path.as_str().as_bytes(), &query).await?;
        let Some(mark) = mark(&row) else { return Ok(()) };
        clear_lock(recovery, path, mark, attempts).await?;
    }
}
