//! Clears the locks of subtree operations for a writer.
//!
//! The record decides:
//!
//! | record | the writer |
//! |---|---|
//! | prepared, with an active owner | waits |
//! | prepared, without an owner | aborts the operation; then as below |
//! | committed | finishes the one row that it wants |
//! | aborted, or missing | clears the lock of that row |
//!
//! The record of an operation without an owner is set to aborted before any of its locks is cleared. Otherwise the
//! operation could still commit without some of its rows.

use bytes::Bytes;

use super::Recovery;
use super::abort::{abort, clear};
use super::finish::finish_row;
use crate::drive::attempts::Attempts;
use crate::drive::error::Result;
use crate::drive::namespace::visibility::{lock_of, record};
use crate::schema::DrivePath;
use crate::schema::dir::{self, RowLock};
use crate::schema::subtree_op::Phase;
use crate::table::{Refusal, RowQuery};

/// Clears one lock, or waits for its operation. The caller then reads the row again: it may be unlocked, removed, or
/// locked by another operation.
async fn clear_lock(recovery: &Recovery, path: &DrivePath, lock: &Bytes, attempts: &mut Attempts) -> Result<()> {
    let state = RowLock::decode(lock)?;
    match record(&recovery.namespace, state.op()).await? {
        Some((Phase::Prepared, _)) if recovery.active.contains(state.op()) => attempts.wait_for(state.op()).await,
        Some((Phase::Prepared, _)) => abort(recovery, state.op()).await.map(|_| ()),
        Some((Phase::Committed, what)) => {
            recovery.end_undecided(state.op());
            finish_row(recovery, state, &what, path, attempts).await
        }
        Some((Phase::Aborted, _)) | None => clear(recovery, path, state).await,
    }
}

/// Clears the lock that may be why a directory row refused a plan.
pub async fn clear_refusal(recovery: &Recovery, refusal: &Refusal, attempts: &mut Attempts) -> Result<()> {
    if refusal.table != dir::TABLE {
        return Ok(());
    }
    clear_locks_at(recovery, &DrivePath::from_key(&refusal.row)?, attempts).await
}

/// Clears locks until the row at this path has none. Errors: [`DriveError::Contended`](crate::drive::DriveError) when the
/// attempts are used up.
pub async fn clear_locks_at(recovery: &Recovery, path: &DrivePath, attempts: &mut Attempts) -> Result<()> {
    let query = RowQuery::cells(vec![dir::lock_column()]);
    loop {
        let row = recovery.namespace.tables.get(dir::TABLE, path.as_str().as_bytes(), &query).await?;
        let Some(lock) = lock_of(&row) else { return Ok(()) };
        clear_lock(recovery, path, lock, attempts).await?;
    }
}
