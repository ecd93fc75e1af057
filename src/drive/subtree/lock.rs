//! Step 2: every row of the subtree is locked, top-down, each before its children are listed.
//!
//! No writer can create or remove a child of a locked row, so a listing after the lock is complete and stays true. In
//! the other order, a directory that is made between the listing and the lock would be neither moved nor deleted.
//! Readers still see all of the subtree: its record says *prepared*.

use std::ops::Bound;

use bytes::Bytes;

use super::op::SubtreeOp;
use crate::drive::error::{DriveError, Result};
use crate::drive::recovery::batch::RowBatch;
use crate::drive::recovery::locked_dir::LockedDir;
use crate::schema::CF;
use crate::schema::dir::{self, DirEntry, RowLock};
use crate::table::{Change, Check, ConditionalRow};

/// A locked directory whose children are being locked.
struct LockedLevel {
    row: LockedDir,
    after: Option<Bytes>,
}

pub async fn lock(op: &mut SubtreeOp<'_>) -> Result<()> {
    let root = LockedDir { op: op.id, path: op.record.from.clone(), id: op.record.root };
    lock_rows(op, std::slice::from_ref(&root)).await?;
    // Depth first, a page of children at a time: memory hardly grows with the subtree. The children of several
    // directories are locked together, so that they share a sync.
    let together = op.ns().limits.directories_locked_together;
    let mut levels = vec![LockedLevel { row: root, after: None }];
    while !levels.is_empty() {
        let mut found = Vec::new();
        for LockedLevel { row, after } in levels.split_off(levels.len().saturating_sub(together)) {
            if after.is_none() {
                count_files(op, &row).await?;
            }
            let (children, last) = directories(op, &row, after).await?;
            levels.extend(last.map(|last| LockedLevel { row, after: Some(last) }));
            found.extend(children);
        }
        op.cells += found.len();
        lock_rows(op, &found).await?;
        levels.extend(found.into_iter().map(|row| LockedLevel { row, after: None }));
    }
    Ok(())
}

/// Counts the files of a directory, up to the limit above which the operation is finished after its answer.
async fn count_files(op: &mut SubtreeOp<'_>, row: &LockedDir) -> Result<()> {
    let limit = op.ns().limits.cells_before_answer;
    if op.cells > limit {
        return Ok(());
    }
    let files = row.page(op.ns(), dir::range(dir::FILE, ""), limit + 1).await?;
    op.cells += files.ok_or(DriveError::Contended)?.cells.len();
    Ok(())
}

/// Locks these rows. The checks refuse a row that has another id by now, and a row with a lock of another operation.
async fn lock_rows(op: &mut SubtreeOp<'_>, rows: &[LockedDir]) -> Result<()> {
    let locked = RowLock::Source(op.id).encode();
    let lock = |row: &LockedDir| ConditionalRow {
        table: dir::TABLE,
        row: row.path.key(),
        checks: vec![Check::Equals(dir::id_column(), dir::encode_id(row.id)), Check::Absent(dir::lock_column())],
        changes: vec![Change::put(CF, dir::LOCK, locked.clone())],
    };
    let mut batch = RowBatch::with_reserve(op.ns(), op.record.frees_space());
    for row in rows {
        batch.add(lock(row));
        if batch.is_full() {
            op.commit_all(&mut batch).await?;
        }
    }
    op.commit_all(&mut batch).await
}

/// A page of the directories in a locked one, and the last qualifier if more may follow. If another writer has aborted
/// the operation meanwhile, the row has lost the lock, and the operation starts again.
async fn directories(
    op: &SubtreeOp<'_>,
    row: &LockedDir,
    after: Option<Bytes>,
) -> Result<(Vec<LockedDir>, Option<Bytes>)> {
    let (first, to) = dir::range(dir::DIRECTORY, "");
    let range = (after.map_or(first, Bound::Excluded), to);
    let page = row.page(op.ns(), range, op.ns().limits.children_locked).await?;
    let page = page.ok_or(DriveError::Contended)?;
    let mut children = Vec::with_capacity(page.cells.len());
    for cell in &page.cells {
        let (_, name) = dir::child(&cell.qualifier)?;
        let id = DirEntry::decode(&cell.value)?.id;
        children.push(LockedDir { op: op.id, path: row.path.join(&name)?, id });
    }
    // Copied, or this one qualifier would keep the bytes of the whole page in memory.
    let last = page.cells.last().filter(|_| page.more).map(|cell| Bytes::copy_from_slice(&cell.qualifier));
    Ok((children, last))
}
