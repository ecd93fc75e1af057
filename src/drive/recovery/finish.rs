//! Step 5: what a committed operation leaves to be done. It may be done by anybody, twice, in any order of rows;
//! of each row the new one loses its mark before the old one goes.

use std::ops::Bound;

use super::batch::Batch;
use super::closed::Closed;
use super::{forget, rebased};
use crate::drive::held::{Owner, Patience};
use crate::drive::put::drop_version;
use crate::drive::{Drive, DriveError, Result};
use crate::schema::dir::{self, Entry, State};
use crate::schema::file::Location;
use crate::schema::op::{Kind, What};
use crate::schema::{CF, DrivePath, FileId, OpId, dirid};
use crate::table::{Ask, Plan, RowChange};

/// Files that are to be dropped by the next plan.
#[derive(Default)]
struct Dropped {
    rows: Vec<RowChange>,
    large: Vec<FileId>,
    files: usize,
    /// Whether the drive's closing stops it.
    stops: bool,
}

impl Drive {
    /// Finishes now, or goes on after the answer if there is much to do.
    pub(super) async fn finish_in_time(&self, owner: Owner, what: What, cells: usize) {
        if cells <= self.limits().cells_before_answer {
            return self.finish_or_later(owner, &what).await;
        }
        let (drive, under_way) = (self.clone(), self.inner.background.begin());
        tokio::spawn(async move {
            drive.finish_or_later(owner, &what).await;
            drop(under_way);
        });
    }

    async fn finish_or_later(&self, owner: Owner, what: &What) {
        let id = owner.op;
        let finished = self.finish_operation(id, what).await;
        drop(owner);
        self.or_later(id, finished);
    }

    /// What did not work now is tried again in the background, until it is done or the drive is closed.
    pub(super) fn or_later(&self, id: OpId, done: Result<()>) {
        match done {
            Ok(()) | Err(DriveError::Closing) => {}
            Err(cause) => {
                tracing::warn!(operation = %id, %cause, "the clean-up of an operation is tried again");
                self.settle_records();
            }
        }
    }

    /// Settles every row of a committed operation, then removes its record.
    pub(in crate::drive) async fn finish_operation(&self, id: OpId, what: &What) -> Result<()> {
        let _finishing = self.inner.metrics.finishing();
        let closed = State::Closed(id).encode();
        let mut keys = self.keys(&what.from, Ask::cells(vec![dir::id_column(), dir::state_column()]));
        while let Some(rows) = keys.next(self).await? {
            let mut mine = Vec::with_capacity(rows.len());
            for (key, row) in rows.iter().filter(|(_, row)| row.get(CF, dir::STATE) == Some(&closed)) {
                if let Some(dir) = row.get(CF, dir::ID) {
                    mine.push(Closed { op: id, path: DrivePath::from_key(key)?, id: dir::decode_id(dir)? });
                }
            }
            self.finish_rows(id, what, &mine, true).await?;
        }
        self.inner.tables.commit(forget(id)).await?;
        self.inner.metrics.ended(what, true);
        Ok(())
    }

    /// Settles rows that this committed operation had closed when they were read; others may settle them meanwhile.
    /// Clean-up that nobody waits for `stops` between two pages when the drive is closed.
    async fn finish_rows(&self, id: OpId, what: &What, rows: &[Closed], stops: bool) -> Result<()> {
        match &what.kind {
            Kind::Move { to } => {
                let mut batch = Batch::new(self);
                for row in rows {
                    batch.add(State::Staged(id).unmark(&rebased(&row.path, &what.from, to)?));
                }
                // Refused: somebody was here before.
                batch.commit().await?;
            }
            Kind::Delete => {
                let mut dropped = Dropped { stops, ..Dropped::default() };
                for row in rows {
                    self.drop_files(row, &mut dropped).await?;
                }
                self.drop_now(&mut dropped).await?;
                // Without a check: id and mark were read at one instant, so this directory was deleted, and no
                // other will have its id.
                let links = rows.iter().map(|row| RowChange {
                    table: dirid::TABLE,
                    row: row.id.key(),
                    changes: dirid::removal(),
                });
                let finish: Vec<_> = links.collect();
                if !finish.is_empty() {
                    self.inner.tables.commit(Plan { finish, ..Plan::default() }).await?;
                }
            }
        }
        if stops {
            self.inner.background.go_on()?;
        }
        let mut batch = Batch::new(self);
        rows.iter().for_each(|row| batch.add(State::Closed(id).remove(&row.path)));
        batch.commit().await?;
        Ok(())
    }

    /// Hints, rows and content of all files in a deleted directory. They wait until they are worth a plan, over
    /// many small directories.
    ///
    /// The plan has no check: every page is fenced instead (see [`Closed`]), so each file in it was deleted with its
    /// directory. A row that is no longer closed was settled by a writer who wants the path, with all its files:
    /// what stands there now is none of this operation's.
    async fn drop_files(&self, row: &Closed, dropped: &mut Dropped) -> Result<()> {
        let (mut from, to) = dir::range(dir::FILE, "");
        while let Some(page) = row.page(self, (from, to.clone()), self.limits().files_dropped).await? {
            for cell in &page.cells {
                let entry = Entry::decode(&cell.value)?;
                let (_, name) = dir::child(&cell.qualifier)?;
                dropped.rows.extend(drop_version(&entry, row.id, &name));
                dropped.large.extend(Some(entry.id).filter(|_| entry.attributes.location == Location::Large));
                dropped.files += 1;
                if dropped.files >= self.limits().files_dropped {
                    self.drop_now(dropped).await?;
                }
            }
            let Some(last) = page.cells.last().filter(|_| page.more) else { break };
            from = Bound::Excluded(last.qualifier.clone());
        }
        Ok(())
    }

    async fn drop_now(&self, dropped: &mut Dropped) -> Result<()> {
        let stops = dropped.stops;
        if stops {
            self.inner.background.go_on()?;
        }
        let Dropped { rows: finish, large, .. } = std::mem::replace(dropped, Dropped { stops, ..Dropped::default() });
        if !finish.is_empty() {
            self.inner.tables.commit(Plan { finish, ..Plan::default() }).await?;
            large.into_iter().for_each(|id| self.inner.unlinker.unlink(id));
        }
        Ok(())
    }

    /// Settles one row of a committed operation that is in a writer's way.
    pub(in crate::drive) async fn finish_row(
        &self,
        state: State,
        what: &What,
        path: &DrivePath,
        patience: &mut Patience,
    ) -> Result<()> {
        let State::Closed(id) = state else {
            let mut batch = Batch::new(self);
            batch.add(state.unmark(path));
            return batch.commit().await.map(|_| ());
        };
        let ask = Ask::cells(vec![dir::id_column(), dir::state_column()]);
        let row = self.inner.tables.get(dir::TABLE, path.as_str().as_bytes(), &ask).await?;
        let (Some(dir), Some(mark)) = (row.get(CF, dir::ID), row.get(CF, dir::STATE)) else { return Ok(()) };
        if *mark != state.encode() {
            return Ok(());
        }
        let row = Closed { op: id, path: path.clone(), id: dir::decode_id(dir)? };
        if what.kind == Kind::Delete {
            match row.page(self, (Bound::Unbounded, Bound::Unbounded), self.limits().children_in_the_way).await? {
                None => return Ok(()),
                Some(page) if page.more => return patience.wait().await,
                Some(_) => {}
            }
        }
        self.finish_rows(id, what, &[row], false).await
    }
}
