//! Finishes a committed operation before its answer, or after its answer if the subtree is large.
//!
//! The operation is visible and durable at its commit, so the answer does not need the finish. A small one is finished
//! first all the same: the next request then finds no locked rows.

use std::sync::Arc;

use super::Recovery;
use super::active::OpGuard;
use super::at_start::resume;
use super::finish::finish;
use crate::drive::error::{DriveError, Result};
use crate::schema::OpId;
use crate::schema::subtree_op::OpRecord;

/// Finishes now, or in a background task if the subtree has many cells.
pub async fn complete(recovery: &Arc<Recovery>, guard: OpGuard, what: OpRecord, cells: usize) {
    if cells <= recovery.namespace.limits.cells_before_answer {
        return finish_or_retry(recovery, guard, &what).await;
    }
    let (recovery, task_guard) = (recovery.clone(), recovery.background.begin());
    tokio::spawn(async move {
        finish_or_retry(&recovery, guard, &what).await;
        drop(task_guard);
    });
}

async fn finish_or_retry(recovery: &Arc<Recovery>, guard: OpGuard, what: &OpRecord) {
    let id = guard.op;
    let finished = finish(recovery, id, what).await;
    drop(guard);
    retry_later(recovery, id, finished);
}

/// Retries a failed finish or abort in the background, until it is done or the drive is closed.
pub fn retry_later(recovery: &Arc<Recovery>, id: OpId, done: Result<()>) {
    match done {
        Ok(()) | Err(DriveError::Closing) => {}
        Err(cause) => {
            tracing::warn!(operation = %id, %cause, "the clean-up of an operation is tried again");
            resume(recovery);
        }
    }
}
