//! Step 3: each closed row is made anew at its new path, with the same id and children, marked as staged: it
//! reads as absent until the instant.

use std::ops::Bound;

use super::batch::Batch;
use super::closed::Closed;
use super::{Operation, rebased};
use crate::drive::{DriveError, Result};
use crate::schema::dir::{self, State};
use crate::schema::{CF, DrivePath};
use crate::table::{Ask, Cell, Change, Check, Guarded, Row};

impl Operation<'_> {
    pub(super) async fn stage(&mut self, to: &DrivePath) -> Result<()> {
        let from = self.what.from.clone();
        let closed = State::Closed(self.id).encode();
        let mut keys = self.drive.keys(&from, Ask::families(&[CF]));
        let mut batch = Batch::new(self.drive);
        while let Some(rows) = keys.next(self.drive).await? {
            // Rows with another mark, or with none, belong to no directory of this subtree.
            for (key, row) in rows.iter().filter(|(_, row)| row.get(CF, dir::STATE) == Some(&closed)) {
                let Some(id) = row.get(CF, dir::ID) else { continue };
                let old = Closed { op: self.id, path: DrivePath::from_key(key)?, id: dir::decode_id(id)? };
                let new = rebased(&old.path, &from, to)?;
                self.stage_row(&old, &new, row, &mut batch).await?;
            }
        }
        self.commit_all(&mut batch).await
    }

    /// One row, page by page.
    async fn stage_row(&mut self, old: &Closed, new: &DrivePath, row: &Row, batch: &mut Batch<'_>) -> Result<()> {
        let staged = State::Staged(self.id).encode();
        let mut checks = vec![Check::Absent(dir::id_column())];
        let kept = row.family(CF).filter(|cell| cell.qualifier != dir::STATE);
        let mut changes: Vec<_> =
            kept.map(|cell| Change::put(CF, cell.qualifier.clone(), cell.value.clone())).collect();
        changes.push(Change::put(CF, dir::STATE, staged.clone()));
        let mut from = Bound::Unbounded;
        loop {
            let page = old.page(self.drive, (from, Bound::Unbounded), self.drive.limits().children_staged).await?;
            // Somebody aborted the operation meanwhile: it begins anew.
            let page = page.ok_or(DriveError::Contended)?;
            for cell in &page.cells {
                fits(new, cell)?;
                changes.push(Change::put(dir::SUB, cell.qualifier.clone(), cell.value.clone()));
            }
            batch.add(Guarded { table: dir::TABLE, row: new.key(), checks, changes: std::mem::take(&mut changes) });
            let Some(last) = page.cells.last().filter(|_| page.more) else { break };
            // The next part of the row goes after this one.
            self.commit_all(batch).await?;
            checks = vec![Check::Equals(dir::state_column(), staged.clone())];
            from = Bound::Excluded(last.qualifier.clone());
        }
        if batch.is_full() { self.commit_all(batch).await } else { Ok(()) }
    }
}

/// Whether a child may have this path.
fn fits(directory: &DrivePath, cell: &Cell) -> Result<()> {
    let (_, name) = dir::child(&cell.qualifier)?;
    directory.join(&name).map(|_| ()).map_err(|_| DriveError::Outgrown)
}
