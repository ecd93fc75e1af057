//! Records of operations without an owner: an earlier process left them, or an error ended their finish or abort. A
//! background task finishes or aborts each of them, and retries until that is done.
//!
//! The records are the queue, so no list of work is kept in memory. A record that fails or cannot be read delays no
//! other. Requests are served meanwhile: readers decide by the records, and a writer clears the locks that it finds.

use std::sync::Arc;

use super::Recovery;
use super::abort::abort_and_clean;
use super::finish::finish;
use crate::drive::background::{Pauses, pause};
use crate::drive::error::{DriveError, Result};
use crate::schema::OpId;
use crate::schema::subtree_op::{self, OpRecord, Phase};
use crate::table::{Row, RowCursor, RowKey, RowQuery, RowRange};

/// Starts to finish or abort, in the background, every operation that has no owner in this process.
pub fn resume(recovery: &Arc<Recovery>) {
    if !recovery.record_scans.request() {
        return;
    }
    let task_guard = recovery.background.begin();
    let closing = recovery.background.closing();
    let mut pauses = Pauses::new(recovery.backoff);
    let mut recovery = recovery.clone();
    tokio::spawn(async move {
        let _task_guard = task_guard;
        loop {
            recovery.record_scans.begin();
            let all = recover_all(&recovery).await;
            if recovery.background.check_closing().is_err() || (all && recovery.record_scans.end()) {
                return;
            }
            // Only a weak reference during the pause: failing work must not keep the drive and its store open after all
            // other references are dropped.
            let weak = Arc::downgrade(&recovery);
            drop(recovery);
            if !all && !pause(&closing, pauses.longer()).await {
                return;
            }
            let Some(still_open) = weak.upgrade() else { return };
            recovery = still_open;
        }
    });
}

/// One scan of the records. Returns whether none of them has to be tried again.
async fn recover_all(recovery: &Recovery) -> bool {
    let listed = recovery.namespace.limits.records_listed;
    let mut records =
        RowCursor::new(subtree_op::TABLE, RowRange::all(), RowQuery::cells(subtree_op::columns()), listed);
    let (mut all, mut unreadable) = (true, 0);
    loop {
        let rows = match records.next(&recovery.namespace.tables).await {
            Ok(Some(rows)) => rows,
            Ok(None) => break,
            Err(cause) => {
                tracing::warn!(%cause, "records of operations cannot be listed: tried again");
                return false;
            }
        };
        for (key, row) in &rows {
            if recovery.background.check_closing().is_err() {
                return false;
            }
            match record(key, row) {
                Ok(Some((id, phase, what))) if !recovery.active.contains(id) => {
                    all &= recover(recovery, id, phase, &what).await;
                }
                Ok(_) => {}
                Err(cause) => {
                    unreadable += 1;
                    tracing::error!(record = %key.escape_ascii(), %cause, "a record of an operation cannot be read: it is skipped");
                }
            }
        }
    }
    recovery.metrics.unreadable(subtree_op::TABLE, unreadable);
    all
}

/// Finishes or aborts one operation. Returns whether that is done.
///
/// The phase may be out of date, which is safe: an abort reads it again, and a committed record stays committed.
async fn recover(recovery: &Recovery, id: OpId, phase: Phase, what: &OpRecord) -> bool {
    let done = match phase {
        Phase::Committed => finish(recovery, id, what).await,
        Phase::Prepared | Phase::Aborted => abort_and_clean(recovery, id, what).await,
    };
    match done {
        Ok(()) => tracing::info!(operation = %id, from = %what.from, "completed an operation that was left unfinished"),
        Err(DriveError::Closing) => return false,
        Err(cause) => {
            tracing::warn!(operation = %id, from = %what.from, %cause, "an operation could not be completed: tried again");
            return false;
        }
    }
    true
}

fn record(key: &RowKey, row: &Row) -> Result<Option<(OpId, Phase, OpRecord)>> {
    let id = subtree_op::decode_key(key)?;
    Ok(subtree_op::decode_record(row)?.map(|(phase, what)| (id, phase, what)))
}
