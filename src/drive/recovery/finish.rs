//! Step 5: what a committed operation leaves to be done. Anybody may do it, twice, in any order of rows; but of each
//! row the new one loses its mark before the old one is removed.

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

/// Files that are to be dropped by the next plan.
#[derive(Default)]
struct Dropped {
    rows: Vec<RowChange>,
    large: Vec<FileId>,
    files: usize,
    /// Whether the drive's closing stops it.
    stops: bool,
}

/// Finishes every row of a committed operation, then removes its record.
pub async fn finish(recovery: &Recovery, id: OpId, what: &OpRecord) -> Result<()> {
    let _finishing = recovery.metrics.finishing();
    let closed = RowLock::Source(id).encode();
    let mut rows_left =
        scan(&recovery.namespace, &what.from, RowQuery::cells(vec![dir::id_column(), dir::lock_column()]));
    while let Some(rows) = rows_left.next(&recovery.namespace).await? {
        let mut mine = Vec::with_capacity(rows.len());
        for (key, row) in rows.iter().filter(|(_, row)| row.get(CF, dir::LOCK) == Some(&closed)) {
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

/// Finishes rows that this committed operation had locked when they were read; others may do the same meanwhile.
/// With `stops`, for work that nobody waits for, it ends between two pages when the drive is closed.
async fn finish_rows(recovery: &Recovery, id: OpId, what: &OpRecord, rows: &[LockedDir], stops: bool) -> Result<()> {
    match &what.kind {
        SubtreeOpKind::Move { to } => {
            let mut batch = RowBatch::new(&recovery.namespace);
            for row in rows {
                batch.add(RowLock::Copy(id).unlock(&target_path(&row.path, &what.from, to)?));
            }
            // Refused means that somebody else has done it before.
            batch.commit().await?;
        }
        SubtreeOpKind::Delete => {
            let mut dropped = Dropped { stops, ..Dropped::default() };
            for row in rows {
                drop_files(recovery, row, &mut dropped).await?;
            }
            drop_now(recovery, &mut dropped).await?;
            // Without a check: id and mark were read at one instant, so this directory was deleted, and no
            // other will have its id.
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
    if stops {
        recovery.background.go_on()?;
    }
    let mut batch = RowBatch::new(&recovery.namespace);
    rows.iter().for_each(|row| batch.add(RowLock::Source(id).remove_row(&row.path)));
    batch.commit().await?;
    Ok(())
}

/// Removes index rows, file rows and content of all files in a deleted directory. They are collected over many small
/// directories until they are worth a plan.
///
/// The plan has no check, but each page does (see [`LockedDir`]), so each file in it was deleted with its directory. A
/// row that has lost its lock was finished by a writer that wants the path, with all its files: what is stored there
/// now does not belong to this operation.
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
                drop_now(recovery, dropped).await?;
            }
        }
        let Some(last) = page.cells.last().filter(|_| page.more) else { break };
        from = Bound::Excluded(last.qualifier.clone());
    }
    Ok(())
}

async fn drop_now(recovery: &Recovery, dropped: &mut Dropped) -> Result<()> {
    let stops = dropped.stops;
    if stops {
        recovery.background.go_on()?;
    }
    let Dropped { rows: finish, large, .. } = std::mem::replace(dropped, Dropped { stops, ..Dropped::default() });
    if !finish.is_empty() {
        recovery.namespace.tables.commit(Plan { finish, ..Plan::default() }).await?;
        large.into_iter().for_each(|id| recovery.gc.unlink(id));
    }
    Ok(())
}

/// Finishes one row of a committed operation that is in a writer's way.
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
    let (Some(dir), Some(mark)) = (row.get(CF, dir::ID), row.get(CF, dir::LOCK)) else { return Ok(()) };
    if *mark != state.encode() {
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

/// The path below `to` of what lies at `path` below `from`.
pub fn target_path(path: &DrivePath, from: &DrivePath, to: &DrivePath) -> Result<DrivePath> {
    let rest = path.as_str().get(from.as_str().len()..).unwrap_or_default();
    DrivePath::parse(&format!("{}{rest}", to.as_str())).map_err(|_| DriveError::Outgrown)
}

/// The removal of a record.
pub fn delete_record(id: OpId) -> Plan {
    Plan {
        finish: vec![RowChange { table: subtree_op::TABLE, row: id.key(), changes: subtree_op::delete_cells() }],
        ..Plan::default()
    }
}
