//! Layouts whose rows name their parent by its id: `rowkey-id`, `name` and `tree`. A row is one node, and to rename a
//! folder is to change its row alone.
//!
//! - `rowkey-id`: the key is a row id that is counted up, which is the id of a directory too; the parent's id and the
//!   name are cells, as in a table of a relational database that was moved as it is, without its indexes. Every
//!   question reads the whole table. No row can guard a name, so two clients at once can both make it.
//! - `name`: the key is the name, and so the id; the parent's id is a cell. A name is found at once, but only one node of
//!   the drive can have it, every list reads the whole table, and a new name of a folder is a change of all its children.
//! - `tree`: the key is the parent's random id and the name, as inodes have it: a path is as many reads as it has names, a
//!   folder is one range, and what is not asked for by path is found by reading everything.

mod place;

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use ::uuid::Uuid;
use anyhow::{Context, Result};
use async_trait::async_trait;
use bytes::Bytes;
use rowdrive::schema::CF;
use rowdrive::table::{Change, ConditionalRow, KeyLifecycle, Plan, Row, RowKey, RowRange, Tables};

use super::answers::{Directories, Newest, newest};
use super::rows::{CONTENT, DATA, DIRECTORY, FILE, Groups, LIST, NODE, Next, SCAN, Stored, Table, put_content, unpack};
use super::{Child, Layout, List, NewFile, Node, Period, Verdict, split};
use place::next;

const PARENT: &[u8] = b"p";
const NAME: &[u8] = b"n";
/// All cells of a row, those of its node first.
const CELLS: [&[u8]; 4] = [FILE, DIRECTORY, PARENT, NAME];
/// Bytes of an id in the keys of a tree.
const ID: usize = 16;

/// What the row key is.
pub enum Key {
    RowId {
        last: AtomicU64,
        /// What a client that makes directories and then loads files into them knows.
        loaded: Mutex<HashMap<String, Bytes>>,
    },
    Name,
    Tree,
}

pub struct ByParent {
    rows: Table,
    key: Key,
}

impl ByParent {
    pub async fn row_id(tables: &Tables) -> Result<Self> {
        let rows = Table::create(tables, ("row_id", KeyLifecycle::UniqueId), &[CONTENT], &CELLS).await?;
        let last = rows.last_key().await?.and_then(|key| Some(u64::from_be_bytes(key.as_ref().try_into().ok()?)));
        let key = Key::RowId { last: AtomicU64::new(last.unwrap_or_default()), loaded: Mutex::default() };
        Ok(Self { rows, key })
    }

    pub async fn name(tables: &Tables) -> Result<Self> {
        Ok(Self {
            rows: Table::create(tables, ("name", KeyLifecycle::UniqueId), &[CONTENT], &[FILE, DIRECTORY, PARENT])
                .await?,
            key: Key::Name,
        })
    }

    pub async fn tree(tables: &Tables) -> Result<Self> {
        Ok(Self {
            rows: Table::create(tables, ("tree", KeyLifecycle::UniqueId), &[CONTENT], NODE).await?,
            key: Key::Tree,
        })
    }

    fn root(&self) -> Bytes {
        match self.key {
            Key::RowId { .. } => Bytes::from_static(&[0; 8]),
            Key::Name => Bytes::from_static(b"/"),
            Key::Tree => Bytes::from_static(&[0; ID]),
        }
    }

    /// The id of a directory.
    fn id(&self, key: &RowKey, stored: &Stored) -> Option<Bytes> {
        match (&self.key, stored) {
            (_, Stored::File(_)) => None,
            (Key::Tree, Stored::Directory(id)) => Some(id.clone()),
            (Key::RowId { .. } | Key::Name, Stored::Directory(_)) => Some(key.clone()),
        }
    }

    fn new_directory(&self) -> Stored {
        Stored::Directory(match self.key {
            Key::Tree => Bytes::copy_from_slice(Uuid::new_v4().as_bytes()),
            Key::RowId { .. } | Key::Name => Bytes::from_static(b"d"),
        })
    }

    /// The cells of a row beside its node.
    fn cells(&self, parent: &Bytes, name: &str) -> Vec<Change> {
        let mut cells = Vec::new();
        if !matches!(self.key, Key::Tree) {
            cells.push(Change::put(CF, PARENT, parent.clone()));
        }
        if matches!(self.key, Key::RowId { .. }) {
            cells.push(Change::put(CF, NAME, name.as_bytes().to_vec()));
        }
        cells
    }

    /// The parent's id and the name of a row.
    fn position<'a>(&self, key: &'a RowKey, row: &'a Row) -> Result<(Bytes, &'a str)> {
        let cell = |qualifier| row.get(CF, qualifier).context("a row lacks its parent or its name");
        let (parent, name): (Bytes, &[u8]) = match self.key {
            Key::RowId { .. } => (cell(PARENT)?.clone(), cell(NAME)?),
            Key::Name => (cell(PARENT)?.clone(), key),
            Key::Tree => (key.slice(..ID.min(key.len())), key.get(ID..).unwrap_or_default()),
        };
        Ok((parent, std::str::from_utf8(name)?))
    }

    /// Shows every row with its parent and its name, and returns all directories.
    async fn survey(
        &self,
        mut see: impl FnMut(&RowKey, Stored, Bytes, &str) -> Result<()> + Send,
    ) -> Result<Directories> {
        let mut directories = Directories::default();
        let each = |key: &RowKey, row: &Row| {
            let (parent, name) = self.position(key, row)?;
            if let Some(stored) = Stored::from_row(row) {
                if let Some(id) = self.id(key, &stored) {
                    directories.add(id, (parent.clone(), name.to_owned()));
                }
                see(key, stored, parent, name)?;
            }
            Ok(Next::Row)
        };
        self.rows.scan(RowRange::all(), SCAN, each).await?;
        Ok(directories)
    }

    /// A file that exists.
    async fn file(&self, path: &str) -> Result<Option<(RowKey, Stored)>> {
        let place = self.place(path).await?;
        Ok(place.and_then(|place| Some((place.key, place.stored.filter(Stored::is_file)?))))
    }

    async fn directory(&self, path: &str) -> Result<Option<Bytes>> {
        if path.is_empty() {
            return Ok(Some(self.root()));
        }
        let place = self.place(path).await?;
        Ok(place.and_then(|place| self.id(&place.key, &place.stored?)))
    }

    async fn add(&self, path: &str, stored: Stored, content: Option<Change>) -> Result<Verdict> {
        match self.place(path).await? {
            None => Ok(Verdict::Missing),
            Some(place) if place.stored.is_some() || place.is_taken => Ok(Verdict::Exists),
            Some(place) => {
                let mut changes = self.cells(&place.parent, split(path).1);
                changes.push(stored.put());
                changes.extend(content);
                let row = self.rows.row(place.key, Stored::absent(), changes);
                self.rows.commit(place.guard.into_iter().chain([row]).collect()).await
            }
        }
    }

    /// The row of a node that leaves its key.
    fn removed(&self, key: RowKey, stored: &Stored, has_content: bool) -> ConditionalRow {
        let mut changes = vec![stored.take()];
        changes.extend(self.rows.delete_cells().filter(|change| !Stored::is_cell(change)));
        if has_content {
            changes.push(Change::delete(CONTENT, DATA));
        }
        self.rows.row(key, vec![stored.check()], changes)
    }

    /// The children of a folder whose id has become another, since it is its name.
    async fn adopt(&self, old: &Bytes, new: &Bytes) -> Result<Verdict> {
        let mut children = Vec::new();
        let each = |key: &RowKey, row: &Row| {
            children.extend((row.get(CF, PARENT) == Some(old)).then(|| key.clone()));
            Ok(Next::Row)
        };
        self.rows.scan(RowRange::all(), SCAN, each).await?;
        let mut groups = Groups::new(&self.rows.tables);
        for key in children {
            let row = self.rows.row(key, Vec::new(), self.cells(new, ""));
            groups.add(Plan { guarded: vec![row], ..Plan::default() }).await?;
        }
        groups.done().await?;
        Ok(Verdict::Done)
    }
}

#[async_trait]
impl Layout for ByParent {
    async fn mkdir(&self, path: &str) -> Result<Verdict> {
        self.add(path, self.new_directory(), None).await
    }

    async fn put(&self, file: &NewFile, is_new: bool) -> Result<Verdict> {
        let (new, content) = (Stored::file(&file.attributes), put_content(&file.content));
        if is_new {
            return self.add(&file.path, new, content).await;
        }
        let Some((key, old)) = self.file(&file.path).await? else { return Ok(Verdict::Missing) };
        let changes = [new.put()].into_iter().chain(content).collect();
        self.rows.commit(vec![self.rows.row(key, vec![old.check()], changes)]).await
    }

    async fn stat(&self, path: &str) -> Result<Option<Node>> {
        self.place(path).await?.and_then(|place| place.stored).map(|stored| stored.node()).transpose()
    }

    async fn read(&self, path: &str) -> Result<Option<Bytes>> {
        match self.file(path).await? {
            Some((key, _)) => self.rows.content(&key).await.map(Some),
            None => Ok(None),
        }
    }

    /// A range of a tree; otherwise the whole table, sorted where the keys are not.
    async fn list(&self, path: &str, ask: &List) -> Result<Option<Vec<Child>>> {
        let Some(id) = self.directory(path).await? else { return Ok(None) };
        let (mut range, mut at_a_time) = (RowRange::all(), SCAN);
        if let Key::Tree = self.key {
            (range, at_a_time) = (RowRange::prefix(&id), LIST.min(ask.limit()));
            if !ask.after().is_empty() {
                range.from = Bound::Excluded([&id, ask.after().as_bytes()].concat().into());
            }
        }
        let is_sorted = !matches!(self.key, Key::RowId { .. });
        let mut children = Vec::new();
        let each = |key: &RowKey, row: &Row| {
            let (parent, name) = self.position(key, row)?;
            if parent == id {
                children.extend(Stored::child(row, name, ask)?);
            }
            Ok(if is_sorted && children.len() >= ask.limit() { Next::Nothing } else { Next::Row })
        };
        self.rows.scan(range, at_a_time, each).await?;
        if !is_sorted {
            children.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            children.truncate(ask.limit());
        }
        Ok(Some(children))
    }

    async fn rename(&self, from: &str, to: &str) -> Result<Verdict> {
        let Some(source) = self.place(from).await? else { return Ok(Verdict::Missing) };
        let Some(stored) = source.stored else { return Ok(Verdict::Missing) };
        let Some(mut target) = self.place(to).await? else { return Ok(Verdict::Missing) };
        if let Key::RowId { .. } = self.key {
            target.key = source.key.clone();
        }
        let is_same_row = source.key == target.key;
        if target.stored.is_some() || target.is_taken && !is_same_row {
            return Ok(Verdict::Exists);
        }
        let mut guarded: Vec<_> = target.guard.into_iter().collect();
        let mut changes = self.cells(&target.parent, split(to).1);
        if is_same_row {
            guarded.push(self.rows.row(source.key, vec![stored.check()], changes));
            return self.rows.commit(guarded).await;
        }
        changes.push(stored.put());
        let content = if stored.is_file() { self.rows.content(&source.key).await? } else { Bytes::new() };
        changes.extend(put_content(&content));
        guarded.push(self.rows.row(target.key.clone(), Stored::absent(), changes));
        guarded.push(self.removed(source.key.clone(), &stored, !content.is_empty()));
        let verdict = self.rows.commit(guarded).await?;
        if verdict == Verdict::Done && !stored.is_file() && matches!(self.key, Key::Name) {
            return self.adopt(&source.key, &target.key).await;
        }
        Ok(verdict)
    }

    async fn delete(&self, path: &str) -> Result<Verdict> {
        match self.file(path).await? {
            Some((key, stored)) => self.rows.commit(vec![self.removed(key, &stored, true)]).await,
            None => Ok(Verdict::Missing),
        }
    }

    async fn find(&self, wanted: &str) -> Result<Vec<String>> {
        if let Key::Name = self.key {
            return self.find_by_key(wanted).await;
        }
        let mut found = Vec::new();
        let see = |_: &RowKey, stored: Stored, parent: Bytes, name: &str| {
            if stored.is_file() && name == wanted {
                found.push((parent, name.to_owned()));
            }
            Ok(())
        };
        let directories = self.survey(see).await?;
        Ok(found.iter().map(|position| directories.path(position)).collect())
    }

    /// There is no order by time: every row is read, or, of a tree, those below the directory.
    async fn period(&self, period: &Period) -> Result<Vec<(i64, String)>> {
        if let (Key::Tree, false) = (&self.key, period.under.is_empty()) {
            return self.period_in_tree(period).await;
        }
        let mut files = Vec::new();
        let see = |_: &RowKey, stored: Stored, parent: Bytes, name: &str| {
            let Node::File(attributes) = stored.node()? else { return Ok(()) };
            if period.time(&attributes).is_some() {
                files.push((attributes, (parent, name.to_owned())));
            }
            Ok(())
        };
        let directories = self.survey(see).await?;
        Ok(newest(files, &directories, period))
    }

    async fn load_directory(&self, path: &str) -> Result<Verdict> {
        let Key::RowId { last, loaded } = &self.key else { return self.mkdir(path).await };
        let (parent, name) = split(path);
        let (parent, key) = (self.loaded(loaded, parent)?, next(last));
        loaded.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), key.clone());
        let changes = [self.cells(&parent, name), vec![self.new_directory().put()]].concat();
        self.rows.commit(vec![self.rows.row(key, Stored::absent(), changes)]).await
    }

    /// A client that knows the ids of its directories, and that nothing has the names, need not read the table for each
    /// file.
    async fn load_file(&self, file: &NewFile) -> Result<Verdict> {
        let Key::RowId { last, loaded } = &self.key else { return self.put(file, true).await };
        let (parent, name) = split(&file.path);
        let mut changes = self.cells(&self.loaded(loaded, parent)?, name);
        changes.push(Stored::file(&file.attributes).put());
        changes.extend(put_content(&file.content));
        self.rows.commit(vec![self.rows.row(next(last), Stored::absent(), changes)]).await
    }
}

impl ByParent {
    fn loaded(&self, loaded: &Mutex<HashMap<String, Bytes>>, path: &str) -> Result<Bytes> {
        if path.is_empty() {
            return Ok(self.root());
        }
        let loaded = loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.get(path).cloned().with_context(|| format!("{path} was not loaded"))
    }

    /// A range for each directory.
    async fn period_in_tree(&self, period: &Period) -> Result<Vec<(i64, String)>> {
        let mut newest = Newest::new(period);
        let mut directories: Vec<_> =
            self.directory(&period.under).await?.map(|id| (id, period.under.clone())).into_iter().collect();
        while let Some((id, path)) = directories.pop() {
            let each = |key: &RowKey, row: &Row| {
                let path = || Ok::<_, anyhow::Error>(format!("{path}/{}", self.position(key, row)?.1));
                match Stored::from_row(row) {
                    Some(Stored::Directory(id)) => directories.push((id, path()?)),
                    Some(Stored::File(value)) => {
                        newest.offer(&unpack(&value)?.0, || (key.clone(), path().unwrap_or_default()))
                    }
                    None => {}
                }
                Ok(Next::Row)
            };
            self.rows.scan(RowRange::prefix(&id), LIST, each).await?;
        }
        Ok(newest.done().into_iter().map(|(time, (_, path))| (time, path)).collect())
    }

    /// The row of the name, and those of its parents up to the root.
    async fn find_by_key(&self, wanted: &str) -> Result<Vec<String>> {
        let (mut path, mut key) = (String::new(), Bytes::copy_from_slice(wanted.as_bytes()));
        while key != self.root() {
            let row = self.rows.get(&key).await?;
            let is_found = Stored::from_row(&row).is_some_and(|stored| stored.is_file() == path.is_empty());
            let (true, Some(parent)) = (is_found, row.get(CF, PARENT)) else { return Ok(Vec::new()) };
            path = format!("/{}{path}", std::str::from_utf8(&key)?);
            key = parent.clone();
        }
        Ok(vec![path])
    }
}
