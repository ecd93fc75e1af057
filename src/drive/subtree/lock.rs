//! Step 2: every row of the subtree is closed, top-down, each before its children are listed: from then on
//! nothing can be made or removed in it.

use std::ops::Bound;

use bytes::Bytes;

use super::Operation;
use super::batch::Batch;
use super::closed::Closed;
use crate::drive::{DriveError, Result};
use crate::schema::CF;
use crate::schema::dir::{self, DirEntry, State};
use crate::table::{Change, Check, Guarded};

/// A closed directory whose children are being closed.
struct Level {
    row: Closed,
    after: Option<Bytes>,
}

impl Operation<'_> {
    pub(super) async fn close(&mut self) -> Result<()> {
        let root = Closed { op: self.id, path: self.what.from.clone(), id: self.what.root };
        self.close_rows(std::slice::from_ref(&root)).await?;
        // Depth first, a page of children at a time: what is kept in memory hardly grows with the subtree. The
        // children of several directories are closed together, so that they share a sync.
        let together = self.drive.limits().directories_together;
        let mut levels = vec![Level { row: root, after: None }];
        while !levels.is_empty() {
            let mut met = Vec::new();
            for Level { row, after } in levels.split_off(levels.len().saturating_sub(together)) {
                if after.is_none() {
                    self.count_files(&row).await?;
                }
                let (children, last) = self.directories(&row, after).await?;
                levels.extend(last.map(|last| Level { row, after: Some(last) }));
                met.extend(children);
            }
            self.cells += met.len();
            self.close_rows(&met).await?;
            levels.extend(met.into_iter().map(|row| Level { row, after: None }));
        }
        Ok(())
    }

    /// Counts the files of a directory, as far as it matters: what the finish will cost.
    async fn count_files(&mut self, row: &Closed) -> Result<()> {
        let limit = self.drive.limits().cells_before_answer;
        if self.cells > limit {
            return Ok(());
        }
        let files = row.page(self.drive, dir::range(dir::FILE, ""), limit + 1).await?;
        self.cells += files.ok_or(DriveError::Contended)?.cells.len();
        Ok(())
    }

    async fn close_rows(&mut self, rows: &[Closed]) -> Result<()> {
        let closed = State::Closed(self.id).encode();
        let close = |row: &Closed| Guarded {
            table: dir::TABLE,
            row: row.path.key(),
            checks: vec![Check::Equals(dir::id_column(), dir::encode_id(row.id)), Check::Absent(dir::state_column())],
            changes: vec![Change::put(CF, dir::STATE, closed.clone())],
        };
        let mut batch = Batch::with_reserve(self.drive, self.what.makes_room());
        for row in rows {
            batch.add(close(row));
            if batch.is_full() {
                self.commit_all(&mut batch).await?;
            }
        }
        self.commit_all(&mut batch).await
    }

    /// A page of the directories in a closed one, and the last qualifier seen if more may follow. An operation that
    /// somebody aborted meanwhile no longer holds the row, and begins anew.
    async fn directories(&self, row: &Closed, after: Option<Bytes>) -> Result<(Vec<Closed>, Option<Bytes>)> {
        let (first, to) = dir::range(dir::DIRECTORY, "");
        let range = (after.map_or(first, Bound::Excluded), to);
        let page = row.page(self.drive, range, self.drive.limits().children_closed).await?;
        let page = page.ok_or(DriveError::Contended)?;
        let mut children = Vec::with_capacity(page.cells.len());
        for cell in &page.cells {
            let (_, name) = dir::child(&cell.qualifier)?;
            let id = DirEntry::decode(&cell.value)?.id;
            children.push(Closed { op: self.id, path: row.path.join(&name)?, id });
        }
        // A copy: it may be a part of the whole page's bytes, and outlives the page.
        let last = page.cells.last().filter(|_| page.more).map(|cell| Bytes::copy_from_slice(&cell.qualifier));
        Ok((children, last))
    }
}
