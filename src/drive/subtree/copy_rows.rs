//! Step 3: each locked row is copied to its new path, with the same id and children, and marked as a copy: it reads as
//! absent until the instant.

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
    let closed = RowLock::Source(op.id).encode();
    let mut rows_left = scan(op.ns(), &from, RowQuery::families(&[CF]));
    let mut batch = RowBatch::new(op.ns());
    while let Some(rows) = rows_left.next(op.ns()).await? {
        // Rows with another mark, or with none, belong to no directory of this subtree.
        for (key, row) in rows.iter().filter(|(_, row)| row.get(CF, dir::LOCK) == Some(&closed)) {
            let Some(id) = row.get(CF, dir::ID) else { continue };
            let old = LockedDir { op: op.id, path: DrivePath::from_key(key)?, id: dir::decode_id(id)? };
            let new = target_path(&old.path, &from, to)?;
            copy_row(op, &old, &new, row, &mut batch).await?;
        }
    }
    op.commit_all(&mut batch).await
}

/// One row, page by page.
async fn copy_row(
    op: &mut SubtreeOp<'_>,
    old: &LockedDir,
    new: &DrivePath,
    row: &Row,
    batch: &mut RowBatch<'_>,
) -> Result<()> {
    let staged = RowLock::Copy(op.id).encode();
    let mut checks = vec![Check::Absent(dir::id_column())];
    let kept = row.family(CF).filter(|cell| cell.qualifier != dir::LOCK);
    let mut changes: Vec<_> = kept.map(|cell| Change::put(CF, cell.qualifier.clone(), cell.value.clone())).collect();
    changes.push(Change::put(CF, dir::LOCK, staged.clone()));
    let mut from = Bound::Unbounded;
    loop {
        let page = old.page(op.ns(), (from, Bound::Unbounded), op.ns().limits.children_staged).await?;
        // Somebody has aborted the operation meanwhile: it begins anew.
        let page = page.ok_or(DriveError::Contended)?;
        for cell in &page.cells {
            fits(new, cell)?;
            changes.push(Change::put(dir::SUB, cell.qualifier.clone(), cell.value.clone()));
        }
        batch.add(ConditionalRow { table: dir::TABLE, row: new.key(), checks, changes: std::mem::take(&mut changes) });
        let Some(last) = page.cells.last().filter(|_| page.more) else { break };
        // The next part of the row goes after this one.
        op.commit_all(batch).await?;
        checks = vec![Check::Equals(dir::lock_column(), staged.clone())];
        from = Bound::Excluded(last.qualifier.clone());
    }
    if batch.is_full() { op.commit_all(batch).await } else { Ok(()) }
}

/// Whether a child may have this path.
fn fits(directory: &DrivePath, cell: &Cell) -> Result<()> {
    let (_, name) = dir::child(&cell.qualifier)?;
    directory.join(&name).map(|_| ()).map_err(|_| DriveError::Outgrown)
}
