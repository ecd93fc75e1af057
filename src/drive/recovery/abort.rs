//! The abort of an operation: its record is set to aborted, then its locks are cleared and its copies removed, then the
//! record is deleted.
//!
//! The record is first, so that the operation cannot commit any more once a writer changes a row that it had locked. The
//! record is last, so that a crash in between leaves a record by which the next start continues. Readers see no
//! difference: prepared, aborted and missing records all read as if the operation had not happened.

use super::Recovery;
use super::batch::RowBatch;
use super::finish::{delete_record, finish};
use crate::drive::error::Result;
use crate::drive::namespace::subtree_scan::scan;
use crate::drive::namespace::visibility::record;
use crate::schema::dir::{self, RowLock};
use crate::schema::subtree_op::{self, OpRecord, Phase, SubtreeOpKind};
use crate::schema::{CF, DrivePath, OpId};
use crate::table::{Outcome, Plan, RowQuery};

/// Sets a prepared record to aborted. Returns the phase after that; none if the record is deleted. The operation may have
/// committed before, or another task may have aborted it.
pub async fn abort(recovery: &Recovery, id: OpId) -> Result<Option<Phase>> {
    let guarded = vec![subtree_op::decide(id, Phase::Aborted)];
    let phase = match recovery.namespace.tables.commit(Plan { guarded, reserve: true, ..Plan::default() }).await? {
        Outcome::Committed => Some(Phase::Aborted),
        // It was not prepared, so it is decided.
        Outcome::Refused(_) => record(&recovery.namespace, id).await?.map(|(phase, _)| phase),
    };
    recovery.end_undecided(id);
    Ok(phase)
}

/// Rolls back one row of an operation that is aborted or has no record: unlocks a source row, removes a copy.
pub async fn clear(recovery: &Recovery, path: &DrivePath, state: RowLock) -> Result<()> {
    let mut batch = RowBatch::new(&recovery.namespace);
    batch.add(state.roll_back(path));
    batch.commit().await.map(|_| ())
}

/// Aborts an operation and rolls back all its rows, or finishes it if it has committed.
///
/// Locked rows are found by key in both subtrees, not through listings: a parent may have lost the name of a locked row.
pub async fn abort_and_clean(recovery: &Recovery, id: OpId, what: &OpRecord) -> Result<()> {
    if abort(recovery, id).await? == Some(Phase::Committed) {
        return finish(recovery, id, what).await;
    }
    let mut roots = vec![&what.from];
    if let SubtreeOpKind::Move { to } = &what.kind {
        roots.push(to);
    }
    let locks = [RowLock::Source(id), RowLock::Copy(id)].map(|state| (state.encode(), state));
    for root in roots {
        let mut rows_left = scan(&recovery.namespace, root, RowQuery::cells(vec![dir::lock_column()]));
        while let Some(rows) = rows_left.next(&recovery.namespace).await? {
            recovery.background.check_closing()?;
            let mut batch = RowBatch::new(&recovery.namespace);
            for (key, row) in &rows {
                let mine = locks.iter().find(|(lock, _)| row.get(CF, dir::LOCK) == Some(lock));
                if let Some((_, state)) = mine {
                    batch.add(state.roll_back(&DrivePath::from_key(key)?));
                }
            }
            batch.commit().await?;
        }
    }
    recovery.namespace.tables.commit(delete_record(id)).await?;
    recovery.metrics.ended(what, false);
    Ok(())
}
