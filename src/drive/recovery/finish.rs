//! Step 5: the finish of a committed operation.
//!
//! Its owner, recovery, and writers that want one of its rows may all do it, in any order of rows, and more than once.
//! Of each directory the new row is unlocked before the old row is removed. Until both are done, readers decide by the
//! record, so the record is deleted last: without it the new row would read as absent.

use std::ops::Bound;

use super::Recovery;
use super::batch::RowBatch;
use super::locked_dir::LockedDir;
use crate::drive::attempts::Attempts;
use crate::drive::error::{DriveError, Result};
use crate::drive::file_rows::drop_version;
use crate::drive::namespace::subtree_scan::scan;
use crate::schema::dir::{self, FileEntry, RowLock};
use crate::schema::file::ContentLocation;
use crate::schema::subtree_op::{OpRecord, SubtreeOpKind};
use crate::schema::{CF, DrivePath, FileId, OpId, dir_parent, subtree_op};
use crate::table::{Plan, RowChange, RowQuery};

/// Files that the next plan drops.
#[derive(Default)]
struct Dropped {
    rows: Vec<RowChange>,
    large: Vec<FileId>,
    files: usize,
    /// Whether the work stops when the drive is closed.
    stop_on_close: bool,
}

/// Finishes every row of a committed operation, then removes its record.
pub async fn finish(recovery: &Recovery, id: OpId, what: &OpRecord) -> Result<()> {
    let _finishing = recovery.metrics.finishing();
    let lock = RowLock::Source(id).encode();
    let mut rows_left =
        scan(&recovery.namespace, &what.from, RowQuery::cells(vec![dir::id_column(), dir::lock_column()]));
    while let Some(rows) = rows_left.next(&recovery.namespace).await? {
        let mut mine = Vec::with_capacity(rows.len());
        for (key, row) in rows.iter().filter(|(_, row)| row.get(CF, dir::LOCK) == Some(&lock)) {
            if let Some(dir) = row.get(CF, dir::ID) {
                mine.push(LockedDir { op: id, path: DrivePath::from_key(key)?, id: dir::decode_id(dir)? });
            }
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
    rows: &[LockedDir],
    stop_on_close: bool,
) -> Result<()> {
    match &what.kind {
        SubtreeOpKind::Move { to } => {
            let mut batch = RowBatch::new(&recovery.namespace);
            for row in rows {
                batch.add(RowLock::Copy(id).unlock(&target_path(&row.path, &what.from, to)?));
            }
            // Refused rows were unlocked by another task before.
            batch.commit().await?;
        }
        SubtreeOpKind::Delete => {
            let mut dropped = Dropped { stop_on_close, ..Dropped::default() };
            for row in rows {
                drop_files(recovery, row, &mut dropped).await?;
            }
            flush(recovery, &mut dropped).await?;
            // Without a check: id and lock were read at one instant, so this directory is deleted, and no other
            // directory ever gets its id.
            let links = rows.iter().map(|row| RowChange {
                table: dir_parent::TABLE,
                row: row.id.key(),
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
    rows.iter().for_each(|row| batch.add(RowLock::Source(id).remove_row(&row.path)));
    batch.commit().await?;
    Ok(())
}

/// Removes index rows, file rows and content of all files in a deleted directory. They are collected over many small
/// directories, so that one plan drops many files.
///
/// The plan has no check, but each page has (see [`LockedDir`]), so each file in it is deleted with its directory. A row
/// that has lost its lock was finished, with all its files, by a writer that wants the path: the children that it has
/// now do not belong to this operation.
async fn drop_files(recovery: &Recovery, row: &LockedDir, dropped: &mut Dropped) -> Result<()> {
    let (mut from, to) = dir::range(dir::FILE, "");
    while let Some(page) =
        row.page(&recovery.namespace, (from, to.clone()), recovery.namespace.limits.files_dropped).await?
    {
        for cell in &page.cells {
            let entry = FileEntry::decode(&cell.value)?;
            let (_, name) = dir::child(&cell.qualifier)?;
            dropped.rows.extend(drop_version(&entry, row.id, &name));
            dropped.large.extend(Some(entry.id).filter(|_| entry.attributes.location == ContentLocation::Large));
            dropped.files += 1;
            if dropped.files >= recovery.namespace.limits.files_dropped {
                flush(recovery, dropped).await?;
            }
        }
        let Some(last) = page.cells.last().filter(|_| page.more) else { break };
        from = Bound::Excluded(last.qualifier.clone());
    }
    Ok(())
}

/// Commits the plan that drops the collected files.
async fn flush(recovery: &Recovery, dropped: &mut Dropped) -> Result<()> {
    let stop_on_close = dropped.stop_on_close;
    if stop_on_close {
        recovery.background.check_closing()?;
    }
    let Dropped { rows: finish, large, .. } =
        std::mem::replace(dropped, Dropped { stop_on_close, ..Dropped::default() });
    if !finish.is_empty() {
        recovery.namespace.tables.commit(Plan { finish, ..Plan::default() }).await?;
        large.into_iter().for_each(|id| recovery.gc.unlink(id));
    }
    Ok(())
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
    let ask = RowQuery::cells(vec![dir::id_column(), dir::lock_column()]);
    let row = recovery.namespace.tables.get(dir::TABLE, path.as_str().as_bytes(), &ask).await?;
    let (Some(dir), Some(stored)) = (row.get(CF, dir::ID), row.get(CF, dir::LOCK)) else { return Ok(()) };
    if *stored != state.encode() {
        return Ok(());
    }
    let row = LockedDir { op: id, path: path.clone(), id: dir::decode_id(dir)? };
    if what.kind == SubtreeOpKind::Delete {
        match row
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
    finish_rows(recovery, id, what, &[row], false).await
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
