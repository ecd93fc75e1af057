//! Every row of the directory table: whether a name leads to it, and whether name, row and link agree.

use super::left::Reading;
use super::{CheckError, Checker, Finding, Kind, ROWS, Result, printed};
use crate::schema::dir::{self, DirEntry, NO_OPERATION, State};
use crate::schema::dirid::{self, DirLink};
use crate::schema::{CF, DirId, DrivePath, Name, ValueError};
use crate::table::{Ask, Check, Column, Guarded, Row, RowCursor, RowKey, RowRange, StoreError};

/// A directory's row that reads as live.
pub(super) struct Met {
    pub path: DrivePath,
    pub entry: DirEntry,
}

impl Checker<'_> {
    /// Returns the directories that no name leads to.
    pub(super) async fn tree(&mut self) -> Result<Vec<Met>> {
        let mut strays = Vec::new();
        let mut all = RowCursor::new(dir::TABLE, RowRange::all(), Ask::families(&[CF]), ROWS);
        while let Some(rows) = all.next(self.tables).await? {
            let mut met = Vec::with_capacity(rows.len());
            for (key, row) in &rows {
                match self.meet(key, row).await? {
                    Ok(directory) => met.extend(directory),
                    Err(error) => {
                        self.sound = false;
                        self.find(Kind::Unreadable, dir::TABLE, printed(key), None, error.to_string());
                    }
                }
            }
            for directory in self.reach(met, &mut strays).await? {
                match self.names(&directory).await {
                    Err(CheckError::Store(StoreError::Damaged(detail))) => {
                        self.sound = false;
                        let (path, what) = (&directory.path, format!("some of its names cannot be read: {detail}"));
                        self.find(Kind::Unreadable, dir::TABLE, path.to_string(), Some(path), what);
                    }
                    done => done?,
                }
            }
            (self.tell)(super::Told::Rows(rows.len()));
        }
        if !self.paths.contains_key(&DirId::ROOT) {
            self.sound = false;
            let root = DrivePath::root();
            self.find(Kind::DirectoryMissing, dir::TABLE, "/".into(), Some(&root), "the root has no row".into());
        }
        Ok(strays)
    }

    /// A row, if it reads as live.
    async fn meet(&mut self, key: &RowKey, row: &Row) -> Result<std::result::Result<Option<Met>, ValueError>> {
        let read = || -> std::result::Result<_, ValueError> {
            let path = DrivePath::from_key(key)?;
            let cells = [dir::ID, dir::CREATOR, dir::CREATED].map(|q| row.get(CF, q));
            let ([Some(id), Some(creator), Some(created)], true) = (cells, path.key() == *key) else {
                return Err(ValueError::Damaged { what: "directory row" });
            };
            let (id, creator) = (dir::decode_id(id)?, dir::decode_creator(creator)?);
            let entry = DirEntry { id, creator, created: dir::decode_created(created)? };
            Ok((Met { path, entry }, self.left.reading(row.get(CF, dir::STATE))?))
        };
        let (met, reading) = match read() {
            Ok(read) => read,
            Err(error) => return Ok(Err(error)),
        };
        match reading {
            Reading::Live => Ok(Ok(Some(met))),
            Reading::Absent => {
                self.left.going.insert(met.entry.id);
                Ok(Ok(None))
            }
            Reading::Dead(state) => {
                // As a writer does that meets the mark.
                let repaired = self.options.repair && self.change(state.clear(&met.path)).await?;
                let (what, live) = match state {
                    State::Closed(op) => (format!("it is marked by operation {op}, which has no record"), Some(met)),
                    State::Staged(op) => (format!("it was staged by operation {op}, which has no record"), None),
                };
                let path = live.as_ref().map(|met| met.path.to_string());
                let (kind, table, row) = (Kind::Mark, dir::TABLE, printed(key));
                self.found(Finding { kind, table, row, path, detail: what, repaired });
                Ok(Ok(live))
            }
        }
    }

    /// Those of these directories that names lead to. Rows come in the order of their keys, so the parent of each
    /// was met before.
    async fn reach(&mut self, met: Vec<Met>, strays: &mut Vec<Met>) -> Result<Vec<Met>> {
        let mut parents = Vec::with_capacity(met.len());
        let mut links = Vec::with_capacity(met.len());
        for Met { path, entry } in &met {
            let (parent, name) = path.split().unzip();
            let named = name.iter().map(|name: &Name| Column::new(dir::SUB, dir::directory_qualifier(name)));
            let key = parent.map_or_else(|| path.key(), |parent: DrivePath| parent.key());
            parents.push((key, Ask::cells(named.chain([dir::id_column()]).collect())));
            links.push((entry.id.key(), Ask::cells(vec![dirid::column()])));
        }
        let at = |nth: usize| met.get(nth).map(|met| &met.path);
        let parents = self.rows(dir::TABLE, &parents, &at).await?;
        let links = self.rows(dirid::TABLE, &links, &at).await?;
        let mut reached = Vec::with_capacity(met.len());
        for ((met, parent), link) in met.into_iter().zip(parents).zip(links) {
            // Of one whose name cannot be read it is not known that nothing leads to it.
            let is_named = match &parent {
                Some(parent) => self.is_named(&met, parent)?,
                None => self.paths.insert(met.entry.id, met.path.clone()).is_none(),
            };
            if is_named {
                if let (Some(parent), Some(link)) = (&parent, &link) {
                    self.linked(&met, parent, link).await?;
                }
                self.summary.directories += 1;
                reached.push(met);
            } else {
                strays.push(met);
            }
        }
        Ok(reached)
    }

    fn is_named(&mut self, met: &Met, parent: &Row) -> Result<bool> {
        let Met { path, entry } = met;
        if let Some((above, name)) = path.split() {
            let id = parent.get(CF, dir::ID).and_then(|id| dir::decode_id(id).ok());
            let named = parent.get(dir::SUB, &dir::directory_qualifier(&name)).map(|value| DirEntry::decode(value));
            let is_live = id.and_then(|id| self.paths.get(&id)).is_some_and(|at| *at == above);
            match named {
                Some(Ok(named)) if is_live && named.id == entry.id => {
                    if named != *entry {
                        let what = "creator or time of creation are not as its name says".to_owned();
                        self.find(Kind::DirectoryDiffers, dir::TABLE, path.to_string(), Some(path), what);
                    }
                }
                _ => return Ok(false),
            }
        } else if entry.id != DirId::ROOT {
            self.sound = false;
            let what = format!("the root has the id {}", entry.id);
            self.find(Kind::DirectoryDiffers, dir::TABLE, path.to_string(), Some(path), what);
            return Ok(false);
        }
        if let Some(other) = self.paths.insert(entry.id, path.clone()) {
            self.sound = false;
            let what = format!("it has the id of {}", other.as_str().escape_debug());
            self.find(Kind::SameId, dir::TABLE, path.to_string(), Some(path), what);
        }
        Ok(true)
    }

    /// Whether the directory's link leads to its parent.
    async fn linked(&mut self, Met { path, entry }: &Met, parent: &Row, row: &Row) -> Result<()> {
        let (Some((_, name)), Some(parent)) = (path.split(), parent.get(CF, dir::ID)) else { return Ok(()) };
        let Ok(parent) = dir::decode_id(parent) else { return Ok(()) };
        let stored = row.get(CF, dirid::LINK);
        let link = stored.map(|value| DirLink::decode(value));
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
            None => Check::Absent(dirid::column()),
            Some(value) => Check::Equals(dirid::column(), value.clone()),
        };
        let changes = DirLink { parent, name, operation: NO_OPERATION }.row();
        let row = Guarded { table: dirid::TABLE, row: entry.id.key(), checks: vec![check], changes };
        // Not if two directories have this id: the link is one of theirs.
        let repaired = self.may_remove() && self.change(row).await?;
        let (kind, table, row) = (Kind::Link, dirid::TABLE, entry.id.to_string());
        self.found(Finding { kind, table, row, path: Some(path.to_string()), detail: what, repaired });
        Ok(())
    }

    /// Directories that no name leads to. The files in them are strays by then, and saved as such.
    pub(super) async fn stray_directories(&mut self, strays: Vec<Met>) -> Result<()> {
        for Met { path, entry } in strays {
            let row = Guarded {
                table: dir::TABLE,
                row: path.key(),
                checks: vec![Check::Equals(dir::id_column(), dir::encode_id(entry.id))],
                changes: dir::removal_whole(),
            };
            let repaired = self.may_remove() && self.change(row).await?;
            let (kind, row) = (Kind::StrayDirectory, path.as_str().escape_debug().to_string());
            let detail = format!("no name leads to the directory {}", entry.id);
            self.found(Finding { kind, table: dir::TABLE, row, path: None, detail, repaired });
        }
        Ok(())
    }
}
