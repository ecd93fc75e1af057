//! Step 5: the finish of a committed operation.
//!
//! Its owner, recovery, and writers that want one of its rows may all do it, in any order of rows, and more than once.
//! Of each directory the new row is unlocked before the old row is removed. Until both are done, readers decide by the
//! record, so the record is deleted last: without it the new row would read as absent.

use std::ops::Bound;

use super::Recovery;
use super::batch::RowBatch;
use super::dropped::DroppedFiles;
use super::locked_dir::LockedDir;
use crate::drive::attempts::Attempts;
use crate::drive::error::{DriveError, Result};
use crate::drive::namespace::subtree_scan::scan;
use crate::schema::dir::{self, RowLock};
use crate::schema::subtree_op::{OpRecord, SubtreeOpKind};
use crate::schema::usage::UsageChange;
use crate::schema::{CF, DrivePath, OpId, dir_parent, subtree_op};
use crate::table::{Column, Plan, Row, RowChange, RowQuery};

/// A row that a committed operation has locked, and the creator of its directory.
struct ClosedDir {
    row: LockedDir,
    creator: String,
}

/// Finishes every row of a committed operation, then removes its record.
pub async fn finish(recovery: &Recovery, id: OpId, what: &OpRecord) -> Result<()> {
    recovery.end_undecided(id);
    let _finishing = recovery.metrics.finishing();
    let lock = RowLock::Source(id).encode();
    let mut rows_left = scan(&recovery.namespace, &what.from, query());
    while let Some(rows) = rows_left.next(&recovery.namespace).await? {
        let mut mine = Vec::with_capacity(rows.len());
        for (key, row) in rows.iter().filter(|(_, row)| row.get(CF, dir::LOCK) == Some(&lock)) {
            mine.extend(closed_dir(id, &DrivePath::from_key(key)?, row)?);
        }
        finish_rows(recovery, id, what, &mine, true).await?;
    }
    recovery.namespace.tables.commit(delete_record(id)).await?;
    recovery.metrics.ended(what, true);
    Ok(())
}

/// Finishes rows that this committed operation had locked when they were read. Other tasks may do the same meanwhile.
/// With `stop_on_close`, for work in the background, it ends between two pages when the drive is closed.
///
/// The source rows are removed last. They lead to all the rest: to the new row of a move, and to the files of a delete.
/// So a finish that is interrupted finds its remaining work again.
async fn finish_rows(
    recovery: &Recovery,
    id: OpId,
    what: &OpRecord,
    rows: &[ClosedDir],
    stop_on_close: bool,
) -> Result<()> {
    let is_delete = what.kind == SubtreeOpKind::Delete;
    match &what.kind {
        SubtreeOpKind::Move { to } => {
            let mut batch = RowBatch::new(&recovery.namespace);
            for closed in rows {
                batch.add(RowLock::Copy(id).unlock(&target_path(&closed.row.path, &what.from, to)?));
            }
            // Refused rows were unlocked by another task before.
            batch.commit().await?;
        }
        SubtreeOpKind::Delete => {
            let dropped = DroppedFiles::new(recovery, stop_on_close);
            dropped.drop_all(rows.iter().map(|closed| closed.row.clone())).await?;
            // Without a check: id and lock were read at one instant, so this directory is deleted, and no other
            // directory ever gets its id.
            let links = rows.iter().map(|closed| RowChange {
                table: dir_parent::TABLE,
                row: closed.row.id.key(),
                changes: dir_parent::delete_cells(),
            });
            let finish: Vec<_> = links.collect();
            if !finish.is_empty() {
                recovery.namespace.tables.commit(Plan { finish, ..Plan::default() }).await?;
            }
        }
    }
    if stop_on_close {
        recovery.background.check_closing()?;
    }
    let mut batch = RowBatch::new(&recovery.namespace);
    for ClosedDir { row, creator } in rows {
        // A deleted directory counts until its row is removed.
        let mut usage = UsageChange::default();
        if is_delete {
            usage.take_directory(creator);
        }
        batch.add_counted(RowLock::Source(id).remove_row(&row.path), usage);
        if batch.is_full() {
            batch.commit().await?;
        }
    }
    batch.commit().await?;
    Ok(())
}

/// The cells of a row that its finish reads.
fn query() -> RowQuery {
    RowQuery::cells(vec![dir::id_column(), dir::lock_column(), Column::new(CF, dir::CREATOR)])
}

/// A row that the operation has locked; none if it is no directory row.
fn closed_dir(op: OpId, path: &DrivePath, row: &Row) -> Result<Option<ClosedDir>> {
    let Some(id) = row.get(CF, dir::ID) else { return Ok(None) };
    let creator = row.get(CF, dir::CREATOR).map(|value| dir::decode_creator(value)).transpose()?;
    let row = LockedDir { op, path: path.clone(), id: dir::decode_id(id)? };
    Ok(Some(ClosedDir { row, creator: creator.unwrap_or_default() }))
}

/// Finishes one row of a committed operation for a writer that wants its path.
///
/// The writer finishes only this row, so its wait does not grow with the subtree. It waits for the background if the row
/// of a deleted directory has many children. Id and lock are read again: the row may be another one by now.
pub async fn finish_row(
    recovery: &Recovery,
    state: RowLock,
    what: &OpRecord,
    path: &DrivePath,
    attempts: &mut Attempts,
) -> Result<()> {
    let RowLock::Source(id) = state else {
        let mut batch = RowBatch::new(&recovery.namespace);
        batch.add(state.unlock(path));
        return batch.commit().await.map(|_| ());
    };
    let row = recovery.namespace.tables.get(dir::TABLE, path.as_str().as_bytes(), &query()).await?;
    if row.get(CF, dir::LOCK) != Some(&state.encode()) {
        return Ok(());
    }
    let Some(closed) = closed_dir(id, path, &row)? else { return Ok(()) };
    if what.kind == SubtreeOpKind::Delete {
        match closed
            .row
            .page(
                &recovery.namespace,
                (Bound::Unbounded, Bound::Unbounded),
                recovery.namespace.limits.children_finished_by_writer,
            )
            .await?
        {
            None => return Ok(()),
            Some(page) if page.more => return attempts.wait().await,
            Some(_) => {}
        }
    }
    finish_rows(recovery, id, what, &[closed], false).await
}

/// The path below `to` that corresponds to `path` below `from`.
pub fn target_path(path: &DrivePath, from: &DrivePath, to: &DrivePath) -> Result<DrivePath> {
    let rest = path.as_str().get(from.as_str().len()..).unwrap_or_default();
    DrivePath::parse(&format!("{}{rest}", to.as_str())).map_err(|_| DriveError::Outgrown)
}

/// The plan that deletes a record.
pub fn delete_record(id: OpId) -> Plan {
    Plan {
        finish: vec![RowChange { table: subtree_op::TABLE, row: id.key(), changes: subtree_op::delete_cells() }],
        ..Plan::default()
    }
}
