//! The files of deleted directories, on their way out: many of them leave at a time.
//!
//! 1. A plan deletes their index rows, file rows and content. It may happen twice.
//! 2. A plan takes them off the usage of their creators, and their entries out of their closed rows, both at one instant.
//!    So an entry that is there is counted, and each file is taken off once, however often the finish is interrupted, and
//!    whoever else does the same.
//!
//! The entries go last: they lead to all the rest. Those of creators who are not counted stay until the directory row goes.

use std::ops::Bound;

use super::Recovery;
use super::locked_dir::LockedDir;
use crate::drive::error::Result;
use crate::drive::file_rows::drop_version;
use crate::schema::FileId;
use crate::schema::dir::{self, FileEntry, RowLock};
use crate::schema::file::ContentLocation;
use crate::schema::usage::UsageChange;
use crate::schema::user_name::UserName;
use crate::table::{Cell, Change, Check, Column, ConditionalRow, Outcome, Plan, RowChange};

/// Files that the next plans drop.
pub struct DroppedFiles<'a> {
    recovery: &'a Recovery,
    /// Whether the work stops when the drive is closed.
    stop_on_close: bool,
    pages: Vec<DroppedPage>,
    files: usize,
    /// Guarded rows of the second plan, at most.
    guarded: usize,
    /// Directories of which another task has dropped some files meanwhile: they are read again.
    again: Vec<LockedDir>,
}

/// Files of one directory: those of a page of its entries.
struct DroppedPage {
    dir: LockedDir,
    /// The entries that are counted: each is there, and leaves the row.
    checks: Vec<Check>,
    changes: Vec<Change>,
    usage: UsageChange,
    /// The rows of all files.
    finish: Vec<RowChange>,
    large: Vec<FileId>,
}

impl<'a> DroppedFiles<'a> {
    pub fn new(recovery: &'a Recovery, stop_on_close: bool) -> Self {
        Self { recovery, stop_on_close, pages: Vec::new(), files: 0, guarded: 0, again: Vec::new() }
    }

    /// Drops the files of these directories. They are collected over many small directories, so that one plan drops many.
    pub async fn drop_all(mut self, dirs: impl IntoIterator<Item = LockedDir>) -> Result<()> {
        self.again.extend(dirs);
        while !self.again.is_empty() {
            for dir in std::mem::take(&mut self.again) {
                self.read(&dir).await?;
            }
            self.flush().await?;
        }
        Ok(())
    }

    /// Reads the files of a directory page by page. Each page has a check (see [`LockedDir`]), so each file in it is deleted
    /// with its directory. A row that has lost its lock was finished, with all its files, by a writer that wants the path:
    /// the children that it has now do not belong to this operation.
    async fn read(&mut self, dir: &LockedDir) -> Result<()> {
        let limit = self.recovery.namespace.limits.files_dropped;
        let (mut from, to) = dir::range(dir::FILE, "");
        while let Some(page) = dir.page(&self.recovery.namespace, (from, to.clone()), limit).await? {
            let Some(last) = page.cells.last() else { break };
            let dropped = DroppedPage::read(dir, &page.cells)?;
            let (files, guarded) = (page.cells.len(), 1 + dropped.usage.creators());
            let limits = &self.recovery.namespace.limits;
            if self.files + files > limits.files_dropped || self.guarded + guarded > limits.batch_rows {
                self.flush().await?;
            }
            self.pages.push(dropped);
            (self.files, self.guarded) = (self.files + files, self.guarded + guarded);
            if !page.more {
                break;
            }
            // A plan names a row once.
            from = Bound::Excluded(last.qualifier.clone());
            self.flush().await?;
        }
        Ok(())
    }

    /// Commits the plans that drop the collected files.
    async fn flush(&mut self) -> Result<()> {
        (self.files, self.guarded) = (0, 0);
        let mut pages = std::mem::take(&mut self.pages);
        if self.stop_on_close {
            self.recovery.background.check_closing()?;
        }
        let finish: Vec<_> = pages.iter_mut().flat_map(|page| page.finish.drain(..)).collect();
        if finish.is_empty() {
            return Ok(());
        }
        // IMPORTANT: before the entries go. After a crash in between, only they lead to these rows.
        self.recovery.namespace.tables.commit(Plan { finish, ..Plan::default() }).await?;
        pages.iter().flat_map(|page| &page.large).for_each(|id| self.recovery.gc.unlink(*id));
        pages.retain(|page| !page.changes.is_empty());
        if pages.is_empty() || self.take_out(&pages).await? {
            return Ok(());
        }
        for page in pages {
            if !self.take_out(std::slice::from_ref(&page)).await? {
                self.again.push(page.dir);
            }
        }
        Ok(())
    }

    /// Takes the entries of these pages out of their rows. False if another task has taken out some of them before: then
    /// nothing has changed.
    async fn take_out(&self, pages: &[DroppedPage]) -> Result<bool> {
        let mut usage = UsageChange::default();
        pages.iter().for_each(|page| usage.merge(&page.usage));
        let guarded = pages.iter().map(DroppedPage::row).chain(usage.rows(None)).collect();
        Ok(self.recovery.namespace.tables.commit(Plan { guarded, ..Plan::default() }).await? == Outcome::Committed)
    }
}

impl DroppedPage {
    fn read(dir: &LockedDir, cells: &[Cell]) -> Result<Self> {
        let (checks, changes, usage) = (Vec::new(), Vec::new(), UsageChange::default());
        let mut page = Self { dir: dir.clone(), checks, changes, usage, finish: Vec::new(), large: Vec::new() };
        for cell in cells {
            let entry = FileEntry::decode(&cell.value)?;
            let (_, name) = dir::child(&cell.qualifier)?;
            page.finish.extend(drop_version(&entry, dir.id, &name));
            page.large.extend(Some(entry.id).filter(|_| entry.attributes.location == ContentLocation::Large));
            if UserName::of_creator(&entry.attributes.creator).is_some() {
                page.usage.take_file(&entry.attributes);
                let column = Column::new(dir::SUB, cell.qualifier.clone());
                page.checks.push(Check::Equals(column, cell.value.clone()));
                page.changes.push(Change::delete(dir::SUB, cell.qualifier.clone()));
            }
        }
        Ok(page)
    }

    /// The closed row, without the entries that are counted. By the lock it is the row of the deleted directory.
    fn row(&self) -> ConditionalRow {
        let mut checks = vec![Check::Equals(dir::lock_column(), RowLock::Source(self.dir.op).encode())];
        checks.extend(self.checks.iter().cloned());
        ConditionalRow { table: dir::TABLE, row: self.dir.path.key(), checks, changes: self.changes.clone() }
    }
}
