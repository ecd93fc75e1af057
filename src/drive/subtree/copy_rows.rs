//! Step 3: each locked row is copied to its new path, with the same id and children, and with a lock as a copy.
//!
//! Readers see a locked copy as absent until the commit, however much of it is written. A source row cannot change any
//! more, since step 2 has locked it, so the copies are complete when the commit is sent: it only has to swap names.

use std::ops::Bound;

use super::op::SubtreeOp;
use crate::drive::error::{DriveError, Result};
use crate::drive::namespace::subtree_scan::scan;
use crate::drive::recovery::batch::RowBatch;
use crate::drive::recovery::finish::target_path;
use crate::drive::recovery::locked_dir::LockedDir;
use crate::schema::dir::{self, RowLock};
use crate::schema::{CF, DrivePath};
use crate::table::{Cell, Change, Check, ConditionalRow, Row, RowQuery};

pub async fn copy_rows(op: &mut SubtreeOp<'_>, to: &DrivePath) -> Result<()> {
    let from = op.record.from.clone();
    let source_lock = RowLock::Source(op.id).encode();
    let mut rows_left = scan(op.ns(), &from, RowQuery::families(&[CF]));
    let mut batch = RowBatch::new(op.ns());
    while let Some(rows) = rows_left.next(op.ns()).await? {
        // A row with another lock, or with none, belongs to no directory of this subtree.
        for (key, row) in rows.iter().filter(|(_, row)| row.get(CF, dir::LOCK) == Some(&source_lock)) {
            let Some(id) = row.get(CF, dir::ID) else { continue };
            let old = LockedDir { op: op.id, path: DrivePath::from_key(key)?, id: dir::decode_id(id)? };
            let new = target_path(&old.path, &from, to)?;
            copy_row(op, &old, &new, row, &mut batch).await?;
        }
    }
    op.commit_all(&mut batch).await
}

/// Copies one row, page by page.
///
/// The first plan checks that the new path has no row, the later ones that the row still has the lock of this operation:
/// no plan ever changes a row that another writer has made there. Rows of a batch share a sync, but the pages of one
/// row do not share a plan: the check of a later page needs the row that the first one puts.
async fn copy_row(
    op: &mut SubtreeOp<'_>,
    old: &LockedDir,
    new: &DrivePath,
    row: &Row,
    batch: &mut RowBatch<'_>,
) -> Result<()> {
    let copy_lock = RowLock::Copy(op.id).encode();
    let mut checks = vec![Check::Absent(dir::id_column())];
    let kept = row.family(CF).filter(|cell| cell.qualifier != dir::LOCK);
    let mut changes: Vec<_> = kept.map(|cell| Change::put(CF, cell.qualifier.clone(), cell.value.clone())).collect();
    changes.push(Change::put(CF, dir::LOCK, copy_lock.clone()));
    let mut from = Bound::Unbounded;
    loop {
        let page = old.page(op.ns(), (from, Bound::Unbounded), op.ns().limits.children_moved).await?;
        // Another writer has aborted the operation meanwhile: it starts again.
        let page = page.ok_or(DriveError::Contended)?;
        for cell in &page.cells {
            fits(new, cell)?;
            changes.push(Change::put(dir::SUB, cell.qualifier.clone(), cell.value.clone()));
        }
        batch.add(ConditionalRow { table: dir::TABLE, row: new.key(), checks, changes: std::mem::take(&mut changes) });
        let Some(last) = page.cells.last().filter(|_| page.more) else { break };
        // The next part of the row is committed after this one.
        op.commit_all(batch).await?;
        checks = vec![Check::Equals(dir::lock_column(), copy_lock.clone())];
        from = Bound::Excluded(last.qualifier.clone());
    }
    if batch.is_full() { op.commit_all(batch).await } else { Ok(()) }
}

/// Checks that the path of a child is not too long at the target.
fn fits(directory: &DrivePath, cell: &Cell) -> Result<()> {
    let (_, name) = dir::child(&cell.qualifier)?;
    directory.join(&name).map(|_| ()).map_err(|_| DriveError::Outgrown)
}
