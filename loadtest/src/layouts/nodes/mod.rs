//! Layouts in which a node is one row, with its attributes, of one table (of `dirid-name`, a file): they differ in the
//! row key, and so in where a path's row is and in what finds many rows. `report/layouts.md` says what each can do.

mod place;
mod rename;

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use async_trait::async_trait;
use bytes::Bytes;
use rowdrive::schema::dir;
use rowdrive::table::{ConditionalRow, KeyLifecycle, Plan, Row, RowKey, RowRange, Tables};

use super::dir_table::DirTable;
use super::indexes::{Ids, Indexes};
use super::rows::{LIST, Next, SCAN, Table, guarded};
use super::stored::{CONTENT, DIRECTORY, FILE, NODE, Stored, pack, put_content, unpack};
use super::{Child, Layout, List, NewFile, Node, Period, Verdict, is_within, split};
use place::{Place, Placed};

const PARENT: &[u8] = b"p";
const NAME: &[u8] = b"n";

pub enum Key {
    /// Counted up, and the id of a directory too. No row can guard a name, so two clients at once can both make it.
    RowId,
    /// The id of a directory too, so a new name of a folder is a change of all its children.
    Name,
    Tree,
    /// The values of index rows are paths too.
    FullPath(Option<Indexes>),
    /// Directories are rows of their own table. Their ids are counted up, so the files of new folders go to one end.
    DirId(DirTable),
}

pub struct Nodes {
    rows: Table,
    key: Key,
    /// The last id that was counted.
    last: AtomicU64,
    /// The row ids of the directories that were made for the load, by their paths.
    loaded: Mutex<HashMap<String, Bytes>>,
}

impl Nodes {
    pub async fn create(tables: &Tables, key: Key) -> Result<Self> {
        let (name, cells): (_, &[&[u8]]) = match key {
            Key::RowId => ("row_id", &[FILE, DIRECTORY, PARENT, NAME]),
            Key::Name => ("name", &[FILE, DIRECTORY, PARENT]),
            Key::Tree => ("tree", NODE),
            Key::FullPath(_) => ("full_path", NODE),
            Key::DirId(_) => ("file_of_dir", &[FILE]),
        };
        let lifecycle = if matches!(key, Key::DirId(_)) { KeyLifecycle::Reusable } else { KeyLifecycle::UniqueId };
        let rows = Table::create(tables, (name, lifecycle), &[CONTENT], cells).await?;
        let counted: Vec<Bytes> = match &key {
            Key::RowId => rows.last_key().await?.into_iter().collect(),
            Key::DirId(directories) => directories.subtree("").await?.into_iter().map(|(id, _)| id).collect(),
            Key::Name | Key::Tree | Key::FullPath(_) => Vec::new(),
        };
        let counted = counted.iter().filter_map(|id| Some(u64::from_be_bytes(id.as_ref().try_into().ok()?)));
        Ok(Self { rows, key, last: counted.max().unwrap_or_default().into(), loaded: Mutex::default() })
    }

    fn next_id(&self) -> Bytes {
        Bytes::copy_from_slice(&(self.last.fetch_add(1, Ordering::Relaxed) + 1).to_be_bytes())
    }

    fn new_directory(&self) -> Stored {
        Stored::directory(match self.key {
            Key::Tree => Bytes::copy_from_slice(uuid::Uuid::new_v4().as_bytes()),
            _ => Bytes::from_static(b"d"),
        })
    }

    /// The rows that put a node at a place.
    fn added(&self, place: Place, stored: &Stored, content: &Bytes) -> Vec<ConditionalRow> {
        let changes = place.cells.into_iter().chain([stored.put()]).chain(put_content(content)).collect();
        let checks = place.stored.map_or_else(|| self.rows.no_node(), |old| vec![old.check()]);
        let row = self.rows.row(place.key, checks, changes);
        place.guards.into_iter().chain([row]).collect()
    }

    async fn add(&self, plan: Plan, place: Placed, stored: &Stored, content: &Bytes) -> Result<Verdict> {
        match place {
            Ok(place) => self.rows.commit(Plan { guarded: self.added(place, stored, content), ..plan }).await,
            Err(verdict) => Ok(verdict),
        }
    }

    /// Adds the index rows of a file that leaves a path, comes to one, or both: then it moves, or is replaced.
    fn index(&self, plan: &mut Plan, left: Option<(&str, &Stored)>, came: Option<(&str, &mut Stored)>) -> Result<()> {
        let Key::FullPath(Some(indexes)) = &self.key else { return Ok(()) };
        let mut moved = None;
        if let Some((from, stored)) = left {
            let (attributes, ids) = Ids::unpack(&stored.value)?;
            plan.finish = indexes.rows(ids, &attributes, split(from).1, None)?;
            moved = came.as_ref().filter(|(to, _)| *to != from).map(|_| ids.moved());
        }
        if let Some((to, stored)) = came {
            let (attributes, ids) = (unpack(&stored.value)?.0, moved.unwrap_or_else(Ids::new));
            plan.prepare = indexes.rows(ids, &attributes, split(to).1, Some(to.to_owned().into()))?;
            stored.value = ids.pack(&attributes);
        }
        Ok(())
    }

    /// The files of a period in and below directories of these ids and paths, a range for each of them.
    async fn period_below(&self, mut directories: Vec<(Bytes, String)>, period: &Period) -> Result<Vec<(i64, String)>> {
        let mut files = Vec::new();
        while let Some((id, path)) = directories.pop() {
            let each = |key: &RowKey, row: &Row| {
                let Some(stored) = Stored::from_row(row) else { return Ok(Next::Row) };
                let name = std::str::from_utf8(key.get(id.len()..).unwrap_or_default())?;
                match stored.time(period)? {
                    Some(time) => files.push((time, format!("{path}/{name}"))),
                    None if stored.is_file() => {}
                    None => directories.push((stored.value, format!("{path}/{name}"))),
                }
                Ok(Next::Row)
            };
            self.rows.scan(RowRange::prefix(&id), LIST, each).await?;
        }
        Ok(period.newest(files))
    }

    /// The place of something new of a load: a client that knows the row ids of its directories need not read the table
    /// for each file.
    fn known_place(&self, path: &str, is_directory: bool) -> Option<Place> {
        let Key::RowId = self.key else { return None };
        let (parent, name) = split(path);
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let parent = if parent.is_empty() { self.root() } else { loaded.get(parent)?.clone() };
        let key = self.next_id();
        if is_directory {
            loaded.insert(path.to_owned(), key.clone());
        }
        Some(Place { key, cells: self.cells(&parent, name), ..Place::default() })
    }
}

#[async_trait]
impl Layout for Nodes {
    async fn mkdir(&self, path: &str) -> Result<Verdict> {
        if let Key::DirId(directories) = &self.key {
            let Some((slot, place)) = self.slot(directories, path).await? else { return Ok(Verdict::Missing) };
            let mut rows = directories.made(&slot, &self.next_id());
            rows.push(self.rows.row(place.key, self.rows.no_node(), vec![]));
            return self.rows.commit(guarded(rows)).await;
        }
        let room = self.room(path, None).await?;
        self.add(Plan::default(), room, &self.new_directory(), &Bytes::new()).await
    }

    async fn put(&self, file: &NewFile, is_new: bool) -> Result<Verdict> {
        let (path, mut new) = (file.path.as_str(), Stored::file(pack(&file.attributes)));
        let mut plan = Plan::default();
        let place = if is_new {
            self.index(&mut plan, None, Some((path, &mut new)))?;
            self.room(path, None).await?
        } else {
            let Some((key, old)) = self.file(path).await? else { return Ok(Verdict::Missing) };
            self.index(&mut plan, Some((path, &old)), Some((path, &mut new)))?;
            Ok(Place { key, stored: Some(old), ..Place::default() })
        };
        self.add(plan, place, &new, &file.content).await
    }

    async fn stat(&self, path: &str) -> Result<Option<Node>> {
        self.node(path).await?.map(|(_, stored)| stored.node()).transpose()
    }

    async fn read(&self, path: &str) -> Result<Option<Bytes>> {
        let Some((key, _)) = self.file(path).await? else { return Ok(None) };
        self.rows.content(&key).await.map(Some)
    }

    /// A range of rows; otherwise the whole table, sorted where the keys are not.
    async fn list(&self, path: &str, ask: &List) -> Result<Option<Vec<Child>>> {
        let mut children = Vec::new();
        let directory = match (&self.key, ask) {
            (Key::DirId(directories), List::Names | List::Attributes) => {
                let all = (Bound::Unbounded, Bound::Unbounded);
                let Some((id, cells)) = directories.children(path, all, usize::MAX).await? else { return Ok(None) };
                for cell in cells {
                    let name = dir::child(&cell.qualifier)?.1.as_str().to_owned();
                    children.push(Child { name, node: matches!(ask, List::Attributes).then_some(Node::Directory) });
                }
                Some(id)
            }
            _ => self.directory(path).await?,
        };
        let Some(id) = directory else { return Ok(None) };
        let (is_range, is_sorted) = (!matches!(self.key, Key::RowId | Key::Name), !matches!(self.key, Key::RowId));
        let (after, limit) = ask.page();
        let from = Bound::Excluded([&id, after.as_bytes()].concat().into());
        let (range, at_a_time) = match is_range {
            true => (RowRange { from, ..RowRange::prefix(&id) }, LIST.min(limit)),
            false => (RowRange::all(), SCAN),
        };
        let each = |key: &RowKey, row: &Row| {
            let (parent, name) = match is_range {
                true => (id.clone(), std::str::from_utf8(key.get(id.len()..).unwrap_or_default())?),
                false => self.position(key, row)?,
            };
            // All rows below a folder of a full path follow it somewhere: the scan leaps over them, since `0` follows
            // `/`.
            if let Some((folder, _)) = name.split_once('/') {
                return Ok(Next::Leap([&id, folder.as_bytes(), b"0"].concat().into()));
            }
            if parent == id {
                children.extend(Stored::child(row, name, ask)?);
            }
            Ok(if is_sorted && children.len() >= limit { Next::Nothing } else { Next::Row })
        };
        self.rows.scan(range, at_a_time, each).await?;
        if !is_sorted {
            children.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            children.truncate(limit);
        }
        Ok(Some(children))
    }

    async fn rename(&self, from: &str, to: &str) -> Result<Verdict> {
        match self.node(from).await? {
            Some(node) if node.1.is_file() => self.rename_row(from, to, node).await,
            Some(node) => self.rename_directory(from, to, node).await,
            None => Ok(Verdict::Missing),
        }
    }

    async fn delete(&self, path: &str) -> Result<Verdict> {
        let Some((key, stored)) = self.file(path).await? else { return Ok(Verdict::Missing) };
        let mut plan = Plan::default();
        self.index(&mut plan, Some((path, &stored)), None)?;
        plan.guarded.push(self.rows.removed(key, &stored, true));
        self.rows.commit(plan).await
    }

    /// By an index, by the key, by a read in each folder, or else by reading every row.
    async fn find(&self, wanted: &str) -> Result<Vec<String>> {
        let mut found = Vec::new();
        match &self.key {
            Key::FullPath(Some(indexes)) => return indexes.find(wanted).await,
            Key::Name => found.extend(self.path_by_key(wanted).await?),
            Key::DirId(directories) => {
                for some in directories.subtree("").await?.chunks(LIST) {
                    let keys = some.iter().map(|(id, _)| Bytes::from([id, wanted.as_bytes()].concat()));
                    for ((_, path), row) in some.iter().zip(self.rows.get_many(keys).await?) {
                        found.extend(Stored::from_row(&row).map(|_| format!("{path}/{wanted}")));
                    }
                }
            }
            Key::RowId | Key::Tree | Key::FullPath(None) => {
                let is_wanted =
                    |stored: &Stored, name: &str| stored.is_file() && name.rsplit('/').next() == Some(wanted);
                let named = |_: &RowKey, stored: &Stored, name: &str| Ok(is_wanted(stored, name).then_some(()));
                let (directories, files) = self.survey(RowRange::all(), named).await?;
                found.extend(files.iter().map(|((), position)| directories.path(position)));
            }
        }
        Ok(found)
    }

    /// There is no order by time without an index: every row is read, or those below the directory where they are
    /// ranges.
    async fn period(&self, period: &Period) -> Result<Vec<(i64, String)>> {
        let under = &period.under;
        let range = match &self.key {
            Key::FullPath(Some(indexes)) => return indexes.period(period).await,
            Key::DirId(directories) => {
                return self.period_below(directories.subtree(under).await?, period).await;
            }
            Key::Tree if !under.is_empty() => {
                let directory = self.directory(under).await?.map(|id| (id, under.clone()));
                return self.period_below(Vec::from_iter(directory), period).await;
            }
            Key::FullPath(None) => RowRange::prefix(format!("{under}/").as_bytes()),
            Key::RowId | Key::Name | Key::Tree => RowRange::all(),
        };
        let asked = |_: &RowKey, stored: &Stored, _: &str| stored.time(period);
        let (directories, files) = self.survey(range, asked).await?;
        let paths = files.into_iter().map(|(time, position)| (time, directories.path(&position)));
        Ok(period.newest(paths.filter(|(_, path)| is_within(path, under)).collect()))
    }

    async fn load_directory(&self, path: &str) -> Result<Verdict> {
        let Some(place) = self.known_place(path, true) else { return self.mkdir(path).await };
        self.add(Plan::default(), Ok(place), &self.new_directory(), &Bytes::new()).await
    }

    async fn load_file(&self, file: &NewFile) -> Result<Verdict> {
        let Some(place) = self.known_place(&file.path, false) else { return self.put(file, true).await };
        let new = Stored::file(pack(&file.attributes));
        self.add(Plan::default(), Ok(place), &new, &file.content).await
    }
}
