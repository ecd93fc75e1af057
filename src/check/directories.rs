//! Every row of the directory table: whether a name leads to it, and whether name, row and link agree.

use super::pending::RowVisibility;
use super::{CheckError, CheckEvent, Checker, Finding, FindingKind, ROWS, Result, printable};
use crate::schema::dir::{self, DirEntry, NO_OPERATION, RowLock};
use crate::schema::dir_parent::{self, DirParent};
use crate::schema::{CF, DirId, DrivePath, Name, ValueError};
use crate::table::{Check, Column, ConditionalRow, Row, RowCursor, RowKey, RowQuery, RowRange, StoreError};

/// A directory's row that reads as live.
pub(super) struct LiveDir {
    /// Its path, from the row key.
    pub path: DrivePath,
    /// Its attributes, from the row.
    pub entry: DirEntry,
}

impl Checker<'_> {
    /// Returns the directories that no name leads to.
    pub(super) async fn directories(&mut self) -> Result<Vec<LiveDir>> {
        let mut strays = Vec::new();
        let mut all = RowCursor::new(dir::TABLE, RowRange::all(), RowQuery::families(&[CF]), ROWS);
        while let Some(rows) = all.next(self.tables).await? {
            let mut met = Vec::with_capacity(rows.len());
            for (key, row) in &rows {
                match self.live_dir(key, row).await? {
                    Ok(directory) => met.extend(directory),
                    Err(error) => {
                        self.report_unreadable(dir::TABLE, printable(key), None, error.to_string());
                    }
                }
            }
            for directory in self.named_dirs(met, &mut strays).await? {
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

    /// A row, if it reads as live.
    async fn live_dir(&mut self, key: &RowKey, row: &Row) -> Result<std::result::Result<Option<LiveDir>, ValueError>> {
        let read = || -> std::result::Result<_, ValueError> {
            let path = DrivePath::from_key(key)?;
            let cells = [dir::ID, dir::CREATOR, dir::CREATED].map(|q| row.get(CF, q));
            let ([Some(id), Some(creator), Some(created)], true) = (cells, path.key() == *key) else {
                return Err(ValueError::Damaged { what: "directory row" });
            };
            let (id, creator) = (dir::decode_id(id)?, dir::decode_creator(creator)?);
            let entry = DirEntry { id, creator, created: dir::decode_created(created)? };
            Ok((LiveDir { path, entry }, self.pending.visibility(row.get(CF, dir::LOCK))?))
        };
        let (met, reading) = match read() {
            Ok(read) => read,
            Err(error) => return Ok(Err(error)),
        };
        match reading {
            RowVisibility::Live => Ok(Ok(Some(met))),
            RowVisibility::Absent => {
                self.pending.deleted_dirs.insert(met.entry.id);
                Ok(Ok(None))
            }
            RowVisibility::Orphaned(lock) => {
                // As a writer does that meets the mark.
                let repaired = self.options.repair && self.apply(lock.roll_back(&met.path)).await?;
                let (what, live) = match lock {
                    RowLock::Source(op) => (format!("it is marked by operation {op}, which has no record"), Some(met)),
                    RowLock::Copy(op) => (format!("it was staged by operation {op}, which has no record"), None),
                };
                let path = live.as_ref().map(|met| met.path.to_string());
                let (kind, table, row) = (FindingKind::OrphanedLock, dir::TABLE, printable(key));
                self.record(Finding { kind, table, row, path, detail: what, repaired });
                Ok(Ok(live))
            }
        }
    }

    /// Those of these directories that names lead to. Rows come in the order of their keys, so the parent of each
    /// was met before.
    async fn named_dirs(&mut self, met: Vec<LiveDir>, strays: &mut Vec<LiveDir>) -> Result<Vec<LiveDir>> {
        let mut parents = Vec::with_capacity(met.len());
        let mut links = Vec::with_capacity(met.len());
        for LiveDir { path, entry } in &met {
            let (parent, name) = path.split().unzip();
            let named = name.iter().map(|name: &Name| Column::new(dir::SUB, dir::directory_qualifier(name)));
            let key = parent.map_or_else(|| path.key(), |parent: DrivePath| parent.key());
            parents.push((key, RowQuery::cells(named.chain([dir::id_column()]).collect())));
            links.push((entry.id.key(), RowQuery::cells(vec![dir_parent::column()])));
        }
        let at = |nth: usize| met.get(nth).map(|met| &met.path);
        let parents = self.read_rows(dir::TABLE, &parents, &at).await?;
        let links = self.read_rows(dir_parent::TABLE, &links, &at).await?;
        let mut reached = Vec::with_capacity(met.len());
        for ((met, parent), link) in met.into_iter().zip(parents).zip(links) {
            // Of one whose name cannot be read it is not known that nothing leads to it.
            let is_named = match &parent {
                Some(parent) => self.is_named(&met, parent)?,
                None => self.paths.insert(met.entry.id, met.path.clone()).is_none(),
            };
            if is_named {
                if let (Some(parent), Some(link)) = (&parent, &link) {
                    self.check_dir_parent(&met, parent, link).await?;
                }
                self.summary.directories += 1;
                reached.push(met);
            } else {
                strays.push(met);
            }
        }
        Ok(reached)
    }

    fn is_named(&mut self, met: &LiveDir, parent: &Row) -> Result<bool> {
        let LiveDir { path, entry } = met;
        if let Some((above, name)) = path.split() {
            let id = parent.get(CF, dir::ID).and_then(|id| dir::decode_id(id).ok());
            let named = parent.get(dir::SUB, &dir::directory_qualifier(&name)).map(|value| DirEntry::decode(value));
            let is_live = id.and_then(|id| self.paths.get(&id)).is_some_and(|at| *at == above);
            match named {
                Some(Ok(named)) if is_live && named.id == entry.id => {
                    if named != *entry {
                        let what = "creator or time of creation are not as its name says".to_owned();
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

    /// Whether the directory's link leads to its parent.
    async fn check_dir_parent(&mut self, LiveDir { path, entry }: &LiveDir, parent: &Row, row: &Row) -> Result<()> {
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
        // Not if two directories have this id: the link is one of theirs.
        let repaired = self.may_remove() && self.apply(row).await?;
        let (kind, table, row) = (FindingKind::DirParent, dir_parent::TABLE, entry.id.to_string());
        self.record(Finding { kind, table, row, path: Some(path.to_string()), detail: what, repaired });
        Ok(())
    }

    /// Directories that no name leads to. The files in them are strays by then, and saved as such.
    pub(super) async fn stray_directories(&mut self, strays: Vec<LiveDir>) -> Result<()> {
        for LiveDir { path, entry } in strays {
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
