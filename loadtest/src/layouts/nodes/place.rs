//! Where a path's node is: by a survey of all rows, by the rows of all its names, down the tree, by the path itself, or
//! in its directory's slot.

use std::collections::HashMap;

use anyhow::{Context, Result};
use bytes::Bytes;
use rowdrive::schema::CF;
use rowdrive::table::{Change, ConditionalRow, Row, RowKey, RowRange};

use super::{Key, NAME, Nodes, PARENT};
use crate::layouts::dir_table::{DirTable, Slot};
use crate::layouts::rows::{Next, SCAN};
use crate::layouts::stored::{Stored, equals};
use crate::layouts::{Verdict, split};

/// Bytes of an id in the keys of a tree.
const ID: usize = 16;

/// Where the node of a path is, or would be.
#[derive(Default)]
pub struct Place {
    pub key: RowKey,
    /// None if the path has no node, or if its row was not read: conditions say so.
    pub stored: Option<Stored>,
    /// Conditions on the parent.
    pub guards: Vec<ConditionalRow>,
    /// What a row has beside its node.
    pub cells: Vec<Change>,
}

/// A place, or why there is none.
pub type Placed = Result<Place, Verdict>;

/// The id of a directory, and a name in it.
type Position = (Bytes, String);

/// The positions of directories, by their ids.
#[derive(Default)]
pub struct Directories(HashMap<Bytes, Position>);

impl Directories {
    /// The path of a position. What is not known is the root.
    pub fn path(&self, (parent, name): &Position) -> String {
        let above = self.0.get(parent).map(|position| self.path(position)).unwrap_or_default();
        format!("{above}/{name}")
    }

    fn find(&self, root: Bytes, path: &str) -> Option<Bytes> {
        path.split('/').skip(1).try_fold(root, |at, wanted| {
            let found = self.0.iter().find(|(_, (parent, name))| *parent == at && name == wanted);
            found.map(|(id, _)| id.clone())
        })
    }
}

impl Nodes {
    pub(super) fn root(&self) -> Bytes {
        Bytes::from_static(match self.key {
            Key::RowId | Key::DirId(_) => &[0; 8],
            Key::Tree => &[0; ID],
            Key::Name | Key::FullPath(_) => b"/",
        })
    }

    pub(super) fn id(&self, key: &RowKey, directory: &Stored) -> Bytes {
        if let Key::Tree = self.key { directory.value.clone() } else { key.clone() }
    }

    /// The cells of a row beside its node.
    pub(super) fn cells(&self, parent: &Bytes, name: &str) -> Vec<Change> {
        let cell = |cell, value: &Bytes| self.rows.cells.contains(&cell).then(|| Change::put(CF, cell, value.clone()));
        cell(PARENT, parent).into_iter().chain(cell(NAME, &Bytes::copy_from_slice(name.as_bytes()))).collect()
    }

    /// The parent's id and the name of a row; of a full path, what follows its first slash.
    pub(super) fn position<'a>(&self, key: &'a RowKey, row: &'a Row) -> Result<(Bytes, &'a str)> {
        let cell = |qualifier| row.get(CF, qualifier).context("a row lacks its parent or its name");
        let start = if let Key::Tree = self.key { ID } else { 1 };
        let (parent, name): (Bytes, &[u8]) = match self.key {
            Key::RowId => (cell(PARENT)?.clone(), cell(NAME)?),
            Key::Name => (cell(PARENT)?.clone(), key),
            _ => (key.slice(..start.min(key.len())), key.get(start..).unwrap_or_default()),
        };
        Ok((parent, std::str::from_utf8(name)?))
    }

    /// Where a path's node is or would be, when the node `moving` comes to it.
    async fn place(&self, path: &str, moving: Option<&RowKey>) -> Result<Placed> {
        match &self.key {
            Key::RowId => self.place_by_survey(path, moving).await,
            Key::Name => self.place_by_names(path, moving).await,
            Key::Tree | Key::FullPath(_) => self.place_by_parents(path).await,
            Key::DirId(directories) => {
                let Some((slot, mut place)) = self.slot(directories, path).await? else {
                    return Ok(Err(Verdict::Missing));
                };
                place.guards.push(directories.row(&slot, vec![]));
                Ok(Ok(place))
            }
        }
    }

    pub(super) async fn node(&self, path: &str) -> Result<Option<(RowKey, Stored)>> {
        if let Key::FullPath(_) = self.key {
            let stored = Stored::from_row(&self.rows.get(path.as_bytes()).await?);
            return Ok(stored.map(|stored| (path.to_owned().into(), stored)));
        }
        let place = self.place(path, None).await?;
        Ok(place.ok().and_then(|place| Some((place.key, place.stored?))))
    }

    pub(super) async fn file(&self, path: &str) -> Result<Option<(RowKey, Stored)>> {
        Ok(self.node(path).await?.filter(|(_, stored)| stored.is_file()))
    }

    /// A place where nothing is, as far as was read.
    pub(super) async fn room(&self, path: &str, moving: Option<&RowKey>) -> Result<Placed> {
        let place = self.place(path, moving).await?;
        Ok(place.and_then(|place| if place.stored.is_some() { Err(Verdict::Exists) } else { Ok(place) }))
    }

    /// Reads every row of a range: all directories, and what `take` makes of nodes and their names, with the positions.
    pub(super) async fn survey<T: Send>(
        &self,
        range: RowRange,
        take: impl Fn(&RowKey, &Stored, &str) -> Result<Option<T>> + Send + Sync,
    ) -> Result<(Directories, Vec<(T, Position)>)> {
        let (mut directories, mut taken) = (Directories::default(), Vec::new());
        let each = |key: &RowKey, row: &Row| {
            let (parent, name) = self.position(key, row)?;
            let Some(stored) = Stored::from_row(row) else { return Ok(Next::Row) };
            let position = || (parent.clone(), name.to_owned());
            if !stored.is_file() {
                directories.0.insert(self.id(key, &stored), position());
            }
            taken.extend(take(key, &stored, name)?.map(|one| (one, position())));
            Ok(Next::Row)
        };
        self.rows.scan(range, SCAN, each).await?;
        Ok((directories, taken))
    }

    /// What the keys of a directory's children begin with, or else the parent's id in their rows.
    pub(super) async fn directory(&self, path: &str) -> Result<Option<Bytes>> {
        if let Key::DirId(directories) = &self.key {
            return directories.id(path).await;
        }
        if path.is_empty() {
            return Ok(Some(self.root()));
        }
        let node = self.node(path).await?.filter(|(_, stored)| !stored.is_file());
        Ok(node.map(|(key, stored)| match self.key {
            Key::FullPath(_) => format!("{path}/").into(),
            _ => self.id(&key, &stored),
        }))
    }

    /// The row of the name, and those of its parents up to the root.
    pub(super) async fn path_by_key(&self, wanted: &str) -> Result<Option<String>> {
        let (mut path, mut key) = (String::new(), Bytes::copy_from_slice(wanted.as_bytes()));
        while key != self.root() {
            let row = self.rows.get(&key).await?;
            let is_found = Stored::from_row(&row).is_some_and(|stored| stored.is_file() == path.is_empty());
            let (true, Some(parent)) = (is_found, row.get(CF, PARENT)) else { return Ok(None) };
            path = format!("/{}{path}", std::str::from_utf8(&key)?);
            key = parent.clone();
        }
        Ok(Some(path))
    }

    async fn place_by_survey(&self, path: &str, moving: Option<&RowKey>) -> Result<Placed> {
        let (parent, name) = split(path);
        let node = |key: &RowKey, stored: &Stored, of: &str| Ok((of == name).then(|| (key.clone(), stored.clone())));
        let (directories, same_name) = self.survey(RowRange::all(), node).await?;
        let Some(parent) = directories.find(self.root(), parent) else { return Ok(Err(Verdict::Missing)) };
        let cells = self.cells(&parent, name);
        let (key, stored) = match same_name.into_iter().find(|(_, (of, _))| *of == parent) {
            Some(((key, stored), _)) => (key, Some(stored)),
            None => (moving.cloned().unwrap_or_else(|| self.next_id()), None),
        };
        Ok(Ok(Place { key, stored, cells, ..Place::default() }))
    }

    /// The rows of all names of the path at once: each must be the parent of the next.
    async fn place_by_names(&self, path: &str, moving: Option<&RowKey>) -> Result<Placed> {
        let keys: Vec<Bytes> = path.split('/').skip(1).map(|name| Bytes::copy_from_slice(name.as_bytes())).collect();
        let mut rows = self.rows.get_many(keys.iter().cloned()).await?;
        let (mut parent, mut guard) = (self.root(), None);
        let (Some((key, above)), Some(own)) = (keys.split_last(), rows.pop()) else { return Ok(Err(Verdict::Missing)) };
        for (key, row) in above.iter().zip(&rows) {
            let is_child = |stored: &Stored| !stored.is_file() && row.get(CF, PARENT) == Some(&parent);
            let Some(stored) = Stored::from_row(row).filter(is_child) else { return Ok(Err(Verdict::Missing)) };
            guard = Some(self.rows.row(key.clone(), vec![stored.check(), equals(PARENT, parent)], vec![]));
            parent = key.clone();
        }
        let stored = Stored::from_row(&own);
        let is_here = own.get(CF, PARENT) == Some(&parent);
        // A row that is about to be made must not be its own parent.
        let is_taken = stored.is_some() && !is_here || above.contains(key);
        if is_taken && moving != Some(key) {
            return Ok(Err(Verdict::Exists));
        }
        let (guards, cells) = (guard.into_iter().collect(), self.cells(&parent, ""));
        Ok(Ok(Place { key: key.clone(), stored: stored.filter(|_| is_here), guards, cells }))
    }

    /// Down the tree, a read for each name; of a full path the parent alone is read, which the root's children do not
    /// need: conditions say whether the row is free.
    async fn place_by_parents(&self, path: &str) -> Result<Placed> {
        let (is_tree, (directory, name)) = (matches!(self.key, Key::Tree), split(path));
        let key = |parent: &Bytes, name: &str| Bytes::from([parent, name.as_bytes()].concat());
        let (mut place, mut parent) = (Place::default(), if is_tree { self.root() } else { Bytes::new() });
        let names: Vec<_> = if is_tree { directory.split('/').skip(1).collect() } else { vec![directory] };
        for name in names.into_iter().filter(|name| !name.is_empty()) {
            let at = key(&parent, name);
            let stored = Stored::from_row(&self.rows.get(&at).await?).filter(|stored| !stored.is_file());
            let Some(stored) = stored else { return Ok(Err(Verdict::Missing)) };
            place.guards = vec![self.rows.row(at, vec![stored.check()], vec![])];
            parent = stored.value;
        }
        place.key = if is_tree { key(&parent, name) } else { path.to_owned().into() };
        if is_tree {
            place.stored = Stored::from_row(&self.rows.get(&place.key).await?);
        }
        Ok(Ok(place))
    }

    /// The slot of the parent's row, and the file's row. None if the parent directory does not exist.
    pub(super) async fn slot(&self, directories: &DirTable, path: &str) -> Result<Option<(Slot, Place)>> {
        let Some(slot) = directories.slot(path).await? else { return Ok(None) };
        let key = slot.position();
        let file = Stored::from_row(&self.rows.get(&key).await?);
        let stored = file.or_else(|| slot.directory.clone().map(Stored::directory));
        Ok(Some((slot, Place { key, stored, ..Place::default() })))
    }
}
