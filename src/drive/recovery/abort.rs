//! An operation that will never be committed: its record is set to aborted, then its marks go, then the record.

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

/// Sets a prepared record to aborted. Returns the phase after it: the record may have been committed meanwhile, or be
/// gone.
pub async fn abort(recovery: &Recovery, id: OpId) -> Result<Option<Phase>> {
    let guarded = vec![subtree_op::decide(id, Phase::Aborted)];
    match recovery.namespace.tables.commit(Plan { guarded, reserve: true, ..Plan::default() }).await? {
        Outcome::Committed => Ok(Some(Phase::Aborted)),
        Outcome::Refused(_) => Ok(record(&recovery.namespace, id).await?.map(|(phase, _)| phase)),
    }
}

/// Takes the mark off one row of an operation that is aborted or gone, or removes the row if it was staged.
pub async fn clear(recovery: &Recovery, path: &DrivePath, state: RowLock) -> Result<()> {
    let mut batch = RowBatch::new(&recovery.namespace);
    batch.add(state.roll_back(path));
    batch.commit().await.map(|_| ())
}

/// Aborts an operation and removes all that it wrote.
///
/// Marks are found by key in both subtrees, not through listings: a parent may have lost the name of a marked row.
pub async fn abort_and_clean(recovery: &Recovery, id: OpId, what: &OpRecord) -> Result<()> {
    if abort(recovery, id).await? == Some(Phase::Committed) {
        return finish(recovery, id, what).await;
    }
    let mut roots = vec![&what.from];
    if let SubtreeOpKind::Move { to } = &what.kind {
        roots.push(to);
    }
    let marks = [RowLock::Source(id), RowLock::Copy(id)].map(|state| (state.encode(), state));
    for root in roots {
        let mut rows_left = scan(&recovery.namespace, root, RowQuery::cells(vec![dir::lock_column()]));
        while let Some(rows) = rows_left.next(&recovery.namespace).await? {
            recovery.background.go_on()?;
            let mut batch = RowBatch::new(&recovery.namespace);
            for (key, row) in &rows {
                let mine = marks.iter().find(|(mark, _)| row.get(CF, dir::LOCK) == Some(mark));
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
