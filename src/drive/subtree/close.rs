//! Step 2: every row of the subtree is closed, top-down, each before its children are listed: from then on
//! nothing can be made or removed in it.

use std::ops::Bound;

use bytes::Bytes;

use super::Operation;
use super::batch::Batch;
use super::finish::BEFORE_ANSWER;
use crate::drive::{Drive, Result};
use crate::schema::dir::{self, DirEntry, State};
use crate::schema::{CF, DirId, DrivePath};
use crate::table::{Change, Check, Guarded};

/// Children of a directory that are listed at a time.
const CHILDREN: usize = 100;
/// Directories whose children are closed together.
const TOGETHER: usize = 32;

/// A closed directory whose children are being closed.
struct Level {
    path: DrivePath,
    after: Option<Bytes>,
}

impl Operation<'_> {
    pub(super) async fn close(&mut self) -> Result<()> {
        let from = self.what.from.clone();
        self.close_rows(&[(from.clone(), self.what.root)]).await?;
        // Depth first, a page of children at a time: what is kept in memory hardly grows with the subtree. The
        // children of several directories are closed together, so that they share a sync.
        let mut levels = vec![Level { path: from, after: None }];
        while !levels.is_empty() {
            let mut met = Vec::new();
            for Level { path, after } in levels.split_off(levels.len().saturating_sub(TOGETHER)) {
                if after.is_none() {
                    self.count_files(&path).await?;
                }
                let (children, last) = self.drive.directories(&path, after).await?;
                levels.extend(last.map(|last| Level { path, after: Some(last) }));
                met.extend(children);
            }
            self.cells += met.len();
            self.close_rows(&met).await?;
            levels.extend(met.into_iter().map(|(path, _)| Level { path, after: None }));
        }
        Ok(())
    }

    /// Counts the files of a directory, as far as it matters: what the finish will cost.
    async fn count_files(&mut self, path: &DrivePath) -> Result<()> {
        if self.cells > BEFORE_ANSWER {
            return Ok(());
        }
        let files = self.drive.children(path, dir::range(dir::FILE, ""), BEFORE_ANSWER + 1).await?;
        self.cells += files.cells.len();
        Ok(())
    }

    async fn close_rows(&mut self, rows: &[(DrivePath, DirId)]) -> Result<()> {
        let closed = State::Closed(self.id).encode();
        let close = |(path, id): &(DrivePath, DirId)| Guarded {
            table: dir::TABLE,
            row: path.key(),
            checks: vec![Check::Equals(dir::id_column(), dir::encode_id(*id)), Check::Absent(dir::state_column())],
            changes: vec![Change::put(CF, dir::STATE, closed.clone())],
        };
        let mut batch = Batch::with_reserve(self.what.makes_room());
        for row in rows {
            batch.add(close(row));
            if batch.is_full() {
                self.commit_all(&mut batch).await?;
            }
        }
        self.commit_all(&mut batch).await
    }
}

impl Drive {
    /// A page of the directories in a closed one, and the last qualifier seen if more may follow.
    async fn directories(
        &self,
        path: &DrivePath,
        after: Option<Bytes>,
    ) -> Result<(Vec<(DrivePath, DirId)>, Option<Bytes>)> {
        let (first, to) = dir::range(dir::DIRECTORY, "");
        let page = self.children(path, (after.map_or(first, Bound::Excluded), to), CHILDREN).await?;
        let mut children = Vec::with_capacity(page.cells.len());
        for cell in &page.cells {
            let (_, name) = dir::child(&cell.qualifier)?;
            children.push((path.join(&name)?, DirEntry::decode(&cell.value)?.id));
        }
        let last = page.cells.last().map(|cell| cell.qualifier.clone()).filter(|_| page.more);
        Ok((children, last))
    }
}
