//! Checks every row of the directory table: that its parent row names it, and that entry, row and link to the parent
//! agree.

use super::pending::DirRowState;
use super::{CheckError, CheckEvent, Checker, Finding, FindingKind, ROWS, Result, printable};
use crate::schema::dir::{self, DirEntry, NO_OPERATION, RowLock};
use crate::schema::dir_parent::{self, DirParent};
use crate::schema::{CF, DirId, DrivePath, Name, ValueError};
use crate::table::{Check, Column, ConditionalRow, Row, RowCursor, RowKey, RowQuery, RowRange, StoreError};

/// A directory row that readers of a running drive see.
pub(super) struct LiveDirRow {
    /// The path, from the row key.
    pub path: DrivePath,
    /// The attributes, from the row.
    pub entry: DirEntry,
}

impl Checker<'_> {
    /// Returns the directories that no name leads to.
    pub(super) async fn directories(&mut self) -> Result<Vec<LiveDirRow>> {
        let mut strays = Vec::new();
        let mut all = RowCursor::new(dir::TABLE, RowRange::all(), RowQuery::families(&[CF]), ROWS);
        while let Some(rows) = all.next(self.tables).await? {
            let mut live = Vec::with_capacity(rows.len());
            for (key, row) in &rows {
                match self.live_dir(key, row).await? {
                    Ok(directory) => live.extend(directory),
                    Err(error) => {
                        self.report_unreadable(dir::TABLE, printable(key), None, error.to_string());
                    }
                }
            }
            for directory in self.named_dirs(live, &mut strays).await? {
                match self.entries(&directory).await {
                    Err(CheckError::Store(StoreError::Damaged(detail))) => {
                        let (path, what) = (&directory.path, format!("some of its names cannot be read: {detail}"));
                        self.report_unreadable(dir::TABLE, path.to_string(), Some(path), what);
                    }
                    done => done?,
                }
            }
            (self.on_event)(CheckEvent::Rows(rows.len()));
        }
        if !self.paths.contains_key(&DirId::ROOT) {
            self.tree_complete = false;
            let root = DrivePath::root();
            self.report(
                FindingKind::DirectoryMissing,
                dir::TABLE,
                "/".into(),
                Some(&root),
                "the root has no row".into(),
            );
        }
        Ok(strays)
    }

    /// Decodes a row; none if readers of a running drive do not see it.
    async fn live_dir(
        &mut self,
        key: &RowKey,
        row: &Row,
    ) -> Result<std::result::Result<Option<LiveDirRow>, ValueError>> {
        let read = || -> std::result::Result<_, ValueError> {
            let path = DrivePath::from_key(key)?;
            let cells = [dir::ID, dir::CREATOR, dir::CREATED].map(|q| row.get(CF, q));
            let ([Some(id), Some(creator), Some(created)], true) = (cells, path.key() == *key) else {
                return Err(ValueError::Damaged { what: "directory row" });
            };
            let (id, creator) = (dir::decode_id(id)?, dir::decode_creator(creator)?);
            let entry = DirEntry { id, creator, created: dir::decode_created(created)? };
            Ok((LiveDirRow { path, entry }, self.pending.row_state(row.get(CF, dir::LOCK))?))
        };
        let (directory, state) = match read() {
            Ok(read) => read,
            Err(error) => return Ok(Err(error)),
        };
        match state {
            DirRowState::Live => Ok(Ok(Some(directory))),
            DirRowState::Absent => {
                self.pending.deleted_dirs.insert(directory.entry.id);
                Ok(Ok(None))
            }
            DirRowState::Deleted => {
                self.count_deleted(&directory).await?;
                self.pending.deleted_dirs.insert(directory.entry.id);
                Ok(Ok(None))
            }
            DirRowState::Orphaned(lock) => {
                // A writer of a running drive rolls back such a lock too.
                let repaired = self.options.repair && self.apply(lock.roll_back(&directory.path)).await?;
                let (what, live) = match lock {
                    RowLock::Source(op) => {
                        (format!("it is locked by operation {op}, which has no record"), Some(directory))
                    }
                    RowLock::Copy(op) => (format!("it was copied by operation {op}, which has no record"), None),
                };
                let path = live.as_ref().map(|directory| directory.path.to_string());
                let (kind, table, row) = (FindingKind::OrphanedLock, dir::TABLE, printable(key));
                self.record(Finding { kind, table, row, path, detail: what, repaired });
                Ok(Ok(live))
            }
        }
    }

    /// Returns the directories that their parent rows name. Rows are scanned in key order, so each parent was checked
    /// before its children.
    async fn named_dirs(&mut self, live: Vec<LiveDirRow>, strays: &mut Vec<LiveDirRow>) -> Result<Vec<LiveDirRow>> {
        let mut parents = Vec::with_capacity(live.len());
        let mut links = Vec::with_capacity(live.len());
        for LiveDirRow { path, entry } in &live {
            let (parent, name) = path.split().unzip();
            let entry_cell = name.iter().map(|name: &Name| Column::new(dir::SUB, dir::directory_qualifier(name)));
            let key = parent.map_or_else(|| path.key(), |parent: DrivePath| parent.key());
            parents.push((key, RowQuery::cells(entry_cell.chain([dir::id_column()]).collect())));
            links.push((entry.id.key(), RowQuery::cells(vec![dir_parent::column()])));
        }
        let at = |nth: usize| live.get(nth).map(|directory| &directory.path);
        let parents = self.read_rows(dir::TABLE, &parents, &at).await?;
        let links = self.read_rows(dir_parent::TABLE, &links, &at).await?;
        let mut named = Vec::with_capacity(live.len());
        for ((directory, parent), link) in live.into_iter().zip(parents).zip(links) {
            // If the parent row cannot be read, the directory does not count as a stray: that row may name it.
            let is_named = match &parent {
                Some(parent) => self.is_named(&directory, parent)?,
                None => self.paths.insert(directory.entry.id, directory.path.clone()).is_none(),
            };
            if is_named {
                if let (Some(parent), Some(link)) = (&parent, &link) {
                    self.check_dir_parent(&directory, parent, link).await?;
                }
                self.summary.directories += 1;
                self.count_directory(&directory);
                named.push(directory);
            } else {
                strays.push(directory);
            }
        }
        Ok(named)
    }

    /// Whether the parent row names the directory. The root has no parent: it needs the right id.
    fn is_named(&mut self, LiveDirRow { path, entry }: &LiveDirRow, parent: &Row) -> Result<bool> {
        if let Some((above, name)) = path.split() {
            let id = parent.get(CF, dir::ID).and_then(|id| dir::decode_id(id).ok());
            let named = parent.get(dir::SUB, &dir::directory_qualifier(&name)).map(|value| DirEntry::decode(value));
            let is_live = id.and_then(|id| self.paths.get(&id)).is_some_and(|at| *at == above);
            match named {
                Some(Ok(named)) if is_live && named.id == entry.id => {
                    if named != *entry {
                        let what = "its creator or creation time differs from the entry in its parent".to_owned();
                        self.report(FindingKind::DirectoryDiffers, dir::TABLE, path.to_string(), Some(path), what);
                    }
                }
                _ => return Ok(false),
            }
        } else if entry.id != DirId::ROOT {
            self.tree_complete = false;
            let what = format!("the root has the id {}", entry.id);
            self.report(FindingKind::DirectoryDiffers, dir::TABLE, path.to_string(), Some(path), what);
            return Ok(false);
        }
        if let Some(other) = self.paths.insert(entry.id, path.clone()) {
            self.tree_complete = false;
            let what = format!("it has the id of {}", other.as_str().escape_debug());
            self.report(FindingKind::SameId, dir::TABLE, path.to_string(), Some(path), what);
        }
        Ok(true)
    }

    /// Checks that the directory's link leads to its parent.
    async fn check_dir_parent(
        &mut self,
        LiveDirRow { path, entry }: &LiveDirRow,
        parent: &Row,
        row: &Row,
    ) -> Result<()> {
        let (Some((_, name)), Some(parent)) = (path.split(), parent.get(CF, dir::ID)) else { return Ok(()) };
        let Ok(parent) = dir::decode_id(parent) else { return Ok(()) };
        let stored = row.get(CF, dir_parent::PARENT);
        let link = stored.map(|value| DirParent::decode(value));
        if let Some(Ok(link)) = &link
            && link.parent == parent
            && link.name == name
        {
            return Ok(());
        }
        let what = match link {
            None => "there is no link to its parent".to_owned(),
            Some(Ok(link)) => format!("its link leads to {} in {}", link.name.as_str().escape_debug(), link.parent),
            Some(Err(error)) => error.to_string(),
        };
        let check = match stored {
            None => Check::Absent(dir_parent::column()),
            Some(value) => Check::Equals(dir_parent::column(), value.clone()),
        };
        let changes = DirParent { parent, name, operation: NO_OPERATION }.put_cells();
        let row = ConditionalRow { table: dir_parent::TABLE, row: entry.id.key(), checks: vec![check], changes };
        // If two directories have this id, the link may belong to the other one: then `may_remove` is false.
        let repaired = self.may_remove() && self.apply(row).await?;
        let (kind, table, row) = (FindingKind::DirParent, dir_parent::TABLE, entry.id.to_string());
        self.record(Finding { kind, table, row, path: Some(path.to_string()), detail: what, repaired });
        Ok(())
    }

    /// Reports directories that no name leads to. A repair removes their rows; `file_rows` then finds their files as
    /// strays and saves them.
    pub(super) async fn stray_directories(&mut self, strays: Vec<LiveDirRow>) -> Result<()> {
        for LiveDirRow { path, entry } in strays {
            let row = ConditionalRow {
                table: dir::TABLE,
                row: path.key(),
                checks: vec![Check::Equals(dir::id_column(), dir::encode_id(entry.id))],
                changes: dir::delete_row(),
            };
            let repaired = self.may_remove() && self.apply(row).await?;
            let (kind, row) = (FindingKind::StrayDirectory, path.as_str().escape_debug().to_string());
            let detail = format!("no name leads to the directory {}", entry.id);
            self.record(Finding { kind, table: dir::TABLE, row, path: None, detail, repaired });
        }
        Ok(())
    }
}
